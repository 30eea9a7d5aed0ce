//! The API server: the stored objects, and the calls that change them.

mod call;
mod patch;
mod store;

pub(crate) use call::{Rejection, Written};
pub(crate) use patch::json_patch_owner;
pub(crate) use store::{Pending, Store, StoredSet, Writer, version_of};
