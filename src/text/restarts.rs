//! Formats restarts of workloads, and the uses of a configuration.

use std::collections::HashSet;

use super::page::{Columns, Page, Style};
use super::table::requeue;
use crate::proto;

/// The planned restarts with their causes, and the workloads that wait.
pub(crate) fn restarts(
    page: &mut Page,
    response: &proto::PlanRestartsResponse,
    unknown: &[String],
) {
    let proto::PlanRestartsResponse {
        plans,
        requeue_after,
        counts,
        ..
    } = response;
    let counts = counts.unwrap_or_default();
    page.line(&headline(counts), Style::Strong);
    match counts.workloads {
        _ if counts.selected > 0 => {}
        ..1 => {}
        1 => page.line(
            "The input has 1 workload, and no annotation selects it.",
            Style::Plain,
        ),
        count => page.line(
            &format!("The input has {count} workloads, and no annotation selects one of them."),
            Style::Plain,
        ),
    }
    if !unknown.is_empty() {
        let unknown = format!("Not in the input: {}", unknown.join(", "));
        page.line(&unknown, Style::Plain);
    }
    if let Some(skipped) = skipped(response) {
        page.line(&format!("Incomplete: {skipped}"), Style::Bad);
    }
    if !plans.is_empty() {
        page.gap();
        let mut table = Columns::head(["NAMESPACE", "WORKLOAD", "DECISION", "WHY"]);
        for plan in plans {
            row(&mut table, plan, page.separator());
        }
        page.columns(&table);
    }
    requeue(page, requeue_after.as_ref());
}

/// The objects that were skipped, and the start of the next page.
pub(crate) fn violations(page: &mut Page, response: &proto::PlanRestartsResponse) {
    for violation in &response.violations {
        let text = format!("{}: {}", violation.field, violation.description);
        page.paragraph("skipped: ", Style::Faint, &text, Style::Plain);
    }
    if !response.continue_after.is_empty() {
        let text = format!("There are more: continue_after={}", response.continue_after);
        page.line(&text, Style::Plain);
    }
}

/// The number of objects that were skipped. `None` if there are none.
fn skipped(response: &proto::PlanRestartsResponse) -> Option<String> {
    let omitted = usize::try_from(response.omitted_violations).unwrap_or_default();
    match response.violations.len().saturating_add(omitted) {
        0 => None,
        1 => Some("1 problem in the input, whose object was skipped".to_owned()),
        count => Some(format!(
            "{count} problems in the input, whose objects were skipped"
        )),
    }
}

fn headline(counts: proto::RestartCounts) -> String {
    let proto::RestartCounts {
        selected,
        unknown,
        record,
        wait,
        hold,
        restart,
        ..
    } = counts;
    let mut parts = vec![format!("{restart} of {selected} workloads to restart")];
    for (count, what) in [(wait, "waiting"), (hold, "held"), (record, "to record")] {
        if count > 0 {
            parts.push(format!("{count} {what}"));
        }
    }
    match unknown {
        ..1 => {}
        1 => parts.push("1 reference to an unknown configuration".to_owned()),
        unknown => parts.push(format!("{unknown} references to unknown configurations")),
    }
    parts.join(", ")
}

fn row(table: &mut Columns, plan: &proto::RestartPlan, separator: &str) {
    let (decision, style) = match plan.decision() {
        proto::RestartDecision::Unspecified => ("?", Style::Plain),
        proto::RestartDecision::None => ("none", Style::Faint),
        proto::RestartDecision::Record => ("record", Style::Plain),
        proto::RestartDecision::Wait => ("wait", Style::Plain),
        proto::RestartDecision::Hold => ("hold", Style::Bad),
        proto::RestartDecision::Restart => ("restart", Style::Good),
    };
    let changes = plan.changes.iter().map(|change| change.message.as_str());
    let why: Vec<&str> = changes.collect();
    let why = match why.is_empty() {
        true if plan.decision() == proto::RestartDecision::Record => "first observation".to_owned(),
        true => "-".to_owned(),
        false => why.join(separator),
    };
    let conditions = plan.conditions.iter().map(|condition| {
        let until = condition.until.as_ref();
        let until = until.map(|until| format!(" (until {until})"));
        format!(
            "{}: {}{}",
            condition.reason,
            condition.message,
            until.unwrap_or_default()
        )
    });
    let below: Vec<String> = conditions.collect();
    let plain = |text: String| (text, Style::Plain);
    table.row(
        [
            plain(plan.namespace.clone()),
            plain(format!("{}/{}", plan.kind, plan.name)),
            (decision.to_owned(), style),
            plain(why),
        ],
        &below.join("; "),
    );
}

/// A changed configuration in manifests.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ConfigurationChange {
    /// For example "ConfigMap shop/app".
    pub(crate) name: String,
    /// "changed", "added" or "removed".
    pub(crate) what: &'static str,
    /// The keys whose values differ.
    pub(crate) keys: Vec<String>,
    pub(crate) effects: Vec<ChangeEffect>,
}

/// The effect of a change on a workload that uses the configuration.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ChangeEffect {
    namespace: String,
    kind: String,
    name: String,
    /// Whether a controller of restarts reacts to the change.
    pub(crate) is_restarted: bool,
}

// === impl ChangeEffect ===

impl ChangeEffect {
    /// For example "Deployment shop/web".
    pub(crate) fn workload(&self) -> String {
        match self.namespace.as_str() {
            "" => format!("{}/{}", self.kind, self.name),
            namespace => format!("{} {namespace}/{}", self.kind, self.name),
        }
    }

    /// For example "restarts it".
    pub(crate) fn text(&self) -> &'static str {
        effect_on(&self.kind, self.is_restarted)
    }

    pub(crate) fn is_on(&self, plan: &proto::RestartPlan) -> bool {
        identity(plan) == (&self.namespace, &self.kind, &self.name)
    }
}

fn effect_on(kind: &str, is_restarted: bool) -> &'static str {
    match (is_restarted, kind) {
        (false, _) => "does not restart it",
        (true, "Job") => "is reported",
        (true, "CronJob") => "reaches the next Job",
        (true, _) => "restarts it",
    }
}

/// Namespace, kind and name of a workload.
pub(crate) fn identity(plan: &proto::RestartPlan) -> (&str, &str, &str) {
    (&plan.namespace, &plan.kind, &plan.name)
}

/// The effects of a change of the configuration that all these workloads use. The selected ones react to changes.
pub(crate) fn effects(
    all: &[proto::RestartPlan],
    selected: &[proto::RestartPlan],
) -> Vec<ChangeEffect> {
    let restarted: HashSet<_> = selected.iter().map(identity).collect();
    let effects = all.iter().map(|plan| ChangeEffect {
        namespace: plan.namespace.clone(),
        kind: plan.kind.clone(),
        name: plan.name.clone(),
        is_restarted: restarted.contains(&identity(plan)),
    });
    effects.collect()
}

/// The changed configurations of manifests, with their effects.
pub(crate) fn changes(page: &mut Page, changes: &[ConfigurationChange]) {
    if changes.is_empty() {
        page.line("No ConfigMap or Secret has changed.", Style::Strong);
    }
    for (index, change) in changes.iter().enumerate() {
        if index > 0 {
            page.gap();
        }
        let ConfigurationChange {
            name,
            what,
            keys,
            effects,
        } = change;
        page.line(&format!("{name}: {what}"), Style::Strong);
        if !keys.is_empty() {
            page.paragraph("  keys: ", Style::Faint, &keys.join(", "), Style::Plain);
        }
        if effects.is_empty() {
            page.paragraph(
                "  - ",
                Style::Plain,
                "no workload uses what has changed",
                Style::Faint,
            );
        }
        for effect in effects {
            let style = if effect.is_restarted {
                Style::Good
            } else {
                Style::Faint
            };
            page.paragraph(
                "  - ",
                Style::Plain,
                &format!("{}: {}", effect.workload(), effect.text()),
                style,
            );
        }
    }
}

/// The workloads that use a configuration, and the effect of a change on each.
pub(crate) fn uses(
    page: &mut Page,
    subject: &str,
    all: &proto::PlanRestartsResponse,
    selected: &proto::PlanRestartsResponse,
    reason: &dyn Fn(&proto::RestartPlan) -> String,
) {
    let count = all.plans.len();
    let skipped = skipped(all);
    let what = match count {
        0 if skipped.is_some() => "no use was found".to_owned(),
        0 => "not used by any workload".to_owned(),
        1 => "used by 1 workload".to_owned(),
        count => format!("used by {count} workloads"),
    };
    page.line(&format!("{subject}: {what}"), Style::Strong);
    if let Some(skipped) = skipped {
        let text = format!("Incomplete: {skipped}, and may use it");
        page.line(&text, Style::Bad);
    }
    if count == 0 {
        return;
    }
    page.gap();
    let restarted: HashSet<_> = selected.plans.iter().map(identity).collect();
    let mut table = Columns::head(["NAMESPACE", "WORKLOAD", "USED AS", "KEYS", "A CHANGE"]);
    for plan in &all.plans {
        for used in &plan.uses {
            let usages: Vec<&str> = used.usages().map(usage).collect();
            let keys = match used.keys.as_slice() {
                [] => "all".to_owned(),
                keys => keys.join(page.separator()),
            };
            let plain = |text: String| (text, Style::Plain);
            let is_restarted = restarted.contains(&identity(plan));
            let reason = match is_restarted {
                true => String::new(),
                false => reason(plan),
            };
            let style = match (is_restarted, plan.kind.as_str()) {
                (false, _) => Style::Faint,
                (true, "Job" | "CronJob") => Style::Plain,
                (true, _) => Style::Good,
            };
            table.row(
                [
                    plain(plan.namespace.clone()),
                    plain(format!("{}/{}", plan.kind, plan.name)),
                    plain(usages.join(", ")),
                    plain(keys),
                    (effect_on(&plan.kind, is_restarted).to_owned(), style),
                ],
                &reason,
            );
        }
    }
    page.columns(&table);
}

fn usage(usage: proto::ReferenceUsage) -> &'static str {
    match usage {
        proto::ReferenceUsage::Unspecified => "?",
        proto::ReferenceUsage::Env => "env",
        proto::ReferenceUsage::EnvFrom => "envFrom",
        proto::ReferenceUsage::SubPath => "subPath",
        proto::ReferenceUsage::Volume => "volume",
        proto::ReferenceUsage::Unmounted => "unmounted volume",
        proto::ReferenceUsage::ImagePull => "imagePullSecret",
        proto::ReferenceUsage::Named => "named",
    }
}
