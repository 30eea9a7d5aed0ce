//! Strategies: how old pods are replaced. Each is a file in this folder, a pure function from what it sees of the sizes
//! to what they should become; `pass::rollout` carries that out.

mod recreate;
mod rolling_update;

use self::recreate::Recreate;
use self::rolling_update::RollingUpdate;
use crate::scaling::ScaleReason;
use crate::size::Limits;
use crate::snapshot::{Deployment, Strategy};

/// The strategy of a Deployment. This is the list of all strategies.
pub(crate) fn of(deployment: &Deployment) -> Box<dyn RolloutStrategy> {
    match deployment.spec.strategy {
        Strategy::RollingUpdate {
            max_surge,
            max_unavailable,
        } => Box::new(RollingUpdate {
            max_surge,
            max_unavailable,
        }),
        Strategy::Recreate => Box::new(Recreate),
    }
}

/// One way of replacing old pods.
pub(crate) trait RolloutStrategy {
    /// The limits of the rollout for this number of wanted pods.
    fn limits(&self, replicas: i32) -> Limits;

    /// The size that the new ReplicaSet is created with, beside old ones with `total` pods.
    fn initial_size(&self, limits: Limits, total: i64) -> i32;

    /// What to do next.
    fn next(&self, view: &View<'_>) -> Next;

    /// The available pods that scaling down preserves, if it preserves any.
    fn min_available(&self, limits: Limits) -> Option<i32>;

    /// Whether new pods wait until all old pods have ended.
    fn awaits_old_pods(&self) -> bool;

    /// Whether every active ReplicaSet keeps its share when the Deployment is scaled during a rollout.
    fn scales_proportionally(&self) -> bool;

    /// How the limits result from what the user wrote.
    fn explain(&self, limits: Limits) -> Arithmetic;
}

/// What a strategy decides by.
pub(crate) struct View<'a> {
    pub(crate) limits: Limits,
    /// Whether pods of old ReplicaSets may still run. Expensive.
    pub(crate) old_pods_may_run: &'a dyn Fn() -> bool,
    /// The ReplicaSet with the current template, if it exists.
    pub(crate) new: Option<SetView>,
    /// The other ReplicaSets, oldest first.
    pub(crate) old: Vec<SetView>,
}

/// A ReplicaSet, as strategies see it.
#[derive(Clone, Copy)]
pub(crate) struct SetView {
    /// Its size.
    pub(crate) replicas: i32,
    /// Its available pods. More than `replicas` if its status is older than its size.
    pub(crate) available: i32,
}

/// What a strategy wants next.
pub(crate) enum Next {
    /// Create the new ReplicaSet, and ask again.
    Create,
    /// Nothing until the cluster has changed.
    Wait,
    /// Change these sizes, in this order. If none of them changes, the sizes are as they should be.
    Scale(Vec<Scale>),
    /// Change these sizes, and then do as if they were as they should be: what others should be cannot be told.
    ScaleBlindly(Vec<Scale>),
    /// Give the new ReplicaSet this size. All sizes are as they should be then.
    Finish(i32),
}

/// A size that a strategy gives a ReplicaSet.
pub(crate) struct Scale {
    pub(crate) set: Role,
    pub(crate) to: i32,
    /// Why.
    pub(crate) reason: ScaleReason,
    /// Whether the rollout goes on if the write fails. The sizes after this one are not written in any case.
    pub(crate) may_fail: bool,
}

/// Which ReplicaSet of a view is meant.
#[derive(Clone, Copy)]
pub(crate) enum Role {
    New,
    /// The one with this index among the old ones.
    Old(usize),
}

/// How the limits of a rollout result from what the user wrote, for people.
pub(crate) struct Arithmetic {
    /// "4 + 25% rounded up = 5".
    pub(crate) max_total: String,
    /// "4 − 25% rounded down = 3".
    pub(crate) min_available: String,
    /// "4 + maxSurge 25% = 5".
    pub(crate) surge: String,
    /// "25%".
    pub(crate) unavailable: String,
}

// === impl View ===

impl View<'_> {
    /// All sizes added up.
    pub(crate) fn total(&self) -> i64 {
        let sets = self.old.iter().chain(&self.new);
        sets.map(|set| i64::from(set.replicas)).sum()
    }

    /// The old ReplicaSets that have a size, with their indices.
    pub(crate) fn active(&self) -> impl Iterator<Item = (usize, SetView)> {
        let old = self.old.iter().copied().enumerate();
        old.filter(|(_, set)| set.replicas > 0)
    }
}
