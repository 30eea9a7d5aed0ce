//! The maximum numbers of objects in requests.

use super::error::Error;

/// The maximum number of ReplicaSets in a snapshot.
pub const REPLICA_SETS_MAX: usize = 10_000;
/// The maximum number of pods in a snapshot.
pub const PODS_MAX: usize = 20_000;
/// The maximum number of answers in a snapshot.
pub const ANSWERS_MAX: usize = 1_000;
/// The maximum number of events in a snapshot.
pub const EVENTS_MAX: usize = 20_000;
/// The maximum number of expressions in a selector. Each is evaluated for every object.
pub const EXPRESSIONS_MAX: usize = 100;
/// The maximum number of values in all expressions of a selector.
pub const VALUES_MAX: usize = 1_000;
/// The maximum number of workloads in a request for restarts.
pub const WORKLOADS_MAX: usize = 20_000;
/// The maximum number of configurations in a request for restarts.
pub const CONFIGURATIONS_MAX: usize = 40_000;

/// Refuses a list with more than `max` entries.
pub(super) fn limit(what: &'static str, count: usize, max: usize) -> Result<(), Error> {
    if count > max {
        return Err(Error::TooLarge {
            what,
            unit: "entries",
            count,
            max,
        });
    }
    Ok(())
}
