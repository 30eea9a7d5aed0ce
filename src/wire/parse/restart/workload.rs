//! Parses the workloads of a request for restarts, with the configurations that their templates reference.

use std::collections::BTreeMap;

use rollplan_core::template::Value;
use rollplan_restart::{ContainerAt, Reference, Rollout, Started, Usage, Workload, references};

use super::WorkloadItem;
use crate::proto;
use crate::wire::error::Reason;
use crate::wire::parse::Parser;
use crate::wire::parse::meta::Needed;
use crate::wire::parse::name::{is_api_version, is_kind};
use crate::wire::parse::path::Path;
use crate::wire::read::kubernetes;

impl Parser<'_> {
    pub(super) fn kind_of_workload(&mut self, api_version: &str, kind: &str, path: &Path<'_>) {
        if !is_api_version(api_version) {
            let description = format_args!("{api_version:?} is not a group and a version");
            self.violation(&path.field("api_version"), Reason::InvalidName, description);
        }
        if !is_kind(kind) {
            let description =
                format_args!("{kind:?} is not a kind: at most 63 of A-Z, a-z and 0-9");
            self.violation(&path.field("kind"), Reason::InvalidName, description);
        }
    }

    pub(super) fn resource(&mut self, resource: &str, path: &Path<'_>) {
        let is_valid =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if resource.len() > 63 || !resource.bytes().all(is_valid) {
            let description = "must be the plural name of a resource, for example \"deployments\"";
            self.violation(path, Reason::InvalidName, description);
        }
    }

    pub(super) fn template_path(&mut self, text: &str, path: &Path<'_>) {
        let is_field =
            |field: &str| !field.is_empty() && field.bytes().all(|it| it.is_ascii_alphanumeric());
        if !text.is_empty() && (text.len() > 253 || !text.split('.').all(is_field)) {
            let description = "must be names of fields with dots, for example \"spec.template\"";
            self.violation(path, Reason::InvalidName, description);
        }
    }

    pub(super) fn workload(&mut self, item: WorkloadItem, path: &Path<'_>) -> Workload {
        let WorkloadItem {
            message,
            template,
            object,
        } = item;
        let proto::Workload {
            api_version,
            kind,
            metadata,
            references: listed,
            template_annotations,
            template_path,
            resource,
            oldest_pod_started_at,
            revision_created_at,
            rollout,
            no_pods_running,
            paused,
            on_delete,
            disruptions_allowed,
            pods_starting_since,
            oldest_pod_created_at,
            pods_unscheduled_version,
        } = message;
        self.kind_of_workload(&api_version, &kind, path);
        self.resource(&resource, &path.field("resource"));
        self.template_path(&template_path, &path.field("template_path"));
        // A manifest is planned, but has no steps.
        let is_manifest =
            template.is_some() && metadata.as_ref().is_some_and(|it| it.uid.is_empty());
        let needed = Needed {
            uid: !is_manifest,
            namespace: !is_manifest,
            resource_version: false,
        };
        let metadata_path = path.field("metadata");
        let metadata = metadata.map(|metadata| {
            let proto::ObjectMeta {
                name,
                namespace,
                uid,
                deletion_timestamp,
                annotations,
            } = metadata;
            let deletion_path = metadata_path.field("deletion_timestamp");
            kubernetes::ObjectMeta {
                name,
                namespace,
                uid,
                deletion_timestamp: self.optional_time(deletion_timestamp, &deletion_path),
                annotations,
                ..kubernetes::ObjectMeta::default()
            }
        });
        let metadata = self.metadata(metadata, needed, &metadata_path);
        let (references, annotations, has_metadata) = match &template {
            Some(template) => (
                references(template),
                annotations_of(template),
                template.get("metadata").is_some_and(|it| !it.is_null()),
            ),
            None => {
                let references_path = path.field("references");
                let listed = listed.into_iter().enumerate();
                let listed = listed
                    .filter_map(|(index, it)| self.reference(it, &references_path.index(index)));
                (listed.collect(), template_annotations, true)
            }
        };
        let rollout = match proto::RolloutState::try_from(rollout) {
            Ok(proto::RolloutState::Unspecified) => Rollout::Unknown,
            Ok(proto::RolloutState::Progressing) => Rollout::Progressing,
            Ok(proto::RolloutState::Complete) => Rollout::Complete,
            Ok(proto::RolloutState::Stalled) => Rollout::Stalled,
            Err(_) => self.unknown("rollout", rollout, path),
        };
        let started_path = path.field("oldest_pod_started_at");
        let reported = self.optional_time(oldest_pod_started_at, &started_path);
        let since_path = path.field("pods_starting_since");
        let since = self.optional_time(pods_starting_since, &since_path);
        let revision_at =
            self.optional_time(revision_created_at, &path.field("revision_created_at"));
        for (time, path) in [(reported, &started_path), (since, &since_path)] {
            if time.is_some() && no_pods_running {
                let description = "may not be set together with no_pods_running";
                self.violation(path, Reason::Exclusive, description);
            }
        }
        let started = match (reported, since, no_pods_running) {
            (reported, Some(since), _) => Started::Starting { reported, since },
            (Some(at), None, _) => Started::At(at),
            // A caller that does not know the field above may mean that no container has started.
            (None, None, true) if matches!(rollout, Rollout::Progressing | Rollout::Stalled) => {
                Started::Starting {
                    reported: None,
                    since: revision_at.unwrap_or_default(),
                }
            }
            (None, None, true) => Started::Never,
            (None, None, false) => Started::Unknown,
        };
        let fields = match (template_path.as_str(), kind.as_str()) {
            ("", "CronJob") => "spec.jobTemplate.spec.template",
            ("", _) => "spec.template",
            (given, _) => given,
        };
        Workload {
            template_path: fields.split('.').map(str::to_owned).collect(),
            oldest_created_at: self
                .optional_time(oldest_pod_created_at, &path.field("oldest_pod_created_at")),
            unscheduled_version: Some(pods_unscheduled_version).filter(|it| *it > 0),
            revision_at,
            api_version,
            kind,
            namespace: metadata.namespace,
            name: metadata.name,
            uid: metadata.uid,
            annotations: metadata.annotations,
            is_deleting: metadata.deletion_timestamp.is_some(),
            template_annotations: annotations,
            has_template_metadata: has_metadata,
            references,
            rollout,
            started,
            is_paused: paused,
            is_on_delete: on_delete,
            disruptions_allowed,
            template,
            object,
        }
    }

    fn reference(&mut self, reference: proto::Reference, path: &Path<'_>) -> Option<Reference> {
        let proto::Reference {
            kind,
            name,
            keys,
            usage,
            optional,
            projected,
            container,
            container_list,
            required_keys,
        } = reference;
        let kind = self.configuration_kind(kind, path);
        let name = self.name(name, &path.field("name"));
        let usage = match proto::ReferenceUsage::try_from(usage) {
            Ok(proto::ReferenceUsage::Env) => Some(Usage::Env),
            Ok(proto::ReferenceUsage::EnvFrom) => Some(Usage::EnvFrom),
            Ok(proto::ReferenceUsage::SubPath) => Some(Usage::SubPath),
            Ok(proto::ReferenceUsage::Volume) => Some(Usage::Volume),
            Ok(proto::ReferenceUsage::Unmounted) => Some(Usage::Unmounted),
            Ok(proto::ReferenceUsage::ImagePull) => Some(Usage::ImagePull),
            Ok(proto::ReferenceUsage::Named) => Some(Usage::Named),
            Ok(proto::ReferenceUsage::VolumeAccess) => Some(Usage::VolumeAccess),
            Ok(proto::ReferenceUsage::Unspecified) => {
                let description = "is required";
                self.violation(&path.field("usage"), Reason::Required, description);
                None
            }
            Err(_) => {
                self.unknown::<()>("usage", usage, path);
                None
            }
        };
        let list = if container_list.is_empty() {
            "containers".to_owned()
        } else {
            container_list
        };
        let container = (!container.is_empty()).then_some(ContainerAt {
            list,
            index: 0,
            name: container,
        });
        // Only containers have environment variables, so a reference without a container is that of an unnamed
        // container.
        let container = container.or_else(|| {
            matches!(usage, Some(Usage::Env | Usage::EnvFrom)).then(|| ContainerAt {
                list: "containers".to_owned(),
                index: 0,
                name: String::new(),
            })
        });
        Some(Reference {
            kind: kind?,
            name,
            keys: (!keys.is_empty()).then_some(keys),
            usage: usage?,
            optional,
            required_keys,
            projected,
            container,
        })
    }
}

fn annotations_of(template: &Value) -> BTreeMap<String, String> {
    let annotations = template.at(&["metadata", "annotations"]);
    let entries = annotations.and_then(Value::as_map).into_iter().flatten();
    entries
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}
