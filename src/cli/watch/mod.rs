//! Polling until a rollout ends.

pub(super) mod rollout;

use std::io::{self, Write};
use std::time::{Duration, Instant};

use crate::cli::error::Error;
use crate::cli::exit::Exit;
use crate::proto::RolloutReport;

/// Polls in a row that may fail for want of an answer: API servers are restarted, too.
const MAX_CONSECUTIVE_ERRORS: usize = 5;

/// How long to poll, and how often.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) interval: Duration,
    /// `None` polls until the rollout ends.
    pub(super) timeout: Option<Duration>,
}

/// A clock.
pub(super) trait Clock {
    /// Time since it was started.
    fn elapsed(&self) -> Duration;
    /// Waits.
    fn sleep(&mut self, span: Duration);
}

/// The clock of the system.
#[derive(Debug)]
pub(super) struct SystemClock(Instant);

/// Something that is polled.
pub(super) trait Observation {
    /// What a poll returns.
    type Observed;
    /// Polls once, within the limit if there is one.
    fn poll(&mut self, limit: Option<Duration>) -> Result<Self::Observed, Error>;
    /// Reports what was observed so long after the start. An exit code ends the watch.
    fn report(
        &mut self,
        observed: &Self::Observed,
        elapsed: Duration,
    ) -> Result<Option<Exit>, Error>;
    /// How to end if what is watched does not exist (any more). `None` if that is an error.
    fn on_absence(&self) -> Option<Exit> {
        None
    }
    /// Reports a poll that failed and is repeated.
    fn report_error(&mut self, error: &Error) -> Result<(), Error>;
}

/// How a watch has ended.
#[derive(Debug)]
pub(super) struct End<O> {
    pub(super) exit: Exit,
    /// What was observed last. `None` if no poll succeeded in time.
    pub(super) last: Option<O>,
    pub(super) is_timeout: bool,
}

/// Polls until the rollout ends or the timeout expires.
pub(super) fn watch<O: Observation>(
    limits: Limits,
    clock: &mut impl Clock,
    observation: &mut O,
) -> Result<End<O::Observed>, Error> {
    let Limits { interval, timeout } = limits;
    let left = |clock: &dyn Clock| timeout.map(|timeout| timeout.saturating_sub(clock.elapsed()));
    let is_over = |clock: &dyn Clock| left(clock).is_some_and(|left| left.is_zero());
    let mut last = None;
    let mut errors = 0;
    loop {
        // A timeout of zero polls once: only the limits of kubectl itself count then.
        match observation.poll(left(clock).filter(|left| !left.is_zero())) {
            Ok(observed) => {
                errors = 0;
                let exit = observation.report(&observed, clock.elapsed())?;
                last = Some(observed);
                if let Some(exit) = exit {
                    return Ok(End {
                        exit,
                        last,
                        is_timeout: false,
                    });
                }
            }
            Err(Error::Absent(text)) => {
                if let Some(exit) = observation.on_absence() {
                    return Ok(End {
                        exit,
                        last,
                        is_timeout: false,
                    });
                }
                return Err(match last {
                    Some(_) => Error::Gone(text),
                    None => Error::Absent(text),
                });
            }
            Err(error) if error.is_transient() => {
                errors += 1;
                if errors >= MAX_CONSECUTIVE_ERRORS && !is_over(clock) {
                    return Err(error);
                }
                observation.report_error(&error)?;
            }
            Err(error) => return Err(error),
        }
        clock.sleep(left(clock).map_or(interval, |left| interval.min(left)));
        if is_over(clock) {
            return Ok(End {
                exit: Exit::Going,
                last,
                is_timeout: true,
            });
        }
    }
}

/// Prints the progress of a rollout: on a terminal as one line that is overwritten, in a log line by line.
#[derive(Debug)]
pub(super) struct Ticker<W> {
    out: W,
    is_live: bool,
    reported: Option<(RolloutReport, String)>,
}

// === impl SystemClock ===

impl SystemClock {
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }
}

impl Clock for SystemClock {
    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    fn sleep(&mut self, span: Duration) {
        std::thread::sleep(span);
    }
}

// === impl Ticker ===

impl<W: Write> Ticker<W> {
    pub(super) fn new(out: W, is_live: bool) -> Self {
        Self {
            out,
            is_live,
            reported: None,
        }
    }

    /// Prints a line about the report. In a log, only if something other than times has changed.
    pub(super) fn report(&mut self, report: &RolloutReport, line: &str) -> io::Result<()> {
        let key = without_times(report);
        let is_known = self
            .reported
            .as_ref()
            .is_some_and(|(last, last_line)| last_line == line || !self.is_live && *last == key);
        if is_known {
            return Ok(());
        }
        if self.is_live {
            // Over the line before, and never longer than the terminal is wide: wrapping is off meanwhile.
            write!(self.out, "\r\u{1b}[2K\u{1b}[?7l{line}\u{1b}[?7h")?;
        } else {
            writeln!(self.out, "{line}")?;
        }
        self.reported = Some((key, line.to_owned()));
        self.out.flush()
    }

    /// Prints the last line in full.
    pub(super) fn end(&mut self) -> io::Result<()> {
        if let (true, Some((_, line))) = (self.is_live, self.reported.take()) {
            writeln!(self.out, "\r\u{1b}[2K{line}")?;
        }
        self.out.flush()
    }
}

/// A report without times and texts, which change all the time.
fn without_times(report: &RolloutReport) -> RolloutReport {
    let mut report = report.clone();
    report.message.clear();
    if let Some(verdict) = &mut report.verdict {
        verdict.message.clear();
        verdict.decided_after = None;
        verdict.since = None;
    }
    report.reasons.clear();
    report.deadline = None;
    for blocker in &mut report.blockers {
        blocker.message.clear();
        blocker.since = None;
        blocker.remaining = None;
        for pod in &mut blocker.pods {
            pod.message.clear();
            pod.since = None;
        }
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::Phase;

    /// Advances only when it is told to.
    #[derive(Default)]
    struct TestClock(Duration);

    impl Clock for TestClock {
        fn elapsed(&self) -> Duration {
            self.0
        }

        fn sleep(&mut self, span: Duration) {
            self.0 += span;
        }
    }

    /// Returns what it was given, one poll after the other.
    struct Script {
        polls: std::vec::IntoIter<Result<Exit, Error>>,
        limits: Vec<Option<u64>>,
        reports: usize,
        errors: usize,
    }

    impl Observation for Script {
        type Observed = Exit;

        fn poll(&mut self, limit: Option<Duration>) -> Result<Exit, Error> {
            self.limits.push(limit.map(|limit| limit.as_secs()));
            self.polls.next().unwrap_or(Ok(Exit::Going))
        }

        fn report(&mut self, observed: &Exit, _: Duration) -> Result<Option<Exit>, Error> {
            self.reports += 1;
            Ok(Some(*observed).filter(|exit| *exit != Exit::Going))
        }

        fn report_error(&mut self, _: &Error) -> Result<(), Error> {
            self.errors += 1;
            Ok(())
        }
    }

    struct Ending {
        result: Result<End<Exit>, Error>,
        script: Script,
        seconds: u64,
    }

    impl Ending {
        fn exit(&self) -> Exit {
            match &self.result {
                Ok(End { exit, .. }) => *exit,
                Err(error) => error.exit(),
            }
        }
    }

    fn run(polls: Vec<Result<Exit, Error>>, timeout: Option<u64>) -> Ending {
        let mut clock = TestClock::default();
        let mut script = Script {
            polls: polls.into_iter(),
            limits: Vec::new(),
            reports: 0,
            errors: 0,
        };
        let limits = Limits {
            interval: Duration::from_secs(2),
            timeout: timeout.map(Duration::from_secs),
        };
        let result = watch(limits, &mut clock, &mut script);
        Ending {
            result,
            script,
            seconds: clock.0.as_secs(),
        }
    }

    fn unreachable() -> Result<Exit, Error> {
        Err(Error::Unreachable {
            server: "http://x".to_owned(),
            reason: "refused".to_owned(),
        })
    }

    fn absent() -> Result<Exit, Error> {
        Err(Error::Absent("no web".to_owned()))
    }

    #[test]
    fn ends_with_the_rollout() {
        for exit in [Exit::Done, Exit::Failed] {
            for timeout in [None, Some(5), Some(600)] {
                let end = run(vec![Ok(Exit::Going), Ok(Exit::Going), Ok(exit)], timeout);
                assert_eq!((end.exit(), end.script.reports, end.seconds), (exit, 3, 4));
            }
        }
    }

    #[test]
    fn ends_with_the_timeout() {
        for (timeout, reports) in [(0, 1), (1, 1), (2, 1), (5, 3), (600, 300)] {
            let end = run(vec![], Some(timeout));
            assert_eq!(
                (end.exit(), end.script.reports, end.seconds),
                (Exit::Going, reports, timeout)
            );
        }
    }

    #[test]
    fn polls_are_limited_to_the_time_left() {
        let end = run(vec![], Some(5));
        assert_eq!(end.script.limits, [Some(5), Some(3), Some(1)]);
        assert_eq!(run(vec![], Some(0)).script.limits, [None]);
        let end = run(vec![Ok(Exit::Going), Ok(Exit::Done)], None);
        assert_eq!(end.script.limits, [None, None]);
    }

    #[test]
    fn failed_polls_are_repeated() {
        // Also the first.
        let mut polls: Vec<_> = (0..4).map(|_| unreachable()).collect();
        polls.push(Ok(Exit::Going));
        polls.extend((0..4).map(|_| unreachable()));
        polls.push(Ok(Exit::Done));
        let end = run(polls, None);
        assert_eq!((end.exit(), end.script.reports), (Exit::Done, 2));
        assert_eq!(end.script.errors, 8);
        for first in [None, Some(Ok(Exit::Going))] {
            let polls = first.into_iter().chain((0..9).map(|_| unreachable()));
            let end = run(polls.collect(), None);
            assert_eq!(end.exit(), Exit::Unreachable);
            assert!(end.result.is_err());
            // The last one is the error that is printed.
            assert_eq!(end.script.errors, 4);
        }
    }

    #[test]
    fn the_timeout_expires_while_polls_fail() {
        for (first, last) in [(None, None), (Some(Ok(Exit::Going)), Some(Exit::Going))] {
            let polls = first.into_iter().chain((0..9).map(|_| unreachable()));
            let end = run(polls.collect(), Some(3));
            assert!(
                matches!(end.result, Ok(End { exit: Exit::Going, last: it, is_timeout: true }) if it == last)
            );
            assert_eq!(end.seconds, 3);
        }
    }

    #[test]
    fn other_errors_end_the_watch() {
        for first in [None, Some(Ok(Exit::Going))] {
            let polls = first
                .into_iter()
                .chain([Err(Error::Usage("no".to_owned()))]);
            let end = run(polls.collect(), Some(600));
            assert_eq!(end.exit(), Exit::Usage);
            assert_eq!(end.script.errors, 0);
        }
    }

    #[test]
    fn a_deployment_that_is_deleted_has_failed_and_one_that_never_was_is_a_mistake() {
        assert_eq!(run(vec![absent()], Some(600)).exit(), Exit::Usage);
        let end = run(vec![Ok(Exit::Going), absent()], Some(600));
        assert_eq!(end.exit(), Exit::Failed);
        assert!(matches!(end.result, Err(Error::Gone(_))));
    }

    fn printed(is_live: bool, lines: &[(Phase, i32, &str)]) -> String {
        let mut ticker = Ticker::new(Vec::new(), is_live);
        for (phase, ready, line) in lines {
            let report = RolloutReport {
                phase: (*phase).into(),
                message: (*line).to_owned(),
                counts: Some(crate::proto::Counts {
                    ready: *ready,
                    ..Default::default()
                }),
                ..Default::default()
            };
            ticker.report(&report, line).unwrap();
        }
        ticker.end().unwrap();
        String::from_utf8(ticker.out).unwrap()
    }

    #[test]
    fn a_log_has_what_changes_and_a_terminal_the_time_too() {
        let lines = [
            (Phase::Progressing, 0, "starting for 1s"),
            (Phase::Progressing, 0, "starting for 3s"),
            (Phase::Progressing, 0, "starting for 3s"),
            (Phase::Progressing, 1, "one is ready"),
            (Phase::Complete, 2, "complete"),
        ];
        assert_eq!(
            printed(false, &lines),
            "starting for 1s\none is ready\ncomplete\n"
        );
        let live: String = [
            "starting for 1s",
            "starting for 3s",
            "one is ready",
            "complete",
        ]
        .map(|line| format!("\r\u{1b}[2K\u{1b}[?7l{line}\u{1b}[?7h"))
        .concat();
        assert_eq!(printed(true, &lines), live + "\r\u{1b}[2Kcomplete\n");
        assert_eq!(printed(true, &[]), "");
    }
}
