//! How rollouts continue, and how they end.

use rollplan_core::action::apply;
use rollplan_core::plan_pass;
use rollplan_core::snapshot::{Options, Pod, Snapshot, Strategy};
use rollplan_core::template::Template;
use rollplan_forecast::{Answer, Change, CountRange, Failure, Horizon, Outcome, Range};
use rollplan_world::{mk_deployment, mk_set, mk_template, rolling, settle, store_defaults};

use crate::world::{
    forecast, mk_complete, mk_complete_of, mk_request, mk_rollout, mk_starting, with_image,
};

const STARTS: [i64; 10] = [5, 6, 7, 8, 9, 10, 8, 7, 6, 9];

fn counts(low: i32, median: i32, high: i32) -> CountRange {
    CountRange { low, median, high }
}

/// The numbers must be the same on every platform, and change only if the model does.
#[test]
fn a_rollout_of_ten_pods_always_has_the_same_forecast() {
    let Answer {
        limits, expected, ..
    } = forecast(mk_rollout(mk_complete(&STARTS)));
    assert_eq!((limits.pods_max, limits.available_min), (13, 8));
    assert_eq!(expected.outcomes, [(Outcome::Completes, 100)]);
    let duration = Range {
        low: 14_914,
        median: Some(18_579),
        high: 26_479,
    };
    assert_eq!(expected.duration, Some(duration));
    assert_eq!(expected.pods_max, counts(13, 13, 13));
    assert_eq!(expected.available_min, counts(8, 8, 8));
    assert_eq!(expected.available_at_end, counts(10, 10, 10));
    assert_eq!(expected.waves, counts(2, 2, 3));
    assert_eq!(expected.replica_set_writes, counts(10, 16, 16));
    let last = expected.trajectory.last().unwrap();
    assert_eq!((last.offset, &*last.pods), (18_632, &[10, 0][..]));
    assert_eq!(expected.trajectory.first().unwrap().pods, [0, 10]);
}

#[test]
fn the_seed_determines_the_samples() {
    let mut request = mk_rollout(mk_complete(&STARTS));
    let first = forecast(request.clone());
    assert_eq!(forecast(request.clone()), first);
    request.seed = 2;
    assert_ne!(forecast(request).expected.duration, first.expected.duration);
}

#[test]
fn without_ready_pods_the_rollout_stops_at_the_minimum() {
    let never_ready = forecast(mk_rollout(mk_complete(&STARTS))).never_ready;
    assert_eq!(never_ready.outcomes, [(Outcome::Never, 10)]);
    assert_eq!(never_ready.reason, "5 pods never become ready.");
    assert_eq!(never_ready.available_at_end, counts(8, 8, 8));
    // The progress deadline and the second that Kubernetes adds.
    let exceeded = never_ready.deadline_exceeded.unwrap();
    assert!((601_000..602_000).contains(&exceeded.low), "{exceeded:?}");
    assert_eq!(never_ready.duration, None);
}

#[test]
fn the_slowest_start_of_every_pod_takes_longest() {
    let answer = forecast(mk_rollout(mk_complete(&STARTS)));
    let (slow, expected) = (answer.slow.unwrap(), answer.expected);
    let low = slow.duration.unwrap().low;
    // Two waves of ten seconds, each of which may have been almost eleven.
    assert!((21_900..22_500).contains(&low), "{low}");
    assert!(low > expected.duration.unwrap().median.unwrap());
}

/// Times are whole seconds, so pods that start at once may have taken almost a second.
#[test]
fn the_slowest_start_is_not_shorter_than_others_because_of_rounding() {
    let answer = forecast(mk_rollout(mk_complete(&[0; 10])));
    let (slow, expected) = (answer.slow.unwrap(), answer.expected);
    let (slow, expected) = (slow.duration.unwrap(), expected.duration.unwrap());
    assert!(
        slow.low > expected.median.unwrap() && slow.high >= expected.high,
        "{slow:?} {expected:?}"
    );
}

#[test]
fn recreate_waits_for_the_old_pods() {
    let mut deployment = mk_deployment(3);
    deployment.spec.strategy = Strategy::Recreate;
    let mut request = mk_rollout(mk_complete_of(deployment, &[5, 5, 5]));
    request.pod_times.termination = vec![20_000];
    request.pod_times.start = vec![5_000];
    let answer = forecast(request);
    assert_eq!(answer.limits.available_min, 0);
    let expected = answer.expected;
    assert_eq!(expected.available_min, counts(0, 0, 0));
    assert_eq!(expected.pods_with_terminating_max, counts(3, 3, 3));
    let duration = expected.duration.unwrap();
    // The rest are the writes of a control plane that may be busy.
    assert!((25_000..25_500).contains(&duration.low), "{duration:?}");
    assert!((25_500..30_000).contains(&duration.high), "{duration:?}");
}

#[test]
fn min_ready_seconds_are_waited_for_in_each_wave() {
    let mut deployment = mk_deployment(4);
    deployment.spec.min_ready_seconds = 30;
    deployment.spec.strategy = rolling(2, 0);
    let mut request = mk_rollout(mk_complete_of(deployment, &[5, 5, 5, 5]));
    request.pod_times.start = vec![5_000];
    let duration = forecast(request).expected.duration.unwrap();
    // Available times count from a whole second.
    assert!((69_000..70_500).contains(&duration.low), "{duration:?}");
}

#[test]
fn a_rollout_beyond_its_deadline_completes_late() {
    let mut deployment = mk_deployment(2);
    deployment.spec.progress_deadline_seconds = 60;
    let mut request = mk_rollout(mk_complete_of(deployment, &[5, 5]));
    request.pod_times.start = vec![100_000];
    let expected = forecast(request).expected;
    assert_eq!(expected.outcomes, [(Outcome::CompletesLate, 100)]);
    assert_eq!(expected.reason, "");
    let exceeded = expected.deadline_exceeded.unwrap();
    assert!((61_000..62_000).contains(&exceeded.low), "{exceeded:?}");
}

#[test]
fn a_complete_rollout_has_nothing_left_to_do() {
    let answer = forecast(mk_request(mk_complete(&STARTS), Vec::new()));
    for forecast in [answer.expected, answer.never_ready] {
        assert_eq!(forecast.outcome, Outcome::Completes);
        assert_eq!(forecast.replica_set_writes, counts(0, 0, 0));
        assert_eq!(forecast.waves, counts(0, 0, 0));
    }
}

/// The rollout in progress: its first pods have been starting for a while.
#[test]
fn pods_that_are_starting_have_less_time_left() {
    let mut snapshot = mk_complete_of(
        {
            let mut deployment = mk_deployment(4);
            deployment.spec.strategy = rolling(4, 0);
            deployment
        },
        &[20, 20, 20, 20],
    );
    let changed = crate::world::with_image(&snapshot, "v2");
    let rollplan_forecast::Change::Deployment(deployment) = changed else {
        unreachable!()
    };
    snapshot.deployment.spec = deployment.spec;
    snapshot.deployment.metadata.generation += 1;
    for _ in 0..2 {
        let plan = plan_pass(&snapshot, Options::default());
        let actions = plan.steps.iter().filter_map(|it| it.action.as_ref());
        actions.for_each(|action| apply(&mut snapshot, action));
    }
    let new = snapshot.replica_sets.last().unwrap().clone();
    assert_eq!(new.replicas, 4);
    let starting = (10..14).map(|number| mk_starting(&new, number, 15));
    snapshot.pods = snapshot.pods.iter().cloned().chain(starting).collect();
    let mut request = mk_request(snapshot, Vec::new());
    request.pod_times.start = vec![20_000];
    let expected = forecast(request).expected;
    let duration = expected.duration.unwrap();
    assert!((5_000..5_500).contains(&duration.low), "{duration:?}");
    // They do not all become ready at the same time.
    assert!(expected.replica_set_writes.median > 1, "{expected:?}");
}

#[test]
fn adapters_make_fewer_writes_than_the_controller_of_kubernetes() {
    let mut request = mk_rollout(mk_complete(&STARTS));
    let passes = forecast(request.clone()).expected;
    request.horizon = Horizon::Settled;
    let settled = forecast(request).expected;
    assert_eq!(settled.outcome, Outcome::Completes);
    assert_eq!(settled.pods_max, counts(13, 13, 13));
    assert_eq!(settled.available_min, counts(8, 8, 8));
    assert!(settled.replica_set_writes.median <= passes.replica_set_writes.median);
}

#[test]
fn long_trajectories_have_few_points() {
    let mut deployment = mk_deployment(400);
    deployment.spec.strategy = rolling(1, 0);
    let starts: Vec<i64> = (0..400).map(|number| 2 + number % 5).collect();
    let mut request = mk_rollout(mk_complete_of(deployment, &starts));
    request.samples = 1;
    let expected = forecast(request).expected;
    assert_eq!(expected.outcome, Outcome::Completes);
    let points = expected.trajectory.len();
    assert!((150..=500).contains(&points), "{points}");
    let offsets = expected.trajectory.iter().map(|point| point.offset);
    assert!(offsets.is_sorted());
    let steps = expected.trajectory.iter().flat_map(|point| &point.events);
    let steps = steps.filter(|event| event.contains("ReplicaSet"));
    // No step is lost with the points that are.
    assert_eq!(
        steps.count(),
        usize::try_from(expected.replica_set_writes.median).unwrap()
    );
}

#[test]
fn a_certain_failure_of_the_current_template_prevents_completion() {
    let mut request = mk_request(mk_complete(&STARTS), vec![Change::Replicas(12)]);
    let failure = Failure {
        message: "The image cannot be pulled.".to_owned(),
        is_certain: true,
        container: "main".to_owned(),
        resolved_by: &[".image"],
    };
    request.failure = Some(failure.clone());
    let scaled = forecast(request.clone()).expected;
    assert_eq!(
        (scaled.outcome, &*scaled.reason),
        (Outcome::Never, "The image cannot be pulled.")
    );
    let mut doubtful = request.clone();
    doubtful.failure = Some(Failure {
        is_certain: false,
        ..failure.clone()
    });
    let answer = forecast(doubtful);
    assert_eq!(answer.expected.outcomes, [(Outcome::Undecided, 100)]);
    assert_eq!(answer.never_ready.outcome, Outcome::Never);
    request.changes = mk_rollout(mk_complete(&STARTS)).changes;
    assert_eq!(
        forecast(request.clone()).expected.outcome,
        Outcome::Completes
    );
    // The failing image is that of another container.
    request.failure = Some(Failure {
        container: "proxy".to_owned(),
        ..failure.clone()
    });
    assert_eq!(forecast(request.clone()).expected.outcome, Outcome::Never);
    // Another image cannot create an account.
    request.failure = Some(Failure {
        resolved_by: &["serviceAccount"],
        ..failure
    });
    assert_eq!(forecast(request).expected.outcome, Outcome::Never);
}

#[test]
fn an_image_name_that_the_kubelet_rejects_prevents_completion() {
    let snapshot = mk_complete(&STARTS);
    let change = with_image(&snapshot, "registry.example/Web:2");
    let expected = forecast(mk_request(snapshot, vec![change])).expected;
    assert_eq!(expected.outcome, Outcome::Never);
    assert_eq!(
        expected.reason,
        "The name of the image \"registry.example/Web:2\" is not valid."
    );
}

/// The status still reports the deadline of the rollout before, until the new one makes progress.
#[test]
fn an_exceeded_deadline_of_the_rollout_before_does_not_count() {
    let mut snapshot = mk_complete(&STARTS);
    let set = mk_set(&snapshot.deployment, "broken", 1, 1);
    snapshot.replica_sets.push(set.clone());
    snapshot.deployment.spec.template = Template::from(mk_template("broken"));
    add_pod(&mut snapshot, mk_starting(&set, 90, 3000));
    store_defaults(&mut snapshot);
    settle(&mut snapshot);
    for condition in &mut snapshot.deployment.status.conditions {
        if condition.kind == "Progressing" {
            condition.status = "False".to_owned();
            condition.reason = "ProgressDeadlineExceeded".to_owned();
        }
    }
    let back = with_image(&snapshot, "v1");
    let expected = forecast(mk_request(snapshot, vec![back])).expected;
    assert_eq!(expected.outcome, Outcome::Completes);
    assert_eq!(expected.deadline_exceeded, None);
}

fn add_pod(snapshot: &mut Snapshot, pod: Pod) {
    snapshot.pods = snapshot.pods.iter().cloned().chain([pod]).collect();
}

#[test]
fn the_slowest_pod_may_still_be_starting() {
    let mut snapshot = mk_complete(&STARTS);
    let pods = std::sync::Arc::make_mut(&mut snapshot.pods);
    pods[0].conditions.clear();
    pods[0].metadata.creation_timestamp = Some(snapshot.now.plus_seconds(-60));
    let slow = forecast(mk_rollout(snapshot)).slow.unwrap();
    // Two waves of pods that take at least as long as this one has taken so far.
    let low = slow.duration.unwrap().low;
    assert!((120_000..140_000).contains(&low), "{low}");
}
