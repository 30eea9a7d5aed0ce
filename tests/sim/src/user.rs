//! The changes of users and autoscalers: to the Deployment, and, although they should not, to its ReplicaSets.

use std::sync::Arc;

use rollplan_core::action::Step;
use rollplan_core::caps::{NEW_MAX, OLD_MIN};
use rollplan_core::revision::ROLLBACK_TO;
use rollplan_core::rollback;
use rollplan_core::snapshot::{Deployment, DeploymentSpec, Snapshot};
use rollplan_world::at;

use crate::script::{Event, Propagation};
use crate::server::{StoredSet, Writer};
use crate::tally::Tally;
use crate::world::World;

/// An annotation that is copied to the ReplicaSet.
const NOTE: &str = "example.com/note";

impl World {
    pub(crate) fn act_as_user(&mut self, event: Event) {
        match event {
            Event::Scale(replicas) => self.edit(Tally::Scaled, |spec| spec.replicas = replicas),
            Event::Pause => self.edit(Tally::Paused, |spec| spec.paused = true),
            Event::Resume => self.edit(Tally::Resumed, |spec| spec.paused = false),
            Event::Template(number) => {
                let templates = Arc::clone(&self.templates);
                if let Some(template) = templates.get(usize::from(number)) {
                    self.edit(Tally::TemplateChanged, |spec| {
                        spec.template = template.clone();
                    });
                }
            }
            Event::Strategy(strategy) => {
                self.edit(Tally::StrategyChanged, |spec| spec.strategy = strategy);
            }
            Event::MinReady(seconds) => {
                self.edit(Tally::Tuned, |spec| spec.min_ready_seconds = seconds);
            }
            Event::History(limit) => {
                self.edit(Tally::Tuned, |spec| spec.revision_history_limit = limit);
            }
            Event::Deadline(seconds) => {
                self.edit(Tally::Tuned, |spec| {
                    spec.progress_deadline_seconds = seconds;
                });
            }
            Event::Annotate(value) => self.annotate(Tally::Annotated, NOTE, value.to_string()),
            Event::Cap(new_max, old_min) => self.cap(new_max, old_min),
            Event::RollbackTo(revision) => {
                self.annotate(Tally::RollbackRequested, ROLLBACK_TO, revision.to_string());
            }
            Event::Undo(revision) => self.undo(revision.into()),
            Event::Delete(how) => self.delete(how),
            Event::Create => self.create(),
            Event::Resize(choice, size) => self.meddle(Tally::Resized, choice, |stored| {
                stored.set.replicas = size;
            }),
            Event::Relabel(choice) => self.meddle(Tally::Relabeled, choice, |stored| {
                let label = stored.set.metadata.labels.entry("app".to_owned());
                let label = label.or_default();
                *label = if label == "web" { "other" } else { "web" }.to_owned();
            }),
            Event::Disown(choice) => self.meddle(Tally::Disowned, choice, |stored| {
                stored.set.metadata.owner_references.clear();
            }),
            _ => {}
        }
    }

    /// Edits the spec. A change increments the generation.
    fn edit(&mut self, tally: Tally, change: impl FnOnce(&mut DeploymentSpec)) {
        let Some(before) = self.live_deployment() else {
            return;
        };
        let mut after = Deployment::clone(&before);
        change(&mut after.spec);
        if differs(&before.spec, &after.spec) {
            after.metadata.generation += 1;
            self.tallies.count(tally);
            self.store.put_deployment(after, Writer::Other);
        }
    }

    fn live_deployment(&self) -> Option<Arc<Deployment>> {
        let alive =
            |deployment: &&Arc<Deployment>| deployment.metadata.deletion_timestamp.is_none();
        self.store.deployment.as_ref().filter(alive).cloned()
    }

    fn annotate(&mut self, tally: Tally, key: &str, value: String) {
        if let Some(before) = self.live_deployment() {
            let mut after = Deployment::clone(&before);
            after.metadata.annotations.insert(key.to_owned(), value);
            self.tallies.count(tally);
            self.store.put_deployment(after, Writer::Other);
        }
    }

    /// Sets the caps, or removes them.
    pub(crate) fn cap(&mut self, new_max: Option<u8>, old_min: Option<u8>) {
        let Some(before) = self.live_deployment() else {
            return;
        };
        let mut after = Deployment::clone(&before);
        let annotations = &mut after.metadata.annotations;
        for (key, cap) in [(NEW_MAX, new_max), (OLD_MIN, old_min)] {
            match cap {
                Some(cap) => annotations.insert(key.to_owned(), cap.to_string()),
                None => annotations.remove(key),
            };
        }
        if before.metadata.annotations != after.metadata.annotations {
            self.tallies.count(Tally::CapsChanged);
            self.store.put_deployment(after, Writer::Other);
        }
    }

    /// `rollplan undo` on the actual state.
    fn undo(&mut self, revision: i64) {
        let Some(deployment) = self.live_deployment() else {
            return;
        };
        let sets = self.store.sets.values();
        let snapshot = Snapshot {
            now: at(self.now),
            deployment: (*deployment).clone(),
            replica_sets: sets.map(|stored| stored.set.clone()).collect(),
            pods: Arc::new([]),
            replica_sets_complete: true,
            pods_complete: false,
            failures: Vec::new(),
            events: Arc::new([]),
            surroundings: Arc::default(),
        };
        let Ok(rollback) = rollback(&snapshot, revision) else {
            return;
        };
        for call in rollback.steps.iter().filter_map(Step::call) {
            let answer = self.store.call(&call, at(self.now), Writer::Other);
            self.tallies.count(Tally::RolledBack);
            self.check_undo(&rollback.replica_set, answer);
        }
    }

    fn delete(&mut self, how: Propagation) {
        let Some(deployment) = self.live_deployment() else {
            return;
        };
        match how {
            Propagation::Background => {
                self.tallies.count(Tally::Deleted);
                self.store.remove_deployment();
            }
            Propagation::Foreground => {
                self.tallies.count(Tally::Deleted);
                let mut deleting = Deployment::clone(&deployment);
                deleting.metadata.deletion_timestamp = Some(at(self.now));
                deleting.metadata.generation += 1;
                self.store.put_deployment(deleting, Writer::Other);
            }
            Propagation::Orphan => {
                self.tallies.count(Tally::Orphaned);
                let uid = deployment.metadata.uid.clone();
                self.store.remove_deployment();
                let sets: Vec<Arc<StoredSet>> = self.store.sets.values().cloned().collect();
                for stored in sets {
                    let mut orphan = StoredSet::clone(&stored);
                    let owners = &mut orphan.set.metadata.owner_references;
                    owners.retain(|owner| owner.uid != uid);
                    _ = self.store.update_set(&stored, orphan, Writer::Other);
                }
            }
        }
    }

    fn create(&mut self) {
        if self.store.deployment.is_none() {
            self.tallies.count(Tally::Created);
            self.create_deployment(0);
        }
    }

    /// Changes a ReplicaSet, unless it belongs to another owner.
    fn meddle(&mut self, tally: Tally, choice: u8, change: impl FnOnce(&mut StoredSet)) {
        let Some(before) = self.chosen_set(choice) else {
            return;
        };
        if before.set.metadata.name == "web-stranger" {
            return;
        }
        let mut after = StoredSet::clone(&before);
        change(&mut after);
        let version_before = self.store.version;
        _ = self.store.update_set(&before, after, Writer::Other);
        if self.store.version != version_before {
            self.tallies.count(tally);
        }
    }
}

pub(crate) fn differs(a: &DeploymentSpec, b: &DeploymentSpec) -> bool {
    !a.template.same_as(&b.template)
        || (a.replicas, a.paused, a.strategy) != (b.replicas, b.paused, b.strategy)
        || a.min_ready_seconds != b.min_ready_seconds
        || a.revision_history_limit != b.revision_history_limit
        || a.progress_deadline_seconds != b.progress_deadline_seconds
}
