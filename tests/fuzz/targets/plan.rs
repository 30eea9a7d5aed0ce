//! Plans for valid worlds with arbitrary values.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| rollplan_fuzz::targets::plan::run(bytes));
