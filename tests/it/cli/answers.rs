//! The form of the output: plans, JSON and YAML, help and completions.

use serde_json::Value;

use super::{DEPLOYMENT, NOW, answered, command, plan_args, quoted, read, rollplan, summaries};

#[test]
fn pass_horizon_plans_fewer_steps() {
    let plan = |horizon: &str| {
        let file = "examples/mid-rollout.json";
        let args = [
            "plan",
            "-f",
            file,
            "--now",
            "2026-11-20T23:26:19Z",
            "-o",
            "json",
            "--horizon",
            horizon,
        ];
        summaries(&answered(&args, ""))
    };
    assert_eq!(plan("settled").len(), 2);
    assert_eq!(
        plan("pass"),
        ["scale down ReplicaSet web-779f94f8fc from 8 to 6"]
    );
}

#[test]
fn empty_plans_are_reported() {
    let out = answered(
        &[
            "plan",
            "-f",
            "examples/after-undo.json",
            "--now",
            "2026-11-20T23:26:57Z",
        ],
        "",
    );
    assert!(
        out.starts_with("Deployment shop/web: nothing to do now\n"),
        "{out}"
    );
}

#[test]
fn status_is_the_response_of_compute_status() {
    let args = |output| {
        [
            "status",
            "-f",
            "examples/mid-rollout.json",
            "--now",
            "2026-11-20T23:26:19Z",
            "-o",
            output,
        ]
    };
    let out = |output| {
        let run = rollplan(&args(output), "");
        // In progress.
        assert_eq!((run.exit, run.err.as_str()), (3, ""));
        run.out
    };
    let json: Value = serde_json::from_str(&out("json")).unwrap();
    assert_eq!(json["status"]["replicas"], 13);
    assert_eq!(json["object"]["kind"], "Deployment");
    assert_eq!(json["object"]["namespace"], "shop");
    assert_eq!(json["object"]["name"], "web");
    assert!(json.get("steps").is_none());
    assert_eq!(super::input::from_yaml(&out("yaml")), json);
}

/// Text from a cluster must not control the terminal.
#[test]
fn control_characters_are_escaped() {
    let input = DEPLOYMENT.to_owned()
        + "status:\n  conditions:\n  - {type: \"\\e[31mRed\", status: \"True\", reason: A, message: \"a\\rb\\tc\"}\n";
    let out = answered(&["plan", "-f", "-", "--now", NOW], &input);
    assert!(out.contains("\\u{1b}[31mRed"), "{out}");
    assert!(out.contains("a\\rb\\tc"), "{out}");
    assert!(!out.contains('\u{1b}'), "{out}");
}

/// JSON and YAML are printed on terminals, too.
#[test]
fn json_and_yaml_contain_no_terminal_controls() {
    let input = DEPLOYMENT.to_owned()
        + "status:\n  conditions:\n  - {type: A, status: \"True\", reason: B, message: \"\\e[31m \\x9b2J \\u202e\"}\n";
    for output in ["json", "yaml"] {
        let out = answered(&["plan", "-f", "-", "--now", NOW, "-o", output], &input);
        assert!(out.contains("\\u202e"), "{out}");
        assert!(!out.contains(['\u{1b}', '\u{9b}', '\u{202e}']), "{out}");
    }
}

#[test]
fn strings_remain_strings_in_yaml() {
    let texts = [
        "yes",
        "No",
        "~",
        "null",
        "5",
        "0644",
        "1e3",
        "",
        " a",
        "a ",
        "a: b",
        "- a",
        "#",
        "2026-11-20",
        "\u{85}\u{2028}\u{7f}ü\u{202e}\u{e0041}",
        "a\nb",
        "*a",
        "'",
        "\"",
        "\\",
    ];
    for text in texts {
        let quoted = quoted(text);
        let input = DEPLOYMENT.to_owned()
            + &format!(
                "status:\n  conditions:\n  - {{type: A, status: \"True\", reason: {quoted}, message: {quoted}}}\n"
            );
        let args = |output| ["plan", "-f", "-", "--now", NOW, "-o", output];
        let json: Value = serde_json::from_str(&answered(&args("json"), &input)).unwrap();
        let yaml = answered(&args("yaml"), &input);
        assert_eq!(super::input::from_yaml(&yaml), json, "{yaml}");
        assert_eq!(
            answered(&args("json"), &input),
            answered(&plan_args(&[]), &input)
        );
    }
}

#[test]
fn help_succeeds() {
    let out = answered(&["--help"], "");
    for word in [
        "plan ",
        "status ",
        "wait ",
        "history ",
        "undo ",
        "serve ",
        "completions ",
        "kubectl get deploy,rs,pods",
        "Exit codes:",
    ] {
        assert!(out.contains(word), "{word}: {out}");
    }
    let asking = ["plan", "status", "wait", "history", "undo"];
    for verb in asking.into_iter().chain(["serve", "completions"]) {
        for help in ["--help", "-h"] {
            let out = answered(&[verb, help], "");
            let is_asking = asking.contains(&verb);
            assert_eq!(out.contains("Exit codes: 0 "), is_asking, "{verb}");
            for line in out.lines() {
                assert!(line.chars().count() <= 100, "{verb}: {line}");
            }
        }
    }
    assert_eq!(
        answered(&["--version"], ""),
        concat!("rollplan ", env!("CARGO_PKG_VERSION"), "\n")
    );
}

#[test]
fn completions_cover_all_shells() {
    for (shell, mark) in [
        ("bash", "complete -F _rollplan"),
        ("zsh", "#compdef rollplan"),
        ("fish", "complete -c rollplan"),
        ("powershell", "Register-ArgumentCompleter"),
        ("elvish", "edit:completion:arg-completer[rollplan]"),
    ] {
        let out = answered(&["completions", shell], "");
        assert!(out.contains(mark), "{shell}: {out}");
        assert!(out.contains("pods-complete"), "{shell}: {out}");
    }
}

#[test]
fn closed_output_is_not_a_failure() {
    let mut child = command(&["completions", "zsh"]).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn unwritable_output_is_a_failure() {
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let child = command(&["completions", "zsh"])
        .stdout(full)
        .spawn()
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        err,
        "error: cannot write the answer: No space left on device (os error 28)\n"
    );
    assert_eq!(output.status.code(), Some(70));
}

/// The first command of the README, as a pipeline runs it.
#[test]
fn command_in_the_readme_of_the_examples_works() {
    let readme = read("examples/README.md");
    let line = readme
        .lines()
        .find_map(|line| line.trim().strip_prefix("rollplan "))
        .unwrap();
    let args: Vec<&str> = line.split_whitespace().collect();
    let run = rollplan(&args, "");
    assert_eq!((run.exit, run.err.as_str()), (0, ""));
    assert!(
        run.out
            .starts_with("Deployment shop/web: 3 steps, in this order\n"),
        "{}",
        run.out
    );
}

#[test]
fn page_is_printed_or_the_error_says_where_it_is() {
    let out = command(&["page"]).output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    if cfg!(feature = "page") {
        assert!(text.starts_with("<!DOCTYPE html>"), "{text:.100}");
        assert!(out.status.success());
    } else {
        assert_eq!(out.status.code(), Some(2));
        assert_eq!(text, "");
        let error = String::from_utf8(out.stderr).unwrap();
        assert!(
            error.contains("docs/guides/page.md describes how to build it"),
            "{error}"
        );
    }
}
