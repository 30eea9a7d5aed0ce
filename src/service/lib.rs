//! What each method of the service does, without a transport: reads the request with `rollplan-wire`, decides with the
//! planner and its neighbors, and prints the response.
//!
//! [`answer`] takes a message, and [`Method::call`] an encoded one. [`call()`] takes also the name of the method as text: it is what
//! programs in other languages contain (`bindings/`).
//!
//! ```
//! use rollplan_service::answer;
//! use rollplan_wire::proto::{ComputeStatusRequest, Phase, Snapshot};
//!
//! let request = ComputeStatusRequest {
//!     snapshot: Some(Snapshot {
//!         now: Some("2026-11-20T23:26:19Z".parse().unwrap()),
//!         objects: vec![include_str!("../../examples/mid-rollout.json").to_owned()],
//!         replica_sets_complete: true,
//!         pods_complete: true,
//!         ..Snapshot::default()
//!     }),
//!     ..ComputeStatusRequest::default()
//! };
//! let report = answer(request).unwrap().report.unwrap();
//! assert_eq!(report.phase(), Phase::Progressing);
//! ```

mod call;
mod details;
mod estimate;
mod interruptible;
mod method;
mod methods;
mod status;

pub use call::{Budget, Encoding, call};
pub use details::{
    BadRequest, ErrorInfo, FieldViolation, PreconditionFailure, PreconditionViolation,
    QuotaFailure, QuotaViolation, ResourceInfo, RetryInfo,
};
pub use estimate::{memory, memory_of_json};
pub use interruptible::decode;
pub use method::{Method, MethodRequest};
pub use methods::{METHODS, answer, find_method};
pub use status::{BUG, Code, DOMAIN, Detail, INVALID_JSON, Status};
