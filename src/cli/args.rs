//! The command line, as clap reads it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::styling::{Style, Styles};
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use prost_types::Timestamp;

use super::now;
use crate::proto;
use crate::server;

const ABOUT: &str = "Decides what the Kubernetes Deployment controller would do next";

const LONG_ABOUT: &str = "\
Decides what the Kubernetes Deployment controller would do next, and says why.

rollplan reads Deployments, ReplicaSets and pods as kubectl prints them, and answers with the exact API writes \
to make now and the status to publish. It makes none of them, and talks to no cluster.";

const AFTER_HELP: &str = "\
Examples:
  kubectl get deploy,rs,pods -n shop -o json | rollplan plan -f -
  rollplan plan -f examples/mid-rollout.json --now 2026-11-20T23:26:19Z
  rollplan status -f snapshot.yaml --deployment shop/web -o json

Exit codes:
   0  done
   2  wrong command line or input
   4  the service asked with --server does not answer
  70  rollplan itself failed: a bug, or output that could not be written

Colour is used on a terminal only, and not at all when NO_COLOR is set.";

const HEADING: Style = Style::new().bold();

const STYLES: Styles = Styles::plain()
    .header(HEADING)
    .usage(HEADING)
    .error(HEADING);

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "rollplan", version, about = ABOUT, long_about = LONG_ABOUT, after_help = AFTER_HELP,
    styles = STYLES, max_term_width = 100, disable_help_subcommand = true
)]
pub(super) struct CommandLine {
    #[command(subcommand)]
    pub(super) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Print the next API writes of a Deployment
    ///
    /// They come in the order to make them, with the status that the Deployment has once they are made.
    Plan(PlanArgs),
    /// Print the status that the Deployment controller would publish
    ///
    /// It is that of the Deployment as it is, no other write being made.
    Status(StatusArgs),
    /// Answer the same questions over gRPC
    ///
    /// Runs until SIGTERM or SIGINT. Reflection describes service and messages; logs are lines of JSON on
    /// standard error.
    Serve(ServeArgs),
    /// Print a script that completes rollplan's command line in a shell
    ///
    /// For bash, put this into ~/.bashrc: source <(rollplan completions bash)
    Completions {
        /// The shell
        shell: Shell,
    },
}

#[derive(Args, Debug)]
pub(super) struct PlanArgs {
    #[command(flatten)]
    pub(super) input: InputArgs,
    /// How far to look ahead
    #[arg(long, value_enum, default_value_t)]
    pub(super) horizon: Horizon,
    /// What was refused when the last plan was carried out
    ///
    /// A JSON list of StepFailure messages, each with the refused call as the plan gave it.
    #[arg(long, value_name = "FILE")]
    pub(super) failures: Option<PathBuf>,
    #[command(flatten)]
    pub(super) answer: AnswerArgs,
}

#[derive(Args, Debug)]
pub(super) struct StatusArgs {
    #[command(flatten)]
    pub(super) input: InputArgs,
    #[command(flatten)]
    pub(super) answer: AnswerArgs,
}

/// Where the objects come from.
#[derive(Args, Debug)]
pub(super) struct InputArgs {
    /// File with Kubernetes objects, or - for standard input; may be repeated
    ///
    /// JSON or YAML, one or several documents, single objects or Lists of any kinds. What is no Deployment,
    /// ReplicaSet, Pod or PlannedDeployment is left out with a note.
    #[arg(short, long = "filename", value_name = "FILE", required = true)]
    pub(super) files: Vec<PathBuf>,
    /// The Deployment to decide for, when there are several
    #[arg(short, long, value_name = "[NAMESPACE/]NAME")]
    pub(super) deployment: Option<String>,
    /// The time of the decision, as 2026-11-20T23:26:19Z [default: the clock]
    #[arg(long, value_name = "TIME", value_parser = now::parse)]
    pub(super) now: Option<Timestamp>,
    /// Whether the input has every pod of the ReplicaSets
    ///
    /// With strategy Recreate, new pods start once the input shows that no old one is left. Without this
    /// option, a list of pods is taken to be complete unless a ReplicaSet of the Deployment counts more. If
    /// no pod is listed at all, every ReplicaSet of the namespace must count none, terminating ones included.
    #[arg(
        long,
        value_name = "true|false",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        hide_possible_values = true
    )]
    pub(super) pods_complete: Option<bool>,
}

/// Who answers, and how the answer is printed.
#[derive(Args, Debug)]
pub(super) struct AnswerArgs {
    /// How to print the answer
    ///
    /// JSON and YAML are the response message in protobuf's JSON form.
    #[arg(short, long, value_enum, default_value_t)]
    pub(super) output: Output,
    /// Ask the rollplan service at this address, as http://127.0.0.1:50051 [default: decide here]
    #[arg(
        long,
        value_name = "URL",
        env = "ROLLPLAN_SERVER",
        hide_env_values = true
    )]
    pub(super) server: Option<String>,
}

/// How to serve.
#[derive(Args, Debug)]
pub(super) struct ServeArgs {
    /// Where to listen; port 0 takes any free one
    ///
    /// Calls are neither encrypted nor authenticated: let other machines in on purpose, as with 0.0.0.0:50051
    /// in a container.
    #[arg(long, value_name = "ADDRESS:PORT", env = "ROLLPLAN_LISTEN", default_value_t = server::Config::default().listen)]
    listen: SocketAddr,
    /// How long running calls may take to end after the signal to stop
    #[arg(
        long,
        value_name = "SECONDS",
        env = "ROLLPLAN_DRAIN_GRACE_SECONDS",
        default_value_t = server::Config::default().drain_grace.as_secs()
    )]
    drain_grace_seconds: u64,
}

/// How to print an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Output {
    /// For people
    #[default]
    Table,
    /// Protobuf JSON, on one line
    Json,
    /// The same, as YAML
    Yaml,
}

/// How far a plan looks.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(super) enum Horizon {
    /// Everything that can be done before the cluster itself must move
    #[default]
    Settled,
    /// Exactly one sync of the Kubernetes Deployment controller
    Pass,
}

// === impl ServeArgs ===

impl From<ServeArgs> for server::Config {
    fn from(args: ServeArgs) -> Self {
        let ServeArgs {
            listen,
            drain_grace_seconds,
        } = args;
        Self {
            listen,
            drain_grace: Duration::from_secs(drain_grace_seconds),
        }
    }
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
