//! From files to requests, and back to the files when a request is refused.

mod document;
mod failures;
mod object;
mod places;
mod snapshot;
mod source;
mod yaml;

pub(super) use self::failures::{Failures, failures};
pub(super) use self::places::Places;
pub(super) use self::snapshot::{Request, Wanted, request};
pub(super) use self::source::{Source, sources};
