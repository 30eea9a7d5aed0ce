//! Creates requests from files or from kubectl's output, and maps errors back to places in these.

mod answers;
mod choice;
mod complete;
mod discovery;
mod document;
mod fault;
mod job_end;
mod notes;
mod object;
mod selection;
mod snapshot;
mod source;
mod source_map;
mod tree;

pub(super) use self::answers::{Answers, answers};
pub(super) use self::choice::{Wanted, absent};
pub(super) use self::complete::Complete;
pub(super) use self::discovery::has_status_subresource;
pub(super) use self::job_end::job_end;
pub(super) use self::notes::several_manifests;
pub(super) use self::object::{Objects, Texts};
pub(super) use self::snapshot::{
    Related, Request, listed, manifest, named, related, request, request_with_configurations,
    requests, targets,
};
pub(super) use self::source::{Source, Sources, sources};
pub(super) use self::source_map::SourceMap;
pub(super) use self::tree::{Health, Node, Place, tree};
