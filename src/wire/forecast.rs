//! Requests for forecasts, and the responses.

use std::collections::BTreeSet;

use rollplan_forecast::{Answer, Change, Horizon, Request};

use super::context::Context;
use super::error::Error;
use super::limits::{CHANGES_MAX, limit};
use super::manifest::{ManifestReader, find_live};
use super::objects::ContentReader;
use super::parse::{Parser, Path};
use super::print_forecast::print_forecast;
use super::snapshot::{Kinds, Subject, present, read_snapshot};
use crate::proto;
use crate::proto::deployment_change::Change as Given;

/// A request for a forecast.
#[derive(Debug)]
pub struct ForecastInput {
    /// What to forecast. It has no failures: the caller adds those that the snapshot shows.
    pub request: Request,
    /// How to print the forecast.
    pub printer: ForecastPrinter,
}

/// Converts forecasts to responses.
#[derive(Debug)]
pub struct ForecastPrinter {
    namespace: String,
    /// What reading the changes has assumed, as sentences.
    assumptions: Vec<String>,
}

/// Reads a request for a forecast.
///
/// # Errors
///
/// [`Error::InvalidArgument`] with all violations, [`Error::TooLarge`], [`Error::Interrupted`].
pub fn read_forecast(
    request: proto::ForecastRolloutRequest,
    context: &mut Context<'_>,
) -> Result<ForecastInput, Error> {
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
    let snapshot = parser.finish(subject).and_then(present)?.deployment()?;
    let horizon = horizon.unwrap_or(if snapshot.deployment.is_native() {
        Horizon::Pass
    } else {
        Horizon::Settled
    });
    let namespace = snapshot.deployment.metadata.namespace.clone();
    let request = Request {
        snapshot,
        failure: None,
        failing_pods: BTreeSet::new(),
        changes: read,
        horizon,
        options,
        pod_times,
        limits,
        samples,
        seed,
    };
    let printer = ForecastPrinter {
        namespace,
        assumptions,
    };
    Ok(ForecastInput { request, printer })
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

// === impl ForecastPrinter ===

impl ForecastPrinter {
    /// Converts a forecast to a response.
    #[must_use]
    pub fn print(self, answer: Answer) -> proto::ForecastRolloutResponse {
        let mut answer = print_forecast(answer, &self.namespace);
        answer.assumptions.extend(self.assumptions);
        answer
    }
}
