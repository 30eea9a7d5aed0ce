//! Memory that requests and answers may take together.

use std::sync::Arc;

use metrics::Gauge;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

const KIB: usize = 1 << 10;

/// What a usual rollout takes. What is larger takes the rest of it from the part for large requests.
const SMALL_BYTES: usize = 64 << 10;

/// Memory that may be held, in KiB. What is small is counted apart: who sends much, or does not take large answers,
/// leaves room for the usual rollout.
#[derive(Clone)]
pub(crate) struct Budget {
    small: Arc<Semaphore>,
    large: Arc<Semaphore>,
    /// Bytes that one request may hold at most.
    bytes_max: usize,
    held: Gauge,
}

/// A part of it, given back when dropped.
#[derive(Default)]
pub(crate) struct Held {
    small: Option<OwnedSemaphorePermit>,
    large: Option<OwnedSemaphorePermit>,
    held: Option<Gauge>,
}

// === impl Budget ===

impl Budget {
    pub(crate) fn new(mib: usize, held: Gauge) -> Self {
        let large = mib * KIB / 4 * 3;
        Self {
            small: Arc::new(Semaphore::new(mib * KIB / 4)),
            large: Arc::new(Semaphore::new(large)),
            bytes_max: large * KIB,
            held,
        }
    }

    /// Bytes that one request may hold when there is no other.
    pub(crate) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Holds so much in total, if there is so much.
    pub(crate) fn hold(&self, held: &mut Held, bytes: usize) -> bool {
        let before = held.bytes();
        let is_held = grow(&mut held.small, &self.small, bytes.min(SMALL_BYTES))
            && grow(
                &mut held.large,
                &self.large,
                bytes.saturating_sub(SMALL_BYTES),
            );
        self.held.increment((held.bytes() - before) as f64);
        held.held.get_or_insert_with(|| self.held.clone());
        is_held
    }
}

// === impl Held ===

impl Held {
    fn bytes(&self) -> usize {
        let parts = [&self.small, &self.large].into_iter().flatten();
        parts.map(|it| it.num_permits() * KIB).sum()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(held) = &self.held {
            held.decrement(self.bytes() as f64);
        }
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
        let budget = Budget::new(32, Gauge::noop());
        let (mut large, mut more, mut small) = Default::default();
        assert!(budget.hold(&mut large, 20 << 20));
        assert!(!budget.hold(&mut more, 10 << 20));
        assert!(budget.hold(&mut small, SMALL_BYTES));
        // It comes back.
        drop(large);
        assert!(budget.hold(&mut more, 10 << 20));
    }
}
