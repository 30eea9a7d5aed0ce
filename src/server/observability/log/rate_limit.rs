//! Limits the log lines of failed calls: under overload, or with a broken client, each call fails.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use metrics::Counter;
use tokio::time::{Instant, MissedTickBehavior, interval};

/// The number of lines per second and reason. Further lines are only counted.
const LINES_MAX: u32 = 10;

const SECOND: Duration = Duration::from_secs(1);

/// Decides which failed calls are logged. Each reason has its own limit.
#[derive(Clone)]
pub(crate) struct RateLimit {
    /// One window per reason. The contract defines all reasons, so clients cannot add any.
    windows: Arc<Mutex<BTreeMap<String, Window>>>,
    dropped: Counter,
}

/// The lines of one second.
struct Window {
    start: Instant,
    lines: u32,
    not_logged: u64,
}

// === impl RateLimit ===

impl RateLimit {
    /// A rate limit that adds omitted lines to `dropped`.
    pub(crate) fn new(dropped: Counter) -> Self {
        Self {
            windows: Arc::default(),
            dropped,
        }
    }

    /// Returns `None` if the line must be omitted, otherwise the number of lines with this reason omitted since the
    /// last one.
    pub(super) fn admit(&self, reason: &str) -> Option<u64> {
        let now = Instant::now();
        let mut windows = self.lock();
        let Some(window) = windows.get_mut(reason) else {
            windows.insert(reason.to_owned(), Window::new(now));
            return Some(0);
        };
        if now - window.start >= SECOND {
            let not_logged = window.not_logged;
            *window = Window::new(now);
            return Some(not_logged);
        }
        if window.lines < LINES_MAX {
            window.lines += 1;
            return Some(0);
        }
        window.not_logged += 1;
        self.dropped.increment(1);
        None
    }

    /// Logs the number of omitted lines if no later line reports it. Runs until it is dropped.
    pub(crate) async fn report(self) {
        let mut ticks = interval(SECOND);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.flush();
        }
    }

    fn flush(&self) {
        let now = Instant::now();
        let is_over = |_: &String, window: &mut Window| now - window.start >= SECOND;
        let mut windows = self.lock();
        let over: Vec<_> = windows.extract_if(.., is_over).collect();
        drop(windows);
        for (reason, Window { not_logged, .. }) in over {
            if not_logged > 0 {
                tracing::warn!(reason, not_logged, "failed calls were not logged");
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Window>> {
        self.windows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Window ===

impl Window {
    /// A window with its first line.
    fn new(start: Instant) -> Self {
        Self {
            start,
            lines: 1,
            not_logged: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_reason_has_ten_lines_a_second() {
        let limit = RateLimit::new(Counter::noop());
        let admitted = |reason, calls| {
            let lines = (0..calls).filter_map(|_| limit.admit(reason));
            lines.collect::<Vec<u64>>()
        };
        assert_eq!(admitted("OVERLOADED", 100), [0; 10]);
        assert_eq!(admitted("INVALID_REQUEST", 3), [0; 3]);
        tokio::time::advance(SECOND - Duration::from_millis(1)).await;
        assert_eq!(admitted("OVERLOADED", 1), [0; 0]);
        tokio::time::advance(Duration::from_millis(1)).await;
        // The first line reports the omitted ones.
        assert_eq!(admitted("OVERLOADED", 2), [91, 0]);
        assert_eq!(admitted("INVALID_REQUEST", 1), [0]);
        // A number is reported only once.
        tokio::time::advance(SECOND).await;
        assert_eq!(admitted("OVERLOADED", 12), [0; 10]);
        limit.flush();
        // Only windows that are over are reported.
        assert_eq!(admitted("OVERLOADED", 1), [0; 0]);
        tokio::time::advance(SECOND).await;
        limit.flush();
        assert_eq!(admitted("OVERLOADED", 1), [0]);
    }
}
