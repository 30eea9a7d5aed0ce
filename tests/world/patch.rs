//! JSON Patches, as the API server carries them out.

use rollplan_core::size::IntOrPercent;
use rollplan_core::snapshot::{Deployment, Strategy, StringMap};
use rollplan_core::template::{Template, Value, with_defaults};
use serde_json::{Value as Json, json};

/// Applies a JSON Patch to an object: all of it or nothing. A test for null succeeds if the field is absent.
///
/// # Errors
///
/// If a test fails, or a path does not exist.
///
/// # Panics
///
/// If plans do not contain this operation.
pub fn apply(object: &mut Json, patch: &Json) -> Result<(), String> {
    let mut changed = object.clone();
    for operation in patch.as_array().ok_or("not a JSON Patch")? {
        let path = operation["path"].as_str().ok_or("no path")?;
        let (parent, key) = path.rsplit_once('/').ok_or("no key")?;
        let key = key.replace("~1", "/").replace("~0", "~");
        let missing = || format!("{path}: missing path");
        let parent = changed.pointer_mut(parent).ok_or_else(missing)?;
        let value = operation["value"].clone();
        match (operation["op"].as_str(), parent) {
            (Some("test"), parent) => {
                let there = match parent {
                    Json::Array(items) => items.get(key.parse::<usize>().map_err(|_| missing())?),
                    parent => parent.get(&key),
                };
                if there.unwrap_or(&Json::Null) != &value {
                    return Err(format!("{path}: test failed"));
                }
            }
            (Some("add"), Json::Object(map)) => _ = map.insert(key, value),
            (Some("add"), Json::Array(items)) if key == "-" => items.push(value),
            (Some("remove"), Json::Object(map)) => _ = map.remove(&key).ok_or_else(missing)?,
            (Some("replace"), Json::Object(map)) => {
                *map.get_mut(&key).ok_or_else(missing)? = value;
            }
            (Some("add" | "remove" | "replace"), _) => return Err(missing()),
            _ => panic!("unknown operation {operation}"),
        }
    }
    *object = changed;
    Ok(())
}

/// Applies a JSON Patch to the fields of a Deployment that canaries change. A new template gets the defaults that the API
/// server stores.
///
/// # Errors
///
/// See [`apply`].
///
/// # Panics
///
/// If the patch changes other fields.
pub fn apply_to_deployment(deployment: &mut Deployment, patch: &Json) -> Result<(), String> {
    let mut object = fields_of(deployment);
    apply(&mut object, patch)?;
    let Deployment { metadata, spec, .. } = deployment;
    for (key, stored) in [
        ("labels", &mut metadata.labels),
        ("annotations", &mut metadata.annotations),
    ] {
        let new = &mut object["metadata"][key];
        *stored = strings(new);
        if stored.is_empty() {
            *new = Json::Null;
        }
    }
    let fields = &mut object["spec"];
    let template = fields["template"].take();
    if !template.is_null() {
        spec.template = Template::from(with_defaults(Value::from(&template)));
    }
    spec.min_ready_seconds = number(&fields["minReadySeconds"]);
    spec.progress_deadline_seconds = number(&fields["progressDeadlineSeconds"]);
    if let Strategy::RollingUpdate {
        max_surge,
        max_unavailable,
    } = &mut spec.strategy
    {
        let rolling = &fields["strategy"]["rollingUpdate"];
        *max_surge = limit(&rolling["maxSurge"]);
        *max_unavailable = limit(&rolling["maxUnavailable"]);
    }
    assert_eq!(fields_of(deployment), object, "other fields");
    Ok(())
}

/// What a patch may test or change, without the template.
fn fields_of(deployment: &Deployment) -> Json {
    let Deployment { metadata, spec, .. } = deployment;
    let present = |strings: &StringMap| (!strings.is_empty()).then(|| json!(strings));
    let rolling = match spec.strategy {
        Strategy::Recreate => Json::Null,
        Strategy::RollingUpdate {
            max_surge,
            max_unavailable,
        } => json!({"maxSurge": printed(max_surge), "maxUnavailable": printed(max_unavailable)}),
    };
    json!({
        "metadata": {
            "uid": metadata.uid,
            "generation": metadata.generation,
            "labels": present(&metadata.labels),
            "annotations": present(&metadata.annotations),
        },
        "spec": {
            "template": null,
            "strategy": {"rollingUpdate": rolling},
            "minReadySeconds": spec.min_ready_seconds,
            "progressDeadlineSeconds": spec.progress_deadline_seconds,
        },
    })
}

/// A map of strings, which may be absent.
pub fn strings(json: &Json) -> StringMap {
    let entries = json.as_object().into_iter().flatten();
    entries
        .map(|(key, value)| (key.clone(), value.as_str().unwrap().to_owned()))
        .collect()
}

fn number(json: &Json) -> i32 {
    i32::try_from(json.as_i64().unwrap()).unwrap()
}

fn limit(json: &Json) -> IntOrPercent {
    match json.as_str().and_then(|text| text.strip_suffix('%')) {
        Some(digits) => IntOrPercent::from_percent(digits).unwrap(),
        None => IntOrPercent::Int(number(json)),
    }
}

fn printed(limit: IntOrPercent) -> Json {
    match limit {
        IntOrPercent::Int(count) => count.into(),
        percent => percent.to_string().into(),
    }
}
