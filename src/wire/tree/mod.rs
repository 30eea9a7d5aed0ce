//! A template, read where it lies: the bytes of a `google.protobuf.Struct` as a [`Tree`] of the planner.
//!
//! [`Tape::read`] walks the bytes once, checks all of them, and notes where things are: one small cell for each
//! key, value, list and map, with the texts left in place. The planner then compares cells with cells.
//! Nothing is built until somebody asks for a [`Value`].
//!
//! Templates of one Deployment differ in little. [`Tape::read_beside`] looks at another tape along the way: a list or
//! map whose bytes are those that the other has in the same place is neither read nor compared again.

use rollplan_core::template::{MAX_DEPTH, Node, Number, Source, Tree, Value};

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

/// Keys of another map that are looked at for one: senders write them in an order of theirs, and one map may have a few
/// that the other has not.
const KEYS_TRIED: usize = 16;

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
        Cursor { tape: self, at: 0 }
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

/// The list or map of the other tape that is in the place of the one being read.
struct Beside<'a> {
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
    fn list(cells: &'a [Cell<'a>], at: Option<usize>) -> Self {
        match at.map(|at| (at, cells[at])) {
            Some((at, Cell::List { end, .. })) => Self::new(cells, at + 1, end),
            _ => Self::new(cells, 0, 0),
        }
    }

    /// The entries of the map there, if there is one.
    fn map(cells: &'a [Cell<'a>], at: Option<usize>) -> Self {
        match at.map(|at| (at, cells[at])) {
            Some((at, Cell::Map { end, .. })) => Self::new(cells, at + 1, end),
            _ => Self::new(cells, 0, 0),
        }
    }

    /// The next item.
    fn item(&mut self) -> Option<usize> {
        let item = Some(self.next).filter(|&at| at < self.end)?;
        self.next = behind(self.cells, item);
        Some(item)
    }

    /// The value of a key, if it is not far: in most maps it is the next.
    fn value(&mut self, key: &str) -> Option<usize> {
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
fn behind(cells: &[Cell<'_>], at: usize) -> usize {
    match cells[at] {
        Cell::List { end, .. } | Cell::Map { end, .. } => end,
        _ => at + 1,
    }
}

/// What a Value holds, its insides unread.
enum Kind<'a> {
    Null,
    Number(f64),
    String(&'a [u8]),
    Bool(bool),
    Struct(&'a [u8]),
    List(&'a [u8]),
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

// The encoding. A function returns `None` where the bytes are malformed. A field that may come once and comes
// twice is malformed too: no encoder writes that, and merging the two would be a guess at what was meant.
//
// Nearly all that templates consist of is small and written in the one way that encoders write it. That is tried first,
// by [`short`], and is several times faster.

/// A field of this first byte, shorter than 128 bytes, and what follows it. `None` says only that it is not just that.
#[inline]
fn short(bytes: &[u8], first: u8) -> Option<(&[u8], &[u8])> {
    match bytes {
        [byte, length, rest @ ..] if *byte == first && *length < 0x80 => {
            rest.split_at_checked(usize::from(*length))
        }
        _ => None,
    }
}

/// Key and value of an entry of a map. A missing key is the empty one.
fn split_entry(mut bytes: &[u8]) -> Option<(&[u8], Kind<'_>)> {
    if let Some((key, rest)) = short(bytes, 1 << 3 | 2)
        && let Some((value, [])) = short(rest, 2 << 3 | 2)
    {
        return Some((key, value_kind(value)?));
    }
    let (mut key, mut value) = (None, None);
    while !bytes.is_empty() {
        match field(&mut bytes)? {
            (1, Field::Bytes(bytes)) if key.is_none() => key = Some(bytes),
            (2, Field::Bytes(bytes)) if value.is_none() => value = Some(bytes),
            (1 | 2, _) => return None,
            _ => {}
        }
    }
    Some((
        key.unwrap_or_default(),
        value_kind(value.unwrap_or_default())?,
    ))
}

/// What a `google.protobuf.Value` holds. One that says nothing is of a sender that knows no better than null.
fn value_kind(mut bytes: &[u8]) -> Option<Kind<'_>> {
    if let Some((text, [])) = short(bytes, 3 << 3 | 2) {
        return Some(Kind::String(text));
    }
    let mut kind = None;
    while !bytes.is_empty() {
        let found = match field(&mut bytes)? {
            (1, Field::Varint(_)) => Kind::Null,
            (2, Field::Fixed64(bits)) => Kind::Number(f64::from_bits(bits)),
            (3, Field::Bytes(text)) => Kind::String(text),
            (4, Field::Varint(value)) => Kind::Bool(value != 0),
            (5, Field::Bytes(fields)) => Kind::Struct(fields),
            (6, Field::Bytes(values)) => Kind::List(values),
            (1..=6, _) => return None,
            _ => continue,
        };
        if kind.replace(found).is_some() {
            return None;
        }
    }
    Some(kind.unwrap_or(Kind::Null))
}

/// Field 1 of a message that has nothing else: the entries of a Struct, the items of a ListValue. Yields `None`
/// and ends where the bytes are malformed.
struct Repeated<'a>(&'a [u8]);

impl<'a> Iterator for Repeated<'a> {
    type Item = Option<&'a [u8]>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some((bytes, rest)) = short(self.0, 1 << 3 | 2) {
            self.0 = rest;
            return Some(Some(bytes));
        }
        while !self.0.is_empty() {
            match field(&mut self.0) {
                Some((1, Field::Bytes(bytes))) => return Some(Some(bytes)),
                Some((1, _)) | None => {
                    self.0 = &[];
                    return Some(None);
                }
                Some(_) => {}
            }
        }
        None
    }
}

/// A field as it is encoded. Groups are not: protobuf gave them up before Struct came.
enum Field<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32,
}

#[inline]
fn field<'a>(bytes: &mut &'a [u8]) -> Option<(u64, Field<'a>)> {
    let key = varint(bytes)?;
    let (tag, wire_type) = (key >> 3, key & 7);
    if tag == 0 || key > u64::from(u32::MAX) {
        return None;
    }
    let field = match wire_type {
        0 => Field::Varint(varint(bytes)?),
        1 => Field::Fixed64(u64::from_le_bytes(*take_array(bytes)?)),
        2 => {
            let length = usize::try_from(varint(bytes)?).ok()?;
            let (taken, rest) = bytes.split_at_checked(length)?;
            *bytes = rest;
            Field::Bytes(taken)
        }
        5 => {
            take_array::<4>(bytes)?;
            Field::Fixed32
        }
        _ => return None,
    };
    Some((tag, field))
}

fn take_array<'a, const N: usize>(bytes: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(taken)
}

#[inline]
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let (&first, rest) = bytes.split_first()?;
    if first < 0x80 {
        *bytes = rest;
        return Some(u64::from(first));
    }
    let mut value = 0_u64;
    // Ten bytes of seven bits; the tenth has room for one.
    for (i, &byte) in bytes.iter().take(10).enumerate() {
        if i == 9 && byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            *bytes = &bytes[i + 1..];
            return Some(value);
        }
    }
    None
}

// === impl Tree for Cursor ===

/// A place on a [`Tape`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'t, 'a> {
    tape: &'t Tape<'a>,
    at: usize,
}

/// Places on a [`Tape`] one after the other: the items of a list.
#[derive(Debug)]
pub(super) struct Items<'t, 'a> {
    next: Cursor<'t, 'a>,
    end: usize,
}

/// The entries of a map on a [`Tape`], by key, each once.
#[derive(Debug)]
pub(super) struct Entries<'t, 'a> {
    tape: &'t Tape<'a>,
    next: usize,
}

impl<'t, 'a> Cursor<'t, 'a> {
    /// The place itself, where it is on the other tape.
    fn new(tape: &'t Tape<'a>, at: usize) -> Self {
        match (tape.cells[at], tape.other) {
            (Cell::Same { at }, Some(tape)) => Self { tape, at },
            _ => Self { tape, at },
        }
    }
}

impl<'t, 'a> Tree<'a> for Cursor<'t, 'a> {
    type Items = Items<'t, 'a>;
    type Entries = Entries<'t, 'a>;

    fn node(self) -> Node<'a, Self> {
        let Self { tape, at } = self;
        match tape.cells[at] {
            // A key is no place that is ever handed out, nor is one that is on the other tape.
            Cell::Null | Cell::Key { .. } | Cell::Same { .. } => Node::Null,
            Cell::Bool(value) => Node::Bool(value),
            Cell::Number(number) => Node::Number(number),
            Cell::String(text) => Node::String(text),
            Cell::List { end, .. } => {
                let next = Self { tape, at: at + 1 };
                Node::List(Items { next, end })
            }
            Cell::Map { first, .. } => Node::Map(Entries { tape, next: first }),
        }
    }

    fn place(self) -> *const () {
        (&raw const self.tape.cells[self.at]).cast()
    }
}

impl<'t, 'a> Iterator for Items<'t, 'a> {
    type Item = Cursor<'t, 'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let Cursor { tape, at } = self.next;
        if at >= self.end {
            return None;
        }
        self.next.at = behind(&tape.cells, at);
        Some(Cursor::new(tape, at))
    }
}

impl<'t, 'a> Iterator for Entries<'t, 'a> {
    type Item = (&'a str, Cursor<'t, 'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let Cell::Key { text, next } = self.tape.cells[self.next] else {
            // The Struct's own, where no key is.
            return None;
        };
        let value = Cursor::new(self.tape, self.next + 1);
        self.next = next;
        Some((text, value))
    }
}

// === impl Source for RawStruct ===

impl Source for RawStruct {
    fn value(&self) -> Value {
        // Faults were found when the template was taken in.
        let tape = Tape::read(self, &mut |_: &[Segment<'_>], _| {});
        to_value(tape.root())
    }
}

fn to_value<'a>(tree: Cursor<'_, 'a>) -> Value {
    match tree.node() {
        Node::Null => Value::Null,
        Node::Bool(value) => Value::Bool(value),
        Node::Number(number) => Value::Number(number),
        Node::String(text) => Value::String(text.to_owned()),
        Node::List(items) => Value::List(items.map(to_value).collect()),
        Node::Map(entries) => Value::Map(
            entries
                .map(|(key, value)| (key.to_owned(), to_value(value)))
                .collect(),
        ),
    }
}
