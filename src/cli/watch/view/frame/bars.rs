//! Progress bars, and the characters to draw them with.

use super::Line;
use crate::proto::RolloutReport;
use crate::text::{Numbers, Style, counter, padded};

/// The width of a bar in columns.
const BAR: usize = 20;
const SMALL_BAR: usize = 10;

/// The characters to draw with.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli::watch::view) struct Glyphs {
    full: char,
    empty: char,
    pub(super) branch: &'static str,
    pub(super) last: &'static str,
    pub(super) down: &'static str,
    pub(super) more: &'static str,
}

pub(super) const UNICODE: Glyphs = Glyphs {
    full: '█',
    empty: '░',
    branch: "├─ ",
    last: "└─ ",
    down: "│  ",
    more: "…",
};

const ASCII: Glyphs = Glyphs {
    full: '#',
    empty: '.',
    branch: "|- ",
    last: "`- ",
    down: "|  ",
    more: "...",
};

// === impl Glyphs ===

impl Glyphs {
    /// The characters that the user's locale supports.
    pub(in crate::cli::watch::view) fn of_locale() -> Self {
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .iter()
            .filter_map(std::env::var_os)
            .find(|value| !value.is_empty());
        let locale = locale.map(|value| value.to_string_lossy().to_ascii_lowercase());
        match locale.is_some_and(|it| it.contains("utf-8") || it.contains("utf8")) {
            true => UNICODE,
            false => ASCII,
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

/// The progress of a rollout: one bar per line, with the limits of the rollout.
pub(super) fn limits(report: &RolloutReport, glyphs: &Glyphs) -> Vec<Line> {
    let counts = report.counts.clone().unwrap_or_default();
    let limit = |what: &str, number: i32, arithmetic: &str| match arithmetic {
        "" => String::new(),
        arithmetic => format!("{what} {number} ({arithmetic})"),
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
            (padded(name, 10), Style::Plain),
            (glyphs.bar(count, of, BAR), style),
        ];
        let number = format!(" {count} of {of}");
        match limit {
            "" => line.push((number, Style::Plain)),
            limit => {
                line.push((padded(&number, 12), Style::Plain));
                line.push((limit.to_owned(), Style::Faint));
            }
        }
        line
    });
    bars.collect()
}

/// The progress of a rollout as part of a row.
pub(super) fn small(report: &RolloutReport, glyphs: &Glyphs) -> Line {
    let bars = bars(report).into_iter().flat_map(|bar| {
        let Bar {
            count, of, style, ..
        } = bar;
        [
            ("  ".to_owned(), Style::Plain),
            (glyphs.bar(count, of, SMALL_BAR), style),
            (padded(&format!(" {count}/{of}"), 8), Style::Plain),
        ]
    });
    bars.collect()
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
