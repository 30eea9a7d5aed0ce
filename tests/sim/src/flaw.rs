//! Deliberate bugs, which show that the checks detect them.

use rollplan_core::action::{Action, apply};
use rollplan_core::revision::REVISION;
use rollplan_core::snapshot::{Options, ReplicaSet, Snapshot};
use rollplan_core::{Plan, plan_pass, plan_settled};

/// A deliberate bug.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flaw {
    /// No bug.
    #[default]
    None,
    /// The planner uses only the adapter's cache, without the versions in the answers.
    ForgetsVersions,
    /// The planner trusts the adapter's cache before it has read the ReplicaSets.
    TrustsCache,
    /// The adapter reads from its cache what it must read from the API server.
    ReadsFromCache,
    /// An adapter that leads again continues with the state of its earlier lease.
    KeepsStateOfEarlierLease,
    /// The adapter returns the objects in its cache instead of those in the answers.
    ReturnsCachedObjects,
    /// The adapter continues its plan after every failure.
    IgnoresFailures,
    /// The adapter does not report rejected calls to the planner.
    ReportsNoFailures,
    /// The adapter sets no timer.
    NoTimer,
    /// The adapter claims to send all pods, but sends none.
    NoPods,
    /// The adapter claims to send all ReplicaSets, but omits the oldest.
    PartialSets,
    /// The adapter omits preconditions.
    NoPreconditions,
    /// The adapter adopts ReplicaSets without checking the owner.
    NoOwnerCheck,
    /// The look-ahead counts pods that it has already removed.
    NoClamp,
    /// Plans scale up before they scale down.
    ScalesUpFirst,
    /// The predicted effect of a scale action lacks its annotations.
    ApplyDropsAnnotations,
    /// The planner keeps the condition that a custom resource has of an earlier rollout.
    KeepsEarlierCondition,
    /// A caller of verdicts treats pods that are not ready yet as a failure.
    JudgesUnready,
    /// A caller of verdicts does not send back the previous one.
    ForgetsVerdict,
}

impl Flaw {
    /// All bugs.
    pub const ALL: &[Self] = &[
        Self::ForgetsVersions,
        Self::TrustsCache,
        Self::ReadsFromCache,
        Self::KeepsStateOfEarlierLease,
        Self::ReturnsCachedObjects,
        Self::IgnoresFailures,
        Self::ReportsNoFailures,
        Self::NoTimer,
        Self::NoPods,
        Self::PartialSets,
        Self::NoPreconditions,
        Self::NoOwnerCheck,
        Self::NoClamp,
        Self::ScalesUpFirst,
        Self::ApplyDropsAnnotations,
        Self::KeepsEarlierCondition,
        Self::JudgesUnready,
        Self::ForgetsVerdict,
    ];

    /// Plans with this bug.
    pub(crate) fn plan(self, snapshot: &Snapshot, options: Options) -> Plan {
        match self {
            Self::NoClamp => unclamped(snapshot, options),
            Self::ScalesUpFirst => {
                let mut plan = plan_settled(snapshot, options);
                plan.steps.sort_by_key(|step| match &step.action {
                    Some(Action::CreateReplicaSet(_)) => 0,
                    Some(Action::ScaleReplicaSet { from, to, .. }) => i32::from(to < from),
                    Some(Action::UpdateDeploymentStatus { .. }) => 3,
                    _ => 2,
                });
                plan
            }
            Self::KeepsEarlierCondition if !snapshot.deployment.is_native() => Plan {
                // The revision is never written.
                settled: false,
                ..plan_settled(&with_current_condition(snapshot), options)
            },
            _ => plan_settled(snapshot, options),
        }
    }

    /// Predicts the effect of an action with this bug.
    pub(crate) fn apply(self, snapshot: &mut Snapshot, action: &Action) {
        match (self, action) {
            (Self::ApplyDropsAnnotations, Action::ScaleReplicaSet { set, from, to, .. }) => {
                let action = Action::ScaleReplicaSet {
                    set: set.clone(),
                    from: *from,
                    to: *to,
                    change: Default::default(),
                };
                apply(snapshot, &action);
            }
            _ => apply(snapshot, action),
        }
    }
}

/// The snapshot with the condition of an earlier rollout as that of the current one.
fn with_current_condition(snapshot: &Snapshot) -> Snapshot {
    let mut snapshot = snapshot.clone();
    let deployment = &mut snapshot.deployment;
    let template = &deployment.spec.template;
    let mut sets = snapshot.replica_sets.iter();
    if let Some(new) = sets.find(|set| set.template.same_as(template)) {
        let revision = new.metadata.annotations.get(REVISION).cloned();
        let revision = revision.unwrap_or_default();
        deployment
            .metadata
            .annotations
            .insert(REVISION.to_owned(), revision);
        for condition in &mut deployment.status.conditions {
            if let Some(named) = condition.message.split('"').nth(1) {
                condition.message = condition.message.replace(named, &new.metadata.name);
            }
        }
    }
    snapshot
}

/// A look-ahead that repeats one sync of Kubernetes, and counts the pods that were reported.
fn unclamped(snapshot: &Snapshot, options: Options) -> Plan {
    let mut world = snapshot.clone();
    let mut steps = Vec::new();
    let mut plan = plan_pass(&world, options);
    for _ in 0..8 {
        let status = |action: &Action| matches!(action, Action::UpdateDeploymentStatus { .. });
        let (last, writes): (Vec<_>, Vec<_>) = plan
            .steps
            .iter()
            .cloned()
            .partition(|step| step.action.as_ref().is_some_and(status));
        steps.retain(|step: &rollplan_core::action::Step| {
            !step.action.as_ref().is_some_and(status) || last.is_empty()
        });
        let at = steps.len();
        steps.extend(writes);
        steps.extend(last);
        if steps.len() == at {
            break;
        }
        for action in plan.steps.iter().filter_map(|step| step.action.as_ref()) {
            apply(&mut world, action);
        }
        for set in &mut world.replica_sets {
            set.available_max = ReplicaSet::UNTOUCHED;
        }
        plan = plan_pass(&world, options);
    }
    Plan { steps, ..plan }
}
