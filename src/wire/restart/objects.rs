//! Reads the objects in Kubernetes JSON: workloads, configurations, and the objects that show the state of workloads.

use std::collections::BTreeMap;

use bytes::Bytes;
use rollplan_core::interrupt::Interrupt;
use rollplan_core::restart::{
    Configuration, ConfigurationKind, Content, Data, Hasher, Profile, Started,
};
use rollplan_core::selector::LabelSelector;
use rollplan_core::time::Time;
use serde_json::Value as Json;

use super::json::{integer, strings, text, time};
use super::started::{Pods, rollout};
use crate::proto;
use crate::wire::error::{Error, Reason, Violations};
use crate::wire::objects::{Found, Metadata, check_keys, scan_field};
use crate::wire::parse::path::Path;
use crate::wire::parse::restart::{Items, RestartOptions, WorkloadItem};
use crate::wire::parse::selector::parse_selector;
use crate::wire::print_time::timestamp;

/// The field of the request that contains the texts.
const FIELD: &str = "objects_json";
/// The kind in which the CSI driver reports mounted objects of pods.
const CLASS_STATUS: &str = "SecretProviderClassPodStatus";

/// Adds the objects of the texts. Returns whether a list is only one page of a longer list.
pub(super) fn read(
    texts: &[Bytes],
    options: &RestartOptions,
    items: &mut Items,
    interrupt: &dyn Interrupt,
) -> Result<bool, Error> {
    let mut violations = Violations::default();
    let mut found = Vec::new();
    let mut is_continued = false;
    for (index, text) in texts.iter().enumerate() {
        interrupt.check()?;
        is_continued |= scan_field(FIELD, index, text, &mut found, &mut violations)?;
    }
    for object in &found {
        if let Err(fault) = check_keys(object) {
            let field = format!("{}{}", object.origin(&object.metadata()), fault.path);
            violations.add(field, fault.reason, fault.description);
        }
    }
    if !violations.is_empty() {
        return Err(Error::InvalidArgument(violations));
    }
    let mut reader = Reader {
        options,
        hasher: options.hasher(),
        items,
        pods: Pods::default(),
        budgets: Vec::new(),
        classes: BTreeMap::new(),
        interrupt,
    };
    // Objects about workloads are read first, because they may follow the workloads in the texts.
    for object in &found {
        interrupt.check()?;
        reader.context_object(object);
    }
    for object in &found {
        interrupt.check()?;
        reader.object(object)?;
    }
    reader.classes();
    Ok(is_continued)
}

/// A PodDisruptionBudget.
struct Budget {
    namespace: String,
    selector: LabelSelector,
    allowed: i32,
}

/// The versions of the objects of a SecretProviderClass.
#[derive(Default)]
struct Class {
    versions: BTreeMap<String, String>,
    changed_at: Option<Time>,
}

struct Reader<'r, 'i> {
    options: &'r RestartOptions,
    hasher: Hasher,
    items: &'r mut Items,
    pods: Pods,
    budgets: Vec<Budget>,
    classes: BTreeMap<(String, String), Class>,
    interrupt: &'i dyn Interrupt,
}

impl Reader<'_, '_> {
    /// Reads objects about workloads: pods, ReplicaSets, budgets, namespaces and statuses of SecretProviderClasses.
    fn context_object(&mut self, object: &Found<'_>) {
        let metadata = object.metadata();
        let kind = (&*object.api_version, &*object.kind);
        match kind {
            ("v1", "Pod") => self.pods.pod(
                &metadata,
                &field(object, "metadata"),
                &field(object, "status"),
            ),
            ("apps/v1", "ReplicaSet") => {
                self.pods.set(
                    &metadata,
                    &field(object, "metadata"),
                    &field(object, "status"),
                );
            }
            ("policy/v1", "PodDisruptionBudget") => self.budget(object, &metadata),
            ("v1", "Namespace") => {
                let annotations = field(object, "metadata");
                let annotations = strings(&annotations["annotations"]);
                let name = metadata.name.clone().into_owned();
                self.items.namespaces.insert(name, annotations);
            }
            (api_version, CLASS_STATUS) if api_version.starts_with("secrets-store.csi.") => {
                self.class(object, &metadata);
            }
            _ => {}
        }
    }

    fn budget(&mut self, object: &Found<'_>, metadata: &Metadata<'_>) {
        let spec = field(object, "spec");
        let expressions = spec["selector"]["matchExpressions"].as_array();
        let expressions = expressions.into_iter().flatten().map(|it| {
            let values = it["values"].as_array().into_iter().flatten();
            proto::LabelSelectorRequirement {
                key: text(it, "/key").to_owned(),
                operator: text(it, "/operator").to_owned(),
                values: values.filter_map(Json::as_str).map(str::to_owned).collect(),
            }
        });
        let selector = proto::LabelSelector {
            match_labels: strings(&spec["selector"]["matchLabels"]),
            match_expressions: expressions.collect(),
        };
        let allowed = integer(&field(object, "status"), "/disruptionsAllowed");
        if let (Ok(selector), Some(allowed)) = (parse_selector(selector), allowed) {
            self.budgets.push(Budget {
                namespace: metadata.namespace.clone().into_owned(),
                selector,
                allowed: i32::try_from(allowed).unwrap_or_default(),
            });
        }
    }

    /// Each pod has its own status object. During a rotation of versions, the latest status applies.
    fn class(&mut self, object: &Found<'_>, metadata: &Metadata<'_>) {
        let status = field(object, "status");
        let name = text(&status, "/secretProviderClassName").to_owned();
        let changed_at = changed_at(&field(object, "metadata"), &["f:status"]);
        let class = self
            .classes
            .entry((metadata.namespace.clone().into_owned(), name))
            .or_default();
        if !class.versions.is_empty() && changed_at < class.changed_at {
            return;
        }
        let objects = status["objects"].as_array().into_iter().flatten();
        class.versions = objects
            .map(|it| (text(it, "/id").to_owned(), text(it, "/version").to_owned()))
            .collect();
        class.changed_at = changed_at;
    }

    fn object(&mut self, object: &Found<'_>) -> Result<(), Error> {
        let kind = (&*object.api_version, &*object.kind);
        match kind {
            ("v1", "ConfigMap") => self.configuration(object, ConfigurationKind::ConfigMap),
            ("v1", "Secret") => self.configuration(object, ConfigurationKind::Secret),
            ("apps/v1", "Deployment" | "StatefulSet" | "DaemonSet")
            | ("batch/v1", "CronJob" | "Job") => self.workload(object, None),
            _ => {
                let mut kinds = self.options.kinds.iter();
                let custom = kinds.find(|it| (it.api_version.as_str(), it.kind.as_str()) == kind);
                match custom {
                    Some(custom) => self.workload(object, Some(custom)),
                    None => Ok(()),
                }
            }
        }
    }

    fn configuration(&mut self, object: &Found<'_>, kind: ConfigurationKind) -> Result<(), Error> {
        let metadata = object.metadata();
        let origin = object.origin(&metadata);
        let mut maps = [None, None];
        for (map, name) in maps.iter_mut().zip(["data", "binaryData"]) {
            let Some(text) = object.field(name) else {
                continue;
            };
            // The reader's error is omitted, because it contains the value.
            let Ok(read) = serde_json::from_str::<BTreeMap<String, Option<String>>>(text) else {
                let field = format!("{origin}.{name}");
                let description = "must be an object with strings";
                self.items.violation(field, Reason::WrongType, description);
                return Ok(());
            };
            let read = read.into_iter();
            *map = Some(
                read.map(|(key, it)| (key, it.unwrap_or_default()))
                    .collect(),
            );
        }
        let [data, binary_data] = &maps;
        let data = Data {
            data: data.as_ref(),
            binary_data: binary_data.as_ref(),
        };
        let profile = self.options.plan.profile;
        let content = match self.hasher.content(kind, profile, data) {
            Ok(content) => content,
            Err(error) => {
                let field = format!("{origin}.{}[{:?}]", error.field, error.key);
                self.items
                    .violation(field, Reason::WrongType, "must be base64");
                return Ok(());
            }
        };
        let all = field(object, "metadata");
        let changed_at = match object.field("immutable") {
            Some("true") => time(&all, "/creationTimestamp"),
            _ => changed_at(&all, &["f:data", "f:binaryData"]),
        };
        let is_manifest = metadata.uid.is_empty();
        let configuration = Configuration {
            kind,
            namespace: metadata.namespace.into_owned(),
            name: metadata.name.into_owned(),
            annotations: strings(&all["annotations"]),
            content,
            changed_at,
            observations: 0,
        };
        self.items
            .configuration_object(configuration, is_manifest, &origin, self.interrupt)
    }

    fn workload(
        &mut self,
        object: &Found<'_>,
        custom: Option<&proto::WorkloadKind>,
    ) -> Result<(), Error> {
        let metadata = object.metadata();
        let origin = object.origin(&metadata);
        let all = field(object, "metadata");
        let (spec, status) = (field(object, "spec"), field(object, "status"));
        let template_path = match (custom, &*object.kind) {
            (Some(custom), _) if !custom.template_path.is_empty() => custom.template_path.as_str(),
            (None, "CronJob") => "spec.jobTemplate.spec.template",
            _ => "spec.template",
        };
        let fields = template_path.split('.').skip(1);
        let pointer: String = fields.map(|field| format!("/{field}")).collect();
        let Some(template) = spec.pointer(&pointer).filter(|it| it.is_object()) else {
            let field = format!("{origin}.{template_path}");
            self.items.violation(field, Reason::Required, "is required");
            return Ok(());
        };
        let labels = strings(&template["metadata"]["labels"]);
        let budgets = self.budgets.iter();
        let budgets =
            budgets.filter(|it| it.namespace == metadata.namespace && it.selector.matches(&labels));
        let disruptions_allowed = budgets.map(|it| it.allowed).min();
        let started = self
            .pods
            .of(&metadata.uid, &object.kind, &all, &spec, &status);
        let (oldest, starting_since) = match started.pods {
            Started::At(at) => (Some(at), None),
            Started::Starting { reported, since } => (reported, Some(since)),
            Started::Never | Started::Unknown => (None, None),
        };
        let is_job = matches!(&*object.kind, "CronJob" | "Job");
        let is_recreated = is_job && self.options.plan.profile == Profile::Reloader;
        let whole = is_recreated.then(|| {
            let mut whole = String::new();
            object.write_json(&mut whole);
            let whole: Json = serde_json::from_str(&whole).unwrap_or_default();
            (&whole).into()
        });
        let owner = |key: &str| text(&all, key).to_owned();
        let message = proto::Workload {
            api_version: object.api_version.clone().into_owned(),
            kind: object.kind.clone().into_owned(),
            metadata: Some(proto::ObjectMeta {
                name: owner("/name"),
                namespace: owner("/namespace"),
                uid: owner("/uid"),
                annotations: strings(&all["annotations"]),
                deletion_timestamp: time(&all, "/deletionTimestamp").map(timestamp),
                ..proto::ObjectMeta::default()
            }),
            template_path: template_path.to_owned(),
            resource: custom.map_or_else(String::new, |it| it.resource.clone()),
            oldest_pod_started_at: oldest.map(timestamp),
            pods_starting_since: starting_since.map(timestamp),
            no_pods_running: started.pods == Started::Never,
            revision_created_at: started.revision_at.map(timestamp),
            rollout: rollout(&object.kind, &all, &spec, &status, started.is_failing).into(),
            paused: spec["paused"] == true,
            on_delete: text(&spec, "/updateStrategy/type") == "OnDelete",
            disruptions_allowed,
            ..proto::Workload::default()
        };
        let item = WorkloadItem {
            message,
            template: Some(template.into()),
            object: whole,
        };
        self.items
            .workload(item, &Path::Object(&origin), self.interrupt)
    }

    /// Adds the SecretProviderClasses, which are known only from statuses.
    fn classes(self) {
        let profile = self.options.plan.profile;
        for ((namespace, name), class) in self.classes {
            let configuration = Configuration {
                kind: ConfigurationKind::SecretProviderClass,
                content: match class.versions.is_empty() {
                    true => Content::Absent,
                    false => self.hasher.class(&name, profile, &class.versions),
                },
                namespace,
                name,
                annotations: BTreeMap::new(),
                changed_at: class.changed_at,
                observations: 0,
            };
            self.items.configurations.push(configuration);
        }
    }
}

/// The value of a field. `null` if it is absent.
fn field(object: &Found<'_>, name: &str) -> Json {
    let text = object.field(name);
    text.and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default()
}

/// The time of the last write to one of these fields, according to the managed fields. kubectl prints these only on
/// request.
fn changed_at(metadata: &Json, fields: &[&str]) -> Option<Time> {
    let managers = metadata["managedFields"].as_array()?;
    let times = |owns: &dyn Fn(&Json) -> bool| {
        let managers = managers.iter().filter(|it| owns(it));
        managers.filter_map(|it| time(it, "/time")).max()
    };
    let owns = |manager: &Json| {
        let owned = manager["fieldsV1"].as_object();
        owned.is_some_and(|owned| fields.iter().any(|field| owned.contains_key(*field)))
    };
    // The manager that removed the last key owns none of the fields.
    times(&owns).or_else(|| times(&|_| true))
}
