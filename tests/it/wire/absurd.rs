//! Extreme requests, from bytes to bytes: they result in a plan or in a violation that names the field, and numbers never
//! wrap around. CI runs these tests with overflow checks and, in a release build, without.

use prost::Message as _;
use prost_types::Timestamp;
use rollplan::proto;
use rollplan::wire::{self, Error};
use rollplan_world::random::Random;
use serde_json::{Value, json};

use crate::request::{Request, call, half_way, mk_request};

const MAX: i32 = i32::MAX;
/// The first and the last second of the years 1 to 9999.
const FIRST_SECONDS: i64 = -62_135_596_800;
const LAST_SECONDS: i64 = 253_402_300_799;
const HORIZONS: [proto::Horizon; 2] = [proto::Horizon::Pass, proto::Horizon::Settled];

fn percent(percent: i32) -> Value {
    format!("{percent}%").into()
}

fn at(seconds: i64) -> Timestamp {
    Timestamp { seconds, nanos: 0 }
}

/// The plan for an encoded request. Checks that it is deterministic, and that no number has wrapped around.
#[track_caller]
fn planned(request: &Request, horizon: proto::Horizon) -> proto::PlanRolloutResponse {
    let mut request = request.clone();
    (request.options.horizon, request.options.report) = (horizon.into(), true);
    let bytes = request.message().encode_to_vec();
    let answer = call("PlanRollout", &bytes).unwrap();
    assert_eq!(call("PlanRollout", &bytes).unwrap(), answer);
    let response = proto::PlanRolloutResponse::decode(&answer[..]).unwrap();
    for (_, from, to) in sizes(&response) {
        assert!(from >= 0 && to >= 0, "from {from} to {to}");
    }
    let status = response.status.as_ref().unwrap();
    for number in [
        status.replicas,
        status.updated_replicas,
        status.ready_replicas,
        status.available_replicas,
        status.unavailable_replicas,
        status.terminating_replicas(),
    ] {
        assert!(number >= 0, "{status:?}");
    }
    let report = response.report.as_ref().unwrap();
    let counts = report.counts.as_ref().unwrap();
    assert!(counts.desired >= 0 && counts.max_total >= counts.desired);
    assert!(counts.min_available >= 0 && counts.min_available <= counts.desired);
    if let Some(after) = response.requeue_after {
        assert!(after.seconds >= 1 && after.nanos >= 0, "{after:?}");
    }
    let mut ask = request.status_request();
    ask.options = Some(request.options);
    call("ComputeStatus", &ask.encode_to_vec()).unwrap();
    response
}

/// The name and the sizes before and after of each ReplicaSet that a plan scales or creates.
fn sizes(response: &proto::PlanRolloutResponse) -> Vec<(&str, i32, i32)> {
    use proto::step::Action;
    let actions = response
        .steps
        .iter()
        .filter_map(|step| step.action.as_ref());
    actions
        .filter_map(|action| match action {
            Action::ScaleReplicaSet(scale) => {
                Some((&*scale.name, scale.from_replicas, scale.to_replicas))
            }
            Action::CreateReplicaSet(create) => Some((&*create.name, 0, create.replicas)),
            _ => None,
        })
        .collect()
}

/// Two ReplicaSets with available pods only, without failures.
fn rollout(replicas: i32, new: i32, old: i32) -> Request {
    let mut request = half_way();
    request.spec()["replicas"] = replicas.into();
    for (index, size) in [new, old].into_iter().enumerate() {
        let set = request.set(index);
        set["spec"]["replicas"] = size.into();
        for field in ["replicas", "readyReplicas", "availableReplicas"] {
            set["status"][field] = size.into();
        }
    }
    request
}

fn rolling(request: &mut Request) -> &mut Value {
    &mut request.spec()["strategy"]["rollingUpdate"]
}

#[test]
fn limits_saturate_instead_of_overflowing() {
    for (surge, unavailable, new, old, want) in [
        // replicas + surge exceeds 32 bits and saturates.
        (MAX.into(), 0.into(), 0, MAX, &[][..]),
        (
            MAX.into(),
            MAX.into(),
            0,
            MAX,
            &[("old", MAX, 0), ("new", 0, MAX)][..],
        ),
        (MAX.into(), 0.into(), 1, 5, &[("new", 1, MAX - 5)]),
        // percent × replicas exceeds even 64 bits.
        (
            percent(2_000_000_000),
            percent(0),
            1,
            5,
            &[("new", 1, MAX - 5)],
        ),
        (
            percent(MAX),
            percent(MAX),
            7,
            9,
            &[("old", 9, 0), ("new", 7, MAX)],
        ),
        (
            percent(1),
            percent(MAX),
            7,
            9,
            &[("old", 9, 0), ("new", 7, MAX)],
        ),
        // Without surge, and with enough available new pods to delete all old ones.
        (
            percent(0),
            percent(1),
            MAX - 1,
            MAX,
            &[("old", MAX, 0), ("new", MAX - 1, MAX)],
        ),
    ] {
        let mut request = rollout(MAX, new, old);
        *rolling(&mut request) = json!({"maxSurge": surge, "maxUnavailable": unavailable});
        let response = planned(&request, proto::Horizon::Settled);
        assert_eq!(
            sizes(&response),
            want,
            "{surge:?} {unavailable:?} {new} {old}"
        );
        planned(&request, proto::Horizon::Pass);
    }
}

#[test]
fn numbers_beyond_32_bits_are_refused_by_name() {
    for (field, limit) in [
        ("maxSurge", json!(2_147_483_648_i64)),
        ("maxUnavailable", json!(u64::MAX)),
        ("maxSurge", json!("2147483648%")),
        ("maxUnavailable", json!("99999999999999999999%")),
    ] {
        let mut request = mk_request();
        rolling(&mut request)[field] = limit;
        let bytes = request.message().encode_to_vec();
        let status = call("PlanRollout", &bytes).unwrap_err();
        let [violation] = status.field_violations() else {
            panic!("{status:?}");
        };
        assert!(violation.field.ends_with(field), "{violation:?}");
        assert_eq!(violation.reason, "OUT_OF_RANGE");
    }
}

/// The maximum number of ReplicaSets, each of the maximum size.
#[test]
fn ten_thousand_replica_sets_are_planned() {
    let mut request = rollout(MAX, MAX, MAX);
    rolling(&mut request)["maxUnavailable"] = MAX.into();
    let old = request.set(1).clone();
    for index in 2..wire::REPLICA_SETS_MAX {
        let mut set = old.clone();
        set["metadata"]["name"] = format!("old-{index}").into();
        set["metadata"]["uid"] = format!("old-{index}").into();
        request.items.push(set);
    }
    let response = planned(&request, proto::Horizon::Settled);
    let downs = sizes(&response);
    assert_eq!(downs.len(), wire::REPLICA_SETS_MAX - 1);
    assert!(downs.iter().all(|(_, from, to)| (*from, *to) == (MAX, 0)));
    let status = response.status.unwrap();
    assert_eq!((status.replicas, status.available_replicas), (MAX, MAX));
    // Scaled to zero: a scaling event, so sizes are scaled proportionally.
    for set in request.all("ReplicaSet") {
        for key in ["desired-replicas", "max-replicas"] {
            set["metadata"]["annotations"][format!("deployment.kubernetes.io/{key}")] = "1".into();
        }
    }
    request.spec()["replicas"] = 0.into();
    let response = planned(&request, proto::Horizon::Settled);
    assert_eq!(sizes(&response).len(), wire::REPLICA_SETS_MAX);
}

#[test]
fn times_from_year_1_to_9999_are_planned() {
    let ends = [FIRST_SECONDS, LAST_SECONDS];
    for now in ends {
        for since in ends {
            for deadline in [None, Some(1), Some(MAX - 1), Some(MAX)] {
                let mut request = rollout(10, 3, 8);
                request.snapshot.now = Some(at(now));
                let time = |seconds| Value::from(at(seconds).to_string());
                let (now, since) = (time(now), time(since));
                request.spec()["progressDeadlineSeconds"] = json!(deadline);
                request.spec()["minReadySeconds"] = MAX.into();
                request.meta()["creationTimestamp"] = since.clone();
                request.set(0)["status"]["availableReplicas"] = 0.into();
                request.set(0)["metadata"]["creationTimestamp"] = since.clone();
                request.set(1)["metadata"]["creationTimestamp"] = now.clone();
                request.pod(0)["metadata"]["deletionTimestamp"] = since.clone();
                request.deployment()["status"]["conditions"] = json!([{
                    "type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated",
                    "lastUpdateTime": since, "lastTransitionTime": now,
                }]);
                for horizon in HORIZONS {
                    planned(&request, horizon);
                }
            }
        }
    }
    for seconds in [FIRST_SECONDS - 1, LAST_SECONDS + 1, i64::MIN, i64::MAX] {
        let mut request = mk_request();
        request.snapshot.now = Some(at(seconds));
        let error = rollplan::service::answer(request.message()).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("snapshot.now"), "{error}");
    }
}

#[test]
fn largest_revisions_are_listed_and_rolled_back() {
    let mut request = rollout(3, 3, 0);
    for (index, revision) in [i64::MAX, i64::MAX - 1].into_iter().enumerate() {
        let key = "deployment.kubernetes.io/revision";
        request.set(index)["metadata"]["annotations"][key] = revision.to_string().into();
    }
    let list = rollplan::service::answer(request.revisions_request());
    let revisions = list.unwrap().revisions.into_iter();
    let numbers: Vec<i64> = revisions.map(|revision| revision.revision).collect();
    assert!(numbers.contains(&i64::MAX), "{numbers:?}");
    let back = |to_revision| {
        rollplan::service::answer(proto::RollbackRequest {
            to_revision,
            ..request.rollback_request()
        })
    };
    assert_eq!(back(i64::MAX - 1).unwrap().to_revision, i64::MAX - 1);
    assert_eq!(back(0).unwrap().to_revision, i64::MAX - 1);
    assert!(matches!(back(1).unwrap_err(), Error::Rollback(_)));
    let error = back(i64::MIN).unwrap_err().to_string();
    assert!(error.contains("to_revision"), "{error}");
    for horizon in HORIZONS {
        planned(&request, horizon);
    }
}

/// Random combinations of requests with extreme numbers.
#[test]
fn random_extremes_are_planned() {
    const COUNTS: [i32; 6] = [0, 1, 2, 1_000_000, MAX - 1, MAX];
    const TEXTS: [&str; 7] = [
        "0",
        "1",
        "-1",
        "x",
        "2147483647",
        "2147483648",
        "9223372036854775807",
    ];
    let seed = std::env::var("ROLLPLAN_SEED").map_or(8, |seed| seed.parse().unwrap());
    let mut random = Random::new(seed);
    for round in 0..400 {
        let count = |random: &mut Random| COUNTS[random.below(COUNTS.len())];
        let limit = |random: &mut Random| {
            let number = COUNTS[random.below(COUNTS.len())];
            [number.into(), percent(number), Value::Null][random.below(3)].clone()
        };
        let generation = |random: &mut Random| json!([0, 1, i64::MAX][random.below(3)]);
        let (replicas, new, old) = (count(&mut random), count(&mut random), count(&mut random));
        let mut request = rollout(replicas, new, old);
        *rolling(&mut request) =
            json!({"maxSurge": limit(&mut random), "maxUnavailable": limit(&mut random)});
        let spec = request.spec();
        spec["minReadySeconds"] = count(&mut random).into();
        spec["revisionHistoryLimit"] = count(&mut random).into();
        spec["progressDeadlineSeconds"] = count(&mut random).max(1).into();
        spec["paused"] = (random.below(5) == 0).into();
        request.meta()["generation"] = generation(&mut random);
        request.deployment()["status"] = json!({
            "collisionCount": count(&mut random), "replicas": count(&mut random),
            "observedGeneration": generation(&mut random),
        });
        for set in request.all("ReplicaSet") {
            for key in ["desired-replicas", "max-replicas", "revision"] {
                let text = TEXTS[random.below(TEXTS.len())];
                set["metadata"]["annotations"][format!("deployment.kubernetes.io/{key}")] =
                    text.into();
            }
            set["metadata"]["generation"] = generation(&mut random);
            for field in [
                "replicas",
                "readyReplicas",
                "availableReplicas",
                "terminatingReplicas",
            ] {
                set["status"][field] = count(&mut random).into();
            }
        }
        for horizon in HORIZONS {
            println!("ROLLPLAN_SEED={seed}, round {round}, {horizon:?}");
            planned(&request, horizon);
        }
    }
}
