//! The objects of each kind: what reports use of them. `base` is the object without its fields.

use rollplan_core::size::IntOrPercent;
use rollplan_core::snapshot::ObjectMeta;
use rollplan_core::template::Template;
use rollplan_health::kinds::{
    Claim, Condition, CronJob, DaemonSet, Job, ObjectSnapshot, ReplicaSetView, Service, SinglePod,
    StatefulSet, View,
};

use crate::parse::{Parser, Path, owner_reference};
use crate::read::kubernetes;

/// A StatefulSet or a DaemonSet. `revision` is the hash of the newest ControllerRevision of a DaemonSet.
pub(super) fn workload(
    set: kubernetes::Workload<'_>,
    base: ObjectSnapshot,
    revision: Option<String>,
    parser: &mut Parser<'_>,
    path: &Path<'_>,
) -> ObjectSnapshot {
    let (spec, status) = (set.spec.unwrap_or_default(), set.status);
    let template = template(spec.template, parser, path);
    let rolling = spec.update_strategy.rolling_update;
    let rolling_path = path.text(".spec.updateStrategy.rollingUpdate");
    let mut limit = |value: Option<_>, field| {
        value.map(|value| parser.int_or_percent(Some(value), &rolling_path.field(field)))
    };
    let max_unavailable = limit(rolling.max_unavailable, "max_unavailable");
    let max_surge = limit(rolling.max_surge, "max_surge");
    let mut count = |value: i32, field| parser.count(value, &path.text(field));
    let partition = ".spec.updateStrategy.rollingUpdate.partition";
    let is_on_delete = spec.update_strategy.kind == "OnDelete";
    let min_ready_seconds = count(spec.min_ready_seconds, ".spec.minReadySeconds");
    let view = if base.kind == "StatefulSet" {
        let available = status.available_replicas;
        let available = available.map(|it| count(it, ".status.availableReplicas"));
        View::StatefulSet(StatefulSet {
            replicas: count(spec.replicas.unwrap_or(1), ".spec.replicas"),
            start: count(spec.ordinals.start, ".spec.ordinals.start"),
            is_on_delete,
            partition: count(rolling.partition, partition),
            max_unavailable,
            is_ordered: spec.pod_management_policy != "Parallel",
            existing: count(status.replicas, ".status.replicas"),
            ready: count(status.ready_replicas, ".status.readyReplicas"),
            available: available.filter(|_| min_ready_seconds > 0),
            updated: count(status.updated_replicas, ".status.updatedReplicas"),
            current: count(status.current_replicas, ".status.currentReplicas"),
            current_revision: status.current_revision,
            update_revision: status.update_revision,
        })
    } else {
        let desired = status.desired_number_scheduled;
        let current = status.current_number_scheduled;
        let updated = status.updated_number_scheduled;
        View::DaemonSet(DaemonSet {
            is_on_delete,
            max_unavailable: max_unavailable.unwrap_or(IntOrPercent::Int(1)),
            max_surge: max_surge.unwrap_or(IntOrPercent::Int(0)),
            revision,
            desired: desired.map(|it| count(it, ".status.desiredNumberScheduled")),
            current: count(current, ".status.currentNumberScheduled"),
            updated: count(updated, ".status.updatedNumberScheduled"),
            ready: count(status.number_ready, ".status.numberReady"),
            available: count(status.number_available, ".status.numberAvailable"),
            misscheduled: count(status.number_misscheduled, ".status.numberMisscheduled"),
        })
    };
    ObjectSnapshot {
        metadata: metadata(base.metadata, set.metadata.unwrap_or_default()),
        observed_generation: status.observed_generation,
        conditions: conditions(status.conditions),
        view,
        template,
        min_ready_seconds,
        ..base
    }
}

pub(super) fn replica_set(
    set: kubernetes::ReplicaSet<'_>,
    base: ObjectSnapshot,
    parser: &mut Parser<'_>,
    path: &Path<'_>,
) -> ObjectSnapshot {
    let (spec, status) = (set.spec, set.status);
    let template = template(spec.template, parser, path);
    let mut count = |value: i32, field| parser.count(value, &path.text(field));
    ObjectSnapshot {
        metadata: metadata(base.metadata, set.metadata.unwrap_or_default()),
        observed_generation: status.observed_generation,
        conditions: conditions(status.conditions),
        view: View::ReplicaSet(ReplicaSetView {
            replicas: count(spec.replicas.unwrap_or(1), ".spec.replicas"),
            existing: count(status.replicas, ".status.replicas"),
            labeled: count(
                status.fully_labeled_replicas,
                ".status.fullyLabeledReplicas",
            ),
            ready: count(status.ready_replicas, ".status.readyReplicas"),
            available: count(status.available_replicas, ".status.availableReplicas"),
        }),
        template,
        min_ready_seconds: count(spec.min_ready_seconds, ".spec.minReadySeconds"),
        ..base
    }
}

pub(super) fn job(
    job: kubernetes::Job<'_>,
    base: ObjectSnapshot,
    parser: &mut Parser<'_>,
    path: &Path<'_>,
) -> ObjectSnapshot {
    let (spec, status) = (job.spec, job.status);
    let template = template(spec.template, parser, path);
    let pod = template.as_ref().and_then(|it| it.value().get("spec"));
    let restart_policy = pod.and_then(|pod| pod.get("restartPolicy")?.as_str());
    let restarts_containers = restart_policy == Some("OnFailure");
    let mut count = |value: i32, field| parser.count(value, &path.text(field));
    let mut limit = |value: Option<i32>, field| value.map(|value| count(value, field));
    let view = Job {
        restarts_containers,
        is_suspended: spec.suspend,
        parallelism: limit(spec.parallelism, ".spec.parallelism").unwrap_or(1),
        completions: limit(spec.completions, ".spec.completions"),
        backoff_limit: limit(spec.backoff_limit, ".spec.backoffLimit"),
        backoff_limit_per_index: limit(spec.backoff_limit_per_index, ".spec.backoffLimitPerIndex"),
        max_failed_indexes: limit(spec.max_failed_indexes, ".spec.maxFailedIndexes"),
        has_success_policy: spec.success_policy.is_some(),
        // The default with a podFailurePolicy (SetDefaults_Job in pkg/apis/batch/v1/defaults.go of Kubernetes).
        replaces_only_failed_pods: match &*spec.pod_replacement_policy {
            "" => spec.pod_failure_policy.is_some(),
            policy => policy == "Failed",
        },
        active_deadline_seconds: spec.active_deadline_seconds,
        ttl_seconds: limit(
            spec.ttl_seconds_after_finished,
            ".spec.ttlSecondsAfterFinished",
        ),
        managed_by: match &*spec.managed_by {
            "kubernetes.io/job-controller" => String::new(),
            _ => spec.managed_by,
        },
        start_time: status.start_time,
        active: count(status.active, ".status.active"),
        ready: count(status.ready, ".status.ready"),
        terminating: count(status.terminating, ".status.terminating"),
        succeeded: count(status.succeeded, ".status.succeeded"),
        failed: count(status.failed, ".status.failed"),
        failed_indexes: status.failed_indexes,
    };
    ObjectSnapshot {
        metadata: metadata(base.metadata, job.metadata),
        conditions: conditions(status.conditions),
        view: View::Job(view),
        template,
        ..base
    }
}

/// An object of a kind with few fields.
pub(super) fn small(object: kubernetes::SmallObject, base: ObjectSnapshot) -> ObjectSnapshot {
    let (spec, status) = (object.spec, object.status);
    let view = match &*base.kind {
        "CronJob" => View::CronJob(CronJob {
            is_suspended: spec.suspend,
            active: i32::try_from(status.active.len()).unwrap_or(i32::MAX),
            last_schedule: status.last_schedule_time,
            last_success: status.last_successful_time,
        }),
        "Pod" => View::Pod(SinglePod {
            is_always_restarted: matches!(&*spec.restart_policy, "" | "Always"),
        }),
        "PersistentVolumeClaim" => View::Claim(Claim {
            phase: status.phase,
        }),
        "Service" => {
            let ingress = status.load_balancer.ingress.into_iter();
            let addresses = ingress.map(|it| if it.ip.is_empty() { it.hostname } else { it.ip });
            View::Service(Service {
                is_load_balancer: spec.kind == "LoadBalancer",
                cluster_ip: spec.cluster_ip,
                addresses: addresses.filter(|address| !address.is_empty()).collect(),
            })
        }
        "CustomResourceDefinition" => View::Definition,
        _ => View::Stateless,
    };
    ObjectSnapshot {
        metadata: metadata(base.metadata, object.metadata),
        observed_generation: status.observed_generation,
        conditions: conditions(status.conditions),
        view,
        ..base
    }
}

/// The template of the pods of an object.
fn template(
    template: Option<kubernetes::TemplateJson<'_>>,
    parser: &mut Parser<'_>,
    path: &Path<'_>,
) -> Option<Template> {
    template.map(|template| parser.template(template, &path.text(".spec.template")))
}

/// The conditions with a type.
fn conditions(conditions: Vec<kubernetes::Condition>) -> Vec<Condition> {
    let conditions = conditions.into_iter().filter(|it| !it.kind.is_empty());
    let conditions = conditions.map(|it| Condition {
        kind: it.kind,
        status: it.status,
        reason: it.reason,
        message: it.message,
        observed_generation: it.observed_generation,
        last_transition_time: it.last_transition_time,
    });
    conditions.collect()
}

/// Adds the other metadata to the name, namespace and UID.
pub(super) fn metadata(identity: ObjectMeta, read: kubernetes::ObjectMeta) -> ObjectMeta {
    let owners = read.owner_references.into_iter();
    ObjectMeta {
        generation: read.generation,
        creation_timestamp: read.creation_timestamp,
        deletion_timestamp: read.deletion_timestamp,
        labels: read.labels,
        annotations: read.annotations,
        finalizers: read.finalizers,
        owner_references: owners.map(owner_reference).collect(),
        ..identity
    }
}
