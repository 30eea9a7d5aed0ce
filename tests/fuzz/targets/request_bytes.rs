//! Decodes arbitrary bytes as a request.

#![no_main]

use libfuzzer_sys::fuzz_target;
use prost::Message as _;
use rollplan::proto::{
    ForecastRolloutRequest, ListRevisionsRequest, PlanCanaryRequest, PlanRestartsRequest,
    PlanRolloutRequest, RollbackRequest,
};
use rollplan::wire;
use rollplan_fuzz::answers::{check_error, check_forecast, check_request};

fuzz_target!(|bytes: &[u8]| {
    for answer in [
        wire::plan_rollout_bytes(bytes),
        wire::compute_status_bytes(bytes),
    ] {
        match answer {
            Ok(_) => {}
            Err(error) => check_error(&error),
        }
    }
    if let Ok(request) = RollbackRequest::decode(bytes) {
        _ = wire::rollback(request);
    }
    if let Ok(request) = PlanRestartsRequest::decode(bytes) {
        _ = wire::plan_restarts(request);
    }
    if let Ok(request) = ListRevisionsRequest::decode(bytes) {
        _ = wire::list_revisions(request);
    }
    if let Ok(request) = ForecastRolloutRequest::decode(bytes) {
        let samples = request.samples.min(2);
        let request = ForecastRolloutRequest { samples, ..request };
        match wire::forecast_rollout(request) {
            Ok(answer) => check_forecast(&answer),
            Err(error) => check_error(&error),
        }
    }
    if let Ok(request) = PlanCanaryRequest::decode(bytes)
        && let Err(error) = wire::plan_canary(request)
    {
        check_error(&error);
    }
    if let Ok(request) = PlanRolloutRequest::decode(bytes) {
        check_request(&request);
    }
});
