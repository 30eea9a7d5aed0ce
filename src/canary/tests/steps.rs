//! Canaries in several steps.

use rollplan_canary::{
    ANNOTATION, CallerVerdict, CheckResult, Command, Outcome, Phase, Plan, Policy, PolicyStep,
    held_surge,
};
use rollplan_core::size::IntOrPercent::{self, Int, Percent};
use rollplan_core::size::{Limits, Share, proportional};
use rollplan_core::time::Span;
use rollplan_world::at;
use serde_json::Value as Json;

use crate::pods::Fault;
use crate::world::{NEW, World, abort, promote, template};

fn policy(steps: &[IntOrPercent]) -> Policy {
    Policy {
        steps: steps.iter().copied().map(PolicyStep::from).collect(),
        ..Policy::default()
    }
}

/// A canary that has been started with this policy, with all pods of its first step.
fn started(world: &mut World, policy: &Policy) {
    let start = world.start(NEW);
    world.steer(policy, Some(start));
    world.settle();
}

/// 10 pods with a surge of 50%.
fn ten() -> World {
    World::new(10, Percent(50), Int(0), 0)
}

fn sizes(world: &World) -> (i32, i32) {
    (world.size_of("v1"), world.size_of(NEW))
}

fn reasons(plan: &Plan) -> Vec<&'static str> {
    let reasons = plan.report.reasons.iter();
    reasons.map(|it| it.kind.as_str()).collect()
}

/// The writes of a patch, without its preconditions: paths and values.
fn writes(plan: &Plan) -> Vec<(String, Json)> {
    let body = &plan.step.as_ref().unwrap().call.body_json;
    let operations: Vec<Json> = serde_json::from_str(body).unwrap();
    let writes = operations.into_iter().filter(|it| it["op"] != "test");
    let write = |it: Json| (it["path"].as_str().unwrap().to_owned(), it["value"].clone());
    writes.map(write).collect()
}

/// The numbers of the pods that do not terminate.
fn pods(world: &World) -> Vec<u32> {
    let pods = world
        .pods
        .iter()
        .filter(|pod| pod.stored.deleting.is_none());
    pods.map(|pod| pod.stored.number).collect()
}

#[test]
fn step_is_one_patch_of_the_surge_and_the_state() {
    let mut world = ten();
    let policy = policy(&[Int(1), Percent(30), Int(5)]);
    started(&mut world, &policy);
    assert_eq!(sizes(&world), (10, 1));
    for (step, pods, surge) in [(2, 3, "30%"), (3, 5, "50%")] {
        let before = self::pods(&world);
        let plan = world.steer(&policy, None);
        let writes = writes(&plan);
        let [(state, _), (field, value)] = &writes[..] else {
            panic!("{writes:?}")
        };
        assert_eq!(state, "/metadata/annotations/rollplan.dev~1canary");
        assert_eq!(field, "/spec/strategy/rollingUpdate/maxSurge");
        assert_eq!(value, surge);
        let report = plan.report;
        assert_eq!(
            (report.phase, report.outcome),
            (Phase::Hold, Some(Outcome::Undecided))
        );
        assert_eq!(
            (report.step, report.steps, report.pods_wanted),
            (step, 3, pods)
        );
        assert_eq!(
            report.message,
            format!("step {step} of 3: the canary grows to {pods} of 10 pods")
        );
        world.settle();
        assert_eq!(sizes(&world), (10, pods));
        assert_eq!(
            self::pods(&world)[..before.len()],
            before,
            "no pod is replaced"
        );
    }
    let plan = world.plan(&policy, None).unwrap();
    assert_eq!(
        (plan.step, plan.report.outcome),
        (None, Some(Outcome::Good))
    );
    let promotes = Policy {
        promotes: true,
        ..policy
    };
    let plan = world.steer(&promotes, None);
    assert_eq!((plan.report.phase, plan.report.step), (Phase::Promoting, 0));
    assert!(world.has_user_fields());
    world.settle();
    assert_eq!(world.steer(&promotes, None).report.phase, Phase::Done);
    assert_eq!(world.violations, [""; 0]);
}

/// All numbers of pods up to 30, and steps from 1 pod up to the surge: no stable pod is ever replaced.
#[test]
fn steps_never_remove_a_pod() {
    let lists = [
        [Int(1), Percent(10), Percent(25)],
        [Percent(5), Percent(20), Percent(50)],
        [Int(1), Percent(50), Percent(100)],
    ];
    for replicas in 1..=30 {
        for (list, surge) in lists.iter().zip([Percent(25), Percent(50), Percent(100)]) {
            let mut world = World::new(replicas, surge, Percent(20), 0);
            let policy = policy(list);
            started(&mut world, &policy);
            let mut raises = 0;
            loop {
                let before = pods(&world);
                let plan = world.steer(&policy, None);
                if plan.step.is_none() {
                    assert_eq!(plan.report.outcome, Some(Outcome::Good));
                    break;
                }
                raises += 1;
                world.settle();
                assert_eq!(pods(&world)[..before.len()], before, "{replicas} {list:?}");
                assert_eq!(sizes(&world), (replicas, plan.report.pods_wanted));
            }
            let last = list[2].rounded_up(replicas);
            let counts: std::collections::BTreeSet<i32> =
                list.iter().map(|it| it.rounded_up(replicas)).collect();
            assert_eq!(sizes(&world), (replicas, last), "{list:?}");
            assert_eq!(raises + 1, counts.len(), "{replicas} {list:?}");
            assert_eq!(world.violations, [""; 0], "{replicas} {list:?}");
        }
    }
}

#[test]
fn next_step_waits_for_the_deployment_controller() {
    let policy = policy(&[Int(1), Int(3)]);
    let mut world = ten();
    started(&mut world, &policy);
    assert!(world.plan(&policy, None).unwrap().step.is_some());
    let waits = |world: &World| {
        let plan = world.plan(&policy, None).unwrap();
        assert_eq!(
            (&plan.step, reasons(&plan)),
            (&None, vec!["WAITS_FOR_CONTROLLER"])
        );
        assert_eq!(
            plan.report.message,
            "step 1 of 2 of the canary waits: the Deployment controller has not carried out the last change yet"
        );
    };
    // It has not observed a change.
    let mut unobserved = world.clone();
    unobserved.edit(|it| {
        _ = it
            .metadata
            .annotations
            .insert("a".to_owned(), "b".to_owned())
    });
    waits(&unobserved);
    // It has observed a new number of pods, and has not written all sizes yet.
    let mut scaled = world.clone();
    scaled.stored.deployment.spec.replicas = 9;
    waits(&scaled);
    let mut short = world.clone();
    short.stored.replica_sets[0].replicas = 9;
    waits(&short);
    // Until the canary has the pods of its step, that is not good either.
    world.steer(&policy, None);
    let plan = world.plan(&policy, None).unwrap();
    assert_eq!(plan.report.outcome, Some(Outcome::Undecided));
    let waits = &plan.report.reasons[0].message;
    assert_eq!(waits, "1 of 3 canary pods are ready");
}

#[test]
fn step_without_more_pods_is_skipped_and_named() {
    let policy = policy(&[Int(1), Percent(10), Percent(25), Percent(26)]);
    let mut world = World::new(4, Percent(50), Int(0), 0);
    started(&mut world, &policy);
    let plan = world.steer(&policy, None);
    let skipped = |plan: &Plan| {
        let reasons = plan.report.reasons.iter();
        reasons.map(|it| it.message.clone()).collect::<Vec<_>>()
    };
    assert_eq!(
        skipped(&plan),
        [
            "step 2 (10%) is skipped, because it has no more than 1 of 4 pods",
            "step 3 (25%) is skipped, because it has no more than 1 of 4 pods",
        ]
    );
    assert_eq!((plan.report.step, plan.report.pods_wanted), (4, 2));
    // A later request may have a step that the surge does not allow.
    let mut world = World::new(4, Percent(25), Int(0), 0);
    started(&mut world, &self::policy(&[Int(1)]));
    let plan = world.steer(&self::policy(&[Int(1), Percent(50)]), None);
    assert_eq!(
        skipped(&plan),
        ["step 2 (50%) is skipped, because the surge allows no more than 1 of 4 pods"]
    );
    // Scaled down, the last step is not larger either.
    let mut world = World::new(4, Percent(50), Int(0), 0);
    started(&mut world, &policy);
    world.scale(1);
    world.settle();
    let plan = world.plan(&policy, None).unwrap();
    assert_eq!(
        (&plan.step, plan.report.outcome),
        (&None, Some(Outcome::Good))
    );
    assert_eq!(reasons(&plan), ["STEP_SKIPPED"; 3]);
}

#[test]
fn verdict_counts_only_for_its_step() {
    let gated = |gates: &[&str]| Policy {
        gates: gates.iter().map(|&it| it.to_owned()).collect(),
        ..policy(&[Int(1), Int(3)])
    };
    let mut policy = gated(&["smoke"]);
    policy.steps[1].gates = vec!["load".to_owned()];
    let mut world = ten();
    started(&mut world, &policy);
    let digest = world.plan(&policy, None).unwrap().report.template_digest;
    let verdict = |name: &str, step, now| CallerVerdict {
        name: name.to_owned(),
        template_digest: digest.clone(),
        step,
        result: CheckResult::Pass,
        observed_at: at(now),
    };
    let early = vec![verdict("smoke", 2, world.now)];
    let plan = world.plan_with(&policy, None, early).unwrap();
    assert_eq!(
        plan.report.message,
        "step 1 of 2 of the canary waits: the verdict \"smoke\" is about another template, step or time"
    );
    let first = verdict("smoke", 1, world.now);
    let plan = world.plan_with(&policy, None, vec![first.clone()]).unwrap();
    assert_eq!(plan.report.step, 2);
    assert!(world.patch(&plan.step.unwrap().call.body_json));
    world.settle();
    let names = |plan: &Plan| {
        let reasons = plan.report.reasons.iter();
        reasons.map(|it| it.message.clone()).collect::<Vec<_>>()
    };
    let plan = world.plan_with(&policy, None, vec![first]).unwrap();
    assert_eq!(
        names(&plan),
        [
            "the verdict \"load\" is missing",
            "the verdict \"smoke\" is about another template, step or time",
        ]
    );
    let both = vec![
        verdict("smoke", 2, world.now),
        verdict("load", 2, world.now),
    ];
    let plan = world.plan_with(&policy, None, both).unwrap();
    assert_eq!(plan.report.outcome, Some(Outcome::Good));
}

#[test]
fn each_step_has_its_own_bake_and_its_own_time() {
    let mut policy = Policy {
        bake: Some(Span::from_seconds(200)),
        timeout: Some(Span::from_seconds(900)),
        ..policy(&[Int(1), Int(3)])
    };
    policy.steps[1].bake = Some(Span::from_seconds(400));
    let mut world = ten();
    started(&mut world, &policy);
    let mut waited = [0, 0];
    for (step, waited) in waited.iter_mut().enumerate() {
        while world.plan(&policy, None).unwrap().report.outcome == Some(Outcome::Undecided) {
            let plan = world.plan(&policy, None).unwrap();
            if plan.step.is_some() {
                break;
            }
            assert_eq!(plan.report.step, i32::try_from(step).unwrap() + 1);
            world.now += 1;
            *waited += 1;
        }
        world.steer(&policy, None);
        world.settle();
    }
    // The world has let some of this time pass.
    assert!((100..=200).contains(&waited[0]), "{waited:?}");
    assert!((300..=400).contains(&waited[1]), "{waited:?}");
    let mut late = ten();
    late.faults.insert(NEW, Fault::None);
    started(&mut late, &policy);
    late.now += 800;
    assert_eq!(late.steer(&policy, None).report.step, 2);
    late.now += 800;
    let plan = late.plan(&policy, None).unwrap();
    assert_eq!(plan.report.outcome, Some(Outcome::Undecided), "{plan:?}");
    late.now += 200;
    let plan = late.plan(&policy, None).unwrap();
    assert_eq!(plan.report.outcome, Some(Outcome::TimedOut));
}

#[test]
fn changed_steps_apply_from_the_next_one() {
    let mut world = ten();
    let first = policy(&[Int(1), Int(2), Int(3)]);
    started(&mut world, &first);
    world.steer(&first, None);
    world.settle();
    assert_eq!(sizes(&world), (10, 2));
    // The first two have other sizes than the steps that were held.
    let other = policy(&[Int(2), Int(3), Int(4), Int(5)]);
    let start = world.start(NEW);
    let plan = world.steer(&other, Some(start));
    assert_eq!(
        (plan.report.step, plan.report.steps, plan.report.pods_wanted),
        (2, 4, 2)
    );
    world.settle();
    // The state remembers them.
    let plan = world.steer(&Policy::default(), None);
    assert_eq!((plan.report.step, plan.report.pods_wanted), (3, 4));
    world.settle();
    // A request alone may also have other ones.
    let plan = world.steer(&policy(&[Int(1)]), None);
    assert_eq!(
        (&plan.step, plan.report.outcome),
        (&None, Some(Outcome::Good))
    );
    let refusal = |list: &[IntOrPercent]| {
        let plan = world.plan(&policy(list), Some(world.start(NEW)));
        plan.unwrap_err().to_string()
    };
    assert_eq!(
        refusal(&[Int(1), Int(3)]),
        "deployment \"web\" already has this canary with 4 pods, and has no later step: abort it, and start it with --steps 3"
    );
}

/// Nothing is raised by a request that only asks for the state.
#[test]
fn step_may_be_left_to_another_request() {
    let mut world = ten();
    let policy = policy(&[Int(1), Int(3)]);
    started(&mut world, &policy);
    let asks = Policy {
        raises: false,
        ..policy.clone()
    };
    let plan = world.plan(&asks, None).unwrap();
    assert_eq!(
        (&plan.step, plan.report.outcome),
        (&None, Some(Outcome::Undecided))
    );
    assert_eq!(plan.report.message, "step 1 of 2 of the canary is good");
    world.edit(|it| it.spec.paused = true);
    world.settle();
    let plan = world.plan(&policy, None).unwrap();
    assert_eq!(
        (&plan.step, plan.report.outcome),
        (&None, Some(Outcome::Undecided))
    );
    assert_eq!(reasons(&plan), ["PAUSED"]);
}

#[test]
fn only_the_last_step_is_promoted_unless_that_is_forced() {
    let mut world = ten();
    let policy = policy(&[Int(1), Int(3)]);
    started(&mut world, &policy);
    let good = Command::Promote {
        template: None,
        is_forced: false,
        manifest: None,
    };
    let refusal = world.plan(&policy, Some(good.clone())).unwrap_err();
    assert!(
        refusal.to_string().contains("is not good (step 2 follows)"),
        "{refusal}"
    );
    let forced = world.plan(&policy, Some(promote())).unwrap();
    assert_eq!(forced.report.phase, Phase::Promoting);
    world.steer(&policy, None);
    world.settle();
    let plan = world.plan(&policy, Some(good)).unwrap();
    assert_eq!(plan.report.phase, Phase::Promoting);
}

/// The Deployment controller has not copied the state of the second step.
#[test]
fn surge_of_a_step_is_never_a_limit_of_the_user() {
    let policy = policy(&[Int(1), Int(3), Int(5)]);
    let mut world = ten();
    started(&mut world, &policy);
    world.steer(&policy, None);
    world.edit(|it| _ = it.metadata.annotations.remove(ANNOTATION));
    let plan = world.steer(&policy, None);
    assert_eq!(reasons(&plan), ["RECOVERED"]);
    assert_eq!((plan.report.step, plan.report.pods_max), (2, 15));
    world.settle();
    assert_eq!(sizes(&world), (10, 3));
    // In the same way, with one field of the user.
    let mut resumed = world.clone();
    resumed.steer(&policy, None);
    resumed.edit(|it| {
        it.metadata.annotations.remove(ANNOTATION);
        it.spec.min_ready_seconds = 0;
    });
    assert_eq!(resumed.steer(&policy, None).report.phase, Phase::Promoting);
    assert!(
        resumed.has_user_fields(),
        "{:?}",
        resumed.stored.deployment.spec
    );
    // And with the stable template.
    world.steer(&policy, None);
    world.edit(|it| {
        it.spec.template = template("v1");
        it.metadata.annotations.remove(ANNOTATION);
    });
    assert_eq!(world.steer(&policy, None).report.phase, Phase::Aborting);
    assert!(
        world.has_user_fields(),
        "{:?}",
        world.stored.deployment.spec
    );
}

#[test]
fn abort_at_every_step_restores_the_stable_pods() {
    let list = [Int(1), Percent(30), Percent(50), Percent(100)];
    for fault in [Fault::None, Fault::NeverReady] {
        for aborted_at in 0..list.len() {
            let mut world = World::new(10, Percent(25), Percent(25), 0);
            world.allowed = Percent(100);
            let policy = Policy {
                surge: Some(Percent(100)),
                ..policy(&list)
            };
            started(&mut world, &policy);
            for _ in 0..aborted_at {
                world.steer(&policy, None);
                world.settle();
            }
            // The pods of the next step fail, or are ready.
            world.faults.insert(NEW, fault);
            world.steer(&policy, None);
            world.settle_controllers();
            world.steer(&policy, Some(abort()));
            assert!(world.has_user_fields());
            world.settle();
            assert_eq!(sizes(&world), (10, 0));
            assert_eq!(world.steer(&policy, None).report.phase, Phase::Aborted);
            assert_eq!(world.violations, [""; 0], "{fault:?} {aborted_at}");
        }
    }
}

/// A canary with all pods beside all stable ones.
fn all_beside_all(fault: Fault) -> World {
    let mut world = World::new(10, Percent(25), Percent(25), 0);
    world.allowed = Percent(100);
    let policy = Policy {
        surge: Some(Percent(100)),
        ..policy(&[Percent(100)])
    };
    world.faults.insert(NEW, fault);
    let start = world.start(NEW);
    world.steer(&policy, Some(start));
    assert!(world.sync_deployment());
    assert_eq!(sizes(&world), (10, 10), "one write");
    world.settle();
    assert_eq!(sizes(&world), (10, 10));
    world
}

#[test]
fn surge_of_all_pods_is_promoted_and_aborted_at_once() {
    let mut world = all_beside_all(Fault::None);
    world.steer(&Policy::default(), Some(promote()));
    // The new pods count as available as soon as their ReplicaSet has the field.
    world.settle_controllers();
    assert_eq!((sizes(&world), world.available()), ((0, 10), 10));
    assert_eq!(world.violations, [""; 0]);

    let mut world = all_beside_all(Fault::None);
    world.steer(&Policy::default(), Some(abort()));
    world.settle_controllers();
    assert_eq!((sizes(&world), world.available()), ((10, 0), 10));
    assert_eq!(world.violations, [""; 0]);

    // Only as many stable pods are removed as the limits of the user allow.
    let mut world = all_beside_all(Fault::NeverReady);
    world.steer(&Policy::default(), Some(promote()));
    world.settle_controllers();
    assert_eq!((sizes(&world), world.available()), ((8, 10), 8));
    assert_eq!(world.violations, [""; 0]);
}

/// The sizes after each sync of the Deployment controller that changes them.
fn course(world: &mut World) -> Vec<(i32, i32)> {
    let mut course = Vec::new();
    for _ in 0..20 {
        world.sync_deployment();
        for index in 0..world.stored.replica_sets.len() {
            world.sync_set(index);
        }
        if course.last() != Some(&sizes(world)) {
            course.push(sizes(world));
        }
    }
    course
}

#[test]
fn scaling_at_a_hold_keeps_the_proportion_of_the_step() {
    let policy = policy(&[Percent(10), Percent(30)]);
    let mut world = ten();
    started(&mut world, &policy);
    world.scale(20);
    assert_eq!(course(&mut world), [(20, 2)]);
    world.settle();
    world.steer(&policy, None);
    world.settle();
    assert_eq!(sizes(&world), (20, 6));
}

/// The stable ReplicaSet has the annotation of the smaller surge, so it first gets too many pods.
#[test]
fn scaling_after_a_raise_starts_and_removes_pods_within_the_ceiling() {
    let policy = Policy {
        surge: Some(Percent(30)),
        ..policy(&[Percent(10), Percent(30)])
    };
    let mut world = World::new(10, Percent(10), Int(0), 0);
    world.allowed = Percent(30);
    started(&mut world, &policy);
    world.steer(&policy, None);
    world.settle();
    assert_eq!(sizes(&world), (10, 3));
    world.scale(20);
    assert_eq!(course(&mut world), [(23, 3), (20, 3), (20, 6)]);
    // From then on, the annotations are those of the larger surge.
    world.scale(10);
    assert_eq!(course(&mut world), [(10, 3)]);
    assert_eq!(world.violations, [""; 0]);
}

/// The same for all numbers of pods up to 40, at once or from a smaller surge: the sizes add up to the ceiling of the hold, and
/// the stable pods are as many as desired.
#[test]
fn scaling_after_a_raise_never_removes_a_stable_pod_that_is_desired() {
    let mut missing = 0;
    for (before, after) in (1..=40).flat_map(|it| (1..=60).map(move |after| (it, after))) {
        for percent in (1..=100).step_by(7) {
            let pods = Percent(percent).rounded_up(before);
            let surge = held_surge(pods, Percent(100), before);
            let limits = Limits::rolling(after, surge, Int(0));
            for earlier in 1..=pods {
                let share = |size, surge| Share {
                    size,
                    max_total_before: before + surge,
                };
                let sizes = proportional(limits, &[share(before, earlier), share(pods, pods)]);
                let [stable, canary] = sizes[..] else {
                    unreachable!()
                };
                assert_eq!(stable + canary, limits.max_total());
                assert!(stable >= after, "{before} to {after}, {earlier}, {pods}");
                missing = missing.max(limits.max_surge - canary);
            }
        }
    }
    assert!(missing > 40, "the canary waits for its pods: {missing}");
}
