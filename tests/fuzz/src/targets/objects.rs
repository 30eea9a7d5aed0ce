//! Uses arbitrary text as the JSON of Kubernetes objects.

use prost_types::Timestamp;
use rollplan::proto::{
    ComputeStatusRequest, PlanRestartsRequest, PlanRolloutRequest, RestartOptions, Snapshot,
    StepAnswer, Target,
};
use rollplan::wire::{self, Reason};
use serde_json::value::RawValue;

use super::text_of;
use crate::answers::check_request;

const EMPTY_LIST: &str = r#"{"kind":"List","apiVersion":"v1","items":[]}"#;

/// Kinds with a report of their own, and one without.
const KINDS: [(&str, &str); 10] = [
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "DaemonSet"),
    ("apps/v1", "ReplicaSet"),
    ("batch/v1", "Job"),
    ("batch/v1", "CronJob"),
    ("v1", "Pod"),
    ("v1", "PersistentVolumeClaim"),
    ("v1", "Service"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ("example.com/v1", "Database"),
];

/// Checks one input.
pub fn run(bytes: &[u8]) {
    let text = text_of(bytes);
    check_syntax(text);
    check_other_kind(text);
    for profile in 0..4 {
        check_restarts(text, profile);
    }
    check(&[text], Vec::new());
    check(&[text, EMPTY_LIST], Vec::new());
    let answer = StepAnswer {
        http_code: 409,
        body: text.into(),
        existing_json: text.into(),
        ..StepAnswer::default()
    };
    check(&[], vec![answer]);
}

/// 2026-11-20T23:27:30Z.
const NOW: Timestamp = Timestamp {
    seconds: 1_795_217_250,
    nanos: 0,
};

/// Checks that the planner rejects exactly the texts that serde_json rejects, and texts with too many levels. (serde_json
/// skips values without decoding the escapes in their keys.)
fn check_syntax(text: &str) {
    if text.contains("\\u") {
        return;
    }
    let is_json = serde_json::from_str::<&RawValue>(text).is_ok();
    let refused = match rollplan::service::answer(request(&[text], Vec::new())) {
        Err(wire::Error::InvalidArgument(violations)) => violations,
        _ => return assert!(is_json),
    };
    let has = |reason| {
        let mut listed = refused.listed.iter();
        listed.any(|it| it.reason == reason && it.field == "snapshot.objects[0]")
    };
    if refused.omitted == 0 && !has(Reason::TooDeep) {
        assert_eq!(is_json, !has(Reason::MalformedJson), "{refused}");
    }
}

/// Checks that a request for another kind gets an answer or an error, but never causes a panic.
fn check_other_kind(text: &str) {
    let (api_version, kind) = KINDS[text.len() % KINDS.len()];
    let request = ComputeStatusRequest {
        snapshot: Some(Snapshot {
            now: Some(NOW),
            objects: vec![text.to_owned()],
            target: Some(Target {
                api_version: api_version.to_owned(),
                kind: kind.to_owned(),
                ..Target::default()
            }),
            ..Snapshot::default()
        }),
        ..ComputeStatusRequest::default()
    };
    drop(rollplan::service::answer(request));
}

fn check_restarts(text: &str, profile: i32) {
    let request = PlanRestartsRequest {
        now: Some(NOW),
        objects: vec![text.to_owned()],
        configurations_complete: true,
        options: Some(RestartOptions {
            profile,
            all_workloads: true,
            include_unchanged: true,
            ..RestartOptions::default()
        }),
        ..PlanRestartsRequest::default()
    };
    let first = rollplan::service::answer(request.clone()).ok();
    assert_eq!(first, rollplan::service::answer(request).ok());
}

fn check(texts: &[&str], answers: Vec<StepAnswer>) {
    check_request(&request(texts, answers));
}

fn request(texts: &[&str], answers: Vec<StepAnswer>) -> PlanRolloutRequest {
    PlanRolloutRequest {
        snapshot: Some(Snapshot {
            now: Some(NOW),
            objects: texts.iter().map(|&text| text.to_owned()).collect(),
            answers,
            pods_complete: true,
            replica_sets_complete: true,
            ..Snapshot::default()
        }),
        ..PlanRolloutRequest::default()
    }
}
