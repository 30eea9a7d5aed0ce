//! Tests of the planner, by subject. `world` contains the builders that they share.

mod absurd;
mod action;
mod create;
mod diagnosis;
mod exhaustive;
mod lint;
mod random;
mod report;
mod revision;
mod rollout;
mod scaling;
mod scenarios;
mod size;
mod status;
mod surroundings;
mod undo;
mod verdict;
mod world;
