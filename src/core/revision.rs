//! Revisions of a Deployment, and the annotations of its ReplicaSets.
//!
//! Kubernetes source: `pkg/controller/deployment/util/deployment_util.go`.

use std::borrow::Cow;

use crate::caps::{NEW_MAX, OLD_MIN};
use crate::size::unsigned;
use crate::snapshot::{ReplicaSet, StringMap};

/// The number of the current rollout of a Deployment, or of the last rollout of a ReplicaSet.
pub const REVISION: &str = "deployment.kubernetes.io/revision";
/// The earlier numbers of a ReplicaSet, separated by commas, the oldest first.
pub const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// The number of desired pods of the Deployment when the ReplicaSet was last scaled.
pub const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
/// The maximum sum of all sizes when the ReplicaSet was last scaled.
pub const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
/// Requests a rollback. Clients of API versions that no longer exist wrote it.
pub const ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";
/// The object that `kubectl apply` last sent.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The digest of the template of a custom resource, on ReplicaSets that were created for it.
pub const TEMPLATE_DIGEST: &str = "rollplan.dev/template-digest";
/// The label that distinguishes the pods of one template from those of another.
pub const POD_TEMPLATE_HASH: &str = "pod-template-hash";

/// The maximum length of `revision-history` in bytes, which is about a hundred numbers.
const REVISION_HISTORY_BYTES_MAX: usize = 2000;

/// Whether an annotation belongs to its object, and is not copied between the Deployment and its ReplicaSets.
#[must_use]
pub fn is_skipped(annotation: &str) -> bool {
    matches!(
        annotation,
        LAST_APPLIED
            | REVISION
            | REVISION_HISTORY
            | DESIRED_REPLICAS
            | MAX_REPLICAS
            | ROLLBACK_TO
            | TEMPLATE_DIGEST
            | NEW_MAX
            | OLD_MIN
    )
}

/// The revision in some annotations: 0 if it is absent, and `None` if it is not a number.
#[must_use]
pub fn revision_of(annotations: &StringMap) -> Option<i64> {
    annotations
        .get(REVISION)
        .map_or(Some(0), |text| text.parse().ok())
}

/// The highest revision of some ReplicaSets. Those without a number count as 0.
#[must_use]
pub fn max_revision<'a>(annotations: impl IntoIterator<Item = &'a StringMap>) -> i64 {
    annotations
        .into_iter()
        .filter_map(revision_of)
        .fold(0, i64::max)
}

/// The second highest revision of some ReplicaSets, which is the target of a rollback to the previous revision. 0 if there
/// is none.
#[must_use]
pub fn last_revision<'a>(annotations: impl IntoIterator<Item = &'a StringMap>) -> i64 {
    let (mut highest, mut second) = (0, 0);
    for revision in annotations.into_iter().filter_map(revision_of) {
        if revision >= highest {
            second = highest;
            highest = revision;
        } else if revision > second {
            second = revision;
        }
    }
    second
}

/// The number after the highest. The largest number stays (Kubernetes wraps around, which is a listed difference).
#[must_use]
pub fn next_revision(highest: i64) -> i64 {
    highest.saturating_add(1)
}

/// Copies the annotations of the Deployment and the new revision to the annotations of its new ReplicaSet. Returns whether
/// that counts as a change.
///
/// A revision that is not a number is kept, and then nothing counts as changed, although other annotations were copied. They
/// are written together with the next change, as in Kubernetes.
pub fn sync_annotations(
    deployment: &StringMap,
    set: &mut Cow<'_, StringMap>,
    new_revision: i64,
) -> bool {
    let mut changed = false;
    for (key, value) in deployment {
        if !is_skipped(key) && set.get(key) != Some(value) {
            set.to_mut().insert(key.clone(), value.clone());
            changed = true;
        }
    }
    let old_text = set.get(REVISION);
    let old_revision = match old_text.map(String::as_str) {
        None | Some("") => 0,
        Some(text) => match text.parse::<i64>() {
            Ok(number) => number,
            Err(_) => return false,
        },
    };
    if old_revision < new_revision {
        let set = set.to_mut();
        let old_text = set.insert(REVISION.to_owned(), new_revision.to_string());
        changed = true;
        if let Some(old_text) = old_text {
            remember_revision(set, &old_text);
        }
    }
    changed
}

/// The revisions that a ReplicaSet had before its current one.
pub(crate) fn earlier_revisions(annotations: &StringMap) -> impl Iterator<Item = i64> {
    let history = annotations.get(REVISION_HISTORY);
    let numbers = history.into_iter().flat_map(|history| history.split(','));
    numbers.filter_map(|number| number.parse().ok())
}

/// Appends a number to the history, and drops the oldest ones to limit its length.
fn remember_revision(set: &mut StringMap, old_revision: &str) {
    let history = set.get(REVISION_HISTORY).map_or("", String::as_str);
    let mut numbers: Vec<&str> = history.split(',').collect();
    if numbers[0].is_empty() {
        set.insert(REVISION_HISTORY.to_owned(), old_revision.to_owned());
        return;
    }
    // The length is signed as in Kubernetes: dropping every number subtracts one comma more than there is.
    let limit = REVISION_HISTORY_BYTES_MAX as i64;
    let mut length = (history.len() + old_revision.len() + 1) as i64;
    let mut dropped = 0;
    while length > limit && dropped < numbers.len() {
        length -= numbers[dropped].len() as i64 + 1;
        dropped += 1;
    }
    if length <= limit {
        numbers.drain(..dropped);
        numbers.push(old_revision);
        let joined = numbers.join(",");
        set.insert(REVISION_HISTORY.to_owned(), joined);
    }
}

/// Sets the numbers that a ReplicaSet is scaled for. Returns whether that is a change.
pub fn set_replicas_annotations(set: &mut Cow<'_, StringMap>, desired: i32, max: i32) -> bool {
    let mut changed = false;
    for (key, number) in [(DESIRED_REPLICAS, desired), (MAX_REPLICAS, max)] {
        let text = number.to_string();
        if set.get(key) != Some(&text) {
            set.to_mut().insert(key.to_owned(), text);
            changed = true;
        }
    }
    changed
}

/// The number of desired pods that a ReplicaSet was last scaled for. `None` unless it is a number without a sign.
#[must_use]
pub fn desired_replicas(annotations: &StringMap) -> Option<i32> {
    unsigned(annotations.get(DESIRED_REPLICAS)?)
}

/// Whether a ReplicaSet of this size was last scaled for another number of desired pods. False if its size is 0 or its
/// annotation is not a number.
#[must_use]
pub fn is_scaled_for_another(annotations: &StringMap, size: i32, wanted: i32) -> bool {
    size > 0 && desired_replicas(annotations).is_some_and(|desired| desired != wanted)
}

/// The maximum sum of all sizes when a ReplicaSet was last scaled. `None` unless it is a number without a sign.
#[must_use]
pub fn max_replicas(annotations: &StringMap) -> Option<i32> {
    unsigned(annotations.get(MAX_REPLICAS)?)
}

/// The number of desired pods as `IsSaturated` reads it: the lower half of a 64-bit integer. Kubernetes reads the same
/// annotation more strictly elsewhere.
#[must_use]
pub fn desired_replicas_lenient(annotations: &StringMap) -> Option<i32> {
    annotations
        .get(DESIRED_REPLICAS)?
        .parse::<i64>()
        .ok()
        .map(|number| number as i32)
}

/// The order by creation time and then name, the oldest first.
#[must_use]
pub fn by_age(a: &ReplicaSet, b: &ReplicaSet) -> std::cmp::Ordering {
    (a.metadata.creation_timestamp, &a.metadata.name)
        .cmp(&(b.metadata.creation_timestamp, &b.metadata.name))
}
