//! `rollplan restarts` and `rollplan uses`: which workloads read which configuration, and which ones need a restart.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use prost_types::Timestamp;
use rollplan_core::kind::KINDS;
use rollplan_text::{self as text, ConfigurationUser, span, time};

use super::print_commands;
use super::read::{self, refuse_cluster_of_named, texts};
use super::restart_changes::{self, Manifests};
use super::restart_consequences::{self, Configurations, Consequence, Consequences};
use super::restart_objects::{
    DEFAULT_NAMESPACE, InputObject, ObjectKey, RestartObjects, as_workloads, remove_replaced,
    unexamined, unknown_fields, without_annotations,
};
use super::restart_refusals::Refusals;
use super::{restart_objects, restart_reasons, restart_uses};
use crate::cli::cluster::{PROCESS_TIMEOUT, SOURCE};
use crate::cli::error::Error;
use crate::cli::exit::Exit;
use crate::cli::input::{self, Source, SourceMap, Sources};
use crate::cli::kubectl::{Cause, Kubectl};
use crate::cli::options::{AnswerArgs, ClusterArgs, Output, SearchArgs};
use crate::cli::planner::Planner;
use crate::cli::resource::Resource;
use crate::cli::{now, output, report, stderr};
use crate::{proto, wire};

/// Appended to `--help`.
pub(in crate::cli) const HELP: &str = "\
Exit codes: 0 the plan was printed, even if nothing needs a restart; 2 invalid command line or input, also if objects \
were skipped and the plan is incomplete, or missing permission; 4 no answer from the service, kubectl or the cluster.";

/// Appended to `--help` of `uses`.
pub(in crate::cli) const USES_HELP: &str = "\
Exit codes: 0 the uses were printed, even if there are none; 2 invalid command line or input, also if objects were \
skipped and there may be more uses, or missing permission; 4 no answer from the service, kubectl or the cluster.";

#[derive(Args, Debug)]
pub(in crate::cli) struct RestartsArgs {
    #[command(flatten)]
    from: FromArgs,
    /// How long configurations must be unchanged before a restart [default: set by the profile]
    #[arg(long, value_name = "DURATION", value_parser = span::parse)]
    quiet: Option<Duration>,
    /// How long after a change a pod must have started to count as using it, unless it was created after the change
    /// [default: 10s]
    #[arg(long, value_name = "DURATION", value_parser = span::parse)]
    skew: Option<Duration>,
    /// Maximum number of concurrent restarts; 0 is unlimited
    #[arg(long, value_name = "NUMBER", default_value_t = 0, value_parser = clap::value_parser!(i32).range(0..))]
    max_concurrent: i32,
    /// Earlier manifests, a file or directory: print which workloads the changes since then restart; may be repeated
    ///
    /// Compares the ConfigMaps and Secrets of --filename with those of the earlier manifests, for example of another commit.
    /// Prints names and keys, but no values.
    #[arg(
        long,
        value_name = "FILE",
        requires = "files",
        conflicts_with_all = ["quiet", "skew", "max_concurrent"]
    )]
    since: Vec<PathBuf>,
    #[command(flatten)]
    answer: AnswerArgs<RestartsOutput>,
}

/// How to print restarts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum RestartsOutput {
    /// Human-readable text
    #[default]
    Table,
    /// The response message in the protobuf JSON format, on one line; with --since, the changes
    Json,
    /// The same as YAML
    Yaml,
    /// Shell commands that make the writes, with their preconditions
    Kubectl,
    /// Markdown for a pull request (only with --since)
    Markdown,
}

/// How to print uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum UsesOutput {
    /// Human-readable text
    #[default]
    Table,
    /// The uses as JSON, on one line
    Json,
    /// The uses as YAML
    Yaml,
    /// Markdown for a pull request
    Markdown,
}

#[derive(Args, Debug)]
pub(in crate::cli) struct UsesArgs {
    /// The configuration, for example configmap/app, secret/db or secretproviderclass/vault
    #[arg(value_name = "KIND/NAME", value_parser = configuration)]
    configuration: (proto::ConfigurationKind, String),
    #[command(flatten)]
    from: FromArgs,
    #[command(flatten)]
    answer: AnswerArgs<UsesOutput>,
}

/// The input, and the rules to apply.
#[derive(Args, Debug)]
struct FromArgs {
    /// File with Kubernetes objects, or - for standard input; may be repeated [default: read the namespace with kubectl]
    ///
    /// JSON or YAML with workloads, ConfigMaps and Secrets, and with the ReplicaSets and Pods, which show when pods were
    /// started. Get ConfigMaps and Secrets with --show-managed-fields, which shows when they were changed. Anything else is
    /// ignored.
    #[arg(short, long = "filename", value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    search: SearchArgs,
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
        skew,
        max_concurrent,
        since,
        answer: AnswerArgs { output, server },
    } = args;
    let planner = Planner::new(server)?;
    if !since.is_empty() {
        return changes(&from, &since, output, &planner);
    }
    let mut request = from.read()?;
    note_unexamined(request.objects.iter());
    if let Some(options) = &mut request.request.options {
        // The parser of the command line has checked the ranges.
        options.quiet = quiet.and_then(|quiet| quiet.try_into().ok());
        options.skew = skew.and_then(|skew| skew.try_into().ok());
        options.max_concurrent = max_concurrent;
    }
    let response = request.plan(&planner)?;
    let objects = RestartObjects::read(&request.objects);
    request.note(&response);
    from.note_reloader(&objects);
    let unknown = match response.counts.unwrap_or_default().unknown {
        0 => Vec::new(),
        _ => objects.unknown(&request.uses(&planner)?.plans),
    };
    let format = match output {
        RestartsOutput::Table => Output::Table,
        RestartsOutput::Json => Output::Json,
        RestartsOutput::Yaml => Output::Yaml,
        RestartsOutput::Kubectl => {
            print_commands(&output::script::restarts(&from.cluster, &response)?)?;
            return Ok(exit(&response, request.is_partial));
        }
        RestartsOutput::Markdown => {
            return Err(Error::Usage(
                "-o markdown can only be used with --since".to_owned(),
            ));
        }
    };
    output::print(format, &response, |page| {
        text::restarts(page, &response, &unknown);
    })?;
    Ok(exit(&response, request.is_partial))
}

/// `rollplan restarts --since`.
fn changes(
    from: &FromArgs,
    since: &[PathBuf],
    output: RestartsOutput,
    planner: &Planner,
) -> Result<Exit, Error> {
    let mut earlier = from.earlier(since)?;
    let mut request = from.read()?;
    let unexamined = note_unexamined(earlier.objects.iter().chain(&request.objects));
    let unknown = unknown_fields(&request.objects);
    unknown.iter().for_each(stderr::eprint_note);
    from.set_namespace(&mut [&mut earlier.objects, &mut request.objects]);
    let old = Manifests::new(&earlier.objects);
    let new = Manifests::new(&request.objects);
    let refusals = Refusals::keep_refused(&earlier.objects, &mut request.objects);
    let accepted = Manifests::new(&request.objects);
    let objects = RestartObjects::read(&request.objects);
    let response = request.uses(planner)?;
    request.note(&response);
    from.note_reloader(&objects);
    let [before, after] = restart_changes::sides(&old, &accepted);
    let consequences = request.consequences(planner, &before, &after)?;
    let profile = from.profile();
    let reason =
        |id: &ObjectKey, it: &Consequence| restart_reasons::reason(&objects, profile, id, it);
    let manifests = [&old, &new, &accepted];
    let mut changes = restart_changes::changes(manifests, &refusals, &consequences, &reason);
    let exit = exit(&response, request.is_partial || earlier.is_partial);
    changes.notes = notes(exit, unexamined);
    changes.notes.extend(unknown);
    match output {
        RestartsOutput::Table => {
            let text = output::page(|page| text::changes(page, &changes));
            output::write(text.as_bytes())?;
        }
        RestartsOutput::Markdown => {
            output::write(report::markdown::changes(&changes).as_bytes())?;
        }
        RestartsOutput::Json => {
            output::write(output::json_text(&report::json::changes(&changes)).as_bytes())?;
        }
        RestartsOutput::Yaml => {
            output::write(output::yaml_text(&report::json::changes(&changes)).as_bytes())?;
        }
        RestartsOutput::Kubectl => {
            let text = "-o kubectl cannot be used with --since: manifests have no state to change";
            return Err(Error::Usage(text.to_owned()));
        }
    }
    Ok(exit)
}

/// `rollplan uses`.
pub(in crate::cli) fn uses(args: UsesArgs) -> Result<Exit, Error> {
    let UsesArgs {
        configuration: (kind, name),
        from,
        answer: AnswerArgs { output, server },
    } = args;
    let planner = Planner::new(server)?;
    let request = from.read()?;
    let unexamined = note_unexamined(request.objects.iter());
    let objects = RestartObjects::read(&request.objects);
    let selected = request.uses(&planner)?;
    request.note(&selected);
    from.note_reloader(&objects);
    let mut all = request.uses_of_all(&planner)?;
    let is_meant = |used: &proto::ConfigurationUse| used.kind() == kind && used.name == name;
    let plans = restart_uses::users(std::mem::take(&mut all.plans), selected.plans, &is_meant);
    let [before, after] = restart_uses::sides(&plans, &objects, kind, &name);
    let consequences = request.consequences(&planner, &before, &after)?;
    let profile = from.profile();
    let reason =
        |id: &ObjectKey, it: &Consequence| restart_reasons::reason(&objects, profile, id, it);
    let users = plans.into_iter();
    let users = users.map(|plan| restart_uses::user(plan, &consequences, &reason));
    let users: Vec<ConfigurationUser> = users.collect();
    let subject = format!(
        "{}/{name}",
        restart_objects::kind(kind).to_ascii_lowercase()
    );
    let exit = exit(&all, request.is_partial);
    let heading = text::uses_heading(&subject, users.len(), exit == Exit::Done);
    let notes = notes(exit, unexamined);
    let json = || report::json::uses(restart_objects::kind(kind), &name, &users, &notes);
    let text = match output {
        UsesOutput::Table => output::page(|page| text::uses(page, &heading, &users, &all)),
        UsesOutput::Json => output::json_text(&json()),
        UsesOutput::Yaml => output::yaml_text(&json()),
        UsesOutput::Markdown => report::markdown::uses(&heading, &users, &notes),
    };
    output::write(text.as_bytes())?;
    Ok(exit)
}

/// Notes objects that may create or use configurations, and that are not examined. Returns the note.
fn note_unexamined<'o>(objects: impl Iterator<Item = &'o InputObject>) -> Option<String> {
    let note = format!("not examined: {}", unexamined(objects)?);
    stderr::eprint_note(&note);
    Some(note)
}

/// Removes objects that later manifests replace, with a note.
fn note_replaced(objects: &mut Vec<InputObject>) {
    for object in remove_replaced(objects) {
        stderr::eprint_note(input::several_manifests(&object));
    }
}

/// What an answer may lack.
fn notes(exit: Exit, unexamined: Option<String>) -> Vec<String> {
    let skipped = "incomplete: some files or objects were skipped".to_owned();
    let skipped = (exit != Exit::Done).then_some(skipped);
    unexamined.into_iter().chain(skipped).collect()
}

/// Skipped objects make the answer incomplete.
fn exit(response: &proto::PlanRestartsResponse, is_partial: bool) -> Exit {
    Exit::Done.of_input(is_partial || !response.violations.is_empty())
}

/// The objects of files.
struct Manifest {
    objects: Vec<InputObject>,
    is_partial: bool,
}

/// A request about objects.
struct Input {
    /// Everything but the objects.
    request: proto::PlanRestartsRequest,
    objects: Vec<InputObject>,
    /// Whether a part of the files could not be read.
    is_partial: bool,
}

// === impl Manifest ===

impl Manifest {
    fn read(sources: &Sources) -> Result<Self, Error> {
        let texts = texts(sources)?;
        let objects = read::objects(&texts)?;
        Ok(Self {
            objects: InputObject::all(&objects),
            is_partial: objects.is_partial,
        })
    }
}

// === impl FromArgs ===

impl FromArgs {
    /// Reads the files, or the namespace.
    fn read(&self) -> Result<Input, Error> {
        let (sources, configurations_complete) = match self.files.as_slice() {
            [] => self.namespace()?,
            files => {
                refuse_cluster_of_named(&self.cluster)?;
                let sources = input::sources(files, self.search.recursive)?;
                (sources, self.configurations_complete)
            }
        };
        let Manifest {
            mut objects,
            is_partial,
        } = Manifest::read(&sources)?;
        if !self.files.is_empty() {
            self.set_namespace(&mut [&mut objects]);
            note_replaced(&mut objects);
        }
        let restart_on = match self.restart_on {
            RestartOn::All => proto::RestartOn::All,
            RestartOn::Env => proto::RestartOn::Env,
        };
        let options = proto::RestartOptions {
            profile: self.profile().into(),
            restart_on: restart_on.into(),
            all_workloads: self.all_workloads,
            ..proto::RestartOptions::default()
        };
        let request = proto::PlanRestartsRequest {
            now: Some(self.now.unwrap_or_else(now::read)),
            configurations_complete,
            options: Some(options),
            ..proto::PlanRestartsRequest::default()
        };
        Ok(Input {
            request,
            objects,
            is_partial,
        })
    }

    /// Reads the earlier manifests. In the commit before the first manifest, a directory may be empty.
    fn earlier(&self, files: &[PathBuf]) -> Result<Manifest, Error> {
        let is_empty = |file: &PathBuf| {
            std::fs::read_dir(file).is_ok_and(|mut entries| entries.next().is_none())
        };
        let files: Vec<PathBuf> = files
            .iter()
            .filter(|file| !is_empty(file))
            .cloned()
            .collect();
        let mut manifest = Manifest::read(&input::sources(&files, self.search.recursive)?)?;
        remove_replaced(&mut manifest.objects);
        Ok(manifest)
    }

    /// Puts objects of files without a namespace into that of the command line, and removes those in others. Without one,
    /// they are in the same namespace as objects in `default`.
    fn set_namespace(&self, lists: &mut [&mut Vec<InputObject>]) {
        let namespace = self.cluster.namespace.as_deref();
        let is_default =
            |object: &InputObject| object.json["metadata"]["namespace"] == DEFAULT_NAMESPACE;
        let mut all = lists.iter().flat_map(|objects| objects.iter());
        if namespace.is_none() && !all.any(is_default) {
            return;
        }
        let mut removed = 0_usize;
        for objects in lists {
            let count = objects.len();
            objects.retain_mut(|object| object.set_namespace(namespace));
            removed = removed.saturating_add(count.saturating_sub(objects.len()));
        }
        if removed > 0 {
            stderr::eprint_note(format_args!(
                "skipped: objects of other namespaces than that of -n: {removed}"
            ));
        }
    }

    fn profile(&self) -> proto::RestartProfile {
        match self.profile {
            Profile::Rollplan => proto::RestartProfile::Rollplan,
            Profile::Xing => proto::RestartProfile::Xing,
            Profile::Reloader => proto::RestartProfile::Reloader,
        }
    }

    /// Notes that workloads have annotations of a profile that is not used.
    fn note_reloader(&self, objects: &RestartObjects) {
        if self.profile != Profile::Rollplan {
            return;
        }
        let [of_profile, others] = objects.of_reloader();
        if let Some(listed) = of_profile {
            stderr::eprint_note(format_args!(
                "these workloads have annotations of Reloader: {listed}; to use them, pass --profile reloader"
            ));
        }
        if let Some(listed) = others {
            stderr::eprint_note(format_args!(
                "these objects have annotations of Reloader, and no profile restarts their kind: {listed}"
            ));
        }
    }

    /// Reads the objects of the namespace. Returns whether these include all its ConfigMaps and Secrets.
    fn namespace(&self) -> Result<(Sources, bool), Error> {
        let kubectl = Kubectl::new(&self.cluster);
        let read = KINDS.iter().filter(|it| it.is_read_for_restarts);
        let resources: Vec<&str> = read.map(|it| it.plural).collect();
        let objects = kubectl.list_with_managers(&resources.join(","), PROCESS_TIMEOUT)?;
        let mut sources = vec![Source::new(SOURCE, objects)?];
        match kubectl.list_with_managers("secrets", PROCESS_TIMEOUT) {
            Ok(secrets) => sources.push(Source::new(SOURCE, secrets)?),
            Err(failure) if matches!(failure.cause(), Cause::Forbidden(_)) => {
                stderr::eprint_note(format_args!(
                    "the answer is computed without Secrets, so their changes are unknown: {failure}"
                ));
                return Ok((sources.into(), false));
            }
            Err(failure) => return Err(failure.into()),
        }
        Ok((sources.into(), true))
    }
}

// === impl Input ===

impl Input {
    /// Requests all pages of the plan.
    fn plan(&self, planner: &Planner) -> Result<proto::PlanRestartsResponse, Error> {
        self.planned(self.request.options.clone(), planner)
    }

    /// What the workloads use that the options select.
    fn uses(&self, planner: &Planner) -> Result<proto::PlanRestartsResponse, Error> {
        let options = self.request.options.clone();
        let options = options.map(|options| proto::RestartOptions {
            include_unchanged: true,
            ..options
        });
        self.planned(options, planner)
    }

    fn planned(
        &self,
        options: Option<proto::RestartOptions>,
        planner: &Planner,
    ) -> Result<proto::PlanRestartsResponse, Error> {
        let texts: Vec<&str> = self.objects.iter().map(|it| it.text.as_str()).collect();
        let request = proto::PlanRestartsRequest {
            objects: vec![format!(
                "{{\"kind\":\"List\",\"items\":[{}]}}",
                texts.join(",")
            )],
            options,
            ..self.request.clone()
        };
        pages(request, planner, &self.source_map())
    }

    /// What all workloads use.
    fn uses_of_all(&self, planner: &Planner) -> Result<proto::PlanRestartsResponse, Error> {
        let options = self.request.options.clone();
        let objects = without_annotations(as_workloads(&self.objects));
        let request = proto::PlanRestartsRequest {
            objects: vec![restart_consequences::list(&objects)],
            options: options.map(restart_consequences::of_all_workloads),
            ..self.request.clone()
        };
        pages(request, planner, &SourceMap::default())
    }

    /// What a change of configurations does to the workloads.
    fn consequences(
        &self,
        planner: &Planner,
        before: &Configurations,
        after: &Configurations,
    ) -> Result<Consequences, Error> {
        let mut plan = |request| pages(request, planner, &SourceMap::default());
        Consequences::new(&self.request, &self.objects, before, after, &mut plan)
    }

    /// Prints notes about skipped objects.
    fn note(&self, response: &proto::PlanRestartsResponse) {
        let source_map = self.source_map();
        for violation in &response.violations {
            let skipped = source_map.diagnostic(&violation.field, &violation.description);
            stderr::eprint_note(format_args!("skipped: {skipped}"));
        }
        if response.omitted_violations > 0 {
            stderr::eprint_note(format_args!("and {} more", response.omitted_violations));
        }
    }

    /// The places of the objects of a plan.
    fn source_map(&self) -> SourceMap {
        SourceMap {
            field: "objects",
            texts: vec![self.objects.iter().map(|it| it.place.clone()).collect()],
            ..SourceMap::default()
        }
    }
}

/// Requests all pages of a plan.
fn pages(
    mut request: proto::PlanRestartsRequest,
    planner: &Planner,
    source_map: &SourceMap,
) -> Result<proto::PlanRestartsResponse, Error> {
    let mut response: Option<proto::PlanRestartsResponse> = None;
    loop {
        let page = planner.answer(request.clone());
        let page = page.map_err(|refusal| refusal.into_error(source_map))?;
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

/// The kinds of configurations that workloads react to, with their versions.
const CONFIGURATION_KINDS: [(&str, proto::ConfigurationKind); 3] = [
    ("v1", proto::ConfigurationKind::ConfigMap),
    ("v1", proto::ConfigurationKind::Secret),
    (
        "secrets-store.csi.x-k8s.io/v1",
        proto::ConfigurationKind::SecretProviderClass,
    ),
];

/// Parses, for example, "configmap/app" or "cm/app".
fn configuration(text: &str) -> Result<(proto::ConfigurationKind, String), String> {
    let (kind, name) = text
        .split_once('/')
        .ok_or("must be KIND/NAME, for example configmap/app")?;
    let named = Resource::named(kind);
    let mut kinds = CONFIGURATION_KINDS.into_iter();
    let found = kinds.find(|(api_version, kind)| {
        let named = named.as_ref();
        named.is_some_and(|it| it.means(api_version, restart_objects::kind(*kind)))
    });
    let Some((_, kind)) = found else {
        return Err("the kind must be configmap, secret or secretproviderclass".to_owned());
    };
    if wire::is_object_name(name) {
        Ok((kind, name.to_owned()))
    } else {
        Err("the name is not a valid Kubernetes name".to_owned())
    }
}
