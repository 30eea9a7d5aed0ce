//! The messages of a call, to and from what gRPC would send.

use std::io::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::HeaderMap;
use prost::Message as _;
use prost_reflect::{DeserializeOptions, DynamicMessage, SerializeOptions};
use serde_json::Value;
use serde_json::error::Category;
use serde_json::value::Serializer;
use tonic::Status;

use super::endpoint::{Format, Query};
use super::headers::media_type;
use super::methods::Method;
use crate::proto::Target;
use crate::server::call::errors;
use crate::server::call::framing::{PREFIX_BYTES, frame};
use crate::wire::{self, Shown};

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
#[derive(Clone, Debug)]
pub(super) enum Encoding {
    Proto,
    Json,
    /// The request is Kubernetes JSON beside a query, and the response is for people.
    Objects(Arc<Query>),
}

/// Why a text is not the JSON of a message. It quotes nothing of the text but names of fields and keys.
#[derive(Debug, PartialEq, Eq)]
struct Malformed {
    /// Where, by the names that the text uses. Empty if it is the text as a whole.
    path: String,
    /// What is wrong there.
    problem: String,
}

// === impl Encoding ===

impl Encoding {
    /// That of a content type of Connect.
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

    /// The protocol, as traces name it.
    pub(crate) fn system(&self) -> &'static str {
        match self.encoding {
            Encoding::Objects(_) => "http",
            Encoding::Proto | Encoding::Json => "connect_rpc",
        }
    }

    /// Whether its messages are something else than protobuf.
    pub(crate) fn is_transcoded(&self) -> bool {
        !matches!(self.encoding, Encoding::Proto)
    }

    /// Whether tonic compresses its answer. JSON is compressed where it is encoded.
    pub(super) fn is_compressed_by_tonic(&self) -> bool {
        !self.is_transcoded() && self.compress_min.is_some()
    }

    /// The time of the answer, where that is for people.
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

    /// Bytes that [`decode`](Self::decode) takes at most.
    pub(crate) fn decoding_memory(&self, text: &[u8]) -> usize {
        if let Encoding::Objects(_) = self.encoding {
            return text.len().saturating_mul(2);
        }
        // In texts, too: this counts too many, never too few.
        let values = text
            .iter()
            .filter(|byte| matches!(byte, b'{' | b'[' | b','));
        values.count().saturating_mul(VALUE_BYTES) + text.len().saturating_mul(3)
    }

    /// The protobuf of a request.
    pub(crate) fn decode(&self, text: &[u8]) -> Result<Vec<u8>, Status> {
        match &self.encoding {
            Encoding::Objects(query) => Ok(query.request(text)),
            Encoding::Proto => Ok(text.to_vec()),
            Encoding::Json => {
                let decoded = self.decode_json(text);
                decoded.map_err(|it| errors::malformed_json(&it.path, &it.problem))
            }
        }
    }

    /// Answers, with what its objects show and which owner that is about if the call leaves that to them.
    pub(crate) fn answer<A>(
        &self,
        answer: impl FnOnce(Option<&mut Shown>) -> Result<A, wire::Error>,
    ) -> (Result<A, wire::Error>, Option<Target>) {
        match &self.encoding {
            Encoding::Objects(query) => query.answer(|shown| answer(Some(shown))),
            Encoding::Proto | Encoding::Json => (answer(None), None),
        }
    }

    /// Unknown fields are ignored: requests are made of Kubernetes objects, which have many more than the contract.
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

    /// The same message with its prefix, as the client wants it. `None` if that is not possible, which is a bug.
    pub(crate) fn encode(&self, framed: &Bytes) -> Option<Bytes> {
        let message = (framed.len() >= PREFIX_BYTES).then(|| framed.slice(PREFIX_BYTES..))?;
        let text = match &self.encoding {
            Encoding::Proto => return Some(framed.clone()),
            Encoding::Json => self.json(message)?.to_string(),
            Encoding::Objects(query) if query.format == Format::Text => query.text(message)?,
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

    fn json(&self, message: Bytes) -> Option<Value> {
        let message = DynamicMessage::decode(self.method.output.clone(), message).ok()?;
        // As a value first: its maps are ordered, so that the same answer has the same bytes.
        let options = SerializeOptions::new();
        message.serialize_with_options(Serializer, &options).ok()
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
