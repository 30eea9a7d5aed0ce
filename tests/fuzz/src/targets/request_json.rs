//! Decodes arbitrary text as a request in JSON.

use rollplan::proto::PlanRolloutRequest;
use rollplan::wire::json;

use super::text_of;
use crate::answers::{check_error, check_request};

/// Checks one input.
pub fn run(bytes: &[u8]) {
    let text = text_of(bytes);
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
}
