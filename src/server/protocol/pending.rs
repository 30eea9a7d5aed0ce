//! The parts of answers that clients have not read yet.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

/// The response data of a connection that its client has not read yet.
#[derive(Clone, Default)]
pub(crate) struct PendingResponses(Arc<Mutex<Queued>>);

#[derive(Default)]
struct Queued {
    next: u64,
    /// When each chunk was queued, the oldest first.
    since: BTreeMap<u64, Instant>,
}

/// A chunk of a response.
struct Tracked {
    data: Bytes,
    number: u64,
    pending_responses: PendingResponses,
    _resource: Box<dyn Any + Send + Sync>,
}

// === impl PendingResponses ===

impl PendingResponses {
    /// Counts these bytes as unread until their last copy is dropped. Then drops `resource`.
    pub(crate) fn track(&self, data: Bytes, resource: Box<dyn Any + Send + Sync>) -> Bytes {
        if data.is_empty() {
            return data;
        }
        let mut queued = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let number = queued.next;
        queued.next += 1;
        queued.since.insert(number, Instant::now());
        drop(queued);
        Bytes::from_owner(Tracked {
            data,
            number,
            pending_responses: self.clone(),
            _resource: resource,
        })
    }

    /// How long the oldest chunk has been unread.
    pub(crate) fn oldest_age(&self, now: Instant) -> Duration {
        let queued = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let oldest = queued.since.first_key_value();
        oldest.map_or(Duration::ZERO, |(_, since)| now - *since)
    }
}

// === impl Tracked ===

impl AsRef<[u8]> for Tracked {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        let queued = self.pending_responses.0.lock();
        let mut queued = queued.unwrap_or_else(PoisonError::into_inner);
        queued.since.remove(&self.number);
    }
}
