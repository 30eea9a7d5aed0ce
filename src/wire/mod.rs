//! Protobuf ⇄ planner, and the only place that knows both.
//!
//! A request is parsed once: into what the planner reads, or into an error that lists everything that is wrong
//! with it. Pod templates stay in the bytes they came in. [`plan_rollout`] and [`compute_status`] answer
//! messages, [`plan_rollout_bytes`] and [`compute_status_bytes`] encoded ones; no server is needed for either.

mod error;
pub mod estimate;
mod event_calls;
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
pub use print::{print_plan, print_status, print_step};
pub use print_report::print_report;
pub use print_revision::{print_revisions, print_rollback};
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

/// Bytes that an encoded request may have.
pub const REQUEST_BYTES_MAX: usize = 16 << 20;

/// Bytes that an encoded answer may have over the network: what clients take unless told otherwise.
pub const ANSWER_BYTES_MAX: usize = 4 << 20;

/// The next writes for one Deployment.
///
/// # Errors
///
/// [`Error::InvalidArgument`] with everything that is wrong with the request, [`Error::TooLarge`] beyond the
/// limits of the contract. A rollout that is blocked or done is not an error.
pub fn plan_rollout(
    request: proto::PlanRolloutRequest,
) -> Result<proto::PlanRolloutResponse, Error> {
    plan_rollout_until(request, &Never)
}

/// [`plan_rollout`], unless it is interrupted.
///
/// # Errors
///
/// As [`plan_rollout`], and [`Error::Interrupted`].
pub fn plan_rollout_until(
    request: proto::PlanRolloutRequest,
    interrupt: &dyn Interrupt,
) -> Result<proto::PlanRolloutResponse, Error> {
    plan_request_until(request.into(), interrupt)
}

/// [`plan_rollout_until`] of a request that may be decoded in part.
pub(crate) fn plan_request_until(
    request: PlanRequest,
    interrupt: &dyn Interrupt,
) -> Result<proto::PlanRolloutResponse, Error> {
    plan_shown_until(request, None, interrupt)
}

/// [`plan_request_until`], with what the objects show if that is asked for.
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
    let reports = plan_request::reports(snapshot.as_ref(), options.as_ref());
    let (snapshot, options, horizon) = match (shown, reports) {
        (Some(shown), _) => parse::shown_request(snapshot, shown, options, interrupt)?,
        (None, true) => parse::request(snapshot, options, interrupt)?,
        (None, false) => parse::lean_request(snapshot, lean_pods, options, interrupt)?,
    };
    let plan = plan(&snapshot, options, horizon, interrupt)?;
    let report = match reports {
        true => {
            let diagnosis = diagnose_until(&snapshot, options, interrupt)?;
            Some(report(&diagnosis, &plan.status, &plan.steps))
        }
        false => None,
    };
    let mut answer = print::print_plan_until(plan, report, interrupt);
    calls.complete(&mut answer.steps, &snapshot);
    if !snapshot.replica_sets_complete {
        answer.status = None;
    }
    interrupt.check()?;
    Ok(answer)
}

/// The status of one Deployment, or of an object of another kind, no write being made.
///
/// # Errors
///
/// As [`plan_rollout`].
pub fn compute_status(
    request: proto::ComputeStatusRequest,
) -> Result<proto::ComputeStatusResponse, Error> {
    compute_status_until(request, &Never)
}

/// [`compute_status`], unless it is interrupted.
///
/// # Errors
///
/// As [`compute_status`], and [`Error::Interrupted`].
pub fn compute_status_until(
    request: proto::ComputeStatusRequest,
    interrupt: &dyn Interrupt,
) -> Result<proto::ComputeStatusResponse, Error> {
    compute_shown_status_until(request, None, interrupt)
}

/// [`compute_status_until`], with what the objects show if that is asked for.
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

/// A rollback to an earlier revision.
///
/// # Errors
///
/// As [`plan_rollout`], and [`Error::Rollback`] where a rollback is impossible.
pub fn rollback(request: proto::RollbackRequest) -> Result<proto::RollbackResponse, Error> {
    rollback_until(request, &Never)
}

/// [`rollback`], unless it is interrupted.
///
/// # Errors
///
/// As [`rollback`], and [`Error::Interrupted`].
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
    let mut answer = print_revision::print_rollback_until(rollback?, interrupt);
    calls.complete(&mut answer.steps, &snapshot);
    interrupt.check()?;
    Ok(answer)
}

/// The revisions of one Deployment.
///
/// # Errors
///
/// As [`plan_rollout`].
pub fn list_revisions(
    request: proto::ListRevisionsRequest,
) -> Result<proto::ListRevisionsResponse, Error> {
    list_revisions_until(request, &Never)
}

/// [`list_revisions`], unless it is interrupted.
///
/// # Errors
///
/// As [`list_revisions`], and [`Error::Interrupted`].
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

/// What a request says about the calls of its plan.
struct Calls {
    /// The plural name of the owner's resource. Empty if it is not given.
    resource: String,
    /// Whether events are calls too.
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

/// Whether an answer may be sent.
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

/// [`plan_rollout`] on an encoded `PlanRolloutRequest`, giving an encoded `PlanRolloutResponse`.
///
/// # Errors
///
/// As [`plan_rollout`], and [`Error::Undecodable`].
pub fn plan_rollout_bytes(request: &[u8]) -> Result<Vec<u8>, Error> {
    plan_rollout_bytes_until(request, &Never)
}

/// [`plan_rollout_bytes`], unless it is interrupted.
///
/// # Errors
///
/// As [`plan_rollout_bytes`], and [`Error::Interrupted`].
pub fn plan_rollout_bytes_until(
    request: &[u8],
    interrupt: &dyn Interrupt,
) -> Result<Vec<u8>, Error> {
    check_request::<proto::PlanRolloutRequest>(request, interrupt)?;
    let request = Encoded::new(Bytes::copy_from_slice(request));
    let answer = plan_request_until(PlanRequest::decode(request, interrupt)?, interrupt)?;
    Ok(answer.encode_to_vec())
}

/// [`compute_status`] on an encoded `ComputeStatusRequest`, giving an encoded `ComputeStatusResponse`.
///
/// # Errors
///
/// As [`plan_rollout`], and [`Error::Undecodable`].
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

/// Refuses a request that is too large, or would be once it is decoded.
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

/// A message that has been found not to take too much memory. Pod templates in it are slices of `encoded`.
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
