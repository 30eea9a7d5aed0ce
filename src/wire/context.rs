//! What travels beside a request and its response.

use rollplan_core::interrupt::{Interrupt, Never};

use super::objects::Shown;

/// What a method gets in addition to its request, and what it reports in addition to its response.
pub struct Context<'c> {
    /// Ends the work if its answer is not needed anymore.
    pub interrupt: &'c dyn Interrupt,
    /// If given, the owner and the complete lists are inferred from the objects.
    pub(crate) shown: Option<&'c mut Shown>,
    /// Facts about the snapshot, as far as it was read.
    pub(crate) facts: Facts,
}

/// Facts about a snapshot, for logs and metrics.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    /// The namespace and the name of the owner. They are not validated yet.
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) is_recreate: bool,
    /// The number of pods of a Deployment.
    pub(crate) pods: usize,
}

// === impl Context ===

impl<'c> Context<'c> {
    /// A context whose work can be interrupted.
    #[must_use]
    pub fn until(interrupt: &'c dyn Interrupt) -> Self {
        Self {
            interrupt,
            shown: None,
            facts: Facts::default(),
        }
    }
}

impl Default for Context<'_> {
    /// A context whose work is never interrupted.
    fn default() -> Self {
        Self::until(&Never)
    }
}
