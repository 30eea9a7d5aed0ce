//! Steerers: each observes, plans, and carries out its patch at once, later, or never.

use std::collections::BTreeSet;

use rollplan_canary::{
    ANNOTATION, CallerVerdict, CheckResult, Command as Action, Fields, Input, LABEL, Outcome,
    Phase, Plan, Policy, PolicyStep, Refusal, RefusalCause, Start, plan_canary,
};
use rollplan_core::interrupt::Never;
use rollplan_core::size::IntOrPercent;
use rollplan_core::snapshot::{Deployment, StringMap};
use rollplan_core::time::Span;
use rollplan_world::at;
use rollplan_world::patch::apply_to_deployment;

use super::world::{CanaryWorld, step_of};
use super::{CanaryFlaw, Command, Judgement, NEW, Setup, strategy};
use crate::check::is_scaled;
use crate::tally::Tally;

/// The verdict that a canary with a gate needs.
const GATE: &str = "smoke";
/// The time after which a canary times out, in seconds.
const TIMEOUT: i64 = 60;
/// The number of rounds of a steerer at the end, those before it aborts, and those before it gives up.
const ROUNDS: usize = 16;
const ROUNDS_BEFORE_ABORT: usize = 3;
const ROUNDS_BEFORE_RELEASE: usize = 12;

/// A patch that was planned.
#[derive(Clone)]
pub(super) struct Planned {
    body: String,
    phase: Phase,
    /// Whether it begins the next step.
    is_raise: bool,
    /// The generation and the annotation for which it was planned.
    planned_for: (i64, Option<String>),
    /// When it was planned.
    planned_at: i64,
    /// The numbers of the pods that were available then.
    available: BTreeSet<u32>,
}

/// A promotion of any template, also of a canary that is not good.
fn promote() -> Action {
    Action::Promote {
        template: None,
        is_forced: true,
        manifest: None,
    }
}

fn abort() -> Action {
    Action::Abort { template: None }
}

/// The steps of the policy.
fn steps(setup: Setup) -> Vec<PolicyStep> {
    let raises = setup.raises.iter().filter(|raise| **raise > 0);
    let counts = raises.scan(setup.pods, |pods, raise| {
        *pods += raise;
        Some(*pods)
    });
    let counts = std::iter::once(setup.pods).chain(counts);
    let limit = |pods: i32| {
        if setup.is_percent {
            IntOrPercent::Percent(pods * 100 / setup.replicas)
        } else {
            IntOrPercent::Int(pods)
        }
    };
    counts.map(|pods| PolicyStep::from(limit(pods))).collect()
}

/// What preconditions of a patch must protect.
fn version(deployment: &Deployment) -> (i64, Option<String>) {
    let metadata = &deployment.metadata;
    let state = metadata.annotations.get(ANNOTATION);
    (metadata.generation, state.cloned())
}

impl CanaryWorld {
    fn policy(&self) -> Policy {
        let setup = self.setup;
        let raises_early = self.flaw == CanaryFlaw::RaisesEarly;
        Policy {
            steps: steps(setup),
            surge: setup.allows_all.then_some(IntOrPercent::Percent(100)),
            bake: Some(Span::from_seconds(if raises_early {
                0
            } else {
                setup.bake.into()
            })),
            gates: if setup.has_gate && !raises_early {
                vec![GATE.to_owned()]
            } else {
                Vec::new()
            },
            promotes: setup.promotes,
            timeout: Some(Span::from_seconds(TIMEOUT)),
            aborts_on_timeout: setup.aborts_on_timeout,
            rolls_back: setup.rolls_back,
            ..Policy::default()
        }
    }

    fn ask(&mut self, command: Option<Action>) -> Result<Plan, Refusal> {
        self.count(Tally::CanaryPlanned);
        let mut verdicts = self.verdicts.clone();
        if self.flaw == CanaryFlaw::MisusesVerdicts {
            let deployment = self.deployment();
            for verdict in &mut verdicts {
                let digest = deployment.spec.template.canonical_sha256();
                verdict.template_digest = digest.to_owned();
                verdict.step = step_of(&deployment);
                verdict.observed_at = at(self.world.now);
            }
        }
        let input = Input {
            snapshot: self.snapshot(),
            policy: self.policy(),
            command,
            verdicts,
            managed_fields: None,
        };
        // Nothing interrupts.
        let Ok(plan) = plan_canary(&input, &Never) else {
            unreachable!()
        };
        self.world.trace(|| match &plan {
            Ok(plan) => format!("  {:?}: {}", plan.report.phase, plan.report.message),
            Err(refusal) => format!("  refused: {refusal}"),
        });
        plan
    }

    /// A steerer plans.
    pub(super) fn plan(&mut self, command: Command) {
        let action = match command {
            Command::Go if !self.has_started => {
                let mut changed = Deployment::clone(&self.deployment());
                changed.spec.template = self.template(NEW);
                Some(Action::Start(Box::new(Start {
                    deployment: changed,
                    pipeline: None,
                    replaces: false,
                    is_template_only: false,
                })))
            }
            Command::Go => None,
            Command::Promote => Some(promote()),
            Command::Abort => Some(abort()),
            Command::Retry => Some(Action::Retry),
        };
        let Ok(mut plan) = self.ask(action) else {
            return self.count(Tally::CanaryRefused);
        };
        if self.flaw == CanaryFlaw::PromotesEarly
            && plan.report.outcome == Some(Outcome::Undecided)
            && self.is_held()
        {
            plan = self.ask(Some(promote())).unwrap_or(plan);
        }
        self.check_promotion(&plan, command);
        let planned_for = version(&self.deployment());
        let is_raise = self.is_raise(&plan);
        if let Some(step) = plan.step {
            self.patches.push(Planned {
                body: step.call.body_json,
                phase: plan.report.phase,
                is_raise,
                planned_for,
                planned_at: self.world.now,
                available: self.available(),
            });
        }
    }

    /// Only a good canary is promoted, unless the user says so, and only a good step is followed by the next one. If another
    /// client has put the fields back, the rollout continues already.
    fn check_promotion(&mut self, plan: &Plan, command: Command) {
        let is_promotion = plan.report.phase == Phase::Promoting && plan.step.is_some();
        let is_raise = self.is_raise(plan);
        if !(is_promotion || is_raise) || command == Command::Promote || !self.is_held() {
            return;
        }
        self.count(Tally::CheckCanaryGood);
        if self.is_good(self.step_since) {
            return;
        }
        // Other clients have changed the template and restored it, so no plan has seen another one.
        let digest = self
            .deployment()
            .spec
            .template
            .canonical_sha256()
            .to_owned();
        let since = self.patched_since.as_ref().filter(|it| it.0 == digest);
        if since.is_some_and(|it| self.is_good(it.1)) {
            return self.count(Tally::ExemptCanaryReturned);
        }
        if is_raise {
            self.violate("canary-raise", "raised, and not good".to_owned());
        } else {
            self.violate("canary-promotion", "promoted, and not good".to_owned());
        }
    }

    /// Whether a plan begins the next step. `kubectl rollout undo` may have restored a state with an earlier one.
    fn is_raise(&self, plan: &Plan) -> bool {
        let deployment = self.deployment();
        let has_state = deployment.metadata.annotations.contains_key(ANNOTATION);
        let is_later = plan.report.step > step_of(&deployment).max(self.patched_step);
        plan.step.is_some() && self.is_held() && has_state && is_later
    }

    /// A steerer carries out one of the patches. Without the answer, it sends it again later.
    pub(super) fn patch(&mut self, choice: u8, is_answered: bool) {
        let Some(index) = usize::from(choice).checked_rem(self.patches.len()) else {
            return;
        };
        let planned = if is_answered {
            self.patches.swap_remove(index)
        } else {
            self.count(Tally::CanaryUnanswered);
            self.patches[index].clone()
        };
        self.carry_out(&planned);
    }

    fn carry_out(&mut self, planned: &Planned) {
        let is_end = matches!(planned.phase, Phase::Rest | Phase::Done | Phase::Aborted);
        if is_end && self.flaw == CanaryFlaw::NeverEnds {
            return;
        }
        let before = self.deployment();
        let mut after = Deployment::clone(&before);
        let body = self.flaw.patch(&planned.body);
        let body = serde_json::from_str(&body).unwrap_or_default();
        match apply_to_deployment(&mut after, &body) {
            Err(error) if error.ends_with("test failed") => return self.count(Tally::CanaryStale),
            Err(error) => return self.violate("canary-malformed", error),
            Ok(()) => {}
        }
        if version(&before) != planned.planned_for {
            let message = format!("the Deployment has changed: {}", planned.body);
            self.violate("canary-stale", message);
        }
        self.check_valid(&after);
        self.check_atomic(&after);
        if self.flaw == CanaryFlaw::RaisesWithUnavailable
            && planned.is_raise
            && let Some(fields) = Fields::of(&after)
        {
            after.spec.strategy = strategy(fields.max_surge, IntOrPercent::Int(1));
        }
        self.count(match planned.phase {
            Phase::Hold => Tally::CanaryHeld,
            Phase::Promoting => Tally::CanaryPromoted,
            Phase::Aborting => Tally::CanaryAborted,
            Phase::Rest | Phase::Done | Phase::Aborted => Tally::CanaryEnded,
        });
        self.has_started |= planned.phase == Phase::Hold;
        let limits = Fields::of(&after).map(|it| (it.max_surge, it.max_unavailable));
        self.held = limits.filter(|_| planned.phase == Phase::Hold);
        self.world
            .trace(|| format!("  patched: {:?}", planned.phase));
        self.planned_available.clone_from(&planned.available);
        self.patched_step = step_of(&after);
        self.put(after);
        self.is_raised = planned.is_raise;
        if planned.is_raise {
            self.count(Tally::CanaryRaised);
            // The state has the time of the plan.
            self.step_since = planned.planned_at;
        }
        let digest = self
            .deployment()
            .spec
            .template
            .canonical_sha256()
            .to_owned();
        // If the last patch was about the same template, the planner cannot know of others in between.
        let since = self.patched_since.take();
        let since = since.filter(|it| it.0 == digest && !planned.is_raise);
        self.patched_since = Some((digest, since.map_or(self.step_since, |it| it.1)));
    }

    /// What the API server would refuse.
    fn check_valid(&mut self, after: &Deployment) {
        let is_zero = |it: IntOrPercent| it.rounded_up(1) == 0;
        let is_valid = Fields::of(after).is_some_and(|it| {
            !(is_zero(it.max_surge) && is_zero(it.max_unavailable))
                && it.progress_deadline_seconds > it.min_ready_seconds
        });
        if !is_valid {
            let message = format!("{:?}", Fields::of(after));
            self.violate("canary-invalid", message);
        }
    }

    pub(super) fn die(&mut self, choice: u8) {
        if let Some(index) = usize::from(choice).checked_rem(self.patches.len()) {
            self.count(Tally::CanaryDied);
            self.patches.swap_remove(index);
        }
    }

    /// The caller judges the canary.
    pub(super) fn judge(&mut self, judgement: Judgement) {
        let deployment = self.deployment();
        let other = self.template(super::STABLE);
        let template = match judgement {
            Judgement::Pass | Judgement::Later | Judgement::Fail => &deployment.spec.template,
            Judgement::Other => &other,
        };
        self.verdicts.push(CallerVerdict {
            name: GATE.to_owned(),
            template_digest: template.canonical_sha256().to_owned(),
            step: step_of(&deployment) + i32::from(judgement == Judgement::Later),
            result: match judgement {
                Judgement::Pass | Judgement::Other | Judgement::Later => CheckResult::Pass,
                Judgement::Fail => CheckResult::Fail,
            },
            observed_at: at(self.world.now),
        });
    }

    /// A steerer ends the canary, all controllers come to rest, and the result is checked.
    pub(super) fn end(&mut self) {
        self.edit(|it| it.spec.paused = false);
        if self.deployment().spec.replicas == 0 {
            self.scale(self.setup.replicas);
        }
        self.has_started = true;
        for round in 0..ROUNDS {
            self.settle();
            if self.violation().is_some() {
                return;
            }
            let Some(plan) = self.ask_at_end(round) else {
                return self.count(Tally::ExemptCanaryLost);
            };
            let is_raise = self.is_raise(&plan);
            if let Some(step) = plan.step {
                self.carry_out(&Planned {
                    body: step.call.body_json,
                    phase: plan.report.phase,
                    is_raise,
                    planned_for: version(&self.deployment()),
                    planned_at: self.world.now,
                    available: self.available(),
                });
            }
        }
        self.check_user();
        // Late patches change nothing, unless they were planned for exactly this Deployment.
        for planned in std::mem::take(&mut self.patches) {
            self.carry_out(&planned);
        }
    }

    /// The plan of a round, which aborts the canary after a while. `None` if the state is lost, and cannot be restored.
    fn ask_at_end(&mut self, round: usize) -> Option<Plan> {
        let plan = match self.ask(None) {
            Ok(plan) => plan,
            Err(Refusal {
                cause: RefusalCause::Lost,
                ..
            }) => return None,
            Err(refusal) => {
                self.violate("canary-end", refusal.to_string());
                return None;
            }
        };
        if plan.report.phase == Phase::Rest && self.has_only_label() {
            self.count(Tally::ExemptCanaryLabel);
            return self.ask_release();
        }
        if plan.report.phase == Phase::Aborting && round >= ROUNDS_BEFORE_RELEASE && self.is_stuck()
        {
            self.count(Tally::ExemptCanaryStuck);
            return self.ask_release();
        }
        let goes_on = matches!(plan.report.phase, Phase::Hold | Phase::Promoting);
        if !goes_on || round < ROUNDS_BEFORE_ABORT {
            return Some(plan);
        }
        // Without stable pods, an abort may be impossible, or never safe. A promotion would never end if the new pods never
        // become ready.
        if round < ROUNDS_BEFORE_RELEASE
            && let Ok(plan) = self.ask(Some(abort()))
        {
            return Some(plan);
        }
        self.ask_release()
    }

    fn ask_release(&mut self) -> Option<Plan> {
        let plan = self.ask(Some(Action::Release));
        plan.map_err(|refusal| self.violate("canary-end", refusal.to_string()))
            .ok()
    }

    /// Whether only the label is left of a canary, because its state was removed, and the last copy with its ReplicaSet.
    fn has_only_label(&self) -> bool {
        let deployment = self.deployment();
        let metadata = &deployment.metadata;
        let has_state = |annotations: &StringMap| annotations.contains_key(ANNOTATION);
        let mut sets = self.world.store.sets.values();
        self.lost_copy
            && metadata.labels.contains_key(LABEL)
            && !has_state(&metadata.annotations)
            && !sets.any(|it| has_state(&it.set.metadata.annotations))
    }

    /// Whether the Deployment controller detects a scaling event indefinitely, as upstream: only one ReplicaSet has
    /// pods, and it has the desired size already.
    fn is_stuck(&self) -> bool {
        let desired = self.deployment().spec.replicas;
        let sets = self.world.store.sets.values();
        let sizes = sets.map(|it| it.set.replicas).filter(|size| *size > 0);
        self.was_scaled && is_scaled(&self.snapshot()) && sizes.eq([desired])
    }
}
