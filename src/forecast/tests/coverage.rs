//! How often the range of a forecast contains the duration of a rollout whose pods start as those that were observed.

use std::fmt;
use std::ops::RangeInclusive;

use rollplan_forecast::{Range, Request};
use rollplan_world::mk_deployment;
use rollplan_world::random::Random;

use crate::world::{forecast, mk_complete_of, mk_rollout};

/// A distribution of start times, in seconds.
struct Family {
    name: &'static str,
    parameters: &'static str,
    draw: fn(&mut Random) -> f64,
}

const FAMILIES: [Family; 9] = [
    Family {
        name: "fixed",
        parameters: "6.4 s",
        draw: |_| 6.4,
    },
    Family {
        name: "uniform",
        parameters: "3 s to 12 s",
        draw: |random| 3.0 + 9.0 * unit(random),
    },
    Family {
        name: "log-normal",
        parameters: "median 5 s, σ = 0.7",
        draw: |random| 5.0 * (0.7 * normal(random)).exp(),
    },
    Family {
        name: "bimodal",
        parameters: "7 of 10 from 3 s to 5 s, the others from 12 s to 16 s",
        draw: |random| {
            if unit(random) < 0.7 {
                3.0 + 2.0 * unit(random)
            } else {
                12.0 + 4.0 * unit(random)
            }
        },
    },
    Family {
        name: "shifted exponential",
        parameters: "3 s, and a mean of 5 s more",
        draw: |random| 3.0 + 5.0 * exponential(random),
    },
    Family {
        name: "gamma",
        parameters: "shape 2, scale 4 s",
        draw: |random| 4.0 * (exponential(random) + exponential(random)),
    },
    Family {
        name: "Weibull",
        parameters: "2 s, and shape 0.8, scale 6 s more",
        draw: |random| 2.0 + 6.0 * exponential(random).powf(1.25),
    },
    Family {
        name: "Pareto",
        parameters: "at least 4 s, shape 2.5",
        draw: |random| 4.0 * (exponential(random) / 2.5).exp(),
    },
    // First evaluated when the constants of the forecast had been chosen.
    Family {
        name: "inverse Gaussian",
        parameters: "mean 8 s, shape 12 s",
        draw: inverse_gaussian,
    },
];

/// The numbers of observed start times.
const COUNTS: [RangeInclusive<usize>; 3] = [5..=9, 10..=19, 20..=40];

fn below(random: &mut Random, end: usize) -> i64 {
    i64::try_from(random.below(end)).unwrap()
}

/// A number between 0 and 1.
fn unit(random: &mut Random) -> f64 {
    (f64::from(u32::try_from(random.below(1 << 30)).unwrap()) + 0.5) / f64::from(1 << 30)
}

fn exponential(random: &mut Random) -> f64 {
    -unit(random).ln()
}

fn normal(random: &mut Random) -> f64 {
    (2.0 * exponential(random)).sqrt() * (std::f64::consts::TAU * unit(random)).cos()
}

/// Michael, Schucany and Haas's method.
fn inverse_gaussian(random: &mut Random) -> f64 {
    let (mean, shape) = (8.0, 12.0);
    let square = normal(random).powi(2);
    let ratio = mean * square / (2.0 * shape);
    let root = mean * (1.0 + ratio - (ratio * (2.0 + ratio)).sqrt());
    if unit(random) <= mean / (mean + root) {
        root
    } else {
        mean * mean / root
    }
}

/// A rollout with random bounds.
fn mk_random(random: &mut Random, starts: &[i64]) -> Request {
    let mut deployment = mk_deployment(i32::try_from(starts.len()).unwrap());
    let surge = 1 + i32::try_from(random.below(8)).unwrap();
    deployment.spec.strategy = rollplan_world::rolling(surge, 2);
    mk_rollout(mk_complete_of(deployment, starts))
}

#[allow(clippy::cast_possible_truncation, reason = "start times are small")]
fn millis(seconds: f64) -> i64 {
    (seconds * 1000.0) as i64
}

/// The start time as Kubernetes shows it: the difference of two whole seconds.
fn observed(random: &mut Random, family: &Family) -> i64 {
    let created = below(random, 1000);
    (created + millis((family.draw)(random))) / 1000 - created / 1000
}

/// The rollouts of a family with similar numbers of observed start times.
#[derive(Default)]
struct Cell {
    rollouts: usize,
    inside: usize,
    /// The measured durations, divided by the median of the forecast.
    ratios: Vec<f64>,
    /// The widths of the ranges, divided by the median.
    widths: Vec<f64>,
}

impl Cell {
    /// Adds a rollout: its start times are observed, and then drawn again.
    #[allow(
        clippy::cast_precision_loss,
        reason = "milliseconds of a rollout are few"
    )]
    fn add(&mut self, family: &Family, count: usize, random: &mut Random) {
        let starts: Vec<i64> = (0..count).map(|_| observed(random, family)).collect();
        let request = mk_random(random, &starts);
        let mut truth = request.clone();
        truth.samples = 1;
        truth.seed = random.number();
        let draws = (0..5000).map(|_| millis((family.draw)(random)));
        truth.pod_times.start = draws.collect();
        let actual = forecast(truth).expected.duration.unwrap().low;
        let Range { low, median, high } = forecast(request).expected.duration.unwrap();
        let median = median.unwrap() as f64;
        self.rollouts += 1;
        self.inside += usize::from((low..=high).contains(&actual));
        self.ratios.push(actual as f64 / median);
        self.widths.push((high - low) as f64 / median);
    }

    fn join(&mut self, other: &Self) {
        self.rollouts += other.rollouts;
        self.inside += other.inside;
        self.ratios.extend(&other.ratios);
        self.widths.extend(&other.widths);
    }

    fn percent(&self) -> usize {
        self.inside * 100 / self.rollouts
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let median = |values: &[f64]| {
            let mut values = values.to_vec();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        let (ratio, width) = (median(&self.ratios), median(&self.widths));
        write!(f, "{} %, {ratio:.2}, {width:.2}", self.percent())
    }
}

/// The table of docs/contributors/forecasts.md, which `bash tests/run forecast_ranges` prints with more rollouts.
#[test]
fn ranges_contain_most_durations() {
    let mut random = Random::from_env();
    let rollouts = std::env::var("ROLLPLAN_RANGE_ROLLOUTS");
    let rollouts: usize = rollouts.map_or(8, |it| it.parse().unwrap());
    let mut pooled: [Cell; COUNTS.len()] = Default::default();
    println!("| start times | 5–9 | 10–19 | 20–40 |\n| --- | --- | --- | --- |");
    for family in &FAMILIES {
        let mut all = Cell::default();
        let cells = COUNTS.into_iter().zip(&mut pooled).map(|(counts, pooled)| {
            let mut cell = Cell::default();
            for _ in 0..rollouts {
                let more = random.below(counts.end() - counts.start() + 1);
                cell.add(family, counts.start() + more, &mut random);
            }
            pooled.join(&cell);
            all.join(&cell);
            cell.to_string()
        });
        let cells: Vec<String> = cells.collect();
        println!(
            "| {} ({}) | {} |",
            family.name,
            family.parameters,
            cells.join(" | ")
        );
        // Few rollouts show little.
        let least = if all.rollouts < 100 { 70 } else { 80 };
        assert!(all.percent() >= least, "{random} {}: {all}", family.name);
    }
    let cells = pooled.each_ref().map(ToString::to_string);
    println!("| all | {} |", cells.join(" | "));
    for cell in pooled {
        let least = if rollouts < 100 { 80 } else { 85 };
        assert!((least..=97).contains(&cell.percent()), "{random} {cell}");
    }
}
