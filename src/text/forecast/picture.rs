//! A rollout over time as an SVG: bands for new, old and terminating pods, lines for available pods and the limits.
//!
//! Written by hand, because none of the crates can do it in less: plotters and kuva write colors as attributes, so one
//! picture cannot be readable in light and in dark mode; kuva (150,000 lines) stacks areas only without steps; poloto has
//! classes for colors, but neither stacked bands, nor titles of parts, which are shown on hover. The other half of this
//! file, the legend and the ticks of a time axis, would have to be written in any case.

use std::fmt::Write as _;

use quick_xml::escape::escape;
use rollplan_wire::proto::{Outcome, RolloutLimits, TrajectoryPoint};

use super::axes::{Axes, BOTTOM, Extent, LEFT, RIGHT, TOP, time_text};
use super::facts::{Counts, Facts, Scenario};
use crate::{fit, one_line, width, wrapped};

const WIDTH: f64 = 800.0;
const HEIGHT: f64 = 416.0;
/// The least distance of two moments.
const INSTANT: f64 = 2.0;
/// The columns of text that fit, in the sizes of the title and of the line below it.
const TITLE_COLUMNS: usize = 84;
const SUBTITLE_COLUMNS: usize = 112;
/// The height of a line below the title, and the number of these lines.
const LINE: f64 = 16.0;
const SUBTITLE_LINES: usize = 2;
/// The width of a column of the legend's text, and of the symbol before it with its gaps.
const COLUMN: f64 = 6.6;
const SYMBOL: f64 = 24.0;
const SPACE: f64 = 18.0;

/// The style of all pictures, in light and in dark mode. Without colors, lines differ by their dashes and bands by their
/// lightness.
pub(super) const CSS: &str = "\
.rollplan{font:12px system-ui,-apple-system,'Segoe UI','Helvetica Neue','DejaVu Sans',sans-serif}\
.rollplan .bg{fill:#fff}.rollplan text{fill:#1f2328}.rollplan .faint{fill:#59636e}\
.rollplan .title{font-size:16px;font-weight:600}.rollplan .subtitle{font-size:13px}\
.rollplan .grid{stroke:#d1d9e0}.rollplan .axis{stroke:#59636e}\
.rollplan .new{fill:#2f6fd6}.rollplan .old{fill:#b4c2d0}.rollplan .ending{fill:#c4570a}\
.rollplan line,.rollplan .line{fill:none}\
.rollplan .casing{stroke:#fff;stroke-width:5}.rollplan .available{stroke:#0b1f33;stroke-width:3}\
.rollplan .most{stroke:#c62828;stroke-width:2;stroke-dasharray:8 4}\
.rollplan .least{stroke:#2da44e;stroke-width:2;stroke-dasharray:3 3}\
.rollplan .mark{stroke:#c62828}.rollplan .label{stroke:#fff;stroke-width:3;paint-order:stroke}.rollplan .hit{fill:#59636e;fill-opacity:0}\
.rollplan .hit:hover{fill-opacity:.18}\
@media (prefers-color-scheme:dark){\
.rollplan .bg{fill:#0d1117}.rollplan text{fill:#e6edf3}.rollplan .faint{fill:#9198a1}\
.rollplan .grid{stroke:#30363d}.rollplan .axis{stroke:#9198a1}\
.rollplan .new{fill:#4493f8}.rollplan .old{fill:#56606c}.rollplan .ending{fill:#f0883e}\
.rollplan .casing{stroke:#0d1117}.rollplan .available{stroke:#fff}\
.rollplan .most{stroke:#ff7b72}.rollplan .least{stroke:#2ea043}.rollplan .mark{stroke:#ff7b72}\
.rollplan .label{stroke:#0d1117}.rollplan .hit{fill:#fff}}";

/// A rollout over time.
#[derive(Clone, Debug, Default)]
pub struct Picture {
    /// For example "Deployment shop/web".
    pub title: String,
    /// What the picture shows.
    pub subtitle: String,
    /// The states of the rollout, in order.
    pub moments: Vec<Moment>,
    /// Whether the positions of the moments are seconds. Otherwise, they are numbers of steps.
    pub has_times: bool,
    /// The limits of the rollout.
    pub limits: RolloutLimits,
    /// When the progress deadline is exceeded, if it is.
    pub deadline_exceeded: Option<f64>,
}

/// The state of a rollout until the next moment.
#[derive(Clone, Debug, Default)]
pub struct Moment {
    /// Seconds since the start, or the number of the step.
    pub at: f64,
    /// The pods.
    pub counts: Counts,
    /// The allowed maximum and the promised minimum, unless the number of pods is still outside, for example after scaling.
    pub limits: [Option<i32>; 2],
    /// What has changed.
    pub events: Vec<String>,
}

/// The picture of the expected rollout, as a document of its own.
pub fn picture(facts: &Facts<'_>) -> String {
    Picture {
        title: facts.title(),
        ..Picture::expected(facts)
    }
    .document()
}

// === impl Picture ===

impl Picture {
    /// The picture of the expected rollout, without a title.
    pub fn expected(facts: &Facts<'_>) -> Self {
        let mut scenarios = facts.scenarios().into_iter();
        let expected = scenarios.find(|it| it.name == "expected");
        Self {
            subtitle: facts.outcome(),
            ..expected.map_or_else(Self::default, |it| Self::of(facts, it))
        }
    }

    /// Moves everything in time.
    pub fn shift(&mut self, seconds: f64) {
        let moments = self.moments.iter_mut().map(|it| &mut it.at);
        let all = moments.chain(&mut self.deadline_exceeded);
        all.for_each(|at| *at += seconds);
    }

    /// The picture of a scenario.
    pub(super) fn of(facts: &Facts<'_>, scenario: Scenario<'_>) -> Self {
        let points = &scenario.forecast.trajectory;
        let has_times = points.iter().all(|it| it.offset.is_some());
        let limits = facts.response.limits.unwrap_or_default();
        let mut last = 0.0_f64;
        let mut are_reached = [false; 2];
        let moment = |(index, point): (usize, &TrajectoryPoint)| {
            let at = match &point.offset {
                Some(offset) if has_times => seconds(offset),
                _ => f64::from(u32::try_from(index).unwrap_or(u32::MAX)),
            };
            last = last.max(at);
            let counts = Counts::of(point);
            are_reached[0] |= counts.new + counts.old <= limits.pods_max.into();
            are_reached[1] |= counts.available >= limits.available_min.into();
            Moment {
                at: last,
                counts,
                limits: [
                    are_reached[0].then_some(limits.pods_max),
                    are_reached[1].then_some(limits.available_min),
                ],
                events: point.events.clone(),
            }
        };
        let moments = points.iter().enumerate().map(moment).collect();
        // The sample that is drawn ends as most do.
        let is_late = scenario.forecast.outcome() != Outcome::Completes;
        let deadline = scenario
            .forecast
            .deadline_exceeded
            .as_ref()
            .filter(|_| is_late);
        let deadline = deadline.and_then(|range| range.median.as_ref().or(range.low.as_ref()));
        let deadline = deadline.filter(|_| has_times);
        Self {
            title: String::new(),
            subtitle: String::new(),
            moments,
            has_times,
            limits,
            deadline_exceeded: deadline.map(seconds),
        }
    }

    /// The axes that show everything.
    pub fn extent(&self) -> Extent {
        let pods = self.moments.iter().map(|it| height(it.counts));
        let limits = self.moments.iter().flat_map(|it| it.limits);
        let pods = pods.chain(limits.flatten().map(f64::from));
        Extent {
            at: self.last(),
            pods: pods.fold(1.0, f64::max),
        }
    }

    /// The SVG as a document of its own.
    fn document(&self) -> String {
        let style = format!("<style>{CSS}</style>");
        self.svg("rollout", self.extent(), &style) + "\n"
    }

    /// The SVG as a part of a page. Its `id` is unique in the page, which has the style.
    pub(super) fn fragment(&self, id: &str, extent: Extent) -> String {
        self.svg(id, extent, "")
    }

    fn svg(&self, id: &str, extent: Extent, style: &str) -> String {
        let title = fit(&shown(&self.title), TITLE_COLUMNS, "…");
        let mut subtitle = wrapped(&shown(&self.subtitle), SUBTITLE_COLUMNS);
        if subtitle.len() > SUBTITLE_LINES {
            let rest = subtitle.split_off(SUBTITLE_LINES - 1).join(" ");
            subtitle.push(fit(&rest, SUBTITLE_COLUMNS, "…"));
        }
        let mut y = 46.0 - LINE;
        let lines = subtitle.iter().map(|line| {
            y += LINE;
            let line = escape(line);
            format!("<text class=\"subtitle faint\" x=\"16\" y=\"{y:.0}\">{line}</text>\n")
        });
        let subtitle: String = lines.collect();
        let axes = Axes::new(extent, self.has_times);
        let drawn = self.without_instants(&axes);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"rollplan\" role=\"img\" \
             aria-labelledby=\"{id}-title {id}-desc\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\">\n\
             <title id=\"{id}-title\">{}</title>\n<desc id=\"{id}-desc\">{}</desc>\n{style}\
             <defs><pattern id=\"{id}-ending\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" \
             patternTransform=\"rotate(45)\"><rect class=\"ending\" width=\"3\" height=\"6\"/></pattern></defs>\n\
             <rect class=\"bg\" width=\"{WIDTH}\" height=\"{HEIGHT}\"/>\n\
             <text class=\"title\" x=\"16\" y=\"26\">{}</text>\n{subtitle}{}{}{}{}{}</svg>",
            xml(&self.title),
            xml(&self.description()),
            escape(&title),
            self.legend(id),
            axes.svg(),
            drawn.bands(id, &axes),
            drawn.lines(&axes),
            drawn.hits(&axes),
        )
    }

    /// The picture with moments merged that are too close to be told apart, except for the first one.
    fn without_instants(&self, axes: &Axes) -> Self {
        let mut moments: Vec<Moment> = Vec::new();
        for moment in &self.moments {
            let is_first = moments.len() <= 1;
            match moments.last_mut() {
                Some(last) if !is_first && axes.x(moment.at) - axes.x(last.at) < INSTANT => {
                    last.counts = moment.counts;
                    last.limits = moment.limits;
                    last.events.extend_from_slice(&moment.events);
                }
                _ => moments.push(moment.clone()),
            }
        }
        Self {
            moments,
            ..self.clone()
        }
    }

    /// The picture in words.
    fn description(&self) -> String {
        let last = self.moments.last().map(|it| it.counts);
        let Counts { new, old, .. } = last.unwrap_or_default();
        let most = self.moments.iter().map(|it| it.counts.new + it.counts.old);
        let least = self.moments.iter().map(|it| it.counts.available);
        format!(
            "{} Pods over time: at most {} (allowed: {}), at least {} available (promised: {}); {new} new and {old} old pods at \
             the end.",
            self.subtitle,
            most.max().unwrap_or(0),
            self.limits.pods_max,
            least.min().unwrap_or(0),
            self.limits.available_min,
        )
    }

    fn legend(&self, id: &str) -> String {
        let RolloutLimits {
            pods_max,
            available_min,
            ..
        } = self.limits;
        let entries = [
            ("new", "new pods".to_owned()),
            ("old", "old pods".to_owned()),
            ("ending", "terminating".to_owned()),
            ("available", "available".to_owned()),
            ("most", format!("allowed maximum ({pods_max})")),
            ("least", format!("promised minimum ({available_min})")),
        ];
        let (mut x, mut y) = (16.0, 88.0);
        let mut svg = String::new();
        for (class, text) in entries {
            let entry = SYMBOL + COLUMN * columns(&text);
            if x + entry > RIGHT {
                (x, y) = (16.0, y + 18.0);
            }
            let symbol = match class {
                "new" | "old" | "ending" => {
                    let fill = match class {
                        "ending" => format!(" fill=\"url(#{id}-ending)\""),
                        class => format!(" class=\"{class}\""),
                    };
                    format!(
                        "<rect{fill} x=\"{x:.1}\" y=\"{:.1}\" width=\"16\" height=\"11\"/>",
                        y - 10.0
                    )
                }
                class => {
                    let y = y - 4.0;
                    format!(
                        "<line class=\"{class}\" x1=\"{x:.1}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\"/>",
                        x + 18.0
                    )
                }
            };
            let at = x + SYMBOL;
            // Writing to a string cannot fail.
            let _ = writeln!(
                svg,
                "{symbol}<text x=\"{at:.1}\" y=\"{y:.1}\">{text}</text>"
            );
            x += entry + SPACE;
        }
        svg
    }

    /// New pods at the bottom, old ones on them, and terminating ones at the top.
    fn bands(&self, id: &str, axes: &Axes) -> String {
        let new = |counts: Counts| number(counts.new);
        let all = |counts: Counts| number(counts.new.saturating_add(counts.old));
        let ending = format!("fill=\"url(#{id}-ending)\"");
        type Level<'l> = &'l dyn Fn(Counts) -> f64;
        let bands: [(&str, Level<'_>, Level<'_>); 3] = [
            ("class=\"new\"", &|_| 0.0, &new),
            ("class=\"old\"", &new, &all),
            (&ending, &all, &height),
        ];
        let mut svg = String::new();
        for (fill, low, high) in bands {
            let is_empty = |it: &Moment| low(it.counts) >= high(it.counts);
            if self.moments.iter().all(is_empty) {
                continue;
            }
            let up = self.outline(axes, high);
            let mut down = self.outline(axes, low);
            down.reverse();
            let corners = corners(&[up, down].concat());
            let _ = writeln!(svg, "<polygon {fill} points=\"{corners}\"/>");
        }
        svg
    }

    fn lines(&self, axes: &Axes) -> String {
        let mut svg = String::new();
        let mut line = |class: &str, points: &[(f64, f64)]| {
            let corners = corners(points);
            let _ = writeln!(
                svg,
                "<polyline class=\"line {class}\" points=\"{corners}\"/>"
            );
        };
        let available = self.outline(axes, &|counts| number(counts.available));
        line("casing", &available);
        line("available", &available);
        for (class, limit) in [("most", 0), ("least", 1)] {
            for points in self.limit_lines(axes, limit) {
                line(class, &points);
            }
        }
        if let Some(at) = self.deadline_exceeded {
            let x = axes.x(at);
            let (anchor, at) = if x > f64::midpoint(LEFT, RIGHT) {
                ("end", x - 5.0)
            } else {
                ("start", x + 5.0)
            };
            let _ = writeln!(
                svg,
                "<line class=\"mark\" x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{BOTTOM}\"/>\
                 <text class=\"label\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">progress deadline exceeded</text>",
                BOTTOM - 8.0
            );
        }
        svg
    }

    /// The corners of a line with steps.
    fn outline(&self, axes: &Axes, level: &dyn Fn(Counts) -> f64) -> Vec<(f64, f64)> {
        let mut points: Vec<(f64, f64)> = Vec::new();
        for moment in &self.moments {
            let (x, y) = (axes.x(moment.at), axes.y(level(moment.counts)));
            points.extend(points.last().map(|(_, last)| (x, *last)));
            points.push((x, y));
        }
        points.extend(points.last().map(|(_, last)| (self.end(axes), *last)));
        points.dedup();
        points
    }

    /// The corners of a limit, for each time during which it is known.
    fn limit_lines(&self, axes: &Axes, limit: usize) -> Vec<Vec<(f64, f64)>> {
        let mut lines: Vec<Vec<(f64, f64)>> = Vec::new();
        let mut is_open = false;
        for (moment, end) in self.moments.iter().zip(self.ends(axes)) {
            let Some(pods) = moment.limits[limit] else {
                is_open = false;
                continue;
            };
            let y = axes.y(pods.into());
            let corners = [(axes.x(moment.at), y), (end, y)];
            match lines.last_mut().filter(|_| is_open) {
                Some(line) => line.extend(corners),
                None => lines.push(corners.to_vec()),
            }
            is_open = true;
        }
        lines.iter_mut().for_each(Vec::dedup);
        lines
    }

    /// Where each moment ends.
    fn ends(&self, axes: &Axes) -> impl Iterator<Item = f64> {
        let next = self.moments.iter().skip(1).map(|it| axes.x(it.at));
        next.chain([self.end(axes)])
    }

    /// Where the picture ends: a little after its last moment. Another picture with the same axes may be longer.
    fn end(&self, axes: &Axes) -> f64 {
        axes.after(self.last())
    }

    /// The time of the last thing that is shown.
    fn last(&self) -> f64 {
        let moments = self.moments.iter().map(|it| it.at);
        moments.chain(self.deadline_exceeded).fold(0.0, f64::max)
    }

    /// Areas that show the numbers on hover.
    fn hits(&self, axes: &Axes) -> String {
        let mut svg = String::new();
        for (index, (moment, end)) in self.moments.iter().zip(self.ends(axes)).enumerate() {
            let x = axes.x(moment.at);
            let Counts {
                new,
                old,
                available,
                terminating,
            } = moment.counts;
            let at = if self.has_times {
                time_text(moment.at)
            } else {
                format!("step {index}")
            };
            let text = format!(
                "{at}: {new} new, {old} old, {terminating} terminating, {available} available"
            );
            let lines = [text].into_iter().chain(moment.events.iter().cloned());
            let lines: Vec<String> = lines.map(|line| xml(&line)).collect();
            let _ = writeln!(
                svg,
                "<rect class=\"hit\" x=\"{x:.1}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{}\"><title>{}</title></rect>",
                (end - x).max(1.0),
                BOTTOM - TOP,
                lines.join("\n")
            );
        }
        svg
    }
}

fn seconds(duration: &prost_types::Duration) -> f64 {
    // No rollout takes longer than this, about 30 years.
    const SECONDS_MAX: i64 = 1_000_000_000;
    let whole = i32::try_from(duration.seconds.clamp(0, SECONDS_MAX)).unwrap_or(i32::MAX);
    f64::from(whole) + f64::from(duration.nanos.clamp(0, 999_999_999)) / 1e9
}

/// Points as an attribute of SVG.
fn corners(points: &[(f64, f64)]) -> String {
    let corners = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}"));
    corners.collect::<Vec<_>>().join(" ")
}

/// The height of all bands.
fn height(counts: Counts) -> f64 {
    let Counts {
        new,
        old,
        terminating,
        ..
    } = counts;
    let pods = new.saturating_add(old).saturating_add(terminating);
    number(pods.max(counts.available))
}

fn number(count: i64) -> f64 {
    f64::from(i32::try_from(count.max(0)).unwrap_or(i32::MAX))
}

fn columns(text: &str) -> f64 {
    f64::from(u16::try_from(width(text)).unwrap_or(u16::MAX))
}

/// Text without characters that are invalid in XML or not printable.
fn shown(text: &str) -> String {
    one_line(text).replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}")
}

/// Text that is escaped for XML.
pub(super) fn xml(text: &str) -> String {
    escape(shown(text)).into_owned()
}
