//! The user's own kubectl, which reads the cluster: rollplan needs no credentials and no client of its own.

use std::ffi::OsString;
use std::process::{Command, Stdio};

use super::args::ClusterArgs;
use super::error::Error;
use super::input::Source;

/// Names another kubectl than that on the `PATH`.
const PROGRAM_VARIABLE: &str = "KUBECTL";

/// A request that the API server answers no sooner is given up.
const REQUEST_TIMEOUT: &str = "--request-timeout=30s";

/// What kubectl calls the kinds that are rolled out.
const DEPLOYMENTS: &str = "deploy";
const PLANNED_DEPLOYMENTS: &str = "planneddeployments.apps.rollplan.dev";

/// How kubectl is called, and for what.
#[derive(Debug)]
pub(super) struct Kubectl {
    program: OsString,
    args: Vec<String>,
}

// === impl Kubectl ===

impl Kubectl {
    /// Reads what is in one namespace of a cluster.
    pub(super) fn new(cluster: &ClusterArgs, target: &Name) -> Self {
        let program = std::env::var_os(PROGRAM_VARIABLE).filter(|program| !program.is_empty());
        let kinds = format!("{},rs,pods", target.resource);
        let mut args: Vec<String> = ["get", &kinds, "-o", "json", REQUEST_TIMEOUT]
            .map(str::to_owned)
            .into();
        let options = cluster.options();
        args.extend(options.map(|(name, value)| format!("{name}={value}")));
        Self {
            program: program.unwrap_or_else(|| "kubectl".into()),
            args,
        }
    }

    /// Deployments, ReplicaSets and pods as they are now. What kubectl complains of goes where it always goes,
    /// and it may ask for a password.
    pub(super) fn get(&self) -> Result<Source, Error> {
        let Self { program, args } = self;
        let failed = |reason: String| Error::Kubectl {
            command: format!("{} {}", program.to_string_lossy(), args.join(" ")),
            reason,
        };
        let output = Command::new(program)
            .args(args)
            .stderr(Stdio::inherit())
            .stdin(Stdio::inherit())
            .output()
            .map_err(|error| failed(format!("cannot be run: {error}")))?;
        if !output.status.success() {
            return Err(failed(output.status.to_string()));
        }
        Source::new("what kubectl printed", output.stdout)
    }
}

/// A Deployment in a cluster: what kubectl calls its kind, and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    resource: &'static str,
    pub(super) name: String,
}

/// Reads the name of a Deployment, as kubectl takes it: "web", "deploy/web", "deployments.apps/web",
/// "pdeploy/web" for a PlannedDeployment.
pub(super) fn parse_name(text: &str) -> Result<Name, String> {
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
                    let text = "only Deployments are looked at, as deploy/web, and PlannedDeployments, as pdeploy/web";
                    return Err(text.to_owned());
                }
            };
            (resource, name)
        }
    };
    if name.is_empty() || name.contains('/') {
        return Err("not the name of a Deployment, as web or deploy/web".to_owned());
    }
    Ok(Name {
        resource,
        name: name.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, resource: &'static str) {
        let name = "web".to_owned();
        assert_eq!(parse_name(text), Ok(Name { resource, name }), "{text}");
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
        for text in [
            "",
            "deploy/",
            "/web",
            "a/b/web",
            "deploy/a/b",
            "rs/web",
            "deploy.other/web",
            "pdeploy.apps/web",
        ] {
            assert!(parse_name(text).is_err(), "{text}");
        }
    }
}
