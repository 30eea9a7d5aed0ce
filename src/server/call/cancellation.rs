//! Stops work off the serving threads once nobody waits for its answer: the client has gone, or the deadline passed.
//!
//! Dropping the future of a call ends it wherever it waits, but not a plan that is being computed on a thread of its own.
//! That one asks here, at every checkpoint.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rollplan_core::interrupt::Interrupt;

tokio::task_local! {
    static CURRENT: Cancellation;
}

/// When a call must be answered, noted on its request by the layer that sees to it.
#[derive(Clone, Copy)]
pub(crate) struct Due(pub(crate) Instant);

/// Whether a call has been given up.
#[derive(Clone)]
pub(crate) struct Cancellation {
    is_cancelled: Arc<AtomicBool>,
    due: Option<Instant>,
}

/// Cancels when dropped: held by the future of the call.
pub(crate) struct CancelOnDrop(Cancellation);

/// The call that this code runs for: interrupted once nobody waits for its answer any more. Outside of a call it never is.
pub struct Current(Option<Cancellation>);

// === impl Cancellation ===

impl Cancellation {
    pub(crate) fn new(due: Option<Due>) -> Self {
        Self {
            is_cancelled: Arc::default(),
            due: due.map(|Due(due)| due),
        }
    }

    pub(crate) fn on_drop(&self) -> CancelOnDrop {
        CancelOnDrop(self.clone())
    }

    /// Runs a future whose code finds this as [`Current`].
    pub(crate) async fn scope<F: Future>(self, future: F) -> F::Output {
        CURRENT.scope(self, future).await
    }
}

impl Interrupt for Cancellation {
    fn is_interrupted(&self) -> bool {
        // The threads that would drop the future may be busy: the time counts as well.
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
    /// Asks for it. To be asked for where the work is done: another thread or task is not part of the call.
    #[must_use]
    pub fn get() -> Self {
        Self(CURRENT.try_with(Clone::clone).ok())
    }

    /// Whether this code runs for a call of the service.
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
    async fn work_is_cancelled_when_its_call_is_dropped_or_late() {
        let cancellation = Cancellation::new(None);
        let call = cancellation.on_drop();
        let is_interrupted = async || Current::get().is_interrupted();
        assert!(!cancellation.clone().scope(is_interrupted()).await);
        drop(call);
        assert!(cancellation.scope(is_interrupted()).await);
        let now = Instant::now();
        for (due, is_late) in [(now, true), (now + Duration::from_secs(3600), false)] {
            let cancellation = Cancellation::new(Some(Due(due)));
            assert_eq!(cancellation.scope(is_interrupted()).await, is_late);
        }
        assert!(!is_interrupted().await);
    }
}
