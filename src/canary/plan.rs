//! The next patch of a Deployment, from its state, the command and the decision.

use rollplan_core::interrupt::{Interrupt, Interrupted};
use rollplan_core::most_available;
use rollplan_core::revision::{LAST_APPLIED, is_scaled_for_another};
use rollplan_core::size::{IntOrPercent, Limits};
use rollplan_core::snapshot::{Deployment, ReplicaSet};
use rollplan_core::template::Template;
use rollplan_core::time::Time;
use rollplan_health::explain::Blocker;

use crate::decision::{Decision, Hold, Judged, decide, is_failure, judge, number};
use crate::fault::is_shared;
use crate::observed::{Observed, stored_digest, template_of};
use crate::ownership::{ManagedFields, Owner};
use crate::patch::{CanaryStep, Patch};
use crate::policy::held_surge;
use crate::refusal::{Refusal, RefusalCause};
use crate::report::{Outcome, Phase, Reason, ReasonKind, Report};
use crate::start::{Origin, check_changes, held, start};
use crate::state::{
    ANNOTATION, Canary, Fields, HELD_MIN_READY, LABEL, Stage, State, Terms, Unreadable,
    manifest_digest,
};
use crate::{Command, Input, Plan, Start};

/// The longest time, in seconds, after which to check again whether an abort is possible.
const ABORT_CHECK_MAX: i32 = 10;

/// The message without a canary.
const NO_CANARY: &str = "no canary is in progress";
const ONLY_LABEL: &str =
    "no canary is in progress, but its label is set: `rollplan canary release` removes it";

/// What follows if the stable template has the same fault.
const NO_HELP: &str = "restoring it would not help";
const NOT_REJECTED: &str = "that of the canary may be started again";

/// Why a plan ends early.
enum Stop {
    Refused(RefusalCause),
    Interrupted,
}

impl From<RefusalCause> for Stop {
    fn from(cause: RefusalCause) -> Self {
        Self::Refused(cause)
    }
}

impl From<Interrupted> for Stop {
    fn from(_: Interrupted) -> Self {
        Self::Interrupted
    }
}

/// Plans the next patch.
pub(crate) fn plan(
    input: &Input,
    interrupt: &dyn Interrupt,
) -> Result<Result<Plan, Refusal>, Interrupted> {
    let refuse = |cause| Refusal {
        name: input.snapshot.deployment.metadata.name.clone(),
        cause,
    };
    if !input.snapshot.replica_sets_complete || !input.snapshot.pods_complete {
        return Ok(Err(refuse(RefusalCause::Incomplete)));
    }
    if !input.snapshot.deployment.is_native() {
        return Ok(Err(refuse(RefusalCause::NotNative)));
    }
    let observed = Observed::new(&input.snapshot, interrupt);
    let planner = Planner {
        observed,
        input,
        interrupt,
    };
    let plan = planner.plan();
    interrupt.check()?;
    match plan {
        Ok(plan) => Ok(Ok(plan)),
        Err(Stop::Refused(cause)) => Ok(Err(refuse(cause))),
        Err(Stop::Interrupted) => Err(Interrupted),
    }
}

/// The digest of the only template that a promotion may be about.
fn asks(template: &Option<String>, manifest: &Option<Box<Deployment>>) -> Option<String> {
    let manifest = manifest.as_ref();
    let manifest = manifest.map(|it| stored_digest(&it.spec.template));
    template.clone().or(manifest)
}

struct Planner<'a> {
    observed: Observed<'a>,
    input: &'a Input,
    interrupt: &'a dyn Interrupt,
}

/// A state as found, and what is unusual about it.
struct Found {
    state: Option<State>,
    reasons: Vec<Reason>,
    /// Whether it has to be written even if nothing else changes.
    is_recovered: bool,
}

/// A plan without its counts.
struct Draft {
    phase: Phase,
    message: String,
    /// The state after the step.
    state: Option<State>,
    step: Option<CanaryStep>,
    outcome: Option<Outcome>,
    reasons: Vec<Reason>,
    at: Option<Time>,
    event_selectors: Vec<&'static str>,
    /// Whether the command has not been carried out yet.
    is_pending: bool,
}

/// The step that follows.
struct Next {
    index: usize,
    pods: i32,
    surge: IntOrPercent,
}

/// What a command means for a canary that is not over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meeting {
    /// It is about this canary.
    Continues,
    /// The canary has to end first, and does.
    Waits,
    /// The canary is aborted first.
    Replaces,
}

// === impl Draft ===

impl Draft {
    fn new(phase: Phase, message: impl Into<String>, state: Option<State>) -> Self {
        Self {
            phase,
            message: message.into(),
            state,
            step: None,
            outcome: None,
            reasons: Vec::new(),
            at: None,
            event_selectors: Vec::new(),
            is_pending: false,
        }
    }
}

fn reason(kind: ReasonKind, message: impl Into<String>) -> Reason {
    Reason {
        kind,
        message: message.into(),
    }
}

fn stable_has_fault(set: &ReplicaSet, consequence: &str) -> Reason {
    let name = &set.metadata.name;
    let message = format!("the template of ReplicaSet {name} has the same fault, so {consequence}");
    reason(ReasonKind::StableHasFault, message)
}

// === impl Planner ===

impl Planner<'_> {
    fn plan(&self) -> Result<Plan, Stop> {
        let Found {
            state,
            mut reasons,
            is_recovered,
        } = self.find_state()?;
        let canary = state.as_ref().and_then(|state| state.canary.clone());
        let mut draft = match (state, canary) {
            (Some(state), Some(canary)) => self.with_canary(state, canary, is_recovered)?,
            (state, _) => self.without_canary(state)?,
        };
        reasons.append(&mut draft.reasons);
        draft.reasons = reasons;
        Ok(self.finish(draft))
    }

    /// Finds the state: in the annotation, or in the copy on a ReplicaSet if the fields or the label are still those of a
    /// canary.
    fn find_state(&self) -> Result<Found, RefusalCause> {
        let observed = &self.observed;
        let metadata = &observed.deployment().metadata;
        let mut found = Found {
            state: None,
            reasons: Vec::new(),
            is_recovered: false,
        };
        let newest = self.newest_copy();
        if let Some(text) = metadata.annotations.get(ANNOTATION) {
            let state = State::parse(text).map_err(|unreadable| match unreadable {
                Unreadable::Newer => RefusalCause::Newer,
                Unreadable::Edited => RefusalCause::Edited,
            })?;
            if state.uid != metadata.uid && !matches!(self.input.command, Some(Command::Release)) {
                return Err(RefusalCause::Foreign);
            }
            if self.is_stale(&state, newest.as_ref()) {
                found.reasons.push(reason(
                    ReasonKind::StaleState,
                    "the state is an earlier one, for example after `kubectl rollout undo`",
                ));
            } else {
                found.state = Some(state);
            }
        }
        let has_canary = found.state.as_ref().is_some_and(|it| it.canary.is_some());
        let is_held = observed.is_held();
        let has_label = metadata.labels.contains_key(LABEL);
        if !has_canary && (is_held || has_label) {
            // Without the fields of a hold, the label of a canary shows that it has not ended. A state from before it may
            // have been restored.
            let is_newest = |copy: &State| {
                let state = found.state.as_ref();
                state.is_none_or(|it| it.sequence < copy.sequence)
            };
            let copy = newest.filter(|copy| is_held || (copy.label && is_newest(copy)));
            if let Some(mut copy) = copy {
                if let Some(canary) = &mut copy.canary {
                    canary.revision = observed.revision_besides(&canary.digest);
                    if self.follow_raise(canary) {
                        copy.since = observed.now();
                    }
                }
                found.state = Some(copy);
                found.is_recovered = true;
                found.reasons.push(reason(
                    ReasonKind::Recovered,
                    "the state was removed, and is restored from the copy on a ReplicaSet",
                ));
            } else if is_held || (has_label && observed.has_field_of_hold()) {
                return Err(RefusalCause::Lost);
            }
        }
        Ok(found)
    }

    /// Takes over the surge of a later step if no copy has the state of that step. Otherwise, this surge would count as a limit
    /// of the user. If both limits have changed, the user has changed them.
    fn follow_raise(&self, canary: &mut Canary) -> bool {
        let observed = &self.observed;
        let Some(live) = observed.fields.filter(|_| observed.has_field_of_hold()) else {
            return false;
        };
        let replicas = observed.replicas();
        let pods = |limit: IntOrPercent| limit.rounded_up(replicas);
        let pods_max = self.surge_limit(canary).map_or(0, pods);
        let surge = pods(live.max_surge);
        let steps = canary.terms.steps.iter().enumerate();
        let mut raised = steps
            .skip(canary.step + 1)
            .filter(|it| pods(it.1.pods) <= surge);
        let is_raised = canary.stage == Stage::Hold
            && live.max_unavailable == IntOrPercent::Int(0)
            && live.max_surge != canary.user.max_surge
            && surge > pods(canary.surge)
            && surge <= pods_max;
        match raised.next_back().filter(|_| is_raised) {
            Some((step, _)) => {
                canary.step = step;
                canary.surge = live.max_surge;
                true
            }
            None => false,
        }
    }

    /// The newest copy of the state of a canary on a ReplicaSet.
    fn newest_copy(&self) -> Option<State> {
        let uid = &self.observed.deployment().metadata.uid;
        let copies = self.observed.sets().filter_map(|set| {
            let copy = State::parse(set.metadata.annotations.get(ANNOTATION)?).ok()?;
            (copy.uid == *uid).then_some((copy.order()?, copy))
        });
        copies.max_by_key(|it| it.0).map(|it| it.1)
    }

    /// Whether `kubectl rollout undo` has restored an earlier state: one of this canary, or that of an earlier canary
    /// with its template.
    fn is_stale(&self, state: &State, newest: Option<&State>) -> bool {
        let Some(canary) = &state.canary else {
            return false;
        };
        let newest = newest.and_then(State::order);
        if newest.is_some_and(|(started, sequence)| {
            started == canary.started && sequence > state.sequence
        }) {
            return true;
        }
        // The Deployment controller may create a ReplicaSet late, for a template from before the state. Then the revision is
        // higher as well, but the label is there.
        let is_in_progress = state.label && self.has_label() && newest <= state.order();
        canary.stage != Stage::Aborting
            && canary.digest == self.observed.digest
            && self.observed.revision_besides(&canary.digest) > canary.revision
            && !is_in_progress
    }

    // Without a canary.

    fn without_canary(&self, state: Option<State>) -> Result<Draft, Stop> {
        match &self.input.command {
            None => self.rest(state),
            Some(Command::Start(start)) => Ok(self.start(start, state)?),
            Some(Command::Retry) => Ok(self.retry(state)?),
            // It has been promoted already.
            Some(Command::Promote {
                template, manifest, ..
            }) if self.observed.is_complete()
                && asks(template, manifest).is_some_and(|it| it == self.observed.digest) =>
            {
                self.rest(state)
            }
            Some(Command::Abort { template })
                if state
                    .as_ref()
                    .is_some_and(|state| template.as_ref().is_none_or(|it| state.rejects(it))) =>
            {
                self.rest(state)
            }
            // It has been aborted, perhaps because the canary failed.
            Some(Command::Promote {
                template, manifest, ..
            }) if asks(template, manifest)
                .zip(state.as_ref())
                .is_some_and(|(it, state)| state.rejects(&it)) =>
            {
                Err(RefusalCause::Rejected.into())
            }
            Some(Command::Promote { .. } | Command::Abort { .. }) => {
                Err(RefusalCause::NoCanary.into())
            }
            Some(Command::Release) if state.is_none() && self.has_label() => {
                let patch = Patch::new(self.observed.deployment()).without_label();
                let mut draft = Draft::new(Phase::Rest, NO_CANARY, None);
                draft.step = Some(patch.step("remove the label of a canary".to_owned()));
                Ok(draft)
            }
            Some(Command::Release) => Ok(self.forget(state.as_ref(), None)),
        }
    }

    fn has_label(&self) -> bool {
        let labels = &self.observed.deployment().metadata.labels;
        labels.contains_key(LABEL)
    }

    fn start(&self, start: &Start, mut before: Option<State>) -> Result<Draft, RefusalCause> {
        let current = self.observed.deployment();
        let changed = &start.deployment;
        if !start.is_template_only {
            check_changes(current, changed)?;
        }
        let template = &changed.spec.template;
        if let Some(state) = before.as_mut().filter(|_| start.replaces) {
            let digest = stored_digest(template);
            let is_own =
                |pipeline: &Option<String>| pipeline.is_some() && *pipeline == start.pipeline;
            if state
                .rejection(&digest)
                .is_some_and(|it| is_own(&it.pipeline))
            {
                state.forgive(&digest);
            }
        }
        self.started(Origin {
            template,
            pipeline: start.pipeline.clone(),
            manifest: manifest_digest(changed, current),
            owners: self.owners(),
            before: before.as_ref(),
        })
    }

    fn started(&self, origin: Origin<'_>) -> Result<Draft, RefusalCause> {
        let started = start(&self.observed, &self.input.policy, origin)?;
        let pods = started.pods;
        let message = format!(
            "the canary starts with {pods} of {} pods",
            self.observed.replicas()
        );
        let mut draft = Draft::new(Phase::Hold, message, Some(started.state));
        draft.step = Some(started.step);
        draft.outcome = Some(Outcome::Undecided);
        Ok(draft)
    }

    fn retry(&self, state: Option<State>) -> Result<Draft, RefusalCause> {
        let mut state = state.ok_or(RefusalCause::NothingRejected)?;
        let live = self.observed.digest;
        if state.rejects(live) {
            state.forgive(live);
            let message = "the template may be rolled back automatically again";
            return Ok(if state.rejected.is_empty() {
                self.forget(Some(&state), None)
            } else {
                self.write(Phase::Aborted, message, state, |patch| {
                    self.give_back(patch, None)
                })
            });
        }
        let rejected = state.rejected.first();
        let rejected = rejected.ok_or(RefusalCause::NothingRejected)?.clone();
        let set = self
            .observed
            .set_of(&rejected.digest)
            .ok_or(RefusalCause::RejectedGone)?;
        state.forgive(&rejected.digest);
        self.started(Origin {
            template: &Template::from(template_of(set)),
            pipeline: rejected.pipeline,
            manifest: None,
            owners: self.owners(),
            before: Some(&state),
        })
    }

    /// Removes the state, if there is one.
    fn forget(&self, state: Option<&State>, canary: Option<&Canary>) -> Draft {
        let deployment = self.observed.deployment();
        let mut draft = Draft::new(Phase::Rest, NO_CANARY, None);
        let metadata = &deployment.metadata;
        let has_label = state.is_some_and(|it| it.label) && self.has_label();
        if metadata.annotations.contains_key(ANNOTATION) || has_label {
            let patch = Patch::new(deployment).without_state(state);
            let patch = self.give_back(patch, canary);
            draft.step = Some(patch.step("remove the state of the canary".to_owned()));
        }
        draft
    }

    /// Without a command: rolls a failed rollout back, or removes a state that is no longer needed.
    fn rest(&self, state: Option<State>) -> Result<Draft, Stop> {
        let observed = &self.observed;
        let Some(memory) = &state else {
            // A stale state must not be taken for that of a later canary.
            let draft = self.forget(None, None);
            return Ok(match draft.step {
                Some(_) => draft,
                None => self.roll_back(None)?,
            });
        };
        let is_rejected = memory.rejects(observed.digest);
        if observed.is_complete() && observed.digest != memory.stable && !is_rejected {
            return Ok(self.forget(Some(memory), None));
        }
        self.roll_back(state)
    }

    fn roll_back(&self, state: Option<State>) -> Result<Draft, Stop> {
        let observed = &self.observed;
        let deployment = observed.deployment();
        let (phase, message) = match &state {
            Some(_) => (Phase::Aborted, "the stable template was restored"),
            None if self.input.policy.rolls_back && !observed.is_complete() => {
                (Phase::Rest, "the rollout is not rolled back")
            }
            // Another client has removed the state, or has set the label.
            None if self.has_label() => (Phase::Rest, ONLY_LABEL),
            None => (Phase::Rest, NO_CANARY),
        };
        let mut draft = Draft::new(phase, message, state);
        let may_roll = !deployment.spec.paused && deployment.metadata.deletion_timestamp.is_none();
        if observed.is_complete() || !may_roll {
            return Ok(draft);
        }
        let state = draft.state.as_ref();
        if state.is_some_and(|state| state.rejects(observed.digest)) {
            draft.reasons.push(reason(
                ReasonKind::RejectedTemplate,
                "this template was rejected before, and is not rolled back again: change it where it comes from",
            ));
            return Ok(draft);
        }
        let Some(user) = observed.fields.filter(|_| self.input.policy.rolls_back) else {
            return Ok(draft);
        };
        let Judged { verdict, blocker } = judge(observed.snapshot, self.interrupt)?;
        draft.at = verdict.decided_after;
        if !is_failure(&verdict) {
            draft.event_selectors = verdict.event_selectors;
            return Ok(draft);
        }
        draft
            .reasons
            .push(reason(ReasonKind::RolloutFailed, verdict.message));
        let available = |set: &ReplicaSet| observed.available(set, user.min_ready_seconds);
        let Some(stable) = most_available(observed.old.iter().copied(), available) else {
            draft.reasons.push(reason(
                ReasonKind::StableGone,
                "no earlier ReplicaSet has available pods, so it is not known which template is good",
            ));
            return Ok(draft);
        };
        if self.has_fault(stable, blocker.as_ref()) {
            draft.at = None;
            draft.reasons.push(stable_has_fault(stable, NO_HELP));
            return Ok(draft);
        }
        let digest = stable.template.canonical_sha256();
        let mut memory = draft.state.take().unwrap_or_else(|| self.memory(digest));
        memory.stable = digest.to_owned();
        memory.since = observed.now();
        memory.reject(observed.digest, None);
        memory.canary = Some(Canary {
            stage: Stage::Aborting,
            step: 0,
            started: observed.now(),
            digest: observed.digest.to_owned(),
            revision: observed.revision_besides(observed.digest),
            user,
            surge: user.max_surge,
            allowed: None,
            terms: Terms::default(),
            pipeline: None,
            manifest: None,
            owners: Vec::new(),
        });
        let message = format!(
            "the rollout is rolled back to ReplicaSet {}",
            stable.metadata.name
        );
        let template = template_of(stable);
        let mut written = self.write(Phase::Aborting, message, memory, |patch| {
            patch.template(&template)
        });
        written.reasons = draft.reasons;
        Ok(written)
    }

    /// Whether a ReplicaSet has a fault of the current template, too.
    fn has_fault(&self, set: &ReplicaSet, fault: Option<&Blocker>) -> bool {
        let template = &self.observed.deployment().spec.template;
        fault.is_some_and(|it| is_shared(it, template, &set.template))
    }

    /// A state without a canary.
    fn memory(&self, stable: &str) -> State {
        State {
            uid: self.observed.deployment().metadata.uid.clone(),
            sequence: 0,
            since: self.observed.now(),
            stable: stable.to_owned(),
            label: false,
            rejected: Vec::new(),
            canary: None,
        }
    }

    // With a canary.

    fn with_canary(
        &self,
        state: State,
        mut canary: Canary,
        is_recovered: bool,
    ) -> Result<Draft, Stop> {
        if matches!(self.input.command, Some(Command::Release)) {
            return Ok(self.release(&state, &canary));
        }
        let stage = canary.stage;
        let (meeting, is_pending) = if self.is_over(&state, &canary) {
            // The end of this canary is written first, and the next plan carries the command out.
            (Meeting::Continues, self.wants_another(&canary))
        } else {
            let meeting = self.meet(&state, &canary)?;
            (meeting, meeting != Meeting::Continues)
        };
        let metadata = &self.observed.deployment().metadata;
        if metadata.deletion_timestamp.is_some() {
            return Err(RefusalCause::Deleting.into());
        }
        let mut has_changed = is_recovered;
        if matches!(self.input.command, Some(Command::Start(_))) && !is_pending {
            let terms = canary.terms.with(&self.input.policy, canary.step);
            has_changed |= terms != canary.terms;
            canary.terms = terms;
        }
        let mut draft = match stage {
            Stage::Hold | Stage::Promoting if meeting == Meeting::Replaces => {
                let pipeline = canary.pipeline.as_deref().unwrap_or_default();
                let message = format!("another template of the pipeline {pipeline:?} replaces it");
                let why = reason(ReasonKind::Replaced, message);
                self.abort(state, canary, Some(why), false)?
            }
            Stage::Hold => self.hold(state, canary, has_changed)?,
            Stage::Promoting => self.promoting(state, canary)?,
            Stage::Aborting => self.aborting(state, canary),
        };
        draft.is_pending |= is_pending;
        Ok(draft)
    }

    /// Whether the command is about another canary than this one, which is over.
    fn wants_another(&self, canary: &Canary) -> bool {
        match &self.input.command {
            Some(Command::Start(_) | Command::Retry) => true,
            Some(Command::Promote {
                template, manifest, ..
            }) => asks(template, manifest).is_some_and(|it| it != canary.digest),
            Some(Command::Abort { template }) => {
                template.as_ref().is_some_and(|it| *it != canary.digest)
            }
            Some(Command::Release) | None => false,
        }
    }

    /// What the command means for this canary.
    fn meet(&self, state: &State, canary: &Canary) -> Result<Meeting, RefusalCause> {
        let is_aborting = canary.stage == Stage::Aborting;
        match &self.input.command {
            Some(Command::Start(start)) => return self.meet_start(start, state, canary),
            Some(Command::Promote {
                template, manifest, ..
            }) => {
                self.check_template(template.as_deref(), state, canary)?;
                if is_aborting {
                    return Err(RefusalCause::Aborting);
                }
                if let Some(manifest) = manifest.as_ref().filter(|_| canary.stage == Stage::Hold) {
                    self.check_manifest(manifest, state, canary)?;
                }
            }
            Some(Command::Abort { template }) => {
                self.check_template(template.as_deref(), state, canary)?;
            }
            Some(Command::Retry) if is_aborting => return Err(RefusalCause::Aborting),
            Some(Command::Retry | Command::Release) | None => {}
        }
        Ok(Meeting::Continues)
    }

    /// What the start of a canary does to this one.
    fn meet_start(
        &self,
        start: &Start,
        state: &State,
        canary: &Canary,
    ) -> Result<Meeting, RefusalCause> {
        let stage = canary.stage;
        let held = self.held_digest(state, canary);
        let refusal = if !self.is_template_of(&start.deployment, held, canary) {
            Some(RefusalCause::InProgress {
                pipeline: canary.pipeline.clone(),
            })
        } else if stage == Stage::Hold {
            self.other_size(canary)
        } else {
            None
        };
        let is_undone = self.observed.digest == state.stable;
        let is_reverted = stored_digest(&start.deployment.spec.template) == state.stable;
        let replaces =
            start.replaces && start.pipeline.is_some() && start.pipeline == canary.pipeline;
        match (stage, refusal) {
            (Stage::Hold, _) if start.replaces && is_undone => Ok(Meeting::Waits),
            (Stage::Hold | Stage::Promoting, None) => Ok(Meeting::Continues),
            (Stage::Hold, Some(_)) if replaces => Ok(Meeting::Replaces),
            (Stage::Promoting, Some(_)) if replaces && is_reverted => Ok(Meeting::Replaces),
            // They end by themselves, within the limits of the user.
            (Stage::Promoting | Stage::Aborting, _) if start.replaces => Ok(Meeting::Waits),
            (Stage::Aborting, _) => Err(RefusalCause::Aborting),
            (Stage::Hold | Stage::Promoting, Some(refusal)) => Err(refusal),
        }
    }

    /// The refusal of a policy whose last step has another size than that of the held canary. Later steps may differ.
    fn other_size(&self, canary: &Canary) -> Option<RefusalCause> {
        let policy = &self.input.policy;
        let replicas = self.observed.replicas();
        let held = self.wanted(canary);
        let own = canary.terms.steps.get(canary.step).map(|it| it.pods);
        let last = policy.steps.last().map(|it| it.pods);
        let last = last.filter(|_| policy.steps.len() <= canary.step + 1);
        let pods = last.filter(|&it| Some(it) != own && it.rounded_up(replicas) != held);
        let option = match policy.steps.len() {
            1 => "--pods",
            _ => "--steps",
        };
        let surge = policy.surge.filter(|&it| Some(it) != canary.allowed);
        let surge = surge.filter(|it| it.rounded_up(replicas) > 0 || canary.allowed.is_some());
        let (option, asked) = pods
            .map(|it| (option, it))
            .or(surge.map(|it| ("--surge", it)))?;
        Some(RefusalCause::OtherSize {
            option,
            asked,
            held,
        })
    }

    /// The digest of the template of the canary, also if another client has just changed it.
    fn held_digest<'d>(&'d self, state: &State, canary: &'d Canary) -> &'d str {
        let live = self.observed.digest;
        if canary.stage != Stage::Aborting && live != state.stable {
            live
        } else {
            &canary.digest
        }
    }

    /// Refuses a command about another template than that of the canary.
    fn check_template(
        &self,
        asked: Option<&str>,
        state: &State,
        canary: &Canary,
    ) -> Result<(), RefusalCause> {
        let held = self.held_digest(state, canary);
        match asked {
            Some(asked) if asked != held => Err(RefusalCause::OtherTemplate {
                asked: asked.to_owned(),
                held: held.to_owned(),
            }),
            _ => Ok(()),
        }
    }

    /// Refuses a manifest with another template than that of the canary.
    fn check_manifest(
        &self,
        changed: &Deployment,
        state: &State,
        canary: &Canary,
    ) -> Result<(), RefusalCause> {
        let held = self.held_digest(state, canary);
        if self.is_template_of(changed, held, canary) {
            Ok(())
        } else {
            Err(RefusalCause::OtherTemplate {
                asked: stored_digest(&changed.spec.template),
                held: held.to_owned(),
            })
        }
    }

    /// Whether a manifest, which has been applied to this Deployment, has the template of the canary. A dry run at a hold
    /// keeps fields of the canary that the manifest does not have, so the manifests are compared as well.
    fn is_template_of(&self, changed: &Deployment, held: &str, canary: &Canary) -> bool {
        let current = self.observed.deployment();
        let template = &changed.spec.template;
        let manifest = manifest_digest(changed, current);
        let is_other_manifest =
            manifest.is_some() && canary.manifest.is_some() && manifest != canary.manifest;
        (template.same_as(&current.spec.template) || stored_digest(template) == held)
            && !is_other_manifest
    }

    /// Whether a promotion or an abort is complete, and only the state has to be written.
    fn is_over(&self, state: &State, canary: &Canary) -> bool {
        let observed = &self.observed;
        if observed.is_held() {
            return false;
        }
        match canary.stage {
            Stage::Hold => false,
            Stage::Promoting if observed.digest == canary.digest => observed.is_complete(),
            Stage::Promoting => observed.digest != state.stable && self.has_replaced(state),
            Stage::Aborting => observed.digest != state.stable || observed.is_complete(),
        }
    }

    /// Whether a promotion has removed all stable pods.
    fn has_replaced(&self, state: &State) -> bool {
        let stable = self.observed.set_of(&state.stable);
        stable.is_none_or(|set| set.replicas == 0)
    }

    fn hold(&self, state: State, canary: Canary, has_changed: bool) -> Result<Draft, Stop> {
        let observed = &self.observed;
        let is_abort = matches!(self.input.command, Some(Command::Abort { .. }));
        if observed.digest == state.stable {
            let why = reason(
                ReasonKind::Undone,
                "another client has restored the stable template",
            );
            return Ok(self.abort(state, canary, Some(why), false)?);
        }
        if is_abort {
            return Ok(self.abort(state, canary, None, true)?);
        }
        if !observed.is_held() {
            let why =
                "another client has restored the fields of the user, so the rollout continues";
            let why = reason(ReasonKind::Resumed, why);
            return Ok(self.promote(state, canary, vec![why]));
        }
        if observed.replicas() == 0 {
            let why = "the Deployment was scaled to 0, and all new pods would have the template of the canary";
            let why = reason(ReasonKind::ScaledToZero, why);
            return Ok(self.abort_or_hold(state, canary, why, false));
        }
        if state.rejects(observed.digest) {
            let why = reason(
                ReasonKind::RejectedTemplate,
                "this template was rejected before",
            );
            return Ok(self.abort_or_hold(state, canary, why, true));
        }
        let is_promote = match self.input.command {
            Some(Command::Promote { is_forced, .. }) => Some(is_forced),
            _ => None,
        };
        // The user has not seen a template that was changed since.
        if let Some(is_forced) = is_promote.filter(|_| observed.digest == canary.digest) {
            if !is_forced {
                self.check_good(&state, &canary)?;
            }
            return Ok(self.promote(state, canary, Vec::new()));
        }
        let (adopted, changes) = self.adopt(&canary);
        let Some(adopted) = adopted else {
            return Ok(self.abort_or_hold(state, canary, changes, false));
        };
        let is_adopted = adopted != canary;
        if is_adopted || has_changed {
            let mut state = state;
            if adopted.digest != canary.digest {
                state.since = observed.now();
            }
            let surge = adopted.surge;
            state.canary = Some(adopted);
            let message = "the canary is held again";
            let mut draft = self.write(Phase::Hold, message, state, |patch| {
                patch.fields(observed.fields, held(surge))
            });
            draft.outcome = Some(Outcome::Undecided);
            draft.is_pending = is_promote.is_some();
            if is_adopted {
                draft.reasons.push(changes);
            }
            return Ok(draft);
        }
        self.wait(state, canary)
    }

    /// Takes over what another client has changed at a hold: limits of the user, which are then tightened again, and another
    /// template. `None` if the limits leave no room for a canary.
    fn adopt(&self, canary: &Canary) -> (Option<Canary>, Reason) {
        let observed = &self.observed;
        let mut adopted = canary.clone();
        let mut why = reason(
            ReasonKind::LimitsChanged,
            "another client has changed the limits, which are those of the user from now on",
        );
        let replicas = observed.replicas();
        adopted.user = self.restored(canary);
        let Some(limit) = self.surge_limit(&adopted) else {
            return (None, why);
        };
        let pods = canary.surge.rounded_up(replicas);
        let pods_max = limit.rounded_up(replicas);
        if observed.fields != Some(held(canary.surge)) || pods > pods_max {
            adopted.surge = held_surge(pods.min(pods_max), limit, replicas);
        }
        if adopted.user == canary.user && pods > pods_max {
            why.message = format!(
                "the Deployment was scaled to {replicas}, where the limits of the user allow {pods_max} canary pods"
            );
        }
        if observed.digest != canary.digest {
            adopted.digest = observed.digest.to_owned();
            adopted.revision = observed.revision_besides(observed.digest);
            why = reason(
                ReasonKind::TemplateReplaced,
                "another client has changed the template, which is that of the canary from now on",
            );
        }
        (Some(adopted), why)
    }

    /// The surge that the user allows: `maxSurge`, or more while there is a canary. `None` if that is 0.
    fn surge_limit(&self, canary: &Canary) -> Option<IntOrPercent> {
        let replicas = self.observed.replicas();
        let limits = [Some(canary.user.max_surge), canary.allowed];
        let limits = limits.into_iter().flatten();
        limits
            .max_by_key(|it| it.rounded_up(replicas))
            .filter(|it| it.rounded_up(replicas) > 0)
    }

    /// The next step with more pods than there are, and notes about the steps before it, which are skipped.
    fn next_step(&self, canary: &Canary, terms: &Terms) -> (Option<Next>, Vec<Reason>) {
        let replicas = self.observed.replicas();
        let held = self.wanted(canary);
        let mut skipped = Vec::new();
        let Some(limit) = self.surge_limit(canary) else {
            return (None, skipped);
        };
        let pods_max = limit.rounded_up(replicas).min(replicas);
        for (index, step) in terms.steps.iter().enumerate().skip(canary.step + 1) {
            let pods = step.pods.rounded_up(replicas).min(pods_max);
            if pods > held {
                let surge = held_surge(pods, limit, replicas);
                return (Some(Next { index, pods, surge }), skipped);
            }
            let number = number(index);
            let why = if step.pods.rounded_up(replicas) > pods_max {
                "the surge allows"
            } else {
                "it has"
            };
            let message = format!(
                "step {number} ({}) is skipped, because {why} no more than {held} of {replicas} pods",
                step.pods
            );
            skipped.push(reason(ReasonKind::StepSkipped, message));
        }
        (None, skipped)
    }

    /// Whether the Deployment controller has carried out the last change. Then, more surge only adds canary pods: no pod is
    /// scaled in proportion, and none is removed.
    fn is_settled(&self, canary: &Canary) -> bool {
        let observed = &self.observed;
        let deployment = observed.deployment();
        let replicas = observed.replicas();
        let sizes = observed.sets().map(|set| i64::from(set.replicas));
        let total = Limits::rolling(replicas, canary.surge, IntOrPercent::Int(0)).max_total();
        let is_scaled = |set: &ReplicaSet| {
            is_scaled_for_another(&set.metadata.annotations, set.replicas, replicas)
        };
        deployment.status.observed_generation >= deployment.metadata.generation
            && sizes.sum::<i64>() == i64::from(total)
            && !observed.sets().any(is_scaled)
    }

    fn decide(
        &self,
        state: &State,
        canary: &Canary,
        terms: &Terms,
        next: Option<&Next>,
    ) -> Result<Decision, Interrupted> {
        let hold = Hold {
            observed: &self.observed,
            user: canary.user,
            since: state.since,
            wanted: self.wanted(canary),
            terms,
            step: canary.step,
            waits_for_controller: next.is_some() && !self.is_settled(canary),
        };
        decide(&hold, &self.input.verdicts, self.interrupt)
    }

    /// Refuses a canary that is not good at the moment.
    fn check_good(&self, state: &State, canary: &Canary) -> Result<(), Stop> {
        let terms = canary.terms.with(&self.input.policy, canary.step);
        let next = self.next_step(canary, &terms).0;
        let decision = self.decide(state, canary, &terms, next.as_ref())?;
        let mut why: Vec<String> = Vec::new();
        match next {
            None if decision.outcome == Outcome::Good => return Ok(()),
            None => {}
            Some(next) => why.push(format!("step {} follows", number(next.index))),
        }
        for Reason { message, .. } in decision.reasons {
            // That of a time-out contains the first other one.
            if !why.iter().any(|it| it.ends_with(&message)) {
                why.push(message);
            }
        }
        let why = why.join("; ");
        Err(RefusalCause::NotGood { why }.into())
    }

    /// Decides about a hold.
    fn wait(&self, mut state: State, canary: Canary) -> Result<Draft, Stop> {
        let observed = &self.observed;
        let policy = &self.input.policy;
        let terms = canary.terms.with(policy, canary.step);
        let (next, skipped) = self.next_step(&canary, &terms);
        let Decision {
            outcome,
            mut reasons,
            at,
            event_selectors,
            fault,
        } = self.decide(&state, &canary, &terms, next.as_ref())?;
        let starts = matches!(self.input.command, Some(Command::Start(_) | Command::Retry));
        let has_timeout = terms.timeout.is_some_and(|it| it.seconds() > 0);
        if outcome == Outcome::TimedOut && starts && has_timeout {
            state.since = observed.now();
            state.canary = Some(canary);
            let message = "the canary continues, and its time-out begins again";
            let mut draft = self.write(Phase::Hold, message, state, |patch| patch);
            draft.outcome = Some(Outcome::Undecided);
            return Ok(draft);
        }
        let stable = observed.set_of(&state.stable);
        let is_gone = stable.is_none();
        // Then it does not show anything about the template of the canary.
        let has_fault = stable.is_some_and(|it| self.has_fault(it, fault.as_ref()));
        let is_paused = observed.deployment().spec.paused;
        let first = reasons.first().map(|it| it.message.clone());
        let first = first.unwrap_or_default();
        let acts = match outcome {
            Outcome::Undecided => false,
            Outcome::Good if next.is_some() => policy.raises,
            Outcome::Good => policy.promotes,
            Outcome::Failed => policy.aborts_on_failure,
            Outcome::TimedOut => policy.aborts_on_timeout,
        };
        let what = match terms.steps.len() {
            0 | 1 => "the canary".to_owned(),
            count => format!("step {} of {count} of the canary", number(canary.step)),
        };
        if outcome == Outcome::Good {
            reasons = skipped;
        }
        let outcome_of_canary = match next {
            Some(_) if outcome == Outcome::Good => Outcome::Undecided,
            _ => outcome,
        };
        let mut draft = match outcome {
            Outcome::Good if acts && !is_paused => match next {
                Some(next) => self.raise(state, canary, terms, &next, reasons),
                None => self.promote(state, canary, reasons),
            },
            Outcome::Failed | Outcome::TimedOut if acts && !is_paused => {
                let rest = reasons.get(1..).unwrap_or_default().to_vec();
                let why = reasons.into_iter().next();
                let why =
                    why.unwrap_or_else(|| reason(ReasonKind::WaitsForPods, "the canary timed out"));
                let mut draft = self.abort_or_hold(state, canary, why, !has_fault);
                draft.reasons.extend(rest);
                draft.reasons.extend(
                    stable
                        .filter(|_| has_fault)
                        .map(|it| stable_has_fault(it, NOT_REJECTED)),
                );
                draft
            }
            _ => {
                let message = match outcome {
                    Outcome::Undecided => format!("{what} waits: {first}"),
                    Outcome::Good if next.is_some() => format!("{what} is good"),
                    Outcome::Good => "the canary is good: promote or abort it".to_owned(),
                    Outcome::Failed => format!("{what} has failed: {first}"),
                    Outcome::TimedOut => first,
                };
                let mut draft = Draft::new(Phase::Hold, message, Some(state));
                draft.reasons = reasons;
                draft.at = at;
                if is_gone {
                    let message = format!(
                        "the Deployment {}",
                        RefusalCause::StableGone {
                            is_promoting: false
                        }
                    );
                    draft.reasons.push(reason(ReasonKind::StableGone, message));
                }
                if is_paused {
                    draft.reasons.push(reason(
                        ReasonKind::Paused,
                        "the Deployment is paused: nothing is decided until it is resumed",
                    ));
                }
                draft
            }
        };
        draft.outcome = Some(outcome_of_canary);
        draft.event_selectors = event_selectors;
        Ok(draft)
    }

    /// Raises the surge of a hold to that of the next step, and changes nothing else.
    fn raise(
        &self,
        mut state: State,
        mut canary: Canary,
        terms: Terms,
        next: &Next,
        reasons: Vec<Reason>,
    ) -> Draft {
        let Next { index, pods, surge } = *next;
        let message = format!(
            "step {} of {}: the canary grows to {pods} of {} pods",
            number(index),
            terms.steps.len(),
            self.observed.replicas()
        );
        canary.step = index;
        canary.surge = surge;
        canary.terms.steps = terms.steps;
        state.since = self.observed.now();
        state.canary = Some(canary);
        let mut draft = self.write(Phase::Hold, message, state, |patch| {
            patch.fields(self.observed.fields, held(surge))
        });
        draft.reasons = reasons;
        draft
    }

    fn promoting(&self, state: State, canary: Canary) -> Result<Draft, Stop> {
        let observed = &self.observed;
        if observed.digest == state.stable {
            let why = reason(
                ReasonKind::Undone,
                "another client has restored the stable template",
            );
            return Ok(self.abort(state, canary, Some(why), false)?);
        }
        if let Some(Command::Abort { template }) = &self.input.command
            && template.as_ref().is_none_or(|it| *it == canary.digest)
        {
            return Ok(self.abort(state, canary, None, true)?);
        }
        if self.is_over(&state, &canary) {
            let mut draft = self.forget(Some(&state), Some(&canary));
            draft.phase = Phase::Done;
            draft.message = "the promotion is complete".to_owned();
            // A rollout of another template.
            draft.is_pending = self.input.policy.rolls_back && !observed.is_complete();
            return Ok(draft);
        }
        if observed.is_held() || observed.digest != canary.digest {
            return Ok(self.promote(state, canary, Vec::new()));
        }
        let is_paused = observed.deployment().spec.paused;
        let rolls_back = self.input.policy.rolls_back && !is_paused;
        let Judged { verdict, blocker } = judge(observed.snapshot, self.interrupt)?;
        let mut reasons = Vec::new();
        if rolls_back && is_failure(&verdict) {
            let stable = observed.set_of(&state.stable);
            match stable.filter(|set| self.has_fault(set, blocker.as_ref())) {
                Some(stable) => reasons.push(stable_has_fault(stable, NO_HELP)),
                None => {
                    let why = reason(ReasonKind::RolloutFailed, verdict.message);
                    return Ok(self.abort_or_hold(state, canary, why, true));
                }
            }
        }
        let mut draft = Draft::new(Phase::Promoting, "the rollout continues", Some(state));
        draft.reasons = reasons;
        draft.at = verdict.decided_after.filter(|_| rolls_back);
        draft.event_selectors = verdict.event_selectors;
        if is_paused {
            draft
                .reasons
                .push(reason(ReasonKind::Paused, "the Deployment is paused"));
        }
        Ok(draft)
    }

    fn aborting(&self, mut state: State, canary: Canary) -> Draft {
        let observed = &self.observed;
        let is_stable = observed.digest == state.stable;
        if is_stable && observed.is_held() {
            let fields = self.restored(&canary);
            let message = "the fields of the user are restored";
            state.canary = Some(canary);
            return self.write(Phase::Aborting, message, state, |patch| {
                patch.fields(observed.fields, fields)
            });
        }
        if is_stable && !observed.is_complete() {
            let message = "the stable template is being restored";
            let mut draft = Draft::new(Phase::Aborting, message, Some(state));
            if observed.deployment().spec.paused {
                draft
                    .reasons
                    .push(reason(ReasonKind::Paused, "the Deployment is paused"));
            }
            return draft;
        }
        let mut draft = if state.rejected.is_empty() {
            self.forget(Some(&state), Some(&canary))
        } else {
            state.canary = None;
            state.since = observed.now();
            let message = "remember the rejected template";
            self.write(Phase::Aborted, message, state, |patch| {
                self.give_back(patch, Some(&canary))
            })
        };
        // A rollout of another template.
        draft.is_pending = self.input.policy.rolls_back && !observed.is_complete();
        draft.phase = Phase::Aborted;
        draft.message = "the stable template is restored".to_owned();
        if !is_stable {
            draft.message = "another client has changed the template during the abort".to_owned();
        }
        draft
    }

    /// Restores the fields of the user.
    fn promote(&self, mut state: State, mut canary: Canary, reasons: Vec<Reason>) -> Draft {
        let observed = &self.observed;
        let fields = self.restored(&canary);
        canary.stage = Stage::Promoting;
        canary.digest = observed.digest.to_owned();
        canary.revision = observed.revision_besides(observed.digest);
        canary.user = fields;
        state.since = observed.now();
        state.canary = Some(canary);
        let message = "the canary is promoted: the rollout continues within the limits of the user";
        let manifest = match &self.input.command {
            Some(Command::Promote { manifest, .. }) => manifest.as_ref(),
            _ => None,
        };
        let applied = manifest.and_then(|it| it.metadata.annotations.get(LAST_APPLIED));
        let mut draft = self.write(Phase::Promoting, message, state, |patch| {
            let patch = patch.fields(observed.fields, fields);
            match applied {
                Some(applied) => patch.applied(applied),
                None => patch,
            }
        });
        draft.reasons = reasons;
        draft
    }

    /// Aborts, or holds if that is impossible.
    fn abort_or_hold(&self, state: State, canary: Canary, why: Reason, rejects: bool) -> Draft {
        let phase = self.phase_of(&canary);
        match self.abort(state.clone(), canary, Some(why.clone()), rejects) {
            Ok(draft) => draft,
            Err(refusal) => {
                let message = format!("the Deployment {refusal}");
                let mut draft = Draft::new(phase, message.clone(), Some(state));
                draft.reasons = vec![why, reason(ReasonKind::StableGone, message)];
                draft
            }
        }
    }

    /// Restores the stable template and the fields of the user, as soon as no pod that is needed can be removed.
    fn abort(
        &self,
        mut state: State,
        mut canary: Canary,
        why: Option<Reason>,
        rejects: bool,
    ) -> Result<Draft, RefusalCause> {
        let observed = &self.observed;
        let stable = if observed.digest == state.stable {
            None
        } else {
            let gone = RefusalCause::StableGone {
                is_promoting: canary.stage == Stage::Promoting,
            };
            Some(observed.set_of(&state.stable).ok_or(gone)?)
        };
        if let Some(at) = self.abort_waits(&state, &canary) {
            let message = "the abort waits for stable pods: it would remove available pods of the canary while they are needed";
            let mut draft = Draft::new(self.phase_of(&canary), message, Some(state));
            draft.reasons.extend(why);
            draft
                .reasons
                .push(reason(ReasonKind::WaitsForStablePods, message));
            draft.at = Some(at);
            draft.is_pending = matches!(self.input.command, Some(Command::Abort { .. }));
            return Ok(draft);
        }
        let fields = self.restored(&canary);
        if rejects {
            state.reject(observed.digest, canary.pipeline.clone());
        }
        canary.stage = Stage::Aborting;
        canary.user = fields;
        state.since = observed.now();
        state.canary = Some(canary);
        let template = stable.map(template_of);
        let message = "the canary is aborted: the stable template is restored";
        let mut draft = self.write(Phase::Aborting, message, state, |patch| {
            let patch = patch.fields(observed.fields, fields);
            match &template {
                Some(template) => patch.template(template),
                None => patch,
            }
        });
        draft.reasons.extend(why);
        Ok(draft)
    }

    /// Whether an abort has to wait, and until when at most.
    ///
    /// The pods of a held ReplicaSet count as unavailable, so the controller removes all but `floor - available stable pods`
    /// of them. The ReplicaSet controller removes unready pods first, but ignores how long the others have been ready: it
    /// may remove an available pod, and keep one that is only ready. An abort need not wait if
    /// - no pod of a canary has to be kept,
    /// - each ready pod is available, because `minReadySeconds` is 0, and only one ReplicaSet has canary pods, or
    /// - all pods of the canaries are available, or none is.
    fn abort_waits(&self, state: &State, canary: &Canary) -> Option<Time> {
        let observed = &self.observed;
        let seconds = canary.user.min_ready_seconds;
        let is_stable = |set: &&ReplicaSet| set.template.canonical_sha256() == state.stable;
        let canaries = || {
            observed
                .sets()
                .filter(|set| !is_stable(set) && set.replicas > 0)
        };
        let is_held = canaries().any(|set| set.min_ready_seconds == HELD_MIN_READY);
        let stable = observed.sets().find(is_stable);
        let stable = stable.map_or(0, |set| observed.available(set, seconds));
        if !is_held || stable >= self.limits(canary).min_available() {
            return None;
        }
        if seconds == 0 && canaries().count() == 1 {
            return None;
        }
        let sum =
            |count: &dyn Fn(&ReplicaSet) -> i32| canaries().map(count).fold(0, i32::saturating_add);
        let available = sum(&|set| observed.available(set, seconds));
        let is_safe = available == 0 || available == sum(&|set| set.replicas);
        let wait = seconds.clamp(1, ABORT_CHECK_MAX);
        (!is_safe).then(|| observed.now().plus_seconds(i64::from(wait)))
    }

    /// Restores the fields of the user, keeps the template, and removes the state.
    fn release(&self, state: &State, canary: &Canary) -> Draft {
        let observed = &self.observed;
        let patch = Patch::new(observed.deployment()).without_state(Some(state));
        let mut patch = self.give_back(patch, Some(canary));
        if observed.is_held() || canary.stage == Stage::Hold {
            patch = patch.fields(observed.fields, self.restored(canary));
        }
        let message = if observed.digest == state.stable || observed.is_complete() {
            "the fields of the user are restored, and no canary is in progress"
        } else {
            "the fields of the user are restored: the template rolls out to all pods, without a canary"
        };
        let mut draft = Draft::new(Phase::Rest, message, None);
        draft.step = Some(patch.step("release the Deployment from its canary".to_owned()));
        draft
    }

    /// The fields of the user: where another client has changed a field of the hold, the new value.
    fn restored(&self, canary: &Canary) -> Fields {
        let own = held(canary.surge);
        let user = canary.user;
        let Some(live) = self.observed.fields else {
            return user;
        };
        if canary.stage != Stage::Hold && !self.observed.is_held() {
            // All fields were restored by the patch that wrote the state.
            return live;
        }
        let is_limited =
            live.max_surge == own.max_surge && live.max_unavailable == own.max_unavailable;
        if !self.observed.has_field_of_hold() && !is_limited {
            // Another client has written all fields, so a single limit is equal by chance.
            return live;
        }
        let limit =
            |live: IntOrPercent, own: IntOrPercent, user| if live == own { user } else { live };
        let seconds = |live: i32, own: i32, user| if live == own { user } else { live };
        let mut fields = Fields {
            max_surge: limit(live.max_surge, own.max_surge, user.max_surge),
            max_unavailable: limit(
                live.max_unavailable,
                own.max_unavailable,
                user.max_unavailable,
            ),
            min_ready_seconds: seconds(
                live.min_ready_seconds,
                own.min_ready_seconds,
                user.min_ready_seconds,
            ),
            progress_deadline_seconds: seconds(
                live.progress_deadline_seconds,
                own.progress_deadline_seconds,
                user.progress_deadline_seconds,
            ),
        };
        let is_zero = |it: IntOrPercent| it.rounded_up(1) == 0;
        if is_zero(fields.max_surge) && is_zero(fields.max_unavailable) {
            // The API server refuses both.
            fields.max_unavailable = IntOrPercent::Int(1);
        }
        if fields.progress_deadline_seconds <= fields.min_ready_seconds {
            fields.progress_deadline_seconds = live.progress_deadline_seconds;
        }
        fields
    }

    /// The managers that own the fields that a canary writes.
    fn owners(&self) -> Vec<Owner> {
        let managed = self.input.managed_fields.as_ref();
        managed.map_or_else(Vec::new, ManagedFields::owners)
    }

    /// Gives the fields of a canary back to their owners.
    fn give_back<'p>(&self, patch: Patch<'p>, canary: Option<&Canary>) -> Patch<'p> {
        let Some(managed) = &self.input.managed_fields else {
            return patch;
        };
        let owners = canary.map_or(&[][..], |it| &it.owners);
        let annotations = &self.observed.deployment().metadata.annotations;
        match managed.returned(owners, annotations.contains_key(LAST_APPLIED)) {
            Some(entries) => patch.owners(managed, entries),
            None => patch,
        }
    }

    /// A patch that writes a state, and more.
    fn write<'s>(
        &'s self,
        phase: Phase,
        message: impl Into<String>,
        mut state: State,
        more: impl FnOnce(Patch<'s>) -> Patch<'s>,
    ) -> Draft {
        state.sequence += 1;
        let message = message.into();
        let (patch, state) = Patch::new(self.observed.deployment()).state(state);
        let step = more(patch).step(message.clone());
        let mut draft = Draft::new(phase, message, Some(state));
        draft.step = Some(step);
        draft
    }

    fn phase_of(&self, canary: &Canary) -> Phase {
        match canary.stage {
            Stage::Hold => Phase::Hold,
            Stage::Promoting => Phase::Promoting,
            Stage::Aborting => Phase::Aborting,
        }
    }

    fn limits(&self, canary: &Canary) -> Limits {
        let user = canary.user;
        Limits::rolling(
            self.observed.replicas(),
            user.max_surge,
            user.max_unavailable,
        )
    }

    /// The number of pods that a held canary must have: those of its step, or its size, which may be larger after scaling.
    fn wanted(&self, canary: &Canary) -> i32 {
        let replicas = self.observed.replicas();
        let set = self.observed.set_of(&canary.digest);
        let size = set.map_or(0, |set| set.replicas);
        size.max(canary.surge.rounded_up(replicas).min(replicas))
    }

    /// Adds the counts.
    fn finish(&self, draft: Draft) -> Plan {
        let Draft {
            phase,
            message,
            state,
            step,
            outcome,
            reasons,
            at,
            event_selectors,
            is_pending,
        } = draft;
        let observed = &self.observed;
        let replicas = observed.replicas();
        let canary = state.as_ref().and_then(|state| state.canary.as_ref());
        let user = canary.map(|it| it.user).or(observed.fields);
        let seconds = user.map_or(0, |it| it.min_ready_seconds);
        let limits = user.map_or(Limits::recreate(replicas), |user| {
            Limits::rolling(replicas, user.max_surge, user.max_unavailable)
        });
        let allowed = canary
            .and_then(|it| it.allowed)
            .map_or(0, |it| it.rounded_up(replicas));
        let set = canary.and_then(|it| observed.set_of(&it.digest));
        let held = canary.filter(|it| it.stage == Stage::Hold);
        let step_number = held.map_or(0, |it| number(it.step));
        let steps = held.map_or(0, |it| it.terms.steps.len().max(1));
        let steps = i32::try_from(steps).unwrap_or(i32::MAX);
        Plan {
            requeue_after: at.map(|at| {
                let rest = at.since(observed.now());
                rest.max(rollplan_core::time::Span::from_seconds(1))
            }),
            report: Report {
                phase,
                outcome,
                message,
                abort_waits: reasons
                    .iter()
                    .any(|it| it.kind == ReasonKind::WaitsForStablePods),
                event_selectors,
                reasons,
                command_pending: is_pending,
                pipeline: canary.and_then(|it| it.pipeline.clone()),
                template_digest: canary.map_or(observed.digest, |it| &it.digest).to_owned(),
                stable_digest: canary
                    .and(state.as_ref())
                    .map_or_else(String::new, |it| it.stable.clone()),
                since: state.as_ref().map(|it| it.since),
                step: step_number,
                steps,
                pods_wanted: match canary.map(|it| it.stage) {
                    Some(Stage::Hold) => canary.map_or(0, |it| self.wanted(it)),
                    Some(Stage::Promoting) => replicas,
                    Some(Stage::Aborting) | None => 0,
                },
                pods_available: set.map_or(0, |set| observed.available(set, seconds)),
                stable_pods_available: observed.available_besides(set, seconds),
                available_min: limits.min_available(),
                pods_max: limits.max_total().max(replicas.saturating_add(allowed)),
                rejected_digests: state.map_or_else(Vec::new, |it| {
                    it.rejected.into_iter().map(|it| it.digest).collect()
                }),
            },
            step,
        }
    }
}
