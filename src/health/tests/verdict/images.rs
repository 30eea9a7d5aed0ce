//! Images that cannot be pulled: names, registries and grace periods.

use rollplan_core::snapshot::Snapshot;
use rollplan_world::at;

use super::{both, check_decided, check_never, decided_by, event, verdict, without_events};
use crate::report::{running, waiting};

const NOT_FOUND: &str = "Back-off pulling image \"web:2\": ErrImagePull: failed to resolve reference \"web:2\": not found";

/// An image that cannot be pulled, with the events of the kubelet.
fn pulling(seconds: i64, text: &str) -> Snapshot {
    let mut snapshot = both(&waiting("ImagePullBackOff", text));
    let mut attempts = [0, 10, 30, 70, 150, 310, 610, 910].into_iter();
    let last = attempts.rfind(|at| *at <= seconds).unwrap();
    let events = ["a-uid", "b-uid"].into_iter().flat_map(|uid| {
        let message = format!("Failed to pull image \"web:2\": {text}");
        let failed = event(uid, "Failed", &message, 0, last);
        let back_off = event(uid, "Failed", "Error: ImagePullBackOff", 1, seconds.max(1));
        [failed, back_off]
    });
    snapshot.events = events.collect();
    snapshot
}

#[test]
fn missing_image_is_certain_after_an_attempt_that_follows_its_grace() {
    check_decided(|seconds| pulling(seconds, NOT_FOUND), 150, 150);
    // The back-off alone does not show whether an image is being pulled, which may take ten minutes.
    let silent = |seconds| without_events(pulling(seconds, NOT_FOUND));
    check_decided(silent, 786, 786);
    assert_eq!(decided_by(&silent, 0, false), Some(1086));
    assert_eq!(decided_by(&silent, 300, false), Some(786));
}

#[test]
fn malformed_image_name_is_certain_at_once() {
    let story = |_| {
        both(&waiting(
            "InvalidImageName",
            "couldn't parse image name \"A\": invalid reference format",
        ))
    };
    check_decided(story, 0, 0);
    let found = verdict(&story(0));
    assert_eq!(found.reason, "IMAGE_PULL");
    assert_eq!(found.remedy, "correct the name of the image");
    assert_eq!(found.decided_after, None);
}

/// The registry could not be reached before it reported that the image is missing.
#[test]
fn attempts_during_a_registry_outage_do_not_count() {
    let is_certain = |text: &str| {
        let mut snapshot = both(&waiting("ImagePullBackOff", NOT_FOUND));
        let message = |text: &str| format!("Failed to pull image \"web:2\": {text}");
        let events = ["a-uid", "b-uid"].into_iter().flat_map(|uid| {
            let earlier = event(uid, "Failed", &message(text), 0, 150);
            let last = event(uid, "Failed", &message(NOT_FOUND), 200, 200);
            [earlier, last]
        });
        snapshot.events = events.collect();
        snapshot.now = at(200);
        verdict(&snapshot).is_certain
    };
    assert!(is_certain("manifest unknown"));
    assert!(!is_certain(
        "dial tcp 10.0.0.1:443: connect: connection refused"
    ));
}

#[test]
fn image_that_must_be_on_the_node_is_certain_after_its_grace() {
    let text = "Container image \"web:2\" is not present with pull policy of Never";
    let story = |seconds| {
        let mut snapshot = both(&waiting("ErrImageNeverPull", text));
        let attempts = |uid| event(uid, "ErrImageNeverPull", text, 0, seconds / 12 * 12);
        snapshot.events = ["a-uid", "b-uid"].map(attempts).into();
        snapshot
    };
    check_decided(story, 96, 96);
    check_decided(|seconds| without_events(story(seconds)), 130, 130);
}

#[test]
fn registry_outage_is_never_failed() {
    for text in [
        "dial tcp 10.0.0.1:443: connect: connection refused",
        "unexpected status from HEAD request: 503 Service Unavailable",
        "something that is not known",
    ] {
        check_never(|seconds| pulling(seconds, text));
        check_never(|seconds| without_events(pulling(seconds, text)));
    }
    // The image is pushed 5 s before the grace ends, and its program is slow.
    check_never(|seconds| match seconds {
        0..85 => pulling(seconds, NOT_FOUND),
        _ => Snapshot {
            events: pulling(84, NOT_FOUND).events,
            ..both(&running(-85))
        },
    });
}
