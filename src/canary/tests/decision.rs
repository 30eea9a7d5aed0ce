//! When a canary is good, has failed, or waits.

use rollplan_canary::{
    CallerVerdict, CheckResult, Command, Input, Outcome, Phase, Plan, Policy, plan_canary,
};
use rollplan_core::interrupt::Never;
use rollplan_core::size::IntOrPercent;
use rollplan_core::snapshot::{Pod, Snapshot};
use rollplan_core::time::{Span, Time};
use rollplan_world::at;

use crate::pods::Fault;
use crate::world::{NEW, World, abort, promote};

fn policy() -> Policy {
    Policy {
        steps: vec![IntOrPercent::Int(2).into()],
        bake: Some(Span::from_seconds(120)),
        ..Policy::default()
    }
}

/// A hold of 2 of 10 pods whose pods are ready since now.
fn hold(fault: Fault) -> World {
    let mut world = World::new(10, IntOrPercent::Percent(25), IntOrPercent::Percent(25), 0);
    world.faults.insert(NEW, fault);
    let start = world.start(NEW);
    let plan = world.steer(&policy(), Some(start));
    assert_eq!(
        (plan.report.phase, plan.report.pods_wanted),
        (Phase::Hold, 2)
    );
    world.settle();
    let now = world.now;
    for pod in world
        .pods
        .iter_mut()
        .filter(|pod| pod.stored.created >= 1000 && pod.stored.number >= 10)
    {
        pod.stored.ready_since = pod.stored.ready_since.map(|_| now);
    }
    assert_eq!((world.size_of("v1"), world.size_of(NEW)), (10, 2));
    world
}

fn reasons(plan: &Plan) -> Vec<&'static str> {
    plan.report
        .reasons
        .iter()
        .map(|it| it.kind.as_str())
        .collect()
}

#[test]
fn hold_keeps_all_stable_pods_within_the_limits() {
    let world = hold(Fault::None);
    let plan = world.plan(&policy(), None).unwrap();
    let report = plan.report;
    assert_eq!(
        (report.pods_available, report.stable_pods_available),
        (2, 10)
    );
    assert_eq!((report.available_min, report.pods_max), (8, 13));
    assert_eq!(
        report.message,
        "the canary waits: all canary pods are ready, and must stay ready for 2m more"
    );
    assert!(report.template_digest.starts_with("sha256:"));
    assert_ne!(report.template_digest, report.stable_digest);
    assert_eq!(plan.requeue_after, Some(Span::from_seconds(120)));
}

#[test]
fn the_rest_of_a_bake_is_rounded_up() {
    let mut world = hold(Fault::None);
    world.now += 119;
    let mut input = Input {
        snapshot: world.snapshot(),
        policy: policy(),
        command: None,
        verdicts: Vec::new(),
        managed_fields: None,
    };
    input.snapshot.now = Time::new(input.snapshot.now.seconds(), 600_000_000).unwrap();
    let plan = plan_canary(&input, &Never).unwrap().unwrap();
    let waits = "all canary pods are ready, and must stay ready for 1s more";
    assert!(
        plan.report.message.ends_with(waits),
        "{}",
        plan.report.message
    );
}

/// The Deployment controller has scaled the canary to 0, as it may after scaling down, and the ReplicaSet controller has not
/// deleted its pods yet.
#[test]
fn pods_above_the_size_do_not_make_a_canary_good() {
    let mut world = hold(Fault::None);
    world.now += 120;
    let plan = world.plan(&policy(), None).unwrap();
    assert_eq!(plan.report.outcome, Some(Outcome::Good));
    world.stored.replica_sets[1].replicas = 0;
    let plan = world.plan(&policy(), None).unwrap();
    assert_eq!(plan.report.outcome, Some(Outcome::Undecided));
    let waits = "the canary waits: 0 of 2 canary pods are ready";
    assert_eq!(plan.report.message, waits);
}

#[test]
fn canary_is_good_after_its_bake() {
    let mut world = hold(Fault::None);
    world.now += 119;
    let plan = world.plan(&policy(), None).unwrap();
    assert_eq!(plan.report.outcome, Some(Outcome::Undecided));
    world.now += 1;
    let plan = world.plan(&policy(), None).unwrap();
    assert_eq!(
        (plan.step, plan.report.outcome),
        (None, Some(Outcome::Good))
    );
    let promotes = Policy {
        promotes: true,
        ..policy()
    };
    let plan = world.steer(&promotes, None);
    assert_eq!(plan.report.phase, Phase::Promoting);
    assert!(world.has_user_fields());
    world.settle();
    let plan = world.steer(&promotes, None);
    assert_eq!(plan.report.phase, Phase::Done);
    assert_eq!(
        world.plan(&promotes, None).unwrap().report.phase,
        Phase::Rest
    );
    assert!(world.has_user_fields());
    let metadata = &world.stored.deployment.metadata;
    let keys: Vec<&String> = metadata
        .annotations
        .keys()
        .chain(metadata.labels.keys())
        .collect();
    assert_eq!(keys, ["deployment.kubernetes.io/revision"]);
}

/// The same snapshot with one canary pod changed.
fn with_pod(world: &World, change: impl Fn(&mut Pod)) -> Snapshot {
    let mut snapshot = world.snapshot();
    let mut pods = snapshot.pods.to_vec();
    change(pods.last_mut().unwrap());
    snapshot.pods = pods.into();
    snapshot
}

#[test]
fn restart_begins_the_bake_again() {
    let mut world = hold(Fault::None);
    world.now += 130;
    let restarted = world.now - 30;
    let snapshot = with_pod(&world, |pod| {
        pod.containers[0].restarts = 1;
        pod.containers[0].state = rollplan_core::snapshot::ContainerState::Running {
            started_at: Some(at(restarted)),
        };
    });
    let input = rollplan_canary::Input {
        snapshot,
        policy: policy(),
        command: None,
        verdicts: Vec::new(),
        managed_fields: None,
    };
    let plan = rollplan_canary::plan_canary(&input, &rollplan_core::interrupt::Never);
    let plan = plan.unwrap().unwrap();
    assert_eq!(plan.report.outcome, Some(Outcome::Undecided));
    assert_eq!(plan.requeue_after, Some(Span::from_seconds(90)));
}

#[test]
fn certain_failure_aborts_or_holds() {
    let mut world = hold(Fault::Config);
    assert_eq!(
        world.plan(&policy(), None).unwrap().report.outcome,
        Some(Outcome::Undecided)
    );
    // A container whose image has an invalid name never starts.
    let snapshot = |world: &World| {
        let mut snapshot = world.snapshot();
        let mut pods = snapshot.pods.to_vec();
        for pod in pods.iter_mut().filter(|pod| pod.phase == "Pending") {
            pod.containers[0].state = rollplan_core::snapshot::ContainerState::Waiting {
                reason: "InvalidImageName".to_owned(),
                message: "couldn't parse image name".to_owned(),
            };
        }
        snapshot.pods = pods.into();
        snapshot
    };
    let plan = |world: &World, policy: Policy| {
        let input = rollplan_canary::Input {
            snapshot: snapshot(world),
            policy,
            command: None,
            verdicts: Vec::new(),
            managed_fields: None,
        };
        let plan = rollplan_canary::plan_canary(&input, &rollplan_core::interrupt::Never);
        plan.unwrap().unwrap()
    };
    let holds = Policy {
        aborts_on_failure: false,
        ..policy()
    };
    let held = plan(&world, holds);
    assert_eq!(
        (held.report.phase, held.report.outcome),
        (Phase::Hold, Some(Outcome::Failed))
    );
    assert_eq!(reasons(&held), ["CANARY_FAILED"]);
    let aborted = plan(&world, policy());
    assert_eq!(aborted.report.phase, Phase::Aborting);
    assert!(world.patch(&aborted.step.unwrap().call.body_json));
    assert!(world.has_user_fields());
    world.settle();
    let end = world.steer(&policy(), None);
    assert_eq!(end.report.phase, Phase::Aborted);
    assert_eq!(end.report.rejected_digests.len(), 1);
    assert_eq!((world.image().as_str(), world.size_of(NEW)), ("v1", 0));
}

#[test]
fn canary_that_is_not_decided_times_out() {
    let mut world = hold(Fault::NeverReady);
    let since = world.plan(&policy(), None).unwrap().report.since.unwrap();
    let policy = Policy {
        timeout: Some(Span::from_seconds(600)),
        ..policy()
    };
    world.now += 599 - at(world.now).since(since).seconds();
    let plan = world.plan(&policy, None).unwrap();
    assert_eq!(plan.report.outcome, Some(Outcome::Undecided));
    assert_eq!(plan.requeue_after, Some(Span::from_seconds(1)));
    world.now += 1;
    let plan = world.plan(&policy, None).unwrap();
    assert_eq!(
        (plan.step, plan.report.outcome),
        (None, Some(Outcome::TimedOut))
    );
    let aborts = Policy {
        aborts_on_timeout: true,
        ..policy
    };
    assert_eq!(
        world.plan(&aborts, None).unwrap().report.phase,
        Phase::Aborting
    );
}

#[test]
fn verdicts_count_only_for_their_template_and_time() {
    let mut world = hold(Fault::None);
    world.now += 200;
    let report = world.plan(&policy(), None).unwrap().report;
    let (digest, since) = (report.template_digest, report.since.unwrap());
    let now = at(world.now);
    let verdict = |result, template_digest: &str, observed_at| CallerVerdict {
        name: "smoke".to_owned(),
        template_digest: template_digest.to_owned(),
        step: 1,
        result,
        observed_at,
    };
    use CheckResult::{Fail, Pass, Unknown};
    let (good, waits, failed) = (Outcome::Good, Outcome::Undecided, Outcome::Failed);
    let cases = [
        (vec![], waits),
        (vec![verdict(Pass, &digest, now)], good),
        (vec![verdict(Pass, &digest, since)], good),
        (vec![verdict(Unknown, &digest, now)], waits),
        (vec![verdict(Fail, &digest, now)], failed),
        // About another template, from before the hold, and from the future.
        (vec![verdict(Pass, &report.stable_digest, now)], waits),
        (vec![verdict(Fail, &report.stable_digest, now)], waits),
        (vec![verdict(Pass, &digest, since.plus_seconds(-1))], waits),
        (vec![verdict(Pass, &digest, now.plus_seconds(1))], waits),
        // The latest counts, and of two at one time the worse one.
        (
            vec![verdict(Fail, &digest, since), verdict(Pass, &digest, now)],
            good,
        ),
        (
            vec![
                verdict(Pass, &digest, since),
                verdict(Unknown, &digest, now),
            ],
            waits,
        ),
        (
            vec![verdict(Fail, &digest, now), verdict(Pass, &digest, now)],
            failed,
        ),
    ];
    let gated = Policy {
        gates: vec!["smoke".to_owned()],
        ..policy()
    };
    for (index, (verdicts, outcome)) in cases.into_iter().enumerate() {
        let plan = world.plan_with(&gated, None, verdicts.clone()).unwrap();
        assert_eq!(plan.report.outcome, Some(outcome), "case {index}");
        if !verdicts.is_empty() {
            // A verdict that is given is needed, whether or not the policy names it.
            let plan = world.plan_with(&policy(), None, verdicts).unwrap();
            assert_eq!(plan.report.outcome, Some(outcome), "case {index}");
        }
    }
}

#[test]
fn commands_that_were_carried_out_plan_nothing() {
    let mut world = hold(Fault::None);
    let start = world.start(NEW);
    assert_eq!(world.plan(&policy(), Some(start)).unwrap().step, None);
    world.steer(&policy(), Some(promote()));
    assert_eq!(world.plan(&policy(), Some(promote())).unwrap().step, None);
    world.steer(&policy(), Some(abort()));
    assert_eq!(world.plan(&policy(), Some(abort())).unwrap().step, None);
    world.settle();
    let plan = world.steer(&policy(), Some(abort()));
    assert_eq!(plan.report.phase, Phase::Aborted);
    assert_eq!(world.plan(&policy(), Some(abort())).unwrap().step, None);
    world.steer(&policy(), Some(Command::Release));
    assert_eq!(
        world.plan(&policy(), Some(Command::Release)).unwrap().step,
        None
    );
}

#[test]
fn rejected_template_starts_again_only_with_retry() {
    let mut world = hold(Fault::None);
    world.steer(&policy(), Some(abort()));
    world.settle();
    world.steer(&policy(), None);
    world.settle();
    // Its pipeline may promote it after an automatic abort.
    let promote = Command::Promote {
        template: world
            .plan(&policy(), None)
            .unwrap()
            .report
            .rejected_digests
            .pop(),
        is_forced: true,
        manifest: None,
    };
    for command in [world.start(NEW), promote] {
        let refusal = world.plan(&policy(), Some(command)).unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "deployment \"web\" has rejected this template: change it, or start it again with `rollplan canary retry`"
        );
    }
    let other = world.start("v3");
    assert_eq!(
        world.plan(&policy(), Some(other)).unwrap().report.phase,
        Phase::Hold
    );
    let plan = world.steer(&policy(), Some(Command::Retry));
    assert_eq!(
        (plan.report.phase, plan.report.rejected_digests.len()),
        (Phase::Hold, 0)
    );
    world.settle();
    assert_eq!((world.size_of("v1"), world.size_of(NEW)), (10, 2));
}
