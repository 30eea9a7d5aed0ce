//! The recipe for a method in docs/architecture.md names every file that a method needs.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use rollplan::wire::METHODS;

/// Files outside the recipe: features that only some methods have.
const FEATURES: [&str; 3] = [
    // The calls for people with curl.
    "src/server/connect/endpoint/mod.rs",
    // The metrics of plans.
    "src/server/call/planner.rs",
    "src/server/observability/metrics/mod.rs",
];

/// The list of methods.
const LIST: &str = "src/wire/methods.rs";

/// The maximum number of files that name the messages of a method without such features.
const FILES_MAX: usize = 8;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The paths in the recipe.
fn recipe() -> Vec<String> {
    let text = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let (_, recipe) = text.split_once("**A method**\n").unwrap();
    let (recipe, _) = recipe.split_once("\n\n").unwrap();
    let quoted = recipe.split('`').skip(1).step_by(2);
    let paths = quoted.filter(|it| it.starts_with("src/"));
    paths.map(str::to_owned).collect()
}

/// The Rust files below a folder.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|it| it == "rs") {
            files.push(path);
        }
    }
}

/// The files in `src` whose code, without tests, names the messages of a method.
fn files_of(method: &str) -> BTreeSet<String> {
    let mut all = Vec::new();
    collect(&root().join("src"), &mut all);
    let is_test = |path: &&PathBuf| path.iter().any(|it| it == "tests" || it == "tests.rs");
    let all = all.iter().filter(|path| !is_test(path));
    let names = |path: &&PathBuf| {
        let text = fs::read_to_string(path).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap();
        let mut messages = ["Request", "Response"].iter();
        messages.any(|message| {
            let name = format!("{method}{message}");
            let mut words = code.split(|c: char| !c.is_alphanumeric());
            words.any(|word| word == name)
        })
    };
    let named = all.filter(names);
    let relative = named.map(|path| path.strip_prefix(root()).unwrap());
    relative.map(|path| path.display().to_string()).collect()
}

#[test]
fn recipe_for_a_method_names_all_its_files() {
    let recipe = recipe();
    assert!(recipe.iter().any(|path| path == LIST), "{recipe:?}");
    for method in METHODS {
        let files = files_of(method.name);
        assert!(files.contains(LIST), "{}", method.name);
        let unnamed: Vec<_> = files
            .iter()
            .filter(|file| !FEATURES.contains(&file.as_str()))
            .filter(|file| !recipe.iter().any(|path| file.starts_with(path)))
            .collect();
        assert_eq!(unnamed, [""; 0], "{} is named in other files", method.name);
    }
    for file in FEATURES {
        assert!(
            METHODS.iter().any(|it| files_of(it.name).contains(file)),
            "{file}"
        );
    }
}

#[test]
fn a_method_needs_few_files() {
    let mut simple = METHODS
        .iter()
        .map(|method| (method.name, files_of(method.name)));
    let simple: Vec<_> = simple
        .by_ref()
        .filter(|(_, files)| !files.iter().any(|file| FEATURES.contains(&file.as_str())))
        .collect();
    assert!(!simple.is_empty());
    for (name, files) in simple {
        assert!(files.len() <= FILES_MAX, "{name}: {files:?}");
    }
}
