//! Converts between protobuf messages and the planner's types. No other module knows both.
//!
//! A request is parsed once: either to the planner's types, or to an error with all violations. Pod templates remain
//! encoded. [`plan_rollout`] and [`compute_status`] take messages, [`plan_rollout_bytes`] and [`compute_status_bytes`]
//! encoded messages. Neither needs a server.

mod error;
pub mod estimate;
mod event_calls;
mod fields;
mod interruptible;
pub mod json;
mod limits;
pub(crate) mod objects;
mod origin;
mod parse;
mod path;
mod plain_json;
mod plan_request;
mod print;
mod print_report;
mod print_revision;
mod print_time;
#[cfg(test)]
mod random;
mod restart;
mod tree;

pub use error::{Error, LISTED_VIOLATIONS_MAX, Reason, Violation, Violations};
pub use limits::{
    ANSWERS_MAX, CONFIGURATIONS_MAX, EVENTS_MAX, EXPRESSIONS_MAX, PODS_MAX, REPLICA_SETS_MAX,
    VALUES_MAX, WORKLOADS_MAX,
};
pub(crate) use objects::Shown;
pub use objects::{OBJECTS_MAX, ObjectsSummary, summarize_objects};
pub(crate) use parse::is_object_name;
pub use parse::selector::parse_selector;
pub use parse::{Horizon, parse_options, parse_snapshot};
pub(crate) use plan_request::PlanRequest;
pub use plan_request::{Encoded, EncodedPlanRequest};
pub use print::{print_status, print_step};
pub use print_report::print_report;
pub use print_revision::print_revisions;
pub use restart::{plan_restarts, plan_restarts_until};

use bytes::Bytes;
use interruptible::Interruptible;
use objects::Subject;
use prost::{Message, Name};
use rollplan_core::Plan;
use rollplan_core::diagnosis::diagnose_until;
use rollplan_core::interrupt::{Interrupt, Interrupted, Never};
use rollplan_core::report::report;
use rollplan_core::snapshot::{Options, Snapshot};

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
    plan_request_until(request.into(), interrupt)
}

/// Like [`plan_rollout_until`], for a partially decoded request.
pub(crate) fn plan_request_until(
    request: PlanRequest,
    interrupt: &dyn Interrupt,
) -> Result<proto::PlanRolloutResponse, Error> {
    plan_shown_until(request, None, interrupt)
}

/// Like [`plan_request_until`]. With `shown`, the owner and the complete lists are inferred from the objects.
pub(crate) fn plan_shown_until(
    request: PlanRequest,
    shown: Option<&mut Shown>,
    interrupt: &dyn Interrupt,
) -> Result<proto::PlanRolloutResponse, Error> {
    let PlanRequest {
        message: proto::PlanRolloutRequest { snapshot, options },
        lean_pods,
    } = request;
    let calls = Calls::of(snapshot.as_ref(), options.as_ref());
    let has_report = plan_request::has_report(snapshot.as_ref(), options.as_ref());
    let (snapshot, options, horizon) = match (shown, has_report) {
        (Some(shown), _) => parse::shown_request(snapshot, shown, options, interrupt)?,
        (None, true) => parse::request(snapshot, options, interrupt)?,
        (None, false) => parse::lean_request(snapshot, lean_pods, options, interrupt)?,
    };
    let plan = plan(&snapshot, options, horizon, interrupt)?;
    let report = match has_report {
        true => {
            let diagnosis = diagnose_until(&snapshot, options, interrupt)?;
            Some(report(&diagnosis, &plan.status, &plan.steps))
        }
        false => None,
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
    compute_shown_status_until(request, None, interrupt)
}

/// Like [`compute_status_until`]. With `shown`, the owner and the complete lists are inferred from the objects.
pub(crate) fn compute_shown_status_until(
    request: proto::ComputeStatusRequest,
    shown: Option<&mut Shown>,
    interrupt: &dyn Interrupt,
) -> Result<proto::ComputeStatusResponse, Error> {
    let proto::ComputeStatusRequest {
        mut snapshot,
        options,
        previous_verdict,
        fail_on,
    } = request;
    let subject = match &mut snapshot {
        Some(snapshot) => objects::read_subject(snapshot, shown, interrupt),
        None => Ok(Subject::Deployment(None)),
    };
    let origins = match subject {
        Ok(Subject::Workload(workload)) => {
            let now = snapshot.and_then(|snapshot| snapshot.now);
            let (observed, judgement) = parse::workload(
                *workload,
                now,
                options,
                previous_verdict,
                fail_on,
                interrupt,
            )?;
            let report = rollplan_core::kinds::report_until(&observed, judgement, interrupt)?;
            return Ok(proto::ComputeStatusResponse {
                status: None,
                report: Some(print_report(report)),
                object: Some(print::observed_reference(&observed)),
            });
        }
        Ok(Subject::Deployment(origins)) => Ok(origins),
        Err(error) => Err(error),
    };
    let (snapshot, options) = parse::status(
        snapshot,
        origins,
        options,
        previous_verdict,
        fail_on,
        interrupt,
    )?;
    let status = rollplan_core::compute_status_until(&snapshot, options, interrupt)?;
    let diagnosis = diagnose_until(&snapshot, options, interrupt)?;
    let report = report(&diagnosis, &status, &[]);
    let answer = proto::ComputeStatusResponse {
        status: snapshot.replica_sets_complete.then(|| print_status(status)),
        report: Some(print_report(report)),
        object: Some(print::object_reference(&snapshot.deployment)),
    };
    interrupt.check()?;
    Ok(answer)
}

/// Plans a rollback to an earlier revision.
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
    let proto::RollbackRequest {
        snapshot,
        to_revision,
        options,
    } = request;
    let calls = Calls::of(snapshot.as_ref(), options.as_ref());
    let snapshot = parse::rollback(snapshot, to_revision, options, interrupt)?;
    let rollback = rollplan_core::rollback_until(&snapshot, to_revision, interrupt)?;
    let mut answer = print_revision::print_rollback(rollback?, interrupt);
    calls.complete(&mut answer.steps, &snapshot);
    interrupt.check()?;
    Ok(answer)
}

/// Lists the revisions of a Deployment.
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
    let proto::ListRevisionsRequest { snapshot } = request;
    let (snapshot, _, _) = parse::request(snapshot, None, interrupt)?;
    let revisions = rollplan_core::list_revisions_until(&snapshot, interrupt)?;
    let answer = print_revisions(revisions);
    interrupt.check()?;
    Ok(answer)
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

/// Like [`plan_rollout_bytes`], but can be interrupted, and does not copy the request.
///
/// # Errors
///
/// See [`plan_rollout_bytes`]; also [`Error::Interrupted`].
pub fn plan_rollout_bytes_until(
    request: Bytes,
    interrupt: &dyn Interrupt,
) -> Result<Vec<u8>, Error> {
    check_request::<proto::PlanRolloutRequest>(&request, interrupt)?;
    let request = PlanRequest::decode(Encoded::new(request), interrupt)?;
    let answer = plan_request_until(request, interrupt)?;
    Ok(answer.encode_to_vec())
}

/// Like [`compute_status`], with an encoded `ComputeStatusRequest` and `ComputeStatusResponse`.
///
/// # Errors
///
/// See [`plan_rollout`]; also [`Error::Undecodable`].
pub fn compute_status_bytes(request: &[u8]) -> Result<Vec<u8>, Error> {
    Ok(compute_status(decode_request(request, &Never)?)?.encode_to_vec())
}

fn decode_request<M: Message + Name + Default>(
    encoded: &[u8],
    interrupt: &dyn Interrupt,
) -> Result<M, Error> {
    check_request::<M>(encoded, interrupt)?;
    decode(Bytes::copy_from_slice(encoded), interrupt)
}

/// Refuses a request that is too large, encoded or decoded.
fn check_request<M: Name>(encoded: &[u8], interrupt: &dyn Interrupt) -> Result<(), Error> {
    if encoded.len() > REQUEST_BYTES_MAX {
        return Err(Error::TooLarge {
            what: "request",
            unit: "bytes",
            count: encoded.len(),
            max: REQUEST_BYTES_MAX,
        });
    }
    estimate::estimate_named(&M::full_name(), encoded, interrupt).map(|_| ())
}

/// Decodes a message whose memory has been checked. Its pod templates are slices of `encoded`.
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
