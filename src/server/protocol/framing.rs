//! The framing of messages in gRPC: a flag, the length, and the message.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

/// The size of the flag and the length.
pub(crate) const PREFIX_BYTES: usize = 5;

/// Finds the ends of messages. A frame may contain several messages, and a message may span several frames.
#[derive(Default)]
pub(crate) struct Messages {
    prefix: Vec<u8>,
    /// The missing bytes of the current message. `None` between messages.
    missing: Option<usize>,
}

/// Adds the prefix to a message.
pub(crate) fn frame(flag: u8, message: &[u8]) -> Bytes {
    let mut framed = BytesMut::with_capacity(PREFIX_BYTES + message.len());
    framed.put_u8(flag);
    // All messages here are shorter.
    framed.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    framed.extend_from_slice(message);
    framed.freeze()
}

// === impl Messages ===

impl Messages {
    /// The number of messages that end in this part of the stream.
    pub(crate) fn count(&mut self, mut data: &[u8]) -> u64 {
        let mut ended = 0;
        loop {
            if let Some(missing) = self.missing {
                if missing > data.len() {
                    self.missing = Some(missing - data.len());
                    return ended;
                }
                data.advance(missing);
                self.missing = None;
                ended += 1;
            }
            let part = data.len().min(PREFIX_BYTES - self.prefix.len());
            self.prefix.extend_from_slice(&data[..part]);
            data.advance(part);
            let &[_, a, b, c, d] = &self.prefix[..] else {
                return ended;
            };
            self.missing = Some(u32::from_be_bytes([a, b, c, d]) as usize);
            self.prefix.clear();
        }
    }

    /// Whether all started messages are complete.
    pub(crate) fn is_between(&self) -> bool {
        self.missing.is_none() && self.prefix.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_counted_across_frames() {
        let stream = [
            &[0, 0, 0, 0, 3, 1, 2, 3][..],
            &[0, 0, 0, 0, 0],
            &[1, 0, 0, 1, 0],
            &[7; 256],
        ]
        .concat();
        for size in 1..=stream.len() {
            let mut messages = Messages::default();
            let ended: u64 = stream.chunks(size).map(|part| messages.count(part)).sum();
            assert_eq!(ended, 3, "cut into {size}");
        }
        let mut messages = Messages::default();
        assert_eq!(messages.count(&stream[..stream.len() - 1]), 2);
    }
}
