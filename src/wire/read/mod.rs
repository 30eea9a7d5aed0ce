//! Reads JSON text. There is one parser ([`Json`]), and three forms of what it reads: structs that list the fields which are
//! needed ([`kubernetes`] has those of Kubernetes objects), values for objects whose fields are not known in advance, and
//! the tapes of pod templates ([`tree`](super::tree)).

mod fields;
pub(in crate::wire) mod kubernetes;
mod repeats;
mod text;
mod value;

pub(in crate::wire) use self::fields::{
    DUPLICATE_KEY, Fault, Lenient, PathStep, Read, Unread, objects, read_all, read_entries,
    read_field,
};
pub(in crate::wire) use self::text::{Json, Syntax, unescape};
pub(in crate::wire) use self::value::number;
