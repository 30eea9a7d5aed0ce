//! Tests the checks of canaries: each deliberate bug must be detected by the check that is meant for it.

use std::collections::BTreeSet;

use rollplan_core::size::IntOrPercent::{Int, PaddedPercent, Percent};

use rollplan_sim::Tally;
use rollplan_sim::canary::Command::{Abort, Go, Promote};
use rollplan_sim::canary::Event::{
    Crash, DeletePod, Die, Interfere, Judge, Native, Patch, PatchUnanswered, Plan, Pod, Scale,
    Sync, Time, Watch,
};
use rollplan_sim::canary::Interference::{
    Apply, DeleteStable, DropState, Limits, Pause, PutBack, SetTemplate, Undo,
};
use rollplan_sim::canary::{CanaryFlaw, Event, Judgement, Script, Setup, generate, run};
use rollplan_sim::pods::Fault;
use rollplan_sim::script::Kind::{Deployments, Sets};

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
fn canary_that_does_not_end_is_detected() {
    detect(CanaryFlaw::NeverEnds, "canary-user");
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
fn step_that_does_not_wait_for_the_one_before_is_detected() {
    detect(CanaryFlaw::RaisesEarly, "canary-raise");
}

#[test]
fn step_that_permits_unavailable_pods_is_detected() {
    detect(CanaryFlaw::RaisesWithUnavailable, "canary-shrink");
}

#[test]
fn same_seed_gives_the_same_canary() {
    for seed in 0..20 {
        let (a, b) = (generate(seed), generate(seed));
        let (a, b) = (run(&a, CanaryFlaw::None), run(&b, CanaryFlaw::None));
        assert_eq!(format!("{:?}", a.tallies), format!("{:?}", b.tallies));
    }
}

/// Most scripts are shrunk from worlds that have violated a check.
const SETUP: Setup = Setup {
    replicas: 8,
    surge: Int(2),
    unavailable: Int(0),
    min_ready: 0,
    pods: 1,
    raises: [0; 4],
    is_percent: false,
    allows_all: false,
    bake: 0,
    has_gate: false,
    promotes: false,
    aborts_on_timeout: false,
    rolls_back: false,
    fault: Fault::None,
};

fn script(setup: Setup, events: &[Event]) -> Script {
    Script {
        setup,
        events: events.to_vec(),
    }
}

fn passes(setup: Setup, events: &[Event]) {
    let violation = run(&script(setup, events), CanaryFlaw::None).violation;
    assert_eq!(violation, None);
}

/// The script passes, and the exemption applies to it.
fn is_exempt(tally: Tally, setup: Setup, events: &[Event]) {
    let outcome = run(&script(setup, events), CanaryFlaw::None);
    assert_eq!(outcome.violation, None);
    assert!(outcome.tallies.get(tally) > 0, "{tally:?}");
}

/// Until then, the Deployment controller has not observed the canary.
#[test]
fn stable_set_that_is_created_again_during_a_promotion() {
    let events = [
        Plan(Go),
        Interfere(DeleteStable),
        Patch(0),
        Watch(Sets, 20),
        Plan(Promote),
        Native,
        Patch(0),
        Plan(Go),
        Patch(0),
    ];
    passes(SETUP, &events);
}

#[test]
fn set_of_an_earlier_template_that_is_created_during_a_hold() {
    let events = [
        Plan(Go),
        Patch(0),
        Interfere(SetTemplate(2)),
        Interfere(Limits(3, 1)),
        Plan(Go),
        Watch(Deployments, 1),
        Native,
        Patch(0),
        Plan(Go),
        Patch(0),
    ];
    passes(SETUP, &events);
}

/// The limits of the user are those of the hold.
#[test]
fn undo_to_a_state_from_before_the_abort() {
    let events = [
        Plan(Go),
        Patch(0),
        Watch(Deployments, 1),
        Native,
        Plan(Abort),
        Patch(0),
        Interfere(Limits(1, 2)),
        Watch(Deployments, 5),
        Native,
        Interfere(Undo),
        Interfere(SetTemplate(2)),
    ];
    passes(SETUP, &events);
}

#[test]
fn canary_that_was_scaled_to_zero_pods() {
    let setup = Setup {
        surge: Int(1),
        has_gate: true,
        promotes: true,
        ..SETUP
    };
    let events = [
        Plan(Go),
        Patch(0),
        Watch(Deployments, 1),
        Native,
        Watch(Deployments, 1),
        Sync(2),
        Pod(6),
        Pod(10),
        Scale(3),
        Watch(Deployments, 1),
        Native,
        Pod(3),
        Judge(Judgement::Pass),
        Plan(Go),
    ];
    passes(setup, &events);
}

#[test]
fn limits_of_a_hold_without_its_state_are_not_a_change() {
    let setup = Setup {
        surge: Int(4),
        ..SETUP
    };
    let events = [
        Plan(Go),
        Patch(0),
        Watch(Deployments, 1),
        Interfere(PutBack),
        Native,
        Interfere(DropState),
        Interfere(Limits(1, 2)),
    ];
    passes(setup, &events);
}

#[test]
fn label_without_a_state_and_its_copy_is_released() {
    let events = [
        Plan(Go),
        Patch(0),
        Interfere(Apply(0)),
        Watch(Deployments, 2),
        Native,
        Interfere(DropState),
        Interfere(DeleteStable),
    ];
    is_exempt(Tally::ExemptCanaryLabel, SETUP, &events);
}

/// `desired-replicas` of the ReplicaSet of the canary is never updated.
#[test]
fn abort_that_the_deployment_controller_never_completes_is_released() {
    let events = [
        Plan(Go),
        Patch(0),
        Watch(Deployments, 1),
        Native,
        Plan(Abort),
        Patch(0),
        Scale(1),
        Interfere(DeleteStable),
    ];
    is_exempt(Tally::ExemptCanaryStuck, SETUP, &events);
}

#[test]
fn ready_pods_that_are_kept_after_a_third_template() {
    let setup = Setup {
        replicas: 11,
        surge: Int(3),
        unavailable: Percent(30),
        min_ready: 3,
        pods: 2,
        bake: 3,
        ..SETUP
    };
    let events = [
        Plan(Go),
        Patch(0),
        DeletePod(9),
        Watch(Deployments, 1),
        Crash(5),
        Sync(9),
        Pod(0),
        Native,
        Pod(7),
        Pod(4),
        Pod(0),
        Interfere(SetTemplate(3)),
    ];
    is_exempt(Tally::ExemptCanaryReady, setup, &events);
}

#[test]
fn ready_canary_pods_that_are_kept_in_an_abort() {
    let setup = Setup {
        replicas: 7,
        unavailable: Int(2),
        min_ready: 3,
        raises: [1, 0, 0, 0],
        is_percent: true,
        bake: 1,
        aborts_on_timeout: true,
        rolls_back: true,
        ..SETUP
    };
    let events = [
        Plan(Go),
        Patch(7),
        Watch(Deployments, 1),
        Native,
        Sync(10),
        Pod(4),
        Pod(5),
        Pod(6),
        Native,
        Plan(Promote),
        Time(5),
        Plan(Go),
        Die(10),
        PatchUnanswered(2),
        Watch(Deployments, 5),
        Judge(Judgement::Fail),
        Plan(Go),
        Native,
        Crash(4),
        Crash(10),
        Native,
        Sync(10),
        Pod(9),
        Pod(4),
        Pod(6),
        Patch(2),
        Pod(8),
        Patch(2),
        DeletePod(9),
        Sync(11),
    ];
    is_exempt(Tally::ExemptCanaryReady, setup, &events);
}

/// A plan for the stable template that is not carried out leaves no trace. A verdict from before still counts.
#[test]
fn template_that_is_restored_between_two_patches() {
    let setup = Setup {
        replicas: 11,
        surge: Int(4),
        unavailable: Int(1),
        min_ready: 3,
        raises: [3, 0, 0, 0],
        bake: 2,
        rolls_back: true,
        ..SETUP
    };
    let events = [
        Plan(Go),
        Patch(3),
        Judge(Judgement::Pass),
        Time(1),
        Watch(Deployments, 1),
        Native,
        Interfere(Undo),
        Plan(Abort),
        Sync(4),
        Pod(3),
        Interfere(SetTemplate(1)),
        Plan(Go),
        Die(0),
        Patch(6),
        Pod(2),
        Watch(Deployments, 5),
        Pod(2),
        Native,
        Time(30),
        Native,
        Plan(Go),
    ];
    is_exempt(Tally::ExemptCanaryReturned, setup, &events);
}

/// `kubectl rollout undo` restores the state of the first step, and the template of the canary before.
#[test]
fn step_of_a_state_that_an_undo_restores_is_not_a_raise() {
    let setup = Setup {
        replicas: 7,
        surge: Percent(50),
        unavailable: PaddedPercent(31, 1),
        min_ready: 3,
        raises: [0, 0, 3, 0],
        bake: 3,
        promotes: true,
        aborts_on_timeout: true,
        ..SETUP
    };
    let events = [
        Plan(Go),
        Patch(8),
        Interfere(SetTemplate(3)),
        Watch(Deployments, 1),
        Plan(Go),
        Native,
        Patch(5),
        Watch(Deployments, 5),
        Native,
        Native,
        Sync(9),
        Pod(6),
        Pod(9),
        Pod(11),
        Time(30),
        Plan(Go),
        PatchUnanswered(7),
        Watch(Deployments, 5),
        Native,
        Interfere(Undo),
        Plan(Go),
    ];
    let outcome = run(&script(setup, &events), CanaryFlaw::None);
    assert_eq!(outcome.violation, None);
    assert!(outcome.tallies.get(Tally::CanaryRaised) > 0);
}

/// In the abort, the older canary has an available pod, and the newer one does not.
#[test]
fn older_canary_that_is_removed_first_after_a_third_template() {
    let setup = Setup {
        replicas: 6,
        surge: Int(3),
        unavailable: Percent(26),
        min_ready: 3,
        pods: 2,
        raises: [1, 0, 0, 0],
        is_percent: true,
        bake: 3,
        promotes: true,
        aborts_on_timeout: true,
        rolls_back: true,
        ..SETUP
    };
    let events = [
        Plan(Go),
        Patch(1),
        Interfere(SetTemplate(3)),
        DeletePod(9),
        Watch(Deployments, 1),
        Native,
        Pod(1),
        Time(1),
        Sync(3),
        Plan(Go),
        Watch(Sets, 20),
        Pod(1),
        Pod(2),
        Patch(7),
        Pod(3),
        Watch(Deployments, 1),
        Watch(Deployments, 1),
        Native,
        Judge(Judgement::Fail),
        Sync(1),
        Pod(4),
        Pod(11),
        Pod(4),
        Time(30),
        Plan(Go),
        Native,
        Crash(4),
        Patch(5),
    ];
    is_exempt(Tally::ExemptCanaryOlder, setup, &events);
}

#[test]
fn stable_pods_that_count_as_unavailable_after_an_undo() {
    let setup = Setup {
        replicas: 3,
        surge: PaddedPercent(24, 1),
        fault: Fault::ImagePull,
        ..SETUP
    };
    let events = [
        Plan(Go),
        Patch(0),
        Watch(Deployments, 1),
        Native,
        Watch(Deployments, 1),
        Interfere(Undo),
        Interfere(SetTemplate(2)),
        Watch(Deployments, 1),
        Native,
    ];
    is_exempt(Tally::ExemptCanaryUndone, setup, &events);
}

#[test]
fn rollout_of_another_client_in_an_abort() {
    let setup = Setup {
        replicas: 11,
        surge: PaddedPercent(17, 1),
        unavailable: Int(3),
        min_ready: 3,
        ..SETUP
    };
    let events = [
        Plan(Go),
        Patch(0),
        Plan(Abort),
        Watch(Deployments, 5),
        Patch(0),
        DeletePod(4),
        Native,
        Sync(4),
        Crash(8),
        Sync(1),
        Interfere(SetTemplate(3)),
    ];
    is_exempt(Tally::ExemptCanaryNative, setup, &events);
}

#[test]
fn looser_unavailability_is_detected_after_a_third_template() {
    let setup = Setup {
        unavailable: Int(1),
        min_ready: 3,
        ..SETUP
    };
    let events = [
        Plan(Go),
        Patch(0),
        Watch(Deployments, 1),
        Native,
        Interfere(SetTemplate(3)),
        Watch(Deployments, 1),
        Native,
        Time(5),
    ];
    let outcome = run(&script(setup, &events), CanaryFlaw::LooseUnavailable);
    let violation = outcome.violation.map(|it| it.check);
    assert_eq!(violation, Some("canary-floor"));
}

/// The state of the hold is restored, and with another template copied over that of the abort.
#[test]
fn limit_of_the_user_that_equals_that_of_an_earlier_hold() {
    let setup = Setup {
        replicas: 9,
        surge: PaddedPercent(27, 1),
        min_ready: 3,
        pods: 2,
        ..SETUP
    };
    let events = [
        Interfere(Limits(3, 3)),
        Watch(Deployments, 1),
        Native,
        Plan(Go),
        Patch(0),
        Plan(Abort),
        Watch(Deployments, 5),
        Patch(0),
        Native,
        Watch(Deployments, 5),
        Native,
        Interfere(Undo),
        Interfere(Apply(0)),
    ];
    passes(setup, &events);
}

#[test]
fn template_that_is_replaced_and_restored_between_two_plans() {
    let setup = Setup {
        replicas: 1,
        surge: Percent(9),
        unavailable: Int(2),
        bake: 1,
        has_gate: true,
        promotes: true,
        ..SETUP
    };
    let events = [
        Plan(Go),
        Patch(0),
        Watch(Deployments, 1),
        Native,
        Judge(Judgement::Pass),
        Interfere(Undo),
        Time(1),
        Sync(8),
        Watch(Deployments, 5),
        Pod(2),
        Pod(8),
        Pod(2),
        Native,
        Interfere(Undo),
        Time(5),
        Plan(Go),
    ];
    is_exempt(Tally::ExemptCanaryReturned, setup, &events);
}

#[test]
fn size_that_is_increased_before_another_is_decreased() {
    let setup = Setup {
        replicas: 10,
        surge: Percent(36),
        unavailable: Percent(47),
        pods: 4,
        ..SETUP
    };
    let events = [
        Plan(Go),
        Patch(0),
        Watch(Deployments, 5),
        Native,
        Watch(Deployments, 5),
        Native,
        Interfere(Limits(2, 3)),
        Watch(Deployments, 5),
        Native,
        Interfere(Pause),
        Watch(Deployments, 5),
        Native,
    ];
    is_exempt(Tally::ExemptCanaryScaledFirst, setup, &events);
}

#[test]
fn abort_of_a_paused_deployment() {
    let setup = Setup {
        replicas: 10,
        surge: Int(3),
        min_ready: 3,
        bake: 2,
        has_gate: true,
        fault: Fault::NeverReady,
        ..SETUP
    };
    let events = [
        Plan(Go),
        Patch(0),
        DeletePod(7),
        Interfere(Pause),
        Sync(3),
        Pod(3),
        Plan(Abort),
        Watch(Deployments, 1),
        Patch(0),
        Watch(Sets, 20),
        Native,
        Watch(Deployments, 1),
        Pod(1),
        Sync(0),
        Watch(Deployments, 1),
        Native,
        Sync(1),
        Pod(6),
        Time(30),
        Pod(4),
        Pod(5),
        Pod(5),
    ];
    is_exempt(Tally::ExemptCanaryScaled, setup, &events);
}

#[test]
fn pods_that_become_available_between_an_abort_and_its_patch() {
    let setup = Setup {
        replicas: 11,
        surge: Percent(19),
        unavailable: Percent(12),
        min_ready: 3,
        pods: 2,
        bake: 4,
        has_gate: true,
        ..SETUP
    };
    let events = [
        Plan(Go),
        Patch(0),
        Watch(Deployments, 1),
        DeletePod(6),
        Native,
        Sync(7),
        Sync(2),
        Pod(0),
        Pod(6),
        Pod(3),
        Pod(1),
        DeletePod(6),
        Pod(0),
        Pod(5),
        Sync(5),
        Pod(9),
        Pod(1),
        Pod(3),
        Plan(Abort),
        Time(5),
        DeletePod(3),
        Pod(10),
        Patch(0),
    ];
    is_exempt(Tally::ExemptCanaryLate, setup, &events);
}

#[test]
fn abort_of_a_promotion_that_is_scaled_twice_is_released() {
    let setup = Setup {
        replicas: 9,
        surge: Percent(3),
        unavailable: Int(3),
        min_ready: 3,
        bake: 2,
        has_gate: true,
        promotes: true,
        fault: Fault::CrashLoop,
        ..SETUP
    };
    let events = [
        Plan(Go),
        Patch(0),
        Plan(Promote),
        Patch(0),
        Watch(Deployments, 5),
        Native,
        Native,
        Native,
        Watch(Deployments, 5),
        Scale(3),
        Watch(Deployments, 1),
        Native,
        Watch(Sets, 20),
        Sync(5),
        Sync(11),
        Scale(2),
        Watch(Sets, 2),
        Native,
    ];
    is_exempt(Tally::ExemptCanaryStuck, setup, &events);
}
