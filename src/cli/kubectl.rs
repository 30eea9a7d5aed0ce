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

/// How kubectl is called, and for what.
#[derive(Debug)]
pub(super) struct Kubectl {
    program: OsString,
    args: Vec<String>,
}

// === impl Kubectl ===

impl Kubectl {
    /// Reads what is in one namespace of a cluster.
    pub(super) fn new(cluster: &ClusterArgs) -> Self {
        let program = std::env::var_os(PROGRAM_VARIABLE).filter(|program| !program.is_empty());
        let mut args: Vec<String> = ["get", "deploy,rs,pods", "-o", "json", REQUEST_TIMEOUT]
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

/// Reads the name of a Deployment, as kubectl takes it: "web", "deploy/web", "deployments.apps/web".
pub(super) fn parse_name(text: &str) -> Result<String, String> {
    let name = match text.split_once('/') {
        None => text,
        Some((kind, name)) => {
            let (kind, group) = kind.split_once('.').unwrap_or((kind, "apps"));
            let kind = kind.to_ascii_lowercase();
            let is_ours = matches!(kind.as_str(), "deploy" | "deployment" | "deployments")
                && matches!(group, "apps" | "v1.apps");
            if !is_ours {
                return Err("only Deployments are looked at, as deploy/web".to_owned());
            }
            name
        }
    };
    if name.is_empty() || name.contains('/') {
        return Err("not the name of a Deployment, as web or deploy/web".to_owned());
    }
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(parse_name(text).as_deref(), Ok("web"), "{text}");
        }
        for text in [
            "",
            "deploy/",
            "/web",
            "a/b/web",
            "deploy/a/b",
            "rs/web",
            "deploy.other/web",
        ] {
            assert!(parse_name(text).is_err(), "{text}");
        }
    }
}
