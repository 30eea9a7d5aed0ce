//! Random templates that are determined by a seed.

use rollplan_world::random::Random;

use crate::template::kind::{Kind, Struct};
use crate::template::shape::TEMPLATE;
use crate::template::{Number, Value};

const TEXTS: &[&str] = &["", "a", "b", "0", "1", "\u{e9}\"\\\n"];
const QUANTITIES: &[&str] = &[
    "0", "0m", "1", "1000m", "1Ki", "1024", "1.5", "1500m", "1e3", "1k", "bad", " 1",
];
const TIMES: &[&str] = &[
    "0001-01-01T00:00:00Z",
    "2026-01-02T03:04:05Z",
    "2026-01-02T04:04:05+01:00",
    "2026-01-02T03:04:05.50Z",
    "2026-01-02T03:04:05.5Z",
    "yesterday",
];
const NUMBERS: &[f64] = &[0.0, 1.0, -1.0, 0.5, 1024.0, 1e300, 9_007_199_254_740_991.0];
const KEYS: &[&str] = &["a", "b", "cpu", "pod-template-hash", "spec", ""];

pub(super) fn template(random: &mut Random) -> Value {
    let Kind::Struct(root) = &TEMPLATE else {
        panic!("the shape of a template is a struct");
    };
    let mut template = structure(random, root, 0);
    if let Value::Map(entries) = &mut template {
        for name in ["metadata", "spec"] {
            if let Some(field) = root.field(name) {
                entries.insert(name.to_owned(), value(random, &field.kind, 1));
            }
        }
    }
    template
}

fn structure(random: &mut Random, of: &Struct, depth: usize) -> Value {
    let mut entries = Vec::new();
    for _ in 0..random.below(5 + depth / 2) {
        let field = &of.fields[random.below(of.fields.len())];
        entries.push((field.name.to_owned(), value(random, &field.kind, depth + 1)));
    }
    if random.one_in(8) {
        entries.push((
            (*random.pick(&["unknown", "new", "labels"])).to_owned(),
            anything(random, depth),
        ));
    }
    Value::Map(entries.into_iter().collect())
}

fn value(random: &mut Random, kind: &Kind, depth: usize) -> Value {
    match random.below(24) {
        0 | 1 => return Value::Null,
        2 => return anything(random, depth),
        _ => {}
    }
    match kind {
        Kind::Bool => Value::Bool(random.one_in(2)),
        Kind::Integer => Value::from(*random.pick(&[0, 1])),
        Kind::String => Value::from(*random.pick(TEXTS)),
        Kind::Quantity => Value::from(*random.pick(QUANTITIES)),
        Kind::IntOrString if random.one_in(2) => Value::from(*random.pick(&[0, 1])),
        Kind::IntOrString => Value::from(*random.pick(TEXTS)),
        Kind::Time => Value::from(*random.pick(TIMES)),
        Kind::Raw => anything(random, depth),
        Kind::Struct(_) if depth > 6 => Value::map(),
        Kind::Struct(of) => structure(random, of, depth),
        Kind::List(of) => Value::List(
            (0..random.below(3))
                .map(|_| value(random, of, depth + 1))
                .collect(),
        ),
        Kind::Map(of) => {
            let entries = (0..random.below(4)).map(|_| {
                (
                    (*random.pick(KEYS)).to_owned(),
                    value(random, of, depth + 1),
                )
            });
            Value::Map(entries.collect())
        }
    }
}

fn anything(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth > 6 { 4 } else { 6 }) {
        0 => Value::Null,
        1 => Value::Bool(random.one_in(2)),
        2 => Value::Number(Number::from(*random.pick(NUMBERS))),
        3 => Value::from(*random.pick(TEXTS)),
        4 => Value::List(
            (0..random.below(3))
                .map(|_| anything(random, depth + 1))
                .collect(),
        ),
        _ => Value::Map(
            (0..random.below(3))
                .map(|_| ((*random.pick(KEYS)).to_owned(), anything(random, depth + 1)))
                .collect(),
        ),
    }
}

/// Changes one random node: replaces it with a small value, or removes it.
pub(super) fn mutate(random: &mut Random, value: &mut Value) {
    match value {
        Value::Map(entries) if !entries.is_empty() => {
            let at = random.below(entries.len());
            let Some(key) = entries.keys().nth(at).cloned() else {
                return;
            };
            if random.one_in(6) {
                entries.remove(&key);
            } else if let Some(inner) = entries.get_mut(&key) {
                mutate(random, inner);
            }
        }
        Value::List(items) if !items.is_empty() && !random.one_in(6) => {
            let at = random.below(items.len());
            mutate(random, &mut items[at]);
        }
        _ => {
            *value = match random.below(7) {
                0 => Value::Null,
                1 => Value::map(),
                2 => Value::List(Vec::new()),
                3 => Value::from(*random.pick(QUANTITIES)),
                4 => Value::from(*random.pick(TIMES)),
                _ => anything(random, 7),
            }
        }
    }
}
