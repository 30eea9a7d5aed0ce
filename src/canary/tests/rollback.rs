//! The automatic rollback of plain rollouts.

use rollplan_canary::{Command, Input, Phase, Plan, Policy, plan_canary};
use rollplan_core::interrupt::Never;
use rollplan_core::size::IntOrPercent;
use rollplan_core::snapshot::ContainerState;
use rollplan_core::template::{Template, Value};
use serde_json::json;

use crate::pods::Fault;
use crate::world::{World, promote};

fn policy() -> Policy {
    Policy {
        rolls_back: true,
        ..Policy::default()
    }
}

/// A rollout whose image cannot be pulled.
fn rollout(world: &mut World, image: &'static str) {
    world.faults.insert(image, Fault::ImagePull);
    world.apply_image(image);
    world.settle();
    world.now += 300;
}

/// Plans with pods that wait for this reason.
fn plan(world: &World, policy: &Policy, reason: &str) -> Plan {
    let mut snapshot = world.snapshot();
    let mut pods = snapshot.pods.to_vec();
    for pod in pods.iter_mut().filter(|pod| pod.phase == "Pending") {
        pod.containers[0].state = ContainerState::Waiting {
            reason: reason.to_owned(),
            message: String::new(),
        };
    }
    snapshot.pods = pods.into();
    let input = Input {
        snapshot,
        policy: policy.clone(),
        command: None,
        verdicts: Vec::new(),
        managed_fields: None,
    };
    plan_canary(&input, &Never).unwrap().unwrap()
}

const BAD: &str = "InvalidImageName";

fn steer(world: &mut World) -> Plan {
    let plan = plan(world, &policy(), BAD);
    if let Some(step) = &plan.step {
        assert!(world.patch(&step.call.body_json));
        world.settle();
    }
    plan
}

fn world() -> World {
    World::new(4, IntOrPercent::Int(1), IntOrPercent::Int(1), 0)
}

#[test]
fn rollout_that_needs_a_change_is_rolled_back_once() {
    let mut world = world();
    rollout(&mut world, "v2");
    let first = steer(&mut world);
    assert_eq!(first.report.phase, Phase::Aborting);
    assert_eq!(
        first.report.message,
        "the rollout is rolled back to ReplicaSet web-v1"
    );
    let second = steer(&mut world);
    assert_eq!(second.report.phase, Phase::Aborted);
    assert_eq!((world.image().as_str(), world.size_of("v1")), ("v1", 4));
    assert!(world.has_user_fields());
    // The template is applied again, for example by a GitOps tool.
    rollout(&mut world, "v2");
    let again = steer(&mut world);
    assert_eq!((&again.step, again.report.phase), (&None, Phase::Aborted));
    assert_eq!(again.report.reasons[0].kind.as_str(), "REJECTED_TEMPLATE");
    // Until the user wants to retry it.
    let retry = world.plan(&policy(), Some(Command::Retry)).unwrap();
    assert!(world.patch(&retry.step.unwrap().call.body_json));
    world.settle();
    assert_eq!(steer(&mut world).report.phase, Phase::Aborting);
}

#[test]
fn template_of_the_last_available_pods_is_restored() {
    let mut world = world();
    rollout(&mut world, "v2");
    rollout(&mut world, "v3");
    steer(&mut world);
    assert_eq!(world.image(), "v1");
}

#[test]
fn rollout_is_left_alone() {
    let mut world = world();
    rollout(&mut world, "v2");
    // Without the policy, while it is not certain, and while it is paused.
    assert_eq!(plan(&world, &Policy::default(), BAD).step, None);
    assert_eq!(plan(&world, &policy(), "ContainerCreating").step, None);
    world.edit(|it| it.spec.paused = true);
    assert_eq!(plan(&world, &policy(), BAD).step, None);
}

#[test]
fn memory_ends_with_a_complete_rollout_of_another_template() {
    let mut world = world();
    rollout(&mut world, "v2");
    steer(&mut world);
    steer(&mut world);
    world.apply_image("v3");
    world.settle();
    let plan = world.steer(&policy(), None);
    assert_eq!(plan.report.phase, Phase::Rest);
    let annotations = &world.stored.deployment.metadata.annotations;
    assert_eq!(
        annotations.keys().collect::<Vec<_>>(),
        ["deployment.kubernetes.io/revision"]
    );
}

#[test]
fn failed_promotion_is_aborted() {
    let mut world = World::new(4, IntOrPercent::Int(1), IntOrPercent::Int(0), 0);
    world.faults.insert("v2", Fault::ImagePull);
    let start = world.start("v2");
    world.steer(&policy(), Some(start));
    world.steer(&policy(), Some(promote()));
    world.settle();
    world.now += 300;
    assert_eq!(steer(&mut world).report.phase, Phase::Aborting);
    assert_eq!(
        (
            world.image().as_str(),
            world.size_of("v1"),
            world.size_of("v2")
        ),
        ("v1", 4, 0)
    );
}

/// A template whose container has this environment.
fn with_environment(template: &Template, environment: &serde_json::Value) -> Template {
    let mut value = template.value().clone();
    let spec = value.as_map_mut().unwrap().get_mut("spec").unwrap();
    let Some(Value::List(containers)) = spec.as_map_mut().unwrap().get_mut("containers") else {
        unreachable!()
    };
    let container = containers[0].as_map_mut().unwrap();
    for (field, list) in environment.as_object().unwrap() {
        container.insert(field.clone(), Value::from(list));
    }
    Template::from(value)
}

fn reads_secret(name: &str) -> serde_json::Value {
    json!({"envFrom": [{"secretRef": {"name": name}}]})
}

fn reads_keys(keys: &[&str]) -> serde_json::Value {
    let variable = |key: &&str| json!({"name": key, "valueFrom": {"secretKeyRef": {"name": "web", "key": key}}});
    json!({"env": keys.iter().map(variable).collect::<Vec<_>>()})
}

/// The plan of a rollback of a rollout from one environment to another, whose pods wait because of this message of the
/// kubelet.
fn plan_with_fault(stable: &serde_json::Value, new: &serde_json::Value, message: &str) -> Plan {
    let mut world = world();
    let before = with_environment(&crate::world::template("v1"), stable);
    world.stored.deployment.spec.template = before.clone();
    let mut set = before.value().clone();
    let labels = set.as_map_mut().unwrap().get_mut("metadata").unwrap();
    let labels = labels.as_map_mut().unwrap().get_mut("labels").unwrap();
    let hash = world.stored.replica_sets[0].template.value();
    let hash = hash
        .at(&["metadata", "labels", "pod-template-hash"])
        .cloned();
    labels
        .as_map_mut()
        .unwrap()
        .insert("pod-template-hash".to_owned(), hash.unwrap());
    world.stored.replica_sets[0].template = Template::from(set);
    world.settle();
    world.faults.insert("v2", Fault::Config);
    world.edit(|it| it.spec.template = with_environment(&crate::world::template("v2"), new));
    world.settle();
    world.now += 900;
    let mut snapshot = world.snapshot();
    let mut pods = snapshot.pods.to_vec();
    for pod in pods.iter_mut().filter(|pod| pod.phase == "Pending") {
        pod.containers[0].state = ContainerState::Waiting {
            reason: "CreateContainerConfigError".to_owned(),
            message: message.to_owned(),
        };
    }
    snapshot.pods = pods.into();
    let input = Input {
        snapshot,
        policy: policy(),
        command: None,
        verdicts: Vec::new(),
        managed_fields: None,
    };
    plan_canary(&input, &Never).unwrap().unwrap()
}

#[test]
fn fault_that_the_stable_template_has_as_well_is_not_rolled_back() {
    let kinds = |plan: &Plan| -> Vec<&str> {
        let reasons = plan.report.reasons.iter();
        reasons.map(|it| it.kind.as_str()).collect()
    };
    let has_fault = |stable, new, message| {
        let plan = plan_with_fault(&stable, &new, message);
        match plan.report.phase {
            Phase::Aborting => assert_eq!(kinds(&plan), ["ROLLOUT_FAILED"]),
            phase => {
                assert_eq!(kinds(&plan), ["ROLLOUT_FAILED", "STABLE_HAS_FAULT"]);
                assert_eq!((phase, &plan.step), (Phase::Rest, &None));
                assert_eq!(plan.report.rejected_digests, [""; 0]);
            }
        }
        plan.step.is_none()
    };
    let missing = "secret \"web\" not found";
    assert!(has_fault(reads_secret("web"), reads_secret("web"), missing));
    assert!(!has_fault(
        reads_secret("web-2"),
        reads_secret("web"),
        missing
    ));
    // The stable template reads another key of the same Secret, or all keys that there are.
    let missing = "couldn't find key token in Secret default/web";
    assert!(has_fault(
        reads_keys(&["name", "token"]),
        reads_keys(&["token"]),
        missing
    ));
    assert!(!has_fault(
        reads_keys(&["name"]),
        reads_keys(&["name", "token"]),
        missing
    ));
    assert!(!has_fault(
        reads_secret("web"),
        reads_keys(&["token"]),
        missing
    ));
}
