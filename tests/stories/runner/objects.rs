//! The Kubernetes objects of a state, with the fields that the API server, the controllers and the kubelet would set.

use rollplan_world::json as builders;
use serde_json::{Value, json};

use super::pods::{self, Owned};
use super::state::{Entry, Part, State};
use super::words::{Keys, timestamp};

/// How long objects exist, unless a state has another time.
pub(super) const AGE: i64 = 300;
const DAY: i64 = 86_400;

/// The kinds that are not in a namespace.
const CLUSTER_SCOPED: [&str; 12] = [
    "APIService",
    "ClusterIssuer",
    "CustomResourceDefinition",
    "DeviceClass",
    "GatewayClass",
    "Namespace",
    "Node",
    "NodeClaim",
    "NodePool",
    "PersistentVolume",
    "PriorityClass",
    "StorageClass",
];

/// Sets the metadata of an object that the API server sets.
pub(super) fn complete(object: &mut Value, namespace: &str, now: i64) -> Result<(), String> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let kind = text(&object["kind"]).ok_or("an object needs a kind")?;
    let version = text(&object["apiVersion"]).ok_or("an object needs an apiVersion")?;
    let name = text(&object["metadata"]["name"]).ok_or("an object needs a name")?;
    let mut whole = builders::object(&version, &kind, &name);
    whole["metadata"]["namespace"] = namespace.into();
    if CLUSTER_SCOPED.contains(&&*kind) {
        whole["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("namespace");
    }
    whole["metadata"]["uid"] = format!("{}-{name}", kind.to_lowercase()).into();
    whole["metadata"]["resourceVersion"] = "7".into();
    if !matches!(&*kind, "Event" | "ConfigMap" | "Secret" | "ServiceAccount") {
        whole["metadata"]["generation"] = 1.into();
    }
    whole["metadata"]["creationTimestamp"] = timestamp(now - AGE).into();
    merge(&mut whole, object);
    *object = whole;
    Ok(())
}

/// Merges objects. Items of lists are merged by their name, or by their type; other lists are replaced.
pub(super) fn merge(value: &mut Value, patch: &Value) {
    match (value, patch) {
        (Value::Object(fields), Value::Object(changes)) => {
            for (key, change) in changes {
                match change {
                    Value::Null => _ = fields.remove(key),
                    change => merge(fields.entry(key).or_insert(Value::Null), change),
                }
            }
        }
        (Value::Array(items), Value::Array(changes))
            if changes.iter().all(|it| identity(it).is_some()) =>
        {
            for change in changes {
                match items
                    .iter_mut()
                    .find(|item| identity(item) == identity(change))
                {
                    Some(item) => merge(item, change),
                    None => items.push(change.clone()),
                }
            }
        }
        (value, patch) => *value = patch.clone(),
    }
}

fn identity(item: &Value) -> Option<&str> {
    item.get("name").or_else(|| item.get("type"))?.as_str()
}

/// All objects, in the order of the state.
pub(super) fn all(state: &State) -> Result<Vec<Value>, String> {
    let mut builder = Builder {
        state,
        objects: Vec::new(),
        events: Vec::new(),
        owned: Vec::new(),
    };
    let entries = || state.entries.iter();
    let is = |kinds: &'static [&str]| move |entry: &&Entry| kinds.contains(&&*entry.kind);
    for entry in entries().filter(is(&[
        "deployment",
        "statefulset",
        "daemonset",
        "job",
        "replicaset",
    ])) {
        at(entry, builder.workload(entry))?;
    }
    for entry in entries().filter(is(&["pod"])) {
        at(entry, builder.pod(entry))?;
    }
    builder.count();
    for entry in entries().filter(is(&["node"])) {
        at(entry, builder.node(entry))?;
    }
    builder.objects.extend(state.yaml.iter().cloned());
    for entry in entries() {
        at(entry, builder.finish(entry))?;
    }
    builder.objects.append(&mut builder.events);
    Ok(builder.objects)
}

/// The result for an entry, with its line in the error.
fn at<T>(entry: &Entry, result: Result<T, String>) -> Result<T, String> {
    result.map_err(|error| {
        if error.starts_with(|c: char| c.is_ascii_digit()) {
            error
        } else {
            format!("{}: {error} ({} {})", entry.line, entry.kind, entry.name)
        }
    })
}

/// The result for a part, with its line in the error.
pub(super) fn at_part<T>(part: &Part, result: Result<T, String>) -> Result<T, String> {
    result.map_err(|error| {
        format!(
            "{}: {error} ({} {})",
            part.line,
            part.kind,
            part.words.join(" ")
        )
    })
}

struct Builder<'a> {
    state: &'a State,
    objects: Vec<Value>,
    events: Vec<Value>,
    /// The pods of each owner, by its position in `objects`.
    owned: Vec<Owned>,
}

// === impl Builder ===

impl Builder<'_> {
    fn object(
        &self,
        version: &str,
        kind: &str,
        name: &str,
        keys: &mut Keys,
        age: i64,
    ) -> Result<Value, String> {
        let mut object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}});
        complete(&mut object, &self.state.namespace, 0)?;
        let metadata = &mut object["metadata"];
        let created = keys.time("created")?.unwrap_or(-age);
        metadata["creationTimestamp"] = timestamp(created).into();
        if let Some(deleted) = keys.time("deleting")? {
            let grace = keys.number("grace")?;
            metadata["deletionTimestamp"] = timestamp(deleted + grace.unwrap_or(0)).into();
            if let Some(grace) = grace {
                metadata["deletionGracePeriodSeconds"] = grace.into();
            }
        }
        if let Some(finalizers) = keys.text("finalizers") {
            metadata["finalizers"] = finalizers.split(',').collect();
        }
        Ok(object)
    }

    /// A ReplicaSet of a Deployment that differs from the one that the Deployment would have.
    fn changed_set(&mut self, deployment: &str, entry: &Entry) -> Result<(), String> {
        let mut keys = entry.keys.clone();
        let revision = &entry.name[deployment.len() + 1..];
        let owner = self
            .find("Deployment", deployment)
            .ok_or("the Deployment comes first")?;
        let index = self.replica_set(owner, revision)?;
        let set = &mut self.objects[index];
        if let Some(image) = keys.text("image") {
            set["spec"]["template"]["spec"]["containers"][0]["image"] = image.into();
        }
        if let Some(revision) = keys.text("revision") {
            set["metadata"]["annotations"]["deployment.kubernetes.io/revision"] = revision.into();
        }
        if let Some(created) = keys.time("created")? {
            set["metadata"]["creationTimestamp"] = timestamp(created).into();
        }
        if let Some(generation) = keys.number("generation")? {
            set["metadata"]["generation"] = generation.into();
        }
        set_numbers(&mut set["spec"], &mut keys, &[("replicas", "replicas")])?;
        set_numbers(
            &mut set["status"],
            &mut keys,
            &[("observed", "observedGeneration")],
        )?;
        for patch in &entry.patches {
            merge(set, patch);
        }
        self.owned[index].keys.extend(keys);
        Ok(())
    }

    fn workload(&mut self, entry: &Entry) -> Result<(), String> {
        let name = entry.name.as_str();
        let is_owner =
            |it: &&Entry| it.kind == "deployment" && name.starts_with(&format!("{}-", it.name));
        let mut entries = self.state.entries.iter();
        if let Some(owner) = entries
            .find(is_owner)
            .filter(|_| entry.kind == "replicaset")
        {
            return self.changed_set(&owner.name, entry);
        }
        let mut keys = entry.keys.clone();
        let (version, kind) = match entry.kind.as_str() {
            "deployment" => ("apps/v1", "Deployment"),
            "replicaset" => ("apps/v1", "ReplicaSet"),
            "statefulset" => ("apps/v1", "StatefulSet"),
            "daemonset" => ("apps/v1", "DaemonSet"),
            _ => ("batch/v1", "Job"),
        };
        let mut object = self.object(
            version,
            kind,
            name,
            &mut keys,
            if kind == "Job" { AGE } else { DAY },
        )?;
        let template = pods::template(entry, &mut keys, kind == "Job")?;
        object["spec"] = json!({"selector": {"matchLabels": {"app": name}}, "template": template});
        let (metadata, spec) = pair(&mut object);
        let generation = match kind {
            "Job" | "ReplicaSet" => 1,
            _ => 2,
        };
        let generation = keys.number("generation")?.unwrap_or(generation);
        metadata["generation"] = generation.into();
        metadata["labels"] = json!({"app": name});
        let mut status = json!({});
        if kind != "Job" {
            status["observedGeneration"] = keys.number("observed")?.unwrap_or(generation).into();
        }
        set_numbers(
            spec,
            &mut keys,
            &[
                ("minReady", "minReadySeconds"),
                ("deadline", "progressDeadlineSeconds"),
                ("historyLimit", "revisionHistoryLimit"),
                ("completions", "completions"),
                ("parallelism", "parallelism"),
                ("backoffLimit", "backoffLimit"),
                ("activeDeadline", "activeDeadlineSeconds"),
                ("backoffLimitPerIndex", "backoffLimitPerIndex"),
                ("maxFailedIndexes", "maxFailedIndexes"),
            ],
        )?;
        let strategy = match kind {
            "Deployment" => "strategy",
            _ => "updateStrategy",
        };
        if !matches!(kind, "Job" | "DaemonSet") {
            spec["replicas"] = keys.number("replicas")?.unwrap_or(1).into();
        }
        if !matches!(kind, "Job" | "ReplicaSet") {
            let policy = keys
                .text("strategy")
                .unwrap_or_else(|| "RollingUpdate".to_owned());
            spec[strategy] = json!({"type": policy});
            for key in ["maxSurge", "maxUnavailable", "partition"] {
                if let Some(text) = keys.text(key) {
                    let number = text.parse::<i64>().map(Value::from);
                    spec[strategy]["rollingUpdate"][key] = number.unwrap_or_else(|_| text.into());
                }
            }
        }
        let mut has_set = false;
        match kind {
            "Deployment" => {
                spec["paused"] = keys.flag("paused")?.into();
                has_set = keys.text("new").is_none_or(|it| it != "none");
                let revision = if has_set { "2" } else { "1" };
                let revision = keys.text("revision").unwrap_or_else(|| revision.to_owned());
                metadata["annotations"] = json!({"deployment.kubernetes.io/revision": revision});
            }
            "StatefulSet" => {
                spec["serviceName"] = name.into();
                let policy = keys
                    .text("management")
                    .unwrap_or_else(|| "OrderedReady".to_owned());
                spec["podManagementPolicy"] = policy.into();
            }
            "Job" => {
                let fields = [("completions", 1), ("parallelism", 1), ("backoffLimit", 6)];
                for (key, default) in fields {
                    if spec[key].is_null() {
                        spec[key] = default.into();
                    }
                }
                spec["suspend"] = keys.flag("suspend")?.into();
                let mode = if keys.flag("indexed")? {
                    "Indexed"
                } else {
                    "NonIndexed"
                };
                spec["completionMode"] = mode.into();
                let labels =
                    json!({"app": name, "batch.kubernetes.io/job-name": name, "job-name": name});
                spec["selector"] = json!({"matchLabels": {"batch.kubernetes.io/job-name": name}});
                spec["template"]["metadata"]["labels"] = labels;
                status["startTime"] = timestamp(keys.time("started")?.unwrap_or(-AGE)).into();
            }
            _ => {}
        }
        for patch in &entry.patches {
            merge(&mut object, patch);
        }
        merge(&mut object, &json!({"status": status}));
        self.push(object, keys);
        if has_set {
            self.replica_set(self.objects.len() - 1, "new")?;
        }
        Ok(())
    }

    fn push(&mut self, object: Value, keys: Keys) {
        self.objects.push(object);
        self.owned.push(Owned {
            pods: Vec::new(),
            keys,
        });
    }

    fn find(&self, kind: &str, name: &str) -> Option<usize> {
        let is_it = |it: &Value| it["kind"] == kind && it["metadata"]["name"] == name;
        self.objects.iter().position(is_it)
    }

    /// The ReplicaSet of a revision, which is created if needed.
    fn replica_set(&mut self, deployment: usize, revision: &str) -> Result<usize, String> {
        let owner = self.objects[deployment].clone();
        let name = format!("{}-{revision}", pods::name(&owner));
        if let Some(found) = self.find("ReplicaSet", &name) {
            return Ok(found);
        }
        let is_new = revision == "new";
        let start = if is_new { AGE } else { DAY };
        let mut object =
            self.object("apps/v1", "ReplicaSet", &name, &mut Keys::default(), start)?;
        let mut template = owner["spec"]["template"].clone();
        if !is_new {
            let image = format!("{}:1", pods::name(&owner));
            template["spec"]["containers"][0]["image"] = image.into();
        }
        object["spec"] = json!({"template": template});
        object["status"] = json!({"observedGeneration": 1});
        let current = &owner["metadata"]["annotations"]["deployment.kubernetes.io/revision"];
        let current: i64 = current.as_str().and_then(|it| it.parse().ok()).unwrap_or(2);
        let is_current = is_new
            || self
                .find("ReplicaSet", &format!("{}-new", pods::name(&owner)))
                .is_none();
        let number = if is_current { current } else { current - 1 };
        own_set(&mut object, &owner, &number.to_string());
        self.push(object, Keys::default());
        Ok(self.objects.len() - 1)
    }

    fn pod(&mut self, entry: &Entry) -> Result<(), String> {
        let mut keys = entry.keys.clone();
        let name = &entry.name;
        let wanted = keys.text("of");
        let is_owner = |it: &&Entry| {
            let is_workload = !matches!(&*it.kind, "pod" | "on" | "node");
            is_workload
                && match &wanted {
                    Some(wanted) => it.name == *wanted,
                    None => name.starts_with(&format!("{}-", it.name)),
                }
        };
        let owner = self
            .state
            .entries
            .iter()
            .filter(is_owner)
            .max_by_key(|it| it.name.len());
        if wanted.as_ref().is_some_and(|it| it != "none") && owner.is_none() {
            return Err("no such owner".to_owned());
        }
        let created = keys.clone().time("created")?.unwrap_or(-AGE);
        let mut object = self.object("v1", "Pod", name, &mut keys, AGE)?;
        let mut image = keys.text("image");
        let owner = match owner {
            None => {
                object["spec"] = pods::template(entry, &mut keys, false)?["spec"].take();
                None
            }
            Some(owner) => {
                let mut index = self
                    .objects
                    .iter()
                    .position(|it| {
                        pods::name(it) == owner.name
                            && it["kind"].as_str().unwrap().to_lowercase() == owner.kind
                    })
                    .unwrap();
                let revision = keys.text("revision").unwrap_or_else(|| {
                    let rest = name.get(owner.name.len() + 1..).unwrap_or("");
                    let is_old = rest == "old" || rest.starts_with("old-");
                    if is_old { "old" } else { "new" }.to_owned()
                });
                if owner.kind == "deployment" {
                    index = self.replica_set(index, &revision)?;
                }
                let controller = &self.objects[index];
                let template = &controller["spec"]["template"];
                object["spec"] = template["spec"].clone();
                object["metadata"]["labels"] = template["metadata"]["labels"].clone();
                if matches!(&*owner.kind, "statefulset" | "daemonset") {
                    let hash = format!("{}-{revision}", owner.name);
                    let label = match &*owner.kind {
                        "daemonset" => revision.clone(),
                        _ => hash,
                    };
                    object["metadata"]["labels"]["controller-revision-hash"] = label.into();
                    if revision != "new" {
                        image = image.or_else(|| Some(format!("{}:1", owner.name)));
                    }
                }
                if let Some(number) = keys.text("index") {
                    let key = "batch.kubernetes.io/job-completion-index";
                    object["metadata"]["annotations"] = json!({key: number});
                    object["metadata"]["labels"][key] = number.into();
                }
                object = builders::controlled(object, controller);
                Some((index, revision))
            }
        };
        if let Some(image) = image {
            object["spec"]["containers"][0]["image"] = image.into();
        }
        pods::fill(&mut object, entry, &mut keys, created)?;
        keys.check_empty()?;
        for part in entry.parts.iter().filter(|it| it.kind == "condition") {
            at_part(part, pods::condition(&mut object, part))?;
        }
        for patch in &entry.patches {
            merge(&mut object, patch);
        }
        if let Some((index, revision)) = owner {
            self.owned[index].pods.push((revision, object.clone()));
        }
        self.objects.push(object);
        self.owned.push(Owned::default());
        Ok(())
    }

    fn node(&mut self, entry: &Entry) -> Result<(), String> {
        let mut keys = entry.keys.clone();
        let mut object = self.object("v1", "Node", &entry.name, &mut keys, DAY)?;
        let is_ready = !keys.flag("lost")?;
        let (status, reason) = if is_ready {
            ("True", "KubeletReady")
        } else {
            ("Unknown", "NodeStatusUnknown")
        };
        object["metadata"]["labels"] = json!({"kubernetes.io/hostname": entry.name});
        if let Some(zone) = keys.text("zone") {
            object["metadata"]["labels"]["topology.kubernetes.io/zone"] = zone.into();
        }
        object["status"] = json!({"conditions": [{"type": "Ready", "status": status, "reason": reason,
            "lastTransitionTime": timestamp(-AGE)}]});
        keys.check_empty()?;
        for patch in &entry.patches {
            merge(&mut object, patch);
        }
        self.objects.push(object);
        Ok(())
    }

    /// Sets the status of workloads from their pods, and from their keys.
    fn count(&mut self) {
        // ReplicaSets first, because Deployments count them.
        for is_deployment in [false, true] {
            for index in 0..self.owned.len() {
                if (self.objects[index]["kind"] == "Deployment") == is_deployment {
                    let sets: Vec<Value> = self.sets_of(index).cloned().collect();
                    pods::count(
                        &mut self.objects[index],
                        &self.owned[index],
                        &sets,
                        self.state.now,
                    );
                }
            }
        }
    }

    fn sets_of(&self, index: usize) -> impl Iterator<Item = &Value> {
        let uid = self.objects[index]["metadata"]["uid"].clone();
        let is_own = move |it: &&Value| {
            it["kind"] == "ReplicaSet" && it["metadata"]["ownerReferences"][0]["uid"] == uid
        };
        self.objects.iter().filter(is_own)
    }

    /// Sets what is left: keys for the status, conditions, events, and changes of objects that have no line of their own.
    fn finish(&mut self, entry: &Entry) -> Result<(), String> {
        let kind = match entry.kind.as_str() {
            "deployment" => "Deployment",
            "replicaset" => "ReplicaSet",
            "statefulset" => "StatefulSet",
            "daemonset" => "DaemonSet",
            "job" => "Job",
            "node" => "Node",
            "pod" => "Pod",
            _ => entry.name.split('/').next().unwrap_or_default(),
        };
        let name = entry.name.split('/').next_back().unwrap_or_default();
        let index = self
            .find(kind, name)
            .ok_or_else(|| format!("no {kind} {name}"))?;
        if entry.kind == "on" {
            match self.owned.get_mut(index) {
                Some(owned) => owned.keys.extend(entry.keys.clone()),
                None => entry.keys.check_empty()?,
            }
            for patch in &entry.patches {
                merge(&mut self.objects[index], patch);
            }
        }
        if let Some(owned) = self.owned.get_mut(index).filter(|_| kind != "Pod") {
            let object = &mut self.objects[index];
            pods::override_status(object, &mut owned.keys)?;
            owned.keys.check_empty()?;
        }
        for part in &entry.parts {
            let done = match part.kind.as_str() {
                "condition" if kind != "Pod" || entry.kind == "on" => {
                    pods::condition(&mut self.objects[index], part)
                }
                "warning" | "normal" => self.event(index, part),
                _ => Ok(()),
            };
            at_part(part, done)?;
        }
        Ok(())
    }

    /// An event: `REASON [xCOUNT] [FIRST..LAST] "MESSAGE"`.
    fn event(&mut self, index: usize, part: &Part) -> Result<(), String> {
        let mut keys = part.keys.clone();
        let object = &self.objects[index];
        let (mut count, mut times, mut texts) = (1, (part.at - 10, part.at - 10), Vec::new());
        for word in &part.words {
            let number = word.strip_prefix('x').and_then(|it| it.parse::<i64>().ok());
            let (first, last) = word.split_once("..").unwrap_or((word, word));
            let time = |text: &str| {
                super::words::is_time(text)
                    .then(|| part.at + super::words::seconds(text).unwrap_or(0))
            };
            match (number, time(first), time(last)) {
                (Some(number), ..) => count = number,
                (_, Some(first), Some(last)) => times = (first, last),
                _ => texts.push(word.as_str()),
            }
        }
        let (reason, message) = match texts[..] {
            [reason] => (reason, ""),
            [reason, message] => (reason, message),
            _ => return Err("an event has a reason and a message".to_owned()),
        };
        let name = pods::name(object);
        let component = keys
            .text("from")
            .unwrap_or_else(|| match object["kind"].as_str() {
                Some("Pod") => "kubelet".to_owned(),
                Some(kind) => format!("{}-controller", kind.to_lowercase()),
                None => String::new(),
            });
        let mut involved = json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "name": name,
            "uid": object["metadata"]["uid"]});
        if let Some(namespace) = object["metadata"].get("namespace") {
            involved["namespace"] = namespace.clone();
        }
        if let Some(container) = keys.text("container") {
            involved["fieldPath"] = format!("spec.containers{{{container}}}").into();
        }
        if let Some(container) = keys.text("init") {
            involved["fieldPath"] = format!("spec.initContainers{{{container}}}").into();
        }
        let number = self.events.len();
        let namespace = object["metadata"].get("namespace").cloned();
        let mut event = builders::object("v1", "Event", &format!("{name}.{number:x}"));
        event["metadata"]["namespace"] = namespace.unwrap_or_else(|| "default".into());
        let kind = if part.kind == "warning" {
            "Warning"
        } else {
            "Normal"
        };
        let fields = json!({"involvedObject": involved, "type": kind, "reason": reason, "message": message,
            "count": count, "firstTimestamp": timestamp(times.0), "lastTimestamp": timestamp(times.1),
            "source": {"component": component}, "reportingComponent": component});
        merge(&mut event, &fields);
        keys.check_empty()?;
        self.events.push(event);
        Ok(())
    }
}

fn set_numbers(value: &mut Value, keys: &mut Keys, fields: &[(&str, &str)]) -> Result<(), String> {
    for (key, field) in fields {
        if let Some(number) = keys.number(key)? {
            value[*field] = number.into();
        }
    }
    Ok(())
}

fn pair(object: &mut Value) -> (&mut Value, &mut Value) {
    let mut fields = object.as_object_mut().unwrap().iter_mut();
    let mut pair = (None, None);
    for (key, value) in fields.by_ref() {
        match key.as_str() {
            "metadata" => pair.0 = Some(value),
            "spec" => pair.1 = Some(value),
            _ => {}
        }
    }
    (pair.0.unwrap(), pair.1.unwrap())
}

/// Makes a ReplicaSet one of a Deployment.
fn own_set(set: &mut Value, deployment: &Value, revision: &str) {
    let app = pods::name(deployment).to_owned();
    let name = pods::name(set).to_owned();
    let hash = name
        .strip_prefix(&format!("{app}-"))
        .unwrap_or(&name)
        .to_owned();
    let labels = json!({"app": app, "pod-template-hash": hash});
    let desired = deployment["spec"]["replicas"].clone();
    let max = desired.as_i64().unwrap_or(1) + 1;
    *set = builders::controlled(set.take(), deployment);
    set["metadata"]["labels"] = labels.clone();
    set["metadata"]["annotations"] = json!({"deployment.kubernetes.io/revision": revision,
        "deployment.kubernetes.io/desired-replicas": desired.to_string(),
        "deployment.kubernetes.io/max-replicas": max.to_string()});
    set["spec"]["selector"] = json!({"matchLabels": labels});
    set["spec"]["template"]["metadata"]["labels"] = labels;
}
