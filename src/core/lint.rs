//! Checks the rules of every settled plan: the sum of all sizes stays within the surge, scaling down preserves the minimum
//! of available pods, and nothing is left to do after the plan.
//!
//! The numbers are computed from the snapshot and the steps, independently of the planner. Every test that makes a settled
//! plan runs these checks.

use std::collections::BTreeMap;

use crate::action::{Action, apply_all};
use crate::interrupt::Never;
use crate::pass::{self, Rules, has_template_of};
use crate::plan::Plan;
use crate::revision::{self, ROLLBACK_TO};
use crate::settle::plan_settled;
use crate::snapshot::{Options, ReplicaSet, Snapshot};
use crate::strategy;

/// A violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The number of steps after which the rule is violated.
    pub after_steps: usize,
    /// The rule.
    pub rule: Rule,
    /// Whether the snapshot already violates the rule, and the plan does not make it worse.
    pub inherited: bool,
}

/// The rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The sum of all sizes is at most the number of desired pods and the surge.
    MaxTotal {
        /// The sum of all sizes.
        total: i64,
        /// The maximum.
        max: i64,
    },
    /// Scaling down preserves the minimum of available pods.
    MinAvailable {
        /// The number of pods that are certainly available.
        available: i64,
        /// The minimum.
        min: i64,
    },
    /// Caps stop the new ReplicaSet from growing, and the old ones from shrinking.
    Capped {
        /// The size of the new ReplicaSet, or the sizes of the old ones, added up.
        size: i64,
        /// The cap.
        cap: i64,
    },
    /// At most one write for each object.
    OneWrite {
        /// The name of the object.
        name: String,
    },
    /// Planning again after the plan writes nothing.
    Settled {
        /// The steps of the next plan.
        steps: Vec<String>,
    },
    /// Planning again after a plan that is not settled reverses none of its sizes, so no pod is created and then removed, or
    /// removed and then created again. Exceptions are rejected calls, a look-ahead that ended at its limit of passes, and
    /// the rollback annotation, for which a missing ReplicaSet is created first.
    Reversed {
        /// The name of the ReplicaSet.
        name: String,
        /// The sizes before and after this plan, and after the next one.
        sizes: [i32; 3],
    },
}

/// All violations of a settled plan.
#[must_use]
pub fn lint(snapshot: &Snapshot, options: Options, plan: &Plan) -> Vec<Violation> {
    let mut violations = Vec::new();
    lint_bounds(snapshot, options, plan, &mut violations);
    lint_caps(snapshot, options, plan, &mut violations);
    lint_one_write(plan, &mut violations);
    lint_next(snapshot, options, plan, &mut violations);
    violations
}

/// The ReplicaSets that belong to the Deployment, or will after their adoption.
fn claimed(snapshot: &Snapshot) -> impl Iterator<Item = &ReplicaSet> {
    let deployment = &snapshot.deployment;
    snapshot.replica_sets.iter().filter(|set| {
        let metadata = &set.metadata;
        let controller = metadata.controller();
        deployment.spec.selector.matches(&metadata.labels)
            && metadata.namespace == deployment.metadata.namespace
            && controller.is_none_or(|controller| controller.uid == deployment.metadata.uid)
            && (controller.is_some()
                || metadata.deletion_timestamp.is_none() && !is_gone(snapshot, set))
    })
}

/// Whether the server has answered that the ReplicaSet does not exist, for example when it was adopted.
fn is_gone(snapshot: &Snapshot, set: &ReplicaSet) -> bool {
    snapshot.failures.iter().any(|failure| {
        let call = &failure.call;
        failure.http_code == 404 && call.kind == "ReplicaSet" && call.name == set.metadata.name
    })
}

/// The sizes and available pods of the ReplicaSets of a Deployment, by name.
struct Pods {
    sizes: BTreeMap<String, (i64, i64)>,
}

impl Pods {
    fn of(snapshot: &Snapshot) -> Self {
        let sizes = claimed(snapshot).map(|set| {
            let available = set.status.available_replicas.min(set.replicas);
            let size = (i64::from(set.replicas), i64::from(available));
            (set.metadata.name.clone(), size)
        });
        Self {
            sizes: sizes.collect(),
        }
    }

    /// A smaller size removes pods that are not available first. New pods are not available yet.
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

fn lint_bounds(
    snapshot: &Snapshot,
    options: Options,
    plan: &Plan,
    violations: &mut Vec<Violation>,
) {
    let deployment = &snapshot.deployment;
    let limits = strategy::of(deployment).limits(deployment.spec.replicas);
    let max = i64::from(limits.max_total());
    let mut pods = Pods::of(snapshot);
    let (mut total_so_far, mut available_so_far) = (pods.total(), pods.available());
    let min = promised_available(snapshot, options);
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
        if let Some(min) = min
            && shrinks
            && available < min
        {
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

/// Caps do not limit how a Deployment is scaled, except that the new ReplicaSet does not outgrow its cap in a rollout.
fn lint_caps(snapshot: &Snapshot, options: Options, plan: &Plan, violations: &mut Vec<Violation>) {
    let deployment = &snapshot.deployment;
    let caps = deployment.caps(options);
    let limits = strategy::of(deployment).limits(deployment.spec.replicas);
    let (new, old) = pass::roles(snapshot, &Never);
    let mut sizes: BTreeMap<&str, i32> = BTreeMap::new();
    sizes.extend(old.iter().map(|set| (&*set.metadata.name, set.replicas)));
    let is_complete = new.is_some_and(|set| {
        let desired = revision::desired_replicas(&set.metadata.annotations);
        desired == Some(set.replicas) && sizes.values().all(|&size| size == 0)
    });
    // As in Kubernetes, a ReplicaSet that the plan releases still is the new one if it has its name.
    let is_released = |set: &&ReplicaSet| {
        deployment.controls(set)
            && !deployment.spec.selector.matches(&set.metadata.labels)
            && set.metadata.name == pass::new_set_name(deployment)
            && has_template_of(set, deployment)
    };
    let new = new.or_else(|| snapshot.replica_sets.iter().find(is_released));
    let mut new_size = new.map_or(0, |set| set.replicas);
    let is_scaling = is_scaling(snapshot) || deployment.spec.paused;
    for (index, step) in plan.steps.iter().enumerate() {
        let mut violate = |size: i64, cap: i64| {
            violations.push(Violation {
                after_steps: index + 1,
                rule: Rule::Capped { size, cap },
                inherited: false,
            });
        };
        let (name, to) = match &step.action {
            Some(Action::CreateReplicaSet(set)) => (&*set.metadata.name, set.replicas),
            Some(Action::ScaleReplicaSet { set, to, .. }) => (&*set.name, *to),
            _ => continue,
        };
        let old_before: i64 = sizes.values().map(|&size| i64::from(size)).sum();
        let Some(size) = sizes.get_mut(name) else {
            if to > new_size.max(caps.new_max) && !is_complete {
                violate(to.into(), caps.new_max.into());
            }
            new_size = to;
            continue;
        };
        *size = to;
        let old_after: i64 = sizes.values().map(|&size| i64::from(size)).sum();
        let room = i64::from(limits.max_total()) - i64::from(new_size);
        let kept = i64::from(caps.old_min).min(room);
        if old_after < old_before.min(kept) && !is_scaling {
            violate(old_after, kept);
        }
    }
}

/// Whether the sum of all sizes is limited. As in Kubernetes, the rollback annotation creates a missing ReplicaSet first,
/// whatever the other sizes are.
fn promises_total(snapshot: &Snapshot) -> bool {
    let metadata = &snapshot.deployment.metadata;
    !metadata.annotations.contains_key(ROLLBACK_TO)
}

/// The number of available pods that scaling down must preserve. As in Kubernetes, this does not apply to Recreate, to a
/// paused Deployment, and to scaling by a user: that alone may leave fewer than the minimum, and the rolling update that
/// follows in the same plan then removes no more.
fn promised_available(snapshot: &Snapshot, options: Options) -> Option<i64> {
    let deployment = &snapshot.deployment;
    if deployment.spec.paused {
        return None;
    }
    let strategy = strategy::of(deployment);
    let limits = strategy.limits(deployment.spec.replicas);
    let min = i64::from(strategy.min_available(limits)?);
    if !is_scaling(snapshot) {
        return Some(min);
    }
    // A pass that detects a scaling event only scales, regardless of the available pods.
    let mut pods = Pods::of(snapshot);
    let mut world = snapshot.clone();
    while is_scaling(&world) {
        let outcome = pass::run(&world, options, Rules::Exact);
        let actions: Vec<&Action> = outcome.actions().collect();
        for action in &actions {
            if let Action::ScaleReplicaSet { set, to, .. } = action {
                pods.resize(&set.name, *to);
            }
        }
        apply_all(&mut world, &actions, &Never);
        // Kubernetes may detect the scaling event indefinitely, and a rejected call is rejected again.
        if actions.is_empty() || outcome.refused {
            break;
        }
    }
    Some(min.min(pods.available()))
}

/// Whether an active ReplicaSet was scaled for another number of desired pods.
fn is_scaling(snapshot: &Snapshot) -> bool {
    let wanted = snapshot.deployment.spec.replicas;
    claimed(snapshot)
        .any(|set| revision::is_scaled_for_another(&set.metadata.annotations, set.replicas, wanted))
}

fn lint_one_write(plan: &Plan, violations: &mut Vec<Violation>) {
    let mut written = BTreeMap::new();
    for (index, step) in plan.steps.iter().enumerate() {
        // A check writes nothing.
        let (Some(call), false) = (
            step.call(),
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

/// Checks the next plan if nothing but this one changes the cluster.
fn lint_next(snapshot: &Snapshot, options: Options, plan: &Plan, violations: &mut Vec<Violation>) {
    let mut world = snapshot.clone();
    world.failures.clear();
    let actions = plan.steps.iter().filter_map(|step| step.action.as_ref());
    apply_all(&mut world, &actions.collect::<Vec<_>>(), &Never);
    let next = plan_settled(&world, options);
    let mut violate = |rule| {
        violations.push(Violation {
            after_steps: plan.steps.len(),
            rule,
            inherited: false,
        });
    };
    if plan.settled {
        let writes = next.steps.iter().filter(|step| step.action.is_some());
        let steps: Vec<String> = writes.map(crate::action::Step::summary).collect();
        if !steps.is_empty() {
            violate(Rule::Settled { steps });
        }
        return;
    }
    if !snapshot.failures.is_empty() || !promises_total(snapshot) || plan.exhausted {
        return;
    }
    let changed: BTreeMap<&str, [i32; 2]> = sizes_changed(plan).collect();
    for (name, [between, after]) in sizes_changed(&next) {
        if let Some([before, _]) = changed.get(name)
            && before.cmp(&between) != between.cmp(&after)
        {
            violate(Rule::Reversed {
                name: name.to_owned(),
                sizes: [*before, between, after],
            });
        }
    }
}

/// The sizes that a plan changes: before and after it.
fn sizes_changed(plan: &Plan) -> impl Iterator<Item = (&str, [i32; 2])> {
    let actions = plan.steps.iter().filter_map(|step| step.action.as_ref());
    actions.filter_map(|action| match action {
        Action::CreateReplicaSet(set) if set.replicas > 0 => {
            Some((set.metadata.name.as_str(), [0, set.replicas]))
        }
        Action::ScaleReplicaSet { set, from, to, .. } => Some((set.name.as_str(), [*from, *to])),
        _ => None,
    })
}
