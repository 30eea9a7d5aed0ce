//! The maximum number of passes of a look-ahead.

use crate::snapshot::Snapshot;

/// The maximum number of passes of a plan that has not reversed a size. A rolling update needs only a few.
const PASSES_MAX: usize = 64;

/// The maximum number of passes of a plan that has reversed a size, times the [`weight`] of its snapshot. After a
/// scale-down in the middle of a rollout, the new ReplicaSet grows back by maxSurge plus maxUnavailable in every two
/// passes: with 1%, this takes a hundred steps. A plan that ends at the maximum is valid, but the next plan may reverse one
/// of its sizes.
const PASSES_TIMES_WEIGHT_MAX: usize = 1024;

/// The same for plans of up to [`PASSES_MAX`] passes, which are cheap with a few dozen ReplicaSets.
const FEW_PASSES_TIMES_WEIGHT_MAX: usize = 4096;

/// The number of passes that every plan may make, regardless of its weight.
const PASSES_MIN: usize = 8;

/// The number of annotations that take as long to read as a ReplicaSet.
const ANNOTATIONS_PER_SET: usize = 64;

/// The maximum number of passes of a plan.
pub(super) fn passes_max(snapshot: &Snapshot, has_reversed: bool) -> usize {
    if !has_reversed {
        return PASSES_MAX;
    }
    let weight = weight(snapshot);
    let few = FEW_PASSES_TIMES_WEIGHT_MAX / weight;
    (PASSES_TIMES_WEIGHT_MAX / weight).max(few.clamp(PASSES_MIN, PASSES_MAX))
}

/// How much a pass reads, in ReplicaSets with few annotations.
fn weight(snapshot: &Snapshot) -> usize {
    let sets = snapshot.replica_sets.iter().map(|set| &set.metadata);
    let objects = sets.chain([&snapshot.deployment.metadata]);
    let annotations: usize = objects.map(|metadata| metadata.annotations.len()).sum();
    (snapshot.replica_sets.len() + annotations / ANNOTATIONS_PER_SET).max(1)
}
