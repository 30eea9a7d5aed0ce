//! Plans for valid worlds with arbitrary values.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rollplan_fuzz::answers::{check_plan, check_request, check_spelling};
use rollplan_fuzz::world::World;

fuzz_target!(|world: World| {
    let request = world.into_request();
    check_request(&request);
    check_plan(&request);
    check_spelling(&request);
});
