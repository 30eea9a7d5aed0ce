//! The checks of worlds with canaries.

use std::collections::BTreeSet;

use rollplan_canary::{ANNOTATION, CheckResult, Fields, HELD_DEADLINE, HELD_MIN_READY, LABEL};
use rollplan_core::size::IntOrPercent;
use rollplan_core::snapshot::Deployment;
use rollplan_world::at;
use serde_json::{Value, json};

use super::world::{CanaryWorld, Part, Seen};
use crate::server::StoredSet;
use crate::tally::Tally;

/// The annotation of the Deployment controller.
const REVISION: &str = rollplan_core::revision::REVISION;

impl CanaryWorld {
    /// The sizes stay within the ceiling of the user. The Deployment controller may work with any generation since the one
    /// in its cache.
    pub(super) fn check_size(&mut self, stored: &StoredSet, before: i32, seen: &Seen) {
        let after = stored.set.replicas;
        if after < before {
            let uid = stored.set.metadata.uid.clone();
            self.decreases.insert(uid, seen.clone());
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
        // Proportional scaling may increase one size before it decreases another. At a hold, all ReplicaSets are scaled in
        // the same direction.
        let is_held = matches!(seen.part, Part::Hold | Part::Abort);
        if seen.is_scaled && !is_held {
            return self.count(Tally::ExemptCanaryScaled);
        }
        let name = &stored.set.metadata.name;
        let message = format!("sizes of {sum} exceed {ceiling} after scaling up {name}");
        self.violate("canary-ceiling", message);
    }

    /// The ReplicaSet controller has deleted these available pods, and this number is left. From a promotion on, and without
    /// a canary, the guarantees are those of the Deployment controller alone.
    pub(super) fn check_removal(&mut self, uid: &str, deleted: &BTreeSet<u32>, available: usize) {
        let Some(decrease) = self.decreases.get(uid).cloned() else {
            return;
        };
        let is_held = matches!(decrease.part, Part::Hold | Part::Abort);
        if self.lost_set || !is_held {
            return self.count(Tally::ExemptCanaryNative);
        }
        // It scales without regard to availability: the canary gets its share, rounded, also if its pods are not ready.
        if self.was_scaled {
            return self.count(Tally::ExemptCanaryScaled);
        }
        self.count(Tally::CheckCanaryFloor);
        let failed = self.unknown_failures(&decrease);
        let (_, floor) = self.extremes(decrease.generation);
        let available = i64::try_from(available).unwrap_or(i64::MAX);
        let failed = failed + self.recovered(uid, deleted, &decrease);
        if available + failed >= floor {
            return;
        }
        let part = decrease.part;
        let message =
            format!("{available} available pods, {failed} failed, fewer than {floor} ({part:?})");
        self.violate("canary-floor", message);
    }

    /// Whether all canary pods have been ready for long enough, and the last verdict about the template passes.
    pub(super) fn is_good(&self) -> bool {
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
        let since = at(self.template_since);
        let about = self
            .verdicts
            .iter()
            .filter(|it| it.template_digest == digest && it.observed_at >= since);
        let last = about.max_by_key(|it| (it.observed_at, it.result));
        let passes = match last {
            Some(verdict) => verdict.result == CheckResult::Pass,
            None => !self.setup.has_gate && self.verdicts.is_empty(),
        };
        size > 0 && pods.len() >= size && is_ready && passes
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
