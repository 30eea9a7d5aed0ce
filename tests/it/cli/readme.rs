//! Commands in the documentation are valid, and the output in the README matches that of its commands.

use super::{path, read, rollplan};

/// The ```` ```console ```` blocks of a page that begin with a command: its arguments, and the excerpt of its output.
fn consoles(page: &str, program: &str) -> Vec<(String, Vec<String>)> {
    page.split(&format!("```console\n$ {program} "))
        .skip(1)
        .map(|block| {
            let block = block.split("\n```").next().expect("a block ends");
            let mut lines = block.lines().map(str::to_owned);
            (lines.next().expect("a command"), lines.collect())
        })
        .collect()
}

/// Runs the command of a block, and checks what the page shows of its output.
fn check_console(command: &str, excerpt: &[String], exit: i32) {
    let args: Vec<&str> = command.split_whitespace().collect();
    let run = rollplan(&args, "");
    assert_eq!((run.exit, run.err.as_str()), (exit, ""), "{command}");
    let mut printed = run.out.as_str();
    // An ellipsis replaces omitted lines. The parts between ellipses must match exactly.
    for part in excerpt
        .split(|line| line == "…")
        .map(|part| part.join("\n"))
    {
        let (_, rest) = printed
            .split_once(&part)
            .unwrap_or_else(|| panic!("{command} does not print:\n{part}\nbut:\n{}", run.out));
        printed = rest;
    }
}

#[test]
fn readme_matches_the_output_of_its_commands() {
    // The text says that the second command exits with 1. A script that runs the others continues.
    let exits = [0, 1, 0];
    let consoles = consoles(&read("README.md"), "cargo run --");
    assert_eq!(consoles.len(), exits.len());
    for ((command, excerpt), exit) in consoles.into_iter().zip(exits) {
        check_console(&command, &excerpt, exit);
    }
}

/// Those that read an example: the files of the others do not exist.
#[test]
fn pages_match_the_output_of_their_commands() {
    let mut count = 0;
    for page in pages() {
        for (command, excerpt) in consoles(&read(&page), "rollplan") {
            if command.contains(" examples/") {
                let exit = i32::from(command.starts_with("status "));
                check_console(&command, &excerpt, exit);
                count += 1;
            }
        }
    }
    assert!(count >= 2, "{count}");
}

/// `UPDATE_GOLDEN=1` updates it.
#[test]
fn picture_in_the_readme_is_that_of_its_forecast() {
    let consoles = consoles(&read("README.md"), "cargo run --");
    let (command, _) = &consoles[2];
    let args: Vec<&str> = command.split_whitespace().chain(["-o", "svg"]).collect();
    let run = rollplan(&args, "");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path("docs/forecast.svg"), &run.out).expect("a picture");
    }
    assert_eq!(run.out, read("docs/forecast.svg"));
}

/// The pages with commands for users.
fn pages() -> Vec<String> {
    let mut pages = vec!["README.md".to_owned(), "examples/README.md".to_owned()];
    for folder in ["docs", "docs/guides", "docs/reference"] {
        let files = std::fs::read_dir(path(folder)).expect("a folder");
        let names = files.map(|file| file.expect("a file").file_name());
        let names = names.filter_map(|name| name.into_string().ok());
        pages.extend(
            names
                .filter(|name| name.ends_with(".md"))
                .map(|name| format!("{folder}/{name}")),
        );
    }
    pages
}

/// The arguments of a command line `rollplan …` at the start of a text, without comments and other commands.
fn arguments(text: &str) -> Option<Vec<&str>> {
    let command = text.strip_prefix("rollplan ")?;
    let ends = ["`", " #", " |", " &", "("];
    let end = ends.iter().filter_map(|end| command.find(end)).min();
    let words = command[..end.unwrap_or(command.len())].split_whitespace();
    Some(words.collect())
}

/// The commands of a page: lines of code blocks, parts of pipelines, and inline code.
fn commands(page: &str) -> Vec<Vec<&str>> {
    let mut is_code = false;
    let mut parts = Vec::new();
    for line in page.lines() {
        if line.starts_with("```") {
            is_code = !is_code;
        } else if is_code || line.starts_with("    ") {
            parts.extend(line.split(" | "));
        } else {
            parts.extend(line.split('`').skip(1).step_by(2));
        }
    }
    let commands = parts.into_iter();
    commands
        .filter_map(|part| arguments(part.trim_start()))
        .collect()
}

#[test]
fn documented_commands_are_valid() {
    let mut count = 0;
    for page in pages() {
        let text = read(&page);
        for command in commands(&text) {
            // --help comes last: arguments before it are parsed, and the command is not carried out.
            let args = [command.as_slice(), &["--help"]].concat();
            let run = rollplan(&args, "");
            assert_eq!((run.exit, run.err.as_str()), (0, ""), "{page}: {command:?}");
            count += 1;
        }
    }
    assert!(count >= 60, "{count}");
}

#[test]
fn page_about_flux_shows_the_output() {
    let kustomization = r#"
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: shop, namespace: flux-system, uid: u, resourceVersion: "1", generation: 2}
spec: {suspend: true}
status:
  observedGeneration: 1
  conditions:
  - {type: Ready, status: "True", reason: ReconciliationSucceeded, observedGeneration: 1}
"#;
    let run = rollplan(&["status", "-f", "-"], kustomization);
    assert_eq!(run.exit, 3, "{}", run.err);
    let command = "status kustomizations.kustomize.toolkit.fluxcd.io/shop -n flux-system";
    let shown = format!("{command}\n{}```", run.out);
    assert!(read("docs/guides/flux.md").contains(&shown), "{}", run.out);
}
