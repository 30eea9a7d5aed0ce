//! A fast reader for the subset of JSON that API servers and kubectl print. It returns `None` for other text and for
//! invalid JSON. serde_json, which is several times slower, then reads the text and reports errors.

mod repeats;

use std::borrow::Cow;

use self::repeats::{Place, Repeats};

/// The initial capacity for the fields of an object.
pub(super) const TYPICAL_FIELDS: usize = 8;

/// The maximum nesting of a value that can be skipped.
const LEVELS_MAX: usize = 128;

/// A text, and the current position. Methods return `None` if the text is not supported.
#[derive(Clone, Debug)]
pub(super) struct Json<'a> {
    text: &'a str,
    at: usize,
    /// Whether the next item or entry is the first of its list or object.
    is_first: bool,
    repeats: Repeats<'a>,
}

/// The maximum nesting of lists and objects that are compared with the last one at their place.
const LEVELS_COMPARED: usize = 16;

/// The keys of an object with the texts of their values.
type Entries<'a> = Vec<(Cow<'a, str>, &'a str)>;

// === impl Json ===

impl<'a> Json<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            is_first: false,
            repeats: Repeats::default(),
        }
    }

    /// A text that may contain many similar objects. Their equal parts are compared instead of read again, which is
    /// several times faster.
    pub(super) fn of_similar_objects(text: &'a str) -> Self {
        Self {
            repeats: Repeats::new(),
            ..Self::new(text)
        }
    }

    /// Checks that only white space remains.
    pub(super) fn end(&mut self) -> Option<()> {
        self.peek().is_none().then_some(())
    }

    /// The next byte after white space.
    #[inline]
    pub(super) fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        loop {
            let byte = *bytes.get(self.at)?;
            if byte > b' ' {
                return Some(byte);
            }
            if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return None;
            }
            self.at += 1;
        }
    }

    /// Starts reading a list or an object.
    #[inline]
    pub(super) fn begin(&mut self, byte: u8) -> Option<()> {
        self.take(byte)?;
        self.is_first = true;
        Some(())
    }

    /// Whether there is another item or entry. Skips the end of the list or object otherwise.
    #[inline]
    pub(super) fn has_next(&mut self, end: u8) -> Option<bool> {
        let is_first = std::mem::replace(&mut self.is_first, false);
        match self.peek()? {
            byte if byte == end => {
                self.at += 1;
                Some(false)
            }
            b',' if !is_first => {
                self.at += 1;
                // A comma must not precede the end.
                (self.peek()? != end).then_some(true)
            }
            _ => is_first.then_some(true),
        }
    }

    /// A string without escapes.
    #[inline]
    pub(super) fn string(&mut self) -> Option<&'a str> {
        self.take(b'"')?;
        let inside = self.rest();
        let length = plain_length(inside);
        if inside.get(length) != Some(&b'"') {
            return None;
        }
        let string = &self.text[self.at..self.at + length];
        self.at += length + 1;
        Some(string)
    }

    /// A string, borrowed if it has no escapes.
    pub(super) fn any_string(&mut self) -> Option<Cow<'a, str>> {
        if let Some(string) = self.attempt(Self::string) {
            return Some(Cow::Borrowed(string));
        }
        let text = self.text_of(Self::skip_string)?;
        serde_json::from_str(text).ok().map(Cow::Owned)
    }

    /// The key of an entry, without escapes.
    #[inline]
    pub(super) fn key(&mut self) -> Option<&'a str> {
        let key = self.string()?;
        self.take(b':')?;
        Some(key)
    }

    /// The text of an object and its entries, of which there may be at most this number.
    pub(super) fn members(&mut self, entries_max: usize) -> Option<(&'a str, Entries<'a>)> {
        let mut entries = Vec::with_capacity(TYPICAL_FIELDS);
        self.peek()?;
        let start = self.at;
        self.begin(b'{')?;
        while self.has_next(b'}')? {
            let key = self.key()?;
            let value = self.value_of(key)?;
            entries.push((Cow::Borrowed(key), value));
            if entries.len() > entries_max {
                return None;
            }
        }
        Some((&self.text[start..self.at], entries))
    }

    /// The texts of the items of a list.
    pub(super) fn items(&mut self) -> Option<Vec<&'a str>> {
        let mut items = Vec::new();
        self.begin(b'[')?;
        while self.has_next(b']')? {
            items.push(self.value()?);
        }
        Some(items)
    }

    /// Skips a value, and returns its text.
    pub(super) fn value(&mut self) -> Option<&'a str> {
        self.value_at(Place::default())
    }

    /// Like [`value`](Self::value), for the value of a key in an object of a list of similar objects.
    pub(super) fn value_of(&mut self, key: &str) -> Option<&'a str> {
        self.value_at(Place::default().entry(key.as_bytes()))
    }

    /// The text that a function reads.
    pub(super) fn text_of(
        &mut self,
        read: impl FnOnce(&mut Self) -> Option<()>,
    ) -> Option<&'a str> {
        self.peek()?;
        let start = self.at;
        read(self)?;
        Some(&self.text[start..self.at])
    }

    /// Calls a function, but does not advance if it returns `None`.
    pub(super) fn attempt<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let (at, is_first) = (self.at, self.is_first);
        let read = read(self);
        if read.is_none() {
            (self.at, self.is_first) = (at, is_first);
        }
        read
    }

    /// Like [`value`](Self::value), for a value at this place.
    fn value_at(&mut self, place: Place) -> Option<&'a str> {
        self.text_of(|json| json.skip_value(place, 0))
    }

    /// Skips a value inside this number of skipped lists and objects.
    fn skip_value(&mut self, place: Place, levels: usize) -> Option<()> {
        match self.peek()? {
            b'"' => self.skip_string(),
            byte @ (b'{' | b'[') => {
                if self.skip_repeated(place, levels) {
                    return Some(());
                }
                if levels == LEVELS_MAX {
                    return None;
                }
                let start = self.at;
                self.at += 1;
                match byte {
                    b'{' => self.skip_entries(place, levels + 1)?,
                    _ => self.skip_items(place, levels + 1)?,
                }
                self.repeats.add(place, &self.text[start..self.at]);
                Some(())
            }
            b't' => self.literal("true"),
            b'f' => self.literal("false"),
            b'n' => self.literal("null"),
            _ => self.number(),
        }
    }

    fn skip_entries(&mut self, object: Place, levels: usize) -> Option<()> {
        if self.peek()? == b'}' {
            self.at += 1;
            return Some(());
        }
        loop {
            let key = self.skip_key()?;
            self.skip_value(object.entry(key), levels)?;
            if !self.skip_separator(b'}')? {
                return Some(());
            }
        }
    }

    fn skip_items(&mut self, list: Place, levels: usize) -> Option<()> {
        if self.peek()? == b']' {
            self.at += 1;
            return Some(());
        }
        for index in 0.. {
            self.skip_value(list.item(index), levels)?;
            if !self.skip_separator(b']')? {
                break;
            }
        }
        Some(())
    }

    /// Skips the comma before another item or entry, or the end of the list or object. Returns whether it was a comma.
    #[inline]
    fn skip_separator(&mut self, end: u8) -> Option<bool> {
        let byte = self.peek()?;
        self.at += 1;
        match byte {
            b',' => Some(true),
            byte => (byte == end).then_some(false),
        }
    }

    /// Skips a list or an object with the same text as the last one at its place.
    #[inline]
    fn skip_repeated(&mut self, place: Place, levels: usize) -> bool {
        // Each level may compare the same bytes again.
        levels < LEVELS_COMPARED && self.skip_content(self.repeats.last_at(place).as_bytes())
    }

    /// Skips a list or an object with this text. Returns whether it has this text, which may be empty.
    #[inline]
    pub(super) fn skip_content(&mut self, text: &[u8]) -> bool {
        // A text that starts with a whole list or object contains exactly that one.
        let is_same = !text.is_empty() && self.rest().starts_with(text);
        if is_same {
            self.at += text.len();
        }
        is_same
    }

    /// Skips an entry with this text. Returns whether the next entry has this text.
    #[inline]
    pub(super) fn skip_entry(&mut self, text: &str) -> bool {
        let rest = self.rest().strip_prefix(text.as_bytes());
        // A number with more digits would start with this text, too.
        let is_same = matches!(rest, Some([b',' | b'}', ..]));
        if is_same {
            self.at += text.len();
        }
        is_same
    }

    /// Skips a key with the same text as that of an entry. Returns whether the next key has this text.
    #[inline]
    pub(super) fn skip_key_of(&mut self, entry: &str, key: &str) -> bool {
        // The quotes and the colon, without white space.
        let text = &entry.as_bytes()[..key.len() + 3];
        let is_same = text.ends_with(b":") && self.rest().starts_with(text);
        if is_same {
            self.at += text.len();
        }
        is_same
    }

    /// Skips a key, and returns its text.
    #[inline]
    fn skip_key(&mut self) -> Option<&'a [u8]> {
        let text = self.peek().map(|_| self.rest())?;
        self.skip_string()?;
        let key = &text[..text.len() - self.rest().len()];
        self.take(b':')?;
        Some(key)
    }

    /// Skips a string at the current position.
    #[inline]
    fn skip_string(&mut self) -> Option<()> {
        let inside = self.rest().strip_prefix(b"\"")?;
        let length = plain_length(inside);
        self.at += 1 + length;
        match inside.get(length)? {
            b'"' => {
                self.at += 1;
                Some(())
            }
            _ => self.skip_escapes(),
        }
    }

    /// Skips the part of a string that starts with an escape.
    fn skip_escapes(&mut self) -> Option<()> {
        loop {
            match self.rest() {
                [b'"', ..] => {
                    self.at += 1;
                    return Some(());
                }
                [
                    b'\\',
                    b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't',
                    ..,
                ] => {
                    self.at += 2;
                }
                [b'\\', b'u', digits @ ..] => {
                    let digits = digits.first_chunk::<4>()?;
                    if !digits.iter().all(u8::is_ascii_hexdigit) {
                        return None;
                    }
                    self.at += 6;
                }
                _ => return None,
            }
            self.at += plain_length(self.rest());
        }
    }

    fn literal(&mut self, text: &str) -> Option<()> {
        self.rest().strip_prefix(text.as_bytes())?;
        self.at += text.len();
        Some(())
    }

    fn number(&mut self) -> Option<()> {
        if self.rest().first() == Some(&b'-') {
            self.at += 1;
        }
        match self.rest().first()? {
            b'0' => self.at += 1,
            _ => self.digits()?,
        }
        if self.rest().first() == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.rest().first() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.rest().first() {
                self.at += 1;
            }
            self.digits()?;
        }
        Some(())
    }

    /// Skips one or more digits.
    fn digits(&mut self) -> Option<()> {
        let rest = self.rest();
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += digits;
        (digits > 0).then_some(())
    }

    #[inline]
    fn take(&mut self, byte: u8) -> Option<()> {
        if self.peek()? != byte {
            return None;
        }
        self.at += 1;
        Some(())
    }

    #[inline]
    pub(super) fn rest(&self) -> &'a [u8] {
        &self.text.as_bytes()[self.at..]
    }
}

/// The length of the part of a string before the first quote, escape or control character.
#[inline]
fn plain_length(bytes: &[u8]) -> usize {
    let mut length = 0;
    let mut rest = bytes;
    while let Some((eight, more)) = rest.split_first_chunk::<8>() {
        let marks = marks(u64::from_le_bytes(*eight));
        if marks != 0 {
            return length + (marks.trailing_zeros() / 8) as usize;
        }
        length += 8;
        rest = more;
    }
    let is_mark = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20);
    length + rest.iter().position(is_mark).unwrap_or(rest.len())
}

/// Sets the highest bits of bytes that are quotes, escapes or control characters. Bits above the first match may be
/// wrong, because the subtraction borrows from higher bytes.
#[inline]
fn marks(eight: u64) -> u64 {
    const ONES: u64 = u64::MAX / 0xff;
    let is_zero = |bytes: u64| bytes.wrapping_sub(ONES) & !bytes;
    let quotes = is_zero(eight ^ (ONES * b'"' as u64));
    let escapes = is_zero(eight ^ (ONES * b'\\' as u64));
    let controls = eight.wrapping_sub(ONES * 0x20) & !eight;
    (quotes | escapes | controls) & (ONES << 7)
}
