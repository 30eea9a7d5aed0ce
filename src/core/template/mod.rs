//! Pod templates: when two templates are equal, and how a template is hashed.
//!
//! The new ReplicaSet of a Deployment is the one with the Deployment's template. Kubernetes compares templates as
//! decoded Go values (`EqualIgnoreHash`), not as JSON: a missing field, a `null`, an empty map and a zero are equal for
//! some fields and different for others, and `1024` equals `1Ki` in a quantity.
//!
//! [`canonical()`] writes the canonical form of a template, using a table of the template's fields that is generated
//! from the Go types. [`equal()`] compares two templates without building their canonical forms. [`template_hash`] and
//! [`sha256_of_canonical`] are hashes of the canonical form that are written to the cluster, so they must be the same in
//! every release and on every platform.
//!
//! [`canonical()`] and [`Quantity`] list the deliberate differences from Kubernetes.

mod canonical;
mod changes;
mod defaults;
mod digest;
mod images;
mod kind;
mod merge;
mod name;
mod prepared;
mod quantity;
mod same;
#[rustfmt::skip] // generated
mod shape;
mod stored;
mod tree;
mod types;
mod value;
mod write;

#[cfg(test)]
mod tests;

pub use crate::time::parse_time;
pub use canonical::{MAX_DEPTH, canonical};
pub use changes::{TemplateChange, template_changes};
pub use defaults::with_defaults;
pub use digest::sha256_of_canonical;
pub use images::images;
pub use kind::{Field, Kind, Struct};
pub use merge::{LastApplied, apply};
pub use name::template_hash;
pub use prepared::{Prepared, prepare};
pub use quantity::Quantity;
pub use same::equal;
pub use shape::{API_VERSION, METADATA, SPEC, TEMPLATE};
pub use stored::{EncodedTemplate, Template};
pub use tree::{Node, Tree, ValueEntries};
pub use types::{TypeFault, known_fields, type_faults};
pub use value::{Number, Value};
pub(crate) use write::{write_list, write_map, write_string};
