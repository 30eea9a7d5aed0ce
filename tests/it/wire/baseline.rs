//! The template of a ReplicaSet is read with the Deployment's template as a baseline. The violations and the result of the
//! comparison must be the same as without a baseline.

use prost::Message as _;
use rollplan::proto::RawStruct;
use rollplan::wire::{self, Error, Reason};
use rollplan_core::snapshot::Snapshot;
use rollplan_core::template::{Value, equal};

use super::random::Random;
use super::templates::{encode_map, random_value};
use super::{Parts as _, examples, mk_request, request};

const SET: &str = "snapshot.replica_sets[0].spec.template";

/// The snapshot, or the violations in the ReplicaSet's template. `None` if only the Deployment's template has violations.
fn read(own: &RawStruct, set: &RawStruct) -> Result<Option<Snapshot>, Vec<(String, Reason)>> {
    let mut request = mk_request();
    request.spec().template = Some(own.clone());
    request.set_spec(0).template = Some(set.clone());
    match wire::parse_snapshot(request.snapshot) {
        Ok(snapshot) => Ok(Some(snapshot)),
        Err(Error::InvalidArgument(violations)) => {
            let listed = violations.listed.into_iter();
            let of_set = listed.filter(|one| one.field.starts_with(SET));
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

fn encode(value: &Value, random: &mut Random) -> Vec<u8> {
    encode_map(value.as_map().unwrap(), random)
}

/// Changes a random value, usually a deeply nested one.
fn change(value: &mut Value, random: &mut Random) {
    let inner = match value {
        Value::Map(entries) if !entries.is_empty() => {
            let at = random.below(entries.len());
            entries.values_mut().nth(at)
        }
        Value::List(items) if !items.is_empty() => {
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
    let mut random = Random(seed);
    let mut templates = Vec::new();
    for (_, example) in examples() {
        let snapshot = wire::parse_snapshot(request(&example).snapshot).unwrap();
        templates.push(snapshot.deployment.spec.template.value().clone());
    }
    let (mut same, mut others, mut faulty) = (0, 0, 0);
    for round in 0..8_000 {
        let mut value = templates[random.below(templates.len())].clone();
        if random.below(3) == 0 {
            let spec = random_value(&mut random, 1);
            value = Value::from([("spec", spec), ("x", random_value(&mut random, 1))]);
        }
        let order = random.next();
        let mut own = encode(&value, &mut Random(order));
        let mut set = match random.below(4) {
            0 => own.clone(),
            // The same content with the keys in a different order.
            1 => encode(&value, &mut random),
            // The same order of keys up to the changed value. After it the order may differ.
            _ => {
                change(&mut value, &mut random);
                if !matches!(value, Value::Map(_)) {
                    continue;
                }
                encode(&value, &mut Random(order))
            }
        };
        if random.below(3) == 0 {
            random.break_bytes(&mut set, |random, bytes, at| {
                bytes.insert(at, random.next() as u8)
            });
        }
        if random.below(6) == 0 {
            random.break_bytes(&mut own, |random, bytes, at| {
                bytes.insert(at, random.next() as u8)
            });
        }
        let (Ok(own), Ok(set)) = (RawStruct::decode(&own[..]), RawStruct::decode(&set[..])) else {
            continue;
        };
        let at = format_args!("ROLLPLAN_SEED={seed}, round {round}");
        match (read(&own, &set), read(&RawStruct::default(), &set)) {
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
            (Ok(None), Ok(Some(_))) => {}
            (compared, alone) => panic!("{at}: {compared:?} with a baseline, {alone:?} without"),
        }
    }
    assert!(
        same > 500 && others > 500 && faulty > 500,
        "{same} equal, {others} different, {faulty} faulty"
    );
}
