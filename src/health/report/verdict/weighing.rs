//! Weighs the causes: the first certain one is the verdict, and the others are recorded.

use super::{Outlook, Verdict};
use crate::diagnosis::{Blocker, Failure, Finality};
use rollplan_core::time::Time;

/// The causes so far, none of which is certain.
pub(crate) struct Weighing<'b> {
    /// The blocker to report.
    pub(crate) lead: Option<&'b Blocker>,
    /// The time of the first snapshot that showed the failure, if `lead` is one.
    pub(crate) since: Option<Time>,
    /// When the first of them will be certain, if known.
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
                // The caller sends this reason back in the next request.
                self.lead = Some(blocker);
                self.certain_at = self.certain_at.or(at);
            }
            Finality::Open => {}
        }
        None
    }
}

/// The verdict about a failure that the rules prove, whether or not the status of the object reports it.
pub(crate) fn certain(blocker: &Blocker, since: Option<Time>) -> Verdict {
    Verdict {
        since,
        is_reported: false,
        ..Verdict::new(Outlook::NeedsChange, true, Some(blocker))
    }
}
