//! An adapter that carries out the loop of `docs/guides/adapters.md`: a cache that is updated by watches, a queue with one
//! key, and the state and the answers that it returns to the planner. It decides nothing.

mod cache;
mod calls;
mod reads;

pub(crate) use cache::View;

use std::collections::BTreeMap;
use std::sync::Arc;

use rollplan_core::Plan;
use rollplan_core::revision;
use rollplan_core::snapshot::{Deployment, Options, ReplicaSet, Snapshot, StepFailure, Strategy};
use rollplan_core::sync::{Decision, Origin, State, Sync};
use rollplan_core::time::Span;
use rollplan_world::at;

use crate::flaw::Flaw;
use crate::server::StoredSet;
use crate::tally::Tally;
use crate::world::World;
use cache::Seen;
use calls::Outcome;
use reads::{ReadAnswer, deployment_version, set_version};

/// The maximum number of times that the planner may ask for reads before one plan.
const ROUNDS_MAX: usize = 8;

/// The state of the adapter. It is lost in a crash.
#[derive(Clone, Debug, Default)]
pub(crate) struct Adapter {
    pub(crate) view: View,
    pub(crate) queued: bool,
    /// The time at which to plan again even if nothing changes.
    pub(crate) timer: Option<i64>,
    /// What the planner knows of earlier calls.
    pub(crate) state: State,
    /// The answers to the steps of the last plan, by index.
    pub(crate) answers: BTreeMap<u32, Outcome>,
    /// The rejections to which the last plans reacted, until a plan was carried out without any.
    pub(crate) rejections: Vec<StepFailure>,
    pub(crate) running: Option<Running>,
    /// The last plan, if nothing but the adapter's own writes has changed since it was made.
    pub(crate) undisturbed: Option<Undisturbed>,
    /// The newest versions that a plan or an answer contained, by UID.
    pub(crate) newest: BTreeMap<String, u64>,
    /// The cache and the state of the adapter that led before, and that may lead again.
    former: Option<Box<(View, State)>>,
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
    /// Whether a call has failed.
    has_failed: bool,
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
    /// Whether the plan reacted to a rejection.
    pub(crate) reacted: bool,
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
    pub(crate) fn due(&self, now: i64) -> Option<i64> {
        let queued = self.queued.then_some(now);
        queued.into_iter().chain(self.timer).min()
    }

    /// The rejections among the answers to the last plan.
    fn failures(&self) -> Vec<StepFailure> {
        let failures = self.answers.values().filter_map(Outcome::rejection);
        failures.cloned().collect()
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
            None if self
                .adapter
                .due(self.now)
                .is_some_and(|due| due <= self.now) =>
            {
                self.make_plan();
                true
            }
            None => false,
        }
    }

    /// Ends the adapter. Its successor is a new process, or the one that led before: its watches continue where they were
    /// interrupted.
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
        let before = std::mem::take(&mut self.adapter);
        let (view, state) = match before.former {
            Some(former) => {
                self.tallies.count(Tally::LedAgain);
                let (view, state) = *former;
                view.resume(&mut self.store);
                (view, state)
            }
            None => (View::list(&mut self.store), State::default()),
        };
        // A state is discarded with the lease.
        let is_kept = self.flaw == Flaw::KeepsStateOfEarlierLease;
        self.adapter = Adapter {
            view,
            state: if is_kept { state } else { State::default() },
            queued: true,
            former: Some(Box::new((before.view, before.state))),
            ..Adapter::default()
        };
    }

    /// The snapshot of what the adapter observes. A plan in progress that reacts to no rejection repeats the rejected calls, so
    /// they do not count anymore.
    pub(crate) fn snapshot(&self, with_pods: bool) -> Option<Snapshot> {
        let view = &self.adapter.view;
        let deployment = view.deployment()?;
        let running = self.adapter.running.as_ref();
        let failures = running.map_or(&self.adapter.rejections, |it| &it.seen.snapshot.failures);
        let failures = failures.clone();
        Some(self.snapshot_of(deployment, view.sets(), failures, with_pods))
    }

    fn snapshot_of<'s>(
        &self,
        deployment: &Deployment,
        sets: impl Iterator<Item = &'s Arc<StoredSet>>,
        failures: Vec<StepFailure>,
        with_pods: bool,
    ) -> Snapshot {
        let view = &self.adapter.view;
        let pods: Vec<_> = if with_pods && self.flaw != Flaw::NoPods {
            let pods = view.pods.values();
            pods.map(|pod| pod.reported(self.fault(pod.template)))
                .collect()
        } else {
            Vec::new()
        };
        let mut sets: Vec<ReplicaSet> = sets.map(|stored| stored.set.clone()).collect();
        if self.flaw == Flaw::PartialSets && sets.len() > 1 {
            sets.remove(0);
        }
        Snapshot {
            now: at(self.now),
            deployment: deployment.clone(),
            replica_sets: sets,
            pods: pods.into(),
            replica_sets_complete: true,
            pods_complete: with_pods,
            failures,
            events: Arc::new([]),
            surroundings: Arc::default(),
        }
    }

    /// Asks for a plan, makes the reads that the planner asks for first, and begins to carry out the plan.
    fn make_plan(&mut self) {
        self.adapter.queued = false;
        self.adapter.timer = None;
        let mut reads = Vec::new();
        for round in 1.. {
            let Some(owner) = self.adapter.view.cached_deployment.clone() else {
                self.adapter.answers.clear();
                self.adapter.disturb();
                return;
            };
            let (mut sync, seen) = self.observe(&owner, &reads);
            let snapshot = &seen.snapshot;
            let mut plan = self.flaw.plan(snapshot, Options::default());
            // Some adapters delay statuses.
            let interval = Span::from_seconds(i64::from(self.setup.replicas % 3));
            let decision = sync.decide(&mut plan, &snapshot.deployment, interval);
            let Decision::Read(wanted) = decision else {
                self.tallies.count(Tally::Planned);
                self.begin(sync.state, decision, plan, seen);
                return;
            };
            if round > ROUNDS_MAX {
                self.violate(
                    "reads",
                    format!("asked to read again and again: {wanted:?}"),
                );
                return;
            }
            self.tallies.count(Tally::Read);
            reads.extend(self.read(&wanted));
        }
    }

    /// What the planner reads from a request: the state of the loop, and the newest versions of the objects.
    fn observe(&self, owner: &Arc<Deployment>, reads: &[ReadAnswer]) -> (Sync, Seen) {
        let view = &self.adapter.view;
        let owner_uid = owner.metadata.uid.as_str();
        let mut sync = Sync::begin(self.adapter.state.clone(), owner_uid, at(self.now));
        let answers = self.adapter.answers.iter();
        let answers: BTreeMap<_, _> = answers
            .map(|(index, outcome)| (*index, outcome.answer(owner_uid)))
            .collect();
        sync.record_answers(&answers);
        let cached: Vec<&Arc<StoredSet>> = view.cached_sets.values().collect();
        let mut observed = vec![deployment_version(owner)];
        observed.extend(cached.iter().map(|stored| set_version(stored, owner_uid)));
        for read in reads {
            read.record(&mut sync, owner_uid, &observed);
        }
        if self.flaw == Flaw::TrustsCache {
            sync.state.is_verified = true;
        }
        if self.flaw == Flaw::ForgetsVersions {
            sync.state.known.clear();
        }
        let written = self.adapter.answers.values();
        let deployments: Vec<&Arc<Deployment>> = written
            .clone()
            .filter_map(Outcome::deployment)
            .chain(reads.iter().filter_map(ReadAnswer::deployment))
            .collect();
        let sets: Vec<&Arc<StoredSet>> = written
            .filter_map(Outcome::set)
            .chain(reads.iter().flat_map(ReadAnswer::sets))
            .collect();
        let mut answered: Vec<_> = deployments
            .iter()
            .map(|it| deployment_version(it))
            .collect();
        answered.extend(sets.iter().map(|stored| set_version(stored, owner_uid)));
        let origins = sync.current(&observed, &answered);
        let mut current = owner;
        let mut current_sets = Vec::new();
        for origin in origins {
            match origin {
                Origin::Observed(0) => {}
                Origin::Observed(index) => current_sets.push(cached[index - 1]),
                Origin::Answered(index) => match deployments.get(index) {
                    Some(deployment) => current = deployment,
                    None => current_sets.push(sets[index - deployments.len()]),
                },
            }
        }
        let recreate = current.spec.strategy == Strategy::Recreate;
        let failures = self.adapter.failures();
        let snapshot = self.snapshot_of(current, current_sets.iter().copied(), failures, recreate);
        let seen = Seen::new(snapshot, current_sets.into_iter(), view);
        (sync, seen)
    }

    fn begin(&mut self, state: State, decision: Decision, plan: Plan, seen: Seen) {
        let (at_latest, is_carried_out) = match decision {
            Decision::CarryOut { at_latest } => (at_latest, true),
            Decision::Wait { at_latest } => (at_latest, false),
            Decision::Read(_) => (None, false),
        };
        let now = self.now;
        let adapter = &mut self.adapter;
        adapter.state = state;
        adapter.answers.clear();
        // Fractions are rounded up to a full second.
        let due = at_latest.map(|span| now + span.seconds() + i64::from(span.subsec_nanos() > 0));
        adapter.timer = due.filter(|_| self.flaw != Flaw::NoTimer);
        // Watches have reported their changes, but reads may have shown others.
        let is_changed =
            |(uid, version): (String, u64)| adapter.newest.get(&uid).is_none_or(|it| *it < version);
        if seen.versions().any(is_changed) {
            adapter.disturb();
        }
        adapter.newest.extend(seen.versions());
        if !seen.snapshot.failures.is_empty() {
            adapter.rejections.clone_from(&seen.snapshot.failures);
        }
        if !is_carried_out {
            self.tallies.count(Tally::Withheld);
            self.adapter.disturb();
            return;
        }
        let snapshot = &seen.snapshot;
        self.trace(|| format!("  the adapter observes {}", describe(snapshot)));
        self.check_plan(snapshot, &plan);
        self.plan_native(snapshot, &plan);
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
            reacted: !seen.snapshot.failures.is_empty(),
            directions: BTreeMap::new(),
        });
        let running = Running {
            plan: Arc::new(plan),
            next: 0,
            seen: Arc::new(seen),
            sizes,
            owner_checked: false,
            has_failed: false,
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
        let is_clean = !running.has_failed;
        if let Some(undisturbed) = &mut self.adapter.undisturbed {
            undisturbed.complete = is_clean;
        }
        // The planner knows what a failure means.
        self.adapter.queued |= !is_clean;
        if is_clean && running.seen.snapshot.failures.is_empty() {
            self.adapter.rejections.clear();
        }
        if is_clean {
            self.write_native(running);
        }
    }
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
