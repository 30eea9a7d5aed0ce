//! A simulated cluster of workloads and configurations in which restarts take no time. `tests/sim` uses it, too.

use std::collections::BTreeMap;

use rollplan_core::action::{ApiCall, Verb};
use rollplan_core::interrupt::Never;
use rollplan_core::time::Time;
use rollplan_restart::{
    Calls, Condition, Configuration, ConfigurationKind, Content, Data, Decision, Effect, Hasher,
    Input, Options, Plan, Profile, RestartStep, Rollout, Started, Workload, WorkloadPlan,
    plan_restarts, references,
};
use rollplan_world::patch::{apply, strings};
use serde_json::{Map, Value as Json, json};

pub(crate) use ConfigurationKind::{ConfigMap, Secret, SecretProviderClass};

/// 2026-01-01T00:00:00Z.
pub(crate) const START: i64 = 1_767_225_600;

/// Reads and writes of the objects of one namespace, "shop".
#[derive(Clone, Debug)]
pub(crate) struct World {
    /// Seconds since [`START`].
    pub(crate) now: i64,
    pub(crate) options: Options,
    /// Whether the planner receives the times of changes and of pod starts.
    pub(crate) tells_times: bool,
    pub(crate) configurations_complete: bool,
    pub(crate) workloads: BTreeMap<String, Running>,
    pub(crate) configurations: BTreeMap<(ConfigurationKind, String), Stored>,
    pub(crate) namespace: BTreeMap<String, String>,
    /// The names of created Jobs.
    pub(crate) jobs: Vec<String>,
    pub(crate) events: Vec<String>,
}

/// A workload, and its pods.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub(crate) object: Json,
    /// When its pods were created. `None` if the planner does not receive that.
    pub(crate) created: Option<i64>,
    /// The resource version at which its pods had no node yet.
    pub(crate) unscheduled: Option<u64>,
    /// When its pods started.
    pub(crate) started: Option<i64>,
    /// When the kubelet reports this start. `None` for at once.
    pub(crate) reported: Option<i64>,
    pub(crate) rollout: Rollout,
    /// The number of changes to its pod template.
    pub(crate) restarts: usize,
    pub(crate) disruptions_allowed: Option<i32>,
}

/// A configuration.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stored {
    pub(crate) data: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) created_at: i64,
    pub(crate) changed_at: i64,
    /// Whether another field was changed at that time.
    pub(crate) is_change_uncertain: bool,
    pub(crate) version: Option<u64>,
    pub(crate) observations: u32,
    pub(crate) checksum: Option<String>,
}

impl World {
    pub(crate) fn new(profile: Profile) -> Self {
        let mut options = Options::new(profile);
        options.skew = std::time::Duration::ZERO;
        Self {
            now: 0,
            options,
            tells_times: true,
            configurations_complete: true,
            workloads: BTreeMap::new(),
            configurations: BTreeMap::new(),
            namespace: BTreeMap::new(),
            jobs: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Adds a workload whose pods start now.
    pub(crate) fn add(&mut self, kind: &str, name: &str, annotations: Json, template: Json) {
        let group = match kind {
            "CronJob" | "Job" => "batch/v1",
            "Deployment" | "StatefulSet" | "DaemonSet" => "apps/v1",
            _ => "example.com/v1",
        };
        let spec = match kind {
            "CronJob" => json!({"jobTemplate": {"spec": {"template": template}}}),
            _ => json!({"template": template}),
        };
        let object = json!({
            "apiVersion": group, "kind": kind, "spec": spec,
            "metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}"), "annotations": annotations},
        });
        let mut object = object;
        drop_empty(&mut object);
        let running = Running {
            object,
            created: None,
            unscheduled: None,
            started: Some(self.now),
            reported: None,
            rollout: Rollout::Complete,
            restarts: 0,
            disruptions_allowed: None,
        };
        self.workloads.insert(name.to_owned(), running);
    }

    /// Removes all annotations from a pod template.
    pub(crate) fn strip(&mut self, name: &str) {
        let object = &mut self.workloads.get_mut(name).unwrap().object;
        object["spec"]["template"]["metadata"]["annotations"] = json!({});
        drop_empty(object);
    }

    /// Creates or updates a configuration.
    pub(crate) fn set(&mut self, kind: ConfigurationKind, name: &str, data: &[(&str, &str)]) {
        let now = self.now;
        let created = || Stored {
            created_at: now,
            ..Stored::default()
        };
        let entry = self.configurations.entry((kind, name.to_owned()));
        let stored = entry.or_insert_with(created);
        let data = data.iter().map(|(key, value)| {
            let value = match kind {
                Secret => base64(value),
                _ => (*value).to_owned(),
            };
            ((*key).to_owned(), value)
        });
        let data: BTreeMap<_, _> = data.collect();
        if stored.data != data {
            stored.changed_at = now;
        }
        stored.data = data;
    }

    pub(crate) fn annotate(&mut self, kind: ConfigurationKind, name: &str, key: &str, value: &str) {
        let stored = self.configurations.get_mut(&(kind, name.to_owned()));
        let annotations = &mut stored.unwrap().annotations;
        annotations.insert(key.to_owned(), value.to_owned());
    }

    pub(crate) fn delete(&mut self, kind: ConfigurationKind, name: &str) {
        self.configurations.remove(&(kind, name.to_owned()));
    }

    pub(crate) fn restarts(&self, name: &str) -> usize {
        self.workloads[name].restarts
    }

    pub(crate) fn annotation(&self, name: &str, key: &str) -> Option<&str> {
        self.workloads[name].object["metadata"]["annotations"][key].as_str()
    }

    pub(crate) fn input(&self) -> Input {
        let workloads = self.workloads.values();
        let configurations = self.configurations.iter();
        let namespaces = [("shop".to_owned(), self.namespace.clone())];
        Input {
            now: time(self.now),
            workloads: workloads.map(|it| self.workload(it)).collect(),
            configurations: configurations
                .map(|((kind, name), stored)| self.configuration(*kind, name, stored))
                .collect(),
            namespaces: namespaces.into_iter().collect(),
            configurations_complete: self.configurations_complete,
            options: self.options.clone(),
            calls: Calls::default(),
        }
    }

    pub(crate) fn plan(&self) -> Plan {
        let plan = plan_restarts(&self.input(), &Never).unwrap();
        plan.workloads.iter().for_each(check_effects);
        plan
    }

    /// The plan for a workload. `None` if it is not selected.
    pub(crate) fn plan_for(&self, name: &str) -> Option<WorkloadPlan> {
        let input = self.input();
        let mut plans = self.plan().workloads.into_iter();
        plans.find(|it| input.workloads[it.index].name == name)
    }

    pub(crate) fn decision(&self, name: &str) -> Decision {
        self.plan_for(name)
            .map_or(Decision::None, |plan| plan.decision)
    }

    /// The reasons of the conditions of a workload.
    pub(crate) fn reasons(&self, name: &str) -> Vec<&'static str> {
        let conditions = self.plan_for(name).map(|it| it.conditions);
        let conditions = conditions.into_iter().flatten();
        conditions.map(|it| it.reason).collect()
    }

    pub(crate) fn changes(&self, name: &str) -> Vec<String> {
        let changes = self.plan_for(name).map(|it| it.changes);
        let changes = changes.into_iter().flatten();
        changes.map(|it| it.to_string()).collect()
    }

    /// Plans and executes steps until a plan has none.
    pub(crate) fn settle(&mut self) {
        for _ in 0..20 {
            let steps: Vec<RestartStep> = self.steps();
            if steps.is_empty() {
                return;
            }
            for step in steps {
                self.carry_out(&step).unwrap();
            }
        }
        panic!("plans do not converge: {:?}", self.plan().workloads);
    }

    /// Settles at every time at which a plan is due, for the given number of seconds.
    pub(crate) fn run(&mut self, seconds: i64) {
        let end = self.now + seconds;
        loop {
            self.settle();
            let next = self.plan().requeue_after;
            let next = next.map_or(end, |it| self.now + it.plus_seconds(1).seconds());
            if next >= end {
                self.now = end;
                self.settle();
                return;
            }
            self.now = next;
        }
    }

    pub(crate) fn steps(&self) -> Vec<RestartStep> {
        let plans = self.plan().workloads.into_iter();
        plans.flat_map(|plan| plan.steps).collect()
    }

    /// Executes the call of a step. Fails if the API server would reject it.
    pub(crate) fn carry_out(&mut self, step: &RestartStep) -> Result<(), String> {
        let ApiCall {
            verb,
            kind,
            name,
            body_json,
            ..
        } = &step.call;
        let body: Json = serde_json::from_str(body_json).unwrap();
        match (verb, kind.as_str()) {
            (Verb::Patch, _) => {
                let now = self.now;
                let running = self.workloads.get_mut(name).unwrap();
                let before = running.object["spec"].clone();
                apply(&mut running.object, &body)?;
                let template = |spec: &Json| spec.get("template").cloned();
                if template(&before) != template(&running.object["spec"]) {
                    running.restarts += 1;
                    running.started = running.started.map(|_| now + 1);
                    running.created = running.created.map(|_| now + 1);
                    running.reported = None;
                }
            }
            (Verb::Create, "Job") => {
                if !self.jobs.contains(name) {
                    self.jobs.push(name.clone());
                }
                if let Some(running) = self.workloads.get_mut(name) {
                    running.object["metadata"] = body["metadata"].clone();
                    running.object["metadata"]["uid"] = json!(format!("uid-{name}-again"));
                    running.started = Some(self.now + 1);
                    running.restarts += 1;
                }
            }
            (Verb::Delete, "Job") => {}
            call => panic!("{call:?}"),
        }
        self.events
            .extend(step.event.iter().map(|event| event.message.clone()));
        Ok(())
    }

    pub(crate) fn workload(&self, running: &Running) -> Workload {
        let Running {
            object,
            created,
            unscheduled,
            started,
            reported,
            rollout,
            restarts: _,
            disruptions_allowed,
        } = running;
        let kind = object["kind"].as_str().unwrap();
        let path = match kind {
            "CronJob" => "spec.jobTemplate.spec.template",
            _ => "spec.template",
        };
        let path: Vec<String> = path.split('.').map(str::to_owned).collect();
        let template = object.pointer(&format!("/{}", path.join("/"))).unwrap();
        let text = |key: &str| object["metadata"][key].as_str().unwrap().to_owned();
        Workload {
            api_version: object["apiVersion"].as_str().unwrap().to_owned(),
            kind: kind.to_owned(),
            namespace: text("namespace"),
            name: text("name"),
            uid: text("uid"),
            version: String::new(),
            annotations: strings(&object["metadata"]["annotations"]),
            template_annotations: strings(&template["metadata"]["annotations"]),
            has_template_metadata: !template["metadata"].is_null(),
            template_path: path,
            references: references(&template.into()),
            rollout: *rollout,
            started: match (self.tells_times, started) {
                (false, _) => Started::Unknown,
                (true, None) => Started::Never,
                (true, Some(at)) if reported.is_some_and(|reported| self.now < reported) => {
                    Started::Starting {
                        reported: None,
                        since: time(*at),
                    }
                }
                (true, Some(at)) => Started::At(time(*at)),
            },
            oldest_created_at: created.filter(|_| self.tells_times).map(time),
            unscheduled_version: *unscheduled,
            revision_at: None,
            is_paused: object["spec"]["paused"] == true,
            is_on_delete: object["spec"]["updateStrategy"]["type"] == "OnDelete",
            is_deleting: false,
            disruptions_allowed: *disruptions_allowed,
            template: template.into(),
            object: Some(object.into()),
        }
    }

    fn configuration(&self, kind: ConfigurationKind, name: &str, stored: &Stored) -> Configuration {
        let profile = self.options.profile;
        let hasher = Hasher::default();
        let content = match (&stored.checksum, kind) {
            (Some(checksum), _) => Content::Present {
                keys: None,
                binary: std::collections::BTreeSet::new(),
                whole: checksum.clone(),
            },
            (None, SecretProviderClass) => hasher.class(name, profile, &stored.data),
            (None, kind) => {
                let data = Data {
                    data: Some(&stored.data),
                    binary_data: None,
                };
                hasher.content(kind, profile, data).unwrap()
            }
        };
        Configuration {
            kind,
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            annotations: stored.annotations.clone(),
            content,
            created_at: self.tells_times.then(|| time(stored.created_at)),
            changed_at: self.tells_times.then(|| time(stored.changed_at)),
            is_change_uncertain: stored.is_change_uncertain,
            version: stored.version,
            observations: stored.observations,
        }
    }
}

pub(crate) fn time(seconds: i64) -> Time {
    Time::new(START + seconds, 0).unwrap()
}

fn base64(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}

/// The API server stores no empty annotations.
fn drop_empty(json: &mut Json) {
    if let Json::Object(fields) = json {
        fields.retain(|key, value| key != "annotations" || *value != json!({}));
        fields.values_mut().for_each(drop_empty);
    }
}

/// A pod template whose container has these fields.
pub(crate) fn template(container: Json, volumes: Json) -> Json {
    let mut app = Map::new();
    app.insert("name".to_owned(), json!("app"));
    app.extend(container.as_object().cloned().unwrap_or_default());
    json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [app], "volumes": volumes},
    })
}

/// A pod template that reads all keys of ConfigMaps into its environment.
pub(crate) fn env_from(names: &[&str]) -> Json {
    let sources = names
        .iter()
        .map(|name| json!({"configMapRef": {"name": name}}));
    let sources: Vec<_> = sources.collect();
    template(json!({"envFrom": sources}), json!([]))
}

/// A pod template that reads one key of a ConfigMap.
pub(crate) fn env(name: &str, key: &str) -> Json {
    let source = json!({"configMapKeyRef": {"name": name, "key": key}});
    template(
        json!({"env": [{"name": "X", "valueFrom": source}]}),
        json!([]),
    )
}

/// The annotation that opts a workload in.
pub(crate) fn enabled() -> Json {
    json!({"rollplan.dev/restart": "enabled"})
}

/// A decision follows from the effects of its conditions.
fn check_effects(plan: &WorkloadPlan) {
    let has = |effect| plan.conditions.iter().any(|it| it.effect == effect);
    let (holds, waits) = (has(Effect::Holds), has(Effect::Waits));
    let expected = match plan.decision {
        Decision::Hold => holds,
        Decision::Wait => waits && !holds,
        Decision::None | Decision::Record | Decision::Restart => !holds && !waits,
    };
    assert!(expected, "{plan:?}");
    let is_timed = |it: &Condition| it.effect != Effect::Waits || it.until.is_some();
    assert!(plan.conditions.iter().all(is_timed), "{plan:?}");
    let would_fail = has(Effect::PreventsStart) && !plan.changes.is_empty();
    assert!(
        !would_fail || plan.decision != Decision::Restart,
        "{plan:?}"
    );
}
