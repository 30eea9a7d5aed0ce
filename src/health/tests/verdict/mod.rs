//! Verdicts: stories are polled over time, and states are judged once. A persistent failure is certain soon after its grace
//! period, and a rollout that recovers earlier is never reported as failed.

mod callers;
mod configuration;
mod crashes;
mod deadline;
mod evidence;
mod images;
mod kubelet;
mod phases;
mod refusals;
mod scheduling;

pub(super) use self::configuration::missing_config;
pub(super) use self::crashes::crash;
pub(super) use self::deadline::past_the_deadline;

use std::sync::Arc;

use rollplan_core::compute_status;
use rollplan_core::snapshot::{Container, ContainerState, ObservedEvent, Options, Pod, Snapshot};
use rollplan_core::time::Time;
use rollplan_health::explain::Cause;
use rollplan_health::judge::class::{Class, Limit, Rules};
use rollplan_health::judge::{Outlook, Verdict, VerdictOptions};
use rollplan_health::observe::observe;
use rollplan_health::report::{Phase, Report, report};
use rollplan_world::at;

use crate::report::{condition, container, pod, reported, with_conditions, with_pods};

/// The polling interval of the stories, in seconds.
const INTERVAL: i64 = 2;

/// The maximum length of a story that is not decided, in seconds.
const LONGEST: i64 = 1200;

fn judged(snapshot: &Snapshot, options: VerdictOptions) -> Report {
    let status = compute_status(snapshot, Options::default());
    report(
        &observe(snapshot, options),
        Options::default(),
        &status,
        &[],
    )
}

pub(super) fn verdict(snapshot: &Snapshot) -> Verdict {
    reported(snapshot).verdict
}

fn with_rule(class: Class, limit: Limit) -> VerdictOptions {
    VerdictOptions {
        rules: Rules::default().with(class, limit),
        previous: None,
    }
}

/// Polls a story with a clock that is `skew` seconds ahead of the cluster, and returns the time of the decision.
#[track_caller]
fn decided_by(story: &impl Fn(i64) -> Snapshot, skew: i64, feeds_back: bool) -> Option<i64> {
    let polls = (0..=LONGEST).step_by(INTERVAL as usize);
    decided_at(polls, VerdictOptions::default(), story, skew, feeds_back)
}

/// Polls a story at these times.
#[track_caller]
fn decided_at(
    polls: impl Iterator<Item = i64>,
    mut options: VerdictOptions,
    story: &impl Fn(i64) -> Snapshot,
    skew: i64,
    feeds_back: bool,
) -> Option<i64> {
    let mut promised: Option<Time> = None;
    let mut previous = None;
    for seconds in polls {
        let interval = seconds - previous.unwrap_or(seconds);
        previous = Some(seconds);
        let mut snapshot = story(seconds);
        snapshot.now = at(seconds + skew);
        let Report { verdict, phase, .. } = judged(&snapshot, options);
        if verdict.outlook == Outlook::NeedsChange && verdict.is_certain {
            assert_eq!(phase, Phase::Stalled);
            assert_ne!(verdict.reason, "");
            if let Some(promised) = promised.filter(|_| feeds_back) {
                let now = snapshot.now;
                assert!(
                    now <= promised.plus_seconds(interval),
                    "{now} instead of {promised}"
                );
            }
            return Some(seconds);
        }
        assert_ne!(phase, Phase::Stalled, "{verdict:?}");
        promised = verdict.decided_after;
        if feeds_back {
            let cause = Cause::from_reason(verdict.reason);
            options.previous = cause.zip(verdict.since);
        }
    }
    None
}

/// Checks the time of the decision for clocks with different skews.
#[track_caller]
pub(super) fn check_decided(story: impl Fn(i64) -> Snapshot, from: i64, to: i64) {
    for skew in [0, -300, 300] {
        let decided = decided_by(&story, skew, true);
        let is_expected = decided.is_some_and(|decided| (from..=to).contains(&decided));
        assert!(
            is_expected,
            "decided after {decided:?} with a skew of {skew}"
        );
    }
}

/// Checks that a story is never failed, for clocks with different skews, and with or without the previous verdict.
#[track_caller]
pub(super) fn check_never(story: impl Fn(i64) -> Snapshot) {
    for skew in [0, -300, 300] {
        for feeds_back in [true, false] {
            assert_eq!(decided_by(&story, skew, feeds_back), None, "skew {skew}");
        }
    }
}

fn event(uid: &str, reason: &str, message: &str, first: i64, last: i64) -> ObservedEvent {
    ObservedEvent {
        object_uid: uid.to_owned(),
        field_path: String::new(),
        kind: "Warning".to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        count: if first == last { 1 } else { 2 },
        first: Some(at(first)),
        last: Some(at(last)),
    }
}

/// A new pod that was created and scheduled at 0.
pub(super) fn young(name: &str, containers: Vec<Container>) -> Pod {
    let mut pod = with_conditions(
        pod(name, "Pending", containers),
        vec![condition("PodScheduled", "True", "", "", 0)],
    );
    pod.metadata.creation_timestamp = Some(at(0));
    pod.start_time = Some(at(0));
    pod
}

/// The two new pods with the same container.
fn both(state: &ContainerState) -> Snapshot {
    with_pods(["a", "b"].map(|name| young(name, vec![container(state.clone())])))
}

fn without_events(mut snapshot: Snapshot) -> Snapshot {
    snapshot.events = Arc::new([]);
    snapshot
}
