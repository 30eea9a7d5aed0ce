//! The events that may explain a state, or make the verdict about it certain.

use rollplan_core::time::{Span, Time};

use crate::explain::{Blocker, Cause};

/// How long pods may take to start before events are needed to explain why they are not ready.
const STARTING_SECONDS: i64 = 15;

/// Field selectors of the API server for events. No event matches two of them.
const WARNINGS: &[&str] = &["type=Warning"];
/// Events about claims, also normal ones, which state why a claim is waiting.
const OF_CLAIMS: &[&str] = &["involvedObject.kind=PersistentVolumeClaim"];
/// Normal events of cluster-autoscaler and of Karpenter, which report whether a node will be added. They are selected by
/// their reasons, because a namespace may have thousands of other normal events.
const OF_AUTOSCALERS: &[&str] = &[
    "type=Normal,reason=TriggeredScaleUp",
    "type=Normal,reason=NotTriggerScaleUp",
    "type=Normal,reason=Nominated",
];
/// Normal events of the kubelet, which report that it is pulling an image.
const OF_PULLS: &[&str] = &["type=Normal,reason=Pulling"];
/// Normal events of the attach-detach controller, which report that a volume is attached.
const OF_ATTACHMENTS: &[&str] = &["type=Normal,reason=SuccessfulAttachVolume"];
/// Normal events about the claims of pods, which state why a claim is waiting.
const OF_WAITING_CLAIMS: &[&str] = &[
    "type=Normal,reason=FailedBinding",
    "type=Normal,reason=ExternalProvisioning",
];

/// What is known about an object besides its blockers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject {
    pub(crate) now: Time,
    /// Whether its conditions explain why pods are missing. The controllers of other kinds report this only in events.
    pub(crate) has_conditions_about_pods: bool,
    /// Whether pods of it exist that can explain why it is not complete.
    pub(crate) has_pods: bool,
}

/// The field selectors of the events that may explain these blockers, in the order of the first blocker that needs them.
pub(crate) fn selectors(blockers: &[Blocker], subject: Subject) -> Vec<&'static str> {
    let mut selectors = Vec::new();
    let lists = blockers.iter().flat_map(|it| of_blocker(it, subject));
    for selector in lists.flat_map(|list| list.iter()) {
        if !selectors.contains(selector) {
            selectors.push(*selector);
        }
    }
    selectors
}

fn of_blocker(blocker: &Blocker, subject: Subject) -> &'static [&'static [&'static str]] {
    let Subject {
        now,
        has_conditions_about_pods,
        has_pods,
    } = subject;
    let starting = Span::from_seconds(STARTING_SECONDS);
    let takes_long = blocker
        .since
        .is_none_or(|since| now.since(since) > starting);
    match blocker.cause {
        Cause::ImagePull => &[WARNINGS, OF_PULLS],
        Cause::ContainerConfig
        | Cause::CrashLoop
        | Cause::PodsRefused
        | Cause::ReplicaSetRefused => &[WARNINGS],
        Cause::Unschedulable => &[WARNINGS, OF_AUTOSCALERS, OF_WAITING_CLAIMS],
        Cause::Starting if takes_long => &[WARNINGS, OF_PULLS, OF_ATTACHMENTS],
        Cause::NotReady if takes_long => &[WARNINGS],
        Cause::NotAvailable if !has_conditions_about_pods => &[WARNINGS],
        Cause::Running if !has_pods => &[WARNINGS],
        Cause::OldPodBlocks | Cause::NoAddress => &[WARNINGS],
        Cause::NotBound => &[OF_CLAIMS],
        Cause::ReplicaSetsIncomplete
        | Cause::SelectorEmpty
        | Cause::GenerationUnobserved
        | Cause::ReplicaSetUnobserved
        | Cause::Deleting
        | Cause::Paused
        | Cause::Capped
        | Cause::JobFailed
        | Cause::ControllerStalled
        | Cause::OnDelete
        | Cause::NotReady
        | Cause::PodFailed
        | Cause::OldPodsRunning
        | Cause::PodsIncomplete
        | Cause::ConditionFalse
        | Cause::NotJudged
        | Cause::Reconciling
        | Cause::Starting
        | Cause::Running
        | Cause::NotFinal
        | Cause::MinReadySeconds
        | Cause::NotAvailable
        | Cause::HeldBySurge
        | Cause::HeldByAvailability
        | Cause::StaleAnnotation
        | Cause::DeadlineExceeded
        | Cause::SelectorOverlap => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_000;

    fn at(seconds: i64) -> Time {
        Time::new(seconds, 0).unwrap()
    }

    fn selected(causes: &[Cause], age: i64, subject: Subject) -> Vec<&'static str> {
        let blockers = causes.iter().map(|cause| {
            let mut blocker = Blocker::new(*cause, String::new(), "");
            blocker.since = Some(at(NOW - age));
            blocker
        });
        selectors(&blockers.collect::<Vec<_>>(), subject)
    }

    #[test]
    fn events_are_selected_if_they_may_explain_a_state() {
        let subject = Subject {
            now: at(NOW),
            has_conditions_about_pods: true,
            has_pods: true,
        };
        let other = Subject {
            has_conditions_about_pods: false,
            has_pods: false,
            ..subject
        };
        let none: &[&str] = &[];
        for (cause, age, subject, expected) in [
            (Cause::CrashLoop, 0, subject, WARNINGS),
            (Cause::Paused, 100, subject, none),
            // Pods may take a while to start.
            (Cause::NotReady, STARTING_SECONDS, subject, none),
            (Cause::NotReady, STARTING_SECONDS + 1, subject, WARNINGS),
            (Cause::Starting, STARTING_SECONDS, subject, none),
            // The conditions of a Deployment report that pods are rejected.
            (Cause::NotAvailable, 100, subject, none),
            (Cause::NotAvailable, 100, other, WARNINGS),
            (Cause::Running, 100, subject, none),
            (Cause::Running, 100, other, WARNINGS),
            (Cause::NotBound, 0, other, OF_CLAIMS),
        ] {
            assert_eq!(selected(&[cause], age, subject), expected, "{cause} {age}");
        }
    }

    #[test]
    fn normal_events_are_selected_by_reason_beside_the_warnings() {
        let subject = Subject {
            now: at(NOW),
            has_conditions_about_pods: true,
            has_pods: true,
        };
        let all = selected(&[Cause::Unschedulable, Cause::Starting], 60, subject);
        let expected = [
            WARNINGS,
            OF_AUTOSCALERS,
            OF_WAITING_CLAIMS,
            OF_PULLS,
            OF_ATTACHMENTS,
        ];
        assert_eq!(all, expected.concat());
    }

    #[test]
    fn documentation_has_the_selectors() {
        let page = include_str!("../../../docs/reference/verdict.md");
        let lists = [
            WARNINGS,
            OF_AUTOSCALERS,
            OF_PULLS,
            OF_ATTACHMENTS,
            OF_WAITING_CLAIMS,
            OF_CLAIMS,
        ];
        for selector in lists.concat() {
            let quoted = format!("`{selector}`");
            assert!(
                page.contains(&quoted),
                "docs/reference/verdict.md must contain {quoted}"
            );
        }
    }
}
