//! Lays out canaries.

use prost_types::Timestamp;
use rollplan_wire::proto::{CanaryOutcome, CanaryPhase, CanaryReport, PlanCanaryResponse};

use super::page::{Page, Style, padded};
use super::printable::one_line;
use super::{span, table};

/// The width of the longest state.
const STATE: usize = "held, timed out".len();

/// The widths of the other columns of rows.
const TIME: usize = 6;
const COUNT: usize = 7;

/// A canary, and the patch of its Deployment.
pub struct CanaryFacts<'f> {
    /// For example "Deployment shop/web".
    pub subject: &'f str,
    /// The answer.
    pub response: &'f PlanCanaryResponse,
    /// The time that it refers to.
    pub now: Option<&'f Timestamp>,
    /// Whether the patch has been made.
    pub is_patched: bool,
    /// Whether it is about the rollback of a rollout without a canary.
    pub is_rollback: bool,
}

/// A canary: its state, what it waits for, its pods, and the patch.
pub fn canary(page: &mut Page, facts: &CanaryFacts<'_>) {
    let CanaryFacts {
        subject,
        response,
        now,
        is_patched,
        is_rollback,
    } = facts;
    let report = response.report.clone().unwrap_or_default();
    let is_planned = !is_patched && !response.steps.is_empty();
    let state = match report.phase() {
        _ if *is_rollback => rollback_state(&report).to_owned(),
        CanaryPhase::Rest => "no canary".to_owned(),
        _ => format!("canary {}", canary_state(&report)),
    };
    let condition = if is_planned {
        " after the patch below, which was not made"
    } else {
        ""
    };
    page.line(&format!("{subject}: {state}{condition}"), Style::Strong);
    if report.phase() != CanaryPhase::Rest
        || !report.reasons.is_empty()
        || !response.steps.is_empty()
    {
        page.line(&report.message, Style::Plain);
    }
    let mut shown = vec![&report.message];
    for reason in &report.reasons {
        if !shown.iter().any(|it| it.contains(&reason.message)) {
            page.paragraph("  - ", Style::Plain, &reason.message, Style::Plain);
            shown.push(&reason.message);
        }
    }
    let fact = |page: &mut Page, name: &str, text: &str| {
        page.paragraph(&format!("  {name}: "), Style::Faint, text, Style::Plain);
    };
    let CanaryReport {
        pods_wanted,
        pods_available,
        stable_pods_available,
        available_min,
        pods_max,
        ..
    } = report;
    if report.phase() == CanaryPhase::Hold {
        if report.steps > 1 {
            fact(
                page,
                "step",
                &format!("{} of {}", report.step, report.steps),
            );
        }
        fact(
            page,
            "canary pods",
            &format!("{pods_available} of {pods_wanted} available"),
        );
    }
    if !matches!(report.phase(), CanaryPhase::Rest | CanaryPhase::Aborted) {
        fact(
            page,
            "other pods",
            &format!("{stable_pods_available} available"),
        );
        let limits = format!("at least {available_min} available, at most {pods_max} pods");
        fact(page, "limits", &limits);
    }
    if let Some(since) = report.since.filter(|_| !is_planned) {
        let ago = now.map(|now| {
            now.seconds
                .saturating_sub(since.seconds)
                .max(0)
                .unsigned_abs()
        });
        let ago = ago.map_or_else(String::new, |ago| format!(" ({} ago)", span::exact(ago)));
        let since = Timestamp { nanos: 0, ..since };
        fact(page, "since", &format!("{since}{ago}"));
    }
    if report.phase() == CanaryPhase::Hold {
        fact(page, "template", &report.template_digest);
    }
    if !report.pipeline.is_empty() {
        fact(page, "pipeline", &report.pipeline);
    }
    if !report.rejected_digests.is_empty() {
        fact(
            page,
            "rejected templates",
            &report.rejected_digests.join(", "),
        );
    }
    for (index, step) in response.steps.iter().enumerate() {
        if *is_patched {
            fact(page, "patched", &step.summary)
        } else {
            page.gap();
            table::step(page, index + 1, step);
        }
    }
    if !is_patched {
        table::requeue(page, response.requeue_after.as_ref());
    }
}

/// The state of a canary.
pub fn canary_state(report: &CanaryReport) -> &'static str {
    match report.phase() {
        CanaryPhase::Unspecified => "unknown",
        CanaryPhase::Rest => "none",
        CanaryPhase::Hold => match report.outcome() {
            CanaryOutcome::Unspecified | CanaryOutcome::Undecided => "held",
            CanaryOutcome::Good => "held, good",
            CanaryOutcome::Failed => "held, failed",
            CanaryOutcome::TimedOut => "held, timed out",
        },
        CanaryPhase::Promoting => "promoting",
        CanaryPhase::Aborting => "aborting",
        CanaryPhase::Done => "promoted",
        CanaryPhase::Aborted => "aborted",
    }
}

/// The state of the rollback of a rollout without a canary.
fn rollback_state(report: &CanaryReport) -> &'static str {
    match report.phase() {
        CanaryPhase::Aborting => "rolling back",
        CanaryPhase::Aborted => "rolled back",
        CanaryPhase::Rest => "no rollback",
        _ => canary_state(report),
    }
}

/// The head of the rows of a watched canary.
pub fn canary_head(subject: &str) -> String {
    let head = row(["TIME", "STATE", "CANARY", "OTHERS", "MESSAGE"]);
    format!("{}\n{head}", one_line(subject))
}

/// The canary at this time of the watch.
pub fn canary_row(elapsed: u64, report: &CanaryReport, is_rollback: bool) -> String {
    let state = if is_rollback {
        rollback_state(report)
    } else {
        canary_state(report)
    };
    let canary = match report.phase() {
        CanaryPhase::Hold | CanaryPhase::Promoting => {
            format!("{}/{}", report.pods_available, report.pods_wanted)
        }
        _ => "-".to_owned(),
    };
    let message = match report.reasons.first() {
        Some(reason) if !report.message.contains(&reason.message) => {
            format!("{}: {}", report.message, reason.message)
        }
        _ => report.message.clone(),
    };
    row([
        &span::exact(elapsed),
        state,
        &canary,
        &report.stable_pods_available.to_string(),
        &one_line(&message),
    ])
}

fn row([time, state, canary, others, message]: [&str; 5]) -> String {
    let cells = [
        (time, TIME),
        (state, STATE),
        (canary, COUNT),
        (others, COUNT),
    ];
    let cells = cells.map(|(cell, width)| padded(cell, width) + "  ");
    format!("{}{message}\n", cells.concat())
}

#[cfg(test)]
mod tests {
    use rollplan_wire::proto::{Reason, Step};

    use super::*;

    fn report() -> CanaryReport {
        CanaryReport {
            phase: CanaryPhase::Hold.into(),
            outcome: CanaryOutcome::Undecided.into(),
            message: "the canary waits: 1 of 2 canary pods are ready".to_owned(),
            reasons: [
                "1 of 2 canary pods are ready",
                "the verdict \"a\u{1b}\" is missing",
            ]
            .map(|message| Reason {
                message: message.to_owned(),
                ..Reason::default()
            })
            .to_vec(),
            template_digest: "sha256:2".to_owned(),
            rejected_digests: vec!["sha256:1".to_owned()],
            since: Some(Timestamp {
                seconds: 1_800_000_000,
                nanos: 5,
            }),
            pods_wanted: 2,
            pods_available: 1,
            stable_pods_available: 10,
            available_min: 8,
            pods_max: 13,
            ..CanaryReport::default()
        }
    }

    fn text(report: CanaryReport, is_patched: bool) -> String {
        let response = PlanCanaryResponse {
            steps: vec![Step {
                summary: "hold the canary again".to_owned(),
                ..Step::default()
            }],
            report: Some(report),
            requeue_after: None,
        };
        let now = Timestamp {
            seconds: 1_800_000_130,
            nanos: 0,
        };
        let mut page = Page::new(false);
        let facts = CanaryFacts {
            subject: "Deployment shop/web",
            response: &response,
            now: Some(&now),
            is_patched,
            is_rollback: false,
        };
        canary(&mut page, &facts);
        page.into_text()
    }

    #[test]
    fn hold_shows_what_it_waits_for_and_since_when() {
        let shown = "\
Deployment shop/web: canary held
the canary waits: 1 of 2 canary pods are ready
  - the verdict \"a\\u{1b}\" is missing
  canary pods: 1 of 2 available
  other pods: 10 available
  limits: at least 8 available, at most 13 pods
  since: 2027-01-15T08:00:00Z (2m10s ago)
  template: sha256:2
  rejected templates: sha256:1
";
        assert_eq!(
            text(report(), true),
            format!("{shown}  patched: hold the canary again\n")
        );
        let planned = shown.replace(
            "canary held\n",
            "canary held after the patch below, which was not made\n",
        );
        let planned = planned.replace("  since: 2027-01-15T08:00:00Z (2m10s ago)\n", "");
        assert_eq!(
            text(report(), false),
            format!("{planned}\n 1. hold the canary again\n")
        );
    }

    #[test]
    fn hold_with_several_steps_shows_which_one() {
        let steps = CanaryReport {
            step: 2,
            steps: 3,
            ..report()
        };
        let shown = text(steps, true);
        let facts = "  step: 2 of 3\n  canary pods: 1 of 2 available\n";
        assert!(shown.contains(facts), "{shown}");
    }

    #[test]
    fn ended_canary_is_short() {
        let ended = |phase: CanaryPhase| CanaryReport {
            phase: phase.into(),
            message: "no canary is in progress".to_owned(),
            ..CanaryReport::default()
        };
        let none = "Deployment shop/web: no canary\nno canary is in progress\n  patched: hold the canary again\n";
        assert_eq!(text(ended(CanaryPhase::Rest), true), none);
        let aborted = text(ended(CanaryPhase::Aborted), true);
        assert!(
            aborted.starts_with("Deployment shop/web: canary aborted\nno canary is in progress\n"),
            "{aborted}"
        );
    }

    #[test]
    fn rows_are_aligned() {
        let text = canary_head("Deployment shop/web") + &canary_row(130, &report(), false);
        assert_eq!(
            text,
            "Deployment shop/web\n\
             TIME    STATE            CANARY   OTHERS   MESSAGE\n\
             2m10s   held             1/2      10       the canary waits: 1 of 2 canary pods are ready\n"
        );
    }
}
