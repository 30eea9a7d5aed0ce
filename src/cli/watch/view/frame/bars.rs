//! Progress bars, and the characters to draw them with.

use super::Line;
use crate::cli::output;
use crate::proto::RolloutReport;
use crate::text::{Numbers, Style, ascii, counter, padded, width};

/// The width of a bar in columns.
const BAR: usize = 20;
const SMALL_BAR: usize = 10;
/// The width of a count in a row, and of the gap before each bar.
const COUNT: usize = 9;
const GAP: usize = 2;

/// The width of the name of a bar, and the column of its limit.
const NAME: usize = 10;
const LIMIT: usize = 42;

/// The characters to draw with.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli::watch::view) struct Glyphs {
    full: char,
    empty: char,
    pub(super) branch: &'static str,
    pub(super) last: &'static str,
    pub(super) down: &'static str,
    pub(super) more: &'static str,
    pub(super) times: &'static str,
}

pub(super) const UNICODE: Glyphs = Glyphs {
    full: '█',
    empty: '░',
    branch: "├─ ",
    last: "└─ ",
    down: "│  ",
    more: "…",
    times: "×",
};

pub(super) const ASCII: Glyphs = Glyphs {
    full: '#',
    empty: '.',
    branch: "|- ",
    last: "`- ",
    down: "|  ",
    more: "...",
    times: "x",
};

// === impl Glyphs ===

impl Glyphs {
    /// The characters that the user's locale supports.
    pub(in crate::cli::watch::view) fn of_locale() -> Self {
        match output::is_utf8() {
            true => UNICODE,
            false => ASCII,
        }
    }

    /// A text in these characters.
    pub(super) fn text(&self, text: &str) -> String {
        match self.more.is_ascii() {
            true => ascii(text),
            false => text.to_owned(),
        }
    }

    fn bar(&self, count: i64, of: i64, columns: usize) -> String {
        let of = of.max(1);
        let share = count.clamp(0, of);
        let full = usize::try_from(share).unwrap_or(0) * columns / usize::try_from(of).unwrap_or(1);
        let bar = std::iter::repeat_n(self.full, full);
        bar.chain(std::iter::repeat_n(self.empty, columns - full))
            .collect()
    }
}

/// The progress of a rollout: one bar per line, with the limits of the rollout, and their arithmetic if it fits.
pub(super) fn limits(report: &RolloutReport, columns: usize, glyphs: &Glyphs) -> Vec<Line> {
    let counts = report.counts.clone().unwrap_or_default();
    let limit = |what: &str, number: i32, arithmetic: &str| match arithmetic {
        "" => String::new(),
        arithmetic => match format!("{what} {number} ({arithmetic})") {
            text if LIMIT + width(&text) <= columns => text,
            _ => format!("{what} {number}"),
        },
    };
    let at_most = limit("at most", counts.max_total, &counts.max_total_arithmetic);
    let at_least = limit(
        "at least",
        counts.min_available,
        &counts.min_available_arithmetic,
    );
    let bars = bars(report).into_iter().map(|bar| {
        let Bar {
            name,
            count,
            of,
            style,
        } = bar;
        let limit = match name {
            "updated" => &at_most,
            "available" => &at_least,
            _ => "",
        };
        let mut line = vec![
            (padded(name, NAME), Style::Plain),
            (glyphs.bar(count, of, BAR), style),
        ];
        let number = format!(" {count} of {of}");
        match limit {
            "" => line.push((number, Style::Plain)),
            limit => {
                line.push((padded(&number, LIMIT - NAME - BAR), Style::Plain));
                line.push((limit.to_owned(), Style::Faint));
            }
        }
        line
    });
    bars.collect()
}

/// The progress of a rollout as part of a row, with bars or as numbers only.
pub(super) fn small(report: &RolloutReport, glyphs: &Glyphs, has_bars: bool) -> Line {
    let bars = bars(report).into_iter().flat_map(|bar| {
        let Bar {
            count, of, style, ..
        } = bar;
        [
            (" ".repeat(GAP), Style::Plain),
            match has_bars {
                true => (glyphs.bar(count, of, SMALL_BAR) + " ", style),
                false => (String::new(), style),
            },
            (padded(&format!("{count}/{of}"), COUNT), Style::Plain),
        ]
    });
    bars.collect()
}

/// The width of each bar of a row.
pub(super) fn small_width(has_bars: bool) -> usize {
    match has_bars {
        true => GAP + SMALL_BAR + 1 + COUNT,
        false => GAP + COUNT,
    }
}

/// A count out of a total.
struct Bar {
    name: &'static str,
    count: i64,
    of: i64,
    style: Style,
}

/// The updated and available pods, or the succeeded pods of a Job.
fn bars(report: &RolloutReport) -> Vec<Bar> {
    let numbers = Numbers::of(report);
    let succeeded = counter(report, "succeeded");
    let bars = [
        ("updated", numbers.updated, numbers.to_update, Style::Plain),
        ("available", numbers.available, numbers.desired, Style::Good),
        (
            "succeeded",
            succeeded,
            counter(report, "completions"),
            Style::Good,
        ),
    ];
    let bars = bars.into_iter().filter_map(|(name, count, of, style)| {
        Some(Bar {
            name,
            count: count?,
            of: of?,
            style,
        })
    });
    bars.collect()
}
