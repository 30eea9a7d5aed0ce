//! Restarts of workloads whose configuration has changed: which workloads, why, when, and by which API calls.
//!
//! Pods read environment variables and `subPath` mounts when they start, so a changed ConfigMap or Secret has no effect on
//! them until they are restarted. [`plan_restarts`] compares the configuration that each workload reads with the
//! configuration that it has applied according to its [`State`], and decides: do nothing, record, wait, hold or restart.
//!
//! All state is in annotations of the workload, so the caller and the planner may be killed at any time. The planner never
//! sees the values of configurations, only their checksums.
//!
//! `reference` of rollplan-core finds the configurations that a pod template uses. Each further step of a decision is a file:
//! `selection` finds those that a workload reacts to, `compare`, `freshness` and `drift` find the changes, `decide` and `window`
//! determine when the workload may restart, `guard` limits restarts across workloads, and `write` turns decisions into API
//! calls. `sync` leads the loop of a controller.

mod checksum;
mod compare;
mod configuration;
mod decide;
mod draft;
mod drift;
mod duration;
mod freshness;
mod guard;
mod marker;
mod options;
mod plan;
mod selection;
mod state;
pub mod sync;
mod window;
mod workload;
mod write;

pub use checksum::{Data, DataError, Hasher};
pub use compare::{Change, ChangeKind};
pub use configuration::{Configuration, Content};
pub use duration::parse_duration;
pub use options::{Options, Profile, ReloaderOptions, RestartOn, Strategy};
pub use plan::{
    Calls, Condition, Decision, Effect, Input, Plan, RestartCounts, RestartStep, Use, WorkloadPlan,
};
pub use rollplan_core::reference::{ConfigurationKind, ContainerAt, Reference, Usage, references};
pub use selection::{CHANGE_SET, ENABLED, IGNORE};
pub use state::{STATE, State, XING_STATE};
pub use workload::{Rollout, Started, Workload, WorkloadKind};

use rollplan_core::interrupt::{Interrupt, Interrupted};
use rollplan_core::time::Time;

use self::decide::decide;
use self::selection::Index;
use self::write::steps;

/// Plans restarts.
///
/// # Errors
///
/// [`Interrupted`].
pub fn plan_restarts(input: &Input, interrupt: &dyn Interrupt) -> Result<Plan, Interrupted> {
    let index = Index::new(&input.configurations);
    let mut counts = RestartCounts {
        workloads: input.workloads.len(),
        ..RestartCounts::default()
    };
    let mut order: Vec<usize> = (0..input.workloads.len()).collect();
    order.sort_by(|a, b| {
        let (a, b) = (&input.workloads[*a], &input.workloads[*b]);
        a.order().cmp(&b.order())
    });
    let mut drafts = Vec::with_capacity(order.len());
    for at in order {
        interrupt.check()?;
        if let Some(mut draft) = decide(input, &index, at, &mut counts) {
            draft.withhold(&input.calls);
            drafts.push(draft);
        }
    }
    guard::apply(input, &mut drafts);
    let mut workloads = Vec::with_capacity(drafts.len());
    let mut next: Option<Time> = None;
    for draft in drafts {
        interrupt.check()?;
        counts.decisions[draft.decision as usize] += 1;
        let steps = if draft.is_withheld {
            Vec::new()
        } else {
            steps(input, &draft)
        };
        let timers = [draft.due, draft.resume_at, draft.retry_at];
        let earliest = timers
            .into_iter()
            .flatten()
            .filter(|it| *it > input.now)
            .min();
        next = [next, earliest].into_iter().flatten().min();
        workloads.push(WorkloadPlan {
            index: draft.index,
            decision: draft.decision,
            changes: draft.changes,
            conditions: draft.conditions,
            due: draft.due,
            is_restarting: draft.is_restarting || draft.decision == Decision::Restart,
            steps,
            uses: draft.uses,
        });
    }
    Ok(Plan {
        workloads,
        requeue_after: next.map(|next| next.since(input.now)),
        counts,
    })
}
