//! The tape that another one is read beside.

use super::Cell;

/// Keys of another map that are looked at for one: senders write them in an order of theirs, and one map may have a few
/// that the other has not.
const KEYS_TRIED: usize = 16;

/// The list or map of the other tape that is in the place of the one being read.
pub(super) struct Beside<'a> {
    cells: &'a [Cell<'a>],
    start: usize,
    /// Its item or key that is expected next.
    next: usize,
    end: usize,
}

// === impl Beside ===

impl<'a> Beside<'a> {
    fn new(cells: &'a [Cell<'a>], start: usize, end: usize) -> Self {
        Self {
            cells,
            start,
            next: start,
            end,
        }
    }

    /// The items of the list there, if there is one.
    pub(super) fn list(cells: &'a [Cell<'a>], at: Option<usize>) -> Self {
        match at.map(|at| (at, cells[at])) {
            Some((at, Cell::List { end, .. })) => Self::new(cells, at + 1, end),
            _ => Self::new(cells, 0, 0),
        }
    }

    /// The entries of the map there, if there is one.
    pub(super) fn map(cells: &'a [Cell<'a>], at: Option<usize>) -> Self {
        match at.map(|at| (at, cells[at])) {
            Some((at, Cell::Map { end, .. })) => Self::new(cells, at + 1, end),
            _ => Self::new(cells, 0, 0),
        }
    }

    /// The next item.
    pub(super) fn item(&mut self) -> Option<usize> {
        let item = Some(self.next).filter(|&at| at < self.end)?;
        self.next = behind(self.cells, item);
        Some(item)
    }

    /// The value of a key, if it is not far: in most maps it is the next.
    pub(super) fn value(&mut self, key: &str) -> Option<usize> {
        if self.start == self.end {
            return None;
        }
        let mut at = self.next;
        for _ in 0..KEYS_TRIED {
            if at == self.end {
                at = self.start;
            }
            let next = behind(self.cells, at + 1);
            if matches!(self.cells[at], Cell::Key { text, .. } if text == key) {
                self.next = next;
                return Some(at + 1);
            }
            at = next;
        }
        None
    }
}

/// The cell behind one and all that it holds.
pub(super) fn behind(cells: &[Cell<'_>], at: usize) -> usize {
    match cells[at] {
        Cell::List { end, .. } | Cell::Map { end, .. } => end,
        _ => at + 1,
    }
}
