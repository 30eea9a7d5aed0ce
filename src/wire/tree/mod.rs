//! A pod template as a tree of the planner, read from its JSON text without decoding it.
//!
//! [`Tape::read`] reads and validates the text once, and records a small cell for each key, value, list and map; strings
//! stay in the text. The planner then compares cells with cells. A [`Value`] is built only when it is needed.
//!
//! The templates of one Deployment differ only slightly. With the tape of a similar template as a baseline, texts are
//! compared while they are read: a list or map whose text equals that of its counterpart is neither read nor compared again.
//!
//! [`Value`]: rollplan_core::template::Value

mod baseline;
mod cursor;

use rollplan_core::interrupt::Never;
use rollplan_core::template::{MAX_DEPTH, Number};

use self::baseline::Baseline;
use self::cursor::Cursor;
use super::error::Reason;
use super::read::{DUPLICATE_KEY, Fault, Json, PathStep, Syntax, Unread, number, unescape};

/// The maximum number of map entries and list items in a template. Kubernetes has no such limit, but even large
/// templates have only a few thousand.
pub(super) const TEMPLATE_VALUES_MAX: usize = 20_000;

// Initial capacities that are sufficient for typical templates.
const TYPICAL_CHANGED_CELLS: usize = 64;
const TYPICAL_OPEN_KEYS: usize = 64;
/// Kubernetes templates have about one cell for this many bytes.
const BYTES_PER_CELL: usize = 8;

/// The text of a template, an object that is valid JSON.
pub(super) struct TemplateText {
    text: Box<str>,
    /// The strings with escapes by their positions, in this order. `None` if an escape is wrong.
    unescaped: Vec<(usize, Option<Box<str>>)>,
}

/// The positions and the content of all parts of a template.
#[derive(Debug)]
pub(super) struct Tape<'a> {
    cells: Vec<Cell<'a>>,
    /// The tape that this one refers to for lists and maps that are the same.
    baseline: Option<&'a Tape<'a>>,
}

/// One part of a template. The cell of a list or map is followed by the cells of its content, up to `end`. The content of a
/// map consists of keys, each followed by its value. The keys form a linked list in byte order: the map refers to the
/// `first` key, each key to the `next`, and the last key to [`NONE`].
#[derive(Clone, Copy, Debug)]
enum Cell<'a> {
    Null,
    Bool(bool),
    Number(Number),
    String(&'a str),
    List {
        end: usize,
        text: &'a str,
    },
    Map {
        end: usize,
        first: usize,
        text: &'a str,
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

/// The end of a list of keys. No key has this index, because the first cell is the template itself.
const NONE: usize = 0;

// === impl TemplateText ===

impl TemplateText {
    pub(super) fn new(text: &str) -> Self {
        Self {
            text: Box::from(text),
            unescaped: unescaped(text),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    /// The string in quotes at a position. `None` if an escape is wrong.
    fn string(&self, start: usize, quoted: &'_ str) -> Option<&str> {
        if quoted.contains('\\') {
            let at = self.unescaped.binary_search_by_key(&start, |(at, _)| *at);
            return self.unescaped.get(at.ok()?)?.1.as_deref();
        }
        self.text.get(start + 1..start + quoted.len() - 1)
    }
}

/// The strings with escapes in a text that is valid JSON.
fn unescaped(text: &str) -> Vec<(usize, Option<Box<str>>)> {
    let mut strings = Vec::new();
    let bytes = text.as_bytes();
    let mut at = if text.contains('\\') { 0 } else { text.len() };
    while let Some(start) = text[at..].find('"').map(|quote| at + quote) {
        let mut end = start + 1;
        while end < bytes.len() && bytes[end] != b'"' {
            end += 1 + usize::from(bytes[end] == b'\\');
        }
        at = (end + 1).min(text.len());
        let quoted = &text[start..at];
        if quoted.contains('\\') {
            strings.push((start, unescape(quoted).ok().map(String::into_boxed_str)));
        }
    }
    strings
}

// === impl Tape ===

impl<'a> Tape<'a> {
    /// Reads a template. The baseline is the tape of a template that is probably similar.
    pub(super) fn read(
        template: &'a TemplateText,
        baseline: Option<&'a Self>,
    ) -> Result<Self, Fault> {
        let cells = match baseline {
            Some(_) => TYPICAL_CHANGED_CELLS,
            None => template.len() / BYTES_PER_CELL + 1,
        };
        let mut reader = TapeReader {
            template,
            json: Json::new(&template.text, &Never),
            cells: Vec::with_capacity(cells),
            keys: Vec::with_capacity(TYPICAL_OPEN_KEYS),
            baseline: baseline.map_or(&[], |baseline| &baseline.cells),
            values: 0,
        };
        match reader.value(0, baseline.map(|_| 0)).map_err(Fault::from) {
            Ok(()) => Ok(Self {
                cells: reader.cells,
                baseline,
            }),
            // The whole template is too large, and not the value at which this was found.
            Err(Fault {
                reason: reason @ Reason::TemplateTooLarge,
                description,
                ..
            }) => Err(Fault::new(reason, description)),
            Err(fault) => Err(fault),
        }
    }

    /// A placeholder for a tape that cannot be read.
    pub(super) fn faulty() -> Self {
        Self {
            cells: vec![Cell::Null],
            baseline: None,
        }
    }

    /// The value that represents the whole template.
    pub(super) fn root<'t>(&'t self) -> Cursor<'t, 'a> {
        Cursor::new(self, 0)
    }
}

struct TapeReader<'a> {
    template: &'a TemplateText,
    json: Json<'a>,
    cells: Vec<Cell<'a>>,
    /// The keys of all open maps, with their cells. Those of the innermost map are last.
    keys: Vec<(&'a str, usize)>,
    /// The cells of the baseline.
    baseline: &'a [Cell<'a>],
    /// The number of entries and items so far.
    values: usize,
}

impl<'a> TapeReader<'a> {
    /// `counterpart` is the cell of the baseline at the same path.
    fn value(&mut self, depth: usize, counterpart: Option<usize>) -> Result<(), Unread> {
        let cell = match self.json.peek()? {
            b'{' | b'[' => match counterpart.map(|at| (at, self.baseline[at])) {
                Some((at, Cell::Map { text, .. } | Cell::List { text, .. }))
                    if self.json.skip_content(text) =>
                {
                    Cell::Same { at }
                }
                _ if depth >= MAX_DEPTH => {
                    let description = format!("is more than {MAX_DEPTH} levels deep");
                    return Err(Unread::wrong(Reason::TooDeep, description));
                }
                _ => return self.content(depth, counterpart),
            },
            b'"' => {
                let start = self.json.offset();
                let quoted = self.json.value()?;
                Cell::String(self.string(start, quoted)?)
            }
            _ => match self.json.value()? {
                "true" => Cell::Bool(true),
                "false" => Cell::Bool(false),
                "null" => Cell::Null,
                text => Cell::Number(number(text)?),
            },
        };
        self.cells.push(cell);
        Ok(())
    }

    fn string(&self, start: usize, quoted: &str) -> Result<&'a str, Unread> {
        let string = self.template.string(start, quoted);
        string.ok_or_else(|| Unread::from(Syntax::Surrogate))
    }

    /// A list or map.
    fn content(&mut self, depth: usize, counterpart: Option<usize>) -> Result<(), Unread> {
        let (from, start) = (self.json.offset(), self.cells.len());
        let is_map = self.json.peek()? == b'{';
        self.cells.push(Cell::Null);
        let first = if is_map {
            self.map(depth, counterpart)?
        } else {
            self.list(depth, counterpart)?
        };
        let text = self.json.text_from(from);
        let end = self.cells.len();
        self.cells[start] = if is_map {
            Cell::Map { end, first, text }
        } else {
            Cell::List { end, text }
        };
        Ok(())
    }

    /// The entries of a map, and the cell of the first one.
    fn map(&mut self, depth: usize, counterpart: Option<usize>) -> Result<usize, Unread> {
        let mut baseline = Baseline::map(self.baseline, counterpart);
        let first_key = self.keys.len();
        self.json.begin(b'{')?;
        while self.has_next(b'}')? {
            let (start, quoted) = self.json.quoted_key()?;
            let text = self.string(start, quoted)?;
            self.keys.push((text, self.cells.len()));
            self.cells.push(Cell::Key { text, next: NONE });
            self.value(depth + 1, baseline.find_value(text))
                .map_err(|unread| unread.at_key(text))?;
        }
        let keys = &mut self.keys[first_key..];
        // Kubernetes prints sorted keys.
        if !keys.is_sorted_by(|(key, _), (next, _)| key < next) {
            keys.sort_unstable();
            if let Some(pair) = keys.windows(2).find(|pair| pair[0].0 == pair[1].0) {
                let twice = Unread::wrong(Reason::DuplicateKey, DUPLICATE_KEY);
                return Err(twice.at_key(pair[0].0));
            }
        }
        // Links the keys in byte order.
        let mut next = NONE;
        for (text, at) in self.keys.drain(first_key..).rev() {
            self.cells[at] = Cell::Key { text, next };
            next = at;
        }
        Ok(next)
    }

    fn list(&mut self, depth: usize, counterpart: Option<usize>) -> Result<usize, Unread> {
        let mut baseline = Baseline::list(self.baseline, counterpart);
        self.json.begin(b'[')?;
        let mut index = 0;
        while self.has_next(b']')? {
            self.value(depth + 1, baseline.next_item())
                .map_err(|unread| unread.at(PathStep::Index(index)))?;
            index += 1;
        }
        Ok(NONE)
    }

    /// Whether another entry or item follows. Skips the end of the map or list otherwise.
    fn has_next(&mut self, end: u8) -> Result<bool, Unread> {
        let has_next = self.json.has_next(end)?;
        if has_next && self.values == TEMPLATE_VALUES_MAX {
            let description = format!("more than {TEMPLATE_VALUES_MAX} values");
            return Err(Unread::wrong(Reason::TemplateTooLarge, description));
        }
        self.values += usize::from(has_next);
        Ok(has_next)
    }
}

#[cfg(test)]
mod tests {
    use rollplan_core::template::{Value, equal};

    use super::*;

    fn value(text: &str) -> Value {
        Value::from(&serde_json::from_str::<serde_json::Value>(text).unwrap())
    }

    #[test]
    fn values_are_those_of_serde_json() {
        for text in [
            "{}",
            "{ \"a\" : [ ] , \"b\":{\t}\n}",
            r#"{"b":1,"a":[true,false,null,"x","ü",{"c":[[]]}]}"#,
            r#"{"a":[0,-0,-7,1.0,1.5,-2.5e-3,1E3,9223372036854775807,-9223372036854775808]}"#,
            r#"{"\u0061\n":"\u003c\"","b":["\\","\ud83d\ude00"],"\\\"":{"c":"d"}}"#,
        ] {
            let template = TemplateText::new(text);
            let tape = Tape::read(&template, None).unwrap();
            assert_eq!(tape.to_value(), value(text), "{text}");
        }
    }

    #[test]
    fn faults_have_their_place() {
        let deep = |levels: usize| {
            let open = r#"{"a":"#.repeat(levels);
            format!("{open}1{}", "}".repeat(levels))
        };
        let long = |items: usize| format!(r#"{{"a":[{}]}}"#, vec!["1"; items].join(","));
        for text in [&deep(MAX_DEPTH), &long(TEMPLATE_VALUES_MAX - 1)] {
            Tape::read(&TemplateText::new(text), None).unwrap();
        }
        let below = ".a".repeat(MAX_DEPTH);
        for (text, path, reason) in [
            (r#"{"a":1,"b":2,"a":1}"#, ".a", Reason::DuplicateKey),
            (r#"{"a":1,"\u0061":1}"#, ".a", Reason::DuplicateKey),
            (
                r#"{"a":[9223372036854775808]}"#,
                ".a[0]",
                Reason::OutOfRange,
            ),
            (r#"{"a b":1e16}"#, r#"["a b"]"#, Reason::OutOfRange),
            (r#"{"a":1e999}"#, ".a", Reason::OutOfRange),
            (r#"{"a":"\ud800"}"#, ".a", Reason::MalformedJson),
            (&deep(MAX_DEPTH + 1), &below, Reason::TooDeep),
            (&long(TEMPLATE_VALUES_MAX), "", Reason::TemplateTooLarge),
        ] {
            let fault = Tape::read(&TemplateText::new(text), None).unwrap_err();
            assert_eq!((&*fault.path(), fault.reason), (path, reason), "{text:.40}");
        }
    }

    #[test]
    fn unchanged_parts_of_the_baseline_are_reused() {
        let own = r#"{"a":{"x":[1,2],"y":"\u007a"},"b":[{"c":1},{"c":2}],"d":"e"}"#;
        let baseline = TemplateText::new(own);
        let baseline = Tape::read(&baseline, None).unwrap();
        for (text, is_same) in [
            (own, true),
            (
                r#"{"d":"e","b":[{"c":1},{"c":2}],"a":{"y":"z","x":[1,2]}}"#,
                true,
            ),
            (
                r#"{"a":{"x":[1,2],"y":"z"},"b":[{"c":1},{"c":3}],"d":"e"}"#,
                false,
            ),
            (r#"{"a":{"x":[1,2],"y":"z"},"b":[{"c":1}],"d":"e"}"#, false),
            (r#"{"a":{"x":[1,2],"y":"z"},"d":"e"}"#, false),
            (r#"{"a":[],"b":{},"d":{"e":1}}"#, false),
            ("{}", false),
        ] {
            let template = TemplateText::new(text);
            let tape = Tape::read(&template, Some(&baseline)).unwrap();
            assert_eq!(tape.to_value(), value(text), "{text}");
            assert_eq!(equal(baseline.root(), tape.root()), is_same, "{text}");
        }
        let template = TemplateText::new(own);
        let tape = Tape::read(&template, Some(&baseline)).unwrap();
        assert_eq!(tape.cells.len(), 1);
    }
}
