//! Whether pods have started with the current version of a configuration.
//!
//! Kubelets report starts late, and read configurations through a cache. Most times have a resolution of one second: a time
//! without a fraction stands for all of its second. Starts are times of kubelets, and all other times are those of the API
//! server.
//!
//! A kubelet watches the configurations of a pod from when it receives the pod (`RegisterPod` in
//! `pkg/kubelet/util/manager/cache_based_manager.go`, `AddReference` in `watch_based_manager.go`), and reads them when it
//! starts the containers. A pod that was created after a change has therefore started with it, if the watch of a
//! configuration that other pods of the node use is not later than the scheduler and the start of a container.
//!
//! If a value is overwritten and restored while pods start, they are restarted once.

use rollplan_core::time::Time;

use super::configuration::Configuration;
use super::duration::span;
use super::options::Options;
use super::state::{State, from_millis, millis};
use super::workload::{Started, Workload, WorkloadKind};

/// The delays after which a caller that does not watch pods plans again, in milliseconds. The delay grows with the age of
/// the pods.
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
    /// `is_removal` is whether a key was removed: its time is not known.
    pub(super) fn new(
        workload: &Workload,
        configuration: Option<&Configuration>,
        is_removal: bool,
        options: &Options,
        now: Time,
    ) -> Self {
        // Jobs that are already running finish with the configuration that they started with.
        if workload.workload_kind() == WorkloadKind::CronJob {
            return Self::Untold;
        }
        if is_created_after(workload, configuration, is_removal) {
            return Self::Fresh;
        }
        let changed_at = configuration.and_then(|it| it.changed_at);
        let Some(changed_at) = changed_at else {
            return match workload.started {
                Started::Never => Self::Fresh,
                _ => Self::Untold,
            };
        };
        if is_removal {
            return match workload.started {
                Started::Never => Self::Fresh,
                Started::Starting { reported: None, .. } => Self::Unclear,
                Started::At(_) | Started::Starting { .. } | Started::Unknown => Self::Stale,
            };
        }
        let settled_at = settled_at(changed_at, options);
        let is_fresh = |start: Time| millis(start) >= settled_at;
        let of = |start| {
            if is_fresh(start) {
                Self::Fresh
            } else {
                Self::Stale
            }
        };
        match workload.started {
            // Pods that are not created yet start later than now.
            Started::Never if is_fresh(now) => Self::Fresh,
            Started::Never => Self::Unclear,
            Started::At(start) => of(start),
            Started::Starting { reported, since } => match reported.map(of) {
                Some(Self::Stale) => Self::Stale,
                _ if millis(since) >= end_of(changed_at) => Self::Fresh,
                _ => Self::Unclear,
            },
            Started::Unknown => match workload.revision_at {
                Some(at) if millis(at) >= end_of(changed_at) => Self::Fresh,
                Some(_) => Self::Stale,
                None => Self::Untold,
            },
        }
    }

    /// Whether pods may have started with another version although the current one is recorded, because it was overwritten
    /// and restored. `Stale` if a pod may have, and `Unclear` as long as a start is not reported.
    pub(super) fn of_restored(
        workload: &Workload,
        configuration: Option<&Configuration>,
        options: &Options,
        state: &State,
    ) -> Self {
        let Some(changed_at) = configuration.and_then(|it| it.changed_at) else {
            return Self::Untold;
        };
        let changed = millis(changed_at);
        let is_known = state.applied_at.max(state.seen_at) >= Some(changed);
        let is_unchanged = configuration.is_some_and(|it| {
            it.is_unchanged() || it.is_change_uncertain && state.pending.is_none()
        });
        if is_known || is_unchanged || is_created_after(workload, configuration, false) {
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

/// What pods have read of a configuration of which nothing is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FirstRead {
    /// Its current version, or there are no times.
    Current,
    /// Certainly an older version: the data was changed after a container had started.
    BeforeChange,
    /// Certainly not this object: it was created after a container had started, which did without it or read a predecessor.
    BeforeCreation,
    /// That is not known until all starts are reported.
    Unclear,
    /// The times do not show it.
    Unproven,
}

// === impl FirstRead ===

impl FirstRead {
    /// A configuration that was never changed has no older version.
    pub(super) fn new(
        workload: &Workload,
        configuration: Option<&Configuration>,
        freshness: Freshness,
    ) -> Self {
        let (Some(configuration), false) = (configuration, freshness == Freshness::Fresh) else {
            return Self::Current;
        };
        let Configuration {
            created_at,
            changed_at,
            is_change_uncertain,
            ..
        } = *configuration;
        let Some(changed_at) = changed_at.filter(|_| freshness != Freshness::Untold) else {
            return Self::Current;
        };
        let is_unchanged = configuration.is_unchanged();
        let oldest = workload.started.oldest();
        let has_started_before = |at: Time| oldest.is_some_and(|it| end_of(it) <= millis(at));
        if created_at.is_some_and(has_started_before) {
            return Self::BeforeCreation;
        }
        if !is_unchanged && !is_change_uncertain && has_started_before(changed_at) {
            return Self::BeforeChange;
        }
        match workload.started {
            // Containers start after their pods are created.
            Started::Starting { since, .. } => match created_at {
                Some(created_at) if is_unchanged && millis(since) >= millis(created_at) => {
                    Self::Current
                }
                _ => Self::Unclear,
            },
            _ if is_unchanged => Self::Current,
            Started::Never => Self::Unclear,
            Started::At(_) | Started::Unknown => Self::Unproven,
        }
    }
}

// === impl Configuration ===

impl Configuration {
    /// Whether it was never changed since its creation.
    fn is_unchanged(&self) -> bool {
        let times = (self.created_at, self.changed_at);
        matches!(times, (Some(created), Some(changed)) if millis(changed) < end_of(created))
    }
}

/// Whether all pods were created after the last change. `is_removal` is whether a key was removed.
fn is_created_after(
    workload: &Workload,
    configuration: Option<&Configuration>,
    is_removal: bool,
) -> bool {
    let Some(configuration) = configuration else {
        return false;
    };
    let versions = (workload.unscheduled_version, configuration.version);
    let times = (workload.oldest_created_at, configuration.changed_at);
    matches!(versions, (Some(pods), Some(change)) if pods > change)
        || !is_removal
            && matches!(times, (Some(pod), Some(change)) if millis(pod) >= end_of(change))
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
