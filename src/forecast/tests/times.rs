//! Start times and times to terminate that a forecast learns from pods.

use rollplan_core::snapshot::{Container, Snapshot};
use rollplan_core::template::{Template, Value};
use rollplan_forecast::{Answer, Range, StartTimes, StartTimesSource};
use rollplan_world::{at, mk_deployment, mk_set, mk_template, store_defaults};

use crate::world::{
    forecast, mk_complete, mk_complete_of, mk_ready, mk_request, mk_rollout, mk_starting,
    with_image,
};

fn learned(snapshot: Snapshot) -> StartTimes {
    forecast(mk_request(snapshot, Vec::new())).start_times
}

/// Adds pods to a snapshot.
fn add(snapshot: &mut Snapshot, pods: impl IntoIterator<Item = rollplan_core::snapshot::Pod>) {
    snapshot.pods = snapshot.pods.iter().cloned().chain(pods).collect();
}

#[test]
fn start_times_are_those_of_ready_pods() {
    let times = learned(mk_complete(&[5, 9, 7, 6, 8]));
    assert_eq!(times.source, StartTimesSource::SameTemplate);
    assert_eq!((times.count, times.guess), (5, false));
    let range = Range {
        low: 5_000,
        median: Some(7_000),
        high: 9_000,
    };
    assert_eq!(times.range, Some(range));
}

#[test]
fn a_new_template_has_the_start_times_of_others() {
    let answer = forecast(mk_rollout(mk_complete(&[5, 9, 7, 6, 8])));
    assert_eq!(answer.start_times.source, StartTimesSource::OtherTemplates);
    assert_eq!(answer.start_times.count, 5);
}

#[test]
fn pods_of_the_new_template_come_first() {
    let mut snapshot = mk_complete(&[5, 9, 7]);
    let old = mk_set(&snapshot.deployment, "v0", 1, 2);
    let pods = [mk_ready(&old, 10, 900, 50), mk_ready(&old, 11, 900, 60)];
    snapshot.replica_sets.insert(0, old);
    add(&mut snapshot, pods);
    let times = learned(snapshot);
    assert_eq!(
        (times.source, times.count),
        (StartTimesSource::SameTemplate, 3)
    );
}

#[test]
fn up_to_four_start_times_are_a_guess_without_a_median() {
    let answer = forecast(mk_request(mk_complete(&[5, 9, 7, 6]), Vec::new()));
    assert!(answer.start_times.guess);
    assert_eq!(answer.start_times.range.unwrap().median, None);
    let duration = forecast(mk_rollout(mk_complete(&[5, 9, 7, 6])))
        .expected
        .duration;
    let Range { low, median, high } = duration.unwrap();
    assert_eq!(median, None);
    // Two waves within the range that was observed, and the writes of a control plane that may be busy.
    assert!(10_000 <= low && high <= 22_500, "{low} {high}");
}

#[test]
fn without_start_times_there_are_waves_but_no_seconds() {
    let mut snapshot = mk_complete(&[1; 10]);
    for pod in std::sync::Arc::make_mut(&mut snapshot.pods) {
        pod.containers.push(Container {
            restarts: 1,
            ..Container::default()
        });
    }
    let answer = forecast(mk_rollout(snapshot));
    assert_eq!(answer.start_times.source, StartTimesSource::None);
    assert_eq!(answer.start_times.dropped_restarted, 10);
    assert_eq!(answer.start_times.range, None);
    assert_eq!(answer.slow, None);
    assert_eq!(answer.expected.duration, None);
    assert_eq!(answer.never_ready.deadline_exceeded, None);
    assert_eq!(answer.expected.waves.median, 2);
    assert_eq!(answer.expected.pods_max.high, 13);
}

#[test]
fn start_times_beyond_the_deadline_are_dropped() {
    let mut snapshot = mk_complete(&[5, 6, 7, 8, 9, 700]);
    let times = learned(snapshot.clone());
    assert_eq!((times.count, times.dropped_late), (5, 1));
    snapshot.deployment.spec.progress_deadline_seconds = 900;
    let times = learned(snapshot);
    assert_eq!((times.count, times.dropped_late), (6, 0));
}

/// Pods that are still starting have taken at least their age: without them, only the fast ones would count.
#[test]
fn pods_that_are_starting_make_a_forecast_longer() {
    let mut snapshot = mk_complete(&[5, 5, 5, 5, 60, 60, 60, 60]);
    let set = snapshot.replica_sets[0].clone();
    let of = |snapshot: Snapshot| {
        let mut request = mk_rollout(snapshot);
        request.samples = 400;
        let answer = forecast(request);
        let median = answer.expected.duration.unwrap().median.unwrap();
        (answer.start_times.still_starting, median)
    };
    let (none, before) = of(snapshot.clone());
    // These are part of the old ReplicaSet in addition to its size, and are removed first.
    add(
        &mut snapshot,
        (20..40).map(|number| mk_starting(&set, number, 40)),
    );
    let (starting, after) = of(snapshot);
    assert_eq!((none, starting), (0, 20));
    assert!(after > before, "{after} {before}");
}

/// A rollout of a broken template: one pod has not become ready for minutes.
fn mk_broken(starts: &[i64]) -> Snapshot {
    let mut snapshot = mk_complete(starts);
    let set = mk_set(&snapshot.deployment, "broken", 2, 1);
    let pod = mk_starting(&set, 90, 540);
    snapshot.replica_sets.push(set);
    snapshot.deployment.spec.template = Template::from(mk_template("broken"));
    store_defaults(&mut snapshot);
    add(&mut snapshot, [pod]);
    snapshot
}

#[test]
fn a_broken_template_shows_nothing_about_its_fix() {
    let fix = forecast(mk_rollout(mk_broken(&[10; 5])));
    let times = &fix.start_times;
    assert_eq!(
        (times.count, times.still_starting, times.dropped_failing),
        (5, 0, 1)
    );
    assert!(!times.guess);
    let high = fix.expected.duration.unwrap().high;
    assert!(high < 40_000, "{high}");
    assert!(fix.slow.unwrap().duration.unwrap().high < 40_000);
    // Without a fix, it is the rollout in progress, and how long the pod takes is a guess.
    let times = learned(mk_broken(&[10; 5]));
    assert_eq!((times.still_starting, times.dropped_failing), (1, 0));
    assert!(times.guess);
    // A pod of a template with which others became ready is slow.
    let mut slow = mk_complete(&[10; 5]);
    let set = slow.replica_sets[0].clone();
    add(&mut slow, [mk_starting(&set, 90, 15)]);
    let times = forecast(mk_rollout(slow)).start_times;
    assert_eq!((times.still_starting, times.dropped_failing), (1, 0));
}

#[test]
fn failing_pods_are_no_slow_starts() {
    let mut snapshot = mk_complete(&[10; 5]);
    let set = snapshot.replica_sets[0].clone();
    let failing = mk_starting(&set, 90, 540);
    let uid = failing.metadata.uid.clone();
    add(&mut snapshot, [failing]);
    let mut request = mk_rollout(snapshot);
    request.failing_pods.insert(uid);
    let answer = forecast(request);
    assert_eq!(answer.start_times.dropped_failing, 1);
    assert!(answer.slow.unwrap().duration.unwrap().high < 40_000);
}

/// An interruption is rare. If most pods became ready after the deadline, they take this long.
#[test]
fn starts_slower_than_the_deadline_count_if_most_are() {
    let times = learned(mk_complete(&[650, 660, 670, 680, 690, 20]));
    assert_eq!((times.count, times.dropped_late), (6, 0));
    let mut snapshot = mk_complete(&[650, 660, 670, 680, 690]);
    let set = snapshot.replica_sets[0].clone();
    snapshot.replica_sets[0].replicas = 6;
    snapshot.deployment.spec.replicas = 6;
    add(&mut snapshot, [mk_starting(&set, 90, 640)]);
    let expected = forecast(mk_request(snapshot, Vec::new())).expected;
    assert_ne!(expected.outcome, rollplan_forecast::Outcome::Never);
}

#[test]
fn times_of_the_request_replace_those_of_pods() {
    let mut request = mk_rollout(mk_complete(&[5; 10]));
    request.pod_times.start = vec![60_000; 10];
    request.pod_times.termination = vec![7_000];
    let answer = forecast(request);
    assert_eq!(answer.start_times.source, StartTimesSource::Request);
    assert!(answer.expected.duration.unwrap().low > 120_000);
    let termination = answer.start_times.termination;
    assert_eq!((termination.low, termination.high), (7_000, 7_000));
}

#[test]
fn pods_terminate_by_the_end_of_their_grace_period() {
    let termination = |seconds: Option<i64>| {
        let mut deployment = mk_deployment(1);
        let mut template = mk_template("v1");
        if let (Some(seconds), Some(map)) = (seconds, template.as_map_mut()) {
            let spec = map.get_mut("spec").unwrap().as_map_mut().unwrap();
            let key = "terminationGracePeriodSeconds".to_owned();
            spec.insert(
                key,
                Value::from(rollplan_core::template::Number::from(seconds)),
            );
        }
        deployment.spec.template = Template::from(template);
        let snapshot = mk_complete_of(deployment, &[5]);
        let Range { low, high, .. } = learned(snapshot).termination;
        (low, high)
    };
    assert_eq!(termination(None), (1_000, 30_000));
    assert_eq!(termination(Some(90)), (1_000, 90_000));
    assert_eq!(termination(Some(0)), (0, 0));
}

#[test]
fn terminating_pods_of_the_snapshot_are_counted_until_they_are_gone() {
    let mut snapshot = mk_complete(&[5, 5]);
    let set = snapshot.replica_sets[0].clone();
    let mut pod = mk_ready(&set, 9, 600, 5);
    pod.metadata.deletion_timestamp = Some(at(20));
    add(&mut snapshot, [pod]);
    let answer = forecast(mk_rollout(snapshot));
    let first = answer.expected.trajectory.first().unwrap();
    assert_eq!((&*first.pods, first.terminating), (&[0, 2][..], 1));
    assert_eq!(answer.start_times.count, 2);
}

/// A complete rollout on four nodes. The first pod on each node took 20 seconds, and those that were created `later` seconds
/// after it took 5.
fn mk_spread(later: i64) -> Snapshot {
    let mut snapshot = mk_complete(&[5; 12]);
    let set = snapshot.replica_sets[0].clone();
    let pods = (0..12).map(|number| {
        let (age, start) = if number < 4 {
            (3600, 20)
        } else {
            (3600 - later, 5)
        };
        let mut pod = mk_ready(&set, number, age, start);
        pod.node_name = format!("node-{}", number % 4);
        pod
    });
    snapshot.pods = pods.collect();
    snapshot
}

fn median(snapshot: Snapshot, image: &str) -> (i64, bool) {
    let change = with_image(&snapshot, image);
    let answer = forecast(mk_request(snapshot, vec![change]));
    let pulls = answer.assumptions.iter().any(|it| it.contains("4 nodes"));
    (answer.expected.duration.unwrap().median.unwrap(), pulls)
}

#[test]
fn a_new_image_is_pulled_once_by_each_node() {
    // One wave that waits for the image, and another one.
    let (pulled, pulls) = median(mk_spread(60), "v2");
    assert!(pulls && (24_000..30_000).contains(&pulled), "{pulled}");
    // Created before the first pods were ready, the others may have waited as well: nothing is known about the nodes.
    let (mixed, pulls) = median(mk_spread(10), "v2");
    assert!(!pulls && mixed > pulled + 5_000, "{mixed} {pulled}");
}

#[test]
fn an_image_of_another_revision_is_not_pulled_again() {
    let mut snapshot = mk_spread(60);
    let old = mk_set(&snapshot.deployment, "v2", 0, 0);
    snapshot.replica_sets.insert(0, old);
    store_defaults(&mut snapshot);
    let (duration, pulls) = median(snapshot, "v2");
    assert!(!pulls && (9_000..15_000).contains(&duration), "{duration}");
}

/// A rollout in progress: a new pod is ready on each of two nodes, after this time.
fn mk_begun(start: i64) -> Answer {
    let mut snapshot = mk_spread(60);
    let mut new = mk_set(&snapshot.deployment, "v2", 2, 2);
    snapshot.deployment.spec.template = new.template.clone();
    new.metadata.annotations = snapshot.replica_sets[0].metadata.annotations.clone();
    let pods: Vec<_> = (0..2)
        .map(|number| {
            let mut pod = mk_ready(&new, 20 + number, 60, start);
            pod.node_name = format!("node-{number}");
            pod
        })
        .collect();
    snapshot.replica_sets.push(new);
    add(&mut snapshot, pods);
    forecast(mk_request(snapshot, Vec::new()))
}

#[test]
fn few_pods_with_the_template_count_together_with_others() {
    let answer = mk_begun(20);
    let times = answer.start_times;
    assert_eq!(
        (times.source, times.count),
        (StartTimesSource::OtherTemplates, 14)
    );
    // The other two nodes have not pulled the image yet.
    let mut assumptions = answer.assumptions.iter();
    assert!(assumptions.any(|it| it.contains("each of 2 nodes takes")));
}

#[test]
fn few_pods_that_differ_from_all_others_count_alone() {
    let answer = mk_begun(40);
    let times = answer.start_times;
    assert_eq!(
        (times.source, times.count),
        (StartTimesSource::SameTemplate, 2)
    );
    // All of them were the first ones on their nodes.
    let mut assumptions = answer.assumptions.iter();
    assert!(!assumptions.any(|it| it.contains("nodes takes")));
}

#[test]
fn starts_that_differ_by_chance_show_no_pull() {
    let mut snapshot = mk_spread(60);
    // One later pod took as long as the first ones, except for the rounding of times to seconds.
    let pods = std::sync::Arc::make_mut(&mut snapshot.pods);
    let set = snapshot.replica_sets[0].clone();
    let mut slow = mk_ready(&set, 11, 3540, 19);
    slow.node_name = "node-3".to_owned();
    pods[11] = slow;
    assert!(!median(snapshot, "v2").1);
}
