//! How often the range of a forecast contains the duration of a rollout whose pods start as those that were observed.

use rollplan_forecast::{Range, Request};
use rollplan_world::mk_deployment;
use rollplan_world::random::Random;

use crate::world::{forecast, mk_complete_of, mk_rollout};

const ROLLOUTS: usize = 40;

/// A distribution of start times, in milliseconds.
type Distribution = fn(&mut Random) -> i64;

fn below(random: &mut Random, end: usize) -> i64 {
    i64::try_from(random.below(end)).unwrap()
}

fn fixed(_: &mut Random) -> i64 {
    6_400
}

fn uniform(random: &mut Random) -> i64 {
    3_000 + below(random, 9_000)
}

/// Some pods take much longer than most.
fn long_tail(random: &mut Random) -> i64 {
    let mut time = 3_000;
    while random.below(3) > 0 {
        time += below(random, 2_500);
    }
    time
}

/// A rollout with random bounds.
fn mk_random(random: &mut Random, starts: &[i64]) -> Request {
    let mut deployment = mk_deployment(i32::try_from(starts.len()).unwrap());
    let surge = 1 + i32::try_from(random.below(8)).unwrap();
    deployment.spec.strategy = rollplan_world::rolling(surge, 2);
    mk_rollout(mk_complete_of(deployment, starts))
}

/// The start times as Kubernetes shows them: the difference of two whole seconds.
fn observed(random: &mut Random, distribution: Distribution) -> i64 {
    let created = below(random, 1000);
    (created + distribution(random)) / 1000 - created / 1000
}

#[test]
fn ranges_contain_most_durations() {
    let mut random = Random::from_env();
    let mut all = 0;
    for (name, distribution) in [
        ("fixed", fixed as Distribution),
        ("uniform", uniform),
        ("long tail", long_tail),
    ] {
        let (mut below_range, mut above_range) = (0, 0);
        for _ in 0..ROLLOUTS {
            let starts: Vec<i64> = (0..20)
                .map(|_| observed(&mut random, distribution))
                .collect();
            let request = mk_random(&mut random, &starts);
            let mut truth = request.clone();
            truth.samples = 1;
            truth.seed = random.number();
            truth.pod_times.start = (0..1000).map(|_| distribution(&mut random)).collect();
            let actual = forecast(truth).expected.duration.unwrap().low;
            let Range { low, high, .. } = forecast(request).expected.duration.unwrap();
            below_range += usize::from(actual < low);
            above_range += usize::from(actual > high);
        }
        let inside = ROLLOUTS - below_range - above_range;
        println!("{name}: {inside} of {ROLLOUTS}, {below_range} below, {above_range} above");
        assert!(inside * 100 >= ROLLOUTS * 70, "{random} {name}: {inside}");
        all += inside;
    }
    assert!(all * 100 >= 3 * ROLLOUTS * 80, "{random} {all}");
}
