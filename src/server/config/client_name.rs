//! The names of clients in the configuration: a DNS name, a URI, or all URIs below one.

/// The end of a URI that matches all URIs below it.
const BELOW: &str = "/*";

/// Validates a configured name.
pub(crate) fn check(allowed: &str) -> Result<(), &'static str> {
    let name = if is_uri(allowed) {
        allowed.strip_suffix(BELOW).unwrap_or(allowed)
    } else {
        allowed
    };
    if name.is_empty() || name.ends_with("://") {
        return Err("is empty");
    }
    if name.contains('*') {
        return Err(
            "may have * only at the end of a URI, for example spiffe://cluster.local/ns/apps/*",
        );
    }
    if !name.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("is neither a DNS name nor a URI");
    }
    Ok(())
}

pub(crate) fn is_uri(name: &str) -> bool {
    name.contains("://")
}

/// Whether a configured name matches a name of a client.
pub(crate) fn matches(allowed: &str, name: &str) -> bool {
    if !is_uri(allowed) {
        return allowed.eq_ignore_ascii_case(name);
    }
    match allowed.strip_suffix(BELOW) {
        Some(above) => name
            .strip_prefix(above)
            .and_then(|rest| rest.strip_prefix('/'))
            .is_some_and(|rest| !rest.is_empty()),
        None => allowed == name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_must_match_exactly_or_be_below_a_uri() {
        let uri = "spiffe://cluster.local/ns/apps/sa/web";
        for (allowed, name, expected) in [
            ("web.apps.svc", "web.apps.svc", true),
            ("web.apps.svc", "Web.Apps.SVC", true),
            ("web.apps.svc", "b.web.apps.svc", false),
            ("web.apps.svc", "web.apps.svc.evil", false),
            (uri, uri, true),
            (uri, "spiffe://cluster.local/ns/apps/sa/web2", false),
            (uri, "spiffe://cluster.local/ns/apps/sa/WEB", false),
            ("spiffe://cluster.local/ns/apps/*", uri, true),
            ("spiffe://cluster.local/*", uri, true),
            ("spiffe://cluster.local/ns/app/*", uri, false),
            ("spiffe://cluster.local/ns/apps/sa/web/*", uri, false),
            (
                "spiffe://cluster.local/ns/*",
                "spiffe://cluster.local/ns/",
                false,
            ),
            (
                "spiffe://cluster.local/*",
                "spiffe://cluster.local.evil/x",
                false,
            ),
        ] {
            assert_eq!(matches(allowed, name), expected, "{allowed} {name}");
        }
    }

    #[test]
    fn invalid_names_are_rejected() {
        for allowed in ["web.apps.svc", "spiffe://a/b", "spiffe://a/*", "https://a"] {
            assert_eq!(check(allowed), Ok(()), "{allowed}");
        }
        for wrong in [
            "",
            "*",
            "*.svc",
            "spiffe://",
            "spiffe://a/*/b",
            "spiffe://a*",
            "a b",
            "ä",
        ] {
            assert!(check(wrong).is_err(), "{wrong}");
        }
    }
}
