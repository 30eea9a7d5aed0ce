//! Converts the messages of a call to and from gRPC's encoding.

use std::io::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::HeaderMap;
use prost::Message as _;
use prost_reflect::{DeserializeOptions, DynamicMessage, SerializeOptions};
use rollplan_wire as wire;
use serde_json::Value;
use serde_json::error::Category;
use serde_json::value::Serializer;
use tonic::Status;

use super::endpoint::{Format, Query};
use super::headers::media_type;
use super::methods::Method;
use crate::protocol::context::{self, Inferred};
use crate::protocol::errors;
use crate::protocol::framing::{PREFIX_BYTES, frame};

/// The maximum memory of a JSON value while it is decoded: an entry of a list that contains a message with a tree node.
const VALUE_BYTES: usize = 1 << 10;

/// A Connect call.
pub(super) struct Call {
    method: Method,
    encoding: Encoding,
    compress_min: Option<usize>,
}

/// The encoding of the messages of a call.
#[derive(Clone, Debug)]
pub(super) enum Encoding {
    Proto,
    Json,
    /// The request is Kubernetes JSON with a query, and the response is for people.
    Objects(Arc<Query>),
}

/// An error about the JSON of a message. It contains only names of fields and keys from the text.
#[derive(Debug, PartialEq, Eq)]
struct Malformed {
    /// The path, with the names in the text. Empty for the whole text.
    path: String,
    /// A description of the error.
    problem: String,
}

// === impl Encoding ===

impl Encoding {
    /// The encoding for a content type of Connect.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        match media_type(headers)?.as_str() {
            "application/json" => Some(Self::Json),
            "application/proto" => Some(Self::Proto),
            _ => None,
        }
    }
}

// === impl Call ===

impl Call {
    pub(super) fn new(method: Method, encoding: Encoding, compress_min: Option<usize>) -> Self {
        Self {
            method,
            encoding,
            compress_min,
        }
    }

    /// Whether tonic compresses its answer. JSON answers are compressed after their conversion.
    pub(super) fn is_compressed_by_tonic(&self) -> bool {
        matches!(self.encoding, Encoding::Proto) && self.compress_min.is_some()
    }

    /// The time that the answer refers to, for calls for people.
    pub(super) fn now(&self) -> Option<String> {
        match &self.encoding {
            Encoding::Objects(query) => Some(query.now.to_string()),
            Encoding::Proto | Encoding::Json => None,
        }
    }

    pub(super) fn content_type(&self) -> &'static str {
        match &self.encoding {
            Encoding::Proto => "application/proto",
            Encoding::Json => "application/json",
            Encoding::Objects(query) => query.format.content_type(),
        }
    }

    /// What the planner infers from the objects, because the query may omit it.
    pub(super) fn inferred(&self) -> Option<Inferred> {
        match &self.encoding {
            Encoding::Objects(query) => Some(query.inferred()),
            Encoding::Proto | Encoding::Json => None,
        }
    }

    /// Unknown fields are ignored, as by other servers of Connect: a client may be newer than this server.
    fn decode_json(&self, text: &[u8]) -> Result<Vec<u8>, Malformed> {
        let mut json = serde_json::Deserializer::from_slice(text);
        let mut track = serde_path_to_error::Track::new();
        let message = DynamicMessage::deserialize_with_options(
            self.method.input.clone(),
            serde_path_to_error::Deserializer::new(&mut json, &mut track),
            &DeserializeOptions::new().deny_unknown_fields(false),
        );
        let message = message.map_err(|error| Malformed::new(&track.path().to_string(), &error))?;
        json.end().map_err(|error| Malformed::new("", &error))?;
        Ok(message.encode_to_vec())
    }

    fn json(&self, message: Bytes) -> Option<Value> {
        let message = DynamicMessage::decode(self.method.output.clone(), message).ok()?;
        // Converted to a value first: its maps are ordered, so the text is deterministic.
        let options = SerializeOptions::new();
        message.serialize_with_options(Serializer, &options).ok()
    }
}

impl context::Encoding for Call {
    fn protocol(&self) -> &'static str {
        match self.encoding {
            Encoding::Objects(_) => "http",
            Encoding::Proto | Encoding::Json => "connect_rpc",
        }
    }

    fn is_transcoded(&self) -> bool {
        !matches!(self.encoding, Encoding::Proto)
    }

    fn decoding_memory(&self, text: &[u8]) -> usize {
        if let Encoding::Objects(_) = self.encoding {
            // JSON is copied. A value of YAML is a few times longer as JSON.
            let copies = if wire::is_yaml(text) { 10 } else { 2 };
            return text.len().saturating_mul(copies);
        }
        // This also counts characters in strings, which only makes the bound larger.
        let values = text
            .iter()
            .filter(|byte| matches!(byte, b'{' | b'[' | b','));
        values.count().saturating_mul(VALUE_BYTES) + text.len().saturating_mul(3)
    }

    fn decode(&self, text: &[u8]) -> Result<Vec<u8>, Status> {
        match &self.encoding {
            Encoding::Objects(query) => query
                .request(text)
                .map_err(|error| errors::to_tonic((&error).into())),
            Encoding::Proto => Ok(text.to_vec()),
            Encoding::Json => {
                let decoded = self.decode_json(text);
                decoded.map_err(|it| errors::malformed_json(&it.path, &it.problem))
            }
        }
    }

    fn encode(&self, framed: &Bytes, subject: &str) -> Option<Bytes> {
        let message = (framed.len() >= PREFIX_BYTES).then(|| framed.slice(PREFIX_BYTES..))?;
        let text = match &self.encoding {
            Encoding::Proto => return Some(framed.clone()),
            Encoding::Json => self.json(message)?.to_string(),
            Encoding::Objects(query) if query.format == Format::Text => {
                query.text(message, subject)?
            }
            Encoding::Objects(query) => {
                let mut value = self.json(message)?;
                value["now"] = query.now.to_string().into();
                format!("{value}\n")
            }
        };
        let text = text.into_bytes();
        match self.compress_min {
            Some(min) if text.len() >= min => Some(frame(1, &gzip(&text)?)),
            _ => Some(frame(0, &text)),
        }
    }
}

fn gzip(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).ok()?;
    encoder.finish().ok()
}

// === impl Malformed ===

impl Malformed {
    fn new(path: &str, error: &serde_json::Error) -> Self {
        let (line, column) = (error.line(), error.column());
        let text = error.to_string();
        // The text before it quotes the request, which may contain secrets.
        let expected = text
            .rsplit_once(", expected ")
            .map(|(_, rest)| rest.rsplit_once(" at line ").map_or(rest, |(it, _)| it));
        let what = match (error.classify(), expected) {
            (Category::Data, Some(expected)) => format!("expected {expected}"),
            (Category::Data, None) => "not a value of this field".to_owned(),
            (Category::Eof, _) => "the JSON text ends too early".to_owned(),
            (Category::Syntax | Category::Io, _) => "not valid JSON".to_owned(),
        };
        Self {
            path: if path == "." { "" } else { path }.to_owned(),
            problem: format!("{what} (line {line}, column {column})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use rollplan_wire::json;

    use super::*;
    use crate::connect::methods::Methods;
    use crate::protocol::context::Encoding as _;

    /// The text is copied up to three times.
    #[test]
    fn memory_of_json_includes_its_values_and_copies_of_the_text() {
        let service = "rollplan.v1.RolloutPlanner";
        let methods = Methods::of(json::descriptors().unwrap(), service);
        let method = methods.get(&format!("/{service}/PlanRollout")).unwrap();
        let call = Call::new(method, Encoding::Json, None);
        let long = "x".repeat(1 << 20);
        for (text, values) in [
            (long.clone(), 0),
            (format!("{{\"a\":\"{long}\"}}"), 1),
            (format!("{{\"a\":[\"{long}\",1,2]}}"), 4),
        ] {
            let expected = values * VALUE_BYTES + 3 * text.len();
            assert_eq!(call.decoding_memory(text.as_bytes()), expected);
        }
    }
}
