//! What other clients do in the middle of a canary, and what the next plan does.

use rollplan_canary::{
    ANNOTATION, Command, HELD_DEADLINE, HELD_MIN_READY, LABEL, Phase, Plan, Policy, ReasonKind,
    RefusalCause,
};
use rollplan_core::size::IntOrPercent;
use rollplan_core::snapshot::{Deployment, Strategy};

use crate::pods::Fault;
use crate::world::{NEW, World, abort, promote, template};

fn policy() -> Policy {
    Policy {
        steps: vec![IntOrPercent::Int(2).into()],
        ..Policy::default()
    }
}

/// A hold of 2 of 10 pods.
fn hold() -> World {
    let mut world = World::new(10, IntOrPercent::Percent(30), IntOrPercent::Int(0), 0);
    let start = world.start(NEW);
    world.steer(&policy(), Some(start));
    world.settle();
    world
}

fn reasons(plan: &Plan) -> Vec<&'static str> {
    plan.report
        .reasons
        .iter()
        .map(|it| it.kind.as_str())
        .collect()
}

/// `kubectl rollout undo` to the template of an image: it replaces all annotations, too.
fn undo(world: &mut World, image: &str) {
    let annotations = world.set(image).unwrap().metadata.annotations.clone();
    world.edit(|it| {
        it.spec.template = template(image);
        it.metadata.annotations = annotations;
    });
}

/// One sync of the Deployment controller, which has not observed the Deployment since `seen`.
fn sync_late(world: &mut World, seen: Deployment) {
    let current = std::mem::replace(&mut world.stored.deployment, seen);
    world.sync_deployment();
    world.stored.deployment = current;
}

fn delete_stable_set(world: &mut World) {
    let uid = world.set("v1").unwrap().metadata.uid.clone();
    world
        .stored
        .replica_sets
        .retain(|set| set.metadata.uid != uid);
    world.pods.retain(|pod| *pod.set_uid != *uid);
}

fn set_limits(deployment: &mut Deployment, surge: IntOrPercent, unavailable: IntOrPercent) {
    deployment.spec.strategy = Strategy::RollingUpdate {
        max_surge: surge,
        max_unavailable: unavailable,
    };
}

/// Plans until nothing is left to do.
fn end(world: &mut World) -> Phase {
    for _ in 0..4 {
        world.settle();
        world.steer(&policy(), None);
    }
    world.settle();
    assert_eq!(world.violations, [""; 0]);
    world.plan(&policy(), None).unwrap().report.phase
}

#[test]
fn undo_at_a_hold_ends_the_canary() {
    let mut world = hold();
    undo(&mut world, "v1");
    assert!(
        !world
            .stored
            .deployment
            .metadata
            .annotations
            .contains_key(ANNOTATION)
    );
    world.settle();
    // The stable pods no longer count as available, so nothing is removed.
    assert_eq!((world.size_of("v1"), world.size_of(NEW)), (10, 2));
    assert!(world.is_held());
    let plan = world.steer(&policy(), None);
    assert_eq!(plan.report.phase, Phase::Aborting);
    assert_eq!(reasons(&plan), ["RECOVERED", "UNDONE"]);
    assert_eq!(end(&mut world), Phase::Rest);
    assert!(world.has_user_fields());
    assert_eq!((world.size_of("v1"), world.size_of(NEW)), (10, 0));
}

#[test]
fn fields_that_were_put_back_promote() {
    let mut world = hold();
    world.edit(|it| {
        it.spec.min_ready_seconds = 0;
        it.spec.progress_deadline_seconds = 600;
    });
    let plan = world.steer(&policy(), None);
    assert_eq!(plan.report.phase, Phase::Promoting);
    assert_eq!(reasons(&plan), ["RESUMED"]);
    assert!(world.has_user_fields());
    assert_eq!(end(&mut world), Phase::Rest);
    assert_eq!(world.image(), NEW);
}

/// One of the new limits is equal to that of the hold.
#[test]
fn fields_that_were_all_replaced_are_those_of_the_user() {
    let zero = IntOrPercent::Int(0);
    let two = IntOrPercent::Int(2);
    for (surge, unavailable) in [
        (IntOrPercent::Percent(50), zero),
        (two, IntOrPercent::Int(3)),
    ] {
        let mut world = World::new(10, IntOrPercent::Int(3), IntOrPercent::Int(1), 0);
        let start = world.start(NEW);
        world.steer(&policy(), Some(start));
        world.settle();
        let held = &world.stored.deployment.spec.strategy;
        let expected = Strategy::RollingUpdate {
            max_surge: two,
            max_unavailable: zero,
        };
        assert_eq!(*held, expected);
        world.edit(|it| {
            it.spec.min_ready_seconds = 0;
            it.spec.progress_deadline_seconds = 600;
            set_limits(it, surge, unavailable);
        });
        (world.surge, world.unavailable) = (surge, unavailable);
        let plan = world.steer(&policy(), None);
        assert_eq!(plan.report.phase, Phase::Promoting);
        assert!(world.has_user_fields());
    }
}

#[test]
fn limits_that_were_changed_are_those_of_the_user_and_tightened_again() {
    let mut world = hold();
    world.edit(|it| set_limits(it, IntOrPercent::Percent(50), IntOrPercent::Int(1)));
    let plan = world.steer(&policy(), None);
    assert_eq!((plan.report.phase, plan.report.pods_max), (Phase::Hold, 15));
    assert_eq!(reasons(&plan), ["LIMITS_CHANGED"]);
    let held = Strategy::RollingUpdate {
        max_surge: IntOrPercent::Percent(20),
        max_unavailable: IntOrPercent::Int(0),
    };
    assert_eq!(world.stored.deployment.spec.strategy, held);
    (world.surge, world.unavailable) = (IntOrPercent::Percent(50), IntOrPercent::Int(1));
    world.settle();
    world.steer(&policy(), Some(abort()));
    assert_eq!(end(&mut world), Phase::Aborted);
    assert!(world.has_user_fields());
}

#[test]
fn limits_without_surge_end_the_canary() {
    let mut world = hold();
    world.edit(|it| set_limits(it, IntOrPercent::Int(0), IntOrPercent::Int(1)));
    (world.surge, world.unavailable) = (IntOrPercent::Int(0), IntOrPercent::Int(1));
    let plan = world.steer(&policy(), None);
    assert_eq!(plan.report.phase, Phase::Aborting);
    assert!(world.has_user_fields());
}

#[test]
fn removed_state_is_restored_from_the_new_replica_set() {
    let mut world = hold();
    let text = world.stored.deployment.metadata.annotations[ANNOTATION].clone();
    world.edit(|it| _ = it.metadata.annotations.remove(ANNOTATION));
    let plan = world.steer(&policy(), None);
    assert_eq!(plan.report.phase, Phase::Hold);
    assert_eq!(reasons(&plan), ["RECOVERED"]);
    let restored = &world.stored.deployment.metadata.annotations[ANNOTATION];
    let (restored, text): (serde_json::Value, serde_json::Value) = (
        serde_json::from_str(restored).unwrap(),
        serde_json::from_str(&text).unwrap(),
    );
    assert_eq!(restored["user"], text["user"]);
    world.steer(&policy(), Some(promote()));
    assert!(world.has_user_fields());
}

#[test]
fn removed_state_of_a_promotion_does_not_leave_the_label() {
    let mut world = hold();
    world.steer(&policy(), Some(promote()));
    world.edit(|it| _ = it.metadata.annotations.remove(ANNOTATION));
    // The copy is from before the promotion.
    let plan = world.steer(&policy(), None);
    assert_eq!(plan.report.phase, Phase::Promoting);
    assert_eq!(reasons(&plan), ["RECOVERED", "RESUMED"]);
    world.settle_controllers();
    world.edit(|it| _ = it.metadata.annotations.remove(ANNOTATION));
    let plan = world.plan(&policy(), None).unwrap();
    assert_eq!(plan.report.phase, Phase::Promoting);
    assert_eq!(reasons(&plan), ["RECOVERED"]);
    assert_eq!(end(&mut world), Phase::Rest);
    assert_eq!(world.image(), NEW);
    assert!(!world.stored.deployment.metadata.labels.contains_key(LABEL));
}

#[test]
fn fields_of_a_hold_without_any_state_are_refused() {
    let mut world = hold();
    world.edit(|it| _ = it.metadata.annotations.remove(ANNOTATION));
    for set in &mut world.stored.replica_sets {
        set.metadata.annotations.remove(ANNOTATION);
    }
    let refuses = |world: &World| {
        let refusal = world.plan(&policy(), None).unwrap_err();
        let text = refusal.to_string();
        assert!(text.contains("no ReplicaSet has a copy"), "{text}");
    };
    refuses(&world);
    // `kubectl replace` restores only the fields of the manifest.
    world.edit(|it| it.spec.min_ready_seconds = 3);
    refuses(&world);
    world.edit(|it| it.spec.progress_deadline_seconds = 600);
    assert_eq!(
        world.plan(&policy(), None).unwrap().report.phase,
        Phase::Rest
    );
}

#[test]
fn third_template_is_the_canary_from_then_on() {
    let mut world = hold();
    let before = world.plan(&policy(), None).unwrap().report;
    world.apply_image("v3");
    // The command was about the template before.
    let plan = world.steer(&policy(), Some(promote()));
    assert_eq!(plan.report.phase, Phase::Hold);
    assert_eq!(reasons(&plan), ["TEMPLATE_REPLACED"]);
    assert_ne!(plan.report.template_digest, before.template_digest);
    assert!(plan.report.since > before.since);
    world.settle();
    let sizes = ["v1", NEW, "v3"].map(|image| world.size_of(image));
    assert_eq!(sizes, [10, 0, 2]);
    world.steer(&policy(), Some(abort()));
    assert_eq!(end(&mut world), Phase::Aborted);
    assert_eq!(
        ["v1", NEW, "v3"].map(|image| world.size_of(image)),
        [10, 0, 0]
    );
    assert!(world.has_user_fields());
}

#[test]
fn rejected_template_at_a_hold_is_aborted() {
    let mut world = hold();
    world.steer(&policy(), Some(abort()));
    assert_eq!(end(&mut world), Phase::Aborted);
    let start = world.start("v3");
    world.steer(&policy(), Some(start));
    world.settle();
    world.apply_image(NEW);
    let plan = world.steer(&policy(), None);
    assert_eq!(plan.report.phase, Phase::Aborting);
    assert_eq!(reasons(&plan), ["REJECTED_TEMPLATE"]);
}

#[test]
fn scaling_at_a_hold_keeps_the_stable_pods() {
    let mut world = hold();
    world.scale(20);
    world.settle();
    assert_eq!((world.size_of("v1"), world.size_of(NEW)), (20, 4));
    let report = world.plan(&policy(), None).unwrap().report;
    assert_eq!((report.pods_wanted, report.pods_available), (4, 4));
    world.scale(10);
    world.settle();
    assert_eq!((world.size_of("v1"), world.size_of(NEW)), (10, 2));
}

#[test]
fn scaling_to_zero_aborts() {
    let mut world = hold();
    world.scale(0);
    world.settle();
    let plan = world.steer(&policy(), None);
    assert_eq!(plan.report.phase, Phase::Aborting);
    assert_eq!(reasons(&plan), ["SCALED_TO_ZERO"]);
    assert_eq!(end(&mut world), Phase::Rest);
    world.scale(3);
    world.settle();
    assert_eq!((world.size_of("v1"), world.size_of(NEW)), (3, 0));
}

#[test]
fn nothing_is_decided_while_paused() {
    let mut world = hold();
    world.edit(|it| it.spec.paused = true);
    let promotes = Policy {
        promotes: true,
        ..policy()
    };
    let plan = world.plan(&promotes, None).unwrap();
    assert_eq!((plan.step, plan.report.phase), (None, Phase::Hold));
    assert_eq!(plan.report.reasons.last().unwrap().kind.as_str(), "PAUSED");
    world.edit(|it| it.spec.paused = false);
    let plan = world.plan(&promotes, None).unwrap();
    assert_eq!(plan.report.phase, Phase::Promoting);
}

#[test]
fn deleted_stable_replica_set_can_only_be_promoted() {
    let mut world = hold();
    delete_stable_set(&mut world);
    let refusal = world.plan(&policy(), Some(abort())).unwrap_err();
    assert!(
        refusal
            .to_string()
            .contains("`rollplan canary promote --force`"),
        "{refusal}"
    );
    world.steer(&policy(), Some(promote()));
    assert_eq!(end(&mut world), Phase::Rest);
    assert_eq!(world.size_of(NEW), 10);
}

#[test]
fn state_of_an_earlier_canary_is_removed() {
    let mut world = hold();
    world.steer(&policy(), Some(promote()));
    assert_eq!(end(&mut world), Phase::Rest);
    let start = world.start("v3");
    world.steer(&policy(), Some(start));
    world.settle();
    world.steer(&policy(), Some(promote()));
    assert_eq!(end(&mut world), Phase::Rest);
    // Its ReplicaSet still has the copy of the state.
    undo(&mut world, NEW);
    assert!(
        world
            .stored
            .deployment
            .metadata
            .annotations
            .contains_key(ANNOTATION)
    );
    let plan = world.steer(&policy(), None);
    assert_eq!(
        (plan.report.phase, reasons(&plan)),
        (Phase::Rest, vec!["STALE_STATE"])
    );
    world.settle();
    assert!(world.has_user_fields());
    assert_eq!(world.size_of(NEW), 10);
}

/// The ReplicaSet of the first canary is created after the plan that replaces its template, and has a higher revision.
#[test]
fn late_replica_set_of_an_earlier_template_does_not_make_the_state_stale() {
    let mut world = World::new(10, IntOrPercent::Percent(30), IntOrPercent::Int(0), 0);
    let start = world.start(NEW);
    world.steer(&policy(), Some(start));
    let started = world.stored.deployment.clone();
    world.edit(|it| {
        it.spec.template = template("v3");
        set_limits(it, IntOrPercent::Percent(50), IntOrPercent::Int(1));
    });
    (world.surge, world.unavailable) = (IntOrPercent::Percent(50), IntOrPercent::Int(1));
    world.steer(&policy(), None);
    sync_late(&mut world, started);
    assert_eq!(world.size_of(NEW), 2);
    let plan = world.steer(&policy(), None);
    assert_eq!((plan.report.phase, plan.step), (Phase::Hold, None));
    world.settle();
    world.steer(&policy(), Some(promote()));
    assert!(world.has_user_fields());
    assert_eq!(end(&mut world), Phase::Rest);
    assert_eq!(world.size_of("v3"), 10);
}

/// The Deployment controller has not observed the canary yet, and creates the ReplicaSet again, with a higher revision than
/// that of any other.
#[test]
fn stable_replica_set_that_is_created_again_does_not_make_the_state_stale() {
    let mut world = World::new(10, IntOrPercent::Percent(30), IntOrPercent::Int(0), 0);
    let before = world.stored.deployment.clone();
    let start = world.start(NEW);
    world.steer(&policy(), Some(start));
    delete_stable_set(&mut world);
    world.steer(&policy(), Some(promote()));
    sync_late(&mut world, before);
    assert_eq!(world.size_of("v1"), 10);
    let plan = world.plan(&policy(), None).unwrap();
    assert_eq!((plan.report.phase, plan.step), (Phase::Promoting, None));
    assert_eq!(end(&mut world), Phase::Rest);
    assert_eq!(world.size_of(NEW), 10);
    assert!(world.stored.deployment.metadata.labels.is_empty());
}

/// The user changes the limits in an abort to those of the hold. The state of the hold would undo that.
#[test]
fn earlier_state_of_the_canary_gives_way_to_the_newest_copy() {
    let mut world = hold();
    world.steer(&policy(), Some(abort()));
    world.settle_controllers();
    world.edit(|it| set_limits(it, IntOrPercent::Percent(20), IntOrPercent::Int(1)));
    (world.surge, world.unavailable) = (IntOrPercent::Percent(20), IntOrPercent::Int(1));
    undo(&mut world, NEW);
    world.apply_image("v3");
    let plan = world.steer(&policy(), None);
    assert_eq!(
        (plan.report.phase, reasons(&plan)),
        (Phase::Aborted, vec!["STALE_STATE", "RECOVERED"])
    );
    assert!(world.has_user_fields());
    world.settle();
    assert_eq!(world.size_of("v3"), 10);
    assert!(world.stored.deployment.metadata.labels.is_empty());
}

#[test]
fn one_of_two_steerers_wins() {
    let mut world = hold();
    let promote = world
        .plan(&policy(), Some(promote()))
        .unwrap()
        .step
        .unwrap();
    let abort = world.plan(&policy(), Some(abort())).unwrap().step.unwrap();
    assert!(world.patch(&abort.call.body_json));
    assert!(!world.patch(&promote.call.body_json));
}

#[test]
fn release_keeps_the_template() {
    let mut world = hold();
    world.steer(&policy(), Some(Command::Release));
    assert!(world.has_user_fields());
    assert!(
        !world
            .stored
            .deployment
            .metadata
            .annotations
            .contains_key(ANNOTATION)
    );
    world.settle();
    assert_eq!(world.size_of(NEW), 10);
}

#[test]
fn patches_write_the_state_with_the_fields() {
    let world = World::new(10, IntOrPercent::Percent(25), IntOrPercent::Percent(25), 3);
    let start = world.start(NEW);
    let plan = world.plan(&policy(), Some(start)).unwrap();
    let patch: Vec<serde_json::Value> =
        serde_json::from_str(&plan.step.unwrap().call.body_json).unwrap();
    let written: Vec<(String, serde_json::Value)> = patch
        .iter()
        .map(|it| {
            (
                format!(
                    "{} {}",
                    it["op"].as_str().unwrap(),
                    it["path"].as_str().unwrap()
                ),
                it["value"].clone(),
            )
        })
        .collect();
    let paths: Vec<&str> = written.iter().map(|it| it.0.as_str()).collect();
    assert_eq!(
        paths,
        [
            "test /metadata/uid",
            "test /metadata/generation",
            "test /metadata/annotations/rollplan.dev~1canary",
            "test /metadata/labels",
            "add /metadata/labels",
            "add /metadata/annotations/rollplan.dev~1canary",
            "add /spec/strategy/rollingUpdate/maxSurge",
            "add /spec/strategy/rollingUpdate/maxUnavailable",
            "add /spec/minReadySeconds",
            "add /spec/progressDeadlineSeconds",
            "replace /spec/template",
        ]
    );
    assert_eq!(written[6].1, "20%");
    assert_eq!(written[7].1, 0);
    assert_eq!(written[8].1, HELD_MIN_READY);
    assert_eq!(written[9].1, HELD_DEADLINE);
    let state: serde_json::Value = serde_json::from_str(written[5].1.as_str().unwrap()).unwrap();
    assert_eq!(
        state["user"],
        serde_json::json!({"maxSurge": "25%", "maxUnavailable": "25%", "minReadySeconds": 3, "progressDeadlineSeconds": 600})
    );
}

/// Another client has removed the state after an abort, before the Deployment controller copied it. The guard is still in
/// force.
#[test]
fn label_without_a_state_is_released() {
    let mut world = hold();
    world.steer(&policy(), Some(abort()));
    world.edit(|it| _ = it.metadata.annotations.remove(ANNOTATION));
    for set in &mut world.stored.replica_sets {
        set.metadata.annotations.remove(ANNOTATION);
    }
    world.settle();
    let plan = world.steer(&policy(), None);
    assert_eq!((plan.report.phase, &plan.step), (Phase::Rest, &None));
    assert!(
        plan.report.message.contains("`rollplan canary release`"),
        "{}",
        plan.report.message
    );
    world.steer(&policy(), Some(Command::Release));
    assert!(world.stored.deployment.metadata.labels.is_empty());
    assert!(world.has_user_fields());
    let plan = world.steer(&policy(), Some(Command::Release));
    assert_eq!(
        (plan.step, plan.report.message.as_str()),
        (None, "no canary is in progress")
    );
}

#[test]
fn canary_without_pods_still_aborts() {
    let mut world = World::new(3, IntOrPercent::Int(1), IntOrPercent::Int(0), 0);
    world.faults.insert(NEW, Fault::Unschedulable);
    let start = world.start(NEW);
    world.steer(&Policy::default(), Some(start));
    // The Deployment controller has not seen the start.
    world.steer(&Policy::default(), Some(abort()));
    assert_eq!(end(&mut world), Phase::Aborted);
    assert_eq!((world.size_of("v1"), world.size_of(NEW)), (3, 0));
}

#[test]
fn numbers_as_limits_keep_the_surge_of_the_user_when_scaling() {
    let mut world = World::new(10, IntOrPercent::Int(2), IntOrPercent::Int(0), 0);
    let start = world.start(NEW);
    world.steer(&policy(), Some(start));
    world.settle();
    let mut sizes = Vec::new();
    for replicas in [20, 10] {
        world.scale(replicas);
        world.settle();
        sizes.push((world.size_of("v1"), world.size_of(NEW)));
    }
    assert_eq!(sizes, [(18, 4), (10, 2)]);
}

/// Above 100 desired pods, the surge of a hold may be a number, which a smaller Deployment may not have.
#[test]
fn surge_as_a_number_is_corrected_after_scaling_down() {
    let quarter = IntOrPercent::Percent(25);
    let mut world = World::new(150, quarter, IntOrPercent::Int(0), 0);
    let policy = Policy {
        steps: vec![IntOrPercent::Int(37).into()],
        ..policy()
    };
    let start = world.start(NEW);
    world.steer(&policy, Some(start));
    let surge = |world: &World| match world.stored.deployment.spec.strategy {
        Strategy::RollingUpdate { max_surge, .. } => max_surge,
        Strategy::Recreate => panic!("the strategy was changed"),
    };
    assert_eq!(surge(&world), IntOrPercent::Int(37));
    world.settle();
    world.scale(20);
    world.settle();
    let plan = world.steer(&policy, None);
    assert_eq!(plan.report.phase, Phase::Hold);
    let reason = &plan.report.reasons[0];
    assert_eq!(reason.kind, ReasonKind::LimitsChanged);
    assert_eq!(
        reason.message,
        "the Deployment was scaled to 20, where the limits of the user allow 5 canary pods"
    );
    assert_eq!(surge(&world), quarter);
    world.settle();
    assert!(world.plan(&policy, None).unwrap().step.is_none());
    world.steer(&policy, Some(abort()));
    world.settle();
    assert_eq!(world.violations, [""; 0]);
}

/// The state of a canary that has ended is removed before the next one starts.
#[test]
fn start_after_an_end_is_carried_out_by_the_next_plan() {
    for (command, end) in [(promote(), Phase::Done), (abort(), Phase::Aborted)] {
        let mut world = hold();
        world.steer(&policy(), Some(command));
        world.settle();
        let next = world.start("v3");
        let plan = world.steer(&policy(), Some(next));
        assert_eq!(plan.report.phase, end);
        let refusal = world.plan(&policy(), Some(world.start("v3"))).unwrap_err();
        assert_eq!(refusal.cause, RefusalCause::NotObserved);
        world.settle();
        let next = world.start("v3");
        let plan = world.steer(&policy(), Some(next));
        assert_eq!(plan.report.phase, Phase::Hold);
        assert_eq!(world.image(), "v3");
    }
}
