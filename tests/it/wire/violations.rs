//! Everything that can be wrong with a request, by the path that is named.

use std::collections::BTreeSet;

use prost::Message as _;
use prost_types::value::Kind;
use prost_types::{Timestamp, Value};
use rollplan::proto;
use rollplan::proto::RawStruct;
use rollplan::wire::{self, Error, LISTED_VIOLATIONS_MAX, Reason, Violations};

use super::{Parts as _, mk_request};

type Change = fn(&mut proto::PlanRolloutRequest);

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

#[test]
fn the_request_that_the_others_are_made_from_is_right() {
    wire::plan_rollout(mk_request()).unwrap();
}

fn number(number: f64) -> Option<Value> {
    Some(Value {
        kind: Some(Kind::NumberValue(number)),
    })
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

fn require(request: &mut proto::PlanRolloutRequest, key: &str, operator: &str, values: &[&str]) {
    let requirement = proto::LabelSelectorRequirement {
        key: key.to_owned(),
        operator: operator.to_owned(),
        values: values.iter().map(|&value| value.to_owned()).collect(),
    };
    selector(request).match_expressions.push(requirement);
}

fn own(request: &mut proto::PlanRolloutRequest, set: usize, uid: &str, controller: bool) {
    let owner = proto::OwnerReference {
        uid: uid.to_owned(),
        controller: Some(controller),
        ..Default::default()
    };
    request.set_meta(set).owner_references.push(owner);
}

/// A template as a message of its own, for what JSON cannot say.
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

fn raw(bytes: &[u8]) -> Option<RawStruct> {
    Some(RawStruct::decode(bytes).unwrap())
}

/// One change, one violation: what is changed, and what is named.
const CASES: &[(Change, &str, Reason)] = &[
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
    // The Deployment.
    (
        |r| r.snapshot().deployment = None,
        "snapshot.deployment",
        Reason::Required,
    ),
    (
        |r| r.deployment().metadata = None,
        "snapshot.deployment.metadata",
        Reason::Required,
    ),
    (
        |r| r.meta().name.clear(),
        "snapshot.deployment.metadata.name",
        Reason::Required,
    ),
    (
        |r| r.meta().namespace.clear(),
        "snapshot.deployment.metadata.namespace",
        Reason::Required,
    ),
    (
        |r| r.meta().uid.clear(),
        "snapshot.deployment.metadata.uid",
        Reason::Required,
    ),
    (
        |r| r.meta().resource_version.clear(),
        "snapshot.deployment.metadata.resource_version",
        Reason::Required,
    ),
    (
        |r| r.meta().generation = -1,
        "snapshot.deployment.metadata.generation",
        Reason::Negative,
    ),
    (
        |r| r.meta().creation_timestamp = at(YEAR_10000, 0),
        "snapshot.deployment.metadata.creation_timestamp",
        Reason::OutOfRange,
    ),
    (
        |r| r.meta().deletion_timestamp = at(0, -5),
        "snapshot.deployment.metadata.deletion_timestamp",
        Reason::OutOfRange,
    ),
    (
        |r| r.deployment().api_version = "example.com/v1".to_owned(),
        "snapshot.deployment.kind",
        Reason::Required,
    ),
    (
        |r| r.deployment().kind = "Rollout".to_owned(),
        "snapshot.deployment.api_version",
        Reason::Required,
    ),
    (
        |r| r.deployment().spec = None,
        "snapshot.deployment.spec",
        Reason::Required,
    ),
    (
        |r| r.spec().replicas = Some(-1),
        "snapshot.deployment.spec.replicas",
        Reason::Negative,
    ),
    (
        |r| r.spec().selector = None,
        "snapshot.deployment.spec.selector",
        Reason::Required,
    ),
    (
        |r| r.spec().template = None,
        "snapshot.deployment.spec.template",
        Reason::Required,
    ),
    (
        |r| r.spec().min_ready_seconds = -1,
        "snapshot.deployment.spec.min_ready_seconds",
        Reason::Negative,
    ),
    (
        |r| r.spec().revision_history_limit = Some(-1),
        "snapshot.deployment.spec.revision_history_limit",
        Reason::Negative,
    ),
    (
        |r| r.spec().progress_deadline_seconds = Some(-1),
        "snapshot.deployment.spec.progress_deadline_seconds",
        Reason::Negative,
    ),
    // Its strategy.
    (
        |r| r.spec().strategy.as_mut().unwrap().r#type = "Canary".to_owned(),
        "snapshot.deployment.spec.strategy.type",
        Reason::UnknownStrategy,
    ),
    (
        |r| r.spec().strategy.as_mut().unwrap().r#type = "Recreate".to_owned(),
        "snapshot.deployment.spec.strategy.rolling_update",
        Reason::StrategyConflict,
    ),
    (
        |r| r.rolling().max_surge = number(-1.0),
        SURGE,
        Reason::Negative,
    ),
    (
        |r| r.rolling().max_surge = number(1.5),
        SURGE,
        Reason::NotIntOrPercent,
    ),
    (
        |r| r.rolling().max_surge = number(f64::NAN),
        SURGE,
        Reason::NotIntOrPercent,
    ),
    (
        |r| r.rolling().max_surge = number(f64::INFINITY),
        SURGE,
        Reason::NotIntOrPercent,
    ),
    (
        |r| r.rolling().max_surge = number(2_147_483_648.0),
        SURGE,
        Reason::OutOfRange,
    ),
    (
        |r| r.rolling().max_surge = text("2147483648%"),
        SURGE,
        Reason::OutOfRange,
    ),
    (
        |r| r.rolling().max_surge = text("25"),
        SURGE,
        Reason::NotIntOrPercent,
    ),
    (
        |r| r.rolling().max_surge = text("-5%"),
        SURGE,
        Reason::NotIntOrPercent,
    ),
    (
        |r| r.rolling().max_surge = text("+5%"),
        SURGE,
        Reason::NotIntOrPercent,
    ),
    (
        |r| r.rolling().max_surge = text("5%%"),
        SURGE,
        Reason::NotIntOrPercent,
    ),
    (
        |r| r.rolling().max_surge = text("%"),
        SURGE,
        Reason::NotIntOrPercent,
    ),
    (
        |r| r.rolling().max_surge = text("½%"),
        SURGE,
        Reason::NotIntOrPercent,
    ),
    (
        |r| r.rolling().max_surge = Some(Kind::BoolValue(true).into()),
        SURGE,
        Reason::NotIntOrPercent,
    ),
    (
        |r| r.rolling().max_unavailable = text(""),
        "snapshot.deployment.spec.strategy.rolling_update.max_unavailable",
        Reason::NotIntOrPercent,
    ),
    // Its selector.
    (
        |r| require(r, "app", "Equals", &["web"]),
        "snapshot.deployment.spec.selector.match_expressions[0].operator",
        Reason::UnknownOperator,
    ),
    (
        |r| require(r, "app", "In", &[]),
        VALUES,
        Reason::OperatorValues,
    ),
    (
        |r| require(r, "app", "NotIn", &[]),
        VALUES,
        Reason::OperatorValues,
    ),
    (
        |r| require(r, "app", "Exists", &["web"]),
        VALUES,
        Reason::OperatorValues,
    ),
    (
        |r| require(r, "app", "DoesNotExist", &["web"]),
        VALUES,
        Reason::OperatorValues,
    ),
    (
        |r| require(r, "-app", "Exists", &[]),
        "snapshot.deployment.spec.selector.match_expressions[0].key",
        Reason::InvalidLabelKey,
    ),
    (
        |r| require(r, "app", "In", &["web", "a b"]),
        "snapshot.deployment.spec.selector.match_expressions[0].values[1]",
        Reason::InvalidLabelValue,
    ),
    (
        |r| {
            _ = selector(r)
                .match_labels
                .insert("a b".to_owned(), String::new())
        },
        "snapshot.deployment.spec.selector.match_labels[\"a b\"]",
        Reason::InvalidLabelKey,
    ),
    (
        |r| {
            _ = selector(r)
                .match_labels
                .insert("example.com/tier".to_owned(), "x".repeat(64))
        },
        "snapshot.deployment.spec.selector.match_labels[\"example.com/tier\"]",
        Reason::InvalidLabelValue,
    ),
    // Its template.
    (
        |r| {
            r.spec().template = template(
                "terminationGracePeriodSeconds",
                Kind::NumberValue(2_f64.powi(53)),
            )
        },
        "snapshot.deployment.spec.template.spec.terminationGracePeriodSeconds",
        Reason::UnsafeInteger,
    ),
    (
        |r| r.spec().template = template("example.com/x", Kind::NumberValue(f64::NEG_INFINITY)),
        "snapshot.deployment.spec.template.spec[\"example.com/x\"]",
        Reason::NotFinite,
    ),
    (
        |r| r.spec().template = raw(b"\x0a\x01\x0a"),
        "snapshot.deployment.spec.template",
        Reason::MalformedStruct,
    ),
    (
        |r| r.spec().template = raw(b"\x0a\x08\x0a\x01a\x12\x03\x1a\x01\xff"),
        "snapshot.deployment.spec.template.a",
        Reason::InvalidUtf8,
    ),
    (
        |r| r.spec().template = raw(b"\x0a\x03\x0a\x01\xff"),
        "snapshot.deployment.spec.template",
        Reason::InvalidUtf8,
    ),
    // Its status.
    (
        |r| r.status().observed_generation = -1,
        "snapshot.deployment.status.observed_generation",
        Reason::Negative,
    ),
    (
        |r| r.status().replicas = -1,
        "snapshot.deployment.status.replicas",
        Reason::Negative,
    ),
    (
        |r| r.status().updated_replicas = -1,
        "snapshot.deployment.status.updated_replicas",
        Reason::Negative,
    ),
    (
        |r| r.status().ready_replicas = -1,
        "snapshot.deployment.status.ready_replicas",
        Reason::Negative,
    ),
    (
        |r| r.status().available_replicas = -1,
        "snapshot.deployment.status.available_replicas",
        Reason::Negative,
    ),
    (
        |r| r.status().unavailable_replicas = -1,
        "snapshot.deployment.status.unavailable_replicas",
        Reason::Negative,
    ),
    (
        |r| r.status().terminating_replicas = Some(-1),
        "snapshot.deployment.status.terminating_replicas",
        Reason::Negative,
    ),
    (
        |r| r.status().collision_count = Some(-1),
        "snapshot.deployment.status.collision_count",
        Reason::Negative,
    ),
    (
        |r| {
            r.status().conditions = vec![proto::DeploymentCondition {
                last_update_time: at(YEAR_10000, 0),
                ..Default::default()
            }];
        },
        "snapshot.deployment.status.conditions[0].last_update_time",
        Reason::OutOfRange,
    ),
    // ReplicaSets.
    (
        |r| r.set(1).metadata = None,
        "snapshot.replica_sets[1].metadata",
        Reason::Required,
    ),
    (
        |r| r.set_meta(1).name.clear(),
        "snapshot.replica_sets[1].metadata.name",
        Reason::Required,
    ),
    (
        |r| r.set_meta(1).uid.clear(),
        "snapshot.replica_sets[1].metadata.uid",
        Reason::Required,
    ),
    (
        |r| r.set_meta(1).resource_version.clear(),
        "snapshot.replica_sets[1].metadata.resource_version",
        Reason::Required,
    ),
    (
        |r| r.set_meta(1).uid = "new".to_owned(),
        "snapshot.replica_sets[1].metadata.uid",
        Reason::Duplicate,
    ),
    (
        |r| r.set_meta(1).name = "new".to_owned(),
        "snapshot.replica_sets[1].metadata.name",
        Reason::Duplicate,
    ),
    // One of somebody else, under the uid or the name of one of ours.
    (
        |r| {
            r.set_meta(1).owner_references[0].uid = "x".to_owned();
            r.set_meta(1).uid = "new".to_owned();
        },
        "snapshot.replica_sets[1].metadata.uid",
        Reason::Duplicate,
    ),
    (
        |r| {
            r.set_meta(0).owner_references[0].uid = "x".to_owned();
            r.set_meta(1).name = "new".to_owned();
        },
        "snapshot.replica_sets[1].metadata.name",
        Reason::Duplicate,
    ),
    (
        |r| own(r, 1, "x", true),
        "snapshot.replica_sets[1].metadata.owner_references",
        Reason::SeveralControllers,
    ),
    (
        |r| own(r, 1, "", false),
        "snapshot.replica_sets[1].metadata.owner_references[1].uid",
        Reason::Required,
    ),
    (
        |r| r.set(1).kind = "StatefulSet".to_owned(),
        "snapshot.replica_sets[1].kind",
        Reason::WrongKind,
    ),
    (
        |r| r.set(1).api_version = "extensions/v1beta1".to_owned(),
        "snapshot.replica_sets[1].api_version",
        Reason::WrongKind,
    ),
    (
        |r| r.set(1).spec = None,
        "snapshot.replica_sets[1].spec.template",
        Reason::Required,
    ),
    (
        |r| r.set_spec(1).template = None,
        "snapshot.replica_sets[1].spec.template",
        Reason::Required,
    ),
    // One that nobody owns and that could be adopted.
    (
        |r| {
            r.set_meta(1).owner_references.clear();
            r.set_spec(1).template = None;
        },
        "snapshot.replica_sets[1].spec.template",
        Reason::Required,
    ),
    (
        |r| r.set_spec(1).replicas = Some(-3),
        "snapshot.replica_sets[1].spec.replicas",
        Reason::Negative,
    ),
    (
        |r| r.set_spec(1).min_ready_seconds = -3,
        "snapshot.replica_sets[1].spec.min_ready_seconds",
        Reason::Negative,
    ),
    (
        |r| r.set_spec(1).template = template("x", Kind::NumberValue(1e300)),
        "snapshot.replica_sets[1].spec.template.spec.x",
        Reason::UnsafeInteger,
    ),
    (
        |r| r.set_status(0).replicas = -1,
        "snapshot.replica_sets[0].status.replicas",
        Reason::Negative,
    ),
    (
        |r| r.set_status(0).ready_replicas = -1,
        "snapshot.replica_sets[0].status.ready_replicas",
        Reason::Negative,
    ),
    (
        |r| r.set_status(0).available_replicas = -1,
        "snapshot.replica_sets[0].status.available_replicas",
        Reason::Negative,
    ),
    (
        |r| r.set_status(0).terminating_replicas = Some(-1),
        "snapshot.replica_sets[0].status.terminating_replicas",
        Reason::Negative,
    ),
    (
        |r| r.set_status(0).observed_generation = -1,
        "snapshot.replica_sets[0].status.observed_generation",
        Reason::Negative,
    ),
    (
        |r| {
            r.set_status(0).conditions = vec![proto::ReplicaSetCondition {
                last_transition_time: at(0, i32::MAX),
                ..Default::default()
            }];
        },
        "snapshot.replica_sets[0].status.conditions[0].last_transition_time",
        Reason::OutOfRange,
    ),
    // What the API server does not accept.
    (
        |r| r.meta().name = "Web".to_owned(),
        "snapshot.deployment.metadata.name",
        Reason::InvalidName,
    ),
    (
        |r| r.set_meta(0).name = "a_b".to_owned(),
        "snapshot.replica_sets[0].metadata.name",
        Reason::InvalidName,
    ),
    (
        |r| r.pod_meta(1).name = "a".repeat(254),
        "snapshot.pods[1].metadata.name",
        Reason::InvalidName,
    ),
    (
        |r| _ = r.pod_meta(1).labels.insert("a b".to_owned(), String::new()),
        "snapshot.pods[1].metadata.labels[\"a b\"]",
        Reason::InvalidLabelKey,
    ),
    (
        |r| {
            _ = r
                .pod_meta(1)
                .labels
                .insert("a".to_owned(), "a b".to_owned())
        },
        "snapshot.pods[1].metadata.labels[\"a\"]",
        Reason::InvalidLabelValue,
    ),
    (
        |r| _ = r.meta().annotations.insert("a b".to_owned(), String::new()),
        "snapshot.deployment.metadata.annotations[\"a b\"]",
        Reason::InvalidAnnotationKey,
    ),
    (
        |r| {
            let long = "x".repeat(wire::estimate::ANNOTATIONS_BYTES_MAX);
            r.set_meta(0).annotations.insert("a".to_owned(), long);
        },
        "snapshot.replica_sets[0].metadata.annotations",
        Reason::AnnotationsTooLarge,
    ),
    // Pods.
    (
        |r| r.snapshot().pods[1].metadata = None,
        "snapshot.pods[1].metadata",
        Reason::Required,
    ),
    (
        |r| r.pod_meta(1).name.clear(),
        "snapshot.pods[1].metadata.name",
        Reason::Required,
    ),
    (
        |r| r.pod_meta(1).uid.clear(),
        "snapshot.pods[1].metadata.uid",
        Reason::Required,
    ),
    (
        |r| r.pod_meta(1).name = "a".to_owned(),
        "snapshot.pods[1].metadata.name",
        Reason::Duplicate,
    ),
    (
        |r| r.pod_meta(1).uid = "a".to_owned(),
        "snapshot.pods[1].metadata.uid",
        Reason::Duplicate,
    ),
    (
        |r| r.snapshot().pods[1].kind = "Node".to_owned(),
        "snapshot.pods[1].kind",
        Reason::WrongKind,
    ),
    // Answers.
    (
        |r| r.answer().call = None,
        "snapshot.answers[0].call",
        Reason::Required,
    ),
    (
        |r| r.call().verb = 0,
        "snapshot.answers[0].call.verb",
        Reason::Required,
    ),
    (
        |r| r.call().verb = 7,
        "snapshot.answers[0].call.verb",
        Reason::UnknownEnumValue,
    ),
    (
        |r| r.answer().http_code = 99,
        "snapshot.answers[0].http_code",
        Reason::OutOfRange,
    ),
    (
        |r| r.answer().http_code = 600,
        "snapshot.answers[0].http_code",
        Reason::OutOfRange,
    ),
    (
        |r| {
            let existing = String::from_utf8(r.answer().existing_json.to_vec()).unwrap();
            r.answer().existing_json = existing
                .replace(r#""uid":"existing""#, r#""uid":"""#)
                .into();
        },
        "snapshot.answers[0].existing_json.metadata.uid",
        Reason::Required,
    ),
    (
        |r| r.answer().existing_json = b"<html>".to_vec(),
        "snapshot.answers[0].existing_json",
        Reason::MalformedJson,
    ),
    (
        |r| r.answer().existing_json = b"\xff".to_vec(),
        "snapshot.answers[0].existing_json",
        Reason::InvalidUtf8,
    ),
    (
        |r| r.answer().body = vec![b' '; (64 << 10) + 1],
        "snapshot.answers[0].body",
        Reason::OutOfRange,
    ),
    (
        |r| r.call().verb = proto::Verb::Get.into(),
        "snapshot.answers[0].call.verb",
        Reason::OutOfRange,
    ),
    (
        |r| {
            r.deployment().api_version = "../secrets/v1".to_owned();
            r.deployment().kind = "Rollout".to_owned();
        },
        "snapshot.deployment.api_version",
        Reason::InvalidName,
    ),
    (
        |r| {
            r.deployment().api_version = "example.com/v1".to_owned();
            r.deployment().kind = "Roll/out".to_owned();
        },
        "snapshot.deployment.kind",
        Reason::InvalidName,
    ),
    // Kubernetes JSON.
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
    // Options.
    (
        |r| r.options.get_or_insert_default().horizon = 9,
        "options.horizon",
        Reason::UnknownEnumValue,
    ),
];

/// Sends this text instead of objects.
fn objects(request: &mut proto::PlanRolloutRequest, text: &'static str) {
    let snapshot = request.snapshot();
    snapshot.deployment = None;
    snapshot.replica_sets.clear();
    snapshot.pods.clear();
    snapshot.objects_json = vec![text.into()];
}

const SURGE: &str = "snapshot.deployment.spec.strategy.rolling_update.max_surge";
const VALUES: &str = "snapshot.deployment.spec.selector.match_expressions[0].values";

#[test]
fn each_violation_is_named_and_nothing_else() {
    for (change, field, reason) in CASES {
        assert_eq!(fields_of(change), [(field.to_string(), *reason)]);
    }
}

#[test]
fn every_reason_has_a_case_and_a_name_of_its_own() {
    let cases: BTreeSet<Reason> = CASES.iter().map(|(_, _, reason)| *reason).collect();
    let all = BTreeSet::from(Reason::ALL);
    let others = BTreeSet::from([
        // They have tests of their own.
        Reason::TooDeep,
        Reason::TemplateTooLarge,
        Reason::ObjectTooLarge,
    ]);
    assert_eq!(&cases | &others, all);
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
fn all_violations_are_named_at_once() {
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
         snapshot.deployment.spec.strategy.rolling_update.max_surge: must be a whole number, or a percentage as \"25%\"; \
         snapshot.replica_sets[0].metadata.name: is required; \
         snapshot.pods[1].metadata.uid: is required; \
         snapshot.answers[0].http_code: is 1, and must be 0 or from 100 to 599; \
         options.horizon: there is no horizon -1"
    );
}

#[test]
fn an_empty_request_names_what_it_lacks() {
    let error = wire::plan_rollout_bytes(b"").unwrap_err();
    assert_eq!(error.to_string(), "snapshot: is required");
    let error = wire::compute_status_bytes(b"").unwrap_err();
    assert_eq!(error.to_string(), "snapshot: is required");
}

#[test]
fn what_is_beyond_the_list_is_counted_and_texts_are_short() {
    let violations = violations_of(|r| {
        let pod = r.snapshot().pods[0].clone();
        r.snapshot().pods = vec![pod; 15];
        selector(r)
            .match_labels
            .insert("-".repeat(5000), String::new());
    });
    assert_eq!(violations.listed.len(), LISTED_VIOLATIONS_MAX);
    // A long key; 14 duplicates by uid and by name.
    assert_eq!(violations.omitted, 1 + 2 * 14 - LISTED_VIOLATIONS_MAX);
    assert!(violations.to_string().ends_with("; and 9 more"));
    for violation in violations.listed {
        assert!(violation.field.len() < 300 && violation.description.len() < 300);
    }
}

#[test]
fn templates_are_never_printed() {
    let mut request = mk_request();
    let secret = Kind::StringValue("hunter2".to_owned());
    request.spec().template = template("x", secret);
    assert!(!format!("{request:?}").contains("hunter2"));
    assert!(format!("{request:?}").contains("template: Some(RawStruct("));
}

#[test]
fn what_is_too_large_is_refused_before_it_is_looked_at() {
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
fn bytes_that_are_no_request_are_refused() {
    let error = wire::plan_rollout_bytes(b"\x0a\xff").unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot decode the request as PlanRolloutRequest"
    );
}

/// Everything about an object that a request may be refused for, but for its metadata as a whole.
fn spoil(request: &mut proto::PlanRolloutRequest, set: usize) {
    let time = at(YEAR_10000, 0);
    request.set(set).kind = "StatefulSet".to_owned();
    let metadata = request.set_meta(set);
    metadata.resource_version.clear();
    metadata.generation = -1;
    metadata.creation_timestamp = time;
    metadata
        .owner_references
        .extend([proto::OwnerReference::default(), controller("y")]);
    let spec = request.set_spec(set);
    spec.replicas = Some(-1);
    // Legal in Kubernetes, and not to be had as a double.
    spec.template = template("tolerationSeconds", Kind::NumberValue(i64::MAX as f64));
    request.set_status(set).replicas = -1;
}

fn controller(uid: &str) -> proto::OwnerReference {
    proto::OwnerReference {
        uid: uid.to_owned(),
        controller: Some(true),
        ..Default::default()
    }
}

#[test]
fn replica_sets_of_others_are_not_validated() {
    let mut request = mk_request();
    let plain = wire::plan_rollout(request.clone()).unwrap();
    let own = request.set(0).clone();
    let mut add = |name: &str, namespace: &str, labels: &[(&str, &str)], owner: Option<&str>| {
        request.snapshot().replica_sets.push(own.clone());
        let index = request.snapshot().replica_sets.len() - 1;
        let labels = labels.iter();
        let labels = labels.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        *request.set_meta(index) = proto::ObjectMeta {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            uid: name.to_owned(),
            labels: labels.collect(),
            owner_references: owner.map(controller).into_iter().collect(),
            ..Default::default()
        };
        if owner.is_none() {
            request.set_meta(index).owner_references.clear();
        }
        index
    };
    let others = [
        // Another Deployment's, whether or not it matches.
        add("theirs", "shop", &[], Some("x")),
        add("theirs-too", "", &[("app", "web")], Some("x")),
        // Of another namespace: of the same name, owned, and matching.
        add("new", "other", &[("app", "web")], Some("d")),
        add("far", "other", &[("app", "web")], None),
        // The same twice.
        add("twice", "shop", &[], Some("x")),
        add("twice", "shop", &[], Some("x")),
    ];
    for index in others {
        spoil(&mut request, index);
    }
    // Nobody's, and it does not match.
    let orphan = request.snapshot().replica_sets.len();
    request.snapshot().replica_sets.push(own);
    *request.set_meta(orphan) = proto::ObjectMeta {
        name: "orphan".to_owned(),
        uid: "orphan".to_owned(),
        ..Default::default()
    };
    spoil(&mut request, orphan);
    request.set_meta(orphan).owner_references.clear();
    assert_eq!(wire::plan_rollout(request.clone()).unwrap(), plain);
    // Without metadata nobody can tell.
    request.set(orphan).metadata = None;
    let error = wire::plan_rollout(request).unwrap_err();
    assert_eq!(
        error.to_string(),
        "snapshot.replica_sets[8].metadata: is required"
    );
}

#[test]
fn events_about_the_selected_objects_are_validated_and_others_are_not() {
    let event = |uid: &str| proto::ObservedEvent {
        kind: "Pod".to_owned(),
        involved_object: Some(proto::ObjectReference {
            uid: uid.to_owned(),
            ..Default::default()
        }),
        count: -1,
        last_timestamp: at(YEAR_10000, 0),
        series: Some(proto::EventSeries {
            count: -1,
            last_observed_time: at(0, -1),
        }),
        ..Default::default()
    };
    let mut request = mk_request();
    request.snapshot().events = vec![event("of-another"), proto::ObservedEvent::default()];
    let expected = wire::plan_rollout(mk_request()).unwrap();
    assert_eq!(wire::plan_rollout(request).unwrap(), expected);
    let metadata = |r: &mut proto::PlanRolloutRequest| {
        let deployment = r.snapshot().deployment.clone().unwrap().metadata;
        let set = r.snapshot().replica_sets[0].metadata.clone();
        let pod = r.snapshot().pods[0].metadata.clone();
        [deployment, set, pod].map(|metadata| metadata.unwrap().uid)
    };
    let fields = fields_of(|r| {
        let events = metadata(r).map(|uid| event(&uid));
        r.snapshot().events = events.into();
    });
    let expected = (0..3).flat_map(|index| {
        [
            ("kind", Reason::WrongKind),
            ("last_timestamp", Reason::OutOfRange),
            ("series.last_observed_time", Reason::OutOfRange),
            ("count", Reason::Negative),
            ("series.count", Reason::Negative),
        ]
        .map(|(field, reason)| (format!("snapshot.events[{index}].{field}"), reason))
    });
    assert_eq!(fields, expected.collect::<Vec<_>>());
}

#[test]
fn pods_of_others_are_not_validated() {
    let mut request = mk_request();
    let plain = wire::plan_rollout(request.clone()).unwrap();
    let own = request.snapshot().pods[0].clone();
    for (namespace, owner) in [
        ("shop", None),
        ("shop", Some("x")),
        // Of a ReplicaSet that the Deployment does not own, and of one of another namespace.
        ("shop", Some("theirs")),
        ("other", Some("new")),
    ] {
        let mut pod = own.clone();
        pod.kind = "Node".to_owned();
        pod.metadata = Some(proto::ObjectMeta {
            namespace: namespace.to_owned(),
            generation: -1,
            owner_references: owner.map(controller).into_iter().collect(),
            ..Default::default()
        });
        request.snapshot().pods.extend([pod.clone(), pod]);
    }
    let mut theirs = request.set(0).clone();
    theirs.metadata = Some(proto::ObjectMeta {
        name: "theirs".to_owned(),
        uid: "theirs".to_owned(),
        owner_references: vec![controller("x")],
        ..Default::default()
    });
    request.snapshot().replica_sets.push(theirs);
    assert_eq!(wire::plan_rollout(request).unwrap(), plain);
}

/// The name of the ReplicaSet to create, where somebody else's ReplicaSet has it.
#[test]
fn names_of_others_are_taken_all_the_same() {
    let mut request = mk_request();
    request.snapshot().replica_sets.remove(0);
    let created = |request: &proto::PlanRolloutRequest| {
        let steps = wire::plan_rollout(request.clone()).unwrap().steps;
        let created = steps.iter().find_map(|step| match &step.action {
            Some(proto::step::Action::CreateReplicaSet(set)) => Some(set.name.clone()),
            _ => None,
        });
        let status = steps.iter().find_map(|step| match &step.action {
            Some(proto::step::Action::UpdateDeploymentStatus(update)) => update.status.clone(),
            _ => None,
        });
        (created, status.and_then(|status| status.collision_count))
    };
    let (name, collisions) = created(&request);
    let name = name.unwrap();
    assert_eq!(collisions, None);
    let mut theirs = request.set(0).clone();
    theirs.metadata = Some(proto::ObjectMeta {
        name: name.clone(),
        uid: "theirs".to_owned(),
        owner_references: vec![controller("x")],
        ..Default::default()
    });
    request.snapshot().replica_sets.push(theirs.clone());
    spoil(&mut request, 1);
    assert_ne!(created(&request).0, Some(name.clone()));
    assert_eq!(created(&request).1, Some(1));
    // In another namespace it is free.
    request.set_meta(1).namespace = "other".to_owned();
    assert_eq!(created(&request), (Some(name.clone()), None));
    // The same where the API server has told so.
    request.snapshot().replica_sets.truncate(1);
    let steps = wire::plan_rollout(request.clone()).unwrap().steps;
    let create = steps.into_iter().find_map(|step| match step.action {
        Some(proto::step::Action::CreateReplicaSet(_)) => step.call,
        _ => None,
    });
    let spec = theirs.spec.as_mut().unwrap();
    spec.template = template("tolerationSeconds", Kind::NumberValue(i64::MAX as f64));
    let theirs = wire::json::to_kubernetes_json(&theirs).unwrap();
    *request.answer() = proto::StepAnswer {
        call: create,
        http_code: 409,
        body: br#"{"kind":"Status","reason":"AlreadyExists"}"#.to_vec(),
        existing_json: theirs.into(),
    };
    assert_eq!(created(&request).1, Some(1));
}
