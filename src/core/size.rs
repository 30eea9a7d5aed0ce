//! The arithmetic of sizes, and nothing else. Sums are taken in 64 bits and held within `i32` at the end, so
//! that nothing overflows: Kubernetes multiplies and adds in 32 bits (a listed difference).

/// A number of pods, or a percentage of the wanted ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntOrPercent {
    /// This many pods, zero or more.
    Int(i32),
    /// This many hundredths of the wanted pods, zero or more.
    Percent(i32),
}

impl IntOrPercent {
    /// What Kubernetes fills in for an absent surge or unavailability.
    pub const DEFAULT: Self = Self::Percent(25);

    /// The number of pods of `total`, a fraction counting as one more.
    #[must_use]
    pub fn rounded_up(self, total: i32) -> i32 {
        self.scaled(total, 99)
    }

    /// The number of pods of `total`, a fraction counting as nothing.
    #[must_use]
    pub fn rounded_down(self, total: i32) -> i32 {
        self.scaled(total, 0)
    }

    fn scaled(self, total: i32, round: i64) -> i32 {
        match self {
            Self::Int(count) => count,
            Self::Percent(percent) => {
                clamp((i64::from(percent) * i64::from(total) + round).div_euclid(100))
            }
        }
    }
}

/// The limits of a rollout, resolved for the wanted number of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Wanted pods.
    pub replicas: i32,
    /// Pods that may exist above the wanted ones.
    pub max_surge: i32,
    /// Pods that may be unavailable, at most the wanted ones.
    pub max_unavailable: i32,
}

impl Limits {
    /// The limits of a rolling update. Surge is rounded up and unavailability down; both zero means that one
    /// pod may be unavailable, for surge might not work under a quota.
    #[must_use]
    pub fn rolling(replicas: i32, surge: IntOrPercent, unavailable: IntOrPercent) -> Self {
        let max_surge = surge.rounded_up(replicas);
        let mut max_unavailable = unavailable.rounded_down(replicas);
        if max_surge == 0 && max_unavailable == 0 {
            max_unavailable = 1;
        }
        Self {
            replicas,
            max_surge,
            max_unavailable: max_unavailable.min(replicas),
        }
    }

    /// The limits under Recreate: neither surge nor unavailability is counted.
    #[must_use]
    pub fn recreate(replicas: i32) -> Self {
        Self {
            replicas,
            max_surge: 0,
            max_unavailable: 0,
        }
    }

    /// The most pods that the sizes may add up to.
    #[must_use]
    pub fn max_total(self) -> i32 {
        clamp(i64::from(self.replicas) + i64::from(self.max_surge))
    }

    /// What the sizes add up to after proportional scaling: the most they may, and nothing when nothing is wanted.
    pub(crate) fn scaled_total(self) -> i64 {
        match self.replicas {
            0 => 0,
            _ => i64::from(self.max_total()),
        }
    }

    /// The fewest available pods that scaling down may leave.
    #[must_use]
    pub fn min_available(self) -> i32 {
        self.replicas - self.max_unavailable
    }

    /// The size of the new ReplicaSet in a rolling update: as much as the surge leaves room for beside the
    /// `total` of all sizes, never more than wanted.
    #[must_use]
    pub fn new_set_size(self, size: i32, total: i64) -> i32 {
        let room = i64::from(self.max_total()) - total;
        if room <= 0 {
            return size;
        }
        let missing = i64::from(self.replicas) - i64::from(size);
        clamp(i64::from(size) + room.min(missing))
    }

    /// How many pods of old ReplicaSets may be taken away, healthy or not: what all sizes add up to beyond the
    /// minimum and beyond the pods of the new ReplicaSet that are not available yet.
    #[must_use]
    pub fn max_scaled_down(self, total: i64, new_set_unavailable: i64) -> i64 {
        total - i64::from(self.min_available()) - new_set_unavailable
    }
}

/// A ReplicaSet, as proportional scaling sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Its size, above zero.
    pub size: i32,
    /// What the sizes could add up to when it was last scaled: its annotation, or what stands in for it.
    /// Zero when not known.
    pub max_total_before: i32,
}

/// New sizes of active ReplicaSets when the wanted number changes mid-rollout: each keeps its share of the
/// whole, and the first takes what rounding leaves. The order of `shares` decides who is served first: from
/// the largest, newer ones first when growing and older ones first when shrinking.
#[must_use]
pub fn proportional(limits: Limits, shares: &[Share]) -> Vec<i32> {
    let to_add = limits.scaled_total()
        - shares
            .iter()
            .map(|share| i64::from(share.size))
            .sum::<i64>();
    let mut added = 0;
    let mut sizes = Vec::with_capacity(shares.len());
    for share in shares {
        let portion = portion(limits, *share, to_add, added);
        added += portion;
        sizes.push(clamp(i64::from(share.size) + portion));
    }
    if let Some(first) = sizes.first_mut() {
        *first = clamp((i64::from(*first) + to_add - added).max(0));
    }
    sizes
}

fn portion(limits: Limits, share: Share, to_add: i64, added: i64) -> i64 {
    let left = to_add - added;
    if share.size == 0 || to_add == 0 || left == 0 {
        return 0;
    }
    let fraction = fraction(limits, share);
    if to_add > 0 {
        fraction.min(left)
    } else {
        fraction.max(left)
    }
}

/// By how much the ReplicaSet grows to keep its share, rounded to the nearest, halves up.
fn fraction(limits: Limits, share: Share) -> i64 {
    let size = i64::from(share.size);
    if limits.replicas == 0 {
        return -size;
    }
    let before = i64::from(share.max_total_before);
    if before == 0 {
        return 0;
    }
    let scaled = i128::from(size * i64::from(limits.max_total()));
    let before = i128::from(before);
    let rounded = (2 * scaled + before).div_euclid(2 * before);
    // Held within `i32` before anything is added up: an annotation may say that all sizes together were 1.
    i64::from(i32::try_from(rounded).unwrap_or(i32::MAX)) - size
}

/// The number held within `i32`.
#[must_use]
pub fn clamp(number: i64) -> i32 {
    i32::try_from(number).unwrap_or(if number < 0 { i32::MIN } else { i32::MAX })
}
