//! Signals that end a watch in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::{flag, low_level};

use super::error::Error;

/// The number of the signal, SIGINT or SIGTERM, that has been received. 0 before.
#[derive(Clone, Debug, Default)]
pub(super) struct Interrupt(Arc<AtomicUsize>);

// === impl Interrupt ===

impl Interrupt {
    /// Waits for signals. The second one ends the program at once.
    pub(super) fn on_signals() -> Result<Self, Error> {
        let this = Self::default();
        let is_second = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            let number = usize::try_from(signal).unwrap_or_default();
            // They run in the order in which they are registered.
            flag::register_conditional_default(signal, Arc::clone(&is_second))
                .and_then(|_| flag::register(signal, Arc::clone(&is_second)))
                .and_then(|_| flag::register_usize(signal, Arc::clone(&this.0), number))
                .map_err(|error| Error::Bug(error.to_string()))?;
        }
        Ok(this)
    }

    pub(super) fn is_requested(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Ends the program with the signal, if one has been received: a shell then ends the script that runs it.
    pub(super) fn end(&self) {
        if self.is_requested() {
            // If that fails, the exit code says the same as after a timeout.
            let signal = i32::try_from(self.0.load(Ordering::Relaxed));
            let _ = signal.map(low_level::emulate_default_handler);
        }
    }
}
