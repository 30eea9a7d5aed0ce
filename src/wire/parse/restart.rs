//! Requests for restarts. An item that is invalid is left out and reported; the others are planned.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use rollplan_core::interrupt::Interrupt;
use rollplan_core::restart::{
    Configuration, ConfigurationKind, ContainerAt, Content, Hasher, Options, Profile, Reference,
    RestartOn, Rollout, Started, Strategy, Usage, Workload, references,
};
use rollplan_core::template::{Template, Value};
use rollplan_core::time::Time;

use super::Parser;
use super::meta::Needed;
use super::name::{is_api_version, is_kind};
use super::path::Path;
use crate::proto;
use crate::wire::error::{Error, Reason, Violation, Violations};
use crate::wire::limits::{CONFIGURATIONS_MAX, WORKLOADS_MAX, limit};
use crate::wire::origin::Origin;

/// Violations of items that a response lists.
const ITEM_VIOLATIONS_MAX: usize = 1_000;
/// Digits that the checksum of a key has at least.
const CHECKSUM_DIGITS_MIN: usize = 16;

/// A workload with what Kubernetes JSON tells beyond the message.
#[derive(Debug, Default)]
pub(in crate::wire) struct WorkloadItem {
    pub(in crate::wire) message: proto::Workload,
    pub(in crate::wire) template: Option<Value>,
    pub(in crate::wire) object: Option<Value>,
}

/// Items of a request that are valid, and what is wrong with the others.
#[derive(Debug, Default)]
pub(in crate::wire) struct Items {
    pub(in crate::wire) workloads: Vec<Workload>,
    /// Plural names of resources, one for each workload.
    pub(in crate::wire) resources: Vec<String>,
    pub(in crate::wire) configurations: Vec<Configuration>,
    pub(in crate::wire) namespaces: BTreeMap<String, BTreeMap<String, String>>,
    pub(in crate::wire) violations: Vec<Violation>,
    pub(in crate::wire) omitted: usize,
    seen: HashSet<String>,
}

/// Options of a request.
#[derive(Debug)]
pub(in crate::wire) struct RestartOptions {
    pub(in crate::wire) now: Time,
    pub(in crate::wire) plan: Options,
    pub(in crate::wire) kinds: Vec<proto::WorkloadKind>,
    pub(in crate::wire) events_as_calls: bool,
    pub(in crate::wire) include_unchanged: bool,
    pub(in crate::wire) checksum_key: Vec<u8>,
}

/// Takes in what concerns the whole request.
pub(in crate::wire) fn restart_options(
    now: Option<prost_types::Timestamp>,
    options: Option<proto::RestartOptions>,
    interrupt: &dyn Interrupt,
) -> Result<RestartOptions, Error> {
    let mut parser = Parser::new(interrupt);
    let path = Path::Root("now");
    let now = parser.required(now, &path);
    let now = now.and_then(|now| parser.time(now, &path));
    let parsed = parser.restart_options(now.unwrap_or(Time::MIN), options.unwrap_or_default());
    parser.finish(parsed)
}

// === impl RestartOptions ===

impl RestartOptions {
    pub(in crate::wire) fn hasher(&self) -> Hasher {
        Hasher::new(&self.checksum_key)
    }
}

// === impl Items ===

impl Items {
    /// Takes in the messages of a request.
    pub(in crate::wire) fn read(
        &mut self,
        workloads: Vec<proto::Workload>,
        configurations: Vec<proto::Configuration>,
        namespaces: Vec<proto::NamespaceSettings>,
        interrupt: &dyn Interrupt,
    ) -> Result<(), Error> {
        for (index, message) in workloads.into_iter().enumerate() {
            let item = WorkloadItem {
                message,
                ..WorkloadItem::default()
            };
            self.workload(item, &Path::Root("workloads").index(index), interrupt)?;
        }
        for (index, message) in configurations.into_iter().enumerate() {
            let root = Path::Root("configurations");
            self.configuration(message, &root.index(index), interrupt)?;
        }
        for (index, message) in namespaces.into_iter().enumerate() {
            let root = Path::Root("namespaces");
            let path = root.index(index);
            let proto::NamespaceSettings { name, annotations } = message;
            let mut parser = Parser::new(interrupt);
            let name = parser.text(name, &path.field("name"));
            let name = parser.namespace(name, &path.field("name"));
            parser.annotations(&annotations, &path.field("annotations"));
            if self.is_valid(parser)? {
                self.namespaces.insert(name, annotations);
            }
        }
        Ok(())
    }

    /// Takes in a workload.
    pub(in crate::wire) fn workload(
        &mut self,
        item: WorkloadItem,
        path: &Path<'_>,
        interrupt: &dyn Interrupt,
    ) -> Result<(), Error> {
        limit("workloads", self.workloads.len() + 1, WORKLOADS_MAX)?;
        let mut parser = Parser::new(interrupt);
        let resource = item.message.resource.clone();
        let workload = parser.workload(item, path);
        let id = format!(
            "{} {} {}/{}",
            workload.api_version, workload.kind, workload.namespace, workload.name
        );
        self.check_unique(&mut parser, id, path);
        if self.is_valid(parser)? {
            self.workloads.push(workload);
            self.resources.push(resource);
        }
        Ok(())
    }

    /// Takes in a configuration as checksums.
    pub(in crate::wire) fn configuration(
        &mut self,
        message: proto::Configuration,
        path: &Path<'_>,
        interrupt: &dyn Interrupt,
    ) -> Result<(), Error> {
        limit(
            "configurations",
            self.configurations.len() + 1,
            CONFIGURATIONS_MAX,
        )?;
        let mut parser = Parser::new(interrupt);
        let configuration = parser.configuration(message, path);
        let (Some(configuration), true) = (configuration, parser.violations.is_empty()) else {
            self.is_valid(parser)?;
            return Ok(());
        };
        self.add_configuration(configuration, parser, path)
    }

    /// Adds a configuration that was found valid.
    fn add_configuration(
        &mut self,
        configuration: Configuration,
        mut parser: Parser<'_>,
        path: &Path<'_>,
    ) -> Result<(), Error> {
        let Configuration {
            kind,
            namespace,
            name,
            ..
        } = &configuration;
        let id = format!("{kind} {namespace}/{name}");
        self.check_unique(&mut parser, id, path);
        if self.is_valid(parser)? {
            self.configurations.push(configuration);
        }
        Ok(())
    }

    /// Adds a configuration of Kubernetes JSON.
    pub(in crate::wire) fn configuration_object(
        &mut self,
        configuration: Configuration,
        origin: &Origin,
        interrupt: &dyn Interrupt,
    ) -> Result<(), Error> {
        limit(
            "configurations",
            self.configurations.len() + 1,
            CONFIGURATIONS_MAX,
        )?;
        let path = Path::Object(origin);
        let metadata = path.field("metadata");
        let mut parser = Parser::new(interrupt);
        let Configuration {
            namespace, name, ..
        } = &configuration;
        parser.name(name.clone(), &metadata.field("name"));
        parser.text(namespace.clone(), &metadata.field("namespace"));
        parser.namespace(namespace.clone(), &metadata.field("namespace"));
        self.add_configuration(configuration, parser, &path)
    }

    /// Notes what is wrong with an item.
    pub(in crate::wire) fn violation(&mut self, field: String, reason: Reason, description: &str) {
        let mut violations = Violations::default();
        violations.add(field, reason, description);
        self.extend(violations);
    }

    fn check_unique(&mut self, parser: &mut Parser<'_>, id: String, path: &Path<'_>) {
        if parser.violations.is_empty() && !self.seen.insert(id) {
            let description = "an earlier item has the same kind, namespace and name";
            parser.violation(path, Reason::Duplicate, description);
        }
    }

    /// Whether an item is valid. Its violations are kept.
    fn is_valid(&mut self, parser: Parser<'_>) -> Result<bool, Error> {
        parser.interrupt.check()?;
        let is_valid = parser.violations.is_empty();
        self.extend(parser.violations);
        Ok(is_valid)
    }

    fn extend(&mut self, violations: Violations) {
        let Violations { listed, omitted } = violations;
        self.omitted += omitted;
        for violation in listed {
            if self.violations.len() < ITEM_VIOLATIONS_MAX {
                self.violations.push(violation);
            } else {
                self.omitted += 1;
            }
        }
    }
}

impl Parser<'_> {
    fn restart_options(&mut self, now: Time, options: proto::RestartOptions) -> RestartOptions {
        let proto::RestartOptions {
            profile,
            restart_on,
            quiet,
            max_wait,
            min_interval,
            max_hold,
            skew,
            disruption_budget_wait,
            frozen_namespaces,
            checksum_key,
            kinds,
            reloader,
            max_concurrent,
            all_workloads,
            image_pull_secrets,
            breaker,
            events_as_calls,
            include_unchanged,
        } = options;
        let path = Path::Root("options");
        let profile = match proto::RestartProfile::try_from(profile) {
            Ok(proto::RestartProfile::Unspecified | proto::RestartProfile::Rollplan) => {
                Profile::Rollplan
            }
            Ok(proto::RestartProfile::Xing) => Profile::Xing,
            Ok(proto::RestartProfile::Reloader) => Profile::Reloader,
            Err(_) => self.unknown("profile", profile, &path),
        };
        let restart_on = match proto::RestartOn::try_from(restart_on) {
            Ok(proto::RestartOn::Unspecified | proto::RestartOn::All) => RestartOn::All,
            Ok(proto::RestartOn::Env) => RestartOn::Env,
            Err(_) => self.unknown("restart_on", restart_on, &path),
        };
        let mut plan = Options::new(profile);
        plan.restart_on = restart_on;
        for (field, given, option) in [
            ("quiet", quiet, &mut plan.quiet),
            ("max_wait", max_wait, &mut plan.max_wait),
            ("min_interval", min_interval, &mut plan.min_interval),
            ("max_hold", max_hold, &mut plan.max_hold),
            ("skew", skew, &mut plan.skew),
        ] {
            if let Some(given) = given {
                *option = self.span(given, &path.field(field));
            }
        }
        let wait_path = path.field("disruption_budget_wait");
        plan.disruption_budget_wait = disruption_budget_wait.map(|it| self.span(it, &wait_path));
        plan.frozen_namespaces = frozen_namespaces;
        let max_concurrent = self.count(max_concurrent, &path.field("max_concurrent"));
        plan.max_concurrent = usize::try_from(max_concurrent).unwrap_or_default();
        plan.all_workloads = all_workloads;
        plan.image_pull_secrets = image_pull_secrets;
        plan.breaker = breaker.unwrap_or(true);
        plan.uses = include_unchanged;
        self.reloader_options(
            reloader.unwrap_or_default(),
            &mut plan,
            &path.field("reloader"),
        );
        let kinds_path = path.field("kinds");
        for (index, kind) in kinds.iter().enumerate() {
            self.workload_kind(kind, &kinds_path.index(index));
        }
        RestartOptions {
            now,
            plan,
            kinds,
            events_as_calls,
            include_unchanged,
            checksum_key,
        }
    }

    fn reloader_options(
        &mut self,
        options: proto::ReloaderOptions,
        plan: &mut Options,
        path: &Path<'_>,
    ) {
        let proto::ReloaderOptions {
            strategy,
            auto_reload_all,
            reload_on_create,
            reload_on_delete,
            ignore_config_maps,
            ignore_secrets,
            ignore_jobs,
            ignore_cron_jobs,
        } = options;
        let reloader = &mut plan.reloader;
        reloader.strategy = match proto::ReloadStrategy::try_from(strategy) {
            Ok(proto::ReloadStrategy::Unspecified | proto::ReloadStrategy::EnvVars) => {
                Strategy::EnvVars
            }
            Ok(proto::ReloadStrategy::Annotations) => Strategy::Annotations,
            Err(_) => self.unknown("strategy", strategy, path),
        };
        reloader.auto_reload_all = auto_reload_all;
        reloader.reload_on_create = reload_on_create;
        reloader.reload_on_delete = reload_on_delete;
        reloader.ignore_config_maps = ignore_config_maps;
        reloader.ignore_secrets = ignore_secrets;
        reloader.ignore_jobs = ignore_jobs;
        reloader.ignore_cron_jobs = ignore_cron_jobs;
    }

    fn unknown<T: Default>(&mut self, field: &'static str, value: i32, path: &Path<'_>) -> T {
        let description = format_args!("unknown value {value}");
        self.violation(&path.field(field), Reason::UnknownEnumValue, description);
        T::default()
    }

    fn span(&mut self, duration: prost_types::Duration, path: &Path<'_>) -> Duration {
        Duration::try_from(duration).unwrap_or_else(|_| {
            let description = "must be a duration that is not negative";
            self.violation(path, Reason::Negative, description);
            Duration::ZERO
        })
    }

    fn workload_kind(&mut self, kind: &proto::WorkloadKind, path: &Path<'_>) {
        let proto::WorkloadKind {
            api_version,
            kind,
            resource,
            template_path,
        } = kind;
        self.kind_of_workload(api_version, kind, path);
        self.resource(resource, &path.field("resource"));
        self.template_path(template_path, &path.field("template_path"));
    }

    fn kind_of_workload(&mut self, api_version: &str, kind: &str, path: &Path<'_>) {
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

    fn resource(&mut self, resource: &str, path: &Path<'_>) {
        let is_valid =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if resource.len() > 63 || !resource.bytes().all(is_valid) {
            let description = "must be the plural name of a resource, for example \"deployments\"";
            self.violation(path, Reason::InvalidName, description);
        }
    }

    fn template_path(&mut self, text: &str, path: &Path<'_>) {
        let is_field =
            |field: &str| !field.is_empty() && field.bytes().all(|it| it.is_ascii_alphanumeric());
        if !text.is_empty() && (text.len() > 253 || !text.split('.').all(is_field)) {
            let description = "must be names of fields with dots, for example \"spec.template\"";
            self.violation(path, Reason::InvalidName, description);
        }
    }

    fn workload(&mut self, item: WorkloadItem, path: &Path<'_>) -> Workload {
        let WorkloadItem {
            message,
            template,
            object,
        } = item;
        let proto::Workload {
            api_version,
            kind,
            metadata,
            template: raw,
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
        } = message;
        self.kind_of_workload(&api_version, &kind, path);
        self.resource(&resource, &path.field("resource"));
        self.template_path(&template_path, &path.field("template_path"));
        let needed = Needed {
            namespace: true,
            resource_version: false,
        };
        let metadata = self.metadata(metadata, needed, &path.field("metadata"));
        let is_typed = raw.is_some();
        let template = template.or_else(|| {
            let raw = raw?;
            let template_path = path.field("template");
            _ = self.tape(&raw, None, &template_path);
            if !listed.is_empty() || !template_annotations.is_empty() {
                let description = "may not be given beside references and template_annotations";
                self.violation(&template_path, Reason::Exclusive, description);
            }
            self.violations
                .is_empty()
                .then(|| Template::new(raw).value().clone())
        });
        let (references, annotations, has_metadata) = match &template {
            Some(template) => (
                references(template),
                annotations_of(template),
                template.get("metadata").is_some_and(|it| !it.is_null()),
            ),
            // Something is wrong with it.
            None if is_typed => (Vec::new(), BTreeMap::new(), true),
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
            Ok(proto::RolloutState::Stuck) => Rollout::Stuck,
            Err(_) => self.unknown("rollout", rollout, path),
        };
        let started_path = path.field("oldest_pod_started_at");
        let started = self.optional_time(oldest_pod_started_at, &started_path);
        let started = match (started, no_pods_running) {
            (Some(_), true) => {
                let description = "may not be given with no_pods_running";
                self.violation(&started_path, Reason::Exclusive, description);
                Started::Unknown
            }
            (Some(time), false) => Started::At(time),
            (None, true) => Started::Never,
            (None, false) => Started::Unknown,
        };
        let fields = match (template_path.as_str(), kind.as_str()) {
            ("", "CronJob") => "spec.jobTemplate.spec.template",
            ("", _) => "spec.template",
            (given, _) => given,
        };
        Workload {
            template_path: fields.split('.').map(str::to_owned).collect(),
            revision_at: self
                .optional_time(revision_created_at, &path.field("revision_created_at")),
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
        let list = match container_list.is_empty() {
            true => "containers".to_owned(),
            false => container_list,
        };
        let container = (!container.is_empty()).then_some(ContainerAt {
            list,
            index: 0,
            name: container,
        });
        // Only containers have environments, and whoever lists no container means one of them.
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
            projected,
            container,
        })
    }

    fn configuration_kind(&mut self, kind: i32, path: &Path<'_>) -> Option<ConfigurationKind> {
        match proto::ConfigurationKind::try_from(kind) {
            Ok(proto::ConfigurationKind::ConfigMap) => Some(ConfigurationKind::ConfigMap),
            Ok(proto::ConfigurationKind::Secret) => Some(ConfigurationKind::Secret),
            Ok(proto::ConfigurationKind::SecretProviderClass) => {
                Some(ConfigurationKind::SecretProviderClass)
            }
            Ok(proto::ConfigurationKind::Unspecified) => {
                self.violation(&path.field("kind"), Reason::Required, "is required");
                None
            }
            Err(_) => {
                self.unknown::<()>("kind", kind, path);
                None
            }
        }
    }

    fn configuration(
        &mut self,
        message: proto::Configuration,
        path: &Path<'_>,
    ) -> Option<Configuration> {
        let proto::Configuration {
            kind,
            namespace,
            name,
            annotations,
            key_checksums,
            checksum,
            absent,
            changed_at,
            observations,
        } = message;
        let kind = self.configuration_kind(kind, path);
        let namespace = self.text(namespace, &path.field("namespace"));
        let namespace = self.namespace(namespace, &path.field("namespace"));
        let name = self.name(name, &path.field("name"));
        self.annotations(&annotations, &path.field("annotations"));
        let checksums_path = path.field("key_checksums");
        for (key, checksum) in &key_checksums {
            if checksum.len() < CHECKSUM_DIGITS_MIN || !is_hexadecimal(checksum) {
                let description = "must be at least 16 lower-case hexadecimal digits";
                self.violation(&checksums_path.key(key), Reason::OutOfRange, description);
            }
        }
        let checksum_path = path.field("checksum");
        if !is_hexadecimal(&checksum) {
            let description = "must be lower-case hexadecimal digits";
            self.violation(&checksum_path, Reason::OutOfRange, description);
        }
        let content = match (absent, key_checksums.is_empty(), checksum.is_empty()) {
            (true, true, true) => Content::Absent,
            (true, ..) => {
                let description = "may not be set beside checksums";
                self.violation(&path.field("absent"), Reason::Exclusive, description);
                Content::Absent
            }
            // Only what is empty has neither.
            (false, true, true) => Content::Present {
                keys: Some(BTreeMap::new()),
                whole: String::new(),
            },
            (false, is_whole, _) => Content::Present {
                keys: (!is_whole).then_some(key_checksums),
                whole: checksum,
            },
        };
        let observations = self.count(observations, &path.field("observations"));
        let changed_at = self.optional_time(changed_at, &path.field("changed_at"));
        Some(Configuration {
            kind: kind?,
            namespace,
            name,
            annotations,
            content,
            changed_at,
            observations: u32::try_from(observations).unwrap_or_default(),
        })
    }
}

fn is_hexadecimal(text: &str) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    text.bytes().all(is_digit)
}

fn annotations_of(template: &Value) -> BTreeMap<String, String> {
    let annotations = template.at(&["metadata", "annotations"]);
    let entries = annotations.and_then(Value::as_map).into_iter().flatten();
    entries
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}
