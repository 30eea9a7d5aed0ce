//! Reads the fields of each kind.

use rollplan_core::kind;
use rollplan_core::size::IntOrPercent;
use rollplan_core::template::{Template, Value};
use rollplan_health::kinds::{
    Claim, Condition, CronJob, DaemonSet, Job, ReplicaSetView, Service, SinglePod, StatefulSet,
    View,
};

use super::field::Field;

/// The kinds with a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    StatefulSet,
    DaemonSet,
    ReplicaSet,
    Job,
    CronJob,
    Pod,
    Claim,
    Service,
    Definition,
    Stateless,
}

// === impl Known ===

impl Known {
    pub(super) fn of(api_version: &str, kind: &str) -> Option<Self> {
        Some(match kind::find(api_version, kind)?.name {
            "StatefulSet" => Self::StatefulSet,
            "DaemonSet" => Self::DaemonSet,
            "ReplicaSet" | "ReplicationController" => Self::ReplicaSet,
            "Job" => Self::Job,
            "CronJob" => Self::CronJob,
            "Pod" => Self::Pod,
            "PersistentVolumeClaim" => Self::Claim,
            "Service" => Self::Service,
            "CustomResourceDefinition" => Self::Definition,
            "ConfigMap" | "Secret" => Self::Stateless,
            _ => return None,
        })
    }

    /// Whether it is a controller of pods.
    pub(super) fn controls_pods(self) -> bool {
        matches!(
            self,
            Self::StatefulSet | Self::DaemonSet | Self::ReplicaSet | Self::Job
        )
    }

    pub(super) fn view(
        self,
        spec: &Field<'_, '_>,
        status: &Field<'_, '_>,
        revision: Option<String>,
    ) -> View {
        match self {
            Self::StatefulSet => View::StatefulSet(stateful_set(spec, status)),
            Self::DaemonSet => View::DaemonSet(daemon_set(spec, status, revision)),
            Self::ReplicaSet => View::ReplicaSet(replica_set(spec, status)),
            Self::Job => View::Job(job(spec, status)),
            Self::CronJob => View::CronJob(CronJob {
                is_suspended: spec.get("suspend").is_true(),
                active: i32::try_from(status.get("active").list().len()).unwrap_or(i32::MAX),
                last_schedule: status.get("lastScheduleTime").time(),
                last_success: status.get("lastSuccessfulTime").time(),
            }),
            Self::Pod => View::Pod(SinglePod {
                is_always_restarted: matches!(&*spec.get("restartPolicy").text(), "" | "Always"),
            }),
            Self::Claim => View::Claim(Claim {
                phase: status.get("phase").text(),
            }),
            Self::Service => View::Service(service(spec, status)),
            Self::Definition => View::Definition,
            Self::Stateless => View::Stateless,
        }
    }
}

fn count(field: &Field<'_, '_>, name: &str) -> i32 {
    field.get(name).count().unwrap_or_default()
}

fn stateful_set(spec: &Field<'_, '_>, status: &Field<'_, '_>) -> StatefulSet {
    let strategy = spec.get("updateStrategy");
    let rolling = strategy.get("rollingUpdate");
    StatefulSet {
        replicas: spec.get("replicas").count().unwrap_or(1),
        start: count(&spec.get("ordinals"), "start"),
        is_on_delete: strategy.get("type").text() == "OnDelete",
        partition: count(&rolling, "partition"),
        max_unavailable: rolling.get("maxUnavailable").int_or_percent(),
        is_ordered: spec.get("podManagementPolicy").text() != "Parallel",
        existing: count(status, "replicas"),
        ready: count(status, "readyReplicas"),
        available: match spec.get("minReadySeconds").count() {
            Some(seconds) if seconds > 0 => status.get("availableReplicas").count(),
            _ => None,
        },
        updated: count(status, "updatedReplicas"),
        current: count(status, "currentReplicas"),
        current_revision: status.get("currentRevision").text(),
        update_revision: status.get("updateRevision").text(),
    }
}

fn daemon_set(spec: &Field<'_, '_>, status: &Field<'_, '_>, revision: Option<String>) -> DaemonSet {
    let strategy = spec.get("updateStrategy");
    let rolling = strategy.get("rollingUpdate");
    let (surge, unavailable) = (rolling.get("maxSurge"), rolling.get("maxUnavailable"));
    DaemonSet {
        is_on_delete: strategy.get("type").text() == "OnDelete",
        max_unavailable: unavailable.int_or_percent().unwrap_or(IntOrPercent::Int(1)),
        max_surge: surge.int_or_percent().unwrap_or(IntOrPercent::Int(0)),
        revision,
        desired: status.get("desiredNumberScheduled").count(),
        current: count(status, "currentNumberScheduled"),
        updated: count(status, "updatedNumberScheduled"),
        ready: count(status, "numberReady"),
        available: count(status, "numberAvailable"),
        misscheduled: count(status, "numberMisscheduled"),
    }
}

fn replica_set(spec: &Field<'_, '_>, status: &Field<'_, '_>) -> ReplicaSetView {
    ReplicaSetView {
        replicas: spec.get("replicas").count().unwrap_or(1),
        existing: count(status, "replicas"),
        labeled: count(status, "fullyLabeledReplicas"),
        ready: count(status, "readyReplicas"),
        available: count(status, "availableReplicas"),
    }
}

fn job(spec: &Field<'_, '_>, status: &Field<'_, '_>) -> Job {
    let managed_by = spec.get("managedBy").text();
    let pod = spec.get("template").get("spec");
    Job {
        restarts_containers: pod.get("restartPolicy").text() == "OnFailure",
        is_suspended: spec.get("suspend").is_true(),
        parallelism: spec.get("parallelism").count().unwrap_or(1),
        completions: spec.get("completions").count(),
        backoff_limit: spec.get("backoffLimit").count(),
        backoff_limit_per_index: spec.get("backoffLimitPerIndex").count(),
        max_failed_indexes: spec.get("maxFailedIndexes").count(),
        has_success_policy: spec.get("successPolicy").is_present(),
        // The default with a podFailurePolicy (SetDefaults_Job in pkg/apis/batch/v1/defaults.go of Kubernetes).
        replaces_only_failed_pods: match &*spec.get("podReplacementPolicy").text() {
            "" => spec.get("podFailurePolicy").is_present(),
            policy => policy == "Failed",
        },
        active_deadline_seconds: spec.get("activeDeadlineSeconds").integer(),
        ttl_seconds: spec.get("ttlSecondsAfterFinished").count(),
        managed_by: match managed_by.as_str() {
            "kubernetes.io/job-controller" => String::new(),
            _ => managed_by,
        },
        start_time: status.get("startTime").time(),
        active: count(status, "active"),
        ready: count(status, "ready"),
        terminating: count(status, "terminating"),
        succeeded: count(status, "succeeded"),
        failed: count(status, "failed"),
        failed_indexes: status.get("failedIndexes").text(),
    }
}

fn service(spec: &Field<'_, '_>, status: &Field<'_, '_>) -> Service {
    let ingress = status.get("loadBalancer").get("ingress").list();
    let addresses = ingress.iter().map(|ingress| {
        let ip = ingress.get("ip").text();
        if ip.is_empty() {
            ingress.get("hostname").text()
        } else {
            ip
        }
    });
    Service {
        is_load_balancer: spec.get("type").text() == "LoadBalancer",
        cluster_ip: spec.get("clusterIP").text(),
        addresses: addresses.filter(|address| !address.is_empty()).collect(),
    }
}

/// The conditions with a type.
pub(super) fn conditions(status: &Field<'_, '_>) -> Vec<Condition> {
    let conditions = status.get("conditions").list();
    let conditions = conditions.iter().map(|condition| Condition {
        kind: condition.get("type").text(),
        status: condition.get("status").text(),
        reason: condition.get("reason").text(),
        message: condition.get("message").text(),
        observed_generation: condition.get("observedGeneration").number(),
        last_transition_time: condition.get("lastTransitionTime").time(),
    });
    conditions
        .filter(|condition| !condition.kind.is_empty())
        .collect()
}

/// The parts of a pod template that reports use: labels, placement, and of the containers names, probes, ports and limits.
pub(super) fn template(metadata: &Field<'_, '_>, pod: &Field<'_, '_>) -> Option<Template> {
    let mut parts = Vec::new();
    for list in ["containers", "initContainers"] {
        let containers = pod.get(list).list();
        let containers = containers.iter().map(|container| {
            let fields = [
                "name",
                "ports",
                "resources",
                "startupProbe",
                "readinessProbe",
                "livenessProbe",
                "restartPolicy",
            ];
            let fields = fields
                .into_iter()
                .filter_map(|name| Some((name.to_owned(), container.get(name).value()?)));
            Value::Map(fields.collect())
        });
        parts.push((list.to_owned(), Value::List(containers.collect())));
    }
    let placement = ["affinity", "topologySpreadConstraints"].into_iter();
    parts.extend(placement.filter_map(|name| Some((name.to_owned(), pod.get(name).value()?))));
    let labels = metadata.get("labels").value().unwrap_or_default();
    let metadata = Value::from([("labels", labels)]);
    let spec = Value::Map(parts.into_iter().collect());
    pod.is_present()
        .then(|| Template::from(Value::from([("metadata", metadata), ("spec", spec)])))
}
