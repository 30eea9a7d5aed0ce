//! Writes of other clients.

use std::sync::Arc;

use rollplan_canary::{ANNOTATION, Fields};
use rollplan_core::rollback;
use rollplan_core::size::IntOrPercent;
use rollplan_core::snapshot::{Deployment, StringMap};

use super::world::CanaryWorld;
use super::{Interference, STABLE, strategy};
use crate::server::Writer;
use crate::tally::Tally;

impl CanaryWorld {
    pub(super) fn interfere(&mut self, interference: Interference) {
        self.count(Tally::CanaryInterfered);
        match interference {
            Interference::Apply(number) => {
                let template = self.template(number);
                let manifest = Fields {
                    max_surge: self.setup.surge,
                    max_unavailable: self.setup.unavailable,
                    min_ready_seconds: self.setup.min_ready,
                    ..self.user
                };
                self.set_fields(manifest, |it| it.spec.template = template);
            }
            Interference::SetTemplate(number) => {
                let template = self.template(number);
                self.edit(|it| it.spec.template = template);
            }
            Interference::Undo => self.undo(),
            Interference::PutBack => {
                let seconds = self.user.min_ready_seconds;
                self.edit(|it| it.spec.min_ready_seconds = seconds);
            }
            Interference::Limits(surge, unavailable) => {
                let live = Fields::of(&self.deployment()).unwrap_or(self.user);
                let limits = Fields {
                    max_surge: IntOrPercent::Int(surge.into()),
                    max_unavailable: IntOrPercent::Int(unavailable.into()),
                    ..live
                };
                self.set_fields(limits, |_| {});
            }
            Interference::DropState => self.remove_state(|it| {
                it.metadata.annotations.remove(ANNOTATION);
            }),
            Interference::Pause => self.edit(|it| it.spec.paused = true),
            Interference::Resume => self.edit(|it| it.spec.paused = false),
            Interference::Zero => self.scale(0),
            Interference::DeleteStable => self.delete_stable(),
        }
    }

    /// Writes fields, which are those of the user from then on. At a hold, a limit that equals the one of the hold does not
    /// look like a change. If the user wanted another one, nothing is written.
    fn set_fields(&mut self, fields: Fields, more: impl FnOnce(&mut Deployment)) {
        let user = self.user;
        let held = self.held;
        let is_hidden =
            |held: IntOrPercent, new: IntOrPercent, user: IntOrPercent| new == held && user != held;
        if held.is_some_and(|(surge, unavailable)| {
            is_hidden(surge, fields.max_surge, user.max_surge)
                || is_hidden(unavailable, fields.max_unavailable, user.max_unavailable)
        }) {
            return;
        }
        // The Deployment controller scales a paused Deployment to other limits as well.
        self.was_scaled |= self.has_started;
        self.user.max_surge = fields.max_surge;
        self.user.max_unavailable = fields.max_unavailable;
        self.edit(|it| {
            it.spec.strategy = strategy(fields.max_surge, fields.max_unavailable);
            it.spec.min_ready_seconds = fields.min_ready_seconds;
            it.spec.progress_deadline_seconds = fields.progress_deadline_seconds;
            more(it);
        });
    }

    /// A change that may remove the state. Kubernetes copies each state to a ReplicaSet. Before that it would be lost, so
    /// nothing is changed then.
    fn remove_state(&mut self, change: impl FnOnce(&mut Deployment)) {
        let state = |annotations: &StringMap| annotations.get(ANNOTATION).cloned();
        let newest = state(&self.deployment().metadata.annotations);
        let mut sets = self.world.store.sets.values();
        if newest.is_some() && !sets.any(|it| state(&it.set.metadata.annotations) == newest) {
            return self.count(Tally::ExemptCanaryOldCopy);
        }
        self.edit(change);
    }

    /// `kubectl rollout undo`, which replaces all annotations with those of the ReplicaSet.
    fn undo(&mut self) {
        let Ok(rollback) = rollback(&self.snapshot(), 0) else {
            return;
        };
        let Some(stored) = self.world.store.sets.get(&rollback.replica_set).cloned() else {
            return;
        };
        let numbered = self.world.templates.get(usize::from(stored.template));
        let template = numbered.cloned();
        let revision = rollplan_core::revision::REVISION;
        self.remove_state(|it| {
            let own = it.metadata.annotations.get(revision).cloned();
            let mut annotations = stored.set.metadata.annotations.clone();
            annotations.retain(|key, _| !key.starts_with("deployment.kubernetes.io/"));
            annotations.extend(own.map(|own| (revision.to_owned(), own)));
            it.metadata.annotations = annotations;
            if let Some(template) = template {
                it.spec.template = template;
            }
        });
    }

    /// Deletes the ReplicaSet of the stable template. Its pods are lost.
    fn delete_stable(&mut self) {
        let sets = self.world.store.sets.values();
        let stable = sets.filter(|it| it.template == STABLE).map(Arc::clone);
        for stored in stable.collect::<Vec<_>>() {
            self.lost_set |= stored.set.replicas > 0;
            let has_state = |annotations: &StringMap| annotations.contains_key(ANNOTATION);
            self.lost_copy |= has_state(&stored.set.metadata.annotations)
                && !has_state(&self.deployment().metadata.annotations);
            let name = &stored.set.metadata.name;
            self.world.store.remove_set(name, Writer::Other);
        }
    }
}
