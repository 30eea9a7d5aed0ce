//! The contract of rollplan, its reader and its printer: converts between the [messages](proto) and the types of the
//! planner. No other crate does that.
//!
//! A request is read once: either to the input of its method, for example [`RolloutInput`], or to an error with all
//! violations.
//!
//! Each folder uses only those before it: `read` is the parser of JSON, `tree` compares pod templates while they are read,
//! `objects` finds the objects in texts and selects those of an owner, `parse` validates them and converts them to the types
//! of the crates, `kinds` and `restart` do so for other kinds and for configurations. A method is one file, for example
//! `rollout`, that reads its request and prints its response, with the messages of `print`.

mod body;
mod canary;
mod context;
mod error;
mod event_calls;
mod forecast;
pub mod json;
mod kinds;
mod limits;
mod manifest;
mod memory;
pub mod objects;
mod origin;
mod parse;
mod path;
mod print;
mod print_canary;
mod print_forecast;
mod print_report;
mod print_revision;
mod print_time;
pub mod proto;
mod read;
mod restart;
mod revisions;
mod rollout;
mod snapshot;
mod status;
mod surroundings;
mod sync;
mod tree;
pub mod yaml;

pub use body::{is_yaml, objects_of_body, unreadable};
pub use canary::read_canary;
pub use context::{Context, Facts};
pub use error::{Error, LISTED_VIOLATIONS_MAX, Reason, Rejection, Violation, Violations};
pub use forecast::{ForecastInput, ForecastPrinter, read_forecast};
pub use limits::{
    ANNOTATIONS_BYTES_MAX, ANSWER_BYTES_MAX, ANSWERS_MAX, CHANGES_MAX, CONFIGURATIONS_MAX,
    ENTRIES_MAX, EVENTS_MAX, EXPRESSIONS_MAX, OBJECT_BYTES_MAX, OBJECTS_MAX, POD_TIMES_MAX,
    PODS_MAX, REPLICA_SETS_MAX, REQUEST_BYTES_MAX, SAMPLES_MAX, STEPS_MAX, VALUES_MAX,
    VERDICTS_MAX, WORKLOADS_MAX, check_answer,
};
pub use memory::{MEMORY_BYTES_MAX, check_memory};
pub use objects::{ObjectsSummary, Shown, summarize_objects};
pub use parse::is_object_name;
pub use parse::{Horizon, parse_options};
pub use path::OwnerResource;
pub use print::{print_status, print_step};
pub use print_canary::print_canary;
pub use print_report::print_report;
pub use print_revision::print_revisions;
pub use print_time::timestamp;
pub use restart::{RestartsInput, read_restarts};
pub use revisions::{RollbackInput, RollbackPrinter, read_list_revisions, read_rollback};
pub use rollout::{RolloutInput, read_rollout};
pub use snapshot::{Subject, parse_snapshot};
pub use status::{StatusInput, print_observed_status, print_rollout_status, read_status};

use rollplan_core::interrupt::Never;
use rollplan_core::selector::LabelSelector;

/// Reads a selector in Kubernetes JSON. `None` if it is invalid.
#[must_use]
pub fn parse_selector(json: &str) -> Option<LabelSelector> {
    let selector = read::read_all(&mut read::Json::new(json, &Never));
    parse::parse_selector(selector.ok()?)
}
