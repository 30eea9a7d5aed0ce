//! Runs each target with its inputs in `corpus` and `regressions`, and with changed copies of them, without a fuzzer:
//! `ROLLPLAN_SEED=7 cargo test -p rollplan-fuzz` makes other changes.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot read its inputs may panic"
)]

use std::env;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::process::Command;

use rollplan_fuzz::targets::{TARGETS, Target};
use rollplan_world::random::Random;

/// The number of changed inputs of each target.
const CHANGED: usize = 1_500;
/// The maximum number of changes to an input.
const CHANGES_MAX: usize = 4;
/// The maximum size of a changed input, as for the fuzzer.
const BYTES_MAX: usize = 64 << 10;

/// The number of lines that a failure prints. Those of the command line precede them.
const LINES_MAX: usize = 30;

/// Names the target in a process that runs only one.
const TARGET: &str = "ROLLPLAN_FUZZ_TARGET";

#[test]
fn no_input_breaks_a_target() {
    if let Ok(name) = env::var(TARGET) {
        let target = TARGETS.iter().find(|target| target.0 == name);
        return check(&name, target.unwrap().1);
    }
    // In processes of their own: the command line prints its answers, and a test cannot capture them.
    let children = TARGETS.map(|(name, _)| {
        let mut test = Command::new(env::current_exe().unwrap());
        test.args(["--exact", "no_input_breaks_a_target", "--nocapture"]);
        test.env(TARGET, name).env("RUST_BACKTRACE", "0");
        (name, test.output().unwrap())
    });
    for (name, child) in children {
        let text = String::from_utf8_lossy(&child.stderr);
        let lines: Vec<&str> = text.lines().collect();
        let end = lines[lines.len().saturating_sub(LINES_MAX)..].join("\n");
        assert!(child.status.success(), "{name}:\n{end}");
    }
}

/// Runs a target with all inputs.
fn check(name: &str, target: Target) {
    let mut random = Random::from_env();
    let inputs = inputs(name);
    assert!(!inputs.is_empty(), "{name} has no corpus");
    for input in &inputs {
        run(name, target, input, &random);
    }
    for _ in 0..CHANGED {
        let input = changed(&inputs, &mut random);
        run(name, target, &input, &random);
    }
}

fn inputs(target: &str) -> Vec<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for directory in ["corpus", "regressions"] {
        let entries = fs::read_dir(root.join(directory).join(target));
        files.extend(entries.into_iter().flatten().map(|it| it.unwrap().path()));
    }
    files.sort();
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

/// Runs a target. If it panics, the input is kept.
fn run(name: &str, target: Target, input: &[u8], random: &Random) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| target(input))) {
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::write(&file, input).unwrap();
        let file = file.display();
        eprintln!("{random}: keep {file} in tests/fuzz/regressions/{name}");
        resume_unwind(panic);
    }
}

/// One of the inputs, with a few changes.
fn changed(inputs: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut input = random.pick(inputs).clone();
    for _ in 0..=random.below(CHANGES_MAX) {
        let at = random.below(input.len() + 1);
        let end = input.len().min(at + 1 + random.below(16));
        match random.below(5) {
            0 => drop(input.drain(at..end)),
            1 => input.truncate(at),
            2 => input[at..end].fill_with(|| random.number().to_le_bytes()[0]),
            // A few bytes again, or those of another input.
            3 => drop(input.splice(at..at, input[at..end].to_vec())),
            _ => {
                let other = random.pick(inputs);
                let from = random.below(other.len() + 1);
                let to = other.len().min(from + random.below(256));
                drop(input.splice(at..at, other[from..to].iter().copied()));
            }
        }
    }
    input.truncate(BYTES_MAX);
    input
}
