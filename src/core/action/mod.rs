//! The steps of a plan: an action for each write, the API call that makes it, and its effect on a snapshot.

mod apply;
mod call;
mod event;
mod json;

pub use crate::call::{ApiCall, CallId, Verb};
pub use apply::apply;
pub(crate) use apply::apply_all;
pub use event::{Event, EventType};

use crate::scaling::ScaleReason;
use crate::selector::LabelSelector;
use crate::snapshot::{
    Deployment, DeploymentStatus, ObjectMeta, OwnerReference, ReplicaSet, ReplicaSetStatus,
    StringMap,
};
use crate::template::{Template, Value};
use crate::time::Time;

/// A write or a check, with all values that are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Checks that the Deployment has not changed since the snapshot.
    CheckOwner {
        /// The Deployment.
        owner: Target,
    },
    /// Adopts a ReplicaSet that the selector matches and that has no controller.
    AdoptReplicaSet {
        /// The ReplicaSet.
        set: Target,
        /// Its owner references after the action.
        owner_references: Vec<OwnerReference>,
    },
    /// Releases a ReplicaSet that the selector no longer matches.
    ReleaseReplicaSet {
        /// The ReplicaSet.
        set: Target,
        /// Its owner references after the action.
        owner_references: Vec<OwnerReference>,
    },
    /// Creates a ReplicaSet with the template of the Deployment.
    CreateReplicaSet(Box<NewReplicaSet>),
    /// Changes annotations or `minReadySeconds` of a ReplicaSet.
    UpdateReplicaSet {
        /// The ReplicaSet.
        set: Target,
        /// The change.
        change: SetChange,
    },
    /// Changes the size of a ReplicaSet.
    ScaleReplicaSet {
        /// The ReplicaSet.
        set: Target,
        /// Its size before the action.
        from: i32,
        /// Its size after the action.
        to: i32,
        /// The change in addition to the size.
        change: SetChange,
    },
    /// Deletes an old ReplicaSet.
    DeleteReplicaSet {
        /// The ReplicaSet.
        set: Target,
    },
    /// Changes the template or the annotations of the Deployment.
    UpdateDeployment {
        /// The Deployment.
        owner: Target,
        /// The change.
        change: OwnerChange,
    },
    /// Publishes the status of the Deployment.
    UpdateDeploymentStatus {
        /// The Deployment.
        owner: Target,
        /// The new status.
        status: DeploymentStatus,
        /// The new revision annotation, if it changes.
        revision: Option<String>,
        /// The selector as text, for a custom resource: its scale subresource reads the selector from the status, and
        /// autoscalers find the pods by it.
        selector: Option<String>,
        /// The numbers of ready and desired pods as text, for example "2/3", for a custom resource: kubectl prints it.
        ready: Option<String>,
    },
}

/// The object that an action is about, and the version that it must have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// Group and version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
    /// Generation before the action.
    pub generation: i64,
    /// Resource version before the action. Absent if an earlier step of the plan writes the object: only the server knows
    /// the version then.
    pub resource_version: Option<String>,
}

impl Target {
    /// A ReplicaSet of the snapshot.
    pub(crate) fn set(set: &ReplicaSet) -> Self {
        Self::new("apps/v1", "ReplicaSet", &set.metadata)
    }

    /// The Deployment of the snapshot.
    pub(crate) fn owner(deployment: &Deployment) -> Self {
        Self::new(
            &deployment.api_version,
            &deployment.kind,
            &deployment.metadata,
        )
    }

    fn new(api_version: &str, kind: &str, metadata: &ObjectMeta) -> Self {
        Self {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone(),
            uid: metadata.uid.clone(),
            generation: metadata.generation,
            resource_version: Some(metadata.resource_version.clone()),
        }
    }

    /// The owner reference to this object as the controller of another one.
    pub(crate) fn controller_reference(self) -> OwnerReference {
        OwnerReference {
            api_version: self.api_version,
            kind: self.kind,
            name: self.name,
            uid: self.uid,
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }
}

/// A change of a ReplicaSet in addition to its size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetChange {
    /// The annotations that are added or changed. No annotation is ever removed.
    pub annotations: StringMap,
    /// Whether the ReplicaSet has no annotations before the action.
    pub first_annotations: bool,
    /// The new `minReadySeconds`, if it changes.
    pub min_ready_seconds: Option<i32>,
}

/// A change of a Deployment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnerChange {
    /// The annotations that are added or changed.
    pub annotations: StringMap,
    /// The annotations that are removed.
    pub removed_annotations: Vec<String>,
    /// All annotations after the action.
    pub all_annotations: StringMap,
    /// The new template, if it changes.
    pub template: Option<Value>,
}

impl OwnerChange {
    /// The change from one set of annotations to another, and to a template if one is given.
    pub(crate) fn between(before: &StringMap, after: StringMap, template: Option<Value>) -> Self {
        Self {
            annotations: after
                .iter()
                .filter(|&(key, value)| before.get(key) != Some(value))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
            removed_annotations: before
                .keys()
                .filter(|key| !after.contains_key(*key))
                .cloned()
                .collect(),
            all_annotations: after,
            template,
        }
    }

    /// Whether the change carries out a rollback, or only removes the request for one.
    pub(crate) fn is_rollback(&self) -> bool {
        self.template.is_some() || !self.removed_annotations.is_empty()
    }
}

/// A ReplicaSet to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewReplicaSet {
    /// Name, namespace, labels, annotations and owner reference.
    pub metadata: ObjectMeta,
    /// The initial size.
    pub replicas: i32,
    /// `minReadySeconds` of the Deployment.
    pub min_ready_seconds: i32,
    /// The selector of the Deployment with the label `pod-template-hash`.
    pub selector: LabelSelector,
    /// The template of the Deployment with the label `pod-template-hash`.
    pub template: Template,
    /// The revision.
    pub revision: i64,
}

/// A step of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The action. Absent if the step only records events.
    pub action: Option<Action>,
    /// The events to record on the Deployment after the call has succeeded.
    pub events: Vec<Event>,
    /// What to do if the call fails.
    pub on_failure: OnFailure,
    /// Why a size changes, if it does.
    pub reason: Option<ScaleReason>,
}

/// What to do if a call fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// Stop carrying out the plan.
    #[default]
    Stop,
    /// Continue with the next step if the server answers with one of these codes, and stop otherwise.
    Tolerate(&'static [i32]),
    /// Continue with the next step, whatever the failure is.
    Continue,
}

impl NewReplicaSet {
    /// The ReplicaSet as the server has it right after its creation.
    pub(crate) fn as_created(&self, now: Time) -> ReplicaSet {
        let mut metadata = self.metadata.clone();
        metadata.generation = 1;
        metadata.creation_timestamp = Some(now.whole_seconds());
        // The server chooses UID and resourceVersion, and no write of this plan needs them.
        metadata.uid = format!("uid of {}", metadata.name);
        ReplicaSet {
            metadata,
            replicas: self.replicas,
            min_ready_seconds: self.min_ready_seconds,
            template: self.template.clone(),
            status: ReplicaSetStatus::default(),
            available_max: ReplicaSet::UNTOUCHED,
        }
    }
}

impl OnFailure {
    /// Whether the plan continues after an answer with this code.
    #[must_use]
    pub fn tolerates(self, http_code: i32) -> bool {
        match self {
            Self::Stop => false,
            Self::Tolerate(codes) => codes.contains(&http_code),
            Self::Continue => true,
        }
    }
}

impl Step {
    /// A step that carries out an action.
    pub(crate) fn of(action: Action, on_failure: OnFailure) -> Self {
        Self {
            action: Some(action),
            events: Vec::new(),
            on_failure,
            reason: None,
        }
    }

    /// A step that only records an event.
    #[must_use]
    pub fn of_event(event: Event) -> Self {
        Self {
            action: None,
            events: vec![event],
            on_failure: OnFailure::Stop,
            reason: None,
        }
    }

    /// The same step with these events.
    pub(crate) fn with_events(self, events: impl IntoIterator<Item = Event>) -> Self {
        Self {
            events: events.into_iter().collect(),
            ..self
        }
    }

    /// The API call that carries out the action. It is not a part of the step, because writing its body takes as long as
    /// planning, and a look-ahead or a forecast does not need it.
    #[must_use]
    pub fn call(&self) -> Option<ApiCall> {
        self.action.as_ref().map(Action::call)
    }

    /// A human-readable line.
    #[must_use]
    pub fn summary(&self) -> String {
        match &self.action {
            Some(action) => action.summary(),
            None => match self.events.as_slice() {
                [event] => format!("record event {}", event.reason),
                events => format!("record {} events", events.len()),
            },
        }
    }
}

impl Action {
    /// Whether the action changes which ReplicaSets the Deployment owns, or is the check before it.
    pub(crate) fn is_claim(&self) -> bool {
        matches!(
            self,
            Self::CheckOwner { .. } | Self::AdoptReplicaSet { .. } | Self::ReleaseReplicaSet { .. }
        )
    }

    fn summary(&self) -> String {
        match self {
            Self::CheckOwner { owner } => {
                format!("check that {} {} is unchanged", owner.kind, owner.name)
            }
            Self::AdoptReplicaSet { set, .. } => format!("adopt ReplicaSet {}", set.name),
            Self::ReleaseReplicaSet { set, .. } => format!("release ReplicaSet {}", set.name),
            Self::CreateReplicaSet(set) => format!(
                "create ReplicaSet {} with {} {}",
                set.metadata.name,
                set.replicas,
                if set.replicas == 1 {
                    "replica"
                } else {
                    "replicas"
                }
            ),
            Self::UpdateReplicaSet { set, change } => {
                let what = match (change.annotations.is_empty(), change.min_ready_seconds) {
                    (false, None) => "annotations".to_owned(),
                    (false, Some(seconds)) => {
                        format!("annotations and minReadySeconds ({seconds})")
                    }
                    (true, Some(seconds)) => format!("minReadySeconds ({seconds})"),
                    (true, None) => "nothing".to_owned(),
                };
                format!("update {what} of ReplicaSet {}", set.name)
            }
            Self::ScaleReplicaSet { set, from, to, .. } => format!(
                "scale {} ReplicaSet {} from {from} to {to}",
                if to > from { "up" } else { "down" },
                set.name
            ),
            Self::DeleteReplicaSet { set } => format!("delete ReplicaSet {}", set.name),
            Self::UpdateDeployment { owner, change } => format!(
                "update {} of {} {}",
                if change.template.is_some() {
                    "template and annotations"
                } else {
                    "annotations"
                },
                owner.kind,
                owner.name
            ),
            Self::UpdateDeploymentStatus { owner, .. } => {
                format!("update status of {} {}", owner.kind, owner.name)
            }
        }
    }
}
