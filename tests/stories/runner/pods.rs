//! Pods of a state: their templates, their status, and the counters of their owners.

use std::collections::BTreeSet;

use rollplan_world::json as builders;
use serde_json::{Map, Value, json};

use super::objects::{AGE, at_part};
use super::state::{Entry, Part};
use super::words::{Keys, Written, is_time, seconds, split, timestamp};

/// The pods of a workload with their revisions, and the keys of the workload that are not used yet.
#[derive(Default)]
pub(super) struct Owned {
    pub(super) pods: Vec<(String, Value)>,
    pub(super) keys: Keys,
}

pub(super) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// The pod template of a workload, or the spec of a pod without an owner.
pub(super) fn template(entry: &Entry, keys: &mut Keys, is_job: bool) -> Result<Value, String> {
    let name = entry.name.as_str();
    let container = keys.text("container").unwrap_or_else(|| name.to_owned());
    let image = keys.text("image").unwrap_or_else(|| format!("{name}:2"));
    let mut main = json!({"image": image, "imagePullPolicy": "IfNotPresent", "resources": {}});
    if let Some(policy) = keys.text("pull") {
        main["imagePullPolicy"] = policy.into();
    }
    if let Some(command) = keys.text("command") {
        main["command"] = split(&command)?.into();
    }
    let mut template = builders::pod_template(name, main);
    let spec = &mut template["spec"];
    spec["containers"][0]["name"] = container.clone().into();
    spec["restartPolicy"] = if is_job { "Never" } else { "Always" }.into();
    for (key, field) in [
        ("account", "serviceAccountName"),
        ("restart", "restartPolicy"),
        ("scheduler", "schedulerName"),
    ] {
        if let Some(text) = keys.text(key) {
            spec[field] = text.into();
        }
    }
    if let Some(seconds) = keys.number("grace")? {
        spec["terminationGracePeriodSeconds"] = seconds.into();
    }
    for part in entry.parts.iter().filter(|_| entry.kind != "pod") {
        at_part(part, template_part(spec, part, &container))?;
    }
    Ok(template)
}

fn template_part(spec: &mut Value, part: &Part, main: &str) -> Result<(), String> {
    let mut keys = part.keys.clone();
    let words: Vec<&str> = part.words.iter().map(String::as_str).collect();
    match (part.kind.as_str(), words.as_slice()) {
        ("container" | "init" | "sidecar", [name]) => {
            let image = keys.text("image").unwrap_or_else(|| format!("{name}:1"));
            let mut container = json!({"name": name, "image": image});
            if part.kind == "sidecar" {
                container["restartPolicy"] = "Always".into();
            }
            push(&mut spec[list(&part.kind)], container);
        }
        ("startup" | "liveness" | "readiness", [handler, target @ ..]) => {
            let name = keys.text("container").unwrap_or_else(|| main.to_owned());
            let lists = ["containers", "initContainers"];
            let container = lists.iter().find_map(|list| {
                let items = spec[*list].as_array()?;
                let index = items.iter().position(|it| it["name"] == name.as_str())?;
                Some((*list, index))
            });
            let (list, index) = container.ok_or_else(|| format!("no container {name}"))?;
            let mut probe = handler_of(handler, target)?;
            for (key, field) in [
                ("delay", "initialDelaySeconds"),
                ("period", "periodSeconds"),
                ("failures", "failureThreshold"),
                ("timeout", "timeoutSeconds"),
            ] {
                if let Some(number) = keys.number(key)? {
                    probe[field] = number.into();
                }
            }
            spec[list][index][format!("{}Probe", part.kind)] = probe;
        }
        ("volume", [name]) => {
            let mut volume = json!({"name": name});
            if let Some(claim) = keys.text("claim") {
                volume["persistentVolumeClaim"] = json!({"claimName": claim});
            } else if let Some(map) = keys.text("configMap") {
                volume["configMap"] = json!({"name": map});
            } else if let Some(secret) = keys.text("secret") {
                volume["secret"] = json!({"secretName": secret});
            } else {
                volume["emptyDir"] = json!({});
            }
            push(&mut spec["volumes"], volume);
            if let Some(path) = keys.text("mount") {
                let mut mount = json!({"name": name, "mountPath": path});
                if let Some(path) = keys.text("subPath") {
                    mount["subPath"] = path.into();
                }
                push(&mut spec["containers"][0]["volumeMounts"], mount);
            }
        }
        ("gate", [gate]) => push(&mut spec["readinessGates"], json!({"conditionType": gate})),
        ("condition" | "warning" | "normal", _) => return Ok(()),
        _ => return Err("a name is missing, or there are too many".to_owned()),
    }
    keys.check_empty()
}

fn list(kind: &str) -> &'static str {
    match kind {
        "container" => "containers",
        _ => "initContainers",
    }
}

fn push(list: &mut Value, item: Value) {
    match list {
        Value::Array(items) => items.push(item),
        _ => *list = json!([item]),
    }
}

/// `http :8080/healthz`, `tcp :5432`, `grpc :9000` or `exec COMMAND...`.
fn handler_of(handler: &str, target: &[&str]) -> Result<Value, String> {
    let first = target.first().ok_or("a probe needs a target")?;
    let target_of = |text: &str| -> Value {
        let port = text.trim_start_matches(':');
        port.parse::<i64>()
            .map_or_else(|_| port.into(), Value::from)
    };
    Ok(match handler {
        "http" => {
            let (port, path) = first.split_once('/').unwrap_or((first, ""));
            json!({"httpGet": {"port": target_of(port), "path": format!("/{path}")}})
        }
        "tcp" => json!({"tcpSocket": {"port": target_of(first)}}),
        "grpc" => json!({"grpc": {"port": target_of(first)}}),
        "exec" => json!({"exec": {"command": target}}),
        _ => return Err("http, tcp, grpc or exec".to_owned()),
    })
}

/// Sets the spec and the status of a pod, whose spec is that of its template.
pub(super) fn fill(
    pod: &mut Value,
    entry: &Entry,
    keys: &mut Keys,
    created: i64,
) -> Result<(), String> {
    for part in &entry.parts {
        if let ("container" | "init" | "sidecar", [name]) =
            (part.kind.as_str(), part.words.as_slice())
        {
            inject(&mut pod["spec"], &part.kind, name);
        }
    }
    let main = pod["spec"]["containers"][0]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    let is_pending = keys.flag("pending")?;
    let gated = keys.take("gated");
    let unscheduled = keys.take("unscheduled");
    let is_starting = keys.flag("starting")?;
    let is_scheduled = !is_pending && gated.is_none() && unscheduled.is_none();
    let node = keys.text("node").filter(|node| node != "none");
    if is_scheduled {
        pod["spec"]["nodeName"] = node.unwrap_or_else(|| "node-1".to_owned()).into();
    } else if let Some(node) = node {
        // As the DaemonSet controller selects a node.
        let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
        pod["spec"]["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": [{"matchFields": [field]}]}}});
    }
    let mut status = json!({"phase": "Pending"});
    if let Some(node) = keys.text("nominated") {
        status["nominatedNodeName"] = node.into();
    }
    let phase = keys.text("phase");
    for key in ["reason", "message"] {
        if let Some(text) = keys.text(key) {
            status[key] = text.into();
        }
    }
    let mut conditions: Vec<Value> = Vec::new();
    let mut set = |kind: &str, truth: bool, at: i64, reason: &str, message: &str| {
        let status = if truth { "True" } else { "False" };
        let mut condition =
            json!({"type": kind, "status": status, "lastTransitionTime": timestamp(at)});
        if !reason.is_empty() {
            condition["reason"] = reason.into();
            condition["message"] = message.into();
        }
        conditions.push(condition);
    };
    let main_keys = keys.take_state();
    let is_stated = !main_keys.is_empty();
    let parts = || {
        let is_container =
            |part: &&Part| matches!(part.kind.as_str(), "container" | "init" | "sidecar");
        entry.parts.iter().filter(is_container)
    };
    if let Some(unscheduled) = unscheduled {
        let text = match unscheduled.text.as_str() {
            "" => "0 nodes are available",
            text => text,
        };
        set("PodScheduled", false, created, "Unschedulable", text);
    } else if let Some(gated) = gated {
        let text = match gated.text.as_str() {
            "" => "Scheduling is blocked due to non-empty scheduling gates",
            text => text,
        };
        set("PodScheduled", false, created, "SchedulingGated", text);
    } else if !is_pending {
        status["startTime"] = timestamp(created).into();
        set("PodScheduled", true, created, "", "");
        if phase.is_none() && !is_stated && !is_starting && parts().next().is_none() {
            return Err(
                "the state of the container is missing: ready, running, starting, waiting=..."
                    .to_owned(),
            );
        }
        if phase.is_none() || is_stated || is_starting || parts().next().is_some() {
            containers(
                pod,
                &mut status,
                entry,
                (main_keys, &main),
                is_starting,
                created,
            )?;
            let of = |list: &str| status[list].as_array().cloned().unwrap_or_default();
            let (inits, mains) = (of("initContainerStatuses"), of("containerStatuses"));
            let is_sidecar = |it: &Value| {
                let specs = pod["spec"]["initContainers"].as_array();
                specs
                    .into_iter()
                    .flatten()
                    .any(|spec| spec["name"] == it["name"] && spec["restartPolicy"] == "Always")
            };
            let waits = |it: &Value| it["ready"] != true;
            let is_done = |it: &Value| {
                if is_sidecar(it) {
                    it["started"] == true
                } else {
                    it["ready"] == true
                }
            };
            let is_initialized = inits.iter().all(is_done);
            set(
                "Initialized",
                is_initialized,
                created,
                if is_initialized {
                    ""
                } else {
                    "ContainersNotInitialized"
                },
                "",
            );
            set(
                "PodReadyToStartContainers",
                !is_starting,
                created + 2,
                "",
                "",
            );
            let all: Vec<&Value> = inits
                .iter()
                .filter(|it| is_sidecar(it))
                .chain(&mains)
                .collect();
            let unready: Vec<&str> = all
                .iter()
                .filter(|it| waits(it))
                .filter_map(|it| it["name"].as_str())
                .collect();
            let since = all
                .iter()
                .filter_map(|it| it["state"]["running"]["startedAt"].as_str())
                .max();
            let since = since.map(str::to_owned);
            for kind in ["ContainersReady", "Ready"] {
                let text = format!("containers with unready status: [{}]", unready.join(" "));
                if unready.is_empty() {
                    set(kind, true, 0, "", "");
                } else {
                    set(kind, false, created, "ContainersNotReady", &text);
                }
            }
            for condition in &mut conditions {
                let kind = condition["type"].as_str().unwrap_or_default();
                if matches!(kind, "Ready" | "ContainersReady") && condition["status"] == "True" {
                    condition["lastTransitionTime"] =
                        since.clone().unwrap_or_else(|| timestamp(created)).into();
                }
            }
            status["phase"] =
                phase_of(&mains, &inits, pod["spec"]["restartPolicy"] == "Always").into();
        }
    }
    if let Some(phase) = phase {
        status["phase"] = phase.into();
    }
    if !conditions.is_empty() {
        status["conditions"] = conditions.into();
    }
    pod["status"] = status;
    Ok(())
}

fn phase_of(mains: &[Value], inits: &[Value], restarts: bool) -> &'static str {
    let exit = |it: &Value| it["state"]["terminated"]["exitCode"].as_i64();
    let has_started = |it: &Value| {
        it["state"]["waiting"].is_null()
            || it["restartCount"].as_i64().is_some_and(|count| count > 0)
    };
    let init_failed = inits
        .iter()
        .any(|it| exit(it).is_some_and(|code| code != 0));
    if !restarts && init_failed {
        return "Failed";
    }
    if !restarts && mains.iter().all(|it| exit(it).is_some()) {
        let is_done = mains.iter().all(|it| exit(it) == Some(0));
        return if is_done { "Succeeded" } else { "Failed" };
    }
    if mains.iter().any(has_started) {
        "Running"
    } else {
        "Pending"
    }
}

/// Adds a container that the template does not have, as a webhook does.
fn inject(spec: &mut Value, kind: &str, name: &str) {
    let all = ["containers", "initContainers"];
    let mut known = all
        .iter()
        .filter_map(|list| spec[*list].as_array())
        .flatten();
    if !known.any(|it| it["name"] == name) {
        let mut container = json!({"name": name, "image": format!("{name}:1")});
        if kind == "sidecar" {
            container["restartPolicy"] = "Always".into();
        }
        push(&mut spec[list(kind)], container);
    }
}

fn containers(
    pod: &Value,
    status: &mut Value,
    entry: &Entry,
    (main_keys, main): (Keys, &str),
    is_starting: bool,
    created: i64,
) -> Result<(), String> {
    let stated = |name: &str| {
        let is_it = |part: &&Part| part.words.first().is_some_and(|it| it == name);
        let mut parts = entry
            .parts
            .iter()
            .filter(|it| matches!(&*it.kind, "container" | "init" | "sidecar"));
        // A later line replaces an earlier one.
        parts.by_ref().filter(is_it).last()
    };
    let mut is_initialized = true;
    for list in ["initContainers", "containers"] {
        let Some(items) = pod["spec"][list].as_array() else {
            continue;
        };
        let mut statuses = Vec::new();
        for item in items {
            let name = item["name"].as_str().unwrap_or_default();
            let is_sidecar = item["restartPolicy"] == "Always";
            let mut keys = match stated(name) {
                Some(part) => part.keys.clone(),
                None if name == main => main_keys.clone(),
                None => Keys::default(),
            };
            if keys.is_empty() {
                match (list, is_starting || !is_initialized) {
                    ("containers", true) => {
                        let reason = if is_initialized {
                            "ContainerCreating"
                        } else {
                            "PodInitializing"
                        };
                        keys.insert("waiting", reason, 0);
                    }
                    ("initContainers", _) if is_starting || !is_initialized => {
                        keys.insert("waiting", "PodInitializing", 0);
                    }
                    ("initContainers", _) if !is_sidecar => {
                        keys.insert("terminated", "Completed 0", created + 25);
                    }
                    _ => keys.insert("ready", "", 0),
                }
            }
            let built = container(
                item,
                &mut keys,
                created,
                list == "initContainers" && !is_sidecar,
            );
            let built = match stated(name) {
                Some(part) => at_part(part, built.and_then(|it| keys.check_empty().map(|()| it))),
                None => built,
            }?;
            let done = if is_sidecar {
                built["started"] == true
            } else {
                built["ready"] == true
            };
            is_initialized &= list == "containers" || done;
            statuses.push(built);
        }
        let field = if list == "containers" {
            "containerStatuses"
        } else {
            "initContainerStatuses"
        };
        status[field] = statuses.into();
    }
    Ok(())
}

/// The status of a container.
fn container(spec: &Value, keys: &mut Keys, created: i64, is_init: bool) -> Result<Value, String> {
    let mut status =
        json!({"name": spec["name"], "image": spec["image"], "lastState": {}, "restartCount": 0});
    let ready = keys.take("ready");
    let running = keys.take("running");
    let since = [&running, &ready]
        .into_iter()
        .flatten()
        .find(|it| !it.text.is_empty());
    let since = since.map(Written::time).transpose()?.unwrap_or(created + 5);
    let mut is_done = false;
    let state = if let Some(waiting) = keys.text("waiting") {
        let (reason, message) = waiting.split_once(": ").unwrap_or((&waiting, ""));
        let mut state = json!({"reason": reason});
        if !message.is_empty() {
            state["message"] = message.into();
        }
        json!({"waiting": state})
    } else if let Some(terminated) = keys.take("terminated") {
        let state = ended(&terminated)?;
        is_done = state["exitCode"] == 0;
        json!({"terminated": state})
    } else if keys.flag("succeeded")? {
        json!({"terminated": ended(&Written { text: "Completed 0".to_owned(), at: 0 })?})
    } else {
        json!({"running": {"startedAt": timestamp(since)}})
    };
    let is_running = !state["running"].is_null();
    let is_ready = if is_init {
        is_done
    } else {
        ready.is_some() && is_running
    };
    let has_started = match keys.text("started").as_deref() {
        Some("no") => false,
        Some("yes") => true,
        Some(text) => return Err(format!("started={text}: yes or no")),
        None => is_running && (is_ready || spec["startupProbe"].is_null()),
    };
    if let Some(last) = keys.take("last") {
        status["lastState"] = json!({"terminated": ended(&last)?});
        status["restartCount"] = 1.into();
    }
    if let Some(restarts) = keys.number("restarts")? {
        status["restartCount"] = restarts.into();
    }
    status["state"] = state;
    status["ready"] = is_ready.into();
    status["started"] = has_started.into();
    Ok(status)
}

/// `REASON EXIT [FINISHED]: MESSAGE`.
fn ended(written: &Written) -> Result<Value, String> {
    let (head, message) = written.text.split_once(": ").unwrap_or((&written.text, ""));
    let words: Vec<&str> = head.split_whitespace().collect();
    let (reason, exit, finished) = match words[..] {
        [reason, exit] => (reason, exit, -20),
        [reason, exit, time] if is_time(time) => (reason, exit, seconds(time).unwrap_or_default()),
        _ => return Err(format!("{head:?} is not REASON EXIT-CODE [TIME]")),
    };
    let exit: i64 = exit.parse().map_err(|error| format!("{exit}: {error}"))?;
    let finished = written.at + finished;
    let mut state = json!({"exitCode": exit, "reason": reason, "startedAt": timestamp(finished - 10),
        "finishedAt": timestamp(finished)});
    if !message.is_empty() {
        state["message"] = message.into();
    }
    Ok(state)
}

/// `condition TYPE STATUS [REASON] [TIME] ["MESSAGE"]`. It replaces a condition of this type.
pub(super) fn condition(object: &mut Value, part: &Part) -> Result<(), String> {
    let [kind, status, rest @ ..] = part.words.as_slice() else {
        return Err("a condition has a type and a status".to_owned());
    };
    let mut since = part.at - 60;
    let mut texts = Vec::new();
    for word in rest {
        if is_time(word) {
            since = part.at + seconds(word).unwrap_or_default();
        } else {
            texts.push(word.as_str());
        }
    }
    let (reason, message) = match texts[..] {
        [] => ("", ""),
        [reason] => (reason, ""),
        [reason, message] => (reason, message),
        _ => return Err("a condition has a reason and a message".to_owned()),
    };
    let time = timestamp(since);
    let mut condition = json!({"type": kind, "status": status, "lastTransitionTime": time});
    if object["kind"] == "Deployment" {
        condition["lastUpdateTime"] = time.into();
    }
    for (key, text) in [("reason", reason), ("message", message)] {
        if !text.is_empty() {
            condition[key] = text.into();
        }
    }
    let conditions = &mut object["status"]["conditions"];
    if let Some(conditions) = conditions.as_array_mut() {
        conditions.retain(|it| it["type"] != kind.as_str());
    }
    if status != "none" {
        push(conditions, condition);
    }
    part.keys.check_empty()
}

fn is_ready(pod: &Value) -> Option<&str> {
    let conditions = pod["status"]["conditions"].as_array()?;
    let ready = conditions.iter().find(|it| it["type"] == "Ready")?;
    (ready["status"] == "True")
        .then(|| ready["lastTransitionTime"].as_str())
        .flatten()
}

/// The node of a pod, or the one for which the DaemonSet controller has created it.
fn node_of(pod: &Value) -> Option<String> {
    let term =
        "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0";
    let wanted = pod["spec"].pointer(&format!("{term}/matchFields/0/values/0"));
    let node = pod["spec"]["nodeName"]
        .as_str()
        .or_else(|| wanted?.as_str());
    node.map(str::to_owned)
}

/// Sets the counters of a workload as its controller does.
pub(super) fn count(object: &mut Value, owned: &Owned, sets: &[Value], now: i64) {
    let is_over = |pod: &Value| {
        matches!(
            pod["status"]["phase"].as_str(),
            Some("Failed" | "Succeeded")
        )
    };
    let is_deleted = |pod: &Value| !pod["metadata"]["deletionTimestamp"].is_null();
    let pods = || owned.pods.iter();
    let active = || pods().filter(|(_, pod)| !is_over(pod) && !is_deleted(pod));
    let min_ready = object["spec"]["minReadySeconds"].as_i64().unwrap_or(0);
    let is_available =
        |pod: &Value| is_ready(pod).is_some_and(|since| *since <= *timestamp(now - min_ready));
    let number = |count: usize| Value::from(count);
    let ready = active().filter(|(_, pod)| is_ready(pod).is_some()).count();
    let available = active().filter(|(_, pod)| is_available(pod)).count();
    let updated = active().filter(|(revision, _)| revision == "new").count();
    let terminating = pods()
        .filter(|(_, pod)| is_deleted(pod) && !is_over(pod))
        .count();
    let name = self::name(object).to_owned();
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    let mut fields = Map::new();
    let mut set = |key: &str, value: Value| _ = fields.insert(key.to_owned(), value);
    match kind.as_str() {
        "ReplicaSet" => {
            set("replicas", number(active().count()));
            set("fullyLabeledReplicas", number(active().count()));
            set("readyReplicas", number(ready));
            set("availableReplicas", number(available));
            set("terminatingReplicas", number(terminating));
        }
        "StatefulSet" => {
            let all = active().count();
            set("replicas", number(all));
            set("readyReplicas", number(ready));
            set("availableReplicas", number(available));
            set("updatedReplicas", number(updated));
            set(
                "currentReplicas",
                number(if updated == all { all } else { all - updated }),
            );
            set("updateRevision", format!("{name}-new").into());
            let is_done = updated == all;
            set(
                "currentRevision",
                format!("{name}-{}", if is_done { "new" } else { "old" }).into(),
            );
        }
        "DaemonSet" => {
            let nodes = |is: &dyn Fn(&str, &Value) -> bool| {
                let pods = active().filter(|(revision, pod)| is(revision, pod));
                let nodes: BTreeSet<String> = pods.filter_map(|(_, pod)| node_of(pod)).collect();
                nodes.len()
            };
            let all = nodes(&|_, _| true);
            let available = nodes(&|_, pod| is_available(pod));
            set("desiredNumberScheduled", number(all));
            set("currentNumberScheduled", number(all));
            set(
                "updatedNumberScheduled",
                number(nodes(&|revision, _| revision == "new")),
            );
            set(
                "numberReady",
                number(nodes(&|_, pod| is_ready(pod).is_some())),
            );
            set("numberAvailable", number(available));
            set("numberUnavailable", number(all - available));
            set("numberMisscheduled", 0.into());
        }
        "Job" => {
            let phase = |phase: &str| {
                pods()
                    .filter(|(_, pod)| pod["status"]["phase"] == phase)
                    .count()
            };
            set("active", number(active().count()));
            set("ready", number(ready));
            set("succeeded", number(phase("Succeeded")));
            set("failed", number(phase("Failed")));
            set("terminating", number(terminating));
        }
        "Deployment" => count_deployment(object, sets, &mut set, now),
        _ => {}
    }
    for (key, value) in fields {
        object["status"]
            .as_object_mut()
            .unwrap()
            .entry(key)
            .or_insert(value);
    }
    if kind == "ReplicaSet" && object["spec"]["replicas"].is_null() {
        object["spec"]["replicas"] = object["status"]["replicas"].clone();
    }
}

fn count_deployment(object: &Value, sets: &[Value], set: &mut impl FnMut(&str, Value), now: i64) {
    let sum = |sets: &mut dyn Iterator<Item = &Value>, key: &str| -> i64 {
        sets.filter_map(|it| it["status"][key].as_i64()).sum()
    };
    let all = |key: &str| sum(&mut sets.iter(), key);
    let current = format!("{}-new", name(object));
    let updated = sum(
        &mut sets.iter().filter(|it| name(it) == current),
        "replicas",
    );
    let (replicas, available) = (all("replicas"), all("availableReplicas"));
    set("replicas", replicas.into());
    set("updatedReplicas", updated.into());
    set("readyReplicas", all("readyReplicas").into());
    set("availableReplicas", available.into());
    set("unavailableReplicas", (replicas - available).max(0).into());
    set("terminatingReplicas", all("terminatingReplicas").into());
    let wanted = object["spec"]["replicas"].as_i64().unwrap_or(1);
    let mut conditions = Vec::new();
    let mut condition = |kind: &str, truth: bool, reason: &str, since: i64, message: String| {
        conditions.push(json!({"type": kind, "status": if truth { "True" } else { "False" }, "reason": reason,
            "message": message, "lastUpdateTime": timestamp(since), "lastTransitionTime": timestamp(since)}));
    };
    if available >= wanted {
        condition(
            "Available",
            true,
            "MinimumReplicasAvailable",
            -86_400,
            "Deployment has minimum availability.".to_owned(),
        );
    } else {
        condition(
            "Available",
            false,
            "MinimumReplicasUnavailable",
            -AGE,
            "Deployment does not have minimum availability.".to_owned(),
        );
    }
    let is_done = updated == wanted && replicas == wanted && available == wanted;
    if is_done {
        condition(
            "Progressing",
            true,
            "NewReplicaSetAvailable",
            now - 60,
            format!("ReplicaSet \"{current}\" has successfully progressed."),
        );
    } else {
        condition(
            "Progressing",
            true,
            "ReplicaSetUpdated",
            -AGE,
            format!("ReplicaSet \"{current}\" is progressing."),
        );
    }
    set("conditions", conditions.into());
}

/// Sets counters that a state has as keys.
pub(super) fn override_status(object: &mut Value, keys: &mut Keys) -> Result<(), String> {
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    let fields: &[(&str, &str)] = match kind.as_str() {
        "Deployment" | "ReplicaSet" => &[
            ("total", "replicas"),
            ("updated", "updatedReplicas"),
            ("ready", "readyReplicas"),
            ("available", "availableReplicas"),
            ("unavailable", "unavailableReplicas"),
            ("terminating", "terminatingReplicas"),
            ("collisions", "collisionCount"),
        ],
        "StatefulSet" => &[
            ("total", "replicas"),
            ("current", "currentReplicas"),
            ("updated", "updatedReplicas"),
            ("ready", "readyReplicas"),
            ("available", "availableReplicas"),
        ],
        "DaemonSet" => &[
            ("desired", "desiredNumberScheduled"),
            ("current", "currentNumberScheduled"),
            ("updated", "updatedNumberScheduled"),
            ("ready", "numberReady"),
            ("available", "numberAvailable"),
            ("unavailable", "numberUnavailable"),
            ("misscheduled", "numberMisscheduled"),
        ],
        "Job" => &[
            ("active", "active"),
            ("ready", "ready"),
            ("succeeded", "succeeded"),
            ("failed", "failed"),
            ("terminating", "terminating"),
        ],
        _ => &[],
    };
    for (key, field) in fields {
        if let Some(number) = keys.number(key)? {
            object["status"][*field] = number.into();
        }
    }
    for (key, field) in [
        ("completedIndexes", "completedIndexes"),
        ("failedIndexes", "failedIndexes"),
        ("currentRevision", "currentRevision"),
        ("updateRevision", "updateRevision"),
    ] {
        if let Some(text) = keys.text(key) {
            object["status"][field] = text.into();
        }
    }
    Ok(())
}
