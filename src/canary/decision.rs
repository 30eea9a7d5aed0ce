//! Whether a held canary is good, has failed, or has to wait.

use rollplan_core::compute_status_until;
use rollplan_core::interrupt::{Interrupt, Interrupted};
use rollplan_core::snapshot::{Options, Snapshot};
use rollplan_core::time::{Span, Time};
use rollplan_health::explain::Blocker;
use rollplan_health::judge::{Outlook, Verdict, VerdictOptions};
use rollplan_health::observe::observe_until;
use rollplan_health::report::report;

use crate::observed::{Observed, ready_since, restarted_at};
use crate::policy::{CallerVerdict, CheckResult};
use crate::report::{Outcome, Reason, ReasonKind};
use crate::state::{Fields, Terms};

/// A decision with its reasons.
pub(crate) struct Decision {
    pub(crate) outcome: Outcome,
    /// Why it has failed, or what it waits for.
    pub(crate) reasons: Vec<Reason>,
    /// When to decide again.
    pub(crate) at: Option<Time>,
    /// The events that may show that the pods have failed. Empty if it has failed.
    pub(crate) event_selectors: Vec<&'static str>,
    /// What the pods fail for, if that is why the canary has failed or timed out.
    pub(crate) fault: Option<Blocker>,
}

/// rollplan's own verdict about a rollout, and the blocker that it is about.
pub(crate) struct Judged {
    pub(crate) verdict: Verdict,
    pub(crate) blocker: Option<Blocker>,
}

/// A hold, for a decision.
pub(crate) struct Hold<'a> {
    pub(crate) observed: &'a Observed<'a>,
    pub(crate) user: Fields,
    /// Since when the template is that of the canary.
    pub(crate) since: Time,
    pub(crate) wanted: i32,
    pub(crate) terms: &'a Terms,
    /// The index of its step.
    pub(crate) step: usize,
    /// Whether a next step waits for the Deployment controller.
    pub(crate) waits_for_controller: bool,
}

/// Decides about a hold.
pub(crate) fn decide(
    hold: &Hold<'_>,
    verdicts: &[CallerVerdict],
    interrupt: &dyn Interrupt,
) -> Result<Decision, Interrupted> {
    let now = hold.observed.now();
    let mut failures = Vec::new();
    let mut waits = Vec::new();
    let checked = check_callers(hold, verdicts, &mut failures, &mut waits);
    let Judged { verdict, blocker } = judge(&hold.observed.with_fields(hold.user), interrupt)?;
    if is_failure(&verdict) {
        failures.push(Reason {
            kind: ReasonKind::CanaryFailed,
            message: verdict.message.clone(),
        });
    }
    let ready_at = ready_at(hold, &mut waits);
    if ready_at.is_none()
        && !matches!(
            verdict.outlook,
            Outlook::Complete | Outlook::CompletesByItself
        )
    {
        waits.push(Reason {
            kind: ReasonKind::WaitsForPods,
            message: verdict.message.clone(),
        });
    }
    if hold.waits_for_controller {
        waits.push(Reason {
            kind: ReasonKind::WaitsForController,
            message: "the Deployment controller has not carried out the last change yet".to_owned(),
        });
    }
    let is_good = checked && !hold.waits_for_controller && ready_at.is_some_and(|it| it <= now);
    let timeout = hold.terms.timeout;
    let deadline = timeout.map(|it| after(hold.since, it));
    let certain_at = verdict.decided_after;
    let outcome = if !failures.is_empty() {
        Outcome::Failed
    } else if is_good {
        Outcome::Good
    } else if deadline.is_some_and(|it| it <= now) {
        Outcome::TimedOut
    } else {
        Outcome::Undecided
    };
    let waits_for_pods = outcome == Outcome::TimedOut && ready_at.is_none();
    let fault = blocker.filter(|_| is_failure(&verdict) || waits_for_pods);
    if outcome == Outcome::TimedOut {
        let timeout = timeout.unwrap_or_default();
        let why: Vec<&str> = waits.iter().map(|it| it.message.as_str()).collect();
        let reason = Reason {
            kind: ReasonKind::TimedOut,
            message: format!(
                "the canary was not decided within {timeout}: {}",
                why.join("; ")
            ),
        };
        waits.insert(0, reason);
    }
    let times = [ready_at, deadline, certain_at].into_iter().flatten();
    Ok(Decision {
        at: match outcome {
            Outcome::Undecided => times.filter(|it| *it > now).min(),
            _ => None,
        },
        reasons: match outcome {
            Outcome::Failed => failures,
            Outcome::Good => Vec::new(),
            Outcome::Undecided | Outcome::TimedOut => waits,
        },
        event_selectors: match outcome {
            Outcome::Failed => Vec::new(),
            Outcome::Good | Outcome::Undecided | Outcome::TimedOut => verdict.event_selectors,
        },
        outcome,
        fault,
    })
}

/// When all pods are ready for long enough, if they are ready.
fn ready_at(hold: &Hold<'_>, waits: &mut Vec<Reason>) -> Option<Time> {
    let observed = hold.observed;
    let mut wait = |message| {
        waits.push(Reason {
            kind: ReasonKind::WaitsForPods,
            message,
        });
    };
    let wanted = hold.wanted;
    let bake = hold.terms.bake(hold.step);
    let pods = observed
        .new
        .map(|set| observed.pods(set).collect::<Vec<_>>());
    let pods = pods.unwrap_or_default();
    let ready: Vec<Time> = pods
        .iter()
        .filter_map(|pod| {
            let min_ready = Span::from_seconds(i64::from(hold.user.min_ready_seconds));
            let since = ready_since(pod)?;
            let unbroken = restarted_at(pod).map_or(since, |it| it.max(since));
            Some(after(since, min_ready).max(after(unbroken, bake)))
        })
        .collect();
    let is_unready = ready.len() < pods.len();
    // The ReplicaSet controller may delete pods above the size at any time, for example after scaling.
    let size = observed.new.map_or(0, |set| set.replicas);
    let count = i32::try_from(ready.len()).unwrap_or(i32::MAX).min(size);
    if is_unready || count < wanted || wanted == 0 {
        let total = wanted.max(i32::try_from(pods.len()).unwrap_or(i32::MAX));
        wait(format!("{count} of {total} canary pods are ready"));
        return None;
    }
    let at = ready.into_iter().max()?;
    if at > observed.now() {
        // Rounded up: with 0 s left, there would be nothing to wait for.
        let rest = at.since(observed.now().whole_seconds());
        wait(format!(
            "all canary pods are ready, and must stay ready for {rest} more"
        ));
    }
    Some(at)
}

/// Whether all verdicts of the caller have passed.
fn check_callers(
    hold: &Hold<'_>,
    verdicts: &[CallerVerdict],
    failures: &mut Vec<Reason>,
    waits: &mut Vec<Reason>,
) -> bool {
    let given = verdicts.iter().map(|it| it.name.as_str());
    let names = hold.terms.gates(hold.step).chain(given);
    let names: std::collections::BTreeSet<&str> = names.collect();
    let times = hold.since..=hold.observed.now();
    let mut all_pass = true;
    for name in names {
        let of_name = || verdicts.iter().filter(|it| it.name == name);
        let counts = |it: &&CallerVerdict| {
            it.template_digest == hold.observed.digest
                && it.step == number(hold.step)
                && times.contains(&it.observed_at)
        };
        // Of two at one time, the worse one counts.
        let latest = of_name()
            .filter(counts)
            .max_by_key(|it| (it.observed_at, it.result));
        let message = match latest.map(|it| it.result) {
            Some(CheckResult::Pass) => continue,
            Some(CheckResult::Fail) => {
                failures.push(Reason {
                    kind: ReasonKind::VerdictFailed,
                    message: format!("the verdict {name:?} is that the canary has failed"),
                });
                all_pass = false;
                continue;
            }
            Some(CheckResult::Unknown) => format!("the verdict {name:?} is unknown"),
            None if of_name().next().is_some() => {
                format!("the verdict {name:?} is about another template, step or time")
            }
            None => format!("the verdict {name:?} is missing"),
        };
        all_pass = false;
        waits.push(Reason {
            kind: ReasonKind::WaitsForVerdict,
            message,
        });
    }
    all_pass
}

/// The number of a step, from 1.
pub(crate) fn number(step: usize) -> i32 {
    i32::try_from(step).map_or(i32::MAX, |it| it.saturating_add(1))
}

/// Judges a rollout.
pub(crate) fn judge(snapshot: &Snapshot, interrupt: &dyn Interrupt) -> Result<Judged, Interrupted> {
    let status = compute_status_until(snapshot, Options::default(), interrupt)?;
    let observed = observe_until(snapshot, VerdictOptions::default(), interrupt)?;
    let report = report(&observed, Options::default(), &status, &[]);
    let verdict = report.verdict;
    let mut blockers = report.blockers.into_iter();
    let blocker = blockers.find(|it| it.cause.as_str() == verdict.reason);
    Ok(Judged { verdict, blocker })
}

/// Whether the rollout has certainly failed. By the default rules, only failures of the template and of what it refers to
/// are certain: not those of nodes, and not those that free capacity resolves.
pub(crate) fn is_failure(verdict: &Verdict) -> bool {
    verdict.outlook == Outlook::NeedsChange && verdict.is_final && verdict.is_certain
}

fn after(time: Time, span: Span) -> Time {
    let seconds = span
        .seconds()
        .saturating_add(i64::from(span.subsec_nanos() > 0));
    time.plus_seconds(seconds)
}
