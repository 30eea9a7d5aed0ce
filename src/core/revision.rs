//! Revisions of a Deployment, and the annotations that its ReplicaSets carry for it.
//!
//! Kubernetes source: `pkg/controller/deployment/util/deployment_util.go`.

use std::borrow::Cow;

use crate::snapshot::{ReplicaSet, StringMap};

/// Number of the rollout that a ReplicaSet last served, and that a Deployment is at.
pub const REVISION: &str = "deployment.kubernetes.io/revision";
/// Numbers that a ReplicaSet had before, by commas, oldest first.
pub const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// Wanted pods of the Deployment when the ReplicaSet was last scaled.
pub const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
/// What the sizes could add up to when the ReplicaSet was last scaled.
pub const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
/// Asks for a rollback; written by clients of API versions that are gone.
pub const ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";
/// What `kubectl apply` last sent.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Digest of the owner's template, on ReplicaSets made for an owner that is not Kubernetes' own Deployment.
pub const TEMPLATE_DIGEST: &str = "rollplan.dev/template-digest";
/// Label that tells pods of one template from those of another.
pub const POD_TEMPLATE_HASH: &str = "pod-template-hash";

/// The longest `revision-history`, in bytes: about a hundred numbers.
const REVISION_HISTORY_BYTES_MAX: usize = 2000;

/// Whether an annotation stays with the object it is on, rather than going from the Deployment to its new
/// ReplicaSet or back.
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
    )
}

/// The revision in some annotations: 0 when there is none, `None` when it is not a number.
#[must_use]
pub fn revision_of(annotations: &StringMap) -> Option<i64> {
    annotations
        .get(REVISION)
        .map_or(Some(0), |text| text.parse().ok())
}

/// The highest revision of some ReplicaSets; those without a number count as 0.
#[must_use]
pub fn max_revision<'a>(annotations: impl IntoIterator<Item = &'a StringMap>) -> i64 {
    annotations
        .into_iter()
        .filter_map(revision_of)
        .fold(0, i64::max)
}

/// The second highest revision of some ReplicaSets, 0 when there is none: what a rollback to "the one
/// before" means.
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

/// The number after the highest. The largest number has none after it and stays (Kubernetes wraps around, a
/// listed difference).
#[must_use]
pub fn next_revision(highest: i64) -> i64 {
    highest.saturating_add(1)
}

/// Carries the Deployment's annotations and the new revision over to the annotations of its new ReplicaSet;
/// says whether that counts as a change.
///
/// A revision that is not a number is left alone, and then nothing counts as changed, although other
/// annotations were copied: they are written along with the next change. Kubernetes does just so.
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

/// Appends a number to the history, dropping the oldest ones to keep its length.
fn remember_revision(set: &mut StringMap, old_revision: &str) {
    let history = set.get(REVISION_HISTORY).map_or("", String::as_str);
    let mut numbers: Vec<&str> = history.split(',').collect();
    if numbers[0].is_empty() {
        set.insert(REVISION_HISTORY.to_owned(), old_revision.to_owned());
        return;
    }
    // The length is signed as in Kubernetes: dropping every number takes off one comma more than there is.
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

/// Writes the sizes that a ReplicaSet is scaled for; says whether that is a change.
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

/// The wanted pods that a ReplicaSet was last scaled for, where that is a number without a sign.
#[must_use]
pub fn desired_replicas(annotations: &StringMap) -> Option<i32> {
    unsigned(annotations.get(DESIRED_REPLICAS)?)
}

/// Whether a ReplicaSet of this size was last scaled for another number of wanted pods. One without pods, or
/// whose annotation is not a number, was not.
pub(crate) fn is_scaled_for_another(annotations: &StringMap, size: i32, wanted: i32) -> bool {
    size > 0 && desired_replicas(annotations).is_some_and(|desired| desired != wanted)
}

/// What the sizes could add up to when a ReplicaSet was last scaled, where that is a number without a sign.
#[must_use]
pub fn max_replicas(annotations: &StringMap) -> Option<i32> {
    unsigned(annotations.get(MAX_REPLICAS)?)
}

fn unsigned(text: &str) -> Option<i32> {
    // Rust's parser takes a plus sign that Go's ParseUint refuses.
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse().ok())
        .flatten()
}

/// The wanted pods as the "saturated" check reads them: any 64-bit integer, its upper half cut off. Kubernetes
/// reads the same annotation more strictly elsewhere.
#[must_use]
pub fn desired_replicas_lenient(annotations: &StringMap) -> Option<i32> {
    annotations
        .get(DESIRED_REPLICAS)?
        .parse::<i64>()
        .ok()
        .map(|number| number as i32)
}

/// Oldest first, by creation time, then name.
#[must_use]
pub fn by_age(a: &ReplicaSet, b: &ReplicaSet) -> std::cmp::Ordering {
    (a.metadata.creation_timestamp, &a.metadata.name)
        .cmp(&(b.metadata.creation_timestamp, &b.metadata.name))
}
