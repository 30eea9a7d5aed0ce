//! Bytes, as Kubernetes JSON that somebody has printed.

#![no_main]

use libfuzzer_sys::fuzz_target;
use prost_types::Timestamp;
use rollplan::proto::{PlanRolloutRequest, Snapshot, StepAnswer};
use rollplan_fuzz::answers::check_request;

const EMPTY_LIST: &[u8] = br#"{"kind":"List","apiVersion":"v1","items":[]}"#;

fuzz_target!(|bytes: &[u8]| {
    check(&[bytes], Vec::new());
    check(&[bytes, EMPTY_LIST], Vec::new());
    let answer = StepAnswer {
        http_code: 409,
        body: bytes.to_vec(),
        existing_json: bytes.to_vec(),
        ..StepAnswer::default()
    };
    check(&[], vec![answer]);
});

fn check(objects_json: &[&[u8]], answers: Vec<StepAnswer>) {
    check_request(&PlanRolloutRequest {
        snapshot: Some(Snapshot {
            now: Some(Timestamp {
                seconds: 1_795_217_250,
                nanos: 0,
            }),
            objects_json: objects_json
                .iter()
                .map(|text| text.to_vec().into())
                .collect(),
            answers,
            pods_complete: true,
            replica_sets_complete: true,
            ..Snapshot::default()
        }),
        options: None,
    });
}
