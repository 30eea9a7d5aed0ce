//! Summaries of the objects in a request before planning: their target, and whether objects are missing.

use rollplan::proto;
use rollplan::wire::{Error, ObjectsSummary, Reason, summarize_objects};
use rollplan_core::interrupt::Never;
use serde_json::{Value, json};

use super::{examples, read};

/// The output of kubectl for a saved snapshot.
fn printed(example: &str) -> Value {
    serde_json::from_str(&read(format!("examples/{example}.json"))).unwrap()
}

fn summary(list: &Value, target: Option<proto::Target>) -> Result<ObjectsSummary, Error> {
    let snapshot = proto::Snapshot {
        objects: vec![list.to_string()],
        target,
        ..Default::default()
    };
    summarize_objects(&snapshot, &Never)
}

/// Whether the ReplicaSets and the pods appear to be complete.
fn complete(list: &Value) -> (bool, bool) {
    let summary = summary(list, None).unwrap();
    (summary.replica_sets_complete, summary.pods_complete)
}

fn target(name: &str) -> proto::Target {
    proto::Target {
        api_version: "apps/v1".to_owned(),
        kind: "Deployment".to_owned(),
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        resource: String::new(),
        status_subresource: None,
    }
}

fn items(list: &mut Value) -> &mut Vec<Value> {
    list["items"].as_array_mut().unwrap()
}

fn named<'a>(list: &'a mut Value, name: &str) -> &'a mut Value {
    let mut items = items(list).iter_mut();
    items
        .find(|item| item["metadata"]["name"] == name)
        .unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn output_of_kubectl_is_complete() {
    for (name, _) in examples() {
        let summary = summary(&printed(&name), None).unwrap();
        assert_eq!(summary.target, target("web"), "{name}");
        assert!(summary.replica_sets_complete, "{name}");
        assert!(summary.pods_complete, "{name}");
    }
}

#[test]
fn missing_replica_sets_are_detected() {
    let example = printed("mid-rollout");
    for (set, expected) in [
        ("web-67fc9594b8", false),
        ("web-779f94f8fc", false),
        // A ReplicaSet without pods that is not the latest: nothing indicates that it existed.
        ("web-5dc4f4f9bb", true),
    ] {
        let mut list = example.clone();
        items(&mut list).retain(|item| item["metadata"]["name"] != set);
        assert_eq!(complete(&list).0, expected, "{set}");
    }
    // The sizes add up, but the ReplicaSet of the annotated revision is missing.
    let mut list = printed("after-undo");
    let revision = "deployment.kubernetes.io/revision";
    named(&mut list, "web")["metadata"]["annotations"][revision] = json!("9");
    assert!(!complete(&list).0);
    named(&mut list, "web")["metadata"]["annotations"] = Value::Null;
    assert!(complete(&list).0);
}

#[test]
fn missing_pods_are_detected() {
    let mut list = printed("mid-rollout");
    let last = items(&mut list).iter().rposition(|it| it["kind"] == "Pod");
    items(&mut list).remove(last.unwrap());
    assert_eq!(complete(&list), (true, false));
    items(&mut list).retain(|item| item["kind"] != "Pod");
    assert_eq!(complete(&list), (true, false));
    // A list without pods is complete if every ReplicaSet of the namespace reports that it has none.
    let mut list = printed("recreate-waiting");
    items(&mut list).retain(|item| item["kind"] != "Pod");
    assert_eq!(complete(&list), (true, false));
    let set = named(&mut list, "web-5dc4f4f9bb");
    let generation = set["metadata"]["generation"].clone();
    set["status"] =
        json!({"replicas": 0, "terminatingReplicas": 0, "observedGeneration": generation});
    assert_eq!(complete(&list), (true, true));
    let mut stranger = named(&mut list, "web-5dc4f4f9bb").clone();
    stranger["metadata"]["name"] = json!("other");
    stranger["metadata"]["uid"] = json!("other");
    stranger["metadata"]["ownerReferences"][0]["uid"] = json!("another-owner");
    stranger["status"]["replicas"] = json!(1);
    items(&mut list).push(stranger);
    assert_eq!(complete(&list), (true, false));
    items(&mut list).last_mut().unwrap()["metadata"]["namespace"] = json!("elsewhere");
    assert_eq!(complete(&list), (true, true));
    named(&mut list, "web-5dc4f4f9bb")["status"]["observedGeneration"] = json!(0);
    assert_eq!(complete(&list), (true, false));
}

/// Owners other than Deployments report the number of their own pods.
#[test]
fn missing_pods_of_other_kinds_are_detected() {
    let pod = |owner: &str| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "shop",
            "ownerReferences": [{"uid": owner, "controller": true}]}})
    };
    for (api_version, kind, status) in [
        (
            "apps/v1",
            "StatefulSet",
            json!({"replicas": 2, "readyReplicas": 0}),
        ),
        ("apps/v1", "ReplicaSet", json!({"replicas": 2})),
        (
            "apps/v1",
            "DaemonSet",
            json!({"currentNumberScheduled": 2, "numberReady": 3}),
        ),
        ("batch/v1", "Job", json!({"active": 2, "failed": 3})),
    ] {
        let is_complete = |owners: &[&str], status: &Value| {
            let owner = json!({"apiVersion": api_version, "kind": kind, "status": status,
                "metadata": {"name": "web", "namespace": "shop", "uid": "u"}});
            let pods = owners.iter().map(|owner| pod(owner));
            let items: Vec<_> = [owner].into_iter().chain(pods).collect();
            let target = proto::Target {
                api_version: api_version.to_owned(),
                kind: kind.to_owned(),
                ..target("web")
            };
            let list = json!({"kind": "List", "items": items});
            summary(&list, Some(target)).unwrap().pods_complete
        };
        assert!(!is_complete(&[], &status), "{kind}");
        assert!(!is_complete(&["u"], &status), "{kind}");
        // Pods of other owners do not count.
        assert!(!is_complete(&["u", "another"], &status), "{kind}");
        assert!(is_complete(&["u", "u"], &status), "{kind}");
        assert!(is_complete(&["u", "u", "u"], &status), "{kind}");
        // It has not reported a number yet.
        assert!(is_complete(&[], &json!({})), "{kind}");
        assert!(is_complete(&[], &Value::Null), "{kind}");
    }
}

#[test]
fn continued_lists_are_incomplete() {
    let mut list = printed("mid-rollout");
    list["metadata"] = json!({"continue": ""});
    assert_eq!(complete(&list), (true, true));
    list["metadata"] = json!({"continue": "eyJ2Ijoi"});
    assert_eq!(complete(&list), (false, false));
    let outer = json!({"apiVersion": "v1", "kind": "List", "items": [list]});
    assert_eq!(complete(&outer), (false, false));
}

#[test]
fn summaries_are_refused_like_requests() {
    let mut list = printed("mid-rollout");
    let mut other = named(&mut list, "web").clone();
    other["metadata"]["name"] = json!("api");
    other["metadata"]["uid"] = json!("other");
    items(&mut list).push(other);
    let refused = |list: &Value, target| match summary(list, target) {
        Err(Error::InvalidArgument(violations)) => {
            let violation = &violations.listed[0];
            (violation.field.clone(), violation.reason)
        }
        other => panic!("{other:?}"),
    };
    let field = "snapshot.target".to_owned();
    assert_eq!(refused(&list, None), (field.clone(), Reason::Required));
    let named = |name: &str, resource: &str| {
        Some(proto::Target {
            name: name.to_owned(),
            resource: resource.to_owned(),
            ..Default::default()
        })
    };
    assert_eq!(refused(&list, named("db", "")), (field, Reason::NotFound));
    let summary = summary(&list, named("api", "deployments")).unwrap();
    let expected = proto::Target {
        resource: "deployments".to_owned(),
        ..target("api")
    };
    assert_eq!(summary.target, expected);
    assert!(!summary.replica_sets_complete);
}
