//! Rolling back to an earlier revision, as `kubectl rollout undo` does.
//!
//! Kubernetes source: `pkg/polymorphichelpers/rollback.go` of kubectl.

use std::collections::BTreeSet;
use std::fmt;

use thiserror::Error;

use crate::action::{Action, OnFailure, OwnerChange, Step, Target};
use crate::interrupt::{Interrupt, Interrupted, Never};
use crate::object::{ObjectMeta, StringMap};
use crate::pass;
use crate::requirement::{Requirement, missing, requirements, template_notes};
use crate::revision::{self, LAST_APPLIED, ROLLBACK_TO};
use crate::snapshot::{ReplicaSet, Snapshot};
use crate::template::{TemplateChange, Value, template_changes};

/// A rollback to an earlier revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rollback {
    /// The steps. Empty if the Deployment already has the template of the revision.
    pub steps: Vec<Step>,
    /// The current revision of the Deployment. 0 if it is unknown.
    pub from_revision: i64,
    /// The revision to roll back to.
    pub to_revision: i64,
    /// The name of the ReplicaSet whose template is restored.
    pub replica_set: String,
    /// The changes of the template, sorted by path.
    pub changes: Vec<TemplateChange>,
    /// The ConfigMaps and Secrets that pods of the revision require to start. Empty if nothing is rolled back.
    pub required: Vec<Requirement>,
    /// What the template does not restore.
    pub warnings: Vec<String>,
    /// The reason for a response without steps. Empty otherwise.
    pub reason: String,
}

/// The object that is rolled back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Kind in lower case. "deployment" also for a custom resource with the same spec.
    pub kind: String,
    /// Name.
    pub name: String,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.kind, self.name)
    }
}

/// Why a rollback is impossible.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RollbackError {
    /// The revision may be that of an object that is missing.
    #[error(
        "{subject} cannot be rolled back: the list of {list} may be incomplete; send all of them, and set replicaSetsComplete"
    )]
    Incomplete {
        /// The object.
        subject: Subject,
        /// "ReplicaSets" or "ControllerRevisions".
        list: &'static str,
    },
    /// A paused Deployment is not rolled back.
    #[error("{subject} is paused: resume it first{}", with_command(.resume))]
    Paused {
        /// The Deployment.
        subject: Subject,
        /// The command that resumes it. `None` for a custom resource.
        resume: Option<String>,
    },
    /// No earlier revision has available pods.
    #[error("{subject} has no earlier revision with available pods")]
    NoneAvailable {
        /// The object.
        subject: Subject,
    },
    /// No earlier revision exists.
    #[error("{subject} has no earlier revision")]
    NoHistory {
        /// The object.
        subject: Subject,
    },
    /// The revision does not exist.
    #[error("{subject} has no revision {revision}; it has {}{}", list(.existing), renumbered(*.revision, *.now))]
    NotFound {
        /// The object.
        subject: Subject,
        /// The requested revision.
        revision: i64,
        /// The current revision of the ReplicaSet that had this revision, if there is one.
        now: Option<i64>,
        /// The existing revisions in order.
        existing: Vec<i64>,
    },
}

fn renumbered(revision: i64, now: Option<i64>) -> String {
    now.map_or_else(String::new, |now| {
        format!("; revision {revision} is now {now}")
    })
}

fn with_command(command: &Option<String>) -> String {
    let command = command.as_ref();
    command.map_or_else(String::new, |command| format!(", with `{command}`"))
}

fn list(revisions: &[i64]) -> String {
    match revisions {
        [] => "none".to_owned(),
        revisions => {
            let texts: Vec<String> = revisions.iter().map(ToString::to_string).collect();
            texts.join(", ")
        }
    }
}

/// Plans a rollback to a revision. 0 means the previous one.
///
/// # Errors
///
/// [`RollbackError`]: the Deployment is paused, the revision does not exist, or ReplicaSets may be missing.
pub fn rollback(snapshot: &Snapshot, to_revision: i64) -> Result<Rollback, RollbackError> {
    plan(snapshot, to_revision, &Never)
}

/// [`rollback`], unless it is interrupted.
///
/// # Errors
///
/// [`Interrupted`].
pub fn rollback_until(
    snapshot: &Snapshot,
    to_revision: i64,
    interrupt: &dyn Interrupt,
) -> Result<Result<Rollback, RollbackError>, Interrupted> {
    let rollback = plan(snapshot, to_revision, interrupt);
    interrupt.check().map(|()| rollback)
}

/// Returns the ReplicaSet with the most available pods, or `None` if none has any. After several failed rollouts in a row,
/// this is usually that of the last complete one.
pub fn most_available<'s>(
    sets: impl Iterator<Item = &'s ReplicaSet>,
    available: impl Fn(&ReplicaSet) -> i32,
) -> Option<&'s ReplicaSet> {
    let with_pods = sets.filter(|set| available(set) > 0);
    with_pods.max_by_key(|set| available(set))
}

/// The earlier revision with the most available pods, which a rollback to the last available revision restores.
///
/// # Errors
///
/// [`RollbackError`]: no earlier revision has available pods, or ReplicaSets may be missing.
pub fn last_available_revision(
    snapshot: &Snapshot,
    interrupt: &dyn Interrupt,
) -> Result<i64, RollbackError> {
    let subject = || subject(snapshot);
    if !snapshot.replica_sets_complete {
        return Err(incomplete(snapshot));
    }
    let (_, old) = pass::roles(snapshot, interrupt);
    let numbered = old
        .into_iter()
        .filter(|set| revision::revision_of(&set.metadata.annotations).is_some());
    let found = most_available(numbered, |set| set.status.available_replicas);
    let revision = found.and_then(|set| revision::revision_of(&set.metadata.annotations));
    revision.ok_or_else(|| RollbackError::NoneAvailable { subject: subject() })
}

fn subject(snapshot: &Snapshot) -> Subject {
    Subject {
        kind: "deployment".to_owned(),
        name: snapshot.deployment.metadata.name.clone(),
    }
}

fn incomplete(snapshot: &Snapshot) -> RollbackError {
    RollbackError::Incomplete {
        subject: subject(snapshot),
        list: "ReplicaSets",
    }
}

/// Whether the previous revision never became available, although an earlier one still has available pods: then a rollback
/// should restore the last available revision instead.
#[must_use]
pub fn previous_was_never_available(snapshot: &Snapshot, interrupt: &dyn Interrupt) -> bool {
    let (new, old) = pass::roles(snapshot, interrupt);
    let all: Vec<&ReplicaSet> = old.iter().copied().chain(new).collect();
    let numbered = numbered(snapshot, all.into_iter());
    second_highest(&numbered)
        .is_some_and(|(number, set)| older_with_pods(&old, number, set).is_some())
}

/// The ReplicaSet of an earlier revision that still has available pods, if one that was created later has none: had its
/// rollout completed, the earlier one would have none.
fn older_with_pods<'s>(
    old: &[&'s ReplicaSet],
    revision: i64,
    target: &ReplicaSet,
) -> Option<(i64, &'s ReplicaSet)> {
    let found = most_available(old.iter().copied(), |set| set.status.available_replicas)?;
    let number = revision::revision_of(&found.metadata.annotations)?;
    (target.status.available_replicas == 0 && number < revision).then_some((number, found))
}

/// The ReplicaSets that the Deployment controls and that have a revision, with it.
fn numbered<'s>(
    snapshot: &Snapshot,
    sets: impl Iterator<Item = &'s ReplicaSet>,
) -> Vec<(i64, &'s ReplicaSet)> {
    let owned = sets.filter(|set| snapshot.deployment.controls(set));
    owned
        .filter_map(|set| Some((revision::revision_of(&set.metadata.annotations)?, set)))
        .collect()
}

fn plan(
    snapshot: &Snapshot,
    to_revision: i64,
    interrupt: &dyn Interrupt,
) -> Result<Rollback, RollbackError> {
    let deployment = &snapshot.deployment;
    let subject = || subject(snapshot);
    if !snapshot.replica_sets_complete {
        return Err(incomplete(snapshot));
    }
    let (new, old) = pass::roles(snapshot, interrupt);
    let all = old.iter().copied().chain(new);
    let numbered = numbered(snapshot, all.take_while(|_| !interrupt.is_interrupted()));
    let found = match to_revision {
        0 => second_highest(&numbered)
            .ok_or_else(|| RollbackError::NoHistory { subject: subject() })?,
        wanted => {
            let found = numbered.iter().find(|(revision, _)| *revision == wanted);
            *found.ok_or_else(|| RollbackError::NotFound {
                subject: subject(),
                revision: wanted,
                now: numbered
                    .iter()
                    .filter(|(_, set)| {
                        let annotations = &set.metadata.annotations;
                        revision::earlier_revisions(annotations).any(|it| it == wanted)
                    })
                    .map(|(now, _)| *now)
                    .max(),
                existing: existing(&numbered),
            })?
        }
    };
    if deployment.spec.paused {
        let metadata = &deployment.metadata;
        let resume = deployment.is_native().then(|| {
            let (name, namespace) = (&metadata.name, &metadata.namespace);
            format!("kubectl rollout resume deploy/{name} -n {namespace}")
        });
        let subject = subject();
        return Err(RollbackError::Paused { subject, resume });
    }
    let (revision, target) = found;
    let from_revision = revision::revision_of(&deployment.metadata.annotations).unwrap_or(0);
    let mut rollback = Rollback {
        steps: Vec::new(),
        from_revision,
        to_revision: revision,
        replica_set: target.metadata.name.clone(),
        changes: Vec::new(),
        required: Vec::new(),
        warnings: Vec::new(),
        reason: String::new(),
    };
    if pass::has_template_of(target, deployment) {
        rollback.reason = format!("the current template already is that of revision {revision}");
        return Ok(rollback);
    }
    let value = target.template.value();
    if interrupt.is_interrupted() {
        return Ok(rollback);
    }
    let template = pass::without_hash(value);
    if interrupt.is_interrupted() {
        return Ok(rollback);
    }
    rollback.changes = template_changes(&deployment.spec.template, &target.template, interrupt);
    let before = &deployment.metadata.annotations;
    let after = pass::restored(before, &target.metadata.annotations);
    rollback.required = requirements(&template);
    rollback.warnings = warnings(snapshot, &template, &rollback.required);
    if let Some((available, set)) = older_with_pods(&old, revision, target) {
        let pods = set.status.available_replicas;
        rollback.warnings.insert(
            0,
            format!(
                "revision {revision} never became available, and revision {available} still has available pods ({pods}): \
                 --to-revision last-available restores that one"
            ),
        );
    }
    rollback
        .warnings
        .extend(metadata_warnings(&deployment.metadata, &after, revision));
    if interrupt.is_interrupted() {
        return Ok(rollback);
    }
    let change = OwnerChange::between(before, after, Some(template));
    let action = Action::UpdateDeployment {
        owner: Target::owner(deployment),
        change,
    };
    if interrupt.is_interrupted() {
        return Ok(rollback);
    }
    rollback.steps.push(Step::of(action, OnFailure::Stop));
    Ok(rollback)
}

/// The previous revision according to kubectl: among equal numbers, the first one counts as higher.
fn second_highest<'a>(numbered: &[(i64, &'a ReplicaSet)]) -> Option<(i64, &'a ReplicaSet)> {
    let number = |entry: Option<(i64, _)>| entry.map_or(-1, |(revision, _)| revision);
    let (mut highest, mut second) = (None, None);
    for &entry in numbered {
        if number(highest) < entry.0 {
            second = highest;
            highest = Some(entry);
        } else if number(second) < entry.0 {
            second = Some(entry);
        }
    }
    second
}

fn existing(numbered: &[(i64, &ReplicaSet)]) -> Vec<i64> {
    let revisions: BTreeSet<i64> = numbered.iter().map(|(revision, _)| *revision).collect();
    revisions.into_iter().collect()
}

/// The settings that the template alone does not restore.
fn warnings(snapshot: &Snapshot, template: &Value, required: &[Requirement]) -> Vec<String> {
    let mut warnings = missing(required, &snapshot.surroundings);
    warnings.extend(template_notes(template, &snapshot.surroundings));
    let deployment = &snapshot.deployment;
    let replicas = deployment.spec.replicas;
    warnings.push(format!(
        "replicas stays {replicas}: it is not part of a revision"
    ));
    if deployment.metadata.annotations.contains_key(ROLLBACK_TO) {
        warnings.push("an annotation requests another rollback".to_owned());
    }
    warnings
}

/// What a rollback removes from the metadata, what it leaves there, and who will undo it.
fn metadata_warnings(metadata: &ObjectMeta, after: &StringMap, revision: i64) -> Vec<String> {
    let mut warnings = Vec::new();
    let before = &metadata.annotations;
    let removed: Vec<&str> = before
        .keys()
        .filter(|key| !after.contains_key(*key))
        .map(String::as_str)
        .collect();
    if !removed.is_empty() {
        warnings.push(format!(
            "the annotations of the Deployment become those of revision {revision}, which removes {}",
            removed.join(", ")
        ));
    }
    if !metadata.labels.is_empty() {
        warnings
            .push("the labels of the Deployment stay: they are not part of a revision".to_owned());
    }
    warnings.extend(undoers(metadata));
    warnings
}

/// Who will undo a rollback of an object, and when.
pub(crate) fn undoers(metadata: &ObjectMeta) -> Vec<String> {
    let mut warnings = Vec::new();
    let label = |key: &str| metadata.labels.get(key);
    let annotation = |key: &str| metadata.annotations.get(key);
    let mut owned = |who: &str, when: &str| {
        warnings.push(format!(
            "{who} undoes this {when}: change the template where it comes from as well"
        ));
    };
    if annotation("argocd.argoproj.io/tracking-id")
        .or(label("argocd.argoproj.io/instance"))
        .is_some()
    {
        owned("Argo CD", "with its next sync");
    }
    for (key, kind) in [
        ("kustomize.toolkit.fluxcd.io/name", "Kustomization"),
        ("helm.toolkit.fluxcd.io/name", "HelmRelease"),
    ] {
        if let Some(name) = label(key) {
            owned(
                &format!("Flux ({kind} {name})"),
                "with its next reconciliation",
            );
        }
    }
    if let Some(release) = annotation("meta.helm.sh/release-name") {
        owned(
            &format!("Helm (release {release})"),
            "with the next upgrade",
        );
    }
    if metadata.annotations.contains_key(LAST_APPLIED) {
        owned("kubectl apply", "with the same manifest");
    }
    warnings
}
