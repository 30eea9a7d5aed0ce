//! Objects in the form of a Kubernetes API server are accepted unchanged.

use prost::Message as _;
use rollplan::proto;
use rollplan::service::{Code, Status};
use rollplan::wire::{self, json};
use rollplan_core::size::IntOrPercent;
use rollplan_core::snapshot::{Condition, Container, ContainerState, Snapshot, Strategy};
use rollplan_core::time::Time;
use rollplan_world::random::Random;
use serde_json::{Value, json};

use super::random::break_bytes;
use super::{example, examples, read, root};
use crate::request::{Request, call, mk_request};

fn fixture(name: &str) -> Value {
    let path = root().join("tests/fixtures").join(name);
    serde_json::from_str(&read(path)).unwrap()
}

fn parse(request: &Request) -> Snapshot {
    wire::parse_snapshot(request.message().snapshot).unwrap()
}

#[test]
fn saved_snapshots_are_accepted_unchanged() {
    for (name, mut example) in examples() {
        let snapshot = parse(&example);
        let sets = example.all("ReplicaSet").count();
        assert_eq!(snapshot.replica_sets.len(), sets, "{name}");
        assert_eq!(snapshot.pods.len(), example.all("Pod").count(), "{name}");
        assert_eq!(snapshot.deployment.metadata.name, "web");
        // The whole template is unchanged.
        let template = snapshot.deployment.spec.template.value().to_json();
        assert_eq!(template, example.spec()["template"].to_string(), "{name}");
    }
}

#[test]
fn objects_with_managed_fields_are_accepted_unchanged() {
    let names = ["deployment.json", "replica-set.json", "pod.json"];
    let request = Request::at("2026-11-20T23:27:30Z", names.map(fixture).into());
    let snapshot = parse(&request);
    let status = &snapshot.deployment.status;
    assert_eq!(
        (status.observed_generation, status.terminating_replicas),
        (2, Some(3))
    );
    let owner = snapshot.replica_sets[0].metadata.controller().unwrap();
    assert_eq!(owner.uid, snapshot.deployment.metadata.uid);
    let pod = &snapshot.pods[0];
    assert!(pod.metadata.deletion_timestamp.is_some());
    assert_eq!(pod.containers.len(), 1);
}

/// The snapshot of the fixtures with nulls and unknown fields.
fn snapshot_of_nulls() -> Snapshot {
    let names = [
        "deployment-nulls.json",
        "replica-set-nulls.json",
        "pod-nulls.json",
    ];
    let mut request = Request::at("1970-01-01T00:00:00Z", names.map(fixture).into());
    // The objects must be selected by the Deployment, or they would be ignored.
    let metadata = &mut request.set(0)["metadata"];
    metadata["labels"] = json!({"app": "web"});
    let uid = metadata["uid"].clone();
    request.pod(0)["metadata"]["ownerReferences"] = json!([{"uid": uid, "controller": true}]);
    parse(&request)
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

    let mut request = mk_request();
    request.spec()["replicas"] = json!(null);
    for strategy in [
        json!(null),
        json!({}),
        json!({"type": "RollingUpdate", "rollingUpdate": null}),
        json!({"rollingUpdate": {"maxSurge": null}}),
    ] {
        request.spec()["strategy"] = strategy;
        let spec = parse(&request).deployment.spec;
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
    let snapshot = snapshot_of_nulls();
    let pod = &snapshot.pods[0];
    assert_eq!((pod.node_name.as_str(), pod.start_time), ("node-1", None));
    assert_eq!(
        pod.containers,
        [Container {
            name: "web".to_owned(),
            restarts: 2,
            started: Some(false),
            state: ContainerState::Waiting {
                reason: "ImagePullBackOff".to_owned(),
                message: "no".to_owned(),
            },
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
        error(json!({"snapshot": {"target": {"statusSubresource": "x"}}})),
        "the JSON text is not a valid PlanRolloutRequest at snapshot.target.statusSubresource"
    );
    assert_eq!(
        error(json!({"snapshot": {"answers": [{}, {"call": {"path": 7}}]}})),
        "the JSON text is not a valid PlanRolloutRequest at snapshot.answers[1].call.path"
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
    let deep = format!(r#"{{"unknown":{}"#, r#"{"x":"#.repeat(100_000));
    json::from_json::<proto::PlanRolloutRequest>(&deep).unwrap_err();
}

#[test]
fn messages_round_trip_through_json() {
    for (name, example) in examples() {
        let request = example.message();
        let text = json::to_json(&request).unwrap();
        let again: proto::PlanRolloutRequest = json::from_json(&text).unwrap();
        assert_eq!(again, request, "{name}");
        let answer = example.plan();
        let text = json::to_json(&answer).unwrap();
        let again: proto::PlanRolloutResponse = json::from_json(&text).unwrap();
        assert_eq!(again, answer, "{name}");
    }
    // 64-bit integers are strings, except for programs with Kubernetes types.
    let status = mk_request().plan().status.unwrap();
    let text = json::to_json(&status).unwrap();
    assert!(text.contains(r#""observedGeneration":"2""#), "{text}");
    let text = json::to_kubernetes_json(&status).unwrap();
    assert!(text.contains(r#""observedGeneration":2"#), "{text}");
}

#[test]
fn encoded_requests_have_the_answer_of_messages() {
    for (name, example) in examples() {
        let encoded = example.message().encode_to_vec();
        let answer = call("PlanRollout", &encoded).unwrap();
        assert_eq!(answer, example.plan().encode_to_vec(), "{name}");
        let encoded = example.status_request().encode_to_vec();
        let answer = call("ComputeStatus", &encoded).unwrap();
        let expected = example.compute_status().encode_to_vec();
        assert_eq!(answer, expected, "{name}");
    }
}

#[test]
fn corrupted_requests_have_the_answer_of_messages() {
    let requests = [
        example("mid-rollout").message().encode_to_vec(),
        mk_request().message().encode_to_vec(),
    ];
    let mut random = Random::new(11);
    let mut answered = 0;
    for round in 0..3_000 {
        let mut bytes = requests[random.below(2)].clone();
        break_bytes(&mut random, &mut bytes, |_, bytes, at| {
            bytes.truncate(at + 1);
        });
        let answer = call("PlanRollout", &bytes);
        answered += usize::from(answer.is_ok());
        match (answer, proto::PlanRolloutRequest::decode(&bytes[..])) {
            (Err(status), Err(error)) => {
                let text = status.message;
                // A request that is too large is refused before it is decoded.
                let is_size = status.code == Code::ResourceExhausted;
                assert!(
                    is_size || text.ends_with(&error.to_string()),
                    "{round}: {text}"
                );
            }
            (answer, Ok(message)) => {
                let expected = rollplan::service::answer(message).map(|it| it.encode_to_vec());
                let expected = expected.map_err(|error| Status::from(&error));
                assert_eq!(answer, expected, "{round}");
            }
            (Ok(_), Err(error)) => panic!("{round}: {error}"),
        }
    }
    assert!(answered > 100, "{answered}");
}
