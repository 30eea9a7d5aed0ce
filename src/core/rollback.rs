//! Rolling back to an earlier revision, as `kubectl rollout undo` does.
//!
//! Kubernetes source: `pkg/polymorphichelpers/rollback.go` of kubectl.

use std::collections::BTreeSet;

use thiserror::Error;

use crate::action::{Action, OnFailure, OwnerChange, Step, Target};
use crate::interrupt::{Interrupt, Interrupted, Never};
use crate::pass;
use crate::revision::{self, ROLLBACK_TO};
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
    /// What the template does not restore.
    pub warnings: Vec<String>,
    /// The reason for a response without steps. Empty otherwise.
    pub reason: String,
}

/// Why a rollback is impossible.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RollbackError {
    /// The revision may be that of a ReplicaSet that is missing.
    #[error(
        "deployment {name:?} cannot be rolled back: the list of ReplicaSets may be incomplete; send all of them, and \
         set replicaSetsComplete"
    )]
    Incomplete {
        /// Name of the Deployment.
        name: String,
    },
    /// A paused Deployment is not rolled back.
    #[error("deployment {name:?} is paused: resume it first")]
    Paused {
        /// Name of the Deployment.
        name: String,
    },
    /// No earlier revision exists.
    #[error("deployment {name:?} has no earlier revision")]
    NoHistory {
        /// Name of the Deployment.
        name: String,
    },
    /// The revision does not exist.
    #[error("deployment {name:?} has no revision {revision}; it has {}{}", list(.existing), renumbered(*.revision, *.now))]
    NotFound {
        /// Name of the Deployment.
        name: String,
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

fn plan(
    snapshot: &Snapshot,
    to_revision: i64,
    interrupt: &dyn Interrupt,
) -> Result<Rollback, RollbackError> {
    let deployment = &snapshot.deployment;
    let name = || deployment.metadata.name.clone();
    if !snapshot.replica_sets_complete {
        return Err(RollbackError::Incomplete { name: name() });
    }
    let (new, old) = pass::roles(snapshot, interrupt);
    let all = old.into_iter().chain(new);
    let unless_interrupted = all.take_while(|_| !interrupt.is_interrupted());
    let owned = unless_interrupted.filter(|set| {
        let controller = set.metadata.controller();
        controller.is_some_and(|owner| owner.uid == deployment.metadata.uid)
    });
    let numbered: Vec<(i64, &ReplicaSet)> = owned
        .filter_map(|set| Some((revision::revision_of(&set.metadata.annotations)?, set)))
        .collect();
    let found = match to_revision {
        0 => second_highest(&numbered).ok_or_else(|| RollbackError::NoHistory { name: name() })?,
        wanted => {
            let found = numbered.iter().find(|(revision, _)| *revision == wanted);
            *found.ok_or_else(|| RollbackError::NotFound {
                name: name(),
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
        return Err(RollbackError::Paused { name: name() });
    }
    let (revision, target) = found;
    let from_revision = revision::revision_of(&deployment.metadata.annotations).unwrap_or(0);
    let mut rollback = Rollback {
        steps: Vec::new(),
        from_revision,
        to_revision: revision,
        replica_set: target.metadata.name.clone(),
        changes: Vec::new(),
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
    rollback.warnings = warnings(snapshot, &template);
    if interrupt.is_interrupted() {
        return Ok(rollback);
    }
    let before = &deployment.metadata.annotations;
    let after = pass::restored(before, &target.metadata.annotations);
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
fn warnings(snapshot: &Snapshot, template: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut refers = BTreeSet::new();
    collect_references(template, &mut refers);
    for (kind, name) in refers {
        warnings.push(format!("{kind} {name} keeps its current content"));
    }
    for image in crate::template::images(template) {
        if image.ends_with(":latest") || is_untagged(&image) {
            warnings.push(format!(
                "image {image} may have been replaced in the registry"
            ));
        }
    }
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

fn is_untagged(image: &str) -> bool {
    let name = image.rsplit('/').next().unwrap_or(image);
    !name.contains([':', '@'])
}

/// ConfigMaps and Secrets that a template refers to.
fn collect_references(value: &Value, refers: &mut BTreeSet<(&'static str, String)>) {
    match value {
        Value::Map(map) => {
            for (key, value) in map {
                let reference = match key.as_str() {
                    "configMap" | "configMapRef" | "configMapKeyRef" => Some("ConfigMap"),
                    "secret" | "secretRef" | "secretKeyRef" => Some("Secret"),
                    _ => None,
                };
                let name = ["name", "secretName"]
                    .iter()
                    .find_map(|key| value.get(key)?.as_str());
                if let (Some(kind), Some(name)) = (reference, name) {
                    refers.insert((kind, name.to_owned()));
                }
                collect_references(value, refers);
            }
        }
        Value::List(items) => items
            .iter()
            .for_each(|item| collect_references(item, refers)),
        _ => {}
    }
}
