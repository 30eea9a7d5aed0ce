//! The fuzz targets, with what they have in common: arbitrary worlds, and properties of every answer.

#![expect(clippy::expect_used, reason = "a check that fails panics")]

pub mod answers;
pub mod targets;
pub mod world;
