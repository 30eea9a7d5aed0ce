//! Restarts: requests with thousands of workloads in, as many plans as fit into an answer out.

mod json;
mod objects;
mod print;
mod started;

use rollplan_core::interrupt::{Interrupt, Never};
use rollplan_core::restart::{Input, plan_restarts as plan};

use self::print::{Page, Printer};
use super::error::Error;
use super::parse::restart::{Items, RestartOptions, restart_options};
use crate::proto;

/// Which workloads to restart because their configuration has changed.
///
/// # Errors
///
/// As [`plan_rollout`](super::plan_rollout). What is wrong with single items is part of the answer.
pub fn plan_restarts(
    request: proto::PlanRestartsRequest,
) -> Result<proto::PlanRestartsResponse, Error> {
    plan_restarts_until(request, &Never)
}

/// [`plan_restarts`], unless it is interrupted.
///
/// # Errors
///
/// As [`plan_restarts`], and [`Error::Interrupted`].
pub fn plan_restarts_until(
    request: proto::PlanRestartsRequest,
    interrupt: &dyn Interrupt,
) -> Result<proto::PlanRestartsResponse, Error> {
    let proto::PlanRestartsRequest {
        now,
        workloads,
        configurations,
        namespaces,
        objects_json,
        configurations_complete,
        options,
        continue_after,
    } = request;
    let options = restart_options(now, options, interrupt)?;
    let mut items = Items::default();
    items.read(workloads, configurations, namespaces, interrupt)?;
    let is_continued = objects::read(&objects_json, &options, &mut items, interrupt)?;
    let Items {
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
