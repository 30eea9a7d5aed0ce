//! Whether two templates are the same one, without their canonical forms being built.
//!
//! Both are walked side by side, down to the first difference. The walk goes into what both have alike, lists and maps
//! of a kind, unless the two are one and the same; anything else is decided by the forms of just these two nodes, so
//! that the rules stay where they are, in [`canonical`](super::canonical()). It may do so because a form is made of the
//! forms of what it holds.

use std::cmp::Ordering;
use std::iter::{self, Peekable};

use super::canonical::{HASH_LABEL, MAX_DEPTH, as_it_is, below, field_form, walk};
use super::kind::{Kind, Struct};
use super::shape::TEMPLATE;
use super::tree::{Node, Tree};
use super::value::Value;

/// Whether Kubernetes calls two templates equal, the label `pod-template-hash` aside: whether their
/// [`canonical`](super::canonical()) forms are the same.
#[must_use]
pub fn equal<'a>(a: impl Tree<'a>, b: impl Tree<'a>) -> bool {
    same_trees(&TEMPLATE, a, b, HASH_LABEL, 0)
}

fn same_trees<'a, A: Tree<'a>, B: Tree<'a>>(
    kind: &Kind,
    a: A,
    b: B,
    skip: &[&str],
    depth: usize,
) -> bool {
    a.place() == b.place() || same_nodes(kind, a.node(), b.node(), skip, depth)
}

fn same_nodes<'a, A: Tree<'a>, B: Tree<'a>>(
    kind: &Kind,
    a: Node<'a, A>,
    b: Node<'a, B>,
    skip: &[&str],
    depth: usize,
) -> bool {
    match (kind, a, b) {
        (_, Node::String(a), Node::String(b)) if a == b => true,
        (Kind::Struct(of), Node::Map(a), Node::Map(b)) if depth < MAX_DEPTH => {
            pairs(a, b).all(|(key, a, b)| same_fields(of, key, (a, b), skip, depth))
        }
        (Kind::Map(of), Node::Map(a), Node::Map(b)) if depth < MAX_DEPTH => {
            pairs(a, b).all(|(key, a, b)| match (below(skip, key), a, b) {
                (Some([]), _, _) => true,
                (skip, Some(a), Some(b)) => {
                    let skip = skip.unwrap_or_default();
                    same_trees(of, a, b, skip, depth + 1)
                }
                (_, _, None) | (_, None, _) => false,
            })
        }
        (Kind::List(of), Node::List(mut a), Node::List(mut b)) if depth < MAX_DEPTH => loop {
            match (a.next(), b.next()) {
                (Some(a), Some(b)) if same_trees(of, a, b, &[], depth + 1) => {}
                (a, b) => return a.is_none() && b.is_none(),
            }
        },
        (kind, a, b) => {
            walk::<A, Value>(kind, a, skip, depth).form
                == walk::<B, Value>(kind, b, skip, depth).form
        }
    }
}

/// A field of a struct, present in one of the two at least.
fn same_fields<'a, A: Tree<'a>, B: Tree<'a>>(
    of: &Struct,
    key: &str,
    (a, b): (Option<A>, Option<B>),
    skip: &[&str],
    depth: usize,
) -> bool {
    if a.is_some() && a.map(A::place) == b.map(B::place) {
        return true;
    }
    match (a.map(A::node), b.map(B::node)) {
        // Whatever the field is.
        (Some(Node::String(a)), Some(Node::String(b))) if a == b => true,
        (Some(a @ (Node::List(_) | Node::Map(_))), Some(b @ (Node::List(_) | Node::Map(_)))) => {
            let skip = below(skip, key).unwrap_or_default();
            match of.field(key) {
                Some(field) => same_nodes(&field.kind, a, b, skip, depth + 1),
                None => as_it_is::<A, Value>(a, depth + 1) == as_it_is::<B, Value>(b, depth + 1),
            }
        }
        (a, b) => {
            let a = a.and_then(|a| field_form::<A, Value>(of, key, a, skip, depth));
            let b = b.and_then(|b| field_form::<B, Value>(of, key, b, skip, depth));
            a == b
        }
    }
}

/// The entries of two maps by key.
fn pairs<'a, A, B>(
    a: impl Iterator<Item = (&'a str, A)>,
    b: impl Iterator<Item = (&'a str, B)>,
) -> impl Iterator<Item = (&'a str, Option<A>, Option<B>)> {
    let (mut a, mut b) = (a.peekable(), b.peekable());
    iter::from_fn(move || {
        let order = match (a.peek(), b.peek()) {
            (Some((a, _)), Some((b, _))) => a.cmp(b),
            (Some(_), None) => Ordering::Less,
            (None, _) => Ordering::Greater,
        };
        let a = take_if(&mut a, order.is_le());
        let b = take_if(&mut b, order.is_ge());
        let key = a.as_ref().map(|(key, _)| *key);
        let key = key.or(b.as_ref().map(|(key, _)| *key))?;
        Some((key, a.map(|(_, a)| a), b.map(|(_, b)| b)))
    })
}

fn take_if<I: Iterator>(items: &mut Peekable<I>, take: bool) -> Option<I::Item> {
    if take { items.next() } else { None }
}
