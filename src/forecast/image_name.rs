//! Names of images that the kubelet accepts. With others, a container never starts (`InvalidImageName`).
//!
//! Source: `ParseNormalizedNamed` in `github.com/distribution/reference`, which the kubelet calls.

/// The maximum length of a name with its domain.
const NAME_MAX: usize = 255;
const TAG_MAX: usize = 128;

/// Whether a text is the name of an image, with an optional tag and digest.
pub(crate) fn is_image_name(text: &str) -> bool {
    let (name, digest) = match text.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (text, None),
    };
    // A colon after the last slash begins a tag, and any other a port.
    let last = name.rfind('/').map_or(0, |slash| slash + 1);
    let (name, tag) = match name.get(last..).and_then(|last| last.split_once(':')) {
        Some((_, tag)) => (&name[..name.len() - tag.len() - 1], Some(tag)),
        None => (name, None),
    };
    let is_id = text.len() == 64 && text.bytes().all(is_hex);
    !is_id && is_name(name) && tag.is_none_or(is_tag) && digest.is_none_or(is_digest)
}

fn is_hex(byte: u8) -> bool {
    byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)
}

fn is_name(name: &str) -> bool {
    let (domain, path) = match name.split_once('/') {
        Some((first, rest)) if is_like_domain(first) => (Some(first), rest),
        _ => (None, name),
    };
    let is_path = path.split('/').all(is_path_component);
    name.len() <= NAME_MAX && domain.is_none_or(is_domain) && is_path
}

/// Whether the first part of a name is a domain. Otherwise, it belongs to the path of an image of Docker Hub.
fn is_like_domain(first: &str) -> bool {
    first.contains(['.', ':'])
        || first == "localhost"
        || first.bytes().any(|byte| byte.is_ascii_uppercase())
}

fn is_domain(domain: &str) -> bool {
    if let Some(rest) = domain.strip_prefix('[') {
        let (address, port) = rest.split_once(']').unwrap_or_default();
        let is_address = !address.is_empty()
            && address
                .bytes()
                .all(|byte| byte == b':' || byte.is_ascii_hexdigit());
        return is_address && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port));
    }
    let (host, port) = match domain.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (domain, None),
    };
    let is_label = |label: &str| {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        !label.is_empty()
            && label.bytes().all(is_part)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    host.split('.').all(is_label) && port.is_none_or(is_port)
}

fn is_port(port: &str) -> bool {
    !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
}

/// Lower-case letters and digits, separated by a dot, one or two underscores, or dashes.
fn is_path_component(component: &str) -> bool {
    let is_word = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = component.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    let mut separators =
        component.split(|char: char| char.is_ascii_lowercase() || char.is_ascii_digit());
    ends.iter().all(|end| end.is_some_and(is_word))
        && separators
            .all(|it| matches!(it, "" | "." | "_" | "__") || it.bytes().all(|byte| byte == b'-'))
}

fn is_tag(tag: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (1..=TAG_MAX).contains(&tag.len())
        && tag.bytes().next().is_some_and(is_word)
        && tag
            .bytes()
            .all(|byte| is_word(byte) || b".-".contains(&byte))
}

/// Of the algorithms that the kubelet knows.
fn is_digest(digest: &str) -> bool {
    let (algorithm, hex) = digest.split_once(':').unwrap_or_default();
    let length = match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ => return false,
    };
    hex.len() == length && hex.bytes().all(is_hex)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_kubelet() {
        let sha256 = format!("web@sha256:{}", "a".repeat(64));
        for name in [
            "web",
            "web:1",
            "a/web",
            "registry.example/web:3.4",
            "localhost/web",
            "localhost:5000/web",
            "registry.example:5000/a/b-c/d__e/f.g:v1_2-x.y",
            "[::1]:5000/web",
            "EXAMPLE/web",
            "web:1_A",
            "a--b",
            &sha256,
            &sha256.replace('@', ":1@"),
        ] {
            assert!(is_image_name(name), "{name}");
        }
        for name in [
            "",
            "Web",
            "registry.example/Web:1",
            "web:",
            "web:-1",
            "web :1",
            " web",
            "web/",
            "/web",
            "a//b",
            "web:1:2",
            "https://registry.example/web",
            "registry.example:x/web",
            "a_.b",
            "a___b",
            "-a",
            "a-",
            "web@sha256:abc",
            "web@md5:0123",
            &"a".repeat(64),
            "web:${TAG}",
            "{{ image }}",
            "ä",
        ] {
            assert!(!is_image_name(name), "{name}");
        }
        assert!(!is_image_name(&"a/".repeat(200)));
        assert!(!is_image_name(&format!("web:{}", "a".repeat(129))));
    }
}
