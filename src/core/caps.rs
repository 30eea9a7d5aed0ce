//! Caps: how far the caller lets a rollout go. A strategy of the caller is a sequence of caps: the planner keeps the limits
//! of the Deployment and orders the writes, whatever the caps are.

use crate::object::StringMap;
use crate::size::{Limits, clamp, unsigned};

/// The annotation of the owner with [`Caps::new_max`].
pub const NEW_MAX: &str = "rollplan.dev/new-max";
/// The annotation of the owner with [`Caps::old_min`].
pub const OLD_MIN: &str = "rollplan.dev/old-min";

/// How far a rollout may go. A cap only stops a rollout: it never resizes a ReplicaSet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// The size up to which the new ReplicaSet may grow. Not negative.
    pub new_max: i32,
    /// The sum of the sizes of the old ReplicaSets below which none of them shrinks. Not negative.
    pub old_min: i32,
}

impl Caps {
    /// Caps that stop nothing.
    pub const NONE: Self = Self {
        new_max: i32::MAX,
        old_min: 0,
    };
    /// Caps that stop everything.
    const ALL: Self = Self {
        new_max: 0,
        old_min: i32::MAX,
    };

    /// These caps and those of annotations. If both have a cap, both hold. The reader of requests rejects annotations with
    /// other values than numbers of pods. Here, such a value stops the rollout.
    #[must_use]
    pub(crate) fn and_annotated(self, annotations: &StringMap) -> Self {
        let value =
            |key, none, all| annotated(annotations, key).map_or(none, |value| value.unwrap_or(all));
        let new_max = value(NEW_MAX, Self::NONE.new_max, Self::ALL.new_max);
        let old_min = value(OLD_MIN, Self::NONE.old_min, Self::ALL.old_min);
        Self {
            new_max: self.new_max.min(new_max),
            old_min: self.old_min.max(old_min),
        }
    }

    /// The next size of the new ReplicaSet if it would be `next` without caps.
    #[must_use]
    pub fn new_size(self, size: i32, next: i32) -> i32 {
        if next <= size {
            next
        } else {
            next.min(self.new_max).max(size)
        }
    }

    /// Changes the `sizes` of proportional scaling: what the new ReplicaSet may not have goes to the first old one. `sets`
    /// has the size of each ReplicaSet before, and whether it is the new one.
    pub(crate) fn cut_share(self, sets: &[(i32, bool)], sizes: &mut [i32]) {
        let new = sets.iter().position(|&(_, is_new)| is_new);
        let old = sets.iter().position(|&(_, is_new)| !is_new);
        if let (Some(new), Some(old)) = (new, old) {
            let capped = self.new_size(sets[new].0, sizes[new]);
            let excess = i64::from(sizes[new]) - i64::from(capped);
            sizes[new] = capped;
            sizes[old] = clamp(i64::from(sizes[old]) + excess);
        }
    }

    /// The number of pods of old ReplicaSets, with `old` pods in all, that may be removed beside a new one of size `new`.
    /// The caps cannot keep pods that exceed the maximum of all sizes.
    #[must_use]
    pub fn removable(self, limits: Limits, new: i32, old: i64) -> i64 {
        let room = i64::from(limits.max_total()) - i64::from(new);
        old - i64::from(self.old_min).min(room).max(0)
    }

    /// Whether old pods may be replaced such that all of them are removed first.
    #[must_use]
    pub fn permit_recreation(self) -> bool {
        self.new_max > 0 && self.old_min == 0
    }

    /// The caps that can stop a rollout with these limits, for example "at most 3 new pods, and at least 7 old ones".
    #[must_use]
    pub fn text(self, limits: Limits) -> String {
        let pods = |count: i32, what| match count {
            1 => format!("1 {what} pod"),
            count => format!("{count} {what} pods"),
        };
        let new = (self.new_max < limits.replicas)
            .then(|| format!("at most {}", pods(self.new_max, "new")));
        let old = (self.old_min > 0).then(|| format!("at least {}", pods(self.old_min, "old")));
        let texts: Vec<String> = new.into_iter().chain(old).collect();
        texts.join(" and ")
    }
}

/// The value of an annotation: `None` if it is absent, and `Some(None)` if it is not a number of pods.
#[must_use]
pub fn annotated(annotations: &StringMap, key: &str) -> Option<Option<i32>> {
    annotations.get(key).map(|text| unsigned(text))
}
