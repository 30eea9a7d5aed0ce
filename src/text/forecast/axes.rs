//! The axes of a picture.

use std::fmt::Write as _;

use super::facts::duration;
use crate::span;

/// The edges of the area between the axes.
pub(super) const LEFT: f64 = 48.0;
pub(super) const RIGHT: f64 = 784.0;
pub(super) const TOP: f64 = 120.0;
pub(super) const BOTTOM: f64 = 364.0;

/// The part of the width after the last change, which shows the state at the end.
const AFTER: f64 = 0.04;
/// The highest number of ticks of an axis.
const TICKS_MAX: f64 = 9.0;
/// The distances between ticks of a time axis, in seconds.
const SPANS: [f64; 19] = [
    1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0,
    14_400.0, 21_600.0, 43_200.0, 86_400.0, 604_800.0,
];

/// The highest values of both axes.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    pub(super) at: f64,
    pub(super) pods: f64,
}

/// The scales of a picture.
pub(super) struct Axes {
    /// The values at the ends of the axes.
    at: f64,
    pods: f64,
    /// The distances between ticks.
    at_step: f64,
    pods_step: f64,
    has_times: bool,
}

// === impl Extent ===

impl Extent {
    /// The axes that two pictures have in common.
    pub fn with(self, other: Self) -> Self {
        Self {
            at: self.at.max(other.at),
            pods: self.pods.max(other.pods),
        }
    }
}

// === impl Axes ===

impl Axes {
    pub(super) fn new(extent: Extent, has_times: bool) -> Self {
        let at = extent.at.max(1.0) * (1.0 + AFTER);
        let at_step = if has_times {
            SPANS.into_iter().find(|span| at / span <= TICKS_MAX)
        } else {
            None
        };
        let pods_step = tick(extent.pods, 6.0);
        Self {
            at,
            pods: (extent.pods / pods_step).ceil() * pods_step,
            at_step: at_step.unwrap_or_else(|| tick(at, TICKS_MAX)),
            pods_step,
            has_times,
        }
    }

    pub(super) fn x(&self, at: f64) -> f64 {
        LEFT + (RIGHT - LEFT) * (at / self.at).clamp(0.0, 1.0)
    }

    /// The end of what is drawn after the last change.
    pub(super) fn after(&self, at: f64) -> f64 {
        self.x(at + self.at * (1.0 - 1.0 / (1.0 + AFTER)))
    }

    pub(super) fn y(&self, pods: f64) -> f64 {
        BOTTOM - (BOTTOM - TOP) * (pods / self.pods).clamp(0.0, 1.0)
    }

    pub(super) fn svg(&self) -> String {
        let mut svg = String::new();
        for pods in ticks(self.pods, self.pods_step) {
            let y = self.y(pods);
            let _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{RIGHT}\" y2=\"{y:.1}\"/>\
                 <text class=\"faint\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{pods}</text>",
                LEFT - 8.0,
                y + 4.0
            );
        }
        for at in ticks(self.at, self.at_step) {
            let x = self.x(at);
            let text = if self.has_times {
                time_text(at)
            } else {
                at.to_string()
            };
            let _ = writeln!(
                svg,
                "<line class=\"axis\" x1=\"{x:.1}\" y1=\"{BOTTOM}\" x2=\"{x:.1}\" y2=\"{}\"/>\
                 <text class=\"faint\" x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{text}</text>",
                BOTTOM + 5.0,
                BOTTOM + 20.0
            );
        }
        let name = if self.has_times {
            "time"
        } else {
            "steps (their durations are not known)"
        };
        let _ = writeln!(
            svg,
            "<line class=\"axis\" x1=\"{LEFT}\" y1=\"{BOTTOM}\" x2=\"{RIGHT}\" y2=\"{BOTTOM}\"/>\
             <text class=\"faint\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{name}</text>\
             <text class=\"faint\" transform=\"translate(14 {}) rotate(-90)\" text-anchor=\"middle\">pods</text>",
            f64::midpoint(LEFT, RIGHT),
            BOTTOM + 40.0,
            f64::midpoint(TOP, BOTTOM)
        );
        svg
    }
}

/// A round distance of ticks, of which an axis has at most this number.
fn tick(end: f64, count: f64) -> f64 {
    let least = (end / count).max(1.0);
    let power = 10.0_f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].into_iter().map(|it| it * power);
    let mut steps = steps.filter(|step| *step >= least);
    steps.next().unwrap_or(least)
}

/// The values of the ticks, from 0 on.
fn ticks(end: f64, step: f64) -> impl Iterator<Item = f64> {
    let ticks = (0..=u8::MAX).map(move |index| f64::from(index) * step);
    ticks.take_while(move |it| *it <= end)
}

pub(super) fn time_text(at: f64) -> String {
    match at {
        86_400.0.. => span::age(whole(at)),
        _ => {
            let span = std::time::Duration::from_secs_f64(at);
            prost_types::Duration::try_from(span).map_or_else(|_| String::new(), |it| duration(&it))
        }
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the time is positive and at most a billion"
)]
fn whole(at: f64) -> u64 {
    at as u64
}
