//! What is drawn again and again in the same place of a terminal.
//!
//! A few escape codes do: up, to the left, clear below. A library of windows would take the whole screen, and leave nothing
//! behind for whoever reads the terminal later.

use std::io::{self, Write as _};
use std::time::Duration;

use super::frame::{Frame, Glyphs};
use crate::cli::output;
use crate::text::{paint, width};

/// Lines cannot be longer than the terminal is wide, and the terminal shows each frame at once.
const BEGIN: &str = "\u{1b}[?2026h\u{1b}[?7l";
const END: &str = "\u{1b}[?7h\u{1b}[?2026l";

/// If the size of the terminal is not known.
const SIZE: (usize, usize) = (80, 24);

/// A part of a terminal.
pub(super) struct Live {
    is_coloured: bool,
    glyphs: Glyphs,
    /// The widths of the lines that are there.
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

    /// When it was drawn last.
    pub(super) fn elapsed(&self) -> Duration {
        self.elapsed
    }

    pub(super) fn draw(&mut self, frame: &Frame<'_>) -> io::Result<()> {
        let size = output::terminal_size().unwrap_or(SIZE);
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
        write(&text)
    }

    /// Takes away what is there.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        let size = output::terminal_size().unwrap_or(SIZE);
        let text = self.begin(size.0) + END;
        self.drawn.clear();
        write(&text)
    }

    /// Goes back to where the last frame began. Its lines may have been wrapped since, if the terminal has become narrower.
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
