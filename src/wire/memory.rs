//! The memory that the objects of a request take.

use super::error::Error;

/// The maximum memory of a request, in bytes. The maximum number of pods, each with a full status as written by
/// Kubernetes, uses less than half of it.
pub const MEMORY_BYTES_MAX: usize = 256 << 20;

/// Counts memory.
#[derive(Debug, Default)]
pub(super) struct Memory(usize);

// === impl Memory ===

impl Memory {
    /// The number of bytes so far.
    pub(super) fn bytes(&self) -> usize {
        self.0
    }

    /// Counts this number of bytes.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`] if a request takes too much memory.
    pub(super) fn take(&mut self, bytes: usize) -> Result<(), Error> {
        self.0 = self.0.saturating_add(bytes);
        check_memory(self.0)
    }
}

/// Rejects a request that needs too much memory.
pub fn check_memory(bytes: usize) -> Result<(), Error> {
    if bytes > MEMORY_BYTES_MAX {
        return Err(Error::TooLarge {
            what: "request",
            unit: "bytes in memory",
            count: bytes,
            max: MEMORY_BYTES_MAX,
        });
    }
    Ok(())
}
