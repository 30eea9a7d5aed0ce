//! Things done wrong on purpose, so that it is seen which check catches them.

use rollplan_core::action::{Action, apply};
use rollplan_core::snapshot::{Options, ReplicaSet, Snapshot};
use rollplan_core::{Plan, plan_pass, plan_settled};

/// Something done wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flaw {
    /// Nothing.
    #[default]
    None,
    /// The adapter believes its cache alone, without what its own writes returned.
    NoOverlay,
    /// A new adapter starts from what the old one's watches had delivered.
    StaleStart,
    /// After a timeout the adapter looks at its cache instead of at the object.
    NoLookAfterTimeout,
    /// The adapter goes on with its plan after any failure.
    GoesOn,
    /// The adapter never tells the planner what was refused.
    ForgetsFailures,
    /// The adapter sets no timer.
    NoTimer,
    /// The adapter says that it sends all pods, and sends none.
    NoPods,
    /// The adapter leaves preconditions out.
    NoPreconditions,
    /// The adapter adopts without the check before.
    NoOwnerCheck,
    /// The look-ahead counts pods that it has taken away.
    NoClamp,
    /// A plan grows ReplicaSets before it shrinks others.
    UpsFirst,
    /// What an action does is told wrong: a change of size loses its annotations.
    ForgetfulApply,
}

impl Flaw {
    /// Each of them.
    pub const ALL: &[Self] = &[
        Self::NoOverlay,
        Self::StaleStart,
        Self::NoLookAfterTimeout,
        Self::GoesOn,
        Self::ForgetsFailures,
        Self::NoTimer,
        Self::NoPods,
        Self::NoPreconditions,
        Self::NoOwnerCheck,
        Self::NoClamp,
        Self::UpsFirst,
        Self::ForgetfulApply,
    ];

    /// The planner, with this done wrong.
    pub(crate) fn plan(self, snapshot: &Snapshot, options: Options) -> Plan {
        match self {
            Self::NoClamp => unclamped(snapshot, options),
            Self::UpsFirst => {
                let mut plan = plan_settled(snapshot, options);
                plan.steps.sort_by_key(|step| match &step.action {
                    Some(Action::CreateReplicaSet(_)) => 0,
                    Some(Action::ScaleReplicaSet { from, to, .. }) => i32::from(to < from),
                    Some(Action::UpdateDeploymentStatus { .. }) => 3,
                    _ => 2,
                });
                plan
            }
            _ => plan_settled(snapshot, options),
        }
    }

    /// What an action does, told with this done wrong.
    pub(crate) fn apply(self, snapshot: &mut Snapshot, action: &Action) {
        match (self, action) {
            (Self::ForgetfulApply, Action::ScaleReplicaSet { set, from, to, .. }) => {
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

/// A look-ahead by Kubernetes' own passes, counting what is reported.
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
