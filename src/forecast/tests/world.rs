//! Requests for tests.

use std::collections::BTreeSet;

use rollplan_core::interrupt::Never;
use rollplan_core::snapshot::{Deployment, Options, Pod, ReplicaSet, Snapshot};
use rollplan_core::template::Template;
use rollplan_forecast::{
    Answer, Change, ClusterLimits, ForecastError, Horizon, PodTimes, Request, forecast_until,
};
use rollplan_world::{
    at, mk_deployment, mk_pod, mk_pod_condition, mk_set, mk_snapshot, mk_template, settle,
    store_defaults,
};

/// A pod that was created this many seconds ago and is ready since `start` seconds later.
pub(crate) fn mk_ready(set: &ReplicaSet, number: usize, age: i64, start: i64) -> Pod {
    let mut pod = mk_starting(set, number, age);
    pod.conditions = vec![mk_pod_condition("Ready", "True", "", at(start - age))];
    pod
}

/// A pod that was created this many seconds ago and is not ready.
pub(crate) fn mk_starting(set: &ReplicaSet, number: usize, age: i64) -> Pod {
    let name = format!("{}-{number}", set.metadata.name);
    let mut pod = mk_pod(set, &name, "Running");
    pod.metadata.creation_timestamp = Some(at(-age));
    pod.node_name = "node".to_owned();
    pod
}

/// A Deployment whose rollout is complete, with a pod for each start time in seconds.
pub(crate) fn mk_complete(starts: &[i64]) -> Snapshot {
    mk_complete_of(mk_deployment(i32::try_from(starts.len()).unwrap()), starts)
}

/// [`mk_complete`], of this Deployment.
pub(crate) fn mk_complete_of(deployment: Deployment, starts: &[i64]) -> Snapshot {
    let set = mk_set(&deployment, "v1", 1, deployment.spec.replicas);
    let pods = starts.iter().enumerate();
    let pods = pods.map(|(number, start)| mk_ready(&set, number, 3600, *start));
    let pods: Vec<Pod> = pods.collect();
    let mut snapshot = mk_snapshot(deployment, vec![set]);
    snapshot.pods = pods.into();
    store_defaults(&mut snapshot);
    settle(&mut snapshot);
    snapshot
}

/// The same Deployment with another image.
pub(crate) fn with_image(snapshot: &Snapshot, image: &str) -> Change {
    let mut deployment = snapshot.deployment.clone();
    deployment.spec.template = Template::from(mk_template(image));
    Change::Deployment(Box::new(deployment))
}

/// A request with the defaults of the contract.
pub(crate) fn mk_request(snapshot: Snapshot, changes: Vec<Change>) -> Request {
    Request {
        snapshot,
        failure: None,
        failing_pods: BTreeSet::new(),
        changes,
        horizon: Horizon::Pass,
        options: Options::default(),
        pod_times: PodTimes::default(),
        limits: ClusterLimits::default(),
        samples: 100,
        seed: 1,
    }
}

/// A request for a rollout of a new image.
pub(crate) fn mk_rollout(snapshot: Snapshot) -> Request {
    let change = with_image(&snapshot, "v2");
    mk_request(snapshot, vec![change])
}

pub(crate) fn forecast(request: Request) -> Answer {
    try_forecast(request).unwrap()
}

pub(crate) fn try_forecast(request: Request) -> Result<Answer, ForecastError> {
    forecast_until(request, &Never).unwrap()
}
