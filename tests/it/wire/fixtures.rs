//! Objects in the form of a Kubernetes API server are accepted unchanged.

use prost::{Message, Name};
use rollplan::proto;
use rollplan::wire::{self, json};
use rollplan_core::size::IntOrPercent;
use rollplan_core::snapshot::{Condition, Strategy};
use rollplan_core::time::Time;
use serde_json::{Value, json};

use super::{Parts as _, examples, read, request, root};

fn fixture<M: Message + Name + Default>(name: &str) -> M {
    json::from_json(&read(root().join("tests/fixtures").join(name))).unwrap()
}

/// Reads JSON as a message, and checks that the message prints nothing that is not in the JSON.
fn check_subset<M: Message + Name + Default>(json: &Value) -> M {
    let message: M = json::from_json(&json.to_string()).unwrap();
    let printed = json::to_kubernetes_json(&message).unwrap();
    let printed: Value = serde_json::from_str(&printed).unwrap();
    assert_within(&printed, json, "");
    message
}

fn assert_within(part: &Value, whole: &Value, path: &str) {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => {
            for (key, value) in part {
                let path = format!("{path}.{key}");
                let of_whole = whole
                    .get(key)
                    .unwrap_or_else(|| panic!("{path} is not there"));
                assert_within(value, of_whole, &path);
            }
        }
        (Value::Array(part), Value::Array(whole)) => {
            assert_eq!(part.len(), whole.len(), "{path}");
            for (i, (part, whole)) in part.iter().zip(whole).enumerate() {
                assert_within(part, whole, &format!("{path}[{i}]"));
            }
        }
        (Value::Number(part), Value::Number(whole)) => {
            assert_eq!(part.as_f64(), whole.as_f64(), "{path}");
        }
        _ => assert_eq!(part, whole, "{path}"),
    }
}

#[test]
fn saved_snapshots_are_accepted_unchanged() {
    for (name, example) in examples() {
        let request: proto::PlanRolloutRequest = check_subset(&example);
        let snapshot = wire::parse_snapshot(request.snapshot).unwrap();
        let count = |list: &str| example["snapshot"][list].as_array().unwrap().len();
        assert_eq!(snapshot.replica_sets.len(), count("replicaSets"), "{name}");
        assert_eq!(snapshot.pods.len(), count("pods"), "{name}");
        assert_eq!(snapshot.deployment.metadata.name, "web");
        // The whole template is unchanged.
        let template = &example["snapshot"]["deployment"]["spec"]["template"];
        let given_back = snapshot.deployment.spec.template.value().to_json();
        assert_eq!(
            &serde_json::from_str::<Value>(&given_back).unwrap(),
            template,
            "{name}"
        );
    }
}

#[test]
fn objects_with_managed_fields_are_accepted_unchanged() {
    let file = |name: &str| -> Value {
        serde_json::from_str(&read(root().join("tests/fixtures").join(name))).unwrap()
    };
    let deployment: proto::Deployment = check_subset(&file("deployment.json"));
    let status = deployment.status.unwrap();
    assert_eq!(
        (status.observed_generation, status.terminating_replicas),
        (2, Some(3))
    );
    let set: proto::ReplicaSet = check_subset(&file("replica-set.json"));
    assert_eq!(
        set.metadata.unwrap().owner_references[0].controller,
        Some(true)
    );
    let pod: proto::Pod = check_subset(&file("pod.json"));
    assert_eq!(pod.kind, "Pod");
    assert!(pod.metadata.unwrap().deletion_timestamp.is_some());
    assert!(!pod.status.unwrap().pod_ip.is_empty());
}

/// The snapshot of the fixtures with nulls and unknown fields.
fn snapshot_of_nulls() -> rollplan_core::snapshot::Snapshot {
    // The objects must be selected by the Deployment, or they would be ignored.
    let mut set: proto::ReplicaSet = fixture("replica-set-nulls.json");
    let metadata = set.metadata.as_mut().unwrap();
    metadata.labels = [("app".to_owned(), "web".to_owned())].into();
    let mut pod: proto::Pod = fixture("pod-nulls.json");
    let owner = proto::OwnerReference {
        uid: metadata.uid.clone(),
        controller: Some(true),
        ..Default::default()
    };
    pod.metadata.as_mut().unwrap().owner_references = vec![owner];
    let snapshot = proto::Snapshot {
        now: Some(Default::default()),
        deployment: Some(fixture("deployment-nulls.json")),
        replica_sets: vec![set],
        pods: vec![pod],
        ..Default::default()
    };
    wire::parse_snapshot(Some(snapshot)).unwrap()
}

#[test]
fn nulls_and_unknown_fields_are_ignored() {
    let deployment = snapshot_of_nulls().deployment;
    assert_eq!(deployment.api_version, "apps/v1");
    let metadata = &deployment.metadata;
    assert_eq!(
        metadata.creation_timestamp,
        Time::new(1_767_225_600, 123_456_000)
    );
    assert_eq!(metadata.deletion_timestamp, None);
    assert_eq!(metadata.labels.len() + metadata.owner_references.len(), 0);
    let spec = &deployment.spec;
    assert_eq!(
        (spec.replicas, spec.min_ready_seconds, spec.paused),
        (0, 0, false)
    );
    assert_eq!(
        (spec.revision_history_limit, spec.progress_deadline_seconds),
        (10, 600)
    );
    assert_eq!(
        spec.strategy,
        Strategy::RollingUpdate {
            max_surge: IntOrPercent::Int(3),
            max_unavailable: IntOrPercent::Percent(10),
        }
    );
    // Nulls in the template are kept.
    assert_eq!(
        spec.template.value().to_json(),
        r#"{"metadata":{"creationTimestamp":null,"labels":{"app":"web"}},"spec":{"containers":[{"env":null,"image":"web:1","name":"web","resources":{}}],"terminationGracePeriodSeconds":0,"volumes":null}}"#
    );
    let status = &deployment.status;
    assert_eq!(
        (status.observed_generation, status.terminating_replicas),
        (2, Some(0))
    );
    assert_eq!(status.collision_count, None);
    assert_eq!(
        status.conditions,
        [Condition {
            kind: "Progressing".to_owned(),
            status: "True".to_owned(),
            last_transition_time: Time::new(1_767_225_600 - 7_200, 500_000_000),
            ..Condition::default()
        }]
    );
}

#[test]
fn absent_fields_have_the_defaults_of_the_kubernetes_api() {
    let snapshot = snapshot_of_nulls();
    let set = &snapshot.replica_sets[0];
    assert_eq!(set.metadata.namespace, "shop");
    assert_eq!(set.metadata.creation_timestamp, None);
    assert_eq!((set.replicas, set.min_ready_seconds), (1, 0));
    assert_eq!(set.status, Default::default());
    assert_eq!(set.metadata.owner_references[0].controller, None);
    assert_eq!(set.template.value().to_json(), r#"{"spec":null}"#);
    assert_eq!(snapshot.pods[0].metadata.namespace, "shop");
    assert_eq!(snapshot.pods[0].phase, "Pending");

    let mut request = super::mk_request();
    request.spec().replicas = None;
    for strategy in [
        json!(null),
        json!({}),
        json!({"type": "RollingUpdate", "rollingUpdate": null}),
        json!({"rollingUpdate": {"maxSurge": null}}),
    ] {
        let strategy: proto::DeploymentSpec =
            json::from_json(&json!({"strategy": strategy}).to_string()).unwrap();
        request.spec().strategy = strategy.strategy;
        let spec = wire::parse_snapshot(request.snapshot.clone())
            .unwrap()
            .deployment
            .spec;
        assert_eq!(spec.replicas, 1);
        assert_eq!(
            spec.strategy,
            Strategy::RollingUpdate {
                max_surge: IntOrPercent::Percent(25),
                max_unavailable: IntOrPercent::Percent(25),
            }
        );
    }
}

#[test]
fn pods_have_the_fields_that_reports_use() {
    let pod: proto::Pod = fixture("pod-nulls.json");
    let status = pod.status.unwrap();
    assert_eq!(
        (status.pod_ip.as_str(), status.start_time),
        ("10.0.0.7", None)
    );
    assert_eq!(
        status.container_statuses,
        [proto::ContainerStatus {
            name: "web".to_owned(),
            restart_count: 2,
            started: Some(false),
            state: Some(proto::ContainerState {
                waiting: Some(proto::ContainerStateWaiting {
                    reason: "ImagePullBackOff".to_owned(),
                    message: "no".to_owned(),
                }),
                ..Default::default()
            }),
            last_state: Some(Default::default()),
            ..Default::default()
        }]
    );
}

#[test]
fn options_have_the_defaults_of_the_contract() {
    let options = |json: Value| {
        let options = json::from_json::<proto::PlanOptions>(&json.to_string()).unwrap();
        let (options, horizon) = wire::parse_options(Some(options)).unwrap();
        (options.terminating_replicas, horizon)
    };
    use wire::Horizon::{Pass, Settled};
    assert_eq!(options(json!({})), (true, Settled));
    assert_eq!(
        options(json!({"horizon": "HORIZON_SETTLED"})),
        (true, Settled)
    );
    assert_eq!(options(json!({"horizon": "HORIZON_PASS"})), (true, Pass));
    assert_eq!(
        options(json!({"terminatingReplicas": false})),
        (false, Settled)
    );
    assert_eq!(wire::parse_options(None).unwrap().1, Settled);
}

#[test]
fn invalid_json_messages_name_the_field() {
    let error = |json: Value| {
        let text = json.to_string();
        json::from_json::<proto::PlanRolloutRequest>(&text)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        error(json!({"snapshot": {"deployment": {"spec": {"replicas": "x"}}}})),
        "the JSON text is not a valid PlanRolloutRequest at snapshot.deployment.spec.replicas"
    );
    assert_eq!(
        error(
            json!({"snapshot": {"replicaSets": [{}, {"metadata": {"creationTimestamp": "today"}}]}})
        ),
        "the JSON text is not a valid PlanRolloutRequest at snapshot.replicaSets[1].metadata.creationTimestamp"
    );
    assert_eq!(
        error(json!([])),
        "the JSON text is not a valid PlanRolloutRequest"
    );
    for text in ["", "{", "{} {}", "nul"] {
        json::from_json::<proto::PlanRolloutRequest>(text).unwrap_err();
    }
    // Nested deeper than the stack allows.
    json::from_json::<proto::PlanRolloutRequest>(&"[".repeat(100_000)).unwrap_err();
    let deep = format!(
        "{}{}",
        r#"{"snapshot":{"deployment":{"spec":{"template":"#,
        r#"{"x":"#.repeat(100_000)
    );
    json::from_json::<proto::PlanRolloutRequest>(&deep).unwrap_err();
}

/// The fuzzer found the first one, which did not round-trip.
#[test]
fn fractions_are_read_as_the_closest_number() {
    for text in [
        "1.6666666666666666660",
        "0.1",
        "2.2250738585072011e-308",
        "9007199254740993.5",
    ] {
        let template = format!(r#"{{"spec": {{"fraction": {text}}}}}"#);
        let request =
            format!(r#"{{"snapshot": {{"deployment": {{"spec": {{"template": {template}}}}}}}}}"#);
        let request: proto::PlanRolloutRequest = json::from_json(&request).unwrap();
        let printed = json::to_json(&request).unwrap();
        let read: proto::PlanRolloutRequest = json::from_json(&printed).unwrap();
        assert_eq!(read, request, "{printed}");
        let value: Value = serde_json::from_str(&printed).unwrap();
        let number = &value["snapshot"]["deployment"]["spec"]["template"]["spec"]["fraction"];
        assert_eq!(number.as_f64(), text.parse().ok(), "{printed}");
    }
}

#[test]
fn messages_round_trip_through_json() {
    for (name, example) in examples() {
        let request = request(&example);
        let text = json::to_json(&request).unwrap();
        let again: proto::PlanRolloutRequest = json::from_json(&text).unwrap();
        assert_eq!(json::to_json(&again).unwrap(), text, "{name}");
        assert!(text.contains(r#""generation":""#));
        let (one, two) = (wire::plan_rollout(request), wire::plan_rollout(again));
        assert_eq!(one.unwrap(), two.unwrap(), "{name}");
    }
}
