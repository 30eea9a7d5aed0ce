//! Objects that break limits of size: refused if they are selected, and ignored otherwise.

use std::collections::BTreeMap;

use prost::Message as _;
use rollplan::proto;
use rollplan::wire::estimate::{ANNOTATIONS_BYTES_MAX, ENTRIES_MAX, OBJECT_BYTES_MAX, estimate};
use rollplan::wire::{
    self, ANSWER_BYTES_MAX, ANSWERS_MAX, EVENTS_MAX, Error, PODS_MAX, REPLICA_SETS_MAX,
    REQUEST_BYTES_MAX, Reason,
};

use super::objects::{list, objects, with_texts};
use super::{Parts as _, mk_request};

/// Fields and reasons of violations.
type Found = Vec<(String, Reason)>;

/// A change that breaks one limit, the field with it, and the reason of the violation.
type Oddity<T> = (fn(&mut T), &'static str, Reason);

const TOO_MANY: usize = ENTRIES_MAX + 1;

fn many(value: &str) -> BTreeMap<String, String> {
    let keys = (0..TOO_MANY).map(|index| format!("a{index}"));
    keys.map(|key| (key, value.to_owned())).collect()
}

fn owner(uid: &str, controller: Option<bool>) -> proto::OwnerReference {
    proto::OwnerReference {
        api_version: "apps/v1".to_owned(),
        kind: "Owner".to_owned(),
        name: uid.to_owned(),
        uid: uid.to_owned(),
        controller,
        ..Default::default()
    }
}

const METADATA: &[Oddity<proto::ObjectMeta>] = &[
    (
        |it| it.labels.extend(many("")),
        ".metadata.labels",
        Reason::ObjectTooLarge,
    ),
    (
        |it| it.annotations = many(""),
        ".metadata.annotations",
        Reason::ObjectTooLarge,
    ),
    (
        |it| {
            let value = "x".repeat(ANNOTATIONS_BYTES_MAX);
            it.annotations = [("a".to_owned(), value)].into();
        },
        ".metadata.annotations",
        Reason::AnnotationsTooLarge,
    ),
    (
        |it| {
            let more = (0..TOO_MANY).map(|index| owner(&format!("o{index}"), None));
            it.owner_references.extend(more);
        },
        ".metadata.owner_references",
        Reason::ObjectTooLarge,
    ),
    (
        |it| it.resource_version = "1".repeat(OBJECT_BYTES_MAX),
        "",
        Reason::ObjectTooLarge,
    ),
];

const SETS: &[Oddity<proto::ReplicaSet>] = &[
    (
        |it| selector(it).match_labels = many(""),
        ".spec.selector.match_labels",
        Reason::ObjectTooLarge,
    ),
    (
        |it| selector(it).match_expressions = vec![requirement(0); TOO_MANY],
        ".spec.selector.match_expressions",
        Reason::ObjectTooLarge,
    ),
    (
        |it| selector(it).match_expressions = vec![requirement(TOO_MANY)],
        ".spec.selector.match_expressions[0].values",
        Reason::ObjectTooLarge,
    ),
    (
        |it| {
            let status = it.status.get_or_insert_default();
            status.conditions = vec![Default::default(); TOO_MANY];
        },
        ".status.conditions",
        Reason::ObjectTooLarge,
    ),
    (
        |it| {
            it.spec.as_mut().unwrap().template = Some(template("y".repeat(OBJECT_BYTES_MAX)));
        },
        "",
        Reason::ObjectTooLarge,
    ),
];

const PODS: &[Oddity<proto::Pod>] = &[
    (
        |it| pod_status(it).conditions = vec![Default::default(); TOO_MANY],
        ".status.conditions",
        Reason::ObjectTooLarge,
    ),
    (
        |it| pod_status(it).container_statuses = vec![Default::default(); TOO_MANY],
        ".status.container_statuses",
        Reason::ObjectTooLarge,
    ),
    (
        |it| pod_status(it).init_container_statuses = vec![Default::default(); TOO_MANY],
        ".status.init_container_statuses",
        Reason::ObjectTooLarge,
    ),
    (
        |it| pod_status(it).message = "x".repeat(OBJECT_BYTES_MAX),
        "",
        Reason::ObjectTooLarge,
    ),
];

fn selector(set: &mut proto::ReplicaSet) -> &mut proto::LabelSelector {
    let spec = set.spec.as_mut().unwrap();
    spec.selector.get_or_insert_default()
}

fn requirement(values: usize) -> proto::LabelSelectorRequirement {
    proto::LabelSelectorRequirement {
        key: "app".to_owned(),
        operator: "In".to_owned(),
        values: vec!["web".to_owned(); values],
    }
}

fn template(text: String) -> proto::RawStruct {
    let value = prost_types::Value::from(text);
    let fields = [("x".to_owned(), value)].into();
    let fields = prost_types::Struct { fields };
    proto::RawStruct::decode(&fields.encode_to_vec()[..]).unwrap()
}

fn pod_status(pod: &mut proto::Pod) -> &mut proto::PodStatus {
    pod.status.get_or_insert_default()
}

/// Makes a change to the metadata of an object.
trait Object: Clone {
    fn metadata(&mut self) -> &mut proto::ObjectMeta;
}

impl Object for proto::ReplicaSet {
    fn metadata(&mut self) -> &mut proto::ObjectMeta {
        self.metadata.as_mut().unwrap()
    }
}

impl Object for proto::Pod {
    fn metadata(&mut self) -> &mut proto::ObjectMeta {
        self.metadata.as_mut().unwrap()
    }
}

/// The object with each of the oddities, those of metadata included.
fn odd<T: Object>(object: &T, own: &[Oddity<T>]) -> Vec<(T, &'static str, Reason)> {
    let changed = |change: &dyn Fn(&mut T), field, reason| {
        let mut object = object.clone();
        change(&mut object);
        (object, field, reason)
    };
    let metadata = METADATA.iter().map(|(change, field, reason)| {
        changed(&|it: &mut T| change(it.metadata()), *field, *reason)
    });
    let own = own
        .iter()
        .map(|(change, field, reason)| changed(change, *field, *reason));
    metadata.chain(own).collect()
}

/// The object as one of other owners, and as one that nobody selects.
fn strangers<T: Object>(object: &T) -> Vec<T> {
    let mut strangers = vec![object.clone(); 3];
    for stranger in &mut strangers {
        let metadata = stranger.metadata();
        metadata.name = "stranger".to_owned();
        metadata.uid = "stranger".to_owned();
    }
    let [other, far, orphan] = strangers.as_mut_slice() else {
        unreachable!("three were made");
    };
    other.metadata().owner_references = vec![owner("x", Some(true))];
    far.metadata().namespace = "other".to_owned();
    orphan.metadata().owner_references = vec![owner("x", None)];
    orphan.metadata().labels.clear();
    strangers
}

/// What each method answers to the snapshot, in bytes.
fn answers(request: &proto::PlanRolloutRequest) -> Vec<Result<Vec<u8>, Found>> {
    let snapshot = || request.snapshot.clone();
    let mut with_report = request.clone();
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
    let answers = [
        wire::plan_rollout_bytes(&request.encode_to_vec()),
        wire::plan_rollout_bytes(&with_report.encode_to_vec()),
        wire::compute_status_bytes(&status.encode_to_vec()),
        estimate::<proto::RollbackRequest>(&rollback.encode_to_vec())
            .and_then(|_| wire::rollback(rollback))
            .map(|answer| answer.encode_to_vec()),
        estimate::<proto::ListRevisionsRequest>(&revisions.encode_to_vec())
            .and_then(|_| wire::list_revisions(revisions))
            .map(|answer| answer.encode_to_vec()),
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

/// The same request with Kubernetes JSON.
fn in_json(request: &proto::PlanRolloutRequest) -> proto::PlanRolloutRequest {
    with_texts(request, vec![list(&objects(request)).to_string()])
}

fn check_refused(request: &proto::PlanRolloutRequest, field: &str, reason: Reason) {
    for answer in answers(request) {
        assert_eq!(answer, Err(vec![(field.to_owned(), reason)]));
    }
}

fn json_name(path: &str) -> String {
    let mut words = path.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| {
        name + &word[..1].to_uppercase() + &word[1..]
    })
}

#[test]
fn replica_sets_of_other_owners_are_not_refused_by_their_size() {
    let request = mk_request();
    let set = request.snapshot.as_ref().unwrap().replica_sets[1].clone();
    for stranger in strangers(&set) {
        let with = |stranger: &proto::ReplicaSet| {
            let mut request = request.clone();
            request.snapshot().replica_sets.insert(0, stranger.clone());
            request
        };
        let expected = answers(&with(&stranger));
        assert!(expected.iter().all(Result::is_ok), "{expected:?}");
        for (stranger, field, _) in odd(&stranger, SETS) {
            let request = with(&stranger);
            assert!(answers(&request) == expected, "{field}");
            let answer = wire::plan_rollout_bytes(&in_json(&request).encode_to_vec());
            assert!(answer.unwrap() == *expected[0].as_ref().unwrap(), "{field}");
        }
    }
}

#[test]
fn selected_replica_sets_are_refused_by_their_size() {
    let request = mk_request();
    let set = request.snapshot.as_ref().unwrap().replica_sets[1].clone();
    let mut orphan = set.clone();
    orphan.metadata().owner_references.clear();
    for own in [set, orphan] {
        for (set, field, reason) in odd(&own, SETS) {
            let mut request = request.clone();
            *request.set(1) = set;
            let path = format!("snapshot.replica_sets[1]{field}");
            check_refused(&request, &path, reason);
            let path = format!("snapshot.objects_json[0].items[2]{}", json_name(field));
            check_refused(&in_json(&request), &path, reason);
        }
    }
}

#[test]
fn pods_of_other_owners_are_not_refused_by_their_size() {
    let request = mk_request();
    let expected = answers(&request);
    let pod = request.snapshot.as_ref().unwrap().pods[0].clone();
    for stranger in strangers(&pod) {
        for (stranger, field, _) in odd(&stranger, PODS) {
            let mut request = request.clone();
            request.snapshot().pods.insert(0, stranger);
            assert!(answers(&request) == expected, "{field}");
            let answer = wire::plan_rollout_bytes(&in_json(&request).encode_to_vec());
            assert!(answer.unwrap() == *expected[0].as_ref().unwrap(), "{field}");
        }
    }
}

#[test]
fn selected_pods_are_refused_by_their_size() {
    let request = mk_request();
    let pod = request.snapshot.as_ref().unwrap().pods[1].clone();
    for (pod, field, reason) in odd(&pod, PODS) {
        let mut request = request.clone();
        request.snapshot().pods[1] = pod;
        let path = format!("snapshot.pods[1]{field}");
        check_refused(&request, &path, reason);
        let path = format!("snapshot.objects_json[0].items[4]{}", json_name(field));
        check_refused(&in_json(&request), &path, reason);
    }
}

/// Whatever their order in the bytes.
#[test]
fn the_deployment_may_come_last() {
    let mut request = mk_request();
    let deployment = request.snapshot().deployment.take();
    let (change, ..) = METADATA[0];
    change(request.set_meta(1));
    let last = proto::PlanRolloutRequest {
        snapshot: Some(proto::Snapshot {
            deployment,
            ..Default::default()
        }),
        options: None,
    };
    let mut bytes = request.encode_to_vec();
    bytes.extend(last.encode_to_vec());
    let error = wire::plan_rollout_bytes(&bytes).unwrap_err();
    let expected =
        "snapshot.replica_sets[1].metadata.labels: 10002 entries exceed the limit of 10000";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn events_are_refused_by_their_size_if_they_are_about_selected_objects() {
    let event = |uid: &str, message: usize| proto::ObservedEvent {
        involved_object: Some(proto::ObjectReference {
            uid: uid.to_owned(),
            ..Default::default()
        }),
        message: "x".repeat(message),
        ..Default::default()
    };
    let request = mk_request();
    let with = |uid: &str| {
        let mut request = request.clone();
        request.snapshot().events = vec![event("d", 1), event(uid, OBJECT_BYTES_MAX)];
        request
    };
    let mut expected = request.clone();
    expected.snapshot().events = vec![event("d", 1)];
    assert!(answers(&with("x")) == answers(&expected));
    // Beside Kubernetes JSON, too.
    assert!(answers(&in_json(&with("x"))) == answers(&expected));
    for uid in ["d", "old", "a"] {
        check_refused(&with(uid), "snapshot.events[1]", Reason::ObjectTooLarge);
    }
}

#[test]
fn the_deployment_is_refused_by_its_size() {
    for (change, field, reason) in METADATA {
        let mut request = mk_request();
        change(request.meta());
        let path = format!("snapshot.deployment{field}");
        check_refused(&request, &path, *reason);
        let path = format!("snapshot.objects_json[0].items[0]{}", json_name(field));
        check_refused(&in_json(&request), &path, *reason);
    }
}

/// An object that has the name of one that was to be created, and that the Deployment does not control.
#[test]
fn existing_objects_of_other_owners_are_not_validated() {
    let request = mk_request();
    let expected = answers(&request);
    let set = request.snapshot.as_ref().unwrap().replica_sets[1].clone();
    for stranger in strangers(&set) {
        let kind = ("apps/v1".to_owned(), "ReplicaSet".to_owned());
        for (mut stranger, field, _) in odd(&stranger, SETS) {
            (stranger.api_version, stranger.kind) = kind.clone();
            let mut request = request.clone();
            let text = wire::json::to_kubernetes_json(&stranger).unwrap();
            request.answer().existing_json = text.into_bytes();
            assert!(answers(&request) == expected, "{field}");
        }
    }
    // Whatever is in it.
    let mut odd = request.clone();
    odd.answer().existing_json =
        br#"{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"name":"x"},
        "spec":{"replicas":"1","replicas":1e3}}"#
            .to_vec();
    assert!(answers(&odd) == expected);
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
    wire::check_answer(&largest).unwrap();
    match wire::check_answer(&too_large) {
        Err(Error::AnswerTooLarge { bytes, max }) => assert_eq!(bytes, max + 1),
        other => panic!("{other:?}"),
    }
}

#[test]
fn requests_may_be_as_large_as_the_limit() {
    let request = mk_request();
    let text = list(&objects(&request)).to_string();
    let padded = |size| with_texts(&request, vec![text.clone() + &" ".repeat(size)]);
    let [largest, too_large] = at_and_above(REQUEST_BYTES_MAX, padded);
    wire::plan_rollout_bytes(&largest.encode_to_vec()).unwrap();
    match wire::plan_rollout_bytes(&too_large.encode_to_vec()) {
        Err(Error::TooLarge {
            what, count, max, ..
        }) => {
            assert_eq!((what, count), ("request", max + 1));
        }
        other => panic!("{:?}", other.map(|_| ())),
    }
}

#[test]
fn objects_may_be_as_large_as_the_limit() {
    let request = mk_request();
    let mut pod = request.snapshot.as_ref().unwrap().pods[1].clone();
    (pod.api_version, pod.kind) = ("v1".to_owned(), "Pod".to_owned());
    let padded = |size| {
        let mut pod = pod.clone();
        pod_status(&mut pod).message = "x".repeat(size);
        pod
    };
    let pods = at_and_above(OBJECT_BYTES_MAX, padded);
    let [largest, too_large] = pods.map(|pod| {
        let mut request = request.clone();
        request.snapshot().pods[1] = pod;
        request
    });
    for request in [&largest, &in_json(&largest)] {
        assert!(answers(request).iter().all(Result::is_ok));
    }
    let reason = Reason::ObjectTooLarge;
    check_refused(&too_large, "snapshot.pods[1]", reason);
    let path = "snapshot.objects_json[0].items[4]";
    check_refused(&in_json(&too_large), path, reason);
}

#[test]
fn objects_may_have_as_many_entries_as_the_limit() {
    let with = |labels: usize| {
        let mut request = mk_request();
        let labels = (0..labels).map(|index| (format!("a{index}"), String::new()));
        request.set_meta(1).labels.extend(labels);
        request
    };
    // The ReplicaSet has another label.
    let largest = with(ENTRIES_MAX - 1);
    assert_eq!(largest.clone().set_meta(1).labels.len(), ENTRIES_MAX);
    for request in [&largest, &in_json(&largest)] {
        assert!(answers(request).iter().all(Result::is_ok));
    }
    let (field, reason) = (".metadata.labels", Reason::ObjectTooLarge);
    let too_large = with(ENTRIES_MAX);
    check_refused(
        &too_large,
        &format!("snapshot.replica_sets[1]{field}"),
        reason,
    );
    let path = format!("snapshot.objects_json[0].items[2]{field}");
    check_refused(&in_json(&too_large), &path, reason);
}

/// Plans without a report do not decode pods completely.
#[test]
fn numbers_of_objects_may_be_as_large_as_the_limit() {
    type Fill = fn(&mut proto::Snapshot, usize);
    let lists: [(&str, usize, Fill); 4] = [
        ("snapshot.replica_sets", REPLICA_SETS_MAX, |it, count| {
            let set = it.replica_sets[0].clone();
            let mut others = vec![set; count - it.replica_sets.len()];
            for (index, other) in others.iter_mut().enumerate() {
                let metadata = other.metadata();
                metadata.name = format!("other-{index}");
                metadata.uid = format!("other-{index}");
                metadata.owner_references = vec![owner("x", Some(true))];
            }
            it.replica_sets.extend(others);
        }),
        ("snapshot.pods", PODS_MAX, |it, count| {
            let pod = it.pods[0].clone();
            it.pods = vec![pod; count];
            for (index, pod) in it.pods.iter_mut().enumerate() {
                pod.metadata().name = format!("pod-{index}");
                pod.metadata().uid = format!("pod-{index}");
            }
        }),
        ("snapshot.events", EVENTS_MAX, |it, count| {
            it.events = vec![Default::default(); count];
        }),
        ("snapshot.answers", ANSWERS_MAX, |it, count| {
            it.answers = vec![it.answers[0].clone(); count];
        }),
    ];
    for (list, limit, fill) in lists {
        let plan = |count| {
            let mut request = mk_request();
            fill(request.snapshot(), count);
            let encoded = wire::plan_rollout_bytes(&request.encode_to_vec());
            let message = wire::plan_rollout(request).map(|it| it.encode_to_vec());
            [encoded, message]
        };
        for answer in plan(limit) {
            answer.unwrap();
        }
        for answer in plan(limit + 1) {
            match answer {
                Err(Error::TooLarge {
                    what, count, max, ..
                }) => {
                    assert_eq!((what, count, max), (list, limit + 1, limit));
                }
                other => panic!("{list}: {:?}", other.map(|_| ())),
            }
        }
    }
}
