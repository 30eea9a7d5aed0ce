//! Messages as JSON, in the mapping that protobuf defines: what `kubectl get -o json` prints can be pasted into
//! a request.
//!
//! Fields that the contract does not have are ignored on the way in, and `null` counts as absent: Kubernetes
//! prints `null` lists and times, and much that is not read here.

use std::sync::LazyLock;

use prost::{Message, Name};
use prost_reflect::{
    DescriptorPool, DeserializeOptions, DynamicMessage, MessageDescriptor, SerializeOptions,
};
use serde_json::value::Serializer;

use super::Error;
use crate::proto::FILE_DESCRIPTOR_SET;

/// `None` if this build is broken; tests see that it is not.
static DESCRIPTORS: LazyLock<Option<DescriptorPool>> =
    LazyLock::new(|| DescriptorPool::decode(FILE_DESCRIPTOR_SET).ok());

/// The descriptors of the contract, and of what it imports.
pub(super) fn descriptors() -> Option<&'static DescriptorPool> {
    DESCRIPTORS.as_ref()
}

fn descriptor<M: Name>() -> Result<MessageDescriptor, Error> {
    descriptors()
        .and_then(|pool| pool.get_message_by_name(&M::full_name()))
        .ok_or(Error::Descriptors { message: M::NAME })
}

/// Reads a message from JSON.
///
/// # Errors
///
/// [`Error::InvalidJson`] with the place where the text is no such message.
pub fn from_json<M: Message + Name + Default>(json: &str) -> Result<M, Error> {
    let invalid = |path: String, source| Error::InvalidJson {
        message: M::NAME,
        path,
        source,
    };
    let mut text = serde_json::Deserializer::from_str(json);
    let mut track = serde_path_to_error::Track::new();
    let message = DynamicMessage::deserialize_with_options(
        descriptor::<M>()?,
        serde_path_to_error::Deserializer::new(&mut text, &mut track),
        &DeserializeOptions::new().deny_unknown_fields(false),
    )
    .map_err(|source| invalid(track.path().to_string(), source))?;
    text.end()
        .map_err(|source| invalid(String::new(), source))?;
    message.transcode_to().map_err(|source| Error::Undecodable {
        message: M::NAME,
        source,
    })
}

/// Writes a message as JSON: fields that are absent or zero left out, 64-bit integers as text, keys in byte
/// order, so that the same message is always the same text.
///
/// # Errors
///
/// [`Error::Descriptors`] and [`Error::InvalidJson`], if a time or number in the message has no JSON form.
pub fn to_json<M: Message + Name>(message: &M) -> Result<String, Error> {
    write(message, true)
}

/// Writes a message as [`to_json`] does, but 64-bit integers as numbers: what programs that know the Kubernetes
/// types read. Protobuf libraries read it too.
///
/// # Errors
///
/// As [`to_json`].
pub fn to_kubernetes_json<M: Message + Name>(message: &M) -> Result<String, Error> {
    write(message, false)
}

fn write<M: Message + Name>(message: &M, stringify_64_bit_integers: bool) -> Result<String, Error> {
    let mut dynamic = DynamicMessage::new(descriptor::<M>()?);
    dynamic
        .transcode_from(message)
        .map_err(|source| Error::Undecodable {
            message: M::NAME,
            source,
        })?;
    let options = SerializeOptions::new().stringify_64_bit_integers(stringify_64_bit_integers);
    // By way of a value, whose maps are ordered: those of a dynamic message are not.
    dynamic
        .serialize_with_options(Serializer, &options)
        .map(|value| value.to_string())
        .map_err(|source| Error::InvalidJson {
            message: M::NAME,
            path: String::new(),
            source,
        })
}
