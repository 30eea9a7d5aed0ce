//! Requests for plans of canaries. `print_canary.rs` has the responses.

use rollplan_canary::{Command, FIELD_MANAGER, Input, ManagedFields, Start};
use rollplan_core::interrupt::Interrupt;
use rollplan_core::snapshot::Deployment;
use rollplan_core::template::Value;

use super::context::Context;
use super::error::{Error, Reason};
use super::manifest::{ManifestReader, find_live};
use super::objects::ContentReader;
use super::parse::{Parser, Path};
use super::snapshot::{Kinds, Subject, present, read_snapshot};
use crate::proto;

/// The maximum length of the name of a pipeline, which is part of the state.
const PIPELINE_BYTES_MAX: usize = 256;

/// Reads a request for a plan of a canary.
///
/// # Errors
///
/// [`Error::InvalidArgument`] with all violations, [`Error::TooLarge`], [`Error::Interrupted`].
pub fn read_canary(
    request: proto::PlanCanaryRequest,
    context: &mut Context<'_>,
) -> Result<Input, Error> {
    let interrupt = context.interrupt;
    let proto::PlanCanaryRequest {
        snapshot,
        policy,
        command,
        verdicts,
    } = request;
    let mut parser = Parser::new(interrupt);
    // The owners of fields are remembered at the start, and change once the canary owns fields.
    let starts = [proto::CanaryAction::Start, proto::CanaryAction::Retry];
    let starts = command
        .as_ref()
        .is_some_and(|it| starts.contains(&it.action()));
    let texts = match &snapshot {
        Some(snapshot)
            if starts || snapshot.objects.iter().any(|it| it.contains(FIELD_MANAGER)) =>
        {
            snapshot.objects.clone()
        }
        _ => Vec::new(),
    };
    let subject = read_snapshot(snapshot, Kinds::Deployments, context, &mut parser)?;
    let policy = parser.canary_policy(policy)?;
    let verdicts = parser.canary_verdicts(verdicts)?;
    let current = match &subject {
        Some(Subject::Deployment(snapshot)) => Some(&snapshot.deployment),
        _ => None,
    };
    let managed_fields = match current {
        Some(current) => read_managed_fields(&texts, current, interrupt)?,
        None => None,
    };
    let command = match &command {
        Some(command) => read_command(command, current, &mut parser)?,
        None => None,
    };
    Ok(Input {
        snapshot: parser.finish(subject).and_then(present)?.deployment()?,
        policy,
        command,
        verdicts,
        managed_fields,
    })
}

/// The owners of the fields of the Deployment. `None` if the request does not have them.
fn read_managed_fields(
    texts: &[String],
    current: &Deployment,
    interrupt: &dyn Interrupt,
) -> Result<Option<ManagedFields>, Error> {
    let mut contents = ContentReader::new(interrupt);
    let live = find_live(texts, current, &mut contents, interrupt)?;
    let managed_fields = |live: &Value| {
        let metadata = live.get("metadata")?;
        let entries = metadata.get("managedFields")?.to_json();
        Some(ManagedFields {
            resource_version: metadata.get("resourceVersion")?.as_str()?.to_owned(),
            entries: serde_json::from_str(&entries).ok()?,
        })
    };
    Ok(live.as_ref().and_then(managed_fields))
}

/// `None` after a violation.
fn read_command<'i>(
    command: &'i proto::CanaryCommand,
    current: Option<&Deployment>,
    parser: &mut Parser<'i>,
) -> Result<Option<Command>, Error> {
    use proto::CanaryAction::{Abort, Promote, Start as Starts};
    let proto::CanaryCommand {
        action,
        deployment: text,
        template_digest,
        force,
        pipeline,
        replace,
        template_only,
    } = command;
    let path = Path::Root("command");
    let text_path = path.field("deployment");
    let action = parser.known(*action, &path.field("action"));
    for (field, is_set, actions) in [
        ("deployment", !text.is_empty(), &[Starts, Promote][..]),
        (
            "template_digest",
            !template_digest.is_empty(),
            &[Promote, Abort],
        ),
        ("force", *force, &[Promote]),
        ("pipeline", !pipeline.is_empty(), &[Starts]),
        ("replace", *replace, &[Starts]),
        ("template_only", *template_only, &[Starts]),
    ] {
        if is_set && !action.is_some_and(|it| actions.contains(&it)) {
            let names: Vec<&str> = actions
                .iter()
                .map(proto::CanaryAction::as_str_name)
                .collect();
            let description = format_args!("is only allowed with {}", names.join(" and "));
            parser.violation(&path.field(field), Reason::OutOfRange, description);
        }
    }
    let pipeline_path = path.field("pipeline");
    if *replace && pipeline.is_empty() {
        parser.violation(&pipeline_path, Reason::Required, "is required with replace");
    }
    if pipeline.len() > PIPELINE_BYTES_MAX {
        let description = format_args!("must have at most {PIPELINE_BYTES_MAX} bytes");
        parser.violation(&pipeline_path, Reason::OutOfRange, description);
    }
    let optional = |text: &str| Some(text.to_owned()).filter(|it| !it.is_empty());
    let is_read = action == Some(Starts) || action == Some(Promote) && !text.is_empty();
    let changed = if is_read {
        let mut reader = ManifestReader {
            contents: &mut ContentReader::new(parser.interrupt),
            parser,
            current,
            live: None,
        };
        reader.read(text, &text_path)?.map(|it| it.deployment)
    } else {
        None
    };
    Ok(match action {
        None => None,
        Some(proto::CanaryAction::Unspecified) => {
            parser.violation(&path.field("action"), Reason::Required, "is required");
            None
        }
        Some(proto::CanaryAction::Start) => changed.map(|deployment| {
            Command::Start(Box::new(Start {
                deployment,
                pipeline: optional(pipeline),
                replaces: *replace,
                is_template_only: *template_only,
            }))
        }),
        Some(proto::CanaryAction::Promote) => Some(Command::Promote {
            template: optional(template_digest),
            is_forced: *force,
            manifest: changed.map(Box::new),
        }),
        Some(proto::CanaryAction::Abort) => Some(Command::Abort {
            template: optional(template_digest),
        }),
        Some(proto::CanaryAction::Retry) => Some(Command::Retry),
        Some(proto::CanaryAction::Release) => Some(Command::Release),
    })
}
