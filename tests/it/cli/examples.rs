//! The output for every snapshot in examples/, compared with the files in tests/golden/. `UPDATE_GOLDEN=1` updates them.

use std::collections::BTreeSet;
use std::fs;

use super::{answered, path, read, rollplan};

/// A verb, further arguments, and the suffix of the golden files.
type Printed = (&'static str, &'static [&'static str], &'static str);

/// Printed for every example.
const TEXTS: [Printed; 2] = [("plan", &[], "plan.txt"), ("status", &[], "status.txt")];

/// Printed for the examples with different revisions.
const REVISIONS: [Printed; 2] = [("history", &[], "history.txt"), ("undo", &[], "undo.txt")];
const WITH_REVISIONS: [&str; 6] = [
    "adopt-orphan",
    "after-undo",
    "fresh-create",
    "history-cleanup",
    "mid-rollout",
    "paused-midway",
];

/// Plans in other formats, for examples that together contain every kind of call.
const FORMATS: [Printed; 3] = [
    ("plan", &["-o", "json"], "plan.json"),
    ("plan", &["-o", "yaml"], "plan.yaml"),
    ("plan", &["-o", "kubectl", "--takeover"], "plan.sh"),
];
/// Forecasts of the rollouts in progress, and of a change.
const FORECASTS: [Printed; 2] = [
    ("forecast", &[], "forecast.txt"),
    ("forecast", &IMAGE, "forecast-image.txt"),
];
const IMAGE: [&str; 3] = [
    "--image=*=registry.example/web:9",
    "--start-time=8s,9s,10s,12s,20s",
    "--termination-time=2s",
];
const WITH_FORECASTS: [&str; 5] = [
    "mid-rollout",
    "paused-midway",
    "recreate-waiting",
    "rollover",
    "stuck-quota",
];
const IN_ALL_FORMATS: [&str; 4] = [
    "adopt-orphan",
    "fresh-create",
    "history-cleanup",
    "mid-rollout",
];

#[test]
fn examples_match_their_golden_files() {
    let mut wanted = BTreeSet::new();
    let mut wrong = Vec::new();
    for example in examples() {
        let file = format!("examples/{example}.json");
        let now = time_of(&example);
        let mut all = TEXTS.to_vec();
        if WITH_REVISIONS.contains(&example.as_str()) {
            all.extend(REVISIONS);
        }
        if IN_ALL_FORMATS.contains(&example.as_str()) {
            all.extend(FORMATS);
        }
        if WITH_FORECASTS.contains(&example.as_str()) {
            all.extend(FORECASTS);
        }
        for (verb, more, ending) in all {
            let input = match verb {
                // Its -f is the changed manifest.
                "forecast" => "--snapshot",
                _ => "-f",
            };
            let args = [&[verb, input, &file, "--now", &now], more].concat();
            let run = rollplan(&args, "");
            match verb {
                // The exit code is checked below.
                "status" => assert_eq!(run.err, ""),
                // A paused rollout never completes.
                "forecast" => assert!([0, 1].contains(&run.exit), "{run:?}"),
                // Some have only one revision.
                "undo" => assert!([0, 1].contains(&run.exit), "{run:?}"),
                _ => assert_eq!((run.exit, run.err.as_str()), (0, ""), "{args:?}"),
            }
            let printed = run.out + &run.err;
            let name = format!("{example}.{ending}");
            let golden = format!("tests/golden/{name}");
            if std::env::var_os("UPDATE_GOLDEN").is_some() {
                fs::create_dir_all(path("tests/golden")).expect("a directory");
                fs::write(path(&golden), &printed).expect("a golden file");
            } else if fs::read_to_string(path(&golden)).ok().as_deref() != Some(&printed) {
                wrong.push(format!("{golden} is not what is printed now:\n{printed}"));
            }
            wanted.insert(name);
        }
    }
    let found: BTreeSet<String> = names("tests/golden").into_iter().collect();
    let idle: Vec<_> = found.difference(&wanted).collect();
    assert!(idle.is_empty(), "no example prints {idle:?}");
    assert!(
        wrong.is_empty(),
        "{}\nUPDATE_GOLDEN=1 rewrites them",
        wrong.join("\n")
    );
}

/// The exit code of `status` depends on the state of the rollout, that of `plan` only on whether a plan was made.
#[test]
fn exit_code_of_status_matches_the_phase() {
    let known = [
        ("after-undo", 0),
        // It is complete except for an unobserved generation. kubectl waits for it, too.
        ("history-cleanup", 3),
        ("stuck-bad-image", 1),
        ("fresh-create", 3),
        ("mid-rollout", 3),
        ("paused-scaled", 3),
    ];
    for example in examples() {
        let (file, now) = (format!("examples/{example}.json"), time_of(&example));
        let run = rollplan(&["status", "-f", &file, "--now", &now, "-o", "json"], "");
        let answer: serde_json::Value = serde_json::from_str(&run.out).expect("JSON");
        let expected = match answer["report"]["phase"].as_str().expect("a phase") {
            "PHASE_COMPLETE" => 0,
            "PHASE_STALLED" | "PHASE_REFUSED" => 1,
            "PHASE_PROGRESSING" | "PHASE_PAUSED" | "PHASE_DELETING" => 3,
            phase => panic!("{example}: {phase}"),
        };
        assert_eq!(run.exit, expected, "{example}");
        if let Some((_, known)) = known.iter().find(|(name, _)| *name == example) {
            assert_eq!(run.exit, *known, "{example}");
        }
    }
}

/// The sentences of a text, including those that are wrapped. Conditions are omitted, because they are printed unchanged.
fn sentences(text: &str) -> Vec<String> {
    let mut sentences: Vec<String> = Vec::new();
    let lines = text
        .lines()
        .take_while(|line| !line.starts_with("CONDITION"));
    for line in lines.filter(|line| !line.is_empty()) {
        let is_new = !line.starts_with("   ") || line.trim_start().starts_with("remedy: ");
        let part = line.trim().trim_start_matches("- ");
        match sentences.last_mut() {
            Some(last) if !is_new => *last = format!("{last} {part}"),
            _ => sentences.push(part.to_owned()),
        }
    }
    sentences
}

#[test]
fn no_sentence_is_printed_twice() {
    for example in examples() {
        let text = read(&format!("tests/golden/{example}.status.txt"));
        let sentences = sentences(&text);
        for (index, sentence) in sentences.iter().enumerate() {
            let others = sentences.iter().enumerate();
            let mut others = others.filter(|(other, _)| *other != index);
            let twice = others.find(|(_, other)| other.contains(sentence.as_str()));
            assert!(twice.is_none(), "{example}: {sentence:?} is in {twice:?}");
        }
    }
}

#[test]
fn tables_fit_100_columns() {
    for name in names("tests/golden")
        .iter()
        .filter(|name| name.ends_with(".txt"))
    {
        for line in read(&format!("tests/golden/{name}")).lines() {
            assert!(line.chars().count() <= 100, "{name}: {line}");
            assert_eq!(line.trim_end(), line, "{name}: blanks at the end of a line");
        }
    }
}

#[test]
fn yaml_matches_json() {
    for example in examples() {
        let (file, now) = (format!("examples/{example}.json"), time_of(&example));
        let plan = |format| answered(&["plan", "-f", &file, "--now", &now, "-o", format], "");
        let (json, yaml) = (plan("json"), plan("yaml"));
        let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(super::input::from_yaml(&yaml), json, "{example}");
    }
}

pub(super) fn examples() -> Vec<String> {
    let names = names("examples").into_iter();
    names
        .filter_map(|name| name.strip_suffix(".json").map(str::to_owned))
        .collect()
}

/// The time of an example according to its README.
pub(crate) fn time_of(example: &str) -> String {
    let readme = read("examples/README.md");
    let row = readme
        .lines()
        .find(|line| line.starts_with(&format!("| [{example}.json]")));
    let row = row.unwrap_or_else(|| panic!("the README has no row for {example}"));
    let time = row.rsplit('|').map(str::trim).find(|cell| !cell.is_empty());
    time.expect("a last cell").trim_matches('`').to_owned()
}

fn names(directory: &str) -> Vec<String> {
    let entries = fs::read_dir(path(directory)).expect("a directory");
    let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
    let mut names: Vec<String> = entries
        .map(|entry| name(entry).into_string().expect("UTF-8"))
        .collect();
    names.sort();
    names
}
