//! Reports on kinds other than Deployments: the same report and verdict, from the status that their controller publishes,
//! their pods and events. Nothing is planned for these kinds.
//!
//! Each kind is a file with a function from a typed view to a [`Report`]. `object.rs` contains the rules that kinds share.

mod claim;
mod condition;
mod cron_job;
mod daemon_set;
mod definition;
mod generic;
mod job;
mod job_end;
mod observed;
mod pod;
mod replica_set;
mod service;
mod stateful_set;
pub mod table;

use rollplan_core::interrupt::{Interrupt, Interrupted};
use rollplan_core::snapshot::{ObjectMeta, ObservedEvent, Pod, Surroundings};
use rollplan_core::template::Template;
use rollplan_core::time::Time;

pub use self::claim::Claim;
pub use self::condition::Condition;
pub use self::cron_job::CronJob;
pub use self::daemon_set::DaemonSet;
pub use self::generic::{Fields, Item};
pub use self::job::Job;
pub use self::job_end::{JobEnd, JobEvent};
pub use self::pod::SinglePod;
pub use self::replica_set::ReplicaSetView;
pub use self::service::Service;
pub use self::stateful_set::StatefulSet;

use crate::judge::options::VerdictOptions;
use crate::observe::peers::{Peers, Replacement};
use crate::report::Report;

use self::observed::ObservedObject;

/// The label of a pod with the revision of its StatefulSet or DaemonSet.
pub use rollplan_core::controller_revision::REVISION_LABEL;

/// An object with its pods and events, as observed by the caller.
#[derive(Clone, Debug)]
pub struct ObjectSnapshot {
    /// The time of the observation.
    pub now: Time,
    /// Group and version, for example "apps/v1".
    pub api_version: String,
    /// Kind, for example "StatefulSet".
    pub kind: String,
    /// Metadata of the object.
    pub metadata: ObjectMeta,
    /// `status.observedGeneration`, if the kind has it.
    pub observed_generation: Option<i64>,
    /// `status.conditions`.
    pub conditions: Vec<Condition>,
    /// The fields of the kind.
    pub view: View,
    /// The template of its pods, or of the pod itself.
    pub template: Option<Template>,
    /// `spec.minReadySeconds`.
    pub min_ready_seconds: i32,
    /// The pods that it controls, or the pod itself. Reports use only the labels with revisions.
    pub pods: Vec<Pod>,
    /// Whether `pods` contains all of them.
    pub pods_complete: bool,
    /// Events about the object and its pods.
    pub events: Vec<ObservedEvent>,
    /// What shows why its pods wait, besides its own objects.
    pub surroundings: Surroundings,
}

/// The fields of a kind.
#[derive(Clone, Debug)]
pub enum View {
    /// An apps/v1 StatefulSet.
    StatefulSet(StatefulSet),
    /// An apps/v1 DaemonSet.
    DaemonSet(DaemonSet),
    /// An apps/v1 ReplicaSet, or a ReplicationController.
    ReplicaSet(ReplicaSetView),
    /// A batch/v1 Job.
    Job(Job),
    /// A batch/v1 CronJob.
    CronJob(CronJob),
    /// A pod.
    Pod(SinglePod),
    /// A PersistentVolumeClaim.
    Claim(Claim),
    /// A Service.
    Service(Service),
    /// A CustomResourceDefinition, judged by its conditions.
    Definition,
    /// An object without a status, such as a ConfigMap.
    Stateless,
    /// Any other kind, judged by its row in the table of kinds, or by the fields that many controllers share.
    Other(Fields),
}

/// Reports on an object.
///
/// # Errors
///
/// [`Interrupted`].
pub fn report_until(
    observed: &ObjectSnapshot,
    options: VerdictOptions,
    interrupt: &dyn Interrupt,
) -> Result<Report, Interrupted> {
    let peers = match &observed.view {
        View::DaemonSet(set) => daemon_set::peers(set, observed),
        _ => Peers {
            old: Vec::new(),
            own: observed.pods.iter().collect(),
            surroundings: &observed.surroundings,
            replacement: Replacement::AfterOld,
        },
    };
    let object = ObservedObject::new(observed, peers, options, interrupt);
    let report = object
        .by_conditions()
        .unwrap_or_else(|| match &observed.view {
            View::StatefulSet(set) => stateful_set::report(set, &object),
            View::DaemonSet(set) => daemon_set::report(set, &object),
            View::ReplicaSet(set) => replica_set::report(set, &object),
            View::Job(job) => job::report(job, &object),
            View::CronJob(job) => cron_job::report(job, &object),
            View::Pod(_) => pod::report(&object),
            View::Claim(claim) => claim::report(claim, &object),
            View::Service(service) => service::report(service, &object),
            View::Definition => definition::report(&object),
            View::Stateless => object.complete("exists", Vec::new()),
            View::Other(fields) => generic::report(fields, &object),
        });
    interrupt.check().map(|()| report)
}
