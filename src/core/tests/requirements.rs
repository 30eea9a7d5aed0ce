//! What pods with a template need in order to start.

use rollplan_core::requirement::requirements;
use serde_json::{Value as Json, json};

/// Each requirement as kind, name and keys.
fn required(spec: &Json) -> Vec<String> {
    let template = json!({"spec": spec});
    let all = requirements(&(&template).into()).into_iter();
    let texts = all.map(|it| {
        let keys: Vec<String> = it.keys.into_iter().collect();
        format!("{} {} {}", it.kind, it.name, keys.join("+"))
    });
    texts.map(|text| text.trim_end().to_owned()).collect()
}

#[test]
fn references_that_are_not_optional_are_required() {
    let variable = |source: &str, name: &str, key: &str, optional: bool| json!({"name": "A", "valueFrom": {source: {"name": name, "key": key, "optional": optional}}});
    let spec = json!({"containers": [{
        "name": "main",
        "env": [
            variable("configMapKeyRef", "settings", "b", false),
            variable("configMapKeyRef", "settings", "a", false),
            variable("configMapKeyRef", "settings", "extra", true),
            variable("secretKeyRef", "token", "key", false),
            variable("secretKeyRef", "maybe", "key", true),
        ],
        "envFrom": [{"configMapRef": {"name": "all"}}, {"secretRef": {"name": "some", "optional": true}}],
    }]});
    let expected = [
        "ConfigMap all",
        "ConfigMap settings a+b",
        "Secret token key",
    ];
    assert_eq!(required(&spec), expected);
}

/// The kubelet prepares no other volumes.
#[test]
fn only_volumes_that_a_container_mounts_are_required() {
    let spec = json!({
        "containers": [{
            "name": "main",
            "volumeMounts": [{"name": "files", "mountPath": "/a"}, {"name": "all", "mountPath": "/b", "subPath": "x/y"}],
        }],
        "volumes": [
            {"name": "files", "secret": {"secretName": "files", "items": [{"key": "k", "path": "p"}]}},
            {"name": "all", "projected": {"sources": [
                {"configMap": {"name": "one"}},
                {"secret": {"name": "two", "optional": true}},
            ]}},
            {"name": "unused", "configMap": {"name": "unused"}},
        ],
    });
    assert_eq!(required(&spec), ["ConfigMap one", "Secret files k"]);
}

#[test]
fn credentials_of_mounts_are_required_and_those_of_registries_are_not() {
    let spec = json!({
        "imagePullSecrets": [{"name": "registry"}],
        "containers": [{"name": "main", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
        "volumes": [{"name": "v", "csi": {
            "driver": "secrets-store.csi.k8s.io",
            "nodePublishSecretRef": {"name": "access"},
            "volumeAttributes": {"secretProviderClass": "vault"},
        }}],
    });
    assert_eq!(required(&spec), ["Secret access"]);
}
