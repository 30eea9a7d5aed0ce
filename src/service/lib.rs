//! What each method of the service does, without a transport: reads the request with `rollplan-wire`, decides with the planner
//! and its neighbors, and prints the response.
//!
//! [`answer`] takes a message, and [`Method::call`] an encoded one.

mod details;
mod estimate;
mod interruptible;
mod method;
mod methods;
mod status;

pub use details::{
    BadRequest, ErrorInfo, FieldViolation, PreconditionFailure, PreconditionViolation,
    QuotaFailure, QuotaViolation, ResourceInfo, RetryInfo,
};
pub use estimate::{memory, memory_of_json};
pub use interruptible::decode;
pub use method::{Method, MethodRequest};
pub use methods::{METHODS, answer, find_method};
pub use status::{BUG, Code, DOMAIN, Detail, INVALID_JSON, Status};
