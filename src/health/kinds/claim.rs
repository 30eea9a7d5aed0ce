//! PersistentVolumeClaims.

use super::observed::ObservedObject;
use crate::explain::{Blocker, Cause};
use crate::judge::verdict::{Outlook, Verdict};
use crate::report::{Phase, Report};
use crate::text::{KUBERNETES_MAX, because, one_line};

/// The fields of a PersistentVolumeClaim that a report uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// `status.phase`.
    pub phase: String,
}

pub(super) fn report(claim: &Claim, object: &ObservedObject<'_>) -> Report {
    match claim.phase.as_str() {
        "Bound" => return object.complete("is bound", Vec::new()),
        "Lost" => {
            let message = "its PersistentVolume no longer exists".to_owned();
            let remedy = "restore the volume, or delete the claim and create it again";
            return object.failed(
                "is lost",
                Blocker::new(Cause::NotBound, message, remedy),
                Vec::new(),
            );
        }
        _ => {}
    }
    let events = object.context.events_about(&object.snapshot.metadata.uid);
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
        // It is bound only when a pod uses it. There is a separate report for the workload of such a pod.
        let what = "has nothing to wait for: its StorageClass binds it when the first pod uses it";
        let verdict = Verdict::new(Outlook::Complete, false, None);
        return object.report(Phase::Complete, what, Vec::new(), verdict, Vec::new());
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
    object.open(Phase::Progressing, "is not bound", blocker)
}
