//! Parses pods.

use std::collections::HashSet;

use rollplan_core::snapshot::{Container, ContainerState, Pod, PodCondition};

use super::path::Path;
use super::{Owner, Parser, controller};
use crate::proto;

impl Parser<'_> {
    /// The pods whose controller is in `owners`, a set of UIDs of ReplicaSets. Others are skipped without validation.
    pub(super) fn pods(
        &mut self,
        pods: Vec<proto::Pod>,
        owner: &Owner<'_>,
        owners: &HashSet<&str>,
        path: &Path<'_>,
    ) -> Vec<Pod> {
        let mut parsed = Vec::new();
        for (index, pod) in pods.into_iter().enumerate() {
            if self.interrupt.is_interrupted() {
                break;
            }
            let path = path.index(index);
            // Without metadata, the pod cannot be selected.
            let metadata = self.required(pod.metadata.as_ref(), &path.field("metadata"));
            let is_selected = metadata.is_some_and(|metadata| {
                let controller = controller(metadata).map(|it| &*it.uid);
                owner.selects_pod(&metadata.namespace, controller, owners)
            });
            if is_selected {
                parsed.push((index, self.pod(pod, owner.namespace(), &path)));
            }
        }
        self.unique_pods(parsed, path)
    }

    /// Like [`pods`](Self::pods), for pods with only the data that decides a plan.
    pub(super) fn lean_pods(
        &mut self,
        pods: Vec<Pod>,
        owner: &Owner<'_>,
        owners: &HashSet<&str>,
        path: &Path<'_>,
    ) -> Vec<Pod> {
        let selected = pods.into_iter().enumerate().filter_map(|(index, mut pod)| {
            let controller = pod.metadata.controller().map(|it| &*it.uid);
            let is_selected = owner.selects_pod(&pod.metadata.namespace, controller, owners);
            if pod.metadata.namespace.is_empty() {
                owner.namespace().clone_into(&mut pod.metadata.namespace);
            }
            is_selected.then_some((index, pod))
        });
        self.unique_pods(selected.collect(), path)
    }

    fn unique_pods(&mut self, parsed: Vec<(usize, Pod)>, path: &Path<'_>) -> Vec<Pod> {
        let uids = parsed.iter();
        let uids = uids.map(|(index, pod)| (*index, &*pod.metadata.uid, true));
        self.unique(uids, path, "uid");
        let names = parsed.iter();
        let names = names.map(|(index, pod)| (*index, &*pod.metadata.name, true));
        self.unique(names, path, "name");
        parsed.into_iter().map(|(_, pod)| pod).collect()
    }

    pub(super) fn pod(&mut self, pod: proto::Pod, namespace: &str, path: &Path<'_>) -> Pod {
        let proto::Pod {
            api_version,
            kind,
            metadata,
            spec,
            status,
        } = pod;
        self.kind((&api_version, &kind), ("v1", "Pod"), path);
        let mut metadata =
            self.member_metadata(metadata, false, namespace, &path.field("metadata"));
        // The planner does not use the labels, which may be most of a request. They are freed here, one object at a
        // time.
        metadata.labels.clear();
        metadata.annotations.clear();
        let path = &path.field("status");
        let proto::PodStatus {
            phase,
            conditions,
            message,
            reason,
            start_time,
            init_container_statuses,
            container_statuses,
            pod_ip: _,
            nominated_node_name,
        } = status.unwrap_or_default();
        let start_time = self.optional_time(start_time, &path.field("start_time"));
        let mut containers = Vec::new();
        for (statuses, init, field) in [
            (init_container_statuses, true, "init_container_statuses"),
            (container_statuses, false, "container_statuses"),
        ] {
            let path = path.field(field);
            let statuses = statuses.into_iter().enumerate();
            containers
                .extend(statuses.map(|(i, status)| self.container(status, init, &path.index(i))));
        }
        let conditions_path = path.field("conditions");
        let conditions = conditions.into_iter().enumerate();
        Pod {
            metadata,
            phase,
            reason,
            message,
            conditions: conditions
                .map(|(i, condition)| self.pod_condition(condition, &conditions_path.index(i)))
                .collect(),
            containers,
            node_name: spec.unwrap_or_default().node_name,
            nominated_node_name,
            start_time,
        }
    }

    fn pod_condition(&mut self, condition: proto::PodCondition, path: &Path<'_>) -> PodCondition {
        let proto::PodCondition {
            r#type,
            status,
            last_transition_time,
            reason,
            message,
        } = condition;
        let path = path.field("last_transition_time");
        PodCondition {
            kind: r#type,
            status,
            reason,
            message,
            last_transition_time: self.optional_time(last_transition_time, &path),
        }
    }

    fn container(
        &mut self,
        status: proto::ContainerStatus,
        init: bool,
        path: &Path<'_>,
    ) -> Container {
        let proto::ContainerStatus {
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
            state: self.container_state(state, &path.field("state")),
            last_state: self.container_state(last_state, &path.field("last_state")),
        }
    }

    fn container_state(
        &mut self,
        state: Option<proto::ContainerState>,
        path: &Path<'_>,
    ) -> ContainerState {
        let proto::ContainerState {
            waiting,
            running,
            terminated,
        } = state.unwrap_or_default();
        if let Some(proto::ContainerStateTerminated {
            exit_code,
            signal: _,
            reason,
            message,
            started_at,
            finished_at,
        }) = terminated
        {
            let path = path.field("terminated");
            self.optional_time(started_at, &path.field("started_at"));
            return ContainerState::Terminated {
                exit_code,
                reason,
                message,
                finished_at: self.optional_time(finished_at, &path.field("finished_at")),
            };
        }
        if let Some(proto::ContainerStateRunning { started_at }) = running {
            let path = path.field("running");
            return ContainerState::Running {
                started_at: self.optional_time(started_at, &path.field("started_at")),
            };
        }
        waiting.map_or(ContainerState::Unknown, |waiting| {
            let proto::ContainerStateWaiting { reason, message } = waiting;
            ContainerState::Waiting { reason, message }
        })
    }
}
