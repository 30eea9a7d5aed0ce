//! Pod templates are read from their text, compared with each other, and written to calls.

use rollplan::proto;
use rollplan::wire::{self, Error, Reason};
use rollplan_core::template::{MAX_DEPTH, Template, Value as CoreValue, equal, template_hash};
use rollplan_world::json;
use rollplan_world::random::Random;
use serde_json::{Map, Value, json};

use super::examples;
use super::random::{break_bytes, print};
use crate::request::{ITEMS, half_way, mk_request};

/// The template of the Deployment in the form for the planner.
fn read(template: &str) -> Result<Template, Error> {
    let mut request = mk_request();
    request.spec()["template"] = "PLACE".into();
    let text = request.text().replace("\"PLACE\"", template);
    let snapshot = wire::parse_snapshot(request.with_texts(vec![text]).snapshot)?;
    Ok(snapshot.deployment.spec.template)
}

fn reasons(template: &str) -> Vec<Reason> {
    match read(template) {
        Ok(_) => Vec::new(),
        Err(Error::InvalidArgument(violations)) => {
            violations.listed.iter().map(|one| one.reason).collect()
        }
        Err(other) => panic!("{other}"),
    }
}

/// The text of a value in a random form.
pub(super) fn text_of(value: &Value, random: &mut Random) -> String {
    let mut text = String::new();
    print(value, random, &mut text);
    text
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
        1 => (random.below(2) == 0).into(),
        2 => (random.below(3) as i32 - 1).into(),
        3 => ["", "1", "1Ki", "text", "1.5"][random.below(5)].into(),
        4 => (0..random.below(4))
            .map(|_| random_value(random, depth + 1))
            .collect(),
        _ => {
            let mut entries = Map::new();
            for _ in 0..random.below(8) {
                let key = KEYS[random.below(KEYS.len())].to_owned();
                entries.insert(key, random_value(random, depth + 1));
            }
            entries.into()
        }
    }
}

fn check_read(value: &Value, random: &mut Random) {
    let template = read(&text_of(value, random)).unwrap();
    assert_eq!(template.value(), &CoreValue::from(value));
    let again = read(&text_of(value, random)).unwrap();
    assert!(again.same_as(&template));
}

#[test]
fn random_templates_are_read_in_any_form() {
    let mut random = Random::new(1);
    for _ in 0..2_000 {
        let spec = random_value(&mut random, 1);
        let metadata = random_value(&mut random, 1);
        check_read(&json!({"spec": spec, "metadata": metadata}), &mut random);
    }
    check_read(&json!({}), &mut random);
}

#[test]
fn real_templates_are_read_in_any_form() {
    let mut random = Random::new(2);
    let mut count = 0;
    for (_, example) in examples() {
        for object in example.items {
            let template = &object["spec"]["template"];
            if template.is_object() {
                (0..20).for_each(|_| check_read(template, &mut random));
                count += 1;
            }
        }
    }
    assert!(count > 20, "{count} templates");
}

/// The call that creates a ReplicaSet is written from the text of the template. The result must be that of reading the
/// template, adding the label and writing it.
#[test]
fn created_replica_sets_have_the_template_with_the_label() {
    let mut random = Random::new(3);
    for round in 0..1_000 {
        let labels = [("app", "web"), ("zone", "a"), ("a", "b")];
        let labels = labels[..1 + random.below(3)].iter().copied();
        let labels: Map<_, _> = labels
            .map(|(key, value)| (key.to_owned(), value.into()))
            .collect();
        let mut value = json!({
            "a": random_value(&mut random, 1),
            "metadata": {
                "annotations": random_value(&mut random, 2),
                "labels": labels,
                "name": format!("\"{round}\"\n"),
            },
            "spec": random_value(&mut random, 1),
        });
        let mut request = mk_request();
        request.spec()["template"] = "PLACE".into();
        let text = text_of(&value, &mut random);
        let text = request.text().replace("\"PLACE\"", &text);
        let plan = rollplan::service::answer(request.with_texts(vec![text])).unwrap();
        let mut calls = plan.steps.iter().filter_map(|step| step.call.as_ref());
        let create = calls.find(|call| call.verb() == proto::Verb::Create);
        let create = create.unwrap();
        let hash = template_hash(&CoreValue::from(&value), None);
        assert_eq!(create.name, format!("web-{hash}"));
        value["metadata"]["labels"]["pod-template-hash"] = hash.into();
        let end = format!(r#""template":{value}}}}}"#);
        assert!(create.body_json.ends_with(&end), "{}", create.body_json);
    }
}

/// Whether a Deployment gets a new ReplicaSet, and with which template: it and its ReplicaSet have these fields in their
/// pods' specs.
fn rolled_out(deployment: &Value, replica_set: &Value) -> Option<Value> {
    let mut request = half_way();
    let template = request.spec()["template"].clone();
    let with = |fields: &Value| {
        let mut template = template.clone();
        template["spec"] = json::with(template["spec"].take(), fields);
        template
    };
    request.spec()["template"] = with(deployment);
    for set in request.all("ReplicaSet") {
        set["spec"]["template"] = with(replica_set);
    }
    let plan = request.plan();
    let mut calls = plan.steps.iter().filter_map(|step| step.call.as_ref());
    let create = calls.find(|call| call.verb() == proto::Verb::Create)?;
    let mut body: Value = serde_json::from_str(&create.body_json).unwrap();
    Some(body["spec"]["template"].take())
}

#[test]
fn equal_fields_of_1_37_start_no_rollout() {
    let mounts = |mount: Value| json!({"containers": [{"name": "web", "volumeMounts": [mount]}]});
    let responder = |it: Value| json!({"evictionResponders": [it]});
    for (with, without) in [
        (json!({"evictionResponders": []}), json!({})),
        (
            mounts(json!({"name": "v", "bindMountOptions": []})),
            mounts(json!({"name": "v"})),
        ),
        (
            responder(json!({"name": "a.b/c", "priority": null})),
            responder(json!({"name": "a.b/c"})),
        ),
    ] {
        assert_eq!(rolled_out(&with, &without), None);
        assert_eq!(rolled_out(&without, &with), None);
    }
    assert!(rolled_out(&responder(json!({"name": "a.b/c"})), &json!({})).is_some());
}

/// A newer API server may have fields that are not in the shape table. They are kept, and compared as they are.
#[test]
fn fields_that_no_version_knows_are_kept_and_compared() {
    let future = json!({
        "fromTheFuture": {"empty": [], "size": "1Ki"},
        "evictionResponders": [{"name": "a.b/c", "fromTheFuture": 1.5}],
    });
    let created = rolled_out(&future, &json!({})).unwrap();
    for (name, value) in future.as_object().unwrap() {
        assert_eq!(&created["spec"][name], value);
    }
    assert_eq!(rolled_out(&future, &future), None);
    let mut larger = future.clone();
    larger["fromTheFuture"]["size"] = "1024".into();
    assert!(rolled_out(&larger, &future).is_some());
}

/// The template of a ReplicaSet is compared with that of the Deployment without building either.
#[test]
fn texts_of_templates_compare_like_their_values() {
    let mut random = Random::new(7);
    let mut answers = [0, 0];
    for _ in 0..5_000 {
        let [spec, metadata] = [1, 1].map(|depth| random_value(&mut random, depth));
        let own = json!({"spec": spec, "metadata": metadata});
        let mut other = own.clone();
        match random.below(4) {
            0 => other["spec"] = random_value(&mut random, 1),
            1 => other["metadata"] = random_value(&mut random, 1),
            _ => {}
        }
        let mut request = mk_request();
        request.spec()["template"] = "OWN".into();
        request.set(0)["spec"]["template"] = "OTHER".into();
        let text = request.text();
        let text = text.replace("\"OWN\"", &text_of(&own, &mut random));
        let text = text.replace("\"OTHER\"", &text_of(&other, &mut random));
        let snapshot = wire::parse_snapshot(request.with_texts(vec![text]).snapshot).unwrap();
        let is_same = snapshot.replica_sets[0]
            .template
            .same_as(&snapshot.deployment.spec.template);
        let expected = equal(&CoreValue::from(&own), &CoreValue::from(&other));
        assert_eq!(is_same, expected, "{own} and {other}");
        answers[usize::from(expected)] += 1;
    }
    assert!(answers.iter().all(|count| *count > 200), "{answers:?}");
}

#[test]
fn large_maps_are_read_in_linear_time() {
    // Comparing all pairs of keys would take too long.
    let with = |values: usize| {
        let mut random = Random::new(3);
        let entries = (0..values).map(|i| (format!("k{i}"), i.into()));
        let value = Value::Object(entries.collect());
        (text_of(&value, &mut random), value)
    };
    let (text, value) = with(20_000);
    let template = read(&text).unwrap();
    assert_eq!(template.value(), &CoreValue::from(&value));
    let violations = read(&with(20_001).0).unwrap_err().to_string();
    let expected =
        format!("{ITEMS}[0].spec.template: more than 20000 values (Deployment shop/web)");
    assert_eq!(violations, expected);
}

#[test]
fn depth_of_lists_and_maps_is_limited() {
    let nested = |levels: usize| {
        let (pairs, rest) = ((levels - 1) / 2, (levels - 1) % 2);
        let (open, close) = (r#"[{"a":"#.repeat(pairs), "}]".repeat(pairs));
        let (inner, end) = ("[".repeat(rest), "]".repeat(rest));
        format!(r#"{{"a":{open}{inner}1{end}{close}}}"#)
    };
    assert_eq!(reasons(&nested(MAX_DEPTH)), []);
    assert_eq!(reasons(&nested(MAX_DEPTH + 1)), [Reason::TooDeep]);
    assert_eq!(reasons(&nested(20_000)), [Reason::TooDeep]);
}

#[test]
fn numbers_up_to_the_limit_are_exact() {
    for text in [
        "9223372036854775807",
        "-9223372036854775808",
        "9007199254740993",
        "0",
        "-0.0",
        "0.5",
        "1e3",
        "1e-300",
        "2.2250738585072011e-308",
        "1.6666666666666666660",
        "9007199254740991.0",
    ] {
        let template = read(&format!(r#"{{"x":{text}}}"#)).unwrap();
        let number = template.value().get("x").unwrap().as_number().unwrap();
        match text.parse::<i64>() {
            Ok(integer) => assert_eq!(number.as_i64(), Some(integer)),
            Err(_) => assert_eq!(Ok(number.as_f64()), text.parse()),
        }
    }
}

/// Values of templates may be secret.
#[test]
fn violations_in_templates_do_not_contain_values() {
    for value in ["98765432109876543210", r#"{"a":"98765432","a":"98765432"}"#] {
        let error = read(&format!(r#"{{"x":{value}}}"#)).unwrap_err();
        assert!(!error.to_string().contains("98765432"), "{error}");
    }
}

/// Randomly corrupted text: a template that is accepted must be the one that serde_json reads.
#[test]
fn corrupted_templates_are_refused_or_read_exactly() {
    let (_, mut example) = examples().swap_remove(0);
    let whole = example.spec()["template"].to_string();
    let mut random = Random::new(6);
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..10_000 {
        let mut bytes = whole.clone().into_bytes();
        break_bytes(&mut random, &mut bytes, |_, bytes, at| bytes[at] = b'1');
        let Ok(text) = String::from_utf8(bytes) else {
            continue;
        };
        match read(&text) {
            Ok(template) => {
                accepted += 1;
                let value: Value = serde_json::from_str(&text).unwrap();
                assert_eq!(template.value(), &CoreValue::from(&value), "{text}");
            }
            Err(Error::InvalidArgument(_)) => refused += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert!(
        accepted > 500 && refused > 500,
        "{accepted} accepted, {refused} refused"
    );
}

#[test]
fn debug_output_hides_templates() {
    let mut request = mk_request();
    request.spec()["template"]["x"] = "hunter2".into();
    let snapshot = wire::parse_snapshot(request.message().snapshot).unwrap();
    assert!(!format!("{snapshot:?}").contains("hunter2"));
}
