//! Old pods that a strategy waits for.

use rollplan_core::snapshot::Pod;
use rollplan_core::time::Time;

use super::predicted::PredictedRollout;
use crate::explain::{BlockedPod, Blocker, Cause, deletion};
use crate::text::{count, or};

impl PredictedRollout<'_> {
    /// Recreate waits for the old pods to terminate, and for a list of pods that is known to be complete.
    pub(super) fn old_pods_running(&self) -> Option<Blocker> {
        let wanted = i64::from(self.limits.replicas);
        let is_sized = self.new_size == wanted && wanted > 0;
        let old_sets = self.observed.old_sets();
        // Caps keep them: nothing waits for their end.
        let is_kept = self.held_by_caps.is_some() && self.old_size > 0;
        if !self.strategy.awaits_old_pods() || old_sets.is_empty() || is_sized || is_kept {
            return None;
        }
        if let Some(blocker) = self.terminating() {
            return Some(blocker);
        }
        let mut sets = old_sets.iter();
        let lagging = sets.find(|set| set.status.observed_generation < set.metadata.generation);
        if let Some(set) = lagging {
            let message = format!(
                "{} is waiting: the ReplicaSet controller has not observed the latest size of old ReplicaSet {} yet",
                self.strategy_name(),
                set.metadata.name
            );
            return Some(Blocker::new(Cause::OldPodsRunning, message, ""));
        }
        (!self.observed.snapshot.pods_complete).then(|| {
            let message = format!(
                "{} is waiting: the list of pods is incomplete, so old pods may still be running",
                self.strategy_name()
            );
            let remedy = "send all pods of the old ReplicaSets, and set podsComplete";
            Blocker::new(Cause::PodsIncomplete, message, remedy)
        })
    }

    fn strategy_name(&self) -> &'static str {
        self.observed.snapshot.deployment.spec.strategy.name()
    }

    /// The old pods that the ReplicaSets count or the snapshot contains.
    fn terminating(&self) -> Option<Blocker> {
        let now = self.observed.snapshot.now;
        let due = |pod: &Pod| pod.metadata.deletion_timestamp;
        let pods = self.observed.old_pods().iter().copied();
        let mut running: Vec<&Pod> = pods
            .filter(|pod| !matches!(pod.phase.as_str(), "Failed" | "Succeeded"))
            .collect();
        running.sort_by_key(|pod| (due(pod).is_none(), due(pod), &pod.metadata.name));
        let counted = self.observed.old_sets().iter();
        let counted: i64 = counted.map(|set| i64::from(set.status.replicas)).sum();
        let number = counted.max(i64::try_from(running.len()).unwrap_or(i64::MAX));
        if number <= 0 {
            return None;
        }
        let example = running.first().map_or_else(String::new, |pod| {
            format!(
                ": {} {}",
                pod.metadata.name,
                deletion::pod_progress(pod, now)
            )
        });
        let message = format!(
            "{} is waiting for {} to terminate{example}",
            self.strategy_name(),
            count(number, "old pod")
        );
        let remedy = running
            .first()
            .map_or_else(String::new, |pod| deletion::remedy(pod, now));
        let blocked = running.iter().map(|pod| BlockedPod {
            name: pod.metadata.name.clone(),
            reason: match due(pod) {
                Some(_) => "Terminating".to_owned(),
                None => or(&pod.phase, "Pending").to_owned(),
            },
            since: due(pod).filter(|due| *due <= now),
            ..BlockedPod::default()
        });
        let mut blocker =
            Blocker::new(Cause::OldPodsRunning, message, remedy).with_pods(blocked.collect());
        blocker.pod_count = usize::try_from(number).unwrap_or(blocker.pod_count);
        let all_due: Option<Vec<Time>> = running.iter().map(|pod| due(pod)).collect();
        let last = all_due.and_then(|due| due.into_iter().max());
        blocker.remaining = last.filter(|last| *last > now).map(|last| last.since(now));
        Some(blocker)
    }
}
