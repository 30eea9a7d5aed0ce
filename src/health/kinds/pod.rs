//! Pods without a controller: a failed pod is not replaced.

use super::scene::{Scene, phase_of};
use crate::diagnosis::failure::Group;
use crate::diagnosis::failure::evidence::was_ready;
use crate::diagnosis::text::{KUBERNETES_MAX, because, one_line};
use crate::diagnosis::{Blocker, Cause};
use crate::report::{Phase, Report};
use rollplan_core::snapshot::Pod;

/// The fields of a single pod that a report uses in addition to those of every pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SinglePod {
    /// Whether `spec.restartPolicy` is Always.
    pub is_always_restarted: bool,
}

pub(super) fn report(scene: &Scene<'_>) -> Report {
    let Some(pod) = scene.observed.pods.first() else {
        return scene.complete("exists", Vec::new());
    };
    match pod.phase.as_str() {
        "Succeeded" => return scene.complete("has succeeded", Vec::new()),
        "Failed" => return scene.failed("has failed", failed(pod, scene), Vec::new()),
        _ => {}
    }
    let findings = scene.examiner.examine_all(std::iter::once(pod));
    let is_ready =
        crate::diagnosis::pods::condition(pod, "Ready").is_some_and(|ready| ready.status == "True");
    if is_ready {
        return scene.complete("is ready", Vec::new());
    }
    let mut blockers = scene.examiner.blockers(&findings, 1);
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
    let verdict = scene.judge(&blockers, &findings, &group);
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
    scene.report(phase, what, blockers, verdict, Vec::new())
}

/// The cause of a failed pod.
fn failed(pod: &Pod, scene: &Scene<'_>) -> Blocker {
    let finding = scene.examiner.examine(pod);
    let (text, remedy) = match &finding {
        Some(finding) if finding.container.is_some() => {
            let text = format!(
                "container {}: {}",
                finding.pod.container, finding.pod.message
            );
            (text, scene.examiner.remedy(finding))
        }
        Some(finding) if finding.pod.reason != pod.phase => {
            let why = because(&finding.pod.message);
            (format!("{}{why}", finding.pod.reason), String::new())
        }
        _ => {
            let why = because(&one_line(&pod.message, KUBERNETES_MAX));
            (format!("it has failed{why}"), String::new())
        }
    };
    Blocker::new(Cause::PodFailed, text, remedy)
}
