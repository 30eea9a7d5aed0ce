//! Watches several rollouts together.

use std::cmp::Reverse;
use std::time::Duration;

use rollplan_text::{self as text, span};
use rollplan_wire::proto;

use super::decision::{Member, News, Outcome, STALLED_AFTER, worst};
use super::view::View;
use super::{End, Limits, Observation, SystemClock, Time, watch};
use crate::cli::cluster::{Fleet, Scope};
use crate::cli::course::Purposes;
use crate::cli::error::Error;
use crate::cli::exit::Exit;
use crate::cli::goal::Goal;
use crate::cli::interrupt::Interrupt;
use crate::cli::observe::{add_cluster, observe};
use crate::cli::options::{ClusterArgs, JudgementArgs, StatusOutput};
use crate::cli::planner::Planner;
use crate::cli::report::Reporter;
use crate::cli::resource::Resource;
use crate::cli::target::Target;
use crate::cli::{output, stderr};

/// The maximum number of names in a note.
const NAMES_MAX: usize = 20;

/// The goal and the options of a watch.
#[derive(Debug)]
pub(in crate::cli) struct WatchOptions {
    pub(in crate::cli) goal: Goal,
    /// Whether an object that is not judged counts.
    pub(in crate::cli) requires_judged: bool,
    pub(in crate::cli) limits: Limits,
    pub(in crate::cli) judgement: JudgementArgs,
    pub(in crate::cli) logs: bool,
    pub(in crate::cli) output: StatusOutput,
    /// Whether the view may be redrawn in place.
    pub(in crate::cli) live: bool,
    /// Ends the watch.
    pub(in crate::cli) interrupt: Interrupt,
}

/// Rollouts in a cluster, watched until all are decided.
pub(in crate::cli) struct Group<'a> {
    planner: &'a Planner,
    args: &'a ClusterArgs,
    options: WatchOptions,
    fleet: Fleet<'a>,
    /// Empty until the first poll has listed them.
    members: Vec<Member>,
    view: View,
    reporter: &'a mut Reporter,
}

// === impl Group ===

impl<'a> Group<'a> {
    pub(in crate::cli) fn new(
        planner: &'a Planner,
        args: &'a ClusterArgs,
        scope: Scope,
        options: WatchOptions,
        reporter: &'a mut Reporter,
    ) -> Self {
        let view = View::new(options.output, options.live);
        let mut fleet = Fleet::new(args, scope);
        fleet.keep_objects(matches!(options.goal, Goal::Field(_)));
        Self {
            planner,
            args,
            options,
            fleet,
            members: Vec::new(),
            view,
            reporter,
        }
    }

    /// Watches until all rollouts are decided, and prints changes.
    pub(in crate::cli) fn run(self) -> Result<Exit, Error> {
        self.run_with(&mut |_, _| {})
    }

    /// Like [`run`](Self::run). At the end, `on_end` is called for each Deployment whose rollout is complete or has failed,
    /// and whether it has failed.
    pub(in crate::cli) fn run_with(
        mut self,
        on_end: &mut dyn FnMut(&Target, bool),
    ) -> Result<Exit, Error> {
        self.reporter.section("rollplan_polls", "Rollouts", false)?;
        let end = watch(self.options.limits, &mut SystemClock::start(), &mut self);
        self.end_absences()?;
        self.view.end(&self.members)?;
        self.reporter.end_section()?;
        for member in &self.members {
            self.reporter.add(member.rollout_result());
        }
        let is_several = self.members.len() > 1;
        if !is_several
            && let Some(member) = self.members.first_mut()
            && let Some(Outcome::Error(_)) = &member.outcome
            && let Some(Outcome::Error(error)) = member.outcome.take()
        {
            return Err(error);
        }
        let exits: Vec<Exit> = self.members.iter().map(Member::result).collect();
        let exit = worst(&exits, self.options.requires_judged);
        self.print_causes()?;
        if self.is_interrupted() && !self.is_decided() {
            self.note_interrupt();
            return Ok(exit);
        }
        self.print_logs()?;
        match end {
            // The objects to wait for may never have existed.
            Err(Error::Absent(_)) if self.options.goal == Goal::Deleted => {}
            Err(error) if exit == Exit::Failed => stderr::eprint_error(&error.texts()),
            Err(error) => return Err(error),
            Ok(End::Timeout) => self.note_timeout(),
            Ok(End::Decided) => {}
        }
        self.note_stalled();
        self.note_failed();
        self.note_unmet();
        let targets = if self.members.is_empty() {
            &[]
        } else {
            self.fleet.targets(None)?
        };
        for (member, target) in self.members.iter().zip(targets) {
            let result = member.result();
            let is_ended = matches!(result, Exit::Done | Exit::Failed);
            if is_ended && target.resource == Resource::deployments() {
                on_end(target, result == Exit::Failed);
            }
        }
        self.reporter.note_skipped();
        Ok(exit)
    }

    /// Ends the watch of objects that do not exist: no time is left in which they could be created again.
    fn end_absences(&mut self) -> Result<(), Error> {
        let is_several = self.members.len() > 1;
        for index in self.undecided() {
            let member = &mut self.members[index];
            member.end_absence();
            show_end(index, member, is_several, &mut self.view)?;
        }
        Ok(())
    }

    fn undecided(&self) -> Vec<usize> {
        let members = self.members.iter().enumerate();
        members
            .filter(|(_, member)| member.outcome.is_none())
            .map(|(index, _)| index)
            .collect()
    }

    /// Prints the blockers of each incomplete rollout, and how to fix them. The most urgent ones come last: the end of the
    /// output stays on the screen.
    fn print_causes(&self) -> Result<(), Error> {
        if !self.options.output.is_text() {
            return Ok(());
        }
        let is_several = self.members.len() > 1;
        let is_live = self.view.is_live();
        let mut members: Vec<&Member> = self.members.iter().collect();
        members.sort_by_key(|member| Reverse(member.urgency()));
        let text = output::page(|page| {
            for member in members {
                let Some(report) = member.unfinished() else {
                    continue;
                };
                if is_several {
                    text::causes(page, Some(&member.subject), report, !is_live)
                } else {
                    text::causes(page, None, report, !is_live)
                }
            }
        });
        output::write(text.as_bytes())
    }

    /// Prints the last log lines of the containers that block rollouts.
    fn print_logs(&mut self) -> Result<(), Error> {
        if !self.options.logs {
            return Ok(());
        }
        for (index, member) in self.members.iter().enumerate() {
            let Some(pod) = member.unfinished().and_then(blocking_pod) else {
                continue;
            };
            let previous = match pod.log() {
                proto::ContainerLog::Current => false,
                proto::ContainerLog::Previous => true,
                proto::ContainerLog::Unspecified => {
                    stderr::eprint_note(format_args!(
                        "pod {} has no log that may show the problem",
                        pod.name
                    ));
                    continue;
                }
            };
            match self.fleet.log(index, &pod.name, &pod.container, previous) {
                Ok(log) if self.options.output.is_text() => {
                    let text = output::page(|page| text::log(page, pod, &log));
                    let title = format!("Log of pod {}", pod.name);
                    self.reporter.section("rollplan_log", &title, true)?;
                    output::write(text.as_bytes())?;
                    self.reporter.end_section()?;
                }
                // Standard output contains only JSON, YAML or names.
                Ok(log) => {
                    let excerpt = text::LogExcerpt::of(&log);
                    excerpt.lines.iter().for_each(stderr::eprint_note);
                }
                Err(error) => stderr::eprint_note(format_args!(
                    "cannot read the log of container {}: {error}",
                    pod.container
                )),
            }
        }
        Ok(())
    }

    fn note_interrupt(&self) {
        match self.members.len() {
            0 => stderr::eprint_note("interrupted"),
            1 => stderr::eprint_note("interrupted: still in progress"),
            count => stderr::eprint_note(format_args!(
                "interrupted: {} of {count} still in progress",
                self.undecided().len()
            )),
        }
    }

    fn note_timeout(&self) {
        let timeout = self
            .options
            .limits
            .timeout
            .map_or(0, |timeout| timeout.as_secs());
        let timeout = span::exact(timeout);
        let undecided = self.undecided();
        match self.members.len() {
            count if count > 1 && undecided.is_empty() => {}
            0 | 1 if self.members.iter().all(|member| member.last.is_none()) => {
                stderr::eprint_note(format_args!("no answer within {timeout}"));
            }
            1 => stderr::eprint_note(format_args!("still in progress after {timeout}")),
            count => stderr::eprint_note(format_args!(
                "{} of {count} still in progress after {timeout}",
                undecided.len()
            )),
        }
    }

    /// Notes the actual values of objects that do not have the value to wait for.
    fn note_unmet(&self) {
        for member in self.members.iter().filter(|member| !member.is_done()) {
            if let (Goal::Field(field), Some(unmet)) = (&member.goal, &member.unmet) {
                stderr::eprint_note(format_args!(
                    "{}: {field} is not met: {unmet}",
                    member.subject
                ));
            }
        }
    }

    /// Names those of several objects that have failed, if their causes may have left the screen.
    fn note_failed(&self) {
        if !self.view.is_live() {
            return;
        }
        let failed = self.members.iter().filter(|it| it.result() == Exit::Failed);
        let failed: Vec<&str> = failed.map(|member| member.subject.as_str()).collect();
        let count = self.members.len();
        if count > 1 && !failed.is_empty() {
            let listed = listed(&failed);
            stderr::eprint_note(format_args!("{} of {count} failed: {listed}", failed.len()));
        }
    }

    fn note_stalled(&self) {
        let stalled = self
            .members
            .iter()
            .filter(|member| matches!(member.outcome, Some(Outcome::Stalled)));
        for member in stalled {
            stderr::eprint_note(stalled_note(&member.subject, self.members.len()));
        }
    }
}

/// The note about one of several objects whose watch ended for lack of progress.
fn stalled_note(subject: &str, count: usize) -> String {
    let span = span::exact(STALLED_AFTER.as_secs());
    let subject = match count {
        1 => String::new(),
        _ => format!("{subject}: "),
    };
    format!("{subject}no progress for {span}, and the rollout has no progress deadline")
}

/// The first names of a list.
fn listed(names: &[&str]) -> String {
    let (shown, others) = names.split_at(names.len().min(NAMES_MAX));
    match others.len() {
        0 => shown.join(", "),
        others => format!("{}, and {others} more", shown.join(", ")),
    }
}

impl Observation for Group<'_> {
    fn poll(&mut self, time: Time<'_>) -> Result<(), Error> {
        let targets = self.fleet.targets(time.limit())?;
        if self.members.is_empty() {
            let names = names(targets, self.args);
            let WatchOptions {
                goal,
                judgement,
                limits,
                ..
            } = &self.options;
            let has_timeout = limits.timeout.is_some();
            self.members = names
                .iter()
                .map(|name| Member::new(name, goal.clone(), judgement, has_timeout))
                .collect();
            self.view.begin(names)?;
        }
        let undecided = self.undecided();
        let Self {
            planner,
            args,
            options,
            fleet,
            members,
            view,
            reporter,
            ..
        } = self;
        let is_several = members.len() > 1;
        let purposes = Purposes {
            shows_time_left: view.shows_tree(),
            reports_start: reporter.draws(),
        };
        let wants_tree = view.shows_tree() || reporter.draws();
        fleet.read_trees(wants_tree);
        let mut absent = Vec::new();
        let read = fleet.read(&undecided, None, &|| time.limit(), &mut |index, read, events| {
            let member = &mut members[index];
            let read = match read {
                Err(Error::Absent(text)) if member.may_return() => {
                    absent.push((index, text));
                    return Ok(());
                }
                read => read,
            };
            // Cloning shares the texts of the objects.
            let snapshot = read.as_ref().ok().filter(|it| purposes.apply_to(it));
            let snapshot = snapshot.map(|request| request.snapshot.clone());
            let status = read.and_then(|request| {
                observe(planner, request, &member.options, wants_tree, events)
            });
            member.elapsed = time.elapsed();
            match status {
                Ok(mut status) => {
                    add_cluster(&mut status.response, args);
                    let news = member.take(status, time.elapsed());
                    if let News::Recreated(former, uid) = news {
                        view.pause()?;
                        stderr::eprint_note(format_args!(
                            "{} was deleted and created again while waiting: its UID was {former}, and is {uid} now",
                            member.subject
                        ));
                    }
                    member.forecast(planner, snapshot, purposes);
                    view.observed(index, member)
                }
                // A terminal sends the signal to kubectl, too.
                Err(_) if options.interrupt.is_requested() => Ok(()),
                Err(error) => take_error(member, error, time, view)
                    .and_then(|()| show_end(index, member, is_several, view)),
            }
        });
        read?;
        for (index, text) in absent {
            let member = &mut members[index];
            let end = match member.job_uid() {
                Some(uid) => fleet.job_end(index, uid, time.limit()),
                None => Ok(None),
            };
            match end {
                Ok(end) => {
                    let note = format!(
                        "{text}: it counts as deleted if it is not created again within {}",
                        span::exact(member.deleted_after.as_secs())
                    );
                    if member.take_absence(text, end, time.elapsed()) {
                        view.pause()?;
                        stderr::eprint_note(note);
                    }
                }
                Err(error) => take_error(member, error, time, view)?,
            }
            member.elapsed = time.elapsed();
            show_end(index, member, is_several, view)?;
        }
        self.view.draw(&self.members, time.elapsed())
    }

    fn is_decided(&self) -> bool {
        !self.members.is_empty() && self.undecided().is_empty()
    }

    fn is_interrupted(&self) -> bool {
        self.options.interrupt.is_requested()
    }

    fn report_error(&mut self, error: &Error) -> Result<(), Error> {
        self.view.pause()?;
        stderr::eprint_note(format_args!("poll failed: {error}"));
        Ok(())
    }

    fn tick(&mut self, elapsed: Duration) -> Result<(), Error> {
        self.view.draw(&self.members, elapsed)
    }
}

/// Handles a failed poll of one object, with a note if it is repeated.
fn take_error(
    member: &mut Member,
    error: Error,
    time: Time<'_>,
    view: &mut View,
) -> Result<(), Error> {
    if let Some(error) = member.take_error(error, time) {
        view.pause()?;
        stderr::eprint_note(format_args!("poll failed: {error}"));
    }
    Ok(())
}

/// Shows the result for an object that was never read, if its watch has ended.
fn show_end(index: usize, member: &Member, is_several: bool, view: &mut View) -> Result<(), Error> {
    match &member.outcome {
        Some(Outcome::Error(error)) if is_several => {
            view.pause()?;
            stderr::eprint_error(&error.texts());
            Ok(())
        }
        // The error is printed when the command ends.
        Some(Outcome::Error(_)) | None => Ok(()),
        Some(_) => view.observed(index, member),
    }
}

/// The names of objects before they are read, with their kinds unless all have the same kind.
fn names(targets: &[Target], args: &ClusterArgs) -> Vec<String> {
    let is_mixed = targets
        .iter()
        .any(|target| target.resource != targets[0].resource);
    let name = |target: &Target| {
        let namespace = target.namespace.as_ref().or(args.namespace.as_ref());
        let name = match namespace {
            Some(namespace) if !target.resource.is_cluster_scoped() => {
                format!("{namespace}/{}", target.name)
            }
            _ => target.name.clone(),
        };
        if is_mixed {
            format!("{} {name}", target.resource)
        } else {
            name
        }
    };
    targets.iter().map(name).collect()
}

/// The first pod that blocks a rollout.
fn blocking_pod(report: &proto::RolloutReport) -> Option<&proto::BlockedPod> {
    report.blockers.first()?.pods.first()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_of_names_are_cut() {
        assert_eq!(listed(&["a", "b"]), "a, b");
        let names = ["x"; NAMES_MAX + 3];
        let listed = listed(&names);
        assert_eq!(listed.matches('x').count(), NAMES_MAX, "{listed}");
        assert!(listed.ends_with(", and 3 more"), "{listed}");
    }

    #[test]
    fn stalled_objects_are_named_if_there_are_several() {
        let text = "no progress for 10m, and the rollout has no progress deadline";
        assert_eq!(stalled_note("Deployment shop/web", 1), text);
        let expected = format!("Deployment shop/web: {text}");
        assert_eq!(stalled_note("Deployment shop/web", 2), expected);
    }
}
