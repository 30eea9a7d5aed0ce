//! The second step: why a rollout is not complete, or a pod not available. [`Explanation`]s are about single pods, and
//! [`Blocker`]s with the same [`Cause`] about all of them.

mod blocker;
mod cause;
pub(crate) mod deletion;
pub(crate) mod pods;
mod rollout;
pub(crate) mod template;

pub use self::blocker::{BLOCKED_PODS_MAX, BlockedPod, Blocker, Log};
pub use self::cause::Cause;
pub use self::pods::Explanation;
pub use crate::text::error_line;
