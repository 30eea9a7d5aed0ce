//! `rollplan undo`.

use clap::Args;
use rollplan_text as text;
use rollplan_wire::proto;

use super::print_commands;
use super::read::read;
use crate::cli::cluster::{Cluster, Needs};
use crate::cli::error::Error;
use crate::cli::exit::Exit;
use crate::cli::input::Request;
use crate::cli::options::{AnswerArgs, InputArgs, ScriptOutput};
use crate::cli::output;
use crate::cli::planner::Planner;

/// Appended to `--help`.
pub(in crate::cli) const HELP: &str = "\
Exit codes: 0 the rollback was printed, or there is nothing to undo; 1 undo target not found: the Deployment has no \
such revision, or it is paused; 2 invalid command line or input, or missing permission; 4 no answer from the service, \
kubectl or the cluster.";

#[derive(Args, Debug)]
pub(in crate::cli) struct UndoArgs {
    #[command(flatten)]
    pub(in crate::cli) input: InputArgs,
    /// The revision to roll back to; 0 is the previous revision, and last-available the one with the most available pods
    #[arg(long, value_name = "REVISION", default_value = "0", value_parser = to_revision)]
    pub(in crate::cli) to_revision: ToRevision,
    #[command(flatten)]
    pub(in crate::cli) answer: AnswerArgs<ScriptOutput>,
}

/// The revision to roll back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum ToRevision {
    /// This one. 0 is the previous one.
    Number(i64),
    /// The one with the most available pods.
    LastAvailable,
}

fn to_revision(text: &str) -> Result<ToRevision, String> {
    match (text, text.parse()) {
        ("last-available", _) => Ok(ToRevision::LastAvailable),
        (_, Ok(number @ 0..)) => Ok(ToRevision::Number(number)),
        _ => Err("must be a number that is not negative, or last-available".to_owned()),
    }
}

/// `rollplan undo`.
pub(in crate::cli) fn run(args: UndoArgs) -> Result<Exit, Error> {
    let UndoArgs {
        input,
        to_revision,
        answer: AnswerArgs { output, server },
    } = args;
    let planner = Planner::new(server)?;
    let Request {
        subject,
        snapshot,
        source_map,
        is_partial,
        ..
    } = read(&input, Needs::Revisions, None)?;
    let mut request = proto::RollbackRequest {
        snapshot: Some(snapshot),
        to_revision: match to_revision {
            ToRevision::Number(number) => number,
            ToRevision::LastAvailable => 0,
        },
        to_last_available: to_revision == ToRevision::LastAvailable,
        options: None,
        configurations: Vec::new(),
    };
    let roll_back = |request| {
        let response = planner.answer(request);
        response.map_err(|refusal| refusal.into_error(&source_map))
    };
    let mut response = roll_back(request.clone())?;
    if input.source.files.is_empty() && !response.required.is_empty() {
        request.configurations = Cluster::new(&input.cluster).look_up(&response.required)?;
        response = roll_back(request)?;
    }
    match output.plain() {
        Some(output) => output::print(output, &response, |page| {
            text::undo(page, &subject, &response);
        })?,
        None => {
            let commands = output::script::undo(&subject, &input.cluster, &response)?;
            print_commands(&commands)?;
        }
    }
    Ok(Exit::Done.of_input(is_partial))
}
