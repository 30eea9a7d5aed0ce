//! What a live view shows: one rollout with all that it has created, or a row for each of several.

use std::time::Duration;

use prost_types::Timestamp;

use crate::cli::input::{Health, Node};
use crate::cli::watch::decision::Member;
use crate::proto::{Blocker, Counts, RolloutReport};
use crate::text::{Style, fit, one_line, padded, span, state, state_style, width};

/// A line in parts.
type Line = Vec<(String, Style)>;

/// Columns of a bar.
const BAR: usize = 20;
const SMALL_BAR: usize = 10;

/// What is drawn with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Glyphs {
    full: char,
    empty: char,
    branch: &'static str,
    last: &'static str,
    down: &'static str,
    more: &'static str,
}

const UNICODE: Glyphs = Glyphs {
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

/// Everything that a frame is made of.
pub(super) struct Frame<'f> {
    pub(super) names: &'f [String],
    pub(super) members: &'f [Member],
    pub(super) elapsed: Duration,
    pub(super) now: Timestamp,
    /// Whether the causes are printed below it, in full.
    pub(super) is_final: bool,
}

// === impl Glyphs ===

impl Glyphs {
    /// Those that the user's locale has.
    pub(super) fn of_locale() -> Self {
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

    fn bar(&self, count: i32, of: i32, columns: usize) -> String {
        let of = i64::from(of.max(1));
        let share = i64::from(count).clamp(0, of);
        let full = usize::try_from(share).unwrap_or(0) * columns / usize::try_from(of).unwrap_or(1);
        let bar = std::iter::repeat_n(self.full, full);
        bar.chain(std::iter::repeat_n(self.empty, columns - full))
            .collect()
    }
}

// === impl Frame ===

impl Frame<'_> {
    /// The lines, which fit a terminal of so many columns and rows.
    pub(super) fn lines(&self, (columns, rows): (usize, usize), glyphs: &Glyphs) -> Vec<Line> {
        // The cursor stands below the last one.
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
        let mut head = vec![
            (one_line(&member.subject), Style::Strong),
            plain("  "),
            (
                state(report.phase()).to_owned(),
                state_style(report.phase()),
            ),
            plain(&format!("  {}", self.elapsed())),
        ];
        if let Some(left) = self.deadline(report) {
            head.push(plain(&format!("  {left}")));
        }
        let mut lines = vec![head];
        if let Some(counts) = &report.counts {
            lines.extend(limits(counts, glyphs));
        }
        if !self.is_final {
            lines.extend(report.blockers.iter().map(cause));
        }
        if self.is_final && report.blockers.is_empty() && !report.message.is_empty() {
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
            // What is undecided or has failed is what somebody wants to see.
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
        let phase = report.phase();
        line.push((padded(state(phase), 11), state_style(phase)));
        if let Some(counts) = &report.counts {
            for (count, style) in [
                (counts.updated, Style::Plain),
                (counts.available, Style::Good),
            ] {
                let bar = glyphs.bar(count, counts.desired, SMALL_BAR);
                line.push(plain("  "));
                line.push((bar, style));
                line.push(plain(&padded(&format!(" {count}/{}", counts.desired), 8)));
            }
        }
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

/// The bars, each with the limit that the rollout keeps.
fn limits(counts: &Counts, glyphs: &Glyphs) -> [Line; 2] {
    let bar = |name: &str, count: i32, style: Style, limit: String| {
        vec![
            plain(&padded(name, 10)),
            (glyphs.bar(count, counts.desired, BAR), style),
            plain(&padded(&format!(" {count} of {}", counts.desired), 12)),
            (limit, Style::Faint),
        ]
    };
    let Counts {
        max_total,
        min_available,
        max_total_arithmetic: max,
        min_available_arithmetic: min,
        ..
    } = counts;
    [
        bar(
            "updated",
            counts.updated,
            Style::Plain,
            format!("at most {max_total} ({max})"),
        ),
        bar(
            "available",
            counts.available,
            Style::Good,
            format!("at least {min_available} ({min})"),
        ),
    ]
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

/// Cuts a line that is too long.
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
mod tests {
    use super::*;
    use crate::cli::observe::Status;
    use crate::cli::options::{Goal, JudgementArgs};
    use crate::proto::{ComputeStatusResponse, Phase};

    fn member(name: &str, updated: i32, pods: usize) -> Member {
        let blocker = Blocker {
            message: "2 of 4 new pods are starting: \u{1b}[31m漢字".to_owned(),
            ..Default::default()
        };
        let report = RolloutReport {
            phase: Phase::Progressing.into(),
            counts: Some(Counts {
                desired: 4,
                total: 5,
                updated,
                available: 4,
                max_total: 5,
                min_available: 3,
                max_total_arithmetic: "4 + 25% rounded up = 5".to_owned(),
                min_available_arithmetic: "4 − 25% rounded down = 3".to_owned(),
                ..Default::default()
            }),
            deadline: Some(Timestamp {
                seconds: 1_595,
                nanos: 0,
            }),
            blockers: vec![blocker],
            ..Default::default()
        };
        let pod = |number: usize| Node {
            label: format!("web-{number}"),
            state: "Running, ready".to_owned(),
            health: Health::Ready,
            children: Vec::new(),
        };
        let judgement = JudgementArgs {
            fail_fast: Default::default(),
            fail_on: Vec::new(),
        };
        let mut member = Member::new(name, Goal::Complete, &judgement);
        let status = Status {
            subject: format!("Deployment {name}"),
            uid: "u".to_owned(),
            response: ComputeStatusResponse {
                report: Some(report),
                ..Default::default()
            },
            tree: vec![Node {
                label: "ReplicaSet web-7d9".to_owned(),
                state: "revision 3, 2 of 4 ready".to_owned(),
                health: Health::Failing,
                children: (0..pods).map(pod).collect(),
            }],
        };
        member.take(status, Duration::ZERO);
        member
    }

    fn lines(members: &[Member], size: (usize, usize), is_final: bool) -> Vec<String> {
        let names: Vec<String> = members.iter().map(|it| it.subject.clone()).collect();
        let frame = Frame {
            names: &names,
            members,
            elapsed: Duration::from_secs(42),
            now: Timestamp {
                seconds: 1_000,
                nanos: 0,
            },
            is_final,
        };
        let lines = frame.lines(size, &UNICODE);
        lines
            .into_iter()
            .map(|line| line.into_iter().map(|(text, _)| text).collect())
            .collect()
    }

    #[test]
    fn one_rollout_with_its_pods() {
        let members = [member("shop/web", 2, 2)];
        let expected = [
            "Deployment shop/web  progressing  42s  deadline in 9m 55s",
            "updated   ██████████░░░░░░░░░░ 2 of 4     at most 5 (4 + 25% rounded up = 5)",
            "available ████████████████████ 4 of 4     at least 3 (4 − 25% rounded down = 3)",
            "- 2 of 4 new pods are starting: \\u{1b}[31m漢字",
            "└─ ReplicaSet web-7d9  revision 3, 2 of 4 ready",
            "   ├─ web-0  Running, ready",
            "   └─ web-1  Running, ready",
        ];
        assert_eq!(lines(&members, (100, 24), false), expected);
        // What is printed below in full is not there twice.
        let last = lines(&members, (100, 24), true);
        assert!(
            !last.iter().any(|line| line.contains("starting")),
            "{last:?}"
        );
    }

    #[test]
    fn frames_fit_the_terminal() {
        let one = [member("shop/web", 2, 50)];
        let several: Vec<_> = (0..50)
            .map(|n| member(&format!("shop/w{n}"), 1, 0))
            .collect();
        for members in [&one[..], &several] {
            for size in [(100, 24), (40, 10), (20, 3), (1, 1)] {
                let lines = lines(members, size, false);
                assert!(lines.len() < size.1.max(2), "{lines:?}");
                for line in &lines {
                    assert!(width(line) <= size.0, "{size:?}: {line}");
                }
            }
        }
        assert_eq!(lines(&one, (80, 10), false)[8], "… 47 more");
        assert_eq!(lines(&several, (80, 10), false)[8], "… 43 more");
    }

    #[test]
    fn what_is_complete_makes_room_for_the_others() {
        let mut members: Vec<_> = (0..9).map(|n| member(&format!("w{n}"), 1, 0)).collect();
        members[0].outcome = Some(crate::cli::watch::decision::Outcome::Exit(
            crate::cli::exit::Exit::Done,
        ));
        let shown = lines(&members, (80, 8), false);
        assert!(!shown.iter().any(|line| line.starts_with("Deployment w0 ")));
        assert_eq!(shown[0], "1 of 9 decided  42s");
    }
}
