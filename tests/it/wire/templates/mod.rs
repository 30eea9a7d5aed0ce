//! Encoded templates are read like decoded ones.

mod corrupted;

use std::collections::BTreeMap;

use prost::Message as _;
use prost::encoding::encode_varint;
use rollplan::proto;
use rollplan::proto::RawStruct;
use rollplan::wire::{self, Error, Reason};
use rollplan_core::template::{MAX_DEPTH, Template, Value, equal, template_hash};

use super::random::Random;
use super::{Parts as _, examples, mk_request, request};

/// The template in the form for the planner.
fn take_in(raw: &RawStruct) -> Result<Template, Error> {
    let mut request = mk_request();
    request.spec().template = Some(raw.clone());
    let snapshot = wire::parse_snapshot(request.snapshot)?;
    Ok(snapshot.deployment.spec.template)
}

fn raw(bytes: &[u8]) -> RawStruct {
    RawStruct::decode(bytes).unwrap()
}

fn reasons(raw: &RawStruct) -> Vec<Reason> {
    match take_in(raw) {
        Ok(_) => Vec::new(),
        Err(Error::InvalidArgument(violations)) => {
            violations.listed.iter().map(|one| one.reason).collect()
        }
        Err(other) => panic!("{other}"),
    }
}

// An encoder that writes the entries of a map in any order.

fn field(tag: u64, bytes: &[u8], out: &mut Vec<u8>) {
    encode_varint(tag << 3 | 2, out);
    encode_varint(bytes.len() as u64, out);
    out.extend(bytes);
}

pub(super) fn encode_map(entries: &BTreeMap<String, Value>, random: &mut Random) -> Vec<u8> {
    let mut entries: Vec<_> = entries.iter().collect();
    random.shuffle(&mut entries);
    let mut out = Vec::new();
    for (key, value) in entries {
        // Sometimes a key is repeated: the last value counts.
        if random.below(20) == 0 {
            field(
                1,
                &entry_of(key, &Value::from("overwritten"), random),
                &mut out,
            );
        }
        field(1, &entry_of(key, value, random), &mut out);
    }
    out
}

fn entry_of(key: &str, value: &Value, random: &mut Random) -> Vec<u8> {
    let mut parts = [Vec::new(), Vec::new()];
    field(1, key.as_bytes(), &mut parts[0]);
    field(2, &encode_value(value, random), &mut parts[1]);
    random.shuffle(&mut parts);
    parts.concat()
}

fn encode_value(value: &Value, random: &mut Random) -> Vec<u8> {
    let mut out = Vec::new();
    match value {
        Value::Null => out.extend([1 << 3, 0]),
        Value::Bool(value) => out.extend([4 << 3, u8::from(*value)]),
        Value::Number(number) => {
            out.push(2 << 3 | 1);
            out.extend(number.as_f64().to_le_bytes());
        }
        Value::String(text) => field(3, text.as_bytes(), &mut out),
        Value::Map(entries) => field(5, &encode_map(entries, random), &mut out),
        Value::List(items) => {
            let mut list = Vec::new();
            for item in items {
                field(1, &encode_value(item, random), &mut list);
            }
            field(6, &list, &mut out);
        }
    }
    out
}

/// A random value, with known and unknown keys of templates.
pub(super) fn random_value(random: &mut Random, depth: usize) -> Value {
    const KEYS: &[&str] = &[
        "metadata",
        "labels",
        "annotations",
        "spec",
        "containers",
        "resources",
        "limits",
        "cpu",
        "env",
        "name",
        "value",
        "securityContext",
        "pod-template-hash",
        "example.com/x",
        "",
        "ä",
    ];
    match random.below(if depth > 5 { 4 } else { 8 }) {
        0 => Value::Null,
        1 => Value::from(random.below(2) == 0),
        2 => Value::from(random.below(3) as i32 - 1),
        3 => Value::from(["", "1", "1Ki", "text", "1.5"][random.below(5)]),
        4 => Value::List(
            (0..random.below(4))
                .map(|_| random_value(random, depth + 1))
                .collect(),
        ),
        _ => random_map(random, KEYS, depth),
    }
}

fn random_map(random: &mut Random, keys: &[&str], depth: usize) -> Value {
    let count = random.below(8);
    let mut entries = BTreeMap::new();
    for _ in 0..count {
        let key = keys[random.below(keys.len())].to_owned();
        entries.insert(key, random_value(random, depth + 1));
    }
    Value::Map(entries)
}

fn check_taken_in(value: &Value, random: &mut Random) {
    let Value::Map(entries) = value else {
        panic!("a template is a map")
    };
    let bytes = encode_map(entries, random);
    let template = take_in(&raw(&bytes)).unwrap();
    assert_eq!(template.value(), value);
    let again = take_in(&raw(&encode_map(entries, random))).unwrap();
    assert!(again.same_as(&template));
}

#[test]
fn random_templates_are_decoded_in_any_key_order() {
    let mut random = Random(1);
    for _ in 0..2_000 {
        let spec = random_value(&mut random, 1);
        let metadata = random_value(&mut random, 1);
        check_taken_in(
            &Value::from([("spec", spec), ("metadata", metadata)]),
            &mut random,
        );
    }
    check_taken_in(&Value::map(), &mut random);
}

#[test]
fn real_templates_are_decoded_in_any_key_order() {
    let mut random = Random(2);
    let mut count = 0;
    for (_, example) in examples() {
        let snapshot = wire::parse_snapshot(request(&example).snapshot).unwrap();
        let sets = snapshot.replica_sets.iter().map(|set| &set.template);
        for template in sets.chain([&snapshot.deployment.spec.template]) {
            (0..20).for_each(|_| check_taken_in(template.value(), &mut random));
            count += 1;
        }
    }
    assert!(count > 20, "{count} templates");
}

/// The call that creates a ReplicaSet is written from the encoded template. The result must be that of decoding the template,
/// adding the label and writing it.
#[test]
fn created_replica_sets_have_the_template_with_the_label() {
    let mut random = Random(3);
    for round in 0..1_000 {
        let labels = [("app", "web"), ("zone", "a"), ("a", "b")];
        let labels = labels[..1 + random.below(3)].iter().copied();
        let labels: BTreeMap<_, _> = labels
            .map(|(key, value)| (key.to_owned(), Value::from(value)))
            .collect();
        let value = Value::from([
            ("a", random_value(&mut random, 1)),
            (
                "metadata",
                Value::from([
                    ("annotations", random_value(&mut random, 2)),
                    ("labels", Value::Map(labels)),
                    ("name", Value::from(format!("\"{round}\"\n"))),
                ]),
            ),
            ("spec", random_value(&mut random, 1)),
        ]);
        let Value::Map(entries) = &value else {
            panic!("a template is a map")
        };
        let mut request = mk_request();
        request.spec().template = Some(raw(&encode_map(entries, &mut random)));
        let plan = wire::plan_rollout(request).unwrap();
        let mut calls = plan.steps.iter().filter_map(|step| step.call.as_ref());
        let create = calls.find(|call| call.verb() == proto::Verb::Create);
        let create = create.unwrap();
        let hash = template_hash(&value, None);
        assert_eq!(create.name, format!("web-{hash}"));
        let mut labelled = value.clone();
        let metadata = labelled.as_map_mut().unwrap().get_mut("metadata");
        let labels = metadata.unwrap().as_map_mut().unwrap().get_mut("labels");
        let labels = labels.unwrap().as_map_mut().unwrap();
        labels.insert("pod-template-hash".to_owned(), Value::from(hash));
        let end = format!(r#""template":{}}}}}"#, labelled.to_json());
        assert!(create.body_json.ends_with(&end), "{}", create.body_json);
    }
}

/// The template of a ReplicaSet is compared with that of the Deployment without decoding them.
#[test]
fn encoded_templates_compare_like_decoded_ones() {
    let mut random = Random(7);
    let mut answers = [0, 0];
    for _ in 0..5_000 {
        let parts = |random: &mut Random| [random_value(random, 1), random_value(random, 1)];
        let [spec, metadata] = parts(&mut random);
        let template = |spec: &Value, metadata: &Value| {
            BTreeMap::from([
                ("spec".to_owned(), spec.clone()),
                ("metadata".to_owned(), metadata.clone()),
            ])
        };
        let own = template(&spec, &metadata);
        let other = match random.below(4) {
            0 => template(&random_value(&mut random, 1), &metadata),
            1 => template(&spec, &random_value(&mut random, 1)),
            _ => own.clone(),
        };
        let mut request = mk_request();
        request.spec().template = Some(raw(&encode_map(&own, &mut random)));
        request.set_spec(0).template = Some(raw(&encode_map(&other, &mut random)));
        let snapshot = wire::parse_snapshot(request.snapshot).unwrap();
        let set = &snapshot.replica_sets[0].template;
        let want = equal(&Value::Map(own), &Value::Map(other));
        assert_eq!(
            set.same_as(&snapshot.deployment.spec.template),
            want,
            "{} and {}",
            set.value().to_json(),
            snapshot.deployment.spec.template.value().to_json()
        );
        answers[usize::from(want)] += 1;
    }
    assert!(answers.iter().all(|count| *count > 200), "{answers:?}");
}

#[test]
fn large_maps_are_decoded_in_linear_time() {
    // Comparing all pairs of keys would take too long.
    let keys = (0..20_000).map(|i| (format!("k{}", i % 15_000), Value::from(i)));
    let mut bytes = Vec::new();
    let mut random = Random(3);
    let keys: Vec<_> = keys.collect();
    for (key, value) in &keys {
        field(1, &entry_of(key, value, &mut random), &mut bytes);
    }
    let template = take_in(&raw(&bytes)).unwrap();
    assert_eq!(template.value(), &Value::Map(keys.into_iter().collect()));
    // One more key exceeds the limit.
    field(
        1,
        &entry_of("more", &Value::from(1), &mut random),
        &mut bytes,
    );
    let violations = take_in(&raw(&bytes)).unwrap_err().to_string();
    assert_eq!(
        violations,
        "snapshot.deployment.spec.template: more than 20000 values"
    );
}

#[test]
fn templates_are_returned_byte_for_byte() {
    let mut random = Random(4);
    for _ in 0..200 {
        let Value::Map(entries) = random_map(&mut random, &["a", "b", "spec"], 0) else {
            unreachable!()
        };
        let bytes = encode_map(&entries, &mut random);
        let decoded = raw(&bytes);
        assert_eq!(decoded.encode_to_vec(), bytes);
        assert_eq!(decoded.encoded_len(), bytes.len());
        // As in protobuf, two parts of a message are merged.
        let mut merged = decoded.clone();
        merged.merge(&bytes[..]).unwrap();
        assert!(
            take_in(&merged)
                .unwrap()
                .same_as(&take_in(&decoded).unwrap())
        );
    }
    let mut cleared = raw(b"\x0a\x00");
    cleared.clear();
    assert_eq!(cleared, RawStruct::default());
}

#[test]
fn depth_of_lists_and_maps_is_limited() {
    // Built from the inside out, without recursion.
    let nested = |levels: usize| {
        let mut value = vec![4 << 3, 1];
        for level in 0..levels - 1 {
            let mut inner = Vec::new();
            let (mut entry, mut outer) = (Vec::new(), Vec::new());
            if level % 2 == 0 {
                field(1, &value, &mut inner);
                field(6, &inner, &mut outer);
            } else {
                field(2, &value, &mut entry);
                field(1, &entry, &mut inner);
                field(5, &inner, &mut outer);
            }
            value = outer;
        }
        let (mut entry, mut bytes) = (Vec::new(), Vec::new());
        field(2, &value, &mut entry);
        field(1, &entry, &mut bytes);
        raw(&bytes)
    };
    assert_eq!(reasons(&nested(MAX_DEPTH)), []);
    assert_eq!(reasons(&nested(MAX_DEPTH + 1)), [Reason::TooDeep]);
    assert_eq!(reasons(&nested(20_000)), [Reason::TooDeep]);
    let mut request = mk_request();
    request.spec().template = Some(nested(MAX_DEPTH + 1));
    let error = wire::plan_rollout(request).unwrap_err().to_string();
    let expected = format!(": is more than {MAX_DEPTH} levels deep");
    assert!(error.ends_with(&expected), "{error}");
}

#[test]
fn integers_up_to_the_limit_are_accepted() {
    let value = |number: f64| {
        let fields = [("x".to_owned(), prost_types::Value::from(number))];
        raw(&prost_types::Struct {
            fields: fields.into(),
        }
        .encode_to_vec())
    };
    let max = 9_007_199_254_740_991_f64;
    for number in [max, -max, 0.0, -0.0, 0.5, 1e-300, f64::MIN_POSITIVE] {
        let template = take_in(&value(number)).unwrap();
        assert_eq!(
            template
                .value()
                .get("x")
                .unwrap()
                .as_number()
                .unwrap()
                .as_f64(),
            number
        );
    }
    for number in [max + 1.0, -max - 1.0, 1e300] {
        assert_eq!(reasons(&value(number)), [Reason::UnsafeInteger]);
    }
    for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert_eq!(reasons(&value(number)), [Reason::NotFinite]);
    }
}
