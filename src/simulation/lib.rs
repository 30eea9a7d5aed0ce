//! The ReplicaSet controller and its pods, as functions of the state that it observes. Nothing here is random, and nothing
//! knows the planner.
//!
//! `tests/sim` lets it act in every order with other controllers, and adds faults.

pub mod pods;
pub mod replica_set;
