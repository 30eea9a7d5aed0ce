//! Text, read as a request in JSON.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rollplan::proto::PlanRolloutRequest;
use rollplan::wire::json;
use rollplan_fuzz::answers::{check_error, check_request};

fuzz_target!(|text: &str| {
    let request: PlanRolloutRequest = match json::from_json(text) {
        Ok(request) => request,
        Err(error) => return check_error(&error),
    };
    // A number of a template may have no JSON form: it is refused later, by its path.
    if let Ok(printed) = json::to_json(&request) {
        let read: PlanRolloutRequest = json::from_json(&printed).expect("what was printed is read");
        let printed_again = json::to_json(&read).expect("and printed again");
        assert_eq!(printed, printed_again);
    }
    check_request(&request);
});
