//! A call in the process of its caller: from bytes to bytes.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use rollplan_core::interrupt::Interrupt;
use rollplan_wire::{Context, check_answer};

use crate::method::JsonForm;
use crate::methods::find_method;
use crate::status::{Code, INVALID_JSON, Status};

/// The encoding of a request and its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Protobuf.
    Proto,
    /// JSON by the protobuf mapping.
    Json,
}

/// Answers an encoded request in the process of its caller, with the limits of the service.
///
/// # Errors
///
/// The status that the service returns. UNIMPLEMENTED for an unknown method; DEADLINE_EXCEEDED after an interruption; INTERNAL
/// after a panic, where panics unwind.
pub fn call(
    method: &str,
    encoding: Encoding,
    request: Bytes,
    interrupt: &dyn Interrupt,
) -> Result<Vec<u8>, Status> {
    // No state outlives the call.
    let call = AssertUnwindSafe(|| call_unwinding(method, encoding, request, interrupt));
    catch_unwind(call).unwrap_or_else(|_| Err(Status::bug()))
}

fn call_unwinding(
    method: &str,
    encoding: Encoding,
    request: Bytes,
    interrupt: &dyn Interrupt,
) -> Result<Vec<u8>, Status> {
    let Some(found) = find_method(method) else {
        let message = format!("unknown method {method:?}");
        let status = Status::new(Code::Unimplemented, message, "UNKNOWN_METHOD");
        return Err(status.with_metadata([("method", method.to_owned())]));
    };
    let mut context = Context::until(interrupt);
    let answered = match encoding {
        Encoding::Proto => found.call(request, &mut context).and_then(|answer| {
            check_answer(answer.len()).map_err(|error| Status::from(&error))?;
            Ok(answer)
        }),
        Encoding::Json => match std::str::from_utf8(&request) {
            Ok(text) => found
                .print_json(text, JsonForm::Service, &mut context)
                .map(String::into_bytes),
            Err(error) => {
                let message = format!("the request is not valid UTF-8: {error}");
                Err(Status::new(Code::InvalidArgument, message, INVALID_JSON))
            }
        },
    };
    answered.map_err(|status| match status.code {
        Code::Cancelled => {
            let message = "the call was interrupted: it took more time than it was given";
            Status::new(Code::DeadlineExceeded, message, "DEADLINE_EXCEEDED")
        }
        _ => status,
    })
}

/// Interrupts a call after a number of checks, for hosts without a clock. Little work is done between two checks, and the same
/// request always needs the same number of checks.
#[derive(Debug)]
pub struct Budget {
    checks_left: Cell<u64>,
}

// === impl Budget ===

impl Budget {
    /// Interrupts at the check after this many.
    #[must_use]
    pub fn new(checks: u64) -> Self {
        Self {
            checks_left: Cell::new(checks),
        }
    }
}

impl Interrupt for Budget {
    fn is_interrupted(&self) -> bool {
        let left = self.checks_left.get();
        self.checks_left.set(left.saturating_sub(1));
        left == 0
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use rollplan_wire::json;
    use rollplan_wire::proto::{ComputeStatusRequest, ComputeStatusResponse, Snapshot};

    use super::*;

    fn request() -> ComputeStatusRequest {
        let snapshot = Snapshot {
            now: Some("2026-11-20T23:26:19Z".parse().unwrap()),
            objects: vec![include_str!("../../examples/mid-rollout.json").to_owned()],
            replica_sets_complete: true,
            pods_complete: true,
            ..Snapshot::default()
        };
        ComputeStatusRequest {
            snapshot: Some(snapshot),
            ..ComputeStatusRequest::default()
        }
    }

    fn call_proto(budget: &Budget) -> Result<Vec<u8>, Status> {
        let request = request().encode_to_vec().into();
        call("ComputeStatus", Encoding::Proto, request, budget)
    }

    #[test]
    fn both_encodings_have_the_same_response() {
        let budget = Budget::new(u64::MAX);
        let proto = call_proto(&budget).unwrap();
        let response = ComputeStatusResponse::decode(&*proto).unwrap();
        let request = json::to_json(&request()).unwrap();
        let json = call("ComputeStatus", Encoding::Json, request.into(), &budget).unwrap();
        assert_eq!(json::to_json(&response).unwrap().into_bytes(), json);
    }

    #[test]
    fn a_budget_interrupts_at_the_same_check() {
        let needed = (0..10_000_u64).find(|checks| call_proto(&Budget::new(*checks)).is_ok());
        let needed = needed.unwrap();
        assert!(needed > 10, "{needed}");
        for checks in [0, 1, needed / 2, needed - 1] {
            let status = call_proto(&Budget::new(checks)).unwrap_err();
            assert_eq!(status.code, Code::DeadlineExceeded);
            assert_eq!(status.reason(), Some("DEADLINE_EXCEEDED"));
        }
    }

    #[test]
    fn a_panic_is_an_error() {
        struct Panicking;
        impl Interrupt for Panicking {
            fn is_interrupted(&self) -> bool {
                panic!("a rule is broken")
            }
        }
        let request = request().encode_to_vec().into();
        let status = call("ComputeStatus", Encoding::Proto, request, &Panicking).unwrap_err();
        assert_eq!(status.code, Code::Internal);
        assert_eq!(status.reason(), Some("INTERNAL_ERROR"));
    }

    #[test]
    fn text_that_is_not_utf8_is_an_error() {
        let budget = Budget::new(u64::MAX);
        let status = call("Rollback", Encoding::Json, (&b"\xff"[..]).into(), &budget).unwrap_err();
        assert_eq!(status.code, Code::InvalidArgument);
        assert_eq!(status.reason(), Some(INVALID_JSON));
    }

    #[test]
    fn an_unknown_method_is_an_error() {
        let budget = Budget::new(u64::MAX);
        let status = call("Guess", Encoding::Proto, Bytes::new(), &budget).unwrap_err();
        assert_eq!(status.code, Code::Unimplemented);
    }
}
