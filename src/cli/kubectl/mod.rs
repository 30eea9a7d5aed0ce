//! Reads the cluster with the user's kubectl, and patches the Deployments of canaries, so rollplan needs neither credentials
//! nor a client.

mod failure;
mod process;
mod relay;

use std::ffi::OsString;
use std::io;
use std::time::Duration;

pub(super) use self::failure::{Cause, Failure};

use self::process::{Body, Ended, Finished, OUTPUT_BYTES_MAX};
use super::options::ClusterArgs;
use super::resource::Resource;
use super::target::Target;

/// The variable that selects another kubectl than the one on the `PATH`.
const PROGRAM_VARIABLE: &str = "KUBECTL";

/// The timeout of each request. Long lists are read in several requests.
const REQUEST_TIMEOUT: &str = "--request-timeout=30s";

/// The options of a dry run, in which the API server returns what it would store.
const DRY_RUN: [&str; 4] = ["--dry-run=server", "-o", "json", REQUEST_TIMEOUT];

/// The number of log lines to read.
const LOG_LINES: &str = "--tail=100";

/// The user's kubectl, and the options for the cluster.
#[derive(Debug)]
pub(super) struct Kubectl {
    program: OsString,
    /// The options that select the cluster.
    options: Vec<String>,
}

/// Prints the field and the key of each entry of a ConfigMap or a Secret, on a line each.
const KEYS_TEMPLATE: &str = "{{range $key, $_ := .data}}data {{$key}}{{\"\\n\"}}{{end}}\
                             {{range $key, $_ := .binaryData}}binaryData {{$key}}{{\"\\n\"}}{{end}}";

/// The kinds that are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListKind<'r> {
    /// The kind of the requested objects.
    Owners(&'r Resource),
    ReplicaSets,
    ControllerRevisions,
    Pods,
    Jobs,
    /// The events that this field selector matches.
    Events(&'r str),
}

// === impl Kubectl ===

impl Kubectl {
    pub(super) fn new(cluster: &ClusterArgs) -> Self {
        let program = std::env::var_os(PROGRAM_VARIABLE).filter(|program| !program.is_empty());
        let options = cluster.options();
        Self {
            program: program.unwrap_or_else(|| "kubectl".into()),
            options: options
                .map(|(name, value)| format!("{name}={value}"))
                .collect(),
        }
    }

    /// Reads one object as JSON.
    pub(super) fn get(&self, target: &Target, limit: Duration) -> Result<Vec<u8>, Failure> {
        let Target { resource, name, .. } = target;
        self.get_json(&[resource.argument(), name], limit)
    }

    /// Reads one object as JSON, with its managed fields.
    pub(super) fn get_with_managers(
        &self,
        target: &Target,
        limit: Duration,
    ) -> Result<Vec<u8>, Failure> {
        let Target { resource, name, .. } = target;
        let managers = "--show-managed-fields";
        self.get_json(&[resource.argument(), name, managers], limit)
    }

    /// Reads one object, KIND/NAME, as JSON. Empty if it does not exist.
    pub(super) fn get_if_exists(&self, name: &str, limit: Duration) -> Result<Vec<u8>, Failure> {
        self.get_json(&[name, "--ignore-not-found"], limit)
    }

    /// The objects after these manifests would have been applied with these options, as the API server returns them for a
    /// dry run.
    pub(super) fn apply_dry_run(
        &self,
        files: &[String],
        options: &[String],
        limit: Duration,
    ) -> Result<Vec<u8>, Failure> {
        self.dry_run(apply(files, options), None, limit)
    }

    /// Applies these manifests with these options. Returns what kubectl prints.
    pub(super) fn apply(
        &self,
        files: &[String],
        options: &[String],
        limit: Duration,
    ) -> Result<Vec<u8>, Failure> {
        let mut args = apply(files, options);
        args.push(REQUEST_TIMEOUT.to_owned());
        self.run(&args, limit)
    }

    /// A Deployment after its containers would have got these images, each as CONTAINER=IMAGE.
    pub(super) fn set_image_dry_run(
        &self,
        target: &Target,
        images: &[String],
        manager: Option<&str>,
        limit: Duration,
    ) -> Result<Vec<u8>, Failure> {
        let Target { resource, name, .. } = target;
        let object = format!("{}/{name}", resource.argument());
        let mut args = vec!["set".to_owned(), "image".to_owned(), object];
        args.extend_from_slice(images);
        self.dry_run(args, manager, limit)
    }

    fn dry_run(
        &self,
        mut args: Vec<String>,
        manager: Option<&str>,
        limit: Duration,
    ) -> Result<Vec<u8>, Failure> {
        args.extend(manager.map(|manager| format!("--field-manager={manager}")));
        args.extend(DRY_RUN.map(str::to_owned));
        self.run(&args, limit)
    }

    /// Patches an object. `what` names it, and the kind of the patch.
    pub(super) fn patch(
        &self,
        what: Vec<String>,
        body: &str,
        limit: Duration,
    ) -> Result<(), Failure> {
        let failed = |error: io::Error| Failure {
            command: "kubectl patch".to_owned(),
            cause: Cause::NotRun(error.to_string()),
        };
        let body = Body::new(body).map_err(failed)?;
        let mut args = vec!["patch".to_owned()];
        args.extend(what);
        args.push(format!("--patch-file={}", body.path()));
        args.extend(["-o", "name", REQUEST_TIMEOUT].map(str::to_owned));
        self.run_with(&args, Some(body), limit).map(drop)
    }

    /// Lists the objects of the namespace that match the selector, or all of them.
    pub(super) fn list(
        &self,
        kind: ListKind<'_>,
        selector: Option<&str>,
        limit: Duration,
    ) -> Result<Vec<u8>, Failure> {
        let resource = match kind {
            ListKind::Owners(resource) => resource.argument(),
            ListKind::ReplicaSets => "rs",
            ListKind::ControllerRevisions => "controllerrevisions.apps",
            ListKind::Pods => "pods",
            ListKind::Jobs => "jobs.batch",
            ListKind::Events(fields) => {
                let fields = format!("--field-selector={fields}");
                return self.get_json(&["events", &fields], limit);
            }
        };
        match selector {
            Some(selector) => self.get_json(&[resource, &format!("--selector={selector}")], limit),
            None => self.get_json(&[resource], limit),
        }
    }

    /// Lists all objects of these resources in the namespace, with their managed fields.
    pub(super) fn list_with_managers(
        &self,
        resources: &str,
        limit: Duration,
    ) -> Result<Vec<u8>, Failure> {
        self.get_json(&[resources, "--show-managed-fields"], limit)
    }

    /// Lists the resources of a group and version, including their subresources.
    pub(super) fn resources(&self, api_version: &str, limit: Duration) -> Result<Vec<u8>, Failure> {
        let path = if api_version.contains('/') {
            format!("/apis/{api_version}")
        } else {
            format!("/api/{api_version}")
        };
        self.run(&["get", "--raw", &path, REQUEST_TIMEOUT], limit)
    }

    /// Reads the last log lines of a container, optionally those of its previous run.
    pub(super) fn log(
        &self,
        pod: &str,
        container: &str,
        previous: bool,
        limit: Duration,
    ) -> Result<Vec<u8>, Failure> {
        let container = format!("--container={container}");
        let mut args = vec!["logs", pod, &container, LOG_LINES, REQUEST_TIMEOUT];
        if previous {
            args.push("--previous");
        }
        self.run(&args, limit)
    }

    /// The keys of a ConfigMap or a Secret, those of `data` and those of `binaryData`. The values stay in kubectl.
    pub(super) fn configuration_keys(
        &self,
        resource: &str,
        name: &str,
        limit: Duration,
    ) -> Result<[Vec<String>; 2], Failure> {
        let template = format!("go-template={KEYS_TEMPLATE}");
        let keys = self.run(
            &["get", resource, name, "-o", &template, REQUEST_TIMEOUT],
            limit,
        )?;
        let keys = String::from_utf8_lossy(&keys);
        Ok(["data ", "binaryData "].map(|field| {
            let of_field = keys.lines().filter_map(|line| line.strip_prefix(field));
            of_field.map(str::to_owned).collect()
        }))
    }

    /// The names of all objects of a kind.
    pub(super) fn names(&self, kind: &str, limit: Duration) -> Result<Vec<String>, Failure> {
        let names = self.run(&["get", kind, "-o", "name", "--request-timeout=5s"], limit)?;
        let names = String::from_utf8_lossy(&names);
        let names = names
            .lines()
            .map(|line| line.rsplit('/').next().unwrap_or(line));
        Ok(names.map(str::to_owned).collect())
    }

    /// The names of the contexts in the configuration of kubectl.
    pub(super) fn contexts(&self, limit: Duration) -> Result<Vec<String>, Failure> {
        let names = self.run(&["config", "get-contexts", "-o", "name"], limit)?;
        let names = String::from_utf8_lossy(&names);
        Ok(names.lines().map(str::to_owned).collect())
    }

    fn get_json(&self, what: &[&str], limit: Duration) -> Result<Vec<u8>, Failure> {
        let all = [&["get"], what, &["-o", "json", REQUEST_TIMEOUT]].concat();
        self.run(&all, limit)
    }

    fn run(&self, what: &[impl AsRef<str>], limit: Duration) -> Result<Vec<u8>, Failure> {
        self.run_with(what, None, limit)
    }

    fn run_with(
        &self,
        what: &[impl AsRef<str>],
        body: Option<Body>,
        limit: Duration,
    ) -> Result<Vec<u8>, Failure> {
        let Self { program, options } = self;
        let mut args: Vec<String> = what.iter().map(|arg| arg.as_ref().to_owned()).collect();
        args.extend_from_slice(options);
        let failed = |cause| Failure {
            command: format!("{} {}", program.to_string_lossy(), args.join(" ")),
            cause,
        };
        let finished = process::run(program, &args, body, limit)
            .map_err(|error| failed(Cause::NotRun(error.to_string())))?;
        let finished = match finished {
            Ended::Finished(finished) => finished,
            Ended::TimedOut => return Err(failed(Cause::TimedOut(limit))),
            Ended::TooLarge => return Err(failed(Cause::TooLarge(OUTPUT_BYTES_MAX))),
        };
        let Finished {
            status,
            stdout,
            diagnostics,
        } = finished;
        if !status.success() {
            return Err(failed(Cause::of(status.to_string(), &diagnostics)));
        }
        Ok(stdout)
    }
}

/// The arguments of `kubectl apply`.
fn apply(files: &[String], options: &[String]) -> Vec<String> {
    let files = files.iter().map(|file| format!("--filename={file}"));
    let options = options.iter().cloned();
    ["apply".to_owned()]
        .into_iter()
        .chain(files)
        .chain(options)
        .collect()
}
