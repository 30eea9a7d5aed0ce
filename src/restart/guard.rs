//! Limits across workloads: restarts that must wait for others.

use std::collections::HashMap;

use rollplan_core::reference::ConfigurationKind;

use super::draft::Draft;
use super::plan::{Condition, Decision, Effect, Input, MAX_CONCURRENT};
use super::workload::Rollout;

/// A configuration in a namespace.
type ConfigurationKey<'a> = (&'a str, ConfigurationKind, &'a str);

/// Holds restarts that exceed the maximum, and restarts for a configuration with which another workload is stalled.
pub(super) fn apply(input: &Input, drafts: &mut [Draft<'_>]) {
    let options = &input.options;
    let stalled = if options.breaker {
        stalled(drafts)
    } else {
        HashMap::new()
    };
    let under_way = drafts.iter().filter(|it| it.is_restarting).count() + input.calls.elsewhere;
    let mut free = match options.max_concurrent {
        0 => usize::MAX,
        max => max.saturating_sub(under_way),
    };
    let mut candidates: Vec<usize> = (0..drafts.len())
        .filter(|at| drafts[*at].decision == Decision::Restart)
        .collect();
    candidates.sort_by(|a, b| {
        let (a, b) = (&drafts[*a], &drafts[*b]);
        (a.due, a.workload.order()).cmp(&(b.due, b.workload.order()))
    });
    for at in candidates {
        let draft = &mut drafts[at];
        let namespace = draft.workload.namespace.as_str();
        let drifting = draft.drifting.iter();
        let breaker = drifting
            .filter_map(|(kind, name)| stalled.get(&(namespace, *kind, *name)))
            .next();
        // A workload that is already restarting is already counted.
        let needs_place = !draft.is_restarting;
        if let Some(stalled) = breaker {
            let message =
                format!("{stalled} was restarted for the same configuration, and is stalled");
            hold(draft, "BREAKER", message);
        } else if needs_place && free == 0 {
            let message = format!(
                "at most {} restarts may be in progress",
                options.max_concurrent
            );
            hold(draft, MAX_CONCURRENT, message);
        } else if needs_place {
            free = free.saturating_sub(1);
        }
    }
}

/// The configurations of workloads that have stalled after a restart, each with one such workload.
fn stalled<'a>(drafts: &[Draft<'a>]) -> HashMap<ConfigurationKey<'a>, String> {
    let mut found = HashMap::new();
    for draft in drafts {
        let workload = draft.workload;
        if !draft.is_restarting || workload.rollout != Rollout::Stalled {
            continue;
        }
        let name = format!("{} {}/{}", workload.kind, workload.namespace, workload.name);
        for (kind, configuration) in &draft.settled {
            let id = (workload.namespace.as_str(), *kind, *configuration);
            found.entry(id).or_insert_with(|| name.clone());
        }
    }
    found
}

fn hold(draft: &mut Draft<'_>, reason: &'static str, message: String) {
    draft.decision = Decision::Hold;
    draft.due = None;
    let condition = Condition::new(Effect::Holds, reason, message);
    draft.conditions.push(condition);
}
