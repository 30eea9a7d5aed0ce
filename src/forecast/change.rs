//! The changes of a forecast, and what they do to a Deployment.

use rollplan_core::action::apply;
use rollplan_core::interrupt::{Interrupt, Interrupted};
use rollplan_core::pass::{has_template_of, is_refused, roles};
use rollplan_core::revision::{self, REVISION};
use rollplan_core::rollback_until;
use rollplan_core::size::IntOrPercent;
use rollplan_core::snapshot::{Deployment, DeploymentSpec, ReplicaSet, Snapshot, Strategy};
use rollplan_core::template::{Template, TemplateChange, Value, template_changes};

use crate::ForecastError;

/// A change of a Deployment.
#[derive(Clone, Debug)]
pub enum Change {
    /// The whole Deployment after the change. Its status is ignored.
    Deployment(Box<Deployment>),
    /// The new number of desired pods.
    Replicas(i32),
    /// The revision to roll back to. 0 means the previous revision.
    Undo(i64),
    /// Whether rollouts are paused.
    Paused(bool),
}

/// What the changes of a forecast do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The pod template and the number of desired pods stay as they are.
    NoChange,
    /// Only the number of desired pods changes. No pod is replaced.
    ScaleOnly,
    /// The pod template is new: a rollout replaces all pods.
    StartsRollout,
    /// The pod template is that of this earlier revision: a rollout replaces all pods, with the ReplicaSet of that revision.
    ReturnsToRevision(i64),
    /// The pod template changes, but the Deployment is paused: the rollout starts when it is resumed.
    HeldByPause,
}

/// A snapshot after the changes.
pub(crate) struct Changed {
    pub(crate) snapshot: Snapshot,
    pub(crate) effect: Effect,
    pub(crate) template_changes: Vec<TemplateChange>,
    pub(crate) spec_changes: Vec<TemplateChange>,
}

/// Applies changes in their order.
pub(crate) fn apply_changes(
    before: &Snapshot,
    changes: Vec<Change>,
    interrupt: &dyn Interrupt,
) -> Result<Result<Changed, ForecastError>, Interrupted> {
    let mut snapshot = before.clone();
    // These are answers to an earlier plan. Whatever they were, the forecast is about what follows.
    snapshot.failures.clear();
    for change in changes {
        let deployment = &mut snapshot.deployment;
        let generation = deployment.metadata.generation;
        let is_changed = match change {
            Change::Deployment(changed) => replace(deployment, *changed),
            Change::Replicas(replicas) => {
                std::mem::replace(&mut deployment.spec.replicas, replicas) != replicas
            }
            Change::Paused(paused) => {
                std::mem::replace(&mut deployment.spec.paused, paused) != paused
            }
            Change::Undo(revision) => {
                let rollback = match rollback_until(&snapshot, revision, interrupt)? {
                    Ok(rollback) => rollback,
                    Err(error) => return Ok(Err(error.into())),
                };
                let actions = rollback.steps.iter().filter_map(|it| it.action.as_ref());
                actions.for_each(|action| apply(&mut snapshot, action));
                false
            }
        };
        if is_changed {
            snapshot.deployment.metadata.generation = generation.saturating_add(1);
        }
    }
    let reference = rolled_out(before, interrupt);
    let (from, to) = (reference.template(), &snapshot.deployment.spec.template);
    let is_same = match &reference {
        Reference::Deployment(deployment) => deployment.spec.template.same_as(to),
        Reference::ReplicaSet(set) => has_template_of(set, &snapshot.deployment),
    };
    let template_changes = if is_same {
        Vec::new()
    } else {
        template_changes(from, to, interrupt)
    };
    let effect = effect(before, &snapshot, is_same, interrupt);
    interrupt.check()?;
    let spec_changes = spec_changes(&before.deployment.spec, &snapshot.deployment.spec);
    Ok(Ok(Changed {
        snapshot,
        effect,
        template_changes,
        spec_changes,
    }))
}

/// What the template after the changes is compared with.
enum Reference<'a> {
    Deployment(&'a Deployment),
    ReplicaSet(&'a ReplicaSet),
}

// === impl Reference ===

impl Reference<'_> {
    fn template(&self) -> &Template {
        match self {
            Self::Deployment(deployment) => &deployment.spec.template,
            Self::ReplicaSet(set) => &set.template,
        }
    }
}

/// The template that is rolled out: that of the Deployment, unless a pause holds it. Then it is that of the latest revision.
fn rolled_out<'a>(snapshot: &'a Snapshot, interrupt: &dyn Interrupt) -> Reference<'a> {
    let deployment = &snapshot.deployment;
    let latest = || {
        let (new, old) = roles(snapshot, interrupt);
        let number = |set: &&ReplicaSet| revision::revision_of(&set.metadata.annotations);
        match new {
            Some(_) => None,
            None => old.into_iter().max_by_key(number),
        }
    };
    let held = deployment.spec.paused.then(latest).flatten();
    held.map_or(Reference::Deployment(deployment), Reference::ReplicaSet)
}

fn effect(before: &Snapshot, after: &Snapshot, is_same: bool, interrupt: &dyn Interrupt) -> Effect {
    let Deployment { spec, .. } = &after.deployment;
    if is_same {
        return if before.deployment.spec.replicas == spec.replicas {
            Effect::NoChange
        } else {
            Effect::ScaleOnly
        };
    }
    if spec.paused {
        return Effect::HeldByPause;
    }
    let (new, _) = roles(after, interrupt);
    let revision = new.and_then(|set| revision::revision_of(&set.metadata.annotations));
    revision.map_or(Effect::StartsRollout, Effect::ReturnsToRevision)
}

/// Whether a ReplicaSet belongs to the Deployment, or will after its adoption.
pub(crate) fn is_own(snapshot: &Snapshot, set: &ReplicaSet) -> bool {
    let deployment = &snapshot.deployment;
    set.metadata.controller().map_or_else(
        || deployment.spec.selector.matches(&set.metadata.labels),
        |controller| controller.uid == deployment.metadata.uid,
    )
}

/// Replaces the Deployment as a write of the whole object does. The server keeps what only it or the controller writes.
/// Returns whether the spec changes.
fn replace(deployment: &mut Deployment, changed: Deployment) -> bool {
    let Deployment {
        mut metadata,
        mut spec,
        ..
    } = changed;
    let before = &deployment.spec;
    spec.template = stored(&spec.template, deployment);
    let is_changed = is_changed(before, &spec);
    deployment.spec = spec;
    let kept = &mut deployment.metadata;
    if let Some(revision) = kept.annotations.remove(REVISION) {
        let annotations = &mut metadata.annotations;
        annotations.entry(REVISION.to_owned()).or_insert(revision);
    }
    kept.annotations = metadata.annotations;
    kept.labels = metadata.labels;
    is_changed
}

/// A written template as the API server stores it. That of a custom resource is stored as written.
fn stored(written: &Template, deployment: &Deployment) -> Template {
    let current = &deployment.spec.template;
    if written.same_as(current) {
        return current.clone();
    }
    if !deployment.is_native() {
        return written.clone();
    }
    let defaulted = Template::from(written.defaulted().clone());
    if defaulted.same_as(current) {
        current.clone()
    } else {
        defaulted
    }
}

fn is_changed(before: &DeploymentSpec, after: &DeploymentSpec) -> bool {
    !spec_changes(before, after).is_empty()
        || before.selector != after.selector
        || !before.template.same_as(&after.template)
}

/// The fields of a spec other than the selector and the template that differ, sorted by path.
fn spec_changes(before: &DeploymentSpec, after: &DeploymentSpec) -> Vec<TemplateChange> {
    let fields = |spec: &DeploymentSpec| {
        let number = |number: i32| Some(Value::from(number));
        let limit = |limit: IntOrPercent| match limit {
            IntOrPercent::Int(pods) => Value::from(pods),
            percent => Value::from(percent.to_string()),
        };
        let kind = spec.strategy.name();
        let (surge, unavailable) = match spec.strategy {
            Strategy::Recreate => (None, None),
            Strategy::RollingUpdate {
                max_surge,
                max_unavailable,
            } => (Some(limit(max_surge)), Some(limit(max_unavailable))),
        };
        [
            ("minReadySeconds", number(spec.min_ready_seconds)),
            ("paused", Some(Value::from(spec.paused))),
            (
                "progressDeadlineSeconds",
                number(spec.progress_deadline_seconds),
            ),
            ("replicas", number(spec.replicas)),
            ("revisionHistoryLimit", number(spec.revision_history_limit)),
            ("strategy.rollingUpdate.maxSurge", surge),
            ("strategy.rollingUpdate.maxUnavailable", unavailable),
            ("strategy.type", Some(Value::from(kind))),
        ]
    };
    let pairs = fields(before).into_iter().zip(fields(after));
    let changes = pairs.filter(|((_, from), (_, to))| from != to);
    changes
        .map(|((path, from), (_, to))| TemplateChange {
            path: path.to_owned(),
            from,
            to,
        })
        .collect()
}

/// Prepares a snapshot for thousands of passes: removes ReplicaSets of others, unless the planner may use their names, and
/// replaces templates such that comparing them with that of the Deployment takes no time.
pub(crate) fn prepare(snapshot: &mut Snapshot) {
    let prefix = format!("{}-", snapshot.deployment.metadata.name);
    if !is_refused(snapshot) {
        let mut sets = std::mem::take(&mut snapshot.replica_sets);
        sets.retain(|set| is_own(snapshot, set) || set.metadata.name.starts_with(&prefix));
        snapshot.replica_sets = sets;
    }
    if rollplan_core::pass::rollback_annotation::requested(&snapshot.deployment).is_some() {
        // The pass restores one of the templates.
        return;
    }
    let other = Template::from(Value::Null);
    let (deployment, sets) = (&snapshot.deployment, &mut snapshot.replica_sets);
    for set in sets {
        set.template = if has_template_of(set, deployment) {
            deployment.spec.template.clone()
        } else {
            other.clone()
        };
    }
}
