//! `google.protobuf.Struct`, undecoded.

use std::fmt;

use bytes::{Buf, BufMut, Bytes};
use prost::DecodeError;
use prost::Message;
use prost::encoding::{self, DecodeContext, WireType};

const FIELDS_TAG: u32 = 1;

/// A `google.protobuf.Struct` whose entries stay in the bytes they came in. Merging and encoding work as for
/// any message; what lies inside is looked at by `tree`, which also finds what is malformed.
///
/// Decoded from [`Bytes`], the entries are slices of these: nothing is copied.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RawStruct {
    /// One for each entry of the map, in the order they came in.
    entries: Vec<Bytes>,
}

// === impl RawStruct ===

impl RawStruct {
    /// What one more entry takes in memory, beside its bytes.
    pub(super) const ENTRY_BYTES: usize = size_of::<Bytes>();

    /// The entries of the map as encoded messages of a key and a value. A key may come more than once; the
    /// last one counts.
    pub(super) fn entries(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.entries.iter().map(|entry| &entry[..])
    }

    /// Bytes of the entries.
    pub(super) fn len(&self) -> usize {
        self.entries.iter().map(Bytes::len).sum()
    }
}

impl fmt::Debug for RawStruct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Environment values may be secret: a template is never printed.
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
