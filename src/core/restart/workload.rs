//! Workloads as the planner sees them.

use crate::snapshot::StringMap;
use crate::template::Value;
use crate::time::Time;

use super::reference::Reference;

/// Anything with a pod template.
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
    /// UID.
    pub uid: String,
    /// Annotations of the workload.
    pub annotations: StringMap,
    /// Annotations of the pod template.
    pub template_annotations: StringMap,
    /// Whether the pod template has `metadata`.
    pub has_template_metadata: bool,
    /// Fields that lead to the pod template, for example "spec" and "template".
    pub template_path: Vec<String>,
    /// What the pod template reads.
    pub references: Vec<Reference>,
    /// How its rollout is doing.
    pub rollout: Rollout,
    /// When the pods of its current revision have started.
    pub started: Started,
    /// When its current revision was created.
    pub revision_at: Option<Time>,
    /// Whether its rollout is paused.
    pub is_paused: bool,
    /// Whether its pods are replaced only when somebody deletes them.
    pub is_on_delete: bool,
    /// Whether it is being deleted.
    pub is_deleting: bool,
    /// How many disruptions its PodDisruptionBudget allows.
    pub disruptions_allowed: Option<i32>,
    /// The pod template, where the caller has it.
    pub template: Option<Value>,
    /// The whole object, where the caller has it.
    pub object: Option<Value>,
}

/// How a rollout is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rollout {
    /// It is not known.
    #[default]
    Unknown,
    /// It is under way.
    Progressing,
    /// It is complete.
    Complete,
    /// It will not complete without a change.
    Stalled,
}

/// When the pods of the current revision have started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Started {
    /// It is not known.
    #[default]
    Unknown,
    /// No container has started.
    Never,
    /// The first of those that still run.
    At(Time),
}

/// What decides how a workload can be restarted.
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

// === impl Workload ===

impl Workload {
    /// What decides how it can be restarted.
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

    /// Where it is in an ordered plan.
    pub(super) fn order(&self) -> (&str, &str, &str, &str) {
        (&self.namespace, &self.kind, &self.name, &self.uid)
    }
}
