//! Runs the command line on a file with JSON, YAML or both.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use rollplan::cli::{self, Exit};

const ASK: [&[&str]; 4] = [
    &["plan", "-o", "json"],
    &["plan", "--horizon", "pass"],
    &["status", "-o", "yaml"],
    &["history"],
];

/// The file of this process, because the fuzzer may run several processes. It is in memory if possible.
static FILE: LazyLock<PathBuf> = LazyLock::new(|| {
    let memory = PathBuf::from("/dev/shm");
    let directory = if memory.is_dir() {
        memory
    } else {
        std::env::temp_dir()
    };
    directory.join(format!("rollplan-fuzz-{}", std::process::id()))
});

/// Checks one input.
pub fn run(bytes: &[u8]) {
    fs::write(&*FILE, bytes).expect("a file can be written");
    for args in ASK {
        let args = ["rollplan"].iter().chain(args).map(OsString::from);
        let more = ["--now", "2026-11-20T23:27:30Z", "-f"].map(OsString::from);
        let exit = cli::run(args.chain(more).chain([FILE.clone().into_os_string()]));
        // The command line catches panics and exits with this code.
        assert_ne!(exit, Exit::Internal);
        assert_ne!(exit, Exit::Unreachable);
    }
}
