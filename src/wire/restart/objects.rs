//! Reads the objects in Kubernetes JSON: workloads, configurations, and the objects that show the state of workloads.

use std::collections::BTreeMap;
use std::mem;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rollplan_core::interrupt::Interrupt;
use rollplan_core::kind::restarted_template;
use rollplan_core::selector::LabelSelector;
use rollplan_core::template::Value;
use rollplan_core::time::Time;
use rollplan_restart::{
    Configuration, ConfigurationKind, Content, Data, Hasher, Profile, Rollout, Started, Workload,
    references,
};

use super::started::{Pods, WorkloadObject};
use crate::error::{Error, Reason, Violations};
use crate::objects::{ContentReader, Found, Metadata, Objects};
use crate::parse::parse_selector;
use crate::parse::restart::{RestartItems, RestartOptions};
use crate::read::{Read, kubernetes, objects};

/// The field of the request that contains the texts.
const FIELD: &str = "objects";
/// The kind in which the CSI driver reports mounted objects of pods.
const CLASS_STATUS: &str = "SecretProviderClassPodStatus";

objects! {
    /// core/v1 ConfigMap or Secret.
    struct Contents {
        metadata: ContentsMetadata = "metadata",
        data: Option<BTreeMap<String, String>> = "data",
        binary_data: Option<BTreeMap<String, String>> = "binaryData",
        string_data: Option<BTreeMap<String, String>> = "stringData",
        immutable: bool = "immutable",
    }

    struct ContentsMetadata {
        resource_version: String = "resourceVersion",
        creation_timestamp: Option<Time> = "creationTimestamp",
        annotations: BTreeMap<String, String> = "annotations",
        managed_fields: Vec<ManagedFields> = "managedFields",
    }

    /// meta/v1 ManagedFieldsEntry.
    struct ManagedFields {
        time: Option<Time> = "time",
        /// The fields are keys, and contain the keys below them.
        fields: Value = "fieldsV1",
    }

    /// The status of a SecretProviderClass in a pod.
    struct ClassObject {
        metadata: ContentsMetadata = "metadata",
        status: ClassStatus = "status",
    }

    struct ClassStatus {
        class: String = "secretProviderClassName",
        objects: Vec<ClassVersion> = "objects",
    }

    struct ClassVersion {
        id: String = "id",
        version: String = "version",
    }

    /// core/v1 Namespace.
    struct Namespace {
        metadata: NamespaceMetadata = "metadata",
    }

    struct NamespaceMetadata {
        annotations: BTreeMap<String, String> = "annotations",
    }

    /// policy/v1 PodDisruptionBudget.
    struct DisruptionBudget {
        spec: DisruptionBudgetSpec = "spec",
        status: DisruptionBudgetStatus = "status",
    }

    struct DisruptionBudgetSpec {
        selector: Option<kubernetes::LabelSelector> = "selector",
    }

    struct DisruptionBudgetStatus {
        disruptions_allowed: Option<i32> = "disruptionsAllowed",
    }
}

/// Adds the objects of the texts. Returns whether a list is only one page of a longer list.
pub(super) fn read(
    texts: &[String],
    options: &RestartOptions,
    items: &mut RestartItems,
    interrupt: &dyn Interrupt,
) -> Result<bool, Error> {
    let mut violations = Violations::default();
    let Objects {
        found,
        is_continued,
    } = Objects::find(FIELD, texts, &mut violations, interrupt)?;
    for object in &found {
        if let Err(fault) = object.check() {
            object.reject(&fault, &mut violations);
        }
    }
    violations.into_result()?;
    let mut reader = ObjectReader {
        options,
        hasher: options.hasher(),
        items,
        pods: Pods::default(),
        budgets: Vec::new(),
        contents: ContentReader::new(interrupt),
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
    Ok(is_continued)
}

/// A PodDisruptionBudget.
struct Budget {
    namespace: String,
    selector: LabelSelector,
    allowed: i32,
}

struct ObjectReader<'r, 'i> {
    options: &'r RestartOptions,
    hasher: Hasher,
    items: &'r mut RestartItems,
    pods: Pods,
    budgets: Vec<Budget>,
    contents: ContentReader<'i>,
    interrupt: &'i dyn Interrupt,
}

impl<'i> ObjectReader<'_, 'i> {
    /// Reads objects about workloads: pods, ReplicaSets, budgets, namespaces and statuses of SecretProviderClasses.
    fn context_object(&mut self, object: &Found<'_>) {
        match (&*object.api_version, &*object.kind) {
            ("v1", "Pod") => self.pods.pod(object),
            ("apps/v1", "ReplicaSet") => self.pods.set(object),
            ("policy/v1", "PodDisruptionBudget") => self.budget(object),
            ("v1", "Namespace") => {
                let Namespace { metadata } = object.read_leniently();
                let name = object.metadata.name.clone().into_owned();
                self.items.namespaces.insert(name, metadata.annotations);
            }
            (api_version, CLASS_STATUS) if api_version.starts_with("secrets-store.csi.") => {
                self.class(object);
            }
            _ => {}
        }
    }

    fn budget(&mut self, object: &Found<'_>) {
        let DisruptionBudget { spec, status } = object.read_leniently();
        let selector = parse_selector(spec.selector.unwrap_or_default());
        if let (Some(selector), Some(allowed)) = (selector, status.disruptions_allowed) {
            self.budgets.push(Budget {
                namespace: object.metadata.namespace.clone().into_owned(),
                selector,
                allowed,
            });
        }
    }

    /// Reads the status of a SecretProviderClass in a pod.
    fn class(&mut self, object: &Found<'_>) {
        let ClassObject { metadata, status } = object.read_leniently();
        let (changed_at, _) = changed_at(&metadata.managed_fields, &["f:status"]);
        let name = status.class;
        let versions = status.objects.into_iter();
        let versions: BTreeMap<String, String> = versions.map(|it| (it.id, it.version)).collect();
        let content = if versions.is_empty() {
            Content::Absent
        } else {
            let profile = self.options.plan.profile;
            self.hasher.class(&name, profile, &versions)
        };
        self.items.add_class(Configuration {
            kind: ConfigurationKind::SecretProviderClass,
            namespace: object.metadata.namespace.clone().into_owned(),
            name,
            annotations: BTreeMap::new(),
            content,
            created_at: None,
            changed_at,
            // The status of a new pod is not a change.
            is_change_uncertain: changed_at <= metadata.creation_timestamp,
            version: None,
            observations: 0,
        });
    }

    fn object(&mut self, object: &Found<'i>) -> Result<(), Error> {
        let kind = (&*object.api_version, &*object.kind);
        match kind {
            ("v1", "ConfigMap") => {
                return self.configuration(object, ConfigurationKind::ConfigMap);
            }
            ("v1", "Secret") => return self.configuration(object, ConfigurationKind::Secret),
            _ => {}
        }
        if let Some(template) = restarted_template(kind.0, kind.1) {
            return self.workload(object, template, "");
        }
        let mut kinds = self.options.kinds.iter();
        let custom = kinds.find(|it| (it.api_version.as_str(), it.kind.as_str()) == kind);
        match custom.map(|it| (it.template_path.as_str(), it.resource.as_str())) {
            Some(("", resource)) => self.workload(object, "spec.template", resource),
            Some((template, resource)) => self.workload(object, template, resource),
            None => Ok(()),
        }
    }

    /// Reads an object, or records why it cannot be read.
    fn content<T: Read<'i>>(&mut self, object: &Found<'i>) -> Result<Option<T>, Error> {
        // The contents of two objects are never kept at the same time.
        self.contents.reset_memory();
        Ok(match self.contents.read(object)? {
            Ok(content) => Some(content),
            Err(fault) => {
                let field = format!("{}{}", object.origin(), fault.path());
                self.items
                    .violation(field, fault.reason, &fault.description);
                None
            }
        })
    }

    fn configuration(&mut self, object: &Found<'i>, kind: ConfigurationKind) -> Result<(), Error> {
        let origin = object.origin();
        let Some(Contents {
            metadata,
            data,
            binary_data,
            string_data,
            immutable,
        }) = self.content(object)?
        else {
            return Ok(());
        };
        // In manifests of Secrets. The API server adds it to the data.
        let written = string_data.filter(|_| kind == ConfigurationKind::Secret);
        let written = written.into_iter().flatten();
        let written = written.map(|(key, value)| (key, STANDARD.encode(value)));
        let written: BTreeMap<String, String> = written.collect();
        let profile = self.options.plan.profile;
        let content_of = |data: Option<&BTreeMap<String, String>>| {
            let data = Data {
                data,
                binary_data: binary_data.as_ref(),
            };
            self.hasher.content(kind, profile, data)
        };
        // Values that are replaced must be valid, too.
        let content = content_of(data.as_ref()).and_then(|content| {
            if written.is_empty() {
                Ok(content)
            } else {
                let all = data.into_iter().flatten().chain(written);
                content_of(Some(&all.collect()))
            }
        });
        let content = match content {
            Ok(content) => content,
            Err(error) => {
                let field = format!("{origin}.{}[{:?}]", error.field, error.key);
                self.items
                    .violation(field, Reason::WrongType, "must be base64");
                return Ok(());
            }
        };
        let created_at = metadata.creation_timestamp;
        let (changed_at, is_change_uncertain) = if immutable {
            (created_at, false)
        } else {
            changed_at(&metadata.managed_fields, &["f:data", "f:binaryData"])
        };
        let is_manifest = object.metadata.uid.is_empty();
        let configuration = Configuration {
            kind,
            namespace: object.metadata.namespace.clone().into_owned(),
            name: object.metadata.name.clone().into_owned(),
            annotations: metadata.annotations,
            content,
            created_at,
            changed_at,
            is_change_uncertain,
            version: metadata.resource_version.parse().ok(),
            observations: 0,
        };
        self.items
            .configuration_object(configuration, is_manifest, &origin, self.interrupt)
    }

    fn workload(
        &mut self,
        object: &Found<'i>,
        template_path: &str,
        resource: &str,
    ) -> Result<(), Error> {
        let origin = object.origin();
        let Some(mut content) = self.content::<WorkloadObject>(object)? else {
            return Ok(());
        };
        let mut fields = template_path.split('.').skip(1);
        let template = fields.try_fold(&mut content.spec, |value, field| {
            value.as_map_mut()?.get_mut(field)
        });
        // Templates can be large: a copy would need as much memory again.
        let template = template.map(mem::take);
        let Some(template) = template.filter(|it| it.as_map().is_some()) else {
            let field = format!("{origin}.{template_path}");
            self.items.violation(field, Reason::Required, "is required");
            return Ok(());
        };
        let labels = strings(&template, &["metadata", "labels"]);
        let Metadata {
            name,
            namespace,
            uid,
            resource_version,
            ..
        } = &object.metadata;
        let budgets = self.budgets.iter();
        let budgets =
            budgets.filter(|it| it.namespace == *namespace && it.selector.matches(&labels));
        let disruptions_allowed = budgets.map(|it| it.allowed).min();
        let state = self.pods.of(uid, &object.kind, &content);
        let rollout = content.rollout(&object.kind, state.is_failing);
        let started = match (state.pods, rollout) {
            // Pods of the revision may be created until the rollout is complete.
            (Started::Never, Rollout::Progressing | Rollout::Stalled) => Started::Starting {
                reported: None,
                since: state.revision_at.unwrap_or_default(),
            },
            (pods, _) => pods,
        };
        let is_job = matches!(&*object.kind, "CronJob" | "Job");
        let is_recreated = is_job && self.options.plan.profile == Profile::Reloader;
        let whole = if is_recreated {
            self.content::<Value>(object)?
        } else {
            None
        };
        let WorkloadObject { metadata, spec, .. } = content;
        let update_strategy = spec.at(&["updateStrategy", "type"]);
        let workload = Workload {
            api_version: object.api_version.clone().into_owned(),
            kind: object.kind.clone().into_owned(),
            namespace: namespace.clone().into_owned(),
            name: name.clone().into_owned(),
            uid: uid.clone().into_owned(),
            version: resource_version.clone().into_owned(),
            annotations: metadata.annotations,
            template_annotations: strings(&template, &["metadata", "annotations"]),
            has_template_metadata: template.get("metadata").is_some_and(|it| !it.is_null()),
            template_path: template_path.split('.').map(str::to_owned).collect(),
            references: references(&template),
            rollout,
            started,
            oldest_created_at: state.oldest_created_at,
            unscheduled_version: state.unscheduled_version.filter(|it| *it > 0),
            revision_at: state.revision_at,
            is_paused: spec.get("paused") == Some(&Value::Bool(true)),
            is_on_delete: update_strategy.and_then(Value::as_str) == Some("OnDelete"),
            is_deleting: metadata.deletion_timestamp.is_some(),
            disruptions_allowed,
            template,
            object: whole,
        };
        self.items
            .workload(workload, resource.to_owned(), &origin, self.interrupt)
    }
}

/// The metadata that a manager owns that has set no other label or annotation than that of `kubectl apply`.
const LAST_APPLIED: &str = "f:kubectl.kubernetes.io/last-applied-configuration";

/// The time of the last write that may have changed one of these fields, according to the managed fields, and whether it may
/// have changed only others. kubectl prints managed fields only on request.
///
/// The time of a manager is that of the last change of any field that it owns (`managedFieldsUpdater` in
/// `k8s.io/apimachinery/pkg/util/managedfields/internal`).
fn changed_at(managers: &[ManagedFields], fields: &[&str]) -> (Option<Time>, bool) {
    let managers = managers
        .iter()
        .filter_map(|it| Some((it.time?, it.fields.as_map()?)));
    let is_data = |field: &str| fields.contains(&field);
    let owners = managers
        .clone()
        .filter(|(_, owned)| owned.keys().any(|field| is_data(field)));
    let Some(last) = owners.clone().map(|(at, _)| at).max() else {
        // The manager that removed the last key owns none of the fields.
        return (managers.map(|(at, _)| at).max(), true);
    };
    let is_neutral = |(field, owned): (&String, &Value)| match field.as_str() {
        "f:type" => true,
        "f:metadata" => owned.as_map().is_some_and(|metadata| {
            let is_annotated = metadata.keys().all(|field| field == "f:annotations");
            let annotations = metadata.get("f:annotations").and_then(Value::as_map);
            let mut annotations = annotations.into_iter().flat_map(|it| it.keys());
            is_annotated && annotations.all(|key| matches!(key.as_str(), "." | LAST_APPLIED))
        }),
        field => is_data(field),
    };
    let mut last_owners = owners.filter(|(at, _)| *at == last);
    let is_certain = last_owners.any(|(_, owned)| owned.iter().all(is_neutral));
    (Some(last), !is_certain)
}

/// The strings of a map in a template.
fn strings(template: &Value, path: &[&str]) -> BTreeMap<String, String> {
    let entries = template.at(path).and_then(Value::as_map);
    let entries = entries.into_iter().flatten();
    entries
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}
