//! Pseudo-random numbers.

/// SplitMix64.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which must not be zero.
    pub(super) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }

    /// Changes or removes a byte, or applies `otherwise` at one.
    pub(super) fn break_bytes(
        &mut self,
        bytes: &mut Vec<u8>,
        otherwise: impl Fn(&mut Self, &mut Vec<u8>, usize),
    ) {
        for _ in 0..=self.below(3) {
            let at = self.below(bytes.len());
            match self.below(4) {
                0 => bytes[at] = self.next() as u8,
                1 => bytes[at] ^= 1 << self.below(8),
                2 if at > 0 => _ = bytes.remove(at),
                _ => otherwise(self, bytes, at),
            }
        }
    }
}
