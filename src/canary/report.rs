//! The report about a canary.

use rollplan_core::time::Time;

/// The phase of a canary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// There is no canary.
    Rest,
    /// The canary pods are held beside the stable ones.
    Hold,
    /// The Deployment controller rolls out the template of the canary.
    Promoting,
    /// The Deployment controller restores the stable template.
    Aborting,
    /// The promotion is complete, and the step removes the state of the canary.
    Done,
    /// The stable template is restored, and the rejected one is recorded in the annotation.
    Aborted,
}

/// The decision about a held canary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is not decided yet.
    Undecided,
    /// At the last step, all pods have been ready for long enough, and all checks have passed.
    Good,
    /// A check has failed, or the pods certainly need a change.
    Failed,
    /// It was not decided in time.
    TimedOut,
}

/// The state of a canary. If the plan has a step, the state after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The phase.
    pub phase: Phase,
    /// The decision about a held canary, also in the plan whose step ends the hold.
    pub outcome: Option<Outcome>,
    /// A human-readable sentence.
    pub message: String,
    /// Reasons for this state, and notes about unusual observations.
    pub reasons: Vec<Reason>,
    /// Whether the command has not been carried out yet: something else has to end first.
    pub command_pending: bool,
    /// The name of the pipeline that has started the canary.
    pub pipeline: Option<String>,
    /// The digest of the template of the canary or, without a canary, of the current one.
    pub template_digest: String,
    /// The digest of the stable template. Empty without a canary.
    pub stable_digest: String,
    /// The digests of templates that were rejected, the last one first.
    pub rejected_digests: Vec<String>,
    /// When the phase began. In [`Phase::Hold`], when the step began or the canary was first observed with this template.
    /// `None` without a canary.
    pub since: Option<Time>,
    /// The number of the step, from 1. 0 unless the canary is held.
    pub step: i32,
    /// The number of steps. 0 unless the canary is held.
    pub steps: i32,
    /// The number of canary pods that are wanted.
    pub pods_wanted: i32,
    /// The number of available canary pods: ready for the `minReadySeconds` of the user, and not terminating.
    pub pods_available: i32,
    /// The number of available pods of the other templates, by the same rule.
    pub stable_pods_available: i32,
    /// The lowest number of available pods that the limits of the user allow.
    pub available_min: i32,
    /// The highest number of pods that the limits of the user allow, with the surge of the policy.
    pub pods_max: i32,
    /// Whether an abort is due, and waits until enough stable pods are available.
    pub abort_waits: bool,
    /// The field selectors of the events that may show that the pods have failed.
    pub event_selectors: Vec<&'static str>,
}

/// A reason for the state of a canary, or a note about an unusual observation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The kind.
    pub kind: ReasonKind,
    /// A human-readable sentence.
    pub message: String,
}

/// The kinds of reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReasonKind {
    /// Canary pods are missing, or have not been ready for long enough.
    WaitsForPods,
    /// The canary was not decided in time.
    TimedOut,
    /// A verdict of the caller is missing, unknown or stale.
    WaitsForVerdict,
    /// The next step waits until the Deployment controller has observed the Deployment, and its ReplicaSets have the sizes
    /// of the hold.
    WaitsForController,
    /// A step has no more pods than the one before, for example because percentages are rounded up.
    StepSkipped,
    /// The Deployment is paused.
    Paused,
    /// An abort would take available pods while stable ones are missing.
    WaitsForStablePods,
    /// It is certain that the pods of the canary need a change.
    CanaryFailed,
    /// A verdict of the caller has failed.
    VerdictFailed,
    /// It is certain that a rollout needs a change.
    RolloutFailed,
    /// A newer template of the same pipeline replaces the canary.
    Replaced,
    /// Another client has restored the stable template.
    Undone,
    /// Another client has restored the fields of the user, which promotes the canary.
    Resumed,
    /// Another client has changed the limits of a hold.
    LimitsChanged,
    /// Another client has changed the template.
    TemplateReplaced,
    /// The Deployment was scaled to 0.
    ScaledToZero,
    /// The template was rejected before.
    RejectedTemplate,
    /// The state was removed, and restored from a ReplicaSet.
    Recovered,
    /// The state is an earlier one, which another client has restored.
    StaleState,
    /// The ReplicaSet of the stable template was deleted.
    StableGone,
    /// The stable template has the same fault, so restoring it would not help: a rollout is not rolled back, and the
    /// template of an aborted canary is not rejected.
    StableHasFault,
}

// === impl ReasonKind ===

impl ReasonKind {
    /// The machine-readable reason.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::WaitsForPods => "WAITS_FOR_PODS",
            Self::TimedOut => "TIMED_OUT",
            Self::WaitsForVerdict => "WAITS_FOR_VERDICT",
            Self::WaitsForController => "WAITS_FOR_CONTROLLER",
            Self::StepSkipped => "STEP_SKIPPED",
            Self::Paused => "PAUSED",
            Self::WaitsForStablePods => "WAITS_FOR_STABLE_PODS",
            Self::CanaryFailed => "CANARY_FAILED",
            Self::VerdictFailed => "VERDICT_FAILED",
            Self::RolloutFailed => "ROLLOUT_FAILED",
            Self::Replaced => "REPLACED",
            Self::Undone => "UNDONE",
            Self::Resumed => "RESUMED",
            Self::LimitsChanged => "LIMITS_CHANGED",
            Self::TemplateReplaced => "TEMPLATE_REPLACED",
            Self::ScaledToZero => "SCALED_TO_ZERO",
            Self::RejectedTemplate => "REJECTED_TEMPLATE",
            Self::Recovered => "RECOVERED",
            Self::StaleState => "STALE_STATE",
            Self::StableGone => "STABLE_GONE",
            Self::StableHasFault => "STABLE_HAS_FAULT",
        }
    }
}
