//! What the fuzz targets share: arbitrary worlds, and what must hold of every answer.

pub mod answers;
pub mod world;
