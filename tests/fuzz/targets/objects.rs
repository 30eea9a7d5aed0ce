//! Uses arbitrary text as the JSON of Kubernetes objects.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| rollplan_fuzz::targets::objects::run(bytes));
