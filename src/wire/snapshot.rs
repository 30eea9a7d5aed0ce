//! Reads a snapshot: finds the objects in its texts, selects those of its owner, and validates them.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use rollplan_core::controller_revision::Workload;
use rollplan_core::interrupt::{Interrupt, Never};
use rollplan_core::snapshot::Snapshot;
use rollplan_core::time::Time;
use rollplan_health::kinds::ObjectSnapshot;

use super::context::Context;
use super::error::{Error, Reason, Violations};
use super::kinds::{self, read_history};
use super::limits::{ANSWERS_MAX, limit};
use super::objects::{
    ContentReader, FIELD, Found, Metadata, ObjectIndex, Objects, Selected, choose, current_version,
    has_controller_revisions, is_deployment, is_of_kubernetes, select,
};
use super::parse::{Needed, Owner, Parser, Path, deployment_template, unselected};
use super::read::{Read, kubernetes};
use super::surroundings;
use super::sync::{LoopAnswers, SyncInput, SyncRequest};
use crate::proto;

/// How many copies of a ReplicaSet a plan needs, for the estimate of its memory.
const COPIES: usize = 3;

/// The owner of a snapshot with its objects.
#[derive(Debug)]
pub enum Subject {
    /// A Deployment, or a custom resource with the same spec.
    Deployment(Box<Snapshot>),
    /// A StatefulSet or a DaemonSet with its revisions.
    Workload(Box<Workload>),
    /// An object of another kind.
    Other(Box<ObjectSnapshot>),
}

/// The kinds that a method accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kinds {
    /// Deployments, and custom resources with the same spec.
    Deployments,
    /// The same, and those with ControllerRevisions.
    Revisions,
    All,
}

/// Reads a snapshot. Violations are recorded by the parser; `None` if they leave nothing to read.
pub(super) fn read_snapshot(
    snapshot: Option<proto::Snapshot>,
    kinds: Kinds,
    context: &mut Context<'_>,
    parser: &mut Parser<'_>,
) -> Result<Option<Subject>, Error> {
    let (subject, _) = read_snapshot_in_loop(snapshot, None, kinds, context, parser)?;
    Ok(subject)
}

/// Reads a snapshot, and the state of the loop in which the caller asks, if there is one.
pub(super) fn read_snapshot_in_loop(
    snapshot: Option<proto::Snapshot>,
    sync: Option<SyncRequest>,
    kinds: Kinds,
    context: &mut Context<'_>,
    parser: &mut Parser<'_>,
) -> Result<(Option<Subject>, Option<SyncInput>), Error> {
    let mut input = None;
    match read(snapshot, sync, &mut input, kinds, context, parser) {
        Err(Error::InvalidArgument(violations)) => {
            parser.violations.extend(violations);
            Ok((None, input))
        }
        read => Ok((read?, input)),
    }
}

fn read(
    snapshot: Option<proto::Snapshot>,
    sync: Option<SyncRequest>,
    input: &mut Option<SyncInput>,
    kinds: Kinds,
    context: &mut Context<'_>,
    parser: &mut Parser<'_>,
) -> Result<Option<Subject>, Error> {
    let interrupt = parser.interrupt;
    let path = Path::Root("snapshot");
    let Some(mut snapshot) = parser.required(snapshot, &path) else {
        return Ok(None);
    };
    let now_path = path.field("now");
    let now = parser.required(snapshot.now, &now_path);
    let now = now.and_then(|now| parser.time(now, &now_path));
    let now = now.unwrap_or(Time::MIN);
    limit("snapshot.answers", snapshot.answers.len(), ANSWERS_MAX)?;
    // A missing time is only a violation: the objects are still read. Violations in the following parts end the reading.
    let before = std::mem::take(&mut parser.violations);
    if let Some(target) = &mut snapshot.target {
        let api_version = Cow::Borrowed(&*target.api_version);
        target.api_version = current_version(api_version, &target.kind).into_owned();
        let path = path.field("target");
        parser.plural(&target.resource, &path.field("resource"));
        if kinds != Kinds::All {
            check_kind(target, kinds, parser, &path.field("kind"));
        }
    }
    let texts = std::mem::take(&mut snapshot.objects);
    let mut sync = sync;
    let answers = sync
        .as_mut()
        .map_or_else(Vec::new, SyncRequest::take_answers);
    let Objects {
        found,
        is_continued,
    } = Objects::find(FIELD, &texts, &mut parser.violations, interrupt)?;
    let is_readable = parser.violations.is_empty();
    let found_violations = std::mem::replace(&mut parser.violations, before);
    parser.violations.extend(found_violations);
    if !is_readable {
        return Ok(None);
    }
    let (found, rejected) = match sync {
        Some(sync) => {
            let target = snapshot.target.as_ref();
            let (begun, found, rejected) =
                sync.begin(found, &answers, target, now, interrupt, parser)?;
            *input = Some(begun);
            (found, rejected)
        }
        None => (found, Vec::new()),
    };
    let objects = ObjectIndex::new(found, interrupt)?;
    if let Some(shown) = &mut context.shown {
        shown.complete(&mut snapshot, &objects, is_continued)?;
    }
    let owner = choose(&objects, snapshot.target.as_ref())?;
    let Metadata {
        namespace, name, ..
    } = &owner.metadata;
    context.facts.namespace = namespace.clone().into_owned();
    context.facts.name = name.clone().into_owned();
    let (api_version, kind) = (&*owner.api_version, &*owner.kind);
    if kinds == Kinds::Revisions && has_controller_revisions(api_version, kind) {
        let workload = read_history(&objects, owner, &snapshot, now, parser, interrupt)?;
        return Ok(workload.map(|workload| Subject::Workload(Box::new(workload))));
    }
    if kinds == Kinds::All && !is_deployment(owner) {
        let observed = kinds::read(&objects, owner, &snapshot, now, parser, interrupt)?;
        return Ok(Some(Subject::Other(Box::new(observed))));
    }
    let mut reader = SnapshotReader {
        parser,
        contents: ContentReader::new(interrupt),
        interrupt,
    };
    let answers = LoopAnswers {
        rejected,
        answers: &answers,
    };
    let snapshot = reader.deployment(&objects, owner, snapshot, answers, now)?;
    if let Some(snapshot) = &snapshot {
        context.facts.strategy = snapshot.deployment.spec.strategy.name();
        context.facts.pods = snapshot.pods.len();
    }
    Ok(snapshot.map(|snapshot| Subject::Deployment(Box::new(snapshot))))
}

/// Checks the kind of the target: among the kinds of Kubernetes, only Deployments can be planned, and only they,
/// StatefulSets and DaemonSets have revisions.
fn check_kind(target: &proto::Target, kinds: Kinds, parser: &mut Parser<'_>, path: &Path<'_>) {
    let (api_version, kind) = (target.api_version.as_str(), target.kind.as_str());
    let is_given = !api_version.is_empty() && !kind.is_empty();
    let has_revisions = kinds == Kinds::Revisions && has_controller_revisions(api_version, kind);
    let is_deployment = (api_version, kind) == ("apps/v1", "Deployment");
    if is_given && is_of_kubernetes(api_version) && !is_deployment && !has_revisions {
        let what = match kinds {
            Kinds::Revisions => {
                "only apps/v1 Deployments, StatefulSets and DaemonSets, and custom resources with the spec of a Deployment, can \
                 be rolled back and listed"
            }
            _ => "only apps/v1 Deployments and custom resources with the same spec can be planned",
        };
        let description = format_args!(
            "is {kind:?} of {api_version}: {what}; ComputeStatus reports on every kind"
        );
        parser.violation(path, Reason::WrongKind, description);
    }
}

/// The owner of a snapshot that was read without violations.
pub(super) fn present(subject: Option<Subject>) -> Result<Subject, Error> {
    subject.ok_or_else(|| Error::InvalidArgument(Violations::default()))
}

/// Reads a snapshot without a request.
///
/// # Errors
///
/// [`Error::InvalidArgument`] with all violations, and [`Error::TooLarge`].
pub fn parse_snapshot(snapshot: Option<proto::Snapshot>) -> Result<Snapshot, Error> {
    let mut parser = Parser::new(&Never);
    let context = &mut Context::default();
    let subject = read_snapshot(snapshot, Kinds::Deployments, context, &mut parser)?;
    parser.finish(subject).and_then(present)?.deployment()
}

// === impl Subject ===

impl Subject {
    /// The snapshot of a Deployment.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for other kinds, which are read on request only.
    pub fn deployment(self) -> Result<Snapshot, Error> {
        match self {
            Self::Deployment(snapshot) => Ok(*snapshot),
            _ => Err(Error::InvalidArgument(Violations::default())),
        }
    }
}

struct SnapshotReader<'p, 'i, 'a> {
    parser: &'p mut Parser<'i>,
    contents: ContentReader<'a>,
    interrupt: &'a dyn Interrupt,
}

// === impl SnapshotReader ===

impl<'a> SnapshotReader<'_, '_, 'a> {
    /// Reads the content of a selected object. `None` after a violation.
    fn content<T: Read<'a>>(&mut self, object: &Found<'a>) -> Result<Option<T>, Error> {
        self.contents.content(object, &mut self.parser.violations)
    }

    /// Reads a Deployment with its objects.
    fn deployment(
        &mut self,
        objects: &ObjectIndex<'a, Found<'a>>,
        object: &Found<'a>,
        snapshot: proto::Snapshot,
        loop_answers: LoopAnswers<'_>,
        now: Time,
    ) -> Result<Option<Snapshot>, Error> {
        let Some(content) = self.content::<kubernetes::Deployment<'a>>(object)? else {
            return Ok(None);
        };
        let template = deployment_template(&content)?;
        let origin = object.origin();
        let path = Path::Object(&origin);
        let (deployment, template) =
            self.parser
                .deployment(object, content, &template, Needed::STORED, &path);
        let owner = Owner {
            deployment: &deployment,
            template,
        };
        let selector = &deployment.spec.selector;
        let Selected {
            replica_sets,
            others,
            pods,
            events,
        } = select(objects, object, selector, self.interrupt)?;
        let own_pods = pods.clone();
        let [replica_sets, others, pods, events] =
            [replica_sets, others, pods, events].map(|positions| objects.at(&positions));
        let mut sets = Vec::with_capacity(replica_sets.len() + others.len());
        let before = self.contents.memory.bytes();
        for set in &replica_sets {
            if let Some(content) = self.content::<kubernetes::ReplicaSet<'a>>(set)? {
                let origin = set.origin();
                sets.push(
                    self.parser
                        .replica_set(content, &owner, &Path::Object(&origin)),
                );
            }
        }
        let copied = (self.contents.memory.bytes() - before).saturating_mul(COPIES - 1);
        self.contents.memory.take(copied)?;
        let namespace = &deployment.metadata.namespace;
        sets.extend(others.iter().map(|set| unselected(set, &deployment)));
        let selected: HashSet<*const Found<'_>> = replica_sets
            .iter()
            .map(|set| std::ptr::from_ref(*set))
            .collect();
        let all: Vec<&Found<'_>> = replica_sets.iter().chain(&others).copied().collect();
        self.check_unique(&all, |set| selected.contains(&std::ptr::from_ref(set)));
        let mut read_pods = Vec::with_capacity(pods.len());
        for pod in &pods {
            if let Some(content) = self.content::<kubernetes::Pod>(pod)? {
                let origin = pod.origin();
                read_pods.push(self.parser.pod(content, namespace, &Path::Object(&origin)));
            }
        }
        self.check_unique(&pods, |_| true);
        let path = Path::Root("snapshot");
        let mut failures = self
            .parser
            .answers(snapshot.answers, &owner, &path.field("answers"));
        failures.extend(loop_answers.failures(&owner, self.parser));
        let mut read_events = Vec::with_capacity(events.len());
        for event in &events {
            if let Some(content) = self.content::<kubernetes::Event>(event)? {
                let origin = event.origin();
                read_events.push(self.parser.event(content, &Path::Object(&origin)));
            }
        }
        drop(owner);
        let surroundings = surroundings::read(
            objects,
            object,
            &own_pods,
            &read_pods,
            &mut self.contents,
            self.parser,
            self.interrupt,
        )?;
        Ok(Some(Snapshot {
            now,
            deployment,
            replica_sets: sets,
            replica_sets_complete: snapshot.replica_sets_complete,
            pods: read_pods.into(),
            pods_complete: snapshot.pods_complete,
            failures,
            events: read_events.into(),
            surroundings: surroundings.into(),
        }))
    }

    /// Checks that no two objects have the same UID or name, unless neither is selected. Empty ones are separate violations.
    fn check_unique(&mut self, objects: &[&Found<'_>], is_selected: impl Fn(&Found<'_>) -> bool) {
        for field in ["uid", "name"] {
            let mut seen: HashMap<&str, (bool, &Found<'_>)> = HashMap::with_capacity(objects.len());
            for object in objects {
                let key = match field {
                    "uid" => &*object.metadata.uid,
                    _ => &*object.metadata.name,
                };
                if key.is_empty() {
                    continue;
                }
                let selected = is_selected(object);
                let earlier = seen.insert(key, (selected, object));
                if let Some((_, first)) = earlier.filter(|(earlier, _)| *earlier || selected) {
                    seen.insert(key, (true, first));
                    let (origin, first) = (object.origin(), first.origin());
                    let path = Path::Object(&origin);
                    let description = format_args!("{first} has {key:?} as well");
                    let path = path.field("metadata");
                    self.parser
                        .violation(&path.field(field), Reason::Duplicate, description);
                }
            }
        }
    }
}
