//! Bytes, as Kubernetes JSON that somebody has printed.

#![no_main]

use libfuzzer_sys::fuzz_target;
use prost_types::Timestamp;
use rollplan::proto::{PlanRolloutRequest, Snapshot, StepAnswer};
use rollplan_fuzz::answers::check_request;

fuzz_target!(|bytes: &[u8]| {
    // As one text, as two texts of which the second has no object, and as the answer to a call.
    for objects_json in [
        vec![bytes.to_vec()],
        vec![
            bytes.to_vec(),
            b"{\"kind\":\"List\",\"apiVersion\":\"v1\",\"items\":[]}".to_vec(),
        ],
        Vec::new(),
    ] {
        let answers = match objects_json.is_empty() {
            true => vec![StepAnswer {
                http_code: 409,
                body: bytes.to_vec(),
                existing_json: bytes.to_vec(),
                ..StepAnswer::default()
            }],
            false => Vec::new(),
        };
        check_request(&PlanRolloutRequest {
            snapshot: Some(Snapshot {
                now: Some(Timestamp {
                    seconds: 1_795_217_250,
                    nanos: 0,
                }),
                objects_json: objects_json.into_iter().map(Into::into).collect(),
                answers,
                pods_complete: true,
                replica_sets_complete: true,
                ..Snapshot::default()
            }),
            options: None,
        });
    }
});
