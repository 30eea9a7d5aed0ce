//! Pods that may have faults: how the scheduler and the kubelets change them, and how the API server reports them. The
//! tests of `rollplan-canary` use this file, too.

use std::borrow::Borrow;
use std::sync::Arc;

use rollplan_core::snapshot::{
    Container, ContainerState, ObjectMeta, OwnerReference, Pod, ReplicaSet,
};
use rollplan_simulation::pods::{PodState, StoredPod};
use rollplan_simulation::replica_set::PodCounts;
use rollplan_world::{at, mk_controller, mk_pod_condition};

/// The number of nodes.
const NODES: u32 = 2;

/// A pod, with what the ReplicaSet controller does not distinguish.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SimPod {
    /// What the ReplicaSet controller distinguishes. A pod that is evicted, or whose container has terminated, is not ready.
    pub stored: StoredPod,
    /// The UID of its ReplicaSet.
    pub set_uid: Arc<str>,
    /// The name of its ReplicaSet.
    pub set_name: Arc<str>,
    /// The number of its template.
    pub template: u8,
    /// When its container was last started.
    pub started: i64,
    /// Whether its container has terminated and waits for its restart.
    pub is_crashed: bool,
    /// Whether it is evicted.
    pub is_evicted: bool,
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
    Changed(SimPod),
    /// The pod has terminated and is removed.
    Removed,
}

/// The status of a ReplicaSet counts these active pods.
pub fn counts<P: Borrow<SimPod>>(
    active: &[P],
    terminating: usize,
    min_ready_seconds: i32,
    now: i64,
) -> PodCounts {
    let stored = || active.iter().map(|pod| &pod.borrow().stored);
    PodCounts {
        active: active.len(),
        ready: stored().filter(|pod| pod.is_ready()).count(),
        available: stored()
            .filter(|pod| pod.is_available(min_ready_seconds, now))
            .count(),
        terminating,
    }
}

/// The number of active pods on each node. The pods are those of the ReplicaSets of an owner.
pub fn ranks<'a, P: Borrow<SimPod> + 'a>(pods: impl Iterator<Item = &'a P>) -> Vec<usize> {
    let mut ranks = vec![0; NODES as usize];
    for pod in pods.map(Borrow::borrow).filter(|pod| pod.is_active()) {
        if let Some(node) = pod.stored.node {
            ranks[node as usize] += 1;
        }
    }
    ranks
}

// === impl SimPod ===

impl SimPod {
    /// A pod that a ReplicaSet has just created.
    pub fn created(number: u32, set: &ReplicaSet, template: u8, now: i64) -> Self {
        Self {
            stored: StoredPod::created(number, number.into(), now),
            set_uid: set.metadata.uid.as_str().into(),
            set_name: set.metadata.name.as_str().into(),
            template,
            started: now,
            is_crashed: false,
            is_evicted: false,
        }
    }

    /// Its name.
    pub fn name(&self) -> String {
        format!("{}-{}", self.set_name, self.stored.number)
    }

    /// Whether the ReplicaSet controller counts the pod.
    pub fn is_active(&self) -> bool {
        self.stored.deleting.is_none() && !self.is_evicted
    }

    /// The next step of the scheduler or the kubelet, if there is one.
    pub fn advance(&self, fault: Fault, now: i64) -> Option<Transition> {
        if self.stored.deleting.is_some() {
            let is_stuck =
                fault == Fault::NeverEnds && self.stored.node.is_some() && !self.is_evicted;
            return (!is_stuck).then_some(Transition::Removed);
        }
        let mut pod = self.clone();
        match (self.stored.state, fault) {
            _ if self.is_evicted => return None,
            (_, Fault::CrashLoop) if self.is_crashed => return None,
            _ if self.is_crashed => pod.start(now),
            (PodState::Ready, _)
            | (PodState::Pending, Fault::Unschedulable)
            | (PodState::Scheduled, Fault::ImagePull | Fault::Config)
            | (PodState::Running, Fault::NeverReady) => return None,
            (PodState::Pending, _) => pod.stored.schedule(self.stored.number % NODES),
            (PodState::Scheduled, _) => pod.start(now),
            (PodState::Running, Fault::CrashLoop) => pod.crash(),
            (PodState::Running, _) => pod.stored.become_ready(now),
        }
        Some(Transition::Changed(pod))
    }

    /// Its container starts.
    fn start(&mut self, now: i64) {
        self.stored.state = PodState::Running;
        self.started = now;
        self.is_crashed = false;
    }

    /// Its container terminates.
    fn crash(&mut self) {
        self.stored.state = PodState::Running;
        self.stored.ready_since = None;
        self.stored.restarts = self.stored.restarts.saturating_add(1);
        self.is_crashed = true;
    }

    /// The pod after its container has crashed and restarted.
    pub fn restarted(&self, now: i64) -> Self {
        let mut pod = self.clone();
        pod.crash();
        pod.start(now);
        pod
    }

    /// The pod after its eviction.
    pub fn evicted(&self) -> Self {
        let mut pod = self.clone();
        pod.stored.state = PodState::Running;
        pod.is_crashed = false;
        pod.is_evicted = true;
        pod
    }

    /// The pod object as the Kubernetes API returns it. `fault` is the fault of its template.
    pub fn reported(&self, fault: Fault) -> Pod {
        let stored = &self.stored;
        let phase = match stored.state {
            _ if self.is_evicted => "Failed",
            PodState::Pending | PodState::Scheduled => "Pending",
            PodState::Running | PodState::Ready => "Running",
        };
        let (scheduled, reason) = match (stored.node, fault) {
            (Some(_), _) => ("True", ""),
            (None, Fault::Unschedulable) => ("False", "Unschedulable"),
            (None, _) => ("Unknown", ""),
        };
        let ready_text = if stored.state == PodState::Ready {
            "True"
        } else {
            "False"
        };
        let since = at(stored.ready_since.unwrap_or(stored.created));
        let evicted = if self.is_evicted { "Evicted" } else { "" };
        Pod {
            metadata: ObjectMeta {
                name: self.name(),
                namespace: "default".to_owned(),
                uid: format!("pod-{}", stored.number),
                creation_timestamp: Some(at(stored.created)),
                deletion_timestamp: stored.deleting.map(at),
                owner_references: vec![OwnerReference {
                    uid: self.set_uid.to_string(),
                    ..mk_controller("apps/v1", "ReplicaSet", &self.set_name)
                }],
                ..ObjectMeta::default()
            },
            phase: phase.to_owned(),
            reason: evicted.to_owned(),
            message: String::new(),
            conditions: vec![
                mk_pod_condition("PodScheduled", scheduled, reason, since),
                mk_pod_condition("Ready", ready_text, "", since),
            ],
            containers: vec![self.container(fault)],
            start_time: stored.node.map(|_| at(stored.created)),
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
            finished_at: Some(at(self.started)),
        };
        let running = ContainerState::Running {
            started_at: Some(at(self.started)),
        };
        let state = match (self.stored.state, fault) {
            _ if self.is_evicted => terminated.clone(),
            _ if self.is_crashed => waiting("CrashLoopBackOff"),
            (PodState::Pending, _) => ContainerState::Unknown,
            (PodState::Scheduled, Fault::ImagePull) => {
                waiting_for("ErrImagePull", "failed to pull the image: not found")
            }
            (PodState::Scheduled, Fault::Config) => {
                waiting_for("CreateContainerConfigError", "configmap \"web\" not found")
            }
            (PodState::Scheduled, _) => waiting("ContainerCreating"),
            (PodState::Running | PodState::Ready, _) => running,
        };
        Container {
            name: "main".to_owned(),
            init: false,
            is_sidecar: false,
            mounts: Vec::new(),
            image: format!("v{}", self.template),
            ready: self.stored.state == PodState::Ready,
            started: None,
            restarts: self.stored.restarts.into(),
            state,
            last_state: match self.stored.restarts {
                0 => ContainerState::Unknown,
                _ => terminated,
            },
        }
    }
}
