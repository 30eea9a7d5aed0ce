//! Why a workload does not react to the change of a configuration that it uses.

use std::collections::BTreeMap;

use rollplan_restart::{ENABLED, IGNORE};
use rollplan_wire::proto::{ReferenceUsage, RestartProfile};

use super::restart_consequences::Consequence;
use super::restart_objects::{ObjectKey, RestartObjects, is_other_kind, is_reloader, kind};

/// Why a workload does not react to the change of a configuration that it uses.
pub(super) fn reason(
    objects: &RestartObjects,
    profile: RestartProfile,
    workload: &ObjectKey,
    consequence: &Consequence,
) -> String {
    let (namespace, workload_kind, _) = workload;
    let annotations = &objects.workload(workload);
    let used = consequence.uses.first().cloned().unwrap_or_default();
    let configuration = &objects.annotations(namespace, used.kind(), &used.name);
    let ignored = format!("{}/{}", kind(used.kind()).to_ascii_lowercase(), used.name);
    let ignores = |list: &String| list.split(',').any(|it| it.trim() == ignored);
    let is_restarted_by_xing = matches!(workload_kind.as_str(), "Deployment" | "StatefulSet");
    let reason = match profile {
        _ if workload_kind == "Pod" => "delete the pod and create it again",
        _ if matches!(
            workload_kind.as_str(),
            "ReplicaSet" | "ReplicationController"
        ) =>
        {
            "it replaces no pods: delete them, so that it creates new ones"
        }
        _ if is_other_kind(workload_kind) => "rollplan does not restart this kind",
        RestartProfile::Reloader if consequence.reacts => {
            "by default, Reloader ignores configurations that are created or deleted"
        }
        RestartProfile::Reloader => {
            return reloader_reason(annotations, configuration, &used.name);
        }
        RestartProfile::Xing if !is_restarted_by_xing => {
            "the xing controller restarts only Deployments and StatefulSets"
        }
        RestartProfile::Xing if !consequence.is_selected => {
            "no annotation com.xing.deployment-restart: enabled"
        }
        RestartProfile::Xing if consequence.reacts => {
            "the xing controller ignores configurations that are deleted"
        }
        RestartProfile::Xing => "the xing controller does not count this use",
        _ if annotations.get(ENABLED).is_some_and(|it| it != "enabled") => {
            "the annotation rollplan.dev/restart is not enabled"
        }
        _ if !consequence.is_selected => "no annotation rollplan.dev/restart: enabled",
        _ if configuration.get(IGNORE).is_some_and(|it| it == "true") => {
            "rollplan.dev/restart-ignore on the configuration"
        }
        _ if annotations.get(IGNORE).is_some_and(ignores) => {
            "excluded by rollplan.dev/restart-ignore"
        }
        _ if used.usages().all(|it| it == ReferenceUsage::ImagePull) => {
            "image pull secrets do not count: they are read whenever an image is pulled"
        }
        _ if used.usages().all(|it| it == ReferenceUsage::VolumeAccess) => {
            "it is read whenever the volume is mounted, and running pods keep the volume"
        }
        _ => "the kubelet updates the files in running pods",
    };
    reason.to_owned()
}

/// Why a change of a configuration does not restart a workload in the profile of Reloader.
fn reloader_reason(
    workload: &BTreeMap<String, String>,
    configuration: &BTreeMap<String, String>,
    name: &str,
) -> String {
    let ignore = configuration.get("reloader.stakater.com/ignore");
    if ignore.is_some_and(|it| it == "true") {
        return "reloader.stakater.com/ignore on the configuration".to_owned();
    }
    let excludes = workload.iter().find(|(key, value)| {
        key.contains(".exclude.reloader.stakater.com/")
            && value.split(',').any(|it| it.trim() == name)
    });
    let names_a_namespace = |(key, value): &(&String, &String)| {
        let of_reloader = key.ends_with(".reloader.stakater.com/reload");
        let mut names = value.split(',').map(str::trim);
        let is_path = |it: &str| it.rsplit_once('/').is_some_and(|(_, it)| it == name);
        of_reloader && names.any(is_path)
    };
    match excludes {
        Some((key, _)) => format!("excluded by {key}"),
        None if let Some((key, value)) = workload.iter().find(names_a_namespace) => {
            format!(
                "{key} has the value {value:?}: a configuration is always one of the same namespace, so write only its name"
            )
        }
        None if is_reloader(workload) => {
            "its annotations of Reloader do not select this configuration".to_owned()
        }
        None => "no annotation of Reloader".to_owned(),
    }
}
