//! Pod templates: when two are equal, and what a template is called.
//!
//! The new ReplicaSet of a Deployment is the one with the Deployment's template, and "the same template" is decided by
//! Kubernetes on decoded Go values (`EqualIgnoreHash` upstream), not on JSON: a missing field, a `null`, an empty map
//! and a zero are the same for one field and different for the next, and `1024` is `1Ki` where a quantity stands.
//!
//! [`canonical()`] turns a template into a form in which equal templates are identical, by a table of the template's
//! shape that is generated from the Go types. [`equal()`] compares two such forms and [`digest()`] is 128 bits of one, both
//! without building them.
//! [`template_hash`] and [`sha256_of_canonical`] are names made from it that reach the cluster, so they are stable
//! across releases and platforms.
//!
//! What knowingly differs from Kubernetes' own answer is listed at [`canonical()`] and [`Quantity`].

mod canonical;
mod digest;
mod kind;
mod name;
mod quantity;
mod same;
mod sha256;
#[rustfmt::skip] // generated
mod shape;
mod stored;
mod time;
mod tree;
mod value;

#[cfg(test)]
mod tests;

pub use canonical::{MAX_DEPTH, canonical};
pub use digest::{TemplateDigest, digest};
pub use name::template_hash;
pub use quantity::Quantity;
pub use same::equal;
pub use sha256::sha256_of_canonical;
pub use shape::API_VERSION;
pub use stored::{Source, Template};
pub use tree::{Node, Tree, ValueEntries};
pub use value::{Number, Value};
pub(crate) use value::{write_list, write_map, write_string};
