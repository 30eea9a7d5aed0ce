//! The start of a canary, and what must be true before it.

use rollplan_core::size::{IntOrPercent, Limits};
use rollplan_core::snapshot::{Deployment, ObjectMeta};
use rollplan_core::template::Template;

use crate::observed::{Observed, stored_digest};
use crate::ownership::Owner;
use crate::patch::{CanaryStep, Patch};
use crate::policy::{Policy, PolicyStep, held_surge};
use crate::refusal::RefusalCause;
use crate::state::{Canary, Fields, HELD_DEADLINE, HELD_MIN_READY, Stage, State, Terms};

/// Prefixes of the annotations and labels of other tools that steer a Deployment, and the API groups of their owners.
const OTHER_CONTROLLERS: [&str; 4] = [
    "argo-rollouts.argoproj.io/",
    "flagger.app/",
    "rollout.argoproj.io/",
    "rollouts.kruise.io/",
];
const OTHER_OWNERS: [&str; 3] = ["argoproj.io/", "flagger.app/", "rollouts.kruise.io/"];

/// What a canary is started with.
pub(crate) struct Origin<'a> {
    pub(crate) template: &'a Template,
    pub(crate) pipeline: Option<String>,
    pub(crate) manifest: Option<String>,
    pub(crate) owners: Vec<Owner>,
    /// The state that is replaced.
    pub(crate) before: Option<&'a State>,
}

/// A state with its patch.
pub(crate) struct Started {
    pub(crate) state: State,
    pub(crate) step: CanaryStep,
    pub(crate) pods: i32,
}

/// The fields that hold a canary.
pub(crate) fn held(surge: IntOrPercent) -> Fields {
    Fields {
        max_surge: surge,
        max_unavailable: IntOrPercent::Int(0),
        min_ready_seconds: HELD_MIN_READY,
        progress_deadline_seconds: HELD_DEADLINE,
    }
}

/// Refuses a Deployment that differs in more than its template from `user`, which is the current one with the fields of the
/// user.
pub(crate) fn check_changes(user: &Deployment, changed: &Deployment) -> Result<(), RefusalCause> {
    let (before, after) = (&user.spec, &changed.spec);
    let differ = [
        ("replicas", before.replicas != after.replicas),
        ("selector", before.selector != after.selector),
        ("strategy", before.strategy != after.strategy),
        (
            "minReadySeconds",
            before.min_ready_seconds != after.min_ready_seconds,
        ),
        (
            "progressDeadlineSeconds",
            before.progress_deadline_seconds != after.progress_deadline_seconds,
        ),
        (
            "revisionHistoryLimit",
            before.revision_history_limit != after.revision_history_limit,
        ),
        ("paused", before.paused != after.paused),
    ];
    let names: Vec<&str> = differ.iter().filter(|it| it.1).map(|it| it.0).collect();
    if names.is_empty() {
        Ok(())
    } else {
        Err(RefusalCause::OtherChanges {
            fields: names.join(", "),
        })
    }
}

/// Starts a canary.
pub(crate) fn start(
    observed: &Observed<'_>,
    policy: &Policy,
    origin: Origin<'_>,
) -> Result<Started, RefusalCause> {
    let Origin {
        template,
        pipeline,
        manifest,
        owners,
        before,
    } = origin;
    let deployment = observed.deployment();
    let user = check_deployment(deployment)?;
    let digest = stored_digest(template);
    if template.same_as(&deployment.spec.template) || digest == observed.digest {
        return Err(RefusalCause::SameTemplate);
    }
    if before.is_some_and(|state| state.rejects(&digest)) {
        return Err(RefusalCause::Rejected);
    }
    let replicas = observed.replicas();
    let mut terms = Terms::default().with(policy, 0);
    if terms.steps.is_empty() {
        terms.steps.push(PolicyStep::from(IntOrPercent::Int(1)));
    }
    let asked = || terms.steps.iter().map(|step| step.pods);
    let counts = asked().map(|it| it.rounded_up(replicas));
    if let Some(pods) = asked().find(|it| !(1..=replicas).contains(&it.rounded_up(replicas))) {
        return Err(RefusalCause::Pods { pods, replicas });
    }
    let pods = counts.clone().next().unwrap_or(1);
    let pods_max = counts.max().unwrap_or(1);
    let limits = Limits::rolling(replicas, user.max_surge, user.max_unavailable);
    let allowed = policy.surge.filter(|it| it.rounded_up(replicas) > 0);
    let surge = match allowed.filter(|_| limits.max_surge < pods_max) {
        Some(allowed) => allowed,
        None => user.max_surge,
    };
    match surge.rounded_up(replicas) {
        0 => return Err(RefusalCause::NoSurge),
        surge if surge < pods_max => {
            let pods = pods_max;
            return Err(RefusalCause::AboveSurge { pods, surge });
        }
        _ => {}
    }
    if !observed.is_complete() {
        let generation = deployment.metadata.generation;
        return Err(if deployment.status.observed_generation < generation {
            RefusalCause::NotObserved
        } else {
            RefusalCause::NotComplete
        });
    }
    let surge = held_surge(pods, surge, replicas);
    let now = observed.now();
    let state = State {
        uid: deployment.metadata.uid.clone(),
        sequence: before.map_or(0, |state| state.sequence) + 1,
        since: now,
        stable: observed.digest.to_owned(),
        label: before.is_some_and(|state| state.label),
        rejected: before.map_or_else(Vec::new, |state| state.rejected.clone()),
        canary: Some(Canary {
            stage: Stage::Hold,
            step: 0,
            started: now,
            revision: observed.revision_besides(&digest),
            digest,
            user,
            surge,
            allowed,
            terms,
            pipeline,
            manifest,
            owners,
        }),
    };
    let (patch, state) = Patch::new(deployment).state(state);
    let step = patch
        .fields(Some(user), held(surge))
        .template(template.value())
        .step(format!("start a canary with {pods} of {replicas} pods"));
    Ok(Started { state, step, pods })
}

/// The fields of a Deployment that may have a canary.
fn check_deployment(deployment: &Deployment) -> Result<Fields, RefusalCause> {
    let spec = &deployment.spec;
    if deployment.metadata.deletion_timestamp.is_some() {
        return Err(RefusalCause::Deleting);
    }
    if let Some(found) = other_controller(&deployment.metadata) {
        return Err(RefusalCause::OtherController { found });
    }
    if spec.paused {
        return Err(RefusalCause::Paused);
    }
    let fields = Fields::of(deployment).ok_or(RefusalCause::Recreate)?;
    if fields.min_ready_seconds >= HELD_MIN_READY {
        return Err(RefusalCause::MinReadySeconds);
    }
    if spec.replicas == 0 {
        return Err(RefusalCause::NoReplicas);
    }
    Ok(fields)
}

fn other_controller(metadata: &ObjectMeta) -> Option<String> {
    let is_other = |key: &&String| OTHER_CONTROLLERS.iter().any(|it| key.starts_with(it));
    let mut keys = metadata.annotations.keys().chain(metadata.labels.keys());
    let owner = || {
        let owner = metadata.controller()?;
        let is_other = OTHER_OWNERS
            .iter()
            .any(|it| owner.api_version.starts_with(it));
        is_other.then(|| format!("{} {}", owner.kind, owner.name))
    };
    keys.find(is_other).cloned().or_else(owner)
}
