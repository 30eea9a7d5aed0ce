//! The methods of the service. Whatever handles every method takes them from this list: as types of their requests
//! ([`MethodRequest`]), as values ([`METHODS`]), or in a macro ([`for_each_method`](crate::for_each_method)).

mod canary;
mod canary_status;
mod forecast;
mod restarts;
mod revisions;
mod rollout;
mod status;

use bytes::Bytes;
use prost::Message as _;
use rollplan_wire::{Context, Error, check_answer, json, proto};

use self::canary::plan_canary;
use self::forecast::forecast_rollout;
use self::restarts::plan_restarts;
use self::revisions::{list_revisions, rollback};
use self::rollout::plan_rollout;
use self::status::compute_status;
use crate::estimate::{FORECAST_BYTES, memory};
use crate::interruptible::decode;
use crate::method::{JsonForm, Method, MethodRequest};

/// Expands a macro with all methods, in the order of the contract. Of each: its name, the function that answers it, its
/// request and its response, and the memory of its work in bytes, besides that of its objects.
#[macro_export]
macro_rules! for_each_method {
    ($expand:ident) => {
        $expand! {
            PlanRollout = plan_rollout(PlanRolloutRequest) -> PlanRolloutResponse, 0;
            ComputeStatus = compute_status(ComputeStatusRequest) -> ComputeStatusResponse, 0;
            Rollback = rollback(RollbackRequest) -> RollbackResponse, 0;
            ListRevisions = list_revisions(ListRevisionsRequest) -> ListRevisionsResponse, 0;
            PlanRestarts = plan_restarts(PlanRestartsRequest) -> PlanRestartsResponse, 0;
            ForecastRollout = forecast_rollout(ForecastRolloutRequest) -> ForecastRolloutResponse, FORECAST_BYTES;
            PlanCanary = plan_canary(PlanCanaryRequest) -> PlanCanaryResponse, 0;
        }
    };
}

macro_rules! implement {
    ($($method:ident = $answer:ident($request:ident) -> $response:ident, $memory:expr;)*) => {
        /// All methods.
        pub const METHODS: &[Method] = &[$(proto::$request::METHOD),*];

        $(
            impl MethodRequest for proto::$request {
                const METHOD: Method = Method {
                    name: stringify!($method),
                    path: concat!("/rollplan.v1.RolloutPlanner/", stringify!($method)),
                    request: concat!("rollplan.v1.", stringify!($request)),
                    memory: $memory,
                    call: call::<Self>,
                    call_json: call_json::<Self>,
                };

                type Response = proto::$response;

                fn answer(self, context: &mut Context<'_>) -> Result<Self::Response, Error> {
                    $answer(self, context)
                }
            }
        )*
    };
}
for_each_method!(implement);

/// The method with this name in the contract.
#[must_use]
pub fn find_method(name: &str) -> Option<&'static Method> {
    METHODS.iter().find(|method| method.name == name)
}

/// Answers a request, without a context.
///
/// # Errors
///
/// See [`MethodRequest::answer`].
pub fn answer<R: MethodRequest>(request: R) -> Result<R::Response, Error> {
    request.answer(&mut Context::default())
}

fn call<R: MethodRequest>(request: Bytes, context: &mut Context<'_>) -> Result<Vec<u8>, Error> {
    memory(&R::METHOD, &request, context.interrupt)?;
    let request: R = decode(request, context.interrupt)?;
    Ok(request.answer(context)?.encode_to_vec())
}

fn call_json<R: MethodRequest>(
    request: &str,
    form: JsonForm,
    context: &mut Context<'_>,
) -> Result<String, Error> {
    let request: R = json::from_json(request)?;
    let answer = request.answer(context)?;
    match form {
        JsonForm::Service => {
            check_answer(answer.encoded_len())?;
            json::to_json(&answer)
        }
        JsonForm::Kubernetes => json::to_kubernetes_json(&answer),
    }
}
