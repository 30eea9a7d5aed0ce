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

pub use self::complete::Listed;
pub(crate) use self::found::ContentReader;
pub use self::found::{Controller, Found, Metadata};
pub use self::index::ObjectIndex;
pub(crate) use self::kind::is_of_kubernetes;
pub use self::kind::{has_controller_revisions, is_deployment};
pub use self::nearby::{Nearby, Wants};
pub use self::scan::{Objects, current_version};
pub use self::select::{Selected, select};
pub(crate) use self::select::{choose, matches};
pub use self::summary::Shown;
pub use self::summary::{ObjectsSummary, summarize_objects};

/// The field of a snapshot that contains the texts.
pub const FIELD: &str = "snapshot.objects";
