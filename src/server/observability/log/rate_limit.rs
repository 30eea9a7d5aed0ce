//! Limits the log lines of failed calls: under overload, or with a client that is broken, each call fails.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use metrics::Counter;
use tokio::time::{Instant, MissedTickBehavior, interval};

/// Lines per second and reason. More are counted instead of logged.
const LINES_MAX: u32 = 10;

const SECOND: Duration = Duration::from_secs(1);

/// Decides which failed calls are logged, for each reason apart.
#[derive(Clone)]
pub(crate) struct RateLimit {
    /// By reason, of which there are as many as the contract has: clients cannot add one.
    windows: Arc<Mutex<BTreeMap<String, Window>>>,
    dropped: Counter,
}

/// One second of lines.
struct Window {
    start: Instant,
    lines: u32,
    not_logged: u64,
}

// === impl RateLimit ===

impl RateLimit {
    /// Counts lines that are left out in `dropped` too.
    pub(crate) fn new(dropped: Counter) -> Self {
        Self {
            windows: Arc::default(),
            dropped,
        }
    }

    /// `None` if the line must be left out, otherwise how many were left out since the last line with this reason.
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

    /// Logs how many lines were left out and are followed by none that would tell. Runs until it is dropped.
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
    /// With its first line.
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
        // The first line tells of those before it.
        assert_eq!(admitted("OVERLOADED", 2), [91, 0]);
        assert_eq!(admitted("INVALID_REQUEST", 1), [0]);
        // What is told of once is not told of again.
        tokio::time::advance(SECOND).await;
        assert_eq!(admitted("OVERLOADED", 12), [0; 10]);
        limit.flush();
        tokio::time::advance(SECOND).await;
        limit.flush();
        assert_eq!(admitted("OVERLOADED", 1), [0]);
    }
}
