//! The bounds of rollouts hold in every sample of random worlds.

use std::cell::Cell;
use std::sync::Arc;

use rollplan_core::interrupt::Never;
use rollplan_core::lint::lint;
use rollplan_core::size::IntOrPercent;
use rollplan_core::snapshot::{Options, Pod, Snapshot, Strategy};
use rollplan_core::template::Template;
use rollplan_core::{Plan, strategy};
use rollplan_forecast::{
    Answer, Change, ClusterLimits, Forecast, Horizon, Outcome, Request, forecast_observed,
};
use rollplan_world::random::Random;
use rollplan_world::{at, mk_deployment, mk_set, mk_set_status, mk_snapshot, mk_template};

use crate::world::{mk_ready, mk_request, mk_starting, with_image};

const WORLDS: usize = 200;

fn number(random: &mut Random, end: usize) -> i32 {
    i32::try_from(random.below(end)).unwrap()
}

fn part(random: &mut Random) -> IntOrPercent {
    match random.below(2) {
        0 => IntOrPercent::Int(number(random, 5)),
        _ => IntOrPercent::Percent(number(random, 101)),
    }
}

/// A rollout somewhere between its start and its end.
fn mk_random(random: &mut Random) -> Snapshot {
    let mut deployment = mk_deployment(number(random, 12));
    deployment.spec.template = Template::from(mk_template("v2"));
    deployment.spec.min_ready_seconds = *random.pick(&[0, 0, 5]);
    deployment.spec.progress_deadline_seconds = *random.pick(&[30, 600, i32::MAX]);
    deployment.spec.paused = random.below(10) == 0;
    deployment.spec.strategy = match random.below(5) {
        0 => Strategy::Recreate,
        _ => Strategy::RollingUpdate {
            max_surge: part(random),
            max_unavailable: part(random),
        },
    };
    let mut pods: Vec<Pod> = Vec::new();
    let mut sets = Vec::new();
    let limits = strategy::of(&deployment).limits(deployment.spec.replicas);
    let mut room = limits.max_total();
    for (revision, image) in ["v1", "v2"].into_iter().enumerate() {
        let size = number(random, 14).min(room);
        room -= size;
        let mut set = mk_set(&deployment, image, i64::try_from(revision).unwrap(), size);
        let mut available = 0;
        for _ in 0..size {
            let age = i64::from(number(random, 60)) + 20;
            let mut pod = match random.below(3) {
                0 => mk_starting(&set, pods.len(), age),
                _ => {
                    available += 1;
                    mk_ready(&set, pods.len(), age, i64::from(number(random, 10)))
                }
            };
            if random.below(8) == 0 {
                let mut gone = pod.clone();
                gone.metadata.name.push_str("-gone");
                gone.metadata.deletion_timestamp = Some(at(number(random, 30).into()));
                pods.push(gone);
            }
            pod.metadata.uid = format!("pod-{}", pods.len());
            pods.push(pod);
        }
        set.status = mk_set_status(size, available);
        sets.push(set);
    }
    let mut snapshot = mk_snapshot(deployment, sets);
    snapshot.pods = Arc::from(pods);
    snapshot
}

fn mk_random_request(random: &mut Random) -> Request {
    let snapshot = mk_random(random);
    let changes = match random.below(5) {
        0 => vec![Change::Replicas(number(random, 15))],
        1 => vec![with_image(&snapshot, "v3")],
        2 => vec![with_image(&snapshot, "v1")],
        3 => vec![Change::Paused(false), Change::Replicas(number(random, 15))],
        _ => vec![],
    };
    let mut request = mk_request(snapshot, changes);
    request.samples = 5;
    request.seed = random.number();
    request.horizon = *random.pick(&[Horizon::Pass, Horizon::Settled]);
    if random.below(3) == 0 {
        request.pod_times.start = vec![1_000, 4_000, 9_000];
    }
    if random.below(4) == 0 {
        request.limits = ClusterLimits {
            pods_in_quota: Some(number(random, 6)),
            pods_on_nodes: Some(number(random, 6)),
            ..ClusterLimits::default()
        };
    }
    request
}

/// The sum of the sizes in a snapshot.
fn total(snapshot: &Snapshot) -> i32 {
    snapshot.replica_sets.iter().map(|set| set.replicas).sum()
}

#[test]
fn no_sample_leaves_the_bounds() {
    let mut random = Random::from_env();
    let mut outcomes = std::collections::BTreeMap::<Outcome, usize>::new();
    for _ in 0..WORLDS {
        let request = mk_random_request(&mut random);
        let horizon = request.horizon;
        let context = format!("{random} {request:#?}");
        let begin = total(&request.snapshot);
        let plans = Cell::new(0);
        let check = |snapshot: &Snapshot, plan: &Plan| {
            plans.set(plans.get() + 1);
            if horizon == Horizon::Settled {
                let violations = lint(snapshot, Options::default(), plan);
                let own: Vec<_> = violations.iter().filter(|it| !it.inherited).collect();
                assert!(own.is_empty(), "{own:?} {context}");
            }
            let deployment = &snapshot.deployment;
            let limits = strategy::of(deployment).limits(deployment.spec.replicas);
            let max = limits.max_total().max(begin);
            assert!(
                total(snapshot) <= max,
                "{} {max} {context}",
                total(snapshot)
            );
        };
        let answer = forecast_observed(request, Some(&check), &Never);
        let answer = answer.unwrap().unwrap();
        assert!(plans.get() > 0);
        for forecast in scenarios(&answer) {
            check_forecast(&answer, forecast, &context);
            *outcomes.entry(forecast.outcome).or_default() += 1;
            // Only observed pods leave it open how the rollout ends: no simulation is cut off.
            let is_doubtful = forecast.outcome == Outcome::Undecided;
            let explains = forecast.reason.contains("unusually long");
            assert!(!is_doubtful || explains, "{} {context}", forecast.reason);
        }
    }
    // All outcomes occur.
    println!("{outcomes:?}");
    assert!(outcomes[&Outcome::Completes] > 100, "{outcomes:?}");
    assert!(outcomes[&Outcome::Never] > 100, "{outcomes:?}");
    assert!(
        outcomes.contains_key(&Outcome::CompletesLate),
        "{outcomes:?}"
    );
    assert!(outcomes.contains_key(&Outcome::Undecided), "{outcomes:?}");
}

fn scenarios(answer: &Answer) -> impl Iterator<Item = &Forecast> {
    [&answer.expected, &answer.never_ready]
        .into_iter()
        .chain(&answer.slow)
}

/// The pods of the course agree with the summary.
fn check_forecast(answer: &Answer, forecast: &Forecast, context: &str) {
    let points = &forecast.trajectory;
    let first = points.first().unwrap();
    let sum = |counts: &[i32]| counts.iter().sum::<i32>();
    let max = answer.limits.pods_max.max(sum(&first.pods));
    for point in points {
        assert!(sum(&point.pods) <= max, "{point:?} {context}");
        assert!(point.terminating >= 0, "{point:?} {context}");
        for (available, pods) in point.available.iter().zip(&point.pods) {
            assert!((0..=*pods).contains(available), "{point:?} {context}");
        }
    }
    let completes = matches!(
        forecast.outcome,
        Outcome::Completes | Outcome::CompletesLate
    );
    assert_eq!(
        forecast.reason.is_empty(),
        completes,
        "{forecast:?} {context}"
    );
    if completes {
        let last = points.last().unwrap();
        assert_eq!(
            sum(&last.pods),
            answer.limits.replicas,
            "{last:?} {context}"
        );
        assert_eq!(
            last.available[0], answer.limits.replicas,
            "{last:?} {context}"
        );
    }
    let samples: i32 = forecast.outcomes.iter().map(|(_, count)| count).sum();
    assert_eq!(samples, 5, "{context}");
}
