//! Random numbers from the seed of a request.

/// Steele, Lea and Flood's SplitMix64: the same numbers on every platform. Fast to seed, because every sample has a
/// generator of its own.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

// === impl Random ===

impl Random {
    /// The generator of a sample. Samples of the same seed are independent of each other.
    pub(crate) fn new(seed: u64, sample: u32) -> Self {
        let mut random = Self(seed ^ u64::from(sample).rotate_left(32));
        Self(random.next())
    }

    /// A number of 64 bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to `end`, which is excluded. 0 if there is none.
    pub(crate) fn below(&mut self, end: i64) -> i64 {
        let end = u128::from(u64::try_from(end).unwrap_or(0));
        let scaled = (u128::from(self.next()) * end) >> 64;
        i64::try_from(scaled).unwrap_or(0)
    }

    /// An index of a list with this length. 0 if it is empty.
    pub(crate) fn index(&mut self, length: usize) -> usize {
        let length = i64::try_from(length).unwrap_or(i64::MAX);
        usize::try_from(self.below(length)).unwrap_or(0)
    }

    /// Puts a list into a random order.
    pub(crate) fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            list.swap(last, self.index(last + 1));
        }
    }
}
