//! Stories in `tests/scenarios/*.txt`: their plans are compared with the expected output in the same file.
//! `tests/scenarios/README.md` describes the format. `UPDATE_SCENARIOS=1` updates the expected output.

mod render;
mod story;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use story::Story;

/// The prefix of expected output, which distinguishes it from input.
const OUTPUT: char = '>';

#[test]
fn every_scenario_has_the_expected_output() {
    let update = std::env::var_os("UPDATE_SCENARIOS").is_some_and(|value| value == "1");
    let mut failures = String::new();
    for path in scenario_files() {
        let text = fs::read_to_string(&path).unwrap();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        match tell(&text) {
            Err(error) => _ = writeln!(failures, "\n{name}:{error}"),
            Ok(told) if told == text => {}
            Ok(told) if update => fs::write(&path, told).unwrap(),
            Ok(told) => _ = writeln!(failures, "\n{name}:\n{}", difference(&text, &told)),
        }
    }
    assert!(
        failures.is_empty(),
        "{failures}\nUPDATE_SCENARIOS=1 writes what came out (+) into the files; read it before you commit it"
    );
}

/// All files in the directory. A file that is not a scenario is an error.
fn scenario_files() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/scenarios");
    let mut files = Vec::new();
    for entry in fs::read_dir(&directory).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().is_some_and(|name| name == "README.md") {
            continue;
        }
        assert!(
            path.is_file() && path.extension().is_some_and(|extension| extension == "txt"),
            "{} is not a scenario",
            path.display()
        );
        files.push(path);
    }
    assert!(!files.is_empty(), "no scenarios in {}", directory.display());
    files.sort();
    files
}

/// The story with its actual output. An error starts with the line number.
fn tell(text: &str) -> Result<String, String> {
    let mut told = String::new();
    let mut story = Story::default();
    for (index, line) in text.lines().enumerate() {
        if line.starts_with(OUTPUT) {
            continue;
        }
        _ = writeln!(told, "{line}");
        let output = story
            .line(line)
            .map_err(|error| format!("{}: {error}\n  {line}", index + 1))?;
        for line in output {
            _ = writeln!(told, "{}", format!("{OUTPUT} {line}").trim_end());
        }
    }
    match story.plans() {
        0 => Err("1: plans nothing".to_owned()),
        _ => Ok(told),
    }
}

/// A line-based diff of the expected (-) and the actual output (+). Common lines far from any difference are omitted.
fn difference(written: &str, told: &str) -> String {
    const CONTEXT_LINES: usize = 3;
    let (a, b): (Vec<&str>, Vec<&str>) = (written.lines().collect(), told.lines().collect());
    let mut common = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            common[i][j] = if a[i] == b[j] {
                common[i + 1][j + 1] + 1
            } else {
                common[i + 1][j].max(common[i][j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut lines = Vec::new();
    while i < a.len() || j < b.len() {
        if i < a.len() && j < b.len() && a[i] == b[j] {
            lines.push((' ', a[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == b.len() || i < a.len() && common[i + 1][j] >= common[i][j + 1] {
            lines.push(('-', a[i]));
            i += 1;
        } else {
            lines.push(('+', b[j]));
            j += 1;
        }
    }
    let mut text = String::new();
    for (at, (sign, line)) in lines.iter().enumerate() {
        let near = at.saturating_sub(CONTEXT_LINES)..(at + CONTEXT_LINES + 1).min(lines.len());
        if lines[near].iter().any(|(sign, _)| *sign != ' ') {
            _ = writeln!(text, "{sign} {line}");
        }
    }
    text
}

// The harness itself.

#[test]
fn output_is_inserted_into_the_story() {
    let told = tell("deployment web replicas=1\nplan\n> stale\n\n# end\n").unwrap();
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines[..2], ["deployment web replicas=1", "plan"]);
    assert_eq!(
        lines[2],
        "> 1. create ReplicaSet web-76ddb8894c with 1 replica"
    );
    assert_eq!(lines[lines.len() - 2..], ["", "# end"]);
    assert!(!told.contains("stale"));
    assert_eq!(tell(&told).unwrap(), told, "told again");
}

#[test]
fn errors_in_a_story_have_a_line_number() {
    for (text, error) in [
        ("", "1: plans nothing"),
        ("deployment web\n", "1: plans nothing"),
        ("plan\n", "1: no deployment yet\n  plan"),
        (
            "deployment web size=3\nplan\n",
            "1: unknown key size\n  deployment web size=3",
        ),
        (
            "deployment web replicas=x\nplan\n",
            "1: replicas=x: invalid digit found in string\n  deployment web replicas=x",
        ),
        (
            "deployment web\nset a pods\n",
            "2: not key=value: pods\n  set a pods",
        ),
        (
            "deployment web\nset a bods=3\n",
            "2: unknown key bods\n  set a bods=3",
        ),
        (
            "deployment web\npod a set=b\n",
            "2: no ReplicaSet b\n  pod a set=b",
        ),
        (
            "deployment web\nwait 3s\n",
            "2: unknown word wait\n  wait 3s",
        ),
        ("deployment web\napply\n", "2: no plan yet\n  apply"),
        (
            "deployment web\nplan\nrefuse 9 code=409\n",
            "3: the plan has 2 steps\n  refuse 9 code=409",
        ),
        (
            "deployment web\nplan twice\n",
            "2: unknown horizon twice\n  plan twice",
        ),
    ] {
        assert_eq!(tell(text), Err(error.to_owned()));
    }
}

#[test]
fn differences_are_shown_with_context() {
    let written = "1\n2\n3\n4\n5\n6\n7\nold\n8\n";
    let told = "1\n2\n3\n4\n5\n6\n7\nnew\n8\n";
    assert_eq!(
        difference(written, told),
        "  5\n  6\n  7\n- old\n+ new\n  8\n"
    );
    assert_eq!(difference("a\nb\n", "b\nc\n"), "- a\n  b\n+ c\n");
}
