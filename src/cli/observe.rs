//! One observation of a rollout: its status, with the cluster's events if a failure is possible.

use serde_json::Value;

use super::cluster::AddEvents;
use super::error::Error;
use super::input::{Node, Request, tree};
use super::options::ClusterArgs;
use super::output;
use super::planner::Planner;
use super::program;
use crate::proto;
use crate::text::counter;

/// How long pods may take to start before the events are read for a cause.
const STARTING_SECONDS: i64 = 15;

/// The observed status of an object.
#[derive(Debug)]
pub(super) struct Status {
    /// The object, for example "Deployment shop/web".
    pub(super) subject: String,
    pub(super) uid: String,
    /// The reason why the object is deleted once it has finished.
    pub(super) expiry: Option<String>,
    pub(super) response: proto::ComputeStatusResponse,
    /// The objects that it has created, if they are displayed.
    pub(super) tree: Vec<Node>,
    /// The time of the request, in seconds since 1970.
    pub(super) now: i64,
    /// The whole object, if it is kept.
    pub(super) object: Option<Value>,
}

// === impl Status ===

impl Status {
    /// Namespace and name, for example "shop/web".
    pub(super) fn name(&self) -> String {
        let object = self.response.object.clone().unwrap_or_default();
        match object.namespace.as_str() {
            "" => object.name,
            namespace => format!("{namespace}/{}", object.name),
        }
    }

    pub(super) fn kind(&self) -> &str {
        let object = self.response.object.as_ref();
        object.map_or("", |object| &object.kind)
    }

    /// Sets the tree from the objects of the request.
    pub(super) fn set_tree(&mut self, request: &Request) {
        let texts = &request.snapshot.objects;
        self.tree = tree(texts.get(..1).unwrap_or_default(), &request.uid);
    }
}

/// The options of a request for a status.
#[derive(Debug, Default)]
pub(super) struct StatusOptions {
    pub(super) fail_on: Vec<proto::FailureRule>,
    pub(super) previous: Option<proto::Verdict>,
}

pub(super) fn status_of(
    planner: &Planner,
    request: &Request,
    options: &StatusOptions,
) -> Result<Status, Error> {
    let message = proto::ComputeStatusRequest {
        // Cloning shares the texts of the objects.
        snapshot: Some(request.snapshot.clone()),
        options: None,
        previous_verdict: options.previous.clone(),
        fail_on: options.fail_on.clone(),
    };
    let response = planner
        .compute_status(message)
        .map_err(|refusal| refusal.into_error(&request.source_map))?;
    Ok(Status {
        subject: request.subject.clone(),
        uid: request.uid.clone(),
        expiry: request.expiry.clone(),
        response,
        tree: Vec::new(),
        now: request.snapshot.now.map_or(0, |now| now.seconds),
        object: None,
    })
}

/// Requests a status. If a failure is possible, requests it again with the cluster's events.
pub(super) fn observe(
    planner: &Planner,
    mut request: Request,
    options: &StatusOptions,
    wants_tree: bool,
    add_events: AddEvents<'_>,
) -> Result<Status, Error> {
    let mut status = status_of(planner, &request, options)?;
    let report = status.response.report.as_ref();
    let now = request.snapshot.now.as_ref();
    if report.is_some_and(|report| needs_events(report, now)) && add_events(&mut request)? {
        status = status_of(planner, &request, options)?;
    }
    if wants_tree {
        status.set_tree(&request);
    }
    status.object = request.object;
    Ok(status)
}

/// Whether events may explain why pods are missing or not ready. Pods created recently are still starting.
fn needs_events(report: &proto::RolloutReport, now: Option<&prost_types::Timestamp>) -> bool {
    let seconds = now.map_or(0, |now| now.seconds);
    report
        .blockers
        .iter()
        .any(|blocker| match blocker.reason.as_str() {
            "IMAGE_PULL"
            | "CONTAINER_CONFIG"
            | "CRASH_LOOP"
            | "PODS_REFUSED"
            | "REPLICA_SET_REFUSED"
            | "UNSCHEDULABLE" => true,
            "STARTING" | "NOT_READY" => {
                let since = blocker.since.as_ref();
                since.is_none_or(|since| seconds.saturating_sub(since.seconds) > STARTING_SECONDS)
            }
            // The controllers of other kinds report these causes only in events.
            "NOT_AVAILABLE" | "NOT_BOUND" | "NO_ADDRESS" | "OLD_POD_BLOCKS" => {
                report.counts.is_none()
            }
            "RUNNING" => counter(report, "active") == Some(0),
            _ => false,
        })
}

/// Adds the options of the cluster to the commands in remedies, and names the program as the user does.
pub(super) fn add_cluster(response: &mut proto::ComputeStatusResponse, cluster: &ClusterArgs) {
    let options = [
        ("--context", &cluster.context),
        ("--kubeconfig", &cluster.kubeconfig),
    ];
    let options: String = options
        .into_iter()
        .filter_map(|(name, value)| {
            let value = output::pasted_word(value.as_deref()?);
            Some(format!("{name}={value} "))
        })
        .collect();
    let Some(report) = &mut response.report else {
        return;
    };
    let program = program::command();
    let complete = |remedy: &mut String| {
        *remedy = remedy.replace("kubectl ", &format!("kubectl {options}"));
        for verb in ["undo", "wait", "canary promote", "canary abort"] {
            let command = format!("{program} {verb} {options}");
            *remedy = remedy.replace(&format!("rollplan {verb} "), &command);
        }
    };
    report
        .blockers
        .iter_mut()
        .for_each(|blocker| complete(&mut blocker.remedy));
    report
        .verdict
        .iter_mut()
        .for_each(|verdict| complete(&mut verdict.remedy));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{Blocker, Counter, Counts, RolloutReport};

    fn report(reason: &str, since: Option<i64>) -> RolloutReport {
        let since = since.map(|seconds| prost_types::Timestamp { seconds, nanos: 0 });
        RolloutReport {
            blockers: vec![Blocker {
                reason: reason.to_owned(),
                since,
                ..Default::default()
            }],
            ..Default::default()
        }
    }

    #[test]
    fn events_are_read_if_they_may_explain_a_failure() {
        let with_counts = |reason: &str| RolloutReport {
            counts: Some(Counts::default()),
            ..report(reason, None)
        };
        let with_active = |value: i64| RolloutReport {
            counters: vec![Counter {
                name: "active".to_owned(),
                value,
            }],
            ..report("RUNNING", None)
        };
        let now = prost_types::Timestamp {
            seconds: 100,
            nanos: 0,
        };
        for (report, expected) in [
            (report("CRASH_LOOP", None), true),
            (report("PAUSED", None), false),
            // Pods may take a while to start.
            (report("STARTING", Some(100 - STARTING_SECONDS)), false),
            (report("STARTING", Some(99 - STARTING_SECONDS)), true),
            (report("NOT_READY", None), true),
            // Pods explain why a Deployment is not available.
            (report("NOT_AVAILABLE", None), true),
            (with_counts("NOT_AVAILABLE"), false),
            // A Job without pods.
            (with_active(0), true),
            (with_active(1), false),
            (RolloutReport::default(), false),
        ] {
            assert_eq!(needs_events(&report, Some(&now)), expected, "{report:?}");
        }
    }
}
