//! One row for each of several rollouts, with the causes of those that need attention.

use rollplan_text::{Style, one_line, padded, width};

use super::bars::{Glyphs, SmallBars};
use super::{Frame, Line, fit_line, line_width, paragraph, plain};
use crate::cli::watch::decision::{Member, Urgency};

/// The width of the longest state.
const STATE: usize = "progressing".len();

/// Bars are omitted if a cause next to them would have fewer columns.
const CAUSE_MIN: usize = 40;

/// The layout of rows.
struct Layout<'g> {
    names: usize,
    bars: SmallBars,
    columns: usize,
    glyphs: &'g Glyphs,
}

/// A row, and the lines below it.
struct Row {
    urgency: Urgency,
    state: &'static str,
    line: Line,
    /// The cause, to be shown at the end of the row.
    cause: String,
    /// The wrapped cause, if it does not fit into the row.
    cause_below: Vec<Line>,
    remedy: Vec<Line>,
    /// Whether there is room for the row, for how many lines of its cause, and for its remedy.
    is_shown: bool,
    cause_lines: usize,
    has_remedy: bool,
}

/// A part of a row. It is omitted if rows are short.
#[derive(Clone, Copy)]
enum Part {
    Row,
    Cause,
    Remedy,
}

/// The parts of rows, the most important first. What does not fit is omitted: first rollouts that are complete, and then
/// those that only take time.
const IMPORTANCE: [(Urgency, Part); 9] = [
    (Urgency::Failed, Part::Row),
    (Urgency::NeedsChange, Part::Row),
    (Urgency::Failed, Part::Cause),
    (Urgency::NeedsChange, Part::Cause),
    (Urgency::Pending, Part::Row),
    (Urgency::Failed, Part::Remedy),
    (Urgency::NeedsChange, Part::Remedy),
    (Urgency::Pending, Part::Cause),
    (Urgency::Done, Part::Row),
];

// === impl Frame ===

impl Frame<'_> {
    pub(super) fn several(&self, (columns, rows): (usize, usize), glyphs: &Glyphs) -> Vec<Line> {
        let decided = self.members.iter().filter(|it| it.outcome.is_some());
        let head = format!(
            "{} of {} decided  {}",
            decided.count(),
            self.members.len(),
            self.elapsed()
        );
        let mut lines = vec![vec![(head, Style::Strong)]];
        let names = self.names.iter().map(|name| width(&one_line(name))).max();
        let names = names.unwrap_or(0);
        let bars = SmallBars::of(self.members.iter().filter_map(Member::report));
        let counts = names + 2 + STATE;
        let bars = if counts + bars.width() + CAUSE_MIN <= columns {
            bars
        } else {
            bars.without_bars()
        };
        let head = width(&lines[0][0].0);
        if head < counts && counts + bars.width() <= columns {
            let heads = " ".repeat(counts - head) + bars.head().trim_end();
            lines[0].push((heads, Style::Faint));
        }
        let layout = Layout {
            names,
            bars,
            columns,
            glyphs,
        };
        let members = self.names.iter().zip(self.members);
        let mut all: Vec<Row> = members
            .map(|(name, member)| layout.row(name, member, self.is_final))
            .collect();
        let room = rows.saturating_sub(1);
        if !grant(&mut all, room) {
            all.sort_by_key(|row| row.urgency);
            // A line is for the rows that are omitted.
            grant(&mut all, room.saturating_sub(1));
        }
        let omitted = omitted(&all, glyphs);
        for row in all.into_iter().filter(|row| row.is_shown) {
            lines.extend(row.lines(columns, glyphs));
        }
        lines.extend(omitted);
        lines
    }
}

// === impl Layout ===

impl Layout<'_> {
    fn row(&self, name: &str, member: &Member, is_final: bool) -> Row {
        let name = padded(&one_line(name), self.names);
        let (state, style) = member.state();
        let mut row = Row {
            urgency: member.urgency(),
            state,
            line: vec![(name, Style::Strong), plain("  ")],
            cause: String::new(),
            cause_below: Vec::new(),
            remedy: Vec::new(),
            is_shown: false,
            cause_lines: 0,
            has_remedy: false,
        };
        let Some(report) = member.report() else {
            row.line.push(("no answer yet".to_owned(), Style::Faint));
            return row;
        };
        row.line.push((padded(state, STATE), style));
        row.line.extend(self.bars.line(report, self.glyphs));
        let Some(blocker) = report.blockers.first().filter(|_| !is_final) else {
            return row;
        };
        row.cause = one_line(&blocker.message);
        if line_width(&row.line) + 2 + width(&row.cause) > self.columns {
            row.cause_below = paragraph("  ", &row.cause, self.columns, self.glyphs);
        }
        let remedy = one_line(&blocker.remedy);
        if row.urgency <= Urgency::NeedsChange && !remedy.is_empty() {
            row.remedy = paragraph("  remedy: ", &remedy, self.columns, self.glyphs);
        }
        row
    }
}

// === impl Row ===

impl Row {
    /// Grants a part of the row as many lines as there are left. Returns their number.
    fn grant(&mut self, part: Part, left: usize) -> usize {
        match part {
            Part::Row => {
                self.is_shown = left > 0;
                usize::from(self.is_shown)
            }
            Part::Cause => {
                self.cause_lines = self.cause_below.len().min(left);
                self.cause_lines
            }
            // The end of a command cannot be omitted.
            Part::Remedy => {
                self.has_remedy = self.remedy.len() <= left;
                if self.has_remedy {
                    self.remedy.len()
                } else {
                    0
                }
            }
        }
    }

    fn lines(mut self, columns: usize, glyphs: &Glyphs) -> Vec<Line> {
        let is_cut = self.cause_lines < self.cause_below.len();
        if self.cause_lines == 0 && !self.cause.is_empty() {
            self.line.push(plain(&format!("  {}", self.cause)));
        }
        let mut lines = vec![self.line];
        lines.extend(self.cause_below.into_iter().take(self.cause_lines));
        if self.cause_lines > 0
            && is_cut
            && let Some(last) = lines.last_mut()
        {
            let more = format!(" {}", glyphs.more);
            fit_line(last, columns.saturating_sub(width(&more)), "");
            last.push(plain(&more));
        }
        if self.has_remedy {
            lines.extend(self.remedy);
        }
        lines
    }
}

/// Divides the room among the rows. Returns whether all rows are shown.
fn grant(rows: &mut [Row], mut room: usize) -> bool {
    for (urgency, part) in IMPORTANCE {
        for row in rows.iter_mut().filter(|row| row.urgency == urgency) {
            room -= row.grant(part, room);
        }
    }
    rows.iter().all(|row| row.is_shown)
}

/// The number of rows that are not shown, by their state.
fn omitted(rows: &[Row], glyphs: &Glyphs) -> Option<Line> {
    let mut states: Vec<(&str, usize)> = Vec::new();
    for row in rows.iter().filter(|row| !row.is_shown) {
        match states.iter_mut().find(|(state, _)| *state == row.state) {
            Some((_, count)) => *count += 1,
            None => states.push((row.state, 1)),
        }
    }
    let text = match states.as_slice() {
        [] => return None,
        [(state, count)] => format!("{} {count} more {state}", glyphs.more),
        states => {
            let total: usize = states.iter().map(|(_, count)| count).sum();
            let counts = states
                .iter()
                .map(|(state, count)| format!("{count} {state}"));
            let counts: Vec<_> = counts.collect();
            format!("{} {total} more: {}", glyphs.more, counts.join(", "))
        }
    };
    Some(vec![(text, Style::Faint)])
}
