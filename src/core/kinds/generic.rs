//! Unknown kinds, judged by the conditions that many controllers share: Reconciling and Stalled first (`scene.rs`), then
//! Ready. These are the conditions of kstatus, which Flux and Helm use.

use super::scene::Scene;
use crate::diagnosis::Cause;
use crate::report::verdict::{Outlook, Verdict};
use crate::report::{Phase, Report};

pub(super) fn report(scene: &Scene<'_>) -> Report {
    let Some(ready) = scene.condition("Ready") else {
        // Without an observed generation, the object may have no controller.
        let is_observed = scene.observed.observed_generation.is_some();
        let what = match is_observed {
            true => "is complete as far as its status shows: the latest generation is observed",
            false => "exists and reports no condition to wait for",
        };
        let verdict = Verdict::new(Outlook::Complete, is_observed, None);
        return scene.report(Phase::Complete, what, Vec::new(), verdict, Vec::new());
    };
    if ready.status == "True" {
        return scene.complete("is ready, according to its condition Ready", Vec::new());
    }
    let what = match ready.status.as_str() {
        "False" => "its condition Ready is false",
        _ => "its condition Ready is unknown",
    };
    let blocker = scene.of_condition(Cause::ConditionFalse, what, ready);
    scene.open(Phase::Progressing, "is not ready", blocker)
}
