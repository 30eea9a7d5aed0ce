//! Pods, and how the scheduler and the kubelets change them.

use std::sync::Arc;

use rollplan_core::snapshot::{
    Container, ContainerState, ObjectMeta, OwnerReference, Pod, PodCondition, ReplicaSet,
};

use crate::clock;

/// The number of nodes.
pub const NODES: u32 = 2;

/// A pod as stored by the API server. Times are whole seconds, as in Kubernetes, since any moment that the user chooses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StoredPod {
    /// Never reused. The name of the pod contains it.
    pub number: u32,
    /// Its UID as a number. Only the order of UIDs matters.
    pub uid: u64,
    /// The UID of its ReplicaSet.
    pub set_uid: Arc<str>,
    /// The name of its ReplicaSet.
    pub set_name: Arc<str>,
    /// The number of its template.
    pub template: u8,
    /// Where it is in its life.
    pub state: PodState,
    /// The node on which it runs, once it is scheduled.
    pub node: Option<u32>,
    /// When it was created.
    pub created: i64,
    /// When its container was last started.
    pub started: i64,
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
    /// The container has terminated and waits for its restart.
    Crashed,
    /// The container is running but not ready.
    Running,
    /// The container is running and ready.
    Ready,
    /// Evicted.
    Failed,
}

/// A fault of the pods of a template.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Fault {
    /// No fault.
    #[default]
    None,
    /// No node can run them.
    Unschedulable,
    /// Their image cannot be pulled.
    ImagePull,
    /// Their configuration is missing.
    Config,
    /// Their container terminates immediately after it starts.
    CrashLoop,
    /// They never become ready.
    NeverReady,
    /// They never terminate.
    NeverEnds,
}

/// The effect of a step on a pod.
pub enum Transition {
    /// The pod has changed.
    Changed(StoredPod),
    /// The pod has terminated and is removed.
    Removed,
}

// === impl StoredPod ===

impl StoredPod {
    /// A pod that a ReplicaSet has just created.
    #[must_use]
    pub fn created(number: u32, set: &ReplicaSet, template: u8, now: i64) -> Self {
        Self {
            number,
            uid: number.into(),
            set_uid: set.metadata.uid.as_str().into(),
            set_name: set.metadata.name.as_str().into(),
            template,
            state: PodState::Pending,
            node: None,
            created: now,
            started: now,
            ready_since: None,
            restarts: 0,
            deleting: None,
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}-{}", self.set_name, self.number)
    }

    /// Whether the ReplicaSet controller counts the pod.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.deleting.is_none() && self.state != PodState::Failed
    }

    /// Whether a container of the pod may still be running.
    #[must_use]
    pub fn may_run(&self) -> bool {
        self.state != PodState::Failed
    }

    /// Whether the pod is ready and not terminating.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.is_active() && self.state == PodState::Ready
    }

    /// Whether the pod has been ready for `min_ready_seconds`.
    #[must_use]
    pub fn is_available(&self, min_ready_seconds: i32, now: i64) -> bool {
        let since = self.ready_since.filter(|_| self.is_ready());
        since.is_some_and(|since| since + i64::from(min_ready_seconds) <= now)
    }

    /// The next step of the scheduler or the kubelet, if there is one.
    #[must_use]
    pub fn advance(&self, fault: Fault, now: i64) -> Option<Transition> {
        if self.deleting.is_some() {
            let stuck = fault == Fault::NeverEnds && self.node.is_some() && self.may_run();
            return (!stuck).then_some(Transition::Removed);
        }
        let mut pod = self.clone();
        match (self.state, fault) {
            (PodState::Ready | PodState::Failed, _)
            | (PodState::Pending, Fault::Unschedulable)
            | (PodState::Scheduled, Fault::ImagePull | Fault::Config)
            | (PodState::Running, Fault::NeverReady)
            | (PodState::Crashed, Fault::CrashLoop) => return None,
            (PodState::Pending, _) => {
                pod.node = Some(self.number % NODES);
                pod.state = PodState::Scheduled;
            }
            (PodState::Running, Fault::CrashLoop) => {
                pod.state = PodState::Crashed;
                pod.restarts = pod.restarts.saturating_add(1);
            }
            (PodState::Scheduled | PodState::Crashed, _) => {
                pod.state = PodState::Running;
                pod.started = now;
            }
            (PodState::Running, _) => {
                pod.state = PodState::Ready;
                pod.ready_since = Some(now);
            }
        }
        Some(Transition::Changed(pod))
    }

    /// The pod after its container has crashed and restarted.
    #[must_use]
    pub fn crashed(&self, now: i64) -> Self {
        Self {
            state: PodState::Running,
            started: now,
            ready_since: None,
            restarts: self.restarts.saturating_add(1),
            ..self.clone()
        }
    }

    /// The pod object as the Kubernetes API returns it. `fault` is the fault of its template.
    #[must_use]
    pub fn reported(&self, fault: Fault) -> Pod {
        let phase = match self.state {
            PodState::Pending | PodState::Scheduled => "Pending",
            PodState::Running | PodState::Ready | PodState::Crashed => "Running",
            PodState::Failed => "Failed",
        };
        let scheduled = match (self.node, fault) {
            (Some(_), _) => ("True", ""),
            (None, Fault::Unschedulable) => ("False", "Unschedulable"),
            (None, _) => ("Unknown", ""),
        };
        let ready_text = if self.state == PodState::Ready {
            "True"
        } else {
            "False"
        };
        let since = clock::at(self.ready_since.unwrap_or(self.created));
        let condition = |kind: &str, (status, reason): (&str, &str)| PodCondition {
            kind: kind.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: String::new(),
            last_transition_time: Some(since),
        };
        let evicted = if self.state == PodState::Failed {
            "Evicted"
        } else {
            ""
        };
        Pod {
            metadata: ObjectMeta {
                name: self.name(),
                namespace: "default".to_owned(),
                uid: format!("pod-{}", self.number),
                creation_timestamp: Some(clock::at(self.created)),
                deletion_timestamp: self.deleting.map(clock::at),
                owner_references: vec![OwnerReference {
                    api_version: "apps/v1".to_owned(),
                    kind: "ReplicaSet".to_owned(),
                    name: self.set_name.to_string(),
                    uid: self.set_uid.to_string(),
                    controller: Some(true),
                    block_owner_deletion: Some(true),
                }],
                ..ObjectMeta::default()
            },
            phase: phase.to_owned(),
            reason: evicted.to_owned(),
            message: String::new(),
            conditions: vec![
                condition("PodScheduled", scheduled),
                condition("Ready", (ready_text, "")),
            ],
            containers: vec![self.container(fault)],
            start_time: self.node.map(|_| clock::at(self.created)),
            ..Pod::default()
        }
    }

    fn container(&self, fault: Fault) -> Container {
        let waiting_for = |reason: &str, message: &str| ContainerState::Waiting {
            reason: reason.to_owned(),
            message: message.to_owned(),
        };
        let waiting = |reason| waiting_for(reason, "");
        let terminated = ContainerState::Terminated {
            exit_code: 1,
            reason: "Error".to_owned(),
            message: String::new(),
            finished_at: Some(clock::at(self.started)),
        };
        let running = ContainerState::Running {
            started_at: Some(clock::at(self.started)),
        };
        let state = match (self.state, fault) {
            (PodState::Pending, _) => ContainerState::Unknown,
            (PodState::Scheduled, Fault::ImagePull) => {
                waiting_for("ErrImagePull", "failed to pull the image: not found")
            }
            (PodState::Scheduled, Fault::Config) => {
                waiting_for("CreateContainerConfigError", "configmap \"web\" not found")
            }
            (PodState::Scheduled, _) => waiting("ContainerCreating"),
            (PodState::Crashed, _) => waiting("CrashLoopBackOff"),
            (PodState::Running | PodState::Ready, _) => running,
            (PodState::Failed, _) => terminated.clone(),
        };
        Container {
            name: "main".to_owned(),
            init: false,
            is_sidecar: false,
            mounts: Vec::new(),
            image: format!("v{}", self.template),
            ready: self.state == PodState::Ready,
            started: None,
            restarts: self.restarts.into(),
            state,
            last_state: match self.restarts {
                0 => ContainerState::Unknown,
                _ => terminated,
            },
        }
    }
}
