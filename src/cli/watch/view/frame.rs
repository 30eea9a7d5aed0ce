//! The frames of a live view: one rollout with the objects that it has created, or one row for each of several.

mod bars;

use std::time::Duration;

use prost_types::Timestamp;

pub(super) use self::bars::Glyphs;
use self::bars::{limits, small};

use crate::cli::input::{Health, Node};
use crate::cli::watch::decision::Member;
use crate::proto::{Blocker, Phase, RolloutReport};
use crate::text::{Style, fit, one_line, padded, span, width};

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
            [one] => self.one(one, rows, glyphs),
            _ => self.several(rows, glyphs),
        };
        lines.truncate(rows);
        for line in &mut lines {
            fit_line(line, columns, glyphs.more);
        }
        lines
    }

    fn one(&self, member: &Member, rows: usize, glyphs: &Glyphs) -> Vec<Line> {
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
        if let Some(left) = self.deadline(report) {
            head.push(plain(&format!("  {left}")));
        }
        let mut lines = vec![head];
        lines.extend(limits(report, glyphs));
        if !self.is_final {
            lines.extend(report.blockers.iter().map(cause));
        }
        let has_causes = !report.blockers.is_empty() && report.phase() != Phase::Complete;
        if self.is_final && !has_causes && !report.message.is_empty() {
            lines.push(vec![plain(&one_line(&report.message))]);
        }
        let tree = member.last.as_ref().map_or(&[][..], |last| &last.tree);
        let mut nodes = Vec::new();
        add_nodes(tree, "", glyphs, &mut nodes);
        let room = rows.saturating_sub(lines.len());
        if nodes.len() > room {
            let hidden = nodes.len() - room.saturating_sub(1);
            nodes.truncate(room.saturating_sub(1));
            nodes.push(vec![(
                format!("{} {hidden} more", glyphs.more),
                Style::Faint,
            )]);
        }
        lines.extend(nodes);
        lines
    }

    fn several(&self, rows: usize, glyphs: &Glyphs) -> Vec<Line> {
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
        let room = rows.saturating_sub(2);
        let mut order: Vec<usize> = (0..self.members.len()).collect();
        if order.len() > room {
            // Undecided and failed rollouts come first.
            order.sort_by_key(|&index| self.members[index].is_done());
        }
        let hidden = order.len().saturating_sub(room);
        for &index in order.iter().take(room) {
            lines.push(self.row(index, names, glyphs));
        }
        if hidden > 0 {
            lines.push(vec![(
                format!("{} {hidden} more", glyphs.more),
                Style::Faint,
            )]);
        }
        lines
    }

    fn row(&self, index: usize, names: usize, glyphs: &Glyphs) -> Line {
        let name = padded(&one_line(&self.names[index]), names);
        let mut line = vec![(name, Style::Strong), plain("  ")];
        let member = &self.members[index];
        let Some(report) = member.report() else {
            line.push(("no answer yet".to_owned(), Style::Faint));
            return line;
        };
        let (state, style) = member.state();
        line.push((padded(state, 11), style));
        line.extend(small(report, glyphs));
        if let Some(blocker) = report.blockers.first().filter(|_| !self.is_final) {
            line.push(plain(&format!("  {}", one_line(&blocker.message))));
        }
        line
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

fn plain(text: &str) -> (String, Style) {
    (text.to_owned(), Style::Plain)
}

fn cause(blocker: &Blocker) -> Line {
    vec![plain("- "), plain(&one_line(&blocker.message))]
}

pub(super) fn add_nodes(nodes: &[Node], indent: &str, glyphs: &Glyphs, lines: &mut Vec<Line>) {
    for (index, node) in nodes.iter().enumerate() {
        let is_last = index + 1 == nodes.len();
        let (branch, down) = match is_last {
            true => (glyphs.last, "   "),
            false => (glyphs.branch, glyphs.down),
        };
        let style = match node.health {
            Health::Failing => Style::Bad,
            Health::Waiting => Style::Warn,
            Health::Ending => Style::Faint,
            Health::Ready => Style::Good,
        };
        lines.push(vec![
            (format!("{indent}{branch}"), Style::Faint),
            plain(&one_line(&node.label)),
            plain("  "),
            (one_line(&node.state), style),
        ]);
        add_nodes(&node.children, &format!("{indent}{down}"), glyphs, lines);
    }
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
