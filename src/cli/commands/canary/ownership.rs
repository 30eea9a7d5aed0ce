//! The owners of the fields that a canary has written: its patches have a field manager of their own, which has to lose them at the
//! end. Otherwise, later applies of the user would conflict with it, or could not remove fields.

use serde_json::{Map, Value, json};

use super::MANAGER;

/// The annotation in which client-side `kubectl apply` stores the manifest.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The fields of a hold, in the form of managed fields.
const FIELDS: [&[&str]; 4] = [
    &["f:spec", "f:minReadySeconds"],
    &["f:spec", "f:progressDeadlineSeconds"],
    &["f:spec", "f:strategy", "f:rollingUpdate", "f:maxSurge"],
    &[
        "f:spec",
        "f:strategy",
        "f:rollingUpdate",
        "f:maxUnavailable",
    ],
];

/// A JSON Patch that also gives the fields of the canary back. `deployment` is the Deployment with its managed fields. `None` if
/// there is nothing to give back.
///
/// The manager that applies the manifest gets the template: with client-side apply, it owns the last applied configuration, and
/// otherwise it is the only one that applies. The fields of the hold belong to it if the manifest states them.
pub(super) fn returned(patch: &str, deployment: &[u8]) -> Option<String> {
    let mut deployment: Value = serde_json::from_slice(deployment).ok()?;
    let mut operations: Vec<Value> = serde_json::from_str(patch).ok()?;
    let metadata = deployment.get_mut("metadata")?.as_object_mut()?;
    let Some(Value::Array(entries)) = metadata.remove("managedFields") else {
        return None;
    };
    let (own, mut entries): (Vec<Value>, Vec<Value>) = entries
        .into_iter()
        .partition(|entry| entry["manager"] == MANAGER);
    if own.is_empty() {
        return None;
    }
    let manifest = metadata
        .get("annotations")
        .and_then(|it| it.get(LAST_APPLIED));
    let manifest = manifest.and_then(Value::as_str);
    let manifest: Option<Value> = manifest.and_then(|it| serde_json::from_str(it).ok());
    if let Some(owner) = owner(&mut entries, manifest.is_some()) {
        for entry in &own {
            give(owner, entry, manifest.as_ref());
        }
    }
    if entries.is_empty() {
        // The API server keeps the managed fields if the list is empty.
        entries.push(json!({}));
    }
    let version = metadata.get("resourceVersion")?.clone();
    operations.insert(
        0,
        json!({"op": "test", "path": "/metadata/resourceVersion", "value": version}),
    );
    operations.push(json!({"op": "replace", "path": "/metadata/managedFields", "value": entries}));
    Some(Value::Array(operations).to_string())
}

/// The fields of the manager that applies the manifest.
fn owner(entries: &mut [Value], is_client_side: bool) -> Option<&mut Value> {
    let last_applied = format!("f:{LAST_APPLIED}");
    let is_owner = |entry: &&mut Value| {
        let fields = &entry["fieldsV1"];
        let is_whole = entry.get("subresource").is_none();
        is_whole
            && match is_client_side {
                true => at(fields, &["f:metadata", "f:annotations", &last_applied]).is_some(),
                false => {
                    entry["operation"] == "Apply" && at(fields, &["f:spec", "f:template"]).is_some()
                }
            }
    };
    let mut owners = entries.iter_mut().filter(is_owner);
    let owner = owners.next()?;
    match owners.next() {
        None => owner.get_mut("fieldsV1"),
        Some(_) => None,
    }
}

/// Adds the fields of an entry of the canary to those of the owner.
fn give(owner: &mut Value, entry: &Value, manifest: Option<&Value>) {
    let fields = &entry["fieldsV1"];
    let template: &[&str] = &["f:spec", "f:template"];
    let is_stated = |path: &&&[&str]| {
        let keys = path.iter().map(|key| key.trim_start_matches("f:"));
        manifest.is_some_and(|manifest| {
            keys.into_iter()
                .try_fold(manifest, |it, key| it.get(key))
                .is_some()
        })
    };
    let paths = FIELDS.iter().filter(is_stated).chain([&template]);
    for path in paths {
        if let Some(given) = at(fields, path) {
            let nested = path
                .iter()
                .rev()
                .fold(given.clone(), |inner, key| json!({*key: inner}));
            if let (Value::Object(owner), Value::Object(nested)) = (&mut *owner, nested) {
                merge(owner, &nested);
            }
        }
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

    const PATCH: &str = r#"[{"op":"remove","path":"/metadata/annotations/x"}]"#;

    fn entry(manager: &str, operation: &str, fields: Value) -> Value {
        json!({"manager": manager, "operation": operation, "fieldsType": "FieldsV1", "fieldsV1": fields})
    }

    fn canary() -> Value {
        let container = json!({"f:image": {}});
        entry(
            MANAGER,
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

    /// The managed fields after the patch.
    fn after(entries: Value, annotations: Value) -> Option<Value> {
        let deployment = json!({"metadata": {
            "resourceVersion": "7", "annotations": annotations, "managedFields": entries,
        }});
        let patch = returned(PATCH, deployment.to_string().as_bytes())?;
        let patch: Value = serde_json::from_str(&patch).unwrap();
        assert_eq!(
            patch[0],
            json!({"op": "test", "path": "/metadata/resourceVersion", "value": "7"})
        );
        assert_eq!(patch[1]["op"], "remove");
        assert_eq!(patch[2]["path"], "/metadata/managedFields");
        Some(patch[2]["value"].clone())
    }

    fn template(container: &Value) -> Value {
        json!({"f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"web\"}": container}}}})
    }

    #[test]
    fn client_side_apply_owns_the_template_again_and_what_its_manifest_states() {
        let annotation = json!({"f:annotations": {format!("f:{LAST_APPLIED}"): {}}});
        let spec = template(&json!({".": {}, "f:name": {}}));
        let user = |spec: &Value| {
            let fields = json!({"f:metadata": annotation, "f:spec": spec});
            entry("kubectl-client-side-apply", "Update", fields)
        };
        let other = entry(
            "kubectl-scale",
            "Update",
            json!({"f:spec": {"f:replicas": {}}}),
        );
        let manifest = json!({"spec": {"minReadySeconds": 5}}).to_string();
        let owned = json!([user(&spec), canary(), other]);
        let after = after(owned, json!({LAST_APPLIED: manifest}));
        let mut expected = template(&json!({".": {}, "f:name": {}, "f:image": {}}));
        expected["f:minReadySeconds"] = json!({});
        assert_eq!(after, Some(json!([user(&expected), other])));
    }

    #[test]
    fn server_side_apply_owns_the_template_again() {
        let user = |spec: &Value| entry("ci", "Apply", json!({"f:spec": spec}));
        let named = json!({".": {}, "f:name": {}});
        let owned = json!([canary(), user(&template(&named))]);
        let expected = user(&template(&json!({".": {}, "f:name": {}, "f:image": {}})));
        assert_eq!(after(owned, json!({})), Some(json!([expected])));
        // It is not known which of two managers has the manifest.
        let other = entry(
            "other",
            "Apply",
            json!({"f:spec": template(&json!({"f:env": {}}))}),
        );
        let both = json!([user(&template(&named)), other]);
        let owned = json!([user(&template(&named)), other, canary()]);
        assert_eq!(after(owned, json!({})), Some(both));
    }

    #[test]
    fn field_that_has_others_below_it_stays_owned_itself() {
        let user = |env: Value| {
            entry(
                "ci",
                "Apply",
                json!({"f:spec": template(&json!({"f:env": env}))}),
            )
        };
        let own = |env: Value| {
            entry(
                MANAGER,
                "Update",
                json!({"f:spec": template(&json!({"f:env": env}))}),
            )
        };
        let below = json!({"k:{\"name\":\"B\"}": {".": {}, "f:name": {}}});
        let mut both = below.clone();
        both["."] = json!({});
        for (mine, given) in [(json!({}), below.clone()), (below, json!({}))] {
            let merged = after(json!([user(mine), own(given)]), json!({}));
            assert_eq!(merged, Some(json!([user(both.clone())])));
        }
    }

    #[test]
    fn without_fields_of_a_canary_the_patch_stays() {
        assert_eq!(
            after(json!([entry("ci", "Apply", json!({}))]), json!({})),
            None
        );
        assert_eq!(returned(PATCH, b"{\"metadata\": {}}"), None);
        assert_eq!(after(json!([canary()]), json!({})), Some(json!([{}])));
    }
}
