//! A file of JSON, YAML or both, given to the command line.

#![no_main]

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use rollplan::cli::{self, Exit};

const ASK: [&[&str]; 4] = [
    &["plan", "-o", "json"],
    &["plan", "--horizon", "pass"],
    &["status", "-o", "yaml"],
    &["history"],
];

/// One file for each process: the fuzzer may run several. In memory where there is such a place.
static FILE: LazyLock<PathBuf> = LazyLock::new(|| {
    let memory = PathBuf::from("/dev/shm");
    let directory = if memory.is_dir() {
        memory
    } else {
        std::env::temp_dir()
    };
    directory.join(format!("rollplan-fuzz-{}", std::process::id()))
});

fuzz_target!(|bytes: &[u8]| {
    fs::write(&*FILE, bytes).expect("a file can be written");
    for args in ASK {
        let args = ["rollplan"].iter().chain(args).map(OsString::from);
        let more = ["--now", "2026-11-20T23:27:30Z", "-f"].map(OsString::from);
        let exit = cli::run(args.chain(more).chain([FILE.clone().into_os_string()]));
        // It catches panics itself, and says so by this.
        assert_ne!(exit, Exit::Internal);
        assert_ne!(exit, Exit::Unreachable);
    }
});
