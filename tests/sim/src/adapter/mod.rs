//! An adapter that follows the rules in `docs/adapters.md`: a cache that is updated by watches, overlaid with the
//! responses to the adapter's own writes; a rate-limited queue with one key; calls in order until the first failure; and
//! failures that are reported in the next request.

mod cache;
mod calls;

pub(crate) use cache::View;

use std::collections::BTreeMap;
use std::sync::Arc;

use rollplan_core::Plan;
use rollplan_core::revision;
use rollplan_core::snapshot::{Options, ReplicaSet, Snapshot, StepFailure, Strategy};
use rollplan_world::at;

use crate::flaw::Flaw;
use crate::server::{StoredSet, version_of};
use crate::tally::Tally;
use crate::world::World;
use cache::Seen;

/// The maximum backoff, as a power of two in seconds.
const BACK_OFF_MAX: u8 = 6;

/// The state of the adapter. It is lost in a crash.
#[derive(Clone, Debug, Default)]
pub(crate) struct Adapter {
    pub(crate) view: View,
    pub(crate) queued: bool,
    /// The time at which the rate limiter releases the key.
    pub(crate) not_before: i64,
    pub(crate) back_off: u8,
    /// The time at which to plan again even if nothing changes.
    pub(crate) timer: Option<i64>,
    /// The calls of the last plan that were rejected.
    pub(crate) failures: Vec<StepFailure>,
    pub(crate) running: Option<Running>,
    /// The last plan, if nothing but the adapter's own writes has changed since it was made.
    pub(crate) undisturbed: Option<Undisturbed>,
}

/// A plan that is being carried out.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub(crate) plan: Arc<Plan>,
    pub(crate) next: usize,
    pub(crate) seen: Arc<Seen>,
    /// The sizes that the plan assumes at this point, by UID.
    pub(crate) sizes: BTreeMap<String, i32>,
    pub(crate) owner_checked: bool,
    rejected: Vec<StepFailure>,
    is_stale: bool,
}

/// A plan that is carried out while nothing else changes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Undisturbed {
    /// Whether the plan leaves nothing to do.
    pub(crate) settled: bool,
    /// Whether all steps were carried out.
    pub(crate) complete: bool,
    /// Whether no ReplicaSet reported more available pods than its size. The planner's guarantees apply only then.
    pub(crate) consistent: bool,
    /// The ReplicaSets that were scaled up (1) or down (-1), by name.
    pub(crate) directions: BTreeMap<String, i8>,
}

// === impl Adapter ===

impl Adapter {
    /// Records a change that the adapter did not make.
    pub(crate) fn disturb(&mut self) {
        self.undisturbed = None;
    }

    /// The time of the adapter's next action without a new change, if there is one.
    pub(crate) fn due(&self) -> Option<i64> {
        let queued = self.queued.then_some(self.not_before);
        queued.into_iter().chain(self.timer).min()
    }

    fn limit(&mut self, now: i64) {
        self.queued = true;
        self.not_before = now + (1 << self.back_off);
        self.back_off = (self.back_off + 1).min(BACK_OFF_MAX);
    }
}

impl World {
    /// Makes a plan, or the next call of the current plan. Returns whether there was anything to do.
    pub(crate) fn step_adapter(&mut self) -> bool {
        match self.adapter.running.take() {
            Some(running) => {
                self.continue_plan(running);
                true
            }
            None if self.adapter.due().is_some_and(|due| due <= self.now) => {
                self.make_plan();
                true
            }
            None => false,
        }
    }

    /// Crashes the adapter. Its successor lists all objects again.
    pub(crate) fn kill_adapter(&mut self) {
        self.tallies.count(Tally::Died);
        if self
            .adapter
            .running
            .as_ref()
            .is_some_and(|running| running.next > 0)
        {
            self.tallies.count(Tally::DiedMidPlan);
        }
        let mut view = std::mem::take(&mut self.adapter.view);
        if self.flaw == Flaw::StaleStart {
            view.forget_own_writes();
        } else {
            view = View::list(&mut self.store);
        }
        self.adapter = Adapter {
            view,
            queued: true,
            not_before: self.now,
            ..Adapter::default()
        };
    }

    /// The snapshot that the adapter sends to the planner.
    pub(crate) fn snapshot(&self, with_pods: bool) -> Option<Snapshot> {
        let view = &self.adapter.view;
        let deployment = view.deployment()?;
        let pods: Vec<_> = if with_pods && self.flaw != Flaw::NoPods {
            let pods = view.pods.values();
            pods.map(|pod| pod.reported(self.fault(pod.template)))
                .collect()
        } else {
            Vec::new()
        };
        let omitted = usize::from(self.flaw == Flaw::PartialSets && view.sets().count() > 1);
        let sets = view.sets().skip(omitted);
        Some(Snapshot {
            now: at(self.now),
            deployment: (**deployment).clone(),
            replica_sets: sets.map(|stored| stored.set.clone()).collect(),
            pods: pods.into(),
            replica_sets_complete: true,
            pods_complete: with_pods,
            failures: self.adapter.failures.clone(),
            events: Arc::new([]),
            surroundings: Arc::default(),
        })
    }

    fn make_plan(&mut self) {
        self.adapter.queued = false;
        self.adapter.timer = None;
        let recreate = self
            .adapter
            .view
            .deployment()
            .is_some_and(|deployment| deployment.spec.strategy == Strategy::Recreate);
        let Some(snapshot) = self.snapshot(recreate) else {
            self.adapter.failures.clear();
            self.adapter.disturb();
            return;
        };
        self.tallies.count(Tally::Planned);
        let plan = self.flaw.plan(&snapshot, Options::default());
        self.trace(|| format!("  the adapter observes {}", describe(&snapshot)));
        self.check_plan(&snapshot, &plan);
        self.plan_native(&snapshot, &plan);
        let seen = Seen::new(snapshot, &self.adapter.view);
        self.adapter.failures.clear();
        let sizes = seen.sets.iter();
        let sizes = sizes.map(|(uid, set)| (uid.clone(), set.size)).collect();
        self.adapter.undisturbed = Some(Undisturbed {
            settled: plan.settled && seen.snapshot.failures.is_empty(),
            complete: false,
            consistent: seen
                .snapshot
                .replica_sets
                .iter()
                .all(|set| clamped(set) == set.status.available_replicas),
            directions: BTreeMap::new(),
        });
        let running = Running {
            plan: Arc::new(plan),
            next: 0,
            seen: Arc::new(seen),
            sizes,
            owner_checked: false,
            rejected: Vec::new(),
            is_stale: false,
        };
        self.skip_events(running);
    }

    /// Advances to the next step with a call, or finishes the plan if there is none.
    fn skip_events(&mut self, mut running: Running) {
        let steps = &running.plan.steps;
        while steps
            .get(running.next)
            .is_some_and(|step| step.action.is_none())
        {
            running.next += 1;
        }
        if running.next < steps.len() {
            self.adapter.running = Some(running);
        } else {
            self.finish(&running);
        }
    }

    fn finish(&mut self, running: &Running) {
        let now = self.now;
        let adapter = &mut self.adapter;
        let after = running.plan.requeue_after.map(|span| {
            // Fractions are rounded up to a full second.
            now + span.seconds() + i64::from(span.subsec_nanos() > 0)
        });
        adapter.timer = after.filter(|_| self.flaw != Flaw::NoTimer);
        if self.flaw != Flaw::ReportsNoFailures {
            adapter.failures.clone_from(&running.rejected);
        }
        let complete = running.next >= running.plan.steps.len();
        let clean = complete && !running.is_stale && running.rejected.is_empty();
        if let Some(undisturbed) = &mut adapter.undisturbed {
            undisturbed.complete = clean;
        }
        if clean && running.seen.snapshot.failures.is_empty() {
            adapter.back_off = 0;
        } else {
            adapter.limit(now);
        }
        if clean {
            self.write_native();
        }
    }
}

/// The resourceVersion of a ReplicaSet.
fn set_version(stored: &StoredSet) -> u64 {
    version_of(&stored.set.metadata)
}

/// The available pods of a ReplicaSet, but at most its size.
pub(crate) fn clamped(set: &ReplicaSet) -> i32 {
    set.status.available_replicas.min(set.replicas)
}

/// A one-line description of a snapshot.
fn describe(snapshot: &Snapshot) -> String {
    let spec = &snapshot.deployment.spec;
    let sets = snapshot.replica_sets.iter().map(|set| {
        let status = &set.status;
        let desired = revision::desired_replicas(&set.metadata.annotations);
        format!(
            "{} {}: {} pods, {} available, generation {}, observed {}, desired {desired:?}",
            set.metadata.name,
            set.metadata.uid,
            status.replicas,
            status.available_replicas,
            set.metadata.generation,
            status.observed_generation
        )
        .replacen(": ", &format!(" of size {}: ", set.replicas), 1)
    });
    format!(
        "{} desired{}, {} rejected; {}",
        spec.replicas,
        if spec.paused { ", paused" } else { "" },
        snapshot.failures.len(),
        sets.collect::<Vec<_>>().join("; ")
    )
}
