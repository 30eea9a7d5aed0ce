//! Plans for valid worlds with arbitrary values.

use arbitrary::{Arbitrary as _, Unstructured};

use crate::answers::{check_plan, check_request, check_spelling};
use crate::world::World;

/// Checks one input.
pub fn run(bytes: &[u8]) {
    let Ok(world) = World::arbitrary_take_rest(Unstructured::new(bytes)) else {
        return;
    };
    let request = world.into_request();
    check_request(&request);
    check_plan(&request);
    check_spelling(&request);
}
