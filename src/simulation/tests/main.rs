//! Tests of the ReplicaSet controller.

use rollplan_simulation::pods::{PodState, StoredPod};
use rollplan_simulation::replica_set::choose;

/// The time of a sync, in seconds.
const NOW: i64 = 1000;

/// A pod that was created this many seconds ago and is ready since `ready` seconds ago. It is alone on its node.
fn mk_pod(number: u32, age: i64, ready: i64) -> StoredPod {
    StoredPod {
        number,
        uid: number.into(),
        state: PodState::Ready,
        node: Some(number),
        created: NOW - age,
        ready_since: Some(NOW - ready),
        restarts: 0,
        deleting: None,
    }
}

/// A pod that is not ready.
fn mk_starting(number: u32, age: i64) -> StoredPod {
    StoredPod {
        state: PodState::Running,
        ready_since: None,
        ..mk_pod(number, age, 0)
    }
}

/// A pod whose container has not been started.
fn mk_scheduled(number: u32, age: i64) -> StoredPod {
    StoredPod {
        state: PodState::Scheduled,
        ..mk_starting(number, age)
    }
}

/// The numbers of the pods that are deleted from these, in ascending order.
fn deleted(pods: &[StoredPod], count: usize) -> Vec<u32> {
    deleted_with(pods, count, &[1; 10])
}

/// [`deleted`], with this number of pods on each node.
fn deleted_with(pods: &[StoredPod], count: usize, ranks: &[usize]) -> Vec<u32> {
    let (chosen, kept) = choose(pods.iter().collect(), count, ranks, NOW * 1000);
    assert_eq!(chosen.len(), count.min(pods.len()));
    assert_eq!(chosen.len() + kept.len(), pods.len());
    let mut numbers: Vec<u32> = chosen.iter().map(|pod| pod.number).collect();
    numbers.sort_unstable();
    numbers
}

/// Asserts that the first pod is deleted, whichever is first in the list.
fn assert_first(first: StoredPod, second: StoredPod) {
    let number = first.number;
    assert_eq!(deleted(&[first.clone(), second.clone()], 1), [number]);
    assert_eq!(deleted(&[second, first], 1), [number]);
}

#[test]
fn pods_without_a_node_are_deleted_first() {
    let pending = StoredPod {
        state: PodState::Pending,
        node: None,
        ..mk_starting(2, 100)
    };
    assert_first(pending, mk_scheduled(1, 5));
}

#[test]
fn pods_are_deleted_by_phase_and_readiness() {
    assert_first(mk_scheduled(2, 100), mk_starting(1, 5));
    assert_first(mk_starting(2, 100), mk_pod(1, 5, 1));
}

#[test]
fn pods_on_crowded_nodes_are_deleted_before_younger_ones() {
    let pods = [mk_pod(1, 100, 90), mk_pod(2, 100, 90), mk_pod(3, 5, 1)];
    assert_eq!(deleted_with(&pods, 1, &[0, 1, 2, 1]), [2]);
}

/// The logarithms are those of nanoseconds: 2³³ ns are 8.59 s, so 8 s and 9 s are of different magnitude.
#[test]
fn pods_that_became_ready_later_are_deleted_first_if_the_magnitudes_differ() {
    assert_first(mk_pod(2, 100, 8), mk_pod(1, 100, 9));
    assert_first(mk_pod(1, 100, 17), mk_pod(2, 100, 9));
}

/// Restarts and ages count only for pods that became ready in the same second.
#[test]
fn uids_decide_between_pods_that_became_ready_at_about_the_same_time() {
    let restarted = StoredPod {
        restarts: 3,
        ..mk_pod(2, 20, 10)
    };
    assert_first(mk_pod(1, 100, 12), restarted.clone());
    assert_first(restarted, mk_pod(1, 20, 10));
    assert_first(mk_pod(2, 20, 10), mk_pod(1, 100, 10));
    assert_first(mk_pod(1, 20, 10), mk_pod(2, 18, 10));
}

#[test]
fn pods_that_are_not_ready_are_deleted_by_restarts_and_age() {
    let restarted = StoredPod {
        restarts: 1,
        ..mk_starting(2, 100)
    };
    assert_first(restarted, mk_starting(1, 5));
    assert_first(mk_starting(2, 5), mk_starting(1, 100));
    assert_first(mk_starting(1, 100), mk_starting(2, 101));
}

#[test]
fn nothing_decides_between_pods_of_the_same_seconds() {
    let (one, two) = (mk_pod(1, 20, 10), mk_pod(2, 20, 10));
    let either = [
        deleted(&[one.clone(), two.clone()], 1),
        deleted(&[two, one], 1),
    ];
    assert_ne!(either[0], either[1]);
}

#[test]
fn as_many_pods_are_deleted_as_are_surplus() {
    let pods: Vec<StoredPod> = (1..=9).map(|number| mk_pod(number, 100, 10)).collect();
    for count in 0..=10 {
        assert_eq!(deleted(&pods, count).len(), count.min(9));
    }
    let ages: Vec<StoredPod> = (1..=9)
        .map(|number| mk_pod(number, 500, 1 << number))
        .collect();
    for count in 0..=9 {
        let youngest: Vec<u32> = (1..=9).take(count).collect();
        assert_eq!(deleted(&ages, count), youngest);
    }
}
