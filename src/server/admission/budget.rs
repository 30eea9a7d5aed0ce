//! The memory budget that all requests and answers share.

use std::sync::Arc;

use metrics::Gauge;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

const KIB: usize = 1 << 10;

/// The memory of a typical rollout: its JSON has 60 KB, and the buffer grows by doubling. Larger calls reserve the rest from
/// the part for large calls.
const SMALL_BYTES: usize = 128 << 10;

/// A memory budget, in KiB. It has separate parts for small and large calls, so clients that send large requests or do
/// not read large answers leave memory for typical rollouts.
#[derive(Clone)]
pub(crate) struct Budget {
    small: Arc<Semaphore>,
    large: Arc<Semaphore>,
    /// The maximum number of bytes that one request may reserve.
    bytes_max: usize,
    held: Gauge,
}

/// Reserved memory, released on drop.
#[derive(Default)]
pub(crate) struct Reservation {
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

    /// The maximum number of bytes that one request can reserve while no other holds any.
    pub(crate) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Grows a reservation to this total. Returns whether that much memory is available.
    pub(crate) fn reserve(&self, held: &mut Reservation, bytes: usize) -> bool {
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

// === impl Reservation ===

impl Reservation {
    fn bytes(&self) -> usize {
        let parts = [&self.small, &self.large].into_iter().flatten();
        parts.map(|it| it.num_permits() * KIB).sum()
    }
}

impl Drop for Reservation {
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
    fn small_calls_have_memory_when_large_calls_have_none() {
        let budget = Budget::new(32, Gauge::noop());
        let (mut large, mut more, mut small) = Default::default();
        assert!(budget.reserve(&mut large, 20 << 20));
        assert!(!budget.reserve(&mut more, 10 << 20));
        assert!(budget.reserve(&mut small, SMALL_BYTES));
        // The memory is available again.
        drop(large);
        assert!(budget.reserve(&mut more, 10 << 20));
    }
}
