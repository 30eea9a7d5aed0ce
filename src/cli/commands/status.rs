//! `rollplan status`.

use std::time::Duration;

use clap::Args;

use super::read::read;
use crate::cli::cluster::{Cluster, Needs};
use crate::cli::error::Error;
use crate::cli::exit::Exit;
use crate::cli::observe::{Asked, Status, add_cluster, observe, status_of};
use crate::cli::options::{AnswerArgs, Goal, InputArgs, JudgementArgs, Output};
use crate::cli::planner::Planner;
use crate::cli::watch::Limits;
use crate::cli::watch::rollout::{Wish, watch as watch_rollout};
use crate::cli::{input, output};
use crate::text::{self, span};

/// What `--help` adds.
pub(in crate::cli) const HELP: &str = "\
Exit codes: 0 complete; 1 failed, stalled or being deleted; 2 wrong command line or input, or missing permission; 3 in progress \
or paused, or timeout expired; 4 no answer from the service, kubectl or the cluster.";

#[derive(Args, Debug)]
pub(in crate::cli) struct StatusArgs {
    #[command(flatten)]
    pub(in crate::cli) input: InputArgs,
    /// Watch until the rollout is complete or stalled, and print a line whenever something changes
    #[arg(short, long, conflicts_with_all = ["files", "now"])]
    pub(in crate::cli) watch: bool,
    /// How long to watch, for example 10m [default: until the rollout ends]
    #[arg(long, value_name = "TIME", value_parser = span::parse, requires = "watch")]
    pub(in crate::cli) timeout: Option<Duration>,
    /// Polling interval
    #[arg(long, value_name = "TIME", value_parser = span::parse, default_value = "2s", requires = "watch")]
    pub(in crate::cli) interval: Duration,
    #[command(flatten)]
    pub(in crate::cli) judgement: JudgementArgs,
    #[command(flatten)]
    pub(in crate::cli) answer: AnswerArgs<Output>,
}

/// `rollplan status`.
pub(in crate::cli) fn run(args: StatusArgs) -> Result<Exit, Error> {
    let StatusArgs {
        input,
        watch,
        timeout,
        interval,
        judgement,
        answer: AnswerArgs { output, server },
    } = args;
    let planner = Planner::new(server)?;
    if let (true, Some(target)) = (watch, &input.source.target) {
        let wish = Wish {
            goal: Goal::Complete,
            limits: Limits { interval, timeout },
            judgement,
            logs: false,
        };
        return watch_rollout(&planner, target, &input.cluster, output, wish);
    }
    let Status {
        subject, response, ..
    } = match &input.source.target {
        Some(target) => {
            let mut cluster = Cluster::new(&input.cluster, target, Needs::Rollout);
            let request = cluster.read(None, input.now, input::Answers::default())?;
            let asked = Asked {
                fail_on: judgement.fail_on,
                previous: None,
            };
            let mut status = observe(&planner, &mut cluster, request, &asked, None)?;
            add_cluster(&mut status.response, &input.cluster);
            status
        }
        None => {
            let asked = Asked {
                fail_on: judgement.fail_on,
                previous: None,
            };
            status_of(&planner, &read(&input, Needs::Rollout, None)?, &asked)?
        }
    };
    output::print(output, &response, |page| {
        text::status(page, &subject, &response);
    })?;
    Ok(Exit::of(response.report.as_ref()))
}
