//! Requests for plans of restarts, and the responses. Requests may contain thousands of workloads, and plans are returned in
//! pages.

mod objects;
mod print;
mod started;
mod sync;
mod value;

use rollplan_core::interrupt::Interrupt;
use rollplan_restart::{Calls, Input, Plan};

use self::print::{Page, Printer};
use self::sync::{LoopInput, LoopRequest};
use super::context::Context;
use super::error::{Error, Violation};
use super::parse::restart::{RestartItems, RestartOptions, restart_options};
use crate::proto;

/// A request for a plan of restarts.
#[derive(Debug)]
pub struct RestartsInput {
    /// The workloads and their configurations.
    pub input: Input,
    /// The plural names of the workloads' resources.
    resources: Vec<String>,
    events_as_calls: bool,
    include_unchanged: bool,
    continue_after: String,
    /// Violations of single items are part of the answer.
    violations: Vec<Violation>,
    omitted: usize,
    /// The loop of a controller.
    turn: Option<LoopInput>,
}

/// Reads a request for a plan of restarts.
///
/// # Errors
///
/// [`Error::InvalidArgument`] with all violations of the options, [`Error::TooLarge`], [`Error::Interrupted`].
pub fn read_restarts(
    request: proto::PlanRestartsRequest,
    context: &mut Context<'_>,
) -> Result<RestartsInput, Error> {
    let interrupt = context.interrupt;
    let proto::PlanRestartsRequest {
        now,
        configurations,
        objects,
        configurations_complete,
        options,
        continue_after,
        sync,
        scope,
    } = request;
    let turn = LoopRequest::read(sync, scope, interrupt)?;
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
    let mut input = Input {
        now: options.now,
        workloads,
        configurations,
        namespaces,
        configurations_complete: configurations_complete && !is_continued,
        options: options.plan.clone(),
        calls: Calls::default(),
    };
    let turn = turn
        .map(|turn| turn.begin(&mut input, &options, interrupt))
        .transpose()?;
    let RestartOptions {
        events_as_calls,
        include_unchanged,
        ..
    } = options;
    Ok(RestartsInput {
        input,
        resources,
        events_as_calls,
        include_unchanged,
        continue_after,
        violations,
        omitted,
        turn,
    })
}

// === impl RestartsInput ===

impl RestartsInput {
    /// Whether a plan is to be made. Otherwise, the controller must read something first, and the response has no plans.
    #[must_use]
    pub fn plans(&self) -> bool {
        self.turn.as_ref().is_none_or(LoopInput::plans)
    }

    /// Converts a plan to a response, as much of it as fits in an answer. After an interruption, workloads are missing.
    #[must_use]
    pub fn print(self, mut plan: Plan, interrupt: &dyn Interrupt) -> proto::PlanRestartsResponse {
        let led = self.turn.map(|turn| turn.lead(&mut plan, &self.input));
        let printer = Printer {
            input: &self.input,
            resources: &self.resources,
            events_as_calls: self.events_as_calls,
            include_unchanged: self.include_unchanged,
        };
        let page = Page {
            continue_after: &self.continue_after,
            violations: self.violations,
            omitted: self.omitted,
            led,
        };
        printer.print(plan, page, interrupt)
    }
}
