//! Parses requests for restarts. Invalid items are skipped and reported; the others are planned.

mod configuration;
mod options;

use std::collections::{BTreeMap, HashMap, HashSet};

use rollplan_core::interrupt::Interrupt;
use rollplan_core::time::Time;
use rollplan_restart::{Configuration, ConfigurationKind, Content, Hasher, Options, Workload};

use super::Parser;
use super::path::Path;
use crate::error::{Error, Reason, Violation, Violations};
use crate::limits::{CONFIGURATIONS_MAX, WORKLOADS_MAX, limit};
use crate::origin::Origin;
use crate::proto;

/// The maximum number of violations of items in a response.
const ITEM_VIOLATIONS_MAX: usize = 1_000;

/// The valid items of a request, and the violations of the others.
#[derive(Debug, Default)]
pub(crate) struct RestartItems {
    pub(crate) workloads: Vec<Workload>,
    /// The plural names of the resources, one for each workload.
    pub(crate) resources: Vec<String>,
    pub(crate) configurations: Vec<Configuration>,
    pub(crate) namespaces: BTreeMap<String, BTreeMap<String, String>>,
    pub(crate) violations: Vec<Violation>,
    pub(crate) omitted: usize,
    seen: HashSet<String>,
    /// The positions of SecretProviderClasses, by name.
    classes: HashMap<String, usize>,
}

/// The options of a request.
#[derive(Debug)]
pub(crate) struct RestartOptions {
    pub(crate) now: Time,
    pub(crate) plan: Options,
    pub(crate) kinds: Vec<proto::WorkloadKind>,
    pub(crate) events_as_calls: bool,
    pub(crate) include_unchanged: bool,
    pub(crate) checksum_key: Vec<u8>,
}

/// Parses the options of a request.
pub(crate) fn restart_options(
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
    pub(crate) fn hasher(&self) -> Hasher {
        Hasher::new(&self.checksum_key)
    }
}

// === impl RestartItems ===

impl RestartItems {
    /// Parses the configurations that are given as checksums.
    pub(crate) fn read(
        &mut self,
        configurations: Vec<proto::Configuration>,
        interrupt: &dyn Interrupt,
    ) -> Result<(), Error> {
        for (index, message) in configurations.into_iter().enumerate() {
            let root = Path::Root("configurations");
            self.configuration(message, &root.index(index), interrupt)?;
        }
        Ok(())
    }

    /// Adds a workload. `resource` is the plural name of its kind if the caller has named it.
    pub(crate) fn workload(
        &mut self,
        workload: Workload,
        resource: String,
        origin: &Origin,
        interrupt: &dyn Interrupt,
    ) -> Result<(), Error> {
        limit("workloads", self.workloads.len() + 1, WORKLOADS_MAX)?;
        let path = Path::Object(origin);
        let metadata = path.field("metadata");
        let mut parser = Parser::new(interrupt);
        let Workload {
            api_version,
            kind,
            namespace,
            name,
            uid,
            annotations,
            ..
        } = &workload;
        // A manifest is planned, but has no steps.
        if !uid.is_empty() {
            parser.text(namespace.clone(), &metadata.field("namespace"));
        }
        parser.name(name.clone(), &metadata.field("name"));
        parser.namespace(namespace.clone(), &metadata.field("namespace"));
        parser.annotations(annotations, &metadata.field("annotations"));
        let id = format!("{api_version} {kind} {namespace}/{name}");
        self.check_unique(&mut parser, id, &path);
        if self.is_valid(parser)? {
            self.workloads.push(workload);
            self.resources.push(resource);
        }
        Ok(())
    }

    /// Parses a configuration that is given as checksums.
    pub(crate) fn configuration(
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

    /// Adds a valid configuration.
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
        if *kind == ConfigurationKind::SecretProviderClass && parser.violations.is_empty() {
            self.add_class(configuration);
            return Ok(());
        }
        self.check_unique(&mut parser, id, path);
        if self.is_valid(parser)? {
            self.configurations.push(configuration);
        }
        Ok(())
    }

    /// Adds a SecretProviderClass from the status of a pod. Each pod has its own, and during a rotation of versions, the latest
    /// one applies.
    pub(crate) fn add_class(&mut self, configuration: Configuration) {
        let Configuration {
            namespace, name, ..
        } = &configuration;
        let next = self.configurations.len();
        let id = format!("{namespace}/{name}");
        let at = *self.classes.entry(id).or_insert(next);
        match self.configurations.get_mut(at) {
            Some(known)
                if known.content != Content::Absent
                    && configuration.changed_at < known.changed_at => {}
            Some(known) => *known = configuration,
            None => self.configurations.push(configuration),
        }
    }

    /// Adds a configuration from Kubernetes JSON.
    pub(crate) fn configuration_object(
        &mut self,
        configuration: Configuration,
        is_manifest: bool,
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
        if !is_manifest {
            parser.text(namespace.clone(), &metadata.field("namespace"));
        }
        parser.namespace(namespace.clone(), &metadata.field("namespace"));
        self.add_configuration(configuration, parser, &path)
    }

    /// Records a violation of an item.
    pub(crate) fn violation(&mut self, field: String, reason: Reason, description: &str) {
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

    /// Whether an item is valid. Its violations are recorded.
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
