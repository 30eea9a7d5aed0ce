//! Options for the policy of a canary.

use std::time::Duration;

use clap::{Args, ValueEnum};
use prost_types::Timestamp;
use rollplan_text::span;
use rollplan_wire::proto::{
    CanaryPolicy, CanaryPolicyStep, CanaryResponse, CanaryResult, RolloutResponse,
};

use super::steering::Verdicts;

/// The policy of a canary that starts.
#[derive(Args, Debug)]
pub(super) struct PolicyArgs {
    #[command(flatten)]
    size: SizeArgs,
    #[command(flatten)]
    criteria: CriteriaArgs,
    #[command(flatten)]
    reaction: ReactionArgs,
    #[command(flatten)]
    rollout_failure: RolloutFailureArgs,
}

/// How many canary pods there are.
#[derive(Args, Debug)]
struct SizeArgs {
    /// Number of canary pods, or a percentage of the desired pods, for example 2 or 10% [default: 1]
    #[arg(long, value_name = "NUMBER|PERCENT", value_parser = limit)]
    pods: Option<String>,
    /// Numbers of canary pods in several steps, for example 1,10%,25%: each step begins when the one before is good
    ///
    /// The surge limits all steps. A step that has no more pods than the one before, because percentages are rounded up, is
    /// skipped. Other steps of a later command apply from the next step.
    #[arg(long, value_name = "NUMBER|PERCENT,...", value_parser = limit, value_delimiter = ',', conflicts_with = "pods")]
    steps: Vec<String>,
    /// Surge to allow in addition to maxSurge while there is a canary, in the same form
    ///
    /// A canary is held within the surge, so a Deployment with maxSurge 0 needs this option. 100% allows a canary of all pods
    /// beside all stable ones.
    #[arg(long, value_name = "NUMBER|PERCENT", value_parser = limit)]
    surge: Option<String>,
}

/// When a canary is good.
#[derive(Args, Debug)]
pub(super) struct CriteriaArgs {
    /// How long all canary pods must have been ready without a restart, at each step, for example 2m [default: 0s, or as at
    /// the start]
    #[arg(long, value_name = "DURATION", value_parser = span::parse)]
    bake: Option<Duration>,
    /// Name of a verdict that each step needs; may be repeated [default: as at the start]
    #[arg(long = "gate", value_name = "NAME")]
    gates: Vec<String>,
    #[command(flatten)]
    verdicts: VerdictArgs,
    /// Time after which a step that is neither good nor failed times out, for example 15m [default: never, or as at the
    /// start]
    #[arg(long, value_name = "DURATION", value_parser = span::parse)]
    timeout: Option<Duration>,
}

/// What the user knows about a canary.
#[derive(Args, Debug)]
pub(super) struct VerdictArgs {
    /// Your verdict about the canary as it is now, for example smoke=pass; may be repeated
    ///
    /// A verdict is about the template, the step and the time of this command: it does not apply to a canary or a step that
    /// starts later. Verdicts that are missing or unknown do not pass.
    #[arg(long = "verdict", value_name = "NAME=pass|fail|unknown", value_parser = verdict)]
    verdicts: Vec<(String, CanaryResult)>,
}

/// What happens then.
#[derive(Args, Debug)]
struct ReactionArgs {
    /// What happens when the last step is good
    #[arg(long, value_enum, default_value = "hold")]
    on_success: OnCanarySuccess,
    /// What happens when the canary has failed
    #[arg(long, value_enum, default_value = "abort")]
    on_failure: OnCanaryFailure,
    /// What happens when the canary times out
    #[arg(long, value_enum, default_value = "hold")]
    on_timeout: OnCanaryFailure,
}

/// What happens when a promotion fails.
#[derive(Args, Debug)]
pub(super) struct RolloutFailureArgs {
    /// What happens when it is certain that the promotion needs a change
    #[arg(long, value_enum, default_value = "none")]
    on_rollout_failure: OnRolloutFailure,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OnCanarySuccess {
    /// Nothing, until a command
    Hold,
    /// The template is rolled out
    Promote,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OnCanaryFailure {
    /// Nothing, until a command
    Hold,
    /// The stable template is restored
    Abort,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum OnRolloutFailure {
    /// Nothing
    None,
    /// The stable template is restored
    #[value(alias = "rollback")]
    RollBack,
}

/// Parses a number of pods or a percentage.
fn limit(text: &str) -> Result<String, String> {
    let digits = text.strip_suffix('%').unwrap_or(text);
    match digits.parse::<u32>() {
        Ok(_) if digits.bytes().all(|byte| byte.is_ascii_digit()) => Ok(text.to_owned()),
        _ => Err("must be a number or a percentage, for example 2 or 10%".to_owned()),
    }
}

fn verdict(text: &str) -> Result<(String, CanaryResult), String> {
    let (name, result) = text.split_once('=').unwrap_or((text, ""));
    let result = match result {
        "pass" => CanaryResult::Pass,
        "fail" => CanaryResult::Fail,
        "unknown" => CanaryResult::Unknown,
        _ => return Err("must be NAME=pass, NAME=fail or NAME=unknown".to_owned()),
    };
    match name {
        "" => Err("the name is missing, for example smoke=pass".to_owned()),
        name => Ok((name.to_owned(), result)),
    }
}

// === impl PolicyArgs ===

impl PolicyArgs {
    /// The policy, and the verdicts, observed at this time.
    pub(super) fn read(self, now: Timestamp) -> (CanaryPolicy, Verdicts) {
        let mut policy = CanaryPolicy::default();
        let verdicts = self.criteria.verdicts(now);
        self.size.add_to(&mut policy);
        self.criteria.add_to(&mut policy);
        self.reaction.add_to(&mut policy);
        self.rollout_failure.add_to(&mut policy);
        (policy, verdicts)
    }
}

// === impl SizeArgs ===

impl SizeArgs {
    fn add_to(self, policy: &mut CanaryPolicy) {
        policy.pods = self.pods.unwrap_or_default();
        let steps = self.steps.into_iter().map(|pods| CanaryPolicyStep {
            pods,
            ..CanaryPolicyStep::default()
        });
        policy.steps = steps.collect();
        policy.surge = self.surge.unwrap_or_default();
    }
}

// === impl CriteriaArgs ===

impl CriteriaArgs {
    pub(super) fn add_to(self, policy: &mut CanaryPolicy) {
        policy.bake = self.bake.and_then(|it| it.try_into().ok());
        policy.gates = self.gates;
        policy.timeout = self.timeout.and_then(|it| it.try_into().ok());
    }

    /// The verdicts, observed at this time.
    pub(super) fn verdicts(&self, now: Timestamp) -> Verdicts {
        self.verdicts.observed_at(now)
    }
}

// === impl VerdictArgs ===

impl VerdictArgs {
    pub(super) fn observed_at(&self, now: Timestamp) -> Verdicts {
        Verdicts {
            results: self.verdicts.clone(),
            observed_at: now,
        }
    }
}

// === impl ReactionArgs ===

impl ReactionArgs {
    fn add_to(&self, policy: &mut CanaryPolicy) {
        let response = |on: OnCanaryFailure| match on {
            OnCanaryFailure::Hold => CanaryResponse::Hold,
            OnCanaryFailure::Abort => CanaryResponse::Abort,
        };
        policy.on_success = match self.on_success {
            OnCanarySuccess::Hold => CanaryResponse::Hold,
            OnCanarySuccess::Promote => CanaryResponse::Promote,
        }
        .into();
        policy.on_failure = response(self.on_failure).into();
        policy.on_timeout = response(self.on_timeout).into();
    }
}

// === impl RolloutFailureArgs ===

impl RolloutFailureArgs {
    pub(super) fn add_to(&self, policy: &mut CanaryPolicy) {
        policy.on_rollout_failure = match self.on_rollout_failure {
            OnRolloutFailure::None => RolloutResponse::None,
            OnRolloutFailure::RollBack => RolloutResponse::RollBack,
        }
        .into();
    }
}
