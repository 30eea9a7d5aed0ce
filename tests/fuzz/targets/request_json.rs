//! Decodes arbitrary text as a request in JSON.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| rollplan_fuzz::targets::request_json::run(bytes));
