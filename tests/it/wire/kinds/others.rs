//! Unknown kinds, ReplicaSets, single pods, and kinds without pods.

use rollplan::proto::{Outlook, Phase};
use serde_json::{Value, json};

use super::{
    check, condition, container, no_image, object, pod, ready, report, running, stateful_set,
    warning,
};

#[test]
fn replica_set_reports_counters_and_rejections() {
    let set = object(
        "apps/v1",
        "ReplicaSet",
        "web",
        json!({"replicas": 2}),
        json!({"observedGeneration": 1, "replicas": 2,
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
    let set = object(
        "apps/v1",
        "ReplicaSet",
        "web",
        json!({"replicas": 2}),
        json!({"observedGeneration": 1,
        "conditions": condition("ReplicaFailure", "FailedCreate", "exceeded quota: q")}),
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
    let of = |now, spec: Value, status| {
        let owner = object("v1", "Other", "o", Value::Null, Value::Null);
        let mut pod = pod("web", &owner, "", "n", status);
        pod["metadata"]["ownerReferences"] = json!([]);
        for (key, value) in spec.as_object().unwrap() {
            pod["spec"][key] = value.clone();
        }
        report(now, &pod, &[])
    };
    check(
        &of(60, json!({}), ready()),
        Phase::Complete,
        Outlook::Complete,
        true,
        "",
        "pod \"web\" is ready",
    );
    let succeeded = json!({"phase": "Succeeded"});
    check(
        &of(60, json!({}), succeeded),
        Phase::Complete,
        Outlook::Complete,
        true,
        "",
        "pod \"web\" has succeeded",
    );
    let failed = json!({"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."});
    let message = "pod \"web\" has failed: Evicted: The node was low on resource: memory.";
    check(
        &of(60, json!({}), failed),
        Phase::Stalled,
        Outlook::NeedsChange,
        true,
        "POD_FAILED",
        message,
    );
    let report = of(600, json!({}), no_image());
    assert_eq!(
        (report.phase(), &*report.blockers[0].reason),
        (Phase::Stalled, "IMAGE_PULL")
    );
    // The spec of the pod itself contains its probes.
    let probe = json!({"containers": [{"name": "web", "readinessProbe": {"httpGet": {"path": "/ok", "port": 8080}}}]});
    let report = of(60, probe, running());
    assert!(
        report
            .message
            .contains("readiness probe GET :8080/ok has not passed yet"),
        "{}",
        report.message
    );
    let cut = json!({"phase": "Running", "containerStatuses": container(json!({"terminated": {"exitCode": 0}}))});
    let message = "pod \"web\" is not ready: its containers have terminated or are running, but it is not ready";
    let never = of(60, json!({"restartPolicy": "Never"}), cut);
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
    let definition = |established: &str| {
        let conditions =
            json!([{"type": "Established", "status": established, "reason": "Installing"}]);
        let status = json!({"conditions": conditions});
        let version = "apiextensions.k8s.io/v1";
        let object = object(
            version,
            "CustomResourceDefinition",
            "webs.example.com",
            json!({}),
            status,
        );
        report(60, &object, &[])
    };
    let established = definition("True");
    assert_eq!(established.phase(), Phase::Complete);
    assert!(
        established.message.ends_with("is established"),
        "{}",
        established.message
    );
    assert_eq!(definition("False").phase(), Phase::Progressing);
    for (kind, phase) in [
        ("NonStructuralSchema", Phase::Stalled),
        ("Terminating", Phase::Progressing),
    ] {
        let conditions =
            json!([{"type": "Established", "status": "True"}, {"type": kind, "status": "True"}]);
        let status = json!({"conditions": conditions});
        let version = "apiextensions.k8s.io/v1";
        let object = object(
            version,
            "CustomResourceDefinition",
            "webs",
            json!({}),
            status,
        );
        assert_eq!(report(60, &object, &[]).phase(), phase, "{kind}");
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
