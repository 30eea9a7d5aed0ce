//! Which Deployments of a cluster a command is about.

/// What kubectl calls the kinds that are rolled out.
pub(super) const DEPLOYMENTS: &str = "deploy";
const PLANNED_DEPLOYMENTS: &str = "planneddeployments.apps.rollplan.dev";

/// A Deployment in a cluster: what kubectl calls its kind, its name, and its namespace if it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) resource: &'static str,
    pub(super) name: String,
    /// `None` is the namespace that is given, or that kubectl uses.
    pub(super) namespace: Option<String>,
}

/// Reads the words of a command line as kubectl takes them: names, or a kind and names.
pub(super) fn parse(words: &[String]) -> Result<Vec<Target>, String> {
    if let [kind, names @ ..] = words
        && !names.is_empty()
        && let Some(resource) = resource(kind)
    {
        return names
            .iter()
            .map(|name| target(resource, name, name))
            .collect();
    }
    words.iter().map(|word| one(word)).collect()
}

/// Reads a name: "web", "deploy/web", "deployments.apps/web", "pdeploy/web" for a PlannedDeployment.
fn one(text: &str) -> Result<Target, String> {
    let Some((kind, name)) = text.split_once('/') else {
        return target(DEPLOYMENTS, text, text);
    };
    let Some(resource) = resource(kind) else {
        return Err(format!(
            "{text}: only Deployments (for example deploy/web) and PlannedDeployments (for example pdeploy/web) are \
             supported"
        ));
    };
    target(resource, name, text)
}

/// The kind that a word means, for example "deploy" or "deployments.apps".
pub(super) fn resource(kind: &str) -> Option<&'static str> {
    let (kind, group) = kind.split_once('.').unwrap_or((kind, ""));
    match (kind.to_ascii_lowercase().as_str(), group) {
        ("deploy" | "deployment" | "deployments", "" | "apps" | "v1.apps") => Some(DEPLOYMENTS),
        (
            "pdeploy" | "planneddeployment" | "planneddeployments",
            "" | "apps.rollplan.dev" | "v1alpha1.apps.rollplan.dev",
        ) => Some(PLANNED_DEPLOYMENTS),
        _ => None,
    }
}

/// The resource of a kind of objects. `None` for kinds that are not rolled out.
pub(super) fn resource_of(api_version: &str, kind: &str) -> Option<&'static str> {
    let (group, _) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    resource(&format!("{kind}.{group}")).filter(|_| !group.is_empty())
}

fn target(resource: &'static str, name: &str, text: &str) -> Result<Target, String> {
    if !is_name(name) {
        return Err(format!(
            "{text}: not the name of a Deployment, for example web or deploy/web"
        ));
    }
    Ok(Target {
        resource,
        name: name.to_owned(),
        namespace: None,
    })
}

/// Whether this can be the name of an object. An option of kubectl cannot.
fn is_name(name: &str) -> bool {
    let is_word = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.as_bytes().first().is_some_and(is_word)
        && name
            .bytes()
            .all(|byte| is_word(&byte) || byte == b'-' || byte == b'.')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<Vec<(&'static str, String)>, String> {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        let targets = parse(&words)?;
        Ok(targets
            .into_iter()
            .map(|it| (it.resource, it.name))
            .collect())
    }

    fn check(words: &[&str], resource: &'static str, names: &[&str]) {
        let expected = names.iter().map(|&name| (resource, name.to_owned()));
        assert_eq!(parsed(words), Ok(expected.collect()), "{words:?}");
    }

    #[test]
    fn names_as_kubectl_takes_them() {
        for text in [
            "web",
            "deploy/web",
            "deployment/web",
            "deployments/web",
            "Deployment/web",
            "deployments.apps/web",
            "deployment.v1.apps/web",
        ] {
            check(&[text], DEPLOYMENTS, &["web"]);
        }
        for text in [
            "pdeploy/web",
            "PlannedDeployment/web",
            "planneddeployments.apps.rollplan.dev/web",
            "planneddeployment.v1alpha1.apps.rollplan.dev/web",
        ] {
            check(&[text], PLANNED_DEPLOYMENTS, &["web"]);
        }
        check(&["web-1.example"], DEPLOYMENTS, &["web-1.example"]);
        for text in [
            "",
            "deploy/",
            "/web",
            "a/b/web",
            "deploy/a/b",
            "rs/web",
            "deploy.other/web",
            "pdeploy.apps/web",
            "--raw=x",
            "deploy/-web",
            "web,api",
            "Web",
            "we b",
        ] {
            assert!(parsed(&[text]).is_err(), "{text}");
        }
    }

    #[test]
    fn several_words() {
        check(&["deployment", "web"], DEPLOYMENTS, &["web"]);
        check(
            &["pdeploy", "web", "api"],
            PLANNED_DEPLOYMENTS,
            &["web", "api"],
        );
        check(&["web", "deploy/api"], DEPLOYMENTS, &["web", "api"]);
        // By itself, a kind is a name.
        check(&["deploy"], DEPLOYMENTS, &["deploy"]);
        for wrong in [&["deploy", "deploy/web"][..], &["web", "rs/api"]] {
            assert!(parsed(wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(resource_of("apps/v1", "Deployment"), Some(DEPLOYMENTS));
        assert_eq!(
            resource_of("apps.rollplan.dev/v1alpha1", "PlannedDeployment"),
            Some(PLANNED_DEPLOYMENTS)
        );
        assert_eq!(resource_of("v1", "Service"), None);
        assert_eq!(resource_of("extensions/v1beta1", "Deployment"), None);
    }
}
