//! What a forecast assumes.

use rollplan_core::snapshot::Snapshot;

use crate::times::{Model, Source};
use crate::world::ClusterLimits;

/// The assumptions, each as one sentence.
pub(crate) fn list(
    snapshot: &Snapshot,
    model: &Model,
    limits: ClusterLimits,
    has_deployment: bool,
) -> Vec<String> {
    let mut assumptions = Vec::new();
    let mut assume = |text: String| assumptions.push(text);
    let described = &model.described;
    match described.source {
        Source::None => {
            assume("No start time of a pod is known, so the forecast has no durations.".to_owned())
        }
        Source::SameTemplate => assume(format!(
            "New pods take as long to start as {} pods with the same template took.",
            described.count
        )),
        Source::OtherTemplates => assume(format!(
            "New pods take as long to start as {} pods with other templates took.",
            described.count
        )),
        Source::Request => {
            assume("New pods take the start times of the request.".to_owned());
        }
    }
    if !model.has_terminations() {
        assume(format!(
            "Pods terminate within a second of their deletion, or after their grace period of {} s.",
            described.termination.high / 1000
        ));
    }
    if limits.pods_in_quota.is_none() {
        assume("No quota prevents pods from being created.".to_owned());
    }
    if limits.pods_on_nodes.is_none() {
        assume("The nodes have room for all pods.".to_owned());
    }
    assume("Pods that are ready stay ready, and nothing else changes the Deployment.".to_owned());
    if has_deployment {
        let kind = &snapshot.deployment.kind;
        assume(format!(
            "Fields that the changed {kind} does not have get the defaults of Kubernetes."
        ));
    }
    assumptions
}
