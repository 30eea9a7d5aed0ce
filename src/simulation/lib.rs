//! What the other controllers of a cluster do: the ReplicaSet controller, the scheduler and the kubelets, as functions of
//! the state that they observe. Nothing here is random, and nothing knows the planner.
//!
//! `tests/sim` lets them act in every order, with faults.

pub mod clock;
pub mod pods;
pub mod replica_set;
