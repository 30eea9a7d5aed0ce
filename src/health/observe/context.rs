//! What is known about pods besides their own fields, regardless of their owner.

use std::collections::BTreeMap;

use rollplan_core::interrupt::Interrupt;
use rollplan_core::snapshot::ObservedEvent;
use rollplan_core::template::Template;
use rollplan_core::time::Time;

use super::peers::Peers;
use crate::judge::options::VerdictOptions;

/// The maximum difference between the clocks of the caller and of the cluster.
pub(crate) const CLOCK_SKEW_SECONDS: i64 = 300;

/// What is known about pods besides their own fields. `explain` and `judge` have more of its methods: why a pod is not
/// available, and how certain it is that this persists.
pub(crate) struct PodContext<'a> {
    /// The time of the snapshot.
    pub(crate) now: Time,
    /// Checked for each pod.
    pub(crate) interrupt: &'a dyn Interrupt,
    /// The namespace of the pods, for remedies.
    pub(crate) namespace: &'a str,
    /// The template of the pods, which has their probes and limits.
    pub(crate) template: Option<&'a Template>,
    /// How long a pod must be ready before it counts as available.
    pub(crate) min_ready_seconds: i32,
    /// When the current rollout began. Restarts of pods that were created before do not count.
    pub(crate) rollout_began: Option<Time>,
    /// The events, by the UID of the object that they are about.
    pub(crate) events: BTreeMap<&'a str, Vec<&'a ObservedEvent>>,
    /// How the caller wants failures to be judged.
    pub(crate) options: VerdictOptions,
    /// Whether containers may complete, so that exit code 0 is a success, as in pods of Jobs.
    pub(crate) may_complete: bool,
    /// The word for a pod in messages, for example "new pod".
    pub(crate) noun: &'static str,
    /// The pods around them.
    pub(crate) peers: Peers<'a>,
}

// === impl PodContext ===

impl<'a> PodContext<'a> {
    /// The events about an object.
    pub(crate) fn events_about(
        &self,
        uid: &str,
    ) -> impl Iterator<Item = &'a ObservedEvent> + use<'a> {
        let events = self.events.get(uid).cloned();
        events.unwrap_or_default().into_iter()
    }
}

/// The events, by the UID of the object that they are about.
pub(crate) fn by_object(events: &[ObservedEvent]) -> BTreeMap<&str, Vec<&ObservedEvent>> {
    let mut by_object: BTreeMap<&str, Vec<&ObservedEvent>> = BTreeMap::new();
    for event in events {
        by_object.entry(&event.object_uid).or_default().push(event);
    }
    by_object
}

/// Whether an event may be about this container. One that names no container may be about any.
pub(crate) fn may_concern(event: &ObservedEvent, container: &str) -> bool {
    let named = event
        .field_path
        .split_once('{')
        .map(|(_, rest)| rest.trim_end_matches('}'));
    named.is_none_or(|named| container.is_empty() || named == container)
}
