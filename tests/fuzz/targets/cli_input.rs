//! Runs the command line on a file with JSON, YAML or both.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| rollplan_fuzz::targets::cli_input::run(bytes));
