//! The arithmetic of sizes. Sums have 64 bits and are clamped to `i32` at the end, so that nothing overflows. (Kubernetes
//! multiplies and adds in 32 bits, which is a listed difference.)

use std::fmt;

/// A number of pods, or a percentage of the desired pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntOrPercent {
    /// A number of pods. Not negative.
    Int(i32),
    /// A percentage of the desired pods. Not negative.
    Percent(i32),
    /// A percentage with leading zeros, which the API server keeps: the percentage, and the number of zeros.
    PaddedPercent(i32, u32),
}

impl IntOrPercent {
    /// The default of Kubernetes for maxSurge and maxUnavailable.
    pub const DEFAULT: Self = Self::Percent(25);

    /// The percentage with these digits, for example "25" or "025". `None` if they are not the digits of such a number.
    #[must_use]
    pub fn from_percent(digits: &str) -> Option<Self> {
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let percent: i32 = digits.parse().ok().filter(|_| is_number)?;
        let zeros = digits.len() - percent.to_string().len();
        Some(match u32::try_from(zeros).ok()? {
            0 => Self::Percent(percent),
            zeros => Self::PaddedPercent(percent, zeros),
        })
    }

    /// The percentage, if it is one.
    #[must_use]
    pub fn percent(self) -> Option<i32> {
        match self {
            Self::Int(_) => None,
            Self::Percent(percent) | Self::PaddedPercent(percent, _) => Some(percent),
        }
    }

    /// The number of pods out of `total`, rounded up.
    #[must_use]
    pub fn rounded_up(self, total: i32) -> i32 {
        self.scaled(total, 99)
    }

    /// The number of pods out of `total`, rounded down.
    #[must_use]
    pub fn rounded_down(self, total: i32) -> i32 {
        self.scaled(total, 0)
    }

    fn scaled(self, total: i32, round: i64) -> i32 {
        match self {
            Self::Int(count) => count,
            Self::Percent(percent) | Self::PaddedPercent(percent, _) => {
                clamp((i64::from(percent) * i64::from(total) + round).div_euclid(100))
            }
        }
    }
}

/// As in a manifest, for example "2", "25%" or "025%".
impl fmt::Display for IntOrPercent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(count) => write!(f, "{count}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
            Self::PaddedPercent(percent, zeros) => {
                (0..*zeros).try_for_each(|_| f.write_str("0"))?;
                write!(f, "{percent}%")
            }
        }
    }
}

/// The limits of a rollout, resolved for the number of desired pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The number of desired pods.
    pub replicas: i32,
    /// The number of pods that may exist above the desired number.
    pub max_surge: i32,
    /// The number of pods that may be unavailable. At most the number of desired pods.
    pub max_unavailable: i32,
}

impl Limits {
    /// The limits of a rolling update. The surge is rounded up, and the unavailability is rounded down. If both are zero,
    /// one pod may be unavailable, because a surge might exceed a quota.
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

    /// The limits of Recreate, which has neither surge nor unavailability.
    #[must_use]
    pub fn recreate(replicas: i32) -> Self {
        Self {
            replicas,
            max_surge: 0,
            max_unavailable: 0,
        }
    }

    /// The maximum sum of all sizes.
    #[must_use]
    pub fn max_total(self) -> i32 {
        clamp(i64::from(self.replicas) + i64::from(self.max_surge))
    }

    /// The sum of all sizes after proportional scaling: the maximum, or 0 if no pods are desired.
    #[must_use]
    pub fn scaled_total(self) -> i64 {
        match self.replicas {
            0 => 0,
            _ => i64::from(self.max_total()),
        }
    }

    /// The minimum number of available pods that scaling down preserves.
    #[must_use]
    pub fn min_available(self) -> i32 {
        self.replicas - self.max_unavailable
    }

    /// The next size of the new ReplicaSet in a rolling update: it grows until the `total` of all sizes reaches the maximum,
    /// but at most to the number of desired pods.
    #[must_use]
    pub fn new_set_size(self, size: i32, total: i64) -> i32 {
        let room = i64::from(self.max_total()) - total;
        if room <= 0 {
            return size;
        }
        let missing = i64::from(self.replicas) - i64::from(size);
        clamp(i64::from(size) + room.min(missing))
    }

    /// The number of pods of old ReplicaSets that may be removed, healthy or not: the sum of all sizes, minus the minimum,
    /// minus the unavailable pods of the new ReplicaSet.
    #[must_use]
    pub fn max_scaled_down(self, total: i64, new_set_unavailable: i64) -> i64 {
        total - i64::from(self.min_available()) - new_set_unavailable
    }
}

/// The input of proportional scaling for a ReplicaSet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Its size, above zero.
    pub size: i32,
    /// The maximum sum of all sizes when it was last scaled, by its annotation or a replacement for it. 0 if it is unknown.
    pub max_total_before: i32,
}

/// The new sizes of active ReplicaSets if the number of desired pods changes during a rollout: each ReplicaSet keeps its
/// share of the total, and the first one gets the rest that rounding leaves. `shares` begins with the largest. Among equal
/// ones, newer ReplicaSets come first when scaling up, and older ones when scaling down.
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

/// The change of size with which the ReplicaSet keeps its share. Halves are rounded up.
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
    // Clamped to `i32` before anything is added, because an annotation may claim that the sum of all sizes was 1.
    i64::from(i32::try_from(rounded).unwrap_or(i32::MAX)) - size
}

/// The number clamped to `i32`.
#[must_use]
pub fn clamp(number: i64) -> i32 {
    i32::try_from(number).unwrap_or(if number < 0 { i32::MIN } else { i32::MAX })
}

/// A number of pods without a sign.
pub(crate) fn unsigned(text: &str) -> Option<i32> {
    // The parser of Rust accepts a plus sign, and ParseUint of Go does not.
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse().ok())
        .flatten()
}
