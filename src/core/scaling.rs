//! Why a plan changes the size of a ReplicaSet. The reason is recorded where the change is decided.

/// Why the size of a ReplicaSet changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaleReason {
    /// A rolling update starts new pods.
    RoomForNewPods,
    /// A rolling update removes old pods.
    SparePods,
    /// A rolling update first removes old pods that are not available.
    UnhealthyPods,
    /// Recreate removes all old pods before it starts new ones.
    OldPodsFirst,
    /// Recreate starts the new pods because no old pods are left.
    NoOldPods,
    /// `spec.replicas` of the Deployment differs from the size.
    ReplicasChanged,
    /// The Deployment was scaled in the middle of a rollout: each ReplicaSet keeps its share.
    Proportional,
    /// The new ReplicaSet has all desired pods, and they are available.
    Saturated,
}

impl ScaleReason {
    /// All reasons.
    pub const ALL: [Self; 8] = [
        Self::RoomForNewPods,
        Self::SparePods,
        Self::UnhealthyPods,
        Self::OldPodsFirst,
        Self::NoOldPods,
        Self::ReplicasChanged,
        Self::Proportional,
        Self::Saturated,
    ];

    /// The machine-readable reason.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RoomForNewPods => "SCALE_UP",
            Self::SparePods => "SCALE_DOWN",
            Self::UnhealthyPods => "UNHEALTHY_PODS",
            Self::OldPodsFirst => "RECREATE",
            Self::NoOldPods => "NO_OLD_PODS",
            Self::ReplicasChanged => "REPLICAS_CHANGED",
            Self::Proportional => "PROPORTIONAL_SCALING",
            Self::Saturated => "SATURATED",
        }
    }

    /// The human-readable reason.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::RoomForNewPods => "the limits allow more new pods",
            Self::SparePods => "more pods are available than required",
            Self::UnhealthyPods => "old pods that are not available are removed first",
            Self::OldPodsFirst => {
                "strategy Recreate removes all old pods before it starts new ones"
            }
            Self::NoOldPods => "no old pods are left",
            Self::ReplicasChanged => "its size differs from spec.replicas of the Deployment",
            Self::Proportional => {
                "the Deployment was scaled in the middle of a rollout, and each ReplicaSet keeps its share"
            }
            Self::Saturated => "the new ReplicaSet has all desired pods, and they are available",
        }
    }
}
