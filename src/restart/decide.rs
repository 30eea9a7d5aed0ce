//! The decision on one workload, except for the limits that depend on other workloads.

use rollplan_core::reference::{ConfigurationKind, Usage};
use rollplan_core::template::parse_time;

use super::compare::{Change, ChangeKind};
use super::draft::{Draft, HOUR};
use super::drift::{Drift, Found};
use super::duration::{parse_duration, span};
use super::marker::{PAUSE_PERIOD, PAUSED_AT, marker_is_stripped};
use super::options::{Options, Profile};
use super::plan::{Condition, Decision, Effect, Input, RestartCounts, STARTS_UNKNOWN, Use};
use super::selection::{Index, Tracked, select};
use super::state::{State, from_millis, millis};
use super::window::Window;
use super::workload::{Rollout, Started, Workload, WorkloadKind};

/// Decides on a workload. `None` if it is not selected.
pub(super) fn decide<'a>(
    input: &'a Input,
    index: &Index<'a>,
    at: usize,
    counts: &mut RestartCounts,
) -> Option<Draft<'a>> {
    let workload = &input.workloads[at];
    let options = &input.options;
    let mut notes = Vec::new();
    let tracked = if workload.is_deleting {
        return None;
    } else {
        select(workload, options, index, &mut notes)?
    };
    counts.selected += 1;
    counts.references += tracked.iter().filter(|it| it.counts).count();
    let (state, is_readable) = State::read(&workload.annotations, options.profile);
    let mut conditions: Vec<Condition> = notes
        .into_iter()
        .map(|note| Condition::new(Effect::Informs, "INVALID_ANNOTATION", note))
        .collect();
    if !is_readable {
        let message = "the recorded state cannot be read, and counts as absent";
        conditions.push(Condition::new(Effect::Informs, "STATE_UNREADABLE", message));
    }
    let uses = if options.uses {
        tracked.iter().filter(|it| it.counts).map(uses).collect()
    } else {
        Vec::new()
    };
    let mut recorded = state.clone();
    let mut restarted = state.clone();
    let mut drift = Drift {
        times: Some(Vec::new()),
        ..Drift::default()
    };
    for tracked in tracked {
        let found = Found::new(input, index, workload, tracked, &state);
        if found.is_unknown() {
            counts.unknown += 1;
        }
        found.apply(&state, &mut drift, &mut recorded, &mut restarted);
    }
    if let Some(at) = drift.folded_at {
        recorded.applied_at = recorded.applied_at.max(Some(at));
    }
    let is_stripped = marker_is_stripped(options, workload, &state);
    if is_stripped {
        let message = "the annotation of the last restart is missing from the pod template: another tool may manage the template";
        conditions.push(Condition::new(Effect::Informs, "MARKER_STRIPPED", message));
    }
    let now = millis(input.now);
    // Each restart has a different mark.
    let last = restarted.restarts.last();
    restarted.restarted(last.map_or(now, |last| now.max(last.saturating_add(1))));
    let mut draft = Draft {
        index: at,
        workload,
        decision: Decision::None,
        changes: Vec::new(),
        conditions,
        due: None,
        resume_at: None,
        resumes: false,
        is_certain: drift.is_certain,
        is_unclear: drift.is_unclear,
        retry_at: drift.retry_at,
        uses,
        is_restarting: is_restarting(workload, &state, is_stripped, now),
        state,
        recorded,
        restarted,
        sources: drift.sources,
        drifting: drift.drifting,
        settled: drift.settled,
        since: now,
        is_withheld: false,
    };
    for missing in drift.missing {
        draft.note(
            Effect::PreventsStart,
            "REQUIRED_MISSING",
            format!("{missing} does not exist, and pods cannot start without it"),
        );
    }
    if !drift.unproven.is_empty() {
        let subjects = drift.unproven.join(", ");
        let message = format!(
            "nothing was recorded, and the times do not show whether {subjects} changed after the pods were started: recorded as it is now"
        );
        draft.note(Effect::Informs, "CHANGE_UNPROVEN", message);
    }
    if !drift.folded.is_empty() {
        let subjects = drift.folded.join(", ");
        match workload.started {
            Started::Never => {
                let message = "there are no pods to restart: new ones start with the change";
                draft.note(Effect::NotNeeded, "NO_PODS", message.to_owned());
            }
            _ => {
                let message = format!("the pods were started after the change of {subjects}");
                draft.note(Effect::NotNeeded, "STARTED_WITH_CHANGE", message);
            }
        }
    }
    draft.changes = drift.changes;
    draft.find_undone(options);
    let window = Window {
        input,
        now,
        times: drift.times.filter(|times| !times.is_empty()),
        change_sets: drift.change_sets,
    };
    draft.finish(&window);
    Some(draft)
}

fn uses(tracked: &Tracked<'_>) -> Use {
    let mut usages: Vec<_> = tracked.uses.iter().map(|it| it.usage).collect();
    if usages.is_empty() {
        usages.push(Usage::Named);
    }
    usages.sort_unstable();
    usages.dedup();
    let keys = tracked.reading.keys.iter().map(|it| (*it).to_owned());
    Use {
        kind: tracked.kind,
        name: tracked.name.to_owned(),
        usages,
        keys: if tracked.reading.is_whole {
            Vec::new()
        } else {
            keys.collect()
        },
    }
}

fn is_restarting(workload: &Workload, state: &State, is_stripped: bool, now: i64) -> bool {
    let is_rolling = matches!(workload.rollout, Rollout::Progressing | Rollout::Stalled);
    let last = state.restarts.last();
    is_rolling && !is_stripped && last.is_some_and(|last| now.saturating_sub(*last) < HOUR)
}

// === impl Draft ===

impl Draft<'_> {
    fn note(&mut self, effect: Effect, reason: &'static str, message: String) {
        self.conditions
            .push(Condition::new(effect, reason, message));
    }

    /// Adds a change if pods started before the last change was applied, for example after an undo: they run with an older
    /// configuration.
    fn find_undone(&mut self, options: &Options) {
        let (Some(applied_at), Some(started)) =
            (self.state.applied_at, self.workload.started.oldest())
        else {
            return;
        };
        if !self.changes.is_empty()
            || millis(started).saturating_add(span(options.skew)) >= applied_at
        {
            return;
        }
        let kind = self.workload.workload_kind();
        let is_job = matches!(kind, WorkloadKind::Job | WorkloadKind::CronJob);
        // A rollout in progress will still replace them.
        if is_job || self.workload.rollout == Rollout::Progressing {
            return;
        }
        self.is_certain = true;
        self.changes.push(Change {
            kind: ConfigurationKind::ConfigMap,
            namespace: self.workload.namespace.clone(),
            name: String::new(),
            key: String::new(),
            change: ChangeKind::Undone,
        });
    }

    fn finish(&mut self, window: &Window<'_>) {
        self.resume(window.input);
        if self.changes.is_empty() {
            if self.is_unclear {
                self.note(Effect::Informs, STARTS_UNKNOWN, self.starts_unknown());
            } else {
                self.recorded.pending = None;
            }
            self.decision = if self.recorded == self.state && !self.resumes {
                Decision::None
            } else {
                Decision::Record
            };
            return;
        }
        if self.workload.workload_kind() == WorkloadKind::CronJob
            && window.input.options.profile != Profile::Reloader
        {
            let message = "the next Job starts with it".to_owned();
            self.note(Effect::NotNeeded, "NEXT_JOB", message);
            self.recorded.applied.clone_from(&self.restarted.applied);
            self.recorded.pending = None;
            self.decision = Decision::Record;
            return;
        }
        let (pending, due) = window.pending(self);
        self.since = pending.since;
        let held = self.holds(window, &pending);
        let waits = self.waits(window, due);
        let is_held = !held.is_empty();
        if !is_held && waits.is_empty() {
            self.decision = Decision::Restart;
            self.due = Some(from_millis(due));
            return;
        }
        let untimed = held.iter().any(|it| it.until.is_none());
        let until = held.iter().chain(&waits).filter_map(|it| it.until).max();
        self.due = until.filter(|_| !untimed);
        self.conditions.extend(held.into_iter().chain(waits));
        self.decision = if is_held {
            Decision::Hold
        } else {
            Decision::Wait
        };
        let is_ever_restarted = self.workload.workload_kind() != WorkloadKind::Job
            || window.input.options.profile == Profile::Reloader;
        self.recorded.pending = is_ever_restarted.then_some(pending);
    }

    /// Decides when a Deployment is resumed: Reloader pauses it for a period after a restart.
    fn resume(&mut self, input: &Input) {
        let annotations = &self.workload.annotations;
        let paused_at = annotations.get(PAUSED_AT).and_then(|it| parse_time(it));
        let period = annotations
            .get(PAUSE_PERIOD)
            .and_then(|it| parse_duration(it));
        let (Profile::Reloader, Some(paused_at)) = (input.options.profile, paused_at) else {
            return;
        };
        // Without a period, it is resumed at once.
        let until = millis(paused_at).saturating_add(period.map_or(0, span));
        self.resumes = until <= millis(input.now);
        self.resume_at = (!self.resumes).then(|| from_millis(until));
    }
}
