//! Verdicts after the progress deadline.

use rollplan_core::snapshot::Snapshot;
use rollplan_core::template::Value;
use rollplan_health::judge::Outlook;
use rollplan_health::report::Phase;
use rollplan_world::{at, mk_condition, now};

use super::scheduling::unschedulable;
use super::{both, missing_config, verdict};
use crate::report::{ready, reported, running, with_pods};

pub(crate) fn past_the_deadline(mut snapshot: Snapshot) -> Snapshot {
    let timed_out = mk_condition("Progressing", "False", "ProgressDeadlineExceeded", at(-5));
    // The published counters have not changed since: the rollout has made no progress.
    snapshot.deployment.status.replicas = 5;
    snapshot.deployment.status.updated_replicas = 2;
    snapshot.deployment.status.ready_replicas = 3;
    snapshot.deployment.status.available_replicas = 3;
    snapshot.deployment.status.conditions = vec![timed_out];
    snapshot
}

#[test]
fn passed_deadline_needs_a_change_unless_a_container_may_still_be_starting() {
    let found = reported(&past_the_deadline(unschedulable()));
    assert_eq!(found.phase, Phase::Stalled);
    assert_eq!(
        (found.verdict.outlook, found.verdict.is_certain),
        (Outlook::NeedsChange, false)
    );
    assert_eq!(found.verdict.reason, "UNSCHEDULABLE");
    let pending = reported(&past_the_deadline(missing_config(24))).verdict;
    assert_eq!(pending.since, Some(now()));
    // A startup probe of 30 minutes.
    let mut slow = past_the_deadline(both(&running(700)));
    let probe = Value::from([
        (
            "httpGet",
            Value::from([("path", Value::from("/up")), ("port", Value::from("http"))]),
        ),
        ("initialDelaySeconds", Value::from(60)),
        ("failureThreshold", Value::from(180)),
    ]);
    let port = Value::from([
        ("name", Value::from("http")),
        ("containerPort", Value::from(8080)),
    ]);
    let main = Value::from([
        ("name", Value::from("main")),
        ("image", Value::from("v2")),
        ("ports", Value::from(vec![port])),
        ("startupProbe", probe),
    ]);
    let spec = Value::from([("containers", Value::from(vec![main]))]);
    let labels = Value::from([("labels", Value::from([("app", "web")]))]);
    let template = Value::from([("metadata", labels), ("spec", spec)]);
    slow.deployment.spec.template = template.clone().into();
    slow.replica_sets[0].template = template.into();
    let started = |snapshot: &mut Snapshot, started: Option<bool>, restarts: i32| {
        let pods = snapshot.pods.iter().cloned().map(|mut pod| {
            pod.containers[0].started = started;
            pod.containers[0].restarts = restarts;
            pod
        });
        snapshot.pods = pods.collect();
    };
    started(&mut slow, Some(false), 0);
    let found = reported(&slow);
    assert_eq!(found.phase, Phase::Stalled);
    assert_eq!(found.verdict.outlook, Outlook::Undecided);
    assert!(
        found
            .verdict
            .message
            .ends_with("startup probe GET :8080/up has not passed yet, 19m20s left"),
        "{}",
        found.verdict.message
    );
    // Once it has passed the probe, it may become ready.
    for passed in [Some(true), None] {
        started(&mut slow, passed, 0);
        assert_eq!(verdict(&slow).outlook, Outlook::Undecided);
    }
    let mut late = slow.clone();
    late.now = late.now.plus_seconds(1800);
    assert_eq!(verdict(&late).outlook, Outlook::NeedsChange);
    // The probe has killed it once.
    started(&mut slow, Some(false), 1);
    assert_eq!(verdict(&slow).outlook, Outlook::NeedsChange);
}

#[test]
fn passed_deadline_needs_no_change_while_ready_pods_are_not_counted_as_available() {
    let outlook = |snapshot: &Snapshot, seconds: i64| {
        let mut snapshot = snapshot.clone();
        snapshot.now = snapshot.now.plus_seconds(seconds);
        let found = reported(&snapshot);
        assert_eq!(found.phase, Phase::Stalled);
        found.verdict.outlook
    };
    let mut snapshot = past_the_deadline(with_pods([ready("a", 5), ready("b", 700)]));
    assert_eq!(outlook(&snapshot, 0), Outlook::Undecided);
    assert_eq!(outlook(&snapshot, 54), Outlook::Undecided);
    assert_eq!(outlook(&snapshot, 55), Outlook::NeedsChange);
    snapshot.deployment.spec.min_ready_seconds = 30;
    assert_eq!(outlook(&snapshot, 84), Outlook::Undecided);
    assert_eq!(outlook(&snapshot, 85), Outlook::NeedsChange);
    let one = past_the_deadline(with_pods([ready("a", 5)]));
    assert_eq!(outlook(&one, 0), Outlook::NeedsChange, "a pod is missing");
}
