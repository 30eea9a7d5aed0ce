//! The fields of Kubernetes objects that the planner reads, as structs with serde's derive: the usual way to read them.

#![allow(missing_docs, reason = "Kubernetes documents these fields")]

use std::collections::BTreeMap;

use rollplan_core::template::parse_time;
use rollplan_core::time::Time;
use serde::Deserialize as _;
use serde::de::{Deserializer, Error as _};
use serde_derive::Deserialize;
use serde_json::value::RawValue;

/// Reads a List of Deployments, ReplicaSets, pods and events.
pub fn read(text: &str) -> serde_json::Result<List<'_>> {
    serde_json::from_str(text)
}

macro_rules! structs {
    ($($name:ident $(<$life:lifetime>)? { $($(#[$meta:meta])* $field:ident: $type:ty,)* })*) => {
        $(
            #[derive(Debug, Default, Deserialize)]
            #[serde(default, rename_all = "camelCase")]
            #[allow(dead_code, reason = "the fields are only read from JSON")]
            pub struct $name $(<$life>)? {
                $($(#[$meta])* $field: $type,)*
            }
        )*
    };
}

structs! {
    List<'a> {
        #[serde(borrow)]
        items: Vec<Object<'a>>,
    }

    // An object of any of these kinds, because a tagged enum would be read twice.
    Object<'a> {
        api_version: String,
        kind: String,
        metadata: ObjectMeta,
        #[serde(borrow)]
        spec: Spec<'a>,
        status: Status,
        involved_object: InvolvedObject,
        reason: String,
        message: String,
        r#type: String,
        count: i32,
        #[serde(deserialize_with = "time")]
        first_timestamp: Option<Time>,
        #[serde(deserialize_with = "time")]
        last_timestamp: Option<Time>,
    }

    ObjectMeta {
        name: String,
        namespace: String,
        uid: String,
        resource_version: String,
        generation: i64,
        #[serde(deserialize_with = "time")]
        creation_timestamp: Option<Time>,
        #[serde(deserialize_with = "time")]
        deletion_timestamp: Option<Time>,
        labels: BTreeMap<String, String>,
        annotations: BTreeMap<String, String>,
        owner_references: Vec<OwnerReference>,
    }

    OwnerReference {
        api_version: String,
        kind: String,
        name: String,
        uid: String,
        controller: Option<bool>,
        block_owner_deletion: Option<bool>,
    }

    // Of a Deployment, a ReplicaSet or a pod.
    Spec<'a> {
        replicas: Option<i32>,
        selector: Option<LabelSelector>,
        #[serde(borrow)]
        template: Option<&'a RawValue>,
        strategy: Option<DeploymentStrategy>,
        min_ready_seconds: i32,
        revision_history_limit: Option<i32>,
        paused: bool,
        progress_deadline_seconds: Option<i32>,
        node_name: String,
    }

    LabelSelector {
        match_labels: BTreeMap<String, String>,
        match_expressions: Vec<LabelSelectorRequirement>,
    }

    LabelSelectorRequirement {
        key: String,
        operator: String,
        values: Vec<String>,
    }

    DeploymentStrategy {
        r#type: String,
        rolling_update: Option<RollingUpdateDeployment>,
    }

    RollingUpdateDeployment {
        max_unavailable: Option<IntOrString>,
        max_surge: Option<IntOrString>,
    }

    // Of a Deployment, a ReplicaSet or a pod.
    Status {
        observed_generation: i64,
        replicas: i32,
        updated_replicas: i32,
        ready_replicas: i32,
        available_replicas: i32,
        unavailable_replicas: i32,
        terminating_replicas: Option<i32>,
        collision_count: Option<i32>,
        conditions: Vec<Condition>,
        phase: String,
        message: String,
        reason: String,
        #[serde(deserialize_with = "time")]
        start_time: Option<Time>,
        init_container_statuses: Vec<ContainerStatus>,
        container_statuses: Vec<ContainerStatus>,
        nominated_node_name: String,
    }

    Condition {
        r#type: String,
        status: String,
        #[serde(deserialize_with = "time")]
        last_update_time: Option<Time>,
        #[serde(deserialize_with = "time")]
        last_transition_time: Option<Time>,
        reason: String,
        message: String,
    }

    ContainerStatus {
        name: String,
        state: ContainerState,
        last_state: ContainerState,
        ready: bool,
        restart_count: i32,
        image: String,
        started: Option<bool>,
    }

    ContainerState {
        waiting: Option<ContainerStateWaiting>,
        running: Option<ContainerStateRunning>,
        terminated: Option<ContainerStateTerminated>,
    }

    ContainerStateWaiting {
        reason: String,
        message: String,
    }

    ContainerStateRunning {
        #[serde(deserialize_with = "time")]
        started_at: Option<Time>,
    }

    ContainerStateTerminated {
        exit_code: i32,
        reason: String,
        message: String,
        #[serde(deserialize_with = "time")]
        finished_at: Option<Time>,
    }

    InvolvedObject {
        uid: String,
        field_path: String,
    }
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
#[allow(dead_code, reason = "the values are only read from JSON")]
pub enum IntOrString {
    Int(i64),
    String(String),
}

fn time<'de, D: Deserializer<'de>>(json: D) -> Result<Option<Time>, D::Error> {
    let text: Option<&str> = Option::deserialize(json)?;
    let time = text.map(|text| parse_time(text).ok_or_else(|| D::Error::custom("not a time")));
    time.transpose()
}
