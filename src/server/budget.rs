//! Memory that requests and answers may take together.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

const KIB: usize = 1 << 10;

/// Requests with more bytes are large: they take more than about a millisecond (`cargo bench --bench plan`),
/// beside which a change of threads costs nothing.
pub const LARGE_BYTES: usize = 64 << 10;

/// Memory that may be held, in KiB. What is small is counted apart: who sends much, or does not take large answers,
/// leaves room for the usual rollout.
#[derive(Clone)]
pub(super) struct Budget {
    small: Arc<Semaphore>,
    large: Arc<Semaphore>,
}

/// A part of it, given back when dropped.
#[derive(Default)]
pub(super) struct Held {
    small: Option<OwnedSemaphorePermit>,
    large: Option<OwnedSemaphorePermit>,
}

// === impl Budget ===

impl Budget {
    pub(super) fn new(mib: usize) -> Self {
        Self {
            small: Arc::new(Semaphore::new(mib * KIB / 4)),
            large: Arc::new(Semaphore::new(mib * KIB / 4 * 3)),
        }
    }

    /// Holds so much in total, if there is so much.
    pub(super) fn hold(&self, held: &mut Held, bytes: usize) -> bool {
        let Held { small, large } = held;
        grow(small, &self.small, bytes.min(LARGE_BYTES))
            && grow(large, &self.large, bytes.saturating_sub(LARGE_BYTES))
    }
}

fn grow(held: &mut Option<OwnedSemaphorePermit>, from: &Arc<Semaphore>, bytes: usize) -> bool {
    let has = held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
    let more = bytes.div_ceil(KIB).saturating_sub(has);
    let more = u32::try_from(more).unwrap_or(u32::MAX);
    if more == 0 {
        return true;
    }
    let Ok(permit) = Arc::clone(from).try_acquire_many_owned(more) else {
        return false;
    };
    match held {
        Some(held) => held.merge(permit),
        None => *held = Some(permit),
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_small_have_room_when_the_large_have_none() {
        let budget = Budget::new(32);
        let (mut large, mut more, mut small) = Default::default();
        assert!(budget.hold(&mut large, 20 << 20));
        assert!(!budget.hold(&mut more, 10 << 20));
        assert!(budget.hold(&mut small, LARGE_BYTES));
        // It comes back.
        drop(large);
        assert!(budget.hold(&mut more, 10 << 20));
    }
}
