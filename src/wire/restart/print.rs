//! Converts as many plans to messages as fit in an answer.

use prost::Message as _;
use rollplan_core::interrupt::Interrupt;
use rollplan_restart::{
    Change, ChangeKind, Condition, Decision, Effect, Input, Plan, RestartCounts, RestartStep,
    Usage, Use, Workload, WorkloadPlan,
};

use super::sync::{Led, identify};
use crate::error::Violation;
use crate::event_calls::{self, Involved};
use crate::limits::ANSWER_BYTES_MAX;
use crate::path::OwnerResource;
use crate::print::{api_call, event};
use crate::print_revision::print_configuration_kind;
use crate::print_time::{duration, timestamp};
use crate::proto;

/// The maximum size of the plans in an answer, in bytes. The rest is for the counts and for the names in
/// `continue_after`.
const PLANS_BYTES_MAX: usize = ANSWER_BYTES_MAX - (1 << 19);
/// The size of a plan in an answer in addition to its message, in bytes.
const ITEM_BYTES: usize = 8;

/// Converts plans to messages.
pub(super) struct Printer<'a> {
    pub(super) input: &'a Input,
    /// The plural names of the workloads' resources.
    pub(super) resources: &'a [String],
    pub(super) events_as_calls: bool,
    pub(super) include_unchanged: bool,
}

/// The page of an answer to write.
pub(super) struct Page<'a> {
    pub(super) continue_after: &'a str,
    pub(super) violations: Vec<Violation>,
    pub(super) omitted: usize,
    /// What the controller does next, in its loop.
    pub(super) led: Option<Led>,
}

impl Printer<'_> {
    pub(super) fn print(
        &self,
        plan: Plan,
        page: Page<'_>,
        interrupt: &dyn Interrupt,
    ) -> proto::PlanRestartsResponse {
        let Plan {
            workloads,
            requeue_after,
            counts,
        } = plan;
        let Page {
            continue_after,
            violations,
            omitted,
            led,
        } = page;
        let (sync, nonce, include_namespaces) = match led {
            Some(led) => (Some(led.response), Some(led.nonce), led.namespaces),
            None => (None, None, Vec::new()),
        };
        let mut answer = proto::PlanRestartsResponse {
            requeue_after: requeue_after.map(duration),
            counts: Some(self::counts(counts)),
            sync,
            include_namespaces,
            ..proto::PlanRestartsResponse::default()
        };
        // Only the first page contains these.
        if continue_after.is_empty() {
            answer.violations = violations.into_iter().map(violation).collect();
            answer.omitted_violations = count(omitted);
        }
        let mut bytes = answer.encoded_len();
        let mut last = String::new();
        for plan in workloads {
            let workload = &self.input.workloads[plan.index];
            let is_reported = plan.decision != Decision::None || !plan.conditions.is_empty();
            let place = place(workload);
            if interrupt.is_interrupted()
                || !is_reported && !self.include_unchanged
                || !continue_after.is_empty() && place.as_str() <= continue_after
            {
                continue;
            }
            let plan = self.plan(plan, workload, nonce.as_deref());
            bytes += plan.encoded_len() + ITEM_BYTES;
            if bytes > PLANS_BYTES_MAX && !answer.plans.is_empty() {
                answer.continue_after = last;
                break;
            }
            answer.plans.push(plan);
            last = place;
        }
        answer
    }

    fn plan(
        &self,
        plan: WorkloadPlan,
        workload: &Workload,
        nonce: Option<&str>,
    ) -> proto::RestartPlan {
        let WorkloadPlan {
            index,
            decision,
            changes,
            conditions,
            due,
            steps,
            uses,
            is_restarting: _,
        } = plan;
        let owner = OwnerResource {
            api_version: &workload.api_version,
            kind: &workload.kind,
            plural: &self.resources[index],
        };
        let identified = |at: usize, mut step: proto::Step| {
            if let Some(nonce) = nonce {
                identify(&mut step, nonce, at, workload, &owner, decision);
            }
            step
        };
        let printed = match decision {
            Decision::None => proto::RestartDecision::None,
            Decision::Record => proto::RestartDecision::Record,
            Decision::Wait => proto::RestartDecision::Wait,
            Decision::Hold => proto::RestartDecision::Hold,
            Decision::Restart => proto::RestartDecision::Restart,
        };
        let steps = steps.into_iter().enumerate();
        proto::RestartPlan {
            api_version: workload.api_version.clone(),
            kind: workload.kind.clone(),
            namespace: workload.namespace.clone(),
            name: workload.name.clone(),
            uid: workload.uid.clone(),
            decision: printed.into(),
            conditions: conditions
                .into_iter()
                .map(|it| condition(it, changes.first()))
                .collect(),
            changes: changes.into_iter().map(change).collect(),
            steps: steps
                .map(|(at, step)| identified(at, self.step(step, at, workload, &owner)))
                .collect(),
            due: due.map(timestamp),
            uses: uses.into_iter().map(usage).collect(),
        }
    }

    fn step(
        &self,
        step: RestartStep,
        index: usize,
        workload: &Workload,
        owner: &OwnerResource<'_>,
    ) -> proto::Step {
        let RestartStep {
            summary,
            call,
            done_codes,
            event: recorded,
        } = step;
        let (on_failure, codes) = match done_codes {
            [] => (proto::OnFailure::Stop, Vec::new()),
            codes => (proto::OnFailure::DoneIf, codes.to_vec()),
        };
        let events: Vec<_> = recorded.map(event).into_iter().collect();
        let involved = Involved {
            api_version: &workload.api_version,
            kind: &workload.kind,
            namespace: &workload.namespace,
            name: &workload.name,
            uid: &workload.uid,
            resource_version: "",
        };
        let calls = events
            .iter()
            .filter(|_| self.events_as_calls)
            .map(|event| event_calls::call(event, index, &involved, self.input.now));
        proto::Step {
            summary,
            call: Some(api_call(call, owner)),
            on_failure: on_failure.into(),
            done_http_codes: codes.into_iter().map(i32::from).collect(),
            event_calls: calls.collect(),
            events,
            ..proto::Step::default()
        }
    }
}

/// The sort key of a workload. Names contain no spaces, which sort before all valid characters.
fn place(workload: &Workload) -> String {
    let Workload {
        namespace,
        kind,
        name,
        uid,
        ..
    } = workload;
    format!("{namespace} {kind} {name} {uid}")
}

fn counts(counts: RestartCounts) -> proto::RestartCounts {
    let RestartCounts {
        workloads,
        selected,
        references,
        unknown,
        decisions: [none, record, wait, hold, restart],
    } = counts;
    proto::RestartCounts {
        workloads: count(workloads),
        selected: count(selected),
        references: count(references),
        unknown: count(unknown),
        none: count(none),
        record: count(record),
        wait: count(wait),
        hold: count(hold),
        restart: count(restart),
    }
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

fn violation(violation: Violation) -> proto::ItemViolation {
    let Violation {
        field,
        reason,
        description,
    } = violation;
    proto::ItemViolation {
        field,
        reason: reason.as_str().to_owned(),
        description,
    }
}

fn change(change: Change) -> proto::ConfigurationChange {
    let message = change.to_string();
    let Change {
        kind,
        namespace,
        name,
        key,
        change,
    } = change;
    let r#type = match change {
        ChangeKind::Changed => "changed",
        ChangeKind::Added => "added",
        ChangeKind::Removed => "removed",
        ChangeKind::Created => "created",
        ChangeKind::Deleted => "deleted",
        ChangeKind::Unrecorded => "unrecorded",
        ChangeKind::Undone => "undone",
    };
    proto::ConfigurationChange {
        kind: match change {
            ChangeKind::Undone => proto::ConfigurationKind::Unspecified.into(),
            _ => print_configuration_kind(kind),
        },
        namespace,
        name,
        key,
        r#type: r#type.to_owned(),
        message,
    }
}

/// Converts a condition of a plan with this first change.
fn condition(condition: Condition, change: Option<&Change>) -> proto::RestartCondition {
    let is_new = condition.is_reported() && !condition.is_known;
    let event = is_new.then(|| proto::Event {
        r#type: "Warning".to_owned(),
        reason: event_reason(condition.reason),
        message: match change {
            Some(change) => format!("{}: {change}", condition.message),
            None => condition.message.clone(),
        },
    });
    let Condition {
        reason,
        effect,
        message,
        until,
        is_known: _,
    } = condition;
    let effect = match effect {
        Effect::Informs => proto::RestartConditionEffect::Informs,
        Effect::NotNeeded => proto::RestartConditionEffect::NotNeeded,
        Effect::Waits => proto::RestartConditionEffect::Waits,
        Effect::Holds => proto::RestartConditionEffect::Holds,
        Effect::PreventsStart => proto::RestartConditionEffect::PreventsStart,
    };
    proto::RestartCondition {
        reason: reason.to_owned(),
        message,
        until: until.map(timestamp),
        effect: effect.into(),
        event,
    }
}

/// The reason of the event about a condition, for example "RestartMarkerStripped" for "MARKER_STRIPPED".
fn event_reason(reason: &str) -> String {
    let words = reason.split('_').map(|word| {
        let (first, rest) = word.split_at(1.min(word.len()));
        first.to_owned() + &rest.to_ascii_lowercase()
    });
    words.fold("Restart".to_owned(), |name, word| name + &word)
}

fn usage(of: Use) -> proto::ConfigurationUse {
    let Use {
        kind,
        name,
        usages,
        keys,
    } = of;
    let usages = usages.into_iter().map(|usage| match usage {
        Usage::Env => proto::ReferenceUsage::Env,
        Usage::EnvFrom => proto::ReferenceUsage::EnvFrom,
        Usage::SubPath => proto::ReferenceUsage::SubPath,
        Usage::Volume => proto::ReferenceUsage::Volume,
        Usage::Unmounted => proto::ReferenceUsage::Unmounted,
        Usage::ImagePull => proto::ReferenceUsage::ImagePull,
        Usage::Named => proto::ReferenceUsage::Named,
        Usage::VolumeAccess => proto::ReferenceUsage::VolumeAccess,
    });
    proto::ConfigurationUse {
        kind: print_configuration_kind(kind),
        name,
        usages: usages.map(i32::from).collect(),
        keys,
    }
}
