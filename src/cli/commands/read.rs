//! Reads what a command is about.

use std::path::Path;

use crate::cli::cluster::{Cluster, Needs};
use crate::cli::error::Error;
use crate::cli::input::{self, Complete, Objects, Request, Texts, Wanted};
use crate::cli::options::{InputArgs, SourceArgs};
use crate::cli::{now, stderr};

/// Reads files, or the cluster.
pub(super) fn read(
    args: &InputArgs,
    needs: Needs,
    answers: Option<&Path>,
) -> Result<Request, Error> {
    let InputArgs {
        source: SourceArgs { target, files },
        cluster,
        deployment,
        now,
        pods_complete,
        replica_sets_complete,
    } = args;
    let answers = answers.map(input::answers).transpose()?;
    let answers = answers.unwrap_or_default();
    if let Some(target) = target {
        return Cluster::new(cluster, target, needs).read(None, *now, answers);
    }
    if let Some((option, _)) = cluster.options().next() {
        let text = format!("{option} is for kubectl, and cannot be used with -f");
        return Err(Error::Usage(text));
    }
    let sources = input::sources(files)?;
    let wanted = deployment.as_deref().map(Wanted::parse).transpose()?;
    let texts = Texts::read(&sources)?;
    input::request(
        &Objects::find(&texts)?,
        wanted.as_ref(),
        Complete {
            replica_sets: *replica_sets_complete,
            pods: *pods_complete,
        },
        now.unwrap_or_else(now::read),
        answers,
        &mut |note| stderr::eprint_note(note),
    )
}
