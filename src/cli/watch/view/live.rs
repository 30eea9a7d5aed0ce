//! Redraws frames in place on a terminal.
//!
//! This takes only a few escape codes: cursor up, cursor left, clear below. A TUI library would use the whole screen,
//! and leave no output for later readers of the terminal.

use std::io::{self, Write as _};
use std::time::Duration;

use rollplan_text::{paint, width};

use super::frame::{Frame, Glyphs};
use crate::cli::output;

/// Disables line wrapping, and lets the terminal show each frame at once.
const BEGIN: &str = "\u{1b}[?2026h\u{1b}[?7l";
const END: &str = "\u{1b}[?7h\u{1b}[?2026l";

/// The fallback if the size of the terminal is unknown.
const SIZE: (usize, usize) = (80, 24);

/// The part of a terminal with the current frame.
pub(super) struct Live {
    is_coloured: bool,
    glyphs: Glyphs,
    /// The widths of the current lines.
    drawn: Vec<usize>,
    elapsed: Duration,
}

// === impl Live ===

impl Live {
    pub(super) fn new() -> Self {
        Self {
            is_coloured: output::is_coloured(),
            glyphs: Glyphs::of_locale(),
            drawn: Vec::new(),
            elapsed: Duration::ZERO,
        }
    }

    /// The elapsed time of the watch at the last frame.
    pub(super) fn elapsed(&self) -> Duration {
        self.elapsed
    }

    pub(super) fn draw(&mut self, frame: &Frame<'_>) -> io::Result<()> {
        let size = output::terminal_size().unwrap_or(SIZE);
        write(&self.redraw(frame, size))
    }

    /// The text that replaces the last frame by this one.
    fn redraw(&mut self, frame: &Frame<'_>, size: (usize, usize)) -> String {
        self.elapsed = frame.elapsed;
        let lines = frame.lines(size, &self.glyphs);
        let mut text = self.begin(size.0);
        self.drawn.clear();
        for line in &lines {
            let mut columns = 0;
            for (part, style) in line {
                paint(&mut text, part, *style, self.is_coloured);
                columns += width(part);
            }
            text.push('\n');
            self.drawn.push(columns);
        }
        text.push_str(END);
        if frame.is_final {
            self.drawn.clear();
        }
        text
    }

    /// Clears the current frame.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        let size = output::terminal_size().unwrap_or(SIZE);
        let text = self.begin(size.0) + END;
        self.drawn.clear();
        write(&text)
    }

    /// Moves the cursor to the start of the last frame. If the terminal has become narrower since, its lines may be
    /// wrapped.
    fn begin(&self, columns: usize) -> String {
        let rows: usize = self
            .drawn
            .iter()
            .map(|width| width.div_ceil(columns.max(1)).max(1))
            .sum();
        let up = match rows {
            0 => String::new(),
            rows => format!("\u{1b}[{rows}A"),
        };
        format!("{BEGIN}{up}\r\u{1b}[J")
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use prost_types::Timestamp;

    use super::*;

    fn frame<'f>(seconds: u64, is_final: bool) -> Frame<'f> {
        Frame {
            names: &[],
            members: &[],
            elapsed: Duration::from_secs(seconds),
            now: Timestamp::default(),
            is_final,
        }
    }

    /// Terminals wrap long lines when they become narrower.
    #[test]
    fn wrapped_lines_of_the_last_frame_are_replaced() {
        let up = |columns: usize| {
            let mut live = Live::new();
            let first = live.redraw(&frame(1, false), (80, 24));
            assert!(
                first.starts_with(&format!("{BEGIN}\r\u{1b}[J")),
                "{first:?}"
            );
            assert_eq!(live.drawn, ["0 of 0 decided  1s".len()]);
            live.redraw(&frame(2, false), (columns, 24))
        };
        for (columns, rows) in [(80, 1), (18, 1), (17, 2), (9, 2), (8, 3), (0, 18)] {
            let begin = format!("{BEGIN}\u{1b}[{rows}A\r\u{1b}[J");
            assert!(up(columns).starts_with(&begin), "{columns}");
        }
    }

    #[test]
    fn last_frame_stays() {
        let mut live = Live::new();
        live.redraw(&frame(65, false), (80, 24));
        assert_eq!(live.elapsed(), Duration::from_secs(65));
        live.redraw(&frame(66, true), (80, 24));
        assert_eq!(live.begin(80), format!("{BEGIN}\r\u{1b}[J"));
    }
}
