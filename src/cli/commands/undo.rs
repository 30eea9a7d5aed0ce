//! `rollplan undo`.

use clap::Args;

use super::print_commands;
use super::read::read;
use crate::cli::cluster::Needs;
use crate::cli::error::Error;
use crate::cli::exit::Exit;
use crate::cli::input::Request;
use crate::cli::options::{AnswerArgs, InputArgs, ScriptOutput};
use crate::cli::output;
use crate::cli::planner::Planner;
use crate::{proto, text};

/// Appended to `--help`.
pub(in crate::cli) const HELP: &str = "\
Exit codes: 0 the rollback was printed, or there is nothing to undo; 1 undo target not found: the Deployment has no \
such revision, or it is paused; 2 invalid command line or input, or missing permission; 4 no answer from the service, \
kubectl or the cluster.";

#[derive(Args, Debug)]
pub(in crate::cli) struct UndoArgs {
    #[command(flatten)]
    pub(in crate::cli) input: InputArgs,
    /// The revision to roll back to; 0 is the previous revision
    #[arg(long, value_name = "REVISION", default_value_t = 0, value_parser = clap::value_parser!(i64).range(0..))]
    pub(in crate::cli) to_revision: i64,
    #[command(flatten)]
    pub(in crate::cli) answer: AnswerArgs<ScriptOutput>,
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
    let request = proto::RollbackRequest {
        snapshot: Some(snapshot),
        to_revision,
        options: None,
    };
    let response = planner
        .rollback(request)
        .map_err(|refusal| refusal.into_error(&source_map))?;
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
