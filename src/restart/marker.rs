//! The markers of a restart in the pod template.

use serde_json::Value as Json;

use rollplan_core::reference::ConfigurationKind;
use rollplan_core::template::{Value, parse_time};

use super::options::{Options, Profile, Strategy};
use super::state::{Applied, State, millis};
use super::workload::Workload;

pub(super) const RESTARTED_AT: &str = "rollplan.dev/restarted-at";
pub(super) const XING_TIMESTAMP: &str = "com.xing.deployment-restart.timestamp";
pub(super) const LAST_RELOADED_FROM: &str = "reloader.stakater.com/last-reloaded-from";

/// Reloader's annotations of Deployments.
pub(super) const PAUSE_PERIOD: &str = "deployment.reloader.stakater.com/pause-period";
pub(super) const PAUSED_AT: &str = "deployment.reloader.stakater.com/paused-at";

/// The applied checksum of a configuration according to Reloader's markers, for workloads without a recorded one.
pub(super) fn applied_marker(
    options: &Options,
    workload: &Workload,
    kind: ConfigurationKind,
    name: &str,
) -> Option<Applied> {
    if options.profile != Profile::Reloader {
        return None;
    }
    let variable = variable(kind, name);
    let containers = ["containers", "initContainers"];
    let lists = containers
        .iter()
        .filter_map(|list| workload.template.at(&["spec", list])?.as_list());
    let variables = lists.flatten().filter_map(|it| it.get("env")?.as_list());
    let marker = variables
        .flatten()
        .find(|it| it.get("name").and_then(Value::as_str) == Some(&variable));
    if let Some(checksum) = marker.and_then(|it| it.get("value")?.as_str()) {
        return Some(Applied::whole(checksum.to_owned()));
    }
    let source = workload.template_annotations.get(LAST_RELOADED_FROM)?;
    let source: Json = serde_json::from_str(source).ok()?;
    let is_of = source["type"] == kind.key().to_ascii_uppercase() && source["name"] == name;
    let checksum = source["hash"].as_str().filter(|_| is_of)?;
    Some(Applied::whole(checksum.to_owned()))
}

/// Whether the marker of the last restart is missing from the template.
pub(super) fn marker_is_stripped(options: &Options, workload: &Workload, state: &State) -> bool {
    let key = match options.profile {
        Profile::Rollplan => RESTARTED_AT,
        Profile::Xing => XING_TIMESTAMP,
        Profile::Reloader if marks_by_annotation(options) => {
            return !state.restarts.is_empty()
                && !workload
                    .template_annotations
                    .contains_key(LAST_RELOADED_FROM);
        }
        Profile::Reloader => return false,
    };
    let Some(last) = state.restarts.last() else {
        return false;
    };
    let marker = workload.template_annotations.get(key);
    let marker = marker.and_then(|it| parse_time(it)).map(millis);
    marker != Some(*last)
}

/// The name of Reloader's environment variable.
pub(super) fn variable(kind: ConfigurationKind, name: &str) -> String {
    let mut variable = String::from("STAKATER_");
    let mut was_valid = false;
    for byte in name.bytes() {
        let is_valid = byte.is_ascii_alphanumeric();
        if is_valid {
            variable.push(char::from(byte.to_ascii_uppercase()));
        } else if was_valid {
            variable.push('_');
        }
        was_valid = is_valid;
    }
    variable + "_" + &kind.key().to_ascii_uppercase()
}

/// Whether the profile marks restarts with an annotation of the pod template.
fn marks_by_annotation(options: &Options) -> bool {
    options.profile != Profile::Reloader || options.reloader.strategy == Strategy::Annotations
}
