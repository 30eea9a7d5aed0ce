//! Carries out a command about a canary: observes, plans, patches the Deployment, and repeats that.

use std::time::Duration;

use prost_types::Timestamp;
use rollplan_canary::{FIELD_MANAGER, ReasonKind, Refusal, RefusalCause};
use rollplan_text::{self as text, CanaryFacts, span};
use rollplan_wire::proto::{
    CanaryAction, CanaryCommand, CanaryOutcome, CanaryPhase, CanaryPolicy, CanaryReport,
    CanaryResponse, CanaryResult, CanaryVerdict, PlanCanaryRequest, PlanCanaryResponse, Reason,
    RolloutReport,
};

use super::super::print_commands;
use super::super::template_change::{ApplyArgs, TemplateArgs};
use crate::cli::cluster::{Cluster, Needs};
use crate::cli::error::Error;
use crate::cli::exit::Exit;
use crate::cli::input::{Answers, Request};
use crate::cli::interrupt::Interrupt;
use crate::cli::kubectl::Cause;
use crate::cli::observe::{StatusOptions, status_of};
use crate::cli::options::{ClusterArgs, Output};
use crate::cli::output::{self, pasted_word};
use crate::cli::planner::Planner;
use crate::cli::target::Target;
use crate::cli::watch::{End, Limits, Observation, SystemClock, Time, watch};
use crate::cli::{program, stderr};

/// The maximum number of patches in a row that the API server rejects because the Deployment has changed.
const MAX_REJECTIONS: usize = 5;

/// The number of rejected patches after which the owners of fields stay as they are: their change tests the version of the
/// object, which changes with each status.
const MAX_REJECTIONS_OF_OWNERS: usize = 3;

/// The maximum number of polls in a row at which the Deployment controller has not observed the last change.
const MAX_UNOBSERVED: usize = 30;

/// How long polls may fail by default.
const PATIENCE: Duration = Duration::from_secs(600);

/// How long a start waits by default for the end of an earlier canary.
const PENDING_MAX: Duration = Duration::from_secs(3600);

/// How long a rollback waits until a failure is certain.
const UNCERTAIN_MAX: Duration = Duration::from_secs(600);

/// What to do.
#[derive(Debug)]
pub(super) enum Action<'a> {
    Status,
    /// End an earlier rollback and, if the rollout has failed, roll it back.
    RollBack {
        has_failed: bool,
    },
    Start(CanaryCommand, Change<'a>),
    /// Another command.
    Command(CanaryCommand),
}

/// The change of a template, which is made again when an earlier canary has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change<'a> {
    pub(super) template: &'a TemplateArgs,
    pub(super) apply: &'a ApplyArgs,
}

/// The verdicts of the user.
#[derive(Clone, Debug, Default)]
pub(super) struct Verdicts {
    pub(super) results: Vec<(String, CanaryResult)>,
    pub(super) observed_at: Timestamp,
}

/// How to do it, and how to print it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mode {
    /// `None` for shell commands.
    pub(super) output: Option<Output>,
    /// Whether the Deployment is patched.
    pub(super) writes: bool,
    /// Whether to continue until the canary is decided.
    pub(super) is_watched: bool,
    /// Whether standard output is only for the digest of a held template.
    pub(super) is_digest: bool,
    pub(super) limits: Limits,
}

/// A policy under which nothing happens by itself.
pub(super) fn hold() -> CanaryPolicy {
    CanaryPolicy {
        on_step: CanaryResponse::Hold.into(),
        on_failure: CanaryResponse::Hold.into(),
        ..CanaryPolicy::default()
    }
}

/// A command without anything else.
pub(super) fn command(action: CanaryAction) -> CanaryCommand {
    CanaryCommand {
        action: action.into(),
        ..CanaryCommand::default()
    }
}

/// A Deployment, and what is done with its canary.
pub(super) struct Steering<'a> {
    planner: &'a Planner,
    args: &'a ClusterArgs,
    cluster: Cluster,
    target: Target,
    action: CanaryAction,
    /// Whether this is a rollback of a failed rollout, and no command of the user about a canary.
    rolls_back: bool,
    /// Whether this only ends what an earlier command has left.
    only_ends: bool,
    /// The command until it has been carried out.
    command: Option<CanaryCommand>,
    change: Option<Change<'a>>,
    /// Whether the command waits for the end of an earlier canary.
    is_pending: bool,
    /// The digest of the only template that this command is about, once it is known.
    template: Option<String>,
    policy: CanaryPolicy,
    verdicts: Verdicts,
    mode: Mode,
    interrupt: Interrupt,
    /// For example "Deployment shop/web".
    subject: String,
    namespace: String,
    last: Option<CanaryReport>,
    /// What was printed last.
    printed: Option<Key>,
    unobserved: usize,
    /// Whether the last poll has failed.
    is_failing: bool,
    plan_again: Option<Duration>,
    /// The report on a promotion that has failed.
    failure: Option<RolloutReport>,
    exit: Option<Exit>,
}

/// A plan, and what it was made from.
struct Plan {
    request: Request,
    response: PlanCanaryResponse,
}

/// What a line shows. Times that are left change all the time.
type Key = (CanaryPhase, CanaryOutcome, [i32; 3], Vec<String>);

// === impl Mode ===

impl Mode {
    /// Without a watch. A dry run and shell commands write nothing.
    pub(super) fn new(dry_run: bool, output: Option<Output>) -> Self {
        Self {
            output,
            writes: !dry_run && output.is_some(),
            is_watched: false,
            is_digest: false,
            limits: Limits {
                interval: Duration::from_secs(2),
                timeout: None,
            },
        }
    }

    /// With this interval between polls.
    pub(super) fn polling(mut self, interval: Duration, is_watched: bool) -> Self {
        self.is_watched = is_watched;
        self.limits.interval = interval;
        self
    }

    /// Watching for no longer than this.
    pub(super) fn within(mut self, timeout: Duration) -> Self {
        self.limits.timeout = Some(timeout);
        self
    }
}

// === impl Steering ===

impl<'a> Steering<'a> {
    pub(super) fn new(
        planner: &'a Planner,
        args: &'a ClusterArgs,
        target: Target,
        action: Action<'a>,
        policy: CanaryPolicy,
        verdicts: Verdicts,
        mode: Mode,
    ) -> Result<Self, Error> {
        let rolls_back = matches!(action, Action::RollBack { .. });
        let only_ends = matches!(action, Action::RollBack { has_failed: false });
        let (command, change) = match action {
            Action::Status | Action::RollBack { .. } => (None, None),
            Action::Start(command, change) => (Some(command), Some(change)),
            Action::Command(command) => (Some(command), None),
        };
        let template = command.as_ref().map(|it| it.template_digest.clone());
        let interrupt = if mode.is_watched {
            Interrupt::on_signals()?
        } else {
            Interrupt::default()
        };
        Ok(Self {
            planner,
            args,
            cluster: Cluster::new(args),
            target,
            action: command
                .as_ref()
                .map_or_else(CanaryAction::default, CanaryCommand::action),
            rolls_back,
            only_ends,
            command,
            change,
            is_pending: false,
            template: template.filter(|it| !it.is_empty()),
            policy,
            verdicts,
            mode,
            interrupt,
            subject: String::new(),
            namespace: String::new(),
            last: None,
            printed: None,
            unobserved: 0,
            is_failing: false,
            plan_again: None,
            failure: None,
            exit: None,
        })
    }

    pub(super) fn run(self) -> Result<Exit, Error> {
        match self.carry_out() {
            // There is nothing to release.
            Err(Error::CanaryRefused { reason, text })
                if reason == RefusalCause::SameTemplate.as_str() =>
            {
                stderr::eprint_note(text);
                Ok(Exit::Done)
            }
            result => result,
        }
    }

    fn carry_out(mut self) -> Result<Exit, Error> {
        if !self.mode.writes {
            return self.dry_run();
        }
        let limits = self.mode.limits;
        let end = watch(limits, &mut SystemClock::start(), &mut self);
        if end.as_ref().is_err_and(Error::is_transient) {
            self.print_end(None)?;
        }
        let end = end?;
        let timeout = limits.timeout.filter(|_| end == End::Timeout);
        self.print_end(timeout)?;
        self.print_digest(self.last.as_ref())?;
        Ok(self.exit.unwrap_or(Exit::Going))
    }

    fn print_digest(&self, report: Option<&CanaryReport>) -> Result<(), Error> {
        let is_printed =
            |it: &&CanaryReport| self.mode.is_digest && it.phase() == CanaryPhase::Hold;
        match report.filter(is_printed) {
            Some(report) => output::write(format!("{}\n", report.template_digest).as_bytes()),
            None => Ok(()),
        }
    }

    /// Prints the next patch.
    fn dry_run(&mut self) -> Result<Exit, Error> {
        let plan = self.plan(None)?;
        match self.mode.output {
            Some(_) if self.mode.is_digest => self.print_digest(plan.response.report.as_ref())?,
            Some(output) => self.print(output, &plan, false)?,
            None => {
                let subject = &plan.request.subject;
                let commands = output::script::canary(subject, self.args, &plan.response)?;
                print_commands(&commands)?;
            }
        }
        Ok(Exit::Done)
    }

    fn read(&mut self, limit: Option<Duration>) -> Result<Request, Error> {
        let (target, answers) = (&self.target, Answers::default());
        let request = self
            .cluster
            .read(target, Needs::Rollout, limit, None, answers)?;
        self.subject.clone_from(&request.subject);
        let target = request.snapshot.target.clone().unwrap_or_default();
        self.namespace = target.namespace;
        Ok(request)
    }

    /// Observes the Deployment, and plans its next patch. The end of an earlier canary comes first: a dry run before that is
    /// merged with its template.
    fn plan(&mut self, limit: Option<Duration>) -> Result<Plan, Error> {
        if self.is_pending
            && let (Some(command), Some(change)) = (&mut self.command, self.change)
        {
            command.deployment = change.read(self.args, &self.target)?;
        }
        let mut request = self.read(limit)?;
        let mut verdicts = Vec::new();
        if !self.verdicts.results.is_empty() {
            let response = self.request(&request, hold(), None, Vec::new())?;
            let report = response.report.unwrap_or_default();
            if report.phase() == CanaryPhase::Hold {
                verdicts = self.verdicts.about(&report);
            }
        }
        let plan = |this: &Self, request: &Request| {
            let (policy, command) = (this.policy.clone(), this.command.clone());
            this.request(request, policy, command, verdicts.clone())
        };
        let mut response = plan(self, &request)?;
        let report = response.report.as_ref();
        let selectors = report.map_or(&[][..], |report| &report.event_selectors);
        if response.steps.is_empty() && self.cluster.add_events(&mut request, selectors, limit)? {
            response = plan(self, &request)?;
        }
        Ok(Plan { request, response })
    }

    fn request(
        &self,
        request: &Request,
        policy: CanaryPolicy,
        command: Option<CanaryCommand>,
        verdicts: Vec<CanaryVerdict>,
    ) -> Result<PlanCanaryResponse, Error> {
        let message = PlanCanaryRequest {
            // Cloning shares the texts of the objects.
            snapshot: Some(request.snapshot.clone()),
            policy: Some(policy),
            command,
            verdicts,
        };
        self.planner
            .answer(message)
            .map_err(|refusal| refusal.into_error(&request.source_map))
    }

    /// Plans and patches, again if the Deployment has changed in between. `None` if the controller has not observed the last
    /// change.
    fn step(&mut self, time: Time<'_>) -> Result<Option<Plan>, Error> {
        let mut rejections = 0;
        loop {
            let has_owners = rejections < MAX_REJECTIONS_OF_OWNERS;
            self.cluster.show_managed_fields(has_owners);
            let plan = match self.plan(time.limit()) {
                Err(Error::CanaryRefused { reason, .. })
                    if reason == RefusalCause::NotObserved.as_str()
                        && self.unobserved < MAX_UNOBSERVED =>
                {
                    self.unobserved += 1;
                    return Ok(None);
                }
                plan => plan?,
            };
            self.check_template(&plan)?;
            let call = plan.response.steps.iter().find_map(|it| it.call.as_ref());
            // The status only shows what is to be written.
            let phase = plan.response.report.as_ref().map(CanaryReport::phase);
            let is_end = matches!(
                phase,
                Some(CanaryPhase::Rest | CanaryPhase::Done | CanaryPhase::Aborted)
            );
            let writes = if self.rolls_back {
                is_end || !self.only_ends
            } else {
                self.action != CanaryAction::Unspecified
            };
            let Some(call) = call.filter(|_| writes) else {
                return Ok(Some(plan));
            };
            match self.cluster.patch(call, time.limit()) {
                Ok(()) => return Ok(Some(plan)),
                Err(failure) => match failure.cause() {
                    Cause::Rejected(_) if rejections + 1 < MAX_REJECTIONS => rejections += 1,
                    _ => return Err(failure.into()),
                },
            }
        }
    }

    /// Refuses the canary of another command or client, which has taken the place of this one.
    fn check_template(&self, plan: &Plan) -> Result<(), Error> {
        let report = plan.response.report.clone().unwrap_or_default();
        let held = report.template_digest.clone();
        let has_canary = matches!(
            report.phase(),
            CanaryPhase::Hold | CanaryPhase::Promoting | CanaryPhase::Aborting
        );
        let template = self
            .template
            .as_ref()
            .filter(|_| has_canary && self.command.is_none());
        match template.filter(|it| **it != held) {
            None => Ok(()),
            Some(template) => {
                let cause = RefusalCause::OtherTemplate {
                    asked: template.clone(),
                    held,
                };
                Err(Error::CanaryRefused {
                    reason: cause.as_str().to_owned(),
                    text: Refusal {
                        name: self.target.name.clone(),
                        cause,
                    }
                    .to_string(),
                })
            }
        }
    }

    /// How the command ends in this state, if it does.
    fn end(&self, report: &CanaryReport) -> Option<Exit> {
        let was = self.last.as_ref().map(CanaryReport::phase);
        let is_abort = self.action == CanaryAction::Abort;
        match report.phase() {
            CanaryPhase::Hold if report.abort_waits => None,
            CanaryPhase::Hold if is_stable_gone(report) => Some(match report.outcome() {
                CanaryOutcome::Good if !promotes(&self.policy) => Exit::Done,
                CanaryOutcome::Undecided | CanaryOutcome::Good => return None,
                CanaryOutcome::TimedOut => Exit::Going,
                CanaryOutcome::Failed | CanaryOutcome::Unspecified => Exit::Failed,
            }),
            CanaryPhase::Hold => match report.outcome() {
                CanaryOutcome::Good if !promotes(&self.policy) => Some(Exit::Done),
                CanaryOutcome::Failed if !aborts(self.policy.on_failure()) => Some(Exit::Failed),
                CanaryOutcome::TimedOut if !aborts(self.policy.on_timeout()) => Some(Exit::Going),
                _ => None,
            },
            CanaryPhase::Promoting if self.failure.is_some() => Some(Exit::Failed),
            // It was too late for an abort.
            CanaryPhase::Done if is_abort => Some(Exit::Failed),
            CanaryPhase::Done => Some(Exit::Done),
            CanaryPhase::Aborted if is_abort => Some(Exit::Done),
            CanaryPhase::Aborted => Some(Exit::Failed),
            CanaryPhase::Rest => Some(match was {
                // Another client has ended it in between.
                Some(CanaryPhase::Hold) => Exit::Going,
                Some(CanaryPhase::Aborting) if !is_abort => Exit::Failed,
                _ => Exit::Done,
            }),
            CanaryPhase::Promoting | CanaryPhase::Aborting | CanaryPhase::Unspecified => None,
        }
    }

    /// How a rollback ends in this state, if it does: `Done` if the stable template is restored, and `Going` if it is not.
    fn end_of_rollback(&self, response: &PlanCanaryResponse, elapsed: Duration) -> Option<Exit> {
        let report = response.report.clone().unwrap_or_default();
        let was = self.last.as_ref().map(CanaryReport::phase);
        // The failure may become certain later.
        let may_follow = report.reasons.is_empty()
            && response.requeue_after.is_some()
            && elapsed < UNCERTAIN_MAX;
        match report.phase() {
            CanaryPhase::Aborting => None,
            _ if was == Some(CanaryPhase::Aborting) => Some(Exit::Done),
            _ if may_follow => None,
            _ => Some(Exit::Going),
        }
    }

    fn now(&self, report: &CanaryReport) -> Exit {
        match (report.phase(), report.outcome()) {
            (CanaryPhase::Hold, CanaryOutcome::Good) => Exit::Done,
            (CanaryPhase::Hold, CanaryOutcome::Failed) => Exit::Failed,
            (CanaryPhase::Hold, _) => Exit::Going,
            _ => self.end(report).unwrap_or(Exit::Going),
        }
    }

    /// Reads whether a promotion has failed. The planner ends it only if the policy says so.
    fn read_failure(&mut self, plan: &Plan, phase: CanaryPhase) -> Result<(), Error> {
        if phase == CanaryPhase::Promoting
            && self.command.is_none()
            && plan.response.steps.is_empty()
        {
            let status = status_of(self.planner, &plan.request, &StatusOptions::default())?;
            let report = status.response.report;
            self.failure = report.filter(|it| Exit::of(Some(it)) == Exit::Failed);
        }
        Ok(())
    }

    fn print(&self, output: Output, plan: &Plan, is_patched: bool) -> Result<(), Error> {
        output::print(output, &plan.response, |page| {
            let facts = CanaryFacts {
                subject: &plan.request.subject,
                response: &plan.response,
                now: plan.request.snapshot.now.as_ref(),
                is_patched,
                is_rollback: self.rolls_back,
            };
            text::canary(page, &facts);
        })
    }

    /// How the command ends while an earlier canary has not ended.
    fn end_of_pending(&self, elapsed: Duration) -> Option<Exit> {
        let limit = self.policy.timeout.and_then(|it| it.try_into().ok());
        let starts = matches!(self.action, CanaryAction::Start | CanaryAction::Retry);
        (starts && elapsed >= limit.unwrap_or(PENDING_MAX)).then_some(Exit::Going)
    }

    /// Prints that the canary of an earlier command has been ended.
    fn note_end_of_earlier(&self, plan: &Plan) {
        let report = plan.response.report.clone().unwrap_or_default();
        let is_earlier = self.is_pending || (self.only_ends && self.last.is_none());
        let is_end = matches!(
            report.phase(),
            CanaryPhase::Rest | CanaryPhase::Done | CanaryPhase::Aborted
        );
        if is_earlier && is_end && !plan.response.steps.is_empty() {
            stderr::eprint_note(format_args!(
                "an earlier canary or rollback of {} was not ended: {}, and its state was removed",
                self.subject, report.message
            ));
        }
    }

    /// Prints a watched canary if it has changed.
    fn print_change(
        &mut self,
        response: &PlanCanaryResponse,
        elapsed: Duration,
    ) -> Result<(), Error> {
        let report = response.report.clone().unwrap_or_default();
        let counts = [
            report.pods_available,
            report.pods_wanted,
            report.stable_pods_available,
        ];
        let reasons = report.reasons.iter().map(|it| it.reason.clone());
        let key = (report.phase(), report.outcome(), counts, reasons.collect());
        if response.steps.is_empty() && self.printed.as_ref() == Some(&key) {
            return Ok(());
        }
        let is_first = self.printed.replace(key).is_none();
        match self.mode.output.unwrap_or_default() {
            Output::Table => {
                let head = if is_first {
                    text::canary_head(&self.subject)
                } else {
                    String::new()
                };
                let row = text::canary_row(elapsed.as_secs(), &report, self.rolls_back);
                let text = head + &row;
                if self.mode.is_digest {
                    text.lines().for_each(stderr::eprint_line);
                    return Ok(());
                }
                output::write(text.as_bytes())
            }
            format => output::print_next(format, response),
        }
    }

    /// Prints how to go on, also after a timeout.
    fn print_end(&self, timeout: Option<Duration>) -> Result<(), Error> {
        if self.rolls_back {
            if !self.only_ends {
                self.note_rollback();
            }
            return Ok(());
        }
        let report = self.last.clone().unwrap_or_default();
        let command = |verb: &str| format!("`{}`", self.command_line(&format!("canary {verb}")));
        let hint = match report.phase() {
            CanaryPhase::Hold if is_stable_gone(&report) => format!(
                "to go on, roll the template of the canary out with {}, and then apply the manifest that you want",
                command("promote --force")
            ),
            CanaryPhase::Hold => format!(
                "to go on, promote the canary with {}, or abort it with {}",
                command("promote"),
                command("abort")
            ),
            CanaryPhase::Promoting => format!(
                "the rollout continues: {} waits for its end, and {} restores the stable template",
                command("promote"),
                command("abort")
            ),
            CanaryPhase::Aborting => format!("{} waits for its end", command("abort")),
            CanaryPhase::Aborted => format!(
                "to try the rejected template again, run {}",
                command("retry")
            ),
            _ => return Ok(()),
        };
        if let Some(failure) = &self.failure
            && self.mode.output == Some(Output::Table)
        {
            let causes = output::page(|page| text::causes(page, None, failure, false));
            output::write(causes.as_bytes())?;
        }
        let (subject, state) = (&self.subject, text::canary_state(&report));
        match timeout.map(|it| span::exact(it.as_secs())) {
            _ if self.is_interrupted() => stderr::eprint_note(format_args!(
                "interrupted: the canary of {subject} stays {state}; {hint}"
            )),
            Some(timeout) => stderr::eprint_note(format_args!(
                "after {timeout}, the canary of {subject} is still {state}; {hint}"
            )),
            None => stderr::eprint_note(hint),
        }
        Ok(())
    }

    /// Prints how a rollback has ended, and how to go on.
    fn note_rollback(&self) {
        let subject = &self.subject;
        let report = self.last.clone().unwrap_or_default();
        let is_failure = |it: &&Reason| it.reason == ReasonKind::RolloutFailed.as_str();
        let mut reasons = report.reasons.iter().filter(|it| !is_failure(it));
        let reason = reasons.next().map(|it| it.message.as_str());
        match (self.exit, report.phase()) {
            (Some(Exit::Done), _) => stderr::eprint_note(format_args!(
                "{subject} was rolled back; to try the rejected template again, run `{}`",
                self.command_line("canary retry")
            )),
            (_, CanaryPhase::Aborting) => stderr::eprint_note(format_args!(
                "the rollback of {subject} continues; `{}` waits for its end",
                self.command_line("canary abort")
            )),
            // Nothing was planned.
            (None, _) => stderr::eprint_note(format_args!("{subject} was not rolled back")),
            _ => stderr::eprint_note(format_args!(
                "{subject} was not rolled back: {}; `{}` shows how to do it by hand",
                reason.unwrap_or(
                    "it is not certain that its pods need a change, or its strategy is not RollingUpdate"
                ),
                self.command_line("undo")
            )),
        }
    }

    /// A command for this Deployment, to paste.
    fn command_line(&self, verb: &str) -> String {
        let options = [
            ("-n", Some(&self.namespace).filter(|it| !it.is_empty())),
            ("--context", self.args.context.as_ref()),
            ("--kubeconfig", self.args.kubeconfig.as_ref()),
        ];
        let options = options.into_iter().filter_map(|(name, value)| {
            let value = value?;
            Some(format!(" {name} {}", pasted_word(value)))
        });
        let options: String = options.collect();
        let name = &self.target.name;
        format!("{} {verb} deploy/{name}{options}", program::command())
    }
}

impl Observation for Steering<'_> {
    fn poll(&mut self, time: Time<'_>) -> Result<(), Error> {
        self.tick(time.elapsed())?;
        if self.is_decided() {
            return Ok(());
        }
        let Some(plan) = self.step(time)? else {
            return Ok(());
        };
        self.unobserved = 0;
        self.is_failing = false;
        let report = plan.response.report.clone().unwrap_or_default();
        let phase = report.phase();
        self.is_pending = report.command_pending;
        if !self.is_pending {
            let starts = self.command.is_some()
                && matches!(self.action, CanaryAction::Start | CanaryAction::Retry);
            if starts && matches!(phase, CanaryPhase::Hold | CanaryPhase::Promoting) {
                self.template = Some(report.template_digest.clone());
            }
            let is_held = phase == CanaryPhase::Hold && plan.response.steps.is_empty();
            if is_held && self.action == CanaryAction::Retry && self.command.is_some() {
                stderr::eprint_note("a canary is held already, so none was started");
            }
            self.command = None;
        }
        self.read_failure(&plan, phase)?;
        let is_watched = self.mode.is_watched;
        self.exit = match is_watched {
            _ if self.is_pending => self.end_of_pending(time.elapsed()),
            _ if self.only_ends => Some(Exit::Done),
            true if self.rolls_back => self.end_of_rollback(&plan.response, time.elapsed()),
            true => self.end(&report),
            false => Some(self.now(&report)),
        };
        self.note_end_of_earlier(&plan);
        if self.only_ends {
            // Nothing else is of interest.
        } else if is_watched {
            self.print_change(&plan.response, time.elapsed())?;
        } else if !self.is_pending && !self.mode.is_digest {
            let is_patched = self.action != CanaryAction::Unspecified;
            self.print(self.mode.output.unwrap_or_default(), &plan, is_patched)?;
        }
        let again = plan.response.requeue_after;
        self.plan_again = again.and_then(|it| it.try_into().ok());
        self.last = Some(report);
        Ok(())
    }

    fn is_decided(&self) -> bool {
        self.exit.is_some()
    }

    fn is_interrupted(&self) -> bool {
        self.interrupt.is_requested()
    }

    fn report_error(&mut self, error: &Error) -> Result<(), Error> {
        if !self.is_failing {
            stderr::eprint_error(&error.texts());
        }
        self.is_failing = true;
        if !self.mode.is_watched {
            self.exit = Some(error.exit());
        }
        Ok(())
    }

    fn tick(&mut self, _: Duration) -> Result<(), Error> {
        Ok(())
    }

    fn poll_within(&self) -> Option<Duration> {
        self.plan_again
    }

    /// A canary goes on while the API server restarts.
    fn patience(&self) -> Duration {
        let timeout = self.policy.timeout.and_then(|it| it.try_into().ok());
        timeout.or(self.mode.limits.timeout).unwrap_or(PATIENCE)
    }
}

// === impl Change ===

impl Change<'_> {
    /// The Deployment after the change.
    fn read(self, cluster: &ClusterArgs, target: &Target) -> Result<String, Error> {
        let applied = self
            .template
            .apply(&mut cluster.clone(), Some(target), None, self.apply)?;
        match applied {
            Some(dry_run) => Ok(dry_run.deployment),
            None => self
                .template
                .set_images(cluster, target, Some(FIELD_MANAGER)),
        }
    }
}

/// Whether the ReplicaSet of the stable template was deleted.
fn is_stable_gone(report: &CanaryReport) -> bool {
    let reason = ReasonKind::StableGone.as_str();
    report.reasons.iter().any(|it| it.reason == reason)
}

fn promotes(policy: &CanaryPolicy) -> bool {
    policy.on_success() == CanaryResponse::Promote
}

/// Whether the response to a failure or to a timeout is an abort. For failures, this is set explicitly.
fn aborts(response: CanaryResponse) -> bool {
    response == CanaryResponse::Abort
}

// === impl Verdicts ===

impl Verdicts {
    /// The verdicts about the template and the step of a hold.
    fn about(&self, report: &CanaryReport) -> Vec<CanaryVerdict> {
        let verdicts = self.results.iter().map(|(name, result)| CanaryVerdict {
            name: name.clone(),
            template_digest: report.template_digest.clone(),
            result: (*result).into(),
            observed_at: Some(self.observed_at),
            step: report.step,
        });
        verdicts.collect()
    }
}
