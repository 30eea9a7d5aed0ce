//! Runs a world without further events: all actors take turns until nothing changes, and the result is checked.

use std::sync::Arc;

use crate::pods::{Fault, SimPod};
use crate::script::{Event, Kind, TEMPLATES};
use crate::server::StoredSet;
use crate::world::World;

/// The maximum number of adapter steps in one turn.
const ADAPTER_STEPS_MAX: usize = 64;
/// The number of retries after which a rejection counts as permanent.
const RETRIES_MAX: usize = 6;

impl World {
    /// Lets all actors take turns until nothing changes, and then checks the resting state.
    pub(crate) fn calm(&mut self) {
        let mut retries = 0;
        for _ in 0..self.turns_max() {
            if self.violation.is_some() {
                return;
            }
            if self.take_turns() {
                continue;
            }
            let refused = !self.adapter.rejections.is_empty();
            let Some(due) = self.next_timer() else {
                self.check_rest();
                self.check_report();
                return;
            };
            retries += usize::from(refused);
            if retries > RETRIES_MAX {
                self.check_report();
                return;
            }
            self.wait((due - self.now).max(1));
        }
        self.violate(
            "endless",
            format!("still busy after {} turns", self.turns_max()),
        );
    }

    /// A number of turns that no rollout of this size needs.
    fn turns_max(&self) -> usize {
        let sizes = self.store.sets.values().map(|stored| stored.set.replicas);
        let deployment = self.store.deployment.iter();
        let wanted = deployment.map(|deployment| deployment.spec.replicas);
        let pods: i32 = sizes.chain(wanted).sum();
        100 + 16 * usize::try_from(pods).unwrap_or(0)
    }

    /// Lets every actor take one turn. Returns whether anything was done.
    fn take_turns(&mut self) -> bool {
        let version_before = self.store.version;
        let mut busy = false;
        for kind in [Kind::Deployments, Kind::Sets, Kind::Pods] {
            while self.deliver(kind) {
                busy = true;
            }
        }
        let mut steps = 0;
        while self.step_adapter() {
            busy = true;
            steps += 1;
            if steps > ADAPTER_STEPS_MAX {
                self.violate("endless", "the adapter does not finish".to_owned());
                return false;
            }
        }
        let sets: Vec<Arc<StoredSet>> = self.store.sets.values().cloned().collect();
        for stored in &sets {
            self.sync_set(stored);
        }
        let pods: Vec<Arc<SimPod>> = self.store.pods.values().cloned().collect();
        for pod in &pods {
            self.advance_pod(pod);
        }
        self.collect();
        busy || self.store.version != version_before
    }

    /// The time of the next event that needs no actor: a pod becomes available, or a timer of the adapter expires.
    fn next_timer(&self) -> Option<i64> {
        let ready = self.store.pods.values().filter_map(|pod| {
            let set = self.store.set_by_uid(&pod.set_uid)?;
            let seconds = i64::from(set.set.min_ready_seconds);
            let due = pod.stored.ready_since.filter(|_| pod.stored.is_ready())? + seconds;
            (due > self.now).then_some(due)
        });
        ready.chain(self.adapter.due(self.now)).min()
    }

    /// Removes all faults and quotas.
    pub(crate) fn heal(&mut self) {
        self.quota_pods = None;
        self.quota_sets = false;
        self.next_answer = None;
        self.faults = [Fault::None; TEMPLATES as usize];
        self.cap(None, None);
    }

    /// Ends a world: checks the report of a stuck rollout, removes all faults, resumes a paused Deployment, and checks that
    /// the rollout completes.
    pub(crate) fn end(&mut self) {
        self.check_certain();
        self.calm();
        self.heal();
        let paused = |world: &Self| {
            let deployment = world.store.deployment.as_ref();
            deployment.is_none_or(|deployment| {
                deployment.spec.paused || deployment.metadata.deletion_timestamp.is_some()
            })
        };
        if paused(self) {
            self.calm();
            self.step(Event::Resume);
            self.step(Event::Create);
        }
        self.calm();
        if self.violation.is_none() {
            self.check_converged();
        }
    }
}
