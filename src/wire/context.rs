//! The context of a request and its response.

use rollplan_core::interrupt::{Interrupt, Never};

use super::objects::Shown;

/// What a method gets in addition to its request, and what it reports in addition to its response.
pub struct Context<'c> {
    /// Ends the work if its answer is not needed anymore.
    pub interrupt: &'c dyn Interrupt,
    /// If given, the owner and the complete lists are inferred from the objects.
    pub shown: Option<&'c mut Shown>,
    /// Facts about the snapshot, as far as it was read.
    pub facts: Facts,
}

/// Facts about a snapshot, for logs and metrics.
#[derive(Debug, Default)]
pub struct Facts {
    /// The namespace of the owner. It is not validated yet.
    pub namespace: String,
    /// The name of the owner. It is not validated yet.
    pub name: String,
    /// The name of the strategy of a Deployment.
    pub strategy: &'static str,
    /// The number of pods of a Deployment.
    pub pods: usize,
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
