//! One observation of a rollout: its status, with the events of the cluster if they may explain it.

use rollplan_wire::proto;
use serde_json::Value;

use super::cluster::AddEvents;
use super::error::Error;
use super::input::{Node, Request, tree};
use super::options::ClusterArgs;
use super::output;
use super::planner::Planner;
use super::program;

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
        .answer(message)
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

/// Requests a status. If events may explain it, requests it again with those of the cluster.
pub(super) fn observe(
    planner: &Planner,
    mut request: Request,
    options: &StatusOptions,
    wants_tree: bool,
    add_events: AddEvents<'_>,
) -> Result<Status, Error> {
    let mut status = status_of(planner, &request, options)?;
    let report = status.response.report.as_ref();
    let verdict = report.and_then(|report| report.verdict.as_ref());
    let selectors = verdict.map_or(&[][..], |verdict| &verdict.event_selectors);
    if add_events(&mut request, selectors)? {
        status = status_of(planner, &request, options)?;
    }
    if wants_tree {
        status.set_tree(&request);
    }
    status.object = request.object;
    Ok(status)
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
