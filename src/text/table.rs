//! Formats plans and statuses.

use rollplan_health::explain::{Cause, error_line};
use rollplan_wire::proto;

use super::page::{Columns, Page, Style, width};
use super::span;
use super::state::state;
use super::step;

/// A plan: the steps, and the status afterwards.
pub fn plan(page: &mut Page, subject: &str, response: &proto::PlanRolloutResponse) {
    let proto::PlanRolloutResponse {
        steps,
        status,
        report,
        requeue_after,
        // For adapters only.
        sync: _,
    } = response;
    let what = match steps.len() {
        0 if lacks_sets(report.as_ref()) => "no plan".to_owned(),
        0 => "nothing to do now".to_owned(),
        1 => "1 step".to_owned(),
        count => format!("{count} steps, in this order"),
    };
    page.line(&format!("{subject}: {what}"), Style::Strong);
    self::report(page, report.as_ref());
    for (index, step) in steps.iter().enumerate() {
        page.gap();
        self::step(page, index + 1, step);
    }
    requeue(page, requeue_after.as_ref());
    if let Some(status) = status {
        page.gap();
        let title = if steps.is_empty() {
            "Status"
        } else {
            "Status after these steps"
        };
        page.line(title, Style::Strong);
        self::counters(page, status);
        self::conditions(page, status);
    }
}

/// The time of the next plan.
pub(super) fn requeue(page: &mut Page, after: Option<&prost_types::Duration>) {
    if let Some(after) = after {
        page.gap();
        let text = format!(
            "Plan again in {}, even if nothing changes until then.",
            span(after)
        );
        page.line(&text, Style::Plain);
    }
}

/// Whether nothing was planned because the list of ReplicaSets may be incomplete.
pub fn lacks_sets(report: Option<&proto::RolloutReport>) -> bool {
    let blockers = report.map_or(&[][..], |report| report.blockers.as_slice());
    let incomplete = Cause::ReplicaSetsIncomplete.as_str();
    blockers.iter().any(|blocker| blocker.reason == incomplete)
}

/// A status.
pub fn status(page: &mut Page, subject: &str, response: &proto::ComputeStatusResponse) {
    let proto::ComputeStatusResponse {
        status,
        report,
        // The subject contains its name.
        object: _,
    } = response;
    let phase = report.as_ref().map(|report| state(report.phase()));
    let title = phase.map_or_else(|| subject.to_owned(), |phase| format!("{subject}: {phase}"));
    page.line(&title, Style::Strong);
    self::report(page, report.as_ref());
    if let Some(status) = status {
        page.gap();
        self::counters(page, status);
        self::conditions(page, status);
    }
    if let Some(report) = report {
        numbers(page, report);
    }
}

/// The counters of an object other than a Deployment.
fn numbers(page: &mut Page, report: &proto::RolloutReport) {
    if report.counters.is_empty() {
        return;
    }
    page.gap();
    let counters = report.counters.iter();
    let (names, values): (Vec<_>, Vec<_>) = counters
        .map(|counter| (counter.name.to_uppercase(), counter.value.to_string()))
        .unzip();
    let mut table = Columns::head(names);
    let values = values.into_iter().map(|value| (value, Style::Plain));
    table.row(values, "");
    page.columns(&table);
}

/// The state of the rollout, its blockers and its limits.
fn report(page: &mut Page, report: Option<&proto::RolloutReport>) {
    let Some(report) = report else { return };
    summary(page, report);
    if report.phase() != proto::Phase::Complete {
        limits(page, report);
    }
}

/// The state of the rollout and its blockers. The headline omits the first blocker, which follows it.
pub fn summary(page: &mut Page, report: &proto::RolloutReport) {
    let first = report.blockers.first();
    let headline = first
        .and_then(|first| report.message.strip_suffix(first.message.as_str()))
        .and_then(|message| message.strip_suffix(": "));
    let headline = headline.unwrap_or(&report.message);
    if !headline.is_empty() {
        page.line(headline, Style::Plain);
    }
    blockers(page, report, false);
}

/// The limits of the rollout with their arithmetic, unless a blocker states it.
fn limits(page: &mut Page, report: &proto::RolloutReport) {
    let counts = report.counts.clone().unwrap_or_default();
    let most = format!("at most {} pods", counts.max_total);
    let least = format!("at least {} available", counts.min_available);
    for (limit, arithmetic) in [
        (most, counts.max_total_arithmetic),
        (least, counts.min_available_arithmetic),
    ] {
        let mut blockers = report.blockers.iter();
        let is_known = blockers.any(|blocker| blocker.message.contains(&arithmetic));
        if !is_known && !arithmetic.is_empty() {
            let text = format!("{limit} ({arithmetic})");
            page.paragraph("  limit: ", Style::Faint, &text, Style::Plain);
        }
    }
    if let Some(deadline) = &report.deadline {
        page.paragraph(
            "  progress deadline: ",
            Style::Faint,
            &deadline.to_string(),
            Style::Plain,
        );
    }
}

/// The blockers of a rollout, and how to fix them. With `is_first_known`, the first blocker has been printed already.
pub(super) fn blockers(page: &mut Page, report: &proto::RolloutReport, is_first_known: bool) {
    for (index, blocker) in report.blockers.iter().enumerate() {
        if index > 0 || !is_first_known {
            page.paragraph("  - ", Style::Plain, &blocker.message, Style::Plain);
        }
        remedy(page, blocker);
    }
    if let Some(verdict) = &report.verdict {
        decision(page, verdict, report.deadline.as_ref());
    }
}

fn remedy(page: &mut Page, blocker: &proto::Blocker) {
    if !blocker.remedy.is_empty() {
        page.paragraph("    remedy: ", Style::Faint, &blocker.remedy, Style::Plain);
    }
}

/// The outlook of a rollout that is not complete, or when it will be known, if that is before the deadline.
fn decision(page: &mut Page, verdict: &proto::Verdict, deadline: Option<&prost_types::Timestamp>) {
    let text = match (verdict.outlook(), verdict.certain) {
        // A deletion needs no change.
        (proto::Outlook::NeedsChange, true) if !verdict.r#final && !verdict.awaits_user => return,
        (proto::Outlook::NeedsChange, true) => "It will not complete until something is changed.",
        (proto::Outlook::CompletesByItself, _) => "It will complete by itself if nothing fails.",
        (proto::Outlook::Undecided, _) => match &verdict.decided_after {
            Some(time) if deadline.is_none_or(|deadline| time.seconds < deadline.seconds) => {
                &format!("If this remains, the failure is certain by {time}.")
            }
            _ => return,
        },
        _ => return,
    };
    page.line(text, Style::Plain);
}

/// The part of a log that shows why its container failed.
pub fn log(page: &mut Page, pod: &proto::BlockedPod, log: &str) {
    let title = format!("Log of container {} of pod {}:", pod.container, pod.name);
    page.line(&title, Style::Strong);
    let LogExcerpt { lines, error, more } = LogExcerpt::of(log);
    for (index, line) in lines.iter().enumerate() {
        let style = if Some(index) == error {
            Style::Bad
        } else {
            Style::Plain
        };
        let text = line.trim_start_matches(' ');
        let lead = format!("  | {}", &line[..line.len() - text.len()]);
        page.paragraph(&lead, Style::Faint, text, style);
    }
    if more > 0 {
        page.line(&format!("  | … {more} more lines"), Style::Faint);
    }
}

/// The maximum number of lines that are shown of a log.
const LOG_LINES: usize = 20;

/// The last lines of a log or, if these are a stack trace only, those that begin with its error.
#[derive(Debug)]
pub struct LogExcerpt {
    /// Tabs are expanded.
    pub lines: Vec<String>,
    /// The line that names the error.
    pub error: Option<usize>,
    /// The number of lines that follow.
    pub more: usize,
}

// === impl LogExcerpt ===

impl LogExcerpt {
    /// The lines of a log that are shown.
    pub fn of(log: &str) -> Self {
        let all: Vec<&str> = log.lines().collect();
        let error = error_line(&all);
        let last = all.len().saturating_sub(LOG_LINES);
        let start = error.map_or(last, |error| error.min(last));
        let end = all.len().min(start + LOG_LINES);
        Self {
            lines: all[start..end].iter().map(|line| expanded(line)).collect(),
            error: error.map(|error| error - start),
            more: all.len() - end,
        }
    }
}

/// A line with its tabs as blanks.
fn expanded(line: &str) -> String {
    const TAB: usize = 8;
    let mut text = String::with_capacity(line.len());
    for (index, part) in line.split('\t').enumerate() {
        if index > 0 {
            let blanks = TAB - width(&text) % TAB;
            text.extend(std::iter::repeat_n(' ', blanks));
        }
        text.push_str(part);
    }
    text
}

pub(super) fn step(page: &mut Page, number: usize, step: &proto::Step) {
    page.paragraph(
        &format!("{number:>2}. "),
        Style::Strong,
        &step.summary,
        Style::Strong,
    );
    let mut detail = |name: &str, text: &str| {
        page.paragraph(&format!("    {name:<12}"), Style::Faint, text, Style::Plain);
    };
    if let Some(call) = &step.call {
        detail("call", &step::call(call));
        match step::precondition(call) {
            test if test.is_empty() => {}
            test => detail("only if", &test),
        }
    }
    if let Some(then) = step::on_failure(step) {
        detail("if it fails", &then);
    }
    for proto::Event {
        r#type,
        reason,
        message,
    } in &step.events
    {
        detail("event", &format!("{type} {reason}: {message}"));
    }
}

fn counters(page: &mut Page, status: &proto::DeploymentStatus) {
    let count = |count: i32| (count.to_string(), Style::Plain);
    let optional =
        |count: Option<i32>| count.map_or_else(|| "-".to_owned(), |count| count.to_string());
    let mut table = Columns::head([
        "REPLICAS",
        "UPDATED",
        "READY",
        "AVAILABLE",
        "UNAVAILABLE",
        "TERMINATING",
        "GENERATION",
    ]);
    table.row(
        [
            count(status.replicas),
            count(status.updated_replicas),
            count(status.ready_replicas),
            count(status.available_replicas),
            count(status.unavailable_replicas),
            (optional(status.terminating_replicas), Style::Plain),
            (status.observed_generation.to_string(), Style::Plain),
        ],
        "",
    );
    page.columns(&table);
}

fn conditions(page: &mut Page, status: &proto::DeploymentStatus) {
    if status.conditions.is_empty() {
        return;
    }
    page.gap();
    let mut table = Columns::head(["CONDITION", "STATUS", "REASON", "SINCE"]);
    for condition in &status.conditions {
        let since = condition.last_transition_time.as_ref();
        table.row(
            [
                (condition.r#type.clone(), Style::Plain),
                (condition.status.clone(), verdict(condition)),
                (condition.reason.clone(), Style::Plain),
                (
                    since.map(ToString::to_string).unwrap_or_default(),
                    Style::Plain,
                ),
            ],
            &condition.message,
        );
    }
    page.columns(&table);
}

/// Green for a good condition, red for a bad one.
fn verdict(condition: &proto::DeploymentCondition) -> Style {
    match (condition.r#type.as_str(), condition.status.as_str()) {
        ("Available" | "Progressing", "True") | ("ReplicaFailure", "False") => Style::Good,
        ("Available" | "Progressing", "False") | ("ReplicaFailure", "True") => Style::Bad,
        _ => Style::Plain,
    }
}

/// For example "9m55s".
pub(super) fn span(duration: &prost_types::Duration) -> String {
    let seconds = duration.seconds.max(0).unsigned_abs();
    // Parts of a second are rounded up.
    span::exact(seconds.saturating_add(u64::from(duration.nanos > 0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_begins_with_the_error_above_a_long_trace() {
        let trace = "\tat a.B.c(B.java:7)\n".repeat(30);
        let log = format!("start\njava.lang.Error: no pool\n{trace}");
        let excerpt = LogExcerpt::of(&log);
        assert_eq!(excerpt.lines.len(), LOG_LINES);
        assert_eq!(excerpt.lines[0], "java.lang.Error: no pool");
        assert_eq!(excerpt.lines[1], "        at a.B.c(B.java:7)");
        assert_eq!((excerpt.error, excerpt.more), (Some(0), 11));
        let log = (0..30).map(|n| format!("{n}\n")).collect::<String>();
        let excerpt = LogExcerpt::of(&log);
        assert_eq!((excerpt.error, excerpt.more), (Some(19), 0));
        assert_eq!(excerpt.lines[0], "10");
        assert_eq!(LogExcerpt::of("").lines, [""; 0]);
    }

    #[test]
    fn undecided_failure_has_a_time_before_the_deadline() {
        let at = |seconds| Some(prost_types::Timestamp { seconds, nanos: 0 });
        let text = |decided_after, deadline: Option<_>| {
            let verdict = proto::Verdict {
                outlook: proto::Outlook::Undecided.into(),
                decided_after: at(decided_after),
                ..Default::default()
            };
            let mut page = Page::new(false);
            decision(&mut page, &verdict, deadline.and_then(at).as_ref());
            page.into_text()
        };
        let expected = "If this remains, the failure is certain by 1970-01-01T00:01:40Z.\n";
        assert_eq!(text(100, None), expected);
        assert_eq!(text(100, Some(101)), expected);
        assert_eq!(text(100, Some(100)), "");
        // The deadline is extended for pods that may still become available.
        assert_eq!(text(100, Some(99)), "");
    }

    #[test]
    fn tabs_are_expanded() {
        assert_eq!(expanded("a\tb\t\tc"), "a       b               c");
        assert_eq!(expanded("12345678\tx"), "12345678        x");
    }
}
