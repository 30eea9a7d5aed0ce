//! Tests the checks: each deliberate bug must be detected by the check that is meant for it.

use std::collections::BTreeSet;

use rollplan_sim::script::Script;
use rollplan_sim::{Flaw, Small, Tally, explore, generate, run, run_many, shrink, small_worlds};

/// The number of worlds in which each bug must be detected.
const WORLDS: u64 = 6_000;

/// The first world in which one of these checks detects a bug.
fn detect(flaw: Flaw, checks: &[&str]) -> Script {
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
    panic!("{flaw:?} is not detected by {checks:?}, only by {others:?}");
}

#[test]
fn worlds_without_a_bug_pass_all_checks() {
    let summary = run_many(0, 300, 1, Flaw::None);
    assert!(summary.failures.is_empty(), "{:?}", summary.failures);
}

#[test]
fn forgotten_versions_are_detected() {
    detect(Flaw::ForgetsVersions, &["total", "available", "settled"]);
}

#[test]
fn trust_in_the_cache_is_detected() {
    detect(Flaw::TrustsCache, &["total", "available"]);
}

#[test]
fn reads_from_the_cache_are_detected() {
    detect(Flaw::ReadsFromCache, &["total", "available"]);
}

#[test]
fn state_of_an_earlier_lease_is_detected() {
    detect(Flaw::KeepsStateOfEarlierLease, &["total", "available"]);
}

#[test]
fn cached_objects_instead_of_answers_are_detected() {
    detect(Flaw::ReturnsCachedObjects, &["total", "available"]);
}

#[test]
fn continuing_after_failures_is_detected() {
    detect(Flaw::IgnoresFailures, &["total", "available"]);
}

#[test]
fn unreported_failures_are_detected() {
    detect(
        Flaw::ReportsNoFailures,
        &["report", "endless", "status", "rest"],
    );
}

#[test]
fn missing_timer_is_detected() {
    detect(Flaw::NoTimer, &["deadline", "rest"]);
}

#[test]
fn missing_pods_are_detected() {
    detect(Flaw::NoPods, &["recreate"]);
    detect(Flaw::NoPods, &["report"]);
}

#[test]
fn missing_sets_are_detected() {
    detect(Flaw::PartialSets, &["total", "available"]);
}

#[test]
fn missing_preconditions_are_detected() {
    detect(Flaw::NoPreconditions, &["lost-update"]);
}

#[test]
fn adoption_without_an_owner_check_is_detected() {
    detect(Flaw::NoOwnerCheck, &["adoption"]);
}

#[test]
fn missing_clamp_in_the_look_ahead_is_detected() {
    detect(Flaw::NoClamp, &["available"]);
}

#[test]
fn scaling_up_before_scaling_down_is_detected() {
    detect(Flaw::ScalesUpFirst, &["total"]);
}

#[test]
fn wrong_prediction_of_an_action_is_detected() {
    detect(Flaw::ApplyDropsAnnotations, &["apply"]);
}

/// Random worlds rarely show it before another check does. The pods of the second rollout fail, its adapter learns of no answer,
/// and someone removes the pods.
#[test]
fn conditions_of_an_earlier_rollout_are_detected() {
    let script: Script =
        "setup replicas=1 strategy=rolling/1/0 min-ready=0 history=10 deadline=600 custom\n\
                  calm\nbreak 2 image-pull\ntemplate 2\nanswer timeout-after\nresize 0 0"
            .parse()
            .unwrap();
    assert_eq!(run(&script, Flaw::None).violation, None);
    let violation = run(&script, Flaw::KeepsEarlierCondition).violation;
    assert_eq!(violation.map(|it| it.check), Some("conditions"));
}

/// The native Deployment keeps the condition of the first rollout, which has the same ReplicaSet as the last one.
#[test]
fn outdated_condition_of_a_native_deployment_is_recognized_after_a_rollback() {
    for script in [
        // The condition of the second rollout is lost, the template changes back, and a pod is deleted before the third rollout is
        // reported as complete.
        "setup replicas=3 strategy=rolling/1/0 min-ready=0 history=10 deadline=600 custom\n\
         calm\nanswer timeout-after\nquota-pods 2\ntemplate 1\nwatch deployments 1\nadapter\n\
         undo 1\nwatch deployments 1\nadapter\nanswer forbidden\ndelete-pod 0\ntime 1\n\
         adapter\nadapter",
        // The second rollout has no ReplicaSet, because its creation is rejected.
        "setup replicas=1 strategy=rolling/1/0 min-ready=0 history=10 deadline=600 custom\n\
         calm\nanswer too-many\ntemplate 1\ndie\nadapter\nadapter\nadapter\nadapter\n\
         disown 0\nevict 0\nbreak 0 image-pull\ntemplate 0",
        // The adapter is replaced by one whose cache does not show the second rollout.
        "setup replicas=2 strategy=rolling/1/50% min-ready=0 history=10 deadline=600 custom\n\
         calm\ntemplate 1\ndie\nadapter\nadapter\ntemplate 0\nadapter\nadapter\ncap 1 0\n\
         adapter\ndie\nwatch deployments 1\nadapter",
    ] {
        let script: Script = script.parse().unwrap();
        let outcome = run(&script, Flaw::None);
        assert_eq!(outcome.violation, None, "{script}");
        assert_eq!(
            outcome.tallies.get(Tally::ExemptNativeOutdated),
            1,
            "{script}"
        );
    }
}

/// As in Kubernetes, a ReplicaSet that a plan releases still is the new one in this plan, and leaves no room for old pods.
#[test]
fn caps_keep_no_old_pods_beside_a_released_replica_set() {
    let script: Script =
        "setup replicas=1 strategy=rolling/0/2 min-ready=0 history=10 deadline=600 orphan\n\
                  calm\nresize 1 3\nrelabel 0\ncap none 1"
            .parse()
            .unwrap();
    assert_eq!(run(&script, Flaw::None).violation, None);
}

#[test]
fn verdicts_about_passing_states_are_detected() {
    detect(Flaw::JudgesUnready, &["verdict"]);
}

/// Rollouts that complete although they are paused or their pods fail: the adapter still scales them.
#[test]
fn rollout_that_is_still_to_be_scaled_is_not_certainly_stuck() {
    for script in [
        // The status was rejected before the pause.
        "setup replicas=1 strategy=rolling/1/0 min-ready=0 history=10 deadline=600 orphan\n\
         adapter\nadapter\nanswer timeout-after\nadapter\ntime 1\nadapter\nadapter\nsync 0\nscale 2\n\
         adapter\npause\nsync 0\nanswer too-many\nadapter",
        // Somebody has resized the ReplicaSets of a paused Deployment.
        "setup replicas=4 strategy=rolling/1/0 min-ready=0 history=10 deadline=600 orphan\n\
         calm\nresize 0 3\nresize 1 1\npause\nsync 0\nsync 0\nsync 1\nwatch deployments 1\nadapter\nadapter",
        // The status was rejected before the failing pod was no longer desired.
        "setup replicas=0 strategy=rolling/1/0 min-ready=0 history=10 deadline=600\n\
         scale 1\nwatch deployments 1\nbreak 0 image-pull\nscale 0\nadapter\nadapter\nsync 0\npod 0\n\
         answer forbidden\nadapter",
        // The next plan removes the failing pod.
        "setup replicas=1 strategy=rolling/1/0 min-ready=0 history=10 deadline=600\n\
         break 0 image-pull\ncalm\nscale 0",
        // A timeout interrupts the plan that removes the new pod of a paused Deployment, and the next one keeps it.
        "setup replicas=4 strategy=rolling/1/0 min-ready=0 history=10 deadline=600\n\
         adapter\nadapter\ntemplate 1\nadapter\npause\nwatch deployments 1\nadapter\nadapter\nadapter\n\
         answer timeout-after\nsync 1\nscale 1\nsync 0",
    ] {
        let script: Script = script.parse().unwrap();
        assert_eq!(run(&script, Flaw::None).violation, None, "{script}");
    }
}

#[test]
fn verdicts_that_are_not_sent_back_are_detected() {
    detect(Flaw::ForgetsVerdict, &["verdict"]);
}

#[test]
fn scripts_round_trip_through_their_text() {
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
fn same_seed_gives_the_same_result() {
    for seed in 0..50 {
        let script = generate(seed);
        let (a, b) = (run(&script, Flaw::None), run(&script, Flaw::None));
        assert_eq!(format!("{:?}", a.tallies), format!("{:?}", b.tallies));
    }
}

#[test]
fn failing_script_shrinks_to_a_few_lines() {
    let script = detect(Flaw::ScalesUpFirst, &["total"]);
    let short = shrink(&script, Flaw::ScalesUpFirst);
    assert_eq!(
        run(&short, Flaw::ScalesUpFirst)
            .violation
            .map(|found| found.check),
        Some("total")
    );
    assert!(short.events.len() <= 16, "{short}");
    assert!(short.events.len() < script.events.len());
}

#[test]
fn exploring_detects_a_bug() {
    let (_, small) = small_worlds()[0];
    let flawed = Small {
        flaw: Flaw::ForgetsVersions,
        ..small
    };
    let broken = explore(flawed).broken;
    assert!(broken.is_some(), "forgotten versions are not detected");
}
