//! Shutdown requests from signals, and how repeated ones escalate.

use std::future::pending;
use std::io;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::sleep;

/// Whether to shut down, and how fast. The value only increases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shutdown {
    /// Keep serving.
    #[default]
    NotRequested,
    /// Withdraw readiness, wait for load balancers to notice, and let running calls end.
    Graceful,
    /// The same without waiting for load balancers, for a person who stops the program.
    SkipDelay,
    /// Abort running calls.
    Immediate,
}

/// Kubernetes sends SIGTERM, a person at a terminal sends SIGINT. A repeated signal escalates.
pub(super) fn on_signals() -> io::Result<watch::Receiver<Shutdown>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (sender, receiver) = watch::channel(Shutdown::NotRequested);
    tokio::spawn(async move {
        loop {
            let first = tokio::select! {
                _ = terminate.recv() => Shutdown::Graceful,
                _ = interrupt.recv() => Shutdown::SkipDelay,
            };
            sender.send_modify(|shutdown| {
                *shutdown = match shutdown {
                    Shutdown::NotRequested => first,
                    Shutdown::Graceful => Shutdown::SkipDelay,
                    Shutdown::SkipDelay | Shutdown::Immediate => Shutdown::Immediate,
                };
            });
        }
    });
    Ok(receiver)
}

/// Waits until a shutdown is requested.
pub(super) async fn requested(shutdown: &mut watch::Receiver<Shutdown>) {
    at_least(shutdown, Shutdown::Graceful).await;
}

/// Waits for load balancers to notice, unless the request escalates.
pub(super) async fn delay(shutdown: &mut watch::Receiver<Shutdown>, time: Duration) {
    tokio::select! {
        () = sleep(time) => {}
        () = at_least(shutdown, Shutdown::SkipDelay) => {}
    }
}

/// Waits for running calls to end, unless the request escalates.
pub(super) async fn grace(shutdown: &mut watch::Receiver<Shutdown>, time: Duration) {
    tokio::select! {
        () = sleep(time) => {}
        () = at_least(shutdown, Shutdown::Immediate) => {}
    }
}

async fn at_least(shutdown: &mut watch::Receiver<Shutdown>, level: Shutdown) {
    if shutdown.wait_for(|it| *it >= level).await.is_err() {
        // The sender was dropped, so no further request can arrive.
        pending().await
    }
}
