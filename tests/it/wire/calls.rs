//! The calls of plans contain everything that a client needs.

use std::collections::BTreeSet;

use rollplan::proto;
use rollplan::wire::{Error, Reason};

use super::{example, examples};
use crate::request::{Request, half_way, mk_request};

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
    for (name, mut request) in examples() {
        request.options.events_as_calls = true;
        for is_native in [true, false] {
            if !is_native {
                request.set_kind("apps.rollplan.dev/v1alpha1", "PlannedDeployment");
            }
            for call in all_calls(request.plan()) {
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
    let refused = |field: &str, text: &str, change: &dyn Fn(&mut Request)| {
        let mut request = half_way();
        change(&mut request);
        let Err(Error::InvalidArgument(violations)) = rollplan::service::answer(request.message())
        else {
            panic!("{field} is {text:?}");
        };
        let mut listed = violations.listed.iter();
        assert!(
            listed.any(
                |it| it.field.ends_with(field) && it.reason == Reason::InvalidName
                // Without a dot, a group is one of Kubernetes.
                || it.reason == Reason::WrongKind
            ),
            "{field} is {text:?}: {violations}"
        );
    };
    for text in HOSTILE {
        refused("[0].metadata.name", text, &|r| {
            r.meta()["name"] = text.into();
        });
        refused("[0].metadata.namespace", text, &|r| {
            r.meta()["namespace"] = text.into();
        });
        refused("[1].metadata.name", text, &|r| {
            r.set(0)["metadata"]["name"] = text.into();
        });
        // Kinds may be in upper case.
        if text != "Web" {
            refused("[0].kind", text, &|r| r.set_kind("example.com/v1", text));
        }
        for api_version in [format!("{text}/v1"), format!("example.com/{text}")] {
            refused("[0].apiVersion", text, &|r| {
                r.set_kind(&api_version, "Fleet");
            });
        }
    }
    for resource in HOSTILE
        .into_iter()
        .chain(["-", "--", "deployments-", "a.b"])
    {
        refused("target.resource", resource, &|r| {
            r.snapshot.target.get_or_insert_default().resource = resource.to_owned();
        });
    }
}

/// The API server keeps the unknown fields of a custom resource, and would drop them from its ReplicaSets.
#[test]
fn replica_sets_of_custom_resources_are_validated_strictly() {
    let mut strict = 0;
    for (name, mut request) in examples() {
        for is_native in [true, false] {
            if !is_native {
                request.set_kind("apps.rollplan.dev/v1alpha1", "PlannedDeployment");
            }
            let response = request.plan();
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
    let mut request = example("mid-rollout");
    request.set_kind("example.com/v1", "Fleet");
    let mut paths = |resource: &str| -> Vec<String> {
        request.snapshot.target.as_mut().unwrap().resource = resource.to_owned();
        let calls = request
            .plan()
            .steps
            .into_iter()
            .filter_map(|step| step.call);
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
    let plan = example("fresh-create").plan();
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
    let mut request = half_way();
    let expected = request.plan();
    let page = b"<html><h1>502 Bad Gateway</h1>\xff\0".to_vec();
    let mut longest = page.clone();
    longest.resize(64 << 10, b'\xfe');
    for (http_code, body) in [(502, page.clone()), (502, longest), (0, Vec::new())] {
        request.snapshot.answers = vec![proto::StepAnswer {
            call: mk_request().answer().call.clone(),
            http_code,
            body,
            ..Default::default()
        }];
        assert_eq!(request.plan(), expected, "{http_code}");
    }
}

/// For example, an authenticating proxy in front of it.
#[test]
fn rejections_without_a_status_are_reported_by_their_code() {
    let mut request = example("fresh-create");
    request.options.report = true;
    let mut calls = request
        .plan()
        .steps
        .into_iter()
        .filter_map(|step| step.call);
    request.snapshot.answers = vec![proto::StepAnswer {
        call: calls.find(|call| call.verb() == proto::Verb::Create),
        http_code: 403,
        body: b"no".to_vec(),
        ..Default::default()
    }];
    let report = request.plan().report.unwrap();
    let expected = "the server answered HTTP 403 without a Status";
    let mut blockers = report.blockers.iter();
    assert!(
        blockers.any(|it| it.message.contains(expected)),
        "{report:?}"
    );
}

#[test]
fn events_are_returned_as_calls_on_request() {
    let mut request = example("fresh-create");
    let without = request.plan();
    assert!(without.steps.iter().all(|step| step.event_calls.is_empty()));
    request.options.events_as_calls = true;
    let with = request.plan();
    assert_eq!(request.plan(), with);
    for (step, plain) in with.steps.iter().zip(&without.steps) {
        assert_eq!((&step.call, &step.events), (&plain.call, &plain.events));
        assert_eq!(step.event_calls.len(), step.events.len());
    }
    let owner = request.meta().clone();
    let text = |field: &str| owner[field].as_str().unwrap();
    let step = with
        .steps
        .iter()
        .find(|step| !step.events.is_empty())
        .unwrap();
    let (event, call) = (&step.events[0], &step.event_calls[0]);
    assert_eq!(call.verb(), proto::Verb::Create);
    assert_eq!(
        call.path,
        format!("/api/v1/namespaces/{}/events", text("namespace"))
    );
    let body: serde_json::Value = serde_json::from_str(&call.body_json).unwrap();
    assert_eq!(body["metadata"]["name"], call.name.as_str());
    assert!(
        call.name.starts_with(&format!("{}.", text("name"))),
        "{}",
        call.name
    );
    assert_eq!(body["involvedObject"]["uid"], owner["uid"]);
    assert_eq!(body["reason"], event.reason.as_str());
    assert_eq!(body["message"], event.message.as_str());
    assert_eq!(body["type"], event.r#type.as_str());
    assert_eq!(
        (&body["count"], &body["firstTimestamp"]),
        (&1.into(), &body["lastTimestamp"])
    );
    // At another time, it is another event.
    request.snapshot.now.as_mut().unwrap().seconds += 60;
    let later = request.plan();
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
    for (example, mut request) in examples() {
        request.options.events_as_calls = true;
        let call_names = |request: &Request| -> Vec<String> {
            let calls = request
                .plan()
                .steps
                .into_iter()
                .flat_map(|step| step.event_calls);
            calls.map(|call| call.name).collect()
        };
        let first = call_names(&request);
        assert_eq!(call_names(&request), first, "{example}");
        for uid in ["another", "yet-another"] {
            request.meta()["uid"] = uid.into();
            for set in request.all("ReplicaSet") {
                let owners = set["metadata"]["ownerReferences"].as_array_mut();
                let owners = owners.into_iter().flatten();
                owners.for_each(|it| it["uid"] = uid.into());
            }
            let of_another = call_names(&request);
            events += of_another.len();
            names.extend(of_another.into_iter().map(|name| (example.clone(), name)));
        }
        events += first.len();
        for name in &first {
            assert!(name.starts_with("web."), "{name}");
        }
        names.extend(first.into_iter().map(|name| (example.clone(), name)));
    }
    assert!(events > 20);
    assert_eq!(names.len(), events);
}
