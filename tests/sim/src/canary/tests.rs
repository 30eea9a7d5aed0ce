//! Tests the checks of canaries: each deliberate bug must be detected by the check that is meant for it.

use std::collections::BTreeSet;

use super::{CanaryFlaw, generate, run};

/// The number of worlds in which each bug must be detected.
const WORLDS: u64 = 1_500;

fn detect(flaw: CanaryFlaw, check: &str) {
    let mut others = BTreeSet::new();
    for seed in 0..WORLDS {
        let Some(violation) = run(&generate(seed), flaw).violation else {
            continue;
        };
        if violation.check == check {
            return;
        }
        others.insert(violation.check);
    }
    panic!("{flaw:?} is not detected by {check}, only by {others:?}");
}

#[test]
fn canaries_without_a_bug_pass_all_checks() {
    for seed in 0..300 {
        let violation = run(&generate(seed), CanaryFlaw::None).violation;
        assert_eq!(violation, None, "seed {seed}");
    }
}

#[test]
fn patches_without_preconditions_are_detected() {
    detect(CanaryFlaw::NoTests, "canary-stale");
}

#[test]
fn looser_surge_is_detected() {
    detect(CanaryFlaw::LooseSurge, "canary-ceiling");
}

#[test]
fn looser_unavailability_is_detected() {
    detect(CanaryFlaw::LooseUnavailable, "canary-floor");
}

#[test]
fn pods_that_count_as_available_are_detected() {
    detect(CanaryFlaw::NotHeld, "canary-atomic");
}

#[test]
fn fields_without_the_state_are_detected() {
    detect(CanaryFlaw::NoState, "canary-atomic");
}

#[test]
fn other_limits_at_the_end_are_detected() {
    detect(CanaryFlaw::OtherLimits, "canary-user");
}

#[test]
fn promotion_without_a_decision_is_detected() {
    detect(CanaryFlaw::PromotesEarly, "canary-promotion");
}

#[test]
fn verdicts_about_other_templates_are_detected() {
    detect(CanaryFlaw::MisusesVerdicts, "canary-promotion");
}

#[test]
fn same_seed_gives_the_same_canary() {
    for seed in 0..20 {
        let (a, b) = (generate(seed), generate(seed));
        let (a, b) = (run(&a, CanaryFlaw::None), run(&b, CanaryFlaw::None));
        assert_eq!(format!("{:?}", a.tallies), format!("{:?}", b.tallies));
    }
}
