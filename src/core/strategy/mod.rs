//! Strategies: how old pods are replaced. Each strategy is a file in this folder with a pure function from the observed
//! sizes to the next ones, which `pass::rollout` writes.

mod recreate;
mod rolling_update;

use self::recreate::Recreate;
use self::rolling_update::RollingUpdate;
use crate::caps::Caps;
use crate::scaling::ScaleReason;
use crate::size::Limits;
use crate::snapshot::{Deployment, Strategy};

/// The strategy of a Deployment. This is the list of strategies.
#[must_use]
pub fn of(deployment: &Deployment) -> Box<dyn RolloutStrategy> {
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

/// A way to replace old pods.
pub trait RolloutStrategy {
    /// The limits of the rollout for this number of desired pods.
    fn limits(&self, replicas: i32) -> Limits;

    /// The initial size of the new ReplicaSet if the sizes of the old ones add up to `total`.
    fn initial_size(&self, limits: Limits, total: i64) -> i32;

    /// The next decision.
    fn next(&self, view: &View<'_>) -> Next;

    /// The minimum number of available pods that scaling down preserves, if it preserves any.
    fn min_available(&self, limits: Limits) -> Option<i32>;

    /// Whether new pods wait until all old pods have terminated.
    fn awaits_old_pods(&self) -> bool;

    /// Whether every active ReplicaSet keeps its share when the Deployment is scaled during a rollout.
    fn scales_proportionally(&self) -> bool;

    /// How the limits result from the spec.
    fn explain(&self, limits: Limits) -> Arithmetic;
}

/// The input of a strategy.
#[derive(Clone)]
pub struct View<'a> {
    /// The limits of the rollout.
    pub limits: Limits,
    /// How far the rollout may go.
    pub caps: Caps,
    /// Returns whether pods of old ReplicaSets may still run. Expensive.
    pub old_pods_may_run: &'a dyn Fn() -> bool,
    /// The ReplicaSet with the current template, if it exists.
    pub new: Option<SetView>,
    /// The other ReplicaSets, oldest first.
    pub old: Vec<SetView>,
}

/// A ReplicaSet, as strategies see it.
#[derive(Clone, Copy)]
pub struct SetView {
    /// Its size.
    pub replicas: i32,
    /// Its available pods. More than `replicas` if its status is older than its size.
    pub available: i32,
}

/// The decision of a strategy.
pub enum Next {
    /// Create the new ReplicaSet, and decide again.
    Create,
    /// Wait until the cluster has changed.
    Wait,
    /// Change these sizes in this order. If none of them changes, all sizes are final.
    Scale(Vec<Scale>),
    /// Scale these ReplicaSets. The status of the next one is older than its size, so no others are scaled: Kubernetes drops
    /// this error, and continues as if nothing had been scaled.
    ScaleBlindly(Vec<Scale>),
    /// Give the new ReplicaSet this size. All sizes are final then.
    Finish(i32),
}

/// A change of the size of a ReplicaSet.
pub struct Scale {
    /// The ReplicaSet.
    pub set: Role,
    /// Its new size.
    pub to: i32,
    /// Why the size changes.
    pub reason: ScaleReason,
    /// Whether the pass continues if the write fails. The sizes after this one are not written in any case.
    pub may_fail: bool,
}

/// A ReplicaSet of a view.
#[derive(Clone, Copy)]
pub enum Role {
    /// The ReplicaSet with the current template.
    New,
    /// The old ReplicaSet with this index.
    Old(usize),
}

/// How the limits of a rollout result from the spec, for humans.
pub struct Arithmetic {
    /// "4 + 25% rounded up = 5".
    pub max_total: String,
    /// "4 − 25% rounded down = 3".
    pub min_available: String,
    /// "4 + maxSurge 25% = 5".
    pub surge: String,
    /// "25%".
    pub unavailable: String,
}

/// Which caps stop a rollout, if they do: all new pods are available, no size changes, and without the caps one would.
#[must_use]
pub fn held_by_caps(strategy: &dyn RolloutStrategy, view: &View<'_>) -> Option<String> {
    if view.caps == Caps::NONE || view.new.is_some_and(|new| new.available < new.replicas) {
        return None;
    }
    let without = View {
        caps: Caps::NONE,
        ..view.clone()
    };
    let is_held = !changes_size(strategy, view) && changes_size(strategy, &without);
    is_held.then(|| view.caps.text(view.limits))
}

fn changes_size(strategy: &dyn RolloutStrategy, view: &View<'_>) -> bool {
    let resizes = |scale: &Scale| {
        let set = match scale.set {
            Role::New => view.new.as_ref(),
            Role::Old(index) => view.old.get(index),
        };
        set.is_some_and(|set| set.replicas != scale.to)
    };
    match strategy.next(view) {
        Next::Create => true,
        Next::Wait => false,
        Next::Scale(sizes) | Next::ScaleBlindly(sizes) => sizes.iter().any(resizes),
        Next::Finish(size) => view.new.is_some_and(|new| new.replicas != size),
    }
}

// === impl View ===

impl View<'_> {
    /// The sum of all sizes.
    #[must_use]
    pub fn total(&self) -> i64 {
        let sets = self.old.iter().chain(&self.new);
        sets.map(|set| i64::from(set.replicas)).sum()
    }

    /// The old ReplicaSets with a size above 0, with their indices.
    pub fn active(&self) -> impl Iterator<Item = (usize, SetView)> {
        let old = self.old.iter().copied().enumerate();
        old.filter(|(_, set)| set.replicas > 0)
    }
}
