//! Parses pods.

use std::collections::BTreeMap;

use rollplan_core::snapshot::{
    ClaimVolume, Container, ContainerState, HostPort, Pod, PodCondition,
};
use rollplan_health::kinds::REVISION_LABEL;

use super::Parser;
use super::path::Path;
use crate::read::kubernetes;

impl Parser<'_> {
    pub(crate) fn pod(&mut self, pod: kubernetes::Pod, namespace: &str, path: &Path<'_>) -> Pod {
        let kubernetes::Pod {
            metadata,
            spec,
            status,
        } = pod;
        let metadata = metadata.map(object_meta);
        let metadata = self.member_metadata(metadata, false, namespace, &path.field("metadata"));
        let path = &path.field("status");
        let kubernetes::PodStatus {
            phase,
            conditions,
            message,
            reason,
            start_time,
            init_container_statuses,
            container_statuses,
            nominated_node_name,
        } = status;
        let mut containers = Vec::new();
        for (specs, statuses, init, field) in [
            (
                &spec.init_containers,
                init_container_statuses,
                true,
                "init_container_statuses",
            ),
            (
                &spec.containers,
                container_statuses,
                false,
                "container_statuses",
            ),
        ] {
            let path = path.field(field);
            let specs: BTreeMap<&str, &kubernetes::Container> = specs
                .iter()
                .map(|spec| (spec.name.as_str(), spec))
                .collect();
            for (i, status) in statuses.into_iter().enumerate() {
                let mut container = self.container(status, init, &path.index(i));
                if let Some(spec) = specs.get(container.name.as_str()) {
                    container.is_sidecar = init && spec.restart_policy == "Always";
                    let mounts = spec.volume_mounts.iter();
                    container.mounts = mounts.map(|mount| mount.mount_path.clone()).collect();
                }
                containers.push(container);
            }
        }
        let claims = spec.claims(&metadata.name);
        let host_ports = spec.host_ports();
        Pod {
            metadata,
            phase,
            reason,
            message,
            conditions: conditions.into_iter().map(pod_condition).collect(),
            containers,
            node_name: spec.node_name,
            nominated_node_name,
            scheduler_name: spec.scheduler_name,
            scheduling_gates: spec
                .scheduling_gates
                .into_iter()
                .map(|gate| gate.name)
                .collect(),
            claims,
            host_ports,
            start_time,
        }
    }

    fn container(
        &mut self,
        status: kubernetes::ContainerStatus,
        init: bool,
        path: &Path<'_>,
    ) -> Container {
        let kubernetes::ContainerStatus {
            name,
            state,
            last_state,
            ready,
            restart_count,
            image,
            started,
        } = status;
        Container {
            name,
            init,
            image,
            ready,
            started,
            restarts: self.count(restart_count, &path.field("restart_count")),
            state: container_state(state),
            last_state: container_state(last_state),
            ..Container::default()
        }
    }
}

// === impl PodSpec ===

impl kubernetes::PodSpec {
    /// The volumes of a pod that are claims. The claim of an ephemeral volume is named after both.
    pub(crate) fn claims(&self, pod: &str) -> Vec<ClaimVolume> {
        let volumes = self.volumes.iter();
        let claims = volumes.filter_map(|volume| {
            let claim = match (&volume.claim, &volume.ephemeral) {
                (Some(claim), _) => claim.claim_name.clone(),
                (None, Some(_)) => format!("{pod}-{}", volume.name),
                (None, None) => return None,
            };
            Some(ClaimVolume {
                volume: volume.name.clone(),
                claim,
            })
        });
        claims.collect()
    }

    /// The ports of the node that a pod uses.
    pub(crate) fn host_ports(&self) -> Vec<HostPort> {
        let containers = self.containers.iter().chain(&self.init_containers);
        let ports = containers.flat_map(|container| &container.ports);
        let ports = ports.filter(|port| port.host_port > 0);
        ports
            .map(|port| HostPort {
                port: port.host_port,
                protocol: match port.protocol.as_str() {
                    "" => "TCP".to_owned(),
                    protocol => protocol.to_owned(),
                },
                ip: port.host_ip.clone(),
            })
            .collect()
    }
}

fn object_meta(metadata: kubernetes::PodMetadata) -> kubernetes::ObjectMeta {
    let kubernetes::PodMetadata {
        name,
        namespace,
        uid,
        creation_timestamp,
        deletion_timestamp,
        labels,
        owner_references,
        finalizers,
    } = metadata;
    let labels = [
        (REVISION_LABEL, labels.revision),
        ("pod-template-generation", labels.generation),
    ];
    let labels = labels.into_iter();
    kubernetes::ObjectMeta {
        name,
        namespace,
        uid,
        creation_timestamp,
        deletion_timestamp,
        labels: labels
            .filter_map(|(key, value)| Some((key.to_owned(), value?)))
            .collect(),
        owner_references,
        finalizers,
        ..kubernetes::ObjectMeta::default()
    }
}

fn pod_condition(condition: kubernetes::Condition) -> PodCondition {
    let kubernetes::Condition {
        kind,
        status,
        last_transition_time,
        reason,
        message,
        observed_generation: _,
    } = condition;
    PodCondition {
        kind,
        status,
        reason,
        message,
        last_transition_time,
    }
}

fn container_state(state: kubernetes::ContainerState) -> ContainerState {
    let kubernetes::ContainerState {
        waiting,
        running,
        terminated,
    } = state;
    if let Some(kubernetes::ContainerStateTerminated {
        exit_code,
        reason,
        message,
        finished_at,
    }) = terminated
    {
        return ContainerState::Terminated {
            exit_code,
            reason,
            message,
            finished_at,
        };
    }
    if let Some(kubernetes::ContainerStateRunning { started_at }) = running {
        return ContainerState::Running { started_at };
    }
    waiting.map_or(ContainerState::Unknown, |waiting| {
        let kubernetes::ContainerStateWaiting { reason, message } = waiting;
        ContainerState::Waiting { reason, message }
    })
}
