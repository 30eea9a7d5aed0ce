//! The commands that answer about a Deployment.

use std::io;
use std::path::Path;
use std::time::Duration;

use super::args::{
    AnswerArgs, ClusterArgs, Goal, HistoryArgs, InputArgs, Output, PlanArgs, ScriptOutput,
    SourceArgs, StatusArgs, UndoArgs, WaitArgs,
};
use super::cluster::{Cluster, Needs};
use super::error::Error;
use super::exit::Exit;
use super::input::{self, Complete, Request, Wanted};
use super::planner::Planner;
use super::printable::one_line;
use super::target::Target;
use super::watch::{self, Limits, Observation, SystemClock, Ticker};
use super::{now, output, span, stderr};
use crate::proto;

/// Why `plan -o kubectl` needs a confirmation.
const TAKEOVER: &str = "\
-o kubectl prints the writes that Kubernetes' own Deployment controller makes, to be made in its place: if it manages \
this Deployment too, both controllers would overwrite each other; pass --takeover if it does not";

/// `rollplan plan`.
pub(super) fn plan(args: PlanArgs) -> Result<Exit, Error> {
    let PlanArgs {
        input,
        horizon,
        answers,
        takeover,
        answer: AnswerArgs { output, server },
    } = args;
    match (output, takeover) {
        (ScriptOutput::Kubectl, false) => return Err(Error::Usage(TAKEOVER.to_owned())),
        (ScriptOutput::Kubectl, true) | (_, false) => {}
        (_, true) => {
            let text = "--takeover can only be used with -o kubectl";
            return Err(Error::Usage(text.to_owned()));
        }
    }
    let planner = Planner::new(server)?;
    let Request {
        subject,
        snapshot,
        source_map,
    } = read(&input, Needs::Plan, answers.as_deref())?;
    let request = proto::PlanRolloutRequest {
        snapshot: Some(snapshot),
        options: Some(proto::PlanOptions {
            horizon: proto::Horizon::from(horizon).into(),
            terminating_replicas: None,
            events_as_calls: false,
        }),
    };
    let response = planner
        .plan_rollout(request)
        .map_err(|refusal| refusal.into_error(&source_map))?;
    match output.plain() {
        Some(output) => output::print(output, &response, |page| {
            output::plan(page, &subject, &response);
        })?,
        None => {
            let commands = output::script::plan(&subject, &input.cluster, &response)?;
            print_commands(&commands)?;
        }
    }
    Ok(match output::lacks_sets(response.report.as_ref()) {
        true => Exit::Usage,
        false => Exit::Done,
    })
}

/// `rollplan status`.
pub(super) fn status(args: StatusArgs) -> Result<Exit, Error> {
    let StatusArgs {
        input,
        watch,
        timeout,
        interval,
        answer: AnswerArgs { output, server },
    } = args;
    let planner = Planner::new(server)?;
    if let (true, Some(target)) = (watch, &input.source.target) {
        let limits = Limits { interval, timeout };
        return self::watch(&planner, target, &input.cluster, output, limits);
    }
    let (subject, response) = status_of(&planner, read(&input, Needs::Rollout, None)?)?;
    output::print(output, &response, |page| {
        output::status(page, &subject, &response);
    })?;
    Ok(Exit::of(response.report.as_ref()))
}

/// `rollplan wait`.
pub(super) fn wait(args: WaitArgs) -> Result<Exit, Error> {
    let WaitArgs {
        target,
        cluster,
        goal: Goal::Complete,
        timeout,
        interval,
        answer: AnswerArgs { output, server },
    } = args;
    let limits = Limits {
        interval,
        timeout: Some(timeout),
    };
    watch(&Planner::new(server)?, &target, &cluster, output, limits)
}

/// `rollplan history`.
pub(super) fn history(args: HistoryArgs) -> Result<Exit, Error> {
    let HistoryArgs {
        input,
        answer: AnswerArgs { output, server },
    } = args;
    let planner = Planner::new(server)?;
    let Request {
        subject,
        snapshot,
        source_map,
    } = read(&input, Needs::Revisions, None)?;
    let now = snapshot.now;
    let request = proto::ListRevisionsRequest {
        snapshot: Some(snapshot),
    };
    let response = planner
        .list_revisions(request)
        .map_err(|refusal| refusal.into_error(&source_map))?;
    output::print(output, &response, |page| {
        output::history(page, &subject, now.as_ref(), &response);
    })?;
    Ok(Exit::Done)
}

/// `rollplan undo`.
pub(super) fn undo(args: UndoArgs) -> Result<Exit, Error> {
    let UndoArgs {
        input,
        to_revision,
        answer: AnswerArgs { output, server },
    } = args;
    let planner = Planner::new(server)?;
    let Request {
        subject,
        snapshot,
        source_map,
    } = read(&input, Needs::Revisions, None)?;
    let request = proto::RollbackRequest {
        snapshot: Some(snapshot),
        to_revision,
        options: None,
    };
    let response = planner
        .rollback(request)
        .map_err(|refusal| refusal.into_error(&source_map))?;
    match output.plain() {
        Some(output) => output::print(output, &response, |page| {
            output::undo(page, &subject, &response);
        })?,
        None => {
            let commands = output::script::undo(&subject, &input.cluster, &response)?;
            print_commands(&commands)?;
        }
    }
    Ok(Exit::Done)
}

/// Prints commands to standard output, and what to know before they are pasted to standard error.
fn print_commands(commands: &output::script::Commands) -> Result<(), Error> {
    for warning in &commands.warnings {
        stderr::eprint_warning(warning);
    }
    output::write(commands.text.as_bytes())
}

/// Reads files, or the cluster.
fn read(args: &InputArgs, needs: Needs, answers: Option<&Path>) -> Result<Request, Error> {
    let InputArgs {
        source: SourceArgs { target, files },
        cluster,
        deployment,
        now,
        pods_complete,
        replica_sets_complete,
    } = args;
    let answers = answers.map(input::answers).transpose()?;
    let answers = answers.unwrap_or_default();
    if let Some(target) = target {
        return Cluster::new(cluster, target, needs).read(None, *now, answers);
    }
    if let Some((option, _)) = cluster.options().next() {
        let text = format!("{option} is for kubectl, and cannot be used with -f");
        return Err(Error::Usage(text));
    }
    let sources = input::sources(files)?;
    let wanted = deployment.as_deref().map(Wanted::parse).transpose()?;
    input::request(
        &sources,
        wanted.as_ref(),
        Complete {
            replica_sets: *replica_sets_complete,
            pods: *pods_complete,
        },
        now.unwrap_or_else(now::read),
        answers,
        &mut |note| stderr::eprint_note(note),
    )
}

/// The subject, and its status.
type Status = (String, proto::ComputeStatusResponse);

fn status_of(planner: &Planner, request: Request) -> Result<Status, Error> {
    let Request {
        subject,
        snapshot,
        source_map,
    } = request;
    let request = proto::ComputeStatusRequest {
        snapshot: Some(snapshot),
        ..proto::ComputeStatusRequest::default()
    };
    let response = planner
        .compute_status(request)
        .map_err(|refusal| refusal.into_error(&source_map))?;
    Ok((subject, response))
}

/// A rollout in a cluster that is watched.
struct Rollout<'a> {
    planner: &'a Planner,
    cluster: Cluster<'a>,
    output: Output,
    ticker: Ticker<io::Stdout>,
    /// The last report that was printed as JSON or YAML.
    printed: Option<proto::RolloutReport>,
}

fn watch(
    planner: &Planner,
    target: &Target,
    cluster: &ClusterArgs,
    output: Output,
    limits: Limits,
) -> Result<Exit, Error> {
    let mut rollout = Rollout {
        planner,
        cluster: Cluster::new(cluster, target, Needs::Rollout),
        output,
        ticker: Ticker::new(io::stdout(), output::is_live()),
        printed: None,
    };
    let end = watch::watch(limits, &mut SystemClock::start(), &mut rollout);
    rollout.ticker.end().map_err(Error::Output)?;
    let (exit, last) = end?;
    let report = last
        .as_ref()
        .and_then(|(_, response)| response.report.as_ref());
    if let (Output::Table, Some(report)) = (output, report) {
        // A rollout that is complete has none.
        let blockers = output::page(|page| output::blockers(page, report));
        output::write(blockers.as_bytes())?;
    }
    if exit == Exit::Going {
        let timeout = limits
            .timeout
            .map_or(0, |timeout: Duration| timeout.as_secs());
        let timeout = span::exact(timeout);
        if last.is_some() {
            stderr::eprint_note(format_args!("still in progress after {timeout}"));
        } else {
            stderr::eprint_note(format_args!("no answer within {timeout}"));
        }
    }
    Ok(exit)
}

// === impl Rollout ===

impl Observation for Rollout<'_> {
    type Observed = Status;

    fn poll(&mut self, limit: Option<Duration>) -> Result<Status, Error> {
        let answers = input::Answers::default();
        let request = self.cluster.read(limit, None, answers)?;
        status_of(self.planner, request)
    }

    fn report(&mut self, (subject, response): &Status) -> Result<Exit, Error> {
        let report = response.report.clone().unwrap_or_default();
        match self.output {
            Output::Table => {
                let line = match report.message.as_str() {
                    "" => subject,
                    message => message,
                };
                let line = one_line(line);
                self.ticker.report(&report, &line).map_err(Error::Output)?;
            }
            Output::Json | Output::Yaml => {
                let key = watch::without_times(&report);
                if self.printed.as_ref() != Some(&key) {
                    if self.output == Output::Yaml {
                        output::write(b"---\n")?;
                    }
                    output::print(self.output, response, |_| {})?;
                    self.printed = Some(key);
                }
            }
        }
        Ok(Exit::of(Some(&report)))
    }

    fn report_error(&mut self, error: &Error) -> Result<(), Error> {
        // Below the line of the terminal that is written again and again.
        self.ticker.end().map_err(Error::Output)?;
        stderr::eprint_note(format_args!("poll failed: {error}"));
        Ok(())
    }
}
