//! The command `rollplan`. Everything it does is in [`rollplan::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    rollplan::cli::run(std::env::args_os()).into()
}
