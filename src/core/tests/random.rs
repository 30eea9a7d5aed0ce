//! Random choices that can be repeated: a failure prints the seed, `ROLLPLAN_SEED` takes it back.

use std::fmt;

/// A small generator (splitmix64).
pub(super) struct Random {
    seed: u64,
    state: u64,
}

impl Random {
    /// The generator of a seed.
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, state: seed }
    }

    /// The generator of the seed in `ROLLPLAN_SEED`, else of a fixed one: tests are the same every time.
    pub(super) fn from_env() -> Self {
        let seed = std::env::var("ROLLPLAN_SEED").ok();
        Self::new(seed.map_or(1, |seed| seed.parse().unwrap()))
    }

    pub(super) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    pub(super) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(end).unwrap()).unwrap()
    }

    /// One of these.
    pub(super) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// Puts a list into random order.
    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

impl fmt::Display for Random {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ROLLPLAN_SEED={}", self.seed)
    }
}
