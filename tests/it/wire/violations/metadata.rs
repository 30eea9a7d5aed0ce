//! Names, labels and annotations that the API server rejects.

use rollplan::wire::{self, Reason};

use super::{Case, Parts as _};

pub(super) const CASES: &[Case] = &[
    (
        |r| r.meta().name = "Web".to_owned(),
        "snapshot.deployment.metadata.name",
        Reason::InvalidName,
    ),
    (
        |r| r.set_meta(0).name = "a_b".to_owned(),
        "snapshot.replica_sets[0].metadata.name",
        Reason::InvalidName,
    ),
    (
        |r| r.pod_meta(1).name = "a".repeat(254),
        "snapshot.pods[1].metadata.name",
        Reason::InvalidName,
    ),
    (
        |r| _ = r.pod_meta(1).labels.insert("a b".to_owned(), String::new()),
        "snapshot.pods[1].metadata.labels[\"a b\"]",
        Reason::InvalidLabelKey,
    ),
    (
        |r| {
            _ = r
                .pod_meta(1)
                .labels
                .insert("a".to_owned(), "a b".to_owned())
        },
        "snapshot.pods[1].metadata.labels[\"a\"]",
        Reason::InvalidLabelValue,
    ),
    (
        |r| _ = r.meta().annotations.insert("a b".to_owned(), String::new()),
        "snapshot.deployment.metadata.annotations[\"a b\"]",
        Reason::InvalidAnnotationKey,
    ),
    (
        |r| {
            let long = "x".repeat(wire::estimate::ANNOTATIONS_BYTES_MAX);
            r.set_meta(0).annotations.insert("a".to_owned(), long);
        },
        "snapshot.replica_sets[0].metadata.annotations",
        Reason::AnnotationsTooLarge,
    ),
];
