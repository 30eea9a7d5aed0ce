//! Objects that break limits of size: refused if they are selected, and ignored otherwise.

use prost::Message as _;
use rollplan::proto;
use rollplan::service::MethodRequest;
use rollplan::wire::{
    self, ANSWER_BYTES_MAX, ANSWERS_MAX, EVENTS_MAX, Error, OBJECT_BYTES_MAX, PODS_MAX,
    REPLICA_SETS_MAX, REQUEST_BYTES_MAX, Reason,
};
use serde_json::{Value, json};

use crate::request::{ITEMS, Request, call, mk_request};

/// Fields and reasons of violations.
type Found = Vec<(String, Reason)>;

/// A change that breaks one limit, the field with it, and the reason of the violation.
type Oddity = (fn(&mut Value), &'static str, Reason);

const ENTRIES_MAX: usize = 10_000;
const TOO_MANY: usize = ENTRIES_MAX + 1;

/// Adds many keys to a map.
fn fill(map: &mut Value) {
    for index in 0..TOO_MANY {
        map[format!("a{index}")] = "".into();
    }
}

/// The object with a string that makes it larger than the limit.
fn pad(field: &mut Value) {
    *field = "x".repeat(OBJECT_BYTES_MAX).into();
}

const METADATA: &[Oddity] = &[
    (
        |it| fill(&mut it["metadata"]["labels"]),
        ".metadata.labels",
        Reason::ObjectTooLarge,
    ),
    (
        |it| fill(&mut it["metadata"]["annotations"]),
        ".metadata.annotations",
        Reason::ObjectTooLarge,
    ),
    (
        |it| it["metadata"]["annotations"] = json!({"a": "x".repeat(256 << 10)}),
        ".metadata.annotations",
        Reason::AnnotationsTooLarge,
    ),
    (
        |it| {
            let owners = &mut it["metadata"]["ownerReferences"];
            let mut all = owners.as_array().cloned().unwrap_or_default();
            all.resize(TOO_MANY, json!({"uid": "x"}));
            *owners = all.into();
        },
        ".metadata.ownerReferences",
        Reason::ObjectTooLarge,
    ),
    (
        |it| pad(&mut it["metadata"]["resourceVersion"]),
        "",
        Reason::ObjectTooLarge,
    ),
];

const SETS: &[Oddity] = &[
    (
        |it| it["status"]["conditions"] = vec![json!({}); TOO_MANY].into(),
        ".status.conditions",
        Reason::ObjectTooLarge,
    ),
    (
        |it| pad(&mut it["spec"]["template"]["x"]),
        "",
        Reason::ObjectTooLarge,
    ),
];

const PODS: &[Oddity] = &[
    (
        |it| it["status"]["conditions"] = vec![json!({}); TOO_MANY].into(),
        ".status.conditions",
        Reason::ObjectTooLarge,
    ),
    (
        |it| it["status"]["containerStatuses"] = vec![json!({}); TOO_MANY].into(),
        ".status.containerStatuses",
        Reason::ObjectTooLarge,
    ),
    (
        |it| it["status"]["initContainerStatuses"] = vec![json!({}); TOO_MANY].into(),
        ".status.initContainerStatuses",
        Reason::ObjectTooLarge,
    ),
    (
        |it| pad(&mut it["status"]["message"]),
        "",
        Reason::ObjectTooLarge,
    ),
];

/// The object with each of the oddities, those of metadata included.
fn odd(object: &Value, own: &[Oddity]) -> impl Iterator<Item = (Value, &'static str, Reason)> {
    let all = METADATA.iter().chain(own);
    all.map(|(change, field, reason)| {
        let mut object = object.clone();
        change(&mut object);
        (object, *field, *reason)
    })
}

/// The object as one of other owners, and as one that nobody selects. The selector matches none of them.
fn strangers(object: &Value) -> [Value; 3] {
    let mut object = object.clone();
    object["metadata"]["name"] = "stranger".into();
    object["metadata"]["uid"] = "stranger".into();
    if let Some(labels) = object["metadata"]["labels"].as_object_mut() {
        labels.remove("app");
    }
    let [mut other, mut far, mut orphan] = [object.clone(), object.clone(), object];
    other["metadata"]["ownerReferences"][0]["uid"] = "x".into();
    far["metadata"]["namespace"] = "other".into();
    orphan["metadata"]["ownerReferences"][0]["controller"] = false.into();
    [other, far, orphan]
}

/// The answer in bytes.
fn encoded<R: MethodRequest>(request: R) -> Result<Vec<u8>, Error> {
    let answer = rollplan::service::answer(request)?;
    Ok(answer.encode_to_vec())
}

/// What each method answers to the snapshot, in bytes.
fn answers(request: &Request) -> Vec<Result<Vec<u8>, Found>> {
    let plan = request.message();
    let snapshot = || plan.snapshot.clone();
    let mut with_report = plan.clone();
    with_report.options.get_or_insert_default().report = true;
    let status = proto::ComputeStatusRequest {
        snapshot: snapshot(),
        ..Default::default()
    };
    let rollback = proto::RollbackRequest {
        snapshot: snapshot(),
        ..Default::default()
    };
    let revisions = proto::ListRevisionsRequest {
        snapshot: snapshot(),
    };
    let mut forecast = proto::ForecastRolloutRequest {
        snapshot: snapshot(),
        samples: 1,
        ..Default::default()
    };
    forecast.snapshot.as_mut().unwrap().pods_complete = true;
    let answers = [
        encoded(plan),
        encoded(with_report),
        encoded(status),
        encoded(rollback),
        encoded(revisions),
        encoded(forecast),
    ];
    let answers = answers.into_iter().map(|answer| {
        answer.map_err(|error| match error {
            Error::InvalidArgument(violations) => {
                assert_eq!(violations.omitted, 0);
                let listed = violations.listed.into_iter();
                listed.map(|it| (it.field, it.reason)).collect()
            }
            error => panic!("{error}"),
        })
    });
    answers.collect()
}

/// Checks that objects of others do not change any answer.
fn check_strangers(object: &Value, own: &[Oddity]) {
    let mut request = mk_request();
    let expected = answers(&request);
    let count = request.items.len();
    for (odd, field, _) in odd(object, own) {
        request.items.extend(strangers(&odd));
        assert!(answers(&request) == expected, "{field}");
        request.items.truncate(count);
    }
}

/// Checks that every method refuses a field of an item.
#[track_caller]
fn check_refused(request: &Request, item: usize, field: &str, reason: Reason) {
    for answer in answers(request) {
        assert_eq!(
            answer,
            Err(vec![(format!("{ITEMS}[{item}]{field}"), reason)])
        );
    }
}

#[test]
fn replica_sets_of_other_owners_are_not_refused_by_their_size() {
    check_strangers(mk_request().set(1), SETS);
}

#[test]
fn selected_replica_sets_are_refused_by_their_size() {
    let mut request = mk_request();
    let set = request.set(1).clone();
    let mut orphan = set.clone();
    orphan["metadata"]["ownerReferences"] = json!([]);
    for own in [set, orphan] {
        let is_orphan = own["metadata"]["ownerReferences"] == json!([]);
        for (set, field, reason) in odd(&own, SETS) {
            // The selector does not match labels that cannot be read.
            if !is_orphan || field != ".metadata.labels" {
                *request.set(1) = set;
                check_refused(&request, 2, field, reason);
            }
        }
    }
}

#[test]
fn pods_of_other_owners_are_not_refused_by_their_size() {
    check_strangers(mk_request().pod(0), PODS);
}

#[test]
fn selected_pods_are_refused_by_their_size() {
    let mut request = mk_request();
    for (pod, field, reason) in odd(&request.pod(1).clone(), PODS) {
        // Nothing depends on the other labels of a pod, or on its annotations.
        if !matches!(field, ".metadata.labels" | ".metadata.annotations") {
            *request.pod(1) = pod;
            check_refused(&request, 4, field, reason);
        }
    }
}

#[test]
fn events_are_refused_by_their_size_if_they_are_about_selected_objects() {
    let event = |uid: &str, message: usize| json!({"apiVersion": "v1", "kind": "Event", "involvedObject": {"uid": uid}, "message": "x".repeat(message)});
    let mut request = mk_request();
    request.items.push(event("web-uid", 1));
    let expected = answers(&request);
    request.items.push(event("x", OBJECT_BYTES_MAX));
    assert!(answers(&request) == expected);
    for uid in ["web-uid", "old-uid", "a-uid"] {
        request.items[6] = event(uid, OBJECT_BYTES_MAX);
        check_refused(&request, 6, "", Reason::ObjectTooLarge);
    }
}

#[test]
fn the_deployment_is_refused_by_its_size() {
    for (deployment, field, reason) in odd(mk_request().deployment(), &[]) {
        let mut request = mk_request();
        *request.deployment() = deployment;
        check_refused(&request, 0, field, reason);
    }
}

/// An object that has the name of one that was to be created, and that the Deployment does not control.
#[test]
fn existing_objects_of_other_owners_are_not_validated() {
    let mut request = mk_request();
    let expected = answers(&request);
    let mut existing = |text: String, field: &str| {
        request.answer().existing_json = text.into();
        assert!(answers(&request) == expected, "{field}");
    };
    for (odd, field, _) in odd(mk_request().set(1), SETS) {
        for stranger in strangers(&odd) {
            existing(stranger.to_string(), field);
        }
    }
    // Whatever is in it.
    let odd = r#"{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"name":"x"},
        "spec":{"replicas":"1","replicas":1e3}}"#;
    existing(odd.to_owned(), "spec");
}

/// The message with a text of this length, as large as a limit, and one byte larger. Lengths near the limit must have the
/// same encoded size.
fn at_and_above<M: prost::Message>(limit: usize, with: impl Fn(usize) -> M) -> [M; 2] {
    let others = with(limit).encoded_len() - limit;
    let messages = [limit, limit + 1].map(|size| with(size - others));
    assert_eq!(messages[0].encoded_len(), limit);
    messages
}

#[test]
fn answers_may_be_as_large_as_the_limit() {
    let answer = |size| proto::ComputeStatusResponse {
        object: Some(proto::ObjectReference {
            name: "x".repeat(size),
            ..Default::default()
        }),
        ..Default::default()
    };
    let [largest, too_large] = at_and_above(ANSWER_BYTES_MAX, answer);
    wire::check_answer(largest.encoded_len()).unwrap();
    match wire::check_answer(too_large.encoded_len()) {
        Err(Error::AnswerTooLarge { bytes, max }) => assert_eq!(bytes, max + 1),
        other => panic!("{other:?}"),
    }
}

#[test]
fn requests_may_be_as_large_as_the_limit() {
    let request = mk_request();
    let padded = |size| request.with_texts(vec![request.text() + &" ".repeat(size)]);
    let [largest, too_large] = at_and_above(REQUEST_BYTES_MAX, padded);
    call("PlanRollout", &largest.encode_to_vec()).unwrap();
    let status = call("PlanRollout", &too_large.encode_to_vec()).unwrap_err();
    let info = status.info().unwrap();
    assert_eq!(info.reason, "REQUEST_TOO_LARGE");
    assert_eq!(info.metadata["what"], "request");
    assert_eq!(info.metadata["max"], REQUEST_BYTES_MAX.to_string());
    // As a server, which does not read the rest.
    assert_eq!(info.metadata.get("count"), None);
}

#[test]
fn objects_may_be_as_large_as_the_limit() {
    let mut request = mk_request();
    request.pod(1)["status"]["message"] = "".into();
    let others = request.pod(1).to_string().len();
    request.pod(1)["status"]["message"] = "x".repeat(OBJECT_BYTES_MAX - others).into();
    assert!(answers(&request).iter().all(Result::is_ok));
    request.pod(1)["status"]["message"] = "x".repeat(OBJECT_BYTES_MAX - others + 1).into();
    check_refused(&request, 4, "", Reason::ObjectTooLarge);
}

/// White space between the parts of an object does not count, and white space in a string does.
#[test]
fn white_space_counts_in_strings_only() {
    let mut request = mk_request();
    let text = "\\ \" a\\\" \\";
    request.pod(1)["status"]["message"] = text.into();
    let others = request.pod(1).to_string().len();
    for (more, is_refused) in [(0, false), (1, true)] {
        let spaces = " ".repeat(OBJECT_BYTES_MAX - others + more);
        request.pod(1)["status"]["message"] = format!("{text}{spaces}").into();
        let compact = request.pod(1).to_string();
        assert_eq!(compact.len(), OBJECT_BYTES_MAX + more);
        let spaced = format!(" {{\n{}", &compact[1..]);
        let given = request.with_texts(
            request
                .items
                .iter()
                .map(|item| item.to_string())
                .map(|item| {
                    if item == compact {
                        spaced.clone()
                    } else {
                        item
                    }
                })
                .collect(),
        );
        assert_eq!(
            rollplan::service::answer(given).is_err(),
            is_refused,
            "{more}"
        );
    }
}

#[test]
fn objects_may_have_as_many_entries_as_the_limit() {
    let mut request = mk_request();
    // One less, because the ReplicaSet has another label.
    let labels = (1..ENTRIES_MAX).map(|index| (format!("a{index}"), "".into()));
    request.set(1)["metadata"]["labels"]
        .as_object_mut()
        .unwrap()
        .extend(labels);
    assert!(answers(&request).iter().all(Result::is_ok));
    request.set(1)["metadata"]["labels"]["a0"] = "".into();
    check_refused(&request, 2, ".metadata.labels", Reason::ObjectTooLarge);
}

#[test]
fn numbers_of_objects_may_be_as_large_as_the_limit() {
    type Fill = fn(&mut Request, usize);
    fn repeat(request: &mut Request, like: &Value, count: usize) {
        request.items.extend((0..count).map(|index| {
            let mut object = like.clone();
            object["metadata"]["name"] = format!("other-{index}").into();
            object["metadata"]["uid"] = format!("other-{index}").into();
            object
        }));
    }
    let lists: [(&str, usize, Fill); 4] = [
        ("replica_sets", REPLICA_SETS_MAX, |it, count| {
            let set = it.set(1).clone();
            repeat(it, &set, count - 2);
        }),
        ("pods", PODS_MAX, |it, count| {
            let pod = it.pod(0).clone();
            repeat(it, &pod, count - 2);
        }),
        ("events", EVENTS_MAX, |it, count| {
            let event =
                json!({"apiVersion": "v1", "kind": "Event", "involvedObject": {"uid": "web-uid"}});
            repeat(it, &event, count);
        }),
        ("answers", ANSWERS_MAX, |it, count| {
            it.snapshot.answers = vec![it.snapshot.answers[0].clone(); count];
        }),
    ];
    for (list, limit, fill) in lists {
        let plan = |count| {
            let mut request = mk_request();
            fill(&mut request, count);
            rollplan::service::answer(request.message())
        };
        plan(limit).unwrap();
        match plan(limit + 1) {
            Err(Error::TooLarge {
                what, count, max, ..
            }) => {
                assert_eq!((count, max), (limit + 1, limit), "{what}");
            }
            other => panic!("{list}: {:?}", other.map(|_| ())),
        }
    }
}
