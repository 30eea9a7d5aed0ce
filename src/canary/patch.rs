//! The patch of the Deployment: its preconditions, the state, and the fields that the state describes.

use rollplan_core::action::{ApiCall, Verb};
use rollplan_core::revision::LAST_APPLIED;
use rollplan_core::size::IntOrPercent;
use rollplan_core::snapshot::Deployment;
use rollplan_core::template::Value;
use serde_json::{Value as Json, json};

use crate::ownership::ManagedFields;
use crate::state::{ANNOTATION, Fields, LABEL, State, limit_json};

/// A step of a plan: one patch of the Deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CanaryStep {
    /// A human-readable line.
    pub summary: String,
    /// The call.
    pub call: ApiCall,
}

/// A JSON Patch. It tests UID, generation, and the observed annotation and label, so that it changes only what was observed:
/// the generation does not change with labels.
pub(crate) struct Patch<'a> {
    deployment: &'a Deployment,
    operations: Vec<String>,
}

// === impl Patch ===

impl<'a> Patch<'a> {
    pub(crate) fn new(deployment: &'a Deployment) -> Self {
        let metadata = &deployment.metadata;
        // A generation that is absent in the snapshot is absent on the server too.
        let generation = Some(metadata.generation).filter(|&generation| generation != 0);
        let mut patch = Self {
            deployment,
            operations: Vec::new(),
        };
        patch.push("test", "/metadata/uid", json!(metadata.uid));
        patch.push("test", "/metadata/generation", json!(generation));
        for (map, key, entries) in [
            ("annotations", ANNOTATION, &metadata.annotations),
            ("labels", LABEL, &metadata.labels),
        ] {
            if entries.is_empty() {
                patch.push("test", &format!("/metadata/{map}"), Json::Null);
            } else {
                patch.push("test", &path(map, key), json!(entries.get(key)));
            }
        }
        patch
    }

    fn push(&mut self, op: &str, path: &str, value: Json) {
        let operation = json!({"op": op, "path": path, "value": value});
        self.operations.push(operation.to_string());
    }

    fn remove(&mut self, path: &str) {
        let operation = json!({"op": "remove", "path": path});
        self.operations.push(operation.to_string());
    }

    /// Writes the state, and returns it as written. The label is there if and only if there is a canary, unless the user has
    /// set it.
    pub(crate) fn state(mut self, mut state: State) -> (Self, State) {
        let labels = &self.deployment.metadata.labels;
        if state.canary.is_none() {
            self.remove_label(&state);
            state.label = false;
        } else if !labels.contains_key(LABEL) {
            if labels.is_empty() {
                self.push("add", "/metadata/labels", json!({LABEL: "true"}));
            } else {
                self.push("add", &path("labels", LABEL), json!("true"));
            }
            state.label = true;
        }
        let text = state.text();
        if self.deployment.metadata.annotations.is_empty() {
            self.push("add", "/metadata/annotations", json!({ANNOTATION: text}));
        } else {
            self.push("add", &path("annotations", ANNOTATION), json!(text));
        }
        (self, state)
    }

    /// Removes the state, with the label if it was added for the canary.
    pub(crate) fn without_state(mut self, state: Option<&State>) -> Self {
        if let Some(state) = state {
            self.remove_label(state);
        }
        if self
            .deployment
            .metadata
            .annotations
            .contains_key(ANNOTATION)
        {
            self.remove(&path("annotations", ANNOTATION));
        }
        self
    }

    /// Removes the label.
    pub(crate) fn without_label(mut self) -> Self {
        self.remove(&path("labels", LABEL));
        self
    }

    fn remove_label(&mut self, state: &State) {
        if state.label && self.deployment.metadata.labels.contains_key(LABEL) {
            self.remove(&path("labels", LABEL));
        }
    }

    /// Writes what `kubectl apply` remembers of a manifest. If the caller ends before it applies the manifest, a later
    /// `kubectl apply` still removes the fields that only this manifest has.
    pub(crate) fn applied(mut self, manifest: &str) -> Self {
        self.push("add", &path("annotations", LAST_APPLIED), json!(manifest));
        self
    }

    /// Changes the owners of the fields. It tests the version of the object, because other clients change them as well.
    pub(crate) fn owners(mut self, managed: &ManagedFields, entries: Vec<Json>) -> Self {
        let version = json!(managed.resource_version);
        self.push("test", "/metadata/resourceVersion", version);
        self.push("replace", "/metadata/managedFields", Json::Array(entries));
        self
    }

    /// Writes the fields that differ.
    pub(crate) fn fields(mut self, before: Option<Fields>, after: Fields) -> Self {
        let limits = "/spec/strategy/rollingUpdate";
        let was = |it: fn(&Fields) -> IntOrPercent| before.as_ref().map(it);
        if was(|it| it.max_surge) != Some(after.max_surge) {
            let path = format!("{limits}/maxSurge");
            self.push("add", &path, limit_json(after.max_surge));
        }
        if was(|it| it.max_unavailable) != Some(after.max_unavailable) {
            let path = format!("{limits}/maxUnavailable");
            self.push("add", &path, limit_json(after.max_unavailable));
        }
        let seconds = after.min_ready_seconds;
        if before.map(|it| it.min_ready_seconds) != Some(seconds) {
            self.push("add", "/spec/minReadySeconds", json!(seconds));
        }
        let seconds = after.progress_deadline_seconds;
        if before.map(|it| it.progress_deadline_seconds) != Some(seconds) {
            self.push("add", "/spec/progressDeadlineSeconds", json!(seconds));
        }
        self
    }

    /// Replaces the template. Its JSON is copied, so that numbers stay exact.
    pub(crate) fn template(mut self, template: &Value) -> Self {
        let template = template.to_json();
        self.operations.push(format!(
            r#"{{"op":"replace","path":"/spec/template","value":{template}}}"#
        ));
        self
    }

    pub(crate) fn step(self, summary: String) -> CanaryStep {
        let deployment = self.deployment;
        CanaryStep {
            summary,
            call: ApiCall {
                verb: Verb::Patch,
                api_version: deployment.api_version.clone(),
                kind: deployment.kind.clone(),
                namespace: deployment.metadata.namespace.clone(),
                name: deployment.metadata.name.clone(),
                subresource: String::new(),
                content_type: "application/json-patch+json".to_owned(),
                body_json: format!("[{}]", self.operations.join(",")),
            },
        }
    }
}

/// The path of an annotation or label.
fn path(map: &str, key: &str) -> String {
    let key = key.replace('~', "~0").replace('/', "~1");
    format!("/metadata/{map}/{key}")
}
