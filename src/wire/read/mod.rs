//! Reads JSON text. There is one parser ([`Json`]), and three forms of what it reads: structs that list the fields which are
//! needed ([`kubernetes`] has those of Kubernetes objects), values for objects whose fields are not known in advance, and
//! the tapes of pod templates ([`tree`](super::tree)).

mod fields;
pub(crate) mod kubernetes;
mod repeats;
mod text;
mod value;

pub(crate) use self::fields::{
    DUPLICATE_KEY, Fault, Lenient, PathStep, Read, Unread, objects, read_all, read_entries,
    read_field,
};
pub(crate) use self::text::{Json, Syntax, unescape};
pub(crate) use self::value::number;
