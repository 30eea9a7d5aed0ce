//! The command `rollplan`. Everything it does is in [`rollplan::cli`].

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// A call makes more than a thousand small allocations, which this one makes for a third of the price.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    rollplan::cli::run(std::env::args_os()).into()
}
