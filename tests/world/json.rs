//! Objects as Kubernetes prints them. Tests of requests give them fields that the typed objects do not have, or invalid
//! values.

use serde_json::{Value, json};

/// A List, as kubectl prints it.
pub fn list(items: &[Value]) -> Value {
    json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": items})
}

/// An object in the namespace shop, with nothing but the metadata that all objects have.
pub fn object(api_version: &str, kind: &str, name: &str) -> Value {
    let metadata = json!({"name": name, "namespace": "shop", "uid": format!("{name}-uid")});
    json!({"apiVersion": api_version, "kind": kind, "metadata": metadata})
}

/// The object, with this one as its controller.
pub fn controlled(mut object: Value, owner: &Value) -> Value {
    let metadata = &owner["metadata"];
    object["metadata"]["ownerReferences"] = json!([{
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": metadata["name"], "uid": metadata["uid"],
        "controller": true, "blockOwnerDeletion": true,
    }]);
    object
}

/// The object with these fields in addition, or with their values.
pub fn with(mut object: Value, fields: &Value) -> Value {
    let fields = fields.as_object().unwrap().clone();
    object.as_object_mut().unwrap().extend(fields);
    object
}

/// A ConfigMap.
pub fn config_map(name: &str, data: Value) -> Value {
    let mut map = object("v1", "ConfigMap", name);
    map["data"] = data;
    map
}

/// A Deployment whose container `app` has these fields, with annotations.
pub fn workload(name: &str, annotations: Value, container: Value) -> Value {
    let mut workload = object("apps/v1", "Deployment", name);
    workload["metadata"]["annotations"] = annotations;
    workload["spec"]["template"] = pod_template(name, container);
    workload
}

/// The template of pods with the label `app`, whose container `app` has these fields.
pub fn pod_template(label: &str, mut container: Value) -> Value {
    container["name"] = "app".into();
    json!({"metadata": {"labels": {"app": label}}, "spec": {"containers": [container]}})
}
