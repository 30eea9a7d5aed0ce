//! Finds the commit of the build, which the service shows in its log and metrics.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rustc-env=ROLLPLAN_COMMIT={}", commit());
    if env::var_os("CARGO_FEATURE_PAGE").is_some() {
        println!("cargo::rustc-env=ROLLPLAN_PAGE_FILE={}", page_file());
    }
}

/// The page that the program contains: ROLLPLAN_PAGE_FILE, or what `bash tests/run build_page` writes.
fn page_file() -> String {
    const VARIABLE: &str = "ROLLPLAN_PAGE_FILE";
    println!("cargo::rerun-if-env-changed={VARIABLE}");
    let root = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let file = env::var(VARIABLE).unwrap_or_else(|_| format!("{root}/target/rollplan.html"));
    println!("cargo::rerun-if-changed={file}");
    assert!(
        Path::new(&file).exists(),
        "{file} is missing; run: bash tests/run build_page"
    );
    file
}

/// The commit, or ROLLPLAN_COMMIT for builds without a repository, for example in a container.
fn commit() -> String {
    const VARIABLE: &str = "ROLLPLAN_COMMIT";
    println!("cargo::rerun-if-env-changed={VARIABLE}");
    let given = env::var(VARIABLE).unwrap_or_default();
    let commit = if given.is_empty() {
        git(&["rev-parse", "HEAD"])
    } else {
        Some(given)
    };
    // The log changes with every commit and checkout, also in a linked worktree. Only release builds depend on it: a
    // debug build would compile the whole crate again after each commit.
    if env::var("PROFILE").is_ok_and(|it| it == "release")
        && let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"])
        && Path::new(&log).exists()
    {
        println!("cargo::rerun-if-changed={log}");
    }
    let is_commit = |it: &String| it.len() >= 7 && it.bytes().all(|byte| byte.is_ascii_hexdigit());
    commit
        .filter(is_commit)
        .unwrap_or_else(|| "unknown".to_owned())
}

/// The output of git, unless the source is a copy inside another repository.
fn git(args: &[&str]) -> Option<String> {
    if !Path::new(".git").exists() {
        return None;
    }
    let output = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
