//! An interrupted call stops at its next checkpoint.

use std::cell::Cell;

use bytes::Bytes;
use prost::Message as _;
use rollplan::proto::PlanRolloutRequest;
use rollplan::service::{Code, MethodRequest as _};
use rollplan::wire::{Context, Error};
use rollplan_core::interrupt::Interrupt;
use serde_json::Value;

use crate::request::{Request, mk_request};

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

/// An upper bound for the checkpoints after an interrupt: each phase has one at its start.
const PHASES: usize = 12;

/// The example with additional pods and old ReplicaSets.
fn mk_large(pods: usize, sets: usize) -> Request {
    let mut request = mk_request();
    let mut add = |like: Value, count: usize| {
        request.items.extend((0..count).map(|i| {
            let mut object = like.clone();
            for field in ["name", "uid"] {
                let value = &mut object["metadata"][field];
                *value = format!("{}-{i}", value.as_str().unwrap()).into();
            }
            object
        }));
    };
    let [set, pod] = [1, 3].map(|item| mk_request().items.swap_remove(item));
    add(pod, pods);
    add(set, sets);
    request
}

/// Interrupts a call at many of its checkpoints, and checks that it has at least `checkpoints_min`.
fn check(checkpoints_min: usize, call: impl Fn(&From) -> Option<Error>) {
    let never = From::checkpoint(usize::MAX);
    assert!(call(&never).is_none());
    let all = never.count.get();
    assert!(all > checkpoints_min, "{all}");
    for first in (1..=all).step_by(61) {
        let interrupt = From::checkpoint(first);
        let error = call(&interrupt);
        assert!(
            matches!(error, Some(Error::Interrupted(_))),
            "{first} of {all}: {error:?}"
        );
        let more = interrupt.count.get() - first;
        assert!(more <= PHASES, "{first} of {all}: {more} more");
    }
}

#[test]
fn interrupted_plan_stops_at_the_next_checkpoint() {
    let request = mk_large(2_000, 0).message();
    check(2_000, |interrupt| {
        request.clone().answer(&mut Context::until(interrupt)).err()
    });
    let bytes = Bytes::from(request.encode_to_vec());
    let now = From::checkpoint(0);
    let mut interrupted = Context::until(&now);
    let status = PlanRolloutRequest::METHOD.call(bytes, &mut interrupted);
    assert_eq!(status.unwrap_err().code, Code::Cancelled);
}

#[test]
fn interrupted_status_stops_at_the_next_checkpoint() {
    let request = mk_large(500, 500).status_request();
    // Each object is read once, and each ReplicaSet claimed, compared and reported on.
    check(2_000, |interrupt| {
        request.clone().answer(&mut Context::until(interrupt)).err()
    });
}

#[test]
fn interrupted_rollback_stops_at_the_next_checkpoint() {
    let request = mk_large(0, 500).rollback_request();
    // Each ReplicaSet is read, claimed, compared and searched for its revision.
    check(1_500, |interrupt| {
        request.clone().answer(&mut Context::until(interrupt)).err()
    });
}

#[test]
fn interrupted_list_of_revisions_stops_at_the_next_checkpoint() {
    let request = mk_large(0, 500).revisions_request();
    // Each ReplicaSet is read, claimed, compared, numbered and described.
    check(2_000, |interrupt| {
        request.clone().answer(&mut Context::until(interrupt)).err()
    });
}
