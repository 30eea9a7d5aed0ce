//! Reports of `status` and `wait` for CI systems.

use std::fs;

use super::kubectl::{Kubectl, poll, rollout};
use super::{Run, examples, refused, rollplan};

const STUCK: &str = "stuck-bad-image";

/// A directory for reports.
struct Reports(tempfile::TempDir);

impl Reports {
    fn new() -> Self {
        Self(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap())
    }

    /// The option that writes a report to this directory.
    fn option(&self, format: &str) -> String {
        format!("--report={format}={}", self.0.path().join(format).display())
    }

    fn read(&self, format: &str) -> String {
        fs::read_to_string(self.0.path().join(format)).unwrap()
    }
}

fn status(more: &[&str]) -> Run {
    let (file, now) = (format!("examples/{STUCK}.json"), examples::time_of(STUCK));
    rollplan(
        &[&["status", "-f", &file, "--now", &now], more].concat(),
        "",
    )
}

#[test]
fn stuck_rollout_is_a_github_annotation() {
    let run = status(&["--ci=github"]);
    assert_eq!((run.exit, run.err.as_str()), (1, ""));
    let lines: Vec<&str> = run.out.lines().collect();
    let token = lines[0].strip_prefix("::stop-commands::").unwrap();
    let resumed = lines
        .iter()
        .position(|line| *line == format!("::{token}::"));
    let annotations = &lines[resumed.unwrap() + 1..];
    assert_eq!(annotations.len(), 1, "{}", run.out);
    assert!(
        annotations[0].starts_with("::error title=Deployment shop/web%3A stalled::"),
        "{}",
        annotations[0]
    );
    assert!(annotations[0].contains("cannot be pulled"));
    // The lines in between are the output without the option.
    let printed = lines[1..resumed.unwrap()].join("\n") + "\n";
    assert_eq!(printed, status(&[]).out);
}

#[test]
fn annotations_do_not_mix_with_json() {
    let run = status(&["--ci=github", "-o=json"]);
    assert_eq!(run.out, status(&["-o=json"]).out);
    assert!(run.err.lines().nth(2).unwrap().starts_with("::error "));
}

#[test]
fn junit_and_json_are_replaced_and_markdown_is_appended() {
    let reports = Reports::new();
    for round in 1..=2 {
        let run = status(&[
            &reports.option("junit"),
            &reports.option("markdown"),
            &reports.option("json"),
        ]);
        assert_eq!((run.exit, run.err.as_str()), (1, ""));
        let junit = reports.read("junit");
        assert_eq!(junit.matches("<testcase ").count(), 1);
        assert!(
            junit.contains(
                r#"<testsuites name="rollplan status" tests="1" failures="1" errors="0">"#
            )
        );
        assert!(
            junit.contains(r#"<failure type="IMAGE_PULL" message="#),
            "{junit}"
        );
        assert_eq!(reports.read("json"), status(&["-o=json"]).out);
        let markdown = reports.read("markdown");
        assert_eq!(
            markdown
                .matches("### rollplan status: 0 of 1 complete")
                .count(),
            round
        );
    }
}

#[test]
fn gitlab_section_contains_the_duration_of_the_wait() {
    let reports = Reports::new();
    let kubectl = Kubectl::new(&[rollout(1), rollout(2)]);
    let junit = reports.option("junit");
    let run = kubectl.watch(&["wait", "web", "-n", "shop", "--ci=gitlab", &junit]);
    assert_eq!((run.exit, run.err.as_str()), (0, ""), "{}", run.out);
    let parts: Vec<&str> = run.out.split("\u{1b}[0K").collect();
    assert!(parts[1].starts_with("section_start:") && parts[1].ends_with(":rollplan_polls\r"));
    assert_eq!(parts[2].lines().next(), Some("Rollouts"));
    assert_eq!(parts[2].lines().count(), 3, "{}", run.out);
    assert!(parts[3].starts_with("section_end:") && parts[3].ends_with(":rollplan_polls\r"));
    let junit = reports.read("junit");
    assert!(
        junit.contains(r#"tests="1" failures="0" errors="0" time=""#),
        "{junit}"
    );
    assert!(junit.contains(r#"name="Deployment shop/web""#), "{junit}");
    // Calls of kubectl take some milliseconds.
    assert!(!junit.contains(r#"time="0.000""#), "{junit}");
}

#[test]
fn causes_are_not_in_the_gitlab_section() {
    let kubectl = Kubectl::new(&[super::kubectl::example(STUCK)]);
    let run = kubectl.run(&["wait", "web", "-n", "shop", "--ci=gitlab", "--timeout=0"]);
    assert_eq!(run.exit, 1, "{}", run.out);
    let (section, rest) = run.out.split_once("\u{1b}[0Ksection_end:").unwrap();
    assert!(!section.contains("remedy: "), "{section}");
    assert!(rest.contains("remedy: "), "{rest}");
}

#[test]
fn rollout_that_cannot_be_read_is_an_error() {
    let reports = Reports::new();
    let kubectl = Kubectl::new(&[poll(vec![])]);
    let run = kubectl.watch(&[
        "wait",
        "web",
        "-n",
        "shop",
        "--ci=github",
        &reports.option("junit"),
    ]);
    assert_eq!(run.exit, 2);
    assert!(
        run.out.contains("::error title=shop/web%3A unknown::"),
        "{}",
        run.out
    );
    let junit = reports.read("junit");
    assert!(
        junit.contains(r#"tests="1" failures="0" errors="1""#),
        "{junit}"
    );
    assert!(junit.contains("not found"), "{junit}");
}

#[test]
fn several_rollouts_are_several_test_cases() {
    let reports = Reports::new();
    let other = |name: &str| {
        let text = fs::read_to_string(super::path(&format!("examples/{STUCK}.json"))).unwrap();
        text.replace("\"web\"", &format!("\"{name}\"")).replace(
            "\"namespace\": \"shop\"",
            &format!("\"namespace\": \"{name}\""),
        )
    };
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for name in ["one", "two"] {
        fs::write(folder.path().join(format!("{name}.json")), other(name)).unwrap();
    }
    let folder = folder.path().to_str().unwrap();
    let run = rollplan(
        &[
            "status",
            "-f",
            folder,
            "--ci=github",
            &reports.option("junit"),
        ],
        "",
    );
    assert_eq!(run.exit, 1, "{}", run.err);
    assert_eq!(
        run.out.matches("\n::error title=").count(),
        2,
        "{}",
        run.out
    );
    assert!(reports.read("junit").contains(r#"tests="2" failures="2""#));
}

#[test]
fn unwritable_file_is_refused_before_anything_is_read() {
    let kubectl = Kubectl::new(&[rollout(2)]);
    let run = kubectl.run(&["wait", "web", "--report=junit=/no/such/report.xml"]);
    assert_eq!((run.exit, run.out.as_str()), (2, ""));
    assert!(
        run.err
            .starts_with("error: --report: cannot write to /no/such/report.xml: "),
        "{}",
        run.err
    );
    assert_eq!(kubectl.calls(), [""; 0]);
    assert!(refused(&["wait", "web", "--report=pdf=x"], "").contains("junit=FILE"));
}

/// The rollout as it was, and the forecast that was made at its start, have the same axes.
#[test]
fn page_draws_the_rollout_beside_its_forecast() {
    let reports = Reports::new();
    let kubectl = Kubectl::new(&[rollout(0), rollout(1), rollout(2)]);
    let run = kubectl.watch(&["wait", "web", &reports.option("html")]);
    assert_eq!(run.err, "");
    let page = reports.read("html");
    let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}: {page}"));
    assert!(at("<h2>Deployment shop/web: ") < at(">Forecast at the start<"));
    assert!(at(">Forecast at the start<") < at(">As it was<"));
    assert_eq!(page.matches("<svg ").count(), 2);
}
