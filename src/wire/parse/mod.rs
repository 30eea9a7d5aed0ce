//! Validates objects and messages, and turns them into the planner's types. Violations are recorded with their paths, and
//! parsing continues with placeholders, so that one response reports all of them.

mod answer;
mod canary;
mod controller_revision;
mod deployment;
mod event;
mod forecast;
mod judgement;
mod meta;
mod name;
mod path;
mod pod;
mod pod_template;
mod raw_template;
mod replica_set;
pub(super) mod restart;
mod scalar;
mod selector;
mod template;

use std::fmt;

use rollplan_core::caps::{self, Caps};
use rollplan_core::interrupt::{Interrupt, Never};
use rollplan_core::snapshot::{Deployment, Options, StringMap};

pub(super) use self::answer::{is_of_terminating_namespace, rejection};
pub(super) use self::deployment::deployment_template;
pub(super) use self::meta::{Needed, owner_reference};
pub use self::name::is_dns_subdomain as is_object_name;
pub(super) use self::path::Path;
pub(super) use self::replica_set::unselected;
pub(super) use self::selector::parse_selector;
use super::error::{Error, Reason, Violations};
use super::tree::Tape;
use crate::proto;

/// The horizon of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Horizon {
    /// All writes that can be made before the plan depends on how the cluster reacts to them.
    #[default]
    Settled,
    /// The writes of exactly one sync of the Deployment controller of Kubernetes.
    Pass,
}

/// Parses options without a request. Missing options have the defaults of the contract.
///
/// # Errors
///
/// [`Error::InvalidArgument`] with all violations.
pub fn parse_options(options: Option<proto::PlanOptions>) -> Result<(Options, Horizon), Error> {
    let mut parser = Parser::new(&Never);
    let parsed = parser.options(options);
    parser.finish(parsed)
}

/// Records violations. Each method parses one value and always returns a result.
pub(super) struct Parser<'i> {
    pub(super) violations: Violations,
    /// Checked for each object. After an interruption, the remaining objects are skipped.
    pub(super) interrupt: &'i dyn Interrupt,
}

/// The Deployment and its template, which other objects are compared with.
pub(super) struct Owner<'a> {
    pub(super) deployment: &'a Deployment,
    pub(super) template: Option<Tape<'a>>,
}

// === impl Owner ===

impl Owner<'_> {
    /// Whether the object is in the Deployment's namespace. An absent namespace is the Deployment's. If the Deployment
    /// has none, which is a violation, all objects match.
    fn is_in_namespace(&self, namespace: &str) -> bool {
        let own = &*self.deployment.metadata.namespace;
        [own, namespace].contains(&"") || namespace == own
    }

    /// Whether the Deployment has this UID. If it has none, which is a violation, all match.
    fn is(&self, uid: &str) -> bool {
        let own = &self.deployment.metadata.uid;
        own.is_empty() || uid == own
    }
}

impl<'i> Parser<'i> {
    pub(super) fn new(interrupt: &'i dyn Interrupt) -> Self {
        Self {
            violations: Violations::default(),
            interrupt,
        }
    }

    pub(super) fn finish<T>(self, parsed: T) -> Result<T, Error> {
        self.interrupt.check()?;
        if self.violations.is_empty() {
            Ok(parsed)
        } else {
            Err(Error::InvalidArgument(self.violations))
        }
    }

    pub(super) fn violation(
        &mut self,
        path: &Path<'_>,
        reason: Reason,
        description: impl fmt::Display,
    ) {
        match path.origin() {
            Some(origin) => {
                let description = format_args!("{description} ({})", origin.object);
                self.violations.add(path, reason, description);
            }
            None => self.violations.add(path, reason, description),
        }
    }

    pub(super) fn required<T>(&mut self, field: Option<T>, path: &Path<'_>) -> Option<T> {
        if field.is_none() {
            self.violation(path, Reason::Required, "is required");
        }
        field
    }

    pub(super) fn options(&mut self, options: Option<proto::PlanOptions>) -> (Options, Horizon) {
        let path = Path::Root("options");
        let proto::PlanOptions {
            horizon,
            terminating_replicas,
            // These affect only the response.
            events_as_calls: _,
            report: _,
            caps,
        } = options.unwrap_or_default();
        let horizon = match proto::Horizon::try_from(horizon) {
            Ok(proto::Horizon::Unspecified | proto::Horizon::Settled) => Horizon::Settled,
            Ok(proto::Horizon::Pass) => Horizon::Pass,
            Err(_) => {
                let description = format_args!("unknown horizon {horizon}");
                self.violation(
                    &path.field("horizon"),
                    Reason::UnknownEnumValue,
                    description,
                );
                Horizon::default()
            }
        };
        let defaults = Options::default();
        let options = Options {
            terminating_replicas: terminating_replicas.unwrap_or(defaults.terminating_replicas),
            caps: self.caps(caps.unwrap_or_default(), &path.field("caps")),
        };
        (options, horizon)
    }

    fn caps(&mut self, caps: proto::RolloutCaps, path: &Path<'_>) -> Caps {
        let proto::RolloutCaps { new_max, old_min } = caps;
        let new_max = self.optional_count(new_max, &path.field("new_max"));
        let old_min = self.optional_count(old_min, &path.field("old_min"));
        Caps {
            new_max: new_max.unwrap_or(Caps::NONE.new_max),
            old_min: old_min.unwrap_or(Caps::NONE.old_min),
        }
    }

    /// Checks the caps in the annotations of a Deployment, which the planner reads there.
    fn cap_annotations(&mut self, annotations: &StringMap, path: &Path<'_>) {
        for key in [caps::NEW_MAX, caps::OLD_MIN] {
            if caps::annotated(annotations, key) == Some(None) {
                let description = "must be a number of pods, from 0 to 2147483647";
                self.violation(&path.key(key), Reason::InvalidValue, description);
            }
        }
    }
}
