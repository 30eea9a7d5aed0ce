//! What an apply makes of a stored object and a manifest.
//!
//! Kubernetes source: the strategic merge of three objects in `k8s.io/apimachinery/pkg/util/strategicpatch`, which kubectl
//! uses, and the merge by owners of fields in `structured-merge-diff`.

use std::collections::{BTreeMap, BTreeSet};

use super::kind::{Field, Kind};
use super::value::Value;

/// The fields of an object that the writer of a manifest has set before. An apply removes those that the manifest no
/// longer has, and keeps all others.
#[derive(Clone, Debug)]
pub enum LastApplied {
    /// The last manifest. A field that is removed is removed with everything below it.
    Manifest(Value),
    /// The fields of the writer that no one else has set. Others below the same field remain.
    Owned(Value),
}

/// The object that the API server has after an apply of a manifest. `kind` is that of the object, as far as it is known.
#[must_use]
pub fn apply(
    kind: Option<&'static Kind>,
    live: &Value,
    last: &LastApplied,
    manifest: &Value,
) -> Value {
    let (last, keeps_others) = match last {
        LastApplied::Manifest(last) => (last, false),
        LastApplied::Owned(last) => (last, true),
    };
    let place = Place {
        kind,
        field: None,
        keeps_others,
    };
    place.merged(live, Some(last), manifest)
}

/// What is known about a value from its position.
#[derive(Clone, Copy)]
struct Place {
    /// `None` if Kubernetes does not know the field.
    kind: Option<&'static Kind>,
    /// The field of the value, if it is one of a struct.
    field: Option<&'static Field>,
    keeps_others: bool,
}

// === impl Place ===

impl Place {
    fn of_key(self, key: &str) -> Self {
        let field = match self.kind {
            Some(Kind::Struct(of)) => of.field(key),
            _ => None,
        };
        let kind = match self.kind {
            Some(Kind::Map(of)) => Some(*of),
            _ => field.map(|field| &field.kind),
        };
        Self {
            kind,
            field,
            ..self
        }
    }

    fn of_item(self) -> Self {
        let kind = match self.kind {
            Some(Kind::List(of)) => Some(*of),
            _ => None,
        };
        Self { kind, ..self }
    }

    fn retains_keys(self) -> bool {
        self.field.is_some_and(|field| field.retains_keys)
    }

    fn merged(self, live: &Value, last: Option<&Value>, manifest: &Value) -> Value {
        match (live, manifest) {
            (Value::Map(live), Value::Map(manifest)) => {
                let keys: BTreeSet<&String> = live.keys().chain(manifest.keys()).collect();
                let merged = keys.into_iter().filter_map(|key| {
                    let last = last.and_then(|last| last.get(key));
                    let (live, manifest) = (live.get(key), manifest.get(key));
                    let live = live.filter(|_| !self.retains_keys() || manifest.is_some());
                    Some((key.clone(), self.of_key(key).entry(live, last, manifest)?))
                });
                Value::Map(merged.collect())
            }
            (Value::List(live), Value::List(manifest)) => self
                .merged_list(live, last, manifest)
                .unwrap_or_else(|| Value::List(manifest.clone())),
            _ => manifest.clone(),
        }
    }

    /// The merged entry of a map, a struct or a list with keys. `None` if the apply removes it.
    fn entry(
        self,
        live: Option<&Value>,
        last: Option<&Value>,
        manifest: Option<&Value>,
    ) -> Option<Value> {
        match (live, manifest) {
            (_, Some(Value::Null)) => None,
            (Some(live), Some(manifest)) => Some(self.merged(live, last, manifest)),
            (None, manifest) => manifest.cloned(),
            (Some(live), None) => match last {
                None => Some(live.clone()),
                Some(_) if !self.keeps_others => None,
                Some(_) => self.without_owned(live, last),
            },
        }
    }

    /// What remains if the owner of some fields no longer sets any of them. `None` if nothing does.
    fn without_owned(self, live: &Value, last: Option<&Value>) -> Option<Value> {
        let rest = match live {
            Value::Map(_) => self.merged(live, last, &Value::map()),
            Value::List(live) => self.merged_list(live, last, &[])?,
            _ => return None,
        };
        let is_empty = match &rest {
            Value::Map(rest) => rest.is_empty(),
            Value::List(rest) => rest.is_empty(),
            _ => true,
        };
        (!is_empty).then_some(rest)
    }

    /// The merged items of a list whose items have keys, in the order of the manifest. `None` for other lists.
    fn merged_list(
        self,
        live: &[Value],
        last: Option<&Value>,
        manifest: &[Value],
    ) -> Option<Value> {
        let key = self.field?.merge_key;
        let last = last.and_then(Value::as_list).unwrap_or_default();
        let (live_by_key, last, by_key) = (
            by_key(live, key)?,
            by_key(last, key).unwrap_or_default(),
            by_key(manifest, key)?,
        );
        let place = self.of_item();
        let of_manifest = manifest.iter().filter_map(|item| item.get(key));
        let of_live = live.iter().filter_map(|item| item.get(key));
        let others = of_live.filter(|id| !by_key.contains_key(id));
        let items = of_manifest.chain(others).filter_map(|id| {
            let of = |items: &BTreeMap<&Value, &'_ Value>| items.get(id).map(|it| (*it).clone());
            let (live, last, manifest) = (of(&live_by_key), of(&last), of(&by_key));
            place.entry(live.as_ref(), last.as_ref(), manifest.as_ref())
        });
        Some(Value::List(items.collect()))
    }
}

/// The items by their keys. `None` if the list has no keys, or an item without one.
fn by_key<'v>(items: &'v [Value], key: &str) -> Option<BTreeMap<&'v Value, &'v Value>> {
    let keyed = items.iter().map(|item| Some((item.get(key)?, item)));
    keyed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::SPEC;
    use crate::template::tests::json::parse;

    #[track_caller]
    fn check(live: &str, last: &LastApplied, manifest: &str, expected: &str) {
        let merged = apply(Some(&SPEC), &parse(live), last, &parse(manifest));
        assert_eq!(merged, parse(expected), "{}", merged.to_json());
    }

    fn manifest(text: &str) -> LastApplied {
        LastApplied::Manifest(parse(text))
    }

    #[test]
    fn fields_that_only_the_last_manifest_has_are_removed() {
        let live = r#"{"replicas":8,"minReadySeconds":5,"paused":true}"#;
        check(live, &manifest("{}"), "{}", live);
        check(
            live,
            &manifest(r#"{"replicas":3,"minReadySeconds":5}"#),
            r#"{"minReadySeconds":7}"#,
            r#"{"minReadySeconds":7,"paused":true}"#,
        );
    }

    #[test]
    fn items_with_keys_are_merged() {
        let containers =
            |items: &str| format!(r#"{{"template":{{"spec":{{"containers":[{items}]}}}}}}"#);
        check(
            &containers(
                r#"{"name":"a","image":"a:1","args":["x"],"env":[{"name":"A","value":"1"},{"name":"B","value":"1"}]},{"name":"b"},{"name":"c"}"#,
            ),
            &manifest(&containers(
                r#"{"name":"a","image":"a:1","env":[{"name":"A","value":"1"}]},{"name":"b"}"#,
            )),
            &containers(r#"{"name":"a","image":"a:2","args":["y","z"]}"#),
            &containers(
                r#"{"name":"a","image":"a:2","args":["y","z"],"env":[{"name":"B","value":"1"}]},{"name":"c"}"#,
            )
            // The whole list was in the last manifest, and is removed with everything below it.
            .replace(r#","env":[{"name":"B","value":"1"}]"#, ""),
        );
    }

    #[test]
    fn another_source_of_a_volume_replaces_the_one_before() {
        let volumes = |items: &str| format!(r#"{{"template":{{"spec":{{"volumes":[{items}]}}}}}}"#);
        let last = volumes(r#"{"name":"v","emptyDir":{}}"#);
        let new = volumes(r#"{"name":"v","configMap":{"name":"c"}}"#);
        check(&last, &manifest("{}"), &new, &new);
        let live = r#"{"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":1}}}"#;
        let recreate = r#"{"strategy":{"type":"Recreate"}}"#;
        check(live, &manifest("{}"), recreate, recreate);
    }

    #[test]
    fn fields_of_other_owners_remain() {
        let owned = LastApplied::Owned(parse(
            r#"{"replicas":null,"template":{"metadata":{"annotations":{"a":null}}}}"#,
        ));
        check(
            r#"{"replicas":8,"template":{"metadata":{"annotations":{"a":"1","b":"2"}}}}"#,
            &owned,
            "{}",
            r#"{"template":{"metadata":{"annotations":{"b":"2"}}}}"#,
        );
    }
}
