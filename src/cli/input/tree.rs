//! The objects that an object has created, for display: ReplicaSets and pods, with the state of their containers.

use std::collections::HashMap;

use rollplan_core::interrupt::Never;
use rollplan_health::observe::is_creating;
use serde_json::Value;

use rollplan_text::time;
use rollplan_wire as wire;
use rollplan_wire::objects::{FIELD, Metadata, Objects};

/// The maximum depth of owners: a CronJob has Jobs, and Jobs have pods.
const DEPTH_MAX: usize = 4;

/// An object, and the objects that it controls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Node {
    /// For example "ReplicaSet web-7d9". For a pod, its name only.
    pub(in crate::cli) label: String,
    pub(in crate::cli) state: String,
    pub(in crate::cli) health: Health,
    /// How often the containers of a pod have been restarted.
    pub(in crate::cli) restarts: i64,
    /// The time of its creation, in seconds since 1970.
    pub(in crate::cli) created: Option<i64>,
    pub(in crate::cli) place: Place,
    pub(in crate::cli) children: Vec<Self>,
}

/// What an object runs, or where it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Place {
    /// The node of a pod. Empty before it is scheduled.
    Node(String),
    /// The images of a template.
    Images(Vec<String>),
}

/// The health of a node, ordered from bad to good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::cli) enum Health {
    Failing,
    Waiting,
    Ending,
    Ready,
}

struct OwnedObject {
    kind: String,
    name: String,
    uid: String,
    value: Value,
}

/// The objects that the object with this UID controls, the newest first. `texts` are those of a request.
pub(in crate::cli) fn tree(texts: &[String], uid: &str) -> Vec<Node> {
    let mut violations = wire::Violations::default();
    let Ok(Objects { found, .. }) = Objects::find(FIELD, texts, &mut violations, &Never) else {
        return Vec::new();
    };
    let mut owned: HashMap<String, Vec<OwnedObject>> = HashMap::new();
    for object in found {
        let Metadata { name, uid, .. } = &object.metadata;
        let Some(controller) = object.metadata.controller_uid() else {
            continue;
        };
        let owned = owned.entry(controller.to_owned()).or_default();
        owned.push(OwnedObject {
            kind: object.kind.clone().into_owned(),
            name: name.clone().into_owned(),
            uid: uid.clone().into_owned(),
            value: serde_json::from_str(object.text()).unwrap_or_default(),
        });
    }
    children(&owned, uid, 0)
}

fn children(owned: &HashMap<String, Vec<OwnedObject>>, uid: &str, depth: usize) -> Vec<Node> {
    let mut objects: Vec<&OwnedObject> = owned.get(uid).into_iter().flatten().collect();
    if depth > DEPTH_MAX {
        return Vec::new();
    }
    // The newest first: by their revision, because a rollback makes an old ReplicaSet the new one, and then by their time.
    objects.sort_by(|a, b| {
        let revisions = revision_number(b).cmp(&revision_number(a));
        let times = || created(b).cmp(created(a));
        revisions.then_with(times).then_with(|| a.name.cmp(&b.name))
    });
    let nodes = objects
        .into_iter()
        .filter_map(|object| match object.kind.as_str() {
            "Pod" => Some(pod(object)),
            kind => {
                let children = children(owned, &object.uid, depth + 1);
                match kind {
                    "Job" => Some(job(object, children)),
                    _ => owner(object, children),
                }
            }
        });
    let mut nodes: Vec<Node> = nodes.collect();
    // Of pods, failures come first.
    nodes.sort_by_key(|node| match node.place {
        Place::Node(_) => node.health,
        Place::Images(_) => Health::Failing,
    });
    nodes
}

fn revision(object: &OwnedObject) -> Option<&str> {
    let annotation = "/metadata/annotations/deployment.kubernetes.io~1revision";
    object.value.pointer(annotation).and_then(Value::as_str)
}

fn revision_number(object: &OwnedObject) -> i64 {
    let number = revision(object).and_then(|revision| revision.parse().ok());
    number.unwrap_or_default()
}

fn created(object: &OwnedObject) -> &str {
    text(&object.value, "/metadata/creationTimestamp")
}

fn created_seconds(object: &OwnedObject) -> Option<i64> {
    let time = time::parse(created(object)).ok()?;
    Some(time.seconds)
}

/// The images of the containers of a template.
fn images(object: &OwnedObject) -> Place {
    let containers = object.value.pointer("/spec/template/spec/containers");
    let containers = containers.and_then(Value::as_array);
    let images = containers.into_iter().flatten();
    Place::Images(images.map(|it| text(it, "/image").to_owned()).collect())
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    let text = value.pointer(pointer).and_then(Value::as_str);
    text.unwrap_or_default()
}

fn number(value: &Value, pointer: &str) -> i64 {
    let number = value.pointer(pointer).and_then(Value::as_i64);
    number.unwrap_or_default()
}

/// A ReplicaSet, for example. `None` if it has no pods.
fn owner(object: &OwnedObject, children: Vec<Node>) -> Option<Node> {
    let OwnedObject {
        kind, name, value, ..
    } = object;
    let (desired, ready) = (
        number(value, "/spec/replicas"),
        number(value, "/status/readyReplicas"),
    );
    if children.is_empty() && desired == 0 && number(value, "/status/replicas") == 0 {
        return None;
    }
    let revision = revision(object);
    let revision = revision.map_or_else(String::new, |revision| format!("revision {revision}, "));
    let worst = children.iter().map(|child| child.health).min();
    Some(Node {
        label: format!("{kind} {name}"),
        state: format!("{revision}{ready} of {desired} ready"),
        health: match worst {
            Some(worst) => worst,
            None if ready >= desired => Health::Ready,
            None => Health::Waiting,
        },
        restarts: 0,
        created: created_seconds(object),
        place: images(object),
        children,
    })
}

/// A Job that a CronJob controls.
fn job(object: &OwnedObject, children: Vec<Node>) -> Node {
    let (state, health) = job_state(&object.value);
    let worst = children.iter().map(|child| child.health).min();
    Node {
        label: format!("{} {}", object.kind, object.name),
        health: match health {
            Health::Waiting => worst.unwrap_or(health),
            health => health,
        },
        state,
        restarts: 0,
        created: created_seconds(object),
        place: images(object),
        children,
    }
}

fn job_state(job: &Value) -> (String, Health) {
    if is_terminating(job) {
        return ("Terminating".to_owned(), Health::Ending);
    }
    let is_true = |kind: &str| condition(job, kind).filter(|it| text(it, "/status") == "True");
    if is_true("Complete").is_some() {
        return ("Complete".to_owned(), Health::Ready);
    }
    if let Some(failed) = is_true("Failed") {
        return (
            format!("Failed, {}", text(failed, "/reason")),
            Health::Failing,
        );
    }
    if job.pointer("/spec/suspend") == Some(&Value::Bool(true)) {
        return ("Suspended".to_owned(), Health::Waiting);
    }
    let failed = match number(job, "/status/failed") {
        0 => String::new(),
        count => format!(", {count} failed"),
    };
    let active = number(job, "/status/active");
    (format!("Running, {active} active{failed}"), Health::Waiting)
}

fn is_terminating(object: &Value) -> bool {
    let time = object.pointer("/metadata/deletionTimestamp");
    time.is_some_and(|it| !it.is_null())
}

/// The condition with the given type.
fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = object
        .pointer("/status/conditions")
        .and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    conditions.find(|condition| text(condition, "/type") == kind)
}

fn pod(object: &OwnedObject) -> Node {
    let (state, health) = pod_state(&object.value);
    Node {
        label: object.name.clone(),
        state,
        health,
        restarts: restarts(&object.value),
        created: created_seconds(object),
        place: Place::Node(text(&object.value, "/spec/nodeName").to_owned()),
        children: Vec::new(),
    }
}

fn containers<'a>(pod: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    let list = pod.pointer(&format!("/status/{field}"));
    list.and_then(Value::as_array).into_iter().flatten()
}

fn restarts(pod: &Value) -> i64 {
    let containers = containers(pod, "containerStatuses");
    containers.map(|it| number(it, "/restartCount")).sum()
}

/// The state of a pod: that of its first container with a problem, or of the whole pod.
fn pod_state(pod: &Value) -> (String, Health) {
    if is_terminating(pod) {
        return ("Terminating".to_owned(), Health::Ending);
    }
    let phase = match text(pod, "/status/phase") {
        "" => "Unknown",
        phase => phase,
    };
    let all = containers(pod, "initContainerStatuses").chain(containers(pod, "containerStatuses"));
    for container in all {
        if let Some(problem) = container_state(container, phase) {
            return problem;
        }
    }
    if matches!(phase, "Failed" | "Succeeded") {
        let reason = match text(pod, "/status/reason") {
            "" => phase,
            reason => reason,
        };
        return (reason.to_owned(), Health::Ending);
    }
    if condition(pod, "Ready").is_some_and(|ready| text(ready, "/status") == "True") {
        return (format!("{phase}, ready"), Health::Ready);
    }
    let scheduled = condition(pod, "PodScheduled");
    if let Some(scheduled) = scheduled.filter(|it| text(it, "/status") == "False") {
        let reason = text(scheduled, "/reason");
        return (format!("{phase}, {reason}"), Health::Failing);
    }
    (format!("{phase}, not ready"), Health::Waiting)
}

/// The state of a container that prevents its pod from being ready. `None` if it does not.
fn container_state(container: &Value, phase: &str) -> Option<(String, Health)> {
    let name = text(container, "/name");
    if let Some(waiting) = container.pointer("/state/waiting") {
        let reason = text(waiting, "/reason");
        let (reason, health) = match reason {
            "" => ("Waiting", Health::Waiting),
            reason if is_creating(reason) => (reason, Health::Waiting),
            reason => (reason, Health::Failing),
        };
        return Some((format!("{name}: {reason}"), health));
    }
    let terminated = container.pointer("/state/terminated")?;
    let code = number(terminated, "/exitCode");
    if code == 0 || phase == "Succeeded" {
        return None;
    }
    let reason = text(terminated, "/reason");
    Some((
        format!("{name}: {reason}, exit code {code}"),
        Health::Failing,
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pod_state_is_that_of_its_containers() {
        let ready = json!([{"type": "Ready", "status": "True"}]);
        let waiting = |reason: &str| json!([{"name": "web", "state": {"waiting": {"reason": reason}}, "restartCount": 2}]);
        for (status, state, health) in [
            (
                json!({"phase": "Running", "conditions": ready}),
                "Running, ready",
                Health::Ready,
            ),
            (
                json!({"phase": "Running"}),
                "Running, not ready",
                Health::Waiting,
            ),
            (
                json!({"phase": "Pending", "containerStatuses": waiting("ContainerCreating")}),
                "web: ContainerCreating",
                Health::Waiting,
            ),
            (
                json!({"phase": "Running", "containerStatuses": waiting("CrashLoopBackOff"), "conditions": ready}),
                "web: CrashLoopBackOff",
                Health::Failing,
            ),
            (
                json!({"phase": "Running", "containerStatuses": [
                    {"name": "web", "state": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}
                ]}),
                "web: OOMKilled, exit code 137",
                Health::Failing,
            ),
            (
                json!({"phase": "Running", "containerStatuses": [
                    {"name": "init", "state": {"terminated": {"reason": "Completed", "exitCode": 0}}}
                ]}),
                "Running, not ready",
                Health::Waiting,
            ),
            (
                json!({"phase": "Pending", "conditions": [
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
                ]}),
                "Pending, Unschedulable",
                Health::Failing,
            ),
            (
                json!({"phase": "Failed", "reason": "Evicted"}),
                "Evicted",
                Health::Ending,
            ),
            (json!({}), "Unknown, not ready", Health::Waiting),
        ] {
            let pod = json!({"status": status});
            assert_eq!(pod_state(&pod), (state.to_owned(), health), "{pod}");
            let expected = if pod.to_string().contains("restartCount") {
                2
            } else {
                0
            };
            assert_eq!(restarts(&pod), expected, "{pod}");
        }
        let leaving = json!({"metadata": {"deletionTimestamp": "2026-01-31T12:00:00Z"}, "status": {"phase": "Running"}});
        assert_eq!(
            pod_state(&leaving),
            ("Terminating".to_owned(), Health::Ending)
        );
    }

    #[test]
    fn nodes_have_an_age_and_a_place() {
        let object = |kind: &str, spec: Value| OwnedObject {
            kind: kind.to_owned(),
            name: "web".to_owned(),
            uid: "u".to_owned(),
            value: json!({"metadata": {"creationTimestamp": "1970-01-01T00:02:00Z"}, "spec": spec}),
        };
        let containers = json!([{"image": "web:2"}, {"image": "proxy:1"}]);
        let set = object(
            "ReplicaSet",
            json!({"replicas": 1, "template": {"spec": {"containers": containers}}}),
        );
        let set = owner(&set, Vec::new()).unwrap();
        let images = ["web:2", "proxy:1"].map(str::to_owned).to_vec();
        assert_eq!((set.created, set.place), (Some(120), Place::Images(images)));
        let pod = pod(&object("Pod", json!({"nodeName": "node-a"})));
        let node = Place::Node("node-a".to_owned());
        assert_eq!((pod.created, pod.place), (Some(120), node));
    }

    #[test]
    fn owners_in_a_circle_are_followed_to_a_depth_only() {
        let metadata = json!({"name": "web", "uid": "web", "ownerReferences": [{"uid": "web", "controller": true}]});
        let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": {"replicas": 1}});
        let mut nodes = tree(&[set.to_string()], "web");
        let mut depth = 0;
        while let Some(node) = nodes.pop() {
            nodes = node.children;
            depth += 1;
        }
        assert_eq!(depth, DEPTH_MAX + 1);
    }

    #[test]
    fn jobs_of_a_cron_job_have_a_state_and_pods() {
        let object = |kind: &str, name: &str, owner: &str, minute: usize, status: Value| {
            let metadata = json!({
                "name": name, "uid": name, "creationTimestamp": format!("2026-01-31T12:0{minute}:00Z"),
                "ownerReferences": [{"uid": owner, "controller": true}],
            });
            json!({"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": {}, "status": status})
        };
        let ended = |kind: &str, reason: &str| json!({"conditions": [{"type": kind, "status": "True", "reason": reason}]});
        let mut suspended = object("Job", "four", "backup", 4, json!({}));
        suspended["spec"]["suspend"] = json!(true);
        let items = json!([
            object("Job", "one", "backup", 1, ended("Complete", "")),
            object(
                "Job",
                "two",
                "backup",
                2,
                ended("Failed", "DeadlineExceeded")
            ),
            object(
                "Job",
                "three",
                "backup",
                3,
                json!({"active": 1, "failed": 2})
            ),
            suspended,
            object("Job", "other", "nightly", 5, json!({"active": 1})),
            object("Pod", "one-x", "one", 1, json!({"phase": "Succeeded"})),
            object(
                "Pod",
                "three-x",
                "three",
                3,
                json!({"phase": "Pending", "conditions": [
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
                ]})
            ),
        ]);
        let list = json!({"kind": "List", "items": items}).to_string();
        let tree = tree(&[list], "backup");
        let jobs: Vec<_> = tree
            .iter()
            .map(|job| (job.label.as_str(), job.state.as_str(), job.health))
            .collect();
        // The newest first, regardless of their state.
        assert_eq!(
            jobs,
            [
                ("Job four", "Suspended", Health::Waiting),
                ("Job three", "Running, 1 active, 2 failed", Health::Failing),
                ("Job two", "Failed, DeadlineExceeded", Health::Failing),
                ("Job one", "Complete", Health::Ready),
            ]
        );
        assert_eq!(tree[1].children[0].label, "three-x");
        assert_eq!(tree[3].children[0].state, "Succeeded");
    }

    #[test]
    fn failing_pods_come_first_and_empty_replica_sets_are_omitted() {
        let object = |kind: &str, name: &str, owner: &str, status: Value| {
            let owner = json!([{"uid": owner, "controller": true}]);
            let metadata = json!({"name": name, "uid": name, "ownerReferences": owner});
            json!({"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": {}, "status": status})
        };
        let waiting = json!({"containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "ErrImagePull"}}}]});
        let items = json!([
            object("ReplicaSet", "new", "web", json!({"replicas": 2})),
            object("ReplicaSet", "old", "web", json!({})),
            object("Pod", "a", "new", json!({"phase": "Running"})),
            object("Pod", "b", "new", waiting),
            object("Pod", "stranger", "other", json!({})),
        ]);
        let list = json!({"kind": "List", "items": items}).to_string();
        let tree = tree(&[list], "web");
        assert_eq!(tree.len(), 1);
        assert_eq!(tree[0].label, "ReplicaSet new");
        assert_eq!(tree[0].health, Health::Failing);
        let pods: Vec<_> = tree[0]
            .children
            .iter()
            .map(|it| it.label.as_str())
            .collect();
        assert_eq!(pods, ["b", "a"]);
        assert_eq!(super::tree(&["{".to_owned()], "web"), []);
    }

    #[test]
    fn new_replica_set_comes_first() {
        let set = |name: &str, revision: &str, minute: usize, ready: i64| {
            let metadata = json!({
                "name": name, "uid": name, "creationTimestamp": format!("2026-01-31T12:0{minute}:00Z"),
                "annotations": {"deployment.kubernetes.io/revision": revision},
                "ownerReferences": [{"uid": "web", "controller": true}],
            });
            let status = json!({"replicas": 2, "readyReplicas": ready});
            json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": {"replicas": 2}, "status": status})
        };
        let ready = json!([{"type": "Ready", "status": "True"}]);
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "status": {"phase": "Running", "conditions": ready},
            "metadata": {"name": "p", "uid": "p", "ownerReferences": [{"uid": "old", "controller": true}]},
        });
        // The new one may have no pods yet, be ready, or be an old one that was rolled back to.
        for (revision, minute, of_new) in [("10", 2, 0), ("10", 2, 2), ("10", 0, 0)] {
            let items = json!([
                set("old", "9", 1, 2),
                set("new", revision, minute, of_new),
                pod
            ]);
            let list = json!({"kind": "List", "items": items}).to_string();
            let tree = tree(&[list], "web");
            let labels: Vec<_> = tree.iter().map(|it| it.label.as_str()).collect();
            let expected = ["ReplicaSet new", "ReplicaSet old"];
            assert_eq!(labels, expected, "{revision} {minute} {of_new}");
        }
    }

    #[test]
    fn replica_sets_without_pods_have_the_health_of_their_status() {
        for (desired, ready, expected) in [
            (2, 2, Some(Health::Ready)),
            (2, 1, Some(Health::Waiting)),
            (0, 0, None),
        ] {
            let object = OwnedObject {
                kind: "ReplicaSet".to_owned(),
                name: "web".to_owned(),
                uid: "u".to_owned(),
                value: json!({"spec": {"replicas": desired}, "status": {"replicas": desired, "readyReplicas": ready}}),
            };
            let node = owner(&object, Vec::new());
            assert_eq!(node.map(|node| node.health), expected, "{desired} {ready}");
        }
    }
}
