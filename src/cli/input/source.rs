//! Texts from files and from standard input.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use crate::cli::error::Error;
use crate::wire;

/// A text, and its name in messages.
#[derive(Debug)]
pub(in crate::cli) struct Source {
    pub(super) name: String,
    pub(super) text: String,
}

// === impl Source ===

impl Source {
    /// A text with the given name.
    pub(in crate::cli) fn new(name: impl Into<String>, bytes: Vec<u8>) -> Result<Self, Error> {
        let name = name.into();
        let text = text(bytes).map_err(|what| Error::input(&name, what))?;
        Ok(Self { name, text })
    }
}

/// The file extensions that are read from a directory.
const EXTENSIONS: [&str; 3] = ["json", "yaml", "yml"];

/// Reads all files and directories. "-" is standard input.
pub(in crate::cli) fn sources(files: &[PathBuf]) -> Result<Vec<Source>, Error> {
    if files.iter().filter(|file| is_stdin(file)).count() > 1 {
        return Err(Error::Usage("-f - can be used only once".to_owned()));
    }
    let mut sources = Vec::new();
    for file in files {
        if !file.is_dir() {
            let source = source(file)?;
            if let Some(what) = wire::unreadable(&source.text) {
                return Err(Error::input(&source.name, what));
            }
            sources.push(source);
            continue;
        }
        for file in files_of(file)? {
            sources.push(source(&file)?);
        }
    }
    Ok(sources)
}

/// The files of a directory with a known extension, ordered by name.
fn files_of(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let failed = |error: io::Error| {
        let text = format!("cannot be read: {error}");
        Error::input(directory.display().to_string(), text)
    };
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let extension = path.extension().and_then(|it| it.to_str());
        if extension.is_some_and(|it| EXTENSIONS.contains(&it)) && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() {
        let text = "the directory contains no files that end with .json, .yaml or .yml";
        return Err(Error::input(directory.display().to_string(), text));
    }
    Ok(files)
}

/// Reads one file.
pub(super) fn source(file: &Path) -> Result<Source, Error> {
    let (name, bytes) = if is_stdin(file) {
        let mut bytes = Vec::new();
        let read = io::stdin().lock().read_to_end(&mut bytes);
        ("standard input".to_owned(), read.map(|_| bytes))
    } else {
        (file.display().to_string(), fs::read(file))
    };
    let bytes = bytes.map_err(|error| Error::input(&name, format!("cannot be read: {error}")))?;
    Source::new(name, bytes)
}

fn is_stdin(file: &Path) -> bool {
    file.as_os_str() == "-"
}

fn text(bytes: Vec<u8>) -> Result<String, &'static str> {
    match bytes.as_slice() {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
            return Err("is encoded in UTF-16, and must be UTF-8");
        }
        _ => {}
    }
    let text = String::from_utf8(bytes).map_err(|_| "is not UTF-8 text")?;
    Ok(match text.strip_prefix('\u{feff}') {
        Some(text) => text.to_owned(),
        None => text,
    })
}
