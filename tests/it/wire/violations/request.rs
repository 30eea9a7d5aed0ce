//! The request itself: the time, the options, and sizes.

use prost_types::Timestamp;
use rollplan::wire::{self, Error, Reason};
use serde_json::json;

use super::Case;
use crate::request::{call, mk_request};

const YEAR_10000: i64 = 253_402_300_800;

fn at(seconds: i64, nanos: i32) -> Option<Timestamp> {
    Some(Timestamp { seconds, nanos })
}

pub(super) const CASES: &[Case] = &[
    (|r| r.snapshot.now = None, "snapshot.now", Reason::Required),
    (
        |r| r.snapshot.now = at(YEAR_10000, 0),
        "snapshot.now",
        Reason::OutOfRange,
    ),
    (
        |r| r.snapshot.now = at(0, -1),
        "snapshot.now",
        Reason::OutOfRange,
    ),
    (
        |r| r.snapshot.now = at(0, 1_000_000_000),
        "snapshot.now",
        Reason::OutOfRange,
    ),
    (
        |r| r.snapshot.now = at(i64::MIN, 0),
        "snapshot.now",
        Reason::OutOfRange,
    ),
    (
        |r| r.options.horizon = 9,
        "options.horizon",
        Reason::UnknownEnumValue,
    ),
    (
        |r| r.options.caps.get_or_insert_default().new_max = Some(-1),
        "options.caps.new_max",
        Reason::Negative,
    ),
    (
        |r| r.options.caps.get_or_insert_default().old_min = Some(-1),
        "options.caps.old_min",
        Reason::Negative,
    ),
];

#[test]
fn empty_request_lacks_a_snapshot() {
    let error = call("PlanRollout", b"").unwrap_err();
    assert_eq!(error.to_string(), "snapshot: is required");
    let error = call("ComputeStatus", b"").unwrap_err();
    assert_eq!(error.to_string(), "snapshot: is required");
}

#[test]
fn sizes_are_checked_before_contents() {
    let mut invalid = mk_request();
    invalid.meta()["generation"] = json!(-1);
    let mut request = invalid.clone();
    request.snapshot.answers = vec![Default::default(); 1_001];
    let error = rollplan::service::answer(request.message()).unwrap_err();
    let expected = "snapshot.answers: 1001 entries exceed the limit of 1000";
    assert_eq!(error.to_string(), expected);
    // The selector is evaluated for every object.
    for (count, values, max) in [(101, 1, 100), (10, 101, 1_000)] {
        let requirement = json!({"key": "app", "operator": "In", "values": vec!["web"; values]});
        let mut request = invalid.clone();
        request.spec()["selector"] = json!({"matchExpressions": vec![requirement; count]});
        let error = rollplan::service::answer(request.message()).unwrap_err();
        assert!(
            matches!(error, Error::TooLarge { max: limit, .. } if limit == max),
            "{error:?}"
        );
    }
    let bytes = vec![0; wire::REQUEST_BYTES_MAX + 1];
    let status = call("PlanRollout", &bytes).unwrap_err();
    let info = status.info().unwrap();
    assert_eq!(info.reason, "REQUEST_TOO_LARGE");
    assert_eq!(info.metadata["what"], "request");
}

#[test]
fn malformed_protobuf_is_refused() {
    let status = call("PlanRollout", b"\x0a\xff").unwrap_err();
    assert_eq!(status.reason(), Some("MALFORMED_REQUEST"));
    let expected = "cannot decode the request as PlanRolloutRequest: ";
    assert!(status.message.starts_with(expected), "{status}");
}
