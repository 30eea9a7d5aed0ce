//! What can be set.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use super::Error;
use crate::wire;

/// The longest [`Config::drain_grace`]: more is a mistaken unit.
pub const DRAIN_GRACE_MAX: Duration = Duration::from_secs(3600);

/// What can be set. Checked as a whole before any port is bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Where to listen for calls. Port 0 takes any free one. Default 127.0.0.1:50051: calls are neither
    /// encrypted nor authenticated, so other machines are let in on purpose or not at all.
    pub listen: SocketAddr,
    /// How long running calls may take to end after the signal to stop. Default 25 s, which fits the 30 s that
    /// Kubernetes gives a pod.
    pub drain_grace: Duration,
}

// === impl Config ===

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 50051)),
            drain_grace: Duration::from_secs(25),
        }
    }
}

impl Config {
    pub(super) fn check(&self) -> Result<(), Error> {
        let Self {
            // Whatever parses may be there: only the system knows.
            listen: _,
            drain_grace,
        } = self;
        if *drain_grace > DRAIN_GRACE_MAX {
            return Err(Error::Config {
                setting: "drain_grace",
                problem: format!(
                    "is {} s and may be {} s",
                    drain_grace.as_secs(),
                    DRAIN_GRACE_MAX.as_secs()
                ),
            });
        }
        Ok(())
    }

    /// One line with everything that is in effect.
    pub(super) fn log(&self) {
        let Self {
            listen,
            drain_grace,
        } = self;
        tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            %listen,
            drain_grace_seconds = drain_grace.as_secs_f64(),
            request_bytes_max = wire::REQUEST_BYTES_MAX,
            "rollplan starts"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grace_may_be_nothing_and_an_hour() {
        let check = |drain_grace| {
            let config = Config {
                drain_grace,
                ..Config::default()
            };
            config.check().map_err(|error| error.to_string())
        };
        assert_eq!(Config::default().check().map_err(|e| e.to_string()), Ok(()));
        assert_eq!(check(Duration::ZERO), Ok(()));
        assert_eq!(check(DRAIN_GRACE_MAX), Ok(()));
        assert_eq!(
            check(DRAIN_GRACE_MAX + Duration::from_secs(1)),
            Err("drain_grace is 3601 s and may be 3600 s".to_owned())
        );
    }
}
