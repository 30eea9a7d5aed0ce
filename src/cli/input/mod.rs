//! Requests made from files or from what kubectl printed, and errors that name the place in these.

mod answers;
mod document;
mod fault;
mod object;
mod selection;
mod snapshot;
mod source;
mod source_map;
mod tree;
mod yaml;

pub(super) use self::answers::{Answers, answers};
pub(super) use self::object::{Objects, Texts};
pub(super) use self::snapshot::{
    Complete, Request, Wanted, absent, request, requests, selector, targets,
};
pub(super) use self::source::{Source, sources};
pub(super) use self::source_map::SourceMap;
pub(super) use self::tree::{Health, Node, tree};
