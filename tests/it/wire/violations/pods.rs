//! Pods.

use rollplan::wire::Reason::*;
use serde_json::json;

use super::{Case, Field, add_owner};

pub(super) const FIELDS: &[Field] = &[
    ("metadata.name", "null", Required),
    ("metadata.uid", "null", Required),
    ("metadata.name", r#""a""#, Duplicate),
    ("metadata.uid", r#""a-uid""#, Duplicate),
    ("metadata.creationTimestamp", r#""today""#, WrongType),
    ("metadata.deletionTimestamp", r#""today""#, WrongType),
    ("status", "[]", WrongType),
    ("status.startTime", r#""today""#, WrongType),
    ("status.conditions", "{}", WrongType),
    (
        "status.conditions[1].lastTransitionTime",
        r#""today""#,
        WrongType,
    ),
    (
        "status.initContainerStatuses[0].restartCount",
        "-1",
        Negative,
    ),
    (
        "status.containerStatuses[1].restartCount",
        "2147483648",
        OutOfRange,
    ),
    (
        "status.containerStatuses[0].state.running.startedAt",
        r#""today""#,
        WrongType,
    ),
    (
        "status.containerStatuses[0].state.terminated.finishedAt",
        r#""today""#,
        WrongType,
    ),
    (
        "status.containerStatuses[0].lastState.terminated.exitCode",
        r#""1""#,
        WrongType,
    ),
];

pub(super) const CASES: &[Case] = &[
    (
        |r| r.pod(1)["metadata"]["name"] = "a".repeat(254).into(),
        "[4].metadata.name",
        InvalidName,
    ),
    (
        |r| {
            // Other labels and the annotations are not used.
            r.pod(1)["metadata"]["annotations"] = json!({"a b": 1});
            r.pod(1)["metadata"]["labels"] = json!({"a b": 1, "controller-revision-hash": "a b"});
        },
        "[4].metadata.labels[\"controller-revision-hash\"]",
        InvalidLabelValue,
    ),
    (
        |r| add_owner(r.pod(1), "", false),
        "[4].metadata.ownerReferences[1].uid",
        Required,
    ),
    (
        |r| add_owner(r.pod(1), "x", true),
        "[4].metadata.ownerReferences",
        SeveralControllers,
    ),
];
