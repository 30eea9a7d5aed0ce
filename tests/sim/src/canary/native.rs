//! The Deployment controller of Kubernetes, on late caches, and the ReplicaSet controller.

use std::sync::Arc;

use rollplan_core::plan_pass;
use rollplan_core::snapshot::Options;
use rollplan_core::template::Template;
use rollplan_world::at;

use super::STABLE;
use super::world::{CanaryWorld, Reported, Seen};
use crate::check::is_scaled;
use crate::server::{StoredSet, Writer, Written, version_of};

impl CanaryWorld {
    /// One sync of the Deployment controller. It ends at the first write that is stale. Returns whether it has written
    /// anything.
    pub(super) fn sync_native(&mut self) -> bool {
        let Some(snapshot) = self.world.snapshot(false) else {
            return false;
        };
        let plan = plan_pass(&snapshot, Options::default());
        let view = &self.world.adapter.view;
        let versions = view.sets().map(|stored| {
            let metadata = &stored.set.metadata;
            (metadata.uid.clone(), version_of(metadata))
        });
        let seen = Seen {
            part: self.part,
            generation: snapshot.deployment.metadata.generation,
            versions: versions.collect(),
            is_scaled: is_scaled(&snapshot),
            has_third: self.has_third(&snapshot.deployment.spec.template),
        };
        let mut has_written = false;
        let mut is_ended = false;
        for call in plan.steps.iter().filter_map(|step| step.call()) {
            let before = self.world.store.sets.get(&call.name).cloned();
            let now = at(self.world.now);
            let Ok(written) = self.world.store.call(&call, now, Writer::Adapter) else {
                is_ended = true;
                break;
            };
            has_written = true;
            let view = &mut self.world.adapter.view;
            match &written {
                Written::Set(stored) => {
                    view.overlay_set(stored);
                    let before = before.map_or(0, |it| it.set.replicas);
                    self.world.trace(|| {
                        let (number, after) = (stored.template, stored.set.replicas);
                        format!(
                            "  template {number} of generation {}: size {before} to {after} ({:?})",
                            seen.generation, self.part
                        )
                    });
                    self.check_size(stored, before, &seen);
                }
                Written::Deployment(deployment) => view.overlay_deployment(deployment),
                Written::Deleted => {}
            }
        }
        self.check_scaled(&seen, is_ended);
        has_written
    }

    /// Whether the cache has a ReplicaSet with pods whose template is neither the stable one nor this one, which is not the
    /// stable one either.
    fn has_third(&self, template: &Template) -> bool {
        let others = self.world.adapter.view.sets();
        let mut others = others.filter(|it| it.template != STABLE && it.set.replicas > 0);
        !template.same_as(&self.template(STABLE))
            && others.any(|it| !it.set.template.same_as(template))
    }

    /// One sync of the ReplicaSet controller.
    pub(super) fn sync_set(&mut self, stored: &Arc<StoredSet>) {
        let before = self.available();
        self.world.sync_set(stored);
        let after = self.available();
        let uid = &stored.set.metadata.uid;
        if before != after {
            self.world.trace(|| {
                let (number, size) = (stored.template, stored.set.replicas);
                let deleted = &before - &after;
                format!(
                    "  template {number}, size {size}: deleted {deleted:?}, available {after:?}"
                )
            });
        }
        if let Some(synced) = self.world.store.set_by_uid(uid) {
            let version = version_of(&synced.set.metadata);
            let failures = self.failures.get(uid).copied().unwrap_or_default();
            let now = Reported {
                failures,
                available: after.clone(),
            };
            let reported = self.reported.entry(uid.clone()).or_default();
            reported.insert(version, now);
        }
        if !before.is_subset(&after) {
            self.check_removal(uid, &(&before - &after), after.len());
        }
        self.decreases.remove(uid);
    }
}
