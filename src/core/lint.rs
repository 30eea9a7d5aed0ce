//! What must hold of every settled plan, checked on the plan itself: the sum of sizes stays within the
//! surge, scaling down leaves the minimum available, and nothing is left to do once the plan was applied.
//!
//! The numbers are taken anew from snapshot and steps, not from the planner. Every test that makes a settled
//! plan runs this.

use std::collections::BTreeMap;

use crate::action::{Action, apply};
use crate::pass;
use crate::plan::Plan;
use crate::revision::ROLLBACK_TO;
use crate::settle::plan_settled;
use crate::snapshot::{Options, Snapshot, Strategy};

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// How many steps were done when it came about; 0 when the snapshot itself has it.
    pub after_steps: usize,
    /// What it is.
    pub rule: Rule,
    /// Whether the snapshot already had it, and the plan did not make it worse.
    pub inherited: bool,
}

/// What must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The sum of sizes is at most the wanted pods and the surge.
    MaxTotal {
        /// The sum of sizes.
        total: i64,
        /// The most it may be.
        max: i64,
    },
    /// Scaling down leaves the minimum of available pods.
    MinAvailable {
        /// Available pods that are certain to be left.
        available: i64,
        /// The fewest there may be.
        min: i64,
    },
    /// At most one write for each object.
    OneWrite {
        /// Name of the object.
        name: String,
    },
    /// Planning again after the plan writes nothing.
    Settled {
        /// Steps of the next plan.
        steps: Vec<String>,
    },
}

/// Everything that a settled plan violates.
#[must_use]
pub fn lint(snapshot: &Snapshot, options: Options, plan: &Plan) -> Vec<Violation> {
    let mut violations = Vec::new();
    lint_bounds(snapshot, plan, &mut violations);
    lint_one_write(plan, &mut violations);
    lint_settled(snapshot, options, plan, &mut violations);
    violations
}

/// The sizes of a Deployment's ReplicaSets and what is available of them, by name.
struct Pods {
    sizes: BTreeMap<String, (i64, i64)>,
}

impl Pods {
    fn of(snapshot: &Snapshot) -> Self {
        let owner = &snapshot.deployment.metadata.uid;
        let selector = &snapshot.deployment.spec.selector;
        let sets = snapshot.replica_sets.iter().filter(|set| {
            let metadata = &set.metadata;
            let controller = metadata.controller();
            selector.matches(&metadata.labels)
                && metadata.namespace == snapshot.deployment.metadata.namespace
                && controller.is_none_or(|controller| controller.uid == *owner)
                && !(controller.is_none() && metadata.deletion_timestamp.is_some())
        });
        let sizes = sets.map(|set| {
            let available = set.status.available_replicas.min(set.replicas);
            let size = (i64::from(set.replicas), i64::from(available));
            (set.metadata.name.clone(), size)
        });
        Self {
            sizes: sizes.collect(),
        }
    }

    /// Unavailable pods go first when a ReplicaSet shrinks; new ones are not available yet.
    fn resize(&mut self, name: &str, size: i32) {
        let entry = self.sizes.entry(name.to_owned()).or_default();
        let size = i64::from(size);
        *entry = (size, entry.1.min(size));
    }

    fn total(&self) -> i64 {
        self.sizes.values().map(|(size, _)| size).sum()
    }

    fn available(&self) -> i64 {
        self.sizes.values().map(|(_, available)| available).sum()
    }
}

fn lint_bounds(snapshot: &Snapshot, plan: &Plan, violations: &mut Vec<Violation>) {
    let limits = pass::limits(&snapshot.deployment);
    let max = i64::from(limits.max_total());
    let min = i64::from(limits.min_available());
    let mut pods = Pods::of(snapshot);
    let (mut total_so_far, mut available_so_far) = (pods.total(), pods.available());
    let availability_counts = promises_availability(snapshot);
    let total_counts = promises_total(snapshot);
    for (index, step) in plan.steps.iter().enumerate() {
        let shrinks = match &step.action {
            Some(Action::CreateReplicaSet(set)) => {
                pods.resize(&set.metadata.name, set.replicas);
                false
            }
            Some(Action::ScaleReplicaSet { set, from, to, .. }) => {
                pods.resize(&set.name, *to);
                to < from
            }
            _ => continue,
        };
        let (total, available) = (pods.total(), pods.available());
        if total_counts && total > max {
            violations.push(Violation {
                after_steps: index + 1,
                rule: Rule::MaxTotal { total, max },
                inherited: total <= total_so_far,
            });
        }
        if availability_counts && shrinks && available < min {
            violations.push(Violation {
                after_steps: index + 1,
                rule: Rule::MinAvailable { available, min },
                inherited: available >= available_so_far,
            });
        }
        total_so_far = total_so_far.min(total.max(max));
        available_so_far = available;
    }
}

/// Outside the promise, as in Kubernetes: the rollback annotation creates a missing ReplicaSet before all else,
/// whatever runs.
fn promises_total(snapshot: &Snapshot) -> bool {
    let metadata = &snapshot.deployment.metadata;
    !metadata.annotations.contains_key(ROLLBACK_TO)
}

/// Outside the promise, as in Kubernetes: Recreate, and sizes that a user has asked for by scaling or while
/// paused.
fn promises_availability(snapshot: &Snapshot) -> bool {
    let deployment = &snapshot.deployment;
    let rolling = matches!(deployment.spec.strategy, Strategy::RollingUpdate { .. });
    let scaled = snapshot.replica_sets.iter().any(|set| {
        let desired = crate::revision::desired_replicas(&set.metadata.annotations);
        set.replicas > 0 && desired.is_some_and(|desired| desired != deployment.spec.replicas)
    });
    rolling && !deployment.spec.paused && !scaled
}

fn lint_one_write(plan: &Plan, violations: &mut Vec<Violation>) {
    let mut written = BTreeMap::new();
    for (index, step) in plan.steps.iter().enumerate() {
        // A check writes nothing.
        let (Some(call), false) = (
            &step.call,
            matches!(step.action, Some(Action::CheckOwner { .. })),
        ) else {
            continue;
        };
        let object = (call.kind.clone(), call.name.clone());
        if written.insert(object, index).is_some() {
            violations.push(Violation {
                after_steps: index + 1,
                rule: Rule::OneWrite {
                    name: call.name.clone(),
                },
                inherited: false,
            });
        }
    }
}

fn lint_settled(
    snapshot: &Snapshot,
    options: Options,
    plan: &Plan,
    violations: &mut Vec<Violation>,
) {
    if !plan.settled {
        return;
    }
    let mut world = snapshot.clone();
    world.failures.clear();
    for action in plan.steps.iter().filter_map(|step| step.action.as_ref()) {
        apply(&mut world, action);
    }
    let next = plan_settled(&world, options);
    let writes = next.steps.iter().filter(|step| step.action.is_some());
    let steps: Vec<String> = writes.map(crate::action::Step::summary).collect();
    if !steps.is_empty() {
        violations.push(Violation {
            after_steps: plan.steps.len(),
            rule: Rule::Settled { steps },
            inherited: false,
        });
    }
}
