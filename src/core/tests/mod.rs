//! Tests of the planner, by subject. `world` has the builders that all of them use.

mod action;
mod exhaustive;
mod random;
mod revision;
mod scaling;
mod scenarios;
mod size;
mod status;
mod world;
