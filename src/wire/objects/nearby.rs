//! Finds the objects beside a workload that show why its pods wait: other pods with the same claims or ports, and the claims
//! with their volumes and events. Only the claims' events are validated.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use rollplan_core::interrupt::{Interrupt, Interrupted};
use rollplan_core::snapshot::{ClaimVolume, HostPort, Pod};

use super::found::Found;
use super::index::ObjectIndex;
use crate::read::{kubernetes, objects};

/// The maximum number of other pods that are selected.
const PODS_MAX: usize = 100;

/// What the waiting pods of a workload need, and other pods may have.
#[derive(Debug, Default)]
pub struct Wants {
    /// The names of PersistentVolumeClaims.
    pub claims: BTreeSet<String>,
    ports: Vec<HostPort>,
}

/// The positions of the objects that show why pods wait.
#[derive(Debug, Default)]
pub struct Nearby {
    /// Other pods that use a claim or a port.
    pub pods: Vec<usize>,
    /// The claims that pods wait for, by name.
    pub claims: BTreeMap<String, NearbyClaim>,
}

/// The positions of the objects about a claim.
#[derive(Debug, Default)]
pub struct NearbyClaim {
    /// The PersistentVolumeClaim.
    pub claim: Option<usize>,
    /// Its PersistentVolume.
    pub volume: Option<usize>,
    /// The events about the claim.
    pub events: Vec<usize>,
}

objects! {
    /// The fields of a pod that show whether it waits, and what for.
    struct WaitingPod {
        spec: kubernetes::PodSpec = "spec",
        status: Phase = "status",
    }

    struct Phase {
        phase: String = "phase",
    }
}

// === impl Wants ===

impl Wants {
    /// What pods need, some of which may wait.
    pub fn of(pods: &[Pod]) -> Self {
        let mut wants = Self::default();
        for pod in pods {
            wants.add(&pod.phase, &pod.claims, &pod.host_ports);
        }
        wants
    }

    /// What pods need that have not been read.
    pub fn of_found<'f, 'a: 'f>(pods: impl Iterator<Item = &'f Found<'a>>) -> Self {
        let mut wants = Self::default();
        for pod in pods.filter(|pod| pod.is_pod()) {
            let WaitingPod { spec, status } = pod.read_leniently();
            let claims = spec.claims(&pod.metadata.name);
            wants.add(&status.phase, &claims, &spec.host_ports());
        }
        wants
    }

    fn add(&mut self, phase: &str, claims: &[ClaimVolume], ports: &[HostPort]) {
        if !matches!(phase, "" | "Pending") {
            return;
        }
        self.claims
            .extend(claims.iter().map(|volume| volume.claim.clone()));
        for port in ports {
            if !self.ports.contains(port) {
                self.ports.push(port.clone());
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.claims.is_empty() && self.ports.is_empty()
    }

    /// Whether another pod has something that is needed.
    fn meet(&self, pod: &Found<'_>, is_near: bool) -> bool {
        let WaitingPod { spec, status } = pod.read_leniently();
        let is_over = matches!(status.phase.as_str(), "Failed" | "Succeeded");
        let claims = spec.claims(&pod.metadata.name);
        let mut claims = claims.iter().filter(|_| is_near);
        let ports = spec.host_ports();
        let is_taken = |wanted: &HostPort| ports.iter().any(|port| wanted.conflicts_with(port));
        !is_over
            && !spec.node_name.is_empty()
            && (claims.any(|volume| self.claims.contains(&volume.claim))
                || self.ports.iter().any(is_taken))
    }
}

// === impl Nearby ===

impl Nearby {
    /// Finds the objects that show why the pods of an owner wait. `own` are the positions of its pods.
    pub fn find<'a, T: AsRef<Found<'a>>>(
        objects: &ObjectIndex<'a, T>,
        owner: &Found<'a>,
        own: &[usize],
        wants: &Wants,
        interrupt: &dyn Interrupt,
    ) -> Result<Self, Interrupted> {
        let mut nearby = Self::default();
        if wants.is_empty() {
            return Ok(nearby);
        }
        let own: HashSet<usize> = own.iter().copied().collect();
        for (position, pod) in objects.pods() {
            interrupt.check()?;
            let is_other = !own.contains(&position) && nearby.pods.len() < PODS_MAX;
            if is_other && wants.meet(pod, pod.is_in_namespace_of(owner)) {
                nearby.pods.push(position);
            }
        }
        for name in &wants.claims {
            nearby.claims.insert(name.clone(), NearbyClaim::default());
            let positions = objects.named(name).iter();
            let mut found = positions.map(|&position| (position, objects[position].as_ref()));
            let claim = found.find(|(_, object)| {
                is_of(object, "PersistentVolumeClaim") && object.is_in_namespace_of(owner)
            });
            let events = objects.claim_events(name);
            let events = events.filter(|(_, event)| event.is_in_namespace_of(owner));
            let claim_name = name.clone();
            let entry = nearby.claims.entry(claim_name).or_default();
            entry.claim = claim.map(|(position, _)| position);
            entry.events = events.map(|(position, _)| position).collect();
        }
        nearby.find_volumes(objects, owner);
        Ok(nearby)
    }

    /// Finds the volumes that are bound to the claims.
    fn find_volumes<'a, T: AsRef<Found<'a>>>(
        &mut self,
        objects: &ObjectIndex<'a, T>,
        owner: &Found<'a>,
    ) {
        let volumes = objects.iter().enumerate();
        let volumes = volumes.map(|(position, object)| (position, object.as_ref()));
        for (position, volume) in volumes.filter(|(_, it)| is_of(it, "PersistentVolume")) {
            let kubernetes::PersistentVolume { spec, .. } = volume.read_leniently();
            let claim = &spec.claim_ref;
            if claim.namespace == owner.metadata.namespace
                && let Some(nearby) = self.claims.get_mut(&claim.name)
            {
                nearby.volume = Some(position);
            }
        }
    }

    /// The positions of all objects.
    pub fn positions(&self) -> Vec<usize> {
        let claims = self.claims.values();
        let about = claims.flat_map(|claim| {
            let objects = [claim.claim, claim.volume].into_iter().flatten();
            objects.chain(claim.events.iter().copied())
        });
        self.pods.iter().copied().chain(about).collect()
    }
}

fn is_of(object: &Found<'_>, kind: &str) -> bool {
    object.api_version == "v1" && object.kind == kind
}
