//! `rollplan restarts` and `rollplan uses`: which workloads read which configuration, and which ones need a restart.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use prost_types::Timestamp;

use super::print_commands;
use super::read::refuse_cluster;
use super::restart_objects::{RestartObjects, without_annotations};
use crate::cli::cluster::{PROCESS_TIMEOUT, SOURCE};
use crate::cli::error::Error;
use crate::cli::exit::Exit;
use crate::cli::input::{self, Source, SourceMap, Texts};
use crate::cli::kubectl::{Cause, Kubectl};
use crate::cli::options::{AnswerArgs, ClusterArgs, Output, ScriptOutput};
use crate::cli::planner::Planner;
use crate::cli::{now, output, stderr};
use crate::text::{self, span, time};
use crate::{proto, wire};

/// Appended to `--help`.
pub(in crate::cli) const HELP: &str = "\
Exit codes: 0 the plan was printed, even if nothing needs a restart; 2 invalid command line or input, also if objects \
were skipped and the plan is incomplete, or missing permission; 4 no answer from the service, kubectl or the cluster.";

/// Appended to `--help` of `uses`.
pub(in crate::cli) const USES_HELP: &str = "\
Exit codes: 0 the uses were printed, even if there are none; 2 invalid command line or input, also if objects were \
skipped and there may be more uses, or missing permission; 4 no answer from the service, kubectl or the cluster.";

/// The resources that are read from a namespace.
const RESOURCES: &str = "deployments,statefulsets,daemonsets,cronjobs,jobs,replicasets,pods,configmaps,poddisruptionbudgets";

#[derive(Args, Debug)]
pub(in crate::cli) struct RestartsArgs {
    #[command(flatten)]
    from: FromArgs,
    /// How long configurations must be unchanged before a restart [default: set by the profile]
    #[arg(long, value_name = "DURATION", value_parser = span::parse)]
    quiet: Option<Duration>,
    /// Maximum number of concurrent restarts; 0 is unlimited
    #[arg(long, value_name = "NUMBER", default_value_t = 0, value_parser = clap::value_parser!(i32).range(0..))]
    max_concurrent: i32,
    #[command(flatten)]
    answer: AnswerArgs<ScriptOutput>,
}

#[derive(Args, Debug)]
pub(in crate::cli) struct UsesArgs {
    /// The configuration, for example configmap/app, secret/db or secretproviderclass/vault
    #[arg(value_name = "KIND/NAME", value_parser = configuration)]
    configuration: (proto::ConfigurationKind, String),
    #[command(flatten)]
    from: FromArgs,
    #[command(flatten)]
    answer: AnswerArgs<Output>,
}

/// The input, and the rules to apply.
#[derive(Args, Debug)]
struct FromArgs {
    /// File with Kubernetes objects, or - for standard input; may be repeated [default: read the namespace with kubectl]
    ///
    /// JSON or YAML with workloads, ConfigMaps and Secrets, and with the ReplicaSets and Pods, which show when pods were started.
    /// Get ConfigMaps and Secrets with --show-managed-fields, which shows when they were changed. Anything else is ignored.
    #[arg(short, long = "filename", value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// The project whose annotations and checksums are used
    #[arg(long, value_enum, default_value_t)]
    profile: Profile,
    /// Also restart workloads without annotations (only with --profile rollplan)
    #[arg(long)]
    all_workloads: bool,
    /// Which uses of a configuration need a restart, unless the workload is annotated differently
    #[arg(long, value_enum, default_value_t)]
    restart_on: RestartOn,
    /// Whether the files contain every ConfigMap and Secret of the namespaces
    ///
    /// Without this option, a configuration that is not in the files is unknown, not missing.
    #[arg(long)]
    configurations_complete: bool,
    /// The time of the decision, for example 2026-11-20T23:26:19Z [default: now]
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    now: Option<Timestamp>,
}

/// The profile whose annotations are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Profile {
    /// rollplan
    #[default]
    Rollplan,
    /// xing/kubernetes-deployment-restart-controller
    Xing,
    /// stakater/Reloader
    Reloader,
}

/// The uses that need a restart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum RestartOn {
    /// All uses, including volumes, which the kubelet updates in running pods
    #[default]
    All,
    /// Environment variables and subPath mounts only
    Env,
}

/// `rollplan restarts`.
pub(in crate::cli) fn run(args: RestartsArgs) -> Result<Exit, Error> {
    let RestartsArgs {
        from,
        quiet,
        max_concurrent,
        answer: AnswerArgs { output, server },
    } = args;
    let planner = Planner::new(server)?;
    let mut request = from.read()?;
    if let Some(options) = &mut request.request.options {
        // The parser of the command line has checked the range of both.
        options.quiet = quiet.and_then(|quiet| quiet.try_into().ok());
        options.max_concurrent = max_concurrent;
    }
    let response = request.plan(&planner)?;
    let objects = RestartObjects::read(&request.request.objects);
    request.note(&response);
    from.note_reloader(&objects);
    let unknown = match response.counts.unwrap_or_default().unknown {
        0 => Vec::new(),
        _ => objects.unknown(&request.uses(&planner)?.plans),
    };
    match output.plain() {
        Some(output) => {
            output::print(output, &response, |page| {
                text::restarts(page, &response, &unknown);
            })?;
        }
        None => print_commands(&output::script::restarts(&from.cluster, &response)?)?,
    }
    Ok(exit(&response))
}

/// `rollplan uses`.
pub(in crate::cli) fn uses(args: UsesArgs) -> Result<Exit, Error> {
    let UsesArgs {
        configuration: (kind, name),
        from,
        answer: AnswerArgs { output, server },
    } = args;
    let planner = Planner::new(server)?;
    let mut request = from.read()?;
    let is_of = |used: &proto::ConfigurationUse| used.kind() == kind && used.name == name;
    let objects = RestartObjects::read(&request.request.objects);
    // First the workloads that a change restarts, then all that use the configuration, in whichever profile.
    let mut selected = request.uses(&planner)?;
    request.note(&selected);
    from.note_reloader(&objects);
    if let Some(options) = &mut request.request.options {
        options.profile = proto::RestartProfile::Rollplan.into();
        options.all_workloads = true;
        options.image_pull_secrets = true;
        options.restart_on = proto::RestartOn::All.into();
    }
    request.request.objects = vec![without_annotations(&request.request.objects)];
    let mut all = request.uses(&planner)?;
    for plan in selected.plans.iter_mut().chain(&mut all.plans) {
        plan.uses.retain(is_of);
    }
    selected.plans.retain(|plan| !plan.uses.is_empty());
    all.plans.retain(|plan| !plan.uses.is_empty());
    // Only an annotation names the configuration.
    let named = selected.plans.iter();
    let named = named.filter(|plan| !all.plans.iter().any(|it| place(it) == place(plan)));
    let named: Vec<_> = named.cloned().collect();
    all.plans.extend(named);
    all.plans.sort_by(|a, b| place(a).cmp(&place(b)));
    let subject = format!("{}/{name}", kind_name(kind));
    output::print(output, &all, |page| {
        let reason = |plan: &proto::RestartPlan| match from.profile {
            Profile::Reloader => objects.reloader_reason(plan, kind, &name),
            Profile::Rollplan | Profile::Xing => String::new(),
        };
        text::uses(page, &subject, &all, &selected, &reason);
    })?;
    Ok(exit(&all))
}

/// Skipped objects make the answer incomplete.
fn exit(response: &proto::PlanRestartsResponse) -> Exit {
    match response.violations.is_empty() {
        true => Exit::Done,
        false => Exit::Usage,
    }
}

fn place(plan: &proto::RestartPlan) -> (&str, &str, &str) {
    (&plan.namespace, &plan.kind, &plan.name)
}

/// A request, with the sources of its objects.
struct Input {
    request: proto::PlanRestartsRequest,
    places: Vec<String>,
}

// === impl FromArgs ===

impl FromArgs {
    /// Reads the files, or the namespace.
    fn read(&self) -> Result<Input, Error> {
        let (sources, configurations_complete) = match self.files.as_slice() {
            [] => self.namespace()?,
            files => {
                refuse_cluster(&self.cluster)?;
                (input::sources(files)?, self.configurations_complete)
            }
        };
        let texts = Texts::read(&sources)?;
        let (places, objects) = texts
            .documents()
            .map(|(place, json)| (place.to_owned(), json.to_owned()))
            .unzip();
        let profile = match self.profile {
            Profile::Rollplan => proto::RestartProfile::Rollplan,
            Profile::Xing => proto::RestartProfile::Xing,
            Profile::Reloader => proto::RestartProfile::Reloader,
        };
        let restart_on = match self.restart_on {
            RestartOn::All => proto::RestartOn::All,
            RestartOn::Env => proto::RestartOn::Env,
        };
        let options = proto::RestartOptions {
            profile: profile.into(),
            restart_on: restart_on.into(),
            all_workloads: self.all_workloads,
            ..proto::RestartOptions::default()
        };
        let request = proto::PlanRestartsRequest {
            now: Some(self.now.unwrap_or_else(now::read)),
            objects,
            configurations_complete,
            options: Some(options),
            ..proto::PlanRestartsRequest::default()
        };
        Ok(Input { request, places })
    }

    /// Notes that workloads have annotations of a profile that is not used.
    fn note_reloader(&self, objects: &RestartObjects) {
        if self.profile != Profile::Rollplan {
            return;
        }
        if let Some(listed) = objects.of_reloader() {
            stderr::eprint_note(format_args!(
                "these workloads have annotations of Reloader: {listed}; to use them, pass --profile reloader"
            ));
        }
    }

    /// Reads the objects of the namespace. Returns whether these include all its ConfigMaps and Secrets.
    fn namespace(&self) -> Result<(Vec<Source>, bool), Error> {
        let kubectl = Kubectl::new(&self.cluster);
        let objects = kubectl.list_with_managers(RESOURCES, PROCESS_TIMEOUT)?;
        let mut sources = vec![Source::new(SOURCE, objects)?];
        match kubectl.list_with_managers("secrets", PROCESS_TIMEOUT) {
            Ok(secrets) => sources.push(Source::new(SOURCE, secrets)?),
            Err(failure) if matches!(failure.cause(), Cause::Forbidden(_)) => {
                stderr::eprint_note(format_args!(
                    "the answer is computed without Secrets, so their changes are unknown: {failure}"
                ));
                return Ok((sources, false));
            }
            Err(failure) => return Err(failure.into()),
        }
        Ok((sources, true))
    }
}

// === impl Input ===

impl Input {
    /// Requests all pages of the plan.
    fn plan(&mut self, planner: &Planner) -> Result<proto::PlanRestartsResponse, Error> {
        let mut request = self.request.clone();
        let mut response: Option<proto::PlanRestartsResponse> = None;
        loop {
            let page = planner.plan_restarts(request.clone());
            let page = page.map_err(|refusal| refusal.into_error(&SourceMap::default()))?;
            let next = page.continue_after.clone();
            let all = match &mut response {
                Some(all) => {
                    all.plans.extend(page.plans);
                    all
                }
                None => response.insert(page),
            };
            if next.is_empty() {
                all.continue_after.clear();
                return Ok(response.unwrap_or_default());
            }
            request.continue_after = next;
        }
    }

    fn uses(&mut self, planner: &Planner) -> Result<proto::PlanRestartsResponse, Error> {
        if let Some(options) = &mut self.request.options {
            options.include_unchanged = true;
        }
        self.plan(planner)
    }

    /// Prints notes about skipped objects.
    fn note(&self, response: &proto::PlanRestartsResponse) {
        for violation in &response.violations {
            let proto::ItemViolation {
                field, description, ..
            } = violation;
            let place = self.place(field);
            stderr::eprint_note(format_args!("skipped: {place}: {description}"));
        }
        if response.omitted_violations > 0 {
            stderr::eprint_note(format_args!("and {} more", response.omitted_violations));
        }
    }

    /// The place in the input of a field such as `objects[2].items[0].spec`.
    fn place(&self, field: &str) -> String {
        let place = || {
            let (index, rest) = field.strip_prefix("objects[")?.split_once(']')?;
            let place = self.places.get(index.parse::<usize>().ok()?)?;
            Some(format!("{place}: {}", rest.trim_start_matches('.')))
        };
        place().unwrap_or_else(|| field.to_owned())
    }
}

/// Parses, for example, "configmap/app" or "cm/app".
fn configuration(text: &str) -> Result<(proto::ConfigurationKind, String), String> {
    let (kind, name) = text
        .split_once('/')
        .ok_or("must be KIND/NAME, for example configmap/app")?;
    let kind = match kind.to_ascii_lowercase().as_str() {
        "configmap" | "configmaps" | "cm" => proto::ConfigurationKind::ConfigMap,
        "secret" | "secrets" => proto::ConfigurationKind::Secret,
        "secretproviderclass" | "secretproviderclasses" => {
            proto::ConfigurationKind::SecretProviderClass
        }
        _ => return Err("the kind must be configmap, secret or secretproviderclass".to_owned()),
    };
    match wire::is_object_name(name) {
        true => Ok((kind, name.to_owned())),
        false => Err("the name is not a valid Kubernetes name".to_owned()),
    }
}

fn kind_name(kind: proto::ConfigurationKind) -> &'static str {
    match kind {
        proto::ConfigurationKind::ConfigMap => "configmap",
        proto::ConfigurationKind::Secret => "secret",
        proto::ConfigurationKind::SecretProviderClass => "secretproviderclass",
        proto::ConfigurationKind::Unspecified => "?",
    }
}
