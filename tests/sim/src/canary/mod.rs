//! Canaries in a simulated world: the Deployment controller of Kubernetes acts on late caches, and several steerers plan,
//! patch at once or late, lose answers and die, while pods fail and users interfere.
//!
//! API server, ReplicaSet controller, scheduler and kubelets are those of the other worlds. The caches of the Deployment
//! controller contain its own writes. Otherwise, it exceeds the surge without any canary as well: after it has scaled one
//! ReplicaSet, it may scale another one with the old size of the first.

mod check;
mod flaw;
mod generate;
mod interference;
mod native;
mod steerer;
mod world;

pub use flaw::CanaryFlaw;
pub use generate::generate;

use rollplan_core::size::IntOrPercent;
use rollplan_core::snapshot::Strategy;

use crate::check::Violation;
use crate::pods::Fault;
use crate::run::Outcome;
use crate::script::Kind;
use crate::shrink::drop_events;
use world::CanaryWorld;

/// The number of the stable template, and that of the canary. The others are those of other clients.
const STABLE: u8 = 0;
const NEW: u8 = 1;

/// A world with a canary.
#[derive(Clone, Debug)]
pub struct Script {
    /// The Deployment and the policy.
    pub setup: Setup,
    /// What happens, in order.
    pub events: Vec<Event>,
}

/// The Deployment of the user, and the policy of its canary.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// The number of desired pods.
    pub replicas: i32,
    /// `maxSurge`.
    pub surge: IntOrPercent,
    /// `maxUnavailable`.
    pub unavailable: IntOrPercent,
    /// `minReadySeconds`.
    pub min_ready: i32,
    /// The number of canary pods at the first step.
    pub pods: i32,
    /// The number of pods by which each further step grows, or 0.
    pub raises: [i32; 4],
    /// Whether steps are percentages.
    pub is_percent: bool,
    /// Whether the policy allows a surge of all pods.
    pub allows_all: bool,
    /// How long they must be ready, in seconds.
    pub bake: i32,
    /// Whether the canary needs a verdict of the caller.
    pub has_gate: bool,
    /// Whether a good canary is promoted.
    pub promotes: bool,
    /// Whether one that has timed out is aborted.
    pub aborts_on_timeout: bool,
    /// Whether a promotion that has failed is rolled back.
    pub rolls_back: bool,
    /// The fault of the new pods.
    pub fault: Fault,
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A watch delivers this many changes to the Deployment controller.
    Watch(Kind, u8),
    /// The Deployment controller syncs the Deployment.
    Native,
    /// The ReplicaSet controller syncs a ReplicaSet.
    Sync(u8),
    /// The scheduler or a kubelet advances a pod.
    Pod(u8),
    /// The container of a ready pod crashes and restarts.
    Crash(u8),
    /// A user deletes a pod.
    DeletePod(u8),
    /// This many seconds pass.
    Time(u8),
    /// A steerer observes and plans, with a command of the user.
    Plan(Command),
    /// A steerer carries out its patch.
    Patch(u8),
    /// The same, but the answer is lost, so the steerer sends it again later.
    PatchUnanswered(u8),
    /// A steerer dies before its patch.
    Die(u8),
    /// The caller judges the canary.
    Judge(Judgement),
    /// A user or an autoscaler scales the Deployment.
    Scale(u8),
    /// Another client writes the Deployment.
    Interfere(Interference),
}

/// A command of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// None: continue the canary, or start it.
    Go,
    /// Promote the canary.
    Promote,
    /// Abort the canary.
    Abort,
    /// Start a canary with the rejected template.
    Retry,
}

/// A verdict of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// It passes.
    Pass,
    /// It fails.
    Fail,
    /// It passes for another template.
    Other,
    /// It passes for the next step.
    Later,
}

/// A write of another client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interference {
    /// `kubectl apply` of the manifest of the user, with this template.
    Apply(u8),
    /// `kubectl set image`.
    SetTemplate(u8),
    /// `kubectl rollout undo`, which replaces all annotations.
    Undo,
    /// `minReadySeconds` is put back.
    PutBack,
    /// Other limits.
    Limits(u8, u8),
    /// The annotation is removed.
    DropState,
    /// The Deployment is paused.
    Pause,
    /// It is resumed.
    Resume,
    /// It is scaled to 0.
    Zero,
    /// The ReplicaSet of the stable template is deleted.
    DeleteStable,
}

/// Runs a script, followed by the end of the canary and the final checks.
#[must_use]
pub fn run(script: &Script, flaw: CanaryFlaw) -> Outcome {
    run_traced(script, flaw, false)
}

/// Like [`run`]. Prints all events if `traced` is set.
#[must_use]
pub fn run_traced(script: &Script, flaw: CanaryFlaw, traced: bool) -> Outcome {
    let mut world = CanaryWorld::new(script.setup, flaw, traced);
    for event in &script.events {
        world.step(*event);
        if world.violation().is_some() {
            break;
        }
    }
    if world.violation().is_none() {
        world.end();
    }
    world.into_outcome()
}

/// The script with the fewest events that was found to fail the same check.
#[must_use]
pub fn shrink(script: &Script, violation: &Violation) -> Script {
    let mut best = script.clone();
    drop_events(&mut best.events, |events| {
        let shorter = Script {
            setup: script.setup,
            events: events.to_vec(),
        };
        let found = run(&shorter, CanaryFlaw::None).violation;
        found.is_some_and(|it| it.check == violation.check)
    });
    best
}

fn strategy(surge: IntOrPercent, unavailable: IntOrPercent) -> Strategy {
    Strategy::RollingUpdate {
        max_surge: surge,
        max_unavailable: unavailable,
    }
}
