//! Values of ConfigMaps, Secrets and environment variables stay out of answers and errors.

use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD, Engine as _};
use rollplan::wire::json;
use serde_json::{Value, json};

use super::{NOW, deployment, objects, plan, request, restarts_of, state};

/// The value in all encodings in which it might appear.
fn forms(secret: &str) -> Vec<String> {
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
fn answers_and_errors_contain_no_values() {
    const SECRETS: [&str; 5] = [
        "hunter2-secret/+?",
        "hunter2-config",
        "hunter2-env",
        "hunter2-applied",
        "hunter2-binary",
    ];
    let [of_secret, of_map, of_env, of_applied, of_binary] = SECRETS;
    let applied =
        json!({"data": {"k": BASE64_STANDARD.encode(of_applied)}, "stringData": {"k": of_applied}})
            .to_string();
    let annotations = json!({"kubectl.kubernetes.io/last-applied-configuration": applied});
    let secret = |data: Value| {
        json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "db", "namespace": "shop", "annotations": annotations}, "data": data, "stringData": {"w": of_applied}})
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
    // Errors and violations, wherever a value can be wrong, also if it is replaced by one of stringData.
    for wrong in [
        secret(json!({"k": of_secret})),
        secret(json!({"w": of_secret})),
        secret(json!([of_secret])),
        secret(json!(of_secret)),
        map(json!({"k": {"x": of_map}})),
        map(json!({"k": 7, "x": of_map})),
    ] {
        let answer = plan(&objects(&[wrong], json!({})));
        assert_eq!(answer.violations.len(), 1);
        emitted += &format!("{answer:?}");
    }
    let cut = restarts_of(NOW, &[format!("{{\"data\":{{\"k\":\"{of_secret}")]);
    emitted += &format!(
        "{:?}",
        rollplan::service::answer(request(&cut)).unwrap_err()
    );
    for secret in SECRETS {
        for form in forms(secret) {
            assert!(!emitted.contains(&form), "{form}");
        }
    }
}
