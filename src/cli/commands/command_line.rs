//! The command line, as clap reads it.

use clap::Parser;
use clap::builder::styling::{Style, Styles};

use super::Command;

const ABOUT: &str = "Decides what the Kubernetes Deployment controller would do next";

const LONG_ABOUT: &str = "\
Decides what the Kubernetes Deployment controller would do next, and explains why.

rollplan reads Deployments, ReplicaSets and pods as kubectl prints them, and prints the exact API writes to make now \
and the status to publish. It does not make these writes itself: only canary and wait --on-failure roll-back write. It \
reads files, or runs your kubectl to read the cluster: it needs no credentials of its own.";

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
found; for forecast, the rollout would never complete; for canary, it has failed or was aborted
   2  invalid command line or input, including an unknown Deployment, a missing permission and a kind that the cluster \
does not serve
   3  the rollout is in progress or paused, the canary is held, or the timeout expired
   4  the service, kubectl or the cluster does not answer
   5  the object is not judged: no rule covers its kind or its status
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
pub(in crate::cli) struct CommandLine {
    #[command(subcommand)]
    pub(in crate::cli) command: Command,
}
