//! A fast reader for the subset of JSON that API servers and kubectl print. It returns `None` for other text and for
//! invalid JSON. serde_json, which is several times slower, then reads the text and reports errors.

use std::borrow::Cow;

/// The initial capacity for the fields of an object.
pub(super) const TYPICAL_FIELDS: usize = 8;

/// The maximum nesting of a value that can be skipped.
const LEVELS_MAX: u32 = u128::BITS;

/// A text, and the current position. Methods return `None` if the text is not supported.
#[derive(Clone, Debug)]
pub(super) struct Json<'a> {
    text: &'a str,
    at: usize,
    /// Whether the next item or entry is the first of its list or object.
    is_first: bool,
}

/// The keys of an object with the texts of their values.
type Entries<'a> = Vec<(Cow<'a, str>, &'a str)>;

// === impl Json ===

impl<'a> Json<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            is_first: false,
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
            entries.push((Cow::Borrowed(key), self.value()?));
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
        self.peek()?;
        let start = self.at;
        // The open lists and objects, one bit each with the innermost last. Bits of objects are set.
        let (mut objects, mut levels) = (0_u128, 0);
        loop {
            let is_object = match self.peek()? {
                b'{' => Some(true),
                b'[' => Some(false),
                _ => None,
            };
            match is_object {
                Some(is_object) => {
                    self.at += 1;
                    levels += 1;
                    if levels > LEVELS_MAX {
                        return None;
                    }
                    objects = objects << 1 | u128::from(is_object);
                    self.is_first = true;
                }
                None => {
                    self.scalar()?;
                    self.is_first = false;
                }
            }
            // Closes all lists and objects that end here.
            loop {
                if levels == 0 {
                    return Some(&self.text[start..self.at]);
                }
                let is_object = objects & 1 == 1;
                if self.has_next(if is_object { b'}' } else { b']' })? {
                    if is_object {
                        self.skip_key()?;
                    }
                    break;
                }
                levels -= 1;
                objects >>= 1;
            }
        }
    }

    fn scalar(&mut self) -> Option<()> {
        match self.peek()? {
            b'"' => self.skip_string(),
            b't' => self.literal("true"),
            b'f' => self.literal("false"),
            b'n' => self.literal("null"),
            _ => self.number(),
        }
    }

    #[inline]
    fn skip_key(&mut self) -> Option<()> {
        self.skip_string()?;
        self.take(b':')
    }

    #[inline]
    fn skip_string(&mut self) -> Option<()> {
        self.take(b'"')?;
        loop {
            self.at += plain_length(self.rest());
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

    /// Skips bytes that have been compared already.
    pub(super) fn skip(&mut self, length: usize) {
        self.at += length;
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
