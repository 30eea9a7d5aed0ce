//! `rollplan history`.

use clap::Args;
use rollplan_text as text;
use rollplan_wire::proto;
use serde_json::Value;

use super::read::read;
use crate::cli::cluster::Needs;
use crate::cli::error::Error;
use crate::cli::exit::Exit;
use crate::cli::input::{Request, SourceMap};
use crate::cli::options::{AnswerArgs, InputArgs, Output};
use crate::cli::output;
use crate::cli::planner::Planner;

/// Appended to `--help`.
pub(in crate::cli) const HELP: &str = "\
Exit codes: 0 the revisions were printed; 2 invalid command line or input, no such revision, or missing permission; 4 no \
answer from the service, kubectl or the cluster.";

/// The annotation with the number of a revision.
const REVISION: &str = "deployment.kubernetes.io/revision";

#[derive(Args, Debug)]
pub(in crate::cli) struct HistoryArgs {
    #[command(flatten)]
    pub(in crate::cli) input: InputArgs,
    /// Print this revision with its pod template
    #[arg(long, value_name = "REVISION", value_parser = clap::value_parser!(i64).range(1..))]
    pub(in crate::cli) revision: Option<i64>,
    /// Print the changes of the pod template from --revision to this revision; values of environment variables are hidden
    #[arg(
        long,
        value_name = "REVISION",
        requires = "revision",
        value_parser = clap::value_parser!(i64).range(1..)
    )]
    pub(in crate::cli) compare_to: Option<i64>,
    #[command(flatten)]
    pub(in crate::cli) answer: AnswerArgs<Output>,
}

/// `rollplan history`.
pub(in crate::cli) fn run(args: HistoryArgs) -> Result<Exit, Error> {
    let HistoryArgs {
        input,
        revision,
        compare_to,
        answer: AnswerArgs { output, server },
    } = args;
    let planner = Planner::new(server)?;
    let Request {
        subject,
        snapshot,
        source_map,
        uid,
        is_partial,
        ..
    } = read(&input, Needs::Revisions, None)?;
    let exit = Exit::Done.of_input(is_partial);
    let now = snapshot.now;
    let request = proto::ListRevisionsRequest {
        snapshot: Some(snapshot.clone()),
    };
    let mut response = planner
        .answer(request)
        .map_err(|refusal| refusal.into_error(&source_map))?;
    let Some(wanted) = revision else {
        output::print(output, &response, |page| {
            text::history(page, &subject, now.as_ref(), &response);
        })?;
        return Ok(exit);
    };
    let history = History {
        subject: &subject,
        uid: &uid,
        snapshot,
        revisions: &response.revisions,
    };
    let found = history.find(wanted)?.clone();
    if let Some(other) = compare_to {
        let to = history.find(other)?;
        let changes = history.compare(&planner, &found, to, &source_map)?;
        output::print(output, &changes, |page| {
            text::comparison(page, &subject, &changes);
        })?;
        return Ok(exit);
    }
    let template = history.template(&found);
    response.revisions = vec![found];
    output::print(output, &response, |page| {
        text::history(page, &subject, now.as_ref(), &response);
        text::template(page, &output::yaml_text(&template));
    })?;
    Ok(exit)
}

/// The revisions of an object, with its dependents.
struct History<'h> {
    subject: &'h str,
    uid: &'h str,
    snapshot: proto::Snapshot,
    revisions: &'h [proto::Revision],
}

// === impl History ===

impl History<'_> {
    fn find(&self, number: i64) -> Result<&proto::Revision, Error> {
        let mut revisions = self.revisions.iter();
        revisions.rfind(|it| it.revision == number).ok_or_else(|| {
            let known: Vec<String> = self
                .revisions
                .iter()
                .map(|it| it.revision.to_string())
                .collect();
            let known = known.join(", ");
            Error::Absent(format!(
                "{} has no revision {number}; it has {known}",
                self.subject
            ))
        })
    }

    /// The template of a revision, without the label that the controller adds.
    fn template(&self, revision: &proto::Revision) -> Value {
        let mut template = Value::Null;
        let mut objects = self.snapshot.objects.clone();
        edit(&mut objects, &mut |object| {
            let name = &object["metadata"]["name"];
            if object["kind"] == "ReplicaSet" && *name == revision.replica_set.as_str() {
                template = object["spec"]["template"].clone();
            }
            if object["kind"] == "ControllerRevision"
                && *name == revision.controller_revision.as_str()
            {
                template = object["data"]["spec"]["template"].clone();
            }
        });
        if let Some(fields) = template.as_object_mut() {
            // The directive of the patch that a ControllerRevision contains.
            fields.remove("$patch");
        }
        if let Some(labels) = template["metadata"]["labels"].as_object_mut() {
            labels.remove("pod-template-hash");
        }
        template
    }

    /// The changes from one revision to another: those of a rollback of the object with the first one's template.
    fn compare(
        &self,
        planner: &Planner,
        from: &proto::Revision,
        to: &proto::Revision,
        source_map: &SourceMap,
    ) -> Result<proto::RollbackResponse, Error> {
        let template = self.template(from);
        let mut snapshot = self.snapshot.clone();
        edit(&mut snapshot.objects, &mut |object| {
            if object["metadata"]["uid"] == self.uid {
                object["spec"]["template"] = template.clone();
                if object["kind"] == "StatefulSet" || object["kind"] == "DaemonSet" {
                    return;
                }
                object["spec"]["paused"] = false.into();
                object["metadata"]["annotations"][REVISION] = from.revision.to_string().into();
            }
        });
        let request = proto::RollbackRequest {
            snapshot: Some(snapshot),
            to_revision: to.revision,
            ..proto::RollbackRequest::default()
        };
        let response = planner
            .answer(request)
            .map_err(|refusal| refusal.into_error(source_map))?;
        Ok(proto::RollbackResponse {
            from_revision: from.revision,
            to_revision: to.revision,
            replica_set: to.replica_set.clone(),
            controller_revision: to.controller_revision.clone(),
            changes: response.changes,
            ..proto::RollbackResponse::default()
        })
    }
}

/// Changes all objects in texts of Kubernetes JSON.
fn edit(texts: &mut [String], change: &mut dyn FnMut(&mut Value)) {
    for text in texts {
        let mut json: Value = serde_json::from_str(text).unwrap_or_default();
        match json["items"].as_array_mut() {
            Some(items) => items.iter_mut().for_each(&mut *change),
            None => change(&mut json),
        }
        *text = json.to_string();
    }
}
