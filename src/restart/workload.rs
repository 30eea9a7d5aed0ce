//! Workloads as input of the restart planner.

use rollplan_core::reference::Reference;
use rollplan_core::snapshot::StringMap;
use rollplan_core::template::Value;
use rollplan_core::time::Time;

/// An object with a pod template.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Group and version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID. Empty for a manifest, for which no steps are planned.
    pub uid: String,
    /// The resourceVersion.
    pub version: String,
    /// Annotations of the workload.
    pub annotations: StringMap,
    /// Annotations of the pod template.
    pub template_annotations: StringMap,
    /// Whether the pod template has `metadata`.
    pub has_template_metadata: bool,
    /// The path of the pod template, for example "spec" and "template".
    pub template_path: Vec<String>,
    /// The configurations that the pod template uses.
    pub references: Vec<Reference>,
    /// The progress of its rollout.
    pub rollout: Rollout,
    /// When the pods of its current revision started.
    pub started: Started,
    /// When the oldest pod of its current revision was created, if known.
    pub oldest_created_at: Option<Time>,
    /// A resource version at which none of these pods had a node yet, if known.
    pub unscheduled_version: Option<u64>,
    /// When its current revision was created.
    pub revision_at: Option<Time>,
    /// Whether its rollout is paused.
    pub is_paused: bool,
    /// Whether its update strategy is OnDelete.
    pub is_on_delete: bool,
    /// Whether it is being deleted.
    pub is_deleting: bool,
    /// The number of disruptions that its PodDisruptionBudget allows.
    pub disruptions_allowed: Option<i32>,
    /// The pod template.
    pub template: Value,
    /// The whole object, if it is created again.
    pub object: Option<Value>,
}

/// The progress of a rollout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rollout {
    /// It is not known.
    #[default]
    Unknown,
    /// It is in progress.
    Progressing,
    /// It is complete.
    Complete,
    /// It will not complete without a change.
    Stalled,
}

/// When the pods of the current revision started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Started {
    /// The caller does not provide it.
    #[default]
    Unknown,
    /// The workload has no pods.
    Never,
    /// All have reported their start. This is the start of the oldest one.
    At(Time),
    /// Some may have started without having reported it yet. Kubelets report starts late.
    Starting {
        /// The start of the oldest one that has reported it.
        reported: Option<Time>,
        /// The earliest time at which the others may have started.
        since: Time,
    },
}

/// The kind of a workload, which decides how it can be restarted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadKind {
    /// apps Deployment.
    Deployment,
    /// apps StatefulSet.
    StatefulSet,
    /// apps DaemonSet.
    DaemonSet,
    /// batch CronJob.
    CronJob,
    /// batch Job.
    Job,
    /// Any other.
    Other,
}

// === impl Started ===

impl Started {
    /// The start of the oldest pod that has reported it.
    pub(super) fn oldest(self) -> Option<Time> {
        match self {
            Self::Unknown | Self::Never => None,
            Self::At(at) => Some(at),
            Self::Starting { reported, .. } => reported,
        }
    }
}

// === impl Workload ===

impl Workload {
    /// The kind of the workload, which decides how it can be restarted.
    #[must_use]
    pub fn workload_kind(&self) -> WorkloadKind {
        let group = self
            .api_version
            .split_once('/')
            .map_or("", |(group, _)| group);
        match (group, self.kind.as_str()) {
            ("apps", "Deployment") => WorkloadKind::Deployment,
            ("apps", "StatefulSet") => WorkloadKind::StatefulSet,
            ("apps", "DaemonSet") => WorkloadKind::DaemonSet,
            ("batch", "CronJob") => WorkloadKind::CronJob,
            ("batch", "Job") => WorkloadKind::Job,
            _ => WorkloadKind::Other,
        }
    }

    /// The sort key in a plan.
    pub(super) fn order(&self) -> (&str, &str, &str, &str) {
        (&self.namespace, &self.kind, &self.name, &self.uid)
    }
}
