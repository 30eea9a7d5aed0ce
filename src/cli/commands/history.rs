//! `rollplan history`.

use clap::Args;

use super::read::read;
use crate::cli::cluster::Needs;
use crate::cli::error::Error;
use crate::cli::exit::Exit;
use crate::cli::input::Request;
use crate::cli::options::{AnswerArgs, InputArgs, Output};
use crate::cli::output;
use crate::cli::planner::Planner;
use crate::{proto, text};

/// Appended to `--help`.
pub(in crate::cli) const HELP: &str = "\
Exit codes: 0 the revisions were printed; 2 invalid command line or input, or missing permission; 4 no answer from the \
service, kubectl or the cluster.";

#[derive(Args, Debug)]
pub(in crate::cli) struct HistoryArgs {
    #[command(flatten)]
    pub(in crate::cli) input: InputArgs,
    #[command(flatten)]
    pub(in crate::cli) answer: AnswerArgs<Output>,
}

/// `rollplan history`.
pub(in crate::cli) fn run(args: HistoryArgs) -> Result<Exit, Error> {
    let HistoryArgs {
        input,
        answer: AnswerArgs { output, server },
    } = args;
    let planner = Planner::new(server)?;
    let Request {
        subject,
        snapshot,
        source_map,
        ..
    } = read(&input, Needs::Revisions, None)?;
    let now = snapshot.now;
    let request = proto::ListRevisionsRequest {
        snapshot: Some(snapshot),
    };
    let response = planner
        .list_revisions(request)
        .map_err(|refusal| refusal.into_error(&source_map))?;
    output::print(output, &response, |page| {
        text::history(page, &subject, now.as_ref(), &response);
    })?;
    Ok(Exit::Done)
}
