//! `rollplan wait`.

use std::time::Duration;

use clap::Args;

use super::read;
use crate::cli::cluster::Scope;
use crate::cli::error::Error;
use crate::cli::exit::Exit;
use crate::cli::options::{AnswerArgs, Goal, JudgementArgs, ScopeArgs, StatusOutput};
use crate::cli::planner::Planner;
use crate::cli::report::{ReportArgs, Reporter};
use crate::cli::watch::{Group, Limits, WatchOptions};
use crate::text::span;

/// Appended to `--help`.
pub(in crate::cli) const HELP: &str = "\
Several objects are a table with a row whenever one changes; the others are followed until each is decided. With -f, the \
objects in the files are looked up in the cluster: pass what was applied. Those that nobody waits for, such as ConfigMaps, \
Secrets and Roles, are left out, and so are those for which --for means nothing.

A poll that fails because the service, kubectl or the cluster does not answer is repeated. Five such polls in a row \
end the command, as does any other error.

Exit codes: 0 complete; 1 stalled or refused, or deleted while waiting; 2 wrong command line or input, or missing \
permission; 3 timeout expired, no progress for ten minutes, or a Job deleted after an end that nothing tells; 4 no answer from the service, kubectl or the cluster. Of \
several, 1 comes before errors, these before 3, and 3 before 0.";

#[derive(Args, Debug)]
pub(in crate::cli) struct WaitArgs {
    #[command(flatten)]
    pub(in crate::cli) scope: ScopeArgs,
    /// What to wait for
    #[arg(long = "for", value_enum, default_value_t)]
    pub(in crate::cli) goal: Goal,
    /// How long to wait, for example 10m or 90s; 0 polls once [default: until the rollout completes or fails]
    ///
    /// When the timeout expires, a kubectl that has not answered yet is stopped. Without a timeout, the command ends when
    /// the rollout is complete, when it certainly needs a change, when its progress deadline has passed, or, without a
    /// deadline, after ten minutes without progress.
    #[arg(long, value_name = "TIME", value_parser = span::parse, allow_hyphen_values = true)]
    pub(in crate::cli) timeout: Option<Duration>,
    /// Polling interval
    #[arg(long, value_name = "TIME", value_parser = span::parse, allow_hyphen_values = true, default_value = "2s")]
    pub(in crate::cli) interval: Duration,
    /// Print lines on a terminal, too
    #[arg(long)]
    pub(in crate::cli) no_live: bool,
    #[command(flatten)]
    pub(in crate::cli) judgement: JudgementArgs,
    /// Print the last lines of the container that blocks the rollout, if it does not complete
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
        logs,
        answer: AnswerArgs { output, server },
        report,
    } = args;
    let is_live = !no_live && !report.is_for_ci();
    let options = WatchOptions {
        goal,
        limits: Limits { interval, timeout },
        judgement,
        logs,
        output,
        live: is_live,
    };
    let mut reporter = report.begin("rollplan wait", goal, output.is_text())?;
    let result = watch(&scope, server, options, &mut reporter);
    reporter.end(result)
}

fn watch(
    scope: &ScopeArgs,
    server: Option<String>,
    options: WatchOptions,
    reporter: &mut Reporter,
) -> Result<Exit, Error> {
    let planner = Planner::new(server)?;
    let scoped = match scope.which.files.is_empty() {
        true => read::scope(scope, options.goal)?,
        false if scope.which.names.is_empty() => Scope::Named(read::applied(scope, options.goal)?),
        false => {
            let text = "names cannot be combined with --filename: the names alone are read from the cluster, and the \
                        files alone are all that was applied";
            return Err(Error::Usage(text.to_owned()));
        }
    };
    Group::new(&planner, &scope.cluster, scoped, options, reporter).run()
}
