//! Bytes that end early when nobody waits for their message any more: decoding a large one takes a while.

use bytes::{Buf, Bytes};
use rollplan_core::interrupt::Interrupt;

/// How many bytes are read between two questions whether to go on.
const BYTES_UNASKED: usize = 16 << 10;

/// More than a decoder reads without asking how much is left.
const BYTES_MIN: usize = 16;

/// The bytes of a message. Once interrupted there are no more of them, and decoding fails as for a message that is cut off.
pub(super) struct Interruptible<'i> {
    bytes: Bytes,
    unasked: usize,
    interrupt: &'i dyn Interrupt,
}

// === impl Interruptible ===

impl<'i> Interruptible<'i> {
    pub(super) fn new(bytes: Bytes, interrupt: &'i dyn Interrupt) -> Self {
        Self {
            bytes,
            unasked: 0,
            interrupt,
        }
    }

    #[inline]
    fn read(&mut self, bytes: usize) {
        self.unasked += bytes;
        if self.unasked < BYTES_UNASKED {
            return;
        }
        self.unasked = 0;
        // The last few are left to a decoder that has seen that they are there.
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

    /// Without copying: templates are slices of the request.
    fn copy_to_bytes(&mut self, length: usize) -> Bytes {
        let bytes = self.bytes.split_to(length);
        self.read(length);
        bytes
    }
}
