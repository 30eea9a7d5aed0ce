//! Giving up work whose result nobody waits for any more.

/// Tells between parts of the work whether to go on.
///
/// The planner has no clock and does not know its caller: the caller decides. It is asked for each object, so the answer
/// must be cheap. Interrupted work ends early with whatever it has, and its result is thrown away.
pub trait Interrupt {
    /// Whether to stop here. Once true, it must stay true.
    fn is_interrupted(&self) -> bool;

    /// Fails with [`Interrupted`] if the work is to stop.
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

/// The work was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the work was interrupted")]
pub struct Interrupted;

impl Interrupt for Never {
    fn is_interrupted(&self) -> bool {
        false
    }
}
