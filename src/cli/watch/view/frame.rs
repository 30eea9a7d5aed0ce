//! The frames of a live view: one rollout with the objects that it has created, or one row for each of several.

mod bars;
mod nodes;
mod rows;

use std::time::Duration;

use prost_types::Timestamp;
use rollplan_text::{Style, fit, one_line, span, width, wrapped};
use rollplan_wire::proto::{Blocker, Phase, RolloutReport};

pub(super) use self::bars::Glyphs;
use self::bars::limits;
pub(super) use self::nodes::Outline;

use crate::cli::watch::decision::Member;

/// The maximum number of columns of wrapped text.
const COLUMNS_MAX: usize = 120;

/// The maximum number of lines of a cause, and of its remedy.
const PARAGRAPH_MAX: usize = 3;

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
            head.push(plain(&format!("  {left}")));
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
