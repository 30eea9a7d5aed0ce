//! Forecasts: the request in, the response out.

use std::collections::BTreeSet;

use rollplan_core::interrupt::Interrupt;
use rollplan_core::snapshot::{Options, Snapshot};
use rollplan_forecast::{Change, Failure, Horizon, Request, forecast_until};
use rollplan_health::diagnosis::diagnose_until;
use rollplan_health::diagnosis::failure::class::Class;
use rollplan_health::diagnosis::failure::judgement::Judgement;
use rollplan_health::report::report;
use rollplan_health::report::verdict::Outlook;

use super::context::Context;
use super::error::Error;
use super::limits::{CHANGES_MAX, limit};
use super::manifest::{ManifestReader, find_live};
use super::objects::ContentReader;
use super::parse::{Parser, Path};
use super::print_forecast::print_forecast;
use super::snapshot::{Kinds, Subject, deployment, read_snapshot};
use crate::proto;
use crate::proto::deployment_change::Change as Given;

/// Forecasts what a change of a Deployment will do, before it is applied, or how a rollout is likely to continue.
pub(super) fn forecast_rollout(
    request: proto::ForecastRolloutRequest,
    context: &mut Context<'_>,
) -> Result<proto::ForecastRolloutResponse, Error> {
    let interrupt = context.interrupt;
    let proto::ForecastRolloutRequest {
        snapshot,
        changes,
        options,
        pod_times,
        limits,
        samples,
        seed,
    } = request;
    limit("changes", changes.len(), CHANGES_MAX)?;
    let mut parser = Parser::new(interrupt);
    let is_deployment =
        |it: &proto::DeploymentChange| matches!(it.change, Some(Given::Deployment(_)));
    // An apply depends on fields of the Deployment that plans do not.
    let texts = match (&snapshot, changes.iter().any(is_deployment)) {
        (Some(snapshot), true) => snapshot.objects.clone(),
        _ => Vec::new(),
    };
    let subject = read_snapshot(snapshot, Kinds::Deployments, context, &mut parser)?;
    let horizon = Parser::forecast_horizon(options.as_ref());
    let (options, _) = parser.options(options);
    let pod_times = parser.pod_times(pod_times)?;
    let limits = parser.cluster_limits(limits);
    let samples = parser.samples(samples)?;
    let current = match &subject {
        Some(Subject::Deployment(snapshot)) => Some(&snapshot.deployment),
        _ => None,
    };
    let mut contents = ContentReader::new(interrupt);
    let live = match current {
        Some(current) => find_live(&texts, current, &mut contents, interrupt)?,
        None => None,
    };
    let mut read = Vec::new();
    let mut assumptions = Vec::new();
    for (index, change) in changes.iter().enumerate() {
        let path = Path::Root("changes");
        let path = path.index(index);
        let mut reader = ManifestReader {
            parser: &mut parser,
            contents: &mut contents,
            current,
            live: live.as_ref(),
        };
        read.extend(read_change(&mut reader, change, &mut assumptions, &path)?);
    }
    let snapshot = parser.finish(subject).and_then(deployment)?;
    let horizon = horizon.unwrap_or(if snapshot.deployment.is_native() {
        Horizon::Pass
    } else {
        Horizon::Settled
    });
    let namespace = snapshot.deployment.metadata.namespace.clone();
    let (failure, failing_pods) = failures(&snapshot, options, interrupt)?;
    let forecast = forecast_until(
        Request {
            snapshot,
            failure,
            failing_pods,
            changes: read,
            horizon,
            options,
            pod_times,
            limits,
            samples,
            seed,
        },
        interrupt,
    )??;
    let mut answer = print_forecast(forecast, &namespace);
    answer.assumptions.extend(assumptions);
    interrupt.check()?;
    Ok(answer)
}

/// The UIDs of pods.
type Uids = BTreeSet<String>;

/// Why pods with the current template do not become available, according to the diagnosis, and the UIDs of pods that fail. A
/// lack of capacity does not count, because the rollout may free some.
fn failures(
    snapshot: &Snapshot,
    options: Options,
    interrupt: &dyn Interrupt,
) -> Result<(Option<Failure>, Uids), Error> {
    let diagnosis = diagnose_until(snapshot, Judgement::default(), interrupt)?;
    let failing = diagnosis.failing_pods().map(str::to_owned).collect();
    let shared = diagnosis.failure();
    let shared = shared.filter(|it| !matches!(it.class, Class::Unschedulable | Class::NotReady));
    let refusal = diagnosis.refusal_text().map(resolving_fields);
    let resolved_by = match (&shared, refusal) {
        (Some(failure), _) => match failure.class {
            Class::ImageName | Class::ImagePull => Some(IMAGE_FIELDS),
            Class::Config => None,
            _ => Some(&[][..]),
        },
        (None, Some(Some(fields))) => Some(fields),
        (None, _) => return Ok((None, failing)),
    };
    let status = rollplan_core::compute_status_until(snapshot, options, interrupt)?;
    let verdict = report(&diagnosis, &status, &[]).verdict;
    let is_certain = verdict.outlook == Outlook::NeedsChange && verdict.is_certain;
    let container = match diagnosis.findings() {
        [finding, ..] if shared.is_some() => finding.pod.container.clone(),
        _ => String::new(),
    };
    let failure = Failure {
        resolved_by: resolved_by.unwrap_or_else(|| configuration_fields(&verdict.message)),
        message: sentence(&verdict.message),
        is_certain,
        container,
    };
    Ok((Some(failure), failing))
}

/// A message with an initial capital and a full stop.
fn sentence(message: &str) -> String {
    let mut rest = message.chars();
    let first = rest.next().into_iter().flat_map(char::to_uppercase);
    let stop = if message.ends_with('.') { "" } else { "." };
    first.chain(rest).chain(stop.chars()).collect()
}

/// The fields of a template that may resolve that a container cannot be created, for which the kubelet reports a reason.
/// Nothing but another reference replaces an object or a key that does not exist.
fn configuration_fields(message: &str) -> &'static [&'static str] {
    let is_missing = ["not found", "couldn't find key", "non-existent config key"];
    if is_missing.iter().any(|it| message.contains(it)) {
        REFERENCE_FIELDS
    } else {
        CONFIG_FIELDS
    }
}

/// The fields that decide whether an image can be pulled.
const IMAGE_FIELDS: &[&str] = &[".image", "serviceAccount"];
/// The fields that refer to objects with configuration.
const REFERENCE_FIELDS: &[&str] = &[".env", "volume"];
/// The fields that decide whether a container can be created.
const CONFIG_FIELDS: &[&str] = &[
    ".env",
    "volume",
    ".securityContext",
    ".image",
    ".resources",
    ".lifecycle",
];

/// The fields of a template that may resolve a rejection of pods with this text. `None` if it is that of a quota, which has
/// room later.
fn resolving_fields(text: &str) -> Option<&'static [&'static str]> {
    match text {
        _ if text.contains("exceeded quota") => None,
        _ if text.contains("error looking up service account") => Some(&["serviceAccount"]),
        _ if text.contains("no PriorityClass with name") => Some(&["priorityClassName"]),
        _ if text.contains("RuntimeClass") => Some(&["runtimeClassName"]),
        _ => Some(&[]),
    }
}

/// Reads a change. `None` after a violation.
fn read_change<'i>(
    reader: &mut ManifestReader<'_, 'i>,
    change: &'i proto::DeploymentChange,
    assumptions: &mut Vec<String>,
    path: &Path<'_>,
) -> Result<Option<Change>, Error> {
    let proto::DeploymentChange { change } = change;
    let change = reader
        .parser
        .required(change.as_ref(), &path.field("change"));
    Ok(match change {
        None => None,
        Some(Given::Deployment(text)) => {
            let changed = reader.read(text, &path.field("deployment"))?;
            changed.map(|changed| {
                assumptions.extend(changed.assumptions);
                Change::Deployment(Box::new(changed.deployment))
            })
        }
        Some(Given::Replicas(replicas)) => Some(Change::Replicas(
            reader.parser.count(*replicas, &path.field("replicas")),
        )),
        Some(Given::UndoToRevision(revision)) => Some(Change::Undo(
            reader
                .parser
                .count(*revision, &path.field("undo_to_revision")),
        )),
        Some(Given::Paused(paused)) => Some(Change::Paused(*paused)),
    })
}
