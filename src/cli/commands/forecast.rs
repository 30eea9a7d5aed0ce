//! `rollplan forecast`.

use std::fmt::Display;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use prost_types::Timestamp;
use rollplan_text::forecast::{self, Facts};
use rollplan_text::{span, time};
use rollplan_wire::proto;
use rollplan_wire::proto::deployment_change::Change;
use serde_json::Value;

use super::plan::Horizon;
use super::read::{objects, read, refuse_cluster, texts};
use super::template_change::{ApplyArgs, TemplateArgs};
use crate::cli::cluster::Needs;
use crate::cli::error::Error;
use crate::cli::exit::Exit;
use crate::cli::input::{self, Objects, Request, Wanted};
use crate::cli::options::{
    AnswerArgs, ClusterArgs, CompleteArgs, InputArgs, Output, SearchArgs, SourceArgs,
};
use crate::cli::planner::Planner;
use crate::cli::{output, report, stderr};

/// Appended to `--help`.
pub(in crate::cli) const HELP: &str = "\
Exit codes: 0 the forecast was printed, and the rollout completes or is undecided; 1 the rollout never completes, or the undo \
target was not found; 2 invalid command line or input, or missing permission; 4 no answer from the service, kubectl or the cluster.";

#[derive(Args, Debug)]
pub(in crate::cli) struct ForecastArgs {
    #[command(flatten)]
    which: TargetArgs,
    #[command(flatten)]
    change: ChangeArgs,
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    answer: AnswerArgs<ForecastOutput>,
}

/// The Deployment, and where to read it.
#[derive(Args, Debug)]
struct TargetArgs {
    /// The Deployment to read with kubectl, for example web or deploy/web; pdeploy/web for a PlannedDeployment [default: the
    /// one of --filename]
    ///
    /// Runs kubectl get with your configuration, for the Deployment and then for the ReplicaSets and pods that its
    /// selector matches.
    #[arg(value_name = "NAME", num_args = 1..=2, conflicts_with_all = ["snapshot", "deployment", "now"])]
    target: Vec<String>,
    /// File with the current objects, or - for standard input, instead of a cluster; may be repeated
    ///
    /// What kubectl get deploy,rs,pods -o json prints. The file of --filename then has the whole Deployment.
    #[arg(long, value_name = "FILE")]
    snapshot: Vec<PathBuf>,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// The Deployment to use, if the files contain several
    #[arg(short, long, value_name = "[NAMESPACE/]NAME")]
    deployment: Option<String>,
    /// The time of the snapshot, for example 2026-11-20T23:26:19Z [default: now]
    #[arg(long, value_name = "TIME", value_parser = time::parse, requires = "snapshot")]
    now: Option<Timestamp>,
    #[command(flatten)]
    complete: CompleteArgs,
}

/// The changes to forecast. Without any, the forecast is about the rollout in progress.
#[derive(Args, Debug)]
struct ChangeArgs {
    #[command(flatten)]
    template: TemplateArgs,
    /// New number of desired pods
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i32).range(0..))]
    replicas: Option<i32>,
    /// Roll back to the previous revision, or to --to-revision
    #[arg(long, conflicts_with_all = ["files", "images"])]
    undo: bool,
    /// The revision to roll back to; 0 is the previous revision
    #[arg(
        long,
        value_name = "REVISION",
        default_value_t = 0,
        requires = "undo",
        value_parser = clap::value_parser!(i64).range(0..)
    )]
    to_revision: i64,
}

/// The model of the cluster.
#[derive(Args, Debug)]
struct ModelArgs {
    /// Who carries out the rollout: pass is the Deployment controller of Kubernetes, settled an adapter of rollplan
    /// [default: by the kind]
    #[arg(long, value_enum)]
    horizon: Option<Horizon>,
    /// Time from the creation of a pod until it is ready; may be repeated [default: those of the pods]
    #[arg(long, value_name = "DURATION", value_parser = span::parse, value_delimiter = ',')]
    start_time: Vec<Duration>,
    /// Time from the deletion of a pod until it is removed; may be repeated [default: those of the pods]
    #[arg(long, value_name = "DURATION", value_parser = span::parse, value_delimiter = ',')]
    termination_time: Vec<Duration>,
    /// Number of pods that the quota of the namespace allows, in addition to the current ones
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i32).range(0..))]
    quota_pods: Option<i32>,
    /// Number of pods that fit on the nodes, in addition to the current ones
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i32).range(0..))]
    node_pods: Option<i32>,
    /// How often the rollout is simulated
    #[arg(long, value_name = "NUMBER", default_value_t = 100, value_parser = clap::value_parser!(i32).range(1..))]
    samples: i32,
    /// Seed of the random choices
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    seed: u64,
}

/// How to print a forecast.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum ForecastOutput {
    /// Human-readable text
    #[default]
    Table,
    /// The response message in the protobuf JSON format, on one line
    Json,
    /// The response message as YAML
    Yaml,
    /// Markdown for a pull request
    Markdown,
    /// A picture of the pods over time
    Svg,
    /// A page with pictures and tables, in one file
    Html,
}

/// `rollplan forecast`.
pub(in crate::cli) fn run(args: ForecastArgs) -> Result<Exit, Error> {
    let ForecastArgs {
        which,
        change,
        model,
        answer: AnswerArgs { output, server },
    } = args;
    let planner = Planner::new(server)?;
    let (request, changes) = if which.snapshot.is_empty() {
        from_cluster(which, &change)?
    } else {
        from_files(which, &change)?
    };
    let Request {
        subject,
        snapshot,
        source_map,
        is_partial,
        ..
    } = request;
    let has_changes = !changes.is_empty();
    let message = proto::ForecastRolloutRequest {
        snapshot: Some(snapshot),
        changes,
        ..model.request()
    };
    let response = planner
        .answer(message)
        .map_err(|refusal| refusal.into_error(&source_map))?;
    print(output, &subject, has_changes, &response)?;
    let expected = response.expected.as_ref();
    Ok(match expected.map(|it| it.outcome()) {
        Some(proto::Outcome::Never) => Exit::Failed,
        _ => Exit::Done.of_input(is_partial),
    })
}

fn print(
    output: ForecastOutput,
    subject: &str,
    has_changes: bool,
    response: &proto::ForecastRolloutResponse,
) -> Result<(), Error> {
    let facts = Facts {
        subject,
        has_changes,
        response,
    };
    let format = match output {
        ForecastOutput::Table => Output::Table,
        ForecastOutput::Json => Output::Json,
        ForecastOutput::Yaml => Output::Yaml,
        ForecastOutput::Markdown => {
            return output::write(report::markdown::forecast(&facts).as_bytes());
        }
        ForecastOutput::Svg => return output::write(forecast::picture(&facts).as_bytes()),
        ForecastOutput::Html => return output::write(forecast::page(&facts).as_bytes()),
    };
    output::print(format, response, |page| forecast::forecast(page, &facts))
}

/// A request with its changes.
type Changed = (Request, Vec<proto::DeploymentChange>);

/// Reads a Deployment, and the effect of the change on it, with kubectl.
fn from_cluster(which: TargetArgs, change: &ChangeArgs) -> Result<Changed, Error> {
    let TargetArgs {
        target,
        mut cluster,
        deployment,
        complete,
        ..
    } = which;
    complete.refuse().map_err(Error::Usage)?;
    let template = &change.template;
    let missing = "no Deployment selected: pass its name, --filename <FILE> or --snapshot <FILE>";
    let named = template.named(&target, missing)?;
    let wanted = deployment.as_deref().map(Wanted::parse).transpose()?;
    let changed = template.apply(&mut cluster, named.as_ref(), wanted, &ApplyArgs::default())?;
    let target = match (named, &changed) {
        (Some(target), _) => target,
        (None, Some(dry_run)) => dry_run.target.clone(),
        (None, None) => return Err(Error::Bug("no Deployment selected".to_owned())),
    };
    let mut json = changed.map(|dry_run| dry_run.deployment);
    let input = InputArgs {
        source: SourceArgs {
            target: vec![format!("{}/{}", target.resource.argument(), target.name)],
            files: Vec::new(),
        },
        search: SearchArgs::default(),
        cluster: cluster.clone(),
        deployment: None,
        now: None,
        complete: CompleteArgs::default(),
    };
    let request = read(&input, Needs::Rollout, None)?;
    if !template.images.is_empty() {
        json = Some(match request.kind() {
            "Deployment" => template.set_images(&cluster, &target, None)?,
            // kubectl set image supports the kinds of Kubernetes only.
            _ => with_images(&request, &template.images)?,
        });
    }
    let changes = change.changes(json);
    Ok((request, changes))
}

/// Reads a Deployment and its changed manifest from files.
fn from_files(which: TargetArgs, change: &ChangeArgs) -> Result<Changed, Error> {
    let TargetArgs {
        snapshot,
        cluster,
        deployment,
        now,
        complete,
        ..
    } = which;
    refuse_cluster(&cluster, "--snapshot")?;
    let is_stdin = |file: &PathBuf| file.as_os_str() == "-";
    if snapshot.iter().any(is_stdin) && change.template.files.iter().any(is_stdin) {
        let text = "only one of --snapshot and --filename can be standard input";
        return Err(Error::Usage(text.to_owned()));
    }
    let input = InputArgs {
        source: SourceArgs {
            target: Vec::new(),
            files: snapshot,
        },
        search: SearchArgs::default(),
        cluster,
        deployment,
        now,
        complete,
    };
    let mut request = read(&input, Needs::Rollout, None)?;
    let mut json = None;
    if let [file] = change.template.files.as_slice() {
        request.source_map.manifest = Some(file.display().to_string());
    }
    if !change.template.files.is_empty() {
        let sources = input::sources(&change.template.files, false)?;
        let texts = texts(&sources)?;
        let objects = objects(&texts)?;
        request.is_partial |= objects.is_partial;
        json = Some(manifest_of(&request, &objects)?);
    } else if !change.template.images.is_empty() {
        json = Some(with_images(&request, &change.template.images)?);
    }
    let changes = change.changes(json);
    Ok((request, changes))
}

/// The manifest of the Deployment of a request. A manifest without a namespace is for any.
fn manifest_of(request: &Request, objects: &Objects<'_>) -> Result<String, Error> {
    let target = request.snapshot.target.clone().unwrap_or_default();
    let wanted = Wanted::parse(&target.name)?;
    let mut note = |note: &dyn Display| stderr::eprint_note(note);
    let (json, found) = input::manifest(objects, Some(&wanted), &mut note)?;
    if found.namespace.is_some() || target.namespace.is_empty() {
        return Ok(json);
    }
    let mut object: Value = serde_json::from_str(&json).unwrap_or_default();
    object["metadata"]["namespace"] = target.namespace.into();
    Ok(object.to_string())
}

/// The Deployment of a request with other images.
fn with_images(request: &Request, images: &[String]) -> Result<String, Error> {
    let target = request.snapshot.target.clone().unwrap_or_default();
    let texts = request.snapshot.objects.iter();
    let lists = texts.filter_map(|text| serde_json::from_str::<Value>(text).ok());
    let mut objects = lists.flat_map(|mut list| match list["items"].take() {
        Value::Array(items) => items,
        _ => vec![list],
    });
    let owner = objects.find(|object| {
        object["kind"] == target.kind.as_str() && object["metadata"]["name"] == target.name.as_str()
    });
    let mut owner = owner.unwrap_or_default();
    for image in images {
        let (name, image) = image.split_once('=').unwrap_or_default();
        let mut count = 0;
        for list in ["initContainers", "containers"] {
            let containers = owner.pointer_mut(&format!("/spec/template/spec/{list}"));
            let containers = containers.and_then(Value::as_array_mut);
            for container in containers.into_iter().flatten() {
                if name == "*" || container["name"] == name {
                    container["image"] = image.into();
                    count += 1;
                }
            }
        }
        if count == 0 {
            let text = format!("{} has no container {name}", request.subject);
            return Err(Error::Absent(text));
        }
    }
    Ok(owner.to_string())
}

// === impl ChangeArgs ===

impl ChangeArgs {
    /// The changes in the order in which they apply, with the changed Deployment first, if any.
    fn changes(&self, deployment: Option<String>) -> Vec<proto::DeploymentChange> {
        let undo = self
            .undo
            .then_some(Change::UndoToRevision(self.to_revision));
        let changes = [
            deployment.map(Change::Deployment),
            undo,
            self.replicas.map(Change::Replicas),
        ];
        let changes = changes.into_iter().flatten();
        let changes = changes.map(|change| proto::DeploymentChange {
            change: Some(change),
        });
        changes.collect()
    }
}

// === impl ModelArgs ===

impl ModelArgs {
    /// A request without a snapshot and changes.
    fn request(self) -> proto::ForecastRolloutRequest {
        let Self {
            horizon,
            start_time,
            termination_time,
            quota_pods,
            node_pods,
            samples,
            seed,
        } = self;
        let durations = |times: Vec<Duration>| {
            let times = times.into_iter().filter_map(|time| time.try_into().ok());
            times.collect()
        };
        let pod_times = proto::PodTimes {
            start: durations(start_time),
            termination: durations(termination_time),
        };
        let has_times = !pod_times.start.is_empty() || !pod_times.termination.is_empty();
        let limits = proto::ClusterLimits {
            pods_in_quota: quota_pods,
            pods_on_nodes: node_pods,
            create_back_off: None,
        };
        proto::ForecastRolloutRequest {
            snapshot: None,
            changes: Vec::new(),
            options: horizon.map(|horizon| proto::PlanOptions {
                horizon: proto::Horizon::from(horizon).into(),
                ..Default::default()
            }),
            pod_times: has_times.then_some(pod_times),
            limits: Some(limits).filter(|it| *it != proto::ClusterLimits::default()),
            samples,
            seed,
        }
    }
}
