//! `rollplan wait`.

use std::time::Duration;

use clap::Args;
use rollplan_text::span;

use super::canary::{OnRolloutFailure, RollBack};
use super::read;
use crate::cli::cluster::Scope;
use crate::cli::error::Error;
use crate::cli::exit::Exit;
use crate::cli::goal::Goal;
use crate::cli::interrupt::Interrupt;
use crate::cli::options::{AnswerArgs, JudgementArgs, ScopeArgs, ServerArgs, StatusOutput};
use crate::cli::planner::Planner;
use crate::cli::report::{ReportArgs, Reporter};
use crate::cli::stderr;
use crate::cli::watch::{Group, Limits, WatchOptions};

/// Appended to `--help`.
pub(in crate::cli) const HELP: &str = "\
For several objects, prints a table with a row for each change, and ends when the outcome of each object is decided. With -f, \
waits for the objects of the cluster that the files define: pass the manifests that you applied. Kinds without anything to \
wait for, such as ConfigMaps, Secrets and Roles, are skipped, and so are kinds to which --for does not apply.

A poll that fails because the service, kubectl or the cluster does not answer is repeated. The command ends after five such \
polls in a row, and at once on any other error. SIGINT (Ctrl-C) and SIGTERM end it after the causes and the reports.

Exit codes: 0 complete; 1 stalled or refused, also if it was rolled back, or deleted while waiting; 2 invalid command line or input, or missing \
permission; 3 timeout expired, no progress for ten minutes, or a Job was deleted and its result \
is unknown; 4 no answer from the service, kubectl or the cluster; 5 not judged: no rule \
covers the kind or the status of the object. \
With several objects, 1 takes precedence over errors, errors over 3, 3 over 5, and 5 over 0.";

#[derive(Args, Debug)]
pub(in crate::cli) struct WaitArgs {
    #[command(flatten)]
    pub(in crate::cli) scope: ScopeArgs,
    /// What to wait for: complete, available, updated, deleted, condition=TYPE[=STATUS] or jsonpath={.PATH}[=VALUE]
    ///
    /// The last two are those of kubectl wait, and apply to every kind: a condition in status.conditions with this status
    /// (True if none is given), or a value in the object. Only the condition or the value decides then: a failure does not
    /// end the command.
    #[arg(long = "for", value_name = "GOAL", default_value = "complete")]
    pub(in crate::cli) goal: Goal,
    /// How long to wait, for example 10m or 90s; 0 polls once [default: until the rollout ends]
    ///
    /// When the timeout expires, a kubectl process that is still running is stopped. Without a timeout, the command ends
    /// when the rollout is complete, when it certainly needs a change, when its progress deadline has passed, or, without a
    /// deadline, after ten minutes without progress.
    #[arg(long, value_name = "DURATION", value_parser = span::parse, allow_hyphen_values = true)]
    pub(in crate::cli) timeout: Option<Duration>,
    /// Polling interval
    #[arg(long, value_name = "DURATION", value_parser = span::parse, allow_hyphen_values = true, default_value = "2s")]
    pub(in crate::cli) interval: Duration,
    /// Print lines even on a terminal
    #[arg(long)]
    pub(in crate::cli) no_live: bool,
    #[command(flatten)]
    pub(in crate::cli) judgement: JudgementArgs,
    /// What happens to a Deployment whose rollout has failed [default: none]
    ///
    /// roll-back restores the template of the old ReplicaSet with the most available pods, if it is certain that the pods
    /// need a change, and waits until that is complete: once for each template, and never because of a failure that resolves
    /// by itself. It patches the Deployment with your kubectl. The exit code stays 1.
    #[arg(long, value_enum)]
    pub(in crate::cli) on_failure: Option<OnRolloutFailure>,
    /// Print the patch of --on-failure without making it
    #[arg(long, requires = "on_failure")]
    pub(in crate::cli) dry_run: bool,
    /// If the rollout does not complete, print the last log lines of the container that blocks it
    #[arg(long)]
    pub(in crate::cli) logs: bool,
    #[command(flatten)]
    pub(in crate::cli) answer: AnswerArgs<StatusOutput>,
    #[command(flatten)]
    pub(in crate::cli) report: ReportArgs,
}

/// `rollplan wait`.
pub(in crate::cli) fn run(args: WaitArgs) -> Result<Exit, Error> {
    let WaitArgs {
        scope,
        goal,
        timeout,
        interval,
        no_live,
        judgement,
        on_failure,
        dry_run,
        logs,
        answer: AnswerArgs { output, server },
        report,
    } = args;
    let roll_back = match on_failure {
        None | Some(OnRolloutFailure::None) => None,
        Some(OnRolloutFailure::RollBack) => {
            refuse_rollback(&goal, output)?;
            Some(RollBack {
                output: output.format().unwrap_or_default(),
                dry_run,
                interval,
                timeout,
            })
        }
    };
    let is_live = !no_live && !report.is_for_ci();
    let requires_judged = scope.which.are_named() || judgement.require_judged;
    let mut reporter = report.clone().begin(
        "rollplan wait",
        goal.clone(),
        requires_judged,
        output.is_text(),
    )?;
    let interrupt = Interrupt::on_signals()?;
    let options = WatchOptions {
        goal,
        requires_judged,
        limits: Limits { interval, timeout },
        judgement,
        logs,
        output,
        live: is_live,
        interrupt: interrupt.clone(),
    };
    let result = watch(&scope, server, options, roll_back, &mut reporter);
    let result = reporter.end(result);
    interrupt.end();
    result
}

/// Refuses options with which a rollout does not fail, or its rollback cannot be printed.
fn refuse_rollback(goal: &Goal, output: StatusOutput) -> Result<(), Error> {
    let goals = [Goal::Complete, Goal::Available, Goal::Updated];
    let text = if !goals.contains(goal) {
        "--on-failure can only be used with --for=complete, available or updated"
    } else if output == StatusOutput::Name {
        "--on-failure cannot be used with -o name"
    } else {
        return Ok(());
    };
    Err(Error::Usage(text.to_owned()))
}

fn watch(
    scope: &ScopeArgs,
    server: ServerArgs,
    options: WatchOptions,
    roll_back: Option<RollBack>,
    reporter: &mut Reporter,
) -> Result<Exit, Error> {
    let planner = Planner::new(server)?;
    let mut is_partial = false;
    let scoped = match scope.which.files.is_empty() {
        true => read::scope(scope, &options.goal)?,
        false if scope.which.names.is_empty() => {
            let (targets, partial) = read::applied(scope, &options.goal)?;
            is_partial = partial;
            Scope::Named(targets)
        }
        false => {
            let text = "names cannot be combined with --filename: wait for the names, or for all objects of the files";
            return Err(Error::Usage(text.to_owned()));
        }
    };
    let group = Group::new(&planner, &scope.cluster, scoped, options, reporter);
    let exit = match roll_back {
        None => group.run(),
        Some(roll_back) => group.run_with(&mut |target, has_failed| {
            // The exit code is about the rollout.
            if let Err(error) = roll_back.carry_out(&planner, &scope.cluster, target, has_failed) {
                stderr::eprint_error(&error.texts());
            }
        }),
    };
    Ok(exit?.of_input(is_partial))
}
