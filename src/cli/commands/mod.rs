//! The commands, with their options and their help.

pub(super) mod canary;
mod command_line;
pub(super) mod complete;
pub(super) mod forecast;
pub(super) mod history;
pub(super) mod plan;
mod read;
mod restart_changes;
mod restart_consequences;
mod restart_entries;
mod restart_objects;
mod restart_reasons;
mod restart_refusals;
mod restart_uses;
pub(super) mod restarts;
pub(super) mod status;
mod template_change;
pub(super) mod undo;
pub(super) mod wait;

pub(super) use self::command_line::CommandLine;

use clap::{CommandFactory as _, Subcommand};
use clap_complete::Shell;
use rollplan_server as server;

use super::error::Error;
use super::exit::Exit;
use super::page::{HINT, PAGE};
use super::serve::ServeArgs;
use super::{output, stderr};

/// The commands.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Print the next API writes of a Deployment
    ///
    /// Prints the writes in the order in which to make them, and the status of the Deployment after them.
    #[command(after_help = plan::HELP)]
    Plan(plan::PlanArgs),
    /// Print where a rollout stands, and what blocks it
    ///
    /// For a Deployment, -o json also has the status that the Deployment controller would publish now.
    #[command(after_help = status::HELP)]
    Status(status::StatusArgs),
    /// Wait until a rollout completes or fails
    ///
    /// Prints a line for each change; with -o json or yaml, a message. Ends when the rollout completes or stalls, or when
    /// the timeout expires.
    #[command(after_help = wait::HELP)]
    Wait(wait::WaitArgs),
    /// Print what a change of a Deployment will do, before it is applied, or how its rollout continues
    ///
    /// Prints whether the change starts a rollout, its steps, how many pods exist and are available at the extremes, how
    /// long it takes, and whether it completes. Changes nothing: with a cluster, kubectl makes a dry run of the change.
    #[command(after_help = forecast::HELP)]
    Forecast(forecast::ForecastArgs),
    /// Release a new pod template to a few pods first, then promote or abort it
    ///
    /// Works for every Deployment with the strategy RollingUpdate: the Deployment controller of Kubernetes does the work,
    /// and this command only patches the Deployment, with your kubectl. docs/guides/canary.md describes canaries.
    #[command(after_help = canary::HELP)]
    Canary {
        #[command(subcommand)]
        command: canary::CanaryCommand,
    },
    /// Print the revisions of a Deployment
    #[command(after_help = history::HELP)]
    History(history::HistoryArgs),
    /// Show how to roll back to an earlier revision
    ///
    /// Prints what kubectl rollout undo would do, without doing it: the change of the template, the fields
    /// that are not rolled back, and the API write.
    #[command(after_help = undo::HELP)]
    Undo(undo::UndoArgs),
    /// Print which workloads to restart because their configuration has changed
    ///
    /// Compares ConfigMaps and Secrets with the checksums in annotations of the workloads, which record what their pods were
    /// started with; docs/guides/restarts.md describes these annotations. Values of ConfigMaps and Secrets are never printed.
    #[command(after_help = restarts::HELP)]
    Restarts(restarts::RestartsArgs),
    /// Print which workloads use a ConfigMap or Secret, and which of them a change restarts
    #[command(after_help = restarts::USES_HELP)]
    Uses(restarts::UsesArgs),
    /// Serve the same answers over gRPC and HTTP
    ///
    /// Runs until SIGTERM or SIGINT. Server reflection describes the service and its messages. Logs are written to
    /// standard error, one JSON object per line.
    Serve(ServeArgs),
    /// Print the page that shows rollouts in a browser, without a network
    ///
    /// Write it to a file, and open that: rollplan page > rollplan.html. `rollplan serve` serves it at /.
    Page,
    /// Print the completion script for a shell
    ///
    /// For bash, add this line to ~/.bashrc: source <(rollplan completions bash)
    Completions {
        /// The shell to print the script for
        shell: Shell,
    },
}

// === impl Command ===

impl Command {
    pub(super) fn run(self) -> Result<Exit, Error> {
        match self {
            Self::Plan(args) => plan::run(args),
            Self::Status(args) => status::run(args),
            Self::Wait(args) => wait::run(args),
            Self::Forecast(args) => forecast::run(args),
            Self::Canary { command } => canary::run(command),
            Self::History(args) => history::run(args),
            Self::Undo(args) => undo::run(args),
            Self::Restarts(args) => restarts::run(args),
            Self::Uses(args) => restarts::uses(args),
            Self::Serve(args) => serve(args),
            Self::Page => page(),
            Self::Completions { shell } => completions(shell),
        }
    }
}

fn serve(args: ServeArgs) -> Result<Exit, Error> {
    server::run(args.config()?)?;
    Ok(Exit::Done)
}

fn page() -> Result<Exit, Error> {
    let page = PAGE.ok_or_else(|| Error::Usage(HINT.to_owned()))?;
    output::write(page.as_bytes())?;
    Ok(Exit::Done)
}

fn completions(shell: Shell) -> Result<Exit, Error> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut CommandLine::command(), "rollplan", &mut script);
    output::write(&script)?;
    Ok(Exit::Done)
}

/// Prints commands to standard output, and the notes on them to standard error.
fn print_commands(commands: &output::script::Commands) -> Result<(), Error> {
    for warning in &commands.warnings {
        stderr::eprint_warning(warning);
    }
    output::write(commands.text.as_bytes())
}
