//! What an apply makes of a stored object and a manifest.
//!
//! Kubernetes source: the strategic merge of three objects in `k8s.io/apimachinery/pkg/util/strategicpatch`, which kubectl
//! uses, and the merge by owners of fields in `structured-merge-diff`, which the API server uses for a server-side apply.

use std::collections::{BTreeMap, BTreeSet};

use super::kind::{Field, Kind};
use super::value::Value;

/// What the writer of a manifest has applied before. An apply removes what the manifest no longer has of it, and keeps all
/// other fields.
#[derive(Clone, Debug)]
pub enum LastApplied {
    /// The last manifest, for a strategic merge. A field that is removed is removed with everything below it.
    Manifest(Value),
    /// The fields that the writer and all other managers own, each as a `fieldsV1`, for a server-side apply. A field that
    /// is removed is removed with everything below it, unless another manager owns something of it.
    Owned {
        /// The fields of the writer.
        own: Value,
        /// The fields of all other managers.
        others: Value,
    },
}

/// The object that the API server has after an apply of a manifest. `kind` is that of the object, as far as it is known.
#[must_use]
pub fn apply(
    kind: Option<&'static Kind>,
    live: &Value,
    last: &LastApplied,
    manifest: &Value,
) -> Value {
    let before = match last {
        LastApplied::Manifest(last) => Before::Manifest(Some(last)),
        LastApplied::Owned { own, others } => Before::Owned {
            own: Some(own),
            others: Some(others),
        },
    };
    let place = Place {
        kind,
        field: None,
        is_item: false,
        before,
    };
    place.merged(live, Some(manifest))
}

/// What was applied before at a position.
#[derive(Clone, Copy)]
enum Before<'v> {
    Manifest(Option<&'v Value>),
    Owned {
        own: Option<&'v Value>,
        others: Option<&'v Value>,
    },
}

/// What is known about a value from its position.
#[derive(Clone, Copy)]
struct Place<'v> {
    /// `None` if Kubernetes does not know the field.
    kind: Option<&'static Kind>,
    /// The field of the value or of its list, if it is one of a struct.
    field: Option<&'static Field>,
    is_item: bool,
    before: Before<'v>,
}

/// What identifies an item of a list.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    fields: Value,
    /// How many earlier items have the same fields: the key of a strategic merge may repeat, for example the port 53.
    repeats: usize,
}

/// The items of a list whose items have keys.
#[derive(Default)]
struct Items<'v> {
    keys: Vec<Key>,
    /// Each with its index.
    by_key: BTreeMap<Key, (usize, &'v Value)>,
}

// === impl Items ===

impl<'v> Items<'v> {
    fn get(&self, key: &Key) -> Option<&'v Value> {
        self.by_key.get(key).map(|(_, item)| *item)
    }

    fn index(&self, key: &Key) -> Option<usize> {
        self.by_key.get(key).map(|(index, _)| *index)
    }
}

// === impl Before ===

impl Before<'_> {
    fn of_key(self, key: &str) -> Self {
        match self {
            Self::Manifest(last) => Self::Manifest(last.and_then(|last| last.get(key))),
            Self::Owned { .. } => self.below(&format!("f:{key}")),
        }
    }

    /// The owners below a key of a `fieldsV1`.
    fn below(self, key: &str) -> Self {
        match self {
            Self::Manifest(_) => self,
            Self::Owned { own, others } => Self::Owned {
                own: own.and_then(|fields| fields.get(key)),
                others: others.and_then(|fields| fields.get(key)),
            },
        }
    }
}

// === impl Place ===

impl<'v> Place<'v> {
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
            is_item: false,
            before: self.before.of_key(key),
        }
    }

    fn of_item(self, key: &Key, last: &Items<'v>) -> Self {
        let kind = match self.kind {
            Some(Kind::List(of)) => Some(*of),
            _ => None,
        };
        let before = match self.before {
            Before::Manifest(_) => Before::Manifest(last.get(key)),
            Before::Owned { .. } => self.before.below(&format!("k:{}", key.fields.to_json())),
        };
        Self {
            kind,
            is_item: true,
            before,
            ..self
        }
    }

    fn is_merged_by_owners(self) -> bool {
        matches!(self.before, Before::Owned { .. })
    }

    /// The value after the apply. If the manifest does not have it, it remains, but values below it may be removed.
    fn merged(self, live: &Value, manifest: Option<&Value>) -> Value {
        let is_atomic = self.is_merged_by_owners() && self.field.is_some_and(|it| it.is_atomic);
        let merged = match (live, manifest) {
            _ if is_atomic => None,
            (Value::Map(live), None) => Some(self.merged_map(live, None)),
            (Value::Map(live), Some(Value::Map(manifest))) => {
                Some(self.merged_map(live, Some(manifest)))
            }
            (Value::List(live), None) => self.merged_list(live, &[]),
            (Value::List(live), Some(Value::List(manifest))) => self.merged_list(live, manifest),
            _ => None,
        };
        merged.unwrap_or_else(|| manifest.unwrap_or(live).clone())
    }

    fn merged_map(
        self,
        live: &BTreeMap<String, Value>,
        manifest: Option<&BTreeMap<String, Value>>,
    ) -> Value {
        let retains_keys =
            !self.is_merged_by_owners() && self.field.is_some_and(|it| it.retains_keys);
        let of_manifest = manifest.into_iter().flat_map(BTreeMap::keys);
        let keys: BTreeSet<&String> = live.keys().chain(of_manifest).collect();
        let merged = keys.into_iter().filter_map(|key| {
            let new = manifest.and_then(|manifest| manifest.get(key));
            let is_retained = !retains_keys || manifest.is_none() || new.is_some();
            let live = live.get(key).filter(|_| is_retained);
            Some((key.clone(), self.of_key(key).entry(live, new)?))
        });
        Value::Map(merged.collect())
    }

    /// The merged entry of a map, a struct or a list with keys. `None` if the apply removes it.
    fn entry(self, live: Option<&Value>, manifest: Option<&Value>) -> Option<Value> {
        match (live, manifest) {
            (_, Some(Value::Null)) => None,
            (None, manifest) => manifest.cloned(),
            (Some(_), None) if self.is_removed() => None,
            (Some(live), manifest) => Some(self.merged(live, manifest)),
        }
    }

    /// Whether an apply removes this value if the manifest does not have it.
    fn is_removed(self) -> bool {
        match self.before {
            Before::Manifest(last) => last.is_some(),
            Before::Owned { own, others } => self.is_owned(own) && !self.is_owned(others),
        }
    }

    /// Whether a manager owns the value itself. The owner of a field of a struct also owns the struct, unless that is an item
    /// of a list.
    fn is_owned(self, fields: Option<&Value>) -> bool {
        let fields = fields.and_then(Value::as_map);
        fields.is_some_and(|fields| !self.is_item || fields.is_empty() || fields.contains_key("."))
    }

    /// The merged items of a list whose items have keys. `None` for other lists.
    fn merged_list(self, live: &[Value], manifest: &[Value]) -> Option<Value> {
        let (live, manifest) = (self.items(live)?, self.items(manifest)?);
        let last = match self.before {
            Before::Manifest(last) => last.and_then(|last| self.items(last.as_list()?)),
            Before::Owned { .. } => None,
        };
        let last = last.unwrap_or_default();
        let items = self.order(&live, &manifest).into_iter().filter_map(|key| {
            let place = self.of_item(key, &last);
            place.entry(live.get(key), manifest.get(key))
        });
        Some(Value::List(items.collect()))
    }

    /// The keys of the live items and those of the manifest. Those of the manifest have its order; between them, all other
    /// live items keep theirs. Kubernetes: `mergeSortedSlice` of the strategic merge, `visitListItems` of server-side apply.
    fn order<'i>(self, live: &'i Items<'_>, manifest: &'i Items<'_>) -> Vec<&'i Key> {
        let is_other = |key: &&Key| manifest.index(key).is_none();
        let in_both = manifest.keys.iter().filter_map(|key| live.index(key));
        let mut in_both = in_both.peekable();
        let mut order = Vec::with_capacity(live.keys.len());
        let mut next = 0;
        for key in &manifest.keys {
            let index = live.index(key);
            let end = if self.is_merged_by_owners() {
                // Before a new item, too. If an earlier item of the manifest follows in the live list, all others come first.
                let end = in_both.peek().copied().filter(|&end| end >= next);
                end.unwrap_or(live.keys.len())
            } else {
                index.map_or(next, |index| index.max(next))
            };
            order.extend(live.keys[next..end].iter().filter(is_other));
            order.push(key);
            next = end;
            if index.is_some() {
                in_both.next();
            }
        }
        order.extend(live.keys[next..].iter().filter(is_other));
        order
    }

    /// `None` if the list has no keys, or an item without one.
    fn items<'i>(self, items: &'i [Value]) -> Option<Items<'i>> {
        let mut counts = BTreeMap::new();
        let keys = items.iter().map(|item| {
            let fields = self.key_fields(item)?;
            let count = counts.entry(fields.clone()).or_insert(0);
            let repeats = *count;
            *count += 1;
            Some(Key { fields, repeats })
        });
        let keys: Vec<Key> = keys.collect::<Option<_>>()?;
        let by_key = keys.iter().cloned().zip(items.iter().enumerate()).collect();
        Some(Items { keys, by_key })
    }

    /// The fields that identify an item of a list. `None` if it has none of them.
    fn key_fields(self, item: &Value) -> Option<Value> {
        let field = self.field?;
        let merge_key = [(field.merge_key, "")];
        let keys = if self.is_merged_by_owners() {
            field.list_keys
        } else {
            &merge_key
        };
        let entries = keys.iter().filter_map(|&(name, default)| {
            let default = || (!default.is_empty()).then(|| Value::from(default));
            let value = item.get(name).cloned().or_else(default)?;
            Some((name.to_owned(), value))
        });
        let entries: BTreeMap<String, Value> = entries.collect();
        (!entries.is_empty()).then_some(Value::Map(entries))
    }
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
    fn items_of_others_keep_their_place_in_the_order_of_the_manifest() {
        let env = |names: &str| {
            let items = names.chars().map(|name| format!(r#"{{"name":"{name}"}}"#));
            let items = items.collect::<Vec<_>>().join(",");
            pod(&format!(
                r#"{{"containers":[{{"name":"a","env":[{items}]}}]}}"#
            ))
        };
        for (live, new, strategic, by_owners) in [
            ("xab", "ab", "xab", "xab"),
            ("axb", "ab", "axb", "axb"),
            ("abx", "ab", "abx", "abx"),
            ("axb", "ba", "xba", "xba"),
            ("xaybz", "ncab", "ncxaybz", "xncaybz"),
            ("xaybz", "anb", "xanybz", "xaynbz"),
            ("baxcy", "abnc", "abnxcy", "axybnc"),
            ("xy", "ab", "abxy", "xyab"),
        ] {
            let (live, new) = (env(live), env(new));
            check(&live, &manifest("{}"), &new, &env(strategic));
            check(&live, &owned("{}", "{}"), &new, &env(by_owners));
        }
    }

    fn owned(own: &str, others: &str) -> LastApplied {
        LastApplied::Owned {
            own: parse(own),
            others: parse(others),
        }
    }

    /// The spec of a Deployment with this pod spec, or its `fieldsV1`.
    fn pod(spec: &str) -> String {
        let prefix = if spec.contains(r#""f:"#) { "f:" } else { "" };
        format!(r#"{{"{prefix}template":{{"{prefix}spec":{spec}}}}}"#)
    }

    #[test]
    fn fields_that_only_the_applier_owned_are_removed() {
        check(
            r#"{"replicas":8,"template":{"metadata":{"annotations":{"a":"1","b":"2"}}}}"#,
            &owned(
                r#"{"f:replicas":{},"f:template":{"f:metadata":{"f:annotations":{"f:a":{}}}}}"#,
                r#"{"f:template":{"f:metadata":{"f:annotations":{"f:b":{}}}}}"#,
            ),
            "{}",
            r#"{"template":{"metadata":{"annotations":{"b":"2"}}}}"#,
        );
    }

    #[test]
    fn fields_without_an_owner_are_removed_with_the_owned_value_around_them() {
        let probe = r#"{"httpGet":{"path":"/","port":80,"scheme":"HTTP"},"periodSeconds":5,"timeoutSeconds":1}"#;
        let live = pod(&format!(
            r#"{{"containers":[{{"name":"a","args":["x"],"livenessProbe":{probe}}},{{"name":"b","image":"b"}}]}}"#
        ));
        let own = pod(
            r#"{"f:containers":{"k:{\"name\":\"a\"}":{".":{},"f:name":{},"f:args":{},"f:livenessProbe":{"f:httpGet":{"f:path":{},"f:port":{}}}},
                                "k:{\"name\":\"b\"}":{".":{},"f:name":{}}}}"#,
        );
        let new = pod(r#"{"containers":[{"name":"a"}]}"#);
        check(&live, &owned(&own, "{}"), &new, &new);
        // The owner of a field keeps it. To keep an item, it must own the item itself.
        let others = pod(
            r#"{"f:containers":{"k:{\"name\":\"a\"}":{"f:livenessProbe":{"f:periodSeconds":{}}},
                                "k:{\"name\":\"b\"}":{"f:image":{}}}}"#,
        );
        let kept = r#"{"periodSeconds":5,"timeoutSeconds":1}"#;
        let expected = pod(&format!(
            r#"{{"containers":[{{"name":"a","livenessProbe":{kept}}}]}}"#
        ));
        check(&live, &owned(&own, &others), &new, &expected);
    }

    #[test]
    fn atomic_values_are_replaced_and_removed_as_a_whole() {
        let live = pod(r#"{"nodeSelector":{"a":"1","b":"2"}}"#);
        let new = pod(r#"{"nodeSelector":{"c":"3"}}"#);
        let own = pod(r#"{"f:nodeSelector":{}}"#);
        check(&live, &owned(&own, "{}"), &new, &new);
        check(&live, &owned("{}", &own), &new, &new);
        check(&live, &owned(&own, "{}"), &pod("{}"), &pod("{}"));
        check(&live, &owned(&own, &own), &pod("{}"), &live);
    }

    #[test]
    fn server_side_apply_matches_ports_by_number_and_protocol() {
        let ports = |items: &str| {
            pod(&format!(
                r#"{{"containers":[{{"name":"a","ports":[{items}]}}]}}"#
            ))
        };
        let udp = r#"{"containerPort":53,"protocol":"UDP"}"#;
        let tcp = r#"{"containerPort":53,"protocol":"TCP"}"#;
        let live = ports(&format!("{udp},{tcp}"));
        let own = pod(
            r#"{"f:containers":{"k:{\"name\":\"a\"}":{".":{},"f:name":{},"f:ports":{
                "k:{\"containerPort\":53,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}},
                "k:{\"containerPort\":53,\"protocol\":\"UDP\"}":{".":{},"f:containerPort":{},"f:protocol":{}}}}}}"#,
        );
        // The protocol is TCP by default.
        let new = ports(&format!(r#"{udp},{{"containerPort":53}}"#));
        check(&live, &owned(&own, "{}"), &new, &live);
        check(&live, &owned(&own, "{}"), &ports(tcp), &ports(tcp));
    }

    #[test]
    fn items_with_the_same_merge_key_are_matched_in_their_order() {
        let containers = |tag: &str, ports: &str| {
            pod(&format!(
                r#"{{"containers":[{{"name":"a","image":"a:{tag}","ports":[{ports}]}}]}}"#
            ))
        };
        let udp = r#"{"containerPort":53,"protocol":"UDP"}"#;
        let (tcp, tcp_by_default) = (
            r#"{"containerPort":53,"protocol":"TCP","name":"t"}"#,
            r#"{"containerPort":53,"name":"t"}"#,
        );
        let live = containers("1", &format!("{udp},{tcp}"));
        let last = manifest(&containers("1", &format!("{udp},{tcp_by_default}")));
        let new = containers("2", &format!("{udp},{tcp_by_default}"));
        let expected = containers("2", &format!("{udp},{tcp}"));
        check(&live, &last, &new, &expected);
        check(&live, &last, &containers("2", udp), &containers("2", udp));
    }

    #[test]
    fn server_side_apply_keeps_defaults_beside_a_changed_field() {
        let live = r#"{"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":1}}}"#;
        check(
            live,
            &owned(r#"{"f:replicas":{}}"#, "{}"),
            r#"{"strategy":{"type":"Recreate"}}"#,
            r#"{"strategy":{"type":"Recreate","rollingUpdate":{"maxSurge":1}}}"#,
        );
    }

    fn without_nulls(value: &mut Value) {
        match value {
            Value::Map(entries) => {
                entries.retain(|_, value| !value.is_null() && value.as_list() != Some(&[]));
                entries.values_mut().for_each(without_nulls);
            }
            Value::List(items) => items.iter_mut().for_each(without_nulls),
            _ => {}
        }
    }

    /// The merges of Kubernetes, in `testdata/merges.tsv`.
    #[test]
    fn results_are_those_of_kubernetes_merges() {
        let mut failed = Vec::new();
        let mut count = 0;
        for row in include_str!("testdata/merges.tsv").lines() {
            if row.starts_with('#') {
                continue;
            }
            let columns: Vec<Value> = row.split('\t').map(parse).collect();
            let [live, last, new, expected] = &columns[..] else {
                panic!("{row}");
            };
            let last = match last {
                Value::List(fields) => LastApplied::Owned {
                    own: fields[0].clone(),
                    others: fields[1].clone(),
                },
                last => LastApplied::Manifest(last.clone()),
            };
            let mut merged = apply(Some(&SPEC), live, &last, new);
            without_nulls(&mut merged);
            if merged != *expected {
                failed.push(format!("{row}\n{}", merged.to_json()));
            }
            count += 1;
        }
        assert!(
            failed.is_empty(),
            "{} of {count} differ\n{}",
            failed.len(),
            failed.join("\n")
        );
        assert!(count >= 100);
    }
}
