//! Lays out canaries.

use prost_types::Timestamp;

use super::page::{Page, Style, padded};
use super::printable::one_line;
use super::{span, table};
use crate::proto::{CanaryOutcome, CanaryPhase, CanaryReport, PlanCanaryResponse};

/// The width of the longest state.
const STATE: usize = "held, timed out".len();

/// The widths of the other columns of rows.
const TIME: usize = 6;
const COUNT: usize = 7;

/// A canary, and the patch of its Deployment.
pub(crate) struct CanaryFacts<'f> {
    /// For example "Deployment shop/web".
    pub(crate) subject: &'f str,
    pub(crate) response: &'f PlanCanaryResponse,
    pub(crate) now: Option<&'f Timestamp>,
    /// Whether the patch has been made.
    pub(crate) is_patched: bool,
}

/// A canary: its state, what it waits for, its pods, and the patch.
pub(crate) fn canary(page: &mut Page, facts: &CanaryFacts<'_>) {
    let CanaryFacts {
        subject,
        response,
        now,
        is_patched,
    } = facts;
    let report = response.report.clone().unwrap_or_default();
    let title = match report.phase() {
        CanaryPhase::Rest => format!("{subject}: no canary"),
        _ => format!("{subject}: canary {}", canary_state(&report)),
    };
    page.line(&title, Style::Strong);
    if report.phase() != CanaryPhase::Rest || !report.reasons.is_empty() {
        page.line(&report.message, Style::Plain);
    }
    for reason in &report.reasons {
        if !report.message.contains(&reason.message) {
            page.paragraph("  - ", Style::Plain, &reason.message, Style::Plain);
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
    if let Some(since) = report.since {
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
    if !report.rejected_digests.is_empty() {
        fact(
            page,
            "rejected templates",
            &report.rejected_digests.join(", "),
        );
    }
    for (index, step) in response.steps.iter().enumerate() {
        match is_patched {
            true => fact(page, "patched", &step.summary),
            false => {
                page.gap();
                table::step(page, index + 1, step);
            }
        }
    }
    if !is_patched {
        table::requeue(page, response.requeue_after.as_ref());
    }
}

/// The state of a canary.
pub(crate) fn canary_state(report: &CanaryReport) -> &'static str {
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

/// The head of the rows of a watched canary.
pub(crate) fn canary_head(subject: &str) -> String {
    let head = row(["TIME", "STATE", "CANARY", "OTHERS", "MESSAGE"]);
    format!("{}\n{head}", one_line(subject))
}

/// The canary at this time of the watch.
pub(crate) fn canary_row(elapsed: u64, report: &CanaryReport) -> String {
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
        canary_state(report),
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
