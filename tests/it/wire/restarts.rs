//! PlanRestarts: Kubernetes JSON and summaries in, pages of plans out, and nothing secret in them.

use prost::Message as _;
use rollplan::proto::{
    Configuration, ObjectMeta, PlanRestartsRequest, PlanRestartsResponse, Reference, RestartPlan,
    Workload,
};
use rollplan::wire::{self, ANSWER_BYTES_MAX, Error, json};
use rollplan_core::interrupt::Interrupt;
use serde_json::{Value, json};

use crate::base64;

const NOW: &str = "2026-01-01T01:00:00Z";
const STATE: &str = "rollplan.dev/restart-state";

fn request(request: &Value) -> PlanRestartsRequest {
    json::from_json(&request.to_string()).unwrap()
}

fn plan(value: &Value) -> PlanRestartsResponse {
    wire::plan_restarts(request(value)).unwrap()
}

/// A request with objects of Kubernetes.
fn objects(objects: &[Value], options: Value) -> Value {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    json!({"now": NOW, "objectsJson": [base64(&list)], "configurationsComplete": true, "options": options})
}

fn config_map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "shop"}, "data": data})
}

fn deployment(name: &str, state: Option<&str>) -> Value {
    let mut annotations = json!({"rollplan.dev/restart": "enabled"});
    if let Some(state) = state {
        annotations[STATE] = json!(state);
    }
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}"), "annotations": annotations},
        "spec": {"template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{
            "name": "app", "envFrom": [{"configMapRef": {"name": "app"}}]}]}}},
    })
}

/// The state that the first step of a plan writes.
fn state(plan: &RestartPlan) -> String {
    let body: Value = serde_json::from_str(&call(plan).body_json).unwrap();
    let operations = body.as_array().unwrap().iter();
    let mut writes = operations.filter(|it| it["op"] == "add");
    let written =
        writes.find(|it| it["path"] == "/metadata/annotations/rollplan.dev~1restart-state");
    written.unwrap()["value"].as_str().unwrap().to_owned()
}

fn call(plan: &RestartPlan) -> &rollplan::proto::ApiCall {
    plan.steps[0].call.as_ref().unwrap()
}

fn decisions(response: &PlanRestartsResponse) -> Vec<(String, String)> {
    let plans = response.plans.iter();
    plans
        .map(|it| {
            (
                it.name.clone(),
                it.decision().as_str_name()["RESTART_DECISION_".len()..].to_owned(),
            )
        })
        .collect()
}

#[test]
fn objects_are_recorded_then_restarted() {
    let first = plan(&objects(
        &[
            config_map("app", json!({"A": "1"})),
            deployment("web", None),
        ],
        json!({}),
    ));
    assert_eq!(decisions(&first), [("web".to_owned(), "RECORD".to_owned())]);
    let recorded = state(&first.plans[0]);
    let changed = [
        config_map("app", json!({"A": "2"})),
        deployment("web", Some(&recorded)),
    ];
    let second = plan(&objects(
        &changed,
        json!({"quiet": "0s", "eventsAsCalls": true}),
    ));
    assert_eq!(
        decisions(&second),
        [("web".to_owned(), "RESTART".to_owned())]
    );
    let restart = &second.plans[0];
    assert_eq!(
        restart.changes[0].message,
        "A of ConfigMap shop/app changed"
    );
    let call = call(restart);
    assert_eq!(call.path, "/apis/apps/v1/namespaces/shop/deployments/web");
    assert_eq!(call.content_type, "application/json-patch+json");
    let body: Value = serde_json::from_str(&call.body_json).unwrap();
    assert_eq!(
        body[0],
        json!({"op": "test", "path": "/metadata/uid", "value": "uid-web"})
    );
    assert_eq!(body[1]["op"], "test");
    assert_eq!(body[1]["value"], json!(recorded));
    let template = json!({"rollplan.dev/restarted-at": NOW});
    let last = body.as_array().unwrap().last().unwrap();
    assert_eq!(
        last,
        &json!({"op": "add", "path": "/spec/template/metadata/annotations", "value": template})
    );
    let event = &restart.steps[0].event_calls[0];
    assert_eq!(event.path, "/api/v1/namespaces/shop/events");
    assert!(
        event
            .body_json
            .contains("Restarted: A of ConfigMap shop/app changed")
    );
    // Nothing changed: nothing to report, unless asked for.
    let same = [
        config_map("app", json!({"A": "1"})),
        deployment("web", Some(&recorded)),
    ];
    assert!(plan(&objects(&same, json!({}))).plans.is_empty());
    let all = plan(&objects(&same, json!({"includeUnchanged": true})));
    assert_eq!(decisions(&all), [("web".to_owned(), "NONE".to_owned())]);
    assert_eq!(all.plans[0].uses[0].name, "app");
}

#[test]
fn summaries_are_planned_like_objects() {
    let of_objects = plan(&objects(
        &[
            config_map("app", json!({"A": "1"})),
            deployment("web", None),
        ],
        json!({}),
    ));
    // sha256 of "1"
    let checksum = "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b";
    let metadata = json!({"name": "web", "namespace": "shop", "uid": "uid-web",
        "annotations": {"rollplan.dev/restart": "enabled"}});
    let configuration = json!({"kind": "CONFIGURATION_KIND_CONFIG_MAP", "namespace": "shop", "name": "app",
        "keyChecksums": {"A": checksum}});
    let mut workload = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata});
    workload["references"] = json!([{"kind": "CONFIGURATION_KIND_CONFIG_MAP", "name": "app", "usage": "REFERENCE_USAGE_ENV_FROM"}]);
    let summary = json!({"now": NOW, "workloads": [workload], "configurations": [configuration]});
    assert_eq!(plan(&summary).plans, of_objects.plans);
    // And with the template as a message.
    workload.as_object_mut().unwrap().remove("references");
    workload["template"] = deployment("web", None)["spec"]["template"].clone();
    let typed = json!({"now": NOW, "workloads": [workload], "configurations": [configuration]});
    assert_eq!(plan(&typed).plans, of_objects.plans);
}

#[test]
fn pods_and_managed_fields_tell_whether_a_change_is_applied() {
    let set = |revision: &str| {
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"name": format!("web-{revision}"), "namespace": "shop", "uid": format!("set-{revision}"),
                "annotations": {"deployment.kubernetes.io/revision": revision},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "uid-web", "controller": true}]},
            "status": {"replicas": 1}})
    };
    let pod = |revision: &str, started: &str| {
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "p", "namespace": "shop", "uid": "pod",
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "uid": format!("set-{revision}"), "controller": true}]},
            "status": {"phase": "Running", "containerStatuses": [{"name": "app", "state": {"running": {"startedAt": started}}}]}})
    };
    let mut changed = config_map("app", json!({"A": "2"}));
    changed["metadata"]["managedFields"] = json!([
        {"manager": "kubectl", "time": "2026-01-01T00:30:00Z", "fieldsV1": {"f:data": {"f:A": {}}}},
        {"manager": "labels", "time": "2026-01-01T00:50:00Z", "fieldsV1": {"f:metadata": {}}},
    ]);
    let first = plan(&objects(
        &[
            config_map("app", json!({"A": "1"})),
            deployment("web", None),
        ],
        json!({}),
    ));
    let recorded = state(&first.plans[0]);
    for (revision, started, decision) in [
        ("2", "2026-01-01T00:20:00Z", "RESTART"),
        ("2", "2026-01-01T00:40:00Z", "RECORD"),
        // Of the revision before: those of the new one are unknown.
        ("1", "2026-01-01T00:40:00Z", "RESTART"),
    ] {
        let mut web = deployment("web", Some(&recorded));
        web["metadata"]["annotations"]["deployment.kubernetes.io/revision"] = json!("2");
        web["status"] = json!({"replicas": 1, "updatedReplicas": 1, "availableReplicas": 1, "observedGeneration": 1});
        let all = [changed.clone(), web, set(revision), pod(revision, started)];
        let answer = plan(&objects(&all, json!({})));
        assert_eq!(
            decisions(&answer),
            [("web".to_owned(), decision.to_owned())],
            "{revision} {started}"
        );
    }
}

#[test]
fn custom_kinds_and_resources_are_found_by_their_paths() {
    let object = json!({"apiVersion": "example.com/v1", "kind": "Proxy",
        "metadata": {"name": "edge", "namespace": "shop", "uid": "1"},
        "spec": {"runtime": {"pod": {"spec": {"containers": [{"name": "x", "envFrom": [{"secretRef": {"name": "s"}}]}]}}}}});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "shop"}, "data": {"k": "djE="}});
    let kinds = json!([{"apiVersion": "example.com/v1", "kind": "Proxy", "resource": "proxys", "templatePath": "spec.runtime.pod"}]);
    let answer = plan(&objects(
        &[object, secret],
        json!({"allWorkloads": true, "kinds": kinds}),
    ));
    assert_eq!(
        call(&answer.plans[0]).path,
        "/apis/example.com/v1/namespaces/shop/proxys/edge"
    );
    let body = &call(&answer.plans[0]).body_json;
    assert!(
        body.contains(r#"{"op":"test","path":"/metadata/annotations","value":null}"#),
        "{body}"
    );
}

#[test]
fn violations_concern_their_own_item() {
    let mut bad = deployment("bad", None);
    bad["spec"] = json!({"template": 7});
    let mut nameless = deployment("x", None);
    nameless["metadata"]["name"] = json!("Not A Name");
    let wrong_data = config_map("wrong", json!({"A": {"b": "hunter2"}}));
    let wrong_secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "shop"}, "data": {"k": "hunter2!"}});
    let all = [
        bad,
        nameless,
        wrong_data,
        wrong_secret,
        config_map("app", json!({"A": "1"})),
        deployment("web", None),
        deployment("web", None),
    ];
    let answer = plan(&objects(&all, json!({})));
    assert_eq!(
        decisions(&answer),
        [("web".to_owned(), "RECORD".to_owned())]
    );
    let found: Vec<_> = answer
        .violations
        .iter()
        .map(|it| (it.field.as_str(), it.reason.as_str()))
        .collect();
    let item = |rest: &str| format!("objects_json[0].items{rest}");
    let expected = [
        (item("[0].spec.template"), "REQUIRED"),
        (item("[1].metadata.name"), "INVALID_NAME"),
        (item("[2].data"), "WRONG_TYPE"),
        (item("[3].data[\"k\"]"), "WRONG_TYPE"),
        (item("[6]"), "DUPLICATE"),
    ];
    assert_eq!(
        found,
        expected
            .iter()
            .map(|(field, reason)| (field.as_str(), *reason))
            .collect::<Vec<_>>()
    );
    assert!(!format!("{answer:?}").contains("hunter2"));
}

#[test]
fn violations_of_messages_name_their_fields() {
    let workload = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "uid": "1"},
        "references": [{"name": "x"}], "template": {"spec": {}},
        "noPodsRunning": true, "oldestPodStartedAt": NOW, "templatePath": "spec..x", "resource": "A"});
    let configuration = json!({"kind": 9, "namespace": "shop", "name": "app", "keyChecksums": {"A": "xyz"}, "checksum": "Q",
        "absent": true, "observations": -1});
    let answer = plan(
        &json!({"now": NOW, "workloads": [workload], "configurations": [configuration, {}], "namespaces": [{}]}),
    );
    let mut fields: Vec<_> = answer
        .violations
        .iter()
        .map(|it| it.field.as_str())
        .collect();
    fields.sort_unstable();
    assert_eq!(
        fields,
        [
            "configurations[0].absent",
            "configurations[0].checksum",
            "configurations[0].key_checksums[\"A\"]",
            "configurations[0].kind",
            "configurations[0].observations",
            "configurations[1].kind",
            "configurations[1].name",
            "configurations[1].namespace",
            "namespaces[0].name",
            "workloads[0].oldest_pod_started_at",
            "workloads[0].resource",
            "workloads[0].template",
            "workloads[0].template_path",
        ]
    );
}

#[test]
fn what_concerns_the_whole_request_is_an_error() {
    let options =
        json!({"quiet": "-1s", "maxConcurrent": -1, "profile": 77, "kinds": [{"kind": "?"}]});
    let error = wire::plan_restarts(request(&json!({"options": options}))).unwrap_err();
    let Error::InvalidArgument(violations) = error else {
        panic!("{error:?}");
    };
    let mut fields: Vec<_> = violations.listed.into_iter().map(|it| it.field).collect();
    fields.sort_unstable();
    assert_eq!(
        fields,
        [
            "now",
            "options.kinds[0].api_version",
            "options.kinds[0].kind",
            "options.max_concurrent",
            "options.profile",
            "options.quiet"
        ]
    );
    let broken = json!({"now": NOW, "objectsJson": ["ew=="]});
    let error = wire::plan_restarts(request(&broken)).unwrap_err();
    assert!(
        error.to_string().starts_with("objects_json[0]: byte"),
        "{error}"
    );
}

/// Workloads that each read three ConfigMaps of their own.
fn many(count: usize) -> PlanRestartsRequest {
    let mut request = request(&json!({"now": NOW, "options": {"allWorkloads": true}}));
    for index in 0..count {
        let references = (0..3).map(|of| Reference {
            kind: 1,
            name: format!("map-{index}-{of}"),
            usage: 2,
            ..Reference::default()
        });
        request.workloads.push(Workload {
            api_version: "apps/v1".to_owned(),
            kind: "Deployment".to_owned(),
            metadata: Some(ObjectMeta {
                name: format!("web-{index:05}"),
                namespace: "shop".to_owned(),
                uid: format!("uid-{index}"),
                ..ObjectMeta::default()
            }),
            references: references.collect(),
            ..Workload::default()
        });
        request
            .configurations
            .extend((0..3).map(|of| Configuration {
                kind: 1,
                namespace: "shop".to_owned(),
                name: format!("map-{index}-{of}"),
                key_checksums: [("A".to_owned(), "0123456789abcdef".repeat(4))].into(),
                ..Configuration::default()
            }));
    }
    request
}

#[test]
fn large_answers_are_continued() {
    let mut request = many(8_000);
    let mut names = Vec::new();
    let mut pages = 0;
    loop {
        let page = wire::plan_restarts(request.clone()).unwrap();
        assert!(
            page.encoded_len() <= ANSWER_BYTES_MAX,
            "{}",
            page.encoded_len()
        );
        wire::check_answer(&page).unwrap();
        assert_eq!(page.counts.as_ref().unwrap().record, 8_000);
        names.extend(page.plans.into_iter().map(|it| it.name));
        pages += 1;
        if page.continue_after.is_empty() {
            break;
        }
        request.continue_after = page.continue_after;
    }
    assert!(pages > 1);
    assert!(names.is_sorted() && names.len() == 8_000, "{}", names.len());
    names.dedup();
    assert_eq!(names.len(), 8_000);
}

#[test]
fn limits_are_errors_and_estimates_know_the_lists() {
    let mut request = many(1);
    request.workloads = vec![request.workloads[0].clone(); wire::WORKLOADS_MAX + 1];
    let encoded = request.encode_to_vec();
    let error = wire::estimate::estimate::<PlanRestartsRequest>(&encoded).unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error:?}");
    let estimate =
        wire::estimate::estimate::<PlanRestartsRequest>(&many(1_000).encode_to_vec()).unwrap();
    assert!(estimate.memory > 4 << 20, "{estimate:?}");
    assert!(estimate.work > 1_000_000, "{estimate:?}");
}

struct After(std::cell::Cell<u32>);

impl Interrupt for After {
    fn is_interrupted(&self) -> bool {
        let left = self.0.get();
        self.0.set(left.saturating_sub(1));
        left == 0
    }
}

#[test]
fn interrupted_plans_stop() {
    for questions in [0, 1, 50, 500] {
        let interrupt = After(std::cell::Cell::new(questions));
        let error = wire::plan_restarts_until(many(200), &interrupt).unwrap_err();
        assert!(
            matches!(error, Error::Interrupted(_)),
            "{questions}: {error:?}"
        );
    }
}

/// A text as it might be recognised again.
fn forms(secret: &str) -> Vec<String> {
    use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD, Engine as _};
    let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    let url: String = secret.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let mut forms = vec![secret.to_owned(), hex.to_uppercase(), hex, url];
    forms.push(
        BASE64_STANDARD
            .encode(secret)
            .trim_end_matches('=')
            .to_owned(),
    );
    forms.push(BASE64_URL_SAFE_NO_PAD.encode(secret));
    forms
}

#[test]
fn values_are_in_no_answer_and_no_error() {
    const SECRETS: [&str; 5] = [
        "hunter2-secret/+?",
        "hunter2-config",
        "hunter2-env",
        "hunter2-applied",
        "hunter2-binary",
    ];
    use base64::prelude::{BASE64_STANDARD, Engine as _};
    let [of_secret, of_map, of_env, of_applied, of_binary] = SECRETS;
    let applied =
        json!({"data": {"k": BASE64_STANDARD.encode(of_applied)}, "stringData": {"k": of_applied}})
            .to_string();
    let annotations = json!({"kubectl.kubernetes.io/last-applied-configuration": applied});
    let secret = |data: Value| {
        json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "db", "namespace": "shop", "annotations": annotations}, "data": data, "stringData": {"k": of_applied}})
    };
    let map = |data: Value| {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "app", "namespace": "shop", "annotations": annotations}, "data": data,
        "binaryData": {"bin": BASE64_STANDARD.encode(of_binary)}})
    };
    let workload = |kind: &str, state: Option<&str>| {
        let mut web = deployment("web", state);
        web["kind"] = json!(kind);
        web["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] =
            json!(applied);
        for (key, value) in [
            ("com.xing.deployment-restart", "enabled"),
            ("reloader.stakater.com/auto", "true"),
        ] {
            web["metadata"]["annotations"][key] = json!(value);
        }
        let container = &mut web["spec"]["template"]["spec"]["containers"][0];
        container["env"] = json!([{"name": "P", "value": of_env}, {"name": "S", "valueFrom": {"secretKeyRef": {"name": "db", "key": "k"}}}]);
        web
    };
    let mut emitted = String::new();
    for profile in 1..=3 {
        for kind in ["Deployment", "StatefulSet"] {
            let options = json!({"profile": profile, "quiet": "0s", "includeUnchanged": true, "eventsAsCalls": true});
            let before = [
                secret(json!({"k": BASE64_STANDARD.encode("old")})),
                map(json!({"k": "old"})),
                workload(kind, None),
            ];
            let first = plan(&objects(&before, options.clone()));
            let recorded = first.plans.first().filter(|_| profile != 2).map(state);
            let after = [
                secret(json!({"k": BASE64_STANDARD.encode(of_secret)})),
                map(json!({"k": of_map})),
                workload(kind, recorded.as_deref()),
            ];
            let second = plan(&objects(&after, options));
            emitted += &format!(
                "{first:?}{second:?}{}{}",
                json::to_json(&first).unwrap(),
                json::to_json(&second).unwrap()
            );
        }
    }
    assert!(emitted.contains("db"));
    // Errors and violations, wherever a value can be wrong.
    for wrong in [
        secret(json!({"k": of_secret})),
        secret(json!([of_secret])),
        secret(json!(of_secret)),
        map(json!({"k": {"x": of_map}})),
        map(json!({"k": 7, "x": of_map})),
    ] {
        let answer = plan(&objects(&[wrong], json!({})));
        assert_eq!(answer.violations.len(), 1);
        emitted += &format!("{answer:?}");
    }
    let cut = json!({"now": NOW, "objectsJson": [BASE64_STANDARD.encode(format!("{{\"data\":{{\"k\":\"{of_secret}"))]});
    emitted += &format!("{:?}", wire::plan_restarts(request(&cut)).unwrap_err());
    for secret in SECRETS {
        for form in forms(secret) {
            assert!(!emitted.contains(&form), "{form}");
        }
    }
}

#[test]
fn absurd_objects_are_planned_or_refused() {
    let odd = [
        json!(null),
        json!(7),
        json!("x"),
        json!([]),
        json!([null, 7]),
        json!({}),
        json!({"a": {"b": []}}),
    ];
    let bases = [
        deployment("web", None),
        config_map("app", json!({"A": "1"})),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "shop", "uid": "1"}, "status": {}}),
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "p", "namespace": "shop"}, "spec": {}, "status": {}}),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}),
        json!({"apiVersion": "secrets-store.csi.x-k8s.io/v1", "kind": "SecretProviderClassPodStatus", "metadata": {}, "status": {}}),
    ];
    for base in &bases {
        for field in [
            "metadata",
            "spec",
            "status",
            "data",
            "binaryData",
            "immutable",
        ] {
            for value in &odd {
                for profile in 1..=3 {
                    let mut object = base.clone();
                    object[field] = value.clone();
                    let options = json!({"profile": profile, "allWorkloads": true});
                    _ = plan(&objects(
                        &[object, deployment("other", Some("{\"applied\":[]}"))],
                        options,
                    ));
                }
            }
        }
    }
}
