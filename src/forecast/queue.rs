//! The events of a simulation, in the order of their times.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// The Deployment controller makes a sync.
    Deployment,
    /// The ReplicaSet controller makes a sync of the ReplicaSet with this index.
    ReplicaSet(usize),
    /// The pod with this number becomes ready.
    Ready(u32),
    /// The pod with this number has terminated.
    Terminated(u32),
}

/// Events with their times. Of those at the same time, the one that was added first is first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    events: BinaryHeap<Reverse<(i64, u64, Event)>>,
    added: u64,
}

// === impl Queue ===

impl Queue {
    pub(crate) fn add(&mut self, time: i64, event: Event) {
        self.events.push(Reverse((time, self.added, event)));
        self.added += 1;
    }

    /// Removes the next event, and returns it with its time.
    pub(crate) fn next(&mut self) -> Option<(i64, Event)> {
        self.events
            .pop()
            .map(|Reverse((time, _, event))| (time, event))
    }
}
