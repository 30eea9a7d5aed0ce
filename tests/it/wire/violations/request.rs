//! The request itself: the time, the options, Kubernetes JSON in place of messages, and sizes.

use rollplan::proto;
use rollplan::wire::{self, Error, Reason};

use super::{Case, Change, Parts as _, YEAR_10000, at, mk_request};

pub(super) const CASES: &[Case] = &[
    (|r| r.snapshot = None, "snapshot", Reason::Required),
    (
        |r| r.snapshot().now = None,
        "snapshot.now",
        Reason::Required,
    ),
    (
        |r| r.snapshot().now = at(YEAR_10000, 0),
        "snapshot.now",
        Reason::OutOfRange,
    ),
    (
        |r| r.snapshot().now = at(0, -1),
        "snapshot.now",
        Reason::OutOfRange,
    ),
    (
        |r| r.snapshot().now = at(0, 1_000_000_000),
        "snapshot.now",
        Reason::OutOfRange,
    ),
    (
        |r| r.snapshot().now = at(i64::MIN, 0),
        "snapshot.now",
        Reason::OutOfRange,
    ),
    (
        |r| r.options.get_or_insert_default().horizon = 9,
        "options.horizon",
        Reason::UnknownEnumValue,
    ),
    (
        |r| {
            objects(r, "{}");
            r.snapshot().deployment = Some(proto::Deployment::default());
        },
        "snapshot.deployment",
        Reason::Exclusive,
    ),
    (
        |r| objects(r, r#"{"kind":"List","kind":"List"}"#),
        "snapshot.objects_json[0][\"kind\"]",
        Reason::DuplicateKey,
    ),
    (
        |r| objects(r, r#"{"kind":"List","items":[]}"#),
        "snapshot.objects_json",
        Reason::NotFound,
    ),
    (
        |r| {
            let text = r#"{"kind":"DeploymentList","apiVersion":"apps/v1","items":[{"spec":{"replicas":1.0}}]}"#;
            objects(r, text);
        },
        "snapshot.objects_json[0].items[0].spec.replicas",
        Reason::WrongType,
    ),
];

/// Replaces the objects by this text.
fn objects(request: &mut proto::PlanRolloutRequest, text: &'static str) {
    let snapshot = request.snapshot();
    snapshot.deployment = None;
    snapshot.replica_sets.clear();
    snapshot.pods.clear();
    snapshot.objects_json = vec![text.into()];
}

#[test]
fn empty_request_lacks_a_snapshot() {
    let error = wire::plan_rollout_bytes(b"").unwrap_err();
    assert_eq!(error.to_string(), "snapshot: is required");
    let error = wire::compute_status_bytes(b"").unwrap_err();
    assert_eq!(error.to_string(), "snapshot: is required");
}

#[test]
fn sizes_are_checked_before_contents() {
    let too_large = |change: Change| {
        let mut request = mk_request();
        change(&mut request);
        wire::plan_rollout(request).unwrap_err().to_string()
    };
    assert_eq!(
        too_large(|r| r.snapshot().replica_sets = vec![Default::default(); 10_001]),
        "snapshot.replica_sets: 10001 entries exceed the limit of 10000"
    );
    assert_eq!(
        too_large(|r| r.snapshot().pods = vec![Default::default(); 20_001]),
        "snapshot.pods: 20001 entries exceed the limit of 20000"
    );
    assert_eq!(
        too_large(|r| r.snapshot().answers = vec![Default::default(); 1_001]),
        "snapshot.answers: 1001 entries exceed the limit of 1000"
    );
    assert_eq!(
        too_large(|r| r.snapshot().events = vec![Default::default(); 20_001]),
        "snapshot.events: 20001 entries exceed the limit of 20000"
    );
    let bytes = vec![0; wire::REQUEST_BYTES_MAX + 1];
    let error = wire::plan_rollout_bytes(&bytes).unwrap_err();
    assert!(matches!(error, Error::TooLarge { count, .. } if count == bytes.len()));
}

#[test]
fn malformed_protobuf_is_refused() {
    let error = wire::plan_rollout_bytes(b"\x0a\xff").unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot decode the request as PlanRolloutRequest"
    );
}
