//! Each rule of the contract broken by itself, and the field that the violation names. One file for each part of the
//! request.

mod answers;
mod deployment;
mod metadata;
mod pods;
mod replica_sets;
mod request;
mod selector;
mod strategy;
mod template;
mod unselected;

use std::collections::BTreeSet;

use prost::Message as _;
use prost_types::value::Kind;
use prost_types::{Timestamp, Value};
use rollplan::proto;
use rollplan::proto::RawStruct;
use rollplan::wire::{self, Error, LISTED_VIOLATIONS_MAX, Reason, Violations};

use super::{Parts, mk_request};

type Change = fn(&mut proto::PlanRolloutRequest);

/// A change to a valid request, and the field and reason of the only violation that it causes.
type Case = (Change, &'static str, Reason);

fn cases() -> impl Iterator<Item = &'static Case> {
    let parts = [
        answers::CASES,
        deployment::CASES,
        metadata::CASES,
        pods::CASES,
        replica_sets::CASES,
        request::CASES,
        selector::CASES,
        strategy::CASES,
        template::CASES,
    ];
    parts.into_iter().flatten()
}

fn violations_of(change: impl FnOnce(&mut proto::PlanRolloutRequest)) -> Violations {
    let mut request = mk_request();
    change(&mut request);
    match wire::plan_rollout(request) {
        Err(Error::InvalidArgument(violations)) => violations,
        other => panic!("no violations: {other:?}"),
    }
}

fn fields_of(change: impl FnOnce(&mut proto::PlanRolloutRequest)) -> Vec<(String, Reason)> {
    let violations = violations_of(change);
    assert_eq!(violations.omitted, 0);
    let listed = violations.listed.into_iter();
    listed.map(|one| (one.field, one.reason)).collect()
}

fn text(text: &str) -> Option<Value> {
    Some(Value {
        kind: Some(Kind::StringValue(text.to_owned())),
    })
}

fn at(seconds: i64, nanos: i32) -> Option<Timestamp> {
    Some(Timestamp { seconds, nanos })
}

const YEAR_10000: i64 = 253_402_300_800;

fn selector(request: &mut proto::PlanRolloutRequest) -> &mut proto::LabelSelector {
    request.spec().selector.as_mut().unwrap()
}

fn owner(uid: &str, controller: bool) -> proto::OwnerReference {
    proto::OwnerReference {
        uid: uid.to_owned(),
        controller: Some(controller),
        ..Default::default()
    }
}

/// A template as protobuf: values such as NaN cannot be written in JSON.
fn template(key: &str, kind: Kind) -> Option<RawStruct> {
    let value = Value { kind: Some(kind) };
    let fields = [("spec".to_owned(), nested(key, value))];
    let fields = prost_types::Struct {
        fields: fields.into(),
    };
    Some(RawStruct::decode(&fields.encode_to_vec()[..]).unwrap())
}

fn nested(key: &str, value: Value) -> Value {
    let fields = prost_types::Struct {
        fields: [(key.to_owned(), value)].into(),
    };
    Value {
        kind: Some(Kind::StructValue(fields)),
    }
}

#[test]
fn valid_request_has_no_violations() {
    wire::plan_rollout(mk_request()).unwrap();
}

/// Encoded requests are decoded only as far as their plan needs, and validated like others.
#[test]
fn each_case_has_exactly_its_violation() {
    for (change, field, reason) in cases() {
        println!("{field}: {reason:?}");
        assert_eq!(fields_of(change), [(field.to_string(), *reason)]);
        let mut request = mk_request();
        change(&mut request);
        match wire::plan_rollout_bytes(&request.encode_to_vec()) {
            Err(Error::InvalidArgument(encoded)) => assert_eq!(encoded, violations_of(change)),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn every_reason_has_a_case_and_a_unique_name() {
    let cases: BTreeSet<Reason> = cases().map(|(_, _, reason)| *reason).collect();
    let all = BTreeSet::from(Reason::ALL);
    let tested_elsewhere = BTreeSet::from([
        Reason::TooDeep,
        Reason::TemplateTooLarge,
        Reason::ObjectTooLarge,
    ]);
    assert_eq!(&cases | &tested_elsewhere, all);
    let names: BTreeSet<&str> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
    assert_eq!(names.len(), all.len());
    for name in names {
        assert!(
            name.len() <= 63
                && name
                    .bytes()
                    .all(|b| b.is_ascii_uppercase() || b == b'_' || b == b'8'),
            "{name}"
        );
    }
}

#[test]
fn all_violations_are_reported_together() {
    let violations = violations_of(|r| {
        r.snapshot().now = None;
        r.meta().uid.clear();
        r.spec().replicas = Some(-1);
        r.rolling().max_surge = text("many");
        r.spec().template = template("x", Kind::NumberValue(f64::NAN));
        r.set_meta(0).name.clear();
        r.pod_meta(1).uid.clear();
        r.answer().http_code = 1;
        r.options.get_or_insert_default().horizon = -1;
    });
    assert_eq!(
        violations.to_string(),
        "snapshot.now: is required; \
         snapshot.deployment.metadata.uid: is required; \
         snapshot.deployment.spec.replicas: is -1, and may not be negative; \
         snapshot.deployment.spec.template.spec.x: is not a finite number; \
         snapshot.deployment.spec.strategy.rolling_update.max_surge: must be a whole number, or a percentage, for example \"25%\"; \
         snapshot.replica_sets[0].metadata.name: is required; \
         snapshot.pods[1].metadata.uid: is required; \
         snapshot.answers[0].http_code: is 1, and must be 0 or from 100 to 599; \
         options.horizon: unknown horizon -1"
    );
}

#[test]
fn long_lists_of_violations_and_long_texts_are_truncated() {
    let violations = violations_of(|r| {
        let pod = r.snapshot().pods[0].clone();
        r.snapshot().pods = vec![pod; 15];
        selector(r)
            .match_labels
            .insert("-".repeat(5000), String::new());
    });
    assert_eq!(violations.listed.len(), LISTED_VIOLATIONS_MAX);
    // The long key, and 14 pods each with a duplicate UID and a duplicate name.
    assert_eq!(violations.omitted, 1 + 2 * 14 - LISTED_VIOLATIONS_MAX);
    assert!(violations.to_string().ends_with("; and 9 more"));
    for violation in violations.listed {
        assert!(violation.field.len() < 300 && violation.description.len() < 300);
    }
}

/// In bytes, annotations are refused before they are decoded.
#[test]
fn annotations_are_refused_with_their_size() {
    let mut request = mk_request();
    let mut request_with_limit = request.clone();
    let value = "x".repeat(256 << 10);
    request.meta().annotations = [("key".to_owned(), value)].into();
    let expected = "snapshot.deployment.metadata.annotations: 262147 bytes of keys and values exceed the limit of 262144";
    let encoded = wire::plan_rollout_bytes(&request.encode_to_vec()).map(|_| ());
    for answer in [encoded, wire::plan_rollout(request).map(|_| ())] {
        let Err(Error::InvalidArgument(violations)) = answer else {
            panic!("{answer:?}");
        };
        assert_eq!(violations.to_string(), expected);
    }
    let value = "x".repeat((256 << 10) - "key".len());
    request_with_limit.meta().annotations = [("key".to_owned(), value)].into();
    let bytes = request_with_limit.encode_to_vec();
    let plan = wire::plan_rollout(request_with_limit).unwrap();
    assert!(wire::plan_rollout_bytes(&bytes).unwrap() == plan.encode_to_vec());
}

#[test]
fn debug_output_hides_templates() {
    let mut request = mk_request();
    let secret = Kind::StringValue("hunter2".to_owned());
    request.spec().template = template("x", secret);
    assert!(!format!("{request:?}").contains("hunter2"));
    assert!(format!("{request:?}").contains("template: Some(RawStruct("));
}
