//! ReplicaSets.

use rollplan::wire::Reason::*;
use serde_json::json;

use super::{Case, Field, add_owner};

/// Of the old ReplicaSet.
pub(super) const FIELDS: &[Field] = &[
    ("metadata.name", "null", Required),
    ("metadata.name", r#""a_b""#, InvalidName),
    ("metadata.uid", "null", Required),
    ("metadata.resourceVersion", "null", Required),
    ("metadata.uid", r#""new-uid""#, Duplicate),
    ("metadata.name", r#""new""#, Duplicate),
    ("metadata.generation", "-1", Negative),
    ("metadata.creationTimestamp", "{}", WrongType),
    ("spec.template", "null", Required),
    ("spec.replicas", "-3", Negative),
    ("spec.minReadySeconds", "-3", Negative),
    ("status.replicas", "-1", Negative),
    ("status.readyReplicas", "-1", Negative),
    ("status.availableReplicas", "-1", Negative),
    ("status.terminatingReplicas", "-1", Negative),
    ("status.observedGeneration", "-1", Negative),
    (
        "status.conditions[0].lastTransitionTime",
        r#""2026-02-30T00:00:00Z""#,
        WrongType,
    ),
];

pub(super) const CASES: &[Case] = &[
    // A ReplicaSet of another owner, with the UID or name of one of ours.
    (
        |r| {
            r.set(1)["metadata"]["ownerReferences"][0]["uid"] = "x".into();
            r.set(1)["metadata"]["uid"] = "new-uid".into();
        },
        "[2].metadata.uid",
        Duplicate,
    ),
    (
        |r| {
            r.set(1)["metadata"]["ownerReferences"][0]["uid"] = "x".into();
            // Other names cannot be that of a new ReplicaSet.
            r.all("ReplicaSet")
                .for_each(|it| it["metadata"]["name"] = "web-1".into());
        },
        "[2].metadata.name",
        Duplicate,
    ),
    (
        |r| add_owner(r.set(1), "x", true),
        "[2].metadata.ownerReferences",
        SeveralControllers,
    ),
    (
        |r| add_owner(r.set(1), "", false),
        "[2].metadata.ownerReferences[1].uid",
        Required,
    ),
    (
        |r| r.set(1)["metadata"]["annotations"] = json!({"a": "x".repeat(256 << 10)}),
        "[2].metadata.annotations",
        AnnotationsTooLarge,
    ),
    (
        |r| r.set(1)["spec"] = json!(null),
        "[2].spec.template",
        Required,
    ),
    // An orphan that could be adopted.
    (
        |r| {
            r.set(1)["metadata"]["ownerReferences"] = json!([]);
            r.set(1)["spec"]["template"] = json!(null);
        },
        "[2].spec.template",
        Required,
    ),
];
