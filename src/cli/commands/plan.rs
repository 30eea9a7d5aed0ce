//! `rollplan plan`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use rollplan_text as text;
use rollplan_wire::proto;

use super::print_commands;
use super::read::read;
use crate::cli::cluster::Needs;
use crate::cli::error::Error;
use crate::cli::exit::Exit;
use crate::cli::input::Request;
use crate::cli::options::{AnswerArgs, InputArgs, ScriptOutput};
use crate::cli::output;
use crate::cli::planner::Planner;

/// Appended to `--help`.
pub(in crate::cli) const HELP: &str = "\
Exit codes: 0 the plan was printed, even if there is nothing to do; 2 invalid command line or input, or missing \
permission; 4 no answer from the service, kubectl or the cluster.";

/// The error if `plan -o kubectl` lacks a confirmation.
const TAKEOVER: &str = "\
-o kubectl prints the writes of Kubernetes' own Deployment controller, for you to make in its place. If that controller \
manages this Deployment, both would overwrite each other's changes; if it does not, pass --takeover";

#[derive(Args, Debug)]
pub(in crate::cli) struct PlanArgs {
    #[command(flatten)]
    pub(in crate::cli) input: InputArgs,
    /// How far to look ahead
    #[arg(long, value_enum, default_value_t)]
    pub(in crate::cli) horizon: Horizon,
    /// File with the responses of the API server to those calls of the last plan that failed
    ///
    /// A JSON list of StepAnswer messages, each with the call exactly as it was planned. The body of a response is encoded
    /// in base64.
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) answers: Option<PathBuf>,
    /// Confirm that Kubernetes' own controller does not manage this Deployment (for -o kubectl)
    ///
    /// If it does, both controllers would overwrite each other's changes.
    #[arg(long)]
    pub(in crate::cli) takeover: bool,
    #[command(flatten)]
    pub(in crate::cli) answer: AnswerArgs<ScriptOutput>,
}

/// How far a plan looks.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(in crate::cli) enum Horizon {
    /// All writes that can be made before something else in the cluster has to change
    #[default]
    Settled,
    /// Exactly one sync of the Kubernetes Deployment controller
    Pass,
}

/// `rollplan plan`.
pub(in crate::cli) fn run(args: PlanArgs) -> Result<Exit, Error> {
    let PlanArgs {
        input,
        horizon,
        answers,
        takeover,
        answer: AnswerArgs { output, server },
    } = args;
    match (output, takeover) {
        (ScriptOutput::Kubectl, false) => return Err(Error::Usage(TAKEOVER.to_owned())),
        (ScriptOutput::Kubectl, true) | (_, false) => {}
        (_, true) => {
            let text = "--takeover can only be used with -o kubectl";
            return Err(Error::Usage(text.to_owned()));
        }
    }
    let planner = Planner::new(server)?;
    let Request {
        subject,
        snapshot,
        source_map,
        is_partial,
        ..
    } = read(&input, Needs::Plan, answers.as_deref())?;
    let request = proto::PlanRolloutRequest {
        snapshot: Some(snapshot),
        options: Some(proto::PlanOptions {
            horizon: proto::Horizon::from(horizon).into(),
            terminating_replicas: None,
            events_as_calls: false,
            report: true,
            caps: None,
        }),
        sync: None,
    };
    let response = planner
        .answer(request)
        .map_err(|refusal| refusal.into_error(&source_map))?;
    match output.plain() {
        Some(output) => output::print(output, &response, |page| {
            text::plan(page, &subject, &response);
        })?,
        None => {
            let commands = output::script::plan(&subject, &input.cluster, &response)?;
            print_commands(&commands)?;
        }
    }
    Ok(if text::lacks_sets(response.report.as_ref()) {
        Exit::Usage
    } else {
        Exit::Done.of_input(is_partial)
    })
}

// === impl Horizon ===

impl From<Horizon> for proto::Horizon {
    fn from(horizon: Horizon) -> Self {
        match horizon {
            Horizon::Settled => Self::Settled,
            Horizon::Pass => Self::Pass,
        }
    }
}
