//! The command line, as clap reads it.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::styling::{Style, Styles};
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use prost_types::Timestamp;

use super::serve::ServeArgs;
use super::{fail_on, now, target};
use crate::proto;
use crate::text::span;

const ABOUT: &str = "Decides what the Kubernetes Deployment controller would do next";

const LONG_ABOUT: &str = "\
Decides what the Kubernetes Deployment controller would do next, and explains why.

rollplan reads Deployments, ReplicaSets and pods as kubectl prints them, and prints the exact API writes to make now \
and the status to publish. It makes none of these writes itself. It reads files, or runs your kubectl to read the \
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
   1  the rollout needs a change, stalled, or is being deleted; for undo, undo target not found
   2  wrong command line or input, including an unknown Deployment, a missing permission and a kind that the cluster \
does not serve
   3  the rollout is in progress or paused, or the timeout expired
   4  the service, kubectl or the cluster does not answer
  70  rollplan itself failed: a bug, or the output could not be written

Colors are used on a terminal only, and not if NO_COLOR is set. A program named kubectl-rollplan on the PATH is a \
plugin of kubectl: kubectl rollplan status deploy/web. Set KUBECTL to use another kubectl.";

const STATUS_HELP: &str = "\
Exit codes: 0 complete; 1 failed, stalled or being deleted; 2 wrong command line or input, or missing permission; 3 in progress \
or paused, or timeout expired; 4 no answer from the service, kubectl or the cluster.";

const WAIT_HELP: &str = "\
A poll that fails because the service, kubectl or the cluster does not answer is repeated. Five such polls in a row \
end the command, as does any other error.

Exit codes: 0 complete; 1 failed or stalled, or deleted while waiting; 2 wrong command line or input, or missing \
permission; 3 timeout expired, or no progress for ten minutes; 4 no answer from the service, kubectl or the cluster.";

const PLAN_HELP: &str = "\
Exit codes: 0 the plan was printed, even if nothing is to be done; 2 wrong command line or input, or missing \
permission; 4 no answer from the service, kubectl or the cluster.";

const HISTORY_HELP: &str = "\
Exit codes: 0 the revisions were printed; 2 wrong command line or input, or missing permission; 4 no answer from the \
service, kubectl or the cluster.";

const UNDO_HELP: &str = "\
Exit codes: 0 the rollback was printed, or there is nothing to undo; 1 undo target not found: the Deployment has no \
such revision, or it is paused; 2 wrong command line or input, or missing permission; 4 no answer from the service, \
kubectl or the cluster.";

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

/// The commands.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Print the next API writes of a Deployment
    ///
    /// Prints the writes in the order in which to make them, and the status of the Deployment after them.
    #[command(after_help = PLAN_HELP)]
    Plan(PlanArgs),
    /// Print the status that the Deployment controller would publish
    ///
    /// The status is computed for the Deployment as it is now, without any other write.
    #[command(after_help = STATUS_HELP)]
    Status(StatusArgs),
    /// Wait until a rollout completes or fails
    ///
    /// Prints a line whenever something changes; with -o json or yaml, a message. Ends when the rollout is complete or stalled, or when the timeout expires.
    #[command(after_help = WAIT_HELP)]
    Wait(WaitArgs),
    /// Print the revisions of a Deployment
    #[command(after_help = HISTORY_HELP)]
    History(HistoryArgs),
    /// Show how to roll back to an earlier revision
    ///
    /// Prints what kubectl rollout undo would do, without doing it: the change of the template, what is not rolled
    /// back with it, and the API write.
    #[command(after_help = UNDO_HELP)]
    Undo(UndoArgs),
    /// Serve the same answers over gRPC
    ///
    /// Runs until SIGTERM or SIGINT. Server reflection describes the service and its messages. Logs are written to
    /// standard error, one JSON object per line.
    Serve(ServeArgs),
    /// Print a script that completes rollplan's command line in a shell
    ///
    /// For bash, add this line to ~/.bashrc: source <(rollplan completions bash)
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
    /// What the API server answered to the calls of the last plan that failed
    ///
    /// A JSON list of StepAnswer messages, each with the call exactly as it was planned. The body of an answer is in base64.
    #[arg(long, value_name = "FILE")]
    pub(super) answers: Option<PathBuf>,
    /// Confirm that Kubernetes' own controller does not manage this Deployment (for -o kubectl)
    ///
    /// If it does, both controllers would overwrite each other.
    #[arg(long)]
    pub(super) takeover: bool,
    #[command(flatten)]
    pub(super) answer: AnswerArgs<ScriptOutput>,
}

#[derive(Args, Debug)]
pub(super) struct StatusArgs {
    #[command(flatten)]
    pub(super) input: InputArgs,
    /// Watch until the rollout is complete or stalled, and print a line whenever something changes
    #[arg(short, long, conflicts_with_all = ["files", "now"])]
    pub(super) watch: bool,
    /// How long to watch, for example 10m [default: until the rollout ends]
    #[arg(long, value_name = "TIME", value_parser = span::parse, requires = "watch")]
    pub(super) timeout: Option<Duration>,
    /// Polling interval
    #[arg(long, value_name = "TIME", value_parser = span::parse, default_value = "2s", requires = "watch")]
    pub(super) interval: Duration,
    #[command(flatten)]
    pub(super) judgement: JudgementArgs,
    #[command(flatten)]
    pub(super) answer: AnswerArgs<Output>,
}

#[derive(Args, Debug)]
pub(super) struct WaitArgs {
    /// The Deployment, for example web or deploy/web; pdeploy/web for a PlannedDeployment
    #[arg(value_name = "NAME", value_parser = target::parse)]
    pub(super) target: target::Target,
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
    /// What to wait for
    #[arg(long = "for", value_enum, default_value_t)]
    pub(super) goal: Goal,
    /// How long to wait, for example 10m or 90s; 0 polls once [default: until the rollout completes or fails]
    ///
    /// When the timeout expires, a kubectl that has not answered yet is stopped. Without a timeout, the command ends when
    /// the rollout is complete, when it certainly needs a change, when its progress deadline has passed, or, without a
    /// deadline, after ten minutes without progress.
    #[arg(long, value_name = "TIME", value_parser = span::parse)]
    pub(super) timeout: Option<Duration>,
    /// Polling interval
    #[arg(long, value_name = "TIME", value_parser = span::parse, default_value = "2s")]
    pub(super) interval: Duration,
    #[command(flatten)]
    pub(super) judgement: JudgementArgs,
    /// Print the last lines of the container that blocks the rollout, if it does not complete
    #[arg(long)]
    pub(super) logs: bool,
    #[command(flatten)]
    pub(super) answer: AnswerArgs<Output>,
}

/// When a rollout counts as failed.
#[derive(Args, Clone, Debug)]
pub(super) struct JudgementArgs {
    /// Whether to end as soon as the rollout certainly needs a change
    ///
    /// With off, the command waits for the progress deadline instead.
    #[arg(long, value_enum, default_value_t)]
    pub(super) fail_fast: Switch,
    /// Failures to end for, with their limits, for example image-pull=30s,crash-loop=3,unschedulable=2m
    ///
    /// Each replaces the default of its class. Restarts for start-error, startup-probe and crash-loop; otherwise a time:
    /// image-name, image-pull, config, refused, unschedulable, not-ready.
    #[arg(
        long,
        value_name = "CLASS=LIMIT",
        value_delimiter = ',',
        value_parser = fail_on::parse
    )]
    pub(super) fail_on: Vec<proto::FailureRule>,
}

/// On or off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Switch {
    #[default]
    On,
    Off,
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
    /// The revision to roll back to; 0 is the one before the current
    #[arg(long, value_name = "REVISION", default_value_t = 0, value_parser = clap::value_parser!(i64).range(0..))]
    pub(super) to_revision: i64,
    #[command(flatten)]
    pub(super) answer: AnswerArgs<ScriptOutput>,
}

/// Where the objects are read from: files, or a cluster through kubectl.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub(super) struct SourceArgs {
    /// The Deployment to read with kubectl, for example web or deploy/web; pdeploy/web for a PlannedDeployment
    ///
    /// Runs kubectl get with your configuration, for the Deployment and then for the ReplicaSets and pods that its
    /// selector matches. The command plan reads all ReplicaSets of the namespace. Without permission to list pods, the
    /// answer does without them, with a note.
    #[arg(value_name = "NAME", value_parser = target::parse)]
    pub(super) target: Option<target::Target>,
    /// File with Kubernetes objects, or - for standard input; may be repeated
    ///
    /// JSON or YAML, one or several documents, single objects or Lists of Deployments, PlannedDeployments, ReplicaSets
    /// and Pods. Anything else is skipped, with a note. Of these, the objects of the Deployment are selected first;
    /// others are ignored, even if they are invalid.
    #[arg(short, long = "filename", value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
}

/// Which cluster and namespace kubectl reads.
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

/// What to read, and the time of the decision.
#[derive(Args, Debug)]
pub(super) struct InputArgs {
    #[command(flatten)]
    pub(super) source: SourceArgs,
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
    /// The Deployment to plan for, if the files contain several
    #[arg(
        short,
        long,
        value_name = "[NAMESPACE/]NAME",
        conflicts_with = "target"
    )]
    pub(super) deployment: Option<String>,
    /// The time of the decision, for example 2026-11-20T23:26:19Z [default: now]
    #[arg(long, value_name = "TIME", value_parser = now::parse)]
    pub(super) now: Option<Timestamp>,
    /// Whether the input contains every pod of the ReplicaSets
    ///
    /// With strategy Recreate, new pods are created once the input shows that no old pod is left. Without this option,
    /// a list of pods counts as complete unless a ReplicaSet of the Deployment has more pods. If the input has no pod
    /// at all, it counts as complete if no ReplicaSet of the namespace has pods, including terminating ones. What
    /// kubectl reads for a NAME is complete.
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
    /// Whether the input contains every ReplicaSet of the Deployment
    ///
    /// Nothing is planned from a list that may be incomplete: with an old ReplicaSet missing, the new one would exceed the
    /// surge. Without this option, the list counts as complete if the pods that the Deployment's ReplicaSets report
    /// add up to those that the Deployment reports, and the ReplicaSet of its revision is among them. What kubectl reads for a NAME is
    /// complete.
    #[arg(
        long,
        value_name = "true|false",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        hide_possible_values = true,
        conflicts_with = "target"
    )]
    pub(super) replica_sets_complete: Option<bool>,
}

/// Which planner to use, and how to print the answer.
#[derive(Args, Debug)]
pub(super) struct AnswerArgs<O: ValueEnum + Clone + Default + Send + Sync + 'static> {
    /// How to print the answer
    ///
    /// JSON and YAML are the response message in protobuf's JSON form.
    #[arg(short, long, value_enum, default_value_t)]
    pub(super) output: O,
    /// Use the rollplan service at this address, for example http://127.0.0.1:50051 [default: plan locally]
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
    /// Human-readable text
    #[default]
    Table,
    /// Protobuf JSON on one line
    Json,
    /// The same as YAML
    Yaml,
}

/// How to print an answer that can be carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum ScriptOutput {
    /// Human-readable text
    #[default]
    Table,
    /// Protobuf JSON on one line
    Json,
    /// The same as YAML
    Yaml,
    /// Commands to paste into a shell, with the preconditions
    Kubectl,
}

/// What to wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Goal {
    /// All pods are updated and available, and no old pod is left
    #[default]
    Complete,
    /// As many pods as desired are available, of whatever template
    Available,
    /// As many pods as desired have the current template, available or not
    Updated,
    /// The Deployment is deleted
    Deleted,
}

/// How far a plan looks.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(super) enum Horizon {
    /// Every write that can be made before the state of the cluster must change
    #[default]
    Settled,
    /// Exactly one sync of the Kubernetes Deployment controller
    Pass,
}

// === impl ClusterArgs ===

impl ClusterArgs {
    /// The given ones, as options of kubectl.
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
    /// The same for an answer that is printed as it is. `None` for commands.
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
