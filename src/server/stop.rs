//! Being told to stop.

use std::future::pending;
use std::io;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::sleep;

/// Whether to stop, and how patiently. Only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    /// Serve on.
    #[default]
    No,
    /// Withdraw, wait for balancers to take notice, and let running calls end.
    Gently,
    /// The same without waiting for balancers: a person stops the program.
    Soon,
    /// Leave whatever still runs.
    Now,
}

/// SIGTERM is how Kubernetes asks, SIGINT a person at a terminal. One more of either is impatience.
pub(super) fn on_signals() -> io::Result<watch::Receiver<Stop>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (sender, receiver) = watch::channel(Stop::No);
    tokio::spawn(async move {
        loop {
            let first = tokio::select! {
                _ = terminate.recv() => Stop::Gently,
                _ = interrupt.recv() => Stop::Soon,
            };
            sender.send_modify(|stop| {
                *stop = match stop {
                    Stop::No => first,
                    Stop::Gently => Stop::Soon,
                    Stop::Soon | Stop::Now => Stop::Now,
                };
            });
        }
    });
    Ok(receiver)
}

/// Until there is a wish to stop.
pub(super) async fn asked(stop: &mut watch::Receiver<Stop>) {
    at_least(stop, Stop::Gently).await;
}

/// The time in which balancers take notice, unless there is no more patience for it.
pub(super) async fn delay(stop: &mut watch::Receiver<Stop>, time: Duration) {
    tokio::select! {
        () = sleep(time) => {}
        () = at_least(stop, Stop::Soon) => {}
    }
}

/// The time in which running calls may end, unless there is no more patience for them.
pub(super) async fn grace(stop: &mut watch::Receiver<Stop>, time: Duration) {
    tokio::select! {
        () = sleep(time) => {}
        () = at_least(stop, Stop::Now) => {}
    }
}

async fn at_least(stop: &mut watch::Receiver<Stop>, level: Stop) {
    if stop.wait_for(|stop| *stop >= level).await.is_err() {
        // Whoever could ask is gone.
        pending().await
    }
}
