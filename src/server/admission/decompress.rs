//! Decompresses requests within limits. (tonic would decompress them while decoding, which is too late for an estimate
//! of the work.)

use std::io::Read;

use http::HeaderMap;
use rollplan_core::interrupt::{Interrupt, Interrupted};

/// The number of bytes that are decompressed at a time.
const PART_BYTES: usize = 16 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    Gzip,
    Zstd,
}

/// Why a message was not decompressed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    Malformed,
    /// It exceeds the limit.
    TooLarge,
    /// `reserve` rejected the memory.
    NoMemory,
    Interrupted(Interrupted),
}

impl Compression {
    /// The compression that a request names, if it is supported.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        match headers.get("grpc-encoding")?.as_bytes() {
            b"gzip" => Some(Self::Gzip),
            b"zstd" => Some(Self::Zstd),
            _ => None,
        }
    }
}

/// Decompresses at most `bytes_max` bytes. Calls `reserve` with the new total before allocating memory.
pub(crate) fn decompress(
    compression: Compression,
    encoded: &[u8],
    bytes_max: usize,
    mut reserve: impl FnMut(usize) -> bool,
    interrupt: &dyn Interrupt,
) -> Result<Vec<u8>, Failure> {
    let mut reader: Box<dyn Read + '_> = match compression {
        Compression::Gzip => Box::new(flate2::read::GzDecoder::new(encoded)),
        Compression::Zstd => {
            Box::new(zstd::stream::read::Decoder::new(encoded).map_err(|_| Failure::Malformed)?)
        }
    };
    let mut all = Vec::new();
    loop {
        interrupt.check().map_err(Failure::Interrupted)?;
        let start = all.len();
        // Twice, because the message is copied to follow its prefix.
        if !reserve(2 * (start + PART_BYTES)) {
            return Err(Failure::NoMemory);
        }
        all.resize(start + PART_BYTES, 0);
        let read = reader.read(&mut all[start..]);
        let read = read.map_err(|_| Failure::Malformed)?;
        all.truncate(start + read);
        if all.len() > bytes_max {
            return Err(Failure::TooLarge);
        }
        if read == 0 {
            return Ok(all);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use rollplan_core::interrupt::Never;

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        zstd::stream::encode_all(bytes, 0).unwrap()
    }

    #[test]
    fn messages_are_decompressed_up_to_a_limit() {
        let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
        for (compression, encoded) in [
            (Compression::Gzip, gzip(&bytes)),
            (Compression::Zstd, zstd(&bytes)),
        ] {
            let with = |max, memory| {
                let reserve = |bytes| bytes <= memory;
                decompress(compression, &encoded, max, reserve, &Never)
            };
            assert_eq!(with(100_000, usize::MAX).unwrap(), bytes);
            assert_eq!(with(99_999, usize::MAX), Err(Failure::TooLarge));
            // The message and its copy with a prefix.
            assert_eq!(with(100_000, 199_999), Err(Failure::NoMemory));
            let cut = &encoded[..encoded.len() / 2];
            let cut = decompress(compression, cut, 1 << 20, |_| true, &Never);
            assert_eq!(cut, Err(Failure::Malformed));
        }
    }
}
