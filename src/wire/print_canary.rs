//! Converts plans of canaries to protobuf messages.

use rollplan_canary::{CanaryStep, FIELD_MANAGER, Outcome, Phase, Plan, Reason, Report};

use super::path::OwnerResource;
use super::print::api_call;
use super::print_report::owned;
use super::print_time::{duration, timestamp};
use crate::proto;

/// Converts a plan to a response.
#[must_use]
pub fn print_canary(plan: Plan) -> proto::PlanCanaryResponse {
    let Plan {
        step,
        report,
        requeue_after,
    } = plan;
    proto::PlanCanaryResponse {
        steps: step.into_iter().map(print_step).collect(),
        report: Some(print_report(report)),
        requeue_after: requeue_after.map(duration),
    }
}

fn print_step(step: CanaryStep) -> proto::Step {
    let CanaryStep { summary, call } = step;
    proto::Step {
        summary,
        call: Some(proto::ApiCall {
            query: format!("fieldManager={FIELD_MANAGER}"),
            ..api_call(call, &OwnerResource::DEPLOYMENT)
        }),
        on_failure: proto::OnFailure::Stop.into(),
        ..proto::Step::default()
    }
}

fn print_report(report: Report) -> proto::CanaryReport {
    let Report {
        phase,
        outcome,
        message,
        reasons,
        template_digest,
        stable_digest,
        rejected_digests,
        since,
        pods_wanted,
        pods_available,
        stable_pods_available,
        available_min,
        pods_max,
        abort_waits,
        event_selectors,
        command_pending,
        pipeline,
        step,
        steps,
    } = report;
    let phase = match phase {
        Phase::Rest => proto::CanaryPhase::Rest,
        Phase::Hold => proto::CanaryPhase::Hold,
        Phase::Promoting => proto::CanaryPhase::Promoting,
        Phase::Aborting => proto::CanaryPhase::Aborting,
        Phase::Done => proto::CanaryPhase::Done,
        Phase::Aborted => proto::CanaryPhase::Aborted,
    };
    let outcome = match outcome {
        None => proto::CanaryOutcome::Unspecified,
        Some(Outcome::Undecided) => proto::CanaryOutcome::Undecided,
        Some(Outcome::Good) => proto::CanaryOutcome::Good,
        Some(Outcome::Failed) => proto::CanaryOutcome::Failed,
        Some(Outcome::TimedOut) => proto::CanaryOutcome::TimedOut,
    };
    proto::CanaryReport {
        phase: phase.into(),
        outcome: outcome.into(),
        message,
        reasons: reasons.into_iter().map(print_reason).collect(),
        template_digest,
        stable_digest,
        rejected_digests,
        since: since.map(timestamp),
        pods_wanted,
        pods_available,
        stable_pods_available,
        available_min,
        pods_max,
        abort_waits,
        event_selectors: owned(event_selectors),
        command_pending,
        pipeline: pipeline.unwrap_or_default(),
        step,
        steps,
    }
}

fn print_reason(reason: Reason) -> proto::Reason {
    let Reason { kind, message } = reason;
    proto::Reason {
        reason: kind.as_str().to_owned(),
        message,
    }
}
