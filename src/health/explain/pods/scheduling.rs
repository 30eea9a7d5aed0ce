//! Why no node can run a pod, and what can be changed: the scheduler's reasons, the reaction of an autoscaler, and what
//! other pods have.

use rollplan_core::autoscaler::Reaction;
use rollplan_core::snapshot::{HostPort, ObservedVolume, Pod};
use rollplan_core::time::Span;

use crate::messages::scheduler::{Subject, TABLES};
use crate::messages::{Facts, Message, autoscaler};
use crate::observe::context::PodContext;
use crate::observe::peers::{Holder, Replacement, Role};
use crate::observe::pod::condition;
use crate::text::{KUBERNETES_MAX, NAME_MAX, one_line, word};

/// How long a scheduler may take to report on a new pod.
const SCHEDULER_SECONDS: i64 = 15;
/// The scheduler of pods that name none.
const DEFAULT_SCHEDULER: &str = "default-scheduler";
/// The maximum number of remedies in one text.
const REMEDIES_MAX: usize = 2;

/// A reason of the scheduler.
struct Reason {
    subject: Subject,
    /// The position of the row, which ranks reasons with the same subject.
    row: usize,
    message: Message,
}

impl<'a> PodContext<'a> {
    /// Whether no scheduler has reported on a pod for longer than one needs.
    pub(super) fn awaits_scheduler(&self, pod: &Pod) -> bool {
        let created = pod.metadata.creation_timestamp;
        let age = created.map(|created| self.now.since(created));
        pod.node_name.is_empty()
            && pod.containers.is_empty()
            && condition(pod, "PodScheduled").is_none()
            && matches!(pod.phase.as_str(), "" | "Pending")
            && age.is_some_and(|age| age > Span::from_seconds(SCHEDULER_SECONDS))
    }

    /// Whether an autoscaler is adding a node for a pod.
    pub(crate) fn is_adding_node(&self, pod: &Pod) -> bool {
        let reaction = self.reaction(pod);
        reaction.is_some_and(|reaction| reaction.adds_node(self.now))
    }

    /// The latest report of an autoscaler about a pod.
    fn reaction(&self, pod: &Pod) -> Option<Reaction<'a>> {
        Reaction::latest(self.events_about(&pod.metadata.uid))
    }

    /// What an autoscaler does for a pod, as the end of a sentence. Empty if it has not reacted.
    pub(super) fn autoscaling(&self, pod: &Pod) -> String {
        let Some(reaction) = self.reaction(pod) else {
            return String::new();
        };
        let event = reaction.event;
        let age = event.last.map(|last| self.now.since(last));
        let age = age.map_or_else(String::new, |age| format!(", {age} ago"));
        let reason = one_line(&event.reason, NAME_MAX);
        let facts = self.facts_of(pod);
        let text = if reaction.is_refusal {
            autoscaler::REFUSALS.look_up(&event.message).cause(&facts)
        } else {
            one_line(&event.message, KUBERNETES_MAX)
        };
        let what = match (reaction.is_refusal, reaction.adds_node(self.now)) {
            (true, _) => "the autoscaler adds no node",
            (false, true) => "the autoscaler adds a node",
            (false, false) => "the node that the autoscaler requested has not arrived",
        };
        format!("; {what} ({reason}{age}): {text}")
    }

    /// What can be changed so that a node can run a pod.
    pub(super) fn remedy_for_unscheduled(&self, pod: &Pod, message: &str) -> String {
        let facts = self.facts_of(pod);
        if condition(pod, "PodScheduled").is_none() {
            return match scheduler_name(pod) {
                DEFAULT_SCHEDULER => {
                    "check that the scheduler of the cluster is running".to_owned()
                }
                name => format!(
                    "check that scheduler {} is running, or correct schedulerName",
                    one_line(name, NAME_MAX)
                ),
            };
        }
        if let Some((_, remedy)) = self.claim_problem(pod) {
            return remedy;
        }
        if self.is_adding_node(pod) {
            // Only time is missing.
            return String::new();
        }
        let mut remedies: Vec<String> = Vec::new();
        let reaction = self.reaction(pod);
        if let Some(reaction) = reaction.filter(|reaction| reaction.is_refusal) {
            remedies.extend(refusal_remedy(&reaction.event.message, &facts));
        }
        let reasons = reasons(message);
        let is_of_volume = |reason: &&Reason| reason.subject == Subject::VolumeTopology;
        let topology = reasons.iter().find(is_of_volume);
        let place = topology.and_then(|_| self.volume_place(pod));
        // A volume limits the nodes, so only room on these helps.
        let ranked = reasons.iter();
        let mut ranked: Vec<(bool, Subject, usize, String)> = ranked
            .map(|reason| {
                let (is_in_the_way, remedy) = self.remedy_for_reason(pod, reason, &facts);
                let remedy = match (&place, reason.subject) {
                    (Some((place, volume)), Subject::Room) => {
                        format!("{remedy}, in {place}, where volume {volume} is")
                    }
                    _ => remedy,
                };
                (!is_in_the_way, reason.subject, reason.row, remedy)
            })
            .filter(|(.., remedy)| !remedy.is_empty())
            .collect();
        ranked.sort();
        let best = ranked.first().map(|(_, subject, ..)| *subject);
        for (index, (_, subject, _, remedy)) in ranked.into_iter().enumerate() {
            // Free resources and healthy nodes are alternatives. Other reasons keep pods away on purpose.
            let is_alternative = matches!(subject, Subject::Room | Subject::NodeState)
                && best.is_some_and(|best| best <= Subject::NodeState);
            let is_new = !remedies.contains(&remedy);
            if is_new && (index == 0 || is_alternative) && remedies.len() < REMEDIES_MAX {
                remedies.push(remedy);
            }
        }
        remedies.join("; or ")
    }

    /// What to change about a reason of the scheduler, and whether an old pod of the rollout is the cause.
    fn remedy_for_reason(&self, pod: &Pod, reason: &Reason, facts: &Facts) -> (bool, String) {
        let otherwise = reason.message.remedy(facts);
        match reason.subject {
            Subject::ExclusiveClaim => self.remedy_for_claim(pod),
            Subject::HostPort => self.remedy_for_ports(pod),
            Subject::OtherPods if self.peers.old_pods_are_in_the_way(self.template) => {
                let change = self.peers.without_surge();
                (
                    true,
                    format!(
                        "{change}: the old pods take the places of the new ones; or {otherwise}"
                    ),
                )
            }
            Subject::VolumeTopology => (false, self.remedy_for_topology(pod)),
            _ => (false, otherwise),
        }
    }

    /// The remedy if another pod uses a claim that only one pod may use.
    fn remedy_for_claim(&self, pod: &Pod) -> (bool, String) {
        let is_exclusive = |claim: &str| {
            let observed = self.peers.claim(claim);
            observed.is_some_and(|it| {
                it.access_modes
                    .iter()
                    .any(|mode| mode == "ReadWriteOncePod")
            })
        };
        let mut claims = pod.claims.iter().map(|volume| volume.claim.as_str());
        let claim = claims.clone().find(|claim| is_exclusive(claim));
        let Some(claim) = claim.or_else(|| claims.next()) else {
            return (false, String::new());
        };
        let namespace = &pod.metadata.namespace;
        let holder = self.peers.holder(pod, |other| {
            other.metadata.namespace == *namespace
                && other.claims.iter().any(|volume| volume.claim == claim)
        });
        let shown = one_line(claim, NAME_MAX);
        match holder {
            Some(holder) if self.is_replaced(&holder) => {
                let (name, change) = (named(&holder, pod), self.peers.without_surge());
                (
                    true,
                    format!(
                        "{change}: old pod {name} uses claim {shown}, which only one pod may use"
                    ),
                )
            }
            Some(holder) if holder.role == Role::Other => {
                let name = named(&holder, pod);
                (
                    false,
                    format!(
                        "let pod {name} end, or use another claim: only one pod may use claim {shown}"
                    ),
                )
            }
            Some(holder) => {
                let name = named(&holder, pod);
                let text = format!(
                    "run one pod, or use a claim with access mode ReadWriteMany: pod {name} uses claim {shown}, which only one \
                     pod may use"
                );
                (false, text)
            }
            None => {
                let text = format!(
                    "let the pod end that uses claim {shown}: kubectl describe pvc {} -n {}",
                    word(claim),
                    word(self.namespace)
                );
                (false, text)
            }
        }
    }

    /// The remedy if other pods use the ports of the node that a pod needs.
    fn remedy_for_ports(&self, pod: &Pod) -> (bool, String) {
        let uses = |wanted: &HostPort, other: &Pod| {
            other
                .host_ports
                .iter()
                .any(|port| wanted.conflicts_with(port))
        };
        let found = pod.host_ports.iter().find_map(|wanted| {
            let holder = self.peers.holder(pod, |other| uses(wanted, other))?;
            Some((wanted, holder))
        });
        if let Some((port, holder)) = found {
            let (name, port) = (named(&holder, pod), port.port);
            if self.is_replaced(&holder) {
                let change = self.peers.without_surge();
                return (
                    true,
                    format!("{change}: old pod {name} uses host port {port}"),
                );
            }
            let text = match holder.role {
                Role::Other => {
                    format!("free host port {port}, which pod {name} uses, or change hostPort")
                }
                _ => format!(
                    "add a node, run fewer pods, or remove hostPort: pod {name} uses host port {port}, and a node has it only once"
                ),
            };
            return (false, text);
        }
        let mut ports: Vec<String> = Vec::new();
        ports.extend(pod.host_ports.iter().map(|port| port.port.to_string()));
        let ports = match ports.as_slice() {
            [] => "the host port".to_owned(),
            [port] => format!("host port {port}"),
            ports => format!("host ports {}", ports.join(", ")),
        };
        let text = format!("free {ports} on a node, or change or remove hostPort");
        let text = match self.peers.replacement {
            // Both pods of a node would need the port in the next update.
            Replacement::SurgeOnNode => format!(
                "{text}; with a hostPort, an update also needs maxSurge 0, because the old and the new pod share the node"
            ),
            _ => text,
        };
        (false, text)
    }

    /// The remedy if no node can use a volume.
    fn remedy_for_topology(&self, pod: &Pod) -> String {
        match self.volume_place(pod) {
            Some((place, volume)) => format!(
                "add a node in {place}, where volume {volume} is, or let the pod run there: its nodeSelector, affinity and \
                 tolerations"
            ),
            None => format!(
                "add a node that can use the volume, or let the pod run there; the node affinity of the volume shows where: \
                 kubectl get pv -o yaml{}",
                self.claims_of(pod)
            ),
        }
    }

    /// Where the volume of a pod can be used, and its name, if the PersistentVolume is known.
    fn volume_place(&self, pod: &Pod) -> Option<(String, String)> {
        let mut claims = pod.claims.iter();
        claims.find_map(|volume| {
            let volume = self.peers.claim(&volume.claim)?.volume.as_ref()?;
            Some((place(volume)?, one_line(&volume.name, NAME_MAX)))
        })
    }

    /// Whether a holder ends as soon as the rollout deletes old pods first.
    fn is_replaced(&self, holder: &Holder<'_>) -> bool {
        holder.role == Role::Old && self.peers.replacement != Replacement::AfterOld
    }

    /// The claims of a pod, as the end of a sentence. Empty if it has none.
    pub(super) fn claims_of(&self, pod: &Pod) -> String {
        let claims: Vec<String> = pod
            .claims
            .iter()
            .map(|volume| one_line(&volume.claim, NAME_MAX))
            .collect();
        match claims.as_slice() {
            [] => String::new(),
            [claim] => format!(" (claim {claim})"),
            claims => format!(" (claims {})", claims.join(", ")),
        }
    }

    /// What remedies about a pod name.
    pub(super) fn facts_of(&self, pod: &Pod) -> Facts {
        Facts {
            namespace: word(self.namespace),
            pod: word(&pod.metadata.name),
            node: one_line(&pod.node_name, NAME_MAX),
            ..Facts::default()
        }
    }
}

/// The scheduler of a pod.
pub(super) fn scheduler_name(pod: &Pod) -> &str {
    match pod.scheduler_name.as_str() {
        "" => DEFAULT_SCHEDULER,
        name => name,
    }
}

/// A pod in a message: with its namespace if that is another one, and with its node.
pub(super) fn named(holder: &Holder<'_>, pod: &Pod) -> String {
    let metadata = &holder.pod.metadata;
    let name = if metadata.namespace == pod.metadata.namespace {
        metadata.name.clone()
    } else {
        format!("{}/{}", metadata.namespace, metadata.name)
    };
    let name = one_line(&name, NAME_MAX);
    match one_line(&holder.pod.node_name, NAME_MAX).as_str() {
        "" => name,
        node => format!("{name} on node {node}"),
    }
}

/// Where a volume can be used, for example "zone eu-1a".
fn place(volume: &ObservedVolume) -> Option<String> {
    let is_zone = |key: &str| key.ends_with("/zone");
    let terms = volume.topology.iter();
    let zone = terms.clone().find(|term| is_zone(&term.key));
    let node = terms
        .clone()
        .find(|term| term.key == "kubernetes.io/hostname");
    let values = |values: &[String]| one_line(&values.join(" or "), NAME_MAX);
    if let Some(node) = node {
        return Some(format!("node {}", values(&node.values)));
    }
    if let Some(zone) = zone {
        return Some(format!("zone {}", values(&zone.values)));
    }
    let term = volume.topology.first()?;
    let key = one_line(&term.key, NAME_MAX);
    Some(format!("a place with {key} {}", values(&term.values)))
}

/// What the scheduler has reported about nodes, without its report on preemption.
pub(super) fn scheduler_text(message: &str) -> &str {
    match message.split_once(". ") {
        Some((text, _)) if message.starts_with("0/") => {
            message.get(..=text.len()).unwrap_or(message)
        }
        _ => message,
    }
}

/// The reasons in a message of the scheduler or of the cluster autoscaler.
fn reasons(message: &str) -> Vec<Reason> {
    let text = scheduler_text(message);
    let text = text.strip_suffix('.').unwrap_or(text);
    let text = match text.split_once(" nodes are available: ") {
        Some((nodes, reasons)) if nodes.starts_with("0/") => reasons,
        _ => text,
    };
    numbered(text)
        .into_iter()
        .filter_map(|reason| reason_of(&reason))
        .collect()
}

fn reason_of(text: &str) -> Option<Reason> {
    TABLES.iter().find_map(|(subject, table)| {
        let message = table.look_up(text);
        let row = table.position(&message)?;
        Some(Reason {
            subject: *subject,
            row,
            message,
        })
    })
}

/// The entries of a list such as "2 Insufficient cpu, 1 Too many pods", without their numbers. A comma within an entry is
/// not followed by a number.
fn numbered(list: &str) -> Vec<String> {
    let mut entries: Vec<String> = Vec::new();
    for part in list.split(", ") {
        let number = part.split_once(' ').filter(|(number, _)| {
            !number.is_empty() && number.chars().all(|digit| digit.is_ascii_digit())
        });
        match (number, entries.last_mut()) {
            (Some((_, text)), _) => entries.push(text.to_owned()),
            (None, Some(last)) => last.push_str(&format!(", {part}")),
            (None, None) => entries.push(part.to_owned()),
        }
    }
    entries
}

/// What to change so that an autoscaler adds a node.
fn refusal_remedy(message: &str, facts: &Facts) -> Option<String> {
    let found = autoscaler::REFUSALS.look_up(message);
    let groups = numbered(&found.cause(&Facts::default()));
    let groups = groups.iter().map(|group| autoscaler::GROUPS.look_up(group));
    let remedies = std::iter::once(found).chain(groups);
    remedies
        .map(|message| message.remedy(facts))
        .find(|remedy| !remedy.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_reasons_are_split_at_numbers() {
        for (list, expected) in [
            (
                "1 Too many pods, 20 Insufficient memory",
                vec!["Too many pods", "Insufficient memory"],
            ),
            (
                "1 node(s) had taint {a: b}, that the pod didn't tolerate, 3 max cluster cpu, memory limit reached",
                vec![
                    "node(s) had taint {a: b}, that the pod didn't tolerate",
                    "max cluster cpu, memory limit reached",
                ],
            ),
            (
                "pod has unbound immediate PersistentVolumeClaims",
                vec!["pod has unbound immediate PersistentVolumeClaims"],
            ),
            ("", vec![""]),
        ] {
            assert_eq!(numbered(list), expected, "{list}");
        }
    }

    #[test]
    fn report_on_preemption_is_dropped() {
        for (message, expected) in [
            (
                "0/3 nodes are available: 3 Insufficient cpu. no new claims to deallocate, preemption: 0/3 nodes are available.",
                "0/3 nodes are available: 3 Insufficient cpu.",
            ),
            (
                "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found",
                "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
            ),
            (
                "0/1 nodes are available: 1 Insufficient cpu.",
                "0/1 nodes are available: 1 Insufficient cpu.",
            ),
            ("an error. of another kind", "an error. of another kind"),
        ] {
            assert_eq!(scheduler_text(message), expected);
        }
    }
}
