//! The checks of worlds with canaries.

use std::collections::BTreeSet;

use rollplan_canary::{ANNOTATION, CheckResult, Fields, HELD_DEADLINE, HELD_MIN_READY, LABEL};
use rollplan_core::size::IntOrPercent;
use rollplan_core::snapshot::Deployment;
use rollplan_world::at;
use serde_json::{Value, json};

use super::STABLE;
use super::world::{CanaryWorld, Decrease, Part, Seen, step_of};
use crate::server::StoredSet;
use crate::tally::Tally;

/// The annotation of the Deployment controller.
const REVISION: &str = rollplan_core::revision::REVISION;

impl CanaryWorld {
    /// The sizes stay within the ceiling of the user. The Deployment controller may work with any generation since the one
    /// in its cache.
    pub(super) fn check_size(&mut self, stored: &StoredSet, before: i32, seen: &Seen) {
        let after = stored.set.replicas;
        let is_held = matches!(seen.part, Part::Hold | Part::Abort);
        self.was_scaled |= seen.is_scaled && is_held && after != before;
        if after < before && self.is_raised && self.is_held() {
            let name = &stored.set.metadata.name;
            let message = format!("{name} shrinks from {before} to {after} after a raise");
            self.violate("canary-shrink", message);
        }
        if after < before {
            let uid = stored.set.metadata.uid.clone();
            let decrease = Decrease {
                spared: self.unavailable_of_other_canaries(&uid),
                seen: seen.clone(),
                is_stable: stored.template == STABLE,
                is_held: stored.set.min_ready_seconds == HELD_MIN_READY,
            };
            self.decreases.insert(uid, decrease);
        }
        if after <= before {
            return;
        }
        self.count(Tally::CheckCanaryCeiling);
        let sets = self.world.store.sets.values();
        let sum: i64 = sets.map(|it| i64::from(it.set.replicas)).sum();
        let (ceiling, _) = self.extremes(seen.generation);
        if sum <= ceiling {
            return;
        }
        // Proportional scaling may increase one size before it decreases another.
        let name = &stored.set.metadata.name;
        let message = format!("sizes of {sum} exceed {ceiling} after scaling up {name}");
        if !seen.is_scaled {
            return self.violate("canary-ceiling", message);
        }
        if matches!(seen.part, Part::Hold | Part::Abort) {
            self.exceeds = Some(message);
        } else {
            self.count(Tally::ExemptCanaryScaled);
        }
    }

    /// At a hold and in its abort, the sizes are within the ceiling again after proportional scaling, unless a stale write
    /// has ended it.
    pub(super) fn check_scaled(&mut self, seen: &Seen, is_ended: bool) {
        let Some(message) = self.exceeds.take() else {
            return;
        };
        let sets = self.world.store.sets.values();
        let sum: i64 = sets.map(|it| i64::from(it.set.replicas)).sum();
        if is_ended || sum <= self.extremes(seen.generation).0 {
            self.count(Tally::ExemptCanaryScaledFirst);
        } else {
            self.violate("canary-ceiling", message);
        }
    }

    /// The ReplicaSet controller has deleted these available pods, and this number is left. From a promotion on, and without
    /// a canary, the guarantees are those of the Deployment controller alone.
    pub(super) fn check_removal(&mut self, uid: &str, deleted: &BTreeSet<u32>, available: usize) {
        let Some(decrease) = self.decreases.get(uid).cloned() else {
            return;
        };
        let Decrease {
            seen,
            is_stable,
            is_held,
            spared,
        } = decrease;
        let part = seen.part;
        if self.lost_set || !matches!(part, Part::Hold | Part::Abort) {
            return self.count(Tally::ExemptCanaryNative);
        }
        // It scales without regard to availability: the canary gets its share, rounded, also if its pods are not ready.
        if self.was_scaled {
            return self.count(Tally::ExemptCanaryScaled);
        }
        let is_replaced = part == Part::Hold && seen.has_third && is_stable;
        // Another client has restored the stable template before that.
        if is_replaced && is_held {
            return self.count(Tally::ExemptCanaryUndone);
        }
        self.count(Tally::CheckCanaryFloor);
        let mut is_late = false;
        let mut recovered = self.recovered(uid, deleted, &seen);
        if part == Part::Abort && !is_stable && recovered == 0 {
            // These pods of the canary have become available since the abort was planned.
            recovered = deleted.difference(&self.planned_available).count();
            is_late = recovered > 0;
        }
        if is_replaced {
            // The Deployment controller removes as many stable pods as are unavailable, but the ReplicaSet controller keeps
            // the ready ones of these, and deletes available pods instead.
            recovered += self.recovered(uid, &self.ready(uid), &seen);
            if recovered >= deleted.len() {
                return self.count(Tally::ExemptCanaryReady);
            }
        }
        let (_, floor) = self.extremes(seen.generation);
        let count = |it: usize| i64::try_from(it).unwrap_or(i64::MAX);
        let unknown = self.unknown_failures(&seen);
        let failed = unknown + count(recovered);
        if count(available) + failed >= floor {
            if is_late && count(available) + unknown < floor {
                self.count(Tally::ExemptCanaryLate);
            }
            return;
        }
        // The ReplicaSet of the previous canary keeps `minReadySeconds` of the hold, so its pods count as unavailable, too, and
        // the Deployment controller removes those of the older ReplicaSet first.
        if part == Part::Abort && is_held && count(available) + failed + spared >= floor {
            return self.count(Tally::ExemptCanaryOlder);
        }
        // The ReplicaSet controller has kept ready pods of the canary instead of available ones.
        let kept = self.recovered(uid, &self.ready(uid), &seen);
        if part == Part::Abort && !is_stable && count(available) + failed + count(kept) >= floor {
            return self.count(Tally::ExemptCanaryReady);
        }
        let message =
            format!("{available} available pods, {failed} failed, fewer than {floor} ({part:?})");
        self.violate("canary-floor", message);
    }

    /// Whether all canary pods of the step have been ready for long enough, and the last verdict about the template and the
    /// step since this time passes.
    pub(super) fn is_good(&self, since: i64) -> bool {
        let deployment = self.deployment();
        let template = &deployment.spec.template;
        let mut sets = self.world.store.sets.values();
        let Some(stored) = sets.find(|it| it.set.template.same_as(template)) else {
            return false;
        };
        let pods = self.world.store.pods_of(&stored.set.metadata.uid);
        let pods: Vec<_> = pods.filter(|pod| pod.is_active()).collect();
        let seconds = self.setup.bake.max(self.user.min_ready_seconds);
        let is_ready = pods
            .iter()
            .all(|pod| pod.stored.is_available(seconds, self.world.now));
        let size = usize::try_from(stored.set.replicas).unwrap_or(0);
        let digest = template.canonical_sha256();
        let since = at(since);
        let step = step_of(&deployment);
        let replicas = deployment.spec.replicas;
        let surge = Fields::of(&deployment).map_or(0, |it| it.max_surge.rounded_up(replicas));
        let about = self.verdicts.iter().filter(|it| {
            it.template_digest == digest && it.step == step && it.observed_at >= since
        });
        let last = about.max_by_key(|it| (it.observed_at, it.result));
        let passes = match last {
            Some(verdict) => verdict.result == CheckResult::Pass,
            None => !self.setup.has_gate && self.verdicts.is_empty(),
        };
        let has_step = stored.set.replicas >= surge.min(replicas);
        size > 0 && has_step && pods.len() >= size && is_ready && passes
    }

    /// A patch has written annotation, label and fields together.
    pub(super) fn check_atomic(&mut self, after: &Deployment) {
        self.count(Tally::CheckCanaryAtomic);
        let (metadata, spec) = (&after.metadata, &after.spec);
        let state = metadata.annotations.get(ANNOTATION);
        let state: Value = state
            .and_then(|it| serde_json::from_str(it).ok())
            .unwrap_or_default();
        let phase = state["phase"].as_str().unwrap_or("none");
        let is_canary = matches!(phase, "hold" | "promoting" | "aborting");
        let held = (
            spec.min_ready_seconds == HELD_MIN_READY,
            spec.progress_deadline_seconds == HELD_DEADLINE,
            metadata.labels.contains_key(LABEL),
        );
        let is_hold = phase == "hold";
        let expected = (is_hold, is_hold, is_canary);
        if held != expected {
            let message = format!("{phase}, but {held:?} instead of {expected:?}");
            return self.violate("canary-atomic", message);
        }
        let user = fields_json(self.user);
        if is_canary && state["user"] != user {
            let message = format!("{}, and the user wants {user}", state["user"]);
            self.violate("canary-user", message);
        }
    }

    /// At the end, the Deployment is the user's except for its revision.
    pub(super) fn check_user(&mut self) {
        self.count(Tally::CheckCanaryUser);
        let deployment = self.deployment();
        let (metadata, spec) = (&deployment.metadata, &deployment.spec);
        let live = Fields::of(&deployment).map(fields_json);
        let is_known = |key: &String| key == REVISION || key == ANNOTATION;
        let state = metadata.annotations.get(ANNOTATION);
        let has_canary = state.is_some_and(|it| !it.contains("\"phase\":\"aborted\""));
        let is_template =
            |it: &rollplan_core::template::Template| it.value() == spec.template.value();
        let checks = [
            ("fields", live == Some(fields_json(self.user))),
            ("template", self.world.templates.iter().any(is_template)),
            ("paused", !spec.paused),
            ("labels", metadata.labels.is_empty()),
            (
                "annotations",
                !has_canary && metadata.annotations.keys().all(is_known),
            ),
        ];
        for (name, _) in checks.iter().filter(|it| !it.1) {
            let message = format!(
                "{name}: {metadata:?} {live:?}, and the user wants {:?}",
                self.user
            );
            self.violate("canary-user", message);
        }
    }
}

/// The fields as in a manifest.
fn fields_json(fields: Fields) -> Value {
    let limit = |limit: IntOrPercent| match limit {
        IntOrPercent::Int(count) => json!(count),
        percent => json!(percent.to_string()),
    };
    json!({
        "maxSurge": limit(fields.max_surge),
        "maxUnavailable": limit(fields.max_unavailable),
        "minReadySeconds": fields.min_ready_seconds,
        "progressDeadlineSeconds": fields.progress_deadline_seconds,
    })
}
