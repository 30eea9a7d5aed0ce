//! Decodes arbitrary bytes as a request of every method.

use prost::Message as _;
use rollplan::proto::{ForecastRolloutRequest, PlanRolloutRequest};
use rollplan::service::{METHODS, MethodRequest as _};
use rollplan::wire::Context;

use crate::answers::{check_error, check_forecast, check_request};

/// Checks one input.
pub fn run(bytes: &[u8]) {
    for method in METHODS {
        // Its number of samples is limited below.
        if method.name == ForecastRolloutRequest::METHOD.name {
            continue;
        }
        if let Err(error) = method.call(bytes.to_vec().into(), &mut Context::default()) {
            check_error(&error);
        }
    }
    if let Ok(request) = ForecastRolloutRequest::decode(bytes) {
        let samples = request.samples.min(2);
        let request = ForecastRolloutRequest { samples, ..request };
        match rollplan::service::answer(request) {
            Ok(answer) => check_forecast(&answer),
            Err(error) => check_error(&(&error).into()),
        }
    }
    if let Ok(request) = PlanRolloutRequest::decode(bytes) {
        check_request(&request);
    }
}
