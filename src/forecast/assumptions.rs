//! What a forecast assumes.

use crate::times::{Model, StartTimesSource};
use crate::world::ClusterLimits;

/// A number of pods, in words.
fn pods(count: usize) -> String {
    match count {
        1 => "1 pod".to_owned(),
        count => format!("{count} pods"),
    }
}

/// The assumptions, each as one sentence. `limits` are those that the caller gives, and those that the forecast uses.
pub(crate) fn list(model: &Model, [given, limits]: [ClusterLimits; 2]) -> Vec<String> {
    let mut assumptions = Vec::new();
    let mut assume = |text: String| assumptions.push(text);
    let described = &model.described;
    match described.source {
        StartTimesSource::None => {
            assume("No start time of a pod is known, so the forecast has no durations.".to_owned());
        }
        StartTimesSource::SameTemplate => assume(format!(
            "New pods take as long to start as {} with the same template took.",
            pods(described.count)
        )),
        StartTimesSource::OtherTemplates => assume(format!(
            "New pods take as long to start as {} with other templates took.",
            pods(described.count)
        )),
        StartTimesSource::Request => {
            assume("New pods take the start times of the request.".to_owned());
        }
    }
    match model.nodes().filter(|is_missing| *is_missing).count() {
        0 => {}
        1 => assume(
            "The first new pod takes longer, until its node has pulled the image, as before."
                .to_owned(),
        ),
        nodes => assume(format!(
            "The first new pod on each of {nodes} nodes takes longer, until the node has pulled the image, as before."
        )),
    }
    if !model.has_terminations() {
        assume(format!(
            "Pods terminate within a second of their deletion, or after their grace period of {} s.",
            described.termination.high / 1000
        ));
    }
    match (given.pods_in_quota, limits.pods_in_quota) {
        (Some(_), _) => {}
        (None, Some(_)) => assume(
            "The quota of the namespace has no room for more pods, as a ReplicaSet reports."
                .to_owned(),
        ),
        (None, None) => assume("No quota prevents pods from being created.".to_owned()),
    }
    match (given.pods_on_nodes, limits.pods_on_nodes) {
        (Some(_), _) => {}
        (None, Some(_)) => assume(
            "The nodes have no room for more pods, as a pod that cannot be scheduled reports."
                .to_owned(),
        ),
        (None, None) => assume("The nodes have room for all pods.".to_owned()),
    }
    assume("Pods that are ready stay ready, and nothing else changes the Deployment.".to_owned());
    assumptions
}
