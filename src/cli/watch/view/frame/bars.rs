//! Progress bars, and the characters to draw them with.

use rollplan_text::{Numbers, Style, ascii, counter, padded, width};
use rollplan_wire::proto::RolloutReport;

use super::Line;
use crate::cli::output;

/// The width of a bar in columns.
const BAR: usize = 20;
const SMALL_BAR: usize = 10;
/// The gap before each bar of a row.
const GAP: usize = 2;

/// The heads of the bars of rows.
const HEADS: [&str; 2] = ["updated", "available"];

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
        if output::is_utf8() { UNICODE } else { ASCII }
    }

    /// A text in these characters.
    pub(super) fn text(&self, text: &str) -> String {
        if self.more.is_ascii() {
            ascii(text)
        } else {
            text.to_owned()
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

/// The columns of rows that show progress, with bars or as numbers only.
#[derive(Clone, Copy)]
pub(super) struct SmallBars {
    has_bars: bool,
    counts: [usize; HEADS.len()],
}

// === impl SmallBars ===

impl SmallBars {
    pub(super) fn of<'r>(reports: impl Iterator<Item = &'r RolloutReport>) -> Self {
        let mut counts = HEADS.map(width);
        for report in reports {
            for (bar, width) in bars(report).iter().zip(&mut counts) {
                *width = (*width).max(bar.number().len());
            }
        }
        Self {
            has_bars: true,
            counts,
        }
    }

    pub(super) fn without_bars(self) -> Self {
        Self {
            has_bars: false,
            ..self
        }
    }

    pub(super) fn width(&self) -> usize {
        self.counts
            .map(|count| GAP + self.bar_width() + count)
            .iter()
            .sum()
    }

    /// The width of a bar, with the space after it. 0 without bars.
    fn bar_width(&self) -> usize {
        if self.has_bars { SMALL_BAR + 1 } else { 0 }
    }

    pub(super) fn head(&self) -> String {
        let heads = HEADS.iter().zip(self.counts);
        let heads =
            heads.map(|(head, count)| " ".repeat(GAP) + &padded(head, self.bar_width() + count));
        heads.collect()
    }

    pub(super) fn line(&self, report: &RolloutReport, glyphs: &Glyphs) -> Line {
        let bars = bars(report);
        let parts = self.counts.iter().enumerate().flat_map(|(index, count)| {
            let bar = bars.get(index);
            let (filled, style) = match bar {
                Some(bar) if self.has_bars => (glyphs.bar(bar.count, bar.of, SMALL_BAR), bar.style),
                _ => (String::new(), Style::Plain),
            };
            let number = bar.map(Bar::number).unwrap_or_default();
            [
                (" ".repeat(GAP), Style::Plain),
                (padded(&filled, self.bar_width()), style),
                (padded(&number, *count), Style::Plain),
            ]
        });
        parts.collect()
    }
}

/// A count out of a total.
struct Bar {
    name: &'static str,
    count: i64,
    of: i64,
    style: Style,
}

impl Bar {
    fn number(&self) -> String {
        format!("{}/{}", self.count, self.of)
    }
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
