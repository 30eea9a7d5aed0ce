//! The decision on one workload, apart from those that depend on other workloads.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::template::parse_time;
use crate::time::Time;

use super::checksum::digest;
use super::compare::{Change, ChangeKind, Current, Difference, Reading};
use super::configuration::{Configuration, ConfigurationKind, Content};
use super::duration::parse_duration;
use super::marker::{PAUSE_PERIOD, PAUSED_AT, applied_marker, marker_is_stripped};
use super::options::{Options, Profile};
use super::plan::{Condition, Counts, Decision, Input, Use};
use super::selection::{CHANGE_SET, Index, Tracked, select};
use super::state::{Applied, Pending, State, from_millis, key, millis};
use super::workload::{Rollout, Started, Workload, WorkloadKind};

/// Until when a workload or namespace is not restarted, as a time of RFC 3339.
const HOLD_UNTIL: &str = "rollplan.dev/restart-hold-until";
/// On a namespace, "true" if nothing in it is restarted.
const FROZEN: &str = "rollplan.dev/restart-frozen";
/// Per workload, instead of the options of the call.
const QUIET: &str = "rollplan.dev/restart-quiet";
const MAX_WAIT: &str = "rollplan.dev/restart-max-wait";
const MIN_INTERVAL: &str = "rollplan.dev/restart-min-interval";

const HOUR: i64 = 3_600_000;
/// After so many restarts within an hour, pods with an older configuration are only reported.
const UNDONE_RESTARTS_MAX: usize = 3;

/// A decision, and what writes are made from.
#[derive(Debug)]
pub(super) struct Draft<'a> {
    pub(super) index: usize,
    pub(super) workload: &'a Workload,
    pub(super) decision: Decision,
    pub(super) changes: Vec<Change>,
    pub(super) conditions: Vec<Condition>,
    pub(super) due: Option<Time>,
    /// When a paused Deployment is to be resumed, and whether that is now.
    pub(super) resume_at: Option<Time>,
    pub(super) resumes: bool,
    pub(super) uses: Vec<Use>,
    /// The state as it is stored, without a restart, and with one.
    pub(super) state: State,
    pub(super) recorded: State,
    pub(super) restarted: State,
    /// What the restart is for: tracked configurations with their checksums, for Reloader's markers.
    pub(super) sources: Vec<Source<'a>>,
    /// Configurations with changes, and those that are applied as they are.
    pub(super) drifting: Vec<(ConfigurationKind, &'a str)>,
    pub(super) settled: Vec<(ConfigurationKind, &'a str)>,
    /// Since when the workload has been waiting, in milliseconds.
    pub(super) since: i64,
    /// Whether a restart of ours is under way.
    pub(super) is_restarting: bool,
}

/// A configuration that a restart is for.
#[derive(Debug)]
pub(super) struct Source<'a> {
    pub(super) kind: ConfigurationKind,
    pub(super) name: &'a str,
    pub(super) checksum: String,
    pub(super) uses: Vec<&'a super::reference::Reference>,
}

/// What was found out about the configurations of a workload.
#[derive(Debug, Default)]
struct Drift<'a> {
    changes: Vec<Change>,
    drifting: Vec<(ConfigurationKind, &'a str)>,
    settled: Vec<(ConfigurationKind, &'a str)>,
    sources: Vec<Source<'a>>,
    missing: Vec<String>,
    change_sets: BTreeSet<&'a str>,
    /// When the changes were made, if all times are known.
    times: Option<Vec<i64>>,
    /// The latest change with which all pods have started.
    folded_at: Option<i64>,
}

/// Decides about a workload. `None` if it is not selected.
pub(super) fn decide<'a>(
    input: &'a Input,
    index: &Index<'a>,
    at: usize,
    counts: &mut Counts,
) -> Option<Draft<'a>> {
    let workload = &input.workloads[at];
    let options = &input.options;
    let mut notes = Vec::new();
    let tracked = match workload.is_deleting {
        true => return None,
        false => select(workload, options, index, &mut notes)?,
    };
    counts.selected += 1;
    counts.references += tracked.len();
    let (state, is_readable) = State::read(&workload.annotations, options.profile);
    let mut conditions: Vec<Condition> = notes
        .into_iter()
        .map(|note| condition("INVALID_ANNOTATION", note, None))
        .collect();
    if !is_readable {
        let message = "the recorded state cannot be read, and counts as absent".to_owned();
        conditions.push(condition("STATE_UNREADABLE", message, None));
    }
    let uses = match options.uses {
        true => tracked.iter().map(uses).collect(),
        false => Vec::new(),
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
        found.apply(options, &mut drift, &mut recorded, &mut restarted);
    }
    if let Some(at) = drift.folded_at {
        recorded.applied_at = recorded.applied_at.max(Some(at));
    }
    let is_stripped = marker_is_stripped(options, workload, &state);
    if is_stripped {
        let message = "the mark of the last restart is gone from the pod template; is the template managed elsewhere?";
        conditions.push(condition("MARKER_STRIPPED", message.to_owned(), None));
    }
    let now = millis(input.now);
    // No two restarts have the same mark.
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
        uses,
        is_restarting: is_restarting(workload, &state, is_stripped, now),
        state,
        recorded,
        restarted,
        sources: drift.sources,
        drifting: drift.drifting,
        settled: drift.settled,
        since: now,
    };
    for missing in drift.missing {
        draft.note(
            "REQUIRED_MISSING",
            format!("{missing} does not exist, and pods do not start without it"),
        );
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

/// One configuration of a workload, as it is and as it was applied.
struct Found<'a> {
    workload: &'a Workload,
    tracked: Tracked<'a>,
    configuration: Option<&'a Configuration>,
    key: String,
    applied: Option<Applied>,
    current: Current,
}

impl<'a> Found<'a> {
    fn new(
        input: &'a Input,
        index: &Index<'a>,
        workload: &'a Workload,
        tracked: Tracked<'a>,
        state: &State,
    ) -> Self {
        let profile = input.options.profile;
        let Tracked { kind, name, .. } = tracked;
        let configuration = index.get(kind, &workload.namespace, name);
        let key = key(profile, &workload.namespace, kind, name);
        let applied = state.applied.get(&key).cloned();
        let applied = applied.or_else(|| applied_marker(&input.options, workload, kind, name));
        // A class has no status before it has pods.
        let is_known_absent = configuration.is_none()
            && input.configurations_complete
            && kind != ConfigurationKind::SecretProviderClass;
        let current = match is_known_absent {
            true => absent(&tracked.reading),
            false => tracked.reading.of(configuration, profile),
        };
        Self {
            workload,
            tracked,
            configuration,
            key,
            applied,
            current,
        }
    }

    fn is_unknown(&self) -> bool {
        matches!(self.current, Current::Unknown)
    }

    fn change(&self, key: String, change: ChangeKind) -> Change {
        Change {
            kind: self.tracked.kind,
            namespace: self.workload.namespace.clone(),
            name: self.tracked.name.to_owned(),
            key,
            change,
        }
    }

    /// Adds what it means to the states and to the drift.
    fn apply(
        self,
        options: &Options,
        drift: &mut Drift<'a>,
        recorded: &mut State,
        restarted: &mut State,
    ) {
        let annotations = self.configuration.map(|it| &it.annotations);
        let change_set = annotations.and_then(|it| it.get(CHANGE_SET));
        drift.change_sets.extend(change_set.map(String::as_str));
        let current = match &self.current {
            Current::Unknown => return,
            Current::Missing(key) => {
                let Tracked { kind, name, .. } = &self.tracked;
                drift.missing.push(match key.as_str() {
                    "" => format!("{kind} {}/{name}", self.workload.namespace),
                    key => format!("{key} of {kind} {}/{name}", self.workload.namespace),
                });
                return;
            }
            Current::Known(current) => current.clone(),
        };
        let is_fresh = self.is_fresh(options);
        let changes = self.changes(options, &current, is_fresh);
        let id = (self.tracked.kind, self.tracked.name);
        let insert = |state: &mut State| {
            state.applied.insert(self.key.clone(), current.clone());
        };
        match changes {
            Changes::Keep => {}
            Changes::Same => drift.settled.push(id),
            Changes::Record => {
                drift.settled.push(id);
                insert(recorded);
                insert(restarted);
                if is_fresh == Some(true) {
                    let at = self.configuration.and_then(|it| it.changed_at).map(millis);
                    drift.folded_at = drift.folded_at.max(at);
                }
            }
            Changes::Drift(changes) => {
                insert(restarted);
                drift.drifting.push(id);
                let changed_at = self.configuration.and_then(|it| it.changed_at);
                match (changed_at, &mut drift.times) {
                    (Some(at), Some(times)) => times.push(millis(at)),
                    (None, times) => *times = None,
                    (Some(_), None) => {}
                }
                drift.changes.extend(
                    changes
                        .into_iter()
                        .map(|(key, change)| self.change(key, change)),
                );
                drift.sources.push(Source {
                    kind: self.tracked.kind,
                    name: self.tracked.name,
                    checksum: match current {
                        Applied::Absent => String::new(),
                        Applied::Present(entry) => entry.digest,
                    },
                    uses: self.tracked.uses,
                });
            }
        }
    }

    fn changes(&self, options: &Options, current: &Applied, is_fresh: Option<bool>) -> Changes {
        let observations = self.configuration.map_or(0, |it| it.observations);
        let Some(applied) = &self.applied else {
            let is_drift = is_fresh != Some(true) && observations > 1
                || is_fresh == Some(false) && *current != Applied::Absent;
            return match is_drift {
                true => Changes::Drift(vec![(String::new(), ChangeKind::Unrecorded)]),
                false => Changes::Record,
            };
        };
        let changed = match applied.difference(current) {
            Difference::Same => return Changes::Same,
            Difference::Reading => return Changes::Record,
            Difference::Changed(changed) => changed,
        };
        if is_fresh == Some(true) {
            return Changes::Record;
        }
        let is = |kind| changed.iter().any(|(_, change)| *change == kind);
        match options.profile {
            Profile::Reloader if is(ChangeKind::Created) && !options.reloader.reload_on_create => {
                Changes::Record
            }
            Profile::Reloader if is(ChangeKind::Deleted) && !options.reloader.reload_on_delete => {
                Changes::Keep
            }
            // The original knows no absent configurations, and neither does its annotation.
            Profile::Xing if is(ChangeKind::Deleted) => Changes::Keep,
            _ => Changes::Drift(changed),
        }
    }

    /// Whether all pods have started with the configuration as it is. `None` if that is not known.
    fn is_fresh(&self, options: &Options) -> Option<bool> {
        // The Jobs that a CronJob has started end by themselves.
        if self.workload.workload_kind() == WorkloadKind::CronJob {
            return None;
        }
        let changed_at = self.configuration.and_then(|it| it.changed_at);
        let skew = span(options.skew);
        match (self.workload.started, changed_at) {
            (Started::Never, _) => Some(true),
            (Started::At(started), Some(changed)) => Some(millis(started) > millis(changed) + skew),
            (Started::Unknown, Some(changed)) => {
                let revision = self.workload.revision_at?;
                Some(millis(revision) > millis(changed) + skew)
            }
            (_, None) => None,
        }
    }
}

enum Changes {
    /// Leave what is recorded.
    Keep,
    Same,
    Record,
    Drift(Vec<(String, ChangeKind)>),
}

fn absent(reading: &Reading<'_>) -> Current {
    let absent = Configuration {
        kind: ConfigurationKind::ConfigMap,
        namespace: String::new(),
        name: String::new(),
        annotations: Default::default(),
        content: Content::Absent,
        changed_at: None,
        observations: 0,
    };
    reading.of(Some(&absent), Profile::Rollplan)
}

fn uses(tracked: &Tracked<'_>) -> Use {
    let mut usages: Vec<_> = tracked.uses.iter().map(|it| it.usage).collect();
    if usages.is_empty() {
        usages.push(super::reference::Usage::Named);
    }
    usages.sort_unstable();
    usages.dedup();
    let keys = tracked.reading.keys.iter().map(|it| (*it).to_owned());
    Use {
        kind: tracked.kind,
        name: tracked.name.to_owned(),
        usages,
        keys: match tracked.reading.is_whole {
            true => Vec::new(),
            false => keys.collect(),
        },
    }
}

fn condition(reason: &'static str, message: String, until: Option<Time>) -> Condition {
    Condition {
        reason,
        message,
        until,
    }
}

/// Milliseconds.
fn span(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX / 4)
}

fn is_restarting(workload: &Workload, state: &State, is_stripped: bool, now: i64) -> bool {
    let is_rolling = matches!(workload.rollout, Rollout::Progressing | Rollout::Stuck);
    let last = state.restarts.last();
    is_rolling && !is_stripped && last.is_some_and(|last| now.saturating_sub(*last) < HOUR)
}

/// What a restart waits for.
struct Window<'a> {
    input: &'a Input,
    now: i64,
    times: Option<Vec<i64>>,
    change_sets: BTreeSet<&'a str>,
}

// === impl Draft ===

impl Draft<'_> {
    fn note(&mut self, reason: &'static str, message: String) {
        self.conditions.push(condition(reason, message, None));
    }

    /// Pods that started before their configuration was applied run with an older one, as after an undo.
    fn find_undone(&mut self, options: &Options) {
        let (Some(applied_at), Started::At(started)) =
            (self.state.applied_at, self.workload.started)
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
        // A rollout that has not replaced them yet will.
        if is_job || self.workload.rollout == Rollout::Progressing {
            return;
        }
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
            self.recorded.pending = None;
            self.decision = match self.recorded == self.state && !self.resumes {
                true => Decision::None,
                false => Decision::Record,
            };
            return;
        }
        if self.workload.workload_kind() == WorkloadKind::CronJob
            && window.input.options.profile != Profile::Reloader
        {
            self.note("NEXT_JOB", "the next Job starts with it".to_owned());
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
        self.decision = match is_held {
            true => Decision::Hold,
            false => Decision::Wait,
        };
        let is_ever_restarted = self.workload.workload_kind() != WorkloadKind::Job
            || window.input.options.profile == Profile::Reloader;
        self.recorded.pending = is_ever_restarted.then_some(pending);
    }

    /// What holds the restart, whatever the time window.
    fn holds(&self, window: &Window<'_>, pending: &Pending) -> Vec<Condition> {
        let Input {
            options,
            namespaces,
            ..
        } = window.input;
        let workload = self.workload;
        let mut held = Vec::new();
        let mut hold = |reason, message: &str, until: Option<i64>| {
            held.push(condition(
                reason,
                message.to_owned(),
                until.map(from_millis),
            ));
        };
        let is_reloader = options.profile == Profile::Reloader;
        match workload.workload_kind() {
            WorkloadKind::Job if !is_reloader => hold(
                "JOB",
                "the template of a Job cannot be changed: create the Job again to run it with the new configuration",
                None,
            ),
            WorkloadKind::Job | WorkloadKind::CronJob if workload.object.is_none() => hold(
                "OBJECT_REQUIRED",
                "a Job can only be created from the whole object",
                None,
            ),
            _ => {}
        }
        if workload.is_on_delete {
            let message = "the update strategy is OnDelete: delete the pods to restart them";
            hold("ON_DELETE", message, None);
        }
        if workload.is_paused {
            hold("PAUSED", "the rollout is paused", None);
        }
        if self
            .conditions
            .iter()
            .any(|it| it.reason == "REQUIRED_MISSING")
        {
            let message = "restarted pods would not start";
            hold("RESTART_WOULD_FAIL", message, None);
        }
        if workload.rollout == Rollout::Progressing {
            let message = "a rollout is under way";
            hold("ROLLOUT_IN_PROGRESS", message, None);
        }
        let namespace = namespaces.get(&workload.namespace);
        let is_frozen = namespace.is_some_and(|it| it.get(FROZEN).is_some_and(|it| it == "true"));
        if is_frozen || options.frozen_namespaces.contains(&workload.namespace) {
            hold("FROZEN", "the namespace is frozen", None);
        }
        let annotations = [Some(&workload.annotations), namespace];
        for annotations in annotations.into_iter().flatten() {
            let Some(until) = annotations.get(HOLD_UNTIL).and_then(|it| parse_time(it)) else {
                continue;
            };
            let until = millis(until).min(pending.since.saturating_add(span(options.max_hold)));
            if until > window.now {
                hold("HELD_UNTIL", "an annotation holds restarts", Some(until));
            }
        }
        let is_undone = self
            .changes
            .iter()
            .any(|it| it.change == ChangeKind::Undone);
        if is_undone && self.recent_restarts(window.now) >= UNDONE_RESTARTS_MAX {
            let message = "restarts were undone repeatedly; somebody else manages the pod template";
            hold("UNDONE_REPEATEDLY", message, None);
        }
        if let (Some(wait), Some(0)) =
            (options.disruption_budget_wait, workload.disruptions_allowed)
        {
            let until = pending.since.saturating_add(span(wait));
            if until > window.now {
                let message = "a PodDisruptionBudget allows no disruption now";
                hold("DISRUPTION_BUDGET", message, Some(until));
            }
        }
        held
    }

    /// What the restart waits for: only time.
    fn waits(&self, window: &Window<'_>, due: i64) -> Vec<Condition> {
        let options = &window.input.options;
        let mut waits = Vec::new();
        let mut wait = |reason, message: String, until: i64| {
            if until > window.now {
                waits.push(condition(reason, message, Some(from_millis(until))));
            }
        };
        wait("QUIET_WINDOW", "waits for further changes".to_owned(), due);
        if window.change_sets.len() > 1 {
            let sets: Vec<_> = window.change_sets.iter().copied().collect();
            let message = format!(
                "configurations are of different change sets: {}",
                sets.join(", ")
            );
            let max_wait = self.setting(MAX_WAIT, options.max_wait);
            wait("CHANGE_SET", message, self.since.saturating_add(max_wait));
        }
        let recent = self.recent_restarts(window.now);
        if let (Some(last), 1..) = (self.state.restarts.last(), recent) {
            let interval = self.setting(MIN_INTERVAL, options.min_interval);
            let doublings = u32::try_from(recent - 1).unwrap_or(u32::MAX).min(20);
            let interval = interval.saturating_mul(1 << doublings).min(HOUR);
            let message = "the workload was restarted recently".to_owned();
            wait("MIN_INTERVAL", message, last.saturating_add(interval));
        }
        waits
    }

    fn recent_restarts(&self, now: i64) -> usize {
        let recent = |at: &&i64| now.saturating_sub(**at) < HOUR;
        self.state.restarts.iter().filter(recent).count()
    }

    /// A duration of the workload's annotation, or else of the options, in milliseconds.
    fn setting(&self, key: &str, default: Duration) -> i64 {
        let own = self.workload.annotations.get(key);
        span(own.and_then(|it| parse_duration(it)).unwrap_or(default))
    }

    /// Reloader pauses a Deployment for a while after it has restarted it.
    fn resume(&mut self, input: &Input) {
        let annotations = &self.workload.annotations;
        let paused_at = annotations.get(PAUSED_AT).and_then(|it| parse_time(it));
        let period = annotations
            .get(PAUSE_PERIOD)
            .and_then(|it| parse_duration(it));
        let (Profile::Reloader, Some(paused_at)) = (input.options.profile, paused_at) else {
            return;
        };
        // Without a period there is nothing to wait for.
        let until = millis(paused_at).saturating_add(period.map_or(0, span));
        self.resumes = until <= millis(input.now);
        self.resume_at = (!self.resumes).then(|| from_millis(until));
    }
}

// === impl Window ===

impl Window<'_> {
    /// What is pending, and when the window of changes ends.
    fn pending(&self, draft: &Draft<'_>) -> (Pending, i64) {
        let options = &self.input.options;
        let parts = draft.restarted.applied.iter();
        let parts = parts.filter(|(key, applied)| draft.state.applied.get(*key) != Some(applied));
        let parts: Vec<_> = parts
            .map(|(key, applied)| format!("{key}={applied:?}"))
            .collect();
        let target = digest(parts.iter().map(String::as_str));
        let stored = draft.state.pending.clone();
        let quiet = draft.setting(QUIET, options.quiet);
        let max_wait = draft.setting(MAX_WAIT, options.max_wait);
        let since = stored.as_ref().map_or(self.now, |it| it.since);
        let (pending, first, last) = match (&self.times, stored) {
            // The times of the changes tell it all, but for those that were overwritten.
            (Some(times), stored) => {
                let first = times.iter().copied().min().unwrap_or(since).min(since);
                let last = times.iter().copied().max().unwrap_or(since);
                let pending = stored.unwrap_or(Pending {
                    since,
                    last: since,
                    target,
                });
                (pending, first, last.min(self.now))
            }
            (None, Some(stored)) if stored.target == target => {
                let last = stored.last;
                (stored, since, last)
            }
            (None, _) => {
                let last = self.now;
                (
                    Pending {
                        since,
                        last,
                        target,
                    },
                    since,
                    last,
                )
            }
        };
        let due = match options.profile {
            Profile::Xing => first.saturating_add(quiet),
            Profile::Rollplan | Profile::Reloader => last
                .saturating_add(quiet)
                .min(first.saturating_add(max_wait)),
        };
        (pending, due)
    }
}
