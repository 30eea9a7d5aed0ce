//! The Deployment itself, and its status.

use rollplan::proto;
use rollplan::wire::Reason;

use super::{Case, Parts as _, YEAR_10000, at};

pub(super) const CASES: &[Case] = &[
    (
        |r| r.snapshot().deployment = None,
        "snapshot.deployment",
        Reason::Required,
    ),
    (
        |r| r.deployment().metadata = None,
        "snapshot.deployment.metadata",
        Reason::Required,
    ),
    (
        |r| r.meta().name.clear(),
        "snapshot.deployment.metadata.name",
        Reason::Required,
    ),
    (
        |r| r.meta().namespace.clear(),
        "snapshot.deployment.metadata.namespace",
        Reason::Required,
    ),
    (
        |r| r.meta().uid.clear(),
        "snapshot.deployment.metadata.uid",
        Reason::Required,
    ),
    (
        |r| r.meta().resource_version.clear(),
        "snapshot.deployment.metadata.resource_version",
        Reason::Required,
    ),
    (
        |r| r.meta().generation = -1,
        "snapshot.deployment.metadata.generation",
        Reason::Negative,
    ),
    (
        |r| r.meta().creation_timestamp = at(YEAR_10000, 0),
        "snapshot.deployment.metadata.creation_timestamp",
        Reason::OutOfRange,
    ),
    (
        |r| r.meta().deletion_timestamp = at(0, -5),
        "snapshot.deployment.metadata.deletion_timestamp",
        Reason::OutOfRange,
    ),
    (
        |r| r.deployment().api_version = "example.com/v1".to_owned(),
        "snapshot.deployment.kind",
        Reason::Required,
    ),
    (
        |r| r.deployment().kind = "Rollout".to_owned(),
        "snapshot.deployment.api_version",
        Reason::Required,
    ),
    (
        |r| r.deployment().spec = None,
        "snapshot.deployment.spec",
        Reason::Required,
    ),
    (
        |r| r.spec().replicas = Some(-1),
        "snapshot.deployment.spec.replicas",
        Reason::Negative,
    ),
    (
        |r| r.spec().selector = None,
        "snapshot.deployment.spec.selector",
        Reason::Required,
    ),
    (
        |r| r.spec().template = None,
        "snapshot.deployment.spec.template",
        Reason::Required,
    ),
    (
        |r| r.spec().min_ready_seconds = -1,
        "snapshot.deployment.spec.min_ready_seconds",
        Reason::Negative,
    ),
    (
        |r| r.spec().revision_history_limit = Some(-1),
        "snapshot.deployment.spec.revision_history_limit",
        Reason::Negative,
    ),
    (
        |r| r.spec().progress_deadline_seconds = Some(-1),
        "snapshot.deployment.spec.progress_deadline_seconds",
        Reason::Negative,
    ),
    (
        |r| {
            r.deployment().api_version = "../secrets/v1".to_owned();
            r.deployment().kind = "Rollout".to_owned();
        },
        "snapshot.deployment.api_version",
        Reason::InvalidName,
    ),
    (
        |r| {
            r.deployment().api_version = "example.com/v1".to_owned();
            r.deployment().kind = "Roll/out".to_owned();
        },
        "snapshot.deployment.kind",
        Reason::InvalidName,
    ),
    (
        |r| r.status().observed_generation = -1,
        "snapshot.deployment.status.observed_generation",
        Reason::Negative,
    ),
    (
        |r| r.status().replicas = -1,
        "snapshot.deployment.status.replicas",
        Reason::Negative,
    ),
    (
        |r| r.status().updated_replicas = -1,
        "snapshot.deployment.status.updated_replicas",
        Reason::Negative,
    ),
    (
        |r| r.status().ready_replicas = -1,
        "snapshot.deployment.status.ready_replicas",
        Reason::Negative,
    ),
    (
        |r| r.status().available_replicas = -1,
        "snapshot.deployment.status.available_replicas",
        Reason::Negative,
    ),
    (
        |r| r.status().unavailable_replicas = -1,
        "snapshot.deployment.status.unavailable_replicas",
        Reason::Negative,
    ),
    (
        |r| r.status().terminating_replicas = Some(-1),
        "snapshot.deployment.status.terminating_replicas",
        Reason::Negative,
    ),
    (
        |r| r.status().collision_count = Some(-1),
        "snapshot.deployment.status.collision_count",
        Reason::Negative,
    ),
    (
        |r| {
            r.status().conditions = vec![proto::DeploymentCondition {
                last_update_time: at(YEAR_10000, 0),
                ..Default::default()
            }];
        },
        "snapshot.deployment.status.conditions[0].last_update_time",
        Reason::OutOfRange,
    ),
];
