//! Tests of the planner, by subject. `world` has the builders that all of them use.

mod exhaustive;
mod random;
mod scenarios;
mod world;
