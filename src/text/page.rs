//! Text for people: lines of at most 100 columns, or of the terminal's width, with optional colors. For other programs,
//! lines are not wrapped.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::printable::{ascii, printable};

/// The maximum line length that is easy to read, in columns.
const COLUMNS_MAX: usize = 100;

/// The minimum line length that a layout needs, in columns.
const COLUMNS_MIN: usize = 40;

/// The number of columns between two cells of a table.
const GAP: usize = 2;

/// Lines of text, in the order in which they were added.
#[derive(Debug)]
pub struct Page {
    text: String,
    coloured: bool,
    /// The maximum line length, in columns.
    columns: usize,
    /// The maximum width of a table, which is not wrapped in the output for another program.
    table_columns: usize,
    /// Whether to replace characters that are not ASCII.
    is_ascii: bool,
}

/// The emphasis of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// None.
    Plain,
    /// Bold.
    Strong,
    /// Less important than the rest.
    Faint,
    /// A success.
    Good,
    /// Something that may need attention.
    Warn,
    /// A failure.
    Bad,
}

/// A table. Each column is as wide as its widest cell.
#[derive(Debug, Default)]
pub(super) struct Columns {
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    cells: Vec<(String, Style)>,
    /// Text below the row, starting at the second column.
    below: String,
}

// === impl Page ===

impl Page {
    /// An empty page.
    pub fn new(coloured: bool) -> Self {
        Self {
            text: String::new(),
            coloured,
            columns: COLUMNS_MAX,
            table_columns: usize::MAX,
            is_ascii: false,
        }
    }

    /// A page with lines of this length for another program. Tables are not wrapped.
    pub fn with_columns(columns: usize) -> Self {
        Self {
            columns: columns.max(COLUMNS_MIN),
            ..Self::new(false)
        }
    }

    /// A page whose reader wraps its lines.
    pub fn unwrapped() -> Self {
        Self {
            columns: usize::MAX,
            ..Self::new(false)
        }
    }

    /// A page for a terminal with this number of columns.
    pub fn of_terminal(coloured: bool, columns: usize, is_utf8: bool) -> Self {
        let columns = columns.clamp(COLUMNS_MIN, COLUMNS_MAX);
        Self {
            columns,
            table_columns: columns,
            is_ascii: !is_utf8,
            ..Self::new(coloured)
        }
    }

    /// The text of the page.
    pub fn into_text(self) -> String {
        self.text
    }

    pub(super) fn gap(&mut self) {
        self.text.push('\n');
    }

    /// Adds text after a lead. Further lines are indented to the start of the text.
    pub(super) fn paragraph(&mut self, lead: &str, lead_style: Style, text: &str, style: Style) {
        let lead = printable(lead);
        let indent = width(&lead);
        let text = self.shown(printable(text));
        let lines = wrapped(&text, self.columns.saturating_sub(indent));
        for (number, line) in lines.iter().enumerate() {
            if number == 0 {
                self.push(&lead, lead_style);
            } else {
                self.blanks(indent);
            }
            self.push(line, style);
            self.end_line();
        }
    }

    /// A text in the characters of the terminal.
    fn shown(&self, text: String) -> String {
        if self.is_ascii { ascii(&text) } else { text }
    }

    pub(super) fn line(&mut self, text: &str, style: Style) {
        self.paragraph("", Style::Plain, text, style);
    }

    /// Adds a line that is not wrapped, for example of YAML.
    pub(super) fn verbatim(&mut self, text: &str) {
        let text = self.shown(printable(text));
        self.push(&text, Style::Plain);
        self.end_line();
    }

    pub(super) fn columns(&mut self, table: &Columns) {
        let ascii = self.is_ascii.then(|| table.to_ascii());
        let table = ascii.as_ref().unwrap_or(table);
        let table = &table.without_empty_columns(self.table_columns);
        let widths = table.widths(self.table_columns);
        for row in &table.rows {
            let cells = row.cells.iter().zip(&widths);
            let cells: Vec<(Vec<String>, usize, Style)> = cells
                .map(|((cell, style), width)| (wrapped(cell, *width), *width, *style))
                .collect();
            let height = cells.iter().map(|(lines, ..)| lines.len()).max();
            for number in 0..height.unwrap_or_default() {
                for (lines, width, style) in &cells {
                    let line = lines.get(number).map_or("", String::as_str);
                    self.push(line, *style);
                    self.blanks(width.saturating_sub(self::width(line)) + GAP);
                }
                self.end_line();
            }
            if !row.below.is_empty() {
                let indent = widths.first().copied().unwrap_or_default() + GAP;
                let blanks = " ".repeat(indent);
                self.paragraph(&blanks, Style::Plain, &row.below, Style::Plain);
            }
        }
    }

    /// The separator of a list in a cell: on a terminal, each entry has a line of its own.
    pub(super) fn separator(&self) -> &'static str {
        match self.table_columns {
            usize::MAX => ", ",
            _ => "\n",
        }
    }

    fn push(&mut self, text: &str, style: Style) {
        paint(&mut self.text, text, style, self.coloured);
    }

    fn blanks(&mut self, count: usize) {
        self.text.extend(std::iter::repeat_n(' ', count));
    }

    fn end_line(&mut self) {
        self.text.truncate(self.text.trim_end_matches(' ').len());
        self.text.push('\n');
    }
}

// === impl Columns ===

impl Columns {
    pub(super) fn head(names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let mut table = Self::default();
        let names = names.into_iter();
        table.row(names.map(|name| (name.into(), Style::Strong)), "");
        table
    }

    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = (String, Style)>, below: &str) {
        let cells = cells.into_iter();
        self.rows.push(Row {
            cells: cells
                .map(|(cell, style)| (printable(&cell), style))
                .collect(),
            below: below.to_owned(),
        });
    }
}

impl Columns {
    fn to_ascii(&self) -> Self {
        let rows = self.rows.iter().map(|row| Row {
            cells: row
                .cells
                .iter()
                .map(|(cell, style)| (ascii(cell), *style))
                .collect(),
            below: ascii(&row.below),
        });
        Self {
            rows: rows.collect(),
        }
    }

    /// The table without the columns in which every cell is "-", if it is wider than the page.
    fn without_empty_columns(&self, columns_max: usize) -> Self {
        let (widths, _) = self.natural_widths();
        let is_wide = table_width(&widths) > columns_max;
        let is_empty = |column: usize| {
            let mut rows = self.rows.iter().skip(1);
            rows.all(|row| row.cells.get(column).is_none_or(|(cell, _)| cell == "-"))
        };
        let kept: Vec<bool> = (0..widths.len())
            .map(|column| !is_wide || self.rows.len() < 2 || !is_empty(column))
            .collect();
        let rows = self.rows.iter().map(|row| {
            let cells = row.cells.iter().zip(&kept).filter(|(_, kept)| **kept);
            Row {
                cells: cells.map(|(cell, _)| cell.clone()).collect(),
                below: row.below.clone(),
            }
        });
        Self {
            rows: rows.collect(),
        }
    }

    /// The widths of the columns. If the table is wider than the page, the widest columns shrink: first those whose cells
    /// can be wrapped at spaces.
    fn widths(&self, columns_max: usize) -> Vec<usize> {
        let (mut widths, words) = self.natural_widths();
        let mut excess = table_width(&widths).saturating_sub(columns_max);
        while excess > 0 {
            let columns = || (0..widths.len()).rev();
            let wrappable = columns().filter(|&column| widths[column] > words[column]);
            // If two columns have the same width, the first one shrinks.
            let widest = wrappable.max_by_key(|&column| widths[column]);
            let widest = widest.or_else(|| columns().max_by_key(|&column| widths[column]));
            let Some(widest) = widest.filter(|&column| widths[column] > 0) else {
                break;
            };
            widths[widest] -= 1;
            excess -= 1;
        }
        widths
    }

    /// The widths of the widest cell and of the longest word of each column.
    fn natural_widths(&self) -> (Vec<usize>, Vec<usize>) {
        let (mut widths, mut words) = (Vec::new(), Vec::new());
        for row in &self.rows {
            widths.resize(widths.len().max(row.cells.len()), 0);
            words.resize(widths.len(), 0);
            for (column, (cell, _)) in row.cells.iter().enumerate() {
                let line = widest(cell.split('\n'));
                let word = widest(cell.split(['\n', ' ']));
                widths[column] = line.max(widths[column]);
                words[column] = word.max(words[column]);
            }
        }
        (widths, words)
    }
}

fn widest<'t>(texts: impl Iterator<Item = &'t str>) -> usize {
    texts.map(width).max().unwrap_or_default()
}

/// The width of a table with columns of these widths.
fn table_width(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + widths.len().saturating_sub(1) * GAP
}

/// Appends text in a style.
pub fn paint(to: &mut String, text: &str, style: Style, coloured: bool) {
    let code = match style {
        Style::Strong => "1",
        Style::Faint => "2",
        Style::Good => "32",
        Style::Warn => "33",
        Style::Bad => "31",
        Style::Plain => "",
    };
    if coloured && !code.is_empty() && !text.is_empty() {
        to.extend(["\u{1b}[", code, "m", text, "\u{1b}[0m"]);
    } else {
        to.push_str(text);
    }
}

/// The number of terminal columns that a text occupies.
pub fn width(text: &str) -> usize {
    text.width()
}

/// The text, padded with blanks to a width.
pub fn padded(text: &str, width: usize) -> String {
    let blanks = width.saturating_sub(text.width());
    format!("{text}{:blanks$}", "")
}

/// The text, truncated to a width. A truncated text ends with `more`.
pub fn fit(text: &str, columns: usize, more: &str) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let (begin, _) = split_at(text, columns.saturating_sub(width(more)));
    let (more, _) = split_at(more, columns);
    format!("{begin}{more}")
}

/// Splits a text at a width.
fn split_at(text: &str, columns: usize) -> (&str, &str) {
    let mut left = columns;
    let end = text.char_indices().find(|(_, c)| {
        let width = c.width().unwrap_or(0);
        let is_over = width > left;
        left = left.saturating_sub(width);
        is_over
    });
    text.split_at(end.map_or(text.len(), |(at, _)| at))
}

/// Wraps a text to lines of at most `width` columns, at spaces if possible, and at its own line breaks. Commands are not
/// divided, even if they are longer: users paste them.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = Vec::new();
    for paragraph in text.trim_end().split('\n') {
        let mut line = String::new();
        for part in parts(paragraph) {
            let mut part = part.to_owned();
            if !line.is_empty() && self::width(&line) + 1 + self::width(&part) > width {
                lines.push(std::mem::take(&mut line));
            } else if !line.is_empty() {
                line.push(' ');
            }
            while self::width(&part) > width && !is_command(&part) {
                let (begin, rest) = split_at(&part, width.max(2));
                lines.push(begin.to_owned());
                part = rest.to_owned();
            }
            line.push_str(&part);
        }
        lines.push(line);
    }
    lines
}

/// The words and commands of a text. A command ends where the clause ends.
pub fn parts(paragraph: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = Some(paragraph);
    while let Some(text) = rest {
        let mut ends = text.match_indices(' ').map(|(at, _)| at);
        let end = if is_command(text) {
            ends.find(|&end| is_clause(&text[..end]))
        } else {
            ends.next()
        };
        let (part, after) = match end {
            Some(end) => (&text[..end], text.get(end + 1..)),
            None => (text, None),
        };
        parts.push(part);
        rest = after;
    }
    parts
}

/// Whether a text begins with a command, for example "kubectl logs web -n shop".
pub fn is_command(text: &str) -> bool {
    let words = text.trim_start_matches('(').split_once(' ');
    words.is_some_and(|(program, rest)| {
        matches!(program, "kubectl" | "rollplan")
            && rest.starts_with(|first: char| first.is_ascii_lowercase())
    })
}

/// Whether a text ends like a clause, and not within quotes.
fn is_clause(text: &str) -> bool {
    let is_closed = |quote: char| text.matches(quote).count().is_multiple_of(2);
    text.ends_with([',', ';', ':', ')', '.']) && is_closed('\'') && is_closed('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_wrapped() {
        let check =
            |text: &str, expected: &[&str]| assert_eq!(wrapped(text, 10), expected, "{text}");
        check("", &[""]);
        check("0123456789", &["0123456789"]);
        check("01234 56789", &["01234", "56789"]);
        check("0123 56789 1 2", &["0123 56789", "1 2"]);
        check("0123456789abc de", &["0123456789", "abc de"]);
        check("a 0123456789abc de", &["a", "0123456789", "abc de"]);
        check("a\nb\n", &["a", "b"]);
        // Each character is two columns wide.
        check("漢字漢字漢字 漢字", &["漢字漢字漢", "字 漢字"]);
        // So is each sequence of a narrow character and a variation selector.
        check(
            "❤\u{fe0f} ❤\u{fe0f} ❤\u{fe0f} ❤\u{fe0f}",
            &["❤\u{fe0f} ❤\u{fe0f} ❤\u{fe0f}", "❤\u{fe0f}"],
        );
    }

    #[test]
    fn commands_are_not_wrapped() {
        let check =
            |text: &str, expected: &[&str]| assert_eq!(wrapped(text, 12), expected, "{text}");
        check(
            "raise the quota: kubectl describe quota -n shop",
            &["raise the", "quota:", "kubectl describe quota -n shop"],
        );
        check(
            "all (kubectl get deploy,rs,pods -o json), or not",
            &["all", "(kubectl get deploy,rs,pods -o json),", "or not"],
        );
        check(
            "rollplan undo deploy/web; delete it",
            &["rollplan undo deploy/web;", "delete it"],
        );
        // Quotes may contain the end of a clause.
        check(
            "kubectl patch job/db -p '{\"a\": 1, \"b\": 2}', and so on",
            &[
                "kubectl patch job/db -p '{\"a\": 1, \"b\": 2}',",
                "and so on",
            ],
        );
        // These are not commands.
        check("rollplan 1.2 and kubectl", &["rollplan 1.2", "and kubectl"]);
        check("kubectl.kubernetes.io", &["kubectl.kube", "rnetes.io"]);
    }

    #[test]
    fn texts_are_truncated_to_columns() {
        for (text, columns, expected) in [
            ("abc", 3, "abc"),
            ("abcd", 3, "ab…"),
            ("漢字", 4, "漢字"),
            ("漢字漢", 5, "漢字…"),
            ("漢字漢", 4, "漢…"),
            ("abc", 1, "…"),
            ("abc", 0, ""),
        ] {
            assert_eq!(fit(text, columns, "…"), expected, "{text}");
        }
        assert_eq!(padded("漢", 4), "漢  ");
    }

    #[test]
    fn long_cells_are_wrapped() {
        let text = |cells: [&str; 3]| {
            let mut table = Columns::head(["A", "B", "C"]);
            table.row(cells.map(|cell| (cell.to_owned(), Style::Plain)), "below");
            let mut page = Page::of_terminal(false, COLUMNS_MAX, true);
            page.columns(&table);
            page.into_text()
        };
        assert_eq!(
            text(["1", "two\nlines", "3"]),
            "A  B      C\n1  two    3\n   lines\n   below\n"
        );
        let long = "word ".repeat(30);
        let text = text(["1", &long, &"x".repeat(60)]);
        assert!(
            text.lines().all(|line| self::width(line) <= COLUMNS_MAX),
            "{text}"
        );
        assert_eq!(text.matches("word").count(), 30, "{text}");
        assert_eq!(text.matches('x').count(), 60, "{text}");
    }

    /// Names and images can be copied from a narrow terminal.
    #[test]
    fn words_are_divided_only_if_nothing_else_helps() {
        let text = |columns| {
            let mut table = Columns::head(["NAME", "CAUSE", "IMAGE", "STATE"]);
            for name in ["web-5dc4f4f9bb", "web-779f94f8fc"] {
                let cells = [name, "-", "registry.example/web:1.0", "cleaned up next"];
                table.row(cells.map(|cell| (cell.to_owned(), Style::Plain)), "");
            }
            let mut page = Page::of_terminal(false, columns, true);
            page.columns(&table);
            page.into_text()
        };
        let whole = text(64);
        assert!(
            whole.contains("CAUSE") && whole.lines().count() == 3,
            "{whole}"
        );
        // Columns without content are omitted first. Then texts are wrapped at spaces.
        assert!(!text(63).contains("CAUSE"));
        let next = " ".repeat(42) + "next";
        assert_eq!(
            text(52).lines().collect::<Vec<_>>(),
            [
                "NAME            IMAGE                     STATE",
                "web-5dc4f4f9bb  registry.example/web:1.0  cleaned up",
                &next,
                "web-779f94f8fc  registry.example/web:1.0  cleaned up",
                &next,
            ]
        );
        let narrowest = text(48);
        assert!(
            !narrowest.contains("web-5dc4f4f9bb  registry.example/web:1.0"),
            "{narrowest}"
        );
    }

    #[test]
    fn tables_for_other_programs_are_not_wrapped() {
        let mut table = Columns::head(["A", "B"]);
        let long = "word ".repeat(50);
        table.row(
            [long.as_str(), "x"].map(|cell| (cell.to_owned(), Style::Plain)),
            "",
        );
        let mut page = Page::new(false);
        page.columns(&table);
        assert_eq!(page.into_text().lines().count(), 2);
    }

    #[test]
    fn terminals_without_utf_8_get_ascii() {
        let mut table = Columns::head(["A", "B"]);
        table.row(
            ["4 − 1…", "x"].map(|cell| (cell.to_owned(), Style::Plain)),
            "ü",
        );
        let mut page = Page::of_terminal(false, 80, false);
        page.line("2 × web", Style::Plain);
        page.columns(&table);
        assert_eq!(
            page.into_text(),
            "2 x web\nA         B\n4 - 1...  x\n          \\u{fc}\n"
        );
    }

    #[test]
    fn colors_are_optional() {
        let text = |coloured| {
            let mut page = Page::new(coloured);
            page.line("x", Style::Bad);
            page.into_text()
        };
        assert_eq!(text(false), "x\n");
        assert_eq!(text(true), "\u{1b}[31mx\u{1b}[0m\n");
    }
}
