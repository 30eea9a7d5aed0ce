//! Worlds that are right and may be absurd, planned from typed fields and from Kubernetes JSON.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rollplan_fuzz::answers::{check_objects_json, check_plan, check_request};
use rollplan_fuzz::world::World;

fuzz_target!(|world: World| {
    let request = world.into_request();
    check_request(&request);
    check_plan(&request);
    check_objects_json(&request);
});
