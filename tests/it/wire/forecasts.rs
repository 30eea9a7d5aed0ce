//! Forecasts: requests in, responses out.

use std::cell::Cell;

use prost::Message as _;
use prost_types::Duration;
use rollplan::proto;
use rollplan::proto::deployment_change::Change;
use rollplan::service::MethodRequest as _;
use rollplan::wire::{Context, Error};
use rollplan_core::interrupt::Interrupt;
use rollplan_forecast::ForecastError;
use serde_json::{Value, json};

use super::example;
use crate::request::{Request, call, half_way};

fn mk_forecast(request: &Request, changes: Vec<Change>) -> proto::ForecastRolloutRequest {
    let changes = changes.into_iter().map(Some);
    proto::ForecastRolloutRequest {
        snapshot: request.message().snapshot,
        changes: changes
            .map(|change| proto::DeploymentChange { change })
            .collect(),
        seed: 7,
        ..Default::default()
    }
}

/// A request whose lists are complete.
fn complete() -> Request {
    let mut request = half_way();
    request.snapshot.pods_complete = true;
    request
}

fn seconds(seconds: i64) -> Duration {
    Duration { seconds, nanos: 0 }
}

/// The Deployment of a request with another image, without what only a stored object has.
fn manifest(request: &Request) -> Value {
    let mut deployment = request.items[0].clone();
    deployment["spec"]["template"]["spec"]["containers"][0]["image"] = "new:1".into();
    for field in ["uid", "resourceVersion", "generation", "namespace"] {
        let metadata = deployment["metadata"].as_object_mut();
        metadata.unwrap().remove(field);
    }
    deployment["status"].take();
    deployment
}

/// The paths and reasons of violations.
fn violations(request: proto::ForecastRolloutRequest) -> Vec<String> {
    match rollplan::service::answer(request) {
        Err(Error::InvalidArgument(violations)) => {
            let listed = violations.listed.into_iter();
            listed
                .map(|it| format!("{}: {}", it.field, it.reason))
                .collect()
        }
        answer => panic!("{answer:?}"),
    }
}

#[test]
fn a_manifest_with_another_image_starts_a_rollout() {
    let request = example("after-undo");
    let change = Change::Deployment(manifest(&request).to_string());
    let answer = rollplan::service::answer(mk_forecast(&request, vec![change])).unwrap();
    assert_eq!(answer.effect(), proto::ChangeEffect::StartsRollout);
    let paths: Vec<_> = answer.template_changes.iter().map(|it| &*it.path).collect();
    assert_eq!(paths, ["spec.containers[name=web].image"]);
    let expected = answer.expected.unwrap();
    assert_eq!(expected.outcome(), proto::Outcome::Completes);
    assert!(expected.duration.is_some());
    let replica_sets = answer.replica_sets;
    assert_eq!(replica_sets[0].uid, "");
    assert_ne!(replica_sets[1].uid, "");
    let last = expected.trajectory.last().unwrap();
    assert_eq!(last.pods.len(), replica_sets.len());
}

#[test]
fn undo_returns_to_a_revision() {
    let request = example("after-undo");
    let answer = rollplan::service::answer(mk_forecast(&request, vec![Change::UndoToRevision(0)]));
    let answer = answer.unwrap();
    assert_eq!(answer.effect(), proto::ChangeEffect::ReturnsToRevision);
    assert!(answer.revision > 0);
}

/// The controller of Kubernetes plans pass by pass.
#[test]
fn horizon_of_the_controller_can_be_chosen() {
    let request = complete();
    let mut changed = manifest(&request);
    changed["spec"]["replicas"] = json!(12);
    let forecast = |horizon: proto::Horizon| {
        let mut request = mk_forecast(&request, vec![Change::Deployment(changed.to_string())]);
        request.options.get_or_insert_default().horizon = horizon.into();
        rollplan::service::answer(request).unwrap()
    };
    let pass = forecast(proto::Horizon::Pass);
    assert_eq!(forecast(proto::Horizon::Unspecified), pass);
    assert_ne!(forecast(proto::Horizon::Settled), pass);
}

#[test]
fn the_same_request_has_the_same_bytes() {
    let request = mk_forecast(&example("mid-rollout"), Vec::new());
    let bytes = request.encode_to_vec();
    let first = call("ForecastRollout", &bytes).unwrap();
    assert_eq!(call("ForecastRollout", &bytes).unwrap(), first);
    assert_eq!(
        rollplan::service::answer(request).unwrap().encode_to_vec(),
        first
    );
}

#[test]
fn every_example_has_a_forecast() {
    for (name, request) in super::examples() {
        for changes in [
            vec![],
            vec![Change::Replicas(3)],
            vec![Change::Paused(true)],
        ] {
            let answer = rollplan::service::answer(mk_forecast(&request, changes));
            let answer = answer.unwrap_or_else(|error| panic!("{name}: {error}"));
            let outcomes = [answer.expected, answer.never_ready].map(|it| it.unwrap().outcome());
            // It is not certain that pods which fail now continue to do so.
            let is_open = outcomes[0] == proto::Outcome::Undecided;
            assert!(!is_open || name.starts_with("stuck-"), "{name}");
            assert_ne!(outcomes[1], proto::Outcome::Undecided, "{name}");
        }
    }
}

#[test]
fn violations_have_their_path() {
    let mut request = mk_forecast(
        &complete(),
        vec![
            Change::Replicas(-1),
            Change::UndoToRevision(-1),
            Change::Deployment("{".to_owned()),
            Change::Deployment("[]".to_owned()),
        ],
    );
    let mut other = manifest(&complete());
    other["kind"] = "Other".into();
    other["metadata"]["name"] = "other".into();
    other["metadata"]["namespace"] = "other".into();
    other["spec"]["replicas"] = (-3).into();
    let change = Some(Change::Deployment(other.to_string()));
    request.changes.push(proto::DeploymentChange { change });
    request
        .changes
        .push(proto::DeploymentChange { change: None });
    request.samples = -1;
    request.pod_times = Some(proto::PodTimes {
        start: vec![
            seconds(1),
            seconds(0),
            seconds(i64::MAX),
            seconds(365 * 86_400),
            seconds(365 * 86_400 + 1),
        ],
        termination: vec![seconds(0), seconds(-1)],
    });
    request.limits = Some(proto::ClusterLimits {
        pods_in_quota: Some(-1),
        pods_on_nodes: Some(-1),
        create_back_off: Some(seconds(0)),
    });
    request.options = Some(proto::PlanOptions {
        horizon: 9,
        ..Default::default()
    });
    assert_eq!(
        violations(request),
        [
            "options.horizon: UNKNOWN_ENUM_VALUE",
            "pod_times.start[1]: OUT_OF_RANGE",
            "pod_times.start[2]: OUT_OF_RANGE",
            "pod_times.start[4]: OUT_OF_RANGE",
            "pod_times.termination[1]: NEGATIVE",
            "limits.pods_in_quota: NEGATIVE",
            "limits.pods_on_nodes: NEGATIVE",
            "limits.create_back_off: OUT_OF_RANGE",
            "samples: NEGATIVE",
            "changes[0].replicas: NEGATIVE",
            "changes[1].undo_to_revision: NEGATIVE",
            "changes[2].deployment: MALFORMED_JSON",
            "changes[3].deployment: WRONG_TYPE",
            "changes[4].deployment.spec.replicas: NEGATIVE",
            "changes[4].deployment.kind: NOT_FOUND",
            "changes[4].deployment.metadata.name: NOT_FOUND",
            "changes[4].deployment.metadata.namespace: NOT_FOUND",
            "changes[5].change: REQUIRED",
        ]
    );
}

#[test]
fn limits_of_the_contract_are_enforced() {
    let request = mk_forecast(&complete(), Vec::new());
    let change = |request: &mut proto::ForecastRolloutRequest, replicas| {
        let change = Some(Change::Replicas(replicas));
        request.changes.push(proto::DeploymentChange { change });
    };
    let mut changes = request.clone();
    (0..11).for_each(|_| change(&mut changes, 1));
    let mut samples = request.clone();
    samples.samples = 1001;
    let mut times = request.clone();
    times.pod_times = Some(proto::PodTimes {
        start: vec![seconds(1); 10_001],
        ..Default::default()
    });
    for (request, what) in [
        (changes, "changes"),
        (samples, "samples"),
        (times, "pod_times.start"),
    ] {
        let error = rollplan::service::answer(request).unwrap_err();
        assert!(
            matches!(error, Error::TooLarge { what: it, .. } if it == what),
            "{error}"
        );
    }
    let mut pods = request;
    change(&mut pods, 5001);
    let error = rollplan::service::answer(pods).unwrap_err();
    let too_many = ForecastError::TooManyPods { replicas: 5001 };
    assert!(matches!(error, Error::Forecast(it) if it == too_many));
}

#[test]
fn incomplete_lists_have_no_forecast() {
    let request = mk_forecast(&half_way(), Vec::new());
    let error = rollplan::service::answer(request).unwrap_err();
    let name = "web".to_owned();
    assert!(matches!(error, Error::Forecast(it) if it == ForecastError::PodsIncomplete { name }));
}

/// Interrupts after a number of checks.
struct After(Cell<usize>);

impl Interrupt for After {
    fn is_interrupted(&self) -> bool {
        let left = self.0.get();
        self.0.set(left.saturating_sub(1));
        left == 0
    }
}

#[test]
fn interrupted_forecast_stops() {
    let request = mk_forecast(&example("mid-rollout"), Vec::new());
    for checks in [0, 10, 100, 1_000, 10_000] {
        let interrupt = After(Cell::new(checks));
        let error = request
            .clone()
            .answer(&mut Context::until(&interrupt))
            .unwrap_err();
        assert!(matches!(error, Error::Interrupted(_)), "{checks}: {error}");
    }
}

#[test]
fn a_rollout_that_certainly_needs_a_change_never_completes() {
    let mut request = example("stuck-bad-image");
    // Before the progress deadline.
    request.spec()["progressDeadlineSeconds"] = 600.into();
    let pulls: Vec<&mut Value> = request
        .all("Pod")
        .filter_map(|pod| pod.pointer_mut("/status/containerStatuses/0/state/waiting"))
        .collect();
    assert_eq!(pulls.len(), 2);
    for waiting in pulls {
        *waiting = serde_json::json!({"reason": "InvalidImageName", "message": "invalid reference format"});
    }
    let forecast = |changes| {
        let answer = rollplan::service::answer(mk_forecast(&request, changes)).unwrap();
        answer.expected.unwrap()
    };
    let expected = forecast(Vec::new());
    assert_eq!(expected.outcome(), proto::Outcome::Never);
    assert!(
        expected.reason.contains("InvalidImageName"),
        "{}",
        expected.reason
    );
    let fixed = forecast(vec![Change::Deployment(manifest(&request).to_string())]);
    assert_eq!(
        fixed.outcome(),
        proto::Outcome::Completes,
        "{}",
        fixed.reason
    );
}

#[test]
fn durations_have_parts_of_a_second() {
    let start = |seconds, nanos| {
        let mut request = mk_forecast(&example("after-undo"), Vec::new());
        let change = Change::Deployment(manifest(&example("after-undo")).to_string());
        request.changes = vec![proto::DeploymentChange {
            change: Some(change),
        }];
        request.pod_times = Some(proto::PodTimes {
            start: vec![Duration { seconds, nanos }],
            ..Default::default()
        });
        let answer = rollplan::service::answer(request).unwrap();
        let Duration { seconds, nanos } = answer.expected.unwrap().duration.unwrap().high.unwrap();
        seconds * 1_000 + i64::from(nanos) / 1_000_000
    };
    let half = start(0, 500_000_000);
    assert!(start(1, 500_000_000) - half >= 1_000, "{half}");
    assert!(start(1, 0) > half);
}

#[test]
fn durations_out_of_range_are_explained() {
    let mut request = mk_forecast(&complete(), Vec::new());
    request.pod_times = Some(proto::PodTimes {
        start: vec![seconds(0), seconds(-1), seconds(i64::MAX)],
        termination: vec![seconds(-1)],
    });
    let Err(Error::InvalidArgument(violations)) = rollplan::service::answer(request) else {
        panic!("no violations");
    };
    let texts: Vec<&str> = violations
        .listed
        .iter()
        .map(|it| &*it.description)
        .collect();
    let low = "must be a duration above zero";
    assert_eq!(
        texts,
        [
            low,
            low,
            "must be at most a year",
            "must be a duration that is not negative"
        ]
    );
}
