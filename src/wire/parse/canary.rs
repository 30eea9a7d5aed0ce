//! Parses the parts of a request for a canary, except for the changed Deployment.

use std::time::Duration;

use rollplan_canary::{CallerVerdict, CheckResult, Policy, PolicyStep, parse_limit};
use rollplan_core::size::IntOrPercent;
use rollplan_core::time::Span;

use super::Parser;
use super::path::Path;
use crate::error::{Error, Reason, quoted};
use crate::limits::{STEPS_MAX, VERDICTS_MAX, limit};
use crate::proto;

impl Parser<'_> {
    pub(crate) fn canary_policy(
        &mut self,
        policy: Option<proto::CanaryPolicy>,
    ) -> Result<Policy, Error> {
        use proto::CanaryResponse::{Abort, Hold, Promote};
        let proto::CanaryPolicy {
            pods,
            surge,
            bake,
            gates,
            on_success,
            on_failure,
            timeout,
            on_timeout,
            on_rollout_failure,
            steps,
            on_step,
        } = policy.unwrap_or_default();
        let gate_count = gates.len() + steps.iter().map(|it| it.gates.len()).sum::<usize>();
        limit("policy.gates", gate_count, VERDICTS_MAX)?;
        limit("policy.steps", steps.len(), STEPS_MAX)?;
        let path = Path::Root("policy");
        let on_success = self.response(on_success, [Hold, Promote], &path.field("on_success"));
        let on_failure = self.response(on_failure, [Abort, Hold], &path.field("on_failure"));
        let on_step = self.response(on_step, [Promote, Hold], &path.field("on_step"));
        let on_timeout = self.response(on_timeout, [Hold, Abort], &path.field("on_timeout"));
        let on_rollout_failure = self.known(on_rollout_failure, &path.field("on_rollout_failure"));
        Ok(Policy {
            steps: self.canary_steps(&pods, steps, &path),
            surge: self.limit_text(&surge, &path.field("surge")),
            bake: bake.map(|it| self.whole_seconds(it, &path.field("bake"))),
            gates,
            raises: on_step == Promote,
            promotes: on_success == Promote,
            aborts_on_failure: on_failure == Abort,
            timeout: timeout.map(|it| self.whole_seconds(it, &path.field("timeout"))),
            aborts_on_timeout: on_timeout == Abort,
            rolls_back: on_rollout_failure == Some(proto::RolloutResponse::RollBack),
        })
    }

    /// The steps of a policy, or the only one, with this number of pods.
    fn canary_steps(
        &mut self,
        pods: &str,
        steps: Vec<proto::CanaryPolicyStep>,
        policy: &Path<'_>,
    ) -> Vec<PolicyStep> {
        let path = policy.field("steps");
        if !pods.is_empty() && !steps.is_empty() {
            self.violation(&path, Reason::OutOfRange, "must be empty with pods");
        }
        let only = self.limit_text(pods, &policy.field("pods"));
        let mut parsed: Vec<PolicyStep> = only.map(PolicyStep::from).into_iter().collect();
        for (index, step) in steps.into_iter().enumerate() {
            let proto::CanaryPolicyStep { pods, bake, gates } = step;
            let path = path.index(index);
            let pods_path = path.field("pods");
            let bake = bake.map(|it| self.whole_seconds(it, &path.field("bake")));
            if pods.is_empty() {
                self.violation(&pods_path, Reason::Required, "is required");
            }
            let Some(pods) = self.limit_text(&pods, &pods_path) else {
                continue;
            };
            let is_larger = |before: &PolicyStep| match (before.pods, pods) {
                (IntOrPercent::Int(before), IntOrPercent::Int(count)) => before < count,
                (before, limit) => match (before.percent(), limit.percent()) {
                    (Some(before), Some(percent)) => before < percent,
                    // Which one is larger depends on the number of desired pods.
                    _ => true,
                },
            };
            if !parsed.last().is_none_or(is_larger) {
                let description =
                    format_args!("must exceed that of the step before, and not be {pods}");
                self.violation(&pods_path, Reason::OutOfRange, description);
            }
            parsed.push(PolicyStep { pods, bake, gates });
        }
        parsed
    }

    pub(crate) fn canary_verdicts(
        &mut self,
        verdicts: Vec<proto::CanaryVerdict>,
    ) -> Result<Vec<CallerVerdict>, Error> {
        limit("verdicts", verdicts.len(), VERDICTS_MAX)?;
        let verdicts = verdicts.into_iter().enumerate();
        let parsed = verdicts.filter_map(|(index, verdict)| {
            let path = Path::Root("verdicts");
            self.canary_verdict(verdict, &path.index(index))
        });
        Ok(parsed.collect())
    }

    /// `None` after a violation.
    fn canary_verdict(
        &mut self,
        verdict: proto::CanaryVerdict,
        path: &Path<'_>,
    ) -> Option<CallerVerdict> {
        let proto::CanaryVerdict {
            name,
            template_digest,
            result,
            observed_at,
            step,
        } = verdict;
        for (field, text) in [("name", &name), ("template_digest", &template_digest)] {
            if text.is_empty() {
                self.violation(&path.field(field), Reason::Required, "is required");
            }
        }
        let time_path = path.field("observed_at");
        let observed_at = self.required(observed_at, &time_path);
        let observed_at = observed_at.and_then(|it| self.time(it, &time_path));
        let result = self.known(result, &path.field("result"));
        if step < 0 {
            let description = "must not be negative";
            self.violation(&path.field("step"), Reason::Negative, description);
        }
        Some(CallerVerdict {
            name,
            template_digest,
            step: step.max(1),
            result: match result {
                Some(proto::CanaryResult::Pass) => CheckResult::Pass,
                Some(proto::CanaryResult::Fail) => CheckResult::Fail,
                Some(proto::CanaryResult::Unspecified | proto::CanaryResult::Unknown) | None => {
                    CheckResult::Unknown
                }
            },
            observed_at: observed_at?,
        })
    }

    /// A response, which must be one of two. The first is the default.
    fn response(
        &mut self,
        value: i32,
        allowed: [proto::CanaryResponse; 2],
        path: &Path<'_>,
    ) -> proto::CanaryResponse {
        let [default, other] = allowed;
        match self.known(value, path) {
            None | Some(proto::CanaryResponse::Unspecified) => default,
            Some(response) if allowed.contains(&response) => response,
            Some(response) => {
                let description = format_args!(
                    "must be {} or {}, and not {}",
                    default.as_str_name(),
                    other.as_str_name(),
                    response.as_str_name()
                );
                self.violation(path, Reason::OutOfRange, description);
                default
            }
        }
    }

    /// A value of an enum. `None` after a violation.
    pub(crate) fn known<T: TryFrom<i32>>(&mut self, value: i32, path: &Path<'_>) -> Option<T> {
        let known = T::try_from(value).ok();
        if known.is_none() {
            let description = format_args!("unknown value {value}");
            self.violation(path, Reason::UnknownEnumValue, description);
        }
        known
    }

    /// A number of pods or a percentage. `None` if it is empty, and after a violation.
    fn limit_text(&mut self, text: &str, path: &Path<'_>) -> Option<IntOrPercent> {
        let parsed = parse_limit(text);
        if parsed.is_none() && !text.is_empty() {
            let text = quoted(text);
            let description = format_args!(
                "{text:?} must be a number of pods or a percentage, for example \"10%\""
            );
            self.violation(path, Reason::OutOfRange, description);
        }
        parsed
    }

    fn whole_seconds(&mut self, duration: prost_types::Duration, path: &Path<'_>) -> Span {
        let duration = Duration::try_from(duration).unwrap_or_else(|_| {
            let description = "must be a duration that is not negative";
            self.violation(path, Reason::Negative, description);
            Duration::ZERO
        });
        let seconds = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
        let more = i64::from(duration.subsec_nanos() > 0);
        Span::from_seconds(seconds.saturating_add(more))
    }
}
