//! A template as a tree of the planner, read from the bytes of a `google.protobuf.Struct` without decoding it.
//!
//! [`Tape::read`] scans and validates all bytes once, and records a small cell for each key, value, list and map; the
//! strings stay in the original bytes. The planner then compares cells with cells. A [`Value`] is built only when it is
//! needed.
//!
//! The templates of one Deployment differ only slightly. [`Tape::read_with_baseline`] therefore compares with another
//! tape while it reads: a list or map whose bytes equal those of its counterpart is neither read nor compared again.
//!
//! [`Tape::read_json`] does the same with the text of a template in Kubernetes JSON.
//!
//! [`Value`]: rollplan_core::template::Value

mod baseline;
mod cursor;
mod encoding;
mod json;

use rollplan_core::template::{MAX_DEPTH, Number};

use self::baseline::Baseline;
use self::cursor::Cursor;
pub(super) use self::encoding::{EXACT_INTEGER, Field, field};
use self::encoding::{Kind, Repeated, split_entry, value_kind};
use super::error::Reason;
use crate::proto::RawStruct;

/// The positions and the content of all parts of a Struct.
#[derive(Debug)]
pub(super) struct Tape<'a> {
    cells: Vec<Cell<'a>>,
    /// The tape that this one refers to for lists and maps that are the same.
    baseline: Option<&'a Tape<'a>>,
    is_faulty: bool,
    /// Whether it was read from JSON. Bytes are only compared with bytes of the same encoding.
    is_json: bool,
}

/// One part of a Struct. The cell of a list or map is followed by the cells of its content, up to `end`. The content of
/// a map consists of keys, each followed by its value. The keys form a linked list in byte order: the map refers to the
/// `first` key, each key to the `next`, and the last key to [`NONE`]. If a key occurs several times, only the last
/// occurrence is in that list.
#[derive(Clone, Copy, Debug)]
enum Cell<'a> {
    Null,
    Bool(bool),
    Number(Number),
    String(&'a str),
    List {
        end: usize,
        bytes: &'a [u8],
    },
    Map {
        end: usize,
        first: usize,
        bytes: &'a [u8],
    },
    Key {
        text: &'a str,
        next: usize,
    },
    /// The same list or map as the one at a cell of the baseline.
    Same {
        at: usize,
    },
}

/// The end of a list of keys. No key has this index, because the first cell is the Struct itself.
const NONE: usize = 0;

/// One step of a path in a Struct.
#[derive(Clone, Copy, Debug)]
pub(super) enum Segment<'a> {
    Key(&'a str),
    Index(usize),
}

/// Receives every fault in a Struct.
pub(super) trait Faults {
    fn fault(&mut self, path: &[Segment<'_>], reason: Reason);

    /// Whether to stop reading. The tape is then incomplete and must not be used.
    fn is_interrupted(&mut self) -> bool {
        false
    }
}

impl<F: FnMut(&[Segment<'_>], Reason)> Faults for F {
    fn fault(&mut self, path: &[Segment<'_>], reason: Reason) {
        self(path, reason);
    }
}

// === impl Tape ===

impl<'a> Tape<'a> {
    /// Reads a complete Struct. Faulty values are read as `null`.
    pub(super) fn read(raw: &'a RawStruct, faults: &mut impl Faults) -> Self {
        // Kubernetes templates have about one cell for this many bytes.
        const BYTES_PER_CELL: usize = 8;
        Self::read_from(raw, None, raw.len() / BYTES_PER_CELL + 1, faults)
    }

    /// Like [`read`](Self::read), for a Struct that is probably similar to another.
    ///
    /// A list or map with the same bytes as its counterpart is not validated again: the counterpart has no faults,
    /// because a faulty baseline is not used, and it is at the same depth.
    pub(super) fn read_with_baseline(
        raw: &'a RawStruct,
        baseline: &'a Tape<'a>,
        faults: &mut impl Faults,
    ) -> Self {
        if baseline.is_faulty || baseline.is_json {
            return Self::read(raw, faults);
        }
        Self::read_from(raw, Some(baseline), TYPICAL_CHANGED_CELLS, faults)
    }

    fn read_from(
        raw: &'a RawStruct,
        baseline: Option<&'a Tape<'a>>,
        cells: usize,
        faults: &mut impl Faults,
    ) -> Self {
        let mut reader = Reader {
            cells: Vec::with_capacity(cells),
            keys: Vec::with_capacity(TYPICAL_OPEN_KEYS),
            path: Vec::with_capacity(TYPICAL_DEPTH),
            baseline: baseline.map_or(&[], |baseline| &baseline.cells),
            is_faulty: false,
            is_from_json: raw.is_from_json(),
            entries_since_check: 0,
            values: 0,
            faults,
        };
        let entries = raw.entries().map(Some);
        reader.map(entries, &[], 0, baseline.map(|_| 0));
        Self {
            cells: reader.cells,
            baseline,
            is_faulty: reader.is_faulty,
            is_json: false,
        }
    }

    /// A placeholder for a tape that cannot be read.
    pub(super) fn faulty() -> Self {
        Self {
            cells: vec![Cell::Null],
            baseline: None,
            is_faulty: true,
            is_json: false,
        }
    }

    /// The value that represents the whole Struct.
    pub(super) fn root<'t>(&'t self) -> Cursor<'t, 'a> {
        Cursor::new(self, 0)
    }
}

// Initial capacities that are sufficient for typical templates.
const TYPICAL_CHANGED_CELLS: usize = 64;
const TYPICAL_OPEN_KEYS: usize = 64;
const TYPICAL_DEPTH: usize = 16;

/// The number of entries between two checks for an interruption.
const CHECK_INTERVAL_ENTRIES: usize = 1024;

/// The maximum number of map entries and list items in a template. Kubernetes has no such limit, but even large
/// templates have only a few thousand.
pub(super) const TEMPLATE_VALUES_MAX: usize = 20_000;

struct Reader<'a, 'f, F> {
    cells: Vec<Cell<'a>>,
    /// The keys of all open maps, with their cells. Those of the innermost map are last.
    keys: Vec<(&'a str, usize)>,
    path: Vec<Segment<'a>>,
    /// The cells of the baseline.
    baseline: &'a [Cell<'a>],
    is_faulty: bool,
    /// Whether the bytes were transcoded from JSON by this crate.
    is_from_json: bool,
    /// The number of entries since the last check for an interruption.
    entries_since_check: usize,
    /// The number of entries and items so far.
    values: usize,
    faults: &'f mut F,
}

impl<'a, F: Faults> Reader<'a, '_, F> {
    /// Called for each entry and item. Checks for an interruption at intervals.
    fn is_interrupted(&mut self) -> bool {
        self.values += 1;
        if self.values == TEMPLATE_VALUES_MAX + 1 {
            self.fault(Reason::TemplateTooLarge);
        }
        if self.values > TEMPLATE_VALUES_MAX {
            return true;
        }
        self.entries_since_check += 1;
        if self.entries_since_check < CHECK_INTERVAL_ENTRIES {
            return false;
        }
        self.entries_since_check = 0;
        let is_interrupted = self.faults.is_interrupted();
        self.is_faulty |= is_interrupted;
        is_interrupted
    }

    fn fault(&mut self, reason: Reason) {
        self.is_faulty = true;
        self.faults.fault(&self.path, reason);
    }

    /// Reads the encoded entries of a map. An entry of `None` means that the rest of the bytes is malformed.
    /// `counterpart` is the cell of the baseline at the same path.
    fn map(
        &mut self,
        entries: impl Iterator<Item = Option<&'a [u8]>>,
        bytes: &'a [u8],
        depth: usize,
        counterpart: Option<usize>,
    ) {
        if depth >= MAX_DEPTH {
            self.fault(Reason::TooDeep);
            return self.cells.push(Cell::Null);
        }
        let mut baseline = Baseline::map(self.baseline, counterpart);
        let start = self.cells.len();
        let first_key = self.keys.len();
        self.cells.push(Cell::Null);
        for entry in entries {
            if self.is_interrupted() {
                break;
            }
            match entry.and_then(split_entry) {
                Some((key, value)) => self.entry(key, value, depth, &mut baseline),
                None => {
                    self.fault(Reason::MalformedStruct);
                    break;
                }
            }
        }
        let first = link(&mut self.cells, &mut self.keys, first_key);
        let end = self.cells.len();
        self.cells[start] = Cell::Map { end, first, bytes };
    }

    fn entry(&mut self, key: &'a [u8], value: Kind<'a>, depth: usize, baseline: &mut Baseline<'a>) {
        let Ok(text) = str::from_utf8(key) else {
            return self.fault(Reason::InvalidUtf8);
        };
        self.keys.push((text, self.cells.len()));
        self.cells.push(Cell::Key { text, next: NONE });
        self.path.push(Segment::Key(text));
        self.value(value, depth + 1, baseline.find_value(text));
        self.path.pop();
    }

    fn value(&mut self, value: Kind<'a>, depth: usize, counterpart: Option<usize>) {
        let cell = match value {
            Kind::Null => Cell::Null,
            Kind::Bool(value) => Cell::Bool(value),
            Kind::Number(number) => self.number(number),
            Kind::Integer(integer) if self.is_from_json => Cell::Number(Number::from(integer)),
            // A field that google.protobuf.Value does not have.
            Kind::Integer(_) => {
                self.fault(Reason::MalformedStruct);
                Cell::Null
            }
            Kind::String(bytes) => match str::from_utf8(bytes) {
                Ok(text) => Cell::String(text),
                Err(_) => {
                    self.fault(Reason::InvalidUtf8);
                    Cell::Null
                }
            },
            Kind::Struct(bytes) => match counterpart.map(|at| (at, self.baseline[at])) {
                Some((at, Cell::Map { bytes: other, .. })) if other == bytes => Cell::Same { at },
                _ => return self.map(Repeated(bytes), bytes, depth, counterpart),
            },
            Kind::List(bytes) => match counterpart.map(|at| (at, self.baseline[at])) {
                Some((at, Cell::List { bytes: other, .. })) if other == bytes => Cell::Same { at },
                _ => return self.list(bytes, depth, counterpart),
            },
        };
        self.cells.push(cell);
    }

    fn number(&mut self, number: f64) -> Cell<'a> {
        let reason = if !number.is_finite() {
            Reason::NotFinite
        } else if number.abs() > Number::MAX_SAFE as f64 {
            // A float of this size is always an integer.
            Reason::UnsafeInteger
        } else {
            return Cell::Number(Number::from(number));
        };
        self.fault(reason);
        Cell::Null
    }

    fn list(&mut self, bytes: &'a [u8], depth: usize, counterpart: Option<usize>) {
        if depth >= MAX_DEPTH {
            self.fault(Reason::TooDeep);
            return self.cells.push(Cell::Null);
        }
        let mut baseline = Baseline::list(self.baseline, counterpart);
        let start = self.cells.len();
        self.cells.push(Cell::Null);
        for (index, item) in Repeated(bytes).enumerate() {
            if self.is_interrupted() {
                break;
            }
            match item.and_then(value_kind) {
                Some(value) => {
                    self.path.push(Segment::Index(index));
                    self.value(value, depth + 1, baseline.next_item());
                    self.path.pop();
                }
                None => {
                    self.fault(Reason::MalformedStruct);
                    break;
                }
            }
        }
        let end = self.cells.len();
        self.cells[start] = Cell::List { end, bytes };
    }
}

/// Links the keys of the innermost map in byte order, and returns the cell of the first one. The keys are sorted
/// rather than compared pairwise, because a map may have many.
fn link<'a>(
    cells: &mut [Cell<'a>],
    all_keys: &mut Vec<(&'a str, usize)>,
    first_key: usize,
) -> usize {
    let keys = &mut all_keys[first_key..];
    // Most senders write sorted keys.
    if !keys.is_sorted() {
        keys.sort_unstable();
    }
    let mut next = NONE;
    let mut last = None;
    for &(text, at) in keys.iter().rev() {
        // The last occurrence of a key wins.
        if last != Some(text) {
            cells[at] = Cell::Key { text, next };
            (next, last) = (at, Some(text));
        }
    }
    all_keys.truncate(first_key);
    next
}
