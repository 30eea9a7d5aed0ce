//! The API server: what is stored, and the calls that change it.

mod call;
mod patch;
mod store;

pub(crate) use call::{Refusal, Written};
pub(crate) use store::{Pending, Store, StoredSet, Writer, version_of};
