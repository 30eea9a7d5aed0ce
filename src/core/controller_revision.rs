//! The revisions of StatefulSets and DaemonSets, and rollbacks to them, as `kubectl rollout history` and `undo`.
//!
//! Kubernetes source: `pkg/polymorphichelpers/history.go` and `rollback.go` of kubectl; `truncateHistory` in
//! `pkg/controller/statefulset` and `cleanupHistory` in `pkg/controller/daemon`.

use std::collections::{BTreeMap, BTreeSet};

use crate::action::{ApiCall, Verb};
use crate::history::{CHANGE_CAUSE, Revision};
use crate::interrupt::{Interrupt, Interrupted};
use crate::object::ObjectMeta;
use crate::requirement::{Requirement, missing, requirements, template_notes};
use crate::rollback::{RollbackError, Subject, undoers};
use crate::snapshot::{Pod, PodCondition, Surroundings};
use crate::template::{Template, TemplateChange, Value, equal, template_changes};
use crate::time::{Span, Time};

/// The label of a pod with the name of its revision, or with the hash at the end of it.
pub const REVISION_LABEL: &str = "controller-revision-hash";

/// The directive with which a strategic merge patch replaces a whole object.
const PATCH: &str = "$patch";

/// A StatefulSet or a DaemonSet with its revisions.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The time of the observation.
    pub now: Time,
    /// Group and version, for example "apps/v1".
    pub api_version: String,
    /// "StatefulSet" or "DaemonSet".
    pub kind: String,
    /// Metadata.
    pub metadata: ObjectMeta,
    /// The template of its pods.
    pub template: Template,
    /// `spec.replicas` of a StatefulSet.
    pub replicas: Option<i32>,
    /// `spec.minReadySeconds`.
    pub min_ready_seconds: i32,
    /// `spec.revisionHistoryLimit`.
    pub history_limit: i32,
    /// Whether pods are only replaced when they are deleted.
    pub is_on_delete: bool,
    /// The ordinal below which pods of a StatefulSet keep their revision.
    pub partition: i32,
    /// Whether it is a StatefulSet that waits until a pod is ready before it continues with the next one.
    pub is_ordered: bool,
    /// The names of the current and of the updated revision in the status of a StatefulSet.
    pub live: BTreeSet<String>,
    /// The ControllerRevisions that it controls and selects.
    pub revisions: Vec<ControllerRevision>,
    /// Whether `revisions` contains all of them.
    pub revisions_complete: bool,
    /// The pods that it controls.
    pub pods: Vec<Pod>,
    /// The other objects of its namespace.
    pub surroundings: Surroundings,
}

/// A stored revision of a template.
#[derive(Clone, Debug)]
pub struct ControllerRevision {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// The number.
    pub revision: i64,
    /// The strategic merge patch that restores it.
    pub data: Value,
}

/// A rollback of a StatefulSet or a DaemonSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restoration {
    /// The call, with what it does. `None` if there is nothing to do.
    pub call: Option<(String, ApiCall)>,
    /// The revision of the current template. 0 if it is unknown.
    pub from_revision: i64,
    /// The revision to roll back to.
    pub to_revision: i64,
    /// The name of the ControllerRevision that is restored.
    pub name: String,
    /// The changes of the template, sorted by path.
    pub changes: Vec<TemplateChange>,
    /// The ConfigMaps and Secrets that pods of the revision require to start. Empty if nothing is rolled back.
    pub required: Vec<Requirement>,
    /// What the template does not restore, and what is left to do.
    pub warnings: Vec<String>,
    /// The reason if there is nothing to do. Empty otherwise.
    pub reason: String,
}

/// The revision to roll back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToRevision {
    /// The one before the highest.
    Previous,
    /// The one with this number.
    Number(i64),
    /// The one with the most available pods.
    LastAvailable,
}

// === impl ControllerRevision ===

impl ControllerRevision {
    /// The template that it restores.
    fn template(&self) -> Template {
        let template = self.data.at(&["spec", "template"]);
        let mut template = template.cloned().unwrap_or_default();
        if let Some(fields) = template.as_map_mut() {
            fields.remove(PATCH);
        }
        Template::from(template)
    }

    /// Whether a pod has this revision. StatefulSets label pods with the whole name, and DaemonSets with the hash.
    fn is_of(&self, pod: &Pod) -> bool {
        let labels = [&self.metadata.labels, &pod.metadata.labels].map(|it| it.get(REVISION_LABEL));
        match labels {
            [_, Some(pod)] if *pod == self.metadata.name => true,
            [Some(own), Some(pod)] => own == pod,
            _ => false,
        }
    }
}

// === impl Workload ===

impl Workload {
    fn subject(&self) -> Subject {
        Subject {
            kind: self.kind.to_ascii_lowercase(),
            name: self.metadata.name.clone(),
        }
    }

    /// The revisions, the oldest first. Of several with the same number, the first one in the input comes first.
    fn sorted(&self) -> Vec<&ControllerRevision> {
        let mut revisions: Vec<&ControllerRevision> = self.revisions.iter().collect();
        revisions.sort_by_key(|it| it.revision);
        revisions
    }

    /// The newest revision with the current template. One that was stored by an older version may lack defaults.
    fn current<'r>(&self, sorted: &[&'r ControllerRevision]) -> Option<&'r ControllerRevision> {
        let mut revisions = sorted.iter().rev().copied();
        let defaulted = self.template.defaulted();
        revisions.find(|it| equal(it.template().defaulted(), defaulted))
    }

    fn is_available(&self, pod: &Pod) -> bool {
        let ready = ready(pod);
        let since = ready.and_then(|it| it.last_transition_time);
        let min = Span::from_seconds(self.min_ready_seconds.into());
        pod.metadata.deletion_timestamp.is_none()
            && ready.is_some()
            && since.is_none_or(|since| self.now.since(since) >= min)
    }

    fn available_pods(&self, revision: &ControllerRevision) -> usize {
        let pods = self.pods.iter().filter(|pod| revision.is_of(pod));
        pods.filter(|pod| self.is_available(pod)).count()
    }

    /// The pods for which an ordered StatefulSet waits although their revision is not that of the target: it does not
    /// replace a pod that is not ready (kubernetes/kubernetes#67250).
    fn blocking_pods(&self, target: &ControllerRevision) -> Vec<&str> {
        if !self.is_ordered || self.is_on_delete {
            return Vec::new();
        }
        let ordinal = |pod: &Pod| -> Option<i64> {
            let (_, ordinal) = pod.metadata.name.rsplit_once('-')?;
            ordinal.parse().ok()
        };
        let mut pods: Vec<(i64, &str)> = self
            .pods
            .iter()
            .filter(|pod| {
                let has_ended = matches!(pod.phase.as_str(), "Failed" | "Succeeded");
                pod.metadata.deletion_timestamp.is_none()
                    && !has_ended
                    && ready(pod).is_none()
                    && !target.is_of(pod)
            })
            .filter_map(|pod| Some((ordinal(pod)?, pod.metadata.name.as_str())))
            .filter(|(ordinal, _)| *ordinal >= self.partition.into())
            .collect();
        pods.sort_unstable();
        pods.into_iter().map(|(_, name)| name).collect()
    }
}

/// The condition of a pod that is ready.
fn ready(pod: &Pod) -> Option<&PodCondition> {
    let mut conditions = pod.conditions.iter();
    conditions.find(|it| it.kind == "Ready" && it.status == "True")
}

/// The revisions of a StatefulSet or a DaemonSet, the oldest first. If some may be missing, fewer are expected to be cleaned
/// up.
///
/// # Errors
///
/// [`Interrupted`].
pub fn list_controller_revisions_until(
    workload: &Workload,
    interrupt: &dyn Interrupt,
) -> Result<Vec<Revision>, Interrupted> {
    let sorted = workload.sorted();
    let current = workload.current(&sorted).map(|it| &it.metadata.name);
    let is_live = |revision: &ControllerRevision| {
        workload.live.contains(&revision.metadata.name)
            || workload.pods.iter().any(|pod| revision.is_of(pod))
    };
    let old = sorted.iter().filter(|it| {
        // A DaemonSet counts those that have pods, but does not delete them.
        let is_counted = workload.kind == "DaemonSet" || !is_live(it);
        Some(&it.metadata.name) != current && is_counted
    });
    // The next revision turns the current one into an old one.
    let limit = usize::try_from(workload.history_limit).unwrap_or(usize::MAX);
    let kept = old.count() + usize::from(current.is_some());
    let mut surplus = kept.saturating_sub(limit);
    let mut revisions = Vec::new();
    for revision in sorted {
        interrupt.check()?;
        let is_current = Some(&revision.metadata.name) == current;
        let is_surplus = surplus > 0 && !is_current && !is_live(revision);
        surplus -= usize::from(is_surplus);
        let count = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
        let pods = || workload.pods.iter().filter(|pod| revision.is_of(pod));
        let is_ready = |pod: &&Pod| ready(pod).is_some();
        let annotations = &revision.metadata.annotations;
        revisions.push(Revision {
            revision: revision.revision,
            replica_set: String::new(),
            controller_revision: revision.metadata.name.clone(),
            change_cause: annotations.get(CHANGE_CAUSE).cloned().unwrap_or_default(),
            images: revision.template().images(),
            creation_timestamp: revision.metadata.creation_timestamp,
            replicas: count(pods().count()),
            ready_replicas: count(pods().filter(is_ready).count()),
            available_replicas: count(workload.available_pods(revision)),
            current: is_current,
            cleaned_up_next: is_surplus,
            earlier_revisions: Vec::new(),
        });
    }
    interrupt.check()?;
    Ok(revisions)
}

/// Plans a rollback of a StatefulSet or a DaemonSet, unless it is interrupted.
///
/// # Errors
///
/// [`Interrupted`].
pub fn restore_until(
    workload: &Workload,
    to: ToRevision,
    interrupt: &dyn Interrupt,
) -> Result<Result<Restoration, RollbackError>, Interrupted> {
    let restoration = restore(workload, to, interrupt);
    interrupt.check().map(|()| restoration)
}

fn restore(
    workload: &Workload,
    to: ToRevision,
    interrupt: &dyn Interrupt,
) -> Result<Restoration, RollbackError> {
    let subject = || workload.subject();
    if !workload.revisions_complete {
        let list = "ControllerRevisions";
        return Err(RollbackError::Incomplete {
            subject: subject(),
            list,
        });
    }
    let sorted = workload.sorted();
    let current = workload.current(&sorted);
    let last_available = || {
        let old = sorted
            .iter()
            .filter(|it| current.is_none_or(|current| it.metadata.name != current.metadata.name));
        let counted = old.map(|it| (workload.available_pods(it), *it));
        counted.filter(|(pods, _)| *pods > 0).max_by_key(|it| it.0)
    };
    let target = match to {
        ToRevision::Previous => {
            let before = sorted.len().checked_sub(2);
            let found = before.and_then(|index| sorted.get(index).copied());
            found.ok_or_else(|| RollbackError::NoHistory { subject: subject() })?
        }
        ToRevision::Number(wanted) => {
            let found = sorted.iter().find(|it| it.revision == wanted).copied();
            found.ok_or_else(|| RollbackError::NotFound {
                subject: subject(),
                revision: wanted,
                now: None,
                existing: {
                    let numbers: BTreeSet<i64> = sorted.iter().map(|it| it.revision).collect();
                    numbers.into_iter().collect()
                },
            })?
        }
        ToRevision::LastAvailable => {
            let found = last_available().map(|(_, revision)| revision);
            found.ok_or_else(|| RollbackError::NoneAvailable { subject: subject() })?
        }
    };
    let mut restoration = Restoration {
        call: None,
        from_revision: current.map_or(0, |it| it.revision),
        to_revision: target.revision,
        name: target.metadata.name.clone(),
        changes: Vec::new(),
        required: Vec::new(),
        warnings: Vec::new(),
        reason: String::new(),
    };
    let template = target.template();
    let revision = target.revision;
    if template.same_as(&workload.template) {
        restoration.reason = format!("the current template already is that of revision {revision}");
        return Ok(restoration);
    }
    restoration.changes = template_changes(&workload.template, &template, interrupt);
    if let Some((pods, available)) = last_available()
        && workload.available_pods(target) == 0
        && available.revision < revision
    {
        let available = available.revision;
        restoration.warnings.push(format!(
            "revision {revision} has no available pods, and revision {available} still has some ({pods}): --to-revision \
             last-available restores that one"
        ));
    }
    restoration.required = requirements(template.value());
    let missing = missing(&restoration.required, &workload.surroundings);
    restoration.warnings.extend(missing);
    restoration
        .warnings
        .extend(notes(workload, target, &template));
    let what = format!(
        "restore the template of {} {} from ControllerRevision {}",
        workload.kind, workload.metadata.name, target.metadata.name
    );
    restoration.call = Some((what, call(workload, target)));
    Ok(restoration)
}

/// What the template does not restore, who undoes it, and what is left to do.
fn notes(workload: &Workload, target: &ControllerRevision, template: &Template) -> Vec<String> {
    let metadata = &workload.metadata;
    let mut notes = template_notes(template.value(), &workload.surroundings);
    if let Some(replicas) = workload.replicas {
        notes.push(format!(
            "replicas stays {replicas}: it is not part of a revision"
        ));
    }
    notes.push(format!(
        "labels and annotations of the {} stay: they are not part of a revision",
        workload.kind
    ));
    notes.extend(undoers(metadata));
    if workload.is_on_delete {
        notes.push(
            "updateStrategy is OnDelete: a pod gets the template only when it is deleted"
                .to_owned(),
        );
    } else if workload.partition > 0 {
        notes.push(format!(
            "the partition is {}: pods with a lower ordinal keep their template",
            workload.partition
        ));
    }
    for pod in workload.blocking_pods(target) {
        notes.push(format!(
            "pod {pod} has another revision and is not ready, and the StatefulSet waits until it is: delete it afterwards, \
             with `kubectl delete pod {pod} -n {}`",
            metadata.namespace
        ));
    }
    notes
}

/// The patch of kubectl, with the UID and the version of the object as preconditions.
fn call(workload: &Workload, target: &ControllerRevision) -> ApiCall {
    let metadata = &workload.metadata;
    let preconditions = Value::from([
        ("resourceVersion", metadata.resource_version.as_str()),
        ("uid", metadata.uid.as_str()),
    ]);
    let mut body: BTreeMap<String, Value> = target.data.as_map().cloned().unwrap_or_default();
    body.insert("metadata".to_owned(), preconditions);
    ApiCall {
        verb: Verb::Patch,
        api_version: workload.api_version.clone(),
        kind: workload.kind.clone(),
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone(),
        subresource: String::new(),
        content_type: "application/strategic-merge-patch+json".to_owned(),
        body_json: Value::Map(body).to_json(),
    }
}
