//! A verdict that collects failures: the first certain one decides it, and the others are recorded.

use rollplan_core::time::Time;

use super::failure::{Certainty, Failure};
use super::verdict::{Outlook, Verdict};
use crate::explain::Blocker;

/// What is known about a verdict that no failure has decided.
pub(crate) struct PendingVerdict<'b> {
    /// The blocker to report.
    pub(crate) lead: Option<&'b Blocker>,
    /// The time of the first snapshot that showed the failure, if `lead` is one.
    pub(crate) since: Option<Time>,
    /// When the first of them will be certain, if known.
    pub(crate) certain_at: Option<Time>,
}

// === impl PendingVerdict ===

impl<'b> PendingVerdict<'b> {
    pub(crate) fn new(lead: Option<&'b Blocker>) -> Self {
        Self {
            lead,
            since: None,
            certain_at: None,
        }
    }

    /// Adds a call that the API server rejects. Returns the verdict if it is certain.
    pub(crate) fn add_refusal(
        &mut self,
        blocker: &Blocker,
        certainty: Certainty,
    ) -> Option<Verdict> {
        match certainty {
            Certainty::Certain => return Some(certain(blocker, None)),
            Certainty::Pending(at) => self.certain_at = self.certain_at.or(at),
            Certainty::Open => {}
        }
        None
    }

    /// Adds a failure of pods. Returns the verdict if it is certain.
    pub(crate) fn add_failure(
        &mut self,
        blocker: &'b Blocker,
        failure: &Failure,
    ) -> Option<Verdict> {
        match failure.certainty {
            Certainty::Certain => return Some(certain(blocker, Some(failure.since))),
            Certainty::Pending(at) => {
                self.since = Some(failure.since);
                // The caller sends this reason back in the next request.
                self.lead = Some(blocker);
                self.certain_at = self.certain_at.or(at);
            }
            Certainty::Open => {}
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
