//! What there is to ask, and how each answer is printed.

use std::io;
use std::path::Path;
use std::time::Duration;

use prost_types::Timestamp;

use super::args::{
    AnswerArgs, ClusterArgs, Goal, HistoryArgs, InputArgs, Output, PlanArgs, ScriptOutput,
    SourceArgs, StatusArgs, UndoArgs, WaitArgs,
};
use super::ask::Planner;
use super::error::Error;
use super::exit::Exit;
use super::input::{self, Request, Wanted};
use super::kubectl::{Kubectl, Name};
use super::watch::{self, Limits, Sight, SystemClock, Ticker};
use super::{complain, now, output, span};
use crate::proto;

/// Why `plan -o kubectl` is not to be had without saying so.
const TAKEOVER: &str = "\
-o kubectl prints the writes that Kubernetes' own Deployment controller makes, to be made in its place: while it \
acts on this Deployment too, the two fight, each undoing what the other does. Say --takeover if it does not act on \
this Deployment";

/// `rollplan plan`.
pub(super) fn plan(args: PlanArgs) -> Result<Exit, Error> {
    let PlanArgs {
        input,
        horizon,
        failures,
        takeover,
        answer: AnswerArgs { output, server },
    } = args;
    match (output, takeover) {
        (ScriptOutput::Kubectl, false) => return Err(Error::Usage(TAKEOVER.to_owned())),
        (ScriptOutput::Kubectl, true) | (_, false) => {}
        (_, true) => {
            let text = "--takeover goes with -o kubectl: nothing else is carried out";
            return Err(Error::Usage(text.to_owned()));
        }
    }
    let planner = Planner::new(server)?;
    let Request {
        subject,
        snapshot,
        places,
    } = read(&input, failures.as_deref())?;
    let request = proto::PlanRolloutRequest {
        snapshot: Some(snapshot),
        options: Some(proto::PlanOptions {
            horizon: proto::Horizon::from(horizon).into(),
            terminating_replicas: None,
        }),
    };
    let response = planner
        .plan_rollout(request)
        .map_err(|refusal| refusal.into_error(&places))?;
    match output.plain() {
        Some(output) => output::print(output, &response, |page| {
            output::plan(page, &subject, &response);
        })?,
        None => {
            let script = output::script::plan(&subject, &input.cluster, &response);
            output::write(script.as_bytes())?;
        }
    }
    Ok(Exit::Done)
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
    let (subject, response) = status_of(&planner, read(&input, None)?)?;
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
        places,
    } = read(&input, None)?;
    let now = snapshot.now;
    let request = proto::ListRevisionsRequest {
        snapshot: Some(snapshot),
    };
    let response = planner
        .list_revisions(request)
        .map_err(|refusal| refusal.into_error(&places))?;
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
        places,
    } = read(&input, None)?;
    let request = proto::RollbackRequest {
        snapshot: Some(snapshot),
        to_revision,
        options: None,
    };
    let response = planner
        .rollback(request)
        .map_err(|refusal| refusal.into_error(&places))?;
    match output.plain() {
        Some(output) => output::print(output, &response, |page| {
            output::undo(page, &subject, &response);
        })?,
        None => {
            let script = output::script::undo(&subject, &input.cluster, &response);
            output::write(script.as_bytes())?;
        }
    }
    Ok(Exit::Done)
}

/// Reads files, or has kubectl read the cluster.
fn read(args: &InputArgs, failures: Option<&Path>) -> Result<Request, Error> {
    let InputArgs {
        source: SourceArgs { target, files },
        cluster,
        deployment,
        now,
        pods_complete,
    } = args;
    let failures = failures.map(input::failures).transpose()?;
    let failures = failures.unwrap_or_default();
    if let Some(target) = target {
        let kubectl = Kubectl::new(cluster, target);
        return read_cluster(&kubectl, target, cluster, *now, failures);
    }
    if let Some((option, _)) = cluster.options().next() {
        let text = format!("{option} is for kubectl, and goes with a name instead of -f");
        return Err(Error::Usage(text));
    }
    let sources = input::sources(files)?;
    let wanted = deployment.as_deref().map(Wanted::parse).transpose()?;
    input::request(
        &sources,
        wanted.as_ref(),
        *pods_complete,
        now.unwrap_or_else(now::read),
        failures,
        &mut |note| complain(format_args!("note: {note}")),
    )
}

/// Has kubectl read the cluster. It lists all pods there are.
fn read_cluster(
    kubectl: &Kubectl,
    target: &Name,
    cluster: &ClusterArgs,
    now: Option<Timestamp>,
    failures: input::Failures,
) -> Result<Request, Error> {
    let source = kubectl.get()?;
    let wanted = Wanted::in_cluster(&target.name, cluster.namespace.as_deref());
    input::request(
        &[source],
        Some(&wanted),
        Some(true),
        now.unwrap_or_else(now::read),
        failures,
        &mut |note| complain(format_args!("note: {note}")),
    )
}

/// The subject, and what is said of it.
type Status = (String, proto::ComputeStatusResponse);

fn status_of(planner: &Planner, request: Request) -> Result<Status, Error> {
    let Request {
        subject,
        snapshot,
        places,
    } = request;
    let request = proto::ComputeStatusRequest {
        snapshot: Some(snapshot),
        options: None,
    };
    let response = planner
        .compute_status(request)
        .map_err(|refusal| refusal.into_error(&places))?;
    Ok((subject, response))
}

/// A rollout in a cluster, looked at again and again.
struct Rollout<'a> {
    planner: &'a Planner,
    kubectl: Kubectl,
    target: &'a Name,
    cluster: &'a ClusterArgs,
    output: Output,
    ticker: Ticker<io::Stdout>,
    /// What was printed last, in JSON or YAML.
    printed: Option<proto::RolloutReport>,
}

fn watch(
    planner: &Planner,
    target: &Name,
    cluster: &ClusterArgs,
    output: Output,
    limits: Limits,
) -> Result<Exit, Error> {
    let mut rollout = Rollout {
        planner,
        kubectl: Kubectl::new(cluster, target),
        target,
        cluster,
        output,
        ticker: Ticker::new(io::stdout(), output::is_live()),
        printed: None,
    };
    let end = watch::watch(limits, &mut SystemClock::start(), &mut rollout);
    rollout.ticker.end().map_err(Error::Output)?;
    let (exit, (_, response)) = end?;
    if let (Output::Table, Some(report)) = (output, &response.report) {
        let blockers = output::page(|page| output::blockers(page, report));
        // Of what is complete, there are none.
        output::write(blockers.as_bytes())?;
    }
    if exit == Exit::Going {
        let waited = limits
            .timeout
            .map_or(0, |timeout: Duration| timeout.as_secs());
        let waited = span::exact(waited);
        complain(format_args!("note: still going after {waited}"));
    }
    Ok(exit)
}

// === impl Rollout ===

impl Sight for Rollout<'_> {
    type Seen = Status;

    fn look(&mut self) -> Result<Status, Error> {
        let failures = input::Failures::default();
        let request = read_cluster(&self.kubectl, self.target, self.cluster, None, failures)?;
        status_of(self.planner, request)
    }

    fn tell(&mut self, (subject, response): &Status) -> Result<Exit, Error> {
        let report = response.report.clone().unwrap_or_default();
        match self.output {
            Output::Table => {
                let line = match report.message.as_str() {
                    "" => subject,
                    message => message,
                };
                let line = output::one_line(line);
                self.ticker.tell(&report, &line).map_err(Error::Output)?;
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
}
