//! Looking again and again, until there is nothing more to wait for.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use super::error::Error;
use super::exit::Exit;
use crate::proto::RolloutReport;

/// Looks in a row that may fail for want of an answer, once one has come: servers are restarted, too.
const MISSES_MAX: usize = 3;

/// How long to look, and how often.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) interval: Duration,
    /// `None` looks until it ends.
    pub(super) timeout: Option<Duration>,
}

/// Time that passes.
pub(super) trait Clock {
    /// How long it has run.
    fn elapsed(&self) -> Duration;
    /// Lets some pass.
    fn sleep(&mut self, span: Duration);
}

/// The machine's.
#[derive(Debug)]
pub(super) struct SystemClock(Instant);

/// What there is to see, and when to stop.
pub(super) trait Sight {
    /// What a look gives.
    type Seen;
    /// Looks once.
    fn look(&mut self) -> Result<Self::Seen, Error>;
    /// Tells of it. The rollout is still going unless this says otherwise.
    fn tell(&mut self, seen: &Self::Seen) -> Result<Exit, Error>;
}

/// Looks until the rollout has come to an end or the time is over, and gives what was seen last.
pub(super) fn watch<S: Sight>(
    limits: Limits,
    clock: &mut impl Clock,
    sight: &mut S,
) -> Result<(Exit, S::Seen), Error> {
    let Limits { interval, timeout } = limits;
    let mut last = None;
    let mut misses = 0;
    loop {
        match sight.look() {
            Ok(seen) => {
                misses = 0;
                let exit = sight.tell(&seen)?;
                if exit != Exit::Going {
                    return Ok((exit, seen));
                }
                last = Some(seen);
            }
            Err(Error::Absent(text)) if last.is_some() => return Err(Error::Gone(text)),
            Err(error) if last.is_some() && error.exit() == Exit::Unreachable => {
                misses += 1;
                if misses >= MISSES_MAX {
                    return Err(error);
                }
            }
            Err(error) => return Err(error),
        }
        let mut span = interval;
        if let Some(timeout) = timeout {
            let left = timeout.saturating_sub(clock.elapsed());
            match last {
                Some(seen) if left.is_zero() => return Ok((Exit::Going, seen)),
                _ => span = span.min(left),
            }
        }
        clock.sleep(span);
    }
}

/// Tells how a rollout goes on, a line at a time: one that is overwritten on a terminal, and one after the other
/// in a log.
#[derive(Debug)]
pub(super) struct Ticker<W> {
    out: W,
    is_live: bool,
    told: Option<(RolloutReport, String)>,
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
            told: None,
        }
    }

    /// Says where the rollout stands, in the line given. In a log only if something has changed but times.
    pub(super) fn tell(&mut self, report: &RolloutReport, line: &str) -> io::Result<()> {
        let key = without_times(report);
        let is_known = self
            .told
            .as_ref()
            .is_some_and(|(told, told_line)| told_line == line || !self.is_live && *told == key);
        if is_known {
            return Ok(());
        }
        if self.is_live {
            // Over the line before, and never longer than the terminal is wide: wrapping is off meanwhile.
            write!(self.out, "\r\u{1b}[2K\u{1b}[?7l{line}\u{1b}[?7h")?;
        } else {
            writeln!(self.out, "{line}")?;
        }
        self.told = Some((key, line.to_owned()));
        self.out.flush()
    }

    /// Leaves the last line, now in full.
    pub(super) fn end(&mut self) -> io::Result<()> {
        if let (true, Some((_, line))) = (self.is_live, self.told.take()) {
            writeln!(self.out, "\r\u{1b}[2K{line}")?;
        }
        self.out.flush()
    }
}

/// What is left of a report without that which changes all the time.
pub(super) fn without_times(report: &RolloutReport) -> RolloutReport {
    let mut report = report.clone();
    report.message.clear();
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

    /// Passes only when it is told to.
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

    /// Sees what it was given, one after the other.
    struct Script {
        looks: std::vec::IntoIter<Result<Exit, Error>>,
        told: usize,
    }

    impl Sight for Script {
        type Seen = Exit;

        fn look(&mut self) -> Result<Exit, Error> {
            self.looks.next().unwrap_or(Ok(Exit::Going))
        }

        fn tell(&mut self, seen: &Exit) -> Result<Exit, Error> {
            self.told += 1;
            Ok(*seen)
        }
    }

    fn run(
        looks: Vec<Result<Exit, Error>>,
        timeout: Option<u64>,
    ) -> (Result<Exit, Error>, usize, u64) {
        let mut clock = TestClock::default();
        let mut script = Script {
            looks: looks.into_iter(),
            told: 0,
        };
        let limits = Limits {
            interval: Duration::from_secs(2),
            timeout: timeout.map(Duration::from_secs),
        };
        let end = watch(limits, &mut clock, &mut script).map(|(exit, _)| exit);
        (end, script.told, clock.0.as_secs())
    }

    fn miss() -> Result<Exit, Error> {
        Err(Error::Kubectl {
            command: "kubectl get".to_owned(),
            reason: "exit status: 1".to_owned(),
        })
    }

    fn absent() -> Result<Exit, Error> {
        Err(Error::Absent("no web".to_owned()))
    }

    #[test]
    fn it_ends_with_the_rollout() {
        for end in [Exit::Done, Exit::Failed] {
            let looks = || vec![Ok(Exit::Going), Ok(Exit::Going), Ok(end)];
            for timeout in [None, Some(4), Some(600)] {
                let (exit, told, seconds) = run(looks(), timeout);
                assert_eq!((exit.unwrap(), told, seconds), (end, 3, 4));
            }
        }
    }

    #[test]
    fn it_ends_with_the_time() {
        for (timeout, told) in [(0, 1), (1, 2), (2, 2), (5, 4), (600, 301)] {
            let (exit, times, seconds) = run(vec![], Some(timeout));
            assert_eq!(
                (exit.unwrap(), times, seconds),
                (Exit::Going, told, timeout)
            );
        }
    }

    #[test]
    fn short_failures_pass() {
        let (exit, told, _) = run(
            vec![
                Ok(Exit::Going),
                miss(),
                miss(),
                Ok(Exit::Going),
                miss(),
                Ok(Exit::Done),
            ],
            None,
        );
        assert_eq!((exit.unwrap(), told), (Exit::Done, 3));
        let (exit, ..) = run(vec![Ok(Exit::Going), miss(), miss(), miss()], None);
        assert_eq!(exit.unwrap_err().exit(), Exit::Unreachable);
        let (exit, ..) = run(vec![miss(), Ok(Exit::Done)], None);
        assert_eq!(exit.unwrap_err().exit(), Exit::Unreachable);
    }

    #[test]
    fn what_is_deleted_has_failed_and_what_never_was_is_a_mistake() {
        let (exit, ..) = run(vec![absent()], Some(600));
        assert_eq!(exit.unwrap_err().exit(), Exit::Usage);
        let (exit, ..) = run(vec![Ok(Exit::Going), absent()], Some(600));
        assert_eq!(exit.unwrap_err().exit(), Exit::Failed);
    }

    fn told(is_live: bool, lines: &[(Phase, i32, &str)]) -> String {
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
            ticker.tell(&report, line).unwrap();
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
            told(false, &lines),
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
        assert_eq!(told(true, &lines), live + "\r\u{1b}[2Kcomplete\n");
        assert_eq!(told(true, &[]), "");
    }
}
