//! Pods without a controller: a failed pod is not replaced.

use rollplan_core::snapshot::Pod;

use super::observed::{ObservedObject, phase_of};
use crate::explain::{Blocker, Cause};
use crate::judge::failure::Group;
use crate::observe::pod::was_ready;
use crate::report::{Phase, Report};
use crate::text::{KUBERNETES_MAX, because, one_line};

/// The fields of a single pod that a report uses in addition to those of every pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SinglePod {
    /// Whether `spec.restartPolicy` is Always.
    pub is_always_restarted: bool,
}

pub(super) fn report(object: &ObservedObject<'_>) -> Report {
    let Some(pod) = object.snapshot.pods.first() else {
        return object.complete("exists", Vec::new());
    };
    match pod.phase.as_str() {
        "Succeeded" => return object.complete("has succeeded", Vec::new()),
        "Failed" => return object.failed("has failed", failed(pod, object), Vec::new()),
        _ => {}
    }
    let explanations = object.context.explain_all(std::iter::once(pod));
    let is_ready =
        crate::observe::pod::condition(pod, "Ready").is_some_and(|ready| ready.status == "True");
    if is_ready {
        return object.complete("is ready", Vec::new());
    }
    let mut blockers = object.context.blockers(&explanations, 1);
    if blockers.is_empty() {
        let message =
            "its containers have terminated or are running, but it is not ready".to_owned();
        blockers.push(Blocker::new(Cause::NotReady, message, ""));
    }
    let group = Group {
        existing: 1,
        has_ready: false,
        makes_room: false,
    };
    let verdict = object.judge(&blockers, &explanations, &group);
    let phase = if was_ready(pod) {
        Phase::Degraded
    } else {
        Phase::Progressing
    };
    let phase = phase_of(&verdict, phase);
    let what = match phase {
        Phase::Stalled => "is stalled",
        Phase::Degraded => "is degraded",
        _ => "is not ready",
    };
    object.report(phase, what, blockers, verdict, Vec::new())
}

/// The cause of a failed pod.
fn failed(pod: &Pod, object: &ObservedObject<'_>) -> Blocker {
    let explanation = object.context.explain(pod);
    let (text, remedy) = match &explanation {
        Some(explanation) if explanation.container.is_some() => {
            let text = format!(
                "container {}: {}",
                explanation.blocked.container, explanation.blocked.message
            );
            (text, object.context.remedy(explanation))
        }
        Some(explanation) if explanation.blocked.reason != pod.phase => {
            let why = because(&explanation.blocked.message);
            (
                format!("{}{why}", explanation.blocked.reason),
                String::new(),
            )
        }
        _ => {
            let why = because(&one_line(&pod.message, KUBERNETES_MAX));
            (format!("it has failed{why}"), String::new())
        }
    };
    Blocker::new(Cause::PodFailed, text, remedy)
}
