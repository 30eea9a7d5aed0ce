//! Finds the objects in Kubernetes JSON, and selects those that a request is about. Objects that are not selected are not
//! validated.

mod complete;
mod found;
mod index;
mod kind;
mod nearby;
mod scan;
mod select;
mod summary;

pub(crate) use self::complete::Listed;
pub(super) use self::found::ContentReader;
pub(crate) use self::found::{Controller, Found, Metadata};
pub(crate) use self::index::ObjectIndex;
pub(super) use self::kind::is_of_kubernetes;
pub(crate) use self::kind::{has_controller_revisions, is_deployment};
pub(crate) use self::nearby::{Nearby, Wants};
pub(crate) use self::scan::Objects;
pub(super) use self::scan::current_version;
pub(super) use self::select::choose;
pub(crate) use self::select::{Selected, select};
pub(crate) use self::summary::Shown;
pub use self::summary::{ObjectsSummary, summarize_objects};

/// The field of a snapshot that contains the texts.
pub(crate) const FIELD: &str = "snapshot.objects";
