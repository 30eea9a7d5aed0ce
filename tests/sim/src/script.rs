//! The script of a world: its setup and its events, one per line. Choices are numbers modulo the number of candidates, so
//! that a script remains valid if lines are removed.

mod text;

use rollplan_core::size::IntOrPercent;
use rollplan_core::snapshot::Strategy;

use crate::pods::Fault;

/// The number of templates. Their images are v0, v1, and so on.
pub const TEMPLATES: u8 = 4;

/// A world and its events.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    /// The initial state.
    pub setup: Setup,
    /// The events, in order.
    pub events: Vec<Event>,
}

/// The initial state of a world, with a Deployment that no controller has observed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// The number of desired pods.
    pub replicas: i32,
    /// The strategy of the Deployment.
    pub strategy: Strategy,
    /// The number of seconds for which a pod must be ready to be available.
    pub min_ready_seconds: i32,
    /// The revision history limit.
    pub history: i32,
    /// The progress deadline; `i32::MAX` for none.
    pub deadline_seconds: i32,
    /// Whether the owner is a custom resource.
    pub custom: bool,
    /// Whether a matching ReplicaSet of another owner exists.
    pub stranger: bool,
    /// Whether a matching ReplicaSet without an owner exists. It has template 3 and two pods.
    pub orphan: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            replicas: 3,
            strategy: Strategy::RollingUpdate {
                max_surge: IntOrPercent::Int(1),
                max_unavailable: IntOrPercent::Int(0),
            },
            min_ready_seconds: 0,
            history: 10,
            deadline_seconds: 600,
            custom: false,
            stranger: false,
            orphan: false,
        }
    }
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A watch delivers this many changes to the adapter.
    Watch(Kind, u8),
    /// The adapter makes a plan, or the next call of its plan.
    Adapter,
    /// The adapter crashes and restarts.
    Die,
    /// The ReplicaSet controller syncs a ReplicaSet.
    Sync(u8),
    /// The scheduler or a kubelet advances a pod.
    Pod(u8),
    /// The container of a ready pod crashes and restarts.
    Crash(u8),
    /// A pod is evicted.
    Evict(u8),
    /// A user deletes a pod.
    DeletePod(u8),
    /// The garbage collector runs.
    Collect,
    /// This many seconds pass.
    Time(u16),
    /// All actors take turns until nothing changes.
    Calm,
    /// A user or an autoscaler scales the Deployment.
    Scale(i32),
    /// A user pauses the Deployment.
    Pause,
    /// A user resumes the Deployment.
    Resume,
    /// A user changes the template.
    Template(u8),
    /// A user changes the strategy.
    Strategy(Strategy),
    /// A user changes `minReadySeconds`.
    MinReady(i32),
    /// A user changes the revision history limit.
    History(i32),
    /// A user changes the progress deadline.
    Deadline(i32),
    /// A user changes an annotation.
    Annotate(u8),
    /// A user sets the caps; `None` removes one.
    Cap(Option<u8>, Option<u8>),
    /// A user rolls back to a revision; 0 means the previous one.
    Undo(u8),
    /// A user requests a rollback by annotation.
    RollbackTo(u8),
    /// A user deletes the Deployment.
    Delete(Propagation),
    /// A user recreates the Deployment.
    Create,
    /// Someone resizes a ReplicaSet.
    Resize(u8, i32),
    /// Someone changes a label of a ReplicaSet so that the selector no longer matches, or changes it back.
    Relabel(u8),
    /// Someone removes the owner of a ReplicaSet.
    Disown(u8),
    /// The next call of the adapter gets this response.
    Answer(Answer),
    /// A quota limits the number of pods; `None` removes it.
    QuotaPods(Option<u8>),
    /// Whether a quota rejects new ReplicaSets.
    QuotaSets(bool),
    /// The pods of a template get this fault.
    Break(u8, Fault),
}

/// A kind of object that the adapter watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Deployments.
    Deployments,
    /// ReplicaSets.
    Sets,
    /// Pods.
    Pods,
}

/// How the ReplicaSets are treated when their Deployment is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// They are deleted after the Deployment.
    Background,
    /// They are deleted before the Deployment.
    Foreground,
    /// They are kept.
    Orphan,
}

/// A response that is independent of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A timeout. The call had no effect.
    LostBefore,
    /// A timeout, although the call took effect.
    LostAfter,
    /// 403.
    Forbidden,
    /// 429.
    TooMany,
    /// 500. The call had no effect.
    Broken,
}
