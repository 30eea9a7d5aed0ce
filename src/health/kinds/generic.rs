//! Kinds without a file of their own: one rule for the fields that many controllers share, and the rows of `table.rs` for
//! kinds that use these fields differently. docs/reference/kinds.md has the rule.
//!
//! Only named conditions count, because a false condition may be good. A condition that must be true and is not true yet is
//! never a failure by itself, because every rollout passes through this state.

use std::collections::BTreeMap;

use rollplan_core::kind::is_built_in;
use rollplan_core::time::Time;

use super::Condition;
use super::observed::{ObservedObject, explained};
use super::table::{self, Key, KindRow, Nested, OWN_NAMESPACE, PAUSED_FIELDS, Word};
use crate::explain::{Blocker, Cause};
use crate::judge::verdict::{Outlook, Verdict};
use crate::report::{Phase, Report};
use crate::text::{KUBERNETES_MAX, NAME_MAX, because, one_line};

/// Conditions that report a failure while they are true, of any kind. So do types that end in [`TERMINAL`].
const BAD: [&str; 7] = [
    "Stalled",
    "Failed",
    "Failing",
    "InvalidSpec",
    "ErrorOccurred",
    "NotReady",
    "Degraded",
];
const TERMINAL: &str = ".Terminal";
/// Conditions that report a pause while they have this status for this reason. Those of Crossplane and of the Operator
/// Lifecycle Manager (crossplane-runtime: apis/common/v1/condition.go, ReconcilePaused; operator-framework/api:
/// pkg/operators/v1alpha1/subscription_types.go, SubscriptionInstallPlanPending).
const PAUSED: [(&str, &str, &str); 2] = [
    ("Synced", "False", "ReconcilePaused"),
    ("InstallPlanPending", "True", "RequiresApproval"),
];
/// How to end a pause, by the reason or the word that reports it.
const RESUMED_BY: [(&str, &str); 2] = [
    (
        "ReconcilePaused",
        "remove the annotation crossplane.io/paused",
    ),
    (
        "RequiresApproval",
        "approve the InstallPlan: set its field spec.approved to true",
    ),
];
/// A condition that does not report a failure for this reason.
const CREATING: (&str, &str) = ("NotReady", "Creating");
/// Conditions that report work while they are true. Progressing is one of them only beside those of [`UPDATING`]: Deployments
/// keep it true.
const BUSY: [&str; 2] = ["Reconciling", "RolloutProgressing"];
/// The condition that operators, such as those of OpenShift and KubeVirt, have while they apply a change: those that report
/// their own health in one of the other conditions. They may be true during the change, and pass.
const UPDATING: (&str, [&str; 2]) = ("Progressing", ["Degraded", "Failing"]);
/// The condition that summarizes all others.
const SUMMARY: &str = "Ready";
/// Conditions that are good while they are true, of kinds without the summary.
const GOOD: [&str; 12] = [
    "Succeeded",
    "Complete",
    "Available",
    "Healthy",
    "Established",
    "Programmed",
    "Accepted",
    "Synced",
    "Installed",
    "Deployed",
    "Valid",
    "Reconciled",
];
/// Conditions that must be true beside the summary.
const BESIDE: [&str; 6] = [
    "ResolvedRefs",
    "NamesAccepted",
    "Synced",
    "ReconcileSuccess",
    "LastAsyncOperation",
    "AsyncOperation",
];
/// The maximum number of conditions in a message.
const CONDITIONS_LISTED_MAX: usize = 8;
/// The maximum number of errors and nested conditions that explain a message.
const DETAILS_LISTED_MAX: usize = 3;

/// The fields of an object that the rule reads, by their paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// Whether the object has a status that is not empty.
    pub has_status: bool,
    /// Whether its kind has a status subresource. `None` if that is unknown.
    pub has_status_subresource: Option<bool>,
    /// Strings, and numbers and truth values as text. Empty ones are omitted.
    pub texts: BTreeMap<&'static str, String>,
    /// The requests that exist.
    pub requests: Vec<&'static str>,
    /// Numbers.
    pub numbers: BTreeMap<&'static str, i64>,
    /// The items of the list of the status that has nested conditions.
    pub nested: Vec<Item>,
    /// The keys of the items that this list must have.
    pub wanted: Vec<Vec<String>>,
    /// The errors that the status lists.
    pub errors: Vec<String>,
    /// Other conditions within the status, with the paths of the objects that have them.
    pub inner_conditions: Vec<(String, Condition)>,
}

/// An item of a list of the status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Item {
    /// The values of the fields that identify it.
    pub key: Vec<String>,
    /// Its conditions.
    pub conditions: Vec<Condition>,
}

/// What the rule has found so far.
struct Judge<'a, 's> {
    object: &'a ObservedObject<'s>,
    fields: &'a Fields,
    row: &'static KindRow,
    /// Whether the row is one of the table.
    is_known: bool,
    /// Whether the status is of an earlier generation.
    is_behind: bool,
    /// The evidence that the object is complete.
    good: Option<String>,
}

pub(super) fn report(fields: &Fields, object: &ObservedObject<'_>) -> Report {
    let (group, kind) = (object.group(), object.snapshot.kind.as_str());
    let row = table::row(group, kind);
    let row = row.filter(|row| row.unjudged_version != object.snapshot.api_version);
    if table::is_configuration(group, kind) {
        return object.complete(NOTHING, Vec::new());
    }
    let mut judge = Judge {
        object,
        fields,
        row: row.unwrap_or(&table::GENERAL),
        is_known: row.is_some(),
        is_behind: object.unobserved().is_some(),
        good: None,
    };
    if let Some(report) = judge.undone() {
        return report;
    }
    let is_observed = object.snapshot.observed_generation.is_some();
    if judge.row.is_complete_when_observed && is_observed {
        judge.good.get_or_insert("is observed".to_owned());
    }
    if let Some(what) = judge.good {
        let is_certain = judge.is_known || is_observed || object.condition(SUMMARY).is_some();
        let verdict = Verdict::new(Outlook::Complete, is_certain, None);
        return object.report(Phase::Complete, what, Vec::new(), verdict, Vec::new());
    }
    let is_unknown_word = judge.words().next().is_some();
    if judge.is_known && !is_unknown_word {
        let message = "its controller has not reported its state yet".to_owned();
        return judge.missing(message);
    }
    let has_none = !fields.has_status && fields.has_status_subresource == Some(false);
    // Most kinds of Kubernetes have no controller that makes them ready.
    let is_passive = is_built_in(group) && table::row(group, kind).is_none();
    if has_none || is_passive {
        return object.complete(NOTHING, Vec::new());
    }
    judge.not_judged()
}

const NOTHING: &str = "has nothing to wait for";

// === impl Judge ===

impl Judge<'_, '_> {
    /// The report on an object that is not complete. `None` otherwise: `good` is then the evidence that it is complete, if
    /// any.
    fn undone(&mut self) -> Option<Report> {
        // A controller may not observe the change that pauses it.
        self.paused_by_field()
            .or_else(|| self.requested())
            .or_else(|| self.unobserved())
            .or_else(|| self.paused_by_condition())
            .or_else(|| self.failed())
            .or_else(|| self.busy())
            .or_else(|| self.by_words())
            .or_else(|| self.by_conditions())
            .or_else(|| self.by_nested())
            .or_else(|| self.by_counters())
    }

    fn paused_by_field(&self) -> Option<Report> {
        let field = PAUSED_FIELDS
            .into_iter()
            .find(|path| self.text(path) == "true")?;
        let message = format!("{field} is true");
        let remedy = format!("resume it: set {field} to false");
        Some(self.paused(message, remedy))
    }

    fn paused_by_condition(&self) -> Option<Report> {
        let by_reason = || {
            let mut conditions = self.object.snapshot.conditions.iter();
            conditions.find(|it| PAUSED.contains(&(&it.kind, self.status(it), &it.reason)))
        };
        let condition = self.first_true(&["Paused"], self.row.paused);
        let condition = condition.or_else(by_reason)?;
        let what = format!("its condition {} is {}", name(condition), truth(condition));
        let what = format!("{what}{}", explained(condition));
        Some(self.paused(what, resumption(&condition.reason)))
    }

    fn requested(&self) -> Option<Report> {
        let handled = || {
            let (annotation, field) = self.row.handled?;
            let annotations = &self.object.snapshot.metadata.annotations;
            let wanted = annotations.get(annotation)?;
            (self.text(field) != wanted).then(|| {
                let wanted = one_line(wanted, KUBERNETES_MAX);
                format!("its controller has not handled the annotation {annotation} yet ({wanted})")
            })
        };
        let requested = || {
            let field = self.fields.requests.first()?;
            Some(format!(
                "its controller has not done yet what the field {field} requests"
            ))
        };
        let message = handled().or_else(requested)?;
        let blocker = Blocker::new(Cause::GenerationUnobserved, message, "");
        Some(self.object.open(Phase::Progressing, "is waiting", blocker))
    }

    /// Some controllers, such as those of Flux, report a failure only in conditions, with their generation.
    fn unobserved(&self) -> Option<Report> {
        let blocker = self.object.unobserved()?;
        let by_summary = || {
            let condition = self.object.condition(SUMMARY)?;
            let is_false = self.status(condition) == "False";
            let what = self.fault(condition).filter(|_| is_false)?;
            let blocker = self
                .object
                .of_condition(Cause::ConditionFalse, &what, condition);
            Some(self.not_ready(blocker))
        };
        let by_conditions = self.paused_by_condition();
        let by_conditions = by_conditions.or_else(|| self.failed());
        let by_conditions = by_conditions.or_else(|| self.busy()).or_else(by_summary);
        let open = || self.object.open(Phase::Progressing, "is waiting", blocker);
        Some(by_conditions.unwrap_or_else(open))
    }

    /// The condition that an operator is applying a change.
    fn updating(&self) -> Option<&Condition> {
        let (updating, health) = UPDATING;
        let mut health = health.iter();
        let is_operator = health.any(|kind| self.object.condition(kind).is_some());
        self.first_true(&[updating], &[]).filter(|_| is_operator)
    }

    fn failed(&self) -> Option<Report> {
        let is_updating = self.updating().is_some();
        let conditions = self.object.snapshot.conditions.iter();
        let failed = conditions.filter(|condition| {
            let kind = condition.kind.as_str();
            if is_updating && UPDATING.1.contains(&kind) {
                return false;
            }
            let is_bad =
                BAD.contains(&kind) || self.row.bad.contains(&kind) || kind.ends_with(TERMINAL);
            match self.status(condition) {
                "True" => is_bad && by_reason(condition) != CREATING,
                "False" => {
                    self.row.fails_when_false.contains(&kind)
                        || self.row.failed_reasons.contains(&by_reason(condition))
                }
                _ => false,
            }
        });
        // A condition that is false because of a failure only refers to the one that reports it.
        let failed = failed.min_by_key(|it| (it.status == "False", it.message.is_empty()))?;
        let what = format!("its condition {} is {}", name(failed), truth(failed));
        let what = format!("{what}{}", explained(failed));
        Some(self.stalled(what, failed.last_transition_time))
    }

    fn busy(&self) -> Option<Report> {
        let condition = self
            .first_true(&BUSY, self.row.busy)
            .or_else(|| self.updating())
            .or_else(|| self.first_true(&[CREATING.0], &[]))?;
        let what = match condition.kind.as_str() {
            "Reconciling" => "its controller is working on it".to_owned(),
            _ => format!("its condition {} is true", name(condition)),
        };
        let blocker = self
            .object
            .of_condition(Cause::Reconciling, &what, condition);
        let what = "is being reconciled";
        Some(self.in_progress(what, blocker))
    }

    /// The words that the object has, in the order in which they decide.
    fn words(&self) -> impl Iterator<Item = (&'static Word, &str)> {
        let words = self.row.words.iter();
        let words = words.filter(|word| {
            let about = word.about.map(|(of, now)| (self.text(of), self.text(now)));
            about.is_none_or(|(of, now)| of == now || of.is_empty() || now.is_empty())
        });
        let words = words.map(|word| (word, self.text(word.path)));
        words.filter(|(_, text)| !text.is_empty())
    }

    fn by_words(&mut self) -> Option<Report> {
        let mut good = None;
        for (word, text) in self.words() {
            let has = |list: &[&str]| list.iter().any(|it| it.eq_ignore_ascii_case(text));
            let is = format!("{} is {}", word.path, one_line(text, KUBERNETES_MAX));
            let explained = one_line(self.text(word.message), KUBERNETES_MAX);
            let message = format!("{is}{}", because(&explained));
            if has(word.failed) {
                return Some(self.stalled(message, None));
            } else if has(word.paused) {
                return Some(self.paused(message, resumption(text)));
            } else if has(word.busy) {
                let blocker = Blocker::new(Cause::Reconciling, message, "");
                return Some(self.not_ready(blocker));
            } else if word.is_any() {
                good = Some(format!("is complete: {} is set", word.path));
            } else if has(word.good) {
                good = Some(format!("is complete: {is}"));
            } else if !word.is_optional {
                return Some(self.not_judged());
            }
        }
        self.good = good;
        let mut missing = self.row.words.iter();
        let missing = missing.find(|word| !word.is_optional && self.text(word.path).is_empty())?;
        let why = because(&one_line(self.text(missing.message), KUBERNETES_MAX));
        Some(self.missing(format!("{} is not set yet{why}", missing.path)))
    }

    fn by_conditions(&mut self) -> Option<Report> {
        let exists = |kind: &&&str| self.object.condition(kind).is_some();
        let mut good: Vec<&str> = Vec::new();
        if self.is_known {
            for alternatives in self.row.required {
                let all = alternatives.iter().filter(exists).copied();
                let before = good.len();
                good.extend(all);
                if good.len() == before {
                    let first = alternatives.first().copied().unwrap_or_default();
                    return Some(self.missing(format!("it has no condition {first} yet")));
                }
            }
        } else if self.object.condition(SUMMARY).is_some() {
            good.push(SUMMARY);
        } else {
            good.extend(GOOD.iter().filter(exists));
        }
        let beside = BESIDE.iter().chain(self.row.counted).copied();
        for kind in good.iter().copied().chain(beside) {
            let Some(condition) = self.object.condition(kind) else {
                continue;
            };
            if let Some(what) = self.fault(condition) {
                let object = self.object;
                let blocker = object.of_condition(Cause::ConditionFalse, &what, condition);
                return Some(self.not_ready(blocker));
            }
        }
        self.good = match &good[..] {
            [] => self.good.take(),
            [SUMMARY] => Some("is ready, according to its condition Ready".to_owned()),
            [one] => Some(format!("is complete, according to its condition {one}")),
            all => Some(format!(
                "is complete, according to its conditions {}",
                all.join(", ")
            )),
        };
        None
    }

    /// The problem with a condition that must be true.
    fn fault(&self, condition: &Condition) -> Option<String> {
        match self.status(condition) {
            "True" => None,
            "False" if self.row.excused.contains(&by_reason(condition)) => None,
            _ => Some(format!(
                "its condition {} is {}",
                name(condition),
                if self.is_stale(condition) {
                    "of an earlier generation"
                } else {
                    truth(condition)
                }
            )),
        }
    }

    fn by_nested(&mut self) -> Option<Report> {
        let nested = self.row.nested?;
        let (items, all_wanted) = (&self.fields.nested, &self.fields.wanted);
        for (index, wanted) in all_wanted.iter().enumerate() {
            let own = items.iter().filter(|item| item.key == *wanted);
            let place = format!("{}[{index}]{}", nested.wanted, label(nested.key, wanted));
            if let Some(report) = self.by_items(&nested, &place, own) {
                return Some(report);
            }
        }
        let is_implied = !matches!(self.text(nested.implied_by), "" | "None");
        if all_wanted.is_empty() && is_implied {
            let report = self.by_items(&nested, nested.implied_by, items.iter());
            if report.is_some() {
                return report;
            }
        }
        let good = if all_wanted.is_empty() && !is_implied {
            format!("is complete: {} is empty", nested.wanted)
        } else {
            format!(
                "is complete, according to the condition {} of each item in {}",
                nested.required.join(" or "),
                nested.path
            )
        };
        self.good.get_or_insert(good);
        None
    }

    /// The report unless one of the items is as it must be.
    fn by_items<'i>(
        &self,
        nested: &Nested,
        place: &str,
        items: impl Iterator<Item = &'i Item>,
    ) -> Option<Report> {
        let mut faults = Vec::new();
        for item in items {
            faults.push(self.fault_of_item(nested, item)?);
        }
        // What a controller reports on an earlier generation may not be the problem of this one.
        let fault = faults
            .into_iter()
            .min_by_key(|(_, condition)| condition.is_none_or(|it| self.is_stale(it)));
        let Some((what, condition)) = fault else {
            let message = format!("{} has no item for {place} yet", nested.path);
            let blocker = Blocker::new(Cause::ConditionFalse, message, nested.remedy);
            return Some(self.in_progress("is waiting", blocker));
        };
        let what = format!("{place}: {what}");
        Some(match condition {
            Some(condition) => {
                let cause = Cause::ConditionFalse;
                self.not_ready(self.object.of_condition(cause, &what, condition))
            }
            None => self.missing(what),
        })
    }

    /// The problem with an item, and the condition that has it.
    fn fault_of_item<'i>(
        &self,
        nested: &Nested,
        item: &'i Item,
    ) -> Option<(String, Option<&'i Condition>)> {
        let is_one_of = |kinds: &[&str], condition: &Condition| kinds.contains(&&*condition.kind);
        let conditions = || item.conditions.iter();
        if !conditions().any(|it| is_one_of(nested.required, it)) {
            let required = nested.required.join(" or ");
            return Some((format!("it has no condition {required} yet"), None));
        }
        let mut wanted = conditions()
            .filter(|it| is_one_of(nested.required, it) || is_one_of(nested.counted, it));
        let fault = wanted.find_map(|it| Some((self.fault(it)?, Some(it))));
        fault.or_else(|| {
            let mut unwanted = conditions().filter(|it| is_one_of(nested.unwanted, it));
            let unwanted = unwanted.find(|it| self.status(it) == "True")?;
            let what = format!("its condition {} is true", name(unwanted));
            Some((what, Some(unwanted)))
        })
    }

    fn by_counters(&mut self) -> Option<Report> {
        let counters = self.row.counters;
        let numbers = &self.fields.numbers;
        let wanted = *numbers.get(counters.wanted)?;
        let required = counters.required.iter();
        let required = required.map(|path| (path, numbers.get(path).copied().unwrap_or_default()));
        let counted = counters.counted.iter();
        let counted = counted.filter_map(|path| Some((path, *numbers.get(path)?)));
        let mut enough = None;
        for (path, number) in required.chain(counted) {
            if number < wanted {
                let message = format!("{path} is {number}, and {} is {wanted}", counters.wanted);
                let blocker = Blocker::new(Cause::NotAvailable, message, "");
                return Some(self.not_ready(blocker));
            }
            enough = Some(format!("is complete: {path} is {number} of {wanted}"));
        }
        // The pods of a workload may be updated and not ready.
        let is_ready = ["status.readyReplicas", "status.availableReplicas"]
            .iter()
            .any(|path| numbers.contains_key(path));
        if !self.is_known && is_ready {
            self.good = self.good.take().or(enough);
        }
        None
    }

    fn text(&self, path: &str) -> &str {
        self.fields.texts.get(path).map_or("", String::as_str)
    }

    /// Whether the condition was written for an earlier generation.
    fn is_stale(&self, condition: &Condition) -> bool {
        let generation = self.object.snapshot.metadata.generation;
        let observed = condition.observed_generation;
        observed.map_or(self.is_behind, |observed| observed < generation)
    }

    /// The status of a condition for the latest generation.
    fn status<'c>(&self, condition: &'c Condition) -> &'c str {
        if self.is_stale(condition) {
            "Unknown"
        } else {
            &condition.status
        }
    }

    /// The first condition of these types that is true.
    fn first_true(&self, kinds: &[&str], more: &[&str]) -> Option<&Condition> {
        let mut conditions = self.object.snapshot.conditions.iter();
        conditions.find(|condition| {
            let kind = condition.kind.as_str();
            (kinds.contains(&kind) || more.contains(&kind)) && self.status(condition) == "True"
        })
    }

    fn not_ready(&self, blocker: Blocker) -> Report {
        self.in_progress("is not ready", blocker)
    }

    /// The report on an object whose controller has not written a field that its kind has.
    fn missing(&self, message: String) -> Report {
        let blocker = Blocker::new(Cause::ConditionFalse, message, "");
        self.in_progress("is waiting", blocker)
    }

    fn in_progress(&self, what: &str, mut blocker: Blocker) -> Report {
        blocker.message = self.with_details(blocker.message);
        self.object.open(Phase::Progressing, what, blocker)
    }

    /// The message, with what the status reports in other places.
    fn with_details(&self, mut message: String) -> String {
        let mut left = DETAILS_LISTED_MAX;
        for detail in self.details() {
            if left > 0 && !message.contains(&detail) {
                message = format!("{message}; {detail}");
                left -= 1;
            }
        }
        message
    }

    /// The errors that the status lists, and the messages of conditions that explain why the object is not complete.
    fn details(&self) -> impl Iterator<Item = String> {
        let row = self.row;
        let is_good =
            |kind: &str| kind == SUMMARY || GOOD.contains(&kind) || BESIDE.contains(&kind);
        let own = self.object.snapshot.conditions.iter();
        let own = own.filter(move |it| {
            let kind = it.kind.as_str();
            let is_excused = row.excused.contains(&by_reason(it));
            (is_good(kind) || row.explaining.contains(&kind)) && !is_excused
        });
        let own = own.map(|condition| (String::new(), condition));
        let inner = self.fields.inner_conditions.iter();
        let inner = inner.filter(move |(_, it)| is_good(&it.kind));
        let inner = inner.map(|(place, it)| (format!("{}: ", one_line(place, NAME_MAX)), it));
        let conditions = own.chain(inner).filter(|(_, condition)| {
            self.status(condition) == "False" && !condition.message.is_empty()
        });
        let conditions = conditions.map(|(place, condition)| {
            let why = explained(condition);
            format!("{place}{} is false{why}", name(condition))
        });
        let errors = self.fields.errors.iter();
        errors
            .map(|error| one_line(error, KUBERNETES_MAX))
            .chain(conditions)
    }

    fn paused(&self, message: String, remedy: impl Into<String>) -> Report {
        let (message, remedy, is_resumed) = match self.object.resumed_by() {
            Some(by) => (format!("{message}; {by}"), String::new(), true),
            None => (message, remedy.into(), false),
        };
        let blocker = Blocker::new(Cause::Paused, message, remedy);
        let verdict = if is_resumed {
            Verdict::new(Outlook::Undecided, false, Some(&blocker))
        } else {
            Verdict::new(Outlook::NeedsChange, true, Some(&blocker))
        };
        let blockers = vec![blocker];
        self.object
            .report(Phase::Paused, "is paused", blockers, verdict, Vec::new())
    }

    /// The judgement of its controller, which may recover unless the failure is final.
    fn stalled(&self, message: String, since: Option<Time>) -> Report {
        let (cause, what) = if self.row.is_final {
            (Cause::JobFailed, "has failed")
        } else {
            (Cause::ControllerStalled, "is stalled")
        };
        let mut blocker = Blocker::new(cause, self.with_details(message), "");
        blocker.since = since;
        let verdict = Verdict::new(Outlook::NeedsChange, self.row.is_final, Some(&blocker));
        self.object
            .report(Phase::Stalled, what, vec![blocker], verdict, Vec::new())
    }

    /// The report on an object that no rule judges: the content of its status, and how to judge it.
    fn not_judged(&self) -> Report {
        let conditions = &self.object.snapshot.conditions;
        let mut found: Vec<String> = self
            .words()
            .map(|(word, text)| format!("{} is {}", word.path, one_line(text, NAME_MAX)))
            .collect();
        if !conditions.is_empty() {
            let listed: Vec<_> = conditions
                .iter()
                .take(CONDITIONS_LISTED_MAX)
                .map(|condition| {
                    let status = one_line(&condition.status, NAME_MAX);
                    format!("{}={status}", name(condition))
                })
                .collect();
            let more = match conditions.len().saturating_sub(listed.len()) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            found.push(format!("conditions {}{more}", listed.join(", ")));
        }
        let message = match (&found[..], self.fields.has_status) {
            ([], false) => "it has no status yet".to_owned(),
            ([], true) => "its status has no conditions and no phase".to_owned(),
            (found, _) => format!(
                "its status does not show whether it is ready: {}",
                found.join("; ")
            ),
        };
        let message = self.with_details(message);
        // What it has now may be a failure, so that nobody should wait for it.
        let wanted = match (conditions.is_empty(), self.words().next()) {
            (false, _) => "condition=TYPE".to_owned(),
            (true, Some((field, _))) => format!("jsonpath='{{.{}}}'=VALUE", field.path),
            (true, None) => "condition=Ready".to_owned(),
        };
        let remedy = format!(
            "wait for what shows that it is ready, for example: rollplan wait {}{} --for {wanted}",
            self.object.resource(),
            self.object.in_namespace()
        );
        let blocker = Blocker::new(Cause::NotJudged, message, remedy);
        let verdict = Verdict::new(Outlook::NotJudged, false, Some(&blocker));
        let blockers = vec![blocker];
        self.object.report(
            Phase::NotJudged,
            "is not judged",
            blockers,
            verdict,
            Vec::new(),
        )
    }
}

/// The fields that identify an item, apart from defaults, for example " (namespace gw, name internal)".
fn label(key: &[Key], values: &[String]) -> String {
    let fields = key.iter().zip(values).filter(|(key, value)| {
        let is_default = key.default == **value && key.default != OWN_NAMESPACE;
        !value.is_empty() && !is_default
    });
    let fields = fields.map(|(key, value)| format!("{} {}", key.field, one_line(value, NAME_MAX)));
    let fields: Vec<String> = fields.collect();
    if fields.is_empty() {
        String::new()
    } else {
        format!(" ({})", fields.join(", "))
    }
}

/// The type of a condition, in one line.
fn name(condition: &Condition) -> String {
    one_line(&condition.kind, NAME_MAX)
}

/// How to end a pause with this reason or word.
fn resumption(by: &str) -> &'static str {
    let known = RESUMED_BY.into_iter().find(|(known, _)| *known == by);
    known.map_or("resume it", |(_, how)| how)
}

/// The type of a condition, with the reason for its status.
fn by_reason(condition: &Condition) -> (&str, &str) {
    (&condition.kind, &condition.reason)
}

fn truth(condition: &Condition) -> &'static str {
    match condition.status.as_str() {
        "True" => "true",
        "False" => "false",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use rollplan_core::interrupt::Never;
    use rollplan_core::snapshot::{ObjectMeta, Surroundings};

    use super::*;
    use crate::judge::options::VerdictOptions;
    use crate::kinds::{ObjectSnapshot, View, report_until};

    fn condition(kind: &str, status: &str) -> Condition {
        Condition {
            kind: kind.to_owned(),
            status: status.to_owned(),
            ..Condition::default()
        }
    }

    fn phase_of(conditions: Vec<Condition>) -> Phase {
        let observed = ObjectSnapshot {
            now: Time::MIN,
            api_version: "example.com/v1".to_owned(),
            kind: "Database".to_owned(),
            metadata: ObjectMeta {
                generation: 2,
                ..ObjectMeta::default()
            },
            observed_generation: Some(2),
            conditions,
            view: View::Other(Fields {
                has_status: true,
                ..Fields::default()
            }),
            template: None,
            min_ready_seconds: 0,
            pods: Vec::new(),
            pods_complete: true,
            events: Vec::new(),
            surroundings: Surroundings::default(),
        };
        let report = report_until(&observed, VerdictOptions::default(), &Never);
        report.unwrap().phase
    }

    #[test]
    fn named_conditions_decide_with_their_polarity() {
        let of = |kind: &str, status: &str| phase_of(vec![condition(kind, status)]);
        for kind in BAD.iter().chain(&["AWS.Terminal"]) {
            assert_eq!(of(kind, "True"), Phase::Stalled, "{kind}");
            assert_eq!(of(kind, "False"), Phase::NotJudged, "{kind}");
        }
        for kind in BUSY {
            assert_eq!(of(kind, "True"), Phase::Progressing, "{kind}");
            assert_eq!(of(kind, "False"), Phase::NotJudged, "{kind}");
        }
        for kind in GOOD.iter().chain(&[SUMMARY]) {
            assert_eq!(of(kind, "True"), Phase::Complete, "{kind}");
            for status in ["False", "Unknown", "", "Degraded"] {
                assert_eq!(of(kind, status), Phase::Progressing, "{kind} {status}");
            }
        }
        for kind in UPDATING.1 {
            let of = |progressing| {
                phase_of(vec![
                    condition("Available", "True"),
                    condition(UPDATING.0, progressing),
                    condition(kind, "True"),
                ])
            };
            assert_eq!(of("True"), Phase::Progressing, "{kind}");
            assert_eq!(of("False"), Phase::Stalled, "{kind}");
        }
        for kind in BESIDE {
            let all = vec![condition(SUMMARY, "True"), condition(kind, "False")];
            assert_eq!(phase_of(all), Phase::Progressing, "{kind}");
        }
        for (kind, status) in [
            ("Progressing", "False"),
            ("Active", "False"),
            ("Error", "True"),
        ] {
            assert_eq!(of(kind, status), Phase::NotJudged, "{kind}");
            let all = vec![condition(kind, status), condition(SUMMARY, "True")];
            assert_eq!(phase_of(all), Phase::Complete, "{kind}");
        }
    }

    #[test]
    fn conditions_of_an_earlier_generation_count_as_unknown() {
        let of = |kind: &str, generation: i64| {
            phase_of(vec![Condition {
                observed_generation: Some(generation),
                ..condition(kind, "True")
            }])
        };
        for (kind, current, stale) in [
            ("Ready", Phase::Complete, Phase::Progressing),
            ("Stalled", Phase::Stalled, Phase::NotJudged),
            ("Reconciling", Phase::Progressing, Phase::NotJudged),
            ("Paused", Phase::Paused, Phase::NotJudged),
        ] {
            assert_eq!((of(kind, 2), of(kind, 1)), (current, stale), "{kind}");
        }
    }

    #[test]
    fn documentation_has_the_conditions_of_other_kinds() {
        let (updating, health) = UPDATING;
        let beside = format!("PROGRESSING, if it is true beside {}", health.join(" or "));
        let rows = [
            ("STALLED, not certain, if it is true", &BAD[..]),
            ("PROGRESSING, if it is true", &BUSY),
            (beside.as_str(), &[updating]),
            (
                "PROGRESSING, unless the first of these that exists is true",
                &GOOD,
            ),
            ("PROGRESSING, if it exists and is not true", &BESIDE),
        ];
        let rows = rows.map(|(effect, list)| vec![effect.to_owned(), list.join(", ")]);
        let table = rollplan_world::page::table(&["effect", "conditions"], rows);
        rollplan_world::page::check("docs/reference/kinds.md", "conditions", &table);
    }

    fn lua_list(texts: &[&str]) -> String {
        let texts: Vec<String> = texts.iter().map(|text| format!("{text:?}")).collect();
        format!("{{ {} }}", texts.join(", ")).replace("{  }", "{}")
    }

    fn lua_pairs(pairs: &[(&str, &str)]) -> String {
        let pairs: Vec<String> = pairs.iter().map(|(a, b)| lua_list(&[a, b])).collect();
        format!("{{ {} }}", pairs.join(", "))
    }

    fn lua_word(word: &Word) -> String {
        let mut text = format!("path = {:?}, message = {:?}", word.path, word.message);
        if word.is_optional {
            text += ", is_optional = true";
        }
        if let Some((of, current)) = word.about {
            text += &format!(", about = {}", lua_list(&[of, current]));
        }
        for (name, list) in [
            ("good", word.good),
            ("busy", word.busy),
            ("paused", word.paused),
            ("failed", word.failed),
        ] {
            if !list.is_empty() {
                text += &format!(", {name} = {}", lua_list(list));
            }
        }
        format!("{{ {text} }}")
    }

    fn lua_nested(nested: &Nested) -> String {
        let Nested {
            path,
            wanted,
            implied_by,
            reference,
            key,
            required,
            counted,
            unwanted,
            remedy: _,
        } = nested;
        let key = key.iter().map(|key| {
            let (alias, name) = key.alias.unwrap_or_default();
            lua_list(&[key.field, key.default, alias, name])
        });
        let key: Vec<String> = key.collect();
        let texts = [
            ("path", path),
            ("wanted", wanted),
            ("implied_by", implied_by),
            ("reference", reference),
        ];
        let texts = texts.map(|(name, text)| format!("{name} = {text:?}"));
        let lists = [
            ("required", required),
            ("counted", counted),
            ("unwanted", unwanted),
        ];
        let lists = lists.map(|(name, list)| format!("{name} = {}", lua_list(list)));
        let fields = [texts.join(", "), lists.join(", ")].join(", ");
        format!("nested = {{ {fields}, key = {{ {} }} }}", key.join(", "))
    }

    /// Every field, so that a new one is not forgotten.
    fn lua_row(row: &KindRow) -> String {
        let KindRow {
            groups,
            kinds,
            words,
            required,
            counted,
            explaining: _,
            excused,
            paused,
            bad,
            fails_when_false,
            failed_reasons,
            busy,
            nested,
            counters,
            handled,
            requests,
            is_complete_when_observed,
            is_final: _,
            unjudged_version,
        } = row;
        let list = |items: Vec<String>| format!("{{ {} }}", items.join(", ")).replace("{  }", "{}");
        let mut fields = vec![
            format!("groups = {}", lua_list(groups)),
            format!("kinds = {}", lua_list(kinds)),
            format!("words = {}", list(words.iter().map(lua_word).collect())),
            format!(
                "required = {}",
                list(required.iter().map(|it| lua_list(it)).collect())
            ),
            format!("counted = {}", lua_list(counted)),
        ];
        for (name, values) in [
            ("paused", paused),
            ("bad", bad),
            ("fails_when_false", fails_when_false),
            ("busy", busy),
            ("requests", requests),
        ] {
            if !values.is_empty() {
                fields.push(format!("{name} = {}", lua_list(values)));
            }
        }
        for (name, values) in [("excused", excused), ("failed_reasons", failed_reasons)] {
            if !values.is_empty() {
                fields.push(format!("{name} = {}", lua_pairs(values)));
            }
        }
        if let Some(nested) = nested {
            fields.push(lua_nested(nested));
        }
        fields.push(format!(
            "counters = {{ wanted = {:?}, required = {}, counted = {} }}",
            counters.wanted,
            lua_list(counters.required),
            lua_list(counters.counted)
        ));
        if let Some((annotation, field)) = handled {
            fields.push(format!("handled = {}", lua_list(&[annotation, field])));
        }
        if *is_complete_when_observed {
            fields.push("is_complete_when_observed = true".to_owned());
        }
        if !unjudged_version.is_empty() {
            fields.push(format!("unjudged_version = {unjudged_version:?}"));
        }
        format!("{{ {} }}", fields.join(", "))
    }

    #[test]
    fn health_check_of_argo_cd_has_the_table() {
        let paused = PAUSED.map(|(kind, status, reason)| lua_list(&[kind, status, reason]));
        let mut text = "-- generated\n".to_owned();
        for (name, value) in [
            ("bad", lua_list(&BAD)),
            ("terminal", format!("{TERMINAL:?}")),
            ("creating", lua_list(&[CREATING.0, CREATING.1])),
            ("paused_reasons", format!("{{ {} }}", paused.join(", "))),
            ("busy", lua_list(&BUSY)),
            ("updating", format!("{:?}", UPDATING.0)),
            ("operator_health", lua_list(&UPDATING.1)),
            ("summary", format!("{SUMMARY:?}")),
            ("good_conditions", lua_list(&GOOD)),
            ("beside", lua_list(&BESIDE)),
            ("paused_fields", lua_list(&PAUSED_FIELDS)),
            ("own_namespace", format!("{OWN_NAMESPACE:?}")),
            ("general", lua_row(&table::GENERAL)),
        ] {
            text += &format!("local {name} = {value}\n");
        }
        text += "local rows = {\n";
        for row in &table::TABLE {
            text += &format!("  {},\n", lua_row(row));
        }
        text += "}\n-- end of generated\n";
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/argocd/health.lua");
        let page = std::fs::read_to_string(path).unwrap();
        let (before, rest) = page.split_once("-- generated\n").unwrap();
        let (_, after) = rest.split_once("-- end of generated\n").unwrap();
        let expected = format!("{before}{text}{after}");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(path, &expected).unwrap();
        }
        assert_eq!(page, expected, "renew it with UPDATE_GOLDEN=1");
    }
}
