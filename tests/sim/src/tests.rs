//! The checks themselves are checked: whatever is done wrong on purpose must be caught, by the check that is there
//! for it.

use std::collections::BTreeSet;

use crate::explore::{Small, explore, small_worlds};
use crate::script::Script;
use crate::{Flaw, generate, run, run_many, shrink};

/// Worlds in which each flaw must show.
const WORLDS: u64 = 6_000;

/// The first world in which a flaw shows, and the check that it shows by.
fn caught(flaw: Flaw, checks: &[&str]) -> Script {
    let mut others = BTreeSet::new();
    for seed in 0..WORLDS {
        let script = generate(seed);
        let Some(violation) = run(&script, flaw).violation else {
            continue;
        };
        if checks.contains(&violation.check) {
            return script;
        }
        others.insert(violation.check);
    }
    panic!("{flaw:?} is not caught by {checks:?}, only by {others:?}");
}

#[test]
fn nothing_done_wrong_is_nothing_caught() {
    let summary = run_many(0, 300, 1, Flaw::None);
    assert!(summary.failures.is_empty(), "{:?}", summary.failures);
}

#[test]
fn an_adapter_without_overlay_is_caught() {
    caught(Flaw::NoOverlay, &["total", "available", "settled"]);
}

#[test]
fn an_adapter_that_starts_from_a_stale_list_is_caught() {
    caught(Flaw::StaleStart, &["total", "available"]);
}

#[test]
fn an_adapter_that_does_not_look_after_a_timeout_is_caught() {
    caught(Flaw::NoLookAfterTimeout, &["total", "available"]);
}

#[test]
fn an_adapter_that_goes_on_after_failures_is_caught() {
    caught(Flaw::GoesOn, &["total", "available"]);
}

#[test]
fn an_adapter_that_forgets_failures_is_caught() {
    caught(
        Flaw::ForgetsFailures,
        &["report", "endless", "status", "rest"],
    );
}

#[test]
fn an_adapter_without_timer_is_caught() {
    caught(Flaw::NoTimer, &["deadline", "rest"]);
}

#[test]
fn an_adapter_that_hides_pods_is_caught() {
    caught(Flaw::NoPods, &["recreate"]);
    caught(Flaw::NoPods, &["report"]);
}

#[test]
fn calls_without_preconditions_are_caught() {
    caught(Flaw::NoPreconditions, &["lost-update"]);
}

#[test]
fn adopting_without_a_check_is_caught() {
    caught(Flaw::NoOwnerCheck, &["adoption"]);
}

#[test]
fn a_look_ahead_without_the_clamp_is_caught() {
    caught(Flaw::NoClamp, &["available"]);
}

#[test]
fn growing_first_is_caught() {
    caught(Flaw::UpsFirst, &["total"]);
}

#[test]
fn an_action_told_wrong_is_caught() {
    caught(Flaw::ForgetfulApply, &["apply"]);
}

#[test]
fn scripts_come_back_from_their_text() {
    for seed in 0..500 {
        let script = generate(seed);
        assert_eq!(script.to_string().parse(), Ok(script));
    }
    for (text, error) in [
        ("calm\nsing", "line 2: sing: unknown event"),
        (
            "setup colour=red",
            "line 1: setup colour=red: unknown word \"colour=red\"",
        ),
        (
            "watch sets x",
            "line 1: watch sets x: \"x\": invalid digit found in string",
        ),
        (
            "strategy slow",
            "line 1: strategy slow: \"slow\": recreate or rolling/SURGE/UNAVAILABLE",
        ),
    ] {
        assert_eq!(text.parse::<Script>(), Err(error.to_owned()));
    }
}

#[test]
fn a_seed_replays_to_the_same_end() {
    for seed in 0..50 {
        let script = generate(seed);
        let (a, b) = (run(&script, Flaw::None), run(&script, Flaw::None));
        assert_eq!(format!("{:?}", a.tallies), format!("{:?}", b.tallies));
    }
}

#[test]
fn a_failing_script_shrinks_to_a_few_lines() {
    let script = caught(Flaw::UpsFirst, &["total"]);
    let short = shrink(&script, Flaw::UpsFirst);
    assert_eq!(
        run(&short, Flaw::UpsFirst)
            .violation
            .map(|found| found.check),
        Some("total")
    );
    assert!(short.events.len() <= 16, "{short}");
    assert!(short.events.len() < script.events.len());
}

#[test]
fn a_flaw_is_found_by_exploring() {
    let (_, small) = small_worlds()[0];
    let flawed = Small {
        flaw: Flaw::NoOverlay,
        ..small
    };
    let broken = explore(flawed).broken;
    assert!(broken.is_some(), "an adapter without overlay passes");
}
