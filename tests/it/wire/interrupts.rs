//! A plan that nobody waits for any more stops at its next checkpoint.

use std::cell::Cell;

use prost::Message as _;
use rollplan::wire::{self, Error};
use rollplan_core::interrupt::Interrupt;

use super::mk_request;

/// Interrupts from one checkpoint on, and counts them all.
struct From {
    first: usize,
    count: Cell<usize>,
}

impl From {
    fn checkpoint(first: usize) -> Self {
        Self {
            first,
            count: Cell::new(0),
        }
    }
}

impl Interrupt for From {
    fn is_interrupted(&self) -> bool {
        let count = self.count.get() + 1;
        self.count.set(count);
        count >= self.first
    }
}

/// What is left of the work are its phases, each of which asks first.
const PHASES: usize = 12;

#[test]
fn an_interrupted_plan_stops_at_its_next_checkpoint() {
    let mut request = mk_request();
    let snapshot = request.snapshot.as_mut().unwrap();
    let pods = snapshot.pods.clone();
    for i in 0..2_000 {
        let mut pod = pods[i % pods.len()].clone();
        let metadata = pod.metadata.as_mut().unwrap();
        metadata.name = format!("{}-{i}", metadata.name);
        metadata.uid = format!("{}-{i}", metadata.uid);
        snapshot.pods.push(pod);
    }
    let bytes = request.encode_to_vec();
    let never = From::checkpoint(usize::MAX);
    wire::plan_rollout_bytes_until(&bytes, &never).unwrap();
    let all = never.count.get();
    assert!(all > 2_000, "{all}");
    for first in (1..=all).step_by(17) {
        let interrupt = From::checkpoint(first);
        let answer = wire::plan_rollout_bytes_until(&bytes, &interrupt);
        assert!(
            matches!(answer, Err(Error::Interrupted(_))),
            "{first} of {all}: {answer:?}"
        );
        let more = interrupt.count.get() - first;
        assert!(more <= PHASES, "{first} of {all}: {more} more");
    }
}
