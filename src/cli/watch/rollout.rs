//! One rollout that is watched until it ends.

use std::io;
use std::time::{Duration, Instant};

use super::{End, Limits, Observation, SystemClock, Ticker, without_times};
use crate::cli::cluster::{Cluster, Needs};
use crate::cli::error::Error;
use crate::cli::exit::Exit;
use crate::cli::observe::{Asked, Status, add_cluster, observe};
use crate::cli::options::{ClusterArgs, Goal, JudgementArgs, Output, Switch};
use crate::cli::planner::Planner;
use crate::cli::target::Target;
use crate::cli::{input, output, stderr};
use crate::proto;
use crate::text::{self, one_line, span};

/// How long a rollout without a deadline may stand still.
const STALLED_AFTER: Duration = Duration::from_secs(600);

/// What to wait for, and how.
#[derive(Debug)]
pub(in crate::cli) struct Wish {
    pub(in crate::cli) goal: Goal,
    pub(in crate::cli) limits: Limits,
    pub(in crate::cli) judgement: JudgementArgs,
    pub(in crate::cli) logs: bool,
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

/// Watches a rollout until it ends, and prints what changes.
pub(in crate::cli) fn watch(
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
    let end = super::watch(limits, &mut SystemClock::start(), &mut rollout);
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
                let key = without_times(&report);
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
