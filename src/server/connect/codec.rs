//! The messages of a call, to and from what gRPC would send.

use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message as _;
use prost_reflect::{DeserializeOptions, DynamicMessage, SerializeOptions};
use serde_json::error::Category;
use serde_json::value::Serializer;

use super::methods::Method;
use crate::server::call::framing::{PREFIX_BYTES, frame};

/// What a value of a JSON text takes in memory at most while it is decoded: an entry of a list, and in it a message with a
/// node of a tree of its own.
const VALUE_BYTES: usize = 1 << 10;

/// A call of Connect, noted on its request.
#[derive(Clone)]
pub(crate) struct Call {
    method: Method,
    encoding: Encoding,
    compress_min: Option<usize>,
}

/// How the messages of a call are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Proto,
    Json,
}

/// Why a text is not the JSON of a message. It quotes nothing of the text but names of fields and keys.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed {
    /// Where, by the names that the text uses. Empty if it is the text as a whole.
    pub(crate) path: String,
    /// What is wrong there.
    pub(crate) problem: String,
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

    pub(crate) fn is_json(&self) -> bool {
        self.encoding == Encoding::Json
    }

    pub(super) fn is_compressed_by_tonic(&self) -> bool {
        self.encoding == Encoding::Proto && self.compress_min.is_some()
    }

    pub(super) fn content_type(&self) -> &'static str {
        match self.encoding {
            Encoding::Proto => "application/proto",
            Encoding::Json => "application/json",
        }
    }

    /// Bytes that [`decode`](Self::decode) takes at most.
    pub(crate) fn decoding_memory(text: &[u8]) -> usize {
        // In texts, too: this counts too many, never too few.
        let values = text
            .iter()
            .filter(|byte| matches!(byte, b'{' | b'[' | b','));
        values.count().saturating_mul(VALUE_BYTES) + text.len().saturating_mul(3)
    }

    /// The protobuf of a request in JSON. Unknown fields are ignored: requests are made of Kubernetes objects, which
    /// have many more than the contract.
    pub(crate) fn decode(&self, text: &[u8]) -> Result<Vec<u8>, Malformed> {
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

    /// The same message with its prefix, in JSON. `None` if it cannot be represented in JSON, which is a bug.
    pub(crate) fn encode(&self, framed: &Bytes) -> Option<Bytes> {
        let message = framed.get(PREFIX_BYTES..)?;
        let message = DynamicMessage::decode(self.method.output.clone(), message).ok()?;
        // As a value first: its maps are ordered, so that the same answer has the same bytes.
        let options = SerializeOptions::new();
        let value = message.serialize_with_options(Serializer, &options).ok()?;
        let text = value.to_string().into_bytes();
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
        // Before that it quotes the text, which may hold anything.
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
