//! Formats revisions, and rollbacks to them.

use prost_types::Timestamp;
use rollplan_wire::proto;

use super::page::{Columns, Page, Style};
use super::span;
use super::table;

/// The revisions of an object, with their age at the given time.
pub fn history(
    page: &mut Page,
    subject: &str,
    now: Option<&Timestamp>,
    response: &proto::ListRevisionsResponse,
) {
    let proto::ListRevisionsResponse { revisions } = response;
    let what = match revisions.len() {
        0 => "no revisions yet".to_owned(),
        1 => "1 revision".to_owned(),
        count => format!("{count} revisions"),
    };
    page.line(&format!("{subject}: {what}"), Style::Strong);
    if revisions.is_empty() {
        return;
    }
    page.gap();
    let is_replica_set = revisions.iter().all(|it| it.controller_revision.is_empty());
    let (owner, size) = if is_replica_set {
        ("REPLICASET", "SIZE")
    } else {
        ("CONTROLLERREVISION", "PODS")
    };
    let mut table = Columns::head([
        "REVISION",
        owner,
        "CHANGE-CAUSE",
        "IMAGES",
        "AGE",
        size,
        "AVAIL",
        "STATE",
    ]);
    for revision in revisions {
        let plain = |text: String| (text, Style::Plain);
        let or_dash = |text: String| {
            if text.is_empty() {
                "-".to_owned()
            } else {
                text
            }
        };
        let number = match revision.revision {
            0 => String::new(),
            number => number.to_string(),
        };
        let state = match (revision.current, revision.cleaned_up_next) {
            (true, _) => ("current".to_owned(), Style::Good),
            (false, true) => ("cleaned up next".to_owned(), Style::Faint),
            (false, false) => plain(String::new()),
        };
        let earlier: Vec<String> = revision
            .earlier_revisions
            .iter()
            .map(i64::to_string)
            .collect();
        let below = match earlier.as_slice() {
            [] => String::new(),
            earlier => format!("previously revision {}", earlier.join(", ")),
        };
        table.row(
            [
                plain(or_dash(number)),
                plain(if is_replica_set {
                    revision.replica_set.clone()
                } else {
                    revision.controller_revision.clone()
                }),
                plain(or_dash(revision.change_cause.clone())),
                plain(or_dash(revision.images.join(page.separator()))),
                plain(or_dash(age(now, revision.creation_timestamp.as_ref()))),
                plain(revision.replicas.to_string()),
                plain(revision.available_replicas.to_string()),
                state,
            ],
            &below,
        );
    }
    page.columns(&table);
}

/// The age of an object at a time.
fn age(now: Option<&Timestamp>, then: Option<&Timestamp>) -> String {
    match (now, then) {
        (Some(now), Some(then)) => {
            // The age is not negative, even if clocks differ.
            let seconds = now.seconds.saturating_sub(then.seconds).max(0);
            span::age(seconds.unsigned_abs())
        }
        _ => String::new(),
    }
}

/// A pod template in YAML.
pub fn template(page: &mut Page, yaml: &str) {
    page.gap();
    page.line("Pod template", Style::Strong);
    for line in yaml.lines() {
        page.verbatim(&format!("  {line}"));
    }
}

/// The changes from one revision to another.
pub fn comparison(page: &mut Page, subject: &str, response: &proto::RollbackResponse) {
    let proto::RollbackResponse {
        from_revision,
        to_revision,
        ..
    } = response;
    let what = if response.changes.is_empty() {
        ": no change"
    } else {
        ""
    };
    let title = format!("{subject}: from revision {from_revision} to {to_revision}{what}");
    page.line(&title, Style::Strong);
    template_changes(page, &response.changes);
}

/// A rollback: the changes of the template, notes, and the API call.
pub fn undo(page: &mut Page, subject: &str, response: &proto::RollbackResponse) {
    let title = undo_title(subject, response);
    page.line(&title, Style::Strong);
    if !response.reason.is_empty() {
        page.line(&response.reason, Style::Plain);
    }
    template_changes(page, &response.changes);
    if !response.warnings.is_empty() {
        page.gap();
        page.line("Notes", Style::Strong);
        for warning in &response.warnings {
            page.paragraph("  - ", Style::Plain, warning, Style::Plain);
        }
    }
    for (index, step) in response.steps.iter().enumerate() {
        page.gap();
        table::step(page, index + 1, step);
    }
}

/// The fields of a template that differ.
pub(super) fn template_changes(page: &mut Page, changes: &[proto::TemplateChange]) {
    differences(page, "Changes of the template", changes);
}

/// The other fields of a spec that differ.
pub(super) fn spec_changes(page: &mut Page, changes: &[proto::TemplateChange]) {
    differences(page, "Changes of the spec", changes);
}

fn differences(page: &mut Page, title: &str, changes: &[proto::TemplateChange]) {
    if changes.is_empty() {
        return;
    }
    page.gap();
    page.line(title, Style::Strong);
    for change in changes {
        let proto::TemplateChange {
            path,
            from_json,
            to_json,
        } = change;
        let (from, to) = (json_or_absent(from_json), json_or_absent(to_json));
        page.paragraph("  ", Style::Plain, path, Style::Plain);
        page.paragraph("    from  ", Style::Faint, from, Style::Bad);
        page.paragraph("    to    ", Style::Faint, to, Style::Good);
    }
}

/// A value of a field, or a word if the field is absent.
pub fn json_or_absent(json: &str) -> &str {
    match json {
        "" => "(absent)",
        json => json,
    }
}

/// For example "Deployment shop/web: roll back from revision 3 to 2 (ReplicaSet web-7d9)".
pub fn undo_title(subject: &str, response: &proto::RollbackResponse) -> String {
    let proto::RollbackResponse {
        steps,
        from_revision,
        to_revision,
        replica_set,
        controller_revision,
        ..
    } = response;
    if steps.is_empty() {
        return format!("{subject}: nothing to undo");
    }
    let from = match from_revision {
        0 => "to revision".to_owned(),
        from => format!("from revision {from} to"),
    };
    let of = match controller_revision.as_str() {
        "" => format!("ReplicaSet {replica_set}"),
        name => format!("ControllerRevision {name}"),
    };
    format!("{subject}: roll back {from} {to_revision} ({of})")
}
