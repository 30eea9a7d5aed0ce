//! Extreme requests, from bytes to bytes: they result in a plan or in a violation that names the field, and numbers never
//! wrap around. CI runs these tests with overflow checks and, in a release build, without.

use prost::Message as _;
use prost_types::value::Kind;
use prost_types::{Timestamp, Value};
use rollplan::proto;
use rollplan::wire::{self, Error, Reason};

use super::random::Random;
use super::{Parts as _, mk_request};

const MAX: i32 = i32::MAX;
/// The first and the last second of the years 1 to 9999.
const FIRST_SECONDS: i64 = -62_135_596_800;
const LAST_SECONDS: i64 = 253_402_300_799;
const HORIZONS: [proto::Horizon; 2] = [proto::Horizon::Pass, proto::Horizon::Settled];

fn percent(percent: i32) -> Option<Value> {
    Some(Value {
        kind: Some(Kind::StringValue(format!("{percent}%"))),
    })
}

fn pods(pods: i32) -> Option<Value> {
    Some(Value {
        kind: Some(Kind::NumberValue(pods.into())),
    })
}

fn at(seconds: i64) -> Option<Timestamp> {
    Some(Timestamp { seconds, nanos: 0 })
}

/// The plan for an encoded request. Checks that it is deterministic, and that no number has wrapped around.
#[track_caller]
fn planned(
    request: &proto::PlanRolloutRequest,
    horizon: proto::Horizon,
) -> proto::PlanRolloutResponse {
    let mut request = request.clone();
    let options = request.options.get_or_insert_default();
    (options.horizon, options.report) = (horizon.into(), true);
    let bytes = request.encode_to_vec();
    let answer = wire::plan_rollout_bytes(&bytes).unwrap();
    assert_eq!(wire::plan_rollout_bytes(&bytes).unwrap(), answer);
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
    let mut ask = proto::ComputeStatusRequest::default();
    (ask.snapshot, ask.options) = (request.snapshot, request.options);
    wire::compute_status_bytes(&ask.encode_to_vec()).unwrap();
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
fn rollout(replicas: i32, new: i32, old: i32) -> proto::PlanRolloutRequest {
    let mut request = mk_request();
    request.snapshot().answers.clear();
    request.spec().replicas = Some(replicas);
    for (index, size) in [new, old].into_iter().enumerate() {
        request.set_spec(index).replicas = Some(size);
        let status = request.set_status(index);
        status.replicas = size;
        status.ready_replicas = size;
        status.available_replicas = size;
    }
    request
}

#[test]
fn limits_saturate_instead_of_overflowing() {
    for (surge, unavailable, new, old, want) in [
        // replicas + surge exceeds 32 bits and saturates.
        (pods(MAX), pods(0), 0, MAX, &[][..]),
        (
            pods(MAX),
            pods(MAX),
            0,
            MAX,
            &[("old", MAX, 0), ("new", 0, MAX)][..],
        ),
        (pods(MAX), pods(0), 1, 5, &[("new", 1, MAX - 5)]),
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
        request.rolling().max_surge = surge.clone();
        request.rolling().max_unavailable = unavailable.clone();
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
    type Change = fn(&mut proto::PlanRolloutRequest);
    const CHANGES: [(&str, Change); 4] = [
        ("max_surge", |r| {
            r.rolling().max_surge = number(2_147_483_648.0)
        }),
        ("max_unavailable", |r| {
            r.rolling().max_unavailable = number(1e300)
        }),
        ("max_surge", |r| r.rolling().max_surge = text("2147483648%")),
        ("max_unavailable", |r| {
            r.rolling().max_unavailable = text("99999999999999999999%");
        }),
    ];
    fn number(number: f64) -> Option<Value> {
        let kind = Some(Kind::NumberValue(number));
        Some(Value { kind })
    }
    fn text(text: &str) -> Option<Value> {
        let kind = Some(Kind::StringValue(text.to_owned()));
        Some(Value { kind })
    }
    for (field, change) in CHANGES {
        let mut request = mk_request();
        change(&mut request);
        let error = wire::plan_rollout_bytes(&request.encode_to_vec()).unwrap_err();
        let Error::InvalidArgument(violations) = error else {
            panic!("{error}");
        };
        let [violation] = &violations.listed[..] else {
            panic!("{violations}");
        };
        assert!(violation.field.ends_with(field), "{violation:?}");
        assert_eq!(violation.reason, Reason::OutOfRange);
    }
}

/// The maximum number of ReplicaSets, each of the maximum size.
#[test]
fn ten_thousand_replica_sets_are_planned() {
    let mut request = rollout(MAX, MAX, MAX);
    request.rolling().max_unavailable = pods(MAX);
    let old = request.set(1).clone();
    for index in 2..wire::REPLICA_SETS_MAX {
        let mut set = old.clone();
        let metadata = set.metadata.as_mut().unwrap();
        metadata.name = format!("old-{index}");
        metadata.uid = format!("old-{index}");
        request.snapshot().replica_sets.push(set);
    }
    let response = planned(&request, proto::Horizon::Settled);
    let downs = sizes(&response);
    assert_eq!(downs.len(), wire::REPLICA_SETS_MAX - 1);
    assert!(downs.iter().all(|(_, from, to)| (*from, *to) == (MAX, 0)));
    let status = response.status.unwrap();
    assert_eq!((status.replicas, status.available_replicas), (MAX, MAX));
    // Scaled to zero: a scaling event, so sizes are scaled proportionally.
    for set in &mut request.snapshot().replica_sets {
        let annotations = &mut set.metadata.as_mut().unwrap().annotations;
        for key in ["desired-replicas", "max-replicas"] {
            annotations.insert(format!("deployment.kubernetes.io/{key}"), "1".to_owned());
        }
    }
    request.spec().replicas = Some(0);
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
                request.set_status(0).available_replicas = 0;
                request.snapshot().now = at(now);
                request.spec().progress_deadline_seconds = deadline;
                request.spec().min_ready_seconds = MAX;
                request.meta().creation_timestamp = at(since);
                request.set_meta(0).creation_timestamp = at(since);
                request.set_meta(1).creation_timestamp = at(now);
                request.pod_meta(0).deletion_timestamp = at(since);
                request.status().conditions = vec![proto::DeploymentCondition {
                    r#type: "Progressing".to_owned(),
                    status: "True".to_owned(),
                    last_update_time: at(since),
                    last_transition_time: at(now),
                    reason: "ReplicaSetUpdated".to_owned(),
                    message: String::new(),
                }];
                for horizon in HORIZONS {
                    planned(&request, horizon);
                }
            }
        }
    }
    for seconds in [FIRST_SECONDS - 1, LAST_SECONDS + 1, i64::MIN, i64::MAX] {
        let mut request = mk_request();
        request.snapshot().now = at(seconds);
        let error = wire::plan_rollout(request).unwrap_err().to_string();
        assert!(error.contains("snapshot.now"), "{error}");
    }
}

#[test]
fn largest_revisions_are_listed_and_rolled_back() {
    let mut request = rollout(3, 3, 0);
    for (index, revision) in [i64::MAX, i64::MAX - 1].into_iter().enumerate() {
        let annotations = &mut request.set_meta(index).annotations;
        let key = "deployment.kubernetes.io/revision".to_owned();
        annotations.insert(key, revision.to_string());
    }
    let snapshot = request.snapshot.clone();
    let list = wire::list_revisions(proto::ListRevisionsRequest {
        snapshot: snapshot.clone(),
    });
    let revisions = list.unwrap().revisions.into_iter();
    let numbers: Vec<i64> = revisions.map(|revision| revision.revision).collect();
    assert!(numbers.contains(&i64::MAX), "{numbers:?}");
    let back = |to_revision| {
        wire::rollback(proto::RollbackRequest {
            snapshot: snapshot.clone(),
            to_revision,
            options: None,
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
    let mut random = Random(seed);
    for round in 0..400 {
        let count = |random: &mut Random| COUNTS[random.below(COUNTS.len())];
        let limit = |random: &mut Random| {
            let number = COUNTS[random.below(COUNTS.len())];
            [pods(number), percent(number), None][random.below(3)].clone()
        };
        let (replicas, new, old) = (count(&mut random), count(&mut random), count(&mut random));
        let mut request = rollout(replicas, new, old);
        request.rolling().max_surge = limit(&mut random);
        request.rolling().max_unavailable = limit(&mut random);
        request.spec().min_ready_seconds = count(&mut random);
        request.spec().revision_history_limit = Some(count(&mut random));
        request.spec().progress_deadline_seconds = Some(count(&mut random).max(1));
        request.spec().paused = random.below(5) == 0;
        request.meta().generation = [0, 1, i64::MAX][random.below(3)];
        let status = request.status();
        status.collision_count = Some(count(&mut random));
        status.replicas = count(&mut random);
        status.observed_generation = [0, 1, i64::MAX][random.below(3)];
        for index in 0..2 {
            for key in ["desired-replicas", "max-replicas", "revision"] {
                let text = TEXTS[random.below(TEXTS.len())].to_owned();
                let annotations = &mut request.set_meta(index).annotations;
                annotations.insert(format!("deployment.kubernetes.io/{key}"), text);
            }
            request.set_meta(index).generation = [0, 1, i64::MAX][random.below(3)];
            let status = request.set_status(index);
            status.replicas = count(&mut random);
            status.ready_replicas = count(&mut random);
            status.available_replicas = count(&mut random);
            status.terminating_replicas = Some(count(&mut random));
        }
        for horizon in HORIZONS {
            println!("ROLLPLAN_SEED={seed}, round {round}, {horizon:?}");
            planned(&request, horizon);
        }
    }
}
