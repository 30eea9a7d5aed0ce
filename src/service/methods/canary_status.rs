//! Canaries in the reports of Deployments: a hold must not look like a rollout that hangs.

use rollplan_canary::{ANNOTATION, HELD_MIN_READY, Input, Phase, Policy, Report, plan_canary};
use rollplan_core::interrupt::{Interrupt, Interrupted};
use rollplan_core::snapshot::Snapshot;
use rollplan_health::explain::Cause;
use rollplan_wire::{proto, timestamp};

/// The reason of the blocker.
const HELD: &str = "CANARY_HELD";

/// The blockers that are consequences of a hold.
const CONSEQUENCES: [Cause; 5] = [
    Cause::MinReadySeconds,
    Cause::NotAvailable,
    Cause::HeldBySurge,
    Cause::HeldByAvailability,
    Cause::DeadlineExceeded,
];

/// Adds what is known about the canary of a Deployment to the report on its rollout.
pub(super) fn add_canary(
    report: &mut proto::RolloutReport,
    snapshot: &Snapshot,
    interrupt: &dyn Interrupt,
) -> Result<(), Interrupted> {
    let deployment = &snapshot.deployment;
    let is_held = deployment.spec.min_ready_seconds == HELD_MIN_READY;
    let has_state = deployment.metadata.annotations.contains_key(ANNOTATION);
    if !(is_held || has_state) || !deployment.is_native() {
        return Ok(());
    }
    let input = Input {
        snapshot: snapshot.clone(),
        // What the user wants is not known here.
        policy: Policy {
            raises: false,
            aborts_on_failure: false,
            ..Policy::default()
        },
        command: None,
        verdicts: Vec::new(),
        managed_fields: None,
    };
    let name = &deployment.metadata.name;
    match plan_canary(&input, interrupt)? {
        Ok(plan) => match plan.report.phase {
            Phase::Hold => hold(report, snapshot, plan.report),
            Phase::Promoting => {
                report.message = format!("a canary is being promoted: {}", report.message);
            }
            Phase::Aborting => {
                report.message = format!("a canary is being aborted: {}", report.message);
            }
            Phase::Rest | Phase::Done | Phase::Aborted => {}
        },
        Err(refusal) => add(
            report,
            name,
            &refusal.to_string(),
            proto::Blocker::default(),
        ),
    }
    Ok(())
}

fn hold(report: &mut proto::RolloutReport, snapshot: &Snapshot, canary: Report) {
    let metadata = &snapshot.deployment.metadata;
    let Report {
        pods_wanted,
        pods_available,
        since,
        ..
    } = canary;
    let since = since.map(timestamp);
    let began = since.map_or_else(String::new, |since| {
        let since = prost_types::Timestamp { nanos: 0, ..since };
        format!(" since {since}")
    });
    let message = format!(
        "{pods_available} of {pods_wanted} canary pods are available, and the canary is held{began}, until it is promoted or aborted"
    );
    let target = format!("deploy/{} -n {}", metadata.name, metadata.namespace);
    let blocker = proto::Blocker {
        remedy: format!(
            "promote or abort the canary: `rollplan canary promote {target}` or `rollplan canary abort {target}`"
        ),
        since,
        ..proto::Blocker::default()
    };
    add(report, &metadata.name, &message, blocker);
}

/// Puts a blocker about the canary before those that only need time, and after a failure.
fn add(report: &mut proto::RolloutReport, name: &str, message: &str, blocker: proto::Blocker) {
    let is_consequence =
        |reason: &str| Cause::from_reason(reason).is_some_and(|it| CONSEQUENCES.contains(&it));
    report.blockers.retain(|it| !is_consequence(&it.reason));
    let blocker = proto::Blocker {
        reason: HELD.to_owned(),
        message: message.to_owned(),
        ..blocker
    };
    let verdict = report.verdict.get_or_insert_default();
    let has_failed = verdict.certain && verdict.outlook() == proto::Outlook::NeedsChange;
    if has_failed && !report.blockers.is_empty() {
        report.blockers.insert(1, blocker)
    } else {
        report.message = format!("deployment {name:?} has a canary: {message}");
        *verdict = proto::Verdict {
            outlook: proto::Outlook::Undecided.into(),
            reason: HELD.to_owned(),
            message: message.to_owned(),
            remedy: blocker.remedy.clone(),
            awaits_user: true,
            event_selectors: std::mem::take(&mut verdict.event_selectors),
            ..proto::Verdict::default()
        };
        report.phase = proto::Phase::Progressing.into();
        report.deadline = None;
        report.blockers.insert(0, blocker);
    }
}
