//! The command line, as clap reads it.

use clap::builder::styling::{Style, Styles};
use clap::{Parser, Subcommand};
use clap_complete::Shell;

use super::commands;
use super::serve::ServeArgs;

const ABOUT: &str = "Decides what the Kubernetes Deployment controller would do next";

const LONG_ABOUT: &str = "\
Decides what the Kubernetes Deployment controller would do next, and explains why.

rollplan reads Deployments, ReplicaSets and pods as kubectl prints them, and prints the exact API writes to make now \
and the status to publish. It does not make these writes itself, except for those of canaries. It reads files, or runs your kubectl to read the \
cluster: it needs no credentials of its own.";

const AFTER_HELP: &str = "\
Examples:
  rollplan status deploy/web -n prod
  rollplan wait deploy/web -n prod --for=complete --timeout 10m
  rollplan forecast web -n prod -f web.yaml
  rollplan canary start web -n prod --image app=web:2 --bake 2m --watch
  rollplan history web -n prod
  rollplan undo web -n prod --to-revision 3 -o kubectl
  kubectl get deploy,rs,pods -n prod -o json | rollplan plan -f -
  rollplan restarts -n prod
  rollplan uses configmap/app -n prod

Exit codes:
   0  done: the answer was printed; for status and wait, the rollout is complete
   1  the rollout needs a change, has stalled, or is being deleted; for undo, the undo target was not \
found; for forecast, the rollout would never complete
   2  invalid command line or input, including an unknown Deployment, a missing permission and a kind that the cluster \
does not serve
   3  the rollout is in progress or paused, or the timeout expired
   4  the service, kubectl or the cluster does not answer
   5  the object is not judged: rollplan has no rule for its kind
  70  rollplan itself failed: a bug, or the output could not be written

Colors are used only on a terminal, and never if NO_COLOR is set. If you install rollplan as kubectl-rollplan on the PATH, \
it is a kubectl plugin: kubectl rollplan status deploy/web. Set KUBECTL to use another kubectl.";

const HEADING: Style = Style::new().bold();

const STYLES: Styles = Styles::plain()
    .header(HEADING)
    .usage(HEADING)
    .error(HEADING);

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "rollplan", version, about = ABOUT, long_about = LONG_ABOUT, after_help = AFTER_HELP,
    styles = STYLES, max_term_width = 100
)]
pub(super) struct CommandLine {
    #[command(subcommand)]
    pub(super) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Print the next API writes of a Deployment
    ///
    /// Prints the writes in the order in which to make them, and the status of the Deployment after them.
    #[command(after_help = commands::plan::HELP)]
    Plan(commands::plan::PlanArgs),
    /// Print the status that the Deployment controller would publish
    ///
    /// The status is computed for the Deployment as it is now, without any other write.
    #[command(after_help = commands::status::HELP)]
    Status(commands::status::StatusArgs),
    /// Wait until a rollout completes or fails
    ///
    /// Prints a line for each change; with -o json or yaml, a message. Ends when the rollout completes or stalls, or when
    /// the timeout expires.
    #[command(after_help = commands::wait::HELP)]
    Wait(commands::wait::WaitArgs),
    /// Print what a change of a Deployment will do, before it is applied, or how its rollout continues
    ///
    /// Prints whether the change starts a rollout, its steps, how many pods exist and are available at the extremes, how
    /// long it takes, and whether it completes. Changes nothing: with a cluster, kubectl makes a dry run of the change.
    #[command(after_help = commands::forecast::HELP)]
    Forecast(commands::forecast::ForecastArgs),
    /// Release a new pod template to a few pods first, then promote or abort it
    ///
    /// Works for every Deployment with the strategy RollingUpdate: the Deployment controller of Kubernetes does the work,
    /// and this command only patches the Deployment, with your kubectl. docs/canary.md describes canaries.
    #[command(after_help = commands::canary::HELP)]
    Canary {
        #[command(subcommand)]
        command: commands::canary::CanaryCommand,
    },
    /// Print the revisions of a Deployment
    #[command(after_help = commands::history::HELP)]
    History(commands::history::HistoryArgs),
    /// Show how to roll back to an earlier revision
    ///
    /// Prints what kubectl rollout undo would do, without doing it: the change of the template, the fields
    /// that are not rolled back, and the API write.
    #[command(after_help = commands::undo::HELP)]
    Undo(commands::undo::UndoArgs),
    /// Print which workloads to restart because their configuration has changed
    ///
    /// Compares ConfigMaps and Secrets with the checksums in annotations of the workloads, which record what their pods were
    /// started with; docs/restarts.md describes these annotations. Values of ConfigMaps and Secrets are never printed.
    #[command(after_help = commands::restarts::HELP)]
    Restarts(commands::restarts::RestartsArgs),
    /// Print which workloads use a ConfigMap or Secret, and which of them a change restarts
    #[command(after_help = commands::restarts::USES_HELP)]
    Uses(commands::restarts::UsesArgs),
    /// Serve the same answers over gRPC and HTTP
    ///
    /// Runs until SIGTERM or SIGINT. Server reflection describes the service and its messages. Logs are written to
    /// standard error, one JSON object per line.
    Serve(ServeArgs),
    /// Print the completion script for a shell
    ///
    /// For bash, add this line to ~/.bashrc: source <(rollplan completions bash)
    Completions {
        /// The shell to print the script for
        shell: Shell,
    },
}
