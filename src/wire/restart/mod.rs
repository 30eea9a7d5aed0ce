//! Plans restarts: requests may contain thousands of workloads, and plans are returned in pages.

mod objects;
mod print;
mod started;

use rollplan_restart::{Input, plan_restarts as plan};

use self::print::{Page, Printer};
use super::context::Context;
use super::error::Error;
use super::parse::restart::{RestartItems, RestartOptions, restart_options};
use crate::proto;

/// Plans the restarts of workloads whose configuration has changed. Violations of single items are part of the answer.
pub(super) fn plan_restarts(
    request: proto::PlanRestartsRequest,
    context: &mut Context<'_>,
) -> Result<proto::PlanRestartsResponse, Error> {
    let interrupt = context.interrupt;
    let proto::PlanRestartsRequest {
        now,
        configurations,
        objects,
        configurations_complete,
        options,
        continue_after,
    } = request;
    let options = restart_options(now, options, interrupt)?;
    let mut items = RestartItems::default();
    items.read(configurations, interrupt)?;
    let is_continued = objects::read(&objects, &options, &mut items, interrupt)?;
    let RestartItems {
        workloads,
        resources,
        configurations,
        namespaces,
        violations,
        omitted,
        ..
    } = items;
    let RestartOptions {
        now,
        plan: plan_options,
        events_as_calls,
        include_unchanged,
        ..
    } = options;
    let input = Input {
        now,
        workloads,
        configurations,
        namespaces,
        configurations_complete: configurations_complete && !is_continued,
        options: plan_options,
    };
    let planned = plan(&input, interrupt)?;
    let printer = Printer {
        input: &input,
        resources: &resources,
        events_as_calls,
        include_unchanged,
    };
    let page = Page {
        continue_after: &continue_after,
        violations,
        omitted,
    };
    let answer = printer.print(planned, page, interrupt);
    interrupt.check()?;
    Ok(answer)
}
