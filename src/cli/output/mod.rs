//! Answers, printed.

mod page;
mod step;
mod table;
mod yaml;

use std::io::{self, IsTerminal as _, Write as _};

use prost::{Message, Name};

pub(super) use self::page::Page;
pub(super) use self::table::{plan, status};

use super::args::Output;
use super::error::{Error, chain};
use crate::wire;

/// Prints a response to standard output: in protobuf's JSON form, or as `table` lays it out.
pub(super) fn print<M: Message + Name>(
    output: Output,
    response: &M,
    table: impl FnOnce(&mut Page),
) -> Result<(), Error> {
    let json = || wire::json::to_json(response).map_err(|error| Error::Bug(chain(&error)));
    let text = match output {
        Output::Json => json()? + "\n",
        Output::Yaml => {
            let value = serde_json::from_str(&json()?);
            yaml::to_yaml(&value.map_err(|error| Error::Bug(chain(&error)))?)
        }
        Output::Table => {
            let mut page = Page::new(is_coloured());
            table(&mut page);
            page.into_text()
        }
    };
    write(text.as_bytes())
}

/// Writes to standard output.
pub(super) fn write(bytes: &[u8]) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)
        .and_then(|()| out.flush())
        .map_err(Error::Output)
}

/// On a terminal that can, unless the user says otherwise (no-color.org).
fn is_coloured() -> bool {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    io::stdout().is_terminal()
        && set("NO_COLOR").is_none()
        && set("TERM").is_none_or(|term| term != "dumb")
}
