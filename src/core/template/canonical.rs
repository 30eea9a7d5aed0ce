//! The canonical form of a template, in which equal templates are identical.
//!
//! The rules are written once, in [`walk`], for whatever is made of the form: a [`Value`] here, a hash in
//! [`digest()`](super::digest()).

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use super::kind::{Field, Kind, Struct};
use super::quantity::Quantity;
use super::shape::TEMPLATE;
use super::time::Instant;
use super::tree::{Node, Tree};
use super::value::{Number, Value};

/// How many levels of lists and maps inside each other are looked at. What lies deeper counts as `null`.
///
/// The wire ring refuses deeper templates, and Kubernetes' own types end long before; the limit is here so that
/// nothing that reaches this code can exhaust the stack.
pub const MAX_DEPTH: usize = 100;

/// The label that the controller adds to a ReplicaSet's template, which is no difference (`EqualIgnoreHash` upstream).
pub(super) const HASH_LABEL: &[&str] = &["metadata", "labels", "pod-template-hash"];

/// A template in the form in which equal templates are identical: two are equal to Kubernetes (`EqualIgnoreHash`
/// upstream) exactly if their canonical forms are the same value.
///
/// What decodes to a Go zero is left out where Go keeps no difference between zero and absent, quantities and times are
/// written in one way, and the label `pod-template-hash` is dropped. The form is a template again, and its own canonical
/// form.
///
/// What Kubernetes would decide otherwise, knowingly:
/// - An unknown field counts as it is (a typed client drops it before comparing); only `null` is no field.
/// - A value of another kind than the field has counts as it is (a typed client refuses the object). So does text that
///   is no quantity or no time where one stands.
/// - The order of keys and the space inside a `fieldsV1` do not count (upstream compares its bytes).
/// - What lies deeper than [`MAX_DEPTH`] does not count.
/// - The few differences of [`Quantity`].
#[must_use]
pub fn canonical(template: &Value) -> Value {
    form_of::<_, Value>(template)
}

/// Something that can be made of a canonical form, from the leaves up.
pub(super) trait Form: Sized {
    fn null() -> Self;
    fn bool(value: bool) -> Self;
    fn number(value: Number) -> Self;
    fn string(value: &str) -> Self;
    fn list(items: impl Iterator<Item = Self>) -> Self;
    /// Entries come in any order, each key once.
    fn map<'k>(entries: impl Iterator<Item = (&'k str, Self)>) -> Self;
}

/// The canonical form of a template, made into an `F`.
pub(super) fn form_of<'a, T: Tree<'a>, F: Form>(template: T) -> F {
    walk(&TEMPLATE, template.node(), HASH_LABEL, 0).form
}

/// A canonical form that knows whether Go decodes it to the zero of its type.
pub(super) struct Folded<F> {
    pub(super) form: F,
    zero: bool,
}

/// Brings a value that is present into the form of its kind. `skip` is the path of an entry below it that is left out.
pub(super) fn walk<'a, T: Tree<'a>, F: Form>(
    kind: &Kind,
    node: Node<'a, T>,
    skip: &[&str],
    depth: usize,
) -> Folded<F> {
    let folded = |form, zero| Folded { form, zero };
    match (kind, node) {
        (Kind::Raw, node) => folded(as_it_is(node, depth), false),
        // Go leaves the zero value alone when it meets a null.
        (kind, Node::Null) => folded(zero_of(kind), true),
        (Kind::Bool, Node::Bool(value)) => folded(F::bool(value), !value),
        (Kind::Integer | Kind::IntOrString, Node::Number(number)) => {
            folded(F::number(number), number.as_i64() == Some(0))
        }
        (Kind::String, Node::String(text)) => folded(F::string(text), text.is_empty()),
        (Kind::IntOrString, Node::String(text)) => folded(F::string(text), false),
        (Kind::Quantity, Node::String(text)) => match Quantity::parse(text) {
            Some(quantity) => folded(text_form(&quantity), quantity.is_zero()),
            None => folded(F::string(text), false),
        },
        (Kind::Quantity, Node::Number(number)) => match quantity_of(number) {
            Some(quantity) => folded(text_form(&quantity), quantity.is_zero()),
            None => folded(F::number(number), false),
        },
        (Kind::Time, Node::String(text)) => match Instant::parse(text) {
            Some(instant) => folded(text_form(&instant), instant == Instant::ZERO),
            None => folded(F::string(text), false),
        },
        (Kind::Struct(_) | Kind::List(_) | Kind::Map(_), Node::List(_) | Node::Map(_))
            if depth == MAX_DEPTH =>
        {
            folded(F::null(), false)
        }
        (Kind::Struct(of), Node::Map(entries)) => counted(|zero| {
            F::map(entries.filter_map(|(key, node)| {
                let field = field_form(of, key, node.node(), skip, depth)?;
                *zero = false;
                Some((key, field))
            }))
        }),
        (Kind::Map(of), Node::Map(entries)) => counted(|zero| {
            F::map(entries.filter_map(|(key, node)| {
                let below = below(skip, key);
                if below.is_some_and(<[_]>::is_empty) {
                    return None;
                }
                *zero = false;
                Some((
                    key,
                    walk(of, node.node(), below.unwrap_or_default(), depth + 1).form,
                ))
            }))
        }),
        (Kind::List(of), Node::List(items)) => counted(|zero| {
            F::list(items.map(|item| {
                *zero = false;
                walk(of, item.node(), &[], depth + 1).form
            }))
        }),
        (_, node) => folded(as_it_is(node, depth), false),
    }
}

/// The form of a field of a struct, if Go sees a difference to its absence.
pub(super) fn field_form<'a, T: Tree<'a>, F: Form>(
    of: &Struct,
    key: &str,
    node: Node<'a, T>,
    skip: &[&str],
    depth: usize,
) -> Option<F> {
    if matches!(node, Node::Null) {
        return None;
    }
    let Some(Field {
        name: _,
        pointer,
        kind,
    }) = of.field(key)
    else {
        return Some(as_it_is(node, depth + 1));
    };
    let Folded { form, zero } = walk(kind, node, below(skip, key).unwrap_or_default(), depth + 1);
    (*pointer || !zero).then_some(form)
}

/// Runs something that clears a flag when it finds anything.
fn counted<F>(fold: impl FnOnce(&mut bool) -> F) -> Folded<F> {
    let mut zero = true;
    let form = fold(&mut zero);
    Folded { form, zero }
}

/// What is left of a path below this key, if the path leads there.
pub(super) fn below<'p, 's>(path: &'p [&'s str], key: &str) -> Option<&'p [&'s str]> {
    path.split_first()
        .and_then(|(first, rest)| (*first == key).then_some(rest))
}

/// A value of which the shape says nothing.
pub(super) fn as_it_is<'a, T: Tree<'a>, F: Form>(node: Node<'a, T>, depth: usize) -> F {
    match node {
        Node::Null => F::null(),
        Node::Bool(value) => F::bool(value),
        Node::Number(number) => F::number(number),
        Node::String(text) => F::string(text),
        Node::List(_) | Node::Map(_) if depth >= MAX_DEPTH => F::null(),
        Node::List(items) => F::list(items.map(|item| as_it_is(item.node(), depth + 1))),
        Node::Map(entries) => {
            F::map(entries.map(|(key, node)| (key, as_it_is(node.node(), depth + 1))))
        }
    }
}

/// What stands for the zero of a kind in a list or map, where it cannot be left out.
fn zero_of<F: Form>(kind: &Kind) -> F {
    match kind {
        Kind::Bool => F::bool(false),
        Kind::Integer | Kind::IntOrString => F::number(Number::from(0_i64)),
        Kind::String => F::string(""),
        Kind::Quantity => F::string("0"),
        Kind::Time => text_form(&Instant::ZERO),
        Kind::Raw => F::null(),
        Kind::Struct(_) | Kind::Map(_) => F::map(std::iter::empty()),
        Kind::List(_) => F::list(std::iter::empty()),
    }
}

/// JSON allows a number for a quantity. Upstream reads its text, of which the shortest for the same float is left.
fn quantity_of(number: Number) -> Option<Quantity> {
    let float = number.as_f64();
    with_text(
        &number.as_i64().map_or(Text::Float(float), Text::Integer),
        Quantity::parse,
    )
}

enum Text {
    Integer(i64),
    Float(f64),
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(value) => write!(f, "{value}"),
            // With an exponent, for else 1e300 has 300 digits. Infinities and NaN give text that is no quantity.
            Self::Float(value) => write!(f, "{value:e}"),
        }
    }
}

fn text_form<F: Form>(value: &impl fmt::Display) -> F {
    with_text(value, F::string)
}

/// Prints into a buffer on the stack, which all but absurd quantities fit.
fn with_text<R>(value: &impl fmt::Display, use_text: impl FnOnce(&str) -> R) -> R {
    let mut buffer = Buffer {
        bytes: [0; 64],
        length: 0,
    };
    if write!(buffer, "{value}").is_ok()
        && let Ok(text) = str::from_utf8(&buffer.bytes[..buffer.length])
    {
        return use_text(text);
    }
    use_text(&value.to_string())
}

struct Buffer {
    bytes: [u8; 64],
    length: usize,
}

impl fmt::Write for Buffer {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length + text.len();
        self.bytes
            .get_mut(self.length..end)
            .ok_or(fmt::Error)?
            .copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

// === impl Form for Value ===

impl Form for Value {
    fn null() -> Self {
        Self::Null
    }

    fn bool(value: bool) -> Self {
        Self::Bool(value)
    }

    fn number(value: Number) -> Self {
        Self::Number(value)
    }

    fn string(value: &str) -> Self {
        Self::String(value.to_owned())
    }

    fn list(items: impl Iterator<Item = Self>) -> Self {
        Self::List(items.collect())
    }

    fn map<'k>(entries: impl Iterator<Item = (&'k str, Self)>) -> Self {
        Self::Map(
            entries
                .map(|(key, value)| (key.to_owned(), value))
                .collect::<BTreeMap<_, _>>(),
        )
    }
}
