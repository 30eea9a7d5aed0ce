//! The recipe for a method in docs/contributors/architecture.md names every file that a method needs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use rollplan::service::METHODS;

/// Files outside the recipe: what some methods have in addition.
const FEATURES: [&str; 9] = [
    // The commands for kubectl, the reports in files, and the time left of a rollout.
    "src/cli/course.rs",
    "src/cli/observe.rs",
    "src/cli/output/mod.rs",
    "src/cli/report/mod.rs",
    "src/cli/output/script.rs",
    // The refusals of canaries.
    "src/cli/planner/mod.rs",
    // The calls for people with curl.
    "src/server/connect/endpoint/mod.rs",
    // The metrics of plans.
    "src/server/call/planner.rs",
    "src/server/observability/metrics/mod.rs",
];

/// The list of methods.
const LIST: &str = "src/service/methods/mod.rs";

/// The maximum number of files in the recipe that name the messages of a method.
const FILES_MAX: usize = 8;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The paths in the recipe.
fn recipe() -> Vec<String> {
    let text = fs::read_to_string(root().join("docs/contributors/architecture.md")).unwrap();
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

/// The files in `src` by their paths, with the words of their code without tests and comments.
fn sources() -> BTreeMap<String, BTreeSet<String>> {
    let mut all = Vec::new();
    collect(&root().join("src"), &mut all);
    let is_test = |path: &&PathBuf| path.iter().any(|it| it == "tests" || it == "tests.rs");
    let all = all.iter().filter(|path| !is_test(path));
    let words = |path: &PathBuf| {
        let text = fs::read_to_string(path).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap();
        let lines = code
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"));
        let words = lines.flat_map(|line| line.split(|c: char| !c.is_alphanumeric()));
        let relative = path.strip_prefix(root()).unwrap();
        (
            relative.display().to_string(),
            words.map(str::to_owned).collect(),
        )
    };
    all.map(words).collect()
}

/// The files that name the messages of a method.
fn files_of<'s>(
    method: &str,
    sources: &'s BTreeMap<String, BTreeSet<String>>,
) -> BTreeSet<&'s str> {
    let messages = ["Request", "Response"].map(|message| format!("{method}{message}"));
    let named = sources
        .iter()
        .filter(|(_, words)| messages.iter().any(|message| words.contains(message)));
    named.map(|(file, _)| file.as_str()).collect()
}

#[test]
fn recipe_for_a_method_names_all_its_files() {
    let recipe = recipe();
    assert!(recipe.iter().any(|path| path == LIST), "{recipe:?}");
    let sources = sources();
    let mut features = BTreeSet::new();
    for method in METHODS {
        let files = files_of(method.name, &sources);
        assert!(files.contains(LIST), "{}", method.name);
        let (own, others): (Vec<_>, Vec<_>) =
            files.into_iter().partition(|file| !FEATURES.contains(file));
        let unnamed: Vec<_> = own
            .iter()
            .filter(|file| !recipe.iter().any(|path| file.starts_with(path)))
            .collect();
        assert_eq!(unnamed, [&""; 0], "{} is named in other files", method.name);
        assert!(own.len() <= FILES_MAX, "{}: {own:?}", method.name);
        features.extend(others);
    }
    assert_eq!(features, FEATURES.into());
}
