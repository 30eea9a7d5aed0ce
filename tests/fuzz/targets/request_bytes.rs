//! Decodes arbitrary bytes as a request of every method.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| rollplan_fuzz::targets::request_bytes::run(bytes));
