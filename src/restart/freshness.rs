//! Whether pods have started with the current version of a configuration.
//!
//! Kubelets report starts late, and read configurations through a cache. Most times have a resolution of one second: a time
//! without a fraction stands for all of its second.

use rollplan_core::time::Time;

use super::duration::span;
use super::options::Options;
use super::state::{State, from_millis, millis};
use super::workload::{Started, Workload, WorkloadKind};

/// The delays after which a caller that does not watch pods plans again, in milliseconds. The delay grows with the age of the
/// pods.
const RETRY_MIN: i64 = 5_000;
const RETRY_MAX: i64 = 300_000;

/// Whether all pods have started with the current version of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Freshness {
    /// They have.
    Fresh,
    /// Some have not, or it is not certain.
    Stale,
    /// Some have not reported their start yet, or pods that start now may still read an older version.
    Unclear,
    /// The request does not contain the times.
    Untold,
}

impl Freshness {
    pub(super) fn new(
        workload: &Workload,
        changed_at: Option<Time>,
        options: &Options,
        now: Time,
    ) -> Self {
        // Jobs that are already running finish with the configuration that they started with.
        if workload.workload_kind() == WorkloadKind::CronJob {
            return Self::Untold;
        }
        let Some(changed_at) = changed_at else {
            return match workload.started {
                Started::Never => Self::Fresh,
                _ => Self::Untold,
            };
        };
        let settled_at = settled_at(changed_at, options);
        let is_fresh = |start: Time| millis(start) >= settled_at;
        let of = |start| match is_fresh(start) {
            true => Self::Fresh,
            false => Self::Stale,
        };
        match workload.started {
            // Pods that are not created yet start later than now.
            Started::Never if is_fresh(now) => Self::Fresh,
            Started::Never => Self::Unclear,
            Started::At(start) => of(start),
            Started::Starting { reported, since } => match reported.map(of) {
                Some(Self::Stale) => Self::Stale,
                _ if is_fresh(since) => Self::Fresh,
                _ => Self::Unclear,
            },
            Started::Unknown => workload.revision_at.map_or(Self::Untold, of),
        }
    }

    /// Whether pods may have started with another version than the current one, although the current one is recorded: it was
    /// overwritten and restored. It is `Stale` if one may have, and `Unclear` as long as a start is not reported.
    pub(super) fn of_restored(
        workload: &Workload,
        changed_at: Option<Time>,
        options: &Options,
        state: &State,
    ) -> Self {
        let Some(changed_at) = changed_at else {
            return Self::Untold;
        };
        let changed = millis(changed_at);
        if state.applied_at.is_some_and(|at| changed <= at) {
            return Self::Fresh;
        }
        // Another version was observed while it was pending. Otherwise, it existed for less than the time between two plans.
        let (from, until) = match &state.pending {
            Some(pending) => (
                pending.since.saturating_sub(span(options.skew)),
                settled_at(changed_at, options),
            ),
            None => (changed, end_of(changed_at)),
        };
        let is_between = |start: Time| end_of(start) > from && millis(start) < until;
        match workload.started {
            started if started.oldest().is_some_and(is_between) => Self::Stale,
            Started::Starting { since, .. } if state.pending.is_some() && millis(since) < until => {
                Self::Unclear
            }
            _ => Self::Fresh,
        }
    }
}

/// When to plan again at the latest if it is unclear whether pods have started with a configuration.
pub(super) fn retry_at(
    workload: &Workload,
    changed_at: Option<Time>,
    options: &Options,
    now: Time,
) -> Option<Time> {
    match (workload.started, changed_at) {
        (Started::Never, Some(changed_at)) => Some(from_millis(settled_at(changed_at, options))),
        (Started::Starting { since, .. }, _) => {
            let age = millis(now).saturating_sub(millis(since));
            let delay = age.clamp(RETRY_MIN, RETRY_MAX);
            Some(from_millis(millis(now).saturating_add(delay)))
        }
        _ => None,
    }
}

/// Pods that start from this time on read the current version.
fn settled_at(changed_at: Time, options: &Options) -> i64 {
    end_of(changed_at).saturating_add(span(options.skew))
}

/// The first millisecond after a time.
fn end_of(time: Time) -> i64 {
    let resolution = match time.nanos() {
        0 => 1_000,
        _ => 1,
    };
    millis(time).saturating_add(resolution)
}
