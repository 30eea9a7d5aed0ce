//! The arithmetic of sizes: compared with slower algorithms for all small numbers, and with upstream's test tables.

use rollplan_core::size::{IntOrPercent, Limits, Share, clamp, proportional};

use IntOrPercent::{Int, Percent};

fn limits(replicas: i32, max_surge: i32, max_unavailable: i32) -> Limits {
    Limits {
        replicas,
        max_surge,
        max_unavailable,
    }
}

#[test]
fn percentages_are_rounded_to_whole_pods() {
    for total in 0..=40 {
        for percent in 0..=210 {
            // The numbers of whole pods next to the exact number, found by counting.
            let exact = i64::from(percent) * i64::from(total);
            let up = (0..).find(|pods| 100 * i64::from(*pods) >= exact).unwrap();
            let down = (0..)
                .take_while(|pods| 100 * i64::from(*pods) <= exact)
                .last()
                .unwrap();
            let value = Percent(percent);
            let context = format!("{percent}% of {total}");
            assert_eq!(value.rounded_up(total), up, "{context}");
            assert_eq!(value.rounded_down(total), down, "{context}");
        }
        assert_eq!(Int(7).rounded_up(total), 7);
        assert_eq!(Int(7).rounded_down(total), 7);
    }
    assert_eq!(IntOrPercent::DEFAULT, Percent(25));
}

/// `TestResolveFenceposts`, `TestMaxUnavailable` and `TestMinAvailable` of Kubernetes, with values instead of pointers. The
/// last column is the minimum.
#[test]
fn limits_match_upstream() {
    for (replicas, surge, unavailable, want, max_total, min_available) in [
        (0, Percent(0), Percent(0), limits(0, 0, 0), 0, 0),
        (10, Percent(39), Percent(39), limits(10, 4, 3), 14, 7),
        (10, Int(0), Percent(39), limits(10, 0, 3), 10, 7),
        (10, Percent(39), Int(0), limits(10, 4, 0), 14, 10),
        (10, Int(0), Int(0), limits(10, 0, 1), 10, 9),
        (10, Int(1), Int(5), limits(10, 1, 5), 11, 5),
        (10, Int(1), Int(10), limits(10, 1, 10), 11, 0),
        (5, Int(1), Int(10), limits(5, 1, 5), 6, 0),
        (0, Int(1), Int(10), limits(0, 1, 0), 1, 0),
        (10, Int(1), Percent(50), limits(10, 1, 5), 11, 5),
        (10, Int(1), Percent(60), limits(10, 1, 6), 11, 4),
        (10, Int(1), Percent(100), limits(10, 1, 10), 11, 0),
        (5, Int(1), Percent(100), limits(5, 1, 5), 6, 0),
        // From the comment on ResolveFenceposts.
        (2, Int(0), Percent(1), limits(2, 0, 1), 2, 1),
        (1, Int(0), Percent(1), limits(1, 0, 1), 1, 0),
        (2, Percent(1), Percent(25), limits(2, 1, 0), 3, 2),
        (1, Percent(1), Percent(0), limits(1, 1, 0), 2, 1),
    ] {
        let got = Limits::rolling(replicas, surge, unavailable);
        assert_eq!(got, want, "{replicas} {surge:?} {unavailable:?}");
        assert_eq!(got.max_total(), max_total, "{got:?}");
        assert_eq!(got.min_available(), min_available, "{got:?}");
    }
    assert_eq!(Limits::recreate(5), limits(5, 0, 0));
    assert_eq!(Limits::recreate(5).min_available(), 5);
}

/// Starts or stops one pod at a time, until the size is reached or the limit stops it.
fn grown_pod_by_pod(limits: Limits, mut size: i32, mut total: i64) -> i32 {
    while total < i64::from(limits.replicas) + i64::from(limits.max_surge)
        && size != limits.replicas
    {
        let step = (limits.replicas - size).signum();
        size += step;
        total += i64::from(step);
    }
    size
}

#[test]
fn new_replica_set_grows_within_the_surge() {
    for replicas in 0..=6 {
        for surge in 0..=4 {
            for size in 0..=9 {
                for others in 0..=9 {
                    let limits = limits(replicas, surge, 1);
                    let total = i64::from(size + others);
                    assert_eq!(
                        limits.new_set_size(size, total),
                        grown_pod_by_pod(limits, size, total),
                        "{limits:?}, {size} and {others}"
                    );
                }
            }
        }
    }
}

/// `TestNewRSNewReplicas` and `TestDeploymentController_reconcileNewReplicaSet` of Kubernetes.
#[test]
fn size_of_the_new_replica_set_matches_upstream() {
    for (replicas, surge, size, total, want) in [
        (1, 1, 5, 5, 5),
        (6, 10, 2, 5, 6),
        (10, 0, 0, 10, 0),
        (10, 2, 0, 10, 2),
        (10, 2, 0, 5, 7),
        (10, 2, 2, 12, 2),
    ] {
        let got = limits(replicas, surge, 1).new_set_size(size, total);
        assert_eq!(got, want, "{replicas} {surge} {size} {total}");
    }
}

/// Old pods are deleted one at a time, as long as the remaining pods, except for unavailable new ones, exceed the minimum.
#[test]
fn old_pods_are_deleted_down_to_the_minimum() {
    for replicas in 0..=5 {
        for unavailable in 0..=replicas {
            for total in 0..=9_i64 {
                for new_set_unavailable in -2..=total {
                    let limits = limits(replicas, 1, unavailable);
                    let mut left = total;
                    while left - new_set_unavailable > i64::from(replicas - unavailable) {
                        left -= 1;
                    }
                    let got = limits.max_scaled_down(total, new_set_unavailable);
                    assert_eq!(got.max(0), total - left, "{limits:?} {total}");
                }
            }
        }
    }
    // The examples in the comment on reconcileOldReplicaSets.
    assert_eq!(limits(10, 3, 2).max_scaled_down(13, 5), 0);
    assert_eq!(limits(10, 3, 2).max_scaled_down(13, 1), 4);
    assert_eq!(limits(10, 3, 2).max_scaled_down(13, 0), 5);
    assert_eq!(limits(10, 3, 2).max_scaled_down(5, 1), -4);
}

/// A slow algorithm for proportional scaling: it finds the size nearest to the exact share by comparing fractions, and
/// distributes the rest pod by pod.
fn proportional_pod_by_pod(limits: Limits, shares: &[Share]) -> Vec<i32> {
    let room = i64::from(limits.replicas) + i64::from(limits.max_surge);
    let allowed = if limits.replicas == 0 { 0 } else { room };
    let sum: i64 = shares.iter().map(|share| i64::from(share.size)).sum();
    let growing = allowed > sum;
    let mut left = allowed - sum;
    let mut sizes: Vec<i32> = shares.iter().map(|share| share.size).collect();
    for (size, share) in sizes.iter_mut().zip(shares) {
        if left == 0 {
            break;
        }
        let mut target = nearest(limits, *share);
        while growing && i64::from(target - *size) > left {
            target -= 1;
        }
        while !growing && i64::from(target - *size) < left {
            target += 1;
        }
        left -= i64::from(target - *size);
        *size = target;
    }
    if let Some(first) = sizes.first_mut() {
        while left > 0 {
            (*first, left) = (*first + 1, left - 1);
        }
        while left < 0 && *first > 0 {
            (*first, left) = (*first - 1, left + 1);
        }
    }
    sizes
}

fn nearest(limits: Limits, share: Share) -> i32 {
    if limits.replicas == 0 {
        return 0;
    }
    if share.max_total_before == 0 {
        return share.size;
    }
    let exact = share.size * (limits.replicas + limits.max_surge);
    let distance = |pods: i32| (pods * share.max_total_before - exact).abs();
    // Of two equally near sizes, the larger.
    (0..=exact)
        .rev()
        .min_by_key(|pods| distance(*pods))
        .unwrap()
}

#[test]
fn proportional_sizes_match_a_slow_algorithm() {
    const BEFORE: [i32; 5] = [0, 1, 3, 5, 8];
    let mut lists = vec![vec![]];
    for count in 0..3 {
        let shorter: Vec<Vec<Share>> = lists
            .iter()
            .filter(|list: &&Vec<Share>| list.len() == count)
            .cloned()
            .collect();
        for list in shorter {
            // Ordered from the largest down, as by the caller.
            let largest = list.last().map_or(4, |share: &Share| share.size);
            for size in 1..=largest {
                for max_total_before in BEFORE {
                    let mut longer = list.clone();
                    longer.push(Share {
                        size,
                        max_total_before,
                    });
                    lists.push(longer);
                }
            }
        }
    }
    for replicas in 0..=5 {
        for surge in 0..=2 {
            let limits = limits(replicas, surge, 1);
            for shares in &lists {
                let got = proportional(limits, shares);
                let want = proportional_pod_by_pod(limits, shares);
                assert_eq!(got, want, "{limits:?} {shares:?}");
                let allowed = if replicas > 0 { replicas + surge } else { 0 };
                if got.first().is_some_and(|size| *size > 0) {
                    assert_eq!(got.iter().sum::<i32>(), allowed, "{limits:?} {shares:?}");
                }
            }
        }
    }
}

/// `TestGetReplicaSetFraction` of Kubernetes, with another ReplicaSet that takes the rest.
#[test]
fn fractions_match_upstream() {
    for (replicas, surge, size, before, fraction) in [
        (0, 0, 10, 0, -10),
        (10, 0, 5, 0, 0),
        (120, 0, 50, 100, 10),
        (120, 10, 50, 110, 9),
        (10, 0, 6, 12, -1),
        (100, 10, 50, 130, -8),
    ] {
        let allowed = if replicas == 0 { 0 } else { replicas + surge };
        // The first ReplicaSet takes the rest. The second one is tested.
        let shares = [
            Share {
                size: if fraction < 0 { 1000 } else { 1 },
                max_total_before: 0,
            },
            Share {
                size,
                max_total_before: before,
            },
        ];
        let got = proportional(limits(replicas, surge, 1), &shares);
        assert_eq!(got[1], size + fraction, "{replicas} {surge} {size}");
        assert_eq!(got[0], (allowed - got[1]).max(0));
    }
}

#[test]
fn numbers_are_clamped_to_32_bits() {
    for (number, want) in [
        (0, 0),
        (-5, -5),
        (2_147_483_647, i32::MAX),
        (2_147_483_648, i32::MAX),
        (i64::MAX, i32::MAX),
        (-2_147_483_648, i32::MIN),
        (-2_147_483_649, i32::MIN),
        (i64::MIN, i32::MIN),
    ] {
        assert_eq!(clamp(number), want);
    }
}

#[test]
fn absurd_numbers_do_not_overflow() {
    const MAX: i32 = i32::MAX;
    assert_eq!(Percent(2_000_000_000).rounded_up(MAX), MAX);
    assert_eq!(Percent(2_000_000_000).rounded_down(MAX), MAX);
    assert_eq!(Percent(MAX).rounded_down(1), 21_474_836);
    assert_eq!(Percent(MAX).rounded_up(1), 21_474_837);
    let all = Limits::rolling(MAX, Int(MAX), Int(MAX));
    assert_eq!(all, limits(MAX, MAX, MAX));
    assert_eq!((all.max_total(), all.min_available()), (MAX, 0));
    assert_eq!(all.new_set_size(0, 0), MAX);
    assert_eq!(all.new_set_size(MAX, 100 * i64::from(MAX)), MAX);
    assert_eq!(all.new_set_size(3, i64::from(MAX)), 3);
    assert_eq!(
        all.max_scaled_down(100 * i64::from(MAX), -i64::from(MAX)),
        101 * i64::from(MAX)
    );
    let share = |size, max_total_before| Share {
        size,
        max_total_before,
    };
    // Kubernetes returns -38885.
    let limits = Limits::rolling(33_801, Percent(285), Int(1));
    assert_eq!(limits.max_total(), 130_134);
    assert_eq!(
        proportional(limits, &[share(33_801, 130_134), share(33_801, 130_134)]),
        [96_333, 33_801]
    );
    let many = vec![share(MAX, 1); 100];
    let mut shrunk = vec![MAX; 100];
    shrunk[0] = 0;
    assert_eq!(proportional(all, &many), shrunk);
    assert_eq!(
        proportional(all, &[share(1, 1), share(1, MAX)]),
        [MAX - 1, 1]
    );
}
