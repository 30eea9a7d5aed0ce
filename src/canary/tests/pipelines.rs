//! Pipelines that are cancelled, repeated and superseded.

use rollplan_canary::{Command, Outcome, Phase, Plan, Policy, PolicyStep, RefusalCause, Start};
use rollplan_core::size::IntOrPercent;
use rollplan_core::time::Span;

use crate::pods::Fault;
use crate::world::{NEW, World, abort, promote};

const PIPELINE: &str = "shop/web release";

fn policy() -> Policy {
    Policy {
        steps: vec![IntOrPercent::Int(2).into()],
        bake: Some(Span::from_seconds(120)),
        timeout: Some(Span::from_seconds(900)),
        ..Policy::default()
    }
}

fn world() -> World {
    World::new(10, IntOrPercent::Percent(25), IntOrPercent::Int(0), 0)
}

/// A hold of 2 of 10 pods that the pipeline has started.
fn hold() -> World {
    let mut world = world();
    let start = world.replace(NEW, PIPELINE);
    world.steer(&policy(), Some(start));
    world.settle();
    assert_eq!((world.size_of("v1"), world.size_of(NEW)), (10, 2));
    world
}

fn reasons(plan: &Plan) -> Vec<&'static str> {
    let reasons = plan.report.reasons.iter();
    reasons.map(|it| it.kind.as_str()).collect()
}

fn refusal(world: &World, command: Command) -> RefusalCause {
    world.plan(&policy(), Some(command)).unwrap_err().cause
}

/// Sends a command until it has been carried out. Returns the phases.
fn carry_out(world: &mut World, command: impl Fn(&World) -> Command) -> Vec<Phase> {
    let mut phases = Vec::new();
    for _ in 0..8 {
        let command = command(world);
        let plan = world.steer(&policy(), Some(command));
        world.settle();
        phases.push(plan.report.phase);
        if !plan.report.command_pending {
            return phases;
        }
    }
    panic!("{phases:?}");
}

#[test]
fn criteria_of_the_start_are_remembered() {
    let mut world = hold();
    let plan = |world: &World, policy: &Policy| world.plan(policy, None).unwrap().report.outcome;
    assert_eq!(plan(&world, &Policy::default()), Some(Outcome::Undecided));
    let no_bake = Policy {
        bake: Some(Span::default()),
        ..Policy::default()
    };
    assert_eq!(plan(&world, &no_bake), Some(Outcome::Good));
    world.now += 200;
    assert_eq!(plan(&world, &Policy::default()), Some(Outcome::Good));
    let gated = Policy {
        gates: vec!["smoke".to_owned()],
        ..Policy::default()
    };
    assert_eq!(plan(&world, &gated), Some(Outcome::Undecided));
    // A start replaces what is remembered.
    let start = world.start(NEW);
    let changed = world.steer(&gated, Some(start));
    assert!(changed.step.is_some() && changed.report.reasons.is_empty());
    assert_eq!(plan(&world, &Policy::default()), Some(Outcome::Undecided));
    let start = world.start(NEW);
    assert_eq!(world.plan(&gated, Some(start)).unwrap().step, None);
    world.now += 900;
    assert_eq!(plan(&world, &Policy::default()), Some(Outcome::TimedOut));
}

#[test]
fn start_with_another_size_is_refused() {
    let world = hold();
    for (pods, surge, refused) in [
        (Some(IntOrPercent::Int(2)), None, None),
        (Some(IntOrPercent::Percent(20)), None, None),
        (None, None, None),
        (
            Some(IntOrPercent::Int(3)),
            None,
            Some(
                "already has this canary with 2 pods, and has no later step: abort it, and start it with --pods 3",
            ),
        ),
        (None, Some(IntOrPercent::Int(4)), Some("--surge 4")),
    ] {
        let policy = Policy {
            steps: pods.map(PolicyStep::from).into_iter().collect(),
            surge,
            ..Policy::default()
        };
        let plan = world.plan(&policy, Some(world.start(NEW)));
        match refused {
            None => assert_eq!(plan.unwrap().step, None, "{pods:?}"),
            Some(text) => {
                let refusal = plan.unwrap_err();
                assert_eq!(refusal.cause.as_str(), "OTHER_SIZE");
                assert!(refusal.to_string().contains(text), "{refusal}");
            }
        }
    }
}

#[test]
fn only_the_tested_template_is_promoted_or_aborted() {
    let mut world = hold();
    world.now += 200;
    let digest = world.plan(&policy(), None).unwrap().report.template_digest;
    let promote_it = |digest: &str| Command::Promote {
        template: Some(digest.to_owned()),
        is_forced: false,
        manifest: None,
    };
    let abort_it = |digest: &str| Command::Abort {
        template: Some(digest.to_owned()),
    };
    for command in [promote_it("sha256:other"), abort_it("sha256:other")] {
        assert_eq!(refusal(&world, command).as_str(), "OTHER_TEMPLATE");
    }
    // Another client has changed it, and no plan has seen that yet.
    let mut changed = world.clone();
    changed.apply_image("v3");
    changed.settle();
    for command in [promote_it(&digest), abort_it(&digest)] {
        assert_eq!(refusal(&changed, command).as_str(), "OTHER_TEMPLATE");
    }
    // Neither is it continued by a run with the template of before.
    assert_eq!(
        refusal(&changed, world.start(NEW)).as_str(),
        "CANARY_IN_PROGRESS"
    );
    let mut aborted = world.clone();
    aborted.steer(&policy(), Some(abort_it(&digest)));
    aborted.settle();
    let end = aborted.steer(&policy(), Some(abort_it(&digest)));
    assert_eq!(
        (end.report.phase, end.report.command_pending),
        (Phase::Aborted, false)
    );
    assert_eq!(
        aborted
            .plan(&policy(), Some(abort_it(&digest)))
            .unwrap()
            .step,
        None
    );
    assert_eq!(
        refusal(&aborted, abort_it("sha256:other")).as_str(),
        "NO_CANARY"
    );
    world.steer(&policy(), Some(promote_it(&digest)));
    assert_eq!(
        refusal(&world, abort_it("sha256:other")).as_str(),
        "OTHER_TEMPLATE"
    );
    world.settle();
    let end = world.steer(&policy(), Some(promote_it(&digest)));
    assert_eq!(
        (end.report.phase, end.report.command_pending),
        (Phase::Done, false)
    );
    world.settle();
    // What the command asks for is complete.
    let plan = world.plan(&policy(), Some(promote_it(&digest))).unwrap();
    assert_eq!((plan.step, plan.report.phase), (None, Phase::Rest));
    assert_eq!(
        refusal(&world, promote_it("sha256:other")).as_str(),
        "NO_CANARY"
    );
}

#[test]
fn only_a_good_canary_is_promoted_unless_that_is_forced() {
    let mut world = world();
    world.faults.insert(NEW, Fault::NeverReady);
    let start = world.start(NEW);
    world.steer(&policy(), Some(start));
    world.settle();
    let good = Command::Promote {
        template: None,
        is_forced: false,
        manifest: None,
    };
    let refused = world.plan(&policy(), Some(good)).unwrap_err();
    assert_eq!(refused.cause.as_str(), "NOT_GOOD");
    assert!(
        refused
            .to_string()
            .contains("(0 of 2 canary pods are ready"),
        "{refused}"
    );
    assert_eq!(
        world.plan(&policy(), Some(promote())).unwrap().report.phase,
        Phase::Promoting
    );
}

#[test]
fn newer_template_of_the_pipeline_replaces_the_canary() {
    let mut world = hold();
    let newer = |world: &World| world.replace("v3", PIPELINE);
    for other in [world.start("v3"), world.replace("v3", "other")] {
        let refusal = world.plan(&policy(), Some(other)).unwrap_err().to_string();
        let expected =
            format!("already has a canary of the pipeline {PIPELINE:?}: promote or abort it first");
        assert!(refusal.ends_with(&expected), "{refusal}");
    }
    let first = world.plan(&policy(), Some(newer(&world))).unwrap();
    assert_eq!(reasons(&first), ["REPLACED"]);
    let phases = carry_out(&mut world, newer);
    assert_eq!(phases, [Phase::Aborting, Phase::Aborted, Phase::Hold]);
    assert_eq!(
        (world.size_of("v1"), world.size_of(NEW), world.size_of("v3")),
        (10, 0, 2)
    );
    let report = world.plan(&policy(), None).unwrap().report;
    // It was not rejected.
    assert_eq!(report.rejected_digests, [""; 0]);
    assert_eq!(report.pipeline.as_deref(), Some(PIPELINE));
    assert_eq!(world.violations, [""; 0]);
}

#[test]
fn rerun_of_the_pipeline_continues_or_retries() {
    let mut world = hold();
    let again = |world: &World| world.replace(NEW, PIPELINE);
    let plan = world.plan(&policy(), Some(again(&world))).unwrap();
    assert_eq!((plan.step, plan.report.command_pending), (None, false));
    // The abort was cancelled after its patch.
    world.steer(&policy(), Some(abort()));
    assert_eq!(
        refusal(&world, world.start(NEW)).as_str(),
        "CANARY_ABORTING"
    );
    let phases = carry_out(&mut world, again);
    assert_eq!(phases, [Phase::Aborting, Phase::Aborted, Phase::Hold]);
    world.steer(&policy(), Some(abort()));
    world.settle();
    world.steer(&policy(), None);
    world.settle();
    for other in [world.start(NEW), world.replace(NEW, "other")] {
        assert_eq!(refusal(&world, other).as_str(), "REJECTED_TEMPLATE");
    }
    assert_eq!(carry_out(&mut world, again), [Phase::Hold]);
    assert_eq!((world.size_of("v1"), world.size_of(NEW)), (10, 2));
}

#[test]
fn rerun_after_the_timeout_has_its_time_again() {
    let mut world = world();
    world.faults.insert(NEW, Fault::NeverReady);
    let aborts = Policy {
        aborts_on_timeout: true,
        ..policy()
    };
    let start = world.start(NEW);
    world.steer(&aborts, Some(start));
    world.settle();
    world.now += 900;
    let plan = world.plan(&aborts, None).unwrap();
    assert_eq!(
        (plan.report.phase, reasons(&plan)[0]),
        (Phase::Aborting, "TIMED_OUT")
    );
    let message = &plan.report.reasons[0].message;
    let why = "the canary was not decided within 15m: 0 of 2 canary pods are ready";
    assert!(message.starts_with(why), "{message}");
    let start = world.start(NEW);
    let plan = world.steer(&aborts, Some(start));
    assert_eq!(
        (plan.report.phase, plan.report.outcome),
        (Phase::Hold, Some(Outcome::Undecided))
    );
    world.now += 899;
    assert_eq!(world.plan(&aborts, None).unwrap().report.phase, Phase::Hold);
    world.now += 1;
    assert_eq!(
        world.plan(&aborts, None).unwrap().report.phase,
        Phase::Aborting
    );
}

#[test]
fn reverted_template_ends_the_canary() {
    for is_promoting in [false, true] {
        let mut world = hold();
        if is_promoting {
            world.steer(&policy(), Some(promote()));
            world.settle_controllers();
        }
        let reverted = |world: &World| world.replace("v1", PIPELINE);
        let plan = world.steer(&policy(), Some(reverted(&world)));
        assert_eq!(
            (plan.report.phase, plan.report.command_pending),
            (Phase::Aborting, true)
        );
        world.settle();
        world.steer(&policy(), Some(reverted(&world)));
        world.settle();
        assert_eq!(refusal(&world, reverted(&world)).as_str(), "SAME_TEMPLATE");
        assert!(world.has_user_fields());
        assert_eq!((world.image().as_str(), world.size_of(NEW)), ("v1", 0));
    }
}

/// It was tested, and a newer template is compared with it.
#[test]
fn promotion_of_the_pipeline_ends_before_the_next_start() {
    let mut world = hold();
    world.steer(&policy(), Some(promote()));
    world.settle_controllers();
    let newer = |world: &World| world.replace("v3", PIPELINE);
    let phases = carry_out(&mut world, newer);
    assert_eq!(phases, [Phase::Promoting, Phase::Done, Phase::Hold]);
    assert_eq!((world.size_of(NEW), world.size_of("v3")), (10, 2));
}

/// A dry run at a hold merges a field that only the canary has into the template of the next manifest.
#[test]
fn manifests_are_told_apart_by_what_they_state() {
    let mut world = world();
    let key = "kubectl.kubernetes.io/last-applied-configuration";
    let start = |world: &World, stated: &str| {
        let mut deployment = world.changed(NEW);
        let manifest = format!(r#"{{"spec":{{"template":{{"spec":"{stated}"}}}}}}"#);
        deployment
            .metadata
            .annotations
            .insert(key.to_owned(), manifest);
        Command::Start(Box::new(Start {
            deployment,
            pipeline: Some(PIPELINE.to_owned()),
            replaces: true,
            is_template_only: false,
        }))
    };
    let first = start(&world, "with a variable");
    world.steer(&policy(), Some(first));
    world.settle();
    let plan = |stated| {
        world
            .plan(&policy(), Some(start(&world, stated)))
            .unwrap()
            .report
            .phase
    };
    assert_eq!(plan("with a variable"), Phase::Hold);
    assert_eq!(plan("without it"), Phase::Aborting);
    // `kubectl set image` states nothing.
    assert_eq!(
        world
            .plan(&policy(), Some(world.start(NEW)))
            .unwrap()
            .report
            .phase,
        Phase::Hold
    );
}

/// If the pipeline ends before it applies the manifest, `kubectl apply` of the next one removes what only this one has.
#[test]
fn promotion_of_a_manifest_writes_what_kubectl_remembers() {
    let key = "kubectl.kubernetes.io/last-applied-configuration";
    let mut world = hold();
    world.now += 200;
    let promotion = |world: &World, image: &str| {
        let mut deployment = world.changed(image);
        let manifest = format!(r#"{{"spec":{{"template":"{image}"}}}}"#);
        deployment
            .metadata
            .annotations
            .insert(key.to_owned(), manifest);
        Command::Promote {
            template: None,
            is_forced: true,
            manifest: Some(Box::new(deployment)),
        }
    };
    assert_eq!(
        refusal(&world, promotion(&world, "v3")).as_str(),
        "OTHER_TEMPLATE"
    );
    let promote = promotion(&world, NEW);
    let plan = world.steer(&policy(), Some(promote));
    assert_eq!(plan.report.phase, Phase::Promoting);
    let applied = world.stored.deployment.metadata.annotations.get(key);
    assert_eq!(applied.unwrap(), r#"{"spec":{"template":"v2"}}"#);
    // Repeating it is safe, also when it is complete.
    world.settle();
    for image in [NEW, "v3"] {
        let again = world
            .plan(&policy(), Some(promotion(&world, image)))
            .unwrap();
        assert_eq!(
            (again.report.phase, again.report.command_pending),
            (Phase::Done, image != NEW)
        );
    }
    let ends = promotion(&world, "v3");
    world.steer(&policy(), Some(ends));
    world.settle_controllers();
    world.plan(&policy(), Some(promotion(&world, NEW))).unwrap();
    assert_eq!(
        refusal(&world, promotion(&world, "v3")).as_str(),
        "NO_CANARY"
    );
}

/// A rollback whose command was cancelled after its patch.
#[test]
fn complete_abort_does_not_prevent_the_next_rollback() {
    let mut world = hold();
    world.steer(&policy(), Some(abort()));
    world.settle();
    world.apply_image("v3");
    world.settle_controllers();
    let rolls_back = Policy {
        rolls_back: true,
        ..Policy::default()
    };
    let plan = world.steer(&rolls_back, None);
    assert_eq!(
        (plan.report.phase, plan.report.command_pending),
        (Phase::Aborted, true)
    );
    let plan = world.plan(&rolls_back, None).unwrap();
    assert_eq!((plan.step, plan.report.command_pending), (None, false));
    assert!(
        !world
            .stored
            .deployment
            .metadata
            .labels
            .contains_key(rollplan_canary::LABEL)
    );
}

/// `kubectl apply` after a promotion whose command did not wait.
#[test]
fn complete_promotion_ends_with_the_next_template() {
    let mut world = hold();
    world.steer(&policy(), Some(promote()));
    world.settle();
    world.apply_image("v3");
    world.settle_controllers();
    let plan = world.steer(&policy(), None);
    assert_eq!(plan.report.phase, Phase::Done);
    // Before it is complete, it continues with the other template.
    let mut world = hold();
    world.steer(&policy(), Some(promote()));
    world.settle_controllers();
    world.apply_image("v3");
    world.settle_controllers();
    assert!(world.size_of("v1") > 0);
    let plan = world.steer(&policy(), None);
    assert_eq!(plan.report.phase, Phase::Promoting);
}

#[test]
fn forced_promotion_is_the_way_out_without_the_stable_template() {
    let mut world = hold();
    world
        .stored
        .replica_sets
        .retain(|set| !set.template.same_as(&crate::world::template("v1")));
    world.pods.clear();
    let plan = world.plan(&policy(), None).unwrap();
    assert_eq!(
        (plan.report.phase, reasons(&plan).last()),
        (Phase::Hold, Some(&"STABLE_GONE"))
    );
    let refusal = world.plan(&policy(), Some(abort())).unwrap_err();
    assert!(
        refusal
            .to_string()
            .contains("`rollplan canary promote --force`"),
        "{refusal}"
    );
    world.steer(&policy(), Some(promote()));
    // Forcing it again would not help.
    let refusal = world.plan(&policy(), Some(abort())).unwrap_err();
    assert!(
        refusal.to_string().contains("`rollplan canary release`"),
        "{refusal}"
    );
    world.settle();
    assert_eq!(world.steer(&policy(), None).report.phase, Phase::Done);
    assert!(world.has_user_fields());
    assert_eq!(world.size_of(NEW), 10);
}
