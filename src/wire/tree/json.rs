//! Reads templates from Kubernetes JSON that is formatted like that of API servers.

use rollplan_core::template::{MAX_DEPTH, Number};

use super::baseline::Baseline;
use super::{
    Cell, NONE, TEMPLATE_VALUES_MAX, TYPICAL_CHANGED_CELLS, TYPICAL_OPEN_KEYS, Tape, link,
};
use crate::wire::plain_json::Json;

/// Kubernetes templates have about one cell for this many bytes.
const BYTES_PER_CELL: usize = 8;

impl<'a> Tape<'a> {
    /// Reads an object that is valid JSON. `None` if it has escapes, duplicate keys, or values that are refused in
    /// templates: another reader then reports errors.
    ///
    /// The baseline is a tape of a template that is probably similar.
    pub(in crate::wire) fn read_json(text: &'a str, baseline: Option<&'a Self>) -> Option<Self> {
        let baseline = baseline.filter(|baseline| baseline.is_json);
        let cells = match baseline {
            Some(_) => TYPICAL_CHANGED_CELLS,
            None => text.len() / BYTES_PER_CELL + 1,
        };
        let mut reader = Reader {
            json: Json::new(text),
            cells: Vec::with_capacity(cells),
            keys: Vec::with_capacity(TYPICAL_OPEN_KEYS),
            baseline: baseline.map_or(&[], |baseline| &baseline.cells),
            values: 0,
        };
        reader.value(0, baseline.map(|_| 0))?;
        Some(Self {
            cells: reader.cells,
            baseline,
            is_faulty: false,
            is_json: true,
        })
    }
}

struct Reader<'a> {
    json: Json<'a>,
    cells: Vec<Cell<'a>>,
    /// The keys of all open maps, with their cells. Those of the innermost map are last.
    keys: Vec<(&'a str, usize)>,
    /// The cells of the baseline.
    baseline: &'a [Cell<'a>],
    /// The number of entries and items so far.
    values: usize,
}

impl<'a> Reader<'a> {
    /// `counterpart` is the cell of the baseline at the same path.
    fn value(&mut self, depth: usize, counterpart: Option<usize>) -> Option<()> {
        let cell = match self.json.peek()? {
            b'{' | b'[' => match counterpart.map(|at| (at, self.baseline[at])) {
                Some((at, Cell::Map { bytes, .. } | Cell::List { bytes, .. }))
                    if self.json.skip_content(bytes) =>
                {
                    Cell::Same { at }
                }
                _ if depth >= MAX_DEPTH => return None,
                _ => return self.content(depth, counterpart),
            },
            b'"' => Cell::String(self.json.string()?),
            _ => match self.json.value()? {
                "true" => Cell::Bool(true),
                "false" => Cell::Bool(false),
                "null" => Cell::Null,
                text => Cell::Number(number(text)?),
            },
        };
        self.cells.push(cell);
        Some(())
    }

    /// A list or map.
    fn content(&mut self, depth: usize, counterpart: Option<usize>) -> Option<()> {
        let (from, start) = (self.json.rest(), self.cells.len());
        let is_map = from.starts_with(b"{");
        self.cells.push(Cell::Null);
        let first = match is_map {
            true => self.map(depth, counterpart)?,
            false => self.list(depth, counterpart)?,
        };
        let bytes = &from[..from.len() - self.json.rest().len()];
        let end = self.cells.len();
        self.cells[start] = match is_map {
            true => Cell::Map { end, first, bytes },
            false => Cell::List { end, bytes },
        };
        Some(())
    }

    /// The entries of a map, and the cell of the first one.
    fn map(&mut self, depth: usize, counterpart: Option<usize>) -> Option<usize> {
        let mut baseline = Baseline::map(self.baseline, counterpart);
        let first_key = self.keys.len();
        self.json.begin(b'{')?;
        while self.has_next(b'}')? {
            let text = self.json.key()?;
            self.keys.push((text, self.cells.len()));
            self.cells.push(Cell::Key { text, next: NONE });
            self.value(depth + 1, baseline.find_value(text))?;
        }
        let keys = &mut self.keys[first_key..];
        // Kubernetes prints sorted keys.
        if !keys.is_sorted_by(|(key, _), (next, _)| key < next) {
            keys.sort_unstable();
            if keys.windows(2).any(|pair| pair[0].0 == pair[1].0) {
                return None;
            }
        }
        Some(link(&mut self.cells, &mut self.keys, first_key))
    }

    fn list(&mut self, depth: usize, counterpart: Option<usize>) -> Option<usize> {
        let mut baseline = Baseline::list(self.baseline, counterpart);
        self.json.begin(b'[')?;
        while self.has_next(b']')? {
            self.value(depth + 1, baseline.next_item())?;
        }
        Some(NONE)
    }

    /// Whether another entry or item follows. Skips the end of the map or list otherwise.
    fn has_next(&mut self, end: u8) -> Option<bool> {
        let has_next = self.json.has_next(end)?;
        self.values += usize::from(has_next);
        (self.values <= TEMPLATE_VALUES_MAX).then_some(has_next)
    }
}

/// An integer, or a float that is in range and cannot be a rounded integer.
fn number(text: &str) -> Option<Number> {
    if let Ok(integer) = text.parse::<i64>() {
        return Some(Number::from(integer));
    }
    // Kubernetes has no integers of more than 64 bits.
    if !text.contains(['.', 'e', 'E']) {
        return None;
    }
    let float: f64 = serde_json::from_str(text).ok()?;
    (float.abs() <= Number::MAX_SAFE as f64).then(|| Number::from(float))
}

#[cfg(test)]
mod tests {
    use rollplan_core::template::{Value, equal};

    use super::*;

    fn value(text: &str) -> Value {
        Value::from(&serde_json::from_str::<serde_json::Value>(text).unwrap())
    }

    #[test]
    fn values_of_plain_json_are_read() {
        for text in [
            "{}",
            "{ \"a\" : [ ] , \"b\":{\t}\n}",
            r#"{"b":1,"a":[true,false,null,"x","ü",{"c":[[]]}]}"#,
            r#"{"a":[0,-0,-7,1.0,1.5,-2.5e-3,1E3,9223372036854775807,-9223372036854775808]}"#,
        ] {
            let tape = Tape::read_json(text, None).unwrap();
            assert_eq!(tape.to_value(), value(text), "{text}");
        }
    }

    #[test]
    fn unusual_json_is_not_read() {
        let deep = |levels: usize| {
            let open = r#"{"a":"#.repeat(levels);
            format!("{open}1{}", "}".repeat(levels))
        };
        let long = |items: usize| format!(r#"{{"a":[{}]}}"#, vec!["1"; items].join(","));
        for text in [&deep(MAX_DEPTH), &long(TEMPLATE_VALUES_MAX - 1)] {
            assert!(Tape::read_json(text, None).is_some());
        }
        for text in [
            r#"{"a":"\u003c"}"#,
            r#"{"\n":1}"#,
            r#"{"a":1,"b":2,"a":1}"#,
            r#"{"a":9223372036854775808}"#,
            r#"{"a":1e16}"#,
            r#"{"a":1e999}"#,
            // Invalid JSON.
            "",
            r#"{"a""#,
            r#"{"a":"#,
            r#"{"a" 1}"#,
            r#"{"a":1 "b":2}"#,
            r#"{"a":[1 2]}"#,
            r#"{"a":tru}"#,
            r#"{"a":x}"#,
            "{a:1}",
            &deep(MAX_DEPTH + 1),
            &long(TEMPLATE_VALUES_MAX),
        ] {
            assert!(Tape::read_json(text, None).is_none(), "{text:.40}");
        }
    }

    #[test]
    fn unchanged_parts_of_the_baseline_are_reused() {
        let own = r#"{"a":{"x":[1,2],"y":"z"},"b":[{"c":1},{"c":2}],"d":"e"}"#;
        let baseline = Tape::read_json(own, None).unwrap();
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
            let tape = Tape::read_json(text, Some(&baseline)).unwrap();
            assert_eq!(tape.to_value(), value(text), "{text}");
            assert_eq!(equal(baseline.root(), tape.root()), is_same, "{text}");
        }
        let tape = Tape::read_json(own, Some(&baseline)).unwrap();
        assert_eq!(tape.cells.len(), 1);
    }
}
