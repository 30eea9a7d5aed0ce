//! Converts plans to protobuf messages.

use rollplan_core::Plan;
use rollplan_core::action::{
    Action, ApiCall, Event, NewReplicaSet, OnFailure, OwnerChange, SetChange, Step, Target, Verb,
};
use rollplan_core::interrupt::Interrupt;
use rollplan_core::snapshot::{Condition, Deployment, DeploymentStatus, ObjectMeta};
use rollplan_health::kinds::ObjectSnapshot;
use rollplan_health::report::Report;

use super::path::OwnerResource;
use super::print_time::{duration, timestamp};
use crate::proto;

/// Converts a plan and its report, if there is one, to a response. After an interruption, steps are missing.
pub(super) fn print_plan(
    plan: Plan,
    report: Option<Report>,
    owner: &OwnerResource<'_>,
    interrupt: &dyn Interrupt,
) -> proto::PlanRolloutResponse {
    let Plan {
        steps,
        status,
        requeue_after,
        // Used only by tests. Callers plan again instead: a plan without steps shows that nothing remains to be done.
        settled: _,
        exhausted: _,
    } = plan;
    proto::PlanRolloutResponse {
        steps: steps
            .into_iter()
            .take_while(|_| !interrupt.is_interrupted())
            .map(|step| print_step(step, owner))
            .collect(),
        status: Some(print_status(status)),
        report: report.map(super::print_report),
        requeue_after: requeue_after.map(duration),
        sync: None,
    }
}

/// Converts the status of a Deployment.
#[must_use]
pub fn print_status(status: DeploymentStatus) -> proto::DeploymentStatus {
    let DeploymentStatus {
        observed_generation,
        replicas,
        updated_replicas,
        ready_replicas,
        available_replicas,
        unavailable_replicas,
        terminating_replicas,
        collision_count,
        conditions,
    } = status;
    proto::DeploymentStatus {
        observed_generation,
        replicas,
        updated_replicas,
        ready_replicas,
        available_replicas,
        unavailable_replicas,
        terminating_replicas,
        conditions: conditions.into_iter().map(condition).collect(),
        collision_count,
    }
}

/// The reference to a Deployment.
pub(super) fn object_reference(deployment: &Deployment) -> proto::ObjectReference {
    reference(
        &deployment.api_version,
        &deployment.kind,
        &deployment.metadata,
    )
}

/// The reference to an object of another kind.
pub(super) fn observed_reference(observed: &ObjectSnapshot) -> proto::ObjectReference {
    reference(&observed.api_version, &observed.kind, &observed.metadata)
}

fn reference(api_version: &str, kind: &str, metadata: &ObjectMeta) -> proto::ObjectReference {
    proto::ObjectReference {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone(),
        uid: metadata.uid.clone(),
    }
}

fn condition(condition: Condition) -> proto::DeploymentCondition {
    let Condition {
        kind,
        status,
        reason,
        message,
        last_update_time,
        last_transition_time,
    } = condition;
    proto::DeploymentCondition {
        r#type: kind,
        status,
        last_update_time: last_update_time.map(timestamp),
        last_transition_time: last_transition_time.map(timestamp),
        reason,
        message,
    }
}

/// Converts one step of a plan.
#[must_use]
pub fn print_step(step: Step, owner: &OwnerResource<'_>) -> proto::Step {
    let (summary, call) = (step.summary(), step.call());
    let Step {
        action,
        events,
        on_failure,
        // The report contains it.
        reason: _,
    } = step;
    let (on_failure, done_http_codes) = match on_failure {
        OnFailure::Stop => (proto::OnFailure::Stop, Vec::new()),
        OnFailure::Tolerate(codes) => (proto::OnFailure::DoneIf, codes.to_vec()),
        OnFailure::Continue => (proto::OnFailure::Continue, Vec::new()),
    };
    proto::Step {
        id: String::new(),
        summary,
        read_on_conflict: call.as_ref().and_then(|call| read_on_conflict(call, owner)),
        call: call.map(|call| api_call(call, owner)),
        events: events.into_iter().map(event).collect(),
        on_failure: on_failure.into(),
        done_http_codes,
        // Added only on request, in `event_calls.rs`.
        event_calls: Vec::new(),
        action: action.map(self::action),
    }
}

pub(super) fn api_call(call: ApiCall, owner: &OwnerResource<'_>) -> proto::ApiCall {
    let (path, query) = (owner.path_of_call(&call), owner.query_of_call(&call));
    let ApiCall {
        verb,
        api_version,
        kind,
        namespace,
        name,
        subresource,
        content_type,
        body_json,
    } = call;
    let verb = match verb {
        Verb::Create => proto::Verb::Create,
        Verb::Patch => proto::Verb::Patch,
        Verb::Delete => proto::Verb::Delete,
    };
    proto::ApiCall {
        verb: verb.into(),
        api_version,
        kind,
        namespace,
        name,
        subresource,
        content_type,
        body_json,
        path,
        query: query.to_owned(),
        accept: String::new(),
    }
}

/// The call that reads the existing object if a create conflicts with its name.
fn read_on_conflict(call: &ApiCall, owner: &OwnerResource<'_>) -> Option<proto::ApiCall> {
    (call.verb == Verb::Create).then(|| proto::ApiCall {
        verb: proto::Verb::Get.into(),
        api_version: call.api_version.clone(),
        kind: call.kind.clone(),
        namespace: call.namespace.clone(),
        name: call.name.clone(),
        path: owner.path_of_object(call),
        ..proto::ApiCall::default()
    })
}

pub(super) fn event(event: Event) -> proto::Event {
    let Event {
        kind,
        reason,
        message,
    } = event;
    proto::Event {
        r#type: kind.as_str().to_owned(),
        reason: reason.to_owned(),
        message,
    }
}

fn action(action: Action) -> proto::step::Action {
    use proto::step::Action as Printed;
    match action {
        Action::CheckOwner { owner } => Printed::CheckOwner(check_owner(owner)),
        Action::AdoptReplicaSet {
            set,
            // Part of the body of the call.
            owner_references: _,
        } => Printed::AdoptReplicaSet(proto::AdoptReplicaSet {
            name: set.name,
            uid: set.uid,
        }),
        Action::ReleaseReplicaSet {
            set,
            owner_references: _,
        } => Printed::ReleaseReplicaSet(proto::ReleaseReplicaSet {
            name: set.name,
            uid: set.uid,
        }),
        Action::CreateReplicaSet(set) => Printed::CreateReplicaSet(create(*set)),
        Action::UpdateReplicaSet { set, change } => Printed::UpdateReplicaSet(update(set, change)),
        Action::ScaleReplicaSet {
            set,
            from,
            to,
            change,
        } => Printed::ScaleReplicaSet(scale(set, from, to, change)),
        Action::DeleteReplicaSet { set } => Printed::DeleteReplicaSet(proto::DeleteReplicaSet {
            name: set.name,
            uid: set.uid,
        }),
        Action::UpdateDeployment {
            // The caller knows the Deployment.
            owner: _,
            change,
        } => Printed::UpdateDeployment(update_owner(change)),
        Action::UpdateDeploymentStatus {
            owner: _,
            status,
            revision,
            selector,
            ready,
        } => Printed::UpdateDeploymentStatus(proto::UpdateDeploymentStatus {
            status: Some(print_status(status)),
            revision,
            selector,
            ready,
        }),
    }
}

fn check_owner(owner: Target) -> proto::CheckOwner {
    proto::CheckOwner {
        uid: owner.uid,
        resource_version: owner.resource_version.unwrap_or_default(),
    }
}

fn create(set: NewReplicaSet) -> proto::CreateReplicaSet {
    let NewReplicaSet {
        metadata,
        replicas,
        revision,
        // Part of the body of the call.
        min_ready_seconds: _,
        selector: _,
        template: _,
    } = set;
    proto::CreateReplicaSet {
        name: metadata.name,
        replicas,
        revision,
    }
}

fn update(set: Target, change: SetChange) -> proto::UpdateReplicaSet {
    let SetChange {
        annotations,
        min_ready_seconds,
        // Part of the body of the call.
        first_annotations: _,
    } = change;
    proto::UpdateReplicaSet {
        name: set.name,
        uid: set.uid,
        annotations,
        min_ready_seconds,
    }
}

fn scale(set: Target, from: i32, to: i32, change: SetChange) -> proto::ScaleReplicaSet {
    let SetChange {
        annotations,
        // Part of the body of the call.
        min_ready_seconds: _,
        first_annotations: _,
    } = change;
    proto::ScaleReplicaSet {
        name: set.name,
        uid: set.uid,
        from_replicas: from,
        to_replicas: to,
        annotations,
    }
}

fn update_owner(change: OwnerChange) -> proto::UpdateDeployment {
    let OwnerChange {
        annotations,
        removed_annotations,
        template,
        // Part of the body of the call.
        all_annotations: _,
    } = change;
    proto::UpdateDeployment {
        template_changed: template.is_some(),
        annotations,
        removed_annotations,
    }
}
