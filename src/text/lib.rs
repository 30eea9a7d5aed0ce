//! Formats responses for people: the tables that the command prints, and that the service returns for `text/plain`.
//!
//! Text from a cluster is escaped here, so it cannot control a terminal.

mod canary;
pub mod forecast;
mod numbers;
mod page;
mod printable;
mod restarts;
mod revision;
mod rollouts;
pub mod span;
mod state;
mod step;
mod table;
pub mod time;

pub use self::canary::{CanaryFacts, canary, canary_head, canary_row, canary_state};
pub use self::numbers::{Numbers, counter};
pub use self::page::{Page, Style, fit, is_command, padded, paint, parts, width, wrapped};
pub use self::printable::{ascii, is_unprintable, one_line, printable, printable_json};
pub use self::restarts::{
    ConfigurationChange, ConfigurationUser, ManifestChanges, ObjectName, WorkloadChange,
    WorkloadResult, changes, identity, restarts, usage, uses, uses_heading, violations,
};
pub use self::revision::{comparison, history, json_or_absent, template, undo, undo_title};
pub use self::rollouts::{RowWidths, causes, deleted_row, row, row_head};
pub use self::state::{DELETED, state, state_style};
pub use self::table::{LogExcerpt, lacks_sets, log, plan, status, summary};
