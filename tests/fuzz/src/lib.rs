//! The common parts of the fuzz targets: arbitrary worlds, and properties of every answer.

pub mod answers;
pub mod world;
