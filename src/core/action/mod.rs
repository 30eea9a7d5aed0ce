//! What a plan is made of: one action for each write, the API call that carries it, and what it does to the
//! world.

mod apply;
mod call;
mod event;
mod json;

pub use crate::call::{ApiCall, Verb};
pub use apply::apply;
pub(crate) use apply::apply_all;
pub use event::{Event, EventType};

use crate::scaling::ScaleReason;
use crate::selector::LabelSelector;
use crate::snapshot::{
    Deployment, DeploymentStatus, ObjectMeta, OwnerReference, ReplicaSet, StringMap,
};
use crate::template::{Template, Value};

/// One write, or one check, decided down to its last number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Makes sure that the Deployment is still as the snapshot has it.
    CheckOwner {
        /// The Deployment.
        owner: Target,
    },
    /// Takes a ReplicaSet that matches and that nobody owns.
    AdoptReplicaSet {
        /// The ReplicaSet.
        set: Target,
        /// Its owners afterwards.
        owner_references: Vec<OwnerReference>,
    },
    /// Lets go of a ReplicaSet that no longer matches.
    ReleaseReplicaSet {
        /// The ReplicaSet.
        set: Target,
        /// Its owners afterwards.
        owner_references: Vec<OwnerReference>,
    },
    /// Creates a ReplicaSet for the template of the Deployment.
    CreateReplicaSet(Box<NewReplicaSet>),
    /// Changes annotations or `minReadySeconds` of a ReplicaSet.
    UpdateReplicaSet {
        /// The ReplicaSet.
        set: Target,
        /// What changes besides the size.
        change: SetChange,
    },
    /// Changes the size of a ReplicaSet.
    ScaleReplicaSet {
        /// The ReplicaSet.
        set: Target,
        /// Its size before.
        from: i32,
        /// Its size after.
        to: i32,
        /// What changes along with the size.
        change: SetChange,
    },
    /// Deletes an old ReplicaSet.
    DeleteReplicaSet {
        /// The ReplicaSet.
        set: Target,
    },
    /// Changes template or annotations of the Deployment.
    UpdateDeployment {
        /// The Deployment.
        owner: Target,
        /// What changes.
        change: OwnerChange,
    },
    /// Publishes the status of the Deployment.
    UpdateDeploymentStatus {
        /// The Deployment.
        owner: Target,
        /// The whole new status.
        status: DeploymentStatus,
        /// The revision to write along with it, where it changes.
        revision: Option<String>,
        /// The selector as text, for an owner other than Kubernetes' own Deployment: its scale subresource reads
        /// it from the status, and autoscalers find the pods by it.
        selector: Option<String>,
        /// Ready and wanted pods as a text, "2/3", for such an owner: kubectl prints it.
        ready: Option<String>,
    },
}

/// The object of an action, and the version that it must have.
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
    /// Uid.
    pub uid: String,
    /// Generation before the action.
    pub generation: i64,
    /// Stored version before the action. Absent after an earlier write of the same plan: only the server
    /// knows it then.
    pub resource_version: Option<String>,
}

impl Target {
    /// A ReplicaSet, as the snapshot has it.
    pub(crate) fn set(set: &ReplicaSet) -> Self {
        Self::new("apps/v1", "ReplicaSet", &set.metadata)
    }

    /// The Deployment, as the snapshot has it.
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

    /// The reference by which this object manages others.
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

/// What changes in a ReplicaSet besides its size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetChange {
    /// Annotations that are added or changed. None is ever removed.
    pub annotations: StringMap,
    /// Whether the ReplicaSet has no annotation yet.
    pub first_annotations: bool,
    /// New `minReadySeconds`.
    pub min_ready_seconds: Option<i32>,
}

/// What changes in a Deployment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnerChange {
    /// Annotations that are added or changed.
    pub annotations: StringMap,
    /// Annotations that are removed.
    pub removed_annotations: Vec<String>,
    /// Annotations afterwards, all of them.
    pub all_annotations: StringMap,
    /// The new template.
    pub template: Option<Value>,
}

impl OwnerChange {
    /// The change from some annotations to others, and to a template if one is given.
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
}

/// A ReplicaSet to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewReplicaSet {
    /// Name, namespace, labels, annotations and owner.
    pub metadata: ObjectMeta,
    /// Its first size.
    pub replicas: i32,
    /// Carried over from the Deployment.
    pub min_ready_seconds: i32,
    /// The Deployment's selector with the hash label added.
    pub selector: LabelSelector,
    /// The Deployment's template with the hash label added.
    pub template: Template,
    /// Its revision.
    pub revision: i64,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What is done. Absent: a step of events only.
    pub action: Option<Action>,
    /// The call that does it.
    pub call: Option<ApiCall>,
    /// Events to record on the Deployment once the call succeeded.
    pub events: Vec<Event>,
    /// What to do when the call fails.
    pub on_failure: OnFailure,
    /// Why a size changes, if it does.
    pub reason: Option<ScaleReason>,
}

/// What to do when a call fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// Nothing more of this plan.
    #[default]
    Stop,
    /// Go on with the next step when the server answers with one of these codes; stop otherwise.
    Tolerate(&'static [i32]),
    /// Go on with the next step, whatever the failure.
    Continue,
}

impl OnFailure {
    /// Whether the plan goes on after an answer with this code.
    pub(crate) fn tolerates(self, http_code: i32) -> bool {
        match self {
            Self::Stop => false,
            Self::Tolerate(codes) => codes.contains(&http_code),
            Self::Continue => true,
        }
    }
}

impl Step {
    /// The same step, with the call that carries its action.
    pub(crate) fn with_call(self) -> Self {
        Self {
            call: self.action.as_ref().map(Action::call),
            ..self
        }
    }

    /// One line for people.
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
    fn summary(&self) -> String {
        match self {
            Self::CheckOwner { owner } => {
                format!("check that {} {} is unchanged", owner.kind, owner.name)
            }
            Self::AdoptReplicaSet { set, .. } => format!("adopt ReplicaSet {}", set.name),
            Self::ReleaseReplicaSet { set, .. } => format!("release ReplicaSet {}", set.name),
            Self::CreateReplicaSet(set) => format!(
                "create ReplicaSet {} with {} replicas",
                set.metadata.name, set.replicas
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
