//! Logs have many readers, so they contain nothing of a workload except the name of its Deployment.

use std::collections::BTreeMap;

use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD, Engine as _};
use rollplan::client::RolloutPlannerClient;
use rollplan::proto::{PlanRestartsRequest, RollbackRequest};
use rollplan::wire::json;
use rollplan_world::json::workload;
use serde_json::{Value, json};
use tonic::Code;

use super::connect;
use super::http::Ask;
use super::observed::get;
use super::process::Process;
use super::raw::{self, PLAN, framed};
use crate::request::{ITEMS, Request, list, restarts_of};

const SECRET: &str = "hunter2";

const RESTARTS: &str = "/rollplan.v1.RolloutPlanner/PlanRestarts";

/// A request with the secret in every place where a workload may have one. With `wrong`, invalid fields contain it, too.
fn mk_plan(wrong: bool) -> Request {
    let annotation = if wrong {
        json!(u64::MAX)
    } else {
        json!(SECRET)
    };
    let mut labels = json!({"app": "web"});
    if wrong {
        labels["hunter2 not a key"] = json!(SECRET);
    }
    let container =
        json!({"image": SECRET, "args": [SECRET], "env": [{"name": SECRET, "value": SECRET}]});
    let mut deployment = workload("web", json!({SECRET: SECRET}), container);
    deployment["metadata"]["resourceVersion"] = "1".into();
    let spec = &mut deployment["spec"];
    spec["template"]["metadata"]["annotations"] =
        json!({SECRET: SECRET, "hunter2 quoted": annotation});
    spec["replicas"] = 3.into();
    spec["selector"] = json!({"matchLabels": labels});
    spec["strategy"] = json!({"type": if wrong { SECRET } else { "Recreate" }});
    Request::at("2026-01-01T00:00:00Z", vec![deployment])
}

#[tokio::test]
async fn logs_contain_nothing_of_a_workload() {
    // Every call is logged as slow.
    let mut server = Process::start(&["--slow-call", "0s"]);
    let mut client = RolloutPlannerClient::new(connect(server.address).await);
    let valid = mk_plan(false).message();
    client.plan_rollout(valid.clone()).await.unwrap();
    let invalid = client.plan_rollout(mk_plan(true).message()).await;
    let invalid = invalid.unwrap_err();
    assert_eq!(invalid.code(), Code::InvalidArgument);
    // The caller receives the details.
    let told = String::from_utf8_lossy(invalid.details()).into_owned();
    assert!(told.contains(r#"annotations["hunter2 quoted"]"#), "{told}");
    assert!(
        told.contains(r#"matchLabels["hunter2 not a key"]"#),
        "{told}"
    );
    let absent = RollbackRequest {
        to_revision: 9,
        ..mk_plan(false).rollback_request()
    };
    client.rollback(absent).await.unwrap_err();
    let mut raw = raw::connect(server.address).await;
    let whole = framed(&valid);
    // A message that is truncated within a field.
    let cut = whole.len() - 6;
    let mut prefix = vec![0];
    prefix.extend(u32::try_from(cut).unwrap().to_be_bytes());
    let malformed = [&prefix, &whole[5..5 + cut]].concat();
    let answer = raw.call(raw::request(PLAN, &[]), malformed.into()).await;
    assert_eq!(answer.unwrap().status.code(), Code::InvalidArgument);
    let elsewhere = raw::request("/hunter2.v1.Planner/Plan", &[]);
    let answer = raw.call(elsewhere, whole).await;
    assert_eq!(answer.unwrap().status.code(), Code::Unimplemented);
    // The invalid value is below a key that the caller chose.
    let text = r#"{"configurations": [{"annotations": {"hunter2": 7}}]}"#;
    let ask = Ask::post(RESTARTS, "application/json", text);
    let reply = ask.over_http1(server.address).await;
    assert!(reply.text().contains("annotations.hunter2"));
    drop((client, raw));
    server.signal("TERM");
    assert_eq!(server.ended().code(), Some(0));

    let mut lines = BTreeMap::<String, Vec<Value>>::new();
    // The process has exited, so this reads the whole log.
    for line in &server.said {
        assert!(!line.contains(SECRET), "{line}");
        let line: Value = serde_json::from_str(&line).unwrap();
        let message = line["message"].as_str().unwrap().to_owned();
        lines.entry(message).or_default().push(line);
    }
    assert_eq!(lines["slow call"].len(), 1, "{lines:?}");
    let failed = &lines["call failed"];
    let fields = |name: &str| failed.iter().map(|line| &line[name]).collect::<Vec<_>>();
    let codes = [
        "InvalidArgument",
        "NotFound",
        "InvalidArgument",
        "Unimplemented",
        "InvalidArgument",
    ];
    assert_eq!(fields("code"), codes);
    let violations = [
        "spec.selector.matchLabels[*] INVALID_LABEL_KEY",
        "spec.strategy.type UNKNOWN_STRATEGY",
        "spec.template[*] OUT_OF_RANGE",
    ];
    let logged = failed[0]["violations"].as_str().unwrap();
    for violation in violations {
        assert!(
            logged.contains(&format!("{ITEMS}[0].{violation}")),
            "{logged}"
        );
    }
    assert_eq!(failed[0]["span"]["deployment"], "shop/web");
    assert_eq!(failed[3]["span"]["method"], "unknown");
    assert_eq!(failed[4]["reason"], "INVALID_JSON");
}

/// Values in configurations, and in the templates and annotations of workloads.
const VALUES: [&str; 5] = [
    "hunter2-secret/+?",
    "hunter2-config",
    "hunter2-env",
    "hunter2-applied",
    "hunter2-binary",
];

/// The value in all encodings in which it might appear.
fn forms(value: &str) -> Vec<String> {
    let hex: String = value.bytes().map(|byte| format!("{byte:02x}")).collect();
    let url: String = value.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let query = value
        .replace('/', "%2F")
        .replace('+', "%2B")
        .replace('?', "%3F");
    let plain = BASE64_STANDARD.encode(value);
    let mut forms = vec![value.to_owned(), hex.to_uppercase(), hex, url, query];
    forms.push(plain.trim_end_matches('=').to_owned());
    forms.push(BASE64_URL_SAFE_NO_PAD.encode(value));
    forms
}

/// A Secret, a ConfigMap and a workload that uses them, with the values in every possible place. `value` changes the data.
fn mk_restarts(profile: i32, value: &str) -> Value {
    let [_, config, env, applied, binary] = VALUES;
    let base64 = |text: &str| BASE64_STANDARD.encode(text);
    let annotations = json!({
        "kubectl.kubernetes.io/last-applied-configuration": json!({"data": {"k": base64(applied)}, "stringData": {"k": applied}}).to_string(),
        "rollplan.dev/restart": "enabled",
        "com.xing.deployment-restart": "enabled",
        "reloader.stakater.com/auto": "true",
    });
    let metadata = |name: &str| json!({"name": name, "namespace": "shop", "uid": name, "annotations": annotations});
    let items = [
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata("db"), "data": {"k": value}, "stringData": {"k": applied}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata("app"), "data": {"k": config}, "binaryData": {"b": base64(binary)}}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata("web"), "spec": {"template": {
            "metadata": {"annotations": annotations},
            "spec": {"containers": [{
                "name": "app",
                "args": [env],
                "env": [{"name": "P", "value": env}],
                "envFrom": [{"configMapRef": {"name": "app"}}, {"secretRef": {"name": "db"}}],
            }]},
        }}}),
    ];
    restarts(profile, list(&items).to_string())
}

fn restarts(profile: i32, text: String) -> Value {
    let mut request = restarts_of("2026-01-01T00:00:00Z", &[text]);
    request["options"] =
        json!({"profile": profile, "includeUnchanged": true, "eventsAsCalls": true});
    request
}

#[tokio::test]
async fn logs_metrics_and_answers_contain_no_configuration_values() {
    let mut server = Process::start(&["--slow-call", "0s"]);
    let mut client = RolloutPlannerClient::new(connect(server.address).await);
    let mut raw = raw::connect(server.address).await;
    let mut emitted = String::new();
    for profile in 1..=3 {
        // Valid, not base64, and a value of another type.
        let secret = BASE64_STANDARD.encode(VALUES[0]);
        for value in [secret.as_str(), VALUES[0]] {
            let text = mk_restarts(profile, value).to_string();
            let request: PlanRestartsRequest = json::from_json(&text).unwrap();
            let answer = client.plan_restarts(request.clone()).await.unwrap();
            let answer = answer.into_inner();
            assert_eq!(answer.violations.len(), usize::from(value == VALUES[0]));
            emitted += &format!("{answer:?}");
            let ask = Ask::post(RESTARTS, "application/json", text);
            emitted += ask.over_http1(server.address).await.text();
            // A message that is truncated within the objects, and objects that are truncated within a value.
            let whole = framed(&request);
            let cut = whole.len() - 60;
            let mut prefix = vec![0];
            prefix.extend(u32::try_from(cut).unwrap().to_be_bytes());
            let malformed = [&prefix, &whole[5..5 + cut]].concat();
            let answer = raw
                .call(raw::request(RESTARTS, &[]), malformed.into())
                .await;
            emitted += &format!("{:?}", answer.unwrap().status);
            let unfinished = restarts(profile, format!("{{\"data\":{{\"k\":\"{value}"));
            let unfinished: PlanRestartsRequest = json::from_json(&unfinished.to_string()).unwrap();
            emitted += &format!("{:?}", client.plan_restarts(unfinished).await.unwrap_err());
        }
    }
    assert!(emitted.contains("restart-state"), "nothing was planned");
    let (_, metrics) = get(server.http, "/metrics").await;
    assert!(metrics.contains("PlanRestarts"), "nothing was counted");
    emitted += &metrics;
    drop((client, raw));
    server.signal("TERM");
    assert_eq!(server.ended().code(), Some(0));
    let mut logged = 0;
    for line in &server.said {
        logged += usize::from(line.contains("PlanRestarts"));
        emitted += &line;
    }
    assert!(logged > 0, "nothing was logged");
    for value in VALUES {
        for form in forms(value) {
            assert!(!emitted.contains(&form), "{form}");
        }
    }
}
