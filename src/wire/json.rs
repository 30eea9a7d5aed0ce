//! Converts messages from and to JSON by the protobuf JSON mapping. Unknown fields are ignored on input, and `null` counts
//! as absent.

use std::sync::LazyLock;

use prost::{Message, Name};
use prost_reflect::{
    DescriptorPool, DeserializeOptions, DynamicMessage, MessageDescriptor, SerializeOptions,
};
use serde_json::value::Serializer;

use super::Error;
use crate::proto::FILE_DESCRIPTOR_SET;

static DESCRIPTORS: LazyLock<Option<DescriptorPool>> =
    LazyLock::new(|| DescriptorPool::decode(FILE_DESCRIPTOR_SET).ok());

/// The descriptors of the contract and its imports. `None` if they are invalid, which tests rule out.
#[must_use]
pub fn descriptors() -> Option<&'static DescriptorPool> {
    DESCRIPTORS.as_ref()
}

fn descriptor<M: Name>() -> Result<MessageDescriptor, Error> {
    descriptors()
        .and_then(|pool| pool.get_message_by_name(&M::full_name()))
        .ok_or(Error::Descriptors { message: M::NAME })
}

/// Parses a message from JSON.
///
/// # Errors
///
/// [`Error::InvalidJson`] with the position at which the text is not valid JSON for this message.
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

/// Converts a message to JSON. Absent and zero fields are omitted, 64-bit integers are strings, and keys are in byte
/// order, so that equal messages always have the same text.
///
/// # Errors
///
/// [`Error::Descriptors`], or [`Error::InvalidJson`] if a time or number in the message cannot be represented in JSON.
pub fn to_json<M: Message + Name>(message: &M) -> Result<String, Error> {
    write(message, true)
}

/// Like [`to_json`], except that 64-bit integers are numbers, as expected by programs with Kubernetes types. Protobuf
/// libraries accept both.
///
/// # Errors
///
/// See [`to_json`].
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
    // The intermediate value has ordered maps, unlike the dynamic message.
    dynamic
        .serialize_with_options(Serializer, &options)
        .map(|value| value.to_string())
        .map_err(|source| Error::InvalidJson {
            message: M::NAME,
            path: String::new(),
            source,
        })
}
