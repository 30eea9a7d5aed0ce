//! Which Deployment of a cluster a command is about.

/// What kubectl calls the kinds that are rolled out.
const DEPLOYMENTS: &str = "deploy";
const PLANNED_DEPLOYMENTS: &str = "planneddeployments.apps.rollplan.dev";

/// A Deployment in a cluster: what kubectl calls its kind, and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) resource: &'static str,
    pub(super) name: String,
}

/// Reads the name of a Deployment as kubectl takes it: "web", "deploy/web", "deployments.apps/web",
/// "pdeploy/web" for a PlannedDeployment.
pub(super) fn parse(text: &str) -> Result<Target, String> {
    let (resource, name) = match text.split_once('/') {
        None => (DEPLOYMENTS, text),
        Some((kind, name)) => {
            let (kind, group) = kind.split_once('.').unwrap_or((kind, ""));
            let resource = match (kind.to_ascii_lowercase().as_str(), group) {
                ("deploy" | "deployment" | "deployments", "" | "apps" | "v1.apps") => DEPLOYMENTS,
                (
                    "pdeploy" | "planneddeployment" | "planneddeployments",
                    "" | "apps.rollplan.dev" | "v1alpha1.apps.rollplan.dev",
                ) => PLANNED_DEPLOYMENTS,
                _ => {
                    let text = "only Deployments (for example deploy/web) and PlannedDeployments (for example \
                                pdeploy/web) are supported";
                    return Err(text.to_owned());
                }
            };
            (resource, name)
        }
    };
    if !is_name(name) {
        return Err("not the name of a Deployment, for example web or deploy/web".to_owned());
    }
    Ok(Target {
        resource,
        name: name.to_owned(),
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

    fn check(text: &str, resource: &'static str) {
        let name = "web".to_owned();
        assert_eq!(parse(text), Ok(Target { resource, name }), "{text}");
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
            check(text, DEPLOYMENTS);
        }
        for text in [
            "pdeploy/web",
            "PlannedDeployment/web",
            "planneddeployments.apps.rollplan.dev/web",
            "planneddeployment.v1alpha1.apps.rollplan.dev/web",
        ] {
            check(text, PLANNED_DEPLOYMENTS);
        }
        assert!(parse("web-1.example").is_ok());
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
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
