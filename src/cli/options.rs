//! Options that several commands have.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use prost_types::Timestamp;
use rollplan_text::{span, time};
use rollplan_wire::proto;

use super::fail_on;

/// Where the objects are read from: files, or a cluster through kubectl.
#[derive(Args, Debug)]
#[group(required = true, multiple = true)]
pub(super) struct SourceArgs {
    /// The Deployment to read with kubectl, for example web or deploy/web; pdeploy/web for a PlannedDeployment
    ///
    /// Runs kubectl get with your configuration, for the Deployment and then for the ReplicaSets and pods that its
    /// selector matches; plan reads all ReplicaSets of the namespace. If you lack the permission to list pods, the answer is
    /// computed without them, and a note is printed.
    ///
    /// With files, the Deployment of this name in the files.
    #[arg(value_name = "NAME", num_args = 1..=2)]
    pub(super) target: Vec<String>,
    /// File with Kubernetes objects, or - for standard input; may be repeated
    ///
    /// JSON or YAML, one or several documents, single objects or Lists of Deployments, PlannedDeployments, ReplicaSets
    /// and Pods. Anything else is skipped, with a note. Objects that do not belong to the Deployment are ignored,
    /// even if they are invalid.
    #[arg(short, long = "filename", value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
}

/// How directories of --filename are searched.
#[derive(Args, Clone, Copy, Debug, Default)]
#[group(skip)]
pub(super) struct SearchArgs {
    /// Also search the directories in the directories of --filename
    #[arg(short = 'R', long)]
    pub(super) recursive: bool,
}

/// Which objects a command is about: one or several, in a cluster or in files.
#[derive(Args, Debug)]
pub(super) struct ScopeArgs {
    #[command(flatten)]
    pub(super) which: WhichArgs,
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
}

/// What names the objects.
#[derive(Args, Debug)]
pub(super) struct WhichArgs {
    /// The objects to read with kubectl, for example web, deploy/web, sts/db or job/migrate; a name alone is a Deployment
    ///
    /// All kinds that the cluster serves are supported, with their names in kubectl: deploy, sts, ds, rs, job, cj, po, svc,
    /// pvc, crd, or, for example, certificates.cert-manager.io/web. Kinds that rollplan does not know are judged by the
    /// fields that many controllers share, or not at all (exit code 5). Kinds that it knows can also be separate arguments:
    /// sts db cache. With --selector, --all or --all-namespaces, give a list of kinds instead of names, for example
    /// deploy,sts.
    ///
    /// Runs kubectl get with your configuration, for each object and then for the ReplicaSets, ControllerRevisions and pods
    /// that its selector matches. Five or more objects of a kind in a namespace are read with one list. If you lack the
    /// permission to list pods, the answer is computed without them, and a note is printed.
    #[arg(value_name = "NAME")]
    pub(super) names: Vec<String>,
    /// Select Deployments, or objects of the given kinds, by their labels, for example app=web
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub(super) selector: Option<String>,
    /// Select all Deployments of the namespace, or all objects of the given kinds
    #[arg(long)]
    pub(super) all: bool,
    /// Select in all namespaces; all objects, or those that --selector matches
    #[arg(short = 'A', long)]
    pub(super) all_namespaces: bool,
    /// File or directory with Kubernetes objects, or - for standard input; may be repeated
    ///
    /// JSON or YAML, one or several documents, single objects or Lists. Of a directory, the files that end with .json, .yaml
    /// or .yml are read. What cannot be read is skipped with a note, and the exit code is 2. With names, status reports only
    /// on the objects with these names.
    #[arg(
        short,
        long = "filename",
        value_name = "FILE",
        conflicts_with_all = ["selector", "all", "all_namespaces"]
    )]
    pub(super) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) search: SearchArgs,
}

/// Which cluster and namespace kubectl reads.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub(super) struct ClusterArgs {
    /// The namespace of the objects
    #[arg(short, long)]
    pub(super) namespace: Option<String>,
    /// The kubeconfig context that kubectl uses
    #[arg(long)]
    pub(super) context: Option<String>,
    /// The kubeconfig file that kubectl uses
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<String>,
    /// Whether all namespaces are read.
    #[arg(skip)]
    pub(super) all_namespaces: bool,
}

/// What to read, and the time of the decision.
#[derive(Args, Debug)]
pub(super) struct InputArgs {
    #[command(flatten)]
    pub(super) source: SourceArgs,
    #[command(flatten)]
    pub(super) search: SearchArgs,
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
    /// The Deployment to use, if the files contain several
    #[arg(
        short,
        long,
        value_name = "[NAMESPACE/]NAME",
        conflicts_with = "target"
    )]
    pub(super) deployment: Option<String>,
    /// The time of the decision, for example 2026-11-20T23:26:19Z [default: now]
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    pub(super) now: Option<Timestamp>,
    #[command(flatten)]
    pub(super) complete: CompleteArgs,
}

/// Which lists of objects in files are complete.
#[derive(Args, Debug, Default)]
pub(super) struct CompleteArgs {
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
    )]
    pub(super) pods_complete: Option<bool>,
    /// Whether the input contains every ReplicaSet of the Deployment
    ///
    /// Nothing is planned from a list that may be incomplete: if an old ReplicaSet is missing, a plan could exceed maxSurge.
    /// Without this option, the list counts as complete if the numbers of pods of the ReplicaSets add up to the number in
    /// the status of the Deployment, and the ReplicaSet of its revision is included. What kubectl reads for a NAME is
    /// complete.
    #[arg(
        long,
        value_name = "true|false",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        hide_possible_values = true,
    )]
    pub(super) replica_sets_complete: Option<bool>,
}

/// Which planner to use, and how to print the answer.
#[derive(Args, Debug)]
pub(super) struct AnswerArgs<O: ValueEnum + Clone + Default + Send + Sync + 'static> {
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    pub(super) output: O,
    #[command(flatten)]
    pub(super) server: ServerArgs,
}

/// The service that answers, if any.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct ServerArgs {
    /// Use the rollplan service at this address, for example https://rollplan.example:50051 [default: plan locally]
    #[allow(rustdoc::bare_urls, reason = "this is the text of the help, too")]
    ///
    /// With https, the certificate must be from an authority of the system, or of --ca-file.
    #[arg(
        long = "server",
        value_name = "URL",
        env = "ROLLPLAN_SERVER",
        hide_env_values = true
    )]
    pub(super) url: Option<String>,
    /// File with the certificates (PEM) of the authorities that the service's certificate may be from
    #[arg(
        long,
        value_name = "FILE",
        env = "ROLLPLAN_CA_FILE",
        hide_env_values = true
    )]
    pub(super) ca_file: Option<PathBuf>,
    /// File with the certificate chain (PEM) to authenticate with, if the service requires one
    #[arg(
        long,
        value_name = "FILE",
        env = "ROLLPLAN_CLIENT_CERT_FILE",
        hide_env_values = true,
        requires = "client_key_file"
    )]
    pub(super) client_cert_file: Option<PathBuf>,
    /// File with the private key (PEM) of the client certificate
    #[arg(
        long,
        value_name = "FILE",
        env = "ROLLPLAN_CLIENT_KEY_FILE",
        hide_env_values = true,
        requires = "client_cert_file"
    )]
    pub(super) client_key_file: Option<PathBuf>,
}

/// When a rollout counts as failed.
#[derive(Args, Clone, Debug)]
pub(super) struct JudgementArgs {
    /// Whether to end as soon as the rollout certainly needs a change
    ///
    /// With off, the command waits for the progress deadline instead.
    #[arg(long, value_enum, default_value_t)]
    pub(super) fail_fast: Switch,
    /// Failures that end the command, with their limits, for example image-pull=30s,crash-loop=3,unschedulable=2m
    ///
    /// Each replaces the default limit of its class. The limit is a number of restarts for start-error, startup-probe and
    /// crash-loop, and a duration for image-name, image-pull, config, refused, unschedulable and not-ready.
    #[arg(
        long,
        value_name = "CLASS=LIMIT",
        value_delimiter = ',',
        value_parser = fail_on::parse
    )]
    pub(super) fail_on: Vec<proto::FailureRule>,
    /// Exit with 5 if an object that --selector, --all, --all-namespaces or --filename selects is not judged
    ///
    /// An object is not judged if rollplan has no rule for its status. Named objects always count.
    #[arg(long)]
    pub(super) require_judged: bool,
    /// How long to poll an object that is not judged: its controller may not have written a status yet
    #[arg(long, value_name = "DURATION", value_parser = span::parse, allow_hyphen_values = true, default_value = "30s")]
    pub(super) unjudged_after: Duration,
    /// How long an object that existed before may be missing: after that, it counts as deleted
    #[arg(long, value_name = "DURATION", value_parser = span::parse, allow_hyphen_values = true, default_value = "1m")]
    pub(super) deleted_after: Duration,
}

/// On or off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Switch {
    #[default]
    On,
    Off,
}

/// How to print an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Output {
    /// Human-readable text
    #[default]
    Table,
    /// The response message in the protobuf JSON format, on one line
    Json,
    /// The response message as YAML
    Yaml,
}

/// How to print the status of rollouts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum StatusOutput {
    /// Human-readable text
    #[default]
    Table,
    /// Text with more columns, and with the pods
    Wide,
    /// The names, as kubectl prints them; with wait, each name as soon as its condition is met
    Name,
    /// The response message in the protobuf JSON format, on one line
    Json,
    /// The response message as YAML
    Yaml,
}

/// How to print an answer that can be carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum ScriptOutput {
    /// Human-readable text
    #[default]
    Table,
    /// The response message in the protobuf JSON format, on one line
    Json,
    /// The response message as YAML
    Yaml,
    /// Shell commands that make the writes, with their preconditions
    Kubectl,
}

// === impl WhichArgs ===

impl WhichArgs {
    /// Whether the user named the objects, rather than where to find them.
    pub(super) fn are_named(&self) -> bool {
        !self.names.is_empty() && self.selector.is_none() && !self.all && !self.all_namespaces
    }
}

// === impl ClusterArgs ===

impl ClusterArgs {
    /// The options that the user gave, in kubectl's syntax.
    pub(super) fn options(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let Self {
            namespace,
            context,
            kubeconfig,
            all_namespaces,
        } = self;
        let everywhere = all_namespaces.then_some(("--all-namespaces", "true"));
        let given = [
            ("--context", context),
            ("--kubeconfig", kubeconfig),
            ("--namespace", namespace),
        ];
        given
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.as_deref()?)))
            .chain(everywhere)
    }
}

// === impl CompleteArgs ===

impl CompleteArgs {
    /// Refuses the options for objects that kubectl reads: their lists are complete.
    pub(super) fn refuse(&self) -> Result<(), String> {
        let given = [
            ("--pods-complete", self.pods_complete),
            ("--replica-sets-complete", self.replica_sets_complete),
        ];
        match given.iter().find(|(_, value)| value.is_some()) {
            None => Ok(()),
            Some((option, _)) => Err(format!(
                "{option} cannot be used without -f: what kubectl reads is complete"
            )),
        }
    }
}

// === impl StatusOutput ===

impl StatusOutput {
    /// Whether it is for people, not for programs.
    pub(super) fn is_text(self) -> bool {
        matches!(self, Self::Table | Self::Wide)
    }

    /// The format of response messages. `None` for text and names.
    pub(super) fn format(self) -> Option<Output> {
        match self {
            Self::Json => Some(Output::Json),
            Self::Yaml => Some(Output::Yaml),
            Self::Table | Self::Wide | Self::Name => None,
        }
    }
}

// === impl ScriptOutput ===

impl ScriptOutput {
    /// The format of a response message. `None` for commands.
    pub(super) fn plain(self) -> Option<Output> {
        match self {
            Self::Table => Some(Output::Table),
            Self::Json => Some(Output::Json),
            Self::Yaml => Some(Output::Yaml),
            Self::Kubectl => None,
        }
    }
}
