//! `rollplan uses`: the workloads that use a configuration, and what a change of it does.

use std::collections::{BTreeMap, BTreeSet};

use rollplan_text::{ConfigurationUser, identity};
use rollplan_wire::proto::{Configuration, ConfigurationKind, ConfigurationUse, RestartPlan};

use super::restart_consequences::{Configurations, Consequence, Consequences};
use super::restart_objects::{ObjectKey, RestartObjects, namespace_of, plan_id};

/// Its checksums before and after a change.
const CHECKSUMS: [&str; 2] = ["0000000000000000", "1111111111111111"];

/// The workloads with the given uses, and these only. `all` are the plans of all workloads, and `selected` of those that
/// react to changes: one of these is not in the first list if only one of its annotations names the configuration.
pub(super) fn users(
    all: Vec<RestartPlan>,
    selected: Vec<RestartPlan>,
    is_meant: &dyn Fn(&ConfigurationUse) -> bool,
) -> Vec<RestartPlan> {
    let mut users: BTreeMap<ObjectKey, RestartPlan> = BTreeMap::new();
    for mut plan in all.into_iter().chain(selected) {
        plan.uses.retain(is_meant);
        if !plan.uses.is_empty() {
            users.entry(plan_id(&plan)).or_insert(plan);
        }
    }
    let mut users: Vec<RestartPlan> = users.into_values().collect();
    users.sort_by(|a, b| identity(a).cmp(&identity(b)));
    users
}

/// The configuration before and after a change of all its values, in the namespaces of its users.
pub(super) fn sides(
    users: &[RestartPlan],
    objects: &RestartObjects,
    kind: ConfigurationKind,
    name: &str,
) -> [Configurations; 2] {
    let namespaces: BTreeSet<&str> = users.iter().map(|it| namespace_of(&it.namespace)).collect();
    CHECKSUMS.map(|checksum| {
        let summaries = namespaces.iter().map(|namespace| Configuration {
            kind: kind.into(),
            namespace: (*namespace).to_owned(),
            name: name.to_owned(),
            annotations: objects.annotations(namespace, kind, name),
            checksum: checksum.to_owned(),
            ..Configuration::default()
        });
        Configurations {
            objects: Vec::new(),
            summaries: summaries.collect(),
        }
    })
}

/// A workload with the effect of the change on it.
pub(super) fn user(
    plan: RestartPlan,
    consequences: &Consequences,
    reason: &dyn Fn(&ObjectKey, &Consequence) -> String,
) -> ConfigurationUser {
    let id = plan_id(&plan);
    let consequence = consequences.of(&id).unwrap_or_default();
    let reasons = match (consequence.is_restarted, consequence.reasons.is_empty()) {
        (true, _) => Vec::new(),
        (false, true) => vec![reason(&id, &consequence)],
        (false, false) => consequence.reasons,
    };
    ConfigurationUser {
        plan,
        is_restarted: consequence.is_restarted,
        reasons,
    }
}
