//! Reads the objects that a command needs from a cluster, with kubectl.
//!
//! The object is read first, then its dependents: for a Deployment the ReplicaSets, then the pods. Later reads are
//! never older, but they are not from the same moment. If the object changes in between, the answer describes it as it
//! was read: the next poll sees the change, and the API server rejects the writes of a plan, because they contain the
//! resource versions that were read.

mod discovery;
mod fleet;

use std::collections::BTreeSet;
use std::fmt::Display;
use std::slice;
use std::time::{Duration, Instant};

use prost_types::Timestamp;
use rollplan_core::kind::Dependents;
use rollplan_health::kinds::JobEnd;
use rollplan_wire::proto::{
    ApiCall, ConfigurationKind, LookedUpConfiguration, RequiredConfiguration,
};

pub(super) use self::fleet::{AddEvents, Fleet, Scope};

use super::error::Error;
use super::input::{self, Answers, Complete, Objects, Related, Request, Source, Texts, Wanted};
use super::kubectl::{Cause, Failure, Kubectl, ListKind};
use super::options::ClusterArgs;
use super::target::Target;
use super::{now, output, stderr};

/// The time limit of a kubectl process. Each request of kubectl has its own timeout, so this limit stops whatever else
/// hangs, such as a credential plugin.
pub(super) const PROCESS_TIMEOUT: Duration = Duration::from_secs(120);

/// The longest selector that fits into an argument of a program.
const SELECTOR_BYTES_MAX: usize = 100_000;

/// The label that all pods of Jobs have.
const JOB_LABEL: &str = "batch.kubernetes.io/job-name";

/// The name of kubectl's output in messages.
pub(super) const SOURCE: &str = "what kubectl printed";

/// The objects that a command needs in addition to the requested one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    /// The dependents that the status of the object is computed from.
    Rollout,
    /// The same, and objects that are only displayed: the Jobs of a CronJob, and their pods.
    Tree,
    /// The same, and the other ReplicaSets of the namespace: an owned one that does not match the selector must be
    /// released, and the name of a new one may be taken by any of them.
    Plan,
    /// The ReplicaSets that the Deployment selects, or the ControllerRevisions and pods of another object.
    Revisions,
}

/// A namespace of a cluster, or all of them.
#[derive(Debug)]
pub(super) struct Cluster {
    kubectl: Kubectl,
    namespace: Option<String>,
    /// Notes that were printed. The next polls do not repeat them.
    noted: BTreeSet<String>,
    /// Whether events can be read, as far as known.
    has_events: bool,
    /// Whether requests keep their whole objects.
    keeps_objects: bool,
    /// Whether objects are read with their managed fields.
    has_managed_fields: bool,
}

/// The remaining time of a command for kubectl.
#[derive(Clone, Copy, Debug)]
struct Budget {
    start: Instant,
    limit: Option<Duration>,
}

// === impl Budget ===

impl Budget {
    fn new(limit: Option<Duration>) -> Self {
        Self {
            start: Instant::now(),
            limit,
        }
    }

    fn left(self) -> Duration {
        match self.limit {
            Some(limit) => limit
                .saturating_sub(self.start.elapsed())
                .min(PROCESS_TIMEOUT),
            None => PROCESS_TIMEOUT,
        }
    }
}

// === impl Cluster ===

impl Cluster {
    pub(super) fn new(args: &ClusterArgs) -> Self {
        Self {
            kubectl: Kubectl::new(args),
            namespace: args.namespace.clone(),
            noted: BTreeSet::new(),
            has_events: true,
            keeps_objects: false,
            has_managed_fields: false,
        }
    }

    /// Whether objects, but not their dependents, are read with their managed fields.
    pub(super) fn show_managed_fields(&mut self, has_managed_fields: bool) {
        self.has_managed_fields = has_managed_fields;
    }

    /// Reads an object and its dependents, within the optional time limit.
    pub(super) fn read(
        &mut self,
        target: &Target,
        needs: Needs,
        limit: Option<Duration>,
        now: Option<Timestamp>,
        answers: Answers,
    ) -> Result<Request, Error> {
        let budget = Budget::new(limit);
        let owner = if self.has_managed_fields {
            self.kubectl.get_with_managers(target, budget.left())
        } else {
            self.kubectl.get(target, budget.left())
        };
        let owner = owner.map_err(|failure| self.absent(target, failure))?;
        let owner = [Source::new(SOURCE, owner)?];
        let mut sources = Vec::new();
        let texts = Texts::read(&owner)?;
        let mut objects = Objects::find(&texts)?;
        let wanted = Wanted::in_cluster(target, self.namespace.as_deref(), &objects);
        let related = input::related(&objects, &wanted)?;
        let pods_complete = self.read_related(&related, needs, budget, &mut sources)?;
        let others = Texts::read(&sources)?;
        objects.add(&others)?;
        let mut request = input::request(
            &objects,
            Some(&wanted),
            Complete {
                replica_sets: Some(true),
                pods: Some(pods_complete),
            },
            now.unwrap_or_else(now::read),
            answers,
            &mut |note| self.note(note),
        )?;
        if self.keeps_objects {
            request.object = objects.whole(request.index);
        }
        Ok(request)
    }

    /// Reads the dependents of an object. Returns whether these include all its pods.
    fn read_related(
        &mut self,
        related: &Related,
        needs: Needs,
        budget: Budget,
        sources: &mut Vec<Source>,
    ) -> Result<bool, Error> {
        if related.dependents == Dependents::JobsAndPods {
            if needs == Needs::Tree {
                self.read_jobs(budget, sources)?;
            }
            return Ok(true);
        }
        // An object with an empty selector, or none, has no dependents.
        let Some(selector) = &related.selector else {
            return Ok(true);
        };
        if related.dependents == Dependents::None {
            return Ok(true);
        }
        if selector.len() > SELECTOR_BYTES_MAX {
            let text = format!(
                "spec.selector: {} bytes exceed the limit of {SELECTOR_BYTES_MAX} for a kubectl selector",
                selector.len()
            );
            return Err(Error::input(SOURCE, text));
        }
        let of_sets = (needs != Needs::Plan).then_some(selector.as_str());
        match (needs, related.dependents) {
            (Needs::Revisions, Dependents::ReplicaSetsAndPods) => {
                sources.push(self.list(ListKind::ReplicaSets, of_sets, budget)?);
                return Ok(true);
            }
            (Needs::Revisions, _) => {
                sources.push(self.list(ListKind::ControllerRevisions, of_sets, budget)?);
            }
            _ => self.read_between(related.dependents, of_sets, budget, sources)?,
        }
        let pods = self.pods(Some(selector), budget)?;
        let is_complete = pods.is_some();
        sources.extend(pods);
        Ok(is_complete)
    }

    /// Reads the ReplicaSets or ControllerRevisions of an object.
    fn read_between(
        &mut self,
        dependents: Dependents,
        selector: Option<&str>,
        budget: Budget,
        sources: &mut Vec<Source>,
    ) -> Result<(), Error> {
        match dependents {
            Dependents::ReplicaSetsAndPods => {
                sources.push(self.list(ListKind::ReplicaSets, selector, budget)?);
            }
            Dependents::RevisionsAndPods => {
                sources.extend(self.optional(
                    ListKind::ControllerRevisions,
                    selector,
                    budget,
                    "ControllerRevisions, so it may be unknown which pods are updated",
                )?);
            }
            Dependents::JobsAndPods | Dependents::Pods | Dependents::None => {}
        }
        Ok(())
    }

    /// Reads the Jobs of the namespace and their pods. No selector matches exactly those of a CronJob.
    fn read_jobs(&mut self, budget: Budget, sources: &mut Vec<Source>) -> Result<(), Error> {
        let what = "Jobs, so the Jobs of the CronJob are not shown";
        sources.extend(self.optional(ListKind::Jobs, None, budget, what)?);
        sources.extend(self.pods(Some(JOB_LABEL), budget)?);
        Ok(())
    }

    fn note(&mut self, note: &dyn Display) {
        let note = note.to_string();
        if self.noted.insert(note.clone()) {
            stderr::eprint_note(note);
        }
    }

    fn list(
        &self,
        kind: ListKind<'_>,
        selector: Option<&str>,
        budget: Budget,
    ) -> Result<Source, Error> {
        Source::new(SOURCE, self.kubectl.list(kind, selector, budget.left())?)
    }

    /// Makes the call of a step, which patches an object.
    pub(super) fn patch(&self, call: &ApiCall, limit: Option<Duration>) -> Result<(), Failure> {
        let limit = limit.unwrap_or(PROCESS_TIMEOUT).min(PROCESS_TIMEOUT);
        let what = output::script::patch_args(call);
        self.kubectl.patch(what, &call.body_json, limit)
    }

    /// Lists the pods. They are optional: they explain the status, and only strategy Recreate waits for them.
    fn pods(&mut self, selector: Option<&str>, budget: Budget) -> Result<Option<Source>, Error> {
        let what = "pods, so causes that only pods show are missing";
        self.optional(ListKind::Pods, selector, budget, what)
    }

    /// Lists optional objects. Returns `None`, with a note, if the user may not list them.
    fn optional(
        &mut self,
        kind: ListKind<'_>,
        selector: Option<&str>,
        budget: Budget,
        what: &str,
    ) -> Result<Option<Source>, Error> {
        match self.kubectl.list(kind, selector, budget.left()) {
            Ok(list) => Source::new(SOURCE, list).map(Some),
            Err(failure) if matches!(failure.cause(), Cause::Forbidden(_)) => {
                self.note(&format_args!(
                    "the answer is computed without {what}: {failure}"
                ));
                Ok(None)
            }
            Err(failure) => Err(failure.into()),
        }
    }

    /// Lists the events that a field selector matches. They show whether a failure may resolve itself. If the user may not
    /// list events, verdicts are less certain.
    fn events(&mut self, fields: &str, limit: Option<Duration>) -> Result<Option<Source>, Error> {
        if !self.has_events {
            return Ok(None);
        }
        let limit = limit.unwrap_or(PROCESS_TIMEOUT).min(PROCESS_TIMEOUT);
        match self.kubectl.list(ListKind::Events(fields), None, limit) {
            Ok(events) => return Source::new(SOURCE, events).map(Some),
            Err(failure) if failure.is_transient() => {}
            Err(failure) => {
                self.has_events = false;
                stderr::eprint_note(format_args!(
                    "the verdict is computed without events, so it may be less certain: {failure}"
                ));
            }
        }
        Ok(None)
    }

    /// Adds the events about the objects of a request that these field selectors match. Returns whether there are any.
    pub(super) fn add_events(
        &mut self,
        request: &mut Request,
        selectors: &[String],
        limit: Option<Duration>,
    ) -> Result<bool, Error> {
        let mut has_events = false;
        for fields in selectors {
            if let Some(events) = self.events(fields, limit)? {
                has_events |= add_events(request, &events)?;
            }
        }
        Ok(has_events)
    }

    /// The result of a deleted Job with this UID. `None` if no event reports it.
    pub(super) fn job_end(
        &mut self,
        uid: &str,
        limit: Option<Duration>,
    ) -> Result<Option<JobEnd>, Error> {
        let limit = limit.unwrap_or(PROCESS_TIMEOUT).min(PROCESS_TIMEOUT);
        let fields = format!("involvedObject.uid={uid}");
        let events = match self.kubectl.list(ListKind::Events(&fields), None, limit) {
            Ok(events) => [Source::new(SOURCE, events)?],
            Err(failure) if failure.is_transient() => return Err(failure.into()),
            Err(failure) => {
                self.note(&format_args!(
                    "cannot read the events that would show how the Job ended: {failure}"
                ));
                return Ok(None);
            }
        };
        let texts = Texts::read(&events)?;
        Ok(input::job_end(&Objects::find(&texts)?, uid))
    }

    /// Whether the cluster serves a status subresource for a kind. `Ok(None)` if this cannot be known.
    fn has_status_subresource(
        &mut self,
        api_version: &str,
        kind: &str,
        limit: Option<Duration>,
    ) -> Result<Option<bool>, Failure> {
        let limit = limit.unwrap_or(PROCESS_TIMEOUT).min(PROCESS_TIMEOUT);
        match self.kubectl.resources(api_version, limit) {
            Ok(list) => Ok(input::has_status_subresource(&list, kind)),
            Err(failure) if failure.is_transient() => Err(failure),
            Err(failure) => {
                self.note(&format_args!(
                    "it is not known whether a {kind} has a status: {failure}"
                ));
                Ok(None)
            }
        }
    }

    /// Looks up the required ConfigMaps and Secrets, without their values. Those that the user may not read are named in a
    /// note.
    pub(super) fn look_up(
        &mut self,
        required: &[RequiredConfiguration],
    ) -> Result<Vec<LookedUpConfiguration>, Error> {
        let budget = Budget::new(None);
        let mut found = Vec::new();
        let mut unknown: Vec<String> = Vec::new();
        let mut refusal = None;
        for configuration in required {
            let RequiredConfiguration { name, .. } = configuration;
            let (kind, resource) = match configuration.kind() {
                ConfigurationKind::ConfigMap => ("ConfigMap", "configmaps"),
                ConfigurationKind::Secret => ("Secret", "secrets"),
                _ => continue,
            };
            let read = self
                .kubectl
                .configuration_keys(resource, name, budget.left());
            let (absent, [keys, binary_keys]) = match read {
                Ok(keys) => (false, keys),
                Err(failure) => match failure.cause() {
                    Cause::NotFound(_) => (true, Default::default()),
                    Cause::Forbidden(_) => {
                        unknown.push(format!("{kind} {name}"));
                        refusal.get_or_insert(failure);
                        continue;
                    }
                    _ => return Err(failure.into()),
                },
            };
            found.push(LookedUpConfiguration {
                kind: configuration.kind,
                name: name.clone(),
                absent,
                keys,
                binary_keys,
                keys_unknown: false,
            });
        }
        if let Some(failure) = refusal {
            let unknown = unknown.join(", ");
            self.note(&format_args!(
                "it is not known whether these exist, which the pods need: {unknown}: {failure}"
            ));
        }
        Ok(found)
    }

    /// The last log lines of a container.
    pub(super) fn log(&self, pod: &str, container: &str, previous: bool) -> Result<String, Error> {
        let log = self
            .kubectl
            .log(pod, container, previous, PROCESS_TIMEOUT)?;
        Ok(String::from_utf8_lossy(&log).into_owned())
    }

    fn absent(&self, target: &Target, failure: Failure) -> Error {
        match failure.cause() {
            Cause::NotFound(_) => {
                input::absent(&target.resource, &target.name, self.namespace.as_deref())
            }
            _ => failure.into(),
        }
    }
}

fn add_events(request: &mut Request, events: &Source) -> Result<bool, Error> {
    let texts = Texts::read(slice::from_ref(events))?;
    Ok(request.add_events(&Objects::find(&texts)?))
}
