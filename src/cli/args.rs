//! The command line, as clap reads it.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::styling::{Style, Styles};
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use prost_types::Timestamp;

use super::serve::ServeArgs;
use super::{kubectl, now, span};
use crate::proto;

const ABOUT: &str = "Decides what the Kubernetes Deployment controller would do next";

const LONG_ABOUT: &str = "\
Decides what the Kubernetes Deployment controller would do next, and says why.

rollplan reads Deployments, ReplicaSets and pods as kubectl prints them, and answers with the exact API writes \
to make now and the status to publish. It makes none of them. It reads files, or has your kubectl read the \
cluster: it needs no credentials of its own.";

const AFTER_HELP: &str = "\
Examples:
  rollplan status deploy/web -n prod
  rollplan wait deploy/web -n prod --for=complete --timeout 10m
  rollplan history web -n prod
  rollplan undo web -n prod --to-revision 3 -o kubectl
  kubectl get deploy,rs,pods -n prod -o json | rollplan plan -f -

Exit codes:
   0  done: the answer was printed; for status and wait, the rollout is complete
   1  failed or stalled: the rollout has, or there is no way back for undo
   2  wrong command line or input, an unknown Deployment among it
   3  still going: the rollout is on its way, paused or being deleted, or the time to wait is over
   4  the service or kubectl does not answer
  70  rollplan itself failed: a bug, or output that could not be written

Colour is used on a terminal only, and not at all when NO_COLOR is set. A program named kubectl-rollplan on the \
PATH is a plugin of kubectl: kubectl rollplan status deploy/web. KUBECTL names another kubectl than that on the \
PATH.";

const STATUS_HELP: &str = "\
Exit codes: 0 complete; 1 failed or stalled; 2 wrong command line or input; 3 still going, paused or being \
deleted; 4 the service or kubectl does not answer.";

const WAIT_HELP: &str = "\
Exit codes: 0 complete; 1 failed or stalled, or deleted meanwhile; 2 wrong command line or input; 3 still going \
when the time was over; 4 the service or kubectl does not answer.";

const PLAN_HELP: &str = "\
Exit codes: 0 the plan was printed, whatever it says; 2 wrong command line or input; 4 the service or kubectl \
does not answer.";

const HISTORY_HELP: &str = "\
Exit codes: 0 the revisions were printed; 2 wrong command line or input; 4 the service or kubectl does not \
answer.";

const UNDO_HELP: &str = "\
Exit codes: 0 the way back was printed, or there is nothing to undo; 1 there is no way back: the Deployment is \
paused, or has no such revision; 2 wrong command line or input; 4 the service or kubectl does not answer.";

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
    #[command(after_help = PLAN_HELP)]
    Plan(PlanArgs),
    /// Print the status that the Deployment controller would publish
    ///
    /// It is that of the Deployment as it is, no other write being made.
    #[command(after_help = STATUS_HELP)]
    Status(StatusArgs),
    /// Wait until a rollout is complete, or will not be
    ///
    /// Prints a line whenever something changes; with -o json or yaml, a message each time. Ends when the rollout is complete or stalled, or the time is over.
    #[command(after_help = WAIT_HELP)]
    Wait(WaitArgs),
    /// Print the revisions of a Deployment
    #[command(after_help = HISTORY_HELP)]
    History(HistoryArgs),
    /// Print the way back to an earlier revision
    ///
    /// Does what kubectl rollout undo would do, but only prints it: the change of the template, what does not
    /// come back with it, and the API write.
    #[command(after_help = UNDO_HELP)]
    Undo(UndoArgs),
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
    /// The plan is to be carried out, Kubernetes' own controller being off (for -o kubectl)
    ///
    /// While the Deployment controller of Kubernetes acts on a Deployment, writes of a second one fight it.
    #[arg(long)]
    pub(super) takeover: bool,
    #[command(flatten)]
    pub(super) answer: AnswerArgs<ScriptOutput>,
}

#[derive(Args, Debug)]
pub(super) struct StatusArgs {
    #[command(flatten)]
    pub(super) input: InputArgs,
    /// Go on until the rollout is complete or stalled, and print a line whenever something changes
    #[arg(short, long, conflicts_with_all = ["files", "now"])]
    pub(super) watch: bool,
    /// How long to watch, as 10m [default: until it ends]
    #[arg(long, value_name = "TIME", value_parser = span::parse, requires = "watch")]
    pub(super) timeout: Option<Duration>,
    /// How long to wait between two looks
    #[arg(long, value_name = "TIME", value_parser = span::parse, default_value = "2s", requires = "watch")]
    pub(super) interval: Duration,
    #[command(flatten)]
    pub(super) answer: AnswerArgs<Output>,
}

#[derive(Args, Debug)]
pub(super) struct WaitArgs {
    /// The Deployment, as web, deploy/web or pdeploy/web
    #[arg(value_name = "NAME", value_parser = kubectl::parse_name)]
    pub(super) target: kubectl::Name,
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
    /// What to wait for
    #[arg(long = "for", value_enum, default_value_t)]
    pub(super) goal: Goal,
    /// How long to wait, as 10m or 90s; 0 looks once
    #[arg(long, value_name = "TIME", value_parser = span::parse, default_value = "10m")]
    pub(super) timeout: Duration,
    /// How long to wait between two looks
    #[arg(long, value_name = "TIME", value_parser = span::parse, default_value = "2s")]
    pub(super) interval: Duration,
    #[command(flatten)]
    pub(super) answer: AnswerArgs<Output>,
}

#[derive(Args, Debug)]
pub(super) struct HistoryArgs {
    #[command(flatten)]
    pub(super) input: InputArgs,
    #[command(flatten)]
    pub(super) answer: AnswerArgs<Output>,
}

#[derive(Args, Debug)]
pub(super) struct UndoArgs {
    #[command(flatten)]
    pub(super) input: InputArgs,
    /// The revision to go back to; 0 is the one before the current
    #[arg(long, value_name = "REVISION", default_value_t = 0, value_parser = clap::value_parser!(i64).range(0..))]
    pub(super) to_revision: i64,
    #[command(flatten)]
    pub(super) answer: AnswerArgs<ScriptOutput>,
}

/// Where the objects come from: files, or the cluster that kubectl reads.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub(super) struct SourceArgs {
    /// The Deployment to have kubectl read, as web or deploy/web; pdeploy/web for a PlannedDeployment
    ///
    /// Runs kubectl get deploy,rs,pods -o json with your configuration.
    #[arg(value_name = "NAME", value_parser = kubectl::parse_name)]
    pub(super) target: Option<kubectl::Name>,
    /// File with Kubernetes objects, or - for standard input; may be repeated
    ///
    /// JSON or YAML, one or several documents, single objects or Lists of any kinds. What is no Deployment,
    /// ReplicaSet, Pod or PlannedDeployment is left out with a note.
    #[arg(short, long = "filename", value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
}

/// Which cluster kubectl reads, and what of it.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub(super) struct ClusterArgs {
    /// The namespace of the Deployment (for kubectl)
    #[arg(short, long)]
    pub(super) namespace: Option<String>,
    /// The context of the kubeconfig to use (for kubectl)
    #[arg(long)]
    pub(super) context: Option<String>,
    /// The kubeconfig to use (for kubectl)
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<String>,
}

/// What is looked at, and when.
#[derive(Args, Debug)]
pub(super) struct InputArgs {
    #[command(flatten)]
    pub(super) source: SourceArgs,
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
    /// The Deployment to decide for, when the files have several
    #[arg(
        short,
        long,
        value_name = "[NAMESPACE/]NAME",
        conflicts_with = "target"
    )]
    pub(super) deployment: Option<String>,
    /// The time of the decision, as 2026-11-20T23:26:19Z [default: the clock]
    #[arg(long, value_name = "TIME", value_parser = now::parse)]
    pub(super) now: Option<Timestamp>,
    /// Whether the input has every pod of the ReplicaSets
    ///
    /// With strategy Recreate, new pods start once the input shows that no old one is left. Without this
    /// option, a list of pods is taken to be complete unless a ReplicaSet of the Deployment counts more. If
    /// no pod is listed at all, every ReplicaSet of the namespace must count none, terminating ones included.
    /// What kubectl reads for a NAME is complete.
    #[arg(
        long,
        value_name = "true|false",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        hide_possible_values = true,
        conflicts_with = "target"
    )]
    pub(super) pods_complete: Option<bool>,
}

/// Who answers, and how the answer is printed.
#[derive(Args, Debug)]
pub(super) struct AnswerArgs<O: ValueEnum + Clone + Default + Send + Sync + 'static> {
    /// How to print the answer
    ///
    /// JSON and YAML are the response message in protobuf's JSON form.
    #[arg(short, long, value_enum, default_value_t)]
    pub(super) output: O,
    /// Ask the rollplan service at this address, as http://127.0.0.1:50051 [default: decide here]
    #[arg(
        long,
        value_name = "URL",
        env = "ROLLPLAN_SERVER",
        hide_env_values = true
    )]
    pub(super) server: Option<String>,
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

/// How to print an answer that can be carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum ScriptOutput {
    /// For people
    #[default]
    Table,
    /// Protobuf JSON, on one line
    Json,
    /// The same, as YAML
    Yaml,
    /// Commands to paste into a shell, with the preconditions
    Kubectl,
}

/// What to wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Goal {
    /// All wanted pods are updated and available, and no old one is left
    #[default]
    Complete,
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

// === impl ClusterArgs ===

impl ClusterArgs {
    /// What of it is given, as options of kubectl.
    pub(super) fn options(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let Self {
            namespace,
            context,
            kubeconfig,
        } = self;
        let given = [
            ("--context", context),
            ("--kubeconfig", kubeconfig),
            ("--namespace", namespace),
        ];
        given
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.as_deref()?)))
    }
}

// === impl ScriptOutput ===

impl ScriptOutput {
    /// The same where nothing but the answer itself is printed. `None` for commands.
    pub(super) fn plain(self) -> Option<Output> {
        match self {
            Self::Table => Some(Output::Table),
            Self::Json => Some(Output::Json),
            Self::Yaml => Some(Output::Yaml),
            Self::Kubectl => None,
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
