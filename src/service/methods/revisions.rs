//! Rollbacks and lists of revisions.

use rollplan_core::controller_revision::{self, ToRevision};
use rollplan_wire::{
    Context, Error, RollbackInput, Subject, print_revisions, proto, read_list_revisions,
    read_rollback,
};

/// Plans a rollback of a Deployment, a StatefulSet or a DaemonSet to an earlier revision.
pub(crate) fn rollback(
    request: proto::RollbackRequest,
    context: &mut Context<'_>,
) -> Result<proto::RollbackResponse, Error> {
    let RollbackInput {
        subject,
        to_revision,
        printer,
    } = read_rollback(request, context)?;
    let interrupt = context.interrupt;
    let answer = match subject {
        Subject::Workload(workload) => {
            let restoration =
                controller_revision::restore_until(&workload, to_revision, interrupt)?;
            printer.print_restoration(restoration?, &workload, interrupt)
        }
        subject => {
            let snapshot = subject.deployment()?;
            let to_revision = match to_revision {
                ToRevision::LastAvailable => {
                    rollplan_core::last_available_revision(&snapshot, interrupt)?
                }
                ToRevision::Previous => 0,
                ToRevision::Number(number) => number,
            };
            let rollback = rollplan_core::rollback_until(&snapshot, to_revision, interrupt)?;
            printer.print(rollback?, &snapshot, interrupt)
        }
    };
    interrupt.check()?;
    Ok(answer)
}

/// Lists the revisions of a Deployment, a StatefulSet or a DaemonSet.
pub(crate) fn list_revisions(
    request: proto::ListRevisionsRequest,
    context: &mut Context<'_>,
) -> Result<proto::ListRevisionsResponse, Error> {
    let subject = read_list_revisions(request, context)?;
    let interrupt = context.interrupt;
    let revisions = match subject {
        Subject::Workload(workload) => {
            controller_revision::list_controller_revisions_until(&workload, interrupt)?
        }
        subject => rollplan_core::list_revisions_until(&subject.deployment()?, interrupt)?,
    };
    let answer = print_revisions(revisions);
    interrupt.check()?;
    Ok(answer)
}
