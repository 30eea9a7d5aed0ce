//! Prints responses.

mod body;
pub(super) mod script;
mod shell;
mod yaml;

use std::io::{self, IsTerminal as _, Write as _};

use prost::{Message, Name};
use rollplan_text::{Page, one_line, printable_json};
use rollplan_wire as wire;
use rollplan_wire::proto;

pub(super) use self::shell::pasted_word;

use super::error::{Error, chain};
use super::options::Output;

/// Prints a response to standard output, in protobuf JSON or as laid out by `table`.
pub(super) fn print<M: Message + Name>(
    output: Output,
    response: &M,
    table: impl FnOnce(&mut Page),
) -> Result<(), Error> {
    write(text(output, response, table)?.as_bytes())
}

/// A response in the given format.
pub(super) fn text<M: Message + Name>(
    output: Output,
    response: &M,
    table: impl FnOnce(&mut Page),
) -> Result<String, Error> {
    let json = || wire::json::to_json(response).map_err(|error| Error::Bug(chain(&error)));
    Ok(match output {
        Output::Json => printable_json(&json()?) + "\n",
        Output::Yaml => {
            let value = serde_json::from_str(&json()?);
            yaml::to_yaml(&value.map_err(|error| Error::Bug(chain(&error)))?)
        }
        Output::Table => page(table),
    })
}

/// A value as JSON.
pub(super) fn json_text(value: &serde_json::Value) -> String {
    printable_json(&value.to_string()) + "\n"
}

/// A value as YAML.
pub(super) fn yaml_text(value: &serde_json::Value) -> String {
    yaml::to_yaml(value)
}

/// A page with the width and colors of standard output. Other programs get whole lines, unless COLUMNS is set.
pub(super) fn page(fill: impl FnOnce(&mut Page)) -> String {
    let mut page = match (terminal_size(), columns_variable()) {
        (Some((columns, _)), _) => Page::of_terminal(is_coloured(), columns, is_utf8()),
        (None, Some(columns)) => Page::with_columns(columns),
        (None, None) => Page::unwrapped(),
    };
    fill(&mut page);
    page.into_text()
}

/// Prints one of several responses.
pub(super) fn print_next<M: Message + Name>(output: Output, response: &M) -> Result<(), Error> {
    if output == Output::Yaml {
        write(b"---\n")?;
    }
    print(output, response, |_| {})
}

/// The object of a response in kubectl's notation, for example "deployment.apps/web".
pub(super) fn name(response: &proto::ComputeStatusResponse) -> String {
    let object = response.object.clone().unwrap_or_default();
    let kind = object.kind.to_lowercase();
    let name = match object.api_version.split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{}", object.name),
        None => format!("{kind}/{}", object.name),
    };
    one_line(&name) + "\n"
}

/// The columns and rows of the terminal on standard output, if it is one.
pub(super) fn terminal_size() -> Option<(usize, usize)> {
    let (width, height) = terminal_size::terminal_size_of(io::stdout())?;
    Some((width.0.into(), height.0.into()))
}

/// The user's preferred width, from the environment.
fn columns_variable() -> Option<usize> {
    let columns = std::env::var("COLUMNS").ok()?;
    columns.parse().ok().filter(|columns| *columns > 0)
}

/// Whether standard output is a terminal on which lines can be overwritten.
pub(super) fn is_live() -> bool {
    io::stdout().is_terminal() && supports_escapes()
}

/// Whether the user's locale supports all characters.
pub(super) fn is_utf8() -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .filter_map(std::env::var_os)
        .find(|value| !value.is_empty());
    let locale = locale.map(|value| value.to_string_lossy().to_ascii_lowercase());
    locale.is_some_and(|it| it.contains("utf-8") || it.contains("utf8"))
}

/// Writes to standard output.
pub(super) fn write(bytes: &[u8]) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)
        .and_then(|()| out.flush())
        .map_err(Error::Output)
}

/// Whether to use colors: on a capable terminal, unless NO_COLOR is set (no-color.org).
pub(super) fn is_coloured() -> bool {
    io::stdout().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && supports_escapes()
}

/// Whether the terminal supports escape sequences.
fn supports_escapes() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}
