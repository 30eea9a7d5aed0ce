//! ConfigMaps and Secrets that are missing, or that are created after the pods.

use rollplan_core::snapshot::Snapshot;
use rollplan_world::{at, now};

use super::{both, check_decided, check_never, decided_by, event, verdict, without_events};
use crate::report::{condition, waiting};

pub(crate) fn missing_config(seconds: i64) -> Snapshot {
    let text = "configmap \"web\" not found";
    let mut snapshot = both(&waiting("CreateContainerConfigError", text));
    let message = format!("Error: {text}");
    let events = ["a-uid", "b-uid"].map(|uid| event(uid, "Failed", &message, 0, seconds / 12 * 12));
    snapshot.events = events.into();
    snapshot
}

fn missing_volume(seconds: i64) -> Snapshot {
    let text = "MountVolume.SetUp failed for volume \"tls\" : secret \"web-tls\" not found";
    let mut snapshot = both(&waiting("ContainerCreating", ""));
    let mut last = [0, 1, 2, 4, 8, 16, 32, 64, 128, 250].into_iter();
    let last = last.rfind(|at| *at <= seconds).unwrap();
    snapshot.events = ["a-uid", "b-uid"]
        .map(|uid| event(uid, "FailedMount", text, 0, last))
        .into();
    snapshot
}

#[test]
fn missing_configuration_is_certain_after_its_grace() {
    check_decided(missing_config, 96, 96);
    // A status may show an attempt that is 40 s old. A single request tolerates clock skew as well.
    let silent = |seconds| without_events(missing_config(seconds));
    check_decided(silent, 130, 130);
    assert_eq!(decided_by(&silent, 0, false), Some(430));
    assert_eq!(decided_by(&silent, 300, false), Some(130));
    assert_eq!(decided_by(&silent, -300, false), Some(730));
    let found = verdict(&missing_config(200));
    assert_eq!(found.reason, "CONTAINER_CONFIG");
    assert_eq!(found.since, Some(now()));
    assert_eq!(
        found.remedy,
        "create the missing configmap web in namespace default, or correct the reference to it"
    );
    // The first attempt after the grace follows at most 105 s after the first one of all.
    let mut early = missing_config(24);
    early.now = at(24);
    assert_eq!(verdict(&early).decided_after, Some(at(105)));
    // Only events show why a volume cannot be mounted, and they remain after it is mounted.
    check_decided(missing_volume, 128, 130);
    check_never(|seconds| without_events(missing_volume(seconds)));
    let found = verdict(&missing_volume(200));
    assert_eq!(found.reason, "CONTAINER_CONFIG");
    assert!(
        found.message.contains("secret \"web-tls\" not found"),
        "{}",
        found.message
    );
}

#[test]
fn configuration_created_within_its_grace_is_never_failed() {
    for make in [missing_config, missing_volume] {
        check_never(|seconds| match seconds {
            0..85 => make(seconds),
            // The events remain, and pulling the image takes long.
            _ => Snapshot {
                events: make(84).events,
                ..both(&waiting("ContainerCreating", ""))
            },
        });
    }
    check_never(|_| {
        both(&waiting(
            "CreateContainerError",
            "context deadline exceeded",
        ))
    });
}

/// The kubelet could not create the container for another reason before.
#[test]
fn attempts_with_temporary_errors_do_not_count() {
    let is_certain = |text: &str| {
        let mut snapshot = missing_config(200);
        let events = ["a-uid", "b-uid"].into_iter().flat_map(|uid| {
            let earlier = event(uid, "Failed", &format!("Error: {text}"), 0, 150);
            let last = event(
                uid,
                "Failed",
                "Error: configmap \"web\" not found",
                200,
                200,
            );
            [earlier, last]
        });
        snapshot.events = events.collect();
        snapshot.now = at(200);
        verdict(&snapshot).is_certain
    };
    assert!(is_certain("secret \"web\" not found"));
    assert!(!is_certain("context deadline exceeded"));
}

/// The first attempt follows the init containers.
#[test]
fn attempts_of_a_container_begin_after_the_init_containers() {
    let is_certain_with = |status: &str, initialized: Option<i64>, seconds: i64| {
        let mut snapshot = without_events(missing_config(seconds));
        let mut pods = snapshot.pods.to_vec();
        for pod in &mut pods {
            let condition = initialized.map(|at| condition("Initialized", status, "", "", -at));
            pod.conditions.extend(condition);
        }
        snapshot.pods = pods.into();
        snapshot.now = at(seconds);
        verdict(&snapshot).is_certain
    };
    let is_certain = |initialized, seconds| is_certain_with("True", initialized, seconds);
    assert!(is_certain(None, 430) && !is_certain(None, 429));
    assert!(is_certain_with("False", Some(100), 430));
    assert!(is_certain(Some(100), 530) && !is_certain(Some(100), 529));
}
