//! Times of the reports on StatefulSets, for clients that poll. `tests/stories/statefulsets.md` has their states.

use prost_types::Timestamp;
use rollplan::proto::{self, Outlook};
use serde_json::json;

use super::{START, at, listed, no_image, pod, ready, report, request, stateful_set};

/// kubernetes/kubernetes#67250: the fix of a broken pod does not replace it.
#[test]
fn broken_old_pod_that_blocks_its_own_fix_is_reported() {
    let set = stateful_set(
        json!({}),
        json!({"readyReplicas": 2, "availableReplicas": 2, "updatedReplicas": 0,
        "currentRevision": "web-old", "updateRevision": "web-new"}),
    );
    let pods = [
        pod("web-0", &set, "web-old", "n", ready()),
        pod("web-1", &set, "web-old", "n", ready()),
        pod("web-2", &set, "web-broken", "n", no_image()),
    ];
    let verdict = report(600, &set, &pods).verdict.unwrap();
    assert_eq!(verdict.since.unwrap().seconds, START + 600);
    // Within the grace period of the failure, it is undecided. With the previous verdict, it is decided in time.
    let mut ask = request(20, &set, &pods);
    let early = rollplan::service::answer(ask.clone())
        .unwrap()
        .report
        .unwrap();
    let verdict = early.verdict.unwrap();
    assert_eq!(
        (verdict.outlook(), verdict.certain),
        (Outlook::Undecided, false)
    );
    assert_eq!(verdict.decided_after.unwrap().seconds, START + 20 + 240);
    ask.previous_verdict = Some(proto::Verdict { ..verdict });
    let snapshot = ask.snapshot.as_mut().unwrap();
    snapshot.now = Some(Timestamp {
        seconds: START + 150,
        nanos: 0,
    });
    let decided = rollplan::service::answer(ask)
        .unwrap()
        .report
        .unwrap()
        .verdict
        .unwrap();
    assert!(decided.certain, "{decided:?}");
}

#[test]
fn pod_whose_grace_period_ends_now_is_past_it() {
    let set = stateful_set(
        json!({}),
        json!({"readyReplicas": 2, "availableReplicas": 2}),
    );
    let of = |seconds: i64| {
        let mut pod = pod("web-2", &set, "web-new", "n", ready());
        pod["metadata"]["deletionTimestamp"] = json!(at(seconds));
        report(60, &set, &[pod]).blockers.remove(0)
    };
    let ended = of(60);
    assert_eq!(ended.remaining, None);
    assert_eq!(ended.pods[0].since.as_ref().unwrap().seconds, START + 60);
    assert_eq!(listed(&ended), [("web-2", "Terminating")]);
    assert_eq!(of(61).pods[0].since, None);
    assert_eq!(of(61).remaining.unwrap().seconds, 1);
}
