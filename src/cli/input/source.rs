//! Texts from files and from standard input.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use rollplan_wire as wire;

use crate::cli::error::{Diagnostic, Error};

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

    /// Whether it has the name of the file that makes a directory a kustomization.
    pub(super) fn is_kustomization(&self) -> bool {
        let name = Path::new(&self.name).file_name();
        KUSTOMIZATIONS
            .iter()
            .any(|it| name.is_some_and(|name| name == *it))
    }
}

/// The names of files that make a directory a kustomization.
const KUSTOMIZATIONS: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// Texts from files, and why others could not be read.
#[derive(Debug, Default)]
pub(in crate::cli) struct Sources {
    pub(super) list: Vec<Source>,
    pub(super) errors: Vec<Diagnostic>,
    /// Directories in the given ones that were not searched.
    pub(super) unsearched: Vec<PathBuf>,
}

/// The file extensions that are read from a directory.
const EXTENSIONS: [&str; 3] = ["json", "yaml", "yml"];
/// The file that makes a directory a chart.
const CHART: &str = "Chart.yaml";

/// Reads all files and directories, and with `is_recursive` also the directories in these. "-" is standard input. Files in
/// directories that cannot be read do not prevent that the others are read.
pub(in crate::cli) fn sources(files: &[PathBuf], is_recursive: bool) -> Result<Sources, Error> {
    if files.iter().filter(|file| is_stdin(file)).count() > 1 {
        return Err(Error::Usage("-f - can be used only once".to_owned()));
    }
    let mut sources = Sources::default();
    for file in files {
        if file.is_dir() {
            sources.add_directory(file, is_recursive)?;
            continue;
        }
        let source = source(file)?;
        match wire::unreadable(&source.text) {
            Some(what) => sources.errors.push(Diagnostic::new(&source.name, what)),
            None => sources.list.push(source),
        }
    }
    Ok(sources)
}

// === impl Sources ===

impl From<Vec<Source>> for Sources {
    fn from(list: Vec<Source>) -> Self {
        Self {
            list,
            ..Self::default()
        }
    }
}

impl Sources {
    /// Adds the files of a directory with a known extension, ordered by name.
    fn add_directory(&mut self, directory: &Path, is_recursive: bool) -> Result<(), Error> {
        let name = directory.display().to_string();
        let failed = |error: io::Error| Error::input(&name, format!("cannot be read: {error}"));
        let mut paths = Vec::new();
        for entry in fs::read_dir(directory).map_err(failed)? {
            paths.push(entry.map_err(failed)?.path());
        }
        paths.sort();
        if paths.iter().any(|path| path.ends_with(CHART)) {
            let text = "this is a Helm chart: render it first, for example with helm template";
            self.errors.push(Diagnostic::new(name, text));
            return Ok(());
        }
        let mut count = 0;
        for path in &paths {
            let extension = path.extension().and_then(|it| it.to_str());
            let is_manifest = extension.is_some_and(|it| EXTENSIONS.contains(&it));
            match (path.is_dir(), is_recursive) {
                // Links to directories could lead back to where they are.
                (true, true) if path.is_symlink() => {}
                (true, true) => self.add_directory(path, true)?,
                (true, false) => self.unsearched.push(path.clone()),
                (false, _) if is_manifest && path.is_file() => {
                    count += 1;
                    match source(path) {
                        Ok(source) => self.list.push(source),
                        Err(Error::Input(errors)) => self.errors.extend(errors),
                        Err(error) => return Err(error),
                    }
                }
                (false, _) => {}
            }
        }
        if count == 0 && !is_recursive {
            let folders = paths.iter().any(|path| path.is_dir());
            let hint = if folders {
                "; -R also searches the directories in it"
            } else {
                ""
            };
            let text = "the directory contains no files that end with .json, .yaml or .yml";
            return Err(Error::input(name, format!("{text}{hint}")));
        }
        Ok(())
    }
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

/// Decodes text as kubectl does: UTF-16 only with a byte order mark, and otherwise UTF-8, in which invalid bytes are
/// replaced.
fn text(bytes: Vec<u8>) -> Result<String, &'static str> {
    let utf_16 = |pairs: &[u8], unit: fn([u8; 2]) -> u16| {
        let (pairs, _) = pairs.as_chunks::<2>();
        let units: Vec<u16> = pairs.iter().map(|pair| unit(*pair)).collect();
        String::from_utf16_lossy(&units)
    };
    Ok(match bytes.as_slice() {
        [0xff, 0xfe, rest @ ..] => utf_16(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => utf_16(rest, u16::from_be_bytes),
        [0xef, 0xbb, 0xbf, rest @ ..] => String::from_utf8_lossy(rest).into_owned(),
        _ => match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) if error.as_bytes().contains(&0) => return Err("is not a text"),
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        },
    })
}
