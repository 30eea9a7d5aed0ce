//! Compares the conditions of a custom resource with those of a native Deployment in the same world: with the same spec,
//! ReplicaSets and pods, planned at the same times, and written whenever the adapter carries out all calls of its plan.

use rollplan_core::Plan;
use rollplan_core::action::{Action, Step};
use rollplan_core::revision::REVISION;
use rollplan_core::snapshot::{
    Condition, Deployment, DeploymentStatus, Options, ReplicaSet, Snapshot,
};
use rollplan_core::status::{self, NEW_SET_AVAILABLE, PROGRESSING};
use rollplan_world::at;

use super::is_owned;
use crate::adapter::Running;
use crate::server::{Store, version_of};
use crate::tally::Tally;
use crate::world::World;

/// The maximum number of plans until the status of the native Deployment does not change anymore.
const PLANS_MAX: usize = 8;

/// The state that a native Deployment would have in the place of a custom resource.
#[derive(Clone, Debug, Default)]
pub(crate) struct Native {
    /// The UID of the custom resource.
    uid: String,
    written: Written,
    planned: Option<Planned>,
    /// The UID of the new ReplicaSet, if its rollout was complete when a plan for the custom resource reported that.
    completed: Option<String>,
    /// The same, once the calls of such a plan have succeeded.
    published: Option<String>,
    /// The rollout that the latest create has begun, until a plan counts the new ReplicaSet.
    begun: Option<Begun>,
    /// The UIDs of all ReplicaSets that have begun a rollout.
    created: Vec<String>,
    /// The newest version of the custom resource that a plan was made from.
    newest: u64,
}

/// A rollout whose new ReplicaSet no plan has counted yet.
#[derive(Clone, Debug)]
struct Begun {
    /// The UID of the ReplicaSet.
    uid: String,
    /// [`Native::completed`] and [`Native::published`] before.
    before: [Option<String>; 2],
}

/// The plan in progress.
#[derive(Clone, Debug)]
struct Planned {
    /// The state of the native Deployment after the plan.
    written: Written,
    /// The UID of the new ReplicaSet, if this plan reports that its rollout is complete.
    completed: Option<String>,
    /// Whether the plan is about another rollout, which begins with its first write.
    begins: bool,
}

/// The fields of a Deployment that the controller writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Written {
    status: DeploymentStatus,
    revision: Option<String>,
}

// === impl Native ===

impl Native {
    /// Whether a plan is made from an earlier state than that of an earlier plan: from an older custom resource, or without
    /// a ReplicaSet that began a rollout. A former leader with an old cache makes such plans.
    fn is_outdated(&mut self, snapshot: &Snapshot, store: &Store) -> bool {
        let version = version_of(&snapshot.deployment.metadata);
        let misses_begun = self.begun.as_ref().is_some_and(|begun| {
            store.set_by_uid(&begun.uid).is_some() && find(snapshot, &begun.uid).is_none()
        });
        let misses_created = self.created.iter().any(|uid| {
            let stored = store.set_by_uid(uid);
            stored.is_some_and(|it| is_owned(&snapshot.deployment, &it.set))
                && find(snapshot, uid).is_none()
        });
        let is_older = version < self.newest;
        self.newest = self.newest.max(version);
        is_older || misses_begun || misses_created
    }

    /// The revision of a ReplicaSet that a plan counts shows that its rollout has begun. If someone took it away before, the
    /// planner does not know of this rollout, and the condition of the earlier one stays.
    fn settle_begun(&mut self, snapshot: &Snapshot) {
        let set = self.begun.as_ref().map(|it| find(snapshot, &it.uid));
        let Some(Some(set)) = set else {
            return;
        };
        let begun = self.begun.take();
        if !is_owned(&snapshot.deployment, set)
            && let Some(Begun { before, .. }) = begun
        {
            [self.completed, self.published] = before;
        }
    }
}

fn find<'a>(snapshot: &'a Snapshot, uid: &str) -> Option<&'a ReplicaSet> {
    let mut sets = snapshot.replica_sets.iter();
    sets.find(|set| set.metadata.uid == uid)
}

// === impl Written ===

impl Written {
    /// The snapshot with a native Deployment in the place of the custom resource.
    fn snapshot(&self, custom: &Snapshot) -> Snapshot {
        let mut native = custom.clone();
        let deployment = &mut native.deployment;
        deployment.api_version = "apps/v1".to_owned();
        deployment.kind = "Deployment".to_owned();
        deployment.status = self.status.clone();
        let annotations = &mut deployment.metadata.annotations;
        annotations.remove(REVISION);
        annotations.extend(
            self.revision
                .clone()
                .map(|text| (REVISION.to_owned(), text)),
        );
        native
    }

    /// The state after a plan for this snapshot.
    fn after(&self, plan: &Plan) -> Self {
        let mut after = self.clone();
        for action in plan.steps.iter().filter_map(|step| step.action.as_ref()) {
            if let Action::UpdateDeploymentStatus {
                status, revision, ..
            } = action
            {
                after.status.clone_from(status);
                after.revision = revision.clone().or(after.revision);
            }
        }
        after
    }
}

impl World {
    /// Plans for the native Deployment as well.
    pub(crate) fn plan_native(&mut self, snapshot: &Snapshot, plan: &Plan) {
        let deployment = &snapshot.deployment;
        if deployment.is_native() {
            return;
        }
        let mut native = std::mem::take(&mut self.native);
        if native.uid != deployment.metadata.uid {
            native = Native {
                uid: deployment.metadata.uid.clone(),
                ..Native::default()
            };
        }
        let new = new_set(deployment, &snapshot.replica_sets);
        let new_uid = new.map(|set| set.metadata.uid.clone());
        let is_outdated = native.is_outdated(snapshot, &self.store);
        native.settle_begun(snapshot);
        let reports = is_complete(snapshot, new) && reports_available(snapshot, plan);
        let completed = new_uid.clone().filter(|_| reports && !is_outdated);
        if completed.is_some() {
            native.completed.clone_from(&completed);
        }
        let begins = !reports && new_uid.is_some() && native.completed != new_uid;
        let mut world = native.written.snapshot(snapshot);
        let mut failures = std::mem::take(&mut world.failures);
        let plan_for = |world: &Snapshot| self.flaw.plan(world, Options::default());
        let mut planned = plan_for(&world);
        if !failures.is_empty() {
            // A call for the custom resource that was rejected is the one for the native Deployment on the same object. If the
            // custom resource would not make it anymore, neither would the native Deployment.
            let mut unaware = snapshot.clone();
            unaware.failures.clear();
            let custom = plan_for(&unaware);
            for failure in &mut failures {
                let rejected = &failure.call;
                let mut repeated = custom.steps.iter().filter_map(Step::call);
                if !repeated.any(|call| call.id() == *rejected) {
                    continue;
                }
                let mut calls = planned.steps.iter().filter_map(Step::call);
                let same = calls.find(|call| {
                    (call.verb, &call.name, &call.subresource)
                        == (rejected.verb, &rejected.name, &rejected.subresource)
                });
                if let Some(call) = same {
                    failure.call = call.id();
                }
            }
            world.failures = failures;
            planned = plan_for(&world);
        }
        let written = native.written.after(&planned);
        native.planned = Some(Planned {
            written,
            completed,
            begins,
        });
        self.native = native;
    }

    /// All calls of the adapter's plan have succeeded, so those for a native Deployment have, too, unless only it is written,
    /// and has changed since it was observed.
    pub(crate) fn write_native(&mut self, running: &Running) {
        let planned = self.native.planned.take();
        let is_written = writes_status(&running.plan);
        let observed = &running.seen.snapshot.deployment.metadata;
        let is_current =
            self.store.deployment.as_ref().is_some_and(|stored| {
                stored.metadata.resource_version == observed.resource_version
            });
        if let Some(Planned {
            written, completed, ..
        }) = planned.filter(|_| is_written || is_current)
        {
            self.native.written = written;
            self.native.published = completed.or(self.native.published.take());
        }
    }

    /// A write has succeeded. The rollout of its plan begins, and replaces that of another ReplicaSet. So does a rollout
    /// that the status of the custom resource reports.
    pub(super) fn begin_native(&mut self, action: &Action, created: Option<&str>) {
        let native = &mut self.native;
        let is_reported = match action {
            Action::UpdateDeploymentStatus { status, .. } => reports_begin(status),
            _ => false,
        };
        let begins = is_reported || native.planned.as_ref().is_some_and(|it| it.begins);
        if created.is_none() && !begins {
            return;
        }
        let before = [native.completed.take(), native.published.take()];
        if let Some(uid) = created {
            let uid = uid.to_owned();
            native.created.push(uid.clone());
            native.begun = Some(Begun { uid, before });
        }
    }

    /// At rest, a condition of a custom resource is never about an earlier rollout, and its conditions are those of the
    /// native Deployment after its last timer: type, status, reason, and the ReplicaSet that the message names. As upstream,
    /// a native Deployment may keep the condition of an earlier rollout, for example if the controller dies after it creates
    /// the new ReplicaSet. It is not compared then, nor if the rollout was complete only while the adapter wrote the
    /// revision of the custom resource, nor while it is paused: the deadline or the pause may be noticed first.
    pub(super) fn check_conditions(&mut self, deployment: &Deployment, snapshot: &Snapshot) {
        if deployment.is_native() || deployment.spec.paused {
            return;
        }
        let native = self.native_at_rest(snapshot);
        if let Some(new) = new_set(deployment, &snapshot.replica_sets) {
            self.tallies.count(Tally::CheckCurrent);
            if is_outdated(&deployment.status, new, self.native.completed.as_deref()) {
                let name = &new.metadata.name;
                let message = format!("{name} is the new ReplicaSet: {:?}", deployment.status);
                self.violate("conditions", message);
            }
            if is_outdated(&native.status, new, self.native.published.as_deref()) {
                return self.tallies.count(Tally::ExemptNativeOutdated);
            }
        }
        self.tallies.count(Tally::CheckConditions);
        let (custom, native) = (compared(&deployment.status), compared(&native.status));
        if custom != native {
            let message = format!("{custom:?}, but {native:?} of a native Deployment");
            self.violate("conditions", message);
        }
    }

    /// The native Deployment when its timer has expired.
    fn native_at_rest(&self, snapshot: &Snapshot) -> Written {
        let mut written = self.native.written.clone();
        let mut now = self.now;
        for _ in 0..PLANS_MAX {
            let mut world = written.snapshot(snapshot);
            world.now = at(now);
            let plan = self.flaw.plan(&world, Options::default());
            let after = written.after(&plan);
            let waits = plan.requeue_after.map(|span| span.seconds() + 1);
            if after == written && waits.is_none() {
                break;
            }
            now += waits.unwrap_or(0);
            written = after;
        }
        written
    }
}

/// The ReplicaSet with the template of the Deployment.
fn new_set<'a>(deployment: &Deployment, sets: &'a [ReplicaSet]) -> Option<&'a ReplicaSet> {
    let template = &deployment.spec.template;
    let owned = sets.iter().filter(|set| is_owned(deployment, set));
    let mut new: Vec<_> = owned.filter(|set| set.template.same_as(template)).collect();
    new.sort_by_key(|set| (set.metadata.creation_timestamp, &set.metadata.name));
    new.first().copied()
}

/// Whether all desired pods are updated and available, and no others exist.
fn is_complete(snapshot: &Snapshot, new: Option<&ReplicaSet>) -> bool {
    let deployment = &snapshot.deployment;
    let sets = snapshot.replica_sets.iter();
    let owned = sets.filter(|set| is_owned(deployment, set));
    let (pods, available) = owned.fold((0, 0), |(pods, available), set| {
        let status = &set.status;
        (
            pods + status.replicas,
            available + status.available_replicas,
        )
    });
    let wanted = deployment.spec.replicas;
    let updated = new.map(|set| set.status.replicas);
    updated == Some(wanted) && pods == wanted && available == wanted
}

/// Whether the condition is not about the current rollout of the new ReplicaSet.
fn is_outdated(status: &DeploymentStatus, new: &ReplicaSet, completed: Option<&str>) -> bool {
    status::condition(status, PROGRESSING).is_some_and(|progressing| {
        named(progressing) != Some(&new.metadata.name)
            || is_available(status) && completed != Some(&new.metadata.uid)
    })
}

fn writes_status(plan: &Plan) -> bool {
    let mut actions = plan.steps.iter().filter_map(|step| step.action.as_ref());
    actions.any(|it| matches!(it, Action::UpdateDeploymentStatus { .. }))
}

/// Whether a plan reports a complete rollout. A plan that ends before it calculates a status has the stored one, which may
/// be about an earlier rollout of the same ReplicaSet: it writes only other objects, or nothing after a call was rejected.
fn reports_available(snapshot: &Snapshot, plan: &Plan) -> bool {
    let writes_nothing = plan.steps.iter().all(|step| step.action.is_none());
    let calculates = writes_status(plan) || writes_nothing && snapshot.failures.is_empty();
    calculates && is_available(&plan.status)
}

/// Whether a status reports that a rollout begins, or that its ReplicaSet could not be created.
fn reports_begin(status: &DeploymentStatus) -> bool {
    const REASONS: [&str; 3] = [
        "NewReplicaSetCreated",
        "FoundNewReplicaSet",
        "ReplicaSetCreateError",
    ];
    status::condition(status, PROGRESSING)
        .is_some_and(|progressing| REASONS.contains(&&*progressing.reason))
}

/// Whether a status reports a complete rollout.
fn is_available(status: &DeploymentStatus) -> bool {
    status::condition(status, PROGRESSING)
        .is_some_and(|progressing| progressing.reason == NEW_SET_AVAILABLE)
}

/// The name in a message.
fn named(condition: &Condition) -> Option<&str> {
    condition.message.split('"').nth(1)
}

/// The parts of the conditions that are compared.
fn compared(status: &DeploymentStatus) -> Vec<(&str, &str, &str, Option<&str>)> {
    let conditions = status.conditions.iter().map(|condition| {
        let Condition {
            kind,
            status,
            reason,
            ..
        } = condition;
        (
            kind.as_str(),
            status.as_str(),
            reason.as_str(),
            named(condition),
        )
    });
    let mut conditions: Vec<_> = conditions.collect();
    conditions.sort_unstable();
    conditions
}
