//! Events on the Deployment.

/// An event to record on the Deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Whether it is a warning.
    pub kind: EventType,
    /// Stable reason.
    pub reason: &'static str,
    /// Text for people.
    pub message: String,
}

/// Whether an event is a warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// Something was done.
    Normal,
    /// Something could not be done.
    Warning,
}

impl EventType {
    /// The word that Kubernetes uses.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

impl Event {
    /// The event that tells of a change of size, if it is one.
    pub(crate) fn scaled(name: &str, from: i32, to: i32) -> Option<Self> {
        let direction = match from.cmp(&to) {
            std::cmp::Ordering::Less => "up",
            std::cmp::Ordering::Greater => "down",
            std::cmp::Ordering::Equal => return None,
        };
        let message = format!("Scaled {direction} replica set {name} from {from} to {to}");
        Some(Self::normal("ScalingReplicaSet", message))
    }

    /// An event that tells of something done.
    pub(crate) fn normal(reason: &'static str, message: String) -> Self {
        Self {
            kind: EventType::Normal,
            reason,
            message,
        }
    }

    /// An event that tells of something that could not be done.
    pub(crate) fn warning(reason: &'static str, message: String) -> Self {
        Self {
            kind: EventType::Warning,
            reason,
            message,
        }
    }
}
