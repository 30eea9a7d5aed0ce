//! Answers the calls of the contract with `wire`.

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use prost::Message as _;
use rollplan_service::MethodRequest;
use rollplan_wire::proto::PlanRolloutResponse;
use rollplan_wire::{Context, Facts, check_answer};
use tonic::{Request, Response, Status};
use tracing::Span;

use crate::call::service::Planner;
use crate::observability::metrics::Metrics;
use crate::protocol::cancellation::Current;
use crate::protocol::context::{AnswerContext, CallContext};
use crate::protocol::errors::to_tonic;

/// The planner of this crate. It answers on the current thread, which was selected by the size of the call.
pub(crate) struct BuiltInPlanner {
    metrics: Arc<Metrics>,
}

// === impl BuiltInPlanner ===

impl BuiltInPlanner {
    pub(crate) fn new(metrics: Arc<Metrics>) -> Self {
        Self { metrics }
    }
}

#[tonic::async_trait]
impl Planner for BuiltInPlanner {
    async fn answer<R: MethodRequest>(
        &self,
        request: Request<R>,
    ) -> Result<Response<R::Response>, Status> {
        let start = Instant::now();
        let (_, extensions, request) = request.into_parts();
        let call = extensions.get::<CallContext>();
        let mut inferred = call.and_then(|call| call.inferred.clone());
        let current = Current::get();
        let mut context = Context::until(&current);
        context.shown = inferred.as_mut().map(|inferred| &mut inferred.shown);
        let answered = request
            .answer(&mut context)
            .and_then(|answer| check_answer(answer.encoded_len()).map(|()| answer));
        let facts = context.facts;
        let deployment = name_of(&facts);
        match answered {
            Ok(answer) => {
                if let Some(plan) = (&answer as &dyn Any).downcast_ref::<PlanRolloutResponse>() {
                    let took = start.elapsed();
                    self.metrics.series.planned(&facts, plan, took);
                }
                let summary = inferred.and_then(|inferred| inferred.shown.summary);
                let mut response = Response::new(answer);
                response.extensions_mut().insert(AnswerContext {
                    deployment,
                    subject: summary.map_or_else(String::new, |summary| summary.subject()),
                    ..AnswerContext::default()
                });
                Ok(response)
            }
            Err(error) => {
                Span::current().record("deployment", deployment);
                let error = match inferred {
                    Some(inferred) => (inferred.explain)(error),
                    None => error,
                };
                Err(to_tonic((&error).into()))
            }
        }
    }
}

/// The namespace and name of the owner for the log, truncated to the maximum lengths in Kubernetes, because they are not
/// validated yet. Empty if no owner was found, or if a call is about many workloads.
fn name_of(facts: &Facts) -> String {
    let Facts {
        namespace, name, ..
    } = facts;
    if namespace.is_empty() && name.is_empty() {
        return String::new();
    }
    format!("{namespace:.63}/{name:.253}")
}
