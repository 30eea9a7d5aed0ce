//! `rollplan wait`.

use std::time::Duration;

use clap::Args;

use crate::cli::error::Error;
use crate::cli::exit::Exit;
use crate::cli::options::{AnswerArgs, ClusterArgs, Goal, JudgementArgs, Output};
use crate::cli::planner::Planner;
use crate::cli::target;
use crate::cli::watch::Limits;
use crate::cli::watch::rollout::{Wish, watch};
use crate::text::span;

/// What `--help` adds.
pub(in crate::cli) const HELP: &str = "\
A poll that fails because the service, kubectl or the cluster does not answer is repeated. Five such polls in a row \
end the command, as does any other error.

Exit codes: 0 complete; 1 failed or stalled, or deleted while waiting; 2 wrong command line or input, or missing \
permission; 3 timeout expired, or no progress for ten minutes; 4 no answer from the service, kubectl or the cluster.";

#[derive(Args, Debug)]
pub(in crate::cli) struct WaitArgs {
    /// The Deployment, for example web or deploy/web; pdeploy/web for a PlannedDeployment
    #[arg(value_name = "NAME", value_parser = target::parse)]
    pub(in crate::cli) target: target::Target,
    #[command(flatten)]
    pub(in crate::cli) cluster: ClusterArgs,
    /// What to wait for
    #[arg(long = "for", value_enum, default_value_t)]
    pub(in crate::cli) goal: Goal,
    /// How long to wait, for example 10m or 90s; 0 polls once [default: until the rollout completes or fails]
    ///
    /// When the timeout expires, a kubectl that has not answered yet is stopped. Without a timeout, the command ends when
    /// the rollout is complete, when it certainly needs a change, when its progress deadline has passed, or, without a
    /// deadline, after ten minutes without progress.
    #[arg(long, value_name = "TIME", value_parser = span::parse)]
    pub(in crate::cli) timeout: Option<Duration>,
    /// Polling interval
    #[arg(long, value_name = "TIME", value_parser = span::parse, default_value = "2s")]
    pub(in crate::cli) interval: Duration,
    #[command(flatten)]
    pub(in crate::cli) judgement: JudgementArgs,
    /// Print the last lines of the container that blocks the rollout, if it does not complete
    #[arg(long)]
    pub(in crate::cli) logs: bool,
    #[command(flatten)]
    pub(in crate::cli) answer: AnswerArgs<Output>,
}

/// `rollplan wait`.
pub(in crate::cli) fn run(args: WaitArgs) -> Result<Exit, Error> {
    let WaitArgs {
        target,
        cluster,
        goal,
        timeout,
        interval,
        judgement,
        logs,
        answer: AnswerArgs { output, server },
    } = args;
    let wish = Wish {
        goal,
        limits: Limits { interval, timeout },
        judgement,
        logs,
    };
    watch(&Planner::new(server)?, &target, &cluster, output, wish)
}
