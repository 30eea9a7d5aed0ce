//! The calls of plans contain everything that a client needs.

use std::collections::BTreeSet;

use rollplan::proto;
use rollplan::wire::{self, Error, Reason};

use super::objects::{half_way, list, with_texts};
use super::{Parts as _, example, examples, mk_request, request};

/// All calls of a plan, including those that record events or read an existing object.
fn all_calls(plan: proto::PlanRolloutResponse) -> Vec<proto::ApiCall> {
    let steps = plan.steps.into_iter();
    steps
        .flat_map(|step| {
            let calls = step.call.into_iter().chain(step.read_on_conflict);
            calls.chain(step.event_calls)
        })
        .collect()
}

fn is_dns(segment: &str) -> bool {
    let is_inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = segment.as_bytes();
    bytes.first().is_some_and(|&byte| is_inside(byte))
        && bytes.last().is_some_and(|&byte| is_inside(byte))
        && bytes
            .iter()
            .all(|&byte| is_inside(byte) || b"-.".contains(&byte))
}

#[test]
fn paths_have_the_plural_the_namespace_and_the_subresource() {
    let mut found = BTreeSet::new();
    for (name, list) in examples() {
        for is_native in [true, false] {
            let mut request = request(&list);
            request.options.get_or_insert_default().events_as_calls = true;
            if !is_native {
                request.deployment().api_version = "apps.rollplan.dev/v1alpha1".to_owned();
                request.deployment().kind = "PlannedDeployment".to_owned();
            }
            for call in all_calls(wire::plan_rollout(request).unwrap()) {
                let proto::ApiCall {
                    api_version,
                    namespace,
                    name: object,
                    subresource,
                    path,
                    query,
                    ..
                } = &call;
                let plural = format!("{}s", call.kind.to_lowercase());
                let root = match api_version.as_str() {
                    "v1" => "/api",
                    _ => "/apis",
                };
                let mut expected = format!("{root}/{api_version}/namespaces/{namespace}/{plural}");
                if call.verb() != proto::Verb::Create {
                    expected += &format!("/{object}");
                }
                if !subresource.is_empty() {
                    expected += &format!("/{subresource}");
                }
                assert_eq!(*path, expected, "{name}");
                assert!(path[1..].split('/').all(is_dns), "{path}");
                assert!(
                    query.is_empty() || query.starts_with("fieldManager=rollplan"),
                    "{query}"
                );
                found.insert((call.verb().as_str_name(), plural, subresource.clone()));
            }
        }
    }
    for (verb, plural, subresource) in [
        ("VERB_CREATE", "replicasets", ""),
        ("VERB_CREATE", "events", ""),
        ("VERB_GET", "replicasets", ""),
        ("VERB_PATCH", "replicasets", ""),
        ("VERB_DELETE", "replicasets", ""),
        ("VERB_PATCH", "deployments", "status"),
        ("VERB_PATCH", "planneddeployments", "status"),
    ] {
        let call = (verb, plural.to_owned(), subresource.to_owned());
        assert!(found.contains(&call), "{call:?} is not in {found:?}");
    }
}

/// Names in typed fields and in `objects_json` that would lead to another API path.
#[test]
fn names_that_change_a_path_are_refused() {
    const HOSTILE: [&str; 14] = [
        "web/../../secrets",
        "..",
        ".",
        "web/status",
        "/web",
        "web/",
        "web?dryRun=All",
        "web#x",
        "web%2f..%2fsecrets",
        "web secrets",
        "Web",
        "-web",
        "w\u{fc}b",
        "web\n",
    ];
    let refused = |request: proto::PlanRolloutRequest, field: &str, text: &str| {
        let Err(Error::InvalidArgument(violations)) = wire::plan_rollout(request) else {
            panic!("{field} is {text:?}");
        };
        let mut listed = violations.listed.iter();
        assert!(
            listed.any(|it| it.field.ends_with(field) && it.reason == Reason::InvalidName),
            "{field} is {text:?}: {violations}"
        );
    };
    let (typed, items) = half_way();
    let changed = |change: &dyn Fn(&mut proto::PlanRolloutRequest)| {
        let mut request = typed.clone();
        change(&mut request);
        request
    };
    let in_texts = |pointer: &str, text: &str| {
        let mut items = items.clone();
        *items[0].pointer_mut(pointer).unwrap() = text.into();
        with_texts(&typed, vec![list(&items).to_string()])
    };
    for text in HOSTILE {
        let owned = || text.to_owned();
        refused(changed(&|r| r.meta().name = owned()), "metadata.name", text);
        refused(
            changed(&|r| r.meta().namespace = owned()),
            "metadata.namespace",
            text,
        );
        refused(
            changed(&|r| r.set_meta(0).name = owned()),
            "metadata.name",
            text,
        );
        refused(in_texts("/metadata/name", text), "metadata.name", text);
        refused(
            in_texts("/metadata/namespace", text),
            "metadata.namespace",
            text,
        );
        let target = proto::Target {
            resource: owned(),
            ..Default::default()
        };
        let resource = changed(&|r| r.snapshot().target = Some(target.clone()));
        refused(resource, "target.resource", text);
        let of_kind = |api_version: &str, kind: &str| {
            changed(&|r| {
                r.deployment().api_version = api_version.to_owned();
                r.deployment().kind = kind.to_owned();
            })
        };
        // Kinds may be in upper case.
        if text != "Web" {
            refused(of_kind("example.com/v1", text), "deployment.kind", text);
        }
        for api_version in [format!("{text}/v1"), format!("example.com/{text}")] {
            refused(of_kind(&api_version, "Fleet"), "api_version", text);
        }
    }
    for resource in ["-", "--", "deployments-", "a.b"] {
        let target = proto::Target {
            resource: resource.to_owned(),
            ..Default::default()
        };
        let request = changed(&|r| r.snapshot().target = Some(target.clone()));
        refused(request, "target.resource", resource);
    }
}

/// The API server keeps the unknown fields of a custom resource, and would drop them from its ReplicaSets.
#[test]
fn replica_sets_of_custom_resources_are_validated_strictly() {
    let mut strict = 0;
    for (name, list) in examples() {
        for is_native in [true, false] {
            let mut request = request(&list);
            if !is_native {
                let deployment = request.snapshot().deployment.as_mut().unwrap();
                deployment.api_version = "apps.rollplan.dev/v1alpha1".to_owned();
                deployment.kind = "PlannedDeployment".to_owned();
            }
            let response = wire::plan_rollout(request).unwrap();
            for call in response.steps.iter().filter_map(|it| it.call.as_ref()) {
                let is_create = call.verb() == proto::Verb::Create && call.kind == "ReplicaSet";
                let is_strict = call.query == "fieldManager=rollplan&fieldValidation=Strict";
                assert_eq!(is_strict, is_create && !is_native, "{name}: {}", call.query);
                strict += usize::from(is_strict);
            }
        }
    }
    assert!(strict > 0);
}

#[test]
fn resource_of_the_target_is_used_in_paths() {
    let list = example("mid-rollout");
    let mut request = request(&list);
    let deployment = request.deployment();
    deployment.api_version = "example.com/v1".to_owned();
    deployment.kind = "Fleet".to_owned();
    let paths = |resource: &str| -> Vec<String> {
        let mut request = request.clone();
        request.snapshot.as_mut().unwrap().target = Some(proto::Target {
            resource: resource.to_owned(),
            ..proto::Target::default()
        });
        let steps = wire::plan_rollout(request).unwrap().steps;
        let calls = steps.into_iter().filter_map(|step| step.call);
        calls
            .filter(|call| call.kind == "Fleet")
            .map(|call| call.path)
            .collect()
    };
    let (derived, given) = (paths(""), paths("fleet"));
    assert!(
        derived.iter().any(|path| path.contains("/fleets/web")),
        "{derived:?}"
    );
    let expected: Vec<String> = derived
        .iter()
        .map(|path| path.replace("/fleets/", "/fleet/"))
        .collect();
    assert_eq!(given, expected);
}

/// If the name is taken, a client reads the existing object.
#[test]
fn create_steps_have_a_call_that_reads_the_existing_object() {
    let plan = wire::plan_rollout(request(&example("fresh-create"))).unwrap();
    let mut creates = 0;
    for step in plan.steps {
        let Some(call) = step.call else {
            continue;
        };
        let is_create = call.verb() == proto::Verb::Create;
        assert_eq!(step.read_on_conflict.is_some(), is_create);
        if let Some(read) = step.read_on_conflict {
            assert_eq!(read.verb(), proto::Verb::Get);
            assert_eq!(read.path, format!("{}/{}", call.path, call.name));
            assert_eq!((read.body_json.as_str(), read.query.as_str()), ("", ""));
            creates += 1;
        }
    }
    assert_eq!(creates, 1);
}

/// The answer of a proxy is not that of the API server.
#[test]
fn error_pages_of_proxies_are_not_rejections() {
    let (plain, _) = half_way();
    let expected = wire::plan_rollout(plain.clone()).unwrap();
    let page = b"<html><h1>502 Bad Gateway</h1>\xff\0".to_vec();
    let mut longest = page.clone();
    longest.resize(64 << 10, b'\xfe');
    for (http_code, body) in [(502, page.clone()), (502, longest), (0, Vec::new())] {
        let mut request = plain.clone();
        request.snapshot().answers = vec![proto::StepAnswer {
            call: mk_request().answer().call.clone(),
            http_code,
            body,
            ..Default::default()
        }];
        assert_eq!(
            wire::plan_rollout(request).unwrap(),
            expected,
            "{http_code}"
        );
    }
}

/// For example, an authenticating proxy in front of it.
#[test]
fn rejections_without_a_status_are_reported_by_their_code() {
    let (mut request, _) = half_way();
    request.options.get_or_insert_default().report = true;
    request.snapshot().answers = vec![proto::StepAnswer {
        call: mk_request().answer().call.clone(),
        http_code: 403,
        body: b"no".to_vec(),
        ..Default::default()
    }];
    let report = wire::plan_rollout(request).unwrap().report.unwrap();
    let expected = "the server answered HTTP 403 without a Status";
    let mut blockers = report.blockers.iter();
    assert!(
        blockers.any(|it| it.message.contains(expected)),
        "{report:?}"
    );
}

#[test]
fn events_are_returned_as_calls_on_request() {
    let list = example("fresh-create");
    let mut request = request(&list);
    let mut later = request.clone();
    let without = wire::plan_rollout(request.clone()).unwrap();
    assert!(without.steps.iter().all(|step| step.event_calls.is_empty()));
    request.options.get_or_insert_default().events_as_calls = true;
    let with = wire::plan_rollout(request.clone()).unwrap();
    assert_eq!(wire::plan_rollout(request.clone()).unwrap(), with);
    for (step, plain) in with.steps.iter().zip(&without.steps) {
        assert_eq!((&step.call, &step.events), (&plain.call, &plain.events));
        assert_eq!(step.event_calls.len(), step.events.len());
    }
    let owner = request
        .snapshot
        .unwrap()
        .deployment
        .unwrap()
        .metadata
        .unwrap();
    let step = with
        .steps
        .iter()
        .find(|step| !step.events.is_empty())
        .unwrap();
    let (event, call) = (&step.events[0], &step.event_calls[0]);
    assert_eq!(call.verb(), proto::Verb::Create);
    assert_eq!(
        call.path,
        format!("/api/v1/namespaces/{}/events", owner.namespace)
    );
    let body: serde_json::Value = serde_json::from_str(&call.body_json).unwrap();
    assert_eq!(body["metadata"]["name"], call.name.as_str());
    assert!(
        call.name.starts_with(&format!("{}.", owner.name)),
        "{}",
        call.name
    );
    assert_eq!(body["involvedObject"]["uid"], owner.uid.as_str());
    assert_eq!(body["reason"], event.reason.as_str());
    assert_eq!(body["message"], event.message.as_str());
    assert_eq!(body["type"], event.r#type.as_str());
    assert_eq!(
        (&body["count"], &body["firstTimestamp"]),
        (&1.into(), &body["lastTimestamp"])
    );
    // At another time, it is another event.
    later.options.get_or_insert_default().events_as_calls = true;
    later
        .snapshot
        .as_mut()
        .unwrap()
        .now
        .as_mut()
        .unwrap()
        .seconds += 60;
    let later = wire::plan_rollout(later).unwrap();
    let later = later
        .steps
        .iter()
        .find(|step| !step.events.is_empty())
        .unwrap();
    assert_ne!(later.event_calls[0].name, call.name);
}

/// If a call is repeated, the event is recorded once, and different events have different names.
#[test]
fn event_names_are_unique_and_stable() {
    let mut names = BTreeSet::new();
    let mut events = 0;
    for (example, list) in examples() {
        let mut request = request(&list);
        request.options.get_or_insert_default().events_as_calls = true;
        let owner = request.meta().clone();
        let call_names = |request: &proto::PlanRolloutRequest| -> Vec<String> {
            let steps = wire::plan_rollout(request.clone()).unwrap().steps;
            let calls = steps.into_iter().flat_map(|step| step.event_calls);
            calls.map(|call| call.name).collect()
        };
        let first = call_names(&request);
        assert_eq!(call_names(&request), first, "{example}");
        for uid in ["another", "yet-another"] {
            request.meta().uid = uid.to_owned();
            for set in &mut request.snapshot().replica_sets {
                let metadata = set.metadata.as_mut().unwrap();
                let owners = metadata.owner_references.iter_mut();
                owners.for_each(|it| it.uid = uid.to_owned());
            }
            let of_another = call_names(&request);
            events += of_another.len();
            names.extend(of_another.into_iter().map(|name| (example.clone(), name)));
        }
        events += first.len();
        for name in &first {
            assert!(name.starts_with(&format!("{}.", owner.name)), "{name}");
        }
        names.extend(first.into_iter().map(|name| (example.clone(), name)));
    }
    assert!(events > 20);
    assert_eq!(names.len(), events);
}
