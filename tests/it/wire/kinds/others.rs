//! Unknown kinds, ReplicaSets, single pods, and kinds without pods.

use rollplan::proto::{Outlook, Phase, RolloutReport};
use serde_json::{Value, json};

use super::{
    check, condition, container, never_ready, no_image, object, pod, ready, report, running,
    stateful_set, unready, warning,
};

/// The report on a pod without an owner.
fn single_pod(now: i64, spec: Value, status: Value) -> RolloutReport {
    let owner = object("v1", "Other", "o", Value::Null, Value::Null);
    let mut pod = pod("web", &owner, "", "n", status);
    pod["metadata"]["ownerReferences"] = json!([]);
    for (key, value) in spec.as_object().unwrap() {
        pod["spec"][key] = value.clone();
    }
    report(now, &pod, &[])
}

fn replica_set(replicas: i32, status: Value) -> Value {
    let mut counts = json!({"observedGeneration": 1});
    for (key, value) in status.as_object().unwrap() {
        counts[key] = value.clone();
    }
    object(
        "apps/v1",
        "ReplicaSet",
        "web",
        json!({"replicas": replicas}),
        counts,
    )
}

/// The report on a definition with these conditions.
fn definition(conditions: Value) -> RolloutReport {
    let status = json!({"conditions": conditions});
    let version = "apiextensions.k8s.io/v1";
    let object = object(
        version,
        "CustomResourceDefinition",
        "webs",
        json!({}),
        status,
    );
    report(60, &object, &[])
}

#[test]
fn replica_set_reports_counters_and_rejections() {
    let set = replica_set(
        2,
        json!({"replicas": 2,
        "fullyLabeledReplicas": 2, "readyReplicas": 2, "availableReplicas": 2}),
    );
    let message = "replicaset \"web\" is complete (2 of 2 available)";
    check(
        &report(60, &set, &[]),
        Phase::Complete,
        Outlook::Complete,
        true,
        "",
        message,
    );
    let set = replica_set(
        2,
        json!({"conditions": condition("ReplicaFailure", "FailedCreate", "exceeded quota: q")}),
    );
    let message = "replicaset \"web\" is not complete (0 of 2 available): the API server rejects the pods (FailedCreate): \
                   exceeded quota: q";
    check(
        &report(60, &set, &[]),
        Phase::Progressing,
        Outlook::Undecided,
        false,
        "PODS_REFUSED",
        message,
    );
}

#[test]
fn single_pods_are_reported() {
    check(
        &single_pod(60, json!({}), ready()),
        Phase::Complete,
        Outlook::Complete,
        true,
        "",
        "pod \"web\" is ready",
    );
    let succeeded = json!({"phase": "Succeeded"});
    check(
        &single_pod(60, json!({}), succeeded),
        Phase::Complete,
        Outlook::Complete,
        true,
        "",
        "pod \"web\" has succeeded",
    );
    let failed = json!({"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."});
    let message = "pod \"web\" has failed: Evicted: The node was low on resource: memory.";
    check(
        &single_pod(60, json!({}), failed),
        Phase::Stalled,
        Outlook::NeedsChange,
        true,
        "POD_FAILED",
        message,
    );
    let report = single_pod(600, json!({}), no_image());
    assert_eq!(
        (report.phase(), &*report.blockers[0].reason),
        (Phase::Stalled, "IMAGE_PULL")
    );
    // The spec of the pod itself contains its probes.
    let probe = json!({"containers": [{"name": "web", "readinessProbe": {"httpGet": {"path": "/ok", "port": 8080}}}]});
    let report = single_pod(60, probe, running());
    assert!(
        report
            .message
            .contains("readiness probe GET :8080/ok has not passed yet"),
        "{}",
        report.message
    );
    let cut = json!({"phase": "Running", "containerStatuses": container(json!({"terminated": {"exitCode": 0}}))});
    let message = "pod \"web\" is not ready: its containers have terminated or are running, but it is not ready";
    let never = single_pod(60, json!({"restartPolicy": "Never"}), cut);
    check(
        &never,
        Phase::Progressing,
        Outlook::Undecided,
        false,
        "NOT_READY",
        message,
    );
}

#[test]
fn claims_and_services_are_reported() {
    let claim = |phase: &str| {
        object(
            "v1",
            "PersistentVolumeClaim",
            "data",
            json!({}),
            json!({"phase": phase}),
        )
    };
    let report_of = |object: &Value, events: &[Value]| report(60, object, events);
    let bound = report_of(&claim("Bound"), &[]);
    check(
        &bound,
        Phase::Complete,
        Outlook::Complete,
        true,
        "",
        "persistentvolumeclaim \"data\" is bound",
    );
    let lost = report_of(&claim("Lost"), &[]);
    let message = "persistentvolumeclaim \"data\" is lost: its PersistentVolume no longer exists";
    check(
        &lost,
        Phase::Stalled,
        Outlook::NeedsChange,
        true,
        "NOT_BOUND",
        message,
    );
    let event = warning(
        "data-uid",
        "ProvisioningFailed",
        "storageclass.storage.k8s.io \"fast\" not found",
        0,
        50,
    );
    let message = "persistentvolumeclaim \"data\" is not bound: ProvisioningFailed: storageclass.storage.k8s.io \"fast\" not \
                   found";
    let failed = report_of(&claim("Pending"), &[event]);
    check(
        &failed,
        Phase::Progressing,
        Outlook::Undecided,
        false,
        "NOT_BOUND",
        message,
    );
    let event = warning(
        "data-uid",
        "WaitForFirstConsumer",
        "waiting for first consumer",
        0,
        50,
    );
    let unused = report_of(&claim("Pending"), &[event]);
    let message = "persistentvolumeclaim \"data\" has nothing to wait for: its StorageClass binds it when the first pod uses it";
    check(
        &unused,
        Phase::Complete,
        Outlook::Complete,
        false,
        "",
        message,
    );
    let service = |kind: &str, ingress| {
        let spec = json!({"type": kind, "clusterIP": "10.0.0.1"});
        object(
            "v1",
            "Service",
            "web",
            spec,
            json!({"loadBalancer": {"ingress": ingress}}),
        )
    };
    let ready = report_of(&service("ClusterIP", json!([])), &[]);
    check(
        &ready,
        Phase::Complete,
        Outlook::Complete,
        true,
        "",
        "service \"web\" is ready",
    );
    let waiting = report_of(&service("LoadBalancer", json!([])), &[]);
    let message = "service \"web\" is not ready: its load balancer has no address yet";
    check(
        &waiting,
        Phase::Progressing,
        Outlook::Undecided,
        false,
        "NO_ADDRESS",
        message,
    );
    let ready = report_of(
        &service("LoadBalancer", json!([{"hostname": "lb.example"}])),
        &[],
    );
    let message = "service \"web\" has a load balancer at lb.example";
    check(
        &ready,
        Phase::Complete,
        Outlook::Complete,
        true,
        "",
        message,
    );
}

/// Fields of another type than usual are ignored.
#[test]
fn odd_statuses_of_unknown_kinds_are_not_judged() {
    for status in [
        json!({}),
        json!([1, 2]),
        json!({"conditions": {"Ready": "yes"}, "observedGeneration": "1"}),
        json!({"conditions": [{"type": 1, "status": true}, 7, null], "phase": ["Ready"]}),
    ] {
        let object = object(
            "example.com/v1",
            "Database",
            "main",
            json!({}),
            status.clone(),
        );
        let report = report(60, &object, &[]);
        let verdict = report.verdict.clone().unwrap();
        assert!(report.generic, "{status}");
        let found = (
            report.phase(),
            verdict.outlook(),
            verdict.certain,
            &*verdict.reason,
        );
        let expected = (Phase::NotJudged, Outlook::NotJudged, false, "NOT_JUDGED");
        assert_eq!(found, expected, "{status}");
    }
    let known = report(60, &stateful_set(json!({}), json!({})), &[]);
    assert!(!known.generic);
}

#[test]
fn objects_without_a_status_are_complete_when_they_exist() {
    for kind in ["ConfigMap", "Secret"] {
        let object = object("v1", kind, "app", Value::Null, Value::Null);
        let report = report(60, &object, &[]);
        let message = format!("{} \"app\" exists", kind.to_lowercase());
        check(
            &report,
            Phase::Complete,
            Outlook::Complete,
            true,
            "",
            &message,
        );
    }
}

#[test]
fn definitions_are_complete_when_they_are_established() {
    let of = |established: &str| {
        definition(json!([{"type": "Established", "status": established, "reason": "Installing"}]))
    };
    let established = of("True");
    assert_eq!(established.phase(), Phase::Complete);
    assert!(
        established.message.ends_with("is established"),
        "{}",
        established.message
    );
    assert_eq!(of("False").phase(), Phase::Progressing);
    for (kind, phase) in [
        ("NonStructuralSchema", Phase::Stalled),
        ("Terminating", Phase::Progressing),
    ] {
        let conditions =
            json!([{"type": "Established", "status": "True"}, {"type": kind, "status": "True"}]);
        assert_eq!(definition(conditions).phase(), phase, "{kind}");
    }
}

/// A UID is needed only to find the pods of an owner.
#[test]
fn single_pods_need_no_uid() {
    let owner = object("v1", "Other", "o", Value::Null, Value::Null);
    let mut pod = pod("web", &owner, "", "n", ready());
    pod["metadata"]["ownerReferences"] = json!([]);
    let whole = report(60, &pod, &[]);
    pod["metadata"].as_object_mut().unwrap().remove("uid");
    assert_eq!(report(60, &pod, &[]), whole);
}

#[test]
fn definition_whose_names_are_taken_has_failed() {
    let of = |names: &str, established: &str| {
        definition(json!([
            {"type": "NamesAccepted", "status": names, "reason": "PluralConflict", "message": "\"webs\" is already in use"},
            {"type": "Established", "status": established, "reason": "Installing"},
        ]))
    };
    let refused = of("False", "False");
    check(
        &refused,
        Phase::Stalled,
        Outlook::NeedsChange,
        true,
        "CONDITION_FALSE",
        "customresourcedefinition \"webs\" has failed: it is not accepted (PluralConflict): \"webs\" is already in use",
    );
    assert_eq!(of("True", "True").phase(), Phase::Complete);
}

#[test]
fn failed_pod_names_its_container() {
    let statuses = json!([
        {"name": "log", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}},
        {"name": "web", "state": {"terminated": {"exitCode": 3, "reason": "Error"}}},
    ]);
    let failed = json!({"phase": "Failed", "containerStatuses": statuses});
    let report = single_pod(60, json!({}), failed);
    let message = "pod \"web\" has failed: container web: Error, exit code 3";
    check(
        &report,
        Phase::Stalled,
        Outlook::NeedsChange,
        true,
        "POD_FAILED",
        message,
    );
    let remedy = "read its log: kubectl logs web -n shop -c web";
    assert_eq!(report.verdict.unwrap().remedy, remedy);
}

#[test]
fn pods_that_were_ready_are_degraded() {
    let set = replica_set(1, json!({"replicas": 1, "fullyLabeledReplicas": 1}));
    let found = report(60, &set, &[pod("web", &set, "", "n", unready())]);
    assert_eq!(found.phase(), Phase::Degraded);
    assert!(
        found
            .message
            .starts_with("replicaset \"web\" is degraded (0 of 1 available)"),
        "{}",
        found.message
    );
    let found = single_pod(60, json!({}), unready());
    assert_eq!(found.phase(), Phase::Degraded);
    assert!(
        found.message.starts_with("pod \"web\" is degraded: "),
        "{}",
        found.message
    );
}

#[test]
fn replica_set_without_pods_in_the_request_explains_its_counters() {
    for (replicas, available, expected) in [
        (2, 1, "1 pod is not available yet"),
        (3, 2, "1 pod is still to be removed"),
        (2, 2, "some pods do not have the labels of the template"),
    ] {
        let status = json!({"replicas": replicas, "fullyLabeledReplicas": 0,
            "readyReplicas": available, "availableReplicas": available});
        let set = replica_set(2, status);
        assert_eq!(report(60, &set, &[]).blockers[0].message, expected);
    }
}

#[test]
fn stalled_pod_is_named_stalled() {
    let found = single_pod(600, json!({}), no_image());
    assert!(
        found.message.starts_with("pod \"web\" is stalled: "),
        "{}",
        found.message
    );
}

#[test]
fn verdict_on_an_object_that_is_being_deleted_names_its_kind() {
    let mut set = stateful_set(json!({}), json!({}));
    set["metadata"]["deletionTimestamp"] = json!(super::at(50));
    let verdict = report(60, &set, &[]).verdict.unwrap();
    assert_eq!(
        (&*verdict.reason, &*verdict.message),
        ("DELETING", "the StatefulSet is being deleted")
    );
}

/// What other pods have overcome may be a problem of a node.
#[test]
fn replica_set_does_not_fail_while_a_pod_is_ready() {
    let phase = |ready: i64| {
        let set = replica_set(
            2,
            json!({"replicas": 1, "fullyLabeledReplicas": 1, "readyReplicas": ready}),
        );
        let pod = pod("web", &set, "", "n", no_image());
        report(6000, &set, &[pod]).phase()
    };
    assert_eq!([phase(0), phase(1)], [Phase::Stalled, Phase::Progressing]);
}

#[test]
fn replica_set_is_complete_only_if_all_counters_agree() {
    for field in [
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
    ] {
        let mut status = json!({"replicas": 2, "fullyLabeledReplicas": 2, "readyReplicas": 2,
            "availableReplicas": 2});
        status[field] = json!(1);
        let set = replica_set(2, status);
        assert_eq!(report(60, &set, &[]).phase(), Phase::Progressing, "{field}");
    }
}

#[test]
fn service_without_a_cluster_ip_is_not_ready() {
    let service = object(
        "v1",
        "Service",
        "web",
        json!({"type": "LoadBalancer"}),
        json!({}),
    );
    check(
        &report(60, &service, &[]),
        Phase::Progressing,
        Outlook::Undecided,
        false,
        "NO_ADDRESS",
        "service \"web\" is not ready: it has no cluster IP address yet",
    );
}

#[test]
fn claim_that_cannot_be_provisioned_names_the_storage_class() {
    let claim = object(
        "v1",
        "PersistentVolumeClaim",
        "data",
        json!({}),
        json!({"phase": "Pending"}),
    );
    let remedy = |reason: &str| {
        let event = warning("data-uid", reason, "no", 0, 50);
        report(60, &claim, &[event]).blockers.remove(0).remedy
    };
    let class = "check storageClassName and its provisioner: kubectl get storageclass";
    assert_eq!(remedy("ProvisioningFailed"), class);
    assert_eq!(remedy("FailedBinding"), class);
}

#[test]
fn definition_that_is_not_established_has_failed_unless_it_is_being_installed() {
    let phase = |status: &str, reason: &str| {
        definition(json!([{"type": "Established", "status": status, "reason": reason}])).phase()
    };
    assert_eq!(phase("False", "NotAccepted"), Phase::Stalled);
    assert_eq!(phase("False", "Installing"), Phase::Progressing);
    assert_eq!(phase("True", "InitialNamesAccepted"), Phase::Complete);
}

#[test]
fn only_warnings_about_load_balancers_explain_a_service() {
    let spec = json!({"type": "LoadBalancer", "clusterIP": "10.0.0.1"});
    let service = object("v1", "Service", "web", spec, json!({}));
    let message = |kind: &str, reason: &str| {
        let mut event = warning("web-uid", reason, "no quota", 0, 50);
        event["type"] = json!(kind);
        report(60, &service, &[event]).blockers.remove(0).message
    };
    let none = "its load balancer has no address yet";
    assert_eq!(
        message("Warning", "SyncLoadBalancerFailed"),
        "its load balancer cannot be provisioned: no quota"
    );
    assert_eq!(message("Normal", "EnsuringLoadBalancer"), none);
    assert_eq!(message("Warning", "FailedToUpdateEndpointSlices"), none);
}

#[test]
fn failed_pod_without_a_reason_has_its_message() {
    let of = |status| single_pod(60, json!({}), status).blockers.remove(0).message;
    assert_eq!(of(json!({"phase": "Failed"})), "it has failed");
    assert_eq!(
        of(json!({"phase": "Failed", "message": "the node is gone"})),
        "it has failed: the node is gone"
    );
}

#[test]
fn replica_set_whose_pods_have_never_been_ready_is_stalled() {
    let set = replica_set(1, json!({"replicas": 1, "fullyLabeledReplicas": 1}));
    let found = report(6000, &set, &[pod("web", &set, "", "n", never_ready())]);
    assert_eq!(found.phase(), Phase::Stalled);
    assert!(
        found
            .message
            .starts_with("replicaset \"web\" is stalled (0 of 1 available): "),
        "{}",
        found.message
    );
}
