//! Pods.

use rollplan::proto;
use rollplan::wire::Reason;

use super::{Case, Parts as _, YEAR_10000, at, owner};

fn status(request: &mut proto::PlanRolloutRequest) -> &mut proto::PodStatus {
    request.snapshot().pods[1].status.get_or_insert_default()
}

fn container(state: proto::ContainerState) -> proto::ContainerStatus {
    proto::ContainerStatus {
        state: Some(state),
        ..Default::default()
    }
}

pub(super) const CASES: &[Case] = &[
    (
        |r| r.snapshot().pods[1].metadata = None,
        "snapshot.pods[1].metadata",
        Reason::Required,
    ),
    (
        |r| r.pod_meta(1).name.clear(),
        "snapshot.pods[1].metadata.name",
        Reason::Required,
    ),
    (
        |r| r.pod_meta(1).uid.clear(),
        "snapshot.pods[1].metadata.uid",
        Reason::Required,
    ),
    (
        |r| r.pod_meta(1).name = "a".to_owned(),
        "snapshot.pods[1].metadata.name",
        Reason::Duplicate,
    ),
    (
        |r| r.pod_meta(1).uid = "a".to_owned(),
        "snapshot.pods[1].metadata.uid",
        Reason::Duplicate,
    ),
    (
        |r| r.snapshot().pods[1].kind = "Node".to_owned(),
        "snapshot.pods[1].kind",
        Reason::WrongKind,
    ),
    (
        |r| r.pod_meta(1).generation = -1,
        "snapshot.pods[1].metadata.generation",
        Reason::Negative,
    ),
    (
        |r| r.pod_meta(1).creation_timestamp = at(YEAR_10000, 0),
        "snapshot.pods[1].metadata.creation_timestamp",
        Reason::OutOfRange,
    ),
    (
        |r| r.pod_meta(1).deletion_timestamp = at(0, -1),
        "snapshot.pods[1].metadata.deletion_timestamp",
        Reason::OutOfRange,
    ),
    (
        |r| r.pod_meta(1).owner_references.push(owner("", false)),
        "snapshot.pods[1].metadata.owner_references[1].uid",
        Reason::Required,
    ),
    (
        |r| r.pod_meta(1).owner_references.push(owner("x", true)),
        "snapshot.pods[1].metadata.owner_references",
        Reason::SeveralControllers,
    ),
    (
        |r| status(r).start_time = at(YEAR_10000, 0),
        "snapshot.pods[1].status.start_time",
        Reason::OutOfRange,
    ),
    (
        |r| {
            let condition = proto::PodCondition {
                last_transition_time: at(YEAR_10000, 0),
                ..Default::default()
            };
            status(r).conditions = vec![Default::default(), condition];
        },
        "snapshot.pods[1].status.conditions[1].last_transition_time",
        Reason::OutOfRange,
    ),
    (
        |r| {
            let container = proto::ContainerStatus {
                restart_count: -1,
                ..Default::default()
            };
            status(r).init_container_statuses = vec![container];
        },
        "snapshot.pods[1].status.init_container_statuses[0].restart_count",
        Reason::Negative,
    ),
    (
        |r| {
            let running = proto::ContainerStateRunning {
                started_at: at(YEAR_10000, 0),
            };
            status(r).container_statuses = vec![container(proto::ContainerState {
                running: Some(running),
                ..Default::default()
            })];
        },
        "snapshot.pods[1].status.container_statuses[0].state.running.started_at",
        Reason::OutOfRange,
    ),
    (
        |r| {
            let terminated = proto::ContainerStateTerminated {
                finished_at: at(YEAR_10000, 0),
                ..Default::default()
            };
            status(r).container_statuses = vec![container(proto::ContainerState {
                terminated: Some(terminated),
                ..Default::default()
            })];
        },
        "snapshot.pods[1].status.container_statuses[0].state.terminated.finished_at",
        Reason::OutOfRange,
    ),
];
