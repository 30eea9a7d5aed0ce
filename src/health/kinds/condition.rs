//! Conditions of objects of any kind.

use rollplan_core::time::Time;

/// A condition in the status of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// The type, for example "Ready".
    pub kind: String,
    /// "True", "False" or "Unknown".
    pub status: String,
    /// The machine-readable reason.
    pub reason: String,
    /// A human-readable sentence.
    pub message: String,
    /// The generation that it is about, if it has its own.
    pub observed_generation: Option<i64>,
    /// When its status last changed.
    pub last_transition_time: Option<Time>,
}
