//! The pods around those that are not available, which may have what these wait for, and how the rollout replaces them.

use rollplan_core::selector::{LabelSelector, Operator, Requirement};
use rollplan_core::snapshot::{ObservedClaim, Pod, StringMap, Surroundings};
use rollplan_core::template::{Template, Value};

/// The pods around those that are not available.
pub(crate) struct Peers<'a> {
    /// The pods that the rollout replaces, each with its template if that is known.
    pub(crate) old: Vec<(&'a Pod, Option<&'a Template>)>,
    /// The other pods of the workload.
    pub(crate) own: Vec<&'a Pod>,
    /// What else the caller has sent.
    pub(crate) surroundings: &'a Surroundings,
    /// How the rollout creates new pods.
    pub(crate) replacement: Replacement,
}

/// How a rollout creates new pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replacement {
    /// A Deployment creates new pods before it deletes old ones.
    Surge,
    /// A DaemonSet creates the new pod of a node before it deletes the old one.
    SurgeOnNode,
    /// A new pod is created after an old one has ended, or no pod is replaced.
    AfterOld,
}

/// A pod that has what another one waits for.
pub(crate) struct Holder<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) role: Role,
}

/// Whose pod it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The rollout deletes it.
    Old,
    /// It belongs to the workload, and stays.
    Own,
    /// It belongs to another owner.
    Other,
}

/// The labels by which constraints distinguish the revisions of a workload.
const REVISION_LABELS: [&str; 2] = ["pod-template-hash", "controller-revision-hash"];

// === impl Peers ===

impl<'a> Peers<'a> {
    /// The pod on a node that uses something, other than `pod` itself. Old pods come first, because the rollout can delete
    /// them.
    pub(crate) fn holder(&self, pod: &Pod, uses: impl Fn(&Pod) -> bool) -> Option<Holder<'a>> {
        self.all().find(|holder| {
            let other = holder.pod;
            other.metadata.uid != pod.metadata.uid && runs(other) && uses(other)
        })
    }

    /// The pod with this name.
    pub(crate) fn named(&self, name: &str) -> Option<Holder<'a>> {
        self.all().find(|holder| holder.pod.metadata.name == name)
    }

    fn all(&self) -> impl Iterator<Item = Holder<'a>> {
        let of = |role: Role| move |pod: &'a Pod| Holder { pod, role };
        let old = self.old.iter().map(|(old, _)| *old).map(of(Role::Old));
        let own = self.own.iter().copied().map(of(Role::Own));
        let others = self.surroundings.pods.iter().map(of(Role::Other));
        old.chain(own).chain(others)
    }

    /// A claim of a waiting pod.
    pub(crate) fn claim(&self, name: &str) -> Option<&'a ObservedClaim> {
        let mut claims = self.surroundings.claims.iter();
        claims.find(|claim| claim.name == name)
    }

    /// Whether old pods take the places that a new one needs, by the anti-affinity or the spread constraints of a template.
    /// Then all old pods must run: one that waits as well shows that the rollout is not the reason.
    pub(crate) fn old_pods_are_in_the_way(&self, template: Option<&Template>) -> bool {
        let Some(template) = template.filter(|_| self.replacement != Replacement::AfterOld) else {
            return false;
        };
        let new_labels = labels(template);
        let is_in_the_way = |old: Option<&Template>| {
            let old = old.unwrap_or(template);
            constraints(template).any(|rule| repels(rule, &labels(old)))
                || anti_affinity(old).any(|rule| repels(rule, &new_labels))
        };
        let mut old = self.old.iter();
        !self.old.is_empty()
            && self.old.iter().all(|(pod, _)| runs(pod))
            && old.any(|(_, old)| is_in_the_way(*old))
    }

    /// The change that lets the rollout delete old pods first. Empty if it does so already.
    pub(crate) fn without_surge(&self) -> &'static str {
        match self.replacement {
            Replacement::Surge => {
                "set maxSurge to 0 and maxUnavailable to at least 1, or use strategy Recreate"
            }
            Replacement::SurgeOnNode => "set maxSurge to 0 and maxUnavailable to at least 1",
            Replacement::AfterOld => "",
        }
    }
}

/// Whether a pod occupies a node.
fn runs(pod: &Pod) -> bool {
    !pod.node_name.is_empty() && !matches!(pod.phase.as_str(), "Failed" | "Succeeded")
}

/// The labels of the pods of a template.
fn labels(template: &Template) -> StringMap {
    let labels = template.value().at(&["metadata", "labels"]);
    strings(labels)
}

fn strings(map: Option<&Value>) -> StringMap {
    let entries = map.and_then(Value::as_map).into_iter().flatten();
    entries
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

/// The rules of a template that keep pods apart.
fn constraints(template: &Template) -> impl Iterator<Item = &Value> {
    let spread = list(template.value().at(&["spec", "topologySpreadConstraints"]));
    let spread = spread.iter().filter(|rule| {
        let action = rule.get("whenUnsatisfiable").and_then(Value::as_str);
        action != Some("ScheduleAnyway")
    });
    anti_affinity(template).chain(spread)
}

fn anti_affinity(template: &Template) -> impl Iterator<Item = &Value> {
    const REQUIRED: [&str; 4] = [
        "spec",
        "affinity",
        "podAntiAffinity",
        "requiredDuringSchedulingIgnoredDuringExecution",
    ];
    list(template.value().at(&REQUIRED)).iter()
}

fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_list).unwrap_or_default()
}

/// Whether a rule applies to pods of the same namespace with these labels, whatever their revision.
fn repels(rule: &Value, labels: &StringMap) -> bool {
    let is_by_revision = list(rule.get("matchLabelKeys")).iter().any(|key| {
        key.as_str()
            .is_some_and(|key| REVISION_LABELS.contains(&key))
    });
    // Without a selector, a rule applies to no pods.
    let selector = rule.get("labelSelector").and_then(selector);
    !is_by_revision && selector.is_some_and(|selector| selector.matches(labels))
}

fn selector(value: &Value) -> Option<LabelSelector> {
    value.as_map()?;
    let text = |value: &Value, field: &str| Some(value.get(field)?.as_str()?.to_owned());
    let expressions = list(value.get("matchExpressions")).iter();
    let expressions = expressions.map(|expression| {
        let values = list(expression.get("values")).iter();
        let values = values.filter_map(|value| value.as_str().map(str::to_owned));
        let operator = match text(expression, "operator")?.as_str() {
            "In" => Operator::In(values.collect()),
            "NotIn" => Operator::NotIn(values.collect()),
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            _ => return None,
        };
        Some(Requirement {
            key: text(expression, "key")?,
            operator,
        })
    });
    Some(LabelSelector {
        match_labels: strings(value.get("matchLabels")),
        match_expressions: expressions.collect::<Option<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map<const N: usize>(entries: [(&str, Value); N]) -> Value {
        let entries = entries.into_iter();
        Value::Map(
            entries
                .map(|(key, value)| (key.to_owned(), value))
                .collect(),
        )
    }

    fn text(text: &str) -> Value {
        Value::String(text.to_owned())
    }

    #[test]
    fn rules_apply_to_the_pods_that_they_select() {
        let labels = StringMap::from([("app".to_owned(), "web".to_owned())]);
        let rule = |entries: [(&str, Value); 2]| repels(&map(entries), &labels);
        let of = |name: &str| map([("matchLabels", map([("app", text(name))]))]);
        let keys = |key: &str| Value::List(vec![text(key)]);
        let none = || ("topologyKey", text("zone"));
        assert!(rule([("labelSelector", of("web")), none()]));
        assert!(rule([("labelSelector", map([])), none()]));
        assert!(!rule([("labelSelector", of("db")), none()]));
        assert!(!rule([none(), none()]));
        assert!(rule([
            ("labelSelector", of("web")),
            ("matchLabelKeys", keys("app"))
        ]));
        // Pods of other revisions do not count.
        assert!(!rule([
            ("labelSelector", of("web")),
            ("matchLabelKeys", keys("pod-template-hash"))
        ]));
        let expression = map([
            ("key", text("app")),
            ("operator", text("NotIn")),
            ("values", Value::List(vec![text("web")])),
        ]);
        let selector = map([("matchExpressions", Value::List(vec![expression]))]);
        assert!(!rule([("labelSelector", selector), none()]));
    }
}
