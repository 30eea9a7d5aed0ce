//! JSON documents about workloads and configurations, for programs.

use serde_json::{Value, json};

use rollplan_text::{ConfigurationUser, ManifestChanges, ObjectName, WorkloadResult, usage};

/// What a change of manifests does to workloads, and the changed configurations.
pub(in crate::cli) fn changes(changes: &ManifestChanges) -> Value {
    let workloads = changes.workloads.iter().map(|it| {
        let mut value = object(&it.workload);
        value["result"] = result(it.result).into();
        value["reasons"] = json!(it.reasons);
        value["missing"] = json!(it.missing);
        if !it.refusal.is_empty() {
            value["refusal"] = json!(it.refusal);
        }
        value
    });
    let configurations = changes.configurations.iter().map(|it| {
        let mut value = object(&it.configuration);
        value["change"] = it.what.to_uppercase().into();
        value["keys"] = json!(it.keys);
        value["users"] = it.users.iter().map(object).collect();
        if !it.refusal.is_empty() {
            value["refusal"] = json!(it.refusal);
        }
        value
    });
    json!({
        "workloads": workloads.collect::<Vec<_>>(),
        "configurations": configurations.collect::<Vec<_>>(),
        "notes": changes.notes,
    })
}

/// The workloads that use a configuration, and what a change of it does to each.
pub(in crate::cli) fn uses(
    kind: &str,
    name: &str,
    users: &[ConfigurationUser],
    notes: &[String],
) -> Value {
    let users = users.iter().map(|user| {
        let uses = user.plan.uses.iter().map(|it| {
            let usages: Vec<_> = it.usages().map(usage).collect();
            json!({"usages": usages, "keys": it.keys})
        });
        let mut value = object(&user.workload());
        value["uses"] = uses.collect();
        value["restarts"] = user.is_restarted.into();
        value["reasons"] = json!(user.reasons);
        value
    });
    json!({"kind": kind, "name": name, "users": users.collect::<Vec<_>>(), "notes": notes})
}

fn object(name: &ObjectName) -> Value {
    json!({"kind": name.kind, "namespace": name.namespace, "name": name.name})
}

fn result(result: WorkloadResult) -> &'static str {
    match result {
        WorkloadResult::Replaced => "REPLACED",
        WorkloadResult::Restarted => "RESTARTED",
        WorkloadResult::NotRestarted => "NOT_RESTARTED",
        WorkloadResult::Added => "ADDED",
        WorkloadResult::Removed => "REMOVED",
    }
}
