//! The commands that answer about a Deployment.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use super::args::{
    AnswerArgs, ClusterArgs, Goal, HistoryArgs, InputArgs, JudgementArgs, Output, PlanArgs,
    ScriptOutput, SourceArgs, StatusArgs, Switch, UndoArgs, WaitArgs,
};
use super::cluster::{Cluster, Needs};
use super::error::Error;
use super::exit::Exit;
use super::input::{self, Complete, Request, Wanted};
use super::planner::Planner;
use super::target::Target;
use super::watch::{self, End, Limits, Observation, SystemClock, Ticker};
use super::{now, output, stderr};
use crate::proto;
use crate::text::{self, one_line, span};

/// How long a rollout without a deadline may stand still.
const STALLED_AFTER: Duration = Duration::from_secs(600);

/// How long pods may be starting before events are read to find out why.
const STARTING_SECONDS: i64 = 15;

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
            text::plan(page, &subject, &response);
        })?,
        None => {
            let commands = output::script::plan(&subject, &input.cluster, &response)?;
            print_commands(&commands)?;
        }
    }
    Ok(match text::lacks_sets(response.report.as_ref()) {
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
        judgement,
        answer: AnswerArgs { output, server },
    } = args;
    let planner = Planner::new(server)?;
    if let (true, Some(target)) = (watch, &input.source.target) {
        let wish = Wish {
            goal: Goal::Complete,
            limits: Limits { interval, timeout },
            judgement,
            logs: false,
        };
        return self::watch(&planner, target, &input.cluster, output, wish);
    }
    let Status {
        subject, response, ..
    } = match &input.source.target {
        Some(target) => {
            let mut cluster = Cluster::new(&input.cluster, target, Needs::Rollout);
            let request = cluster.read(None, input.now, input::Answers::default())?;
            let asked = Asked {
                fail_on: judgement.fail_on,
                previous: None,
            };
            let mut status = observe(&planner, &mut cluster, request, &asked, None)?;
            add_cluster(&mut status.response, &input.cluster);
            status
        }
        None => {
            let asked = Asked {
                fail_on: judgement.fail_on,
                previous: None,
            };
            status_of(&planner, read(&input, Needs::Rollout, None)?, &asked)?
        }
    };
    output::print(output, &response, |page| {
        text::status(page, &subject, &response);
    })?;
    Ok(Exit::of(response.report.as_ref()))
}

/// `rollplan wait`.
pub(super) fn wait(args: WaitArgs) -> Result<Exit, Error> {
    let WaitArgs {
        target,
        cluster,
        goal,
        timeout,
        interval,
        judgement,
        logs,
        answer: AnswerArgs { output, server },
    } = args;
    let wish = Wish {
        goal,
        limits: Limits { interval, timeout },
        judgement,
        logs,
    };
    watch(&Planner::new(server)?, &target, &cluster, output, wish)
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
        text::history(page, &subject, now.as_ref(), &response);
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
            text::undo(page, &subject, &response);
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

/// What was observed of a Deployment.
#[derive(Debug)]
struct Status {
    /// The Deployment, for example "Deployment shop/web".
    subject: String,
    uid: String,
    response: proto::ComputeStatusResponse,
}

/// How a status is asked for.
#[derive(Debug, Default)]
struct Asked {
    fail_on: Vec<proto::FailureRule>,
    previous: Option<proto::Verdict>,
}

fn status_of(planner: &Planner, request: Request, asked: &Asked) -> Result<Status, Error> {
    let Request {
        subject,
        snapshot,
        source_map,
    } = request;
    let metadata = snapshot
        .deployment
        .as_ref()
        .and_then(|it| it.metadata.as_ref());
    let uid = metadata.map_or_else(String::new, |metadata| metadata.uid.clone());
    let request = proto::ComputeStatusRequest {
        snapshot: Some(snapshot),
        options: None,
        previous_verdict: asked.previous.clone(),
        fail_on: asked.fail_on.clone(),
    };
    let response = planner
        .compute_status(request)
        .map_err(|refusal| refusal.into_error(&source_map))?;
    Ok(Status {
        subject,
        uid,
        response,
    })
}

/// Asks for a status, and again with the events of the cluster where something fails.
fn observe(
    planner: &Planner,
    cluster: &mut Cluster<'_>,
    request: Request,
    asked: &Asked,
    limit: Option<Duration>,
) -> Result<Status, Error> {
    let snapshot = request.snapshot.clone();
    let source_map = request.source_map.clone();
    let status = status_of(planner, request, asked)?;
    let report = status.response.report.as_ref();
    if !report.is_some_and(|report| needs_events(report, snapshot.now.as_ref())) {
        return Ok(status);
    }
    let mut again = Request {
        subject: status.subject.clone(),
        snapshot,
        source_map,
    };
    cluster.add_events(&mut again, limit)?;
    if again.snapshot.events.is_empty() {
        return Ok(status);
    }
    status_of(planner, again, asked)
}

/// Whether events may tell why pods are missing or not ready. Pods that have just been created are starting.
fn needs_events(report: &proto::RolloutReport, now: Option<&prost_types::Timestamp>) -> bool {
    let seconds = now.map_or(0, |now| now.seconds);
    report
        .blockers
        .iter()
        .any(|blocker| match blocker.reason.as_str() {
            "IMAGE_PULL"
            | "CONTAINER_CONFIG"
            | "CRASH_LOOP"
            | "PODS_REFUSED"
            | "REPLICA_SET_REFUSED"
            | "UNSCHEDULABLE" => true,
            "STARTING" | "NOT_READY" => {
                let since = blocker.since.as_ref();
                since.is_none_or(|since| seconds.saturating_sub(since.seconds) > STARTING_SECONDS)
            }
            _ => false,
        })
}

/// The commands of the remedies, for the cluster that was read.
fn add_cluster(response: &mut proto::ComputeStatusResponse, cluster: &ClusterArgs) {
    let options = [
        ("--context", &cluster.context),
        ("--kubeconfig", &cluster.kubeconfig),
    ];
    let options: String = options
        .into_iter()
        .filter_map(|(name, value)| {
            let value = output::pasted_word(value.as_deref()?);
            Some(format!("{name}={value} "))
        })
        .collect();
    let Some(report) = response.report.as_mut().filter(|_| !options.is_empty()) else {
        return;
    };
    let complete = |remedy: &mut String| {
        for command in ["kubectl ", "rollplan undo "] {
            *remedy = remedy.replace(command, &format!("{command}{options}"));
        }
    };
    report
        .blockers
        .iter_mut()
        .for_each(|blocker| complete(&mut blocker.remedy));
    report
        .verdict
        .iter_mut()
        .for_each(|verdict| complete(&mut verdict.remedy));
}

/// What to wait for, and how.
#[derive(Debug)]
struct Wish {
    goal: Goal,
    limits: Limits,
    judgement: JudgementArgs,
    logs: bool,
}

/// What counts as progress: numbers of pods, and which ReplicaSet is the new one.
type Progress = (Option<proto::Counts>, String);

/// A rollout in a cluster that is watched.
struct Rollout<'a> {
    planner: &'a Planner,
    cluster: Cluster<'a>,
    args: &'a ClusterArgs,
    output: Output,
    goal: Goal,
    fail_fast: Switch,
    asked: Asked,
    ticker: Ticker<io::Stdout>,
    /// The last report that was printed as JSON or YAML.
    printed: Option<proto::RolloutReport>,
    /// The UID that the Deployment had at the last poll.
    uid: String,
    /// The last progress, and when it was made.
    progress: Option<(Progress, Duration)>,
    /// The ReplicaSet that the previous verdict is about.
    replica_set: String,
}

fn watch(
    planner: &Planner,
    target: &Target,
    cluster: &ClusterArgs,
    output: Output,
    wish: Wish,
) -> Result<Exit, Error> {
    let Wish {
        goal,
        limits,
        judgement: JudgementArgs { fail_fast, fail_on },
        logs,
    } = wish;
    let mut rollout = Rollout {
        planner,
        cluster: Cluster::new(cluster, target, Needs::Rollout),
        args: cluster,
        output,
        goal,
        fail_fast,
        asked: Asked {
            fail_on,
            previous: None,
        },
        ticker: Ticker::new(io::stdout(), output::is_live()),
        printed: None,
        uid: String::new(),
        progress: None,
        replica_set: String::new(),
    };
    let end = watch::watch(limits, &mut SystemClock::start(), &mut rollout);
    rollout.ticker.end().map_err(Error::Output)?;
    let End {
        exit,
        last,
        is_timeout,
    } = end?;
    let report = last.as_ref().and_then(|last| last.response.report.as_ref());
    if let (Output::Table, Some(report), true) = (output, report, exit != Exit::Done) {
        let blockers = output::page(|page| text::blockers_after_headline(page, report));
        output::write(blockers.as_bytes())?;
    }
    if let (true, Some(report)) = (logs && exit != Exit::Done, report) {
        rollout.print_log(report)?;
    }
    if is_timeout {
        let timeout = limits.timeout.map_or(0, |timeout| timeout.as_secs());
        let timeout = span::exact(timeout);
        if last.is_some() {
            stderr::eprint_note(format_args!("still in progress after {timeout}"));
        } else {
            stderr::eprint_note(format_args!("no answer within {timeout}"));
        }
    } else if exit == Exit::Going {
        let stalled = span::exact(STALLED_AFTER.as_secs());
        stderr::eprint_note(format_args!(
            "no progress for {stalled}, and no progress deadline that would end the rollout"
        ));
    }
    Ok(exit)
}

// === impl Rollout ===

impl Rollout<'_> {
    /// Whether the rollout has come to an end, good or bad.
    fn exit(&self, report: &proto::RolloutReport) -> Option<Exit> {
        let verdict = report.verdict.clone().unwrap_or_default();
        let is_observed = verdict.reason != "GENERATION_UNOBSERVED";
        let counts = report.counts.clone().unwrap_or_default();
        let is_reached = match self.goal {
            Goal::Complete => Exit::of(Some(report)) == Exit::Done,
            Goal::Available => is_observed && counts.available >= counts.desired,
            Goal::Updated => is_observed && counts.updated >= counts.desired,
            Goal::Deleted => return None,
        };
        if is_reached {
            return Some(Exit::Done);
        }
        let has_deadline_passed = || {
            let mut blockers = report.blockers.iter();
            blockers.any(|blocker| blocker.reason == "DEADLINE_EXCEEDED")
        };
        let ends = match (Exit::of(Some(report)), verdict.reason.as_str()) {
            // It ends with the Deployment.
            (_, "DELETING") => false,
            (Exit::Failed, "SELECTOR_EMPTY") => true,
            (Exit::Failed, _) => self.fail_fast == Switch::On || has_deadline_passed(),
            _ => false,
        };
        ends.then_some(Exit::Failed)
    }

    /// Whether nothing has changed for long, and no deadline ends the rollout.
    fn is_stalled(&mut self, report: &proto::RolloutReport, elapsed: Duration) -> bool {
        let progress = (report.counts.clone(), report.replica_set.clone());
        let since = match &self.progress {
            Some((last, since)) if *last == progress => *since,
            _ => {
                self.progress = Some((progress, elapsed));
                elapsed
            }
        };
        let verdict = report.verdict.as_ref();
        let has_end = report.deadline.is_some()
            || verdict.is_some_and(|verdict| verdict.decided_after.is_some());
        self.goal != Goal::Deleted && !has_end && elapsed.saturating_sub(since) >= STALLED_AFTER
    }

    /// Prints the last lines of the container that blocks the rollout.
    fn print_log(&self, report: &proto::RolloutReport) -> Result<(), Error> {
        let blocker = report.blockers.first();
        let pod = blocker.and_then(|blocker| blocker.pods.first());
        let Some(pod) = pod.filter(|pod| {
            let reason = blocker.map_or("", |blocker| blocker.reason.as_str());
            !pod.container.is_empty() && matches!(reason, "CRASH_LOOP" | "NOT_READY")
        }) else {
            return Ok(());
        };
        let is_restarted = pod.reason == "Running" && pod.restarts > 0;
        match self.cluster.log(&pod.name, &pod.container, is_restarted) {
            Ok(log) => {
                let text = output::page(|page| text::log(page, pod, &log));
                match self.output {
                    Output::Table => output::write(text.as_bytes()),
                    // Standard output has JSON or YAML only.
                    Output::Json | Output::Yaml => {
                        log.lines().for_each(stderr::eprint_note);
                        Ok(())
                    }
                }
            }
            Err(error) => {
                stderr::eprint_note(format_args!(
                    "no log of container {}: {error}",
                    pod.container
                ));
                Ok(())
            }
        }
    }
}

impl Observation for Rollout<'_> {
    type Observed = Status;

    fn poll(&mut self, limit: Option<Duration>) -> Result<Status, Error> {
        let start = Instant::now();
        let answers = input::Answers::default();
        let request = self.cluster.read(limit, None, answers)?;
        let left = limit.map(|limit| limit.saturating_sub(start.elapsed()));
        let mut status = observe(self.planner, &mut self.cluster, request, &self.asked, left)?;
        add_cluster(&mut status.response, self.args);
        Ok(status)
    }

    fn report(&mut self, status: &Status, elapsed: Duration) -> Result<Option<Exit>, Error> {
        let Status {
            subject,
            uid,
            response,
        } = status;
        let report = response.report.clone().unwrap_or_default();
        let is_another = !self.uid.is_empty() && self.uid != *uid;
        if is_another {
            self.ticker.end().map_err(Error::Output)?;
            stderr::eprint_note(format_args!(
                "{subject} was deleted and created again while waiting: its UID was {}, and is {uid} now",
                self.uid
            ));
        }
        self.uid.clone_from(uid);
        if is_another && self.goal == Goal::Deleted {
            return Ok(Some(Exit::Done));
        }
        // What failed before says nothing about another ReplicaSet.
        let is_same = !is_another && self.replica_set == report.replica_set;
        self.asked.previous = report.verdict.clone().filter(|_| is_same);
        self.replica_set.clone_from(&report.replica_set);
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
        let exit = self.exit(&report);
        let is_stalled = self.is_stalled(&report, elapsed);
        Ok(exit.or(is_stalled.then_some(Exit::Going)))
    }

    fn on_absence(&self) -> Option<Exit> {
        (self.goal == Goal::Deleted).then_some(Exit::Done)
    }

    fn report_error(&mut self, error: &Error) -> Result<(), Error> {
        // Below the line of the terminal that is written again and again.
        self.ticker.end().map_err(Error::Output)?;
        stderr::eprint_note(format_args!("poll failed: {error}"));
        Ok(())
    }
}
