//! What the reports on all kinds share: the object with its pods and events, and the rules that precede those of the kind.

use std::fmt;

use rollplan_core::interrupt::Interrupt;
use rollplan_core::kind;
use rollplan_core::pass::quote;
use rollplan_core::snapshot::{ObservedEvent, Pod};
use rollplan_core::time::Time;

use super::{Condition, ObjectSnapshot, View};
use crate::explain::pods::Explanation;
use crate::explain::{BlockedPod, Blocker, Cause, deletion};
use crate::judge::events::{self, Subject};
use crate::judge::failure::Group;
use crate::judge::options::VerdictOptions;
use crate::judge::pending::PendingVerdict;
use crate::judge::verdict::{Outlook, Verdict};
use crate::messages::refusal;
use crate::observe::context::{PodContext, by_object};
use crate::observe::peers::Peers;
use crate::observe::pod::is_terminating;
use crate::report::{Counter, Phase, Report};
use crate::text::{KUBERNETES_MAX, NAME_MAX, agree, because, count, one_line, word};

/// The label of objects that Kueue admits and resumes.
const QUEUE_LABEL: &str = "kueue.x-k8s.io/queue-name";
/// An owner that never resumes what it has created.
const CRON_JOB: &str = "CronJob";
/// The conditions of a namespace that is being deleted, and what to do about them. Content may also remain because of the
/// problems before it.
const CONTENT: [(&str, &str); 5] = [
    (
        "NamespaceDeletionDiscoveryFailure",
        "check the API services that do not answer: kubectl get apiservices",
    ),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "check the API services: kubectl get apiservices",
    ),
    ("NamespaceDeletionContentFailure", ""),
    (
        "NamespaceFinalizersRemaining",
        "check the controllers that remove these finalizers",
    ),
    ("NamespaceContentRemaining", ""),
];

/// An object as its snapshot shows it, with what is known about its pods.
pub(super) struct ObservedObject<'a> {
    pub(super) snapshot: &'a ObjectSnapshot,
    pub(super) context: PodContext<'a>,
    /// For example `statefulset "web"`.
    pub(super) subject: String,
}

impl<'a> ObservedObject<'a> {
    pub(super) fn new(
        snapshot: &'a ObjectSnapshot,
        peers: Peers<'a>,
        options: VerdictOptions,
        interrupt: &'a dyn Interrupt,
    ) -> Self {
        let has_revisions = matches!(snapshot.view, View::StatefulSet(_) | View::DaemonSet(_));
        Self {
            snapshot,
            context: PodContext {
                now: snapshot.now,
                interrupt,
                namespace: &snapshot.metadata.namespace,
                template: snapshot.template.as_ref(),
                min_ready_seconds: snapshot.min_ready_seconds,
                rollout_began: None,
                events: by_object(&snapshot.events),
                options,
                noun: if has_revisions { "new pod" } else { "pod" },
                peers,
                may_complete: match &snapshot.view {
                    View::Job(_) => true,
                    View::Pod(pod) => !pod.is_always_restarted,
                    _ => false,
                },
            },
            subject: format!(
                "{} {}",
                snapshot.kind.to_lowercase(),
                quote(&snapshot.metadata.name)
            ),
        }
    }

    pub(super) fn now(&self) -> Time {
        self.snapshot.now
    }

    /// The API group. Empty for "v1".
    pub(super) fn group(&self) -> &'a str {
        kind::group(&self.snapshot.api_version)
    }

    /// The condition of a type.
    pub(super) fn condition(&self, kind: &str) -> Option<&'a Condition> {
        let mut conditions = self.snapshot.conditions.iter();
        conditions.find(|condition| condition.kind == kind)
    }

    /// The condition of a type, if it is true.
    pub(super) fn true_condition(&self, kind: &str) -> Option<&'a Condition> {
        self.condition(kind)
            .filter(|condition| condition.status == "True")
    }

    /// Resource and name as one word of a command, for example "statefulset/web".
    pub(super) fn resource(&self) -> String {
        let kind = self.snapshot.kind.to_lowercase();
        word(&format!("{kind}/{}", self.snapshot.metadata.name))
    }

    /// The options of a command, for example " -n shop".
    pub(super) fn in_namespace(&self) -> String {
        match self.snapshot.metadata.namespace.as_str() {
            "" => String::new(),
            namespace => format!(" -n {}", word(namespace)),
        }
    }

    /// Who resumes the object, if it was not suspended by a user: the controller of its queue, or its owner, for example a
    /// JobSet.
    pub(super) fn resumed_by(&self) -> Option<String> {
        let metadata = &self.snapshot.metadata;
        if metadata.labels.contains_key(QUEUE_LABEL) {
            return Some("the controller of its queue resumes it".to_owned());
        }
        let owner = metadata.controller();
        let owner = owner.filter(|owner| owner.kind != CRON_JOB)?;
        let [kind, name] = [&owner.kind, &owner.name].map(|text| one_line(text, NAME_MAX));
        Some(format!("its owner {kind} {name} resumes it"))
    }

    /// The report that the rules for every kind give. In this order: the object is being deleted, its generation has not
    /// been observed, it has the condition Reconciling, or Stalled. For kinds without a view, `generic.rs` has the rules
    /// after the first.
    pub(super) fn by_conditions(&self) -> Option<Report> {
        // A finished Job keeps its result while its time to live deletes it.
        let is_finished = matches!(self.snapshot.view, View::Job(_))
            && ["Complete", "Failed"]
                .iter()
                .any(|kind| self.true_condition(kind).is_some());
        if self.snapshot.metadata.deletion_timestamp.is_some() && !is_finished {
            return Some(self.deleting());
        }
        if matches!(self.snapshot.view, View::Other(_)) {
            return None;
        }
        if let Some(blocker) = self.unobserved() {
            return Some(self.open(Phase::Progressing, "is waiting", blocker));
        }
        if let Some(condition) = self.true_condition("Reconciling") {
            let blocker = self.of_condition(
                Cause::Reconciling,
                "its controller is working on it",
                condition,
            );
            return Some(self.open(Phase::Progressing, "is being reconciled", blocker));
        }
        let condition = self.true_condition("Stalled")?;
        let blocker = self.of_condition(
            Cause::ControllerStalled,
            "its controller makes no progress",
            condition,
        );
        // Its controller may recover, as a rollout may after its progress deadline: the verdict is not certain.
        let verdict = Verdict::new(Outlook::NeedsChange, false, Some(&blocker));
        Some(self.report(
            Phase::Stalled,
            "is stalled",
            vec![blocker],
            verdict,
            Vec::new(),
        ))
    }

    fn deleting(&self) -> Report {
        let now = self.now();
        let metadata = &self.snapshot.metadata;
        let ending = || match (&self.snapshot.view, self.snapshot.pods.first()) {
            (View::Pod(_), Some(pod)) => {
                let due = metadata.deletion_timestamp?;
                let message = deletion::progress(due, now);
                let remedy = deletion::remedy(pod, now);
                Some(Blocker::new(Cause::Deleting, message, remedy))
            }
            _ => self.remaining_content(),
        };
        let blocker = deletion::finalizers(metadata, now).or_else(ending);
        let verdict = Verdict::deleting(&self.snapshot.kind, blocker.as_ref());
        self.report(
            Phase::Deleting,
            "is being deleted",
            blocker.into_iter().collect(),
            verdict,
            Vec::new(),
        )
    }

    /// The blocker if the deletion of a namespace waits for its content (kube-controller-manager:
    /// pkg/controller/namespace/deletion/status_condition_utils.go).
    fn remaining_content(&self) -> Option<Blocker> {
        let is_namespace = self.group().is_empty() && self.snapshot.kind == "Namespace";
        let mut conditions = CONTENT.iter().filter(|_| is_namespace);
        conditions.find_map(|(kind, remedy)| {
            let condition = self.true_condition(kind)?;
            let what = format!("its condition {kind} is true");
            let mut blocker = self.of_condition(Cause::Deleting, &what, condition);
            (*remedy).clone_into(&mut blocker.remedy);
            Some(blocker)
        })
    }

    /// The blocker if the status is missing or of an earlier generation.
    pub(super) fn unobserved(&self) -> Option<Blocker> {
        let generation = self.snapshot.metadata.generation;
        let is_behind = match self.snapshot.observed_generation {
            Some(observed) => observed < generation,
            // The controllers of these kinds always report the generation.
            None => matches!(
                self.snapshot.view,
                View::StatefulSet(_) | View::DaemonSet(_) | View::ReplicaSet(_)
            ),
        };
        is_behind.then(|| {
            let message = match self.snapshot.observed_generation {
                Some(observed) => format!(
                    "no controller has observed the latest change (generation {generation}, observed {observed})"
                ),
                None => "no controller has observed it yet".to_owned(),
            };
            Blocker::new(Cause::GenerationUnobserved, message, "")
        })
    }

    /// A blocker with the reason and the message of a condition.
    pub(super) fn of_condition(&self, cause: Cause, what: &str, condition: &Condition) -> Blocker {
        let mut blocker = Blocker::new(cause, format!("{what}{}", explained(condition)), "");
        blocker.since = condition.last_transition_time;
        blocker
    }

    /// The report on a complete object.
    pub(super) fn complete(&self, what: &str, counters: Vec<Counter>) -> Report {
        let verdict = Verdict::new(Outlook::Complete, true, None);
        self.report(Phase::Complete, what, Vec::new(), verdict, counters)
    }

    /// The report on an object with one blocker, which may resolve itself.
    pub(super) fn open(&self, phase: Phase, what: &str, blocker: Blocker) -> Report {
        let verdict = Verdict::new(Outlook::Undecided, false, Some(&blocker));
        self.report(phase, what, vec![blocker], verdict, Vec::new())
    }

    /// The report on an object with one blocker that certainly needs a change.
    pub(super) fn failed(&self, what: &str, blocker: Blocker, counters: Vec<Counter>) -> Report {
        let verdict = Verdict::new(Outlook::NeedsChange, true, Some(&blocker));
        self.report(Phase::Stalled, what, vec![blocker], verdict, counters)
    }

    /// A report. Its message is the name of the object, `what`, and the message of the first blocker.
    pub(super) fn report(
        &self,
        phase: Phase,
        what: impl fmt::Display,
        blockers: Vec<Blocker>,
        mut verdict: Verdict,
        counters: Vec<Counter>,
    ) -> Report {
        let first = blockers.first();
        let cause = first.map_or("", |blocker| blocker.message.as_str());
        let has_pods = match &self.snapshot.view {
            View::Job(job) => job.active > 0,
            _ => true,
        };
        // Pods of Jobs may run for any time.
        verdict.is_open_ended = has_pods && first.is_some_and(|it| it.cause == Cause::Running);
        verdict.event_selectors = events::selectors(
            &blockers,
            Subject {
                now: self.now(),
                has_conditions_about_pods: false,
                has_pods,
            },
        );
        let awaits_observation = |it: &Blocker| it.cause == Cause::GenerationUnobserved;
        Report {
            is_observed: self.unobserved().is_none() && !blockers.iter().any(awaits_observation),
            message: format!("{} {what}{}", self.subject, because(cause)),
            phase,
            counts: None,
            counters,
            is_generic: matches!(self.snapshot.view, View::Other(_)),
            reasons: Vec::new(),
            blockers,
            revision: String::new(),
            replica_set: String::new(),
            deadline: None,
            verdict,
        }
    }

    /// The pods that must terminate before the controller continues.
    pub(super) fn terminating(&self) -> Option<Blocker> {
        let now = self.now();
        let pods = self.snapshot.pods.iter();
        let mut ending: Vec<_> = pods
            .filter_map(|pod| Some((pod.metadata.deletion_timestamp?, pod)))
            .filter(|(_, pod)| !matches!(pod.phase.as_str(), "Failed" | "Succeeded"))
            .collect();
        ending.sort_by_key(|(due, pod)| (*due, &pod.metadata.name));
        let &(due, pod) = ending.first()?;
        let name = &pod.metadata.name;
        let number = i64::try_from(ending.len()).unwrap_or(i64::MAX);
        let how = deletion::progress(due, now);
        let are = agree(count(number, "pod"), number);
        let node = match one_line(&pod.node_name, NAME_MAX).as_str() {
            "" => String::new(),
            node => format!(" (node {node})"),
        };
        let message = format!("{are} terminating: {name}, {how}{node}");
        let mut blocker = Blocker::new(Cause::OldPodsRunning, message, deletion::remedy(pod, now));
        blocker.remaining = (due > now).then(|| due.since(now));
        let pods = ending.iter().map(|(due, pod)| BlockedPod {
            name: pod.metadata.name.clone(),
            reason: "Terminating".to_owned(),
            since: Some(*due).filter(|due| *due <= now),
            ..BlockedPod::default()
        });
        Some(blocker.with_pods(pods.collect()))
    }

    /// Whether a pod of the object is terminating within its grace period.
    pub(super) fn pods_terminate(&self) -> bool {
        let mut pods = self.snapshot.pods.iter();
        pods.any(|pod| is_terminating(pod, self.now()))
    }

    /// The blocker if events report that the API server rejects pods: these kinds have no condition for it.
    pub(super) fn pods_refused(&self) -> Option<Blocker> {
        let events = self.context.events_about(&self.snapshot.metadata.uid);
        let latest = events
            .filter(|event| event.reason == "FailedCreate")
            .max_by_key(|event| event.last)
            .filter(|event| !self.has_created_since(event))?;
        let age = latest.last.map(|last| self.now().since(last));
        let age = age.map_or_else(String::new, |age| format!(", {age} ago"));
        let why = because(&one_line(&latest.message, KUBERNETES_MAX));
        let message = format!("the API server rejects the pods (FailedCreate{age}){why}");
        let remedy = if self.pods_terminate() {
            String::new()
        } else {
            refusal::remedy(&latest.message, &word(&self.snapshot.metadata.namespace))
        };
        let mut blocker = Blocker::new(Cause::PodsRefused, message, remedy);
        blocker.since = latest.first;
        Some(blocker)
    }

    /// Whether the API server has accepted a pod after a rejection: a newer one, or the rejected one of a StatefulSet, whose
    /// name the controller uses again.
    fn has_created_since(&self, rejection: &ObservedEvent) -> bool {
        let is_later = |time| rejection.last.is_some_and(|last| time > Some(last));
        let is_accepted = |pod: &Pod| {
            let named = format!("create Pod {} in StatefulSet ", pod.metadata.name);
            is_later(pod.metadata.creation_timestamp) || rejection.message.starts_with(&named)
        };
        let mut events = self.context.events_about(&self.snapshot.metadata.uid);
        self.snapshot.pods.iter().any(is_accepted)
            || events.any(|event| event.reason == "SuccessfulCreate" && is_later(event.last))
    }

    /// The verdict about pods: a rejection, or a failure that all pods share, is certain after its grace period. Anything
    /// else is undecided, unless the pods only need more time to become available.
    pub(super) fn judge(
        &self,
        blockers: &[Blocker],
        explanations: &[Explanation<'_>],
        group: &Group,
    ) -> Verdict {
        let find = |cause| blockers.iter().find(|blocker| blocker.cause == cause);
        let mut pending = PendingVerdict::new(blockers.first());
        if let Some(blocker) = find(Cause::PodsRefused) {
            let uid = &self.snapshot.metadata.uid;
            let certainty = self.context.refusal(uid, "FailedCreate", group.makes_room);
            if let Some(verdict) = pending.add_refusal(blocker, certainty) {
                return verdict;
            }
        }
        if let Some(failure) = self.context.shared_failure(explanations, group, None)
            && let Some(blocker) = find(failure.cause)
            && let Some(verdict) = pending.add_failure(blocker, &failure)
        {
            return verdict;
        }
        let only_time = !blockers.is_empty()
            && blockers
                .iter()
                .all(|blocker| blocker.cause == Cause::MinReadySeconds);
        let outlook = if only_time {
            Outlook::CompletesByItself
        } else {
            Outlook::Undecided
        };
        Verdict {
            decided_after: pending.certain_at,
            since: pending.since,
            ..Verdict::new(outlook, false, pending.lead)
        }
    }
}

/// STALLED if the object certainly needs a change, and otherwise the given phase.
pub(super) fn phase_of(verdict: &Verdict, otherwise: Phase) -> Phase {
    if verdict.outlook == Outlook::NeedsChange && verdict.is_certain {
        Phase::Stalled
    } else {
        otherwise
    }
}

/// The phase in the words of a message about a rollout.
pub(super) fn rollout_words(phase: Phase) -> &'static str {
    match phase {
        Phase::Stalled => "is stalled",
        Phase::Degraded => "is degraded",
        _ => "is rolling out",
    }
}

/// The reason and message of a condition, for example " (Installing): the CRD is new".
pub(super) fn explained(condition: &Condition) -> String {
    let reason = one_line(&condition.reason, KUBERNETES_MAX);
    let reason = match reason.as_str() {
        "" => String::new(),
        reason => format!(" ({reason})"),
    };
    format!(
        "{reason}{}",
        because(&one_line(&condition.message, KUBERNETES_MAX))
    )
}

/// Counters from names and values.
pub(super) fn counters<const N: usize>(rows: [(&'static str, i32); N]) -> Vec<Counter> {
    let counter = |(name, value): (&'static str, i32)| Counter {
        name,
        value: value.into(),
    };
    rows.into_iter().map(counter).collect()
}
