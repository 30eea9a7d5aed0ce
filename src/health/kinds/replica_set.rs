//! ReplicaSets.

use super::observed::{ObservedObject, counters, explained, phase_of};
use crate::explain::{Blocker, Cause};
use crate::judge::failure::Group;
use crate::messages::refusal;
use crate::observe::pod::condition;
use crate::observe::pod::was_ready;
use crate::report::{Phase, Report};
use crate::text::{agree, count, share, word};

/// The fields of a ReplicaSet that a report uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicaSetView {
    /// `spec.replicas`.
    pub replicas: i32,
    /// `status.replicas`.
    pub existing: i32,
    /// `status.fullyLabeledReplicas`.
    pub labeled: i32,
    /// `status.readyReplicas`.
    pub ready: i32,
    /// `status.availableReplicas`.
    pub available: i32,
}

pub(super) fn report(set: &ReplicaSetView, object: &ObservedObject<'_>) -> Report {
    let rows = counters([
        ("desired", set.replicas),
        ("total", set.existing),
        ("ready", set.ready),
        ("available", set.available),
    ]);
    let refused = object.true_condition("ReplicaFailure").map(|condition| {
        let message = format!("the API server rejects the pods{}", explained(condition));
        let remedy = if object.pods_terminate() {
            String::new()
        } else {
            refusal::remedy(
                &condition.message,
                &word(&object.snapshot.metadata.namespace),
            )
        };
        let mut blocker = Blocker::new(Cause::PodsRefused, message, remedy);
        blocker.since = condition.last_transition_time;
        blocker
    });
    let is_sized = set.existing == set.replicas && set.labeled >= set.replicas;
    if is_sized && set.available >= set.replicas && set.ready >= set.replicas && refused.is_none() {
        let what = format!(
            "is complete ({})",
            share(set.available, set.replicas, "available")
        );
        return object.complete(&what, rows);
    }
    let explanations = if set.available >= set.replicas {
        Vec::new()
    } else {
        object.context.explain_all(object.snapshot.pods.iter())
    };
    let mut blockers = object.context.blockers(&explanations, set.replicas.into());
    blockers.extend(refused);
    if blockers.is_empty() {
        blockers.push(unexplained(set));
    }
    blockers.sort_by_key(|blocker| blocker.cause);
    let is_ready = |pod| condition(pod, "Ready").is_some_and(|ready| ready.status == "True");
    let group = Group {
        existing: set.existing.into(),
        has_ready: set.ready > 0 || object.snapshot.pods.iter().any(is_ready),
        makes_room: object.pods_terminate(),
    };
    let verdict = object.judge(&blockers, &explanations, &group);
    let is_degraded = is_sized
        && explanations
            .iter()
            .any(|explanation| was_ready(explanation.pod));
    let phase = phase_of(
        &verdict,
        if is_degraded {
            Phase::Degraded
        } else {
            Phase::Progressing
        },
    );
    let state = match phase {
        Phase::Stalled => "is stalled",
        Phase::Degraded => "is degraded",
        _ => "is not complete",
    };
    let available = share(set.available, set.replicas, "available");
    let what = format!("{state} ({available})");
    object.report(phase, what, blockers, verdict, rows)
}

fn unexplained(set: &ReplicaSetView) -> Blocker {
    let extra = i64::from(set.existing) - i64::from(set.replicas);
    let missing = i64::from(set.replicas) - i64::from(set.available);
    let message = if extra > 0 {
        format!("{} still to be removed", agree(count(extra, "pod"), extra))
    } else if missing > 0 {
        format!(
            "{} not available yet",
            agree(count(missing, "pod"), missing)
        )
    } else {
        "some pods do not have the labels of the template".to_owned()
    };
    Blocker::new(Cause::NotAvailable, message, "")
}
