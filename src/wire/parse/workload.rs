//! Parses workloads of kinds other than Deployment.

use rollplan_core::diagnosis::failure::judgement::Judgement;
use rollplan_core::interrupt::Interrupt;
use rollplan_core::kinds::Observed;
use rollplan_core::snapshot::StringMap;
use rollplan_core::time::Time;

use super::Parser;
use super::path::Path;
use crate::proto;
use crate::wire::error::Error;
use crate::wire::limits::{EVENTS_MAX, limit};
use crate::wire::objects::kinds::{POD_LABELS, Workload};

/// Parses the pods and events of a workload, and the rules for judging it.
pub(in crate::wire) fn workload(
    workload: Workload,
    now: Option<prost_types::Timestamp>,
    options: Option<proto::PlanOptions>,
    previous: Option<proto::Verdict>,
    rules: Vec<proto::FailureRule>,
    interrupt: &dyn Interrupt,
) -> Result<(Observed, Judgement), Error> {
    let Workload {
        mut observed,
        pods,
        pod_origins,
        events,
        event_origins,
    } = workload;
    limit("snapshot.events", events.len(), EVENTS_MAX)?;
    let mut parser = Parser::new(interrupt);
    let now_path = Path::Root("snapshot.now");
    let now = parser.required(now, &now_path);
    let now = now.and_then(|now| parser.time(now, &now_path));
    observed.now = now.unwrap_or(Time::MIN);
    parser.options(options, &Path::Root("options"));
    let pods_path = Path::Objects(&pod_origins);
    for (index, mut pod) in pods.into_iter().enumerate() {
        interrupt.check()?;
        let mut labels = StringMap::new();
        if let Some(metadata) = &mut pod.metadata {
            labels = std::mem::take(&mut metadata.labels);
            labels.retain(|key, _| POD_LABELS.contains(&key.as_str()));
        }
        let namespace = &observed.metadata.namespace;
        let mut pod = parser.pod(pod, namespace, &pods_path.index(index));
        pod.metadata.labels = labels;
        observed.pods.push(pod);
    }
    let events_path = Path::Objects(&event_origins);
    for (index, event) in events.into_iter().enumerate() {
        interrupt.check()?;
        let event = parser.event(event, &events_path.index(index));
        observed.events.push(event);
    }
    let judgement = parser.judgement(previous, rules);
    parser.finish((observed, judgement))
}
