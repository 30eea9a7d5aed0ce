//! Formats forecasts: as text, and with the same facts as pictures and pages.

mod axes;
mod facts;
mod html;
mod picture;
mod table;

pub use self::axes::Extent;
pub use self::facts::{Counts, Facts, Step};
pub use self::html::{Html, page};
pub use self::picture::{Moment, Picture, picture};
pub use self::table::forecast;

#[cfg(test)]
mod tests;
