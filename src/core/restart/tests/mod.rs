//! Tests of the restart planner on a small simulated cluster.

mod checksums;
mod decisions;
mod differences;
mod guards;
mod references;
mod reloader;
mod starts;
mod world;
mod xing;
