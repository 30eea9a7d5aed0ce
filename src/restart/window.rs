//! When a workload may restart: the times that it waits for, and the conditions that hold the restart.

use std::collections::BTreeSet;
use std::time::Duration;

use rollplan_core::template::parse_time;

use super::checksum::digest;
use super::compare::ChangeKind;
use super::draft::{Draft, HOUR};
use super::duration::{parse_duration, span};
use super::options::Profile;
use super::plan::{Condition, Effect, Input, ROLLOUT_IN_PROGRESS, STARTS_UNKNOWN};
use super::state::{Pending, from_millis, millis};
use super::workload::{Rollout, Started, WorkloadKind};

/// The time until which a workload or namespace is not restarted, in RFC 3339.
const HOLD_UNTIL: &str = "rollplan.dev/restart-hold-until";
/// On a namespace, "true" to restart nothing in it.
const FROZEN: &str = "rollplan.dev/restart-frozen";
/// On a workload, these override the options of the call.
const QUIET: &str = "rollplan.dev/restart-quiet";
const MAX_WAIT: &str = "rollplan.dev/restart-max-wait";
const MIN_INTERVAL: &str = "rollplan.dev/restart-min-interval";

/// After this many restarts within an hour, pods with an older configuration are only reported.
const UNDONE_RESTARTS_MAX: usize = 3;

/// The circumstances that decide how long a restart waits.
#[derive(Debug)]
pub(super) struct Window<'a> {
    pub(super) input: &'a Input,
    pub(super) now: i64,
    pub(super) times: Option<Vec<i64>>,
    pub(super) change_sets: BTreeSet<&'a str>,
}

// === impl Draft ===

impl Draft<'_> {
    pub(super) fn holds(&self, window: &Window<'_>, pending: &Pending) -> Vec<Condition> {
        let Input {
            options,
            namespaces,
            ..
        } = window.input;
        let workload = self.workload;
        let mut held = Vec::new();
        let mut hold = |reason, message: &str, until: Option<i64>| {
            held.push(Condition {
                until: until.map(from_millis),
                ..Condition::new(Effect::Holds, reason, message)
            });
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
                "a Job can only be created from the complete object",
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
            .any(|it| it.effect == Effect::PreventsStart)
        {
            let message = "restarted pods would not start";
            hold("RESTART_WOULD_FAIL", message, None);
        }
        if workload.rollout == Rollout::Progressing {
            let message = "a rollout is in progress";
            hold(ROLLOUT_IN_PROGRESS, message, None);
        }
        // The pods of a complete rollout have started, so the request does not contain them.
        let has_started =
            workload.rollout == Rollout::Complete && workload.started != Started::Never;
        if self.is_unclear && !self.is_certain && !has_started {
            hold(STARTS_UNKNOWN, &self.starts_unknown(), None);
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
                hold(
                    "HELD_UNTIL",
                    "an annotation puts restarts on hold",
                    Some(until),
                );
            }
        }
        let is_undone = self
            .changes
            .iter()
            .any(|it| it.change == ChangeKind::Undone);
        if is_undone && self.recent_restarts(window.now) >= UNDONE_RESTARTS_MAX {
            let message =
                "restarts were reverted repeatedly: another tool manages the pod template";
            hold("UNDONE_REPEATEDLY", message, None);
        }
        if let (Some(wait), Some(0)) =
            (options.disruption_budget_wait, workload.disruptions_allowed)
        {
            let until = pending.since.saturating_add(span(wait));
            if until > window.now {
                let message = "a PodDisruptionBudget currently allows no disruptions";
                hold("DISRUPTION_BUDGET", message, Some(until));
            }
        }
        held
    }

    /// The conditions that end at a known time.
    pub(super) fn waits(&self, window: &Window<'_>, due: i64) -> Vec<Condition> {
        let options = &window.input.options;
        let mut waits = Vec::new();
        let mut wait = |reason, message: String, until: i64| {
            if until > window.now {
                waits.push(Condition {
                    until: Some(from_millis(until)),
                    ..Condition::new(Effect::Waits, reason, message)
                });
            }
        };
        wait(
            "QUIET_WINDOW",
            "waiting for further changes".to_owned(),
            due,
        );
        if window.change_sets.len() > 1 {
            let sets: Vec<_> = window.change_sets.iter().copied().collect();
            let message = format!(
                "the configurations belong to different change sets: {}",
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

    /// The duration in the workload's annotation, or otherwise in the options, in milliseconds.
    fn setting(&self, key: &str, default: Duration) -> i64 {
        let own = self.workload.annotations.get(key);
        span(own.and_then(|it| parse_duration(it)).unwrap_or(default))
    }
}

// === impl Window ===

impl Window<'_> {
    /// The pending change, and when it is due.
    pub(super) fn pending(&self, draft: &Draft<'_>) -> (Pending, i64) {
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
            // The times of all changes are known, except for changes that were overwritten.
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
