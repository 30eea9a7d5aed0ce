//! The defaults that the API server fills in when it stores the template of a ReplicaSet.
//!
//! The template of a custom resource is stored as written, and that of its ReplicaSets with these defaults.
//!
//! Kubernetes source: `SetObjectDefaults_ReplicaSet` in `pkg/apis/apps/v1`, the defaults in `pkg/apis/core/v1` that it
//! calls, and the conversion of pods there.

use std::collections::BTreeMap;

use super::quantity::Quantity;
use super::value::{Number, Value};

/// The fields of a JSON object.
type Fields = BTreeMap<String, Value>;

/// The template as the API server stores it in a ReplicaSet. Values of the wrong type are unchanged: the API server rejects
/// them.
///
/// A server of another version, or with an admission webhook that changes ReplicaSets, may store a different template.
#[must_use]
pub fn with_defaults(mut template: Value) -> Value {
    if let Some(template) = template.as_map_mut() {
        set_pointer(template, "spec", Value::map());
        with_fields(template, "spec", pod);
    }
    template
}

fn pod(spec: &mut Fields) {
    set(spec, "dnsPolicy", "ClusterFirst");
    set(spec, "restartPolicy", "Always");
    set(spec, "schedulerName", "default-scheduler");
    set_pointer(spec, "securityContext", Value::map());
    set_pointer(spec, "terminationGracePeriodSeconds", 30);
    // If both names of the field are set, the new one wins. Afterwards, both have the same value.
    for (from, to) in [
        ("serviceAccount", "serviceAccountName"),
        ("serviceAccountName", "serviceAccount"),
    ] {
        let name = spec.get(from).and_then(Value::as_str);
        let name = name.filter(|name| !name.is_empty()).map(Value::from);
        if let Some(name) = name {
            match to {
                "serviceAccount" => _ = spec.insert(to.to_owned(), name),
                _ => set(spec, to, name),
            }
        }
    }
    each(spec, "volumes", volume);
    each(spec, "initContainers", container);
    each(spec, "containers", container);
    each(spec, "ephemeralContainers", container);
    quantities(spec, "overhead");
    with_fields(spec, "resources", requirements);
}

fn container(container: &mut Fields) {
    let image = container.get("image").and_then(Value::as_str);
    let policy = pull_policy(image.unwrap_or_default());
    set(container, "imagePullPolicy", policy);
    set(container, "terminationMessagePath", "/dev/termination-log");
    set(container, "terminationMessagePolicy", "File");
    each(container, "ports", |port| set(port, "protocol", "TCP"));
    each(container, "env", |variable| {
        with_fields(variable, "valueFrom", |source| {
            with_fields(source, "fieldRef", field_selector);
            with_fields(source, "fileKeyRef", |key| {
                set_pointer(key, "optional", false);
            });
        });
    });
    with_fields(container, "resources", requirements);
    for key in ["livenessProbe", "readinessProbe", "startupProbe"] {
        with_fields(container, key, probe);
    }
    with_fields(container, "lifecycle", |lifecycle| {
        for key in ["postStart", "preStop"] {
            with_fields(lifecycle, key, |handler| {
                with_fields(handler, "httpGet", http_get);
            });
        }
    });
}

fn probe(probe: &mut Fields) {
    set(probe, "timeoutSeconds", 1);
    set(probe, "periodSeconds", 10);
    set(probe, "successThreshold", 1);
    set(probe, "failureThreshold", 3);
    with_fields(probe, "httpGet", http_get);
    with_fields(probe, "grpc", |grpc| set_pointer(grpc, "service", ""));
}

fn http_get(action: &mut Fields) {
    set(action, "path", "/");
    set(action, "scheme", "HTTP");
}

fn field_selector(selector: &mut Fields) {
    set(selector, "apiVersion", "v1");
}

fn requirements(requirements: &mut Fields) {
    quantities(requirements, "limits");
    quantities(requirements, "requests");
}

fn volume(volume: &mut Fields) {
    if volume
        .iter()
        .all(|(key, value)| key == "name" || value.is_null())
    {
        volume.insert("emptyDir".to_owned(), Value::map());
    }
    with_fields(volume, "image", |image| {
        let reference = image.get("reference").and_then(Value::as_str);
        let policy = pull_policy(reference.unwrap_or_default());
        set(image, "pullPolicy", policy);
    });
    with_fields(volume, "hostPath", |path| set_pointer(path, "type", ""));
    with_fields(volume, "secret", mode);
    with_fields(volume, "configMap", mode);
    with_fields(volume, "downwardAPI", |source| {
        mode(source);
        downward_items(source);
    });
    with_fields(volume, "projected", |projected| {
        mode(projected);
        each(projected, "sources", |source| {
            with_fields(source, "downwardAPI", downward_items);
            with_fields(source, "serviceAccountToken", |token| {
                set_pointer(token, "expirationSeconds", 3600);
            });
        });
    });
    with_fields(volume, "ephemeral", |source| {
        with_fields(source, "volumeClaimTemplate", |claim| {
            set_pointer(claim, "spec", Value::map());
            with_fields(claim, "spec", |spec| {
                set_pointer(spec, "volumeMode", "Filesystem");
                with_fields(spec, "resources", requirements);
            });
        });
    });
    storage_of_vendors(volume);
}

fn storage_of_vendors(volume: &mut Fields) {
    with_fields(volume, "iscsi", |disk| {
        set(disk, "iscsiInterface", "default");
    });
    with_fields(volume, "rbd", |disk| {
        set(disk, "pool", "rbd");
        set(disk, "user", "admin");
        set(disk, "keyring", "/etc/ceph/keyring");
    });
    with_fields(volume, "azureDisk", |disk| {
        set_pointer(disk, "cachingMode", "ReadWrite");
        set_pointer(disk, "fsType", "ext4");
        set_pointer(disk, "readOnly", false);
        set_pointer(disk, "kind", "Shared");
    });
    with_fields(volume, "scaleIO", |disk| {
        set(disk, "storageMode", "ThinProvisioned");
        set(disk, "fsType", "xfs");
    });
}

fn mode(source: &mut Fields) {
    set_pointer(source, "defaultMode", 0o644);
}

fn downward_items(source: &mut Fields) {
    each(source, "items", |item| {
        with_fields(item, "fieldRef", field_selector);
    });
}

/// An image with neither a tag nor a digest counts as `latest`.
fn pull_policy(image: &str) -> &'static str {
    let (name, digest) = match image.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (image, None),
    };
    let last = name.rsplit('/').next().unwrap_or(name);
    match (last.split_once(':'), digest) {
        (Some((_, "latest")), _) => "Always",
        (None, None) if !name.is_empty() => "Always",
        _ => "IfNotPresent",
    }
}

/// Quantities are rounded up to thousandths.
fn quantities(fields: &mut Fields, key: &str) {
    const NANOS: i128 = 1_000_000;
    with_fields(fields, key, |list| {
        for value in list.values_mut() {
            let text = match value {
                Value::String(text) => text.clone(),
                Value::Number(number) if number.as_i64().is_none() => exact(*number),
                _ => continue,
            };
            let nanos = Quantity::parse(&text).and_then(|quantity| quantity.to_nanos());
            if let Some(nanos) = nanos.filter(|nanos| nanos % NANOS != 0) {
                let away_from_zero = nanos / NANOS + nanos.signum();
                *value = Value::from(format!("{away_from_zero}m"));
            }
        }
    });
}

fn exact(number: Number) -> String {
    format!("{:e}", number.as_f64())
}

/// Sets a field for which Go does not distinguish zero from absent.
fn set(fields: &mut Fields, key: &str, default: impl Into<Value>) {
    let is_zero = match fields.get(key) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Number(number)) => number.as_i64() == Some(0),
        Some(_) => false,
    };
    if is_zero {
        fields.insert(key.to_owned(), default.into());
    }
}

/// Sets a field that is a pointer in Go.
fn set_pointer(fields: &mut Fields, key: &str, default: impl Into<Value>) {
    if fields.get(key).is_none_or(Value::is_null) {
        fields.insert(key.to_owned(), default.into());
    }
}

/// Changes the object at a key, if it exists.
fn with_fields(fields: &mut Fields, key: &str, change: impl FnOnce(&mut Fields)) {
    if let Some(fields) = fields.get_mut(key).and_then(Value::as_map_mut) {
        change(fields);
    }
}

/// Changes each object in a list. Go decodes a null as an object without fields.
fn each(fields: &mut Fields, key: &str, change: impl Fn(&mut Fields)) {
    let Some(Value::List(items)) = fields.get_mut(key) else {
        return;
    };
    for item in items {
        if item.is_null() {
            *item = Value::map();
        }
        item.as_map_mut().into_iter().for_each(&change);
    }
}
