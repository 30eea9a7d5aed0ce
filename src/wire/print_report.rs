//! Converts reports to protobuf messages.

use rollplan_health::explain::{BlockedPod, Blocker, Log};
use rollplan_health::judge::{Outlook, Verdict};
use rollplan_health::report::{Counter, Phase, Reason, Report, RolloutCounts};

use super::print_time::{duration, timestamp};
use crate::proto;

/// Converts a report.
#[must_use]
pub fn print_report(report: Report) -> proto::RolloutReport {
    let Report {
        phase,
        message,
        counts,
        counters,
        is_generic,
        is_observed,
        reasons,
        blockers,
        revision,
        replica_set,
        deadline,
        verdict,
    } = report;
    proto::RolloutReport {
        phase: match phase {
            Phase::Progressing => proto::Phase::Progressing,
            Phase::Complete => proto::Phase::Complete,
            Phase::Paused => proto::Phase::Paused,
            Phase::Stalled => proto::Phase::Stalled,
            Phase::Deleting => proto::Phase::Deleting,
            Phase::Refused => proto::Phase::Refused,
            Phase::Degraded => proto::Phase::Degraded,
            Phase::NotJudged => proto::Phase::NotJudged,
        }
        .into(),
        message,
        counts: counts.map(print_counts),
        reasons: reasons.into_iter().map(print_reason).collect(),
        blockers: blockers.into_iter().map(blocker).collect(),
        revision,
        replica_set,
        deadline: deadline.map(timestamp),
        verdict: Some(print_verdict(verdict)),
        counters: counters.into_iter().map(counter).collect(),
        generic: is_generic,
        observed: is_observed,
    }
}

fn print_verdict(verdict: Verdict) -> proto::Verdict {
    let Verdict {
        outlook,
        is_certain,
        reason,
        message,
        decided_after,
        remedy,
        since,
        is_final,
        is_reported,
        awaits_user,
        is_open_ended,
        event_selectors,
    } = verdict;
    proto::Verdict {
        outlook: match outlook {
            Outlook::Complete => proto::Outlook::Complete,
            Outlook::CompletesByItself => proto::Outlook::CompletesByItself,
            Outlook::NeedsChange => proto::Outlook::NeedsChange,
            Outlook::Undecided => proto::Outlook::Undecided,
            Outlook::NotJudged => proto::Outlook::NotJudged,
        }
        .into(),
        certain: is_certain,
        reason: reason.to_owned(),
        message,
        decided_after: decided_after.map(timestamp),
        remedy,
        since: since.map(timestamp),
        r#final: is_final,
        reported: is_reported,
        awaits_user,
        open_ended: is_open_ended,
        event_selectors: owned(event_selectors),
    }
}

pub(super) fn owned(texts: Vec<&str>) -> Vec<String> {
    texts.into_iter().map(str::to_owned).collect()
}

fn counter(Counter { name, value }: Counter) -> proto::Counter {
    proto::Counter {
        name: name.to_owned(),
        value,
    }
}

fn print_counts(counts: RolloutCounts) -> proto::Counts {
    let RolloutCounts {
        desired,
        total,
        updated,
        ready,
        available,
        unavailable,
        terminating,
        max_total,
        min_available,
        max_total_arithmetic,
        min_available_arithmetic,
    } = counts;
    proto::Counts {
        desired,
        total,
        updated,
        ready,
        available,
        unavailable,
        terminating,
        max_total,
        min_available,
        max_total_arithmetic,
        min_available_arithmetic,
    }
}

fn print_reason(reason: Reason) -> proto::Reason {
    let Reason { reason, message } = reason;
    proto::Reason {
        reason: reason.to_owned(),
        message,
    }
}

fn blocker(blocker: Blocker) -> proto::Blocker {
    let Blocker {
        cause,
        message,
        remedy,
        pods,
        pod_count,
        since,
        remaining,
    } = blocker;
    proto::Blocker {
        reason: cause.as_str().to_owned(),
        message,
        remedy,
        pods: pods.into_iter().map(blocked_pod).collect(),
        // A request has far fewer pods than `i32::MAX`.
        pod_count: i32::try_from(pod_count).unwrap_or(i32::MAX),
        since: since.map(timestamp),
        remaining: remaining.map(duration),
    }
}

fn blocked_pod(pod: BlockedPod) -> proto::BlockedPod {
    let BlockedPod {
        name,
        container,
        reason,
        message,
        restarts,
        since,
        log,
    } = pod;
    proto::BlockedPod {
        name,
        container,
        reason,
        message,
        restarts,
        since: since.map(timestamp),
        log: match log {
            None => proto::ContainerLog::Unspecified,
            Some(Log::Current) => proto::ContainerLog::Current,
            Some(Log::Previous) => proto::ContainerLog::Previous,
        }
        .into(),
    }
}
