//! Protobuf ⇄ planner, and the only place that knows both.
//!
//! A request is parsed once: into what the planner reads, or into an error that lists everything that is wrong
//! with it. Pod templates stay in the bytes they came in. [`plan_rollout`] and [`compute_status`] answer
//! messages, [`plan_rollout_bytes`] and [`compute_status_bytes`] encoded ones; no server is needed for either.

mod error;
pub mod json;
mod parse;
mod print;
mod print_report;
mod print_revision;
mod raw_struct;
mod tree;
mod weigh;

pub use error::{Error, LISTED_VIOLATIONS_MAX, Reason, Violation, Violations};
pub use parse::{
    EXPRESSIONS_MAX, FAILURES_MAX, Horizon, PODS_MAX, REPLICA_SETS_MAX, VALUES_MAX, parse_options,
    parse_selector, parse_snapshot,
};
pub use print::{print_plan, print_status, print_step};
pub use print_report::print_report;
pub use print_revision::{print_revisions, print_rollback};
pub use raw_struct::RawStruct;
pub use weigh::DECODED_BYTES_MAX;

use bytes::Bytes;
use prost::{Message, Name};
use rollplan_core::Plan;
use rollplan_core::snapshot::{Options, Snapshot};
use weigh::weigh;

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
/// limits of the contract. A rollout that is blocked or done is no error.
pub fn plan_rollout(
    request: proto::PlanRolloutRequest,
) -> Result<proto::PlanRolloutResponse, Error> {
    let proto::PlanRolloutRequest { snapshot, options } = request;
    let (snapshot, options, horizon) = parse::request(snapshot, options)?;
    let plan = plan(&snapshot, options, horizon);
    let report = rollplan_core::report::report(&snapshot, options, &plan.status, &plan.steps);
    Ok(print_plan(plan, report))
}

/// The status of one Deployment, no write being made.
///
/// # Errors
///
/// As [`plan_rollout`].
pub fn compute_status(
    request: proto::ComputeStatusRequest,
) -> Result<proto::ComputeStatusResponse, Error> {
    let proto::ComputeStatusRequest { snapshot, options } = request;
    let (snapshot, options, _) = parse::request(snapshot, options)?;
    let status = rollplan_core::compute_status(&snapshot, options);
    let report = rollplan_core::report::report(&snapshot, options, &status, &[]);
    Ok(proto::ComputeStatusResponse {
        status: Some(print_status(status)),
        report: Some(print_report(report)),
    })
}

/// The way back to an earlier revision.
///
/// # Errors
///
/// As [`plan_rollout`], and [`Error::Rollback`] where there is no way back.
pub fn rollback(request: proto::RollbackRequest) -> Result<proto::RollbackResponse, Error> {
    let proto::RollbackRequest {
        snapshot,
        to_revision,
        options,
    } = request;
    let (snapshot, options) = parse::rollback(snapshot, to_revision, options)?;
    let rollback = rollplan_core::rollback(&snapshot, options, to_revision)?;
    Ok(print_rollback(rollback))
}

/// The revisions of one Deployment.
///
/// # Errors
///
/// As [`plan_rollout`].
pub fn list_revisions(
    request: proto::ListRevisionsRequest,
) -> Result<proto::ListRevisionsResponse, Error> {
    let proto::ListRevisionsRequest { snapshot } = request;
    let snapshot = parse_snapshot(snapshot)?;
    let revisions = rollplan_core::list_revisions(&snapshot, Options::default());
    Ok(print_revisions(revisions))
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
    Ok(plan_rollout(decode_request(request)?)?.encode_to_vec())
}

/// [`compute_status`] on an encoded `ComputeStatusRequest`, giving an encoded `ComputeStatusResponse`.
///
/// # Errors
///
/// As [`plan_rollout`], and [`Error::Undecodable`].
pub fn compute_status_bytes(request: &[u8]) -> Result<Vec<u8>, Error> {
    Ok(compute_status(decode_request(request)?)?.encode_to_vec())
}

fn decode_request<M: Message + Name + Default>(encoded: &[u8]) -> Result<M, Error> {
    if encoded.len() > REQUEST_BYTES_MAX {
        return Err(Error::TooLarge {
            what: "request",
            unit: "bytes",
            count: encoded.len(),
            max: REQUEST_BYTES_MAX,
        });
    }
    decode(Bytes::copy_from_slice(encoded))
}

/// A message, if it does not take too much memory. Pod templates in it are slices of `encoded`.
pub(crate) fn decode<M: Message + Name + Default>(encoded: Bytes) -> Result<M, Error> {
    weigh::<M>(&encoded)?;
    M::decode(encoded).map_err(|source| Error::Undecodable {
        message: M::NAME,
        source,
    })
}

fn plan(snapshot: &Snapshot, options: Options, horizon: Horizon) -> Plan {
    match horizon {
        Horizon::Settled => rollplan_core::plan_settled(snapshot, options),
        Horizon::Pass => rollplan_core::plan_pass(snapshot, options),
    }
}
