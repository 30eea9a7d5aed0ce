//! A `google.protobuf.Struct` that is not decoded.

use std::fmt;

use bytes::{Buf, BufMut, Bytes};
use prost::DecodeError;
use prost::Message;
use prost::encoding::{self, DecodeContext, WireType};

const FIELDS_TAG: u32 = 1;

/// A `google.protobuf.Struct` that keeps the encoded bytes of its entries. Merging and encoding work as for any message.
/// `wire::tree` reads and validates the entries.
///
/// When it is decoded from [`Bytes`], the entries are slices of those bytes, and nothing is copied.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RawStruct {
    /// The encoded entries of the map, in the order in which they were received.
    entries: Vec<Bytes>,
    /// Whether this crate transcoded the entries from JSON, so that integers are exact.
    is_from_json: bool,
}

// === impl RawStruct ===

impl RawStruct {
    /// The memory that an entry takes in addition to its encoded bytes.
    pub(crate) const ENTRY_BYTES: usize = size_of::<Bytes>();

    /// The entries of the map, each an encoded message with a key and a value. If a key occurs several times, the last
    /// occurrence wins.
    pub(crate) fn entries(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.entries.iter().map(|entry| &entry[..])
    }

    /// Whether it may contain integers that a double cannot represent.
    pub(crate) fn is_from_json(&self) -> bool {
        self.is_from_json
    }

    /// Marks the entries as transcoded from JSON.
    pub(crate) fn mark_as_json(&mut self) {
        self.is_from_json = true;
    }

    /// The total number of bytes of the entries.
    pub(crate) fn len(&self) -> usize {
        self.entries.iter().map(Bytes::len).sum()
    }
}

impl fmt::Debug for RawStruct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Environment variables may contain secrets, so the template itself is never printed.
        write!(f, "RawStruct({} bytes)", self.len())
    }
}

impl Message for RawStruct {
    fn encode_raw(&self, buf: &mut impl BufMut) {
        for entry in &self.entries {
            encoding::bytes::encode(FIELDS_TAG, entry, buf);
        }
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buf: &mut impl Buf,
        ctx: DecodeContext,
    ) -> Result<(), DecodeError> {
        if tag != FIELDS_TAG {
            return encoding::skip_field(wire_type, tag, buf, ctx);
        }
        let mut entry = Bytes::new();
        encoding::bytes::merge(wire_type, &mut entry, buf, ctx)?;
        self.entries.push(entry);
        Ok(())
    }

    fn encoded_len(&self) -> usize {
        let length = |entry| encoding::bytes::encoded_len(FIELDS_TAG, entry);
        self.entries.iter().map(length).sum()
    }

    fn clear(&mut self) {
        self.entries.clear();
    }
}
