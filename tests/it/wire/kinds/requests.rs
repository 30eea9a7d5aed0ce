//! Requests about other kinds: violations, and extreme values.

use std::cell::Cell;

use rollplan::proto::{self, Phase};
use rollplan::service::MethodRequest as _;
use rollplan::wire::{Context, Error, OBJECT_BYTES_MAX};
use rollplan_core::interrupt::Interrupt;
use serde_json::{Value, json};

use super::{
    at, container, daemon_set, job, list, no_image, object, pod, ready, report, request, running,
    stateful_set, warning,
};
use crate::request::ITEMS;

fn violations(request: proto::ComputeStatusRequest) -> Vec<(String, String)> {
    match rollplan::service::answer(request) {
        Ok(response) => panic!("{response:?}"),
        Err(Error::InvalidArgument(all)) => {
            let listed = all.listed.into_iter();
            listed
                .map(|it| (it.field, it.reason.as_str().to_owned()))
                .collect()
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn violations_of_other_kinds_name_their_field() {
    for (pointer, value, field, reason) in [
        ("/spec", json!(1), "spec", "WRONG_TYPE"),
        ("/spec/replicas", json!("3"), "spec.replicas", "WRONG_TYPE"),
        ("/spec/replicas", json!(-1), "spec.replicas", "NEGATIVE"),
        (
            "/spec/replicas",
            json!(1_i64 << 40),
            "spec.replicas",
            "OUT_OF_RANGE",
        ),
        (
            "/status/conditions",
            json!({}),
            "status.conditions",
            "WRONG_TYPE",
        ),
        (
            "/metadata/deletionTimestamp",
            json!("today"),
            "metadata.deletionTimestamp",
            "WRONG_TYPE",
        ),
        ("/metadata/name", json!(""), "metadata.name", "REQUIRED"),
    ] {
        let mut set = stateful_set(json!({}), json!({}));
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        set.pointer_mut(parent).unwrap()[key] = value;
        let expected = (format!("{ITEMS}[0].{field}"), reason.to_owned());
        assert!(
            violations(request(0, &set, &[])).contains(&expected),
            "{field}"
        );
    }
    let mut without_time = request(0, &stateful_set(json!({}), json!({})), &[]);
    without_time.snapshot.as_mut().unwrap().now = None;
    assert_eq!(
        violations(without_time),
        [("snapshot.now".to_owned(), "REQUIRED".to_owned())]
    );
    // Unused fields and unselected objects may be invalid.
    let mut set = stateful_set(json!({}), json!({}));
    set["spec"]["serviceName"] = json!({"odd": []});
    set["status"]["collisionCount"] = json!("many");
    let mut stranger = pod("x", &set, "", "n", json!({"phase": 7}));
    stranger["metadata"]["ownerReferences"] = json!([]);
    assert_eq!(report(0, &set, &[stranger]).phase(), Phase::Complete);
}

#[test]
fn only_deployments_are_planned_and_only_kinds_with_revisions_are_rolled_back() {
    let snapshot = request(0, &stateful_set(json!({}), json!({})), &[]).snapshot;
    let plan = rollplan::service::answer(proto::PlanRolloutRequest {
        snapshot,
        ..Default::default()
    });
    // StatefulSets and DaemonSets have revisions, but other kinds of Kubernetes do not.
    let job = object("batch/v1", "Job", "migrate", json!({}), json!({}));
    let snapshot = request(0, &job, &[]).snapshot;
    let rollback = rollplan::service::answer(proto::RollbackRequest {
        snapshot: snapshot.clone(),
        ..Default::default()
    });
    let list = rollplan::service::answer(proto::ListRevisionsRequest { snapshot });
    for error in [plan.unwrap_err(), rollback.unwrap_err(), list.unwrap_err()] {
        let Error::InvalidArgument(all) = error else {
            panic!("{error}");
        };
        let first = &all.listed[0];
        assert_eq!(
            (&*first.field, first.reason.as_str()),
            ("snapshot.target.kind", "WRONG_KIND")
        );
        assert!(
            first
                .description
                .contains("ComputeStatus reports on every kind"),
            "{first:?}"
        );
    }
}

/// Counts the checks for an interrupt.
struct Asked(Cell<usize>);

impl Interrupt for Asked {
    fn is_interrupted(&self) -> bool {
        self.0.set(self.0.get() + 1);
        false
    }
}

#[test]
fn custom_deployments_are_scanned_once() {
    let of = |api_version: &str, kind: &str| {
        let spec = json!({"replicas": 1, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web"}]}}});
        let target = object(api_version, kind, "web", spec, json!({}));
        let mut ask = request(0, &target, &[]);
        let other = object("v1", "ConfigMap", "other", json!({}), json!({}));
        let others = (0..100).map(|_| other.to_string());
        let texts = [target.to_string()].into_iter().chain(others);
        ask.snapshot.as_mut().unwrap().objects = texts.collect();
        let asked = Asked(Cell::default());
        let answer = ask.answer(&mut Context::until(&asked)).unwrap();
        assert!(answer.report.unwrap().counters.is_empty());
        asked.0.get()
    };
    let expected = of("apps/v1", "Deployment");
    assert!((100..200).contains(&expected), "{expected}");
    assert_eq!(of("example.com/v1", "Rollout"), expected);
}

#[test]
fn objects_of_other_kinds_are_limited_in_size() {
    let found = |bytes: usize| {
        let mut set = stateful_set(json!({}), json!({}));
        set["spec"]["padding"] = "x".repeat(bytes).into();
        violations(request(0, &set, &[]))
    };
    for bytes in [3 << 20, 4 << 20] {
        let field = format!("{ITEMS}[0]");
        assert_eq!(found(bytes), [(field, "OBJECT_TOO_LARGE".to_owned())]);
    }
    let mut set = stateful_set(json!({}), json!({}));
    set["spec"]["padding"] = json!("");
    let largest = OBJECT_BYTES_MAX - set.to_string().len();
    set["spec"]["padding"] = "x".repeat(largest).into();
    assert_eq!(report(0, &set, &[]).phase(), Phase::Complete);
    let field = format!("{ITEMS}[0]");
    assert_eq!(found(largest + 1), [(field, "OBJECT_TOO_LARGE".to_owned())]);
    let mut twice = request(0, &stateful_set(json!({}), json!({})), &[]);
    let text = list(&[stateful_set(json!({}), json!({}))]).to_string();
    let text = text.replacen("\"spec\":{", "\"spec\":{},\"spec\":{", 1);
    twice.snapshot.as_mut().unwrap().objects = vec![text];
    let field = format!("{ITEMS}[0].spec");
    assert_eq!(violations(twice), [(field, "DUPLICATE_KEY".to_owned())]);
}

/// Other fields have other meanings, for example a canary.
#[test]
fn custom_resources_with_other_specs_are_not_planned() {
    let is_planned = |changes: &[(&str, Value)]| {
        let mut spec = json!({"replicas": 1, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web"}]}}});
        for (field, value) in changes {
            spec[field] = value.clone();
        }
        let object = object("example.com/v1", "Rollout", "web", spec, json!({}));
        let mut request = request(60, &object, &[]);
        let snapshot = request.snapshot.as_mut().unwrap();
        snapshot.target.as_mut().unwrap().resource = "rollouts".to_owned();
        snapshot.replica_sets_complete = true;
        rollplan::service::answer(request).unwrap().status.is_some()
    };
    for strategy in [
        json!({}),
        json!({"type": "Recreate"}),
        json!({"rollingUpdate": {}}),
    ] {
        assert!(is_planned(&[("strategy", strategy.clone())]), "{strategy}");
    }
    for change in [
        ("strategy", json!({"canary": {}})),
        ("strategy", json!({"type": "Recreate", "blueGreen": {}})),
        ("selector", json!({"app": "web"})),
        ("selector", json!(null)),
        ("template", json!({"metadata": {}})),
        ("updateStrategy", json!({"type": "OnDelete"})),
        ("workloadRef", json!({"name": "web"})),
    ] {
        assert!(!is_planned(std::slice::from_ref(&change)), "{change:?}");
    }
}

#[test]
fn events_are_about_the_workload_and_its_pods() {
    let set = stateful_set(
        json!({}),
        json!({"readyReplicas": 2, "replicas": 2, "updatedReplicas": 2}),
    );
    let creating = json!({"containerStatuses": container(json!({"waiting": {"reason": "ContainerCreating"}}))});
    let pod = pod("web-0", &set, "web-new", "n", creating);
    let mount = "MountVolume.SetUp failed for volume \"c\" : configmap \"c\" not found";
    let plain = report(60, &set, std::slice::from_ref(&pod));
    for (uid, reason, message, is_about) in [
        ("web-uid", "FailedCreate", "exceeded quota: q", true),
        ("web-0-uid", "FailedMount", mount, true),
        ("another", "FailedCreate", "exceeded quota: q", false),
        ("", "FailedCreate", "exceeded quota: q", false),
    ] {
        let event = warning(uid, reason, message, 0, 50);
        let with_event = report(60, &set, &[pod.clone(), event]);
        assert_eq!(with_event != plain, is_about, "{uid:?}");
    }
}

/// Each number and each string of every kind is replaced by an extreme one: the result is an answer or a violation, never a
/// panic.
#[test]
fn absurd_values_never_panic() {
    let set = stateful_set(
        json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1, "maxUnavailable": "50%"}},
               "ordinals": {"start": 5}, "minReadySeconds": 10}),
        json!({"updatedReplicas": 1, "currentRevision": "web-old", "readyReplicas": 1, "availableReplicas": 1}),
    );
    let daemon = daemon_set(
        json!({"updateStrategy": {"rollingUpdate": {"maxSurge": "10%", "maxUnavailable": 2}}}),
        json!({"updatedNumberScheduled": 1, "numberAvailable": 1}),
    );
    let targets = [
        set.clone(),
        daemon,
        job(
            json!({"completions": 3, "parallelism": 2, "backoffLimit": 1, "activeDeadlineSeconds": 60}),
            json!({"startTime": at(0), "active": 1, "failed": 1, "succeeded": 1, "terminating": 1}),
        ),
        object(
            "apps/v1",
            "ReplicaSet",
            "web",
            json!({"replicas": 3}),
            json!({"observedGeneration": 1, "replicas": 2}),
        ),
        object(
            "batch/v1",
            "CronJob",
            "c",
            json!({"suspend": true}),
            json!({"lastScheduleTime": at(0), "active": []}),
        ),
        object(
            "v1",
            "Service",
            "s",
            json!({"type": "LoadBalancer", "clusterIP": "10.0.0.1"}),
            json!({"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}]}}),
        ),
        object(
            "example.com/v1",
            "Database",
            "d",
            json!({}),
            json!({"conditions": [{"type": "Ready", "status": "False", "observedGeneration": 1}], "phase": "x", "health": 1}),
        ),
        object(
            "argoproj.io/v1alpha1",
            "Rollout",
            "r",
            json!({"replicas": 3, "paused": false}),
            json!({"phase": "Healthy", "observedGeneration": "1", "workloadObservedGeneration": "1", "readyReplicas": 1}),
        ),
        object(
            "gateway.networking.k8s.io/v1",
            "HTTPRoute",
            "h",
            json!({}),
            json!({"parents": [{"conditions": [{"type": "Accepted", "status": "True", "observedGeneration": 1}]}]}),
        ),
        object(
            "elasticsearch.k8s.elastic.co/v1",
            "Elasticsearch",
            "e",
            json!({"nodeSets": [{"count": 1}, {"count": 2}]}),
            json!({"phase": "Ready", "health": "green", "availableNodes": 3}),
        ),
    ];
    let absurd = [
        json!(i64::MIN),
        json!(i64::MAX),
        json!(i32::MAX),
        json!(-1),
        json!(0),
        json!(1e300),
        json!(0.5),
        json!(""),
        json!("\u{0}\u{1b}[31m\u{202e}"),
        json!("9999-12-31T23:59:59Z"),
        json!("0001-01-01T00:00:00Z"),
        json!("200%"),
        json!("2147483647%"),
        json!(null),
        json!(true),
        json!([]),
        json!({}),
        json!([[]]),
        json!([null]),
    ];
    let mut tried = 0;
    for target in &targets {
        let others = [
            pod("web-5", target, "web-old", "n", no_image()),
            pod("web-6", target, "web-new", "n", ready()),
            pod("web-99999999999999999999", target, "web-new", "", running()),
            warning("web-uid", "FailedCreate", "no", 0, 9),
        ];
        for pointer in leaves(target, String::new()) {
            if pointer.starts_with("/apiVersion")
                || pointer.starts_with("/kind")
                || pointer == "/metadata/name"
            {
                continue;
            }
            for value in &absurd {
                let mut odd = target.clone();
                *odd.pointer_mut(&pointer).unwrap() = value.clone();
                for now in [-1 << 34, 0, 1000, 1 << 37] {
                    _ = rollplan::service::answer(request(now, &odd, &others));
                    tried += 1;
                }
            }
        }
    }
    assert!(tried > 5000, "{tried}");
}

fn leaves(value: &Value, path: String) -> Vec<String> {
    let mut all = vec![path.clone()];
    match value {
        Value::Object(entries) => {
            for (key, inner) in entries {
                let key = key.replace('~', "~0").replace('/', "~1");
                all.extend(leaves(inner, format!("{path}/{key}")));
            }
        }
        Value::Array(items) => {
            for (index, inner) in items.iter().enumerate() {
                all.extend(leaves(inner, format!("{path}/{index}")));
            }
        }
        _ => {}
    }
    all.retain(|path| !path.is_empty());
    all
}
