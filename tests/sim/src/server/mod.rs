//! The API server: the stored objects, and the calls that change them.

mod call;
mod patch;
mod store;

pub(crate) use call::{Rejection, Written};
pub(crate) use store::{Change, Pending, Store, StoredSet, Writer, version_of};
