//! The commands that answer about a rollout: the options of each, and what it does.

pub(super) mod history;
pub(super) mod plan;
mod read;
pub(super) mod restarts;
pub(super) mod status;
pub(super) mod undo;
pub(super) mod wait;

use super::error::Error;
use super::{output, stderr};

/// Prints commands to standard output, and what to know before they are pasted to standard error.
fn print_commands(commands: &output::script::Commands) -> Result<(), Error> {
    for warning in &commands.warnings {
        stderr::eprint_warning(warning);
    }
    output::write(commands.text.as_bytes())
}
