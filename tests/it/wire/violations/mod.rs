//! Each rule of the contract broken by itself, and the field that the violation names. One file for each part of the
//! request.

mod answers;
mod deployment;
mod pods;
mod replica_sets;
mod request;
mod template;
mod unselected;

use std::collections::BTreeSet;

use prost::Message as _;
use rollplan::service::Status;
use rollplan::wire::{Error, LISTED_VIOLATIONS_MAX, Reason, Violations};
use serde_json::{Value, json};

use crate::request::{ITEMS, Request, call, mk_request};

/// A field of an object, JSON to put there, and the reason of the only violation, which names the field.
type Field = (&'static str, &'static str, Reason);

/// A change to a valid request, and the field and reason of the only violation. Fields of objects start with their index.
type Case = (fn(&mut Request), &'static str, Reason);

const FIELDS: [(usize, &[Field]); 5] = [
    (0, deployment::FIELDS),
    (2, replica_sets::FIELDS),
    (4, pods::FIELDS),
    (0, template::FIELDS),
    (2, template::FIELDS),
];

fn fields() -> impl Iterator<Item = (usize, &'static Field)> {
    let of_objects = FIELDS.into_iter();
    of_objects.flat_map(|(item, fields)| fields.iter().map(move |field| (item, field)))
}

fn cases() -> impl Iterator<Item = &'static Case> {
    let parts = [
        answers::CASES,
        deployment::CASES,
        pods::CASES,
        replica_sets::CASES,
        request::CASES,
    ];
    parts.into_iter().flatten()
}

fn violations_of(request: &Request) -> Violations {
    violations_of_text(request, request.text())
}

fn violations_of_text(request: &Request, text: String) -> Violations {
    let message = request.with_texts(vec![text]);
    let encoded = message.encode_to_vec();
    match (
        rollplan::service::answer(message),
        call("PlanRollout", &encoded),
    ) {
        (Err(error), Err(status)) => {
            assert_eq!(status, Status::from(&error));
            let Error::InvalidArgument(violations) = error else {
                panic!("{error:?}");
            };
            violations
        }
        (message, encoded) => panic!("{:?}, {:?}", message.err(), encoded.err()),
    }
}

fn listed(violations: Violations) -> Vec<(String, Reason)> {
    assert_eq!(violations.omitted, 0);
    let listed = violations.listed.into_iter();
    listed.map(|one| (one.field, one.reason)).collect()
}

/// The value at a path such as "status.conditions[1].type". Missing parts of the path are created.
fn value_at<'v>(mut value: &'v mut Value, path: &str) -> &'v mut Value {
    for part in path.split(['.', '[']) {
        value = match part.strip_suffix(']') {
            None => &mut value[part],
            Some(index) => {
                let index: usize = index.parse().unwrap();
                if value.is_null() {
                    *value = json!([]);
                }
                let items = value.as_array_mut().unwrap();
                items.resize(items.len().max(index + 1), json!({}));
                &mut items[index]
            }
        };
    }
    value
}

/// Adds an owner to an object that has one.
fn add_owner(object: &mut Value, uid: &str, controller: bool) {
    let owners = &mut object["metadata"]["ownerReferences"];
    let owner = json!({"uid": uid, "controller": controller});
    owners.as_array_mut().unwrap().push(owner);
}

#[test]
fn valid_request_has_no_violations() {
    mk_request().plan();
}

#[test]
fn each_invalid_field_has_exactly_its_violation() {
    for (item, (path, text, reason)) in fields() {
        println!("{item} {path}: {text}");
        let mut request = mk_request();
        *value_at(&mut request.items[item], path) = "PLACE".into();
        let text = request.text().replace("\"PLACE\"", text);
        let field = format!("{ITEMS}[{item}].{path}");
        assert_eq!(
            listed(violations_of_text(&request, text)),
            [(field, *reason)]
        );
    }
}

#[test]
fn each_case_has_exactly_its_violation() {
    for (change, field, reason) in cases() {
        println!("{field}: {reason:?}");
        let mut request = mk_request();
        change(&mut request);
        let field = if field.starts_with('[') {
            format!("{ITEMS}{field}")
        } else {
            field.to_string()
        };
        assert_eq!(listed(violations_of(&request)), [(field, *reason)]);
    }
}

#[test]
fn every_reason_has_a_case_and_a_unique_name() {
    let cases = cases().map(|(_, _, reason)| *reason);
    let fields = fields().map(|(_, (_, _, reason))| *reason);
    let tested: BTreeSet<Reason> = cases.chain(fields).collect();
    let all = BTreeSet::from(Reason::ALL);
    // In refused_objects.rs, oversized.rs, templates.rs and restarts/, and those of manifests in forecasts.rs.
    let tested_elsewhere = BTreeSet::from([
        Reason::WrongKind,
        Reason::DuplicateKey,
        Reason::Exclusive,
        Reason::TooDeep,
        Reason::TemplateTooLarge,
        Reason::ObjectTooLarge,
        Reason::NotFound,
        Reason::UnknownField,
        Reason::InvalidValue,
        Reason::Immutable,
    ]);
    assert_eq!(&tested | &tested_elsewhere, all);
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
    let mut request = mk_request();
    request.snapshot.now = None;
    request.meta()["generation"] = json!(-1);
    request.spec()["replicas"] = json!(-1);
    request.spec()["strategy"]["rollingUpdate"]["maxSurge"] = "many".into();
    request.set(0)["metadata"]["name"] = json!(null);
    request.pod(1)["metadata"]["uid"] = json!(null);
    request.answer().http_code = 1;
    request.options.horizon = -1;
    let expected = format!(
        "snapshot.now: is required; \
         {ITEMS}[0].metadata.generation: is -1, and may not be negative (Deployment shop/web); \
         {ITEMS}[0].spec.replicas: is -1, and may not be negative (Deployment shop/web); \
         {ITEMS}[0].spec.strategy.rollingUpdate.maxSurge: must be a whole number, or a percentage, for example \"25%\" \
         (Deployment shop/web); \
         {ITEMS}[1].metadata.name: is required (ReplicaSet shop/); \
         {ITEMS}[4].metadata.uid: is required (Pod shop/b); \
         snapshot.answers[0].http_code: is 1, and must be 0 or from 100 to 599; \
         options.horizon: unknown horizon -1"
    );
    assert_eq!(violations_of(&request).to_string(), expected);
}

#[test]
fn long_lists_of_violations_and_long_texts_are_truncated() {
    let mut request = mk_request();
    let pod = request.pod(0).clone();
    request.items.extend(vec![pod; 13]);
    request.spec()["selector"]["matchLabels"]["-".repeat(5000)] = "".into();
    let violations = violations_of(&request);
    assert_eq!(violations.listed.len(), LISTED_VIOLATIONS_MAX);
    // The long key, and 13 pods each with a duplicate UID and a duplicate name.
    assert_eq!(violations.omitted, 1 + 2 * 13 - LISTED_VIOLATIONS_MAX);
    assert!(violations.to_string().ends_with("; and 7 more"));
    for violation in violations.listed {
        assert!(violation.field.len() < 300 && violation.description.len() < 300);
    }
}

#[test]
fn annotations_are_refused_with_their_size() {
    let mut request = mk_request();
    request.meta()["annotations"] = json!({"key": "x".repeat(256 << 10)});
    assert_eq!(
        violations_of(&request).to_string(),
        format!(
            "{ITEMS}[0].metadata.annotations: 262147 bytes of keys and values exceed the limit of 262144 \
             (Deployment shop/web)"
        )
    );
    request.meta()["annotations"] = json!({"key": "x".repeat((256 << 10) - "key".len())});
    request.plan();
}
