//! Polls rollouts until they are decided.

mod absence;
mod decision;
mod group;
mod view;

use std::time::{Duration, Instant};

pub(super) use self::decision::worst;
pub(super) use self::group::{Group, WatchOptions};
pub(super) use self::view::tree_text;

use super::error::Error;

/// The maximum number of consecutive temporary errors: API servers may restart.
const MAX_CONSECUTIVE_ERRORS: usize = 5;

/// How often a live view updates the elapsed time.
const TICK: Duration = Duration::from_secs(1);

/// The timeout of a watch and its polling interval.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) interval: Duration,
    /// `None` polls until all rollouts are decided.
    pub(super) timeout: Option<Duration>,
}

/// A clock.
pub(super) trait Clock {
    /// The time since the clock was started.
    fn elapsed(&self) -> Duration;
    /// Waits for the given time.
    fn sleep(&mut self, span: Duration);
}

/// The clock of the system.
#[derive(Debug)]
pub(super) struct SystemClock(Instant);

/// The elapsed time and the timeout of a watch.
#[derive(Clone, Copy)]
pub(super) struct Time<'c> {
    clock: &'c dyn Clock,
    timeout: Option<Duration>,
}

/// The objects of a watch.
pub(super) trait Observation {
    /// Polls all undecided objects once. An error applies to all of them.
    fn poll(&mut self, time: Time<'_>) -> Result<(), Error>;
    /// Whether everything is decided.
    fn is_decided(&self) -> bool;
    /// Whether the watch was interrupted. It ends then, and errors do not count.
    fn is_interrupted(&self) -> bool {
        false
    }
    /// Reports an error after which the poll is repeated.
    fn report_error(&mut self, error: &Error) -> Result<(), Error>;
    /// Called regularly between two polls.
    fn tick(&mut self, elapsed: Duration) -> Result<(), Error>;
    /// How long polls may fail at least before the watch ends.
    fn patience(&self) -> Duration {
        Duration::ZERO
    }
    /// The time until the next poll, if it is shorter than the polling interval.
    fn poll_within(&self) -> Option<Duration> {
        None
    }
}

/// Why a watch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Everything is decided, or the watch was interrupted.
    Decided,
    Timeout,
}

/// The number of consecutive temporary errors, and when the first of them occurred.
#[derive(Debug, Default)]
struct Failures {
    in_a_row: usize,
    since: Option<Duration>,
}

/// Polls until everything is decided or the timeout expires.
pub(super) fn watch(
    limits: Limits,
    clock: &mut impl Clock,
    observation: &mut impl Observation,
) -> Result<End, Error> {
    let Limits { interval, timeout } = limits;
    let mut failures = Failures::default();
    loop {
        let time = Time { clock, timeout };
        match observation.poll(time) {
            Ok(()) => failures.reset(),
            Err(_) if observation.is_interrupted() => {}
            Err(error) => {
                let error = failures.take(error, time, observation.patience())?;
                observation.report_error(&error)?;
            }
        }
        if observation.is_decided() || observation.is_interrupted() {
            return Ok(End::Decided);
        }
        let interval = interval.min(observation.poll_within().unwrap_or(interval));
        let next = clock.elapsed() + interval.min(time_left(clock, timeout).unwrap_or(interval));
        loop {
            let left = next.saturating_sub(clock.elapsed());
            clock.sleep(left.min(TICK));
            if left <= TICK {
                break;
            }
            observation.tick(clock.elapsed())?;
            if observation.is_decided() || observation.is_interrupted() {
                return Ok(End::Decided);
            }
        }
        if (Time { clock, timeout }).is_over() {
            return Ok(End::Timeout);
        }
    }
}

fn time_left(clock: &dyn Clock, timeout: Option<Duration>) -> Option<Duration> {
    timeout.map(|timeout| timeout.saturating_sub(clock.elapsed()))
}

// === impl Time ===

impl Time<'_> {
    pub(super) fn elapsed(self) -> Duration {
        self.clock.elapsed()
    }

    /// The time limit of a poll. With a timeout of zero, there is one poll, with only kubectl's own limits.
    pub(super) fn limit(self) -> Option<Duration> {
        time_left(self.clock, self.timeout).filter(|left| !left.is_zero())
    }

    fn is_over(self) -> bool {
        time_left(self.clock, self.timeout).is_some_and(|left| left.is_zero())
    }
}

// === impl Failures ===

impl Failures {
    fn reset(&mut self) {
        *self = Self::default();
    }

    /// Returns the error if the poll is to be repeated, and fails with it otherwise.
    fn take(&mut self, error: Error, time: Time<'_>, patience: Duration) -> Result<Error, Error> {
        if !error.is_transient() {
            return Err(error);
        }
        self.in_a_row += 1;
        let elapsed = time.elapsed();
        let failing = elapsed.saturating_sub(*self.since.get_or_insert(elapsed));
        let are_many = self.in_a_row >= MAX_CONSECUTIVE_ERRORS && failing >= patience;
        if are_many && !time.is_over() {
            Err(error)
        } else {
            Ok(error)
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::exit::Exit;

    /// A clock that advances only when the test sleeps.
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

    /// Returns the given results, one per poll.
    struct ScriptedPolls {
        polls: std::vec::IntoIter<Result<Exit, Error>>,
        limits: Vec<Option<u64>>,
        patience: Duration,
        last: Option<Exit>,
        answers: usize,
        errors: usize,
        ticks: usize,
    }

    impl Observation for ScriptedPolls {
        fn poll(&mut self, time: Time<'_>) -> Result<(), Error> {
            self.limits.push(time.limit().map(|limit| limit.as_secs()));
            let exit = self.polls.next().unwrap_or(Ok(Exit::Going))?;
            self.answers += 1;
            self.last = Some(exit);
            Ok(())
        }

        fn is_decided(&self) -> bool {
            self.last.is_some_and(|exit| exit != Exit::Going)
        }

        fn report_error(&mut self, _: &Error) -> Result<(), Error> {
            self.errors += 1;
            Ok(())
        }

        fn tick(&mut self, _: Duration) -> Result<(), Error> {
            self.ticks += 1;
            Ok(())
        }

        fn patience(&self) -> Duration {
            self.patience
        }
    }

    struct Ending {
        result: Result<End, Error>,
        script: ScriptedPolls,
        seconds: u64,
    }

    fn run(polls: Vec<Result<Exit, Error>>, timeout: Option<u64>) -> Ending {
        run_patiently(polls, timeout, 0)
    }

    fn run_patiently(
        polls: Vec<Result<Exit, Error>>,
        timeout: Option<u64>,
        patience: u64,
    ) -> Ending {
        let mut clock = TestClock::default();
        let mut script = ScriptedPolls {
            polls: polls.into_iter(),
            limits: Vec::new(),
            patience: Duration::from_secs(patience),
            last: None,
            answers: 0,
            errors: 0,
            ticks: 0,
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

    #[test]
    fn watch_ends_with_the_rollout() {
        for exit in [Exit::Done, Exit::Failed] {
            for timeout in [None, Some(5), Some(600)] {
                let end = run(vec![Ok(Exit::Going), Ok(Exit::Going), Ok(exit)], timeout);
                assert!(matches!(end.result, Ok(End::Decided)));
                let script = end.script;
                assert_eq!(
                    (script.last, script.answers, end.seconds),
                    (Some(exit), 3, 4)
                );
                assert_eq!(script.ticks, 2);
            }
        }
    }

    #[test]
    fn watch_ends_at_the_timeout() {
        for (timeout, answers) in [(0, 1), (1, 1), (2, 1), (5, 3), (600, 300)] {
            let end = run(vec![], Some(timeout));
            assert!(matches!(end.result, Ok(End::Timeout)));
            assert_eq!((end.script.answers, end.seconds), (answers, timeout));
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
        // The first poll is repeated, too.
        let mut polls: Vec<_> = (0..4).map(|_| unreachable()).collect();
        polls.push(Ok(Exit::Going));
        polls.extend((0..4).map(|_| unreachable()));
        polls.push(Ok(Exit::Done));
        let end = run(polls, None);
        assert!(matches!(end.result, Ok(End::Decided)));
        assert_eq!((end.script.answers, end.script.errors), (2, 8));
        for first in [None, Some(Ok(Exit::Going))] {
            let polls = first.into_iter().chain((0..9).map(|_| unreachable()));
            let end = run(polls.collect(), None);
            // The last error is returned.
            assert!(matches!(end.result, Err(Error::Unreachable { .. })));
            assert_eq!(end.script.errors, 4);
        }
    }

    #[test]
    fn patient_watch_survives_a_restart_of_the_api_server() {
        let away = || (0..30).map(|_| unreachable()).chain([Ok(Exit::Done)]);
        let end = run_patiently(away().collect(), None, 60);
        assert!(matches!(end.result, Ok(End::Decided)));
        assert_eq!((end.script.last, end.seconds), (Some(Exit::Done), 60));
        // It ends when polls have failed for longer than that.
        let end = run_patiently(away().collect(), None, 40);
        assert!(matches!(end.result, Err(Error::Unreachable { .. })));
        assert_eq!(end.seconds, 40);
    }

    #[test]
    fn timeout_expires_while_polls_fail() {
        for (first, last) in [(None, None), (Some(Ok(Exit::Going)), Some(Exit::Going))] {
            let polls = first.into_iter().chain((0..9).map(|_| unreachable()));
            let end = run(polls.collect(), Some(3));
            assert!(matches!(end.result, Ok(End::Timeout)));
            assert_eq!((end.script.last, end.seconds), (last, 3));
        }
    }

    #[test]
    fn other_errors_end_the_watch() {
        for first in [None, Some(Ok(Exit::Going))] {
            let polls = first
                .into_iter()
                .chain([Err(Error::Usage("no".to_owned()))]);
            let end = run(polls.collect(), Some(600));
            assert!(matches!(end.result, Err(Error::Usage(_))));
            assert_eq!(end.script.errors, 0);
        }
    }
}
