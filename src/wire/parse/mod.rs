//! Parses requests from messages to the planner's types. Violations are recorded with their paths, and parsing
//! continues with placeholders, so that one response reports all of them.

mod answer;
mod deployment;
mod event;
mod judgement;
pub(super) mod lean_pod;
mod meta;
pub(super) mod name;
pub(super) mod path;
mod pod;
mod raw_template;
mod replica_set;
pub(super) mod restart;
mod scalar;
pub(super) mod selected;
pub(super) mod selector;
mod template;
mod workload;

use std::borrow::Borrow;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::Hash;

use rollplan_core::interrupt::{Interrupt, Never};
use rollplan_core::snapshot::{Deployment, Options, Pod, ReplicaSet, Snapshot};
use rollplan_core::time::Time;

pub(crate) use self::name::is_dns_subdomain as is_object_name;
pub(super) use self::path::Path;
use self::raw_template::RawTemplate;
pub(super) use self::workload::workload;
use super::error::{Error, Reason, Violations};
use super::limits::{
    ANSWERS_MAX, EVENTS_MAX, EXPRESSIONS_MAX, PODS_MAX, REPLICA_SETS_MAX, VALUES_MAX, limit,
};
use super::objects::{self, Origins, Shown};
use super::origin::Origin;
use super::tree::Tape;
use crate::proto;

/// The horizon of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Horizon {
    /// All writes that are possible before the state of the cluster must change.
    #[default]
    Settled,
    /// One sync of the Deployment controller.
    Pass,
}

/// Parses a snapshot and the revision to roll back to.
pub(super) fn rollback(
    snapshot: Option<proto::Snapshot>,
    to_revision: i64,
    options: Option<proto::PlanOptions>,
    interrupt: &dyn Interrupt,
) -> Result<Snapshot, Error> {
    let parsed = request(snapshot, options, interrupt);
    let mut parser = Parser::new(&Never);
    parser.count(to_revision, &Path::Root("to_revision"));
    combine(parsed, parser.finish(())).map(|((snapshot, ..), ())| snapshot)
}

/// Parses a snapshot whose texts have been read, and the rules for judging its rollout.
pub(super) fn status(
    snapshot: Option<proto::Snapshot>,
    origins: Result<Option<Origins>, Error>,
    options: Option<proto::PlanOptions>,
    previous: Option<proto::Verdict>,
    rules: Vec<proto::FailureRule>,
    interrupt: &dyn Interrupt,
) -> Result<(Snapshot, Options), Error> {
    let parsed = origins.and_then(|origins| parsed(snapshot, None, origins, options, interrupt));
    let mut parser = Parser::new(&Never);
    let judgement = parser.judgement(previous, rules);
    let options = combine(parsed, parser.finish(judgement));
    options.map(|((snapshot, options, _), judgement)| {
        (
            snapshot,
            Options {
                judgement,
                ..options
            },
        )
    })
}

/// Both results, or the violations of both.
fn combine<A, B>(first: Result<A, Error>, second: Result<B, Error>) -> Result<(A, B), Error> {
    match (first, second) {
        (Ok(first), Ok(second)) => Ok((first, second)),
        (Err(Error::InvalidArgument(mut all)), Err(Error::InvalidArgument(more))) => {
            all.extend(more);
            Err(Error::InvalidArgument(all))
        }
        (Err(error), _) | (_, Err(error)) => Err(error),
    }
}

/// Parses a snapshot without a request.
///
/// # Errors
///
/// [`Error::InvalidArgument`] with all violations, [`Error::TooLarge`] if the snapshot exceeds a limit of the contract.
pub fn parse_snapshot(snapshot: Option<proto::Snapshot>) -> Result<Snapshot, Error> {
    request(snapshot, None, &Never).map(|(snapshot, _, _)| snapshot)
}

/// Parses options without a request. Missing options have the defaults of the contract.
///
/// # Errors
///
/// [`Error::InvalidArgument`] with all violations.
pub fn parse_options(options: Option<proto::PlanOptions>) -> Result<(Options, Horizon), Error> {
    let mut parser = Parser::new(&Never);
    let parsed = parser.options(options, &Path::Root("options"));
    parser.finish(parsed)
}

/// Parses the parts of a request.
pub(super) fn request(
    snapshot: Option<proto::Snapshot>,
    options: Option<proto::PlanOptions>,
    interrupt: &dyn Interrupt,
) -> Result<(Snapshot, Options, Horizon), Error> {
    read_and_parse(snapshot, None, None, options, interrupt)
}

/// Like [`request`]. The owner and the complete lists are inferred from the objects.
pub(super) fn shown_request(
    snapshot: Option<proto::Snapshot>,
    shown: &mut Shown,
    options: Option<proto::PlanOptions>,
    interrupt: &dyn Interrupt,
) -> Result<(Snapshot, Options, Horizon), Error> {
    read_and_parse(snapshot, None, Some(shown), options, interrupt)
}

/// Parses the parts of a request for a plan without a report. `pods` were removed from the snapshot.
pub(super) fn lean_request(
    snapshot: Option<proto::Snapshot>,
    pods: Vec<Pod>,
    options: Option<proto::PlanOptions>,
    interrupt: &dyn Interrupt,
) -> Result<(Snapshot, Options, Horizon), Error> {
    read_and_parse(snapshot, Some(pods), None, options, interrupt)
}

fn read_and_parse(
    mut snapshot: Option<proto::Snapshot>,
    mut lean_pods: Option<Vec<Pod>>,
    shown: Option<&mut Shown>,
    options: Option<proto::PlanOptions>,
    interrupt: &dyn Interrupt,
) -> Result<(Snapshot, Options, Horizon), Error> {
    let origins = match &mut snapshot {
        Some(snapshot) => objects::read(snapshot, lean_pods.as_mut(), shown, interrupt)?,
        None => None,
    };
    parsed(snapshot, lean_pods, origins, options, interrupt)
}

/// Parses a request whose texts have been read.
fn parsed(
    snapshot: Option<proto::Snapshot>,
    lean_pods: Option<Vec<Pod>>,
    origins: Option<Origins>,
    options: Option<proto::PlanOptions>,
    interrupt: &dyn Interrupt,
) -> Result<(Snapshot, Options, Horizon), Error> {
    let snapshot_path = Path::Root("snapshot");
    let mut parser = Parser::new(interrupt);
    let snapshot = parser.required(snapshot, &snapshot_path);
    // Limits are checked first, because parsing a large request is expensive.
    if let Some(snapshot) = &snapshot {
        limit(
            "snapshot.replica_sets",
            snapshot.replica_sets.len(),
            REPLICA_SETS_MAX,
        )?;
        limit("snapshot.pods", snapshot.pods.len(), PODS_MAX)?;
        limit("snapshot.answers", snapshot.answers.len(), ANSWERS_MAX)?;
        limit("snapshot.events", snapshot.events.len(), EVENTS_MAX)?;
        let spec = snapshot.deployment.as_ref().and_then(|it| it.spec.as_ref());
        if let Some(selector) = spec.and_then(|spec| spec.selector.as_ref()) {
            limit_selector(selector)?;
        }
    }
    let snapshot = snapshot.map(|mut snapshot| {
        let pods = match lean_pods {
            Some(pods) if snapshot.pods.is_empty() => Pods::Lean(pods),
            _ => Pods::Whole(std::mem::take(&mut snapshot.pods)),
        };
        parser.snapshot(snapshot, pods, origins.as_ref(), &snapshot_path)
    });
    let (options, horizon) = parser.options(options, &Path::Root("options"));
    match parser.finish(snapshot)? {
        Some(snapshot) => Ok((snapshot, options, horizon)),
        // A missing snapshot was recorded as a violation, so this is unreachable.
        None => Err(Error::InvalidArgument(Violations::default())),
    }
}

/// Limits the size of a selector, because it is evaluated for every object.
fn limit_selector(selector: &proto::LabelSelector) -> Result<(), Error> {
    let expressions = &selector.match_expressions;
    limit(
        "snapshot.deployment.spec.selector.match_expressions",
        expressions.len(),
        EXPRESSIONS_MAX,
    )?;
    limit(
        "snapshot.deployment.spec.selector.match_expressions[].values",
        expressions.iter().map(|it| it.values.len()).sum(),
        VALUES_MAX,
    )
}

/// Records violations. Each method parses one value and always returns a result.
struct Parser<'i> {
    violations: Violations,
    /// Checked for each object. After an interruption, the remaining objects are skipped.
    interrupt: &'i dyn Interrupt,
}

/// The pods of a snapshot.
enum Pods {
    Whole(Vec<proto::Pod>),
    /// Pods with only the data that decides a plan.
    Lean(Vec<Pod>),
}

/// The Deployment and its template, which other objects are compared with.
struct Owner<'a> {
    deployment: &'a Deployment,
    template: Option<Tape<'a>>,
}

/// The relation of an object to the Deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    /// The Deployment controls the object, or may adopt it.
    Selected,
    /// The object is in the same namespace, but not selected.
    Other,
    /// It is in another namespace.
    Elsewhere,
}

// === impl Owner ===

impl Owner<'_> {
    fn namespace(&self) -> &str {
        &self.deployment.metadata.namespace
    }

    /// Whether the object is in the Deployment's namespace. An absent namespace is the Deployment's. If the Deployment
    /// has none, which is a violation, all objects match.
    fn is_in_namespace(&self, namespace: &str) -> bool {
        [self.namespace(), namespace].contains(&"") || namespace == self.namespace()
    }

    /// Whether the Deployment is the controller of the object. If the Deployment has no UID, which is a violation, all
    /// objects with a controller match.
    fn controls(&self, metadata: &proto::ObjectMeta) -> bool {
        controller(metadata).is_some_and(|owner| self.is(&owner.uid))
    }

    fn is(&self, uid: &str) -> bool {
        let own = &self.deployment.metadata.uid;
        own.is_empty() || uid == own
    }

    /// Whether a pod of this namespace and with this controller belongs to the Deployment, which owns the ReplicaSets with
    /// these UIDs.
    fn selects_pod<U: Borrow<str> + Eq + Hash>(
        &self,
        namespace: &str,
        controller: Option<&str>,
        owners: &HashSet<U>,
    ) -> bool {
        self.is_in_namespace(namespace) && controller.is_some_and(|uid| owners.contains(uid))
    }

    /// The relation of a ReplicaSet to the Deployment. As in Kubernetes, it depends on the namespace, controller and
    /// labels.
    fn relation(&self, metadata: &proto::ObjectMeta) -> Relation {
        let selector = &self.deployment.spec.selector;
        let is_orphan = || controller(metadata).is_none() && selector.matches(&metadata.labels);
        if !self.is_in_namespace(&metadata.namespace) {
            Relation::Elsewhere
        } else if self.controls(metadata) || is_orphan() {
            Relation::Selected
        } else {
            Relation::Other
        }
    }
}

/// The controller of an object, if any. As in Kubernetes, the first one applies.
fn controller(metadata: &proto::ObjectMeta) -> Option<&proto::OwnerReference> {
    metadata.owner_references.iter().find(|it| it.controller())
}

impl<'i> Parser<'i> {
    fn new(interrupt: &'i dyn Interrupt) -> Self {
        Self {
            violations: Violations::default(),
            interrupt,
        }
    }

    fn finish<T>(self, parsed: T) -> Result<T, Error> {
        self.interrupt.check()?;
        if self.violations.is_empty() {
            Ok(parsed)
        } else {
            Err(Error::InvalidArgument(self.violations))
        }
    }

    fn violation(&mut self, path: &Path<'_>, reason: Reason, description: impl fmt::Display) {
        match path.origin() {
            Some(origin) => {
                let description = format_args!("{description} ({})", origin.object);
                self.violations.add(path, reason, description);
            }
            None => self.violations.add(path, reason, description),
        }
    }

    fn required<T>(&mut self, field: Option<T>, path: &Path<'_>) -> Option<T> {
        if field.is_none() {
            self.violation(path, Reason::Required, "is required");
        }
        field
    }

    fn options(
        &mut self,
        options: Option<proto::PlanOptions>,
        path: &Path<'_>,
    ) -> (Options, Horizon) {
        let proto::PlanOptions {
            horizon,
            terminating_replicas,
            // These affect only the response.
            events_as_calls: _,
            report: _,
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
            ..defaults
        };
        (options, horizon)
    }

    fn snapshot(
        &mut self,
        snapshot: proto::Snapshot,
        pods: Pods,
        origins: Option<&Origins>,
        path: &Path<'_>,
    ) -> Snapshot {
        let proto::Snapshot {
            now,
            deployment,
            replica_sets,
            // Taken above.
            pods: _,
            pods_complete,
            answers,
            events,
            replica_sets_complete,
            // Converted to the other fields before.
            objects_json: _,
            target: _,
        } = snapshot;
        let now_path = path.field("now");
        let now = self.required(now, &now_path);
        let now = now.and_then(|now| self.time(now, &now_path));
        let list = |field, of: fn(&Origins) -> &[Origin]| match origins {
            Some(origins) => Path::Objects(of(origins)),
            None => path.field(field),
        };
        let deployment_path = match origins {
            Some(origins) => Path::Object(&origins.deployment),
            None => path.field("deployment"),
        };
        let deployment = self.required(deployment, &deployment_path);
        let spec = deployment.as_ref().and_then(|it| it.spec.as_ref());
        // Shares the memory of the request.
        let template = spec.and_then(|spec| spec.template.clone());
        let template = RawTemplate::new(template, &deployment_path);
        let (deployment, template) = self.deployment(deployment, &template, &deployment_path);
        let owner = Owner {
            deployment: &deployment,
            template,
        };
        let replica_sets = self.replica_sets(
            replica_sets,
            &owner,
            &list("replica_sets", |it| &it.replica_sets),
        );
        let is_current = |set: &ReplicaSet| set.template.same_as(&owner.deployment.spec.template);
        let mut selected = replica_sets.iter().filter(|(selected, _)| *selected);
        // A ReplicaSet will probably be created, and the tape of the template is available here.
        if let Some(template) = &owner.template
            && self.violations.is_empty()
            && !selected.any(|(_, set)| is_current(set))
        {
            owner.deployment.spec.template.prepare(template.root());
        }
        let owners = replica_sets.iter().filter(|(selected, _)| *selected);
        let owners: HashSet<&str> = owners.map(|(_, set)| set.metadata.uid.as_str()).collect();
        let pods_path = list("pods", |it| &it.pods);
        let pods = match pods {
            Pods::Whole(pods) => self.pods(pods, &owner, &owners, &pods_path),
            Pods::Lean(pods) => self.lean_pods(pods, &owner, &owners, &pods_path),
        };
        let failures = self.answers(answers, &owner, &path.field("answers"));
        let mut about = owners;
        if !events.is_empty() {
            about.insert(&owner.deployment.metadata.uid);
            about.extend(pods.iter().map(|pod| pod.metadata.uid.as_str()));
        }
        let events = self.events(events, &about, &list("events", |it| &it.events));
        Snapshot {
            now: now.unwrap_or(Time::MIN),
            deployment,
            replica_sets: replica_sets.into_iter().map(|(_, set)| set).collect(),
            replica_sets_complete,
            pods: pods.into(),
            pods_complete,
            failures,
            events: events.into(),
        }
    }

    /// Checks that no two objects have the same key, unless neither is selected. `objects` contains index, key and
    /// whether the object is selected. Empty keys are separate violations.
    fn unique<'a>(
        &mut self,
        objects: impl Iterator<Item = (usize, &'a str, bool)>,
        path: &Path<'_>,
        field: &'static str,
    ) {
        let mut seen = HashMap::with_capacity(objects.size_hint().1.unwrap_or(0));
        for (index, key, selected) in objects.filter(|(_, key, _)| !key.is_empty()) {
            let earlier = seen.insert(key, (selected, index));
            if let Some((_, first)) = earlier.filter(|(earlier, _)| *earlier || selected) {
                seen.insert(key, (true, first));
                let first = path.index(first);
                let earlier = match first.origin() {
                    Some(origin) => format!("{origin}"),
                    None => "an earlier object".to_owned(),
                };
                let description = format_args!("{earlier} has {key:?} as well");
                let object = path.index(index);
                let metadata = object.field("metadata");
                self.violation(&metadata.field(field), Reason::Duplicate, description);
            }
        }
    }
}
