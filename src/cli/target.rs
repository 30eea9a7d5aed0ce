//! The names of the objects in a cluster that a command is about.

use super::resource::Resource;

/// An object in a cluster: its kind, its name, and its namespace if known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) resource: Resource,
    pub(super) name: String,
    /// `None` is the namespace given on the command line, or kubectl's default.
    pub(super) namespace: Option<String>,
}

/// Parses arguments like kubectl: names, or a kind followed by names. A name without a kind is a Deployment.
pub(super) fn parse(words: &[String]) -> Result<Vec<Target>, String> {
    if let [kind, names @ ..] = words
        && !names.is_empty()
        && let Some(resource) = Resource::known(kind)
    {
        return names
            .iter()
            .map(|name| target(&resource, name, name))
            .collect();
    }
    words.iter().map(|word| one(word)).collect()
}

/// Parses the arguments of a command that supports Deployments only.
pub(super) fn parse_deployments(words: &[String]) -> Result<Vec<Target>, String> {
    let targets = parse(words)?;
    match targets.iter().find(|target| !target.resource.is_planned()) {
        None => Ok(targets),
        Some(target) => Err(format!(
            "{} {}: this command supports only Deployments (for example deploy/web) and PlannedDeployments (for example \
             pdeploy/web); status and wait support all kinds",
            target.resource, target.name
        )),
    }
}

/// Parses the arguments of a command that supports one Deployment. `None` without arguments.
pub(super) fn parse_deployment(words: &[String]) -> Result<Option<Target>, String> {
    let mut targets = parse_deployments(words)?.into_iter();
    match (targets.next(), targets.next()) {
        (target, None) => Ok(target),
        _ => Err("this command supports one Deployment at a time: pass one name".to_owned()),
    }
}

/// Parses the arguments of a command that supports one object with revisions. `None` without arguments.
pub(super) fn parse_with_revisions(words: &[String]) -> Result<Option<Target>, String> {
    let mut targets = parse(words)?.into_iter();
    let (target, None) = (targets.next(), targets.next()) else {
        return Err("this command supports one object at a time: pass one name".to_owned());
    };
    match target.as_ref().filter(|it| !it.resource.has_revisions()) {
        None => Ok(target),
        Some(target) => Err(format!(
            "{} {}: this command supports only Deployments (for example deploy/web), StatefulSets (sts/db), DaemonSets (ds/agent) \
             and PlannedDeployments; status and wait support all kinds",
            target.resource, target.name
        )),
    }
}

/// Parses a list of kinds, for example "sts" or "deploy,certificates.cert-manager.io". An unknown word without a group
/// is considered a name, not a kind.
pub(super) fn kinds(word: &str) -> Option<Vec<Resource>> {
    let kind = |word: &str| {
        if word.contains('.') {
            Resource::named(word)
        } else {
            Resource::known(word)
        }
    };
    word.split(',').map(kind).collect()
}

/// Parses one name: "web", "deploy/web", "statefulsets.apps/db" or "certificate/web".
fn one(text: &str) -> Result<Target, String> {
    let Some((kind, name)) = text.split_once('/') else {
        return target(&Resource::deployments(), text, text);
    };
    match Resource::named(kind) {
        Some(resource) => target(&resource, name, text),
        None => Err(not_a_name(text)),
    }
}

fn target(resource: &Resource, name: &str, text: &str) -> Result<Target, String> {
    if !is_name(name) {
        return Err(not_a_name(text));
    }
    Ok(Target {
        resource: resource.clone(),
        name: name.to_owned(),
        namespace: None,
    })
}

fn not_a_name(text: &str) -> String {
    format!("{text}: not the name of an object, for example web, deploy/web or statefulset/db")
}

/// Whether the text may be the name of an object. Options of kubectl are not.
pub(super) fn is_name(name: &str) -> bool {
    let is_word = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.as_bytes().first().is_some_and(is_word)
        && name
            .bytes()
            .all(|byte| is_word(&byte) || byte == b'-' || byte == b'.')
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEPLOYMENTS: &str = "deploy";

    fn parsed(words: &[&str]) -> Result<Vec<(String, String)>, String> {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        let targets = parse(&words)?.into_iter();
        Ok(targets
            .map(|it| (it.resource.argument().to_owned(), it.name))
            .collect())
    }

    fn check(words: &[&str], expected: &[(&str, &str)]) {
        let expected = expected
            .iter()
            .map(|&(kind, name)| (kind.to_owned(), name.to_owned()));
        assert_eq!(parsed(words), Ok(expected.collect()), "{words:?}");
    }

    #[test]
    fn names_are_parsed_like_kubectl() {
        for text in [
            "web",
            "deploy/web",
            "deployment/web",
            "Deployment/web",
            "deployments.apps/web",
            "deployment.v1.apps/web",
        ] {
            check(&[text], &[(DEPLOYMENTS, "web")]);
        }
        check(&["sts/db"], &[("statefulsets.apps", "db")]);
        check(&["web-1.example"], &[(DEPLOYMENTS, "web-1.example")]);
        check(
            &["deploy/web", "sts/db", "certificates.cert-manager.io/tls"],
            &[
                (DEPLOYMENTS, "web"),
                ("statefulsets.apps", "db"),
                ("certificates.cert-manager.io", "tls"),
            ],
        );
        for text in [
            "",
            "deploy/",
            "/web",
            "a/b/web",
            "deploy/a/b",
            "--raw=x",
            "--raw/x",
            "deploy/-web",
            "web,api",
            "sts,ds/web",
            "Web",
            "we b",
        ] {
            assert!(parsed(&[text]).is_err(), "{text}");
        }
    }

    #[test]
    fn several_arguments_are_parsed() {
        check(&["deployment", "web"], &[(DEPLOYMENTS, "web")]);
        check(
            &["sts", "db", "cache"],
            &[("statefulsets.apps", "db"), ("statefulsets.apps", "cache")],
        );
        check(
            &["web", "pod/api"],
            &[(DEPLOYMENTS, "web"), ("pods", "api")],
        );
        // On its own, a kind is a name, and so is a word that is not a known kind.
        check(&["sts"], &[(DEPLOYMENTS, "sts")]);
        check(
            &["certificate", "web"],
            &[(DEPLOYMENTS, "certificate"), (DEPLOYMENTS, "web")],
        );
        for wrong in [&["deploy", "deploy/web"][..], &["sts", "ds/web"]] {
            assert!(parsed(wrong).is_err(), "{wrong:?}");
        }
        let words = |words: &[&str]| words.iter().map(|&it| it.to_owned()).collect::<Vec<_>>();
        assert!(parse_deployments(&words(&["pdeploy", "web", "api"])).is_ok());
        for wrong in [&["sts", "db"][..], &["web", "rs/api"]] {
            let error = parse_deployments(&words(wrong)).unwrap_err();
            assert!(error.contains("supports only Deployments"), "{error}");
        }
        let list = kinds("deploy,sts").unwrap();
        assert_eq!(list.len(), 2);
        assert_eq!(kinds("deploy,"), None);
        assert_eq!(kinds("web"), None);
        assert!(kinds("certificates.cert-manager.io").is_some());
    }
}
