//! Why a command is refused: each is one sentence with what to do.

use rollplan_core::size::IntOrPercent;
use thiserror::Error;

use crate::state::HELD_MIN_READY;

/// Why a command is not carried out, or why nothing can be planned.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("deployment {name:?} {cause}")]
pub struct Refusal {
    /// The name of the Deployment.
    pub name: String,
    /// Why.
    pub cause: RefusalCause,
}

/// The cause of a refusal.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RefusalCause {
    /// The lists may be incomplete.
    #[error(
        "cannot have a canary: the lists of ReplicaSets and pods may be incomplete; send all of them, and set \
         replicaSetsComplete and podsComplete"
    )]
    Incomplete,
    /// It is a custom resource.
    #[error(
        "cannot have a canary: it is not an apps/v1 Deployment, and only the Deployment controller of Kubernetes carries \
         canaries out; use a Deployment"
    )]
    NotNative,
    /// It is being deleted.
    #[error("is being deleted: create it again first")]
    Deleting,
    /// The strategy is Recreate.
    #[error("has the strategy Recreate, which has no surge: change it to RollingUpdate first")]
    Recreate,
    /// Its rollouts are paused.
    #[error("is paused: resume it first")]
    Paused,
    /// No pods are desired.
    #[error("has no desired pods: scale it up first")]
    NoReplicas,
    /// The surge is zero.
    #[error(
        "has maxSurge 0, and a canary is held within the surge: allow some with --surge, or raise maxSurge"
    )]
    NoSurge,
    /// More canary pods are wanted than the surge allows.
    #[error(
        "allows a surge of {surge}, which is less than the {pods} canary pods: choose fewer with --pods \
         or --steps, or allow more with --surge"
    )]
    AboveSurge {
        /// The number of canary pods.
        pods: i32,
        /// The surge.
        surge: i32,
    },
    /// No canary pods, or more than desired pods.
    #[error(
        "has {replicas} desired pods, and {pods} canary pods were requested: choose from 1 to {replicas} with --pods or \
         --steps"
    )]
    Pods {
        /// The requested number.
        pods: IntOrPercent,
        /// The number of desired pods.
        replicas: i32,
    },
    /// Another tool steers it.
    #[error(
        "belongs to another controller, according to {found:?}: remove it from that controller first"
    )]
    OtherController {
        /// The annotation, label or owner that shows it.
        found: String,
    },
    /// A rollout is in progress.
    #[error(
        "has a rollout that is not complete: wait until it completes, or roll it back with `rollplan undo`"
    )]
    NotComplete,
    /// The Deployment controller has not observed the last change.
    #[error(
        "has a change that the Deployment controller has not observed yet: start the canary again in a moment"
    )]
    NotObserved,
    /// `minReadySeconds` leaves no room for the one of a hold.
    #[error(
        "has a minReadySeconds of {HELD_MIN_READY} or more, which canaries use themselves: lower it first"
    )]
    MinReadySeconds,
    /// The template is the current one.
    #[error("already has this pod template: change the template to start a canary")]
    SameTemplate,
    /// More than the template differs.
    #[error(
        "would also change {fields}, which a canary does not: start it with --template-only, and apply the manifest after its end"
    )]
    OtherChanges {
        /// The fields.
        fields: String,
    },
    /// The template was rejected before.
    #[error(
        "has rejected this template: change it, or start it again with `rollplan canary retry`"
    )]
    Rejected,
    /// There is another canary.
    #[error("already has a canary{}: promote or abort it first", of_pipeline(.pipeline.as_deref()))]
    InProgress {
        /// The pipeline that has started it.
        pipeline: Option<String>,
    },
    /// The canary has another size.
    #[error(
        "already has this canary with {held} pods, and has no later step: abort it, and start it with {option} {asked}"
    )]
    OtherSize {
        /// The option of the size.
        option: &'static str,
        /// Its value.
        asked: IntOrPercent,
        /// The number of canary pods.
        held: i32,
    },
    /// The canary has another template than that of the command.
    #[error(
        "has a canary with another template: {held} instead of {asked}, so nothing was changed; another run or another client \
         may have started it"
    )]
    OtherTemplate {
        /// The digest in the command.
        asked: String,
        /// The digest of the canary.
        held: String,
    },
    /// The canary is not good.
    #[error(
        "has a canary that is not good ({why}): promote it when it is, abort it, or promote it in spite of that with --force"
    )]
    NotGood {
        /// What has failed, or what it waits for.
        why: String,
    },
    /// There is no canary.
    #[error("has no canary: start one with `rollplan canary start`")]
    NoCanary,
    /// The canary is being aborted.
    #[error(
        "is returning to the stable template: wait until that is complete, then start a canary again"
    )]
    Aborting,
    /// No template is remembered as rejected.
    #[error("has no rejected template to retry: start a canary with `rollplan canary start`")]
    NothingRejected,
    /// The ReplicaSet of the rejected template was deleted.
    #[error(
        "no longer has the ReplicaSet of the rejected template: start it again with `rollplan canary start`"
    )]
    RejectedGone,
    /// The ReplicaSet of the stable template was deleted.
    #[error(
        "no longer has the ReplicaSet of the stable template, so that there is nothing to return to: {}, and then apply the \
         manifest that you want",
        without_stable(*.is_promoting)
    )]
    StableGone {
        /// Whether the canary is being promoted.
        is_promoting: bool,
    },
    /// The state was edited.
    #[error(
        "has a {} annotation that was edited or truncated, so the fields of the user are unknown: remove the annotation, and \
         apply your manifest with strategy, minReadySeconds and progressDeadlineSeconds",
        crate::state::ANNOTATION
    )]
    Edited,
    /// The state was written by a newer version.
    #[error(
        "has a canary of a newer version of rollplan: use that version to promote, abort or release it"
    )]
    Newer,
    /// The state is that of another Deployment.
    #[error(
        "has the {} annotation of another Deployment, from which it was copied: restore its fields with \
         `rollplan canary release`",
        crate::state::ANNOTATION
    )]
    Foreign,
    /// The state was removed, and there is no copy.
    #[error(
        "has the fields of a canary but not its state, and no ReplicaSet has a copy: apply your manifest with strategy, \
         minReadySeconds and progressDeadlineSeconds, and remove the label rollplan.dev/canary"
    )]
    Lost,
}

fn of_pipeline(name: Option<&str>) -> String {
    name.map_or_else(String::new, |name| format!(" of the pipeline {name:?}"))
}

/// What remains to be done without a stable template.
fn without_stable(is_promoting: bool) -> &'static str {
    if is_promoting {
        "wait until the promotion is complete, or end the canary with `rollplan canary release`"
    } else {
        "roll the template of the canary out with `rollplan canary promote --force`"
    }
}

// === impl RefusalCause ===

impl RefusalCause {
    /// The machine-readable reason.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Incomplete => "LISTS_INCOMPLETE",
            Self::NotNative => "NOT_A_DEPLOYMENT",
            Self::Deleting => "DELETING",
            Self::Recreate => "STRATEGY_RECREATE",
            Self::Paused => "DEPLOYMENT_PAUSED",
            Self::NoReplicas => "NO_REPLICAS",
            Self::NoSurge => "NO_SURGE",
            Self::AboveSurge { .. } => "ABOVE_SURGE",
            Self::Pods { .. } => "PODS_OUT_OF_RANGE",
            Self::OtherController { .. } => "OTHER_CONTROLLER",
            Self::NotComplete => "ROLLOUT_NOT_COMPLETE",
            Self::NotObserved => "CHANGE_NOT_OBSERVED",
            Self::MinReadySeconds => "MIN_READY_SECONDS_TOO_HIGH",
            Self::SameTemplate => "SAME_TEMPLATE",
            Self::OtherChanges { .. } => "OTHER_CHANGES",
            Self::Rejected => "REJECTED_TEMPLATE",
            Self::InProgress { .. } => "CANARY_IN_PROGRESS",
            Self::OtherSize { .. } => "OTHER_SIZE",
            Self::OtherTemplate { .. } => "OTHER_TEMPLATE",
            Self::NotGood { .. } => "NOT_GOOD",
            Self::NoCanary => "NO_CANARY",
            Self::Aborting => "CANARY_ABORTING",
            Self::NothingRejected => "NOTHING_REJECTED",
            Self::RejectedGone => "REJECTED_GONE",
            Self::StableGone { .. } => "STABLE_GONE",
            Self::Edited => "STATE_EDITED",
            Self::Newer => "STATE_NEWER",
            Self::Foreign => "STATE_FOREIGN",
            Self::Lost => "STATE_LOST",
        }
    }
}
