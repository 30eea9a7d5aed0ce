//! Scaling a ReplicaSet, and sending a changed copy of one.

use std::borrow::Cow;
use std::rc::Rc;

use super::sets::WorkingCopy;
use super::{Pass, Stop, SyncResult};
use crate::action::{Event, OnFailure};
use crate::revision;
use crate::scaling::ScaleReason;

impl Pass<'_> {
    /// `scaleReplicaSet`. Without `force`, nothing is written unless the size changes, although annotations are part of the
    /// write. Returns whether the size was changed, and the ReplicaSet as the server has it.
    pub(super) fn scale_set(
        &mut self,
        set: &WorkingCopy,
        size: i32,
        force: bool,
        reason: ScaleReason,
        on_failure: OnFailure,
    ) -> SyncResult<(bool, WorkingCopy)> {
        self.checkpoint()?;
        let resized = set.replicas != size;
        if !force && !resized {
            return Ok((false, set.clone()));
        }
        let mut annotations = Cow::Borrowed(self.sets.annotations(set));
        let stale = revision::set_replicas_annotations(
            &mut annotations,
            self.limits.replicas,
            self.limits.max_total(),
        );
        if !resized && !stale {
            return Ok((false, set.clone()));
        }
        let mut scaled = set.clone();
        scaled.replicas = size;
        if let Cow::Owned(annotations) = annotations {
            scaled.annotations = Some(Rc::new(annotations));
        }
        let scaled = self.write_set(scaled, on_failure)?;
        let name = &self.sets.cached(set).metadata.name;
        if let Some(event) = Event::scaled(name, set.replicas, size) {
            self.writes.attach(event);
            self.writes.explain(reason);
        }
        Ok((resized, scaled))
    }

    /// Sends a changed copy of a ReplicaSet.
    pub(super) fn write_set(
        &mut self,
        set: WorkingCopy,
        on_failure: OnFailure,
    ) -> SyncResult<WorkingCopy> {
        let Some(action) = self.sets.difference(&set)? else {
            return Ok(set);
        };
        let written = self.writes.act(action, on_failure);
        written.map_err(|_| Stop::Refused)?;
        Ok(self.sets.store(set))
    }
}
