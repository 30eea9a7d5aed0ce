//! A simulated world around the planner and the adapter's rules: API server, ReplicaSet controller, scheduler,
//! kubelets, garbage collector, users who do not rest, and an adapter that dies.
//!
//! A world is a script: how it is set up, and what happens, one event after another. Nothing else in it is random.
//! [`run_many`] runs the scripts of many seeds; `explore` tries every order of events in small worlds.
//! `docs/parity.md` says what is checked.

mod adapter;
mod calm;
mod check;
mod clock;
mod explore;
mod flaw;
mod generate;
mod pods;
mod replica_set;
mod run;
pub mod script;
mod server;
mod shrink;
mod summary;
mod tally;
#[cfg(test)]
mod tests;
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
