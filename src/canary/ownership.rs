//! The owners of the fields that a canary writes: its patches have a field manager of their own, which has to lose them at
//! the end. Otherwise, later applies of the user would conflict with it, or could not remove fields.

use serde_json::{Map, Value, json};

/// The field manager of the patches, by which the guard recognizes them.
pub const FIELD_MANAGER: &str = "rollplan-canary";

/// The annotation with the last applied configuration, in the form of managed fields.
const APPLIED: [&str; 3] = [
    "f:metadata",
    "f:annotations",
    "f:kubectl.kubernetes.io/last-applied-configuration",
];

/// The fields that a canary writes besides the template, in the form of managed fields.
const FIELDS: [(&str, &[&str]); 5] = [
    ("lastApplied", &APPLIED),
    ("minReadySeconds", &["f:spec", "f:minReadySeconds"]),
    (
        "progressDeadlineSeconds",
        &["f:spec", "f:progressDeadlineSeconds"],
    ),
    (
        "maxSurge",
        &["f:spec", "f:strategy", "f:rollingUpdate", "f:maxSurge"],
    ),
    (
        "maxUnavailable",
        &[
            "f:spec",
            "f:strategy",
            "f:rollingUpdate",
            "f:maxUnavailable",
        ],
    ),
];

/// Which managers own the fields of a Deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagedFields {
    /// `metadata.resourceVersion`.
    pub resource_version: String,
    /// `metadata.managedFields`.
    pub entries: Vec<Value>,
}

/// A manager that owned a field before the canary was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) field: String,
    pub(crate) manager: String,
    pub(crate) operation: String,
}

// === impl ManagedFields ===

impl ManagedFields {
    /// The owners of the fields that a canary writes.
    pub(crate) fn owners(&self) -> Vec<Owner> {
        let entries = self.entries.iter().filter(|it| is_whole(it));
        let text = |entry: &Value, key: &str| entry[key].as_str().unwrap_or_default().to_owned();
        entries
            .filter(|entry| entry["manager"] != FIELD_MANAGER)
            .flat_map(|entry| {
                let owned = FIELDS
                    .iter()
                    .filter(|(_, path)| at(&entry["fieldsV1"], path).is_some());
                owned.map(|(field, _)| Owner {
                    field: (*field).to_owned(),
                    manager: text(entry, "manager"),
                    operation: text(entry, "operation"),
                })
            })
            .collect()
    }

    /// The entries after the fields of the canary were given back. `None` if it has none.
    ///
    /// They go to their former owners, and the template to the manager that applies the manifest: with client-side
    /// apply, it owns the last applied configuration, and otherwise it is the only one that applies.
    pub(crate) fn returned(&self, owners: &[Owner], is_client_side: bool) -> Option<Vec<Value>> {
        let (own, mut entries): (Vec<Value>, Vec<Value>) = self
            .entries
            .iter()
            .cloned()
            .partition(|entry| entry["manager"] == FIELD_MANAGER);
        let first = own.first()?;
        for Owner {
            field,
            manager,
            operation,
        } in owners
        {
            let is_owner = |it: &Value| {
                is_whole(it) && it["manager"] == **manager && it["operation"] == **operation
            };
            let path = FIELDS.iter().find(|it| it.0 == field).map(|it| it.1);
            let given = path.and_then(|path| given(&own, path));
            let Some(given) = given else { continue };
            let index = entries.iter().position(is_owner).unwrap_or_else(|| {
                // It has lost its last field.
                let mut entry = first.clone();
                entry["manager"] = json!(manager);
                entry["operation"] = json!(operation);
                entry["fieldsV1"] = json!({});
                entries.push(entry);
                entries.len() - 1
            });
            if let Some(entry) = entries.get_mut(index) {
                add(entry, &given);
            }
        }
        let template = given(&own, &["f:spec", "f:template"]);
        if let (Some(given), Some(owner)) = (template, applier(&mut entries, is_client_side)) {
            add(owner, &given);
        }
        if entries.is_empty() {
            // The API server keeps the managed fields if the list is empty.
            entries.push(json!({}));
        }
        Some(entries)
    }
}

/// Whether an entry is about the object, and not about a subresource.
fn is_whole(entry: &Value) -> bool {
    entry.get("subresource").is_none()
}

/// The entry of the manager that applies the manifest.
fn applier(entries: &mut [Value], is_client_side: bool) -> Option<&mut Value> {
    let applies = |entry: &&mut Value| {
        let fields = &entry["fieldsV1"];
        let has_applied = if is_client_side {
            at(fields, &APPLIED).is_some()
        } else {
            entry["operation"] == "Apply" && at(fields, &["f:spec", "f:template"]).is_some()
        };
        is_whole(entry) && has_applied
    };
    let mut appliers = entries.iter_mut().filter(applies);
    let applier = appliers.next()?;
    appliers.next().is_none().then_some(applier)
}

/// The fields of the canary at a path, with this path.
fn given(own: &[Value], path: &[&str]) -> Option<Value> {
    let given = own.iter().find_map(|it| at(&it["fieldsV1"], path))?;
    let keys = path.iter().rev();
    Some(keys.fold(given.clone(), |inner, key| json!({*key: inner})))
}

/// Adds fields to those of an entry.
fn add(entry: &mut Value, given: &Value) {
    if let (Some(Value::Object(fields)), Value::Object(given)) = (entry.get_mut("fieldsV1"), given)
    {
        merge(fields, given);
    }
}

fn at<'a>(fields: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(fields, |it, key| it.get(key))
}

/// Adds the fields of one set to another. A field without others below it is an empty object, and `.` beside those below it.
fn merge(into: &mut Map<String, Value>, from: &Map<String, Value>) {
    for (key, given) in from {
        match (into.get_mut(key), given) {
            (Some(Value::Object(own)), Value::Object(given)) => {
                if own.is_empty() != given.is_empty() {
                    own.insert(".".to_owned(), json!({}));
                }
                merge(own, given);
            }
            _ => drop(into.insert(key.clone(), given.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(manager: &str, operation: &str, fields: Value) -> Value {
        json!({"manager": manager, "operation": operation, "fieldsType": "FieldsV1", "fieldsV1": fields})
    }

    fn canary() -> Value {
        let container = json!({"f:image": {}});
        entry(
            FIELD_MANAGER,
            "Update",
            json!({
                "f:metadata": {"f:annotations": {"f:rollplan.dev/canary": {}}},
                "f:spec": {
                    "f:minReadySeconds": {},
                    "f:strategy": {"f:rollingUpdate": {"f:maxSurge": {}}},
                    "f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"web\"}": container}}},
                },
            }),
        )
    }

    fn managed(entries: &[&Value]) -> ManagedFields {
        ManagedFields {
            resource_version: "7".to_owned(),
            entries: entries.iter().copied().cloned().collect(),
        }
    }

    fn template(container: &Value) -> Value {
        json!({"f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"web\"}": container}}}})
    }

    fn applied(manager: &str, spec: &Value) -> Value {
        entry(manager, "Apply", json!({"f:spec": spec}))
    }

    #[test]
    fn client_side_apply_owns_the_template_again() {
        let annotation = json!({APPLIED[1]: {APPLIED[2]: {}}});
        let user = |spec: &Value| {
            let fields = json!({"f:metadata": annotation, "f:spec": spec});
            entry("kubectl-client-side-apply", "Update", fields)
        };
        let scale = json!({"f:spec": {"f:replicas": {}}});
        let other = entry("kubectl-scale", "Update", scale);
        let spec = template(&json!({".": {}, "f:name": {}}));
        let after = managed(&[&user(&spec), &canary(), &other]).returned(&[], true);
        let expected = template(&json!({".": {}, "f:name": {}, "f:image": {}}));
        assert_eq!(after, Some(vec![user(&expected), other]));
    }

    #[test]
    fn server_side_apply_owns_the_template_again() {
        let named = applied("ci", &template(&json!({".": {}, "f:name": {}})));
        let whole = template(&json!({".": {}, "f:name": {}, "f:image": {}}));
        assert_eq!(
            managed(&[&canary(), &named]).returned(&[], false),
            Some(vec![applied("ci", &whole)])
        );
        // It is not known which of two managers has the manifest.
        let other = applied("other", &template(&json!({"f:env": {}})));
        assert_eq!(
            managed(&[&named, &other, &canary()]).returned(&[], false),
            Some(vec![named, other])
        );
    }

    #[test]
    fn fields_of_the_hold_belong_to_their_former_owners_again() {
        let surge = json!({"f:strategy": {"f:rollingUpdate": {"f:maxSurge": {}}}});
        let mut with_template = template(&json!({"f:image": {}}));
        with_template["f:strategy"] = surge["f:strategy"].clone();
        let seconds = json!({"f:spec": {"f:minReadySeconds": {}}});
        let patched = entry("kubectl-patch", "Update", seconds);
        let before = managed(&[&applied("ci", &with_template), &patched]);
        let owners = before.owners();
        let owner = |field: &str, manager: &str, operation: &str| Owner {
            field: field.to_owned(),
            manager: manager.to_owned(),
            operation: operation.to_owned(),
        };
        assert_eq!(
            owners,
            [
                owner("maxSurge", "ci", "Apply"),
                owner("minReadySeconds", "kubectl-patch", "Update")
            ]
        );
        // The start has taken these fields, the last one of a manager among them.
        let without = applied("ci", &template(&json!({"f:name": {}})));
        let after = managed(&[&without, &canary()]).returned(&owners, false);
        let mut with_name = with_template.clone();
        with_name["f:template"] =
            template(&json!({"f:name": {}, "f:image": {}}))["f:template"].clone();
        assert_eq!(after, Some(vec![applied("ci", &with_name), patched]));
    }

    #[test]
    fn field_that_has_others_below_it_stays_owned_itself() {
        let spec = |env: &Value| template(&json!({"f:env": env}));
        let below = json!({"k:{\"name\":\"B\"}": {".": {}, "f:name": {}}});
        let mut both = below.clone();
        both["."] = json!({});
        for (mine, given) in [(json!({}), below.clone()), (below, json!({}))] {
            let own = entry(FIELD_MANAGER, "Update", json!({"f:spec": spec(&given)}));
            let merged = managed(&[&applied("ci", &spec(&mine)), &own]).returned(&[], false);
            assert_eq!(merged, Some(vec![applied("ci", &spec(&both))]));
        }
    }

    #[test]
    fn nothing_is_given_back_without_fields_of_a_canary() {
        let own = applied("ci", &json!({}));
        assert_eq!(managed(&[&own]).returned(&[], false), None);
        assert_eq!(
            managed(&[&canary()]).returned(&[], false),
            Some(vec![json!({})])
        );
    }
}
