//! The client of the service, generated from `proto/rollplan/v1/service.proto`.

pub use generated::rollout_planner_client::RolloutPlannerClient;

mod generated {
    // The generated code does not follow our lints, and not all of it is documented.
    #![allow(missing_docs, unreachable_pub, clippy::all, rustdoc::all)]

    include!(concat!(env!("OUT_DIR"), "/client/rollplan.v1.rs"));
}
