//! Canary releases of Deployments, carried out by patching the Deployment while the Deployment controller of Kubernetes does
//! the work, and automatic rollback.
//!
//! A patch writes the new template together with fields with which its pods never count as available, so that the controller
//! creates a few of them within the surge and removes no old pod. With several steps, further patches raise the surge. The
//! last patch restores the fields of the user, which promotes the canary. If it also restores the stable template, it aborts
//! the canary. The limits are never looser than those of the user.
//!
//! [`plan_canary`] is a pure function. All state is in one annotation (`state`), and each patch (`patch`) tests that nothing
//! has changed since the snapshot. `policy` is what the user wants, `decision` whether a canary is good, `fault` whether the
//! stable template is any better, `ownership` who owns which fields, `plan` the next patch, `start` its first one, and
//! `refusal` why there is none.
//!
//! ```
//! use rollplan_canary::{Command, Input, Policy, Start, plan_canary};
//! use rollplan_core::interrupt::Never;
//! use rollplan_core::template::Template;
//! use rollplan_world::{mk_deployment, mk_set, mk_snapshot, mk_template, settle, store_defaults};
//!
//! let deployment = mk_deployment(4);
//! let set = mk_set(&deployment, "v1", 1, 4);
//! let mut snapshot = mk_snapshot(deployment, vec![set]);
//! store_defaults(&mut snapshot);
//! settle(&mut snapshot);
//! let mut changed = snapshot.deployment.clone();
//! changed.spec.template = Template::from(mk_template("v2"));
//!
//! let input = Input {
//!     snapshot,
//!     policy: Policy::default(),
//!     command: Some(Command::Start(Box::new(Start {
//!         deployment: changed,
//!         pipeline: None,
//!         replaces: false,
//!         is_template_only: false,
//!     }))),
//!     verdicts: Vec::new(),
//!     managed_fields: None,
//! };
//! let plan = plan_canary(&input, &Never).unwrap().unwrap();
//! // The patch that starts the canary.
//! assert!(plan.step.is_some());
//! ```

mod decision;
mod fault;
mod observed;
mod ownership;
mod patch;
mod plan;
mod policy;
mod refusal;
mod report;
mod start;
mod state;

pub use ownership::{FIELD_MANAGER, ManagedFields};
pub use patch::CanaryStep;
pub use policy::{CallerVerdict, CheckResult, Policy, PolicyStep, held_surge};
pub use refusal::{Refusal, RefusalCause};
pub use report::{Outcome, Phase, Reason, ReasonKind, Report};
pub use state::{ANNOTATION, Fields, HELD_DEADLINE, HELD_MIN_READY, LABEL, parse_limit};

use rollplan_core::interrupt::{Interrupt, Interrupted};
use rollplan_core::snapshot::{Deployment, Snapshot};
use rollplan_core::time::Span;

/// The request of a plan.
#[derive(Clone, Debug)]
pub struct Input {
    /// The observed state.
    pub snapshot: Snapshot,
    /// The criteria for a good canary, and the reactions to its outcome.
    pub policy: Policy,
    /// The command of the user.
    pub command: Option<Command>,
    /// The verdicts of the caller about the canary, for example results of tests.
    pub verdicts: Vec<CallerVerdict>,
    /// The owners of the fields of the Deployment, if the caller knows them. At the end of the canary, they own its fields
    /// again.
    pub managed_fields: Option<ManagedFields>,
}

/// A command of the user. For a command that has been carried out, nothing is planned.
#[derive(Clone, Debug)]
pub enum Command {
    /// Start a canary.
    Start(Box<Start>),
    /// Roll out the template of the canary.
    Promote {
        /// The digest of the template, if only this one may be promoted.
        template: Option<String>,
        /// Whether the canary need not be good.
        is_forced: bool,
        /// The Deployment after its manifest has been applied, if only the template of this manifest may be promoted.
        manifest: Option<Box<Deployment>>,
    },
    /// Restore the stable template. Also allowed during a promotion.
    Abort {
        /// The digest of the template of the canary, if only this one may be aborted.
        template: Option<String>,
    },
    /// Start a canary with the template that was last rejected. If the Deployment already has this template, only allow
    /// another automatic rollback of it.
    Retry,
    /// Restore the fields of the user, keep the template, and remove the state.
    Release,
}

/// The start of a canary.
#[derive(Clone, Debug)]
pub struct Start {
    /// The Deployment after the change.
    pub deployment: Deployment,
    /// The name of the pipeline that starts the canary.
    pub pipeline: Option<String>,
    /// Whether the canary of an earlier run of the pipeline is aborted first, and a template that was rejected in an earlier
    /// run starts again.
    pub replaces: bool,
    /// Whether other changes than that of the template are ignored.
    pub is_template_only: bool,
}

/// The next patch, and the state after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The patch, if there is something to do.
    pub step: Option<CanaryStep>,
    /// The state of the canary. If there is a step, the state after it.
    pub report: Report,
    /// The time after which to plan again even if nothing has changed.
    pub requeue_after: Option<Span>,
}

/// Plans the next patch.
///
/// # Errors
///
/// [`Interrupted`], or a [`Refusal`].
pub fn plan_canary(
    input: &Input,
    interrupt: &dyn Interrupt,
) -> Result<Result<Plan, Refusal>, Interrupted> {
    plan::plan(input, interrupt)
}
