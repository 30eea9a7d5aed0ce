//! Uses arbitrary text as the body of `/v1/*`: JSON or YAML.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| rollplan_fuzz::targets::body::run(bytes));
