//! Pods, as far as the ReplicaSet controller distinguishes them. All of them are healthy.

/// A pod as stored by the API server. Times are whole seconds, as in Kubernetes, since any moment that the user chooses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StoredPod {
    /// Never reused.
    pub number: u32,
    /// Its UID as a number. Only the order of UIDs matters.
    pub uid: u64,
    /// Where it is in its life.
    pub state: PodState,
    /// The node on which it runs, once it is scheduled.
    pub node: Option<u32>,
    /// When it was created.
    pub created: i64,
    /// Since when it is ready, if it is.
    pub ready_since: Option<i64>,
    /// How often its container was restarted.
    pub restarts: u8,
    /// When it was deleted, if it is terminating.
    pub deleting: Option<i64>,
}

/// The lifecycle state of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PodState {
    /// Not scheduled yet.
    Pending,
    /// Scheduled; the container is being created.
    Scheduled,
    /// The container has started, and the pod is not ready.
    Running,
    /// The container is running and ready.
    Ready,
}

// === impl StoredPod ===

impl StoredPod {
    /// A pod that a ReplicaSet has just created.
    #[must_use]
    pub fn created(number: u32, uid: u64, now: i64) -> Self {
        Self {
            number,
            uid,
            state: PodState::Pending,
            node: None,
            created: now,
            ready_since: None,
            restarts: 0,
            deleting: None,
        }
    }

    /// The scheduler assigns the pod to a node.
    pub fn schedule(&mut self, node: u32) {
        self.state = PodState::Scheduled;
        self.node = Some(node);
    }

    /// The kubelet reports that the pod is ready.
    pub fn become_ready(&mut self, now: i64) {
        self.state = PodState::Ready;
        self.ready_since = Some(now);
    }

    /// Whether the pod is ready and not terminating.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.deleting.is_none() && self.state == PodState::Ready
    }

    /// Whether the pod has been ready for `min_ready_seconds`.
    #[must_use]
    pub fn is_available(&self, min_ready_seconds: i32, now: i64) -> bool {
        let since = self.ready_since.filter(|_| self.is_ready());
        since.is_some_and(|since| since + i64::from(min_ready_seconds) <= now)
    }
}
