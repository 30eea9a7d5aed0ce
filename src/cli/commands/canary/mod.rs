//! `rollplan canary`.

mod policy;
mod roll_back;
mod steering;

pub(super) use self::policy::OnRolloutFailure;
pub(super) use self::roll_back::RollBack;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use rollplan_canary::FIELD_MANAGER;
use rollplan_text::{printable, span};
use rollplan_wire::proto::{CanaryAction, CanaryCommand as Command, CanaryPolicy};

use self::policy::{CriteriaArgs, PolicyArgs, RolloutFailureArgs, VerdictArgs};
use self::steering::{Action, Change, Mode, Steering, Verdicts};
use super::template_change::{ApplyArgs, Manifests, TemplateArgs};
use crate::cli::error::Error;
use crate::cli::exit::Exit;
use crate::cli::input::Wanted;
use crate::cli::options::{AnswerArgs, ClusterArgs, Output, ScriptOutput, ServerArgs};
use crate::cli::planner::Planner;
use crate::cli::resource::Resource;
use crate::cli::target::{self, Target};
use crate::cli::{now, output, stderr};

/// Appended to `--help`.
pub(in crate::cli) const HELP: &str = "\
Examples:
  rollplan canary start deploy/web -n prod --image app=web:2 --bake 2m --watch && ./smoke-test
  rollplan canary start -f web.yaml -n prod --steps 1,10%,25% --bake 10m --watch
  rollplan canary promote deploy/web -n prod
  rollplan canary abort deploy/web -n prod
  rollplan canary guard | kubectl apply -f -

Exit codes: 0 the canary is good or promoted, or what the command asks for is complete; 1 the canary has failed or was aborted; 2 \
invalid command line or input, a refused command, or missing permission; 3 the canary is held, or something is still in progress; 4 no answer from the \
service, kubectl or the cluster.";

/// The admission policy.
const GUARD: &str = include_str!("../../../../helm/rollplan/files/canary-guard.yaml");

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum CanaryCommand {
    /// Start a canary: a few pods with a changed template, beside all pods of the current one
    ///
    /// Patches the Deployment with your kubectl. The Deployment controller of Kubernetes creates the pods within the surge,
    /// and removes none, until the canary is promoted or aborted. With --steps, the number of pods grows, as long as the
    /// command watches or is repeated. If this canary has been started already, the command continues it.
    #[command(after_help = HELP)]
    Start(StartArgs),
    /// Print the state of a canary, and what it waits for
    #[command(after_help = HELP)]
    Status(CanaryStatusArgs),
    /// Promote a canary: roll its template out within the limits of the Deployment, and wait until that is complete
    #[command(after_help = HELP)]
    Promote(PromoteArgs),
    /// Abort a canary or its promotion: restore the stable template, and wait until that is complete
    #[command(after_help = HELP)]
    Abort(AbortArgs),
    /// Start a canary with the template that was last rejected
    #[command(after_help = HELP)]
    Retry(RetryArgs),
    /// Restore the fields of the user, keep the template, and remove the state of the canary
    #[command(after_help = HELP)]
    Release(ReleaseArgs),
    /// Print the admission policy that protects canaries from other writers
    ///
    /// A ValidatingAdmissionPolicy with its binding, for Kubernetes 1.30 or later: apply it once for each cluster.
    Guard,
}

#[derive(Args, Debug)]
pub(in crate::cli) struct StartArgs {
    /// The Deployment, for example web or deploy/web [default: the one of --filename]
    #[arg(value_name = "NAME", num_args = 0..=2)]
    name: Vec<String>,
    #[command(flatten)]
    template: TemplateArgs,
    #[command(flatten)]
    apply: ApplyArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// The name of the pipeline that starts the canary, for example that of the workflow
    #[arg(long, value_name = "NAME")]
    pipeline: Option<String>,
    /// Replace the canary of an earlier run of the same pipeline
    ///
    /// If it is held with another template, it is aborted first, and the manifest is compared with the stable template. A
    /// promotion or an abort in progress ends first. A template that was rejected in an earlier run of the pipeline starts
    /// again.
    #[arg(long, requires = "pipeline")]
    replace: bool,
    /// Use only the template of the manifest: apply its other changes after the canary
    #[arg(long, conflicts_with = "images")]
    template_only: bool,
    #[command(flatten)]
    policy: PolicyArgs,
    #[command(flatten)]
    watch: WatchArgs,
    #[command(flatten)]
    write: WriteArgs<StartOutput>,
}

/// How to print a start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum StartOutput {
    /// Human-readable text
    #[default]
    Table,
    /// The response message in the protobuf JSON format, on one line
    Json,
    /// The response message as YAML
    Yaml,
    /// Shell commands that make the writes, with their preconditions
    Kubectl,
    /// At the end, the digest of the held template for --template, or nothing if no canary is held; text goes to standard
    /// error
    Digest,
}

#[derive(Args, Debug)]
pub(in crate::cli) struct CanaryStatusArgs {
    #[command(flatten)]
    which: NameArgs,
    #[command(flatten)]
    criteria: CriteriaArgs,
    #[command(flatten)]
    watch: WatchArgs,
    #[command(flatten)]
    answer: AnswerArgs<Output>,
}

#[derive(Args, Debug)]
pub(in crate::cli) struct PromoteArgs {
    #[command(flatten)]
    which: NameArgs,
    #[command(flatten)]
    tested: TestedArgs,
    /// File with the manifest, which is applied with kubectl apply after the promotion; may be repeated
    ///
    /// A canary with another template is refused. The manifest may have other changes than that of the template.
    #[arg(short, long = "filename", value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    apply: ApplyArgs,
    /// Promote the canary even if it is not good
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    verdicts: VerdictArgs,
    #[command(flatten)]
    rollout_failure: RolloutFailureArgs,
    #[command(flatten)]
    wait: CanaryWaitArgs,
    #[command(flatten)]
    write: WriteArgs,
}

#[derive(Args, Debug)]
pub(in crate::cli) struct AbortArgs {
    #[command(flatten)]
    which: NameArgs,
    #[command(flatten)]
    tested: TestedArgs,
    #[command(flatten)]
    wait: CanaryWaitArgs,
    #[command(flatten)]
    write: WriteArgs,
}

#[derive(Args, Debug)]
pub(in crate::cli) struct RetryArgs {
    #[command(flatten)]
    which: NameArgs,
    #[command(flatten)]
    policy: PolicyArgs,
    #[command(flatten)]
    watch: WatchArgs,
    #[command(flatten)]
    write: WriteArgs,
}

#[derive(Args, Debug)]
pub(in crate::cli) struct ReleaseArgs {
    #[command(flatten)]
    which: NameArgs,
    #[command(flatten)]
    write: WriteArgs,
}

/// The Deployment.
#[derive(Args, Debug)]
struct NameArgs {
    /// The Deployment, for example web or deploy/web
    #[arg(value_name = "NAME", num_args = 1..=2, required = true)]
    name: Vec<String>,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// The template that was tested.
#[derive(Args, Debug)]
struct TestedArgs {
    /// The digest of the template that was tested, from start -o digest: refuse a canary with another one [default: any]
    #[arg(long, value_name = "DIGEST")]
    template: Option<String>,
}

impl TestedArgs {
    /// The digest of the only template that the command is about. Empty: any. `start` prints an empty digest if it holds no
    /// canary, so a canary that is held later is another one.
    fn digest(self) -> String {
        match self.template {
            Some(digest) if digest.is_empty() => "none".to_owned(),
            digest => digest.unwrap_or_default(),
        }
    }
}

#[derive(Args, Debug)]
struct WatchArgs {
    /// Watch until the canary is good, promoted, failed or aborted, and print a line for each change
    ///
    /// Carries out what the options of this command decide. SIGINT (Ctrl-C) and SIGTERM leave the canary as it is.
    #[arg(short, long)]
    watch: bool,
    /// Polling interval
    #[arg(long, value_name = "DURATION", value_parser = span::parse, default_value = "2s", requires = "watch")]
    interval: Duration,
}

#[derive(Args, Debug)]
struct CanaryWaitArgs {
    /// Patch the Deployment, and do not wait: the same command continues later, and removes the state of the canary
    #[arg(long)]
    no_wait: bool,
    /// How long to wait: then, the rollout continues, and so does the same command later
    #[arg(long, value_name = "DURATION", value_parser = span::parse, default_value = "1h", conflicts_with = "no_wait")]
    timeout: Duration,
    /// Polling interval
    #[arg(long, value_name = "DURATION", value_parser = span::parse, default_value = "2s")]
    interval: Duration,
}

#[derive(Args, Debug)]
struct WriteArgs<O: ValueEnum + Clone + Default + Send + Sync + 'static = ScriptOutput> {
    /// Print the patch without making it; so does -o kubectl
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    answer: AnswerArgs<O>,
}

/// `rollplan canary`.
pub(in crate::cli) fn run(command: CanaryCommand) -> Result<Exit, Error> {
    match command {
        CanaryCommand::Start(args) => start(args),
        CanaryCommand::Status(args) => status(args),
        CanaryCommand::Promote(args) => promote(args),
        CanaryCommand::Abort(args) => abort(args),
        CanaryCommand::Retry(args) => retry(args),
        CanaryCommand::Release(args) => release(args),
        CanaryCommand::Guard => output::write(GUARD.as_bytes()).map(|()| Exit::Done),
    }
}

fn start(args: StartArgs) -> Result<Exit, Error> {
    let StartArgs {
        name,
        template,
        apply,
        mut cluster,
        pipeline,
        replace,
        template_only,
        policy,
        watch,
        write,
    } = args;
    let missing = "no Deployment selected: pass its name, or --filename <FILE>";
    let named = template.named(&name, missing)?;
    if let Some(target) = &named {
        refuse_other_kinds(target)?;
    }
    if template.files.is_empty() && template.images.is_empty() {
        let text = "no change of the template: pass --filename <FILE> or --image <CONTAINER=IMAGE>";
        return Err(Error::Usage(text.to_owned()));
    }
    if replace {
        refuse_standard_input(&template.files, "--replace")?;
    }
    let now = now::read();
    let WriteArgs { dry_run, answer } = write;
    let mut mode = watch.mode(dry_run, answer.output.plain())?;
    mode.is_digest = answer.output == StartOutput::Digest;
    let planner = Planner::new(answer.server)?;
    let applied = template.apply(&mut cluster, named.as_ref(), None, &apply)?;
    if let Some(dry_run) = &applied {
        note_changed_configurations(&dry_run.changed_configurations(&cluster)?);
    }
    let (deployment, target) = match (applied, named) {
        (Some(dry_run), _) => (dry_run.deployment, dry_run.target),
        (None, Some(target)) => (
            template.set_images(&cluster, &target, Some(FIELD_MANAGER))?,
            target,
        ),
        (None, None) => return Err(Error::Usage(missing.to_owned())),
    };
    refuse_other_kinds(&target)?;
    let (policy, verdicts) = policy.read(now);
    let command = Command {
        deployment,
        pipeline: pipeline.unwrap_or_default(),
        replace,
        template_only,
        ..steering::command(CanaryAction::Start)
    };
    let change = Change {
        template: &template,
        apply: &apply,
    };
    let action = Action::Start(command, change);
    Steering::new(&planner, &cluster, target, action, policy, verdicts, mode)?.run()
}

/// A canary that passes with old values says little about the new ones.
fn note_changed_configurations(names: &[String]) {
    if !names.is_empty() {
        let names = names.join(", ");
        stderr::eprint_note(format!(
            "pods of the canary have the old values of {names}, because the rest of the manifest is applied after the promotion: to \
             test new values, give the object a new name"
        ));
    }
}

fn status(args: CanaryStatusArgs) -> Result<Exit, Error> {
    let CanaryStatusArgs {
        which,
        criteria,
        watch,
        answer: AnswerArgs { output, server },
    } = args;
    let mut policy = steering::hold();
    let verdicts = criteria.verdicts(now::read());
    criteria.add_to(&mut policy);
    let mode = watch.mode(false, Some(output))?;
    steer(&which, server, Action::Status, policy, verdicts, mode)
}

fn promote(args: PromoteArgs) -> Result<Exit, Error> {
    let PromoteArgs {
        which,
        tested,
        files,
        apply,
        force,
        verdicts,
        rollout_failure,
        wait,
        write,
    } = args;
    refuse_standard_input(&files, "promote")?;
    let mut policy = steering::hold();
    rollout_failure.add_to(&mut policy);
    let mode = wait.mode(&write);
    let manifests = Manifests::new(&files, &apply)?;
    let target = which.target()?;
    let deployment = match &manifests {
        Some(manifests) => {
            let wanted = Wanted::in_files(target, None);
            let dry_run = manifests.dry_run(&which.cluster, Some(&wanted))?;
            dry_run.deployment
        }
        None => String::new(),
    };
    let command = Command {
        deployment,
        template_digest: tested.digest(),
        force,
        ..steering::command(CanaryAction::Promote)
    };
    let verdicts = verdicts.observed_at(now::read());
    let is_text = write.answer.output == ScriptOutput::Table;
    let (action, server) = (Action::Command(command), write.answer.server);
    let exit = steer(&which, server, action, policy, verdicts, mode)?;
    if exit != Exit::Done || !mode.is_watched {
        return Ok(exit);
    }
    match manifests {
        Some(manifests) => {
            let printed = manifests.apply(&which.cluster)?;
            let printed = printable(&String::from_utf8_lossy(&printed));
            if is_text {
                output::write(printed.as_bytes())?
            } else {
                stderr::eprint_note(printed.trim_end())
            }
        }
        None => stderr::eprint_note(
            "only the template is promoted; if it comes from a manifest, apply that now with kubectl apply",
        ),
    }
    Ok(exit)
}

fn abort(args: AbortArgs) -> Result<Exit, Error> {
    let AbortArgs {
        which,
        tested,
        wait,
        write,
    } = args;
    let mode = wait.mode(&write);
    let command = Command {
        template_digest: tested.digest(),
        ..steering::command(CanaryAction::Abort)
    };
    let (action, server) = (Action::Command(command), write.answer.server);
    let verdicts = Verdicts::default();
    steer(&which, server, action, steering::hold(), verdicts, mode)
}

/// Refuses standard input where manifests are read twice.
fn refuse_standard_input(files: &[PathBuf], what: &str) -> Result<(), Error> {
    if files.iter().any(|file| file.as_os_str() == "-") {
        Err(Error::Usage(format!(
            "{what} cannot be used with --filename -: the manifest is read twice"
        )))
    } else {
        Ok(())
    }
}

/// Carries out an action for a Deployment that was named.
fn steer(
    which: &NameArgs,
    server: ServerArgs,
    action: Action<'_>,
    policy: CanaryPolicy,
    verdicts: Verdicts,
    mode: Mode,
) -> Result<Exit, Error> {
    let planner = Planner::new(server)?;
    let (target, cluster) = (which.target()?, &which.cluster);
    Steering::new(&planner, cluster, target, action, policy, verdicts, mode)?.run()
}

fn retry(args: RetryArgs) -> Result<Exit, Error> {
    let RetryArgs {
        which,
        policy,
        watch,
        write,
    } = args;
    let (policy, verdicts) = policy.read(now::read());
    let mode = watch.mode(write.dry_run, write.answer.output.plain())?;
    let action = Action::Command(steering::command(CanaryAction::Retry));
    steer(&which, write.answer.server, action, policy, verdicts, mode)
}

fn release(args: ReleaseArgs) -> Result<Exit, Error> {
    let ReleaseArgs { which, write } = args;
    let mode = write.mode();
    let action = Action::Command(steering::command(CanaryAction::Release));
    let (server, verdicts) = (write.answer.server, Verdicts::default());
    steer(&which, server, action, steering::hold(), verdicts, mode)
}

/// Refuses custom resources early: kubectl cannot set their images.
fn refuse_other_kinds(target: &Target) -> Result<(), Error> {
    if target.resource == Resource::deployments() {
        Ok(())
    } else {
        Err(Error::Usage(format!(
            "{} {}: only Deployments have canaries",
            target.resource, target.name
        )))
    }
}

// === impl NameArgs ===

impl NameArgs {
    fn target(&self) -> Result<Target, Error> {
        let target = target::parse_deployment(&self.name).map_err(Error::Usage)?;
        // The arguments are required.
        let target = target.ok_or_else(|| Error::Usage("no Deployment selected".to_owned()))?;
        refuse_other_kinds(&target)?;
        Ok(target)
    }
}

// === impl StartOutput ===

impl StartOutput {
    /// The format of a response message. `None` for commands.
    fn plain(self) -> Option<Output> {
        match self {
            Self::Table | Self::Digest => Some(Output::Table),
            Self::Json => Some(Output::Json),
            Self::Yaml => Some(Output::Yaml),
            Self::Kubectl => None,
        }
    }
}

// === impl WatchArgs ===

impl WatchArgs {
    fn mode(&self, dry_run: bool, output: Option<Output>) -> Result<Mode, Error> {
        let mode = Mode::new(dry_run, output);
        if self.watch && !mode.writes {
            let text = "--watch cannot be used with --dry-run or -o kubectl";
            return Err(Error::Usage(text.to_owned()));
        }
        Ok(mode.polling(self.interval, self.watch))
    }
}

// === impl CanaryWaitArgs ===

impl CanaryWaitArgs {
    fn mode(&self, write: &WriteArgs) -> Mode {
        let mode = write.mode();
        mode.polling(self.interval, mode.writes && !self.no_wait)
            .within(self.timeout)
    }
}

// === impl WriteArgs ===

impl WriteArgs {
    fn mode(&self) -> Mode {
        Mode::new(self.dry_run, self.answer.output.plain())
    }
}
