//! Weighing what blocks: a cause that is certain is the verdict, and the others are remembered.

use super::{Outlook, Verdict};
use crate::diagnosis::{Blocker, Failure, Finality};
use rollplan_core::time::Time;

/// What was weighed so far, of which nothing is certain.
pub(crate) struct Weighing<'b> {
    /// The blocker to report.
    pub(crate) lead: Option<&'b Blocker>,
    /// The time of the first snapshot that showed the failure, if `lead` is one.
    pub(crate) since: Option<Time>,
    /// When the first of them will be certain, if that is known.
    pub(crate) certain_at: Option<Time>,
}

// === impl Weighing ===

impl<'b> Weighing<'b> {
    pub(crate) fn new(lead: Option<&'b Blocker>) -> Self {
        Self {
            lead,
            since: None,
            certain_at: None,
        }
    }

    /// Adds a call that the API server rejects. Returns the verdict if it is certain.
    pub(crate) fn add_refusal(&mut self, blocker: &Blocker, finality: Finality) -> Option<Verdict> {
        match finality {
            Finality::Certain => return Some(certain(blocker, None)),
            Finality::Pending(at) => self.certain_at = self.certain_at.or(at),
            Finality::Open => {}
        }
        None
    }

    /// Adds a failure of pods. Returns the verdict if it is certain.
    pub(crate) fn add_failure(
        &mut self,
        blocker: &'b Blocker,
        failure: &Failure,
    ) -> Option<Verdict> {
        match failure.finality {
            Finality::Certain => return Some(certain(blocker, Some(failure.since))),
            Finality::Pending(at) => {
                self.since = Some(failure.since);
                // The caller sends this reason back.
                self.lead = Some(blocker);
                self.certain_at = self.certain_at.or(at);
            }
            Finality::Open => {}
        }
        None
    }
}

fn certain(blocker: &Blocker, since: Option<Time>) -> Verdict {
    Verdict {
        since,
        ..Verdict::new(Outlook::NeedsChange, true, Some(blocker))
    }
}
