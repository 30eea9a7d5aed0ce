//! Forecasts: the request in, the response out.

use bytes::Bytes;
use prost::Message as _;
use rollplan_core::interrupt::{Interrupt, Never};
use rollplan_core::snapshot::{Options, Snapshot};
use rollplan_forecast::{Change, Horizon, Request, forecast_until};
use rollplan_health::diagnosis::failure::judgement::Judgement;
use rollplan_health::diagnosis::{Finality, diagnose_until};
use rollplan_health::report::report;
use rollplan_health::report::verdict::Outlook;

use super::error::Error;
use super::limits::{CHANGES_MAX, limit};
use super::manifest::ManifestReader;
use super::objects::ContentReader;
use super::parse::{Parser, Path};
use super::print_forecast::print_forecast;
use super::snapshot::{Context, Kinds, Subject, read_snapshot};
use super::{decode_request, deployment};
use crate::proto;
use crate::proto::deployment_change::Change as Given;

/// Forecasts what a change of a Deployment will do, before it is applied, or how a rollout is likely to continue.
///
/// # Errors
///
/// See [`plan_rollout`](super::plan_rollout); also [`Error::Forecast`] if the lists of objects may be incomplete, or if there are
/// too many pods.
pub fn forecast_rollout(
    request: proto::ForecastRolloutRequest,
) -> Result<proto::ForecastRolloutResponse, Error> {
    forecast_rollout_until(request, &Never)
}

/// Like [`forecast_rollout`], but can be interrupted.
///
/// # Errors
///
/// See [`forecast_rollout`]; also [`Error::Interrupted`].
pub fn forecast_rollout_until(
    request: proto::ForecastRolloutRequest,
    interrupt: &dyn Interrupt,
) -> Result<proto::ForecastRolloutResponse, Error> {
    forecast_rollout_in(request, &mut Context::default(), interrupt)
}

/// Like [`forecast_rollout`], with an encoded `ForecastRolloutRequest` and `ForecastRolloutResponse`.
///
/// # Errors
///
/// See [`forecast_rollout`]; also [`Error::Undecodable`].
pub fn forecast_rollout_bytes(request: &[u8]) -> Result<Vec<u8>, Error> {
    let request = decode_request(Bytes::copy_from_slice(request), &Never)?;
    Ok(forecast_rollout(request)?.encode_to_vec())
}

/// Like [`forecast_rollout_until`], in a context.
pub(crate) fn forecast_rollout_in(
    request: proto::ForecastRolloutRequest,
    context: &mut Context<'_>,
    interrupt: &dyn Interrupt,
) -> Result<proto::ForecastRolloutResponse, Error> {
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
    let mut read = Vec::new();
    for (index, change) in changes.iter().enumerate() {
        let path = Path::Root("changes");
        let path = path.index(index);
        let mut reader = ManifestReader {
            parser: &mut parser,
            contents: &mut contents,
            current,
        };
        read.extend(read_change(&mut reader, change, &path)?);
    }
    let snapshot = parser.finish(subject).and_then(deployment)?;
    let horizon = horizon.unwrap_or(match snapshot.deployment.is_native() {
        true => Horizon::Pass,
        false => Horizon::Settled,
    });
    let namespace = snapshot.deployment.metadata.namespace.clone();
    let failure = certain_failure(&snapshot, options, interrupt)?;
    let forecast = forecast_until(
        Request {
            snapshot,
            failure,
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
    let answer = print_forecast(forecast, &namespace);
    interrupt.check()?;
    Ok(answer)
}

/// Why pods with the current template certainly do not become available, according to the verdict. A lack of capacity is no
/// such failure, because a change may free some.
fn certain_failure(
    snapshot: &Snapshot,
    options: Options,
    interrupt: &dyn Interrupt,
) -> Result<Option<String>, Error> {
    let diagnosis = diagnose_until(snapshot, Judgement::default(), interrupt)?;
    let failure = diagnosis.failure().filter(|failure| {
        failure.finality == Finality::Certain && !failure.class.row().resolved_by_room
    });
    if failure.is_none() && diagnosis.refusal_of_pods() != Finality::Certain {
        return Ok(None);
    }
    let status = rollplan_core::compute_status_until(snapshot, options, interrupt)?;
    let verdict = report(&diagnosis, &status, &[]).verdict;
    let is_certain = verdict.outlook == Outlook::NeedsChange && verdict.is_certain;
    Ok(is_certain.then_some(verdict.message))
}

/// Reads a change. `None` after a violation.
fn read_change<'i>(
    reader: &mut ManifestReader<'_, 'i>,
    change: &'i proto::DeploymentChange,
    path: &Path<'_>,
) -> Result<Option<Change>, Error> {
    let proto::DeploymentChange { change } = change;
    let change = reader
        .parser
        .required(change.as_ref(), &path.field("change"));
    Ok(match change {
        None => None,
        Some(Given::Deployment(text)) => reader
            .read(text, &path.field("deployment"))?
            .map(|deployment| Change::Deployment(Box::new(deployment))),
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
