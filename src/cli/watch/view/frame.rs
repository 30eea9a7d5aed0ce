//! The frames of a live view: one rollout with the objects that it has created, or one row for each of several.

mod bars;
mod nodes;

use std::time::Duration;

use prost_types::Timestamp;

pub(super) use self::bars::Glyphs;
use self::bars::{limits, small, small_width};
pub(super) use self::nodes::Outline;

use crate::cli::watch::decision::Member;
use crate::proto::{Blocker, Phase, RolloutReport};
use crate::text::{Style, fit, one_line, padded, span, width, wrapped};

/// The maximum number of columns of wrapped text.
const COLUMNS_MAX: usize = 120;

/// The maximum number of lines of a cause, and of its remedy.
const PARAGRAPH_MAX: usize = 3;

/// The width of the longest state.
const STATE: usize = "progressing".len();

/// Bars are omitted if a cause next to them would have fewer columns.
const CAUSE_MIN: usize = 40;

/// A line as styled parts.
type Line = Vec<(String, Style)>;

/// The data of a frame.
pub(super) struct Frame<'f> {
    pub(super) names: &'f [String],
    pub(super) members: &'f [Member],
    pub(super) elapsed: Duration,
    pub(super) now: Timestamp,
    /// Whether it is the last frame: the causes are then printed below it in full.
    pub(super) is_final: bool,
}

// === impl Frame ===

impl Frame<'_> {
    /// The lines, truncated to a terminal with this number of columns and rows.
    pub(super) fn lines(&self, (columns, rows): (usize, usize), glyphs: &Glyphs) -> Vec<Line> {
        // The last row is for the cursor.
        let rows = rows.saturating_sub(1).max(1);
        let mut lines = match self.members {
            [one] => self.one(one, (columns, rows), glyphs),
            _ => self.several((columns, rows), glyphs),
        };
        lines.truncate(rows);
        for line in &mut lines {
            for (part, _) in line.iter_mut() {
                *part = glyphs.text(part);
            }
            fit_line(line, columns, glyphs.more);
        }
        lines
    }

    fn one(&self, member: &Member, (columns, rows): (usize, usize), glyphs: &Glyphs) -> Vec<Line> {
        let Some(report) = member.report() else {
            let text = format!("{}: no answer yet, {}", member.subject, self.elapsed());
            return vec![vec![plain(&text)]];
        };
        let (state, style) = member.state();
        let mut head = vec![
            (one_line(&member.subject), Style::Strong),
            plain("  "),
            (state.to_owned(), style),
            plain(&format!("  {}", self.elapsed())),
        ];
        if let Some(left) = member.course.time_left(self.elapsed) {
            let left = span::exact(left.as_secs().max(1));
            head.push(plain(&format!("  about {left} left")));
        }
        if let Some(left) = self.deadline(report) {
            head.push(plain(&format!("  {left}")));
        }
        let mut lines = vec![head];
        lines.extend(limits(report, columns, glyphs));
        let has_causes = !report.blockers.is_empty() && report.phase() != Phase::Complete;
        if self.is_final && !has_causes && !report.message.is_empty() {
            lines.push(vec![plain(&one_line(&report.message))]);
        }
        let tree = member.last.as_ref().map_or(&[][..], |last| &last.tree);
        let outline = Outline {
            glyphs,
            now: self.now.seconds,
            columns: Some(columns),
            groups: true,
        };
        let mut nodes = outline.lines(tree);
        if !self.is_final {
            let room = rows.saturating_sub(lines.len() + nodes.len());
            lines.extend(causes(&report.blockers, columns, room, glyphs));
        }
        let room = rows.saturating_sub(lines.len());
        if nodes.len() > room {
            let hidden = nodes.len() - room.saturating_sub(1);
            nodes.truncate(room.saturating_sub(1));
            nodes.push(more(hidden, "", glyphs));
        }
        lines.extend(nodes);
        lines
    }

    fn several(&self, (columns, rows): (usize, usize), glyphs: &Glyphs) -> Vec<Line> {
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
        let has_bars = self.has_bars(names, columns);
        let counts = names + 2 + STATE + 2;
        if width(&lines[0][0].0) < counts && counts + 2 * small_width(has_bars) <= columns {
            let heads = ["updated", "available"].map(|head| padded(head, small_width(has_bars)));
            let indent = counts - width(&lines[0][0].0);
            let heads = format!("{:indent$}{}", "", heads.concat());
            lines[0].push((heads.trim_end().to_owned(), Style::Faint));
        }
        let room = rows.saturating_sub(1);
        let mut order: Vec<usize> = (0..self.members.len()).collect();
        if order.len() > room {
            // Undecided and failed rollouts come first.
            order.sort_by_key(|&index| self.members[index].is_done());
        }
        let shown = match order.len() > room {
            true => room.saturating_sub(1),
            false => order.len(),
        };
        let hidden = order.len() - shown;
        let mut rows: Vec<Row> = order
            .iter()
            .take(shown)
            .map(|&index| self.row(index, names, has_bars, columns, glyphs))
            .collect();
        share(
            &mut rows,
            room.saturating_sub(shown + usize::from(hidden > 0)),
        );
        for row in rows {
            lines.extend(row.lines(glyphs));
        }
        if hidden > 0 {
            lines.push(more(hidden, "", glyphs));
        }
        lines
    }

    /// Whether there is room for bars in the rows.
    fn has_bars(&self, names: usize, columns: usize) -> bool {
        names + 2 + STATE + 2 * small_width(true) + CAUSE_MIN <= columns
    }

    fn row(
        &self,
        index: usize,
        names: usize,
        has_bars: bool,
        columns: usize,
        glyphs: &Glyphs,
    ) -> Row {
        let name = padded(&one_line(&self.names[index]), names);
        let mut line = vec![(name, Style::Strong), plain("  ")];
        let member = &self.members[index];
        let Some(report) = member.report() else {
            line.push(("no answer yet".to_owned(), Style::Faint));
            return Row::new(line);
        };
        let (state, style) = member.state();
        line.push((padded(state, STATE), style));
        line.extend(small(report, glyphs, has_bars));
        let mut row = Row::new(line);
        if let Some(blocker) = report.blockers.first().filter(|_| !self.is_final) {
            let message = one_line(&blocker.message);
            row.has_cause_below = line_width(&row.line) + 2 + width(&message) > columns;
            row.line.push(plain(&format!("  {message}")));
            row.is_failed = style == Style::Bad;
            if row.has_cause_below {
                row.below = paragraph("  ", &message, columns, glyphs);
            }
            if row.is_failed && !blocker.remedy.is_empty() {
                let remedy = one_line(&blocker.remedy);
                row.below
                    .extend(paragraph("  remedy: ", &remedy, columns, glyphs));
            }
        }
        row
    }

    fn elapsed(&self) -> String {
        span::exact(self.elapsed.as_secs())
    }

    fn deadline(&self, report: &RolloutReport) -> Option<String> {
        let left = report.deadline.as_ref()?.seconds - self.now.seconds;
        Some(match u64::try_from(left) {
            Ok(left @ 1..) => format!("deadline in {}", span::exact(left)),
            _ => "deadline passed".to_owned(),
        })
    }
}

/// The row of one of several rollouts.
struct Row {
    /// Ends with the cause.
    line: Line,
    is_failed: bool,
    /// Whether the cause is too long for the row.
    has_cause_below: bool,
    /// The wrapped cause and remedy.
    below: Vec<Line>,
    /// The number of lines below that there is room for.
    granted: usize,
}

impl Row {
    fn new(line: Line) -> Self {
        Self {
            line,
            is_failed: false,
            has_cause_below: false,
            below: Vec::new(),
            granted: 0,
        }
    }

    fn lines(mut self, glyphs: &Glyphs) -> Vec<Line> {
        let is_cut = self.granted < self.below.len();
        self.below.truncate(self.granted);
        if self.has_cause_below && self.granted > 0 {
            self.line.pop();
        }
        if let Some(last) = self.below.last_mut().filter(|_| is_cut) {
            last.push(plain(&format!(" {}", glyphs.more)));
        }
        let mut lines = vec![self.line];
        lines.extend(self.below);
        lines
    }
}

/// Grants lines below the rows: one to each in turn, and first to rollouts that have failed.
fn share(rows: &mut [Row], mut room: usize) {
    for is_failed in [true, false] {
        loop {
            let before = room;
            let mut wanting = rows.iter_mut().filter(|row| row.is_failed == is_failed);
            while let Some(row) = wanting.next().filter(|_| room > 0) {
                if row.granted < row.below.len() {
                    row.granted += 1;
                    room -= 1;
                }
            }
            if room == before {
                break;
            }
        }
    }
}

/// The blockers with their remedies: always the first one, and the others if there is room for all of their lines.
fn causes(blockers: &[Blocker], columns: usize, room: usize, glyphs: &Glyphs) -> Vec<Line> {
    let mut lines = Vec::new();
    for (index, blocker) in blockers.iter().enumerate() {
        let mut cause = paragraph("- ", &one_line(&blocker.message), columns, glyphs);
        if !blocker.remedy.is_empty() {
            let remedy = one_line(&blocker.remedy);
            cause.extend(paragraph("  remedy: ", &remedy, columns, glyphs));
        }
        let note = usize::from(index + 1 < blockers.len());
        if index > 0 && lines.len() + cause.len() + note > room {
            lines.push(more(blockers.len() - index, " causes", glyphs));
            break;
        }
        lines.extend(cause);
    }
    lines
}

fn more(count: usize, what: &str, glyphs: &Glyphs) -> Line {
    let what = match (count, what) {
        (1, " causes") => " cause",
        (_, what) => what,
    };
    vec![(format!("{} {count} more{what}", glyphs.more), Style::Faint)]
}

/// A text after a lead, wrapped to a few lines.
fn paragraph(lead: &str, text: &str, columns: usize, glyphs: &Glyphs) -> Vec<Line> {
    let indent = width(lead);
    let room = columns.min(COLUMNS_MAX).saturating_sub(indent);
    let mut texts = wrapped(text, room);
    if texts.len() > PARAGRAPH_MAX {
        texts.truncate(PARAGRAPH_MAX);
        if let Some(last) = texts.last_mut() {
            let left = room.saturating_sub(width(glyphs.more) + 1);
            *last = format!("{} {}", fit(last, left, ""), glyphs.more);
        }
    }
    let lines = texts.into_iter().enumerate().map(|(index, text)| {
        let lead = match index {
            0 => lead.to_owned(),
            _ => " ".repeat(indent),
        };
        vec![(lead, Style::Faint), plain(&text)]
    });
    lines.collect()
}

fn line_width(line: &Line) -> usize {
    line.iter().map(|(text, _)| width(text)).sum()
}

fn plain(text: &str) -> (String, Style) {
    (text.to_owned(), Style::Plain)
}

/// Truncates a line to the given width.
fn fit_line(line: &mut Line, columns: usize, more: &str) {
    let mut left = columns;
    for index in 0..line.len() {
        let text = &mut line[index].0;
        let needed = width(text);
        if needed > left {
            *text = fit(text, left, more);
            line.truncate(index + 1);
            return;
        }
        left -= needed;
    }
}

#[cfg(test)]
mod tests;
