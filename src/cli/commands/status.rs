//! `rollplan status`.

use std::time::Duration;

use clap::Args;
use prost_types::Timestamp;
use rollplan_text::{self as text, RowWidths, span, time};

use super::read;
use crate::cli::cluster::Fleet;
use crate::cli::error::Error;
use crate::cli::exit::Exit;
use crate::cli::goal::Goal;
use crate::cli::interrupt::Interrupt;
use crate::cli::observe::{Status, StatusOptions, add_cluster, observe, status_of};
use crate::cli::options::{AnswerArgs, CompleteArgs, JudgementArgs, ScopeArgs, StatusOutput};
use crate::cli::planner::Planner;
use crate::cli::report::{ReportArgs, Reporter, RolloutResult};
use crate::cli::watch::{Group, Limits, WatchOptions, tree_text, worst};
use crate::cli::{output, stderr};

/// Appended to `--help`.
pub(in crate::cli) const HELP: &str = "\
Exit codes: 0 complete; 1 stalled, refused or being deleted; 2 invalid command line or input, or missing permission; 3 in progress \
or paused, or timeout expired; 4 no answer from the service, kubectl or the cluster; 5 not judged: no rule \
covers the kind or the status of the object. \
With several objects, 1 takes precedence over errors, errors over 3, 3 over 5, and 5 over 0.";

#[derive(Args, Debug)]
pub(in crate::cli) struct StatusArgs {
    #[command(flatten)]
    pub(in crate::cli) scope: ScopeArgs,
    /// The Deployment to report on, if the files contain several objects; for other kinds, give NAME [default: all]
    #[arg(
        short,
        long,
        value_name = "[NAMESPACE/]NAME",
        conflicts_with_all = ["names", "selector", "all", "all_namespaces"]
    )]
    pub(in crate::cli) deployment: Option<String>,
    /// The time of the decision, for example 2026-11-20T23:26:19Z [default: now]
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    pub(in crate::cli) now: Option<Timestamp>,
    #[command(flatten)]
    pub(in crate::cli) complete: CompleteArgs,
    /// Watch until each object is complete or stalled, and print a line for each change
    ///
    /// On a terminal, shows the pods and their states, and updates them in place.
    #[arg(short, long, conflicts_with_all = ["files", "now"])]
    pub(in crate::cli) watch: bool,
    /// How long to watch, for example 10m [default: until the rollout ends]
    #[arg(long, value_name = "DURATION", value_parser = span::parse, allow_hyphen_values = true, requires = "watch")]
    pub(in crate::cli) timeout: Option<Duration>,
    /// Polling interval
    #[arg(long, value_name = "DURATION", value_parser = span::parse, allow_hyphen_values = true, default_value = "2s", requires = "watch")]
    pub(in crate::cli) interval: Duration,
    /// Print lines even on a terminal
    #[arg(long, requires = "watch")]
    pub(in crate::cli) no_live: bool,
    #[command(flatten)]
    pub(in crate::cli) judgement: JudgementArgs,
    #[command(flatten)]
    pub(in crate::cli) answer: AnswerArgs<StatusOutput>,
    #[command(flatten)]
    pub(in crate::cli) report: ReportArgs,
}

/// `rollplan status`.
pub(in crate::cli) fn run(args: StatusArgs) -> Result<Exit, Error> {
    let is_text = args.answer.output.is_text();
    let which = &args.scope.which;
    let is_named = which.are_named() || args.deployment.is_some();
    let requires_judged = is_named || args.judgement.require_judged;
    let mut reporter =
        args.report
            .clone()
            .begin("rollplan status", Goal::Complete, requires_judged, is_text)?;
    let interrupt = if args.watch {
        Interrupt::on_signals()?
    } else {
        Interrupt::default()
    };
    let result = answer(args, &interrupt, &mut reporter);
    let result = reporter.end(result);
    interrupt.end();
    result
}

fn answer(args: StatusArgs, interrupt: &Interrupt, reporter: &mut Reporter) -> Result<Exit, Error> {
    let StatusArgs {
        scope,
        deployment,
        now,
        complete,
        watch,
        timeout,
        interval,
        no_live,
        judgement,
        answer: AnswerArgs { output, server },
        report,
    } = args;
    let planner = Planner::new(server)?;
    let cluster = &scope.cluster;
    let options = StatusOptions {
        fail_on: judgement.fail_on.clone(),
        previous: None,
    };
    let scoped = if scope.which.files.is_empty() {
        complete.refuse().map_err(Error::Usage)?;
        read::scope(&scope, &Goal::Complete)?
    } else {
        let requests = read::all(&scope, deployment.as_deref(), now, &complete)?;
        let is_partial = requests.iter().any(|request| request.is_partial);
        let statuses = requests.iter().map(|request| {
            let mut status = status_of(&planner, request, &options)?;
            add_cluster(&mut status.response, cluster);
            if output == StatusOutput::Wide {
                status.set_tree(request);
            }
            Ok(status)
        });
        let statuses: Result<Vec<Status>, Error> = statuses.collect();
        let exit = print(output, statuses?, Vec::new(), reporter)?;
        return Ok(exit.of_input(is_partial));
    };
    if watch {
        let options = WatchOptions {
            goal: Goal::Complete,
            requires_judged: reporter.requires_judged(),
            limits: Limits { interval, timeout },
            judgement,
            logs: false,
            output,
            live: !no_live && !report.is_for_ci(),
            interrupt: interrupt.clone(),
        };
        return Group::new(&planner, cluster, scoped, options, reporter).run();
    }
    let mut fleet = Fleet::new(cluster, scoped);
    fleet.read_trees(output == StatusOutput::Wide);
    let all: Vec<usize> = (0..fleet.targets(None)?.len()).collect();
    let (mut statuses, mut errors) = (Vec::new(), Vec::new());
    fleet.read(&all, now, &|| None, &mut |_, request, events| {
        let is_wide = output == StatusOutput::Wide;
        match request.and_then(|it| observe(&planner, it, &options, is_wide, events)) {
            Ok(mut status) => {
                add_cluster(&mut status.response, cluster);
                statuses.push(status);
            }
            Err(error) => errors.push(error),
        }
        Ok(())
    })?;
    if statuses.is_empty()
        && errors.len() == 1
        && let Some(error) = errors.pop()
    {
        return Err(error);
    }
    print(output, statuses, errors, reporter)
}

/// Prints the statuses. Returns the exit code for all of them.
fn print(
    output: StatusOutput,
    statuses: Vec<Status>,
    errors: Vec<Error>,
    reporter: &mut Reporter,
) -> Result<Exit, Error> {
    match (output.format(), statuses.as_slice()) {
        (Some(format), statuses) => {
            let is_several = statuses.len() > 1;
            for status in statuses {
                if is_several {
                    output::print_next(format, &status.response)?
                } else {
                    output::print(format, &status.response, |_| {})?
                }
            }
        }
        (None, statuses) if output == StatusOutput::Name => {
            for status in statuses {
                output::write(output::name(&status.response).as_bytes())?;
            }
        }
        (None, [one]) => {
            let text = output::page(|page| text::status(page, &one.subject, &one.response));
            output::write(text.as_bytes())?;
            if output == StatusOutput::Wide {
                output::write(tree_text(&one.tree, one.now).as_bytes())?;
            }
        }
        (None, statuses) => print_rows(statuses, output == StatusOutput::Wide)?,
    }
    for error in &errors {
        stderr::eprint_error(&error.texts());
    }
    let exits = statuses
        .iter()
        .map(|it| Exit::of(it.response.report.as_ref()));
    let exits: Vec<Exit> = exits.chain(errors.iter().map(Error::exit)).collect();
    let exit = worst(&exits, reporter.requires_judged());
    statuses
        .into_iter()
        .for_each(|status| reporter.add(RolloutResult::observed(status)));
    errors.iter().for_each(|error| reporter.add_error(error));
    reporter.note_skipped();
    Ok(exit)
}

/// The names in the table: with their kinds, unless all have the same kind.
fn row_names(statuses: &[Status]) -> Vec<String> {
    let mut kinds = statuses.iter().map(Status::kind);
    let first = kinds.next();
    let is_mixed = kinds.any(|kind| Some(kind) != first);
    let name = |status: &Status| {
        if is_mixed {
            status.subject.clone()
        } else {
            status.name()
        }
    };
    statuses.iter().map(name).collect()
}

/// Prints a row for each status, and below the table the blockers of the rollouts that are not complete.
fn print_rows(statuses: &[Status], is_wide: bool) -> Result<(), Error> {
    let names = row_names(statuses);
    let columns = output::terminal_size().map(|(columns, _)| columns);
    let widths = RowWidths::new(names.iter().map(String::as_str)).within(columns);
    let mut rows = if statuses.is_empty() {
        String::new()
    } else {
        text::row_head(&widths, is_wide)
    };
    for (status, name) in statuses.iter().zip(&names) {
        let report = status.response.report.clone().unwrap_or_default();
        rows += &text::row(&widths, name, &report, is_wide);
    }
    let causes = output::page(|page| {
        for status in statuses {
            let report = status.response.report.as_ref();
            if let Some(report) = report.filter(|it| Exit::of(Some(it)) == Exit::Failed) {
                text::causes(page, Some(&status.subject), report, true);
            }
        }
    });
    output::write((rows + &causes).as_bytes())
}
