//! Requests in, responses out.

mod absurd;
mod answers;
mod baseline;
mod calls;
mod canaries;
mod capacity;
mod configurations;
mod fixtures;
mod forecasts;
mod interrupts;
mod kinds;
mod objects;
mod overlap;
mod oversized;
mod random;
mod refused_objects;
mod restarts;
mod steps;
mod summary;
mod sync;
mod templates;
mod violations;

use std::fs;
use std::path::{Path, PathBuf};

use crate::request::Request;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The saved snapshots in examples/, by name.
fn examples() -> Vec<(String, Request)> {
    let mut examples: Vec<_> = fs::read_dir(root().join("examples"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "json")
        })
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, Request::of_list("2026-11-20T23:27:30Z", &read(&path)))
        })
        .collect();
    examples.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(examples.len() >= 9, "{} examples", examples.len());
    examples
}

/// The example with this name.
fn example(name: &str) -> Request {
    let (_, example) = examples()
        .into_iter()
        .find(|(example, _)| example == name)
        .unwrap_or_else(|| panic!("no example {name}"));
    example
}
