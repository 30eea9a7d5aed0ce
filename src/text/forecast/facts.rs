//! The facts of a forecast as words and numbers. Every format shows the same ones.

use rollplan_wire::proto::{
    ChangeEffect, CountRange, DurationRange, Forecast, ForecastRolloutResponse, Outcome,
    RolloutLimits, StartTimesSource, TrajectoryPoint,
};

use crate::span;

/// The number of steps at the start and at the end of a long rollout that are shown.
const FIRST_STEPS: usize = 14;
const LAST_STEPS: usize = 6;
/// The number of start times up to which they are too few.
const GUESS_MAX: i32 = 4;

/// The path of the number of desired pods in the spec.
const REPLICAS: &str = "replicas";

/// A forecast, and what it is about.
#[derive(Debug)]
pub struct Facts<'f> {
    /// For example "Deployment shop/web".
    pub subject: &'f str,
    /// Whether it is about a change. Otherwise, it is about the rollout in progress.
    pub has_changes: bool,
    /// The answer.
    pub response: &'f ForecastRolloutResponse,
}

/// One of the scenarios of a forecast.
#[derive(Clone, Copy, Debug)]
pub struct Scenario<'f> {
    /// For example "never ready".
    pub name: &'static str,
    pub forecast: &'f Forecast,
}

/// A row of the table of scenarios: its name, and a value for each scenario.
pub(crate) type Row = (&'static str, Vec<String>);

/// A row of the table of steps.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// A time at which pods change.
    At {
        /// The time since the start, for example "12s", or the number of the step if no durations are known.
        at: String,
        /// The pods from then on.
        counts: Counts,
        /// What has changed.
        events: Vec<String>,
    },
    /// The number of steps that are not shown.
    More(usize),
}

/// The pods at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Pods with the new template.
    pub new: i64,
    /// Pods with an earlier template.
    pub old: i64,
    /// Available pods, new and old.
    pub available: i64,
    /// Pods that are being deleted.
    pub terminating: i64,
}

// === impl Facts ===

impl<'f> Facts<'f> {
    /// For example "Deployment shop/web: the change starts a rollout".
    pub fn title(&self) -> String {
        let what = match (self.response.effect(), self.has_changes) {
            (ChangeEffect::NoChange | ChangeEffect::Unspecified, false) => {
                if self.is_idle() {
                    "no rollout is in progress".to_owned()
                } else {
                    "a rollout is in progress".to_owned()
                }
            }
            (ChangeEffect::NoChange | ChangeEffect::Unspecified, true) => {
                let what = match self.changed_settings() {
                    Some(fields) => format!("the change of {fields} starts no rollout"),
                    None => "nothing changes".to_owned(),
                };
                if self.is_idle() {
                    format!("{what}, and no pod is replaced")
                } else {
                    format!("{what}, and the rollout in progress continues")
                }
            }
            (ChangeEffect::ScaleOnly, _) => {
                let (scales, only) = (self.scales(), self.changed_settings().is_none());
                let only = if only { "only " } else { "" };
                format!("the change {only}{scales}, and no pod is replaced")
            }
            (ChangeEffect::StartsRollout, _) => format!(
                "the change starts a rollout, which replaces all pods{}",
                self.and_scales()
            ),
            (ChangeEffect::ReturnsToRevision, _) => format!(
                "the change returns to revision {}, with a rollout that replaces all pods{}",
                self.response.revision,
                self.and_scales()
            ),
            (ChangeEffect::HeldByPause, _) => format!(
                "the change starts a rollout only when the Deployment is resumed{}",
                self.and_scales()
            ),
        };
        format!("{}: {what}", self.subject)
    }

    /// For example "scales from 8 to 3".
    fn scales(&self) -> String {
        let mut changes = self.response.spec_changes.iter();
        match changes.find(|change| change.path == REPLICAS) {
            Some(change) => format!("scales from {} to {}", change.from_json, change.to_json),
            None => format!("scales to {}", self.limits().replicas),
        }
    }

    /// For example ", and scales from 8 to 3". Empty if the number of desired pods stays the same.
    fn and_scales(&self) -> String {
        let mut changes = self.response.spec_changes.iter();
        if changes.any(|change| change.path == REPLICAS) {
            format!(", and {}", self.scales())
        } else {
            String::new()
        }
    }

    /// The other fields of the spec that change, for example "minReadySeconds and strategy". `None` if none does.
    fn changed_settings(&self) -> Option<String> {
        let changes = self.response.spec_changes.iter();
        let mut names: Vec<&str> = changes
            .filter(|change| change.path != REPLICAS)
            .map(|change| change.path.split('.').next().unwrap_or_default())
            .collect();
        names.dedup();
        let last = names.pop()?;
        Some(if names.is_empty() {
            last.to_owned()
        } else {
            format!("{} and {last}", names.join(", "))
        })
    }

    /// Whether nothing happens: it is complete.
    pub(super) fn is_idle(&self) -> bool {
        self.response.expected.as_ref().is_some_and(|expected| {
            let mut counts = expected.trajectory.iter().map(Counts::of);
            let first = counts.next();
            let writes = expected.replica_set_writes.unwrap_or_default();
            expected.outcome() == Outcome::Completes
                && writes.high == 0
                && counts.all(|it| Some(it) == first)
        })
    }

    fn limits(&self) -> RolloutLimits {
        self.response.limits.unwrap_or_default()
    }

    /// Whether durations are known.
    fn has_times(&self) -> bool {
        let source = self.response.start_times.as_ref().map(|it| it.source());
        !matches!(source, None | Some(StartTimesSource::None))
    }

    /// The scenarios of the answer, the expected one first.
    pub fn scenarios(&self) -> Vec<Scenario<'f>> {
        let ForecastRolloutResponse {
            expected,
            slow,
            never_ready,
            ..
        } = self.response;
        let all = [
            ("expected", expected),
            ("slow", slow),
            ("never ready", never_ready),
        ];
        let all = all.into_iter();
        all.filter_map(|(name, forecast)| {
            let forecast = forecast.as_ref()?;
            Some(Scenario { name, forecast })
        })
        .collect()
    }

    /// The scenarios side by side. Rows without any value are omitted.
    pub fn comparison(&self) -> Vec<Row> {
        let scenarios = self.scenarios();
        let row = |name, value: &dyn Fn(&Forecast) -> Option<String>| {
            let values = scenarios.iter().map(|it| value(it.forecast));
            let values: Vec<Option<String>> = values.collect();
            values.iter().any(Option::is_some).then(|| {
                let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
                (name, values.into_iter().map(or_dash).collect())
            })
        };
        let of = |range: &Option<CountRange>, limit: &str| {
            range.as_ref().map(|range| counts(range) + limit)
        };
        let limits = self.limits();
        let first = self.response.expected.as_ref();
        let first = first.and_then(|it| it.trajectory.first()).map(Counts::of);
        let limit = |what: &str, limit: i32, is_outside: &dyn Fn(Counts) -> bool| {
            // The number of replicas may change at the same time.
            let once = if first.is_some_and(is_outside) {
                ", once it is reached"
            } else {
                ""
            };
            format!(" ({what} {limit}{once})")
        };
        let most = limit("at most", limits.pods_max, &|it| {
            it.new + it.old > limits.pods_max.into()
        });
        let least = limit("at least", limits.available_min, &|it| {
            it.available < limits.available_min.into()
        });
        let rows = [
            row("outcome", &|it| Some(outcomes(it))),
            row("duration", &|it| it.duration.as_ref().map(durations)),
            row("deadline exceeded", &|it| {
                it.deadline_exceeded.as_ref().map(durations)
            }),
            row("peak of pods", &|it| of(&it.pods_max, &most)),
            row("with terminating pods", &|it| {
                of(&it.pods_with_terminating_max, "")
            }),
            row("fewest available", &|it| of(&it.available_min, &least)),
            row("available at the end", &|it| of(&it.available_at_end, "")),
            row("waves of pod starts", &|it| of(&it.waves, "")),
            row("ReplicaSet writes", &|it| of(&it.replica_set_writes, "")),
        ];
        rows.into_iter().flatten().collect()
    }

    /// The steps of the expected rollout. Of a long one, those at the start and at the end.
    pub fn steps(&self) -> Vec<Step> {
        let expected = self.response.expected.as_ref();
        let points = expected.map_or(&[][..], |it| &it.trajectory);
        let mut steps: Vec<Step> = Vec::new();
        for point in points {
            let counts = Counts::of(point);
            let at = match &point.offset {
                Some(offset) => duration(offset),
                None => (steps.len() + 1).to_string(),
            };
            let is_first = steps.len() <= 1;
            match steps.last_mut() {
                // What happens within the precision of a time is one step, except for the start.
                Some(Step::At {
                    at: last_at,
                    counts: last,
                    events,
                }) if !is_first && *last_at == at || point.events.is_empty() && *last == counts => {
                    *last = counts;
                    events.extend_from_slice(&point.events);
                }
                _ => steps.push(Step::At {
                    at,
                    counts,
                    events: point.events.clone(),
                }),
            }
        }
        let hidden = steps.len().saturating_sub(FIRST_STEPS + LAST_STEPS);
        if hidden > 1 {
            steps.splice(FIRST_STEPS..FIRST_STEPS + hidden, [Step::More(hidden)]);
        }
        steps
    }

    /// The head of the first column of the steps.
    pub fn step_head(&self) -> &'static str {
        if self.has_times() { "time" } else { "step" }
    }

    /// Where the start times come from, for example "13 pods with other templates took 2s–9s to start (median 4s)".
    pub fn start_times(&self) -> String {
        let times = self.response.start_times.unwrap_or_default();
        let count = times.count;
        let pods = plural(i64::from(count), "pod", "pods");
        let from = match times.source() {
            StartTimesSource::Unspecified | StartTimesSource::None => {
                "none is known, so the forecast has no durations".to_owned()
            }
            StartTimesSource::SameTemplate => format!("{pods} with this template"),
            StartTimesSource::OtherTemplates => format!("{pods} with other templates"),
            StartTimesSource::Request => {
                plural(i64::from(count), "given start time", "given start times")
            }
        };
        let mut text = from;
        if let Some(range) = &times.range {
            let verb = match times.source() {
                StartTimesSource::Request => ":",
                _ => " took",
            };
            text += &format!("{verb} {}", durations(range));
        }
        if times.guess && times.count <= GUESS_MAX {
            text += "; these are too few to tell how long others take";
        } else if times.guess {
            text += "; one pod that is still starting has taken more than twice as long";
        }
        if times.still_starting > 0 {
            text += &format!(
                "; {} still starting",
                plural(times.still_starting.into(), "pod is", "pods are")
            );
        }
        let dropped = [
            (
                times.dropped_late,
                "that became ready only after the progress deadline",
            ),
            (times.dropped_restarted, "with a container that restarted"),
            (
                times.dropped_failing,
                "failing, or not ready like all others with their template",
            ),
        ];
        let dropped = dropped.into_iter().filter(|(count, _)| *count > 0);
        let dropped: Vec<String> = dropped
            .map(|(count, why)| format!("{} {why}", plural(count.into(), "pod", "pods")))
            .collect();
        if !dropped.is_empty() {
            text += &format!("; not counted: {}", dropped.join(", "));
        }
        if let Some(range) = &times.termination {
            text += &format!("; time to terminate: {}", durations(range));
        }
        text
    }

    /// The outcome as a sentence.
    pub fn outcome(&self) -> String {
        let Some(expected) = &self.response.expected else {
            return "The outcome is not known.".to_owned();
        };
        let outcome = match (self.is_idle(), self.response.effect()) {
            (_, ChangeEffect::HeldByPause) if expected.outcome() != Outcome::Never => {
                "Nothing is replaced until the Deployment is resumed.".to_owned()
            }
            (true, _) => "Nothing happens: the rollout is complete.".to_owned(),
            (false, _) => self.summary(expected),
        };
        let [first, others @ ..] = expected.outcomes.as_slice() else {
            return outcome;
        };
        let others = others
            .iter()
            .map(|it| format!("{} {}", it.samples, outcome_text(it.outcome())));
        let others: Vec<String> = others.collect();
        if others.is_empty() {
            outcome
        } else {
            format!(
                "{outcome} ({} of the samples; others: {})",
                first.samples,
                others.join(", ")
            )
        }
    }

    /// How the rollout of a scenario ends, as a sentence.
    pub fn summary(&self, forecast: &Forecast) -> String {
        let time = match (&forecast.duration, &forecast.waves) {
            (Some(range), _) if range.median.is_none() => {
                let pods = match self.response.start_times.unwrap_or_default().count {
                    1 => "the pod that was observed".to_owned(),
                    count => format!("the {count} pods that were observed"),
                };
                format!("in {} if pods start as {pods}", durations(range))
            }
            (Some(range), _) => format!("in {}", durations(range)),
            (None, Some(waves)) => format!(
                "after {} of pod starts, of unknown length",
                if waves.low == waves.high {
                    plural(waves.median.into(), "wave", "waves")
                } else {
                    format!("{} waves", counts(waves))
                }
            ),
            (None, None) => "at a time that is not known".to_owned(),
        };
        match forecast.outcome() {
            Outcome::Completes => format!("Completes {time}."),
            Outcome::CompletesLate => {
                let deadline = match self.limits().progress_deadline_seconds {
                    Some(seconds) => {
                        let seconds = u64::try_from(seconds).unwrap_or(0);
                        format!(" of {}", span::exact(seconds))
                    }
                    None => String::new(),
                };
                format!("Completes {time}, after its progress deadline{deadline} is exceeded.")
            }
            Outcome::Never => format!("Never completes. {}.", reason(forecast)),
            Outcome::Undecided | Outcome::Unspecified => {
                format!("Undecided. {}.", reason(forecast))
            }
        }
    }
}

// === impl Counts ===

impl Counts {
    /// The new ReplicaSet is the first one.
    pub fn of(point: &TrajectoryPoint) -> Self {
        let sum = |counts: &[i32]| counts.iter().copied().map(i64::from).sum();
        let (new, old) = point.pods.split_at(point.pods.len().min(1));
        Self {
            new: sum(new),
            old: sum(old),
            available: sum(&point.available),
            terminating: point.terminating.into(),
        }
    }

    /// In the order of the columns of a table of steps.
    pub fn columns(self) -> [i64; 4] {
        [self.new, self.old, self.available, self.terminating]
    }
}

fn reason(forecast: &Forecast) -> &str {
    match forecast.reason.trim_end_matches('.') {
        "" => "The simulation ended before",
        reason => reason,
    }
}

/// For example "completes", or "completes 96 of 100" if some samples end in another way.
fn outcomes(forecast: &Forecast) -> String {
    let word = outcome_text(forecast.outcome());
    let all: i64 = forecast
        .outcomes
        .iter()
        .map(|it| i64::from(it.samples))
        .sum();
    match forecast.outcomes.as_slice() {
        [first, _, ..] => format!("{word} ({} of {all})", first.samples),
        _ => word.to_owned(),
    }
}

pub(crate) fn outcome_text(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Unspecified => "unknown",
        Outcome::Completes => "completes",
        Outcome::CompletesLate => "completes late",
        Outcome::Never => "never completes",
        Outcome::Undecided => "undecided",
    }
}

fn plural(count: i64, one: &str, several: &str) -> String {
    match count {
        1 => format!("1 {one}"),
        count => format!("{count} {several}"),
    }
}

/// For example "13", or "13 (12–14)".
fn counts(range: &CountRange) -> String {
    let CountRange { low, median, high } = range;
    if low == high {
        median.to_string()
    } else {
        format!("{median} ({low}–{high})")
    }
}

/// For example "26s (23s–30s)", or "23s–30s" without a median.
pub(crate) fn durations(range: &DurationRange) -> String {
    let DurationRange { low, median, high } = range;
    let text = |it: &Option<prost_types::Duration>| it.as_ref().map(duration);
    let bounds = match (text(low), text(high)) {
        (Some(low), Some(high)) if low != high => Some(format!("{low}–{high}")),
        (Some(one), _) | (None, Some(one)) => Some(one),
        (None, None) => None,
    };
    match (text(median), bounds) {
        (Some(median), Some(bounds)) if median != bounds => format!("{median} ({bounds})"),
        (Some(text), _) | (None, Some(text)) => text,
        (None, None) => "-".to_owned(),
    }
}

/// For example "4.2s", "1m30s" or "3h5m".
pub(crate) fn duration(duration: &prost_types::Duration) -> String {
    let seconds = u64::try_from(duration.seconds).unwrap_or(0);
    let nanos = u64::from(duration.nanos.unsigned_abs());
    let tenths = (nanos + 50_000_000) / 100_000_000;
    match seconds {
        0..10 if (1..10).contains(&tenths) => format!("{seconds}.{tenths}s"),
        0..3600 => span::exact(seconds + u64::from(nanos >= 500_000_000)),
        _ => span::exact(seconds / 60 * 60),
    }
}
