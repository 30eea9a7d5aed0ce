//! Formats restarts of workloads, and the uses of a configuration.

use std::fmt;

use rollplan_wire::proto;

use super::page::{Columns, Page, Style};
use super::table::requeue;

/// The planned restarts with their causes, and the workloads that wait.
pub fn restarts(page: &mut Page, response: &proto::PlanRestartsResponse, unknown: &[String]) {
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
pub fn violations(page: &mut Page, response: &proto::PlanRestartsResponse) {
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
    let mut conditions = plan.conditions.iter();
    let is_explained = conditions.any(|it| it.effect() == proto::RestartConditionEffect::NotNeeded);
    let why = match why.is_empty() {
        true if plan.decision() == proto::RestartDecision::Record && !is_explained => {
            "first observation".to_owned()
        }
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

/// What a change of manifests does.
#[derive(Debug, PartialEq, Eq)]
pub struct ManifestChanges {
    /// The workloads that are affected, or use a configuration that has changed.
    pub workloads: Vec<WorkloadChange>,
    /// The configurations that have changed.
    pub configurations: Vec<ConfigurationChange>,
    /// What the answer may lack.
    pub notes: Vec<String>,
}

/// What a change does to a workload.
#[derive(Debug, PartialEq, Eq)]
pub struct WorkloadChange {
    /// The workload.
    pub workload: ObjectName,
    /// What happens to its pods.
    pub result: WorkloadResult,
    /// Why.
    pub reasons: Vec<String>,
    /// The required configurations and keys without which new pods cannot start.
    pub missing: Vec<String>,
    /// Why the API server refuses the change. Empty if it does not.
    pub refusal: String,
}

/// Namespace, kind and name of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectName {
    /// The namespace. Empty if it is absent.
    pub namespace: String,
    /// The kind.
    pub kind: String,
    /// The name.
    pub name: String,
}

/// What happens to the pods of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadResult {
    /// The controller of the workload replaces them, because its template has changed.
    Replaced,
    /// The controller of restarts replaces them.
    Restarted,
    /// They stay.
    NotRestarted,
    /// The workload is new.
    Added,
    /// The workload is not in the new manifests.
    Removed,
}

/// A changed configuration in manifests.
#[derive(Debug, PartialEq, Eq)]
pub struct ConfigurationChange {
    /// The ConfigMap or Secret.
    pub configuration: ObjectName,
    /// "changed", "added" or "removed".
    pub what: &'static str,
    /// The keys whose values differ.
    pub keys: Vec<String>,
    /// The workloads that use what has changed.
    pub users: Vec<ObjectName>,
    /// Why the API server refuses the change. Empty if it does not.
    pub refusal: String,
}

// === impl ObjectName ===

/// For example "Deployment shop/web".
impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            namespace,
            kind,
            name,
        } = self;
        match namespace.as_str() {
            "" => write!(f, "{kind} {name}"),
            namespace => write!(f, "{kind} {namespace}/{name}"),
        }
    }
}

// === impl ManifestChanges ===

impl ManifestChanges {
    /// The number of workloads with each result.
    pub fn headline(&self) -> String {
        let workloads = self.workloads.iter().map(|it| &it.refusal);
        let configurations = self.configurations.iter().map(|it| &it.refusal);
        let refusals = workloads.chain(configurations);
        let refused = match refusals.filter(|it| !it.is_empty()).count() {
            0 => String::new(),
            1 => "; the API server refuses 1 change".to_owned(),
            count => format!("; the API server refuses {count} changes"),
        };
        if self.workloads.is_empty() {
            let headline = match (self.configurations.is_empty(), refused.is_empty()) {
                (true, _) => "no pod template, ConfigMap or Secret has changed",
                (false, true) => "no workload uses what has changed",
                (false, false) => "no workload is affected",
            };
            return format!("{headline}{refused}");
        }
        let results = [
            (
                WorkloadResult::Replaced,
                "replaced by its own template",
                "replaced by their own templates",
            ),
            (
                WorkloadResult::Restarted,
                "restarted because of its configuration",
                "restarted because of their configurations",
            ),
            (
                WorkloadResult::NotRestarted,
                "not restarted",
                "not restarted",
            ),
            (WorkloadResult::Added, "new", "new"),
            (WorkloadResult::Removed, "removed", "removed"),
        ];
        let parts = results.into_iter().filter_map(|(result, one, many)| {
            let all = self.workloads.iter().filter(|it| it.result == result);
            match all.count() {
                0 => None,
                1 => Some(format!("1 {one}")),
                count => Some(format!("{count} {many}")),
            }
        });
        let parts: Vec<String> = parts.collect();
        let workloads = match self.workloads.len() {
            1 => "1 workload".to_owned(),
            count => format!("{count} workloads"),
        };
        let missing = self.workloads.iter().filter(|it| !it.missing.is_empty());
        let missing = match missing.count() {
            0 => String::new(),
            1 => "; new pods of 1 workload could not start".to_owned(),
            count => format!("; new pods of {count} workloads could not start"),
        };
        format!("{workloads}: {}{missing}{refused}", parts.join(", "))
    }
}

// === impl WorkloadResult ===

impl WorkloadResult {
    /// The result as text.
    pub fn text(self) -> &'static str {
        match self {
            Self::Replaced => "replaced by its own template",
            Self::Restarted => "restarted because of its configuration",
            Self::NotRestarted => "not restarted",
            Self::Added => "new",
            Self::Removed => "removed",
        }
    }

    fn style(self) -> Style {
        match self {
            Self::Replaced | Self::Restarted => Style::Good,
            Self::NotRestarted | Self::Added | Self::Removed => Style::Plain,
        }
    }
}

/// Namespace, kind and name of a workload.
pub fn identity(plan: &proto::RestartPlan) -> (&str, &str, &str) {
    (&plan.namespace, &plan.kind, &plan.name)
}

/// The results of a change of manifests, and the changed configurations.
pub fn changes(page: &mut Page, changes: &ManifestChanges) {
    page.line(&changes.headline(), Style::Strong);
    if !changes.workloads.is_empty() {
        page.gap();
    }
    for workload in &changes.workloads {
        let line = format!("{}: {}", workload.workload, workload.result.text());
        page.line(&line, workload.result.style());
        if !workload.refusal.is_empty() {
            page.paragraph("  - ", Style::Plain, &workload.refusal, Style::Bad);
        }
        for reason in &workload.reasons {
            page.paragraph("  - ", Style::Plain, reason, Style::Faint);
        }
        for missing in &workload.missing {
            page.paragraph("  - ", Style::Plain, missing, Style::Bad);
        }
    }
    for change in &changes.configurations {
        let ConfigurationChange {
            configuration,
            what,
            keys,
            users,
            refusal,
        } = change;
        page.gap();
        page.line(&format!("{configuration}: {what}"), Style::Plain);
        if !refusal.is_empty() {
            page.paragraph("  - ", Style::Plain, refusal, Style::Bad);
        }
        if !keys.is_empty() {
            page.paragraph("  keys: ", Style::Faint, &keys.join(", "), Style::Plain);
        }
        let users = if users.is_empty() {
            "no workload".to_owned()
        } else {
            listed(users)
        };
        page.paragraph("  read by: ", Style::Faint, &users, Style::Plain);
    }
}

/// For example "Deployment shop/api, Deployment shop/web".
fn listed(objects: &[ObjectName]) -> String {
    let objects: Vec<String> = objects.iter().map(ObjectName::to_string).collect();
    objects.join(", ")
}

/// A workload that uses a configuration.
#[derive(Debug)]
pub struct ConfigurationUser {
    /// The workload, with its uses of the configuration.
    pub plan: proto::RestartPlan,
    /// Whether a change restarts it.
    pub is_restarted: bool,
    /// Why a change does not restart it.
    pub reasons: Vec<String>,
}

// === impl ConfigurationUser ===

impl ConfigurationUser {
    /// The workload.
    pub fn workload(&self) -> ObjectName {
        let (namespace, kind, name) = identity(&self.plan);
        let [namespace, kind, name] = [namespace, kind, name].map(str::to_owned);
        ObjectName {
            namespace,
            kind,
            name,
        }
    }

    /// What a change of the configuration does.
    pub fn effect(&self) -> &'static str {
        if self.is_restarted {
            "restarts it"
        } else {
            "does not restart it"
        }
    }
}

/// How many workloads use a configuration. Those that could not be read may use it, too.
pub fn uses_heading(subject: &str, users: usize, is_complete: bool) -> String {
    match users {
        0 if is_complete => format!("{subject}: not used by any workload"),
        0 => format!("{subject}: no use was found"),
        1 => format!("{subject}: used by 1 workload"),
        count => format!("{subject}: used by {count} workloads"),
    }
}

/// The workloads that use a configuration, and the effect of a change on each.
pub fn uses(
    page: &mut Page,
    heading: &str,
    users: &[ConfigurationUser],
    response: &proto::PlanRestartsResponse,
) {
    page.line(heading, Style::Strong);
    if let Some(skipped) = skipped(response) {
        let text = format!("Incomplete: {skipped}, and may use it");
        page.line(&text, Style::Bad);
    }
    if users.is_empty() {
        return;
    }
    page.gap();
    let mut table = Columns::head(["NAMESPACE", "WORKLOAD", "USED AS", "KEYS", "A CHANGE"]);
    for user in users {
        let ConfigurationUser {
            plan,
            is_restarted,
            reasons,
        } = user;
        for used in &plan.uses {
            let usages: Vec<&str> = used.usages().map(usage).collect();
            let keys = match used.keys.as_slice() {
                [] => "all".to_owned(),
                keys => keys.join(page.separator()),
            };
            let plain = |text: String| (text, Style::Plain);
            let style = if *is_restarted {
                Style::Good
            } else {
                Style::Faint
            };
            table.row(
                [
                    plain(plan.namespace.clone()),
                    plain(format!("{}/{}", plan.kind, plan.name)),
                    plain(usages.join(", ")),
                    plain(keys),
                    (user.effect().to_owned(), style),
                ],
                &reasons.join("; "),
            );
        }
    }
    page.columns(&table);
}

/// For example "envFrom".
pub fn usage(usage: proto::ReferenceUsage) -> &'static str {
    match usage {
        proto::ReferenceUsage::Unspecified => "?",
        proto::ReferenceUsage::Env => "env",
        proto::ReferenceUsage::EnvFrom => "envFrom",
        proto::ReferenceUsage::SubPath => "subPath",
        proto::ReferenceUsage::Volume => "volume",
        proto::ReferenceUsage::Unmounted => "unmounted volume",
        proto::ReferenceUsage::ImagePull => "imagePullSecret",
        proto::ReferenceUsage::Named => "named",
        proto::ReferenceUsage::VolumeAccess => "access to a volume",
    }
}
