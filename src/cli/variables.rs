//! Environment variables that set options.

use std::env;

use clap::builder::Resettable;
use clap::{Arg, Command};

/// Treats an empty variable as unset, because templates of manifests often render one.
pub(super) fn without_empty(command: Command) -> Command {
    command
        .mut_args(without_empty_variable)
        .mut_subcommands(without_empty)
}

fn without_empty_variable(arg: Arg) -> Arg {
    let value = arg.get_env().and_then(env::var_os);
    if value.is_some_and(|value| value.is_empty()) {
        return arg.env(Resettable::Reset);
    }
    arg
}
