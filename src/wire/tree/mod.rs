//! A template, read where it lies: the bytes of a `google.protobuf.Struct` as a tree of the planner.
//!
//! [`Tape::read`] walks the bytes once, checks all of them, and notes where things are: one small cell for each
//! key, value, list and map, with the texts left in place. The planner then compares cells with cells.
//! Nothing is built until somebody asks for a value.
//!
//! Templates of one Deployment differ in little. [`Tape::read_beside`] looks at another tape along the way: a list or
//! map whose bytes are those that the other has in the same place is neither read nor compared again.

mod beside;
mod cursor;
mod encoding;

use rollplan_core::template::{MAX_DEPTH, Number};

use self::beside::Beside;
use self::cursor::Cursor;
use self::encoding::{Kind, Repeated, split_entry, value_kind};
use super::error::Reason;
use super::raw_struct::RawStruct;

/// Where everything is in a Struct.
#[derive(Debug)]
pub(super) struct Tape<'a> {
    cells: Vec<Cell<'a>>,
    /// The tape that this one was read beside.
    other: Option<&'a Tape<'a>>,
    is_faulty: bool,
}

/// One thing in a Struct. The cells of a list or map follow its own, up to `end`; those of a map are keys, each
/// followed by its value. A map names the first of its keys, and each key the next one, by their order: of a key that
/// comes again only the last is among them. [`NONE`] follows the last.
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
    /// The list or map that the other tape has there.
    Same {
        at: usize,
    },
}

/// Where no key is: the first cell is the Struct's own.
const NONE: usize = 0;

/// A step on the way into a Struct.
#[derive(Clone, Copy, Debug)]
pub(super) enum Segment<'a> {
    Key(&'a str),
    Index(usize),
}

/// Hears of everything that is wrong: where and what.
pub(super) trait Faults {
    fn fault(&mut self, path: &[Segment<'_>], reason: Reason);
}

impl<F: FnMut(&[Segment<'_>], Reason)> Faults for F {
    fn fault(&mut self, path: &[Segment<'_>], reason: Reason) {
        self(path, reason);
    }
}

// === impl Tape ===

impl<'a> Tape<'a> {
    /// Reads a Struct to its end. Whatever is at fault reads as `null`.
    pub(super) fn read(raw: &'a RawStruct, faults: &mut impl Faults) -> Self {
        // Kubernetes' templates take about this many bytes for each key or value.
        Self::read_from(raw, None, raw.len() / 8 + 1, faults)
    }

    /// As [`read`](Self::read), for a Struct that may be much like another. What lies within bytes that the other has in
    /// the same place was found without fault there, or else the other is not looked at; and places are as deep as each
    /// other.
    pub(super) fn read_beside(
        raw: &'a RawStruct,
        other: &'a Tape<'a>,
        faults: &mut impl Faults,
    ) -> Self {
        if other.is_faulty {
            return Self::read(raw, faults);
        }
        Self::read_from(raw, Some(other), CELLS_THAT_DIFFER, faults)
    }

    fn read_from(
        raw: &'a RawStruct,
        other: Option<&'a Tape<'a>>,
        cells: usize,
        faults: &mut impl Faults,
    ) -> Self {
        let mut reader = Reader {
            cells: Vec::with_capacity(cells),
            keys: Vec::with_capacity(KEYS_AT_ONCE),
            path: Vec::with_capacity(LEVELS),
            other: other.map_or(&[], |other| &other.cells),
            is_faulty: false,
            faults,
        };
        let entries = raw.entries().map(Some);
        reader.map(entries, &[], 0, other.map(|_| 0));
        Self {
            cells: reader.cells,
            other,
            is_faulty: reader.is_faulty,
        }
    }

    /// The whole Struct.
    pub(super) fn root<'t>(&'t self) -> Cursor<'t, 'a> {
        Cursor::new(self, 0)
    }
}

// Room that spares growing: a template as most are.
const CELLS_THAT_DIFFER: usize = 64;
const KEYS_AT_ONCE: usize = 64;
const LEVELS: usize = 16;

struct Reader<'a, 'f, F> {
    cells: Vec<Cell<'a>>,
    /// The keys of all maps that are being read and their cells, the innermost last.
    keys: Vec<(&'a str, usize)>,
    path: Vec<Segment<'a>>,
    /// Cells of the tape to read beside.
    other: &'a [Cell<'a>],
    is_faulty: bool,
    faults: &'f mut F,
}

impl<'a, F: Faults> Reader<'a, '_, F> {
    fn fault(&mut self, reason: Reason) {
        self.is_faulty = true;
        self.faults.fault(&self.path, reason);
    }

    /// Reads a map of encoded entries, beside what the other tape has in its place. An entry of `None` is where its bytes
    /// cannot be read any further.
    fn map(
        &mut self,
        entries: impl Iterator<Item = Option<&'a [u8]>>,
        bytes: &'a [u8],
        depth: usize,
        beside: Option<usize>,
    ) {
        if depth >= MAX_DEPTH {
            self.fault(Reason::TooDeep);
            return self.cells.push(Cell::Null);
        }
        let mut beside = Beside::map(self.other, beside);
        let start = self.cells.len();
        let first_key = self.keys.len();
        self.cells.push(Cell::Null);
        for entry in entries {
            match entry.and_then(split_entry) {
                Some((key, value)) => self.entry(key, value, depth, &mut beside),
                None => {
                    self.fault(Reason::MalformedStruct);
                    break;
                }
            }
        }
        let first = self.link(first_key);
        let end = self.cells.len();
        self.cells[start] = Cell::Map { end, first, bytes };
    }

    fn entry(&mut self, key: &'a [u8], value: Kind<'a>, depth: usize, beside: &mut Beside<'a>) {
        let Ok(text) = str::from_utf8(key) else {
            return self.fault(Reason::InvalidUtf8);
        };
        self.keys.push((text, self.cells.len()));
        self.cells.push(Cell::Key { text, next: NONE });
        self.path.push(Segment::Key(text));
        self.value(value, depth + 1, beside.value(text));
        self.path.pop();
    }

    /// Links the keys of the map that was read last, and says which is the first. Keys are sorted and not compared each
    /// with each: there may be many.
    fn link(&mut self, first_key: usize) -> usize {
        let keys = &mut self.keys[first_key..];
        // As most senders write them.
        if !keys.is_sorted() {
            keys.sort_unstable();
        }
        let mut next = NONE;
        let mut last = None;
        for &(text, at) in keys.iter().rev() {
            // Of equal keys the last one counts.
            if last != Some(text) {
                self.cells[at] = Cell::Key { text, next };
                (next, last) = (at, Some(text));
            }
        }
        self.keys.truncate(first_key);
        next
    }

    fn value(&mut self, value: Kind<'a>, depth: usize, beside: Option<usize>) {
        let cell = match value {
            Kind::Null => Cell::Null,
            Kind::Bool(value) => Cell::Bool(value),
            Kind::Number(number) => self.number(number),
            Kind::String(bytes) => match str::from_utf8(bytes) {
                Ok(text) => Cell::String(text),
                Err(_) => {
                    self.fault(Reason::InvalidUtf8);
                    Cell::Null
                }
            },
            Kind::Struct(bytes) => match beside.map(|at| (at, self.other[at])) {
                Some((at, Cell::Map { bytes: other, .. })) if other == bytes => Cell::Same { at },
                _ => return self.map(Repeated(bytes), bytes, depth, beside),
            },
            Kind::List(bytes) => match beside.map(|at| (at, self.other[at])) {
                Some((at, Cell::List { bytes: other, .. })) if other == bytes => Cell::Same { at },
                _ => return self.list(bytes, depth, beside),
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

    fn list(&mut self, bytes: &'a [u8], depth: usize, beside: Option<usize>) {
        if depth >= MAX_DEPTH {
            self.fault(Reason::TooDeep);
            return self.cells.push(Cell::Null);
        }
        let mut beside = Beside::list(self.other, beside);
        let start = self.cells.len();
        self.cells.push(Cell::Null);
        for (index, item) in Repeated(bytes).enumerate() {
            match item.and_then(value_kind) {
                Some(value) => {
                    self.path.push(Segment::Index(index));
                    self.value(value, depth + 1, beside.item());
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
