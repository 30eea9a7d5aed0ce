//! Interruption of work whose result is not needed.

/// Decides between parts of the work whether to continue.
///
/// The planner has no clock and does not know its caller, so the caller decides. This is called for each object and must be
/// cheap. Interrupted work ends early with a partial result, which is dropped.
pub trait Interrupt {
    /// Whether to stop. Once true, it must stay true.
    fn is_interrupted(&self) -> bool;

    /// Fails with [`Interrupted`] if the work is interrupted.
    ///
    /// # Errors
    ///
    /// [`Interrupted`].
    fn check(&self) -> Result<(), Interrupted> {
        if self.is_interrupted() {
            return Err(Interrupted);
        }
        Ok(())
    }
}

/// Never interrupts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Never;

/// The work was interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the work was interrupted")]
pub struct Interrupted;

impl Interrupt for Never {
    fn is_interrupted(&self) -> bool {
        false
    }
}
