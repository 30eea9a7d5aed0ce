//! Objects and checksums in, plans out.

use rollplan::proto;
use serde_json::{Value, json};

use super::{
    NOW, STATE, call, config_map, controlled, decisions, deployment, object, objects, plan, pod_of,
    revision_of, state,
};

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
    assert_eq!(
        restart.changes[0].kind(),
        proto::ConfigurationKind::ConfigMap
    );
    let call = call(restart);
    assert_eq!(call.path, "/apis/apps/v1/namespaces/shop/deployments/web");
    assert_eq!(call.content_type, "application/json-patch+json");
    let body: Value = serde_json::from_str(&call.body_json).unwrap();
    assert_eq!(
        body[0],
        json!({"op": "test", "path": "/metadata/uid", "value": "web-uid"})
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
    let used = &all.plans[0].uses[0];
    assert_eq!(
        (used.kind(), used.name.as_str()),
        (proto::ConfigurationKind::ConfigMap, "app")
    );
}

#[test]
fn checksums_are_planned_like_configurations() {
    let web = deployment("web", None);
    let of_objects = plan(&objects(
        &[config_map("app", json!({"A": "1"})), web.clone()],
        json!({}),
    ));
    // sha256 of "1"
    let checksum = "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b";
    let mut request = objects(&[web], json!({}));
    request["configurations"] = json!([{"kind": "CONFIGURATION_KIND_CONFIG_MAP", "namespace": "shop", "name": "app",
        "keyChecksums": {"A": checksum}}]);
    assert_eq!(plan(&request).plans, of_objects.plans);
}

#[test]
fn pods_started_after_the_change_need_no_restart() {
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
        let set = revision_of(&web, revision);
        let pod = pod_of(&set, started);
        let all = [changed.clone(), web, set, pod];
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
    let mut object = json!({"apiVersion": "example.com/v1", "kind": "Proxy",
        "metadata": {"name": "edge", "namespace": "shop", "uid": "1"},
        "spec": {"runtime": {"pod": {"spec": {"containers": [{"name": "x", "envFrom": [{"secretRef": {"name": "s"}}]}]}}}}});
    let mut secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "shop"}, "data": {"k": "djE="}});
    let kinds = json!([{"apiVersion": "example.com/v1", "kind": "Proxy", "resource": "proxys", "templatePath": "spec.runtime.pod"}]);
    let options = json!({"allWorkloads": true, "kinds": kinds, "quiet": "0s"});
    let planned = |object: &Value, secret: &Value| {
        plan(&objects(&[object.clone(), secret.clone()], options.clone()))
    };
    let answer = planned(&object, &secret);
    assert_eq!(
        call(&answer.plans[0]).path,
        "/apis/example.com/v1/namespaces/shop/proxys/edge"
    );
    let body = &call(&answer.plans[0]).body_json;
    assert!(
        body.contains(r#"{"op":"test","path":"/metadata/annotations","value":null}"#),
        "{body}"
    );
    object["metadata"]["annotations"] = json!({"a": "b"});
    let recorded = state(&planned(&object, &secret).plans[0]);
    object["metadata"]["annotations"][STATE] = json!(recorded);
    secret["data"]["k"] = json!("djI=");
    let answer = planned(&object, &secret);
    let body = &call(&answer.plans[0]).body_json;
    assert!(
        body.contains(r#""path":"/spec/runtime/pod/metadata"#),
        "{body}"
    );
}

#[test]
fn options_of_the_reloader_profile_are_followed() {
    let mut web = deployment("web", None);
    web["metadata"]["annotations"] = json!({});
    let mut job = deployment("job", None);
    job["apiVersion"] = json!("batch/v1");
    job["kind"] = json!("Job");
    job["metadata"]["annotations"] = json!({"reloader.stakater.com/auto": "true"});
    let all = [config_map("app", json!({"A": "1"})), web, job];
    for (reloader, expected) in [
        (json!({}), &["job"][..]),
        (json!({"autoReloadAll": true}), &["job", "web"]),
        (json!({"autoReloadAll": true, "ignoreJobs": true}), &["web"]),
        (json!({"ignoreCronJobs": true}), &["job"]),
        (
            json!({"ignoreConfigMaps": true, "autoReloadAll": true}),
            &[],
        ),
    ] {
        let options = json!({"profile": "RESTART_PROFILE_RELOADER", "reloader": reloader, "includeUnchanged": true});
        let answer = plan(&objects(&all, options));
        let used = answer.plans.iter().filter(|it| !it.uses.is_empty());
        let mut names: Vec<&str> = used.map(|it| it.name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, expected, "{reloader}");
    }
}

#[test]
fn nothing_is_recorded_or_restarted_while_starts_are_unknown() {
    let mut web = deployment("web", None);
    web["metadata"]["annotations"]["deployment.kubernetes.io/revision"] = json!("2");
    let mut set = revision_of(&web, "2");
    let pod = |created_at: &str| {
        let mut pod = controlled(object("v1", "Pod", "p"), &set);
        pod["metadata"]["creationTimestamp"] = json!(created_at);
        vec![web.clone(), set.clone(), pod]
    };
    let starting = ["00:59:00", "00:59:40", "00:59:41"].map(|it| pod(&format!("2026-01-01T{it}Z")));
    set["status"]["replicas"] = json!(0);
    let scaled_to_0 = |replicas: i32| {
        let mut web = web.clone();
        web["spec"]["replicas"] = json!(0);
        web["status"] = json!({"observedGeneration": 1, "replicas": replicas});
        vec![web, set.clone()]
    };
    let [before, same_second, after] = starting;
    for (workload, expected) in [
        (before, "NONE"),
        (same_second, "NONE"),
        (after, "RECORD"),
        // The pod of an earlier revision is still running.
        (scaled_to_0(1), "NONE"),
        (scaled_to_0(0), "RECORD"),
    ] {
        let mut request = objects(&workload, json!({}));
        request["configurations"] = json!([{"kind": "CONFIGURATION_KIND_CONFIG_MAP", "namespace": "shop", "name": "app",
            "keyChecksums": {"A": "00112233445566778899"}, "changedAt": "2026-01-01T00:59:40Z"}]);
        let answer = plan(&request);
        let decided = decisions(&answer);
        assert_eq!(
            decided,
            [("web".to_owned(), expected.to_owned())],
            "{workload:?}"
        );
        let conditions = answer.plans[0].conditions.iter();
        let reasons: Vec<&str> = conditions.map(|it| it.reason.as_str()).collect();
        let is_unknown = expected == "NONE";
        let unknown = ["STARTS_UNKNOWN"];
        assert_eq!(reasons, unknown[..usize::from(is_unknown)], "{workload:?}");
        assert_eq!(answer.plans[0].steps.is_empty(), is_unknown, "{workload:?}");
        assert_eq!(answer.requeue_after.is_some(), is_unknown, "{workload:?}");
    }
}
