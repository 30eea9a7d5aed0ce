//! Decodes arbitrary text as a request in JSON.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rollplan::proto::PlanRolloutRequest;
use rollplan::wire::json;
use rollplan_fuzz::answers::{check_error, check_request};

fuzz_target!(|text: &str| {
    let request: PlanRolloutRequest = match json::from_json(text) {
        Ok(request) => request,
        Err(error) => return check_error(&(&error).into()),
    };
    // A number in a template may have no JSON form. It is rejected later, with its path.
    if let Ok(printed) = json::to_json(&request) {
        let read: PlanRolloutRequest =
            json::from_json(&printed).expect("the printed request can be decoded");
        let printed_again = json::to_json(&read).expect("the decoded request can be printed");
        assert_eq!(printed, printed_again);
    }
    check_request(&request);
});
