//! Canaries: requests in, responses out.

use prost::Message as _;
use prost_types::Duration;
use rollplan::proto;
use rollplan::service::MethodRequest as _;
use rollplan::wire::{Context, Error};
use rollplan_core::interrupt::Interrupt;
use serde_json::{Value, json};

use super::example;
use crate::request::{Request, call, half_way};

/// A Deployment whose rollout is complete, with a surge of one pod.
fn complete() -> Request {
    let mut request = example("after-undo");
    let strategy =
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    request.items[0]["spec"]["strategy"] = strategy;
    request
}

fn mk_canary(request: &Request) -> proto::PlanCanaryRequest {
    proto::PlanCanaryRequest {
        snapshot: request.message().snapshot,
        ..Default::default()
    }
}

/// The start of a canary with another image.
fn start(request: &Request) -> proto::PlanCanaryRequest {
    let mut deployment = request.items[0].clone();
    deployment["spec"]["template"]["spec"]["containers"][0]["image"] = "new:1".into();
    proto::PlanCanaryRequest {
        command: Some(command(proto::CanaryAction::Start, &deployment.to_string())),
        ..mk_canary(request)
    }
}

fn command(action: proto::CanaryAction, deployment: &str) -> proto::CanaryCommand {
    proto::CanaryCommand {
        action: action.into(),
        deployment: deployment.to_owned(),
        ..Default::default()
    }
}

#[test]
fn start_returns_one_patch_with_its_preconditions() {
    let request = complete();
    let answer = rollplan::service::answer(start(&request)).unwrap();
    let [step] = &answer.steps[..] else {
        panic!("{:?}", answer.steps);
    };
    assert_eq!(step.on_failure(), proto::OnFailure::Stop);
    let call = step.call.as_ref().unwrap();
    assert_eq!(call.verb(), proto::Verb::Patch);
    assert_eq!(call.content_type, "application/json-patch+json");
    assert_eq!(call.query, "fieldManager=rollplan-canary");
    let patch: Vec<Value> = serde_json::from_str(&call.body_json).unwrap();
    let at = |path: &str| {
        let operation = patch.iter().find(|it| it["path"] == path);
        operation.map(|it| (it["op"].as_str().unwrap().to_owned(), it["value"].clone()))
    };
    let metadata = &request.items[0]["metadata"];
    let test = |value: &Value| Some(("test".to_owned(), value.clone()));
    assert_eq!(at("/metadata/uid"), test(&metadata["uid"]));
    assert_eq!(at("/metadata/generation"), test(&metadata["generation"]));
    assert_eq!(
        at("/spec/minReadySeconds"),
        Some(("add".to_owned(), json!(2_147_483_646)))
    );
    let (op, template) = at("/spec/template").unwrap();
    assert_eq!(
        (op.as_str(), &template["spec"]["containers"][0]["image"]),
        ("replace", &json!("new:1"))
    );
    let report = answer.report.unwrap();
    assert_eq!(report.phase(), proto::CanaryPhase::Hold);
    assert_eq!(report.outcome(), proto::CanaryOutcome::Undecided);
    assert_eq!((report.pods_wanted, report.pods_available), (1, 0));
    assert!(
        report.template_digest.starts_with("sha256:")
            && report.stable_digest.starts_with("sha256:")
    );
}

/// The managers that own fields lose what a canary writes, and get it back at its end.
#[test]
fn fields_belong_to_their_owners_again_at_the_end() {
    let mut request = complete();
    let surge = json!({"f:strategy": {"f:rollingUpdate": {"f:maxSurge": {}}}});
    let entry = |manager: &str, operation: &str, fields: Value| {
        json!({"manager": manager, "operation": operation, "apiVersion": "apps/v1", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": fields}})
    };
    let owner = entry("ci", "Apply", surge.clone());
    let metadata = &mut request.items[0]["metadata"];
    metadata["resourceVersion"] = "7".into();
    metadata["managedFields"] = json!([owner]);
    let answer = rollplan::service::answer(start(&request)).unwrap();
    let deployment = &mut request.items[0];
    apply(deployment, &answer);
    let metadata = &mut deployment["metadata"];
    metadata["managedFields"] = json!([
        entry("ci", "Apply", json!({"f:selector": {}})),
        entry("rollplan-canary", "Update", surge.clone()),
    ]);
    let release = proto::PlanCanaryRequest {
        command: Some(command(proto::CanaryAction::Release, "")),
        ..mk_canary(&request)
    };
    let answer = rollplan::service::answer(release).unwrap();
    let mut fields = surge;
    fields["f:selector"] = json!({});
    let deployment = &mut request.items[0];
    apply(deployment, &answer);
    let owned = json!([entry("ci", "Apply", fields)]);
    assert_eq!(deployment["metadata"]["managedFields"], owned);
    let body = &answer.steps[0].call.as_ref().unwrap().body_json;
    let version = json!({"op": "test", "path": "/metadata/resourceVersion", "value": "7"});
    let patch: Vec<Value> = serde_json::from_str(body).unwrap();
    assert!(patch.contains(&version), "{body}");
}

/// Makes the writes of the patch of a plan.
fn apply(deployment: &mut Value, answer: &proto::PlanCanaryResponse) {
    let body = &answer.steps[0].call.as_ref().unwrap().body_json;
    let patch: Vec<Value> = serde_json::from_str(body).unwrap();
    for operation in patch.iter().filter(|it| it["op"] != "test") {
        let (parent, key) = operation["path"]
            .as_str()
            .unwrap()
            .rsplit_once('/')
            .unwrap();
        let parent = deployment.pointer_mut(parent).unwrap();
        let key = key.replace("~1", "/");
        if operation["op"] == "remove" {
            drop(parent.as_object_mut().unwrap().remove(&key));
        } else {
            parent[key] = operation["value"].clone();
        }
    }
}

#[test]
fn without_a_command_and_a_canary_nothing_is_planned() {
    let answer = rollplan::service::answer(mk_canary(&complete())).unwrap();
    assert_eq!((answer.steps.len(), answer.requeue_after), (0, None));
    assert_eq!(answer.report.unwrap().phase(), proto::CanaryPhase::Rest);
}

#[test]
fn the_same_request_has_the_same_bytes() {
    let request = start(&complete());
    let bytes = request.encode_to_vec();
    let first = call("PlanCanary", &bytes).unwrap();
    assert_eq!(call("PlanCanary", &bytes).unwrap(), first);
    assert_eq!(
        rollplan::service::answer(request).unwrap().encode_to_vec(),
        first
    );
}

#[test]
fn refusals_have_a_reason() {
    let check = |request, reason| match rollplan::service::answer(request) {
        Err(Error::Canary(refusal)) => assert_eq!(refusal.cause.as_str(), reason, "{refusal}"),
        answer => panic!("{reason}: {answer:?}"),
    };
    check(mk_canary(&half_way()), "LISTS_INCOMPLETE");
    check(start(&example("mid-rollout")), "ROLLOUT_NOT_COMPLETE");
    for action in [proto::CanaryAction::Promote, proto::CanaryAction::Abort] {
        let request = proto::PlanCanaryRequest {
            command: Some(command(action, "")),
            ..mk_canary(&complete())
        };
        check(request, "NO_CANARY");
    }
    let mut other = complete();
    let request = start(&other);
    other.items[0]["spec"]["minReadySeconds"] = 3.into();
    let request = proto::PlanCanaryRequest {
        snapshot: other.message().snapshot,
        ..request
    };
    check(request, "OTHER_CHANGES");
}

#[test]
fn violations_have_their_path() {
    let second = |seconds| Some(Duration { seconds, nanos: 0 });
    let promote = proto::CanaryResponse::Promote.into();
    let request = proto::PlanCanaryRequest {
        policy: Some(proto::CanaryPolicy {
            pods: "some".to_owned(),
            surge: "-1".to_owned(),
            bake: second(-1),
            on_success: proto::CanaryResponse::Abort.into(),
            on_failure: promote,
            timeout: second(-1),
            on_timeout: promote,
            on_rollout_failure: 9,
            ..Default::default()
        }),
        command: Some(command(proto::CanaryAction::Abort, "{}")),
        verdicts: vec![proto::CanaryVerdict {
            result: 9,
            ..Default::default()
        }],
        ..mk_canary(&complete())
    };
    let mut unspecified = request.clone();
    let violations = match rollplan::service::answer(request) {
        Err(Error::InvalidArgument(violations)) => violations.listed,
        answer => panic!("{answer:?}"),
    };
    let violations: Vec<String> = violations
        .into_iter()
        .map(|it| format!("{}: {}", it.field, it.reason))
        .collect();
    assert_eq!(
        violations,
        [
            "policy.on_success: OUT_OF_RANGE",
            "policy.on_failure: OUT_OF_RANGE",
            "policy.on_timeout: OUT_OF_RANGE",
            "policy.on_rollout_failure: UNKNOWN_ENUM_VALUE",
            "policy.pods: OUT_OF_RANGE",
            "policy.surge: OUT_OF_RANGE",
            "policy.bake: NEGATIVE",
            "policy.timeout: NEGATIVE",
            "verdicts[0].name: REQUIRED",
            "verdicts[0].template_digest: REQUIRED",
            "verdicts[0].observed_at: REQUIRED",
            "verdicts[0].result: UNKNOWN_ENUM_VALUE",
            "command.deployment: OUT_OF_RANGE",
        ]
    );
    let step = |pods: &str| proto::CanaryPolicyStep {
        pods: pods.to_owned(),
        bake: second(-1),
        ..Default::default()
    };
    let steps = proto::PlanCanaryRequest {
        policy: Some(proto::CanaryPolicy {
            steps: vec![step("3"), step(""), step("25%"), step("025%"), step("4")],
            on_step: proto::CanaryResponse::Abort.into(),
            ..Default::default()
        }),
        verdicts: vec![proto::CanaryVerdict {
            step: -1,
            ..Default::default()
        }],
        ..mk_canary(&complete())
    };
    let mut both = steps.clone();
    both.policy.as_mut().unwrap().pods = "1".to_owned();
    let error = rollplan::service::answer(steps).unwrap_err().to_string();
    for text in [
        "policy.on_step: must be CANARY_RESPONSE_PROMOTE or CANARY_RESPONSE_HOLD, and not CANARY_RESPONSE_ABORT",
        "policy.steps[0].bake: must be a duration that is not negative",
        "policy.steps[1].pods: is required",
        "policy.steps[3].pods: must exceed that of the step before, and not be 025%",
        "verdicts[0].step: must not be negative",
    ] {
        assert!(error.contains(text), "{error}");
    }
    assert!(!error.contains("policy.steps[4].pods"), "{error}");
    let error = rollplan::service::answer(both).unwrap_err().to_string();
    assert!(
        error.contains("policy.steps: must be empty with pods"),
        "{error}"
    );
    let command = proto::CanaryCommand {
        template_digest: "sha256:1".to_owned(),
        force: true,
        pipeline: "x".repeat(257),
        replace: true,
        ..command(proto::CanaryAction::Retry, "")
    };
    let commands = proto::PlanCanaryRequest {
        command: Some(command),
        ..mk_canary(&complete())
    };
    let error = rollplan::service::answer(commands).unwrap_err().to_string();
    for text in [
        "command.template_digest: is only allowed with CANARY_ACTION_PROMOTE and CANARY_ACTION_ABORT",
        "command.force: is only allowed with CANARY_ACTION_PROMOTE",
        "command.pipeline: is only allowed with CANARY_ACTION_START",
        "command.replace: is only allowed with CANARY_ACTION_START",
        "command.pipeline: must have at most 256 bytes",
    ] {
        assert!(error.contains(text), "{error}");
    }
    let mut nameless = start(&complete());
    nameless.command.as_mut().unwrap().replace = true;
    let error = rollplan::service::answer(nameless).unwrap_err().to_string();
    assert!(
        error.contains("command.pipeline: is required with replace"),
        "{error}"
    );
    unspecified.command = Some(proto::CanaryCommand::default());
    let error = rollplan::service::answer(unspecified)
        .unwrap_err()
        .to_string();
    assert!(error.contains("command.action"), "{error}");
}

#[test]
fn canary_of_another_deployment_is_refused() {
    let request = complete();
    let mut deployment = request.items[0].clone();
    deployment["metadata"]["name"] = "other".into();
    let other = proto::PlanCanaryRequest {
        command: Some(command(proto::CanaryAction::Start, &deployment.to_string())),
        ..mk_canary(&request)
    };
    let error = rollplan::service::answer(other).unwrap_err().to_string();
    assert!(
        error.contains("command.deployment.metadata.name"),
        "{error}"
    );
}

#[test]
fn limits_of_the_contract_are_enforced() {
    let mut gates = mk_canary(&complete());
    gates.policy = Some(proto::CanaryPolicy {
        gates: vec![String::new(); 1001],
        ..Default::default()
    });
    let mut steps = mk_canary(&complete());
    steps.policy = Some(proto::CanaryPolicy {
        steps: vec![proto::CanaryPolicyStep::default(); 101],
        ..Default::default()
    });
    let mut gates_of_steps = mk_canary(&complete());
    let step = proto::CanaryPolicyStep {
        gates: vec![String::new(); 501],
        ..Default::default()
    };
    gates_of_steps.policy = Some(proto::CanaryPolicy {
        steps: vec![step; 2],
        ..Default::default()
    });
    let mut verdicts = mk_canary(&complete());
    verdicts.verdicts = vec![proto::CanaryVerdict::default(); 1001];
    for (request, what) in [
        (gates, "policy.gates"),
        (gates_of_steps, "policy.gates"),
        (steps, "policy.steps"),
        (verdicts, "verdicts"),
    ] {
        let error = rollplan::service::answer(request).unwrap_err();
        assert!(
            matches!(error, Error::TooLarge { what: it, .. } if it == what),
            "{error}"
        );
    }
}

struct Always;

impl Interrupt for Always {
    fn is_interrupted(&self) -> bool {
        true
    }
}

#[test]
fn interrupted_plan_stops() {
    let error = start(&complete())
        .answer(&mut Context::until(&Always))
        .unwrap_err();
    assert!(matches!(error, Error::Interrupted(_)), "{error}");
}
