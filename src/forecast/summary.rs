//! What all samples of a forecast show together.

use crate::sample::{Outcome, Sample};
use crate::times::Range;
use crate::trajectory::Point;

/// A rollout that was simulated many times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forecast {
    /// The outcome of most samples.
    pub outcome: Outcome,
    /// The number of samples by outcome, most frequent first.
    pub outcomes: Vec<(Outcome, i32)>,
    /// Why the rollout does not complete, as one sentence. Empty if it completes.
    pub reason: String,
    /// The time until the rollout is complete, in the samples in which it completes.
    pub duration: Option<Range>,
    /// The time until the progress deadline is reported as exceeded, in the samples in which that happens.
    pub deadline_exceeded: Option<Range>,
    /// The highest number of pods at the same time, without those that are terminating.
    pub pods_max: CountRange,
    /// The highest number of pods at the same time, with those that are terminating.
    pub pods_with_terminating_max: CountRange,
    /// The lowest number of available pods.
    pub available_min: CountRange,
    /// The number of available pods at the end.
    pub available_at_end: CountRange,
    /// The number of times that new pods are created and awaited: roughly the duration of the rollout in start times.
    pub waves: CountRange,
    /// The number of writes of ReplicaSets that the controller makes.
    pub replica_set_writes: CountRange,
    /// A sample with a typical duration and typical numbers of pods, at most 500 points.
    pub trajectory: Vec<Point>,
}

/// A range of counts over all samples of a forecast.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CountRange {
    /// The lowest of all samples.
    pub low: i32,
    /// The median of all samples.
    pub median: i32,
    /// The highest of all samples.
    pub high: i32,
}

// === impl Forecast ===

impl Forecast {
    /// Makes "never completes" an outcome that is not decided.
    pub(crate) fn doubt(&mut self) {
        let mut doubtful = 0;
        self.outcomes.retain(|(outcome, count)| {
            let is_doubtful = matches!(outcome, Outcome::Never | Outcome::Undecided);
            doubtful += if is_doubtful { *count } else { 0 };
            !is_doubtful
        });
        self.outcomes.push((Outcome::Undecided, doubtful));
        self.outcomes
            .sort_by_key(|(outcome, count)| (std::cmp::Reverse(*count), *outcome));
        self.outcome = Outcome::Undecided;
    }
}

/// The forecast from these samples without its trajectory, and the index of the sample whose trajectory it has.
pub(crate) fn summarize(
    samples: &[Sample],
    has_seconds: bool,
    is_guess: bool,
) -> (Forecast, usize) {
    let mut outcomes: Vec<(Outcome, i32)> = Vec::new();
    for sample in samples {
        match outcomes.iter_mut().find(|(it, _)| *it == sample.outcome) {
            Some((_, count)) => *count += 1,
            None => outcomes.push((sample.outcome, 1)),
        }
    }
    outcomes.sort_by_key(|(outcome, count)| (std::cmp::Reverse(*count), *outcome));
    let outcome = outcomes.first().map_or(Outcome::Undecided, |it| it.0);
    let times = |time: &dyn Fn(&Sample) -> Option<i64>| {
        let mut times: Vec<i64> = samples.iter().filter_map(time).collect();
        times.sort_unstable();
        range(&times, is_guess).filter(|_| has_seconds)
    };
    let counts = |count: &dyn Fn(&Sample) -> i32| {
        let mut counts: Vec<i32> = samples.iter().map(count).collect();
        counts.sort_unstable();
        CountRange {
            low: counts.first().copied().unwrap_or(0),
            median: counts.get(counts.len() / 2).copied().unwrap_or(0),
            high: counts.last().copied().unwrap_or(0),
        }
    };
    let pods = [
        (|it| it.pods_max) as Number,
        |it| it.pods_with_terminating_max,
        |it| it.available_min,
    ];
    let typical = typical(samples, outcome, &pods.map(|of| (of, counts(&of).median)));
    let completes =
        |sample: &Sample| matches!(sample.outcome, Outcome::Completes | Outcome::CompletesLate);
    let forecast = Forecast {
        outcome,
        outcomes,
        reason: String::new(),
        duration: times(&|it| completes(it).then_some(it.end)),
        deadline_exceeded: times(&|it| it.deadline_exceeded),
        pods_max: counts(&|it| it.pods_max),
        pods_with_terminating_max: counts(&|it| it.pods_with_terminating_max),
        available_min: counts(&|it| it.available_min),
        available_at_end: counts(&|it| it.available_at_end),
        waves: counts(&|it| it.waves),
        replica_set_writes: counts(&|it| it.replica_set_writes),
        trajectory: Vec::new(),
    };
    (forecast, typical)
}

/// A number of pods of a sample.
type Number = fn(&Sample) -> i32;

/// The index of the sample that is drawn: of the third with the most typical durations among those with this outcome, the
/// one whose numbers of pods are closest to these medians.
fn typical(samples: &[Sample], outcome: Outcome, medians: &[(Number, i32)]) -> usize {
    let with_outcome = samples.iter().enumerate();
    let mut by_end: Vec<(usize, &Sample)> = with_outcome
        .filter(|(_, sample)| sample.outcome == outcome)
        .collect();
    by_end.sort_by_key(|(_, sample)| sample.end);
    let (middle, third) = (by_end.len() / 2, by_end.len() / 6);
    let close = by_end.iter().enumerate();
    let close = close.filter(|(rank, _)| rank.abs_diff(middle) <= third);
    let typical = close.min_by_key(|(rank, (_, sample))| {
        let distances = medians
            .iter()
            .map(|(of, median)| of(sample).abs_diff(*median));
        (distances.sum::<u32>(), rank.abs_diff(middle))
    });
    typical.map_or(0, |(_, (index, _))| *index)
}

/// The times in ascending order without the lowest and the highest 5 %: of 100 times, the next one lies between the fifth
/// and the last but four with a probability of 91 in 101.
fn range(times: &[i64], is_guess: bool) -> Option<Range> {
    let cut = ((times.len() + 1) / 20).saturating_sub(1);
    Some(Range {
        low: *times.get(cut)?,
        median: times.get(times.len() / 2).copied().filter(|_| !is_guess),
        high: *times.get(times.len() - 1 - cut)?,
    })
}
