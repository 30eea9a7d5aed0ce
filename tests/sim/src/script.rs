//! The script of a world: how it is set up, and what happens, one event a line. Choices are numbers taken modulo
//! what there is, so that a script stays valid when lines are left out.

mod text;

use rollplan_core::size::IntOrPercent;
use rollplan_core::snapshot::Strategy;

/// How many templates there are. Their images are v0, v1, ...
pub const TEMPLATES: u8 = 4;

/// A world, and what happens in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    /// How it starts.
    pub setup: Setup,
    /// What happens, in order.
    pub events: Vec<Event>,
}

/// How a world starts: a Deployment that nobody has looked at yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Wanted pods.
    pub replicas: i32,
    /// How old pods are replaced.
    pub strategy: Strategy,
    /// Seconds a pod must be ready to be available.
    pub min_ready_seconds: i32,
    /// Old ReplicaSets to keep.
    pub history: i32,
    /// Seconds without progress; `i32::MAX` for no deadline.
    pub deadline_seconds: i32,
    /// Whether the owner is a custom resource.
    pub custom: bool,
    /// Whether a matching ReplicaSet of another owner is there.
    pub stranger: bool,
    /// Whether a matching ReplicaSet without an owner is there, of template 3 with two pods.
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

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A watch delivers so many changes to the adapter.
    Watch(Kind, u8),
    /// The adapter looks and plans, or makes the next call of its plan.
    Adapter,
    /// The adapter dies and starts again.
    Die,
    /// The ReplicaSet controller looks at a ReplicaSet.
    Sync(u8),
    /// Scheduler or kubelet move a pod on.
    Pod(u8),
    /// The containers of a ready pod end and start again.
    Crash(u8),
    /// A pod is evicted.
    Evict(u8),
    /// A user deletes a pod.
    DeletePod(u8),
    /// The garbage collector works.
    Collect,
    /// Seconds pass.
    Time(u16),
    /// Everything works, and each takes its turn, until nothing more happens.
    Calm,
    /// A user, or an autoscaler, scales.
    Scale(i32),
    /// A user pauses.
    Pause,
    /// A user resumes.
    Resume,
    /// A user changes the template.
    Template(u8),
    /// A user changes the strategy.
    Strategy(Strategy),
    /// A user changes `minReadySeconds`.
    MinReady(i32),
    /// A user changes the history limit.
    History(i32),
    /// A user changes the progress deadline.
    Deadline(i32),
    /// A user changes an annotation.
    Annotate(u8),
    /// A user goes back to a revision, 0 being the one before.
    Undo(u8),
    /// A user asks for a rollback by annotation.
    RollbackTo(u8),
    /// A user deletes the Deployment, in the background or in the foreground.
    Delete(Propagation),
    /// A user creates it again.
    Create,
    /// Someone resizes a ReplicaSet.
    Resize(u8, i32),
    /// Someone takes a label from a ReplicaSet, or gives it back.
    Relabel(u8),
    /// Someone takes the owner from a ReplicaSet.
    Disown(u8),
    /// The next call of the adapter is answered so.
    Answer(Answer),
    /// So many pods may exist; none for no limit.
    QuotaPods(Option<u8>),
    /// Whether new ReplicaSets are refused.
    QuotaSets(bool),
    /// What is wrong with the pods of a template.
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

/// What becomes of the ReplicaSets when their Deployment is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// They are deleted after it.
    Background,
    /// They are deleted before it.
    Foreground,
    /// They stay.
    Orphan,
}

/// An answer that has nothing to do with the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A timeout; the call was not carried out.
    LostBefore,
    /// A timeout; the call was carried out.
    LostAfter,
    /// 403.
    Forbidden,
    /// 429.
    TooMany,
    /// 500; the call was not carried out.
    Broken,
}

/// What is wrong with the pods of a template.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Nothing.
    #[default]
    None,
    /// No node takes them.
    Unschedulable,
    /// Their image cannot be pulled.
    ImagePull,
    /// Their configuration is missing.
    Config,
    /// They end right after they start.
    CrashLoop,
    /// They run and never become ready.
    NeverReady,
    /// They never end.
    NeverEnds,
}
