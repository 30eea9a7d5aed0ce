//! The adapter by the rules of `docs/architecture.md`: a cache fed by watches, overlaid with what its own writes
//! returned; a rate-limited queue of one key; calls in order up to the first failure; failures fed back.

mod cache;
mod calls;

pub(crate) use cache::View;

use std::collections::BTreeMap;
use std::sync::Arc;

use rollplan_core::Plan;
use rollplan_core::revision;
use rollplan_core::snapshot::{Options, ReplicaSet, Snapshot, StepFailure, Strategy};

use crate::clock;
use crate::flaw::Flaw;
use crate::server::{StoredSet, version_of};
use crate::tally::Tally;
use crate::world::World;
use cache::Seen;

/// The longest back-off, in doublings of a second.
const BACK_OFF_MAX: u8 = 6;

/// The adapter's memory. All of it dies with it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Adapter {
    pub(crate) view: View,
    pub(crate) queued: bool,
    /// When the limiter lets the key out of the queue.
    pub(crate) not_before: i64,
    pub(crate) back_off: u8,
    /// When to look again even if nothing changes.
    pub(crate) timer: Option<i64>,
    /// What was refused when the last plan was carried out.
    pub(crate) failures: Vec<StepFailure>,
    pub(crate) running: Option<Running>,
    /// What it did since something last changed that was not its own doing.
    pub(crate) undisturbed: Option<Undisturbed>,
}

/// A plan that is being carried out.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub(crate) plan: Arc<Plan>,
    pub(crate) next: usize,
    pub(crate) seen: Arc<Seen>,
    /// Sizes as the plan believes them by now, by uid.
    pub(crate) sizes: BTreeMap<String, i32>,
    pub(crate) owner_checked: bool,
    refused: Vec<StepFailure>,
    look_again: bool,
}

/// A plan carried out while nothing else happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Undisturbed {
    /// It said that nothing would be left to do.
    pub(crate) settled: bool,
    /// All of it was done.
    pub(crate) complete: bool,
    /// No ReplicaSet reported more available pods than it wanted: promises hold for such snapshots.
    pub(crate) consistent: bool,
    /// Which ReplicaSets were made larger (1) or smaller (-1), by name.
    pub(crate) directions: BTreeMap<String, i8>,
}

// === impl Adapter ===

impl Adapter {
    /// Something changed that was not the adapter's doing.
    pub(crate) fn disturb(&mut self) {
        self.undisturbed = None;
    }

    /// When the adapter has something to do by itself, if ever.
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
    /// One step: a look, or a call. Says whether anything was done.
    pub(crate) fn step_adapter(&mut self) -> bool {
        match self.adapter.running.take() {
            Some(running) => {
                self.continue_plan(running);
                true
            }
            None if self.adapter.due().is_some_and(|due| due <= self.now) => {
                self.look();
                true
            }
            None => false,
        }
    }

    /// The adapter dies. The next one lists everything anew.
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

    /// What the planner is asked, as the adapter sees the world.
    pub(crate) fn snapshot(&self, with_pods: bool) -> Option<Snapshot> {
        let view = &self.adapter.view;
        let deployment = view.deployment()?;
        let pods: Vec<_> = match with_pods && self.flaw != Flaw::NoPods {
            true => {
                let pods = view.pods.values();
                pods.map(|pod| pod.reported(self.fault(pod.template)))
                    .collect()
            }
            false => Vec::new(),
        };
        let sets = view.sets();
        Some(Snapshot {
            now: clock::at(self.now),
            deployment: (**deployment).clone(),
            replica_sets: sets.map(|stored| stored.set.clone()).collect(),
            pods: pods.into(),
            pods_complete: with_pods,
            failures: self.adapter.failures.clone(),
        })
    }

    fn look(&mut self) {
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
        self.tallies.count(Tally::Looked);
        let plan = self.flaw.plan(&snapshot, Options::default());
        self.trace(|| format!("  the adapter sees {}", sight(&snapshot)));
        self.check_plan(&snapshot, &plan);
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
            refused: Vec::new(),
            look_again: false,
        };
        self.skip_events(running);
    }

    /// Goes on to the next call of a plan; ends it where there is none.
    fn skip_events(&mut self, mut running: Running) {
        let steps = &running.plan.steps;
        while steps
            .get(running.next)
            .is_some_and(|step| step.call.is_none())
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
            // A fraction of a second counts as a whole one.
            now + span.seconds() + i64::from(span.subsec_nanos() > 0)
        });
        adapter.timer = after.filter(|_| self.flaw != Flaw::NoTimer);
        if self.flaw != Flaw::ForgetsFailures {
            adapter.failures.clone_from(&running.refused);
        }
        let complete = running.next >= running.plan.steps.len();
        let clean = complete && !running.look_again && running.refused.is_empty();
        if let Some(undisturbed) = &mut adapter.undisturbed {
            undisturbed.complete = clean;
        }
        if clean && running.seen.snapshot.failures.is_empty() {
            adapter.back_off = 0;
        } else {
            adapter.limit(now);
        }
    }
}

/// The version of a ReplicaSet.
fn set_version(stored: &StoredSet) -> u64 {
    version_of(&stored.set.metadata)
}

/// What a ReplicaSet has available, no more than it wants.
pub(crate) fn clamped(set: &ReplicaSet) -> i32 {
    set.status.available_replicas.min(set.replicas)
}

/// What a snapshot holds, in a line.
fn sight(snapshot: &Snapshot) -> String {
    let spec = &snapshot.deployment.spec;
    let sets = snapshot.replica_sets.iter().map(|set| {
        let status = &set.status;
        let desired = revision::desired_replicas(&set.metadata.annotations);
        format!(
            "{} {}: {} pods, {} available, generation {} observed {}, desired {desired:?}",
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
        "{} wanted{}, {} refused; {}",
        spec.replicas,
        if spec.paused { ", paused" } else { "" },
        snapshot.failures.len(),
        sets.collect::<Vec<_>>().join("; ")
    )
}
