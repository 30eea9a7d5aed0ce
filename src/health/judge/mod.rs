//! The third step: whether it is certain that a failure persists, and what this means for the rollout.

pub mod class;
pub(crate) mod duration;
pub(crate) mod events;
pub(crate) mod failure;
pub(crate) mod options;
pub(crate) mod pending;
mod retries;
mod rollout;
pub(crate) mod verdict;

pub use self::failure::{Certainty, Failure};
pub use self::options::VerdictOptions;
pub use self::verdict::{Outlook, Verdict};
