//! Restarts, as stories on a small world.

mod checksums;
mod decisions;
mod differences;
mod guards;
mod references;
mod reloader;
mod world;
mod xing;
