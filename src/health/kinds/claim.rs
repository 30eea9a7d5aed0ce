//! PersistentVolumeClaims.

use super::scene::Scene;
use crate::diagnosis::text::{KUBERNETES_MAX, because, one_line};
use crate::diagnosis::{Blocker, Cause};
use crate::report::verdict::{Outlook, Verdict};
use crate::report::{Phase, Report};

/// The fields of a PersistentVolumeClaim that a report uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// `status.phase`.
    pub phase: String,
}

pub(super) fn report(claim: &Claim, scene: &Scene<'_>) -> Report {
    match claim.phase.as_str() {
        "Bound" => return scene.complete("is bound", Vec::new()),
        "Lost" => {
            let message = "its PersistentVolume no longer exists".to_owned();
            let remedy = "restore the volume, or delete the claim and create it again";
            return scene.failed(
                "is lost",
                Blocker::new(Cause::NotBound, message, remedy),
                Vec::new(),
            );
        }
        _ => {}
    }
    let events = scene.examiner.events_about(&scene.observed.metadata.uid);
    let latest = events
        .filter(|event| {
            matches!(
                event.reason.as_str(),
                "ProvisioningFailed"
                    | "WaitForFirstConsumer"
                    | "FailedBinding"
                    | "ExternalProvisioning"
                    | "WaitForPodScheduled"
            )
        })
        .max_by_key(|event| event.last);
    if latest.is_some_and(|event| event.reason == "WaitForFirstConsumer") {
        // Nobody binds it before a pod uses it. A workload that does is reported on by itself.
        let what = "has nothing to wait for: its StorageClass binds it when the first pod uses it";
        let verdict = Verdict::new(Outlook::Complete, false, None);
        return scene.report(Phase::Complete, what, Vec::new(), verdict, Vec::new());
    }
    let (message, remedy) = match latest {
        Some(event) => {
            let text = one_line(&event.message, KUBERNETES_MAX);
            let message = format!(
                "{}{}",
                one_line(&event.reason, KUBERNETES_MAX),
                because(&text)
            );
            let remedy = match event.reason.as_str() {
                "FailedBinding" | "ProvisioningFailed" => {
                    "check storageClassName and its provisioner: kubectl get storageclass"
                        .to_owned()
                }
                _ => String::new(),
            };
            (message, remedy)
        }
        None => ("no volume is bound to it yet".to_owned(), String::new()),
    };
    let blocker = Blocker::new(Cause::NotBound, message, remedy);
    scene.open(Phase::Progressing, "is not bound", blocker)
}
