//! The fields of Kubernetes objects that the planner reads, by their names in the Kubernetes API. They are not validated. A
//! field is an `Option` where Kubernetes distinguishes absent from zero.

use std::collections::BTreeMap;

use rollplan_core::template::Value;
use rollplan_core::time::Time;

use super::fields::{Read, Unread, integer, objects};
use super::text::Json;
use crate::error::Reason;

objects! {
    /// The metadata of an object (meta/v1 ObjectMeta).
    struct ObjectMeta {
        name: String = "name",
        namespace: String = "namespace",
        uid: String = "uid",
        resource_version: String = "resourceVersion",
        generation: i64 = "generation",
        creation_timestamp: Option<Time> = "creationTimestamp",
        deletion_timestamp: Option<Time> = "deletionTimestamp",
        labels: BTreeMap<String, String> = "labels",
        annotations: BTreeMap<String, String> = "annotations",
        owner_references: Vec<OwnerReference> = "ownerReferences",
        finalizers: Vec<String> = "finalizers",
    }

    /// meta/v1 OwnerReference.
    struct OwnerReference {
        api_version: String = "apiVersion",
        kind: String = "kind",
        name: String = "name",
        uid: String = "uid",
        controller: Option<bool> = "controller",
        block_owner_deletion: Option<bool> = "blockOwnerDeletion",
    }

    /// meta/v1 LabelSelector.
    struct LabelSelector {
        match_labels: BTreeMap<String, String> = "matchLabels",
        match_expressions: Vec<LabelSelectorRequirement> = "matchExpressions",
    }

    /// meta/v1 LabelSelectorRequirement.
    struct LabelSelectorRequirement {
        key: String = "key",
        operator: String = "operator",
        values: Vec<String> = "values",
    }

    /// apps/v1 Deployment, or a custom resource with the same spec.
    struct Deployment<'a> {
        metadata: Option<ObjectMeta> = "metadata",
        spec: Option<DeploymentSpec<'a>> = "spec",
        status: Option<DeploymentStatus> = "status",
    }

    /// apps/v1 DeploymentSpec.
    struct DeploymentSpec<'a> {
        replicas: Option<i32> = "replicas",
        selector: Option<LabelSelector> = "selector",
        template: Option<TemplateJson<'a>> = "template",
        strategy: Option<DeploymentStrategy> = "strategy",
        min_ready_seconds: i32 = "minReadySeconds",
        revision_history_limit: Option<i32> = "revisionHistoryLimit",
        paused: bool = "paused",
        progress_deadline_seconds: Option<i32> = "progressDeadlineSeconds",
    }

    /// apps/v1 DeploymentStrategy.
    struct DeploymentStrategy {
        kind: String = "type",
        rolling_update: Option<RollingUpdateDeployment> = "rollingUpdate",
    }

    /// apps/v1 RollingUpdateDeployment.
    struct RollingUpdateDeployment {
        max_unavailable: Option<IntOrString> = "maxUnavailable",
        max_surge: Option<IntOrString> = "maxSurge",
    }

    /// apps/v1 DeploymentStatus.
    struct DeploymentStatus {
        observed_generation: i64 = "observedGeneration",
        replicas: i32 = "replicas",
        updated_replicas: i32 = "updatedReplicas",
        ready_replicas: i32 = "readyReplicas",
        available_replicas: i32 = "availableReplicas",
        unavailable_replicas: i32 = "unavailableReplicas",
        terminating_replicas: Option<i32> = "terminatingReplicas",
        conditions: Vec<DeploymentCondition> = "conditions",
        collision_count: Option<i32> = "collisionCount",
    }

    /// apps/v1 DeploymentCondition.
    struct DeploymentCondition {
        kind: String = "type",
        status: String = "status",
        last_update_time: Option<Time> = "lastUpdateTime",
        last_transition_time: Option<Time> = "lastTransitionTime",
        reason: String = "reason",
        message: String = "message",
    }

    /// apps/v1 StatefulSet or DaemonSet.
    struct Workload<'a> {
        metadata: Option<ObjectMeta> = "metadata",
        spec: Option<WorkloadSpec<'a>> = "spec",
        status: WorkloadStatus = "status",
    }

    /// apps/v1 StatefulSetSpec or DaemonSetSpec.
    struct WorkloadSpec<'a> {
        replicas: Option<i32> = "replicas",
        selector: Option<LabelSelector> = "selector",
        template: Option<TemplateJson<'a>> = "template",
        update_strategy: UpdateStrategy = "updateStrategy",
        pod_management_policy: String = "podManagementPolicy",
        min_ready_seconds: i32 = "minReadySeconds",
        revision_history_limit: Option<i32> = "revisionHistoryLimit",
        ordinals: StatefulSetOrdinals = "ordinals",
    }

    /// apps/v1 StatefulSetOrdinals.
    struct StatefulSetOrdinals {
        start: i32 = "start",
    }

    /// apps/v1 StatefulSetUpdateStrategy or DaemonSetUpdateStrategy.
    struct UpdateStrategy {
        kind: String = "type",
        rolling_update: RollingUpdate = "rollingUpdate",
    }

    /// apps/v1 RollingUpdateStatefulSetStrategy or RollingUpdateDaemonSet.
    struct RollingUpdate {
        partition: i32 = "partition",
        max_unavailable: Option<IntOrString> = "maxUnavailable",
        max_surge: Option<IntOrString> = "maxSurge",
    }

    /// apps/v1 StatefulSetStatus or DaemonSetStatus.
    struct WorkloadStatus {
        observed_generation: Option<i64> = "observedGeneration",
        conditions: Vec<Condition> = "conditions",
        replicas: i32 = "replicas",
        ready_replicas: i32 = "readyReplicas",
        available_replicas: Option<i32> = "availableReplicas",
        updated_replicas: i32 = "updatedReplicas",
        current_replicas: i32 = "currentReplicas",
        current_revision: String = "currentRevision",
        update_revision: String = "updateRevision",
        desired_number_scheduled: Option<i32> = "desiredNumberScheduled",
        current_number_scheduled: i32 = "currentNumberScheduled",
        updated_number_scheduled: i32 = "updatedNumberScheduled",
        number_ready: i32 = "numberReady",
        number_available: i32 = "numberAvailable",
        number_misscheduled: i32 = "numberMisscheduled",
    }

    /// apps/v1 ControllerRevision.
    struct ControllerRevision {
        metadata: Option<ObjectMeta> = "metadata",
        revision: i64 = "revision",
        data: Value = "data",
    }

    /// apps/v1 ReplicaSet, or core/v1 ReplicationController.
    struct ReplicaSet<'a> {
        metadata: Option<ObjectMeta> = "metadata",
        spec: ReplicaSetSpec<'a> = "spec",
        status: ReplicaSetStatus = "status",
    }

    /// apps/v1 ReplicaSetSpec.
    struct ReplicaSetSpec<'a> {
        replicas: Option<i32> = "replicas",
        min_ready_seconds: i32 = "minReadySeconds",
        template: Option<TemplateJson<'a>> = "template",
    }

    /// apps/v1 ReplicaSetStatus.
    struct ReplicaSetStatus {
        replicas: i32 = "replicas",
        ready_replicas: i32 = "readyReplicas",
        available_replicas: i32 = "availableReplicas",
        fully_labeled_replicas: i32 = "fullyLabeledReplicas",
        terminating_replicas: Option<i32> = "terminatingReplicas",
        observed_generation: Option<i64> = "observedGeneration",
        conditions: Vec<Condition> = "conditions",
    }

    /// meta/v1 Condition, or one of a kind that has its own type.
    struct Condition {
        kind: String = "type",
        status: String = "status",
        last_transition_time: Option<Time> = "lastTransitionTime",
        reason: String = "reason",
        message: String = "message",
        observed_generation: Option<i64> = "observedGeneration",
    }

    /// batch/v1 Job.
    struct Job<'a> {
        metadata: ObjectMeta = "metadata",
        spec: JobSpec<'a> = "spec",
        status: JobStatus = "status",
    }

    /// batch/v1 JobSpec.
    struct JobSpec<'a> {
        template: Option<TemplateJson<'a>> = "template",
        suspend: bool = "suspend",
        parallelism: Option<i32> = "parallelism",
        completions: Option<i32> = "completions",
        backoff_limit: Option<i32> = "backoffLimit",
        backoff_limit_per_index: Option<i32> = "backoffLimitPerIndex",
        max_failed_indexes: Option<i32> = "maxFailedIndexes",
        success_policy: Option<Present> = "successPolicy",
        pod_failure_policy: Option<Present> = "podFailurePolicy",
        pod_replacement_policy: String = "podReplacementPolicy",
        active_deadline_seconds: Option<i64> = "activeDeadlineSeconds",
        ttl_seconds_after_finished: Option<i32> = "ttlSecondsAfterFinished",
        managed_by: String = "managedBy",
    }

    /// batch/v1 JobStatus.
    struct JobStatus {
        conditions: Vec<Condition> = "conditions",
        start_time: Option<Time> = "startTime",
        active: i32 = "active",
        ready: i32 = "ready",
        terminating: i32 = "terminating",
        succeeded: i32 = "succeeded",
        failed: i32 = "failed",
        failed_indexes: String = "failedIndexes",
    }

    /// An object of a kind of which few fields are read: batch/v1 CronJob, apiextensions.k8s.io/v1 CustomResourceDefinition,
    /// and core/v1 Pod, PersistentVolumeClaim, Service, ConfigMap and Secret.
    struct SmallObject {
        metadata: ObjectMeta = "metadata",
        spec: SmallSpec = "spec",
        status: SmallStatus = "status",
    }

    /// Their specs. Each kind has some of the fields.
    struct SmallSpec {
        suspend: bool = "suspend",
        restart_policy: String = "restartPolicy",
        kind: String = "type",
        cluster_ip: String = "clusterIP",
    }

    /// Their status. Each kind has some of the fields.
    struct SmallStatus {
        observed_generation: Option<i64> = "observedGeneration",
        conditions: Vec<Condition> = "conditions",
        phase: String = "phase",
        active: Vec<Present> = "active",
        last_schedule_time: Option<Time> = "lastScheduleTime",
        last_successful_time: Option<Time> = "lastSuccessfulTime",
        load_balancer: LoadBalancerStatus = "loadBalancer",
    }

    /// core/v1 LoadBalancerStatus.
    struct LoadBalancerStatus {
        ingress: Vec<LoadBalancerIngress> = "ingress",
    }

    /// core/v1 LoadBalancerIngress.
    struct LoadBalancerIngress {
        ip: String = "ip",
        hostname: String = "hostname",
    }

    /// core/v1 Pod.
    struct Pod {
        metadata: Option<PodMetadata> = "metadata",
        spec: PodSpec = "spec",
        status: PodStatus = "status",
    }

    /// The metadata of a pod (meta/v1 ObjectMeta), without annotations and most labels.
    struct PodMetadata {
        name: String = "name",
        namespace: String = "namespace",
        uid: String = "uid",
        creation_timestamp: Option<Time> = "creationTimestamp",
        deletion_timestamp: Option<Time> = "deletionTimestamp",
        labels: PodLabels = "labels",
        owner_references: Vec<OwnerReference> = "ownerReferences",
        finalizers: Vec<String> = "finalizers",
    }

    /// The labels with the revision of a pod of a DaemonSet or StatefulSet.
    struct PodLabels {
        revision: Option<String> = "controller-revision-hash",
        generation: Option<String> = "pod-template-generation",
    }

    /// core/v1 PodSpec: where the pod runs, and what it needs for that. Of the containers, only what webhooks add to those
    /// of the template, and their ports.
    struct PodSpec {
        node_name: String = "nodeName",
        scheduler_name: String = "schedulerName",
        scheduling_gates: Vec<SchedulingGate> = "schedulingGates",
        volumes: Vec<Volume> = "volumes",
        containers: Vec<Container> = "containers",
        init_containers: Vec<Container> = "initContainers",
    }

    /// core/v1 PodSchedulingGate.
    struct SchedulingGate {
        name: String = "name",
    }

    /// core/v1 Volume.
    struct Volume {
        name: String = "name",
        claim: Option<ClaimSource> = "persistentVolumeClaim",
        ephemeral: Option<Present> = "ephemeral",
    }

    /// core/v1 PersistentVolumeClaimVolumeSource.
    struct ClaimSource {
        claim_name: String = "claimName",
    }

    /// core/v1 Container.
    struct Container {
        name: String = "name",
        restart_policy: String = "restartPolicy",
        volume_mounts: Vec<VolumeMount> = "volumeMounts",
        ports: Vec<ContainerPort> = "ports",
    }

    /// core/v1 VolumeMount.
    struct VolumeMount {
        mount_path: String = "mountPath",
    }

    /// core/v1 ContainerPort.
    struct ContainerPort {
        host_port: i32 = "hostPort",
        host_ip: String = "hostIP",
        protocol: String = "protocol",
    }

    /// core/v1 PersistentVolumeClaim.
    struct Claim {
        spec: ClaimSpec = "spec",
        status: ClaimStatus = "status",
    }

    /// core/v1 PersistentVolumeClaimStatus.
    struct ClaimStatus {
        phase: String = "phase",
    }

    /// core/v1 PersistentVolumeClaimSpec.
    struct ClaimSpec {
        access_modes: Vec<String> = "accessModes",
    }

    /// core/v1 PersistentVolume.
    struct PersistentVolume {
        metadata: Labels = "metadata",
        spec: PersistentVolumeSpec = "spec",
    }

    /// The labels of an object.
    struct Labels {
        labels: BTreeMap<String, String> = "labels",
    }

    /// core/v1 PersistentVolumeSpec.
    struct PersistentVolumeSpec {
        claim_ref: ClaimReference = "claimRef",
        node_affinity: VolumeNodeAffinity = "nodeAffinity",
    }

    /// core/v1 ObjectReference to a claim.
    struct ClaimReference {
        name: String = "name",
        namespace: String = "namespace",
    }

    /// core/v1 VolumeNodeAffinity.
    struct VolumeNodeAffinity {
        required: NodeSelector = "required",
    }

    /// core/v1 NodeSelector.
    struct NodeSelector {
        terms: Vec<NodeSelectorTerm> = "nodeSelectorTerms",
    }

    /// core/v1 NodeSelectorTerm.
    struct NodeSelectorTerm {
        match_expressions: Vec<LabelSelectorRequirement> = "matchExpressions",
    }

    /// core/v1 PodStatus.
    struct PodStatus {
        phase: String = "phase",
        conditions: Vec<Condition> = "conditions",
        message: String = "message",
        reason: String = "reason",
        start_time: Option<Time> = "startTime",
        init_container_statuses: Vec<ContainerStatus> = "initContainerStatuses",
        container_statuses: Vec<ContainerStatus> = "containerStatuses",
        nominated_node_name: String = "nominatedNodeName",
    }

    /// core/v1 ContainerStatus.
    struct ContainerStatus {
        name: String = "name",
        state: ContainerState = "state",
        last_state: ContainerState = "lastState",
        ready: bool = "ready",
        restart_count: i32 = "restartCount",
        image: String = "image",
        started: Option<bool> = "started",
    }

    /// core/v1 ContainerState. At most one field is set.
    struct ContainerState {
        waiting: Option<ContainerStateWaiting> = "waiting",
        running: Option<ContainerStateRunning> = "running",
        terminated: Option<ContainerStateTerminated> = "terminated",
    }

    /// core/v1 ContainerStateWaiting.
    struct ContainerStateWaiting {
        reason: String = "reason",
        message: String = "message",
    }

    /// core/v1 ContainerStateRunning.
    struct ContainerStateRunning {
        started_at: Option<Time> = "startedAt",
    }

    /// core/v1 ContainerStateTerminated.
    struct ContainerStateTerminated {
        exit_code: i32 = "exitCode",
        reason: String = "reason",
        message: String = "message",
        finished_at: Option<Time> = "finishedAt",
    }

    /// core/v1 Event.
    struct Event {
        involved_object: InvolvedObject = "involvedObject",
        reason: String = "reason",
        message: String = "message",
        kind: String = "type",
        count: i32 = "count",
        first_timestamp: Option<Time> = "firstTimestamp",
        last_timestamp: Option<Time> = "lastTimestamp",
        event_time: Option<Time> = "eventTime",
        series: EventSeries = "series",
    }

    /// core/v1 ObjectReference.
    struct InvolvedObject {
        uid: String = "uid",
        field_path: String = "fieldPath",
    }

    /// core/v1 EventSeries.
    struct EventSeries {
        count: i32 = "count",
        last_observed_time: Option<Time> = "lastObservedTime",
    }
}

/// A value of which only the presence matters.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Present;

impl<'a> Read<'a> for Present {
    fn read(json: &mut Json<'a>) -> Result<Self, Unread> {
        json.value()?;
        Ok(Self)
    }
}

/// The text of a pod template, an object. It is read when it is compared with others.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TemplateJson<'a>(pub(crate) &'a str);

impl<'a> Read<'a> for TemplateJson<'a> {
    fn read(json: &mut Json<'a>) -> Result<Self, Unread> {
        match json.peek()? {
            b'{' => {
                let text = json.value()?;
                // The text itself, and a tape while it is compared.
                json.allocate(2 * text.len());
                Ok(Self(text))
            }
            _ => Err(Unread::wrong_type("must be an object")),
        }
    }
}

/// A number or a text, such as a number of pods or a percentage (util/intstr IntOrString).
#[derive(Clone, Debug)]
pub(crate) enum IntOrString {
    Int(i64),
    String(String),
}

impl Default for IntOrString {
    fn default() -> Self {
        Self::Int(0)
    }
}

impl<'a> Read<'a> for IntOrString {
    fn read(json: &mut Json<'a>) -> Result<Self, Unread> {
        if json.peek()? == b'"' {
            return Ok(Self::String(json.string()?.into_owned()));
        }
        let Some(text) = integer(json)? else {
            let description = "must be a whole number, or a percentage, for example \"25%\"";
            return Err(Unread::wrong(Reason::NotIntOrPercent, description));
        };
        // Integers beyond 64 bits are rejected like others that are too large.
        let furthest = if text.starts_with('-') {
            i64::MIN
        } else {
            i64::MAX
        };
        Ok(Self::Int(text.parse().unwrap_or(furthest)))
    }
}
