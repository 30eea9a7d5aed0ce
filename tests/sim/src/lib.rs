//! Simulates a cluster around the planner and an adapter: the API server, the ReplicaSet controller, the scheduler, the
//! kubelets, the garbage collector, busy users, and an adapter that crashes.
//!
//! A simulated world is determined by a script, which contains its setup and its events in order. [`run_many`] runs the
//! scripts of many seeds; `explore` tries every order of events in small worlds. `docs/contributors/parity.md` describes the checks.

mod adapter;
mod calm;
pub mod canary;
mod check;
mod explore;
mod flaw;
mod generate;
pub mod pods;
mod replica_set;
mod run;
pub mod script;
mod server;
mod shrink;
mod summary;
mod tally;
mod user;
mod world;

pub use check::Violation;
pub use explore::{Explored, Small, explore, large_worlds, small_worlds};
pub use flaw::Flaw;
pub use generate::generate;
pub use run::{Failure, Outcome, run, run_many, run_traced};
pub use shrink::shrink;
pub use summary::Summary;
pub use tally::{Tallies, Tally};
pub use world::World;
