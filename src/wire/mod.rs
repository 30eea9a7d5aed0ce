//! Converts between the contract and the planner's types. No other module does that.
//!
//! A request is read once: either to the planner's types, or to an error with all violations. [`plan_rollout`] and
//! [`compute_status`] take messages, [`plan_rollout_bytes`] and [`compute_status_bytes`] encoded messages. Neither needs a
//! server.

pub mod admission;
mod body;
mod canary;
mod canary_status;
mod error;
mod event_calls;
mod forecast;
mod interruptible;
pub mod json;
mod kinds;
mod limits;
mod manifest;
mod memory;
pub(crate) mod objects;
mod origin;
mod parse;
mod path;
mod print;
mod print_canary;
mod print_forecast;
mod print_report;
mod print_revision;
mod print_time;
mod read;
mod restart;
mod snapshot;
mod surroundings;
mod tree;
pub(crate) mod yaml;

pub use body::objects_of_body;
pub(crate) use body::{is_yaml, unreadable};
pub(crate) use canary::plan_canary_in;
pub use canary::{plan_canary, plan_canary_bytes, plan_canary_until};
pub use error::{Error, LISTED_VIOLATIONS_MAX, Reason, Rejection, Violation, Violations};
pub(crate) use forecast::forecast_rollout_in;
pub use forecast::{forecast_rollout, forecast_rollout_bytes, forecast_rollout_until};
pub use limits::{
    ANNOTATIONS_BYTES_MAX, ANSWERS_MAX, CHANGES_MAX, CONFIGURATIONS_MAX, ENTRIES_MAX, EVENTS_MAX,
    EXPRESSIONS_MAX, OBJECT_BYTES_MAX, OBJECTS_MAX, POD_TIMES_MAX, PODS_MAX, REPLICA_SETS_MAX,
    SAMPLES_MAX, VALUES_MAX, VERDICTS_MAX, WORKLOADS_MAX,
};
pub use memory::MEMORY_BYTES_MAX;
pub(crate) use objects::Shown;
pub use objects::{ObjectsSummary, summarize_objects};
pub(crate) use parse::is_object_name;
pub use parse::{Horizon, parse_options};
pub use print::{print_status, print_step};
pub use print_report::print_report;
pub use print_revision::print_revisions;
pub use restart::{plan_restarts, plan_restarts_until};

use std::sync::Arc;

use bytes::Bytes;
use interruptible::Interruptible;
use limits::limit;
use parse::{Parser, Path};
use prost::{Message, Name};
use rollplan_core::Plan;
use rollplan_core::controller_revision::{self, ToRevision};
use rollplan_core::interrupt::{Interrupt, Interrupted, Never};
use rollplan_core::selector::LabelSelector;
use rollplan_core::snapshot::{Options, Snapshot};
use rollplan_health::diagnosis::diagnose_until;
use rollplan_health::diagnosis::failure::judgement::Judgement;
use rollplan_health::report::report;
pub(crate) use snapshot::{Context, Facts};
use snapshot::{Kinds, Subject, read_snapshot};

use crate::proto;

/// The maximum size of an encoded request, in bytes.
pub const REQUEST_BYTES_MAX: usize = 16 << 20;

/// The maximum size of an encoded answer in bytes, which is the default limit of gRPC clients.
pub const ANSWER_BYTES_MAX: usize = 4 << 20;

/// Plans the next writes for one Deployment.
///
/// # Errors
///
/// [`Error::InvalidArgument`] with all violations of the request; [`Error::TooLarge`] if it exceeds a limit of the
/// contract. A rollout that is blocked or complete is not an error.
pub fn plan_rollout(
    request: proto::PlanRolloutRequest,
) -> Result<proto::PlanRolloutResponse, Error> {
    plan_rollout_until(request, &Never)
}

/// Like [`plan_rollout`], but can be interrupted.
///
/// # Errors
///
/// See [`plan_rollout`]; also [`Error::Interrupted`].
pub fn plan_rollout_until(
    request: proto::PlanRolloutRequest,
    interrupt: &dyn Interrupt,
) -> Result<proto::PlanRolloutResponse, Error> {
    plan_rollout_in(request, &mut Context::default(), interrupt)
}

/// Like [`plan_rollout_until`], in a context.
pub(crate) fn plan_rollout_in(
    request: proto::PlanRolloutRequest,
    context: &mut Context<'_>,
    interrupt: &dyn Interrupt,
) -> Result<proto::PlanRolloutResponse, Error> {
    let proto::PlanRolloutRequest { snapshot, options } = request;
    let calls = Calls::of(snapshot.as_ref(), options.as_ref());
    let has_report = options.as_ref().is_some_and(|options| options.report);
    let mut parser = Parser::new(interrupt);
    let subject = read_snapshot(snapshot, Kinds::Deployments, context, &mut parser)?;
    let (options, horizon) = parser.options(options);
    let snapshot = parser.finish(subject).and_then(deployment)?;
    let plan = plan(&snapshot, options, horizon, interrupt)?;
    // If ReplicaSets may be missing, the report is the whole answer: it states why nothing is planned.
    let report = if has_report || !snapshot.replica_sets_complete {
        let diagnosis = diagnose_until(&snapshot, Judgement::default(), interrupt)?;
        Some(report(&diagnosis, &plan.status, &plan.steps))
    } else {
        None
    };
    let mut answer = print::print_plan(plan, report, interrupt);
    calls.complete(&mut answer.steps, &snapshot);
    if !snapshot.replica_sets_complete {
        answer.status = None;
    }
    interrupt.check()?;
    Ok(answer)
}

/// Computes the status of a Deployment or of an object of another kind, without planning writes.
///
/// # Errors
///
/// See [`plan_rollout`].
pub fn compute_status(
    request: proto::ComputeStatusRequest,
) -> Result<proto::ComputeStatusResponse, Error> {
    compute_status_until(request, &Never)
}

/// Like [`compute_status`], but can be interrupted.
///
/// # Errors
///
/// See [`compute_status`]; also [`Error::Interrupted`].
pub fn compute_status_until(
    request: proto::ComputeStatusRequest,
    interrupt: &dyn Interrupt,
) -> Result<proto::ComputeStatusResponse, Error> {
    compute_status_in(request, &mut Context::default(), interrupt)
}

/// Like [`compute_status_until`], in a context.
pub(crate) fn compute_status_in(
    request: proto::ComputeStatusRequest,
    context: &mut Context<'_>,
    interrupt: &dyn Interrupt,
) -> Result<proto::ComputeStatusResponse, Error> {
    let proto::ComputeStatusRequest {
        snapshot,
        options,
        previous_verdict,
        fail_on,
    } = request;
    let mut parser = Parser::new(interrupt);
    let subject = read_snapshot(snapshot, Kinds::All, context, &mut parser)?;
    let (options, _) = parser.options(options);
    let judgement = parser.judgement(previous_verdict, fail_on);
    let snapshot = match parser.finish(subject)? {
        Some(Subject::Other(observed)) => {
            let report = rollplan_health::kinds::report_until(&observed, judgement, interrupt)?;
            return Ok(proto::ComputeStatusResponse {
                status: None,
                report: Some(print_report(report)),
                object: Some(print::observed_reference(&observed)),
            });
        }
        subject => deployment(subject)?,
    };
    let status = rollplan_core::compute_status_until(&snapshot, options, interrupt)?;
    let diagnosis = diagnose_until(&snapshot, judgement, interrupt)?;
    let mut report = print_report(report(&diagnosis, &status, &[]));
    canary_status::add_canary(&mut report, &snapshot, interrupt)?;
    let answer = proto::ComputeStatusResponse {
        status: snapshot.replica_sets_complete.then(|| print_status(status)),
        report: Some(report),
        object: Some(print::object_reference(&snapshot.deployment)),
    };
    interrupt.check()?;
    Ok(answer)
}

/// Plans a rollback of a Deployment, a StatefulSet or a DaemonSet to an earlier revision.
///
/// # Errors
///
/// See [`plan_rollout`]; also [`Error::Rollback`] if the rollback is not possible.
pub fn rollback(request: proto::RollbackRequest) -> Result<proto::RollbackResponse, Error> {
    rollback_until(request, &Never)
}

/// Like [`rollback`], but can be interrupted.
///
/// # Errors
///
/// See [`rollback`]; also [`Error::Interrupted`].
pub fn rollback_until(
    request: proto::RollbackRequest,
    interrupt: &dyn Interrupt,
) -> Result<proto::RollbackResponse, Error> {
    rollback_in(request, &mut Context::default(), interrupt)
}

/// Like [`rollback_until`], in a context.
pub(crate) fn rollback_in(
    request: proto::RollbackRequest,
    context: &mut Context<'_>,
    interrupt: &dyn Interrupt,
) -> Result<proto::RollbackResponse, Error> {
    let proto::RollbackRequest {
        snapshot,
        to_revision,
        options,
        to_last_available,
        configurations,
    } = request;
    limit("configurations", configurations.len(), CONFIGURATIONS_MAX)?;
    let calls = Calls::of(snapshot.as_ref(), options.as_ref());
    let mut parser = Parser::new(interrupt);
    let subject = read_snapshot(snapshot, Kinds::Revisions, context, &mut parser)?;
    parser.options(options);
    let to_revision = parser.count(to_revision, &Path::Root("to_revision"));
    if to_last_available && to_revision != 0 {
        let path = Path::Root("to_last_available");
        parser.violation(&path, Reason::Exclusive, "excludes to_revision");
    }
    let path = Path::Root("configurations");
    let configurations = configurations.into_iter().enumerate();
    let looked_up = configurations
        .filter_map(|(index, message)| parser.looked_up(message, &path.index(index)))
        .collect();
    let mut snapshot = match parser.finish(subject)? {
        Some(Subject::Workload(mut workload)) => {
            workload.surroundings.looked_up = looked_up;
            let to = match (to_last_available, to_revision) {
                (true, _) => ToRevision::LastAvailable,
                (false, 0) => ToRevision::Previous,
                (false, number) => ToRevision::Number(number),
            };
            let restoration = controller_revision::restore_until(&workload, to, interrupt)?;
            let answer =
                print_revision::print_restoration(restoration?, &calls.resource, interrupt);
            interrupt.check()?;
            return Ok(answer);
        }
        subject => deployment(subject)?,
    };
    let to_revision = if to_last_available {
        rollplan_core::last_available_revision(&snapshot, interrupt)?
    } else {
        to_revision
    };
    Arc::make_mut(&mut snapshot.surroundings).looked_up = looked_up;
    let rollback = rollplan_core::rollback_until(&snapshot, to_revision, interrupt)?;
    let mut answer = print_revision::print_rollback(rollback?, interrupt);
    calls.complete(&mut answer.steps, &snapshot);
    interrupt.check()?;
    Ok(answer)
}

/// Lists the revisions of a Deployment, a StatefulSet or a DaemonSet.
///
/// # Errors
///
/// See [`plan_rollout`].
pub fn list_revisions(
    request: proto::ListRevisionsRequest,
) -> Result<proto::ListRevisionsResponse, Error> {
    list_revisions_until(request, &Never)
}

/// Like [`list_revisions`], but can be interrupted.
///
/// # Errors
///
/// See [`list_revisions`]; also [`Error::Interrupted`].
pub fn list_revisions_until(
    request: proto::ListRevisionsRequest,
    interrupt: &dyn Interrupt,
) -> Result<proto::ListRevisionsResponse, Error> {
    list_revisions_in(request, &mut Context::default(), interrupt)
}

/// Like [`list_revisions_until`], in a context.
pub(crate) fn list_revisions_in(
    request: proto::ListRevisionsRequest,
    context: &mut Context<'_>,
    interrupt: &dyn Interrupt,
) -> Result<proto::ListRevisionsResponse, Error> {
    let proto::ListRevisionsRequest { snapshot } = request;
    let mut parser = Parser::new(interrupt);
    let subject = read_snapshot(snapshot, Kinds::Revisions, context, &mut parser)?;
    let revisions = match parser.finish(subject)? {
        Some(Subject::Workload(workload)) => {
            controller_revision::list_controller_revisions_until(&workload, interrupt)?
        }
        subject => rollplan_core::list_revisions_until(&deployment(subject)?, interrupt)?,
    };
    let answer = print_revisions(revisions);
    interrupt.check()?;
    Ok(answer)
}

/// The snapshot of a Deployment.
fn deployment(subject: Option<Subject>) -> Result<Snapshot, Error> {
    match subject {
        Some(Subject::Deployment(snapshot)) => Ok(*snapshot),
        // Without violations, the owner was read, and objects of other kinds are read on request only.
        _ => Err(Error::InvalidArgument(Violations::default())),
    }
}

/// Reads a snapshot without a request.
///
/// # Errors
///
/// See [`plan_rollout`].
pub fn parse_snapshot(snapshot: Option<proto::Snapshot>) -> Result<Snapshot, Error> {
    let mut parser = Parser::new(&Never);
    let context = &mut Context::default();
    let subject = read_snapshot(snapshot, Kinds::Deployments, context, &mut parser)?;
    parser.finish(subject).and_then(deployment)
}

/// The options for the calls of a plan.
struct Calls {
    /// The plural name of the owner's resource. Empty if the request has none.
    resource: String,
    /// Whether events are returned as calls, too.
    events: bool,
}

// === impl Calls ===

impl Calls {
    fn of(snapshot: Option<&proto::Snapshot>, options: Option<&proto::PlanOptions>) -> Self {
        let target = snapshot.and_then(|snapshot| snapshot.target.as_ref());
        Self {
            resource: target.map_or_else(String::new, |target| target.resource.clone()),
            events: options.is_some_and(|options| options.events_as_calls),
        }
    }

    fn complete(&self, steps: &mut [proto::Step], snapshot: &Snapshot) {
        path::use_resource(steps, &snapshot.deployment, &self.resource);
        path::validate_templates(steps, &snapshot.deployment);
        if self.events {
            event_calls::add(steps, snapshot);
        }
    }
}

/// Reads a selector in Kubernetes JSON. `None` if it is invalid.
pub(crate) fn parse_selector(json: &str) -> Option<LabelSelector> {
    let selector = read::read_all(&mut read::Json::new(json, &Never));
    parse::parse_selector(selector.ok()?)
}

/// Checks the size of an answer.
///
/// # Errors
///
/// [`Error::AnswerTooLarge`].
pub fn check_answer(answer: &impl Message) -> Result<(), Error> {
    let bytes = answer.encoded_len();
    if bytes > ANSWER_BYTES_MAX {
        return Err(Error::AnswerTooLarge {
            bytes,
            max: ANSWER_BYTES_MAX,
        });
    }
    Ok(())
}

/// Like [`plan_rollout`], with an encoded `PlanRolloutRequest` and `PlanRolloutResponse`.
///
/// # Errors
///
/// See [`plan_rollout`]; also [`Error::Undecodable`].
pub fn plan_rollout_bytes(request: &[u8]) -> Result<Vec<u8>, Error> {
    plan_rollout_bytes_until(Bytes::copy_from_slice(request), &Never)
}

/// Like [`plan_rollout_bytes`], but can be interrupted.
///
/// # Errors
///
/// See [`plan_rollout_bytes`]; also [`Error::Interrupted`].
pub fn plan_rollout_bytes_until(
    request: Bytes,
    interrupt: &dyn Interrupt,
) -> Result<Vec<u8>, Error> {
    let request = decode_request(request, interrupt)?;
    Ok(plan_rollout_until(request, interrupt)?.encode_to_vec())
}

/// Like [`compute_status`], with an encoded `ComputeStatusRequest` and `ComputeStatusResponse`.
///
/// # Errors
///
/// See [`plan_rollout`]; also [`Error::Undecodable`].
pub fn compute_status_bytes(request: &[u8]) -> Result<Vec<u8>, Error> {
    let request = decode_request(Bytes::copy_from_slice(request), &Never)?;
    Ok(compute_status(request)?.encode_to_vec())
}

/// Decodes a request, unless it is too large, encoded or decoded.
fn decode_request<M: Message + Name + Default>(
    encoded: Bytes,
    interrupt: &dyn Interrupt,
) -> Result<M, Error> {
    if encoded.len() > REQUEST_BYTES_MAX {
        return Err(Error::TooLarge {
            what: "request",
            unit: "bytes",
            count: encoded.len(),
            max: REQUEST_BYTES_MAX,
        });
    }
    admission::memory(&M::full_name(), &encoded, interrupt)?;
    decode(encoded, interrupt)
}

/// Decodes a message whose memory has been checked.
pub(crate) fn decode<M: Message + Name + Default>(
    encoded: Bytes,
    interrupt: &dyn Interrupt,
) -> Result<M, Error> {
    let decoded = M::decode(Interruptible::new(encoded, interrupt));
    interrupt.check()?;
    decoded.map_err(|source| Error::Undecodable {
        message: M::NAME,
        source,
    })
}

fn plan(
    snapshot: &Snapshot,
    options: Options,
    horizon: Horizon,
    interrupt: &dyn Interrupt,
) -> Result<Plan, Interrupted> {
    match horizon {
        Horizon::Settled => rollplan_core::plan_settled_until(snapshot, options, interrupt),
        Horizon::Pass => rollplan_core::plan_pass_until(snapshot, options, interrupt),
    }
}
