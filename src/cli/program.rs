//! The name under which the program was started.

use std::path::Path;
use std::sync::OnceLock;

/// The file name of the kubectl plugin, and the command that runs it.
const PLUGIN: (&str, &str) = ("kubectl-rollplan", "kubectl rollplan");

/// The command that runs the program.
static COMMAND: OnceLock<&str> = OnceLock::new();

/// The file name that kubectl runs for the completions of the plugin.
const COMPLETE: &str = "kubectl_complete-rollplan";

/// Whether kubectl asks for completions.
pub(super) fn is_completion(program: Option<&Path>) -> bool {
    program.and_then(Path::file_stem) == Some(COMPLETE.as_ref())
}

/// Sets the name. Only the first call in a process has an effect.
pub(super) fn start(program: Option<&Path>) {
    let is_plugin = program.and_then(Path::file_stem) == Some(PLUGIN.0.as_ref());
    let _ = COMMAND.set(if is_plugin { PLUGIN.1 } else { "rollplan" });
}

/// The command that runs the program: `rollplan` or `kubectl rollplan`.
pub(super) fn command() -> &'static str {
    COMMAND.get().unwrap_or(&"rollplan")
}
