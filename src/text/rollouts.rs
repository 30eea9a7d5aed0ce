//! Formats rollouts as rows, one for each.

use rollplan_wire::proto::RolloutReport;

use super::numbers::Numbers;
use super::page::{Page, Style, padded, width, wrapped};
use super::printable::one_line;
use super::state::{DELETED, state};
use super::table;

/// The separator of columns.
const GAP: &str = "  ";

/// The width of the longest state.
const STATE: usize = "progressing".len();

/// A message is moved below its row if it would have fewer columns.
const MESSAGE_MIN: usize = 24;

/// The width of a count such as "1000/1000".
const COUNT: usize = 9;

/// The widths of the columns that depend on their content.
#[derive(Clone, Copy, Debug, Default)]
pub struct RowWidths {
    name: usize,
    /// The width of the terminal, if any. Longer messages continue on the next line.
    columns: Option<usize>,
}

impl RowWidths {
    /// The widths for objects with these names.
    pub fn new<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let name = names.map(|name| width(&one_line(name))).max();
        Self {
            name: name.unwrap_or(0).max("NAME".len()),
            columns: None,
        }
    }

    /// The same widths for a terminal.
    pub fn within(self, columns: Option<usize>) -> Self {
        Self { columns, ..self }
    }
}

/// The header row.
pub fn row_head(widths: &RowWidths, is_wide: bool) -> String {
    let wide = is_wide.then_some(["READY", "PODS", "REVISION"].map(str::to_owned));
    let counts = ["UPDATED", "AVAILABLE"].map(str::to_owned);
    line(widths, "NAME", "STATE", counts, wide, "MESSAGE")
}

/// The row of a rollout, with its first blocker.
pub fn row(widths: &RowWidths, name: &str, report: &RolloutReport, is_wide: bool) -> String {
    let numbers = Numbers::of(report);
    let none = || "-".to_owned();
    let of = |count: Option<i64>, all: Option<i64>| match (count, all) {
        (Some(count), Some(all)) => format!("{count}/{all}"),
        _ => none(),
    };
    let wide = is_wide.then(|| {
        let revision = match report.revision.as_str() {
            "" => "-".to_owned(),
            revision => one_line(revision),
        };
        let total = numbers.total.map_or_else(none, |total| total.to_string());
        [of(numbers.ready, numbers.desired), total, revision]
    });
    let message = report.blockers.first().map(|blocker| &blocker.message);
    let message = message.map_or_else(String::new, |message| one_line(message));
    line(
        widths,
        &one_line(name),
        state(report.phase()),
        [
            of(numbers.updated, numbers.to_update),
            of(numbers.available, numbers.desired),
        ],
        wide,
        &message,
    )
}

/// The row of an object that no longer exists.
pub fn deleted_row(widths: &RowWidths, name: &str, is_wide: bool) -> String {
    let none = || "-".to_owned();
    let wide = is_wide.then(|| [none(), none(), none()]);
    let counts = [none(), none()];
    line(widths, &one_line(name), DELETED, counts, wide, "")
}

fn line(
    widths: &RowWidths,
    name: &str,
    state: &str,
    counts: [String; 2],
    wide: Option<[String; 3]>,
    message: &str,
) -> String {
    let mut cells = vec![padded(name, widths.name), padded(state, STATE)];
    let wide = wide.into_iter().flatten();
    cells.extend(counts.into_iter().chain(wide).map(|it| padded(&it, COUNT)));
    let begin = cells.join(GAP) + GAP;
    let room = widths
        .columns
        .map(|columns| columns.saturating_sub(width(&begin)));
    match room.filter(|room| width(message) > *room) {
        None => format!("{}\n", (begin + message).trim_end()),
        Some(MESSAGE_MIN..) => hanging(&begin, message, widths),
        Some(_) => format!("{}\n", begin.trim_end()) + &hanging(GAP, message, widths),
    }
}

/// A message after the start of its row. Further lines are indented.
fn hanging(begin: &str, message: &str, widths: &RowWidths) -> String {
    let indent = width(begin);
    let columns = widths.columns.unwrap_or(usize::MAX);
    let lines = wrapped(message, columns.saturating_sub(indent));
    let separator = format!("\n{:indent$}", "");
    format!("{begin}{}\n", lines.join(&separator))
}

/// The blockers of a rollout, and how to fix them. With `is_first_known`, the first blocker has been printed already.
pub fn causes(
    page: &mut Page,
    subject: Option<&str>,
    report: &RolloutReport,
    is_first_known: bool,
) {
    if let Some(subject) = subject {
        page.gap();
        page.line(
            &format!("{subject}: {}", state(report.phase())),
            Style::Strong,
        );
    }
    table::blockers(page, report, is_first_known);
}

#[cfg(test)]
mod tests {
    use rollplan_wire::proto::{Blocker, Counts, Phase};

    use super::*;

    #[test]
    fn columns_of_rows_are_aligned() {
        let report = RolloutReport {
            phase: Phase::Stalled.into(),
            counts: Some(Counts {
                desired: 10,
                updated: 5,
                ready: 9,
                available: 8,
                total: 13,
                ..Default::default()
            }),
            revision: "3".to_owned(),
            blockers: vec![Blocker {
                message: "image x\u{1b} cannot be pulled".to_owned(),
                ..Default::default()
            }],
            ..Default::default()
        };
        let widths = RowWidths::new(["shop/web", "shop/漢字-api"].into_iter());
        let text = row_head(&widths, false)
            + &row(&widths, "shop/web", &report, false)
            + &row(&widths, "shop/漢字-api", &RolloutReport::default(), false);
        assert_eq!(
            text,
            "NAME           STATE        UPDATED    AVAILABLE  MESSAGE\n\
             shop/web       stalled      5/10       8/10       image x\\u{1b} cannot be pulled\n\
             shop/漢字-api  unknown      -          -\n"
        );
        let narrow = widths.within(Some(70));
        assert_eq!(
            row_head(&narrow, false) + &row(&narrow, "shop/漢字-api", &report, false),
            "NAME           STATE        UPDATED    AVAILABLE  MESSAGE\n\
             shop/漢字-api  stalled      5/10       8/10\n\
             \x20 image x\\u{1b} cannot be pulled\n"
        );
        let narrow = widths.within(Some(76));
        assert_eq!(
            row(&narrow, "shop/web", &report, false),
            format!(
                "shop/web       stalled      5/10       8/10       image x\\u{{1b}} cannot be\n{:50}pulled\n",
                ""
            )
        );
        let text = row_head(&widths, true)
            + &row(&widths, "shop/web", &report, true)
            + &deleted_row(&widths, "shop/web", true);
        assert_eq!(
            text,
            "NAME           STATE        UPDATED    AVAILABLE  READY      PODS       REVISION   MESSAGE\n\
             shop/web       stalled      5/10       8/10       9/10       13         3          image x\\u{1b} cannot be pulled\n\
             shop/web       deleted      -          -          -          -          -\n"
        );
    }
}
