//! Compares two templates without building their canonical forms.
//!
//! Both templates are walked in parallel, up to the first difference. The walk descends only where both sides have a
//! list or both have a map of the same kind, and skips nodes that are identical. Any other pair of nodes is compared by
//! its canonical forms, so that [`canonical`](super::canonical()) remains the only place that contains the rules. This
//! works because the canonical form of a node is composed of the canonical forms of its children.

use std::cmp::Ordering;
use std::iter::{self, Peekable};

use super::canonical::{HASH_LABEL, MAX_DEPTH, field, strip_key, walk};
use super::kind::{Kind, Struct};
use super::shape::TEMPLATE;
use super::tree::{Node, Tree};
use super::write::write_tree;

/// Whether Kubernetes considers two templates equal, ignoring the label `pod-template-hash`: whether their
/// [`canonical`](super::canonical()) forms are equal.
#[must_use]
pub fn equal<'a>(a: impl Tree<'a>, b: impl Tree<'a>) -> bool {
    same_trees(&TEMPLATE, a, b, HASH_LABEL, 0)
}

pub(super) fn same_trees<'a, A: Tree<'a>, B: Tree<'a>>(
    kind: &Kind,
    a: A,
    b: B,
    skip: &[&str],
    depth: usize,
) -> bool {
    a.identity() == b.identity() || same_nodes(kind, a.node(), b.node(), skip, depth)
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
            pairs(a, b).all(|(key, a, b)| match (strip_key(skip, key), a, b) {
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
            let (mut a_form, mut b_form) = (String::new(), String::new());
            walk(kind, a, skip, depth, &mut a_form);
            walk(kind, b, skip, depth, &mut b_form);
            a_form == b_form
        }
    }
}

/// Compares a struct field that at least one of the structs has.
fn same_fields<'a, A: Tree<'a>, B: Tree<'a>>(
    of: &Struct,
    key: &str,
    (a, b): (Option<A>, Option<B>),
    skip: &[&str],
    depth: usize,
) -> bool {
    if a.is_some() && a.map(A::identity) == b.map(B::identity) {
        return true;
    }
    match (a.map(A::node), b.map(B::node)) {
        // Equal strings are equal in fields of every kind.
        (Some(Node::String(a)), Some(Node::String(b))) if a == b => true,
        (Some(a @ (Node::List(_) | Node::Map(_))), Some(b @ (Node::List(_) | Node::Map(_)))) => {
            let skip = strip_key(skip, key).unwrap_or_default();
            match of.field(key) {
                Some(field) => same_nodes(&field.kind, a, b, skip, depth + 1),
                None => verbatim(a, depth + 1) == verbatim(b, depth + 1),
            }
        }
        (a, b) => {
            let a = a.and_then(|a| field_form(of, key, a, skip, depth));
            let b = b.and_then(|b| field_form(of, key, b, skip, depth));
            a == b
        }
    }
}

/// The canonical form of a struct field. `None` if Go treats the field as absent.
fn field_form<'a, T: Tree<'a>>(
    of: &Struct,
    key: &str,
    node: Node<'a, T>,
    skip: &[&str],
    depth: usize,
) -> Option<String> {
    let mut json = String::new();
    field(of, key, node, skip, depth, &mut json).then_some(json)
}

/// A value that has no entry in the shape table.
fn verbatim<'a, T: Tree<'a>>(node: Node<'a, T>, depth: usize) -> String {
    let mut json = String::new();
    write_tree(&mut json, node, MAX_DEPTH.saturating_sub(depth));
    json
}

/// Merges the entries of two maps by key.
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
