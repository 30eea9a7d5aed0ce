//! What has no canary, and what to do about it.

use rollplan_canary::{ANNOTATION, Command, Phase, Policy, PolicyStep};
use rollplan_core::size::IntOrPercent;
use rollplan_core::snapshot::{Deployment, Strategy};

use crate::world::{NEW, World, abort, promote};

fn world() -> World {
    World::new(4, IntOrPercent::Int(2), IntOrPercent::Int(0), 0)
}

/// The refusal of a start after a change of the Deployment.
fn refusal(policy: &Policy, change: impl FnOnce(&mut Deployment)) -> String {
    let mut world = world();
    world.edit(change);
    let start = world.start(NEW);
    let refusal = world.plan(policy, Some(start)).unwrap_err().to_string();
    refusal
        .strip_prefix("deployment \"web\" ")
        .unwrap()
        .to_owned()
}

#[test]
fn start_is_refused_with_what_to_do() {
    let policy = Policy::default();
    let pods = |pods| Policy {
        steps: vec![PolicyStep::from(pods)],
        ..Policy::default()
    };
    let none = |_: &mut Deployment| {};
    let refusals = [
        refusal(&policy, |it| it.spec.paused = true),
        refusal(&policy, |it| it.spec.strategy = Strategy::Recreate),
        refusal(&policy, |it| it.spec.replicas = 0),
        refusal(&policy, |it| it.spec.min_ready_seconds = i32::MAX - 1),
        refusal(&policy, |it| {
            it.spec.strategy = rollplan_world::rolling(0, 1);
        }),
        refusal(&pods(IntOrPercent::Int(3)), none),
        refusal(&pods(IntOrPercent::Int(0)), none),
        refusal(&pods(IntOrPercent::Percent(125)), none),
        refusal(&policy, |it| {
            it.status.observed_generation = i64::MAX;
            it.status.updated_replicas = 0;
        }),
        refusal(&policy, |it| it.metadata.generation += 1),
        refusal(&policy, |it| {
            let annotations = &mut it.metadata.annotations;
            annotations.insert(
                "rollouts.kruise.io/deployment-strategy".to_owned(),
                "{}".to_owned(),
            );
        }),
        refusal(&policy, |it| {
            it.metadata.deletion_timestamp = it.metadata.creation_timestamp;
        }),
    ];
    assert_eq!(
        refusals,
        [
            "is paused: resume it first",
            "has the strategy Recreate, which has no surge: change it to RollingUpdate first",
            "has no desired pods: scale it up first",
            "has a minReadySeconds of 2147483646 or more, which canaries use themselves: lower it first",
            "has maxSurge 0, and a canary is held within the surge: allow some with --surge, or raise maxSurge",
            "allows a surge of 2, which is less than the 3 canary pods: choose fewer with --pods or \
             --steps, or allow more with --surge",
            "has 4 desired pods, and 0 canary pods were requested: choose from 1 to 4 with --pods or --steps",
            "has 4 desired pods, and 125% canary pods were requested: choose from 1 to 4 with --pods or --steps",
            "has a rollout that is not complete: wait until it completes, or roll it back with `rollplan undo`",
            "has a change that the Deployment controller has not observed yet: start the canary again in a moment",
            "belongs to another controller, according to \"rollouts.kruise.io/deployment-strategy\": remove it from that \
             controller first",
            "is being deleted: create it again first",
        ]
    );
}

#[test]
fn start_takes_only_a_new_template() {
    let world = world();
    let same = world.start("v1");
    let refusal = world.plan(&Policy::default(), Some(same)).unwrap_err();
    assert!(
        refusal
            .to_string()
            .contains("already has this pod template"),
        "{refusal}"
    );
    let Command::Start(mut changed) = world.start(NEW) else {
        unreachable!()
    };
    changed.deployment.spec.replicas = 7;
    changed.deployment.spec.min_ready_seconds = 3;
    let refusal = world
        .plan(&Policy::default(), Some(Command::Start(changed)))
        .unwrap_err();
    assert!(
        refusal
            .to_string()
            .contains("would also change replicas, minReadySeconds, which a canary does not:"),
        "{refusal}"
    );
}

#[test]
fn commands_need_a_canary() {
    let world = world();
    for command in [promote(), abort()] {
        let refusal = world.plan(&Policy::default(), Some(command)).unwrap_err();
        assert!(refusal.to_string().contains("has no canary"), "{refusal}");
    }
    let refusal = world
        .plan(&Policy::default(), Some(Command::Retry))
        .unwrap_err();
    assert!(
        refusal.to_string().contains("no rejected template"),
        "{refusal}"
    );
}

#[test]
fn surge_of_the_policy_is_allowed_beside_that_of_the_user() {
    let mut world = World::new(4, IntOrPercent::Int(0), IntOrPercent::Int(1), 0);
    let policy = Policy {
        surge: Some(IntOrPercent::Int(1)),
        ..Policy::default()
    };
    let start = world.start(NEW);
    let plan = world.steer(&policy, Some(start));
    assert_eq!((plan.report.pods_max, plan.report.available_min), (5, 3));
    world.settle();
    assert_eq!((world.size_of("v1"), world.size_of(NEW)), (4, 1));
    world.steer(&policy, Some(promote()));
    world.settle();
    assert_eq!(world.steer(&policy, None).report.phase, Phase::Done);
    assert!(world.has_user_fields());
}

/// A hold whose annotation is changed by another client.
fn edited(edit: impl FnOnce(&str) -> String) -> String {
    let mut world = world();
    let start = world.start(NEW);
    world.steer(&Policy::default(), Some(start));
    world.settle();
    world.edit(|it| {
        let state = it.metadata.annotations.get_mut(ANNOTATION).unwrap();
        *state = edit(state);
    });
    for command in [None, Some(promote()), Some(abort())] {
        assert!(world.plan(&Policy::default(), command).is_err());
    }
    world
        .plan(&Policy::default(), None)
        .unwrap_err()
        .to_string()
}

#[test]
fn state_that_cannot_be_read_is_never_overwritten() {
    let texts = [
        edited(|state| state.replace(r#""seq":1"#, r#""seq":2"#)),
        edited(|state| state[..state.len() - 9].to_owned()),
        edited(|_| String::new()),
        edited(|state| state.replace(r#""phase":"hold""#, r#""phase":"aborted""#)),
    ];
    for text in texts {
        assert!(text.contains("was edited or truncated"), "{text}");
    }
    let newer = edited(|state| state.replace(r#""v":1"#, r#""v":3"#));
    assert!(newer.contains("newer version of rollplan"), "{newer}");
}

#[test]
fn state_of_another_deployment_is_released() {
    let mut world = world();
    let start = world.start(NEW);
    world.steer(&Policy::default(), Some(start));
    world.settle();
    world.stored.deployment.metadata.uid = "copy".to_owned();
    let refusal = world.plan(&Policy::default(), None).unwrap_err();
    assert!(
        refusal.to_string().contains("of another Deployment"),
        "{refusal}"
    );
    world.steer(&Policy::default(), Some(Command::Release));
    assert!(world.has_user_fields());
    assert!(
        !world
            .stored
            .deployment
            .metadata
            .annotations
            .contains_key(ANNOTATION)
    );
}

#[test]
fn incomplete_lists_are_refused() {
    let mut world = world();
    world.stored.pods_complete = false;
    let refusal = world.plan(&Policy::default(), None).unwrap_err();
    assert!(
        refusal.to_string().contains("may be incomplete"),
        "{refusal}"
    );
}
