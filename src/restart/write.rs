//! The API calls of a decision.
//!
//! The calls are JSON Patches that test the UID and the annotations that they replace, but not resourceVersion. A workload
//! whose status changes constantly can thus be restarted, and of several concurrent callers only one succeeds.

use serde_json::{Value as Json, json};

use rollplan_core::action::{ApiCall, Event, Verb};
use rollplan_core::reference::ContainerAt;
use rollplan_core::snapshot::StringMap;
use rollplan_core::template::Value;
use rollplan_core::time::Time;

use super::checksum::digest;
use super::draft::Draft;
use super::drift::ChangedConfiguration;
use super::duration::parse_duration;
use super::marker::{
    LAST_RELOADED_FROM, PAUSE_PERIOD, PAUSED_AT, RESTARTED_AT, XING_TIMESTAMP, variable,
};
use super::options::{Profile, Strategy};
use super::plan::{Decision, Input, RestartStep};
use super::state::{State, from_millis};
use super::workload::{Workload, WorkloadKind};

const JSON_PATCH: &str = "application/json-patch+json";
const JSON: &str = "application/json";

/// The annotation in which kubectl stores the whole object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The maximum number of changes that an event lists.
const CHANGES_LISTED_MAX: usize = 5;

/// The steps of a decision, in order.
pub(super) fn steps(input: &Input, draft: &Draft<'_>) -> Vec<RestartStep> {
    let options = &input.options;
    let workload = draft.workload;
    // A manifest is not an object of the cluster.
    if workload.uid.is_empty() {
        return Vec::new();
    }
    if draft.decision != Decision::Restart {
        let changes_state = draft.recorded != draft.state;
        if !changes_state && !draft.resumes {
            return Vec::new();
        }
        let mut patch = Patch::new(workload);
        let summary = if draft.resumes {
            patch.resume();
            format!("resume {}", name(workload))
        } else {
            format!("record the configuration of {}", name(workload))
        };
        if changes_state {
            patch.state(&draft.recorded, options.profile);
        }
        return if patch.is_empty() {
            Vec::new()
        } else {
            vec![patch.step(summary, None)]
        };
    }
    let event = Event::normal("ConfigurationChanged", event_message(draft));
    match (options.profile, workload.workload_kind(), &workload.object) {
        (Profile::Reloader, WorkloadKind::CronJob, Some(object)) => {
            let mut patch = Patch::new(workload);
            patch.state(&draft.restarted, options.profile);
            let record = format!("record the configuration of {}", name(workload));
            vec![create_job(draft, object, event), patch.step(record, None)]
        }
        (Profile::Reloader, WorkloadKind::Job, Some(object)) => recreate(draft, object, event),
        _ => vec![restart(input, draft, event)],
    }
}

fn restart(input: &Input, draft: &Draft<'_>, event: Event) -> RestartStep {
    let options = &input.options;
    let workload = draft.workload;
    let mut patch = Patch::new(workload);
    patch.state(&draft.restarted, options.profile);
    match (options.profile, options.reloader.strategy) {
        (Profile::Reloader, Strategy::EnvVars) => {
            let is_changed = patch.environment(&draft.sources, &workload.template);
            // The same variables would restart nothing, for example if a value was overwritten and restored.
            if !is_changed {
                let marker = last_reloaded_from(&draft.sources, workload, input.now);
                patch.template_annotation(LAST_RELOADED_FROM, marker);
            }
        }
        (Profile::Reloader, Strategy::Annotations) => {
            let marker = last_reloaded_from(&draft.sources, workload, input.now);
            patch.template_annotation(LAST_RELOADED_FROM, marker);
        }
        (Profile::Rollplan, _) => patch.template_annotation(RESTARTED_AT, mark(&draft.restarted)),
        (Profile::Xing, _) => patch.template_annotation(XING_TIMESTAMP, mark(&draft.restarted)),
    }
    let period = workload.annotations.get(PAUSE_PERIOD);
    if options.profile == Profile::Reloader
        && workload.workload_kind() == WorkloadKind::Deployment
        && period.is_some_and(|it| parse_duration(it).is_some())
    {
        patch.pause(input.now);
    }
    patch.step(format!("restart {}", name(workload)), Some(event))
}

/// The marker of the last restart: its time.
fn mark(state: &State) -> String {
    let last = state.restarts.last().copied();
    from_millis(last.unwrap_or_default()).to_string()
}

fn name(workload: &Workload) -> String {
    format!("{} {}", workload.kind, workload.name)
}

fn event_message(draft: &Draft<'_>) -> String {
    let changes: Vec<_> = draft.changes.iter().map(ToString::to_string).collect();
    let listed = changes[..changes.len().min(CHANGES_LISTED_MAX)].join(", ");
    match changes.len().saturating_sub(CHANGES_LISTED_MAX) {
        0 => format!("Restarted: {listed}"),
        more => format!("Restarted: {listed}, and {more} more"),
    }
}

/// The value of Reloader's annotation, which names only the last source.
fn last_reloaded_from(
    sources: &[ChangedConfiguration<'_>],
    workload: &Workload,
    now: Time,
) -> String {
    let Some(source) = sources.last() else {
        return json!({"observedAt": now.seconds()}).to_string();
    };
    let containers: Vec<_> = source
        .uses
        .iter()
        .filter_map(|it| it.container.as_ref())
        .map(|it| it.name.as_str())
        .collect();
    json!({
        "type": source.kind.key().to_ascii_uppercase(),
        "name": source.name,
        "namespace": workload.namespace,
        "hash": source.checksum,
        "containerRefs": containers,
        "observedAt": now.seconds(),
    })
    .to_string()
}

/// Creates a Job from a CronJob, as Reloader does. The name of the Job is derived from the change, so repeated attempts
/// create a single Job.
fn create_job(draft: &Draft<'_>, object: &Value, event: Event) -> RestartStep {
    let workload = draft.workload;
    let changes: Vec<_> = draft.changes.iter().map(ToString::to_string).collect();
    let checksums = draft.sources.iter().map(|it| it.checksum.as_str());
    let parts = changes.iter().map(String::as_str).chain(checksums);
    // The same change may be made more than once.
    let last = draft.state.restarts.last().map(ToString::to_string);
    let last = last.as_deref().unwrap_or_default();
    let suffix = digest(parts.chain([workload.uid.as_str(), last]));
    // The name of the Job is a label of its pods, and labels have at most 63 bytes.
    let stem = workload.name.get(..46).unwrap_or(&workload.name);
    let job = format!("{}-{suffix}", stem.trim_end_matches(['.', '-']));
    let template = object.at(&["spec", "jobTemplate"]).map(plain);
    let template = template.unwrap_or(Json::Null);
    let mut annotations = match &template["metadata"]["annotations"] {
        Json::Object(annotations) => annotations.clone(),
        _ => serde_json::Map::new(),
    };
    annotations
        .entry("cronjob.kubernetes.io/instantiate")
        .or_insert(json!("manual"));
    let mut metadata = json!({
        "name": job,
        "namespace": workload.namespace,
        "annotations": annotations,
        "ownerReferences": [{
            "apiVersion": workload.api_version, "kind": workload.kind, "name": workload.name,
            "uid": workload.uid, "controller": true, "blockOwnerDeletion": true,
        }],
    });
    if !template["metadata"]["labels"].is_null() {
        metadata["labels"] = template["metadata"]["labels"].clone();
    }
    let body = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": template["spec"],
    });
    RestartStep {
        summary: format!("create Job {job} from {}", name(workload)),
        call: call(workload, Verb::Create, "Job", &job, JSON, body),
        done_codes: &[409],
        event: Some(event),
    }
}

/// Deletes a Job and creates it again, as Reloader does.
fn recreate(draft: &Draft<'_>, object: &Value, event: Event) -> Vec<RestartStep> {
    let workload = draft.workload;
    let mut body = plain(object);
    if let Json::Object(fields) = &mut body {
        fields.remove("status");
    }
    if let Some(metadata) = body["metadata"].as_object_mut() {
        metadata.retain(|key, _| {
            [
                "name",
                "namespace",
                "labels",
                "annotations",
                "ownerReferences",
            ]
            .contains(&key.as_str())
        });
        // The annotation may contain values. `kubectl apply` writes it again.
        if let Some(annotations) = metadata
            .get_mut("annotations")
            .and_then(Json::as_object_mut)
        {
            annotations.remove(LAST_APPLIED);
        }
        for (key, text) in draft.restarted.write(Profile::Reloader) {
            let text = text.map_or(Json::Null, Json::from);
            metadata.entry("annotations").or_insert_with(|| json!({}))[key] = text;
        }
    }
    let remove = |labels: &mut Json| {
        if let Some(labels) = labels.as_object_mut() {
            for label in ["controller-uid", "job-name"] {
                labels.remove(label);
                labels.remove(&format!("batch.kubernetes.io/{label}"));
            }
        }
    };
    remove(&mut body["metadata"]["labels"]);
    if let Some(spec) = body["spec"].as_object_mut() {
        spec.remove("selector");
        if let Some(labels) = spec
            .get_mut("template")
            .and_then(|it| it.pointer_mut("/metadata/labels"))
        {
            remove(labels);
        }
    }
    let options = json!({
        "apiVersion": "v1", "kind": "DeleteOptions",
        "preconditions": {"uid": workload.uid}, "propagationPolicy": "Background",
    });
    vec![
        RestartStep {
            summary: format!("delete {}", name(workload)),
            call: call(
                workload,
                Verb::Delete,
                &workload.kind,
                &workload.name,
                JSON,
                options,
            ),
            done_codes: &[404],
            event: None,
        },
        RestartStep {
            summary: format!("create {} again", name(workload)),
            call: call(
                workload,
                Verb::Create,
                &workload.kind,
                &workload.name,
                JSON,
                body,
            ),
            done_codes: &[],
            event: Some(event),
        },
    ]
}

fn call(
    workload: &Workload,
    verb: Verb,
    kind: &str,
    name: &str,
    content_type: &str,
    body: Json,
) -> ApiCall {
    ApiCall {
        verb,
        api_version: if kind == workload.kind {
            workload.api_version.clone()
        } else {
            "batch/v1".to_owned()
        },
        kind: kind.to_owned(),
        namespace: workload.namespace.clone(),
        name: name.to_owned(),
        subresource: String::new(),
        content_type: content_type.to_owned(),
        body_json: body.to_string(),
    }
}

fn plain(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(value) => json!(value),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => json!(integer),
            None => json!(number.as_f64()),
        },
        Value::String(text) => json!(text),
        Value::List(items) => items.iter().map(plain).collect(),
        Value::Map(entries) => {
            let entries = entries
                .iter()
                .map(|(key, value)| (key.clone(), plain(value)));
            Json::Object(entries.collect())
        }
    }
}

/// A JSON Patch of a workload.
struct Patch<'a> {
    workload: &'a Workload,
    operations: Vec<Json>,
    /// Annotations for a workload or template without any.
    first: StringMap,
    first_of_template: StringMap,
}

// === impl Patch ===

impl<'a> Patch<'a> {
    fn new(workload: &'a Workload) -> Self {
        Self {
            workload,
            operations: vec![json!({"op": "test", "path": "/metadata/uid", "value": workload.uid})],
            first: StringMap::new(),
            first_of_template: StringMap::new(),
        }
    }

    /// Whether the patch changes nothing.
    fn is_empty(&self) -> bool {
        self.operations.len() == 1 && self.first.is_empty() && self.first_of_template.is_empty()
    }

    fn state(&mut self, state: &State, profile: Profile) {
        for (key, text) in state.write(profile) {
            let old = self.workload.annotations.get(key);
            if old == text.as_ref() {
                continue;
            }
            self.annotation(key, text);
        }
    }

    /// Replaces an annotation of the workload, if it still has the observed value.
    fn annotation(&mut self, key: &str, text: Option<String>) {
        let old = self.workload.annotations.get(key);
        let path = format!("/metadata/annotations/{}", escaped(key));
        match text {
            Some(text) if self.workload.annotations.is_empty() => {
                self.first.insert(key.to_owned(), text);
            }
            Some(text) => {
                self.test(&path, json!(old));
                self.add(&path, json!(text));
            }
            None if old.is_some() => {
                self.test(&path, json!(old));
                self.operations.push(json!({"op": "remove", "path": path}));
            }
            None => {}
        }
    }

    fn test(&mut self, path: &str, value: Json) {
        self.operations
            .push(json!({"op": "test", "path": path, "value": value}));
    }

    fn add(&mut self, path: &str, value: Json) {
        self.operations
            .push(json!({"op": "add", "path": path, "value": value}));
    }

    fn template_path(&self) -> String {
        let fields = self.workload.template_path.iter();
        fields.map(|field| format!("/{}", escaped(field))).collect()
    }

    fn template_annotation(&mut self, key: &str, text: String) {
        if self.workload.template_annotations.is_empty() {
            self.first_of_template.insert(key.to_owned(), text);
            return;
        }
        let path = format!(
            "{}/metadata/annotations/{}",
            self.template_path(),
            escaped(key)
        );
        self.add(&path, json!(text));
    }

    /// Adds Reloader's environment variables, one for each source. Returns whether that changes the template.
    fn environment(&mut self, sources: &[ChangedConfiguration<'_>], template: &Value) -> bool {
        let mut is_changed = false;
        // Containers that already got a first variable, by list and index.
        let mut added: Vec<(String, usize)> = Vec::new();
        for source in sources {
            let first = source.uses.iter().find_map(|it| it.container.clone());
            let at = match first {
                Some(at) if at.list == "containers" => at,
                _ => ContainerAt {
                    list: "containers".to_owned(),
                    index: 0,
                    name: String::new(),
                },
            };
            let list = template.at(&["spec", &at.list]).and_then(Value::as_list);
            let Some(container) = list.and_then(|list| list.get(at.index)) else {
                continue;
            };
            let path = format!("{}/spec/{}/{}", self.template_path(), at.list, at.index);
            let container_name = container.get("name").and_then(Value::as_str);
            self.test(&format!("{path}/name"), json!(container_name));
            let variable = variable(source.kind, source.name);
            let env = container.get("env").and_then(Value::as_list);
            let env = env.filter(|env| !env.is_empty());
            let is_it =
                |it: &Value| it.get("name").and_then(Value::as_str) == Some(variable.as_str());
            let index = env.and_then(|env| env.iter().position(is_it));
            let old = env
                .zip(index)
                .and_then(|(env, index)| env.get(index)?.get("value"));
            is_changed |= old.and_then(Value::as_str) != Some(&source.checksum);
            let entry = json!({"name": variable, "value": source.checksum});
            let is_first = !added.contains(&(at.list.clone(), at.index));
            match (env, index) {
                (_, Some(index)) => {
                    self.test(&format!("{path}/env/{index}/name"), json!(variable));
                    self.add(&format!("{path}/env/{index}/value"), json!(source.checksum));
                }
                (None, None) if is_first => {
                    self.test(&format!("{path}/env"), Json::Null);
                    self.add(&format!("{path}/env"), json!([entry]));
                    added.push((at.list, at.index));
                }
                (_, None) => self.add(&format!("{path}/env/-"), entry),
            }
        }
        is_changed
    }

    fn pause(&mut self, now: Time) {
        self.annotation(PAUSED_AT, Some(now.whole_seconds().to_string()));
        self.add("/spec/paused", json!(true));
    }

    fn resume(&mut self) {
        self.annotation(PAUSED_AT, None);
        self.add("/spec/paused", json!(false));
    }

    fn step(mut self, summary: String, event: Option<Event>) -> RestartStep {
        if !self.first.is_empty() {
            let first = std::mem::take(&mut self.first);
            self.test("/metadata/annotations", Json::Null);
            self.add("/metadata/annotations", json!(first));
        }
        if !self.first_of_template.is_empty() {
            let first = std::mem::take(&mut self.first_of_template);
            let path = format!("{}/metadata", self.template_path());
            if self.workload.has_template_metadata {
                self.test(&format!("{path}/annotations"), Json::Null);
                self.add(&format!("{path}/annotations"), json!(first));
            } else {
                self.test(&path, Json::Null);
                self.add(&path, json!({"annotations": first}));
            }
        }
        let workload = self.workload;
        let body = Json::Array(self.operations);
        RestartStep {
            summary,
            call: call(
                workload,
                Verb::Patch,
                &workload.kind,
                &workload.name,
                JSON_PATCH,
                body,
            ),
            done_codes: &[],
            event,
        }
    }
}

/// A key as a reference token of a JSON Pointer (RFC 6901).
fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}
