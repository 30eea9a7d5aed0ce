use serde_json::{Value as Json, json};

use rollplan_core::reference::references;

/// Kind, name, keys, usage, optional, container.
fn found(template: &Json) -> Vec<String> {
    let list = references(&template.into()).into_iter().map(|it| {
        let keys = it.keys.map_or("*".to_owned(), |keys| keys.join("+"));
        let container = it.container.map(|it| format!("{}[{}]", it.list, it.index));
        format!(
            "{}/{} {keys} {}{}{} {}",
            it.kind.key(),
            it.name,
            it.usage.as_str(),
            if it.optional { "?" } else { "" },
            if it.projected { " projected" } else { "" },
            container.unwrap_or_default()
        )
    });
    list.map(|it| it.trim_end().to_owned()).collect()
}

#[test]
fn references_in_environments_of_all_containers_are_found() {
    let env = json!([
        {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "app", "key": "a"}}},
        {"name": "B", "valueFrom": {"secretKeyRef": {"name": "db", "key": "b", "optional": true}}},
        {"name": "C", "value": "plain"},
    ]);
    let from = json!([
        {"configMapRef": {"name": "all"}}, {"secretRef": {"name": "secrets", "optional": true}},
    ]);
    let template = json!({"spec": {
        "containers": [{"name": "x"}, {"name": "app", "env": env, "envFrom": from}],
        "initContainers": [{"name": "init", "envFrom": [{"configMapRef": {"name": "setup"}}]}],
        "ephemeralContainers": [{"name": "debug", "envFrom": [{"secretRef": {"name": "tools"}}]}],
        "imagePullSecrets": [{"name": "registry"}],
    }});
    assert_eq!(
        found(&template),
        [
            "configmap/app a env containers[1]",
            "secret/db b env? containers[1]",
            "configmap/all * envFrom containers[1]",
            "secret/secrets * envFrom? containers[1]",
            "secret/tools * envFrom ephemeralContainers[0]",
            "secret/registry * imagePullSecret?",
            "configmap/setup * envFrom initContainers[0]",
        ]
    );
}

#[test]
fn references_in_volumes_have_the_usage_of_their_mounts() {
    let template = json!({"spec": {
        "containers": [{"name": "app", "volumeMounts": [
            {"name": "whole", "mountPath": "/a"},
            {"name": "items", "mountPath": "/b", "subPath": "app.conf"},
            {"name": "one", "mountPath": "/c", "subPath": "key"},
            {"name": "deep", "mountPath": "/d", "subPath": "x/key"},
            {"name": "expr", "mountPath": "/e", "subPathExpr": "$(POD)"},
            {"name": "mixed", "mountPath": "/f"},
            {"name": "csi", "mountPath": "/g"},
        ]}],
        "volumes": [
            {"name": "whole", "configMap": {"name": "whole", "optional": true}},
            {"name": "items", "secret": {"secretName": "items", "items": [
                {"key": "k", "path": "app.conf"}, {"key": "other", "path": "other.conf"}]}},
            {"name": "one", "configMap": {"name": "one"}},
            {"name": "deep", "configMap": {"name": "deep"}},
            {"name": "expr", "configMap": {"name": "expr"}},
            {"name": "mixed", "projected": {"sources": [
                {"configMap": {"name": "p1", "items": [{"key": "a", "path": "b"}]}}, {"secret": {"name": "p2"}}]}},
            {"name": "csi", "csi": {"driver": "secrets-store.csi.k8s.io",
                "volumeAttributes": {"secretProviderClass": "vault"}}},
            {"name": "other-csi", "csi": {"driver": "x", "volumeAttributes": {"secretProviderClass": "no"}}},
            {"name": "unused", "configMap": {"name": "unused"}},
        ],
    }});
    assert_eq!(
        found(&template),
        [
            "configmap/whole * volume? containers[0]",
            "secret/items k subPath containers[0]",
            "configmap/one key subPath containers[0]",
            "configmap/deep * unmounted containers[0]",
            "configmap/expr * subPath containers[0]",
            "configmap/p1 a volume projected containers[0]",
            "secret/p2 * volume projected containers[0]",
            "secretproviderclass/vault * volume? containers[0]",
            "configmap/unused * unmounted",
        ]
    );
}

/// A file of a volume has the path of its item, or the name of its key.
#[test]
fn sub_path_reads_the_files_at_its_path() {
    let items = json!([
        {"key": "a", "path": "conf/a.yaml"}, {"key": "b", "path": "conf/b.yaml"}, {"key": "c", "path": "conf.yaml"},
    ]);
    for (path, without_items, with_items) in [
        (".", "* volume", "a+b+c volume"),
        ("./", "* volume", "a+b+c volume"),
        ("a", "a subPath", "* unmounted"),
        ("./a", "a subPath", "* unmounted"),
        ("conf", "conf subPath", "a+b subPath"),
        ("conf/", "conf subPath", "a+b subPath"),
        ("conf//b.yaml", "* unmounted", "b subPath"),
        ("conf.yaml", "conf.yaml subPath", "c subPath"),
        ("conf/c.yaml", "* unmounted", "* unmounted"),
    ] {
        let of = |source: Json| {
            let mounts = json!([{"name": "v", "mountPath": "/m", "subPath": path}]);
            let volumes = json!([{"name": "v", "configMap": source}]);
            let containers = json!([{"name": "app", "volumeMounts": mounts}]);
            found(&json!({"spec": {"containers": containers, "volumes": volumes}})).remove(0)
        };
        let expected = |reads: &str| format!("configmap/cfg {reads} containers[0]");
        assert_eq!(
            of(json!({"name": "cfg"})),
            expected(without_items),
            "{path}"
        );
        let source = json!({"name": "cfg", "items": items});
        assert_eq!(of(source), expected(with_items), "{path}");
    }
}

#[test]
fn secrets_with_which_volumes_are_mounted_are_found() {
    let volumes = json!([
        {"name": "a", "azureFile": {"secretName": "azure", "shareName": "x"}},
        {"name": "b", "cephfs": {"secretRef": {"name": "ceph"}}},
        {"name": "c", "cinder": {"secretRef": {"name": "cinder"}}},
        {"name": "d", "flexVolume": {"driver": "x", "secretRef": {"name": "flex"}}},
        {"name": "e", "rbd": {"secretRef": {"name": "rbd"}}},
        {"name": "f", "scaleIO": {"secretRef": {"name": "scale"}}},
        {"name": "g", "iscsi": {"secretRef": {"name": "iscsi"}}},
        {"name": "h", "storageos": {"secretRef": {"name": "storageos"}}},
        {"name": "i", "csi": {"driver": "x", "nodePublishSecretRef": {"name": "csi"}}},
        {"name": "j", "rbd": {"secretRef": null}},
    ]);
    let names = [
        "azure",
        "ceph",
        "cinder",
        "flex",
        "rbd",
        "scale",
        "iscsi",
        "storageos",
        "csi",
    ];
    assert_eq!(
        found(&json!({"spec": {"volumes": volumes}})),
        names.map(|name| format!("secret/{name} * volumeAccess?"))
    );
}

#[test]
fn fields_with_the_names_of_references_are_ignored() {
    let template = json!({
        "metadata": {"annotations": {"configMapRef": "x"}, "labels": {"secretName": "y"}},
        "configMapRef": {"name": "no"},
        "spec": {
            "configMapKeyRef": {"name": "no", "key": "k"},
            "containers": [{"name": "a", "args": ["configMapRef"], "envFrom": "no", "env": [{"value": "secretKeyRef"}]}],
            "volumes": [{"name": "v", "configMap": {"name": ""}}, {"name": "w", "secret": null}],
            "nodeSelector": {"secret": "z"},
        },
    });
    assert_eq!(found(&template), Vec::<String>::new());
    for odd in [
        json!(null),
        json!([]),
        json!("x"),
        json!({"spec": {"containers": {}}}),
    ] {
        assert!(found(&odd).is_empty());
    }
}
