//! Formats forecasts: as text, and with the same facts as pictures and pages.

mod axes;
mod facts;
mod html;
mod picture;
mod table;

pub(crate) use self::axes::Extent;
pub(crate) use self::facts::{Counts, Facts, Step};
pub(crate) use self::html::{Html, page};
pub(crate) use self::picture::{Moment, Picture, picture};
pub(crate) use self::table::forecast;

#[cfg(test)]
mod tests;
