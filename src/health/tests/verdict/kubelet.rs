//! When a kubelet tries again: what is missing is created after some time, and `wait` polls at different times. A failure is
//! certain only if an attempt after the grace has failed, and soon after it has.

use std::sync::Arc;

use rollplan_core::snapshot::{Container, ContainerState, Pod, Snapshot};
use rollplan_health::judge::VerdictOptions;
use rollplan_health::judge::class::{Class, Limit};

use super::{both, decided_at, event, with_rule, young};
use crate::report::{condition, container, running, waiting, with_conditions, with_pods};

/// How long a story is polled, in seconds.
const LONGEST: i64 = 400;
/// How long the kubelet takes to pull an image that exists: much longer than a back-off.
const PULL_SECONDS: i64 = 200;

/// What is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missing {
    /// An image, which is pulled with a back-off.
    Image,
    /// An image that may not be pulled.
    Loaded,
    /// A ConfigMap that a container refers to.
    ConfigMap,
}

/// What a kubelet does with one pod.
struct Kubelet {
    /// The states that it reports, each with its time.
    states: Vec<(i64, ContainerState)>,
    /// The attempts that fail.
    failed: Vec<i64>,
}

impl Missing {
    const ALL: [Self; 3] = [Self::Image, Self::Loaded, Self::ConfigMap];

    /// How late a failed attempt may be reported as certain: with events, and without.
    fn delays(self) -> (i64, i64) {
        match self {
            Self::Image => (0, 150),
            Self::Loaded | Self::ConfigMap => (0, 40),
        }
    }

    fn failure(self) -> ContainerState {
        match self {
            Self::Image => waiting(
                "ErrImagePull",
                "failed to resolve reference \"web:2\": not found",
            ),
            Self::Loaded => waiting("ErrImageNeverPull", "image is not present"),
            Self::ConfigMap => waiting("CreateContainerConfigError", EVENT_OF_CONFIG),
        }
    }
}

const EVENT_OF_CONFIG: &str = "configmap \"web\" not found";

impl Kubelet {
    /// Synchronizes a pod until its container starts. `seed` determines how long it waits each time.
    fn new(missing: Missing, mut seed: i64, created: i64) -> Self {
        let (mut now, mut back_off, mut pulls_at) = (0, 10, 0);
        let mut result = waiting("ContainerCreating", "");
        let mut it = Self {
            states: Vec::new(),
            failed: Vec::new(),
        };
        while now <= LONGEST {
            it.states.push((now, result));
            if now < pulls_at {
                let text = "Back-off pulling image \"web:2\": ErrImagePull: \"web:2\": not found";
                result = waiting("ImagePullBackOff", text);
            } else if created <= now {
                let pulled = match missing {
                    Missing::Image => now + PULL_SECONDS,
                    _ => now,
                };
                it.states.push((pulled + 1, running(-pulled)));
                break;
            } else {
                it.failed.push(now);
                result = missing.failure();
                if missing == Missing::Image {
                    pulls_at = now + back_off;
                    back_off *= 2;
                }
            }
            seed = (seed * 75 + 74).rem_euclid(65_537);
            // The start of the sandbox triggers the second synchronization.
            now += if now == 0 { 1 } else { 10 + seed % 6 };
        }
        it
    }

    fn container(&self, seconds: i64) -> Container {
        let mut reported = self.states.iter();
        let reported = reported.rfind(|(at, _)| *at <= seconds);
        container(reported.unwrap().1.clone())
    }
}

/// The story of two pods.
fn snapshot(missing: Missing, kubelets: &[Kubelet; 2], seconds: i64, has_events: bool) -> Snapshot {
    let mut snapshot = with_pods(
        ["a", "b"]
            .into_iter()
            .zip(kubelets)
            .map(|(name, kubelet)| young(name, vec![kubelet.container(seconds)])),
    );
    let events = ["a-uid", "b-uid"].into_iter().zip(kubelets);
    let events = events.flat_map(|(uid, kubelet)| {
        let mut failed = kubelet.failed.iter().copied();
        let last = failed.rfind(|at| *at <= seconds).unwrap_or(0);
        let (reason, text) = match missing {
            Missing::Image => (
                "Failed",
                "Failed to pull image \"web:2\": failed to resolve reference \"web:2\": not found",
            ),
            Missing::Loaded => (
                "ErrImageNeverPull",
                "Container image \"web:2\" is not present with pull policy of Never",
            ),
            Missing::ConfigMap => ("Failed", "Error: configmap \"web\" not found"),
        };
        let back_off = event(uid, "Failed", "Error: ImagePullBackOff", 1, seconds.max(1));
        [event(uid, reason, text, 0, last), back_off]
    });
    if has_events {
        snapshot.events = events.collect();
    }
    snapshot
}

/// Polls two pods of which what is missing is created at a time, and checks the decision.
fn check(missing: Missing, seed: i64, created: i64, grace: i64, options: VerdictOptions) {
    let kubelets = |created| [seed, seed + 7].map(|seed| Kubelet::new(missing, seed, created));
    // Both pods fail for the first time at 0.
    let forever = kubelets(i64::MAX);
    let failed = forever.iter().flat_map(|kubelet| &kubelet.failed);
    let proof = failed.copied().filter(|at| *at >= grace).min().unwrap();
    let kubelets = kubelets(created);
    for (interval, offset) in [(2, 1), (5, 0), (5, 2), (5, 4)] {
        // The clock of the caller is exact, or five minutes off.
        let skew = if interval == 2 { seed * 150 } else { 0 };
        for has_events in [true, false] {
            let story = |seconds| snapshot(missing, &kubelets, seconds, has_events);
            let polls = (offset..LONGEST).step_by(usize::try_from(interval).unwrap());
            let decided = decided_at(polls, options, &story, skew, true);
            let about = format!(
                "{missing:?} created after {created} s, attempts {:?}, seed {seed}, {interval} s, {offset} s, {skew} s, \
                 {has_events}: {decided:?}",
                forever[0].failed
            );
            let (with_events, without) = missing.delays();
            let delay = if has_events { with_events } else { without };
            match decided {
                // A failed attempt was too early to prove anything to a caller without events.
                None => assert!(created <= proof + delay, "{about}"),
                Some(decided) => {
                    assert!(created > proof && decided >= proof, "{about}");
                    assert!(decided <= proof + delay + interval, "{about}");
                }
            }
        }
    }
}

#[test]
fn what_is_created_before_the_first_attempt_after_the_grace_is_never_failed() {
    for missing in Missing::ALL {
        for seed in [-2, 2] {
            for created in (0..=120).step_by(5).chain([i64::MAX]) {
                check(missing, seed, created, 90, VerdictOptions::default());
            }
        }
    }
}

/// A limit that the caller sets follows the same rule.
#[test]
fn limit_of_the_caller_requires_an_attempt_after_it() {
    for seed in [-2, 2] {
        for created in (0..=80).step_by(5) {
            let options = with_rule(Class::ImagePull, Limit::Grace(30));
            check(Missing::Image, seed, created, 30, options);
        }
    }
}

/// The kubelet synchronizes a pod again only once the images of all its containers are pulled.
#[test]
fn status_proves_nothing_while_another_container_delays_the_kubelet() {
    let state = Missing::Image.failure();
    let judged_with = |other: ContainerState| {
        let mut sidecar = container(other);
        sidecar.name = "sidecar".to_owned();
        let pods = ["a", "b"]
            .map(|name| -> Pod { young(name, vec![container(state.clone()), sidecar.clone()]) });
        let story = |_| with_pods(pods.clone());
        let polls = (0..LONGEST).step_by(5);
        decided_at(polls, VerdictOptions::default(), &story, 0, true)
    };
    assert_eq!(judged_with(running(-5)), Some(130));
    assert_eq!(judged_with(state.clone()), Some(130));
    for other in [
        waiting("ContainerCreating", ""),
        waiting("ImagePullBackOff", "not found"),
        running(-120),
    ] {
        assert_eq!(judged_with(other.clone()), None, "{other:?}");
    }
}

/// The first attempt may be made long after a pod was scheduled.
#[test]
fn time_before_the_first_attempt_does_not_count() {
    let late = || {
        let mut snapshot = both(&Missing::Image.failure());
        let started = condition("PodReadyToStartContainers", "True", "", "", -350);
        let pods = snapshot.pods.iter().cloned().map(|pod| {
            let scheduled = pod.conditions.clone();
            with_conditions(pod, [scheduled, vec![started.clone()]].concat())
        });
        snapshot.pods = pods.collect();
        snapshot
    };
    let once = |seconds: i64, snapshot: &dyn Fn() -> Snapshot| {
        let polls = std::iter::once(seconds);
        decided_at(polls, VerdictOptions::default(), &|_| snapshot(), 0, false)
    };
    assert_eq!(once(500, &late), None);
    assert_eq!(once(500, &|| both(&Missing::Image.failure())), Some(500));
    assert_eq!(once(780, &late), Some(780));
}

/// The kubelet mounts a volume with a back-off, and reports in between that it is waiting for it.
#[test]
fn volume_is_certain_after_an_attempt_that_follows_its_grace() {
    let attempts = [0, 1, 3, 7, 15, 31, 63, 127, 249];
    for created in (0..=120).step_by(5).chain([i64::MAX]) {
        let story = |seconds: i64| {
            let mut snapshot = both(&waiting("ContainerCreating", ""));
            let mut failed = attempts.iter().filter(|at| **at < created);
            let Some(last) = failed.rfind(|at| **at <= seconds) else {
                return snapshot;
            };
            let text = "MountVolume.SetUp failed for volume \"tls\" : secret \"web-tls\" not found";
            let failed = ["a-uid", "b-uid"].map(|uid| event(uid, "FailedMount", text, 0, *last));
            let text = "Unable to attach or mount volumes: unmounted volumes=[tls]: configmap \"web\" not found";
            let waits = ["a-uid", "b-uid"].map(|uid| event(uid, "FailedMount", text, 100, 100));
            let waits = waits.into_iter().filter(|_| (100..127).contains(&seconds));
            snapshot.events = failed.into_iter().chain(waits).collect::<Arc<[_]>>();
            snapshot
        };
        for offset in 0..5 {
            let polls = (offset..LONGEST).step_by(5);
            let decided = decided_at(polls, VerdictOptions::default(), &story, 0, true);
            match decided {
                Some(decided) => assert!(created > 127 && (127..132).contains(&decided)),
                None => assert!(created <= 127),
            }
        }
    }
}
