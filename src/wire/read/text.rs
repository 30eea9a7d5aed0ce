//! A pull parser for JSON. It reads values in the order of the text, borrows strings that have no escapes, and skips
//! unneeded values as fast as a search.

use std::borrow::Cow;

use rollplan_core::interrupt::Interrupt;

use super::repeats::{Place, Repeats};

/// The maximum nesting of lists and objects.
const LEVELS_MAX: usize = 127;

/// The maximum nesting of lists and objects that are compared with the previous text at their place.
const LEVELS_COMPARED: usize = 16;

/// The number of bytes between two checks for an interruption.
const CHECK_INTERVAL_BYTES: usize = 256 << 10;

/// Why a text cannot be read further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syntax {
    /// The text ends in a value.
    End,
    Value,
    Number,
    Key,
    Colon,
    CommaInObject,
    CommaInList,
    TrailingComma,
    Escape,
    Surrogate,
    ControlCharacter,
    /// Something follows the value.
    SecondDocument,
    TooDeep,
    Interrupted,
}

/// A text, and the current position.
#[derive(Clone)]
pub(crate) struct Json<'a> {
    text: &'a str,
    at: usize,
    /// Whether the next item or entry is the first of its list or object.
    is_first: bool,
    /// The number of lists and objects that are open.
    levels: usize,
    repeats: Repeats<'a>,
    interrupt: &'a dyn Interrupt,
    next_check: usize,
    /// The memory of what was read so far, in bytes.
    allocated: usize,
}

// === impl Syntax ===

impl Syntax {
    pub(crate) fn description(self) -> &'static str {
        match self {
            Self::End => "ends within a value",
            Self::Value => "expected a value",
            Self::Number => "invalid number",
            Self::Key => "expected a key, which is a string",
            Self::Colon => "expected ':' after a key",
            Self::CommaInObject => "expected ',' or '}'",
            Self::CommaInList => "expected ',' or ']'",
            Self::TrailingComma => "expected another value after ','",
            Self::Escape => "invalid escape",
            Self::Surrogate => "an escape is one half of a surrogate pair",
            Self::ControlCharacter => "control character in a string",
            Self::SecondDocument => "more than one JSON document: each needs an entry of its own",
            Self::TooDeep => "too many levels of lists and objects",
            Self::Interrupted => "interrupted",
        }
    }
}

// === impl Json ===

impl<'a> Json<'a> {
    pub(crate) fn new(text: &'a str, interrupt: &'a dyn Interrupt) -> Self {
        Self {
            text,
            at: 0,
            is_first: false,
            levels: 0,
            repeats: Repeats::default(),
            interrupt,
            next_check: CHECK_INTERVAL_BYTES,
            allocated: 0,
        }
    }

    /// A text that may contain many similar objects. Their equal parts are compared instead of read again, which is
    /// several times faster.
    pub(crate) fn of_similar_objects(text: &'a str, interrupt: &'a dyn Interrupt) -> Self {
        Self {
            repeats: Repeats::new(),
            ..Self::new(text, interrupt)
        }
    }

    /// Continues with another text, whose objects are similar as well.
    pub(crate) fn continue_with(&mut self, text: &'a str) {
        *self = Self {
            repeats: std::mem::take(&mut self.repeats),
            ..Self::new(text, self.interrupt)
        };
    }

    /// Counts memory that a value takes in addition to its own size.
    pub(super) fn allocate(&mut self, bytes: usize) {
        self.allocated = self.allocated.saturating_add(bytes);
    }

    /// The memory that the values which were read take in addition to their own size, in bytes.
    pub(crate) fn allocated(&self) -> usize {
        self.allocated
    }

    /// The position in the text, in bytes.
    pub(crate) fn offset(&self) -> usize {
        self.at
    }

    /// The text from an earlier position to the current one.
    pub(crate) fn text_from(&self, start: usize) -> &'a str {
        &self.text[start..self.at]
    }

    /// Checks that only white space remains.
    pub(crate) fn end(&mut self) -> Result<(), Syntax> {
        match self.peek() {
            Err(_) => Ok(()),
            Ok(_) => Err(Syntax::SecondDocument),
        }
    }

    /// The next byte after white space.
    #[inline]
    pub(crate) fn peek(&mut self) -> Result<u8, Syntax> {
        let bytes = self.text.as_bytes();
        loop {
            match bytes.get(self.at) {
                Some(b' ' | b'\n' | b'\r' | b'\t') => self.at += 1,
                Some(byte) => return Ok(*byte),
                None => return Err(Syntax::End),
            }
        }
    }

    /// Starts reading a list or an object.
    #[inline]
    pub(crate) fn begin(&mut self, byte: u8) -> Result<(), Syntax> {
        if self.peek()? != byte {
            return Err(Syntax::Value);
        }
        self.open()?;
        self.is_first = true;
        Ok(())
    }

    #[inline]
    fn open(&mut self) -> Result<(), Syntax> {
        if self.levels == LEVELS_MAX {
            return Err(Syntax::TooDeep);
        }
        if self.at >= self.next_check {
            self.next_check = self.at + CHECK_INTERVAL_BYTES;
            if self.interrupt.is_interrupted() {
                return Err(Syntax::Interrupted);
            }
        }
        self.levels += 1;
        self.at += 1;
        Ok(())
    }

    #[inline]
    fn close(&mut self) {
        self.levels -= 1;
        self.at += 1;
    }

    /// Whether there is another item or entry. Skips the end of the list or object otherwise.
    #[inline]
    pub(crate) fn has_next(&mut self, end: u8) -> Result<bool, Syntax> {
        let is_first = std::mem::replace(&mut self.is_first, false);
        match self.peek()? {
            byte if byte == end => {
                self.close();
                Ok(false)
            }
            b',' if !is_first => {
                self.at += 1;
                if self.peek()? == end {
                    Err(Syntax::TrailingComma)
                } else {
                    Ok(true)
                }
            }
            _ if is_first => Ok(true),
            _ => Err(expected_comma(end)),
        }
    }

    /// A string.
    #[inline]
    pub(crate) fn string(&mut self) -> Result<Cow<'a, str>, Syntax> {
        if self.peek()? != b'"' {
            return Err(Syntax::Value);
        }
        let start = self.at;
        if self.skip_string()? {
            unescape(&self.text[start..self.at]).map(Cow::Owned)
        } else {
            Ok(Cow::Borrowed(&self.text[start + 1..self.at - 1]))
        }
    }

    /// The key of an entry.
    #[inline]
    pub(crate) fn key(&mut self) -> Result<Cow<'a, str>, Syntax> {
        if self.peek()? != b'"' {
            return Err(Syntax::Key);
        }
        let key = self.string()?;
        self.colon()?;
        Ok(key)
    }

    /// The key of an entry in quotes, and its position.
    pub(crate) fn quoted_key(&mut self) -> Result<(usize, &'a str), Syntax> {
        if self.peek()? != b'"' {
            return Err(Syntax::Key);
        }
        let start = self.at;
        self.skip_string()?;
        let quoted = self.text_from(start);
        self.colon()?;
        Ok((start, quoted))
    }

    #[inline]
    fn colon(&mut self) -> Result<(), Syntax> {
        if self.peek()? != b':' {
            return Err(Syntax::Colon);
        }
        self.at += 1;
        Ok(())
    }

    /// Skips a value, and returns its text.
    pub(crate) fn value(&mut self) -> Result<&'a str, Syntax> {
        self.value_at(Place::default())
    }

    /// Like [`value`](Self::value), for the value of a key in an object of a list of similar objects.
    pub(crate) fn value_of(&mut self, key: &str) -> Result<&'a str, Syntax> {
        self.value_at(Place::default().entry(key.as_bytes()))
    }

    /// Like [`value`](Self::value), for a value at this place.
    fn value_at(&mut self, place: Place) -> Result<&'a str, Syntax> {
        self.peek()?;
        let start = self.at;
        self.skip_value(place)?;
        Ok(self.text_from(start))
    }

    fn skip_value(&mut self, place: Place) -> Result<(), Syntax> {
        match self.peek()? {
            b'"' => self.skip_string().map(|_| ()),
            byte @ (b'{' | b'[') => {
                if self.skip_repeated(place) {
                    return Ok(());
                }
                let start = self.at;
                self.open()?;
                match byte {
                    b'{' => self.skip_entries(place)?,
                    _ => self.skip_items(place)?,
                }
                self.repeats
                    .add(place, self.levels, &self.text[start..self.at]);
                Ok(())
            }
            b't' => self.literal("true"),
            b'f' => self.literal("false"),
            b'n' => self.literal("null"),
            b'-' | b'0'..=b'9' => self.number(),
            _ => Err(Syntax::Value),
        }
    }

    fn skip_entries(&mut self, object: Place) -> Result<(), Syntax> {
        if self.peek()? == b'}' {
            self.close();
            return Ok(());
        }
        loop {
            let (_, key) = self.quoted_key()?;
            self.skip_value(object.entry(key.as_bytes()))?;
            if !self.skip_separator(b'}')? {
                return Ok(());
            }
        }
    }

    fn skip_items(&mut self, list: Place) -> Result<(), Syntax> {
        if self.peek()? == b']' {
            self.close();
            return Ok(());
        }
        let mut index = 0;
        loop {
            self.skip_value(list.item(index))?;
            if !self.skip_separator(b']')? {
                return Ok(());
            }
            index += 1;
        }
    }

    /// Skips the comma before another item or entry, or the end of the list or object. Returns whether it was a comma.
    #[inline]
    fn skip_separator(&mut self, end: u8) -> Result<bool, Syntax> {
        match self.peek()? {
            b',' => {
                self.at += 1;
                if self.peek()? == end {
                    Err(Syntax::TrailingComma)
                } else {
                    Ok(true)
                }
            }
            byte if byte == end => {
                self.close();
                Ok(false)
            }
            _ => Err(expected_comma(end)),
        }
    }

    /// Skips a list or an object with the same text as the previous one at its place.
    #[inline]
    fn skip_repeated(&mut self, place: Place) -> bool {
        // Each level may compare the same bytes again.
        let last = self.repeats.last_at(place, self.levels);
        self.levels < LEVELS_COMPARED && self.skip_content(last)
    }

    /// Skips a list or an object with this text. Returns whether it has this text, which may be empty.
    #[inline]
    pub(crate) fn skip_content(&mut self, text: &str) -> bool {
        // A text that starts with a whole list or object contains exactly that one.
        let is_same = !text.is_empty() && self.rest().starts_with(text.as_bytes());
        if is_same {
            self.at += text.len();
        }
        is_same
    }

    /// Skips a string at the current position. Returns whether it has escapes.
    #[inline]
    fn skip_string(&mut self) -> Result<bool, Syntax> {
        self.at += 1;
        self.at += plain_length(self.rest());
        match self.rest().first() {
            Some(b'"') => {
                self.at += 1;
                Ok(false)
            }
            _ => self.skip_escapes().map(|()| true),
        }
    }

    /// Skips the part of a string that starts with an escape.
    fn skip_escapes(&mut self) -> Result<(), Syntax> {
        loop {
            match self.rest() {
                [] => return Err(Syntax::End),
                [b'"', ..] => {
                    self.at += 1;
                    return Ok(());
                }
                [
                    b'\\',
                    b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't',
                    ..,
                ] => self.at += 2,
                [b'\\', b'u', digits @ ..] => {
                    let digits = digits.first_chunk::<4>().ok_or(Syntax::End)?;
                    if !digits.iter().all(u8::is_ascii_hexdigit) {
                        return Err(Syntax::Escape);
                    }
                    self.at += 6;
                }
                [b'\\'] => return Err(Syntax::End),
                [b'\\', ..] => return Err(Syntax::Escape),
                _ => return Err(Syntax::ControlCharacter),
            }
            self.at += plain_length(self.rest());
        }
    }

    fn literal(&mut self, text: &str) -> Result<(), Syntax> {
        let rest = self.rest();
        if rest.starts_with(text.as_bytes()) {
            self.at += text.len();
            return Ok(());
        }
        Err(if text.as_bytes().starts_with(rest) {
            Syntax::End
        } else {
            Syntax::Value
        })
    }

    fn number(&mut self) -> Result<(), Syntax> {
        if self.rest().first() == Some(&b'-') {
            self.at += 1;
        }
        match self.rest().first() {
            Some(b'0') => {
                self.at += 1;
                // No number has a leading zero.
                if self.rest().first().is_some_and(u8::is_ascii_digit) {
                    return Err(Syntax::Number);
                }
            }
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
        Ok(())
    }

    /// Skips one or more digits.
    fn digits(&mut self) -> Result<(), Syntax> {
        let rest = self.rest();
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += digits;
        match (digits, rest.first()) {
            (0, None) => Err(Syntax::End),
            (0, Some(_)) => Err(Syntax::Number),
            _ => Ok(()),
        }
    }

    #[inline]
    fn rest(&self) -> &'a [u8] {
        &self.text.as_bytes()[self.at..]
    }
}

fn expected_comma(end: u8) -> Syntax {
    match end {
        b'}' => Syntax::CommaInObject,
        _ => Syntax::CommaInList,
    }
}

/// Decodes a string with escapes, in quotes.
pub(crate) fn unescape(quoted: &str) -> Result<String, Syntax> {
    serde_json::from_str(quoted).map_err(|_| Syntax::Surrogate)
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use rollplan_core::interrupt::Never;
    use rollplan_world::random::Random;
    use serde_json::value::RawValue;

    use super::*;

    const TEXT: &str = r#"{"apiVersion":"v1", "items" : [{"metadata":{"labels":{"a":"b","c":"\u0064\n"},
        "name":"ü","generation":12},"status":{"ready":true,"started":false,"none":null,"numbers":[0,-1,1.5,2e3,-0.25E-2]}},
        {"metadata":{"labels":{"a":"b","c":"\u0064\n"},"name":"x","generation":3},"empty":[{},[],""]}],"kind":"List"}"#;

    fn skip(json: &mut Json<'_>) -> Result<(), Syntax> {
        json.value()?;
        json.end()
    }

    /// Changes a text at random: often, it remains JSON.
    fn mutated(random: &mut Random) -> Option<String> {
        let marks = b"\"\\{}[]:,0eE.+-tfnu \n\x01a";
        let mut bytes = TEXT.as_bytes().to_vec();
        for _ in 0..random.below(3) {
            let at = random.below(bytes.len());
            match random.below(4) {
                0 => bytes[at] = marks[random.below(marks.len())],
                1 => bytes.insert(at, marks[random.below(marks.len())]),
                2 => bytes.truncate(at + 1),
                _ => _ = bytes.remove(at),
            }
        }
        String::from_utf8(bytes).ok()
    }

    #[test]
    fn accepts_what_serde_json_accepts() {
        let mut random = Random::new(1);
        let (mut accepted, mut rejected) = (0, 0);
        for _ in 0..40_000 {
            let Some(text) = mutated(&mut random) else {
                continue;
            };
            let expected = serde_json::from_str::<&RawValue>(&text);
            for mut json in [
                Json::new(&text, &Never),
                Json::of_similar_objects(&text, &Never),
            ] {
                let read = skip(&mut json);
                assert_eq!(read.is_ok(), expected.is_ok(), "{text}: {read:?}");
            }
            match expected {
                Ok(_) => accepted += 1,
                Err(_) => rejected += 1,
            }
        }
        assert!(
            accepted > 10_000 && rejected > 10_000,
            "{accepted} {rejected}"
        );
    }

    #[test]
    fn errors_have_an_offset() {
        for (text, error, offset) in [
            ("", Syntax::End, 0),
            (" {", Syntax::End, 2),
            (r#"{"a""#, Syntax::End, 4),
            (r#"{"a" 1}"#, Syntax::Colon, 5),
            (r#"{"a":1 "b":2}"#, Syntax::CommaInObject, 7),
            ("[1 2]", Syntax::CommaInList, 3),
            ("[1,]", Syntax::TrailingComma, 3),
            ("{a:1}", Syntax::Key, 1),
            ("[tru]", Syntax::Value, 1),
            ("[tru", Syntax::End, 1),
            ("[01]", Syntax::Number, 2),
            ("[1.]", Syntax::Number, 3),
            ("[-", Syntax::End, 2),
            (r#"["\x"]"#, Syntax::Escape, 2),
            (r#"["\u12"]"#, Syntax::Escape, 2),
            ("[\"a\nb\"]", Syntax::ControlCharacter, 3),
            ("{} {}", Syntax::SecondDocument, 3),
            ("nul", Syntax::End, 0),
            ("[1.", Syntax::End, 3),
            ("[1e", Syntax::End, 3),
            (r#"["a\"#, Syntax::End, 3),
        ] {
            let mut json = Json::new(text, &Never);
            assert_eq!(
                (skip(&mut json), json.offset()),
                (Err(error), offset),
                "{text}"
            );
        }
    }

    #[test]
    fn halves_of_surrogate_pairs_are_rejected_when_they_are_decoded() {
        let text = r#""\ud83d\ude00 \ud83d""#;
        assert_eq!(skip(&mut Json::new(text, &Never)), Ok(()));
        assert_eq!(Json::new(text, &Never).string(), Err(Syntax::Surrogate));
        assert_eq!(Json::new(&text[..14], &Never).string(), Err(Syntax::End));
    }

    /// Equal texts at deeper places are not read with fewer checks.
    #[test]
    fn nesting_is_limited() {
        for (levels, expected) in [
            (LEVELS_MAX, Ok(())),
            (LEVELS_MAX + 1, Err(Syntax::TooDeep)),
            (16 << 20, Err(Syntax::TooDeep)),
        ] {
            let open = "[".repeat(levels);
            let text = match expected {
                Ok(()) => format!("{open}{}", "]".repeat(levels)),
                Err(_) => open,
            };
            for mut json in [
                Json::new(&text, &Never),
                Json::of_similar_objects(&text, &Never),
            ] {
                assert_eq!(skip(&mut json), expected);
            }
        }
        let deep = |levels: usize| format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels));
        let inner = deep(LEVELS_MAX - 1);
        let text = format!(r#"[{inner},{{"a":{inner}}}]"#);
        let mut json = Json::of_similar_objects(&text, &Never);
        assert_eq!(skip(&mut json), Err(Syntax::TooDeep));
    }

    /// The time between two checks is bounded, also in one huge object.
    #[test]
    fn reading_can_be_interrupted() {
        struct Counted(Cell<usize>);
        impl Interrupt for Counted {
            fn is_interrupted(&self) -> bool {
                self.0.set(self.0.get() + 1);
                self.0.get() == 3
            }
        }
        let interrupt = Counted(Cell::new(0));
        let text = format!(r#"{{"a":[{}[]]}}"#, "[1],".repeat(1 << 20));
        let mut json = Json::new(&text, &interrupt);
        assert_eq!(skip(&mut json), Err(Syntax::Interrupted));
        let max = 3 * CHECK_INTERVAL_BYTES + 100;
        assert!(json.offset() < max, "{}", json.offset());
    }
}
