//! The template of a ReplicaSet is read with the Deployment's template as a baseline. The violations and the result of the
//! comparison must be the same as without a baseline.

use rollplan::wire::{self, Error, Reason};
use rollplan_core::snapshot::Snapshot;
use rollplan_core::template::equal;
use rollplan_world::random::Random;
use serde_json::{Value, json};

use super::examples;
use super::random::break_bytes;
use super::templates::{random_value, text_of};
use crate::request::{list, mk_request};

/// The snapshot, or the violations in the ReplicaSet. `None` if only the Deployment has violations.
fn read(own: &str, set: &str) -> Result<Option<Snapshot>, Vec<(String, Reason)>> {
    let mut request = mk_request();
    request.items.truncate(2);
    let place = |item: &Value, text: &str| {
        let mut item = item.clone();
        item["spec"]["template"] = "PLACE".into();
        list(&[item]).to_string().replace("\"PLACE\"", text)
    };
    // In two texts, so that invalid JSON is found in its own.
    let texts = vec![place(&request.items[0], own), place(&request.items[1], set)];
    match wire::parse_snapshot(request.with_texts(texts).snapshot) {
        Ok(snapshot) => Ok(Some(snapshot)),
        Err(Error::InvalidArgument(violations)) => {
            let listed = violations.listed.into_iter();
            let of_set = listed.filter(|one| one.field.contains("[1]"));
            let of_set: Vec<_> = of_set.map(|one| (one.field, one.reason)).collect();
            if of_set.is_empty() {
                Ok(None)
            } else {
                Err(of_set)
            }
        }
        Err(other) => panic!("{other}"),
    }
}

/// Changes a random value, usually a deeply nested one.
fn change(value: &mut Value, random: &mut Random) {
    let inner = match value {
        Value::Object(entries) if !entries.is_empty() => {
            let at = random.below(entries.len());
            entries.values_mut().nth(at)
        }
        Value::Array(items) if !items.is_empty() => {
            let at = random.below(items.len());
            match random.below(8) {
                // Change the positions of the other items.
                0 => return drop(items.remove(at)),
                1 => return items.swap(0, at),
                2 => return items.insert(0, items[at].clone()),
                _ => items.get_mut(at),
            }
        }
        _ => None,
    };
    match inner {
        Some(inner) if random.below(8) > 0 => change(inner, random),
        Some(inner) => *inner = random_value(random, 4),
        None => *value = random_value(random, 4),
    }
}

#[test]
fn baseline_does_not_change_the_result() {
    let seed = std::env::var("ROLLPLAN_SEED").map_or(9, |seed| seed.parse().unwrap());
    let mut random = Random::new(seed);
    let templates: Vec<Value> = examples()
        .into_iter()
        .map(|(_, mut example)| example.spec()["template"].take())
        .collect();
    let (mut same, mut others, mut faulty) = (0, 0, 0);
    for round in 0..8_000 {
        let mut value = templates[random.below(templates.len())].clone();
        if random.below(3) == 0 {
            value =
                json!({"spec": random_value(&mut random, 1), "x": random_value(&mut random, 1)});
        }
        let order = random.number();
        let own = match random.below(2) {
            0 => value.to_string(),
            _ => text_of(&value, &mut Random::new(order)),
        };
        let mut set = match random.below(4) {
            0 => own.clone(),
            // The same content in a different form.
            1 => text_of(&value, &mut random),
            // The same order of keys up to the changed value. After it the order may differ.
            2 => {
                change(&mut value, &mut random);
                text_of(&value, &mut Random::new(order))
            }
            _ => {
                change(&mut value, &mut random);
                value.to_string()
            }
        };
        if !value.is_object() {
            continue;
        }
        if random.below(3) == 0 {
            let mut bytes = set.into_bytes();
            break_bytes(&mut random, &mut bytes, |random, bytes, at| {
                bytes.insert(at, b"0,:]}\""[random.below(6)]);
            });
            let Ok(broken) = String::from_utf8(bytes) else {
                continue;
            };
            set = broken;
        }
        let at = format_args!("ROLLPLAN_SEED={seed}, round {round}");
        match (read(&own, &set), read("{}", &set)) {
            (Err(compared), Err(alone)) => {
                assert_eq!(compared, alone, "{at}");
                faulty += 1;
            }
            (Ok(Some(compared)), Ok(Some(alone))) => {
                let own = &compared.deployment.spec.template;
                let template = &compared.replica_sets[0].template;
                let is_same = equal(alone.replica_sets[0].template.value(), own.value());
                assert_eq!(template.same_as(own), is_same, "{at}");
                *if is_same { &mut same } else { &mut others } += 1;
            }
            (compared, alone) => panic!("{at}: {compared:?} with a baseline, {alone:?} without"),
        }
    }
    assert!(
        same > 500 && others > 500 && faulty > 500,
        "{same} equal, {others} different, {faulty} faulty"
    );
}
