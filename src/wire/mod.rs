//! Converts between the contract and the planner's types. No other module does that.
//!
//! A request is read once: either to the planner's types, or to an error with all violations. [`answer`] takes a message, and
//! [`Method::call`] an encoded one. Neither needs a server.

mod body;
mod canary;
mod canary_status;
mod context;
mod error;
pub mod estimate;
mod event_calls;
mod forecast;
mod interruptible;
pub mod json;
mod kinds;
mod limits;
mod manifest;
mod memory;
mod method;
mod methods;
pub(crate) mod objects;
mod origin;
mod parse;
mod path;
mod print;
mod print_canary;
mod print_forecast;
mod print_report;
mod print_revision;
mod print_time;
mod read;
mod restart;
mod revisions;
mod rollout;
mod snapshot;
mod status;
mod surroundings;
mod tree;
pub(crate) mod yaml;

pub use body::objects_of_body;
pub(crate) use body::{is_yaml, unreadable};
pub use context::Context;
pub(crate) use context::Facts;
pub use error::{Error, LISTED_VIOLATIONS_MAX, Reason, Rejection, Violation, Violations};
pub(crate) use interruptible::decode;
pub use limits::{
    ANNOTATIONS_BYTES_MAX, ANSWER_BYTES_MAX, ANSWERS_MAX, CHANGES_MAX, CONFIGURATIONS_MAX,
    ENTRIES_MAX, EVENTS_MAX, EXPRESSIONS_MAX, OBJECT_BYTES_MAX, OBJECTS_MAX, POD_TIMES_MAX,
    PODS_MAX, REPLICA_SETS_MAX, REQUEST_BYTES_MAX, SAMPLES_MAX, VALUES_MAX, VERDICTS_MAX,
    WORKLOADS_MAX, check_answer,
};
pub use memory::MEMORY_BYTES_MAX;
pub use method::{Method, MethodRequest};
pub(crate) use methods::for_each_method;
pub use methods::{METHODS, answer, find_method};
pub(crate) use objects::Shown;
pub use objects::{ObjectsSummary, summarize_objects};
pub(crate) use parse::is_object_name;
pub use parse::{Horizon, parse_options};
pub use path::OwnerResource;
pub use print::{print_status, print_step};
pub use print_report::print_report;
pub use print_revision::print_revisions;
pub use snapshot::parse_snapshot;

use rollplan_core::interrupt::Never;
use rollplan_core::selector::LabelSelector;

/// Reads a selector in Kubernetes JSON. `None` if it is invalid.
pub(crate) fn parse_selector(json: &str) -> Option<LabelSelector> {
    let selector = read::read_all(&mut read::Json::new(json, &Never));
    parse::parse_selector(selector.ok()?)
}
