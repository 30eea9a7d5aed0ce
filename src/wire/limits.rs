//! How many objects a request may have.

use super::error::Error;

/// ReplicaSets that a snapshot may have.
pub const REPLICA_SETS_MAX: usize = 10_000;
/// Pods that a snapshot may have.
pub const PODS_MAX: usize = 20_000;
/// Answers that a snapshot may have.
pub const ANSWERS_MAX: usize = 1_000;
/// Events that a snapshot may have.
pub const EVENTS_MAX: usize = 20_000;
/// Expressions that a selector may have. Each is held against every object.
pub const EXPRESSIONS_MAX: usize = 100;
/// Values that the expressions of a selector may have, taken together.
pub const VALUES_MAX: usize = 1_000;
/// Workloads that a request for restarts may have.
pub const WORKLOADS_MAX: usize = 20_000;
/// Configurations that a request for restarts may have.
pub const CONFIGURATIONS_MAX: usize = 40_000;

/// Refuses more entries than `max`.
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
