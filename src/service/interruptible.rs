//! Interrupts the decoding of large messages whose answer is not needed, by ending their bytes early.

use bytes::{Buf, Bytes};
use prost::{Message, Name};
use rollplan_core::interrupt::Interrupt;
use rollplan_wire::Error;

/// The number of bytes between two checks for an interruption.
const CHECK_INTERVAL_BYTES: usize = 16 << 10;

/// The maximum number of bytes that a decoder reads without checking how many remain.
const BYTES_MIN: usize = 16;

/// Decodes a message whose memory has been checked.
///
/// # Errors
///
/// [`Error::Undecodable`], and [`Error::Interrupted`].
pub fn decode<M: Message + Name + Default>(
    encoded: Bytes,
    interrupt: &dyn Interrupt,
) -> Result<M, Error> {
    let decoded = M::decode(Interruptible::new(encoded, interrupt));
    interrupt.check()?;
    decoded.map_err(|source| Error::Undecodable {
        message: M::NAME,
        source,
    })
}

/// The bytes of a message. After an interruption, no bytes remain, and decoding fails as for a truncated message.
struct Interruptible<'i> {
    bytes: Bytes,
    bytes_since_check: usize,
    interrupt: &'i dyn Interrupt,
}

// === impl Interruptible ===

impl<'i> Interruptible<'i> {
    fn new(bytes: Bytes, interrupt: &'i dyn Interrupt) -> Self {
        Self {
            bytes,
            bytes_since_check: 0,
            interrupt,
        }
    }

    #[inline]
    fn read(&mut self, bytes: usize) {
        self.bytes_since_check += bytes;
        if self.bytes_since_check < CHECK_INTERVAL_BYTES {
            return;
        }
        self.bytes_since_check = 0;
        // The last bytes remain, because the decoder may have checked already that they exist.
        if self.bytes.len() > BYTES_MIN && self.interrupt.is_interrupted() {
            self.bytes.clear();
        }
    }
}

impl Buf for Interruptible<'_> {
    #[inline]
    fn remaining(&self) -> usize {
        self.bytes.len()
    }

    #[inline]
    fn chunk(&self) -> &[u8] {
        &self.bytes
    }

    #[inline]
    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        self.read(count);
    }

    /// Does not copy, so templates share the memory of the request.
    fn copy_to_bytes(&mut self, length: usize) -> Bytes {
        let bytes = self.bytes.split_to(length);
        self.read(length);
        bytes
    }
}
