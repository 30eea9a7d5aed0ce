//! The commands that answer questions about rollouts, with their options.

pub(super) mod canary;
pub(super) mod complete;
pub(super) mod forecast;
pub(super) mod history;
pub(super) mod plan;
mod read;
mod restart_changes;
mod restart_consequences;
mod restart_objects;
mod restart_reasons;
mod restart_uses;
pub(super) mod restarts;
pub(super) mod status;
mod template_change;
pub(super) mod undo;
pub(super) mod wait;

use super::error::Error;
use super::{output, stderr};

/// Prints commands to standard output, and the notes on them to standard error.
fn print_commands(commands: &output::script::Commands) -> Result<(), Error> {
    for warning in &commands.warnings {
        stderr::eprint_warning(warning);
    }
    output::write(commands.text.as_bytes())
}
