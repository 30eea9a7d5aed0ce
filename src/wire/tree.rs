//! A template, read where it lies: the bytes of a `google.protobuf.Struct` as a [`Tree`] of the planner.
//!
//! [`Tape::read`] walks the bytes once, checks all of them, and notes where things are: one small cell for each
//! key, value, list and map, with the texts left in place. The planner then compares cells with cells.
//! Nothing is built until somebody asks for a [`Value`].

use rollplan_core::template::{MAX_DEPTH, Node, Number, Source, Tree, Value};

use super::error::Reason;
use super::raw_struct::RawStruct;

/// Where everything is in a Struct.
#[derive(Debug)]
pub(super) struct Tape<'a> {
    cells: Vec<Cell<'a>>,
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
    List { end: usize },
    Map { end: usize, first: usize },
    Key { text: &'a str, next: usize },
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
        let mut reader = Reader {
            // Kubernetes' templates take about this many bytes for each key or value.
            cells: Vec::with_capacity(raw.len() / 8 + 1),
            keys: Vec::new(),
            path: Vec::new(),
            faults,
        };
        reader.map(raw.entries().map(Some), 0);
        Self {
            cells: reader.cells,
        }
    }

    /// The whole Struct.
    pub(super) fn root<'t>(&'t self) -> Cursor<'t, 'a> {
        Cursor {
            cells: &self.cells,
            at: 0,
        }
    }
}

struct Reader<'a, 'f, F> {
    cells: Vec<Cell<'a>>,
    /// Cells of the keys of all maps that are being read, the innermost last.
    keys: Vec<usize>,
    path: Vec<Segment<'a>>,
    faults: &'f mut F,
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
        self.faults.fault(&self.path, reason);
    }

    /// Reads a map of encoded entries. An entry of `None` is where its bytes cannot be read any further.
    fn map(&mut self, entries: impl Iterator<Item = Option<&'a [u8]>>, depth: usize) {
        if depth >= MAX_DEPTH {
            self.fault(Reason::TooDeep);
            return self.cells.push(Cell::Null);
        }
        let start = self.cells.len();
        let first_key = self.keys.len();
        self.cells.push(Cell::Null);
        for entry in entries {
            match entry.and_then(split_entry) {
                Some((key, value)) => self.entry(key, value, depth),
                None => {
                    self.fault(Reason::MalformedStruct);
                    break;
                }
            }
        }
        let first = self.link(first_key);
        let end = self.cells.len();
        self.cells[start] = Cell::Map { end, first };
    }

    fn entry(&mut self, key: &'a [u8], value: Kind<'a>, depth: usize) {
        let Ok(text) = str::from_utf8(key) else {
            return self.fault(Reason::InvalidUtf8);
        };
        self.keys.push(self.cells.len());
        self.cells.push(Cell::Key { text, next: NONE });
        self.path.push(Segment::Key(text));
        self.value(value, depth + 1);
        self.path.pop();
    }

    /// Links the keys of the map that was read last, and says which is the first. Keys are sorted and not compared each
    /// with each: there may be many.
    fn link(&mut self, first_key: usize) -> usize {
        let cells = &mut self.cells;
        let text = |cells: &[Cell<'a>], at: usize| match cells[at] {
            Cell::Key { text, .. } => text,
            _ => "",
        };
        let keys = &mut self.keys[first_key..];
        keys.sort_unstable_by(|&a, &b| text(cells, a).cmp(text(cells, b)).then(a.cmp(&b)));
        let mut next = NONE;
        for &at in keys.iter().rev() {
            let key = text(cells, at);
            // Of equal keys the last one counts.
            if next == NONE || key != text(cells, next) {
                cells[at] = Cell::Key { text: key, next };
                next = at;
            }
        }
        self.keys.truncate(first_key);
        next
    }

    fn value(&mut self, value: Kind<'a>, depth: usize) {
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
            Kind::Struct(bytes) => return self.map(Repeated(bytes), depth),
            Kind::List(bytes) => return self.list(bytes, depth),
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

    fn list(&mut self, bytes: &'a [u8], depth: usize) {
        if depth >= MAX_DEPTH {
            self.fault(Reason::TooDeep);
            return self.cells.push(Cell::Null);
        }
        let start = self.cells.len();
        self.cells.push(Cell::Null);
        for (index, item) in Repeated(bytes).enumerate() {
            match item.and_then(value_kind) {
                Some(value) => {
                    self.path.push(Segment::Index(index));
                    self.value(value, depth + 1);
                    self.path.pop();
                }
                None => {
                    self.fault(Reason::MalformedStruct);
                    break;
                }
            }
        }
        let end = self.cells.len();
        self.cells[start] = Cell::List { end };
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
    cells: &'t [Cell<'a>],
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
    cells: &'t [Cell<'a>],
    next: usize,
}

impl<'t, 'a> Cursor<'t, 'a> {
    /// The place behind this one and all that it holds.
    fn behind(self) -> Self {
        let at = match self.cells[self.at] {
            Cell::List { end } | Cell::Map { end, .. } => end,
            _ => self.at + 1,
        };
        Self { at, ..self }
    }
}

impl<'t, 'a> Tree<'a> for Cursor<'t, 'a> {
    type Items = Items<'t, 'a>;
    type Entries = Entries<'t, 'a>;

    fn node(self) -> Node<'a, Self> {
        match self.cells[self.at] {
            // A key is no place that is ever handed out.
            Cell::Null | Cell::Key { .. } => Node::Null,
            Cell::Bool(value) => Node::Bool(value),
            Cell::Number(number) => Node::Number(number),
            Cell::String(text) => Node::String(text),
            Cell::List { end } => {
                let next = Self {
                    at: self.at + 1,
                    ..self
                };
                Node::List(Items { next, end })
            }
            Cell::Map { first, .. } => Node::Map(Entries {
                cells: self.cells,
                next: first,
            }),
        }
    }
}

impl<'t, 'a> Iterator for Items<'t, 'a> {
    type Item = Cursor<'t, 'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = self.next;
        if item.at >= self.end {
            return None;
        }
        self.next = item.behind();
        Some(item)
    }
}

impl<'t, 'a> Iterator for Entries<'t, 'a> {
    type Item = (&'a str, Cursor<'t, 'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let Cell::Key { text, next } = self.cells[self.next] else {
            // The Struct's own, where no key is.
            return None;
        };
        let value = Cursor {
            cells: self.cells,
            at: self.next + 1,
        };
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
