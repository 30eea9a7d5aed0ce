//! The criteria for a good canary, and the reactions to its outcome.

use rollplan_core::size::IntOrPercent;
use rollplan_core::time::{Span, Time};

/// The criteria for a good canary, and the reactions to its outcome. The state remembers the criteria of the start: those
/// that are absent here are taken from there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The steps, in order. By default, one step of one pod.
    pub steps: Vec<PolicyStep>,
    /// The surge in addition to that of the Deployment while there is a canary.
    pub surge: Option<IntOrPercent>,
    /// How long all canary pods must have been ready, without a restart, at a step that does not have its own time.
    pub bake: Option<Span>,
    /// The names of the verdicts that must pass at each step. A verdict of the caller must always pass.
    pub gates: Vec<String>,
    /// Whether a good step is followed by the next one.
    pub raises: bool,
    /// Whether a canary whose last step is good is promoted.
    pub promotes: bool,
    /// Whether a failed canary is aborted.
    pub aborts_on_failure: bool,
    /// The time after which a step that is neither good nor failed times out. `None` if it never does.
    pub timeout: Option<Span>,
    /// Whether a canary that has timed out is aborted.
    pub aborts_on_timeout: bool,
    /// Whether a rollout that certainly needs a change is rolled back.
    pub rolls_back: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            steps: Vec::new(),
            surge: None,
            bake: None,
            gates: Vec::new(),
            raises: true,
            promotes: false,
            aborts_on_failure: true,
            timeout: None,
            aborts_on_timeout: false,
            rolls_back: false,
        }
    }
}

/// A step of a canary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyStep {
    /// The number of canary pods, or a percentage of the desired pods that is rounded up.
    pub pods: IntOrPercent,
    /// How long all canary pods must have been ready, if not as long as the policy says.
    pub bake: Option<Span>,
    /// The names of further verdicts that must pass at this step.
    pub gates: Vec<String>,
}

impl From<IntOrPercent> for PolicyStep {
    fn from(pods: IntOrPercent) -> Self {
        Self {
            pods,
            bake: None,
            gates: Vec::new(),
        }
    }
}

/// The result of a check of the caller. The worst is last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CheckResult {
    /// It passed.
    Pass,
    /// The result is not known. The check has not passed.
    Unknown,
    /// It failed.
    Fail,
}

/// The verdict of the caller about a canary. It counts only for the template, the step and the time that it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallerVerdict {
    /// The name of the check.
    pub name: String,
    /// The digest of the template that was checked.
    pub template_digest: String,
    /// The number of the step that was checked, from 1.
    pub step: i32,
    /// The result.
    pub result: CheckResult,
    /// When the result was observed. Of several verdicts with the same name, the latest counts.
    pub observed_at: Time,
}

/// The surge to write for a hold with this number of pods, never looser than `limit`, also after scaling: a percentage if
/// the limit is one. The largest that is possible, because proportional scaling then keeps the stable pods.
#[must_use]
pub fn held_surge(pods: i32, limit: IntOrPercent, replicas: i32) -> IntOrPercent {
    let Some(limit) = limit.percent() else {
        return IntOrPercent::Int(pods);
    };
    let largest = (i64::from(pods) * 100).checked_div(i64::from(replicas));
    let percent = largest.map_or(limit, |it| limit.min(i32::try_from(it).unwrap_or(limit)));
    let percent = IntOrPercent::Percent(percent);
    if percent.rounded_up(replicas) == pods {
        percent
    } else {
        // Above 100 desired pods, not every number is a percentage.
        IntOrPercent::Int(pods)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use IntOrPercent::{Int, Percent};

    #[test]
    fn held_surge_is_exact_and_never_looser_after_scaling() {
        for replicas in 1..=150 {
            for limit in [Int(1), Int(7), Percent(1), Percent(25), Percent(100)] {
                for pods in 1..=limit.rounded_up(replicas) {
                    let surge = held_surge(pods, limit, replicas);
                    assert_eq!(
                        surge.rounded_up(replicas),
                        pods,
                        "{replicas} {limit:?} {pods}"
                    );
                    let is_same_form =
                        matches!((surge, limit), (Int(_), Int(_)) | (Percent(_), Percent(_)));
                    assert!(
                        is_same_form || replicas > 100,
                        "{replicas} {limit:?} {pods}"
                    );
                    for other in (1..=200).filter(|_| is_same_form) {
                        assert!(surge.rounded_up(other) <= limit.rounded_up(other));
                    }
                }
            }
        }
    }
}
