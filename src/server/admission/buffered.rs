//! A buffered request, with the memory that it takes.
//!
//! A message in JSON is converted to protobuf here, before any other processing.
//!
//! One number, the maximum memory for reading and answering a request, decides which threads process a call and which limit
//! it counts against. It is estimated from the bytes of the message, decompressed if necessary, before the message is
//! decoded.

use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};
use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use rollplan_core::interrupt::{Interrupt, Never};
use rollplan_service::Method;
use rollplan_service::memory;
use rollplan_wire as wire;
use rollplan_wire::REQUEST_BYTES_MAX;
use tonic::Status;

use crate::admission::budget::{Budget, Reservation};
use crate::admission::decompress::{Compression, Failure, decompress};
use crate::protocol::context::{CallContext, Encoding};
use crate::protocol::errors;
use crate::protocol::framing::{PREFIX_BYTES, frame};
use crate::protocol::methods;

/// Requests that take more memory than this, in bytes, are large: answering them takes more than one or two milliseconds.
/// Compared with that, a change of threads costs nothing.
pub const LARGE_MEMORY: usize = 2 << 20;

/// The maximum decompressed size of a request that is decompressed on the serving threads: a fraction of a millisecond.
const DECOMPRESSED_BYTES_MAX: usize = 64 << 10;

/// The maximum size of JSON that is decoded on the serving threads: a fraction of a millisecond.
const JSON_BYTES_MAX: usize = 32 << 10;

pub(crate) const ENCODING: &str = "grpc-encoding";

/// The body of a buffered request.
pub(crate) struct BufferedRequest {
    /// The method. `None` for services other than the planner.
    method: Option<&'static Method>,
    /// The prefix, the message, and any further bytes that the client sent.
    bytes: Bytes,
    /// The compression of the message, until it is decompressed.
    compression: Option<Compression>,
    /// The encoding of the message, until it is decoded.
    encoding: Option<Arc<dyn Encoding>>,
    is_large: bool,
    budget: Budget,
    held: Reservation,
}

/// Why a request is rejected.
pub(crate) enum Rejection {
    /// The memory budget is exhausted.
    Shed,
    Status(Status),
}

// === impl BufferedRequest ===

impl BufferedRequest {
    /// Estimates the memory of a request, which takes little time.
    pub(crate) fn new(
        parts: &mut Parts,
        bytes: Bytes,
        budget: Budget,
        held: Reservation,
    ) -> Result<Self, Rejection> {
        let mut request = Self {
            method: methods::of_planner(parts.uri.path()),
            compression: Compression::of(&parts.headers).filter(|_| bytes.first() == Some(&1)),
            encoding: CallContext::transcoding(&parts.extensions),
            is_large: false,
            bytes,
            budget,
            held,
        };
        request.is_large = match request.compression {
            Some(_) if request.encoded().len() > DECOMPRESSED_BYTES_MAX => true,
            Some(_) => match request.decompress(DECOMPRESSED_BYTES_MAX, &mut parts.headers, &Never)
            {
                Ok(()) => request.decode_or_estimate()?,
                Err(Failure::TooLarge | Failure::NoMemory | Failure::Interrupted(_)) => true,
                // The decoder reports the error.
                Err(Failure::Malformed) => false,
            },
            None => request.decode_or_estimate()?,
        };
        Ok(request)
    }

    /// Decodes JSON if it is small. Returns whether the request is large.
    fn decode_or_estimate(&mut self) -> Result<bool, Rejection> {
        if self.encoding.is_some() {
            if self.encoded().len() > JSON_BYTES_MAX {
                return Ok(true);
            }
            self.decode_json()?;
        }
        self.is_much_work()
    }

    pub(crate) fn is_large(&self) -> bool {
        self.is_large
    }

    /// The framed message of a small request, with the memory reserved for it.
    pub(crate) fn into_bytes(self) -> (Bytes, Reservation) {
        (self.bytes, self.held)
    }

    /// The framed message of a large request: decompressed, checked against all limits, and with memory reserved for
    /// decoding it and for its answer.
    pub(crate) fn prepare(
        mut self,
        headers: &mut HeaderMap,
        interrupt: &dyn Interrupt,
    ) -> Result<(Bytes, Reservation), Rejection> {
        match self.decompress(REQUEST_BYTES_MAX, headers, interrupt) {
            Ok(()) => {}
            // The decoder reports the error.
            Err(Failure::Malformed) => return Ok(self.into_bytes()),
            Err(Failure::TooLarge) => return Err(Rejection::Status(errors::request_too_large())),
            Err(Failure::NoMemory) => return Err(Rejection::Shed),
            Err(Failure::Interrupted(interrupted)) => return Err(rejected(&interrupted.into())),
        }
        if let Some(encoding) = &self.encoding {
            let sent = self.bytes.len();
            let memory = encoding.decoding_memory(self.encoded());
            self.reserve(sent.saturating_add(memory))?;
            self.decode_json()?;
            interrupt.check().map_err(|it| rejected(&it.into()))?;
        }
        let memory = self.memory(interrupt);
        let memory = memory.map_err(|error| rejected(&error))?;
        // tonic copies the bytes once.
        let bytes = self.bytes.len().saturating_mul(2).saturating_add(memory);
        self.reserve(bytes)?;
        Ok(self.into_bytes())
    }

    /// Reserves this total of memory.
    fn reserve(&mut self, bytes: usize) -> Result<(), Rejection> {
        let max = self.budget.bytes_max();
        if bytes > max {
            return Err(rejected(&wire::Error::TooLarge {
                what: "request",
                unit: "bytes in memory",
                count: bytes,
                max,
            }));
        }
        if self.budget.reserve(&mut self.held, bytes) {
            Ok(())
        } else {
            Err(Rejection::Shed)
        }
    }

    /// Replaces JSON by protobuf.
    fn decode_json(&mut self) -> Result<(), Rejection> {
        let Some(encoding) = self.encoding.take() else {
            return Ok(());
        };
        let message = encoding.decode(self.encoded());
        let message = message.map_err(Rejection::Status)?;
        if message.len() > REQUEST_BYTES_MAX {
            return Err(Rejection::Status(errors::request_too_large()));
        }
        self.bytes = frame(0, &message);
        Ok(())
    }

    /// Whether the request is large.
    fn is_much_work(&self) -> Result<bool, Rejection> {
        let encoded = self.encoded();
        if encoded.len() > LARGE_MEMORY {
            return Ok(true);
        }
        let memory = self.memory(&Never).map_err(|error| rejected(&error))?;
        Ok(memory > LARGE_MEMORY)
    }

    /// The memory for reading and answering the request, in bytes.
    fn memory(&self, interrupt: &dyn Interrupt) -> Result<usize, wire::Error> {
        match self.method {
            Some(method) => memory(method, self.encoded(), interrupt),
            None => Ok(0),
        }
    }

    /// The message without its prefix, as far as received.
    fn encoded(&self) -> &[u8] {
        let all = self.bytes.get(PREFIX_BYTES..).unwrap_or_default();
        let length = announced_length(&self.bytes).unwrap_or_default();
        &all[..length.min(all.len())]
    }

    /// Replaces the compressed message by the decompressed one.
    fn decompress(
        &mut self,
        bytes_max: usize,
        headers: &mut HeaderMap,
        interrupt: &dyn Interrupt,
    ) -> Result<(), Failure> {
        let Some(compression) = self.compression else {
            return Ok(());
        };
        let (budget, held) = (&self.budget, &mut self.held);
        let sent = self.bytes.len();
        let reserve = |bytes: usize| budget.reserve(held, sent + bytes);
        let all = self.bytes.get(PREFIX_BYTES..).unwrap_or_default();
        let length = announced_length(&self.bytes)
            .unwrap_or_default()
            .min(all.len());
        let (encoded, rest) = all.split_at(length);
        let message = decompress(compression, encoded, bytes_max, reserve, interrupt)?;
        let mut bytes = BytesMut::with_capacity(PREFIX_BYTES + message.len() + rest.len());
        bytes.put_u8(0);
        // Below the limit of the contract, so it fits.
        bytes.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
        bytes.extend_from_slice(&message);
        bytes.extend_from_slice(rest);
        self.bytes = bytes.freeze();
        self.compression = None;
        headers.insert(ENCODING, HeaderValue::from_static("identity"));
        Ok(())
    }
}

/// The length of the message according to its prefix. `None` if the prefix is incomplete.
pub(crate) fn announced_length(prefix: &[u8]) -> Option<usize> {
    let length: [u8; 4] = prefix.get(1..PREFIX_BYTES)?.try_into().ok()?;
    Some(u32::from_be_bytes(length) as usize)
}

fn rejected(error: &wire::Error) -> Rejection {
    Rejection::Status(errors::to_tonic(error.into()))
}
