//! Why the volumes of a pod are not ready. Only events show it: some are reported once, while the kubelet repeats that it
//! waits.

use rollplan_core::snapshot::{ContainerState, ObservedEvent, Pod};
use rollplan_core::time::Span;

use super::Explanation;
use super::scheduling::named;
use crate::explain::Cause;
use crate::messages::{Facts, Table, mount, sandbox, volume};
use crate::observe::context::PodContext;
use crate::observe::peers::{Replacement, Role};
use crate::observe::pod::{condition, has_begun_since, is_creating};
use crate::text::{KUBERNETES_MAX, NAME_MAX, one_line, word};

/// How long a pod may take to mount its volumes and to join the network.
const START_SECONDS: i64 = 30;
/// The reason of the event that a claim has a volume now.
const PROVISIONED: &str = "ProvisioningSucceeded";
/// The reason of the event that a claim waits for its provisioner, which is repeated.
const WAITS_FOR_PROVISIONER: &str = "ExternalProvisioning";
/// The messages about a pod that has not started.
static STARTS: [&Table; 5] = [
    &volume::ATTACHMENTS,
    &volume::OWNERSHIP,
    &volume::UNPROCESSED,
    &mount::TABLE,
    &sandbox::TABLE,
];

impl<'a> PodContext<'a> {
    /// The event that shows why a pod has not started: the latest, except that the kubelet only repeats that it waits. A
    /// volume that has been attached or mounted since is not the reason.
    pub(super) fn start_failure(&self, pod: &Pod) -> Option<&'a ObservedEvent> {
        let failures = || {
            let events = self.events_about(&pod.metadata.uid);
            events.filter(|event| {
                event.kind == "Warning"
                    && (event.reason.starts_with("Failed") || is_before_containers(event))
                    && !matches!(event.reason.as_str(), "FailedScheduling" | "FailedScaleUp")
                    && !self.is_attached_since(pod, event)
                    && !(is_before_containers(event) && has_begun_since(pod, event.last))
            })
        };
        let specific = failures().filter(|event| !is_wait(event));
        let latest = specific.max_by_key(|event| event.last);
        latest.or_else(|| failures().max_by_key(|event| event.last))
    }

    /// Whether the volume of a failed attachment has been attached later.
    fn is_attached_since(&self, pod: &Pod, failure: &ObservedEvent) -> bool {
        if failure.reason != "FailedAttachVolume" {
            return false;
        }
        let failed = volume::ATTACHMENTS.look_up(&failure.message);
        let mut events = self.events_about(&pod.metadata.uid);
        events.any(|event| {
            let attached = volume::ATTACHED.look_up(&event.message);
            event.reason == "SuccessfulAttachVolume"
                && event.last >= failure.last
                && attached.hole("volume") == failed.hole("volume")
        })
    }

    /// What to do about a pod that has not started.
    pub(super) fn remedy_for_start(&self, explanation: &Explanation<'_>) -> String {
        let pod = explanation.pod;
        if self.awaits_kubelet(pod) {
            return format!(
                "check the node: kubectl describe node {}",
                word(&pod.node_name)
            );
        }
        let Some(event) = explanation.event else {
            return if self.may_await_claims(pod) {
                self.remedy_for_claims(pod)
            } else {
                String::new()
            };
        };
        if is_wait(event) {
            return self.remedy_for_claims(pod);
        }
        let tables = STARTS.into_iter();
        let mut tables = tables.filter(|table| table.reasons.contains(&event.reason.as_str()));
        let found = tables.find_map(|table| {
            Some(table.look_up(&event.message)).filter(|message| message.is_known())
        });
        match found
            .as_ref()
            .map(|message| (message, message.hole("pods")))
        {
            Some((_, Some(pods))) => self.remedy_for_attachment(pod, pods),
            Some((message, None)) => message.remedy(&self.facts_of(pod)),
            None => String::new(),
        }
    }

    /// The remedy if other pods use a volume on another node. Their names are those in the report of Kubernetes.
    fn remedy_for_attachment(&self, pod: &Pod, pods: &str) -> String {
        let holders = pods.split(", ");
        let holders = holders.map(|name| name.split_once(" and ").map_or(name, |(name, _)| name));
        let found = holders.filter_map(|name| self.peers.named(name));
        let found = found.min_by_key(|holder| holder.role != Role::Old);
        let pods = one_line(pods, NAME_MAX);
        let Some(holder) = found else {
            return format!("let the pods end that use the volume on another node: {pods}");
        };
        let name = named(&holder, pod);
        match holder.role {
            Role::Old if self.peers.replacement != Replacement::AfterOld => format!(
                "{}: old pod {name} uses the volume, and a ReadWriteOnce volume can be used on one node only",
                self.peers.without_surge()
            ),
            Role::Own => format!(
                "run the pods on one node, or use a claim with access mode ReadWriteMany: pod {name} uses the volume"
            ),
            Role::Old | Role::Other => {
                format!("let pod {name} end, which uses the volume, and check its node")
            }
        }
    }

    /// The remedy for a pod that may wait for its claims.
    fn remedy_for_claims(&self, pod: &Pod) -> String {
        let namespace = &pod.metadata.namespace;
        for volume in &pod.claims {
            let may_be_shared = self.peers.claim(&volume.claim).is_some_and(|claim| {
                claim
                    .access_modes
                    .iter()
                    .any(|mode| mode == "ReadWriteMany")
            });
            let holder = self.peers.holder(pod, |other| {
                other.metadata.namespace == *namespace
                    && other.node_name != pod.node_name
                    && other.claims.iter().any(|other| other.claim == volume.claim)
            });
            if let Some(holder) = holder.filter(|_| !may_be_shared) {
                let name = named(&holder, pod);
                let claim = one_line(&volume.claim, NAME_MAX);
                let change = match (holder.role, self.peers.without_surge()) {
                    (Role::Old, change) if !change.is_empty() => change,
                    _ => "let that pod end, or run both on one node",
                };
                return format!(
                    "if claim {claim} is ReadWriteOnce, {change}: pod {name} also uses it"
                );
            }
        }
        match pod.claims.first() {
            Some(volume) => format!(
                "check the claim and its events: kubectl describe pvc {} -n {}",
                word(&volume.claim),
                word(self.namespace)
            ),
            None => String::new(),
        }
    }

    /// Whether the kubelet of a pod has not acknowledged it for longer than it needs.
    pub(crate) fn awaits_kubelet(&self, pod: &Pod) -> bool {
        !pod.node_name.is_empty()
            && pod.start_time.is_none()
            && pod.containers.is_empty()
            && matches!(pod.phase.as_str(), "" | "Pending")
            && self.is_late(pod)
    }

    /// Whether a pod may wait for its claims: its sandbox is not ready, which shows neither a volume nor the network.
    pub(super) fn may_await_claims(&self, pod: &Pod) -> bool {
        let sandbox = condition(pod, "PodReadyToStartContainers");
        let mut containers = pod.containers.iter();
        let all_wait = containers.all(|container| {
            matches!(&container.state, ContainerState::Waiting { reason, .. }
                if is_creating(reason))
        });
        !pod.claims.is_empty()
            && !pod.node_name.is_empty()
            && sandbox.is_none_or(|sandbox| sandbox.status != "True")
            && all_wait
            && self.is_late(pod)
    }

    /// Whether a pod was scheduled so long ago that it should have started.
    fn is_late(&self, pod: &Pod) -> bool {
        let scheduled = condition(pod, "PodScheduled").and_then(|it| it.last_transition_time);
        let since = scheduled.or(pod.metadata.creation_timestamp);
        since.is_some_and(|since| self.now.since(since) > Span::from_seconds(START_SECONDS))
    }

    /// Why a claim of a pod has no volume, as the end of a sentence, and what to do about it. `None` if no event shows it.
    pub(super) fn claim_problem(&self, pod: &Pod) -> Option<(String, String)> {
        pod.claims.iter().find_map(|volume| {
            let claim = self.peers.claim(&volume.claim)?;
            if claim.is_bound || claim.volume.is_some() {
                return None;
            }
            let is_failure =
                |event: &&ObservedEvent| volume::CLAIMS.reasons.contains(&event.reason.as_str());
            let provisioned = claim
                .events
                .iter()
                .filter(|event| event.reason == PROVISIONED);
            let provisioned = provisioned.filter_map(|event| event.last).max();
            let failures = claim.events.iter().filter(is_failure);
            let failures =
                failures.filter(|event| provisioned.is_none_or(|at| event.last > Some(at)));
            let latest =
                failures.max_by_key(|event| (event.reason != WAITS_FOR_PROVISIONER, event.last))?;
            let message = volume::CLAIMS.look_up(&latest.message);
            let text = format!(
                "; claim {}: {}: {}",
                one_line(&volume.claim, NAME_MAX),
                one_line(&latest.reason, NAME_MAX),
                one_line(&latest.message, KUBERNETES_MAX)
            );
            Some((text, message.remedy(&Facts::default())))
        })
    }

    /// What the message about a starting pod adds to its detail.
    pub(super) fn start_detail(&self, explanation: &Explanation<'_>) -> String {
        let pod = explanation.pod;
        if explanation.cause != Cause::Starting {
            return String::new();
        }
        if self.awaits_kubelet(pod) {
            let node = one_line(&pod.node_name, NAME_MAX);
            return format!(": the kubelet of node {node} has not acknowledged the pod");
        }
        let is_waiting = explanation.event.is_some_and(is_wait);
        match explanation.event {
            None if self.may_await_claims(pod) => format!(
                ": its volumes or its network are not ready; it may be waiting for its volumes{}",
                self.claims_of(pod)
            ),
            Some(_) if is_waiting => self.claims_of(pod),
            _ => String::new(),
        }
    }
}

/// Whether an event is about what the kubelet does before it creates containers.
fn is_before_containers(event: &ObservedEvent) -> bool {
    let mut tables = STARTS.iter();
    tables.any(|table| table.reasons.contains(&event.reason.as_str()))
}

/// Whether the kubelet only reports that it waits for volumes.
fn is_wait(event: &ObservedEvent) -> bool {
    volume::WAITS.reasons.contains(&event.reason.as_str())
        && !volume::UNPROCESSED.look_up(&event.message).is_known()
        && volume::WAITS.look_up(&event.message).is_known()
}
