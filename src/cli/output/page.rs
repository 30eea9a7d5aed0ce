//! Text for people: lines of at most 100 columns, coloured where that helps.

/// Columns that a line has at most: what fits a terminal beside other things, and a log.
const COLUMNS_MAX: usize = 100;

/// Columns between those of a table.
const GAP: usize = 2;

/// Lines, as they come together.
#[derive(Debug)]
pub(in crate::cli) struct Page {
    text: String,
    coloured: bool,
}

/// How a text stands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    Plain,
    Strong,
    Faint,
    Good,
    Bad,
}

/// A table, its columns as wide as they must be.
#[derive(Debug, Default)]
pub(super) struct Columns {
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    cells: Vec<(String, Look)>,
    /// Goes below, from the second column on.
    below: String,
}

// === impl Page ===

impl Page {
    pub(in crate::cli) fn new(coloured: bool) -> Self {
        Self {
            text: String::new(),
            coloured,
        }
    }

    pub(in crate::cli) fn into_text(self) -> String {
        self.text
    }

    pub(super) fn gap(&mut self) {
        self.text.push('\n');
    }

    /// A text after what leads it, continued below itself where it is too long.
    pub(super) fn paragraph(&mut self, lead: &str, lead_look: Look, text: &str, look: Look) {
        let lead = printable(lead);
        let indent = columns(&lead);
        let lines = wrapped(&printable(text), COLUMNS_MAX.saturating_sub(indent));
        for (number, line) in lines.iter().enumerate() {
            if number == 0 {
                self.push(&lead, lead_look);
            } else {
                self.blanks(indent);
            }
            self.push(line, look);
            self.end_line();
        }
    }

    pub(super) fn line(&mut self, text: &str, look: Look) {
        self.paragraph("", Look::Plain, text, look);
    }

    pub(super) fn columns(&mut self, table: &Columns) {
        let widths = table.widths();
        for row in &table.rows {
            let cells = row.cells.iter().zip(&widths);
            let cells: Vec<(Vec<String>, usize, Look)> = cells
                .map(|((cell, look), width)| (wrapped(cell, *width), *width, *look))
                .collect();
            let height = cells.iter().map(|(lines, ..)| lines.len()).max();
            for number in 0..height.unwrap_or_default() {
                for (lines, width, look) in &cells {
                    let line = lines.get(number).map_or("", String::as_str);
                    self.push(line, *look);
                    self.blanks(width.saturating_sub(columns(line)) + GAP);
                }
                self.end_line();
            }
            if !row.below.is_empty() {
                let indent = widths.first().copied().unwrap_or_default() + GAP;
                let blanks = " ".repeat(indent);
                self.paragraph(&blanks, Look::Plain, &row.below, Look::Plain);
            }
        }
    }

    fn push(&mut self, text: &str, look: Look) {
        let code = match look {
            Look::Strong => "1",
            Look::Faint => "2",
            Look::Good => "32",
            Look::Bad => "31",
            Look::Plain => "",
        };
        if self.coloured && !code.is_empty() && !text.is_empty() {
            self.text.extend(["\u{1b}[", code, "m", text, "\u{1b}[0m"]);
        } else {
            self.text.push_str(text);
        }
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
    pub(super) fn head<const N: usize>(names: [&str; N]) -> Self {
        let mut table = Self::default();
        table.row(names.map(|name| (name.to_owned(), Look::Strong)), "");
        table
    }

    pub(super) fn row<const N: usize>(&mut self, cells: [(String, Look); N], below: &str) {
        let cells = cells.into_iter();
        self.rows.push(Row {
            cells: cells.map(|(cell, look)| (printable(&cell), look)).collect(),
            below: below.to_owned(),
        });
    }
}

impl Columns {
    /// How wide the columns are: as their cells, or less where the page is not wide enough for them. Then the
    /// widest give way.
    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = Vec::new();
        for row in &self.rows {
            for (column, (cell, _)) in row.cells.iter().enumerate() {
                let width = cell.split('\n').map(columns).max().unwrap_or_default();
                match widths.get_mut(column) {
                    Some(widest) => *widest = width.max(*widest),
                    None => widths.push(width),
                }
            }
        }
        let gaps = widths.len().saturating_sub(1) * GAP;
        let mut excess = (widths.iter().sum::<usize>() + gaps).saturating_sub(COLUMNS_MAX);
        while excess > 0 {
            // Of two as wide, the one that comes first.
            let Some(widest) = widths.iter_mut().rev().max_by_key(|width| **width) else {
                break;
            };
            *widest = widest.saturating_sub(1);
            excess -= 1;
        }
        widths
    }
}

/// Control characters are spelled out: what pods and API servers say must not steer a terminal.
pub(super) fn printable(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => printable.push(c),
            c if c.is_control() => printable.extend(c.escape_default()),
            c => printable.push(c),
        }
    }
    printable
}

fn columns(text: &str) -> usize {
    text.chars().count()
}

/// Lines of at most so many columns, broken at blanks where there are any, and where the text breaks.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = Vec::new();
    for paragraph in text.trim_end().split('\n') {
        let mut line = String::new();
        for word in paragraph.split(' ') {
            let mut word = word.to_owned();
            if !line.is_empty() && columns(&line) + 1 + columns(&word) > width {
                lines.push(std::mem::take(&mut line));
            } else if !line.is_empty() {
                line.push(' ');
            }
            while columns(&line) + columns(&word) > width {
                let rest: String = word.chars().skip(width).collect();
                lines.push(word.chars().take(width).collect());
                word = rest;
            }
            line.push_str(&word);
        }
        lines.push(line);
    }
    lines
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
    }

    #[test]
    fn long_cells_are_wrapped() {
        let text = |cells: [&str; 3]| {
            let mut table = Columns::head(["A", "B", "C"]);
            table.row(cells.map(|cell| (cell.to_owned(), Look::Plain)), "below");
            let mut page = Page::new(false);
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
            text.lines().all(|line| columns(line) <= COLUMNS_MAX),
            "{text}"
        );
        assert_eq!(text.matches("word").count(), 30, "{text}");
        assert_eq!(text.matches('x').count(), 60, "{text}");
    }

    #[test]
    fn nothing_steers_the_terminal() {
        assert_eq!(
            printable("a\u{1b}[31mb\tc\rd\ne"),
            "a\\u{1b}[31mb\\tc\\rd\ne"
        );
    }

    #[test]
    fn colours_come_and_go() {
        let text = |coloured| {
            let mut page = Page::new(coloured);
            page.line("x", Look::Bad);
            page.into_text()
        };
        assert_eq!(text(false), "x\n");
        assert_eq!(text(true), "\u{1b}[31mx\u{1b}[0m\n");
    }
}
