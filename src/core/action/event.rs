//! Events about the Deployment.

/// An event to record about the Deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The type.
    pub kind: EventType,
    /// The machine-readable reason.
    pub reason: &'static str,
    /// A human-readable sentence.
    pub message: String,
}

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// An operation succeeded.
    Normal,
    /// An operation failed.
    Warning,
}

impl EventType {
    /// The name of the type in the Kubernetes API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

impl Event {
    /// The event for a change of size. `None` if the size stays the same.
    pub(crate) fn scaled(name: &str, from: i32, to: i32) -> Option<Self> {
        let direction = match from.cmp(&to) {
            std::cmp::Ordering::Less => "up",
            std::cmp::Ordering::Greater => "down",
            std::cmp::Ordering::Equal => return None,
        };
        let message = format!("Scaled {direction} replica set {name} from {from} to {to}");
        Some(Self::normal("ScalingReplicaSet", message))
    }

    /// An event of type Normal.
    #[must_use]
    pub fn normal(reason: &'static str, message: String) -> Self {
        Self {
            kind: EventType::Normal,
            reason,
            message,
        }
    }

    /// An event of type Warning.
    pub(crate) fn warning(reason: &'static str, message: String) -> Self {
        Self {
            kind: EventType::Warning,
            reason,
            message,
        }
    }
}
