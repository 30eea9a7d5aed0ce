//! ReplicaSets.

use prost_types::value::Kind;
use rollplan::proto;
use rollplan::wire::Reason;

use super::{Case, Parts as _, at, owner, template};

pub(super) const CASES: &[Case] = &[
    (
        |r| r.set(1).metadata = None,
        "snapshot.replica_sets[1].metadata",
        Reason::Required,
    ),
    (
        |r| r.set_meta(1).name.clear(),
        "snapshot.replica_sets[1].metadata.name",
        Reason::Required,
    ),
    (
        |r| r.set_meta(1).uid.clear(),
        "snapshot.replica_sets[1].metadata.uid",
        Reason::Required,
    ),
    (
        |r| r.set_meta(1).resource_version.clear(),
        "snapshot.replica_sets[1].metadata.resource_version",
        Reason::Required,
    ),
    (
        |r| r.set_meta(1).uid = "new".to_owned(),
        "snapshot.replica_sets[1].metadata.uid",
        Reason::Duplicate,
    ),
    (
        |r| r.set_meta(1).name = "new".to_owned(),
        "snapshot.replica_sets[1].metadata.name",
        Reason::Duplicate,
    ),
    // A ReplicaSet of another owner, with the UID or name of one of ours.
    (
        |r| {
            r.set_meta(1).owner_references[0].uid = "x".to_owned();
            r.set_meta(1).uid = "new".to_owned();
        },
        "snapshot.replica_sets[1].metadata.uid",
        Reason::Duplicate,
    ),
    (
        |r| {
            r.set_meta(0).owner_references[0].uid = "x".to_owned();
            r.set_meta(1).name = "new".to_owned();
        },
        "snapshot.replica_sets[1].metadata.name",
        Reason::Duplicate,
    ),
    (
        |r| own(r, 1, "x", true),
        "snapshot.replica_sets[1].metadata.owner_references",
        Reason::SeveralControllers,
    ),
    (
        |r| own(r, 1, "", false),
        "snapshot.replica_sets[1].metadata.owner_references[1].uid",
        Reason::Required,
    ),
    (
        |r| r.set(1).kind = "StatefulSet".to_owned(),
        "snapshot.replica_sets[1].kind",
        Reason::WrongKind,
    ),
    (
        |r| r.set(1).api_version = "extensions/v1beta1".to_owned(),
        "snapshot.replica_sets[1].api_version",
        Reason::WrongKind,
    ),
    (
        |r| r.set(1).spec = None,
        "snapshot.replica_sets[1].spec.template",
        Reason::Required,
    ),
    (
        |r| r.set_spec(1).template = None,
        "snapshot.replica_sets[1].spec.template",
        Reason::Required,
    ),
    // An orphan that could be adopted.
    (
        |r| {
            r.set_meta(1).owner_references.clear();
            r.set_spec(1).template = None;
        },
        "snapshot.replica_sets[1].spec.template",
        Reason::Required,
    ),
    (
        |r| r.set_spec(1).replicas = Some(-3),
        "snapshot.replica_sets[1].spec.replicas",
        Reason::Negative,
    ),
    (
        |r| r.set_spec(1).min_ready_seconds = -3,
        "snapshot.replica_sets[1].spec.min_ready_seconds",
        Reason::Negative,
    ),
    (
        |r| r.set_spec(1).template = template("x", Kind::NumberValue(1e300)),
        "snapshot.replica_sets[1].spec.template.spec.x",
        Reason::UnsafeInteger,
    ),
    (
        |r| r.set_status(0).replicas = -1,
        "snapshot.replica_sets[0].status.replicas",
        Reason::Negative,
    ),
    (
        |r| r.set_status(0).ready_replicas = -1,
        "snapshot.replica_sets[0].status.ready_replicas",
        Reason::Negative,
    ),
    (
        |r| r.set_status(0).available_replicas = -1,
        "snapshot.replica_sets[0].status.available_replicas",
        Reason::Negative,
    ),
    (
        |r| r.set_status(0).terminating_replicas = Some(-1),
        "snapshot.replica_sets[0].status.terminating_replicas",
        Reason::Negative,
    ),
    (
        |r| r.set_status(0).observed_generation = -1,
        "snapshot.replica_sets[0].status.observed_generation",
        Reason::Negative,
    ),
    (
        |r| {
            r.set_status(0).conditions = vec![proto::ReplicaSetCondition {
                last_transition_time: at(0, i32::MAX),
                ..Default::default()
            }];
        },
        "snapshot.replica_sets[0].status.conditions[0].last_transition_time",
        Reason::OutOfRange,
    ),
];

fn own(request: &mut proto::PlanRolloutRequest, set: usize, uid: &str, controller: bool) {
    let owner = owner(uid, controller);
    request.set_meta(set).owner_references.push(owner);
}
