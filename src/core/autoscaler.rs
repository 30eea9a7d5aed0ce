//! What autoscalers of nodes report about pods, in events.

use crate::snapshot::ObservedEvent;
use crate::time::{Span, Time};

/// How long an autoscaler waits for a node that it has requested. cluster-autoscaler: `--max-node-provision-time`;
/// karpenter: pkg/controllers/nodeclaim/lifecycle/liveness.go, `registrationTimeout`.
const NODE_PROVISION_SECONDS: i64 = 15 * 60;

/// What an autoscaler has reported about a pod.
#[derive(Clone, Copy, Debug)]
pub struct Reaction<'a> {
    /// The event.
    pub event: &'a ObservedEvent,
    /// Whether it adds a node, or refuses to.
    pub is_refusal: bool,
}

impl<'a> Reaction<'a> {
    /// The latest one in the events about a pod. The scheduler repeats its own reports, which do not count.
    pub fn latest(events: impl Iterator<Item = &'a ObservedEvent>) -> Option<Self> {
        let reactions = events.filter_map(|event| {
            let is_refusal = match event.reason.as_str() {
                // cluster-autoscaler: processors/status/eventing_scale_up_processor.go, Process; karpenter:
                // pkg/controllers/provisioning/scheduling/events.go, NominatePodEvent.
                "TriggeredScaleUp" | "Nominated" => false,
                "NotTriggerScaleUp" | "FailedScaleUp" => true,
                // karpenter, PodFailedToScheduleEvent: the scheduler uses the same reason.
                "FailedScheduling" if event.message.starts_with("Failed to schedule pod, ") => true,
                _ => return None,
            };
            Some(Self { event, is_refusal })
        });
        reactions.max_by_key(|reaction| (reaction.event.last, reaction.is_refusal))
    }

    /// Whether a node is being added.
    #[must_use]
    pub fn adds_node(&self, now: Time) -> bool {
        let since = self.event.last.map(|last| now.since(last));
        !self.is_refusal
            && since.is_none_or(|since| since < Span::from_seconds(NODE_PROVISION_SECONDS))
    }
}
