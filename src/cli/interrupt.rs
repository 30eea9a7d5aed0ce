//! Signals that end a watch in order.

use std::io;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

/// The exit code of a program that SIGINT ends.
const KILLED: i32 = 130;

/// Whether SIGINT or SIGTERM has been received.
#[derive(Clone, Debug, Default)]
pub(super) struct Interrupt(Arc<AtomicBool>);

// === impl Interrupt ===

impl Interrupt {
    /// Waits for signals in a thread of its own. The second one ends the program at once.
    pub(super) fn on_signals() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (mut terminate, mut interrupt) = {
            let _context = runtime.enter();
            (
                signal(SignalKind::terminate())?,
                signal(SignalKind::interrupt())?,
            )
        };
        let this = Self::default();
        let is_requested = Arc::clone(&this.0);
        thread::Builder::new().spawn(move || {
            runtime.block_on(async {
                loop {
                    tokio::select! {
                        _ = terminate.recv() => {}
                        _ = interrupt.recv() => {}
                    }
                    if is_requested.swap(true, Ordering::Relaxed) {
                        process::exit(KILLED);
                    }
                }
            });
        })?;
        Ok(this)
    }

    pub(super) fn is_requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
