//! A request that has arrived as a whole: how much work it is, and what it takes in memory.
//!
//! A message in JSON becomes protobuf here, before anything else is done with it.
//!
//! One estimate of the work decides on which threads it is done and among which calls it is counted; it is made on the
//! bytes of the message, decompressed where need be, before anything of it is decoded.

use bytes::{BufMut as _, Bytes, BytesMut};
use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use rollplan_core::interrupt::{Interrupt, Never};
use tonic::Status;

use crate::server::admission::budget::{Budget, Held};
use crate::server::admission::decompress::{Compression, Failure, decompress};
use crate::server::call::errors;
use crate::server::call::framing::{PREFIX_BYTES, frame};
use crate::server::connect::Call;
use crate::server::methods;
use crate::wire;
use crate::wire::REQUEST_BYTES_MAX;
use crate::wire::estimate::{Estimate, estimate_named, estimate_up_to};

/// Requests that take more work than this, in nanoseconds, are large: beside a millisecond, a change of threads costs
/// nothing.
pub const LARGE_WORK: u64 = 1_000_000;

/// Bytes that a compressed request may have decompressed and still be looked at where it arrives: a part of a millisecond.
const DECOMPRESSED_BYTES_MAX: usize = 64 << 10;

/// Bytes of JSON that are decoded where they arrive: a part of a millisecond.
const JSON_BYTES_MAX: usize = 32 << 10;

pub(crate) const ENCODING: &str = "grpc-encoding";

/// The body of a request that has arrived.
pub(crate) struct BufferedRequest {
    /// Full name of the message that it should be.
    message: &'static str,
    /// Prefix and message, and whatever the client sent after them.
    bytes: Bytes,
    /// What the message is still to be decompressed with.
    compression: Option<Compression>,
    /// The call whose message is still to be decoded from JSON.
    json: Option<Call>,
    is_large: bool,
    budget: Budget,
    held: Held,
}

/// Why a request is not answered.
pub(crate) enum Refusal {
    /// There is no memory for it now.
    Shed,
    Status(Status),
}

// === impl BufferedRequest ===

impl BufferedRequest {
    /// Finds out how much work it is, with little work.
    pub(crate) fn new(
        parts: &mut Parts,
        bytes: Bytes,
        budget: Budget,
        held: Held,
    ) -> Result<Self, Refusal> {
        let mut request = Self {
            message: methods::request_message(parts.uri.path()),
            compression: Compression::of(&parts.headers).filter(|_| bytes.first() == Some(&1)),
            json: parts
                .extensions
                .get::<Call>()
                .filter(|it| it.is_transcoded())
                .cloned(),
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
                // Those who decode say what is wrong.
                Err(Failure::Malformed) => false,
            },
            None => request.decode_or_estimate()?,
        };
        Ok(request)
    }

    /// Decodes JSON if there is little of it, and finds out whether the request is much work.
    fn decode_or_estimate(&mut self) -> Result<bool, Refusal> {
        if self.json.is_some() {
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

    /// The bytes as gRPC has them, and the memory that is held for them: those of a small request.
    pub(crate) fn into_bytes(self) -> (Bytes, Held) {
        (self.bytes, self.held)
    }

    /// The same for a large request: decompressed, found to be within all limits, and with memory for all that will be
    /// made of it.
    pub(crate) fn prepare(
        mut self,
        headers: &mut HeaderMap,
        interrupt: &dyn Interrupt,
    ) -> Result<(Bytes, Held), Refusal> {
        match self.decompress(REQUEST_BYTES_MAX, headers, interrupt) {
            Ok(()) => {}
            // Those who decode say what is wrong.
            Err(Failure::Malformed) => return Ok(self.into_bytes()),
            Err(Failure::TooLarge) => return Err(Refusal::Status(errors::request_too_large())),
            Err(Failure::NoMemory) => return Err(Refusal::Shed),
            Err(Failure::Interrupted(interrupted)) => return Err(refused(&interrupted.into())),
        }
        if let Some(call) = &self.json {
            let sent = self.bytes.len();
            let memory = call.decoding_memory(self.encoded());
            self.hold(sent.saturating_add(memory))?;
            self.decode_json()?;
            interrupt.check().map_err(|it| refused(&it.into()))?;
        }
        let Estimate { memory, .. } = estimate_named(self.message, self.encoded(), interrupt)
            .map_err(|error| refused(&error))?;
        // Tonic copies the bytes once.
        let bytes = self.bytes.len().saturating_mul(2).saturating_add(memory);
        self.hold(bytes)?;
        Ok(self.into_bytes())
    }

    /// Holds so much memory in total.
    fn hold(&mut self, bytes: usize) -> Result<(), Refusal> {
        let max = self.budget.bytes_max();
        if bytes > max {
            return Err(refused(&wire::Error::TooLarge {
                what: "request",
                unit: "bytes in memory",
                count: bytes,
                max,
            }));
        }
        match self.budget.hold(&mut self.held, bytes) {
            true => Ok(()),
            false => Err(Refusal::Shed),
        }
    }

    /// Puts protobuf in the place of JSON.
    fn decode_json(&mut self) -> Result<(), Refusal> {
        let Some(call) = self.json.take() else {
            return Ok(());
        };
        let message = call.decode(self.encoded());
        let message = message.map_err(Refusal::Status)?;
        if message.len() > REQUEST_BYTES_MAX {
            return Err(Refusal::Status(errors::request_too_large()));
        }
        self.bytes = frame(0, &message);
        Ok(())
    }

    fn is_much_work(&self) -> Result<bool, Refusal> {
        let estimate = estimate_up_to(self.message, self.encoded(), LARGE_WORK);
        let estimate = estimate.map_err(|error| refused(&error))?;
        Ok(estimate.is_none())
    }

    /// The message without its prefix: as much of it as there is.
    fn encoded(&self) -> &[u8] {
        let all = self.bytes.get(PREFIX_BYTES..).unwrap_or_default();
        let length = announced(&self.bytes).unwrap_or_default();
        &all[..length.min(all.len())]
    }

    /// Puts the decompressed message in the place of the compressed one.
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
        let hold = |bytes: usize| budget.hold(held, sent + bytes);
        let all = self.bytes.get(PREFIX_BYTES..).unwrap_or_default();
        let length = announced(&self.bytes).unwrap_or_default().min(all.len());
        let (encoded, rest) = all.split_at(length);
        let message = decompress(compression, encoded, bytes_max, hold, interrupt)?;
        let mut bytes = BytesMut::with_capacity(PREFIX_BYTES + message.len() + rest.len());
        bytes.put_u8(0);
        // No longer than the limit of the contract.
        bytes.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
        bytes.extend_from_slice(&message);
        bytes.extend_from_slice(rest);
        self.bytes = bytes.freeze();
        self.compression = None;
        headers.insert(ENCODING, HeaderValue::from_static("identity"));
        Ok(())
    }
}

/// The length that the prefix of a message announces, once it is there.
pub(crate) fn announced(prefix: &[u8]) -> Option<usize> {
    let length: [u8; 4] = prefix.get(1..PREFIX_BYTES)?.try_into().ok()?;
    Some(u32::from_be_bytes(length) as usize)
}

fn refused(error: &wire::Error) -> Refusal {
    Refusal::Status(errors::to_status(error))
}
