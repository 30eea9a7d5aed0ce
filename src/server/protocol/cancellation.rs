//! Cancels work on other threads whose answer is not needed: the client disconnected, or the deadline passed.
//!
//! Dropping the future of a call cancels it wherever it awaits, but not a plan that is being computed on another
//! thread. Such a plan checks for cancellation at regular checkpoints.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rollplan_core::interrupt::Interrupt;

tokio::task_local! {
    static CURRENT: Cancellation;
}

/// The cancellation state of a call.
#[derive(Clone)]
pub(crate) struct Cancellation {
    is_cancelled: Arc<AtomicBool>,
    due: Option<Instant>,
}

/// Cancels a call on drop. Held by the future of the call.
pub(crate) struct CancelOnDrop(Cancellation);

/// The call that the current code runs for, interrupted when its answer is not needed. Code outside of a call is never
/// interrupted.
pub struct Current(Option<Cancellation>);

// === impl Cancellation ===

impl Cancellation {
    pub(crate) fn new(due: Option<Instant>) -> Self {
        Self {
            is_cancelled: Arc::default(),
            due,
        }
    }

    pub(crate) fn on_drop(&self) -> CancelOnDrop {
        CancelOnDrop(self.clone())
    }

    /// Runs a future with this as [`Current`].
    pub(crate) async fn scope<F: Future>(self, future: F) -> F::Output {
        CURRENT.scope(self, future).await
    }
}

impl Interrupt for Cancellation {
    fn is_interrupted(&self) -> bool {
        // The threads that would drop the future may be busy, so the deadline is checked, too.
        self.is_cancelled.load(Ordering::Relaxed)
            || self.due.is_some_and(|due| Instant::now() >= due)
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.is_cancelled.store(true, Ordering::Relaxed);
    }
}

// === impl Current ===

impl Current {
    /// The call of the current task. Call this where the work is done: other threads and tasks are not part of the
    /// call.
    #[must_use]
    pub fn get() -> Self {
        Self(CURRENT.try_with(Clone::clone).ok())
    }

    /// Whether the current code runs for a call of the service.
    pub(crate) fn is_call(&self) -> bool {
        self.0.is_some()
    }
}

impl Interrupt for Current {
    fn is_interrupted(&self) -> bool {
        self.0.as_ref().is_some_and(Interrupt::is_interrupted)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn other_work_is_not_part_of_a_call() {
        let is_call = async || Current::get().is_call();
        assert!(Cancellation::new(None).scope(is_call()).await);
        assert!(!is_call().await);
    }

    #[tokio::test]
    async fn work_is_cancelled_on_drop_and_at_the_deadline() {
        let cancellation = Cancellation::new(None);
        let call = cancellation.on_drop();
        let is_interrupted = async || Current::get().is_interrupted();
        assert!(!cancellation.clone().scope(is_interrupted()).await);
        drop(call);
        assert!(cancellation.scope(is_interrupted()).await);
        let now = Instant::now();
        for (due, is_late) in [(now, true), (now + Duration::from_secs(3600), false)] {
            let cancellation = Cancellation::new(Some(due));
            assert_eq!(cancellation.scope(is_interrupted()).await, is_late);
        }
        assert!(!is_interrupted().await);
    }
}
