//! A world left to itself: everybody takes turns until nothing moves, and then that is looked at.

use std::sync::Arc;

use crate::pods::StoredPod;
use crate::script::{Event, Fault, Kind, TEMPLATES};
use crate::server::StoredSet;
use crate::world::World;

/// Steps that the adapter may take in one turn.
const ADAPTER_STEPS_MAX: usize = 64;
/// Turns of waiting for nothing but the limiter, after which refusals count as lasting.
const RETRIES_MAX: usize = 6;

impl World {
    /// Everybody takes turns until nothing more happens; then what must hold at rest is checked.
    pub(crate) fn calm(&mut self) {
        let mut retries = 0;
        for _ in 0..self.turns_max() {
            if self.violation.is_some() {
                return;
            }
            if self.take_turns() {
                continue;
            }
            let refused = !self.adapter.failures.is_empty();
            let Some(due) = self.due() else {
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
            format!("no rest after {} turns", self.turns_max()),
        );
    }

    /// More turns than any rollout of this size needs.
    fn turns_max(&self) -> usize {
        let sizes = self.store.sets.values().map(|stored| stored.set.replicas);
        let deployment = self.store.deployment.iter();
        let wanted = deployment.map(|deployment| deployment.spec.replicas);
        let pods: i32 = sizes.chain(wanted).sum();
        100 + 16 * usize::try_from(pods).unwrap_or(0)
    }

    /// Everybody takes one turn. Says whether anything was done.
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
                self.violate("endless", "the adapter finds no end".to_owned());
                return false;
            }
        }
        let sets: Vec<Arc<StoredSet>> = self.store.sets.values().cloned().collect();
        for stored in &sets {
            self.sync_set(stored);
        }
        let pods: Vec<Arc<StoredPod>> = self.store.pods.values().cloned().collect();
        for pod in &pods {
            self.advance_pod(pod);
        }
        self.collect();
        busy || self.store.version != version_before
    }

    /// When something happens by itself, if ever: a pod has been ready for long enough, or the adapter's time has
    /// come.
    fn due(&self) -> Option<i64> {
        let ready = self.store.pods.values().filter_map(|pod| {
            let set = self.store.set_by_uid(&pod.set_uid)?;
            let seconds = i64::from(set.set.min_ready_seconds);
            let due = pod.ready_since.filter(|_| pod.is_ready())? + seconds;
            (due > self.now).then_some(due)
        });
        ready.chain(self.adapter.due()).min()
    }

    /// Everything works again.
    pub(crate) fn heal(&mut self) {
        self.quota_pods = None;
        self.quota_sets = false;
        self.next_answer = None;
        self.faults = [Fault::None; TEMPLATES as usize];
    }

    /// The end of every world: what is stuck is looked at; then everything works again, whoever paused resumes,
    /// and the rollout must complete.
    pub(crate) fn end(&mut self) {
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
