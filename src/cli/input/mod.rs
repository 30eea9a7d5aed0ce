//! Requests made from files or from what kubectl printed, and errors that name the place in these.

mod document;
mod failures;
mod fault;
mod object;
mod selection;
mod snapshot;
mod source;
mod source_map;
mod yaml;

pub(super) use self::failures::{Failures, failures};
pub(super) use self::snapshot::{Request, Wanted, absent, request, selector};
pub(super) use self::source::{Source, sources};
pub(super) use self::source_map::SourceMap;
