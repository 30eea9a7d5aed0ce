//! Looks up the counterparts of lists and maps in another tape.

use super::Cell;

/// The maximum number of keys that are compared to find the counterpart of a key. Senders may write keys in different
/// orders, and one map may have a few keys that the other does not have.
const LOOKUP_KEYS_MAX: usize = 16;

/// The list or map of the baseline that is the counterpart of the one being read.
pub(super) struct Baseline<'a> {
    cells: &'a [Cell<'a>],
    start: usize,
    /// The item or key that is expected next.
    next: usize,
    end: usize,
}

// === impl Baseline ===

impl<'a> Baseline<'a> {
    fn new(cells: &'a [Cell<'a>], start: usize, end: usize) -> Self {
        Self {
            cells,
            start,
            next: start,
            end,
        }
    }

    /// The items of the list at a cell. Empty if there is no list.
    pub(super) fn list(cells: &'a [Cell<'a>], at: Option<usize>) -> Self {
        match at.map(|at| (at, cells[at])) {
            Some((at, Cell::List { end, .. })) => Self::new(cells, at + 1, end),
            _ => Self::new(cells, 0, 0),
        }
    }

    /// The entries of the map at a cell. Empty if there is no map.
    pub(super) fn map(cells: &'a [Cell<'a>], at: Option<usize>) -> Self {
        match at.map(|at| (at, cells[at])) {
            Some((at, Cell::Map { end, .. })) => Self::new(cells, at + 1, end),
            _ => Self::new(cells, 0, 0),
        }
    }

    /// The cell of the next item.
    pub(super) fn next_item(&mut self) -> Option<usize> {
        let item = Some(self.next).filter(|&at| at < self.end)?;
        self.next = next_sibling(self.cells, item);
        Some(item)
    }

    /// The cell of a key's value, if the key is found within [`LOOKUP_KEYS_MAX`] keys. Usually it is the next key.
    pub(super) fn find_value(&mut self, key: &str) -> Option<usize> {
        if self.start == self.end {
            return None;
        }
        let mut at = self.next;
        for _ in 0..LOOKUP_KEYS_MAX {
            if at == self.end {
                at = self.start;
            }
            let next = next_sibling(self.cells, at + 1);
            if matches!(self.cells[at], Cell::Key { text, .. } if text == key) {
                self.next = next;
                return Some(at + 1);
            }
            at = next;
        }
        None
    }
}

/// The cell after a value and everything that the value contains.
pub(super) fn next_sibling(cells: &[Cell<'_>], at: usize) -> usize {
    match cells[at] {
        Cell::List { end, .. } | Cell::Map { end, .. } => end,
        _ => at + 1,
    }
}
