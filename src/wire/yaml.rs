//! Parses YAML into JSON values as kubectl does (sigs.k8s.io/yaml, which is based on go-yaml, version 2).
//!
//! The rules are those of YAML 1.1 in go-yaml: `on` and `yes` are true, `0644` is octal, and if a key is given twice, the
//! last value counts. A file means the same here as for `kubectl apply`: tests/manifests compares both.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, ScanError, Span, StrInput, Tag};
use serde_json::{Map, Number, Value};

/// A syntax error, or a note, and its position.
#[derive(Debug)]
pub struct YamlFault {
    /// The line, starting at 1.
    pub line: usize,
    /// The column, starting at 1.
    pub column: Option<usize>,
    /// What is wrong, or noteworthy.
    pub text: String,
}

/// The maximum depth, as in serde_json.
const DEPTH_MAX: usize = 128;
/// 2^53: smaller integers are exact as a double.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
/// The namespace of the tags that YAML defines.
const TAGS: &str = "tag:yaml.org,2002:";
/// The maximum number of places of a text that are changed, because the parser accepts less than go-yaml.
const CHANGES_MAX: usize = 100;

/// Parses the first document of a text. `None` if it contains no document. Anything after it is ignored with a note, as
/// kubectl does: it splits texts at `---` lines, and parses the first document of each part.
pub fn read(text: &str, notes: &mut Vec<YamlFault>) -> Result<Option<Value>, YamlFault> {
    let mut text = normalized(text)?;
    if let Some(line) = ends_at_once(&text) {
        notes.push(YamlFault {
            line,
            column: None,
            text: IGNORED.to_owned(),
        });
        return Ok(None);
    }
    for _ in 0..CHANGES_MAX {
        let changed = match Reader::new(&text).document(notes) {
            Err(Fault::Tab(line)) => without_tabs(&text, line),
            Err(Fault::Dash(YamlFault { line, column, .. })) => {
                with_quoted_dash(&text, line, column.unwrap_or_default())
            }
            read => return read.map_err(YamlFault::from),
        };
        match changed {
            Some(changed) => text = Cow::Owned(changed),
            None => break,
        }
    }
    Reader::new(&text).document(notes).map_err(YamlFault::from)
}

/// Converts all documents of a text to JSON without building trees, so that memory is linear in the text. For this reason,
/// aliases are rejected.
pub fn to_json(text: &str) -> Result<Vec<String>, YamlFault> {
    let text = normalized(text)?;
    let mut reader = Reader::new(&text);
    let mut documents = Vec::new();
    while reader.start()? {
        let mut json = String::new();
        let first = reader.next()?;
        reader.write(first, 0, &mut json)?;
        documents.push(json);
    }
    documents.retain(|json| json != "null");
    Ok(documents)
}

/// A text with the line breaks of YAML 1.1, which the parser does not know. Rejects the characters that YAML excludes and
/// go-yaml rejects.
fn normalized(text: &str) -> Result<Cow<'_, str>, YamlFault> {
    let is_excluded = |c: char| match c {
        '\t' | '\n' | '\r' | '\u{85}' => false,
        '\u{fffe}' | '\u{ffff}' => true,
        _ => c.is_control(),
    };
    if let Some(at) = text.find(is_excluded) {
        let before = &text[..at];
        let line = before.rsplit('\n').next().unwrap_or_default();
        return Err(YamlFault {
            line: before.matches('\n').count() + 1,
            column: Some(line.chars().count() + 1),
            text: "control characters are not allowed".to_owned(),
        });
    }
    Ok(if text.contains('\u{85}') {
        Cow::Owned(text.replace('\u{85}', "\n"))
    } else {
        Cow::Borrowed(text)
    })
}

/// The text with spaces for the tabs at the start of a line and of the lines after it. `None` if these lines are not part of
/// a flow collection, in which go-yaml allows tabs. The parser reports such tabs as indentation of a block.
fn without_tabs(text: &str, line: usize) -> Option<String> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let index = line.checked_sub(1)?;
    let is_tabbed = |line: &&&str| line.trim_start_matches(' ').starts_with('\t');
    let before = lines.get(..index)?.iter().rev();
    let mut before = before.map(|line| {
        let comment = line.find(" #").unwrap_or(line.len());
        line[..comment].trim()
    });
    let before = before.find(|line| !line.is_empty() && !line.starts_with('#'))?;
    let first = lines.get(index).filter(|line| is_tabbed(line))?;
    if !before.ends_with(['[', '{', ',']) && !first.trim_start().starts_with([']', '}', ',']) {
        return None;
    }
    let count = lines.get(index..)?.iter().take_while(is_tabbed).count();
    let spaces = lines[index..index + count].iter().map(|line| {
        let content = line.trim_start_matches([' ', '\t']);
        " ".repeat(line.len() - content.len()) + content
    });
    let spaces: String = spaces.collect();
    let (before, after) = (lines[..index].concat(), lines[index + count..].concat());
    Some(before + &spaces + &after)
}

/// The line on which a document ends (`...`) before it begins.
fn ends_at_once(text: &str) -> Option<usize> {
    let mut lines = text.lines().enumerate();
    let is_content = |line: &str| !matches!(line.trim_start().chars().next(), None | Some('#'));
    let (index, first) = lines.find(|(_, line)| is_content(line))?;
    let rest = first.strip_prefix("...")?;
    rest.chars().all(char::is_whitespace).then_some(index + 1)
}

/// The text with quotes around the dash at a place in a flow collection, where go-yaml reads it as a string: `[tar, -]`.
fn with_quoted_dash(text: &str, line: usize, column: usize) -> Option<String> {
    let lines = text.split_inclusive('\n');
    let start: usize = lines.take(line.checked_sub(1)?).map(str::len).sum();
    let (offset, _) = text[start..].char_indices().nth(column.checked_sub(1)?)?;
    let (before, rest) = text.split_at(start + offset);
    let after = rest.strip_prefix('-')?;
    Some(format!("{before}\"-\"{after}"))
}

/// A reason why a text cannot be read.
enum Fault {
    /// A tab at the start of this line.
    Tab(usize),
    /// A dash that is a value of a flow collection.
    Dash(YamlFault),
    Other(YamlFault),
}

/// The events of a text.
struct Reader<'a> {
    text: &'a str,
    events: Parser<'a, StrInput<'a>>,
    /// An event that was read too early.
    pending: Option<(Event<'a>, Span)>,
}

/// The nodes of a document, before aliases and merge keys are resolved.
#[derive(Default)]
struct Tree<'a> {
    nodes: Vec<(Node<'a>, Span)>,
    /// The last node with each anchor.
    anchors: HashMap<usize, usize>,
}

/// A node of a document. Other nodes are indices.
enum Node<'a> {
    Scalar(Text<'a>),
    List(Vec<usize>),
    Map(Vec<(usize, usize)>),
    Alias(usize),
}

/// The text of a scalar.
struct Text<'a> {
    text: Cow<'a, str>,
    is_plain: bool,
    tag: Option<Cow<'a, Tag>>,
}

/// The value of a scalar.
#[derive(Clone, Debug, PartialEq)]
enum Scalar {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    Text(String),
}

/// Decodes a tree, with the limit of go-yaml: a few lines of aliases can expand to billions of values.
struct Decoder<'t, 'a> {
    tree: &'t Tree<'a>,
    notes: &'t mut Vec<YamlFault>,
    /// The aliases that are being decoded.
    open: Vec<usize>,
    decoded: u32,
    aliased: u32,
}

// === impl Fault ===

impl From<YamlFault> for Fault {
    fn from(fault: YamlFault) -> Self {
        Self::Other(fault)
    }
}

impl From<Fault> for YamlFault {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Tab(line) => Self {
                line,
                column: None,
                text: "a tab cannot indent a line: use spaces".to_owned(),
            },
            Fault::Dash(fault) | Fault::Other(fault) => fault,
        }
    }
}

impl From<ScanError> for Fault {
    fn from(error: ScanError) -> Self {
        let marker = error.marker();
        if *error.kind() == ErrorKind::TabInBlockIndentation {
            return Self::Tab(marker.line());
        }
        let fault = YamlFault {
            line: marker.line(),
            column: Some(marker.col() + 1),
            text: error.info(),
        };
        match error.kind() {
            ErrorKind::PlainScalarStartsWithDashFlowIndicator => Self::Dash(fault),
            _ => Self::Other(fault),
        }
    }
}

// === impl Reader ===

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            text,
            pending: None,
            events: Parser::new_from_str_with_options(
                text,
                granit_parser::options! { bom_inside_document_as_content: true },
            ),
        }
    }

    /// The next event. In a flow collection, go-yaml reads a plain scalar with a colon before `,`, `]` or `}` as a string:
    /// `[2001:db8::]`. The parser reads a key without a value.
    fn next(&mut self) -> Result<(Event<'a>, Span), Fault> {
        let (event, span) = match self.pending.take() {
            Some(pending) => pending,
            None => self.event()?,
        };
        if let Some(with_colon) = self.with_colon(&event, span) {
            return Ok((with_colon, span));
        }
        let is_pair = matches!(event, Event::MappingStart(..))
            && !span.slice(self.text).is_some_and(|it| it.starts_with('{'));
        if !is_pair {
            return Ok((event, span));
        }
        let (key, key_span) = self.event()?;
        let Some(with_colon) = self.with_colon(&key, key_span) else {
            self.pending = Some((key, key_span));
            return Ok((event, span));
        };
        // The missing value, and the end of the pair.
        self.event()?;
        self.event()?;
        Ok((with_colon, key_span))
    }

    /// The scalar with the colon after it, if that is a part of it.
    fn with_colon(&self, event: &Event<'a>, span: Span) -> Option<Event<'a>> {
        let Event::Scalar(text, style @ ScalarStyle::Plain, anchor, tag) = event else {
            return None;
        };
        let range = span.byte_range().filter(|range| !range.is_empty())?;
        let after = self.text.get(range.end..)?;
        let rest = after.trim_start_matches([' ', '\t']);
        let is_part = rest.strip_prefix(':')?.starts_with([',', ']', '}']);
        let gap = &after[..after.len() - rest.len()];
        let text = Cow::Owned(format!("{text}{gap}:"));
        is_part.then(|| Event::Scalar(text, *style, *anchor, tag.clone()))
    }

    fn event(&mut self) -> Result<(Event<'a>, Span), Fault> {
        match self.events.next_event() {
            Some(event) => {
                let (event, span) = event?;
                self.check_escapes(&event, span)?;
                Ok((event, span))
            }
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    /// Rejects the escapes of JSON that YAML 1.1 does not have.
    fn check_escapes(&self, event: &Event<'_>, span: Span) -> Result<(), Fault> {
        if !matches!(event, Event::Scalar(_, ScalarStyle::DoubleQuoted, ..)) {
            return Ok(());
        }
        let source = span.slice(self.text).unwrap_or_default();
        let mut parts = source.split('\\').skip(1);
        while let Some(escaped) = parts.next() {
            let surrogate = escaped
                .get(..2)
                .is_some_and(|it| it.eq_ignore_ascii_case("ud"));
            let is_surrogate = surrogate && escaped[2..].starts_with(|c| ('8'..).contains(&c));
            match escaped {
                // An escaped backslash: the next part is not escaped.
                "" => _ = parts.next(),
                _ if escaped.starts_with('/') => {
                    return Err(fault(span, "\\/ is not an escape in YAML 1.1").into());
                }
                _ if is_surrogate => {
                    return Err(fault(span, "surrogates are not characters in YAML").into());
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Skips the start of the next document. Returns whether there is one.
    fn start(&mut self) -> Result<bool, Fault> {
        loop {
            match self.next()? {
                (Event::StreamEnd, _) => return Ok(false),
                (Event::DocumentStart(..), _) => return Ok(true),
                _ => {}
            }
        }
    }

    /// Parses the first document.
    fn document(mut self, notes: &mut Vec<YamlFault>) -> Result<Option<Value>, Fault> {
        if !self.start()? {
            return Ok(None);
        }
        let mut tree = Tree::default();
        let first = self.next()?;
        let root = self.node(first, 0, &mut tree)?;
        let value = Decoder::new(&tree, notes).value(root, 0)?;
        let (_, end) = self.next()?;
        if !matches!(self.start(), Ok(false)) {
            notes.push(fault(end, IGNORED));
        }
        Ok(Some(value))
    }

    /// Reads the node that starts with this event.
    fn node(
        &mut self,
        (event, span): (Event<'a>, Span),
        depth: usize,
        tree: &mut Tree<'a>,
    ) -> Result<usize, Fault> {
        check_depth(depth, span)?;
        let index = tree.nodes.len();
        tree.nodes.push((Node::List(Vec::new()), span));
        let mut anchored = |anchor: usize| {
            if anchor > 0 {
                tree.anchors.insert(anchor, index);
            }
        };
        let node = match event {
            Event::Scalar(text, style, anchor, tag) => {
                anchored(anchor);
                Node::Scalar(Text::new(text, style, tag))
            }
            Event::SequenceStart(_, anchor, _) => {
                anchored(anchor);
                let mut items = Vec::new();
                loop {
                    match self.next()? {
                        (Event::SequenceEnd | Event::StreamEnd, _) => break,
                        event => items.push(self.node(event, depth + 1, tree)?),
                    }
                }
                Node::List(items)
            }
            Event::MappingStart(_, anchor, _) => {
                anchored(anchor);
                let mut entries = Vec::new();
                loop {
                    let key = match self.next()? {
                        (Event::MappingEnd | Event::StreamEnd, _) => break,
                        event => self.node(event, depth + 1, tree)?,
                    };
                    let first = self.next()?;
                    entries.push((key, self.node(first, depth + 1, tree)?));
                }
                Node::Map(entries)
            }
            Event::Alias(anchor) => match tree.anchors.get(&anchor) {
                Some(target) => Node::Alias(*target),
                None => return Err(fault(span, "unknown anchor").into()),
            },
            _ => Node::List(Vec::new()),
        };
        tree.nodes[index].0 = node;
        Ok(index)
    }

    /// Writes the value that starts with this event as JSON.
    fn write(
        &mut self,
        (event, span): (Event<'a>, Span),
        depth: usize,
        json: &mut String,
    ) -> Result<(), Fault> {
        check_depth(depth, span)?;
        match event {
            Event::Scalar(text, style, _, tag) => {
                let value = Text::new(text, style, tag).scalar();
                let value = value.and_then(Scalar::json);
                let value = value.map_err(|text| fault(span, text))?;
                json.push_str(&value.to_string());
            }
            Event::SequenceStart(..) => {
                json.push('[');
                loop {
                    match self.next()? {
                        (Event::SequenceEnd | Event::StreamEnd, _) => break,
                        event => {
                            separate(json, '[');
                            self.write(event, depth + 1, json)?;
                        }
                    }
                }
                json.push(']');
            }
            Event::MappingStart(..) => {
                json.push('{');
                loop {
                    let (event, span) = self.next()?;
                    let name = match event {
                        Event::MappingEnd | Event::StreamEnd => break,
                        Event::Scalar(text, style, _, tag) => Text::new(text, style, tag),
                        _ => return Err(fault(span, NOT_A_KEY).into()),
                    };
                    if name.is_merge() {
                        return Err(fault(span, "merge keys (<<) are not supported").into());
                    }
                    let name = name.scalar().and_then(Scalar::key);
                    let name = name.map_err(|text| fault(span, text))?;
                    separate(json, '{');
                    json.push_str(&Value::String(name).to_string());
                    json.push(':');
                    let first = self.next()?;
                    self.write(first, depth + 1, json)?;
                }
                json.push('}');
            }
            Event::Alias(_) => return Err(fault(span, "aliases are not supported").into()),
            _ => json.push_str("null"),
        }
        Ok(())
    }
}

const IGNORED: &str = "the text after the end of the document is ignored, as kubectl does";
const NOT_A_KEY: &str = "a key that is not a string";

fn check_depth(depth: usize, span: Span) -> Result<(), YamlFault> {
    if depth > DEPTH_MAX {
        Err(fault(span, format!("more than {DEPTH_MAX} levels deep")))
    } else {
        Ok(())
    }
}

/// Adds a comma, unless the list or map that began last is empty.
fn separate(json: &mut String, begin: char) {
    if !json.ends_with(begin) {
        json.push(',');
    }
}

fn fault(span: Span, text: impl Into<String>) -> YamlFault {
    YamlFault {
        line: span.start.line(),
        column: Some(span.start.col() + 1),
        text: text.into(),
    }
}

// === impl Decoder ===

impl<'t, 'a> Decoder<'t, 'a> {
    fn new(tree: &'t Tree<'a>, notes: &'t mut Vec<YamlFault>) -> Self {
        Self {
            tree,
            notes,
            open: Vec::new(),
            decoded: 0,
            aliased: 0,
        }
    }

    fn value(&mut self, index: usize, depth: usize) -> Result<Value, YamlFault> {
        let (node, span) = &self.tree.nodes[index];
        check_depth(depth, *span)?;
        self.count(*span)?;
        Ok(match node {
            Node::Scalar(text) => {
                let value = text.scalar().and_then(Scalar::json);
                value.map_err(|text| fault(*span, text))?
            }
            Node::List(items) => {
                let items = items.iter().map(|item| self.value(*item, depth + 1));
                Value::Array(items.collect::<Result<_, _>>()?)
            }
            Node::Map(_) => {
                let mut entries = Map::new();
                self.entries(index, depth, &mut entries)?;
                Value::Object(entries)
            }
            Node::Alias(target) => self.within(index, |it| it.value(*target, depth))?,
        })
    }

    /// Adds the entries of a map.
    fn entries(
        &mut self,
        index: usize,
        depth: usize,
        entries: &mut Map<String, Value>,
    ) -> Result<(), YamlFault> {
        let Node::Map(pairs) = &self.tree.nodes[index].0 else {
            return Ok(());
        };
        let mut given = HashSet::new();
        for (key, value) in pairs {
            let (node, span) = &self.tree.nodes[*key];
            if matches!(node, Node::Scalar(text) if text.is_merge()) {
                self.merge(*value, depth, entries)?;
                continue;
            }
            let key = self.key(*key)?;
            if !given.insert(key.clone()) {
                let text = format!("the key {key:?} is given twice: the last value counts");
                self.notes.push(fault(*span, text));
            }
            let value = self.value(*value, depth + 1)?;
            entries.insert(key, value);
        }
        Ok(())
    }

    /// Adds the entries of a merge key (`<<`): they replace earlier ones, and later ones replace them.
    fn merge(
        &mut self,
        index: usize,
        depth: usize,
        entries: &mut Map<String, Value>,
    ) -> Result<(), YamlFault> {
        let (node, span) = &self.tree.nodes[index];
        let of_maps = "a merge key (<<) needs a map or a list of maps";
        let target = match node {
            Node::Alias(target) => *target,
            _ => index,
        };
        match (node, &self.tree.nodes[target].0) {
            (_, Node::Map(_)) => {
                check_depth(depth, *span)?;
                self.count(*span)?;
                if target == index {
                    self.entries(target, depth, entries)
                } else {
                    self.within(index, |it| {
                        it.count(*span)?;
                        it.entries(target, depth, entries)
                    })
                }
            }
            (Node::List(items), _) => {
                for item in items.iter().rev() {
                    if matches!(self.tree.nodes[*item].0, Node::List(_)) {
                        return Err(fault(*span, of_maps));
                    }
                    self.merge(*item, depth, entries)?;
                }
                Ok(())
            }
            _ => Err(fault(*span, of_maps)),
        }
    }

    fn key(&mut self, index: usize) -> Result<String, YamlFault> {
        let (node, span) = &self.tree.nodes[index];
        self.count(*span)?;
        match node {
            Node::Scalar(text) => {
                let key = text.scalar().and_then(Scalar::key);
                key.map_err(|text| fault(*span, text))
            }
            Node::Alias(target) => self.within(index, |it| it.key(*target)),
            Node::List(_) | Node::Map(_) => Err(fault(*span, NOT_A_KEY)),
        }
    }

    /// Decodes the target of an alias.
    fn within<T>(
        &mut self,
        alias: usize,
        decode: impl FnOnce(&mut Self) -> Result<T, YamlFault>,
    ) -> Result<T, YamlFault> {
        if self.open.contains(&alias) {
            let (_, span) = self.tree.nodes[alias];
            return Err(fault(span, "an alias that contains itself"));
        }
        self.open.push(alias);
        let decoded = decode(self);
        self.open.pop();
        decoded
    }

    /// Counts a decoded node, and limits the part that comes from aliases, as go-yaml's decoder does
    /// (decode.go: `unmarshal`, `allowedAliasRatio`).
    fn count(&mut self, span: Span) -> Result<(), YamlFault> {
        self.decoded = self.decoded.saturating_add(1);
        if !self.open.is_empty() {
            self.aliased = self.aliased.saturating_add(1);
        }
        let (decoded, aliased) = (f64::from(self.decoded), f64::from(self.aliased));
        let large = ((decoded - 400_000.0) / 3_600_000.0).clamp(0.0, 1.0);
        let is_excessive = aliased / decoded > 0.99 - 0.89 * large;
        if is_excessive && self.aliased > 100 && self.decoded > 1000 {
            return Err(fault(span, "too many values come from aliases"));
        }
        Ok(())
    }
}

// === impl Text ===

impl<'a> Text<'a> {
    fn new(text: Cow<'a, str>, style: ScalarStyle, tag: Option<Cow<'a, Tag>>) -> Self {
        Self {
            text,
            is_plain: style == ScalarStyle::Plain && tag.is_none(),
            tag,
        }
    }

    /// Whether it is the merge key of YAML 1.1.
    fn is_merge(&self) -> bool {
        self.text == "<<" && (self.is_plain || self.kind().as_deref() == Some("merge"))
    }

    /// Its tag, if that is one of YAML.
    fn kind(&self) -> Option<Cow<'_, str>> {
        self.tag.as_ref()?.suffix_in_namespace(TAGS)
    }

    /// Its value, as go-yaml's `resolve` has it. Timestamps are strings, and other tags than those of YAML have no effect.
    fn scalar(&self) -> Result<Scalar, String> {
        let text = &*self.text;
        let as_text = || Scalar::Text(text.to_owned());
        if self.is_plain {
            return Ok(plain(text));
        }
        let Some(kind) = self.kind() else {
            return Ok(as_text());
        };
        let value = plain(text);
        let fits = match &*kind {
            "null" => value == Scalar::Null,
            "bool" => matches!(value, Scalar::Bool(_)),
            "int" => matches!(value, Scalar::Int(_) | Scalar::Uint(_)),
            "float" => matches!(value, Scalar::Int(_) | Scalar::Float(_)),
            "binary" => {
                let encoded = text.replace(['\r', '\n'], "");
                let bytes = STANDARD.decode(encoded);
                let bytes = bytes.map_err(|_| "a !!binary value must be base64".to_owned())?;
                return Ok(Scalar::Text(String::from_utf8_lossy(&bytes).into_owned()));
            }
            _ => return Ok(as_text()),
        };
        if fits {
            Ok(value)
        } else {
            Err(format!("{text:?} does not match its tag"))
        }
    }
}

// === impl Scalar ===

impl Scalar {
    fn json(self) -> Result<Value, String> {
        Ok(match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(value),
            Self::Int(value) => Value::from(value),
            Self::Uint(value) => Value::from(value),
            // Go writes a double without a fraction as an integer: `1e3` is 1000. A number beyond 64 bits becomes the
            // nearest double, and is rejected where an integer is required.
            #[allow(clippy::cast_possible_truncation, reason = "less than 2^53")]
            Self::Float(value) if value.fract() == 0.0 && value.abs() < EXACT_MAX => {
                Value::from(value as i64)
            }
            Self::Float(value) => match Number::from_f64(value) {
                Some(number) => Value::Number(number),
                None => return Err("infinity and NaN are not numbers in JSON".to_owned()),
            },
            Self::Text(text) => Value::String(text),
        })
    }

    /// Keys are strings. sigs.k8s.io/yaml converts other scalars to strings (yaml.go: `convertToJSONableObject`).
    fn key(self) -> Result<String, String> {
        Ok(match self {
            Self::Text(text) => text,
            Self::Bool(value) => value.to_string(),
            Self::Int(value) => value.to_string(),
            Self::Float(value) => float_key(value),
            Self::Null | Self::Uint(_) => {
                return Err("a key must be a string: put it in quotes".to_owned());
            }
        })
    }
}

/// Go: `strconv.FormatFloat(value, 'g', -1, 32)`, with YAML's names for infinity and NaN.
fn float_key(value: f64) -> String {
    #[allow(clippy::cast_possible_truncation, reason = "as in Go")]
    let value = value as f32;
    if !value.is_finite() {
        let text = if value.is_nan() {
            ".nan"
        } else if value > 0.0 {
            ".inf"
        } else {
            "-.inf"
        };
        return text.to_owned();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    match exponent {
        -4..=5 => value.to_string(),
        _ if exponent < 0 => format!("{digits}e-{:02}", -exponent),
        _ => format!("{digits}e+{exponent:02}"),
    }
}

/// The value of a plain scalar.
fn plain(text: &str) -> Scalar {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Scalar::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Scalar::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Scalar::Bool(false)
        }
        ".nan" | ".NaN" | ".NAN" => Scalar::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Scalar::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Scalar::Float(f64::NEG_INFINITY),
        _ => number(text).unwrap_or_else(|| Scalar::Text(text.to_owned())),
    }
}

fn number(text: &str) -> Option<Scalar> {
    let text = match text.as_bytes().first()? {
        b'.' => text.to_owned(),
        b'+' | b'-' | b'0'..=b'9' => text.replace('_', ""),
        _ => return None,
    };
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text.as_str()),
    };
    if let Some(size) = integer(digits) {
        match i64::try_from(i128::from(size) * sign) {
            Ok(value) => return Some(Scalar::Int(value)),
            // Go: `strconv.ParseUint` accepts no sign.
            Err(_) if digits.len() == text.len() => return Some(Scalar::Uint(size)),
            Err(_) => {}
        }
    }
    // Rust parses the same texts as go-yaml, and names such as `inf`.
    let value: f64 = text.parse().ok()?;
    value.is_finite().then_some(Scalar::Float(value))
}

/// Parses digits in one of four bases. `None` beyond 64 bits.
fn integer(digits: &str) -> Option<u64> {
    let (digits, radix) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&digits[2..], 16),
        [b'0', b'o' | b'O', ..] => (&digits[2..], 8),
        [b'0', b'b' | b'B', ..] => (&digits[2..], 2),
        [b'0', _, ..] => (&digits[1..], 8),
        _ => (digits, 10),
    };
    // `from_str_radix` would accept a sign.
    if digits.starts_with(['+', '-']) {
        return None;
    }
    u64::from_str_radix(digits, radix).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(text: &str) -> Result<Value, String> {
        match read(text, &mut Vec::new()) {
            Ok(document) => Ok(document.unwrap_or_default()),
            Err(fault) => Err(fault.text),
        }
    }

    /// The notes on a text, with their lines.
    fn notes(text: &str) -> Vec<String> {
        let mut notes = Vec::new();
        read(text, &mut notes).unwrap();
        notes
            .into_iter()
            .map(|it| format!("{}: {}", it.line, it.text))
            .collect()
    }

    #[test]
    fn numbers_are_those_of_go_yaml() {
        for (text, expected) in [
            ("1e3", json!(1000)),
            ("-1.5E+1", json!(-15)),
            (".5", json!(0.5)),
            ("1_0.5", json!(10.5)),
            ("9007199254740991.0", json!(9_007_199_254_740_991_i64)),
            ("9007199254740992.0", json!(9_007_199_254_740_992.0)),
            ("!!int -5", json!(-5)),
            ("!!int 18446744073709551615", json!(u64::MAX)),
            ("!!float 5", json!(5)),
        ] {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
        for text in [
            "_1",
            "+inf",
            "-nan",
            "+infinity",
            "1e999",
            "1.2.3",
            "1e",
            "1e+",
            "1.5e5.",
            "+-5",
            ".",
            "-.",
            ".e5",
        ] {
            assert_eq!(parse(text), Ok(json!(text)));
        }
    }

    #[test]
    fn tags_of_yaml_have_an_effect_and_others_none() {
        for (text, expected) in [
            ("!!seq [1]", json!([1])),
            ("!!map {a: 1}", json!({"a": 1})),
            ("!!set [1]", json!([1])),
            ("!foo [1]", json!([1])),
            ("! 5", json!("5")),
            ("!foo 5", json!("5")),
            ("!!str 5", json!("5")),
            ("!!bool on", json!(true)),
            ("!!binary aGk=", json!("hi")),
        ] {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
        assert_eq!(
            parse("!!int 1.5"),
            Err("\"1.5\" does not match its tag".to_owned())
        );
    }

    #[test]
    fn layout_is_as_free_as_for_kubectl() {
        for (text, expected) in [
            ("args: [\n  a,\n]\n", json!({"args": ["a"]})),
            ("args: {\n  a: b\n}\n", json!({"args": {"a": "b"}})),
            ("a:\n- b: [\n  c ]\n", json!({"a": [{"b": ["c"]}]})),
            (
                "args: [\n\ta,\n\tb\n]\nb: 1\n",
                json!({"args": ["a", "b"], "b": 1}),
            ),
            ("a: 'one\n  two'\n", json!({"a": "one two"})),
            ("a:\n  b: \"one\n  two\"\n", json!({"a": {"b": "one two"}})),
            ("a:\tb\n", json!({"a": "b"})),
            ("a: |\n  x", json!({"a": "x\n"})),
            (
                "a: [1.2.3.4, 2001:db8::]",
                json!({"a": ["1.2.3.4", "2001:db8::"]}),
            ),
            ("a: {b:, c: d}", json!({"a": {"b:": null, "c": "d"}})),
            (
                "a: [b: c, d :, e: ]",
                json!({"a": [{"b": "c"}, "d :", {"e": null}]}),
            ),
            (
                "é: [tar, -, {x: -}, -]",
                json!({"é": ["tar", "-", {"x": "-"}, "-"]}),
            ),
        ] {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
        for text in [
            "a:\n\tb: 1\n",
            "a: \"\\/\"",
            "a: \"\\ud83d\\ude00\"",
            "a: b: c\n",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!(parse(r#"a: "\\/""#), Ok(json!({"a": "\\/"})));
    }

    #[test]
    fn last_value_of_a_key_counts_and_is_noted() {
        let text = "a: 1\nb: {c: 2}\na:\n  d: 3\n";
        assert_eq!(parse(text), Ok(json!({"a": {"d": 3}, "b": {"c": 2}})));
        assert_eq!(
            notes(text),
            ["3: the key \"a\" is given twice: the last value counts"]
        );
        assert_eq!(notes("a: 1\nb: {a: 2}\n"), [""; 0]);
    }

    #[test]
    fn text_after_the_first_document_is_ignored_with_a_note() {
        assert_eq!(parse("a: 1\n...\nb: 2\n"), Ok(json!({"a": 1})));
        let note = "the text after the end of the document is ignored, as kubectl does";
        assert_eq!(notes("a: 1\n...\nb: 2\n"), [format!("2: {note}")]);
        assert_eq!(notes("a: 1\n...\n# b\n"), [""; 0]);
        assert_eq!(parse("\n# a\n...\nb: 2\n"), Ok(Value::Null));
        assert_eq!(notes("\n# a\n...\nb: 2\n"), [format!("3: {note}")]);
    }

    #[test]
    fn merge_keys_replace_earlier_keys_only() {
        for (text, expected) in [
            (
                "x: &x {a: 1, b: 1}\nz: {<<: *x, a: 2}",
                json!({"a": 2, "b": 1}),
            ),
            (
                "x: &x {a: 1, b: 1}\nz: {a: 2, <<: *x}",
                json!({"a": 1, "b": 1}),
            ),
            (
                "x: &x {a: 1}\nz: {<<: [*x, {a: 3, c: 3}]}",
                json!({"a": 1, "c": 3}),
            ),
        ] {
            assert_eq!(
                parse(text).map(|it| it["z"].clone()),
                Ok(expected),
                "{text}"
            );
        }
        assert!(parse("<<: 1").is_err());
        assert!(parse("x: &x [1]\nz: {<<: *x}").is_err());
    }

    #[test]
    fn keys_are_converted_to_strings() {
        for (text, expected) in [
            ("1: a", "1"),
            ("0x10: a", "16"),
            ("yes: a", "true"),
            ("1.10: a", "1.1"),
            ("1000000.0: a", "1e+06"),
            ("1e-7: a", "1e-07"),
        ] {
            assert_eq!(parse(text), Ok(json!({expected: "a"})), "{text}");
        }
        for text in ["~: a", "null: a", "18446744073709551615: a", "[a]: b"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn json_has_the_same_values() {
        let text = "a: [1, 0o7, 'it''s', {b: ~}, [], {}]\nc: |\n  x\n  [\n'[': \"{\"\n";
        let json = to_json(text).unwrap().remove(0);
        assert_eq!(serde_json::from_str(&json).ok(), parse(text).ok(), "{json}");
        for (text, expected) in [
            ("a: &a 1\nb: *a", "aliases are not supported"),
            ("[1]: 2", "a key that is not a string"),
            ("<<: {a: 1}", "merge keys (<<) are not supported"),
        ] {
            let fault = to_json(text).unwrap_err();
            assert_eq!(fault.text, expected, "{text}");
        }
        let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert!(to_json(&nested(DEPTH_MAX + 1)).is_ok());
        assert!(to_json(&nested(DEPTH_MAX + 2)).is_err());
    }

    #[test]
    fn control_characters_are_rejected() {
        for (text, line, column) in [
            ("\u{18}", 1, 1),
            ("a: 1\nb: ü\u{1b}[2J", 2, 5),
            ("\na: \u{0}", 2, 4),
            ("a: '\u{7f}'", 1, 5),
            ("# \u{9f}\na: 1", 1, 3),
            ("a: \u{ffff}", 1, 4),
        ] {
            let fault = to_json(text).unwrap_err();
            assert_eq!((fault.line, fault.column), (line, Some(column)), "{text:?}");
            assert_eq!(fault.text, "control characters are not allowed");
            assert!(parse(text).is_err(), "{text:?}");
        }
        assert_eq!(
            parse("a:\t\"\\e\u{85}\u{a0}😀\"\r\n"),
            Ok(json!({"a": "\u{1b} \u{a0}😀"}))
        );
    }

    #[test]
    fn keys_may_be_anchors_and_quoted_merge_signs() {
        assert_eq!(
            parse("{&k key: 1, b: *k, \"<<\": 2}"),
            Ok(json!({"key": 1, "b": "key", "<<": 2}))
        );
    }

    #[test]
    fn depth_is_limited_in_lists_maps_and_aliases() {
        let nested = |open: &str, levels: usize, value: &str, close: &str| {
            format!("{}{value}{}", open.repeat(levels), close.repeat(levels))
        };
        let hundred = nested("[", 100, "x", "]");
        let texts = |levels: usize| {
            [
                format!("a: {}", nested("[", levels, "x", "]")),
                format!("a: {}", nested("{b: ", levels, "x", "}")),
                format!(
                    "a: &a {hundred}\nb: {}",
                    nested("[", levels - 100, "*a", "]")
                ),
            ]
        };
        for text in texts(DEPTH_MAX - 1) {
            assert!(parse(&text).is_ok(), "{text}");
        }
        for text in texts(DEPTH_MAX) {
            let expected = "more than 128 levels deep".to_owned();
            assert_eq!(parse(&text), Err(expected), "{text}");
        }
    }

    #[test]
    fn values_of_aliases_are_limited() {
        let thousand = ["0"; 999].join(",");
        let text = |aliases: usize| {
            let aliases = vec!["*a"; aliases].join(",");
            format!("a: &a [{thousand}]\nb: [{aliases}]")
        };
        assert!(parse(&text(90)).is_ok());
        let excessive = Err("too many values come from aliases".to_owned());
        assert_eq!(parse(&text(200)), excessive);
        let bomb = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n\
                    d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: [*d,*d,*d,*d,*d,*d,*d,*d,*d]\n";
        assert_eq!(parse(bomb), excessive);
    }

    #[test]
    fn depth_of_converted_documents_is_limited() {
        let nested = |levels: usize| {
            let [list, map] = [("[", "]"), ("{b: ", "}")]
                .map(|(open, close)| format!("{}x{}", open.repeat(levels), close.repeat(levels)));
            [list, map]
        };
        for text in nested(DEPTH_MAX) {
            assert!(to_json(&text).is_ok(), "{text}");
        }
        for text in nested(DEPTH_MAX + 1) {
            let fault = to_json(&text).map_err(|fault| fault.text);
            assert_eq!(fault, Err("more than 128 levels deep".to_owned()), "{text}");
        }
    }

    #[test]
    fn numbers_may_have_a_sign() {
        for (text, expected) in [
            ("+5", 5),
            ("-5", -5),
            ("+0x10", 16),
            ("-0x10", -16),
            ("+0o17", 15),
        ] {
            assert_eq!(parse(text), Ok(Value::from(expected)), "{text}");
        }
    }
}
