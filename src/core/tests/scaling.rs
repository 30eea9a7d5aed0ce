//! Upstream's test tables for scaling, for one pass of a rollout, and for clean-up.

use rollplan_core::action::Action;
use rollplan_core::plan_pass;
use rollplan_core::revision::{DESIRED_REPLICAS, MAX_REPLICAS, REVISION};
use rollplan_core::snapshot::{Deployment, Options, ReplicaSet, Snapshot, Strategy};
use rollplan_world::{at, mk_deployment, mk_set, mk_snapshot, mk_template, rolling};

/// The scaled sizes and the deletions of one pass, in order.
fn orders(snapshot: &Snapshot) -> Vec<(String, Option<i32>)> {
    let plan = plan_pass(snapshot, Options::default());
    let actions = plan.steps.iter().filter_map(|step| step.action.as_ref());
    actions
        .filter_map(|action| match action {
            Action::ScaleReplicaSet { set, to, .. } => Some((set.name.clone(), Some(*to))),
            Action::DeleteReplicaSet { set } => Some((set.name.clone(), None)),
            _ => None,
        })
        .collect()
}

/// A case of `TestScale` of Kubernetes. A paused Deployment is scaled in every pass, and its status is up to date.
struct Scale {
    replicas: i32,
    surge: i32,
    /// Replicas and surge when the ReplicaSets were last scaled.
    before: (i32, i32),
    /// The sizes of v1, v2 and so on. The last one is new, if `has_new`.
    sizes: &'static [i32],
    has_new: bool,
    want: &'static [i32],
}

#[track_caller]
fn check_scale(case: &Scale, change: impl Fn(&mut ReplicaSet)) {
    let Scale {
        replicas,
        surge,
        before,
        sizes,
        has_new,
        want,
    } = *case;
    let mut deployment = mk_deployment(before.0);
    deployment.spec.strategy = rolling(before.1, 1);
    deployment.spec.paused = true;
    deployment.spec.progress_deadline_seconds = i32::MAX;
    let mut sets: Vec<ReplicaSet> = (1..)
        .zip(sizes)
        .map(|(number, size)| mk_set(&deployment, &format!("v{number}"), number, *size))
        .collect();
    let newest = format!("v{}", sizes.len());
    deployment.spec.template = mk_template(if has_new { &newest } else { "none" }).into();
    deployment.spec.replicas = replicas;
    deployment.spec.strategy = rolling(surge, 1);
    deployment.status.replicas = sizes.iter().sum();
    let revision = sizes.len().to_string();
    let annotations = &mut deployment.metadata.annotations;
    annotations.insert(REVISION.to_owned(), revision);
    change(sets.last_mut().unwrap());
    let mut got: Vec<i32> = sizes.to_vec();
    for (name, size) in orders(&mk_snapshot(deployment, sets)) {
        let number: usize = name["web-v".len()..].parse().unwrap();
        got[number - 1] = size.unwrap();
    }
    assert_eq!(got, want, "{sizes:?} to {replicas} + {surge}");
}

#[test]
fn proportional_scaling_matches_upstream() {
    for (replicas, before, sizes, has_new, want) in [
        (12, 10, &[10][..], true, &[12][..]),
        (5, 10, &[10], true, &[5]),
        (10, 5, &[3, 2], true, &[6, 4]),
        (3, 5, &[3, 2], true, &[2, 1]),
        (4, 9, &[1, 8], true, &[0, 4]),
        (10, 7, &[2, 3, 2], true, &[3, 4, 3]),
        (8, 13, &[3, 8, 2], true, &[2, 5, 1]),
        (4, 3, &[1, 1, 1], true, &[1, 1, 2]),
        (2, 3, &[1, 1, 1], true, &[0, 1, 1]),
        (5, 4, &[2, 2], false, &[2, 3]),
        (0, 6, &[1, 2, 3], true, &[0, 0, 0]),
        (6, 6, &[0, 0, 0], true, &[0, 0, 6]),
        (14, 10, &[3, 7], false, &[4, 10]),
        // Without an active or new ReplicaSet, the latest is scaled.
        (3, 3, &[0, 0], false, &[0, 3]),
    ] {
        let case = Scale {
            replicas,
            surge: 0,
            before: (before, 0),
            sizes,
            has_new,
            want,
        };
        check_scale(&case, |_| {});
    }
    let surge = |replicas, surge, before, sizes, want| Scale {
        replicas,
        surge,
        before,
        sizes,
        has_new: true,
        want,
    };
    check_scale(&surge(20, 2, (10, 2), &[6, 6], &[11, 11]), |_| {});
    check_scale(&surge(50, 6, (10, 3), &[8, 5], &[34, 22]), |_| {});
    // The new ReplicaSet has its size, but no available pods: old pods are kept.
    check_scale(&surge(2, 1, (2, 1), &[1, 2], &[1, 2]), |new| {
        new.status.available_replicas = 0;
    });
    // Saturated: old pods are deleted at once.
    check_scale(&surge(2, 1, (2, 1), &[1, 2], &[0, 2]), |_| {});
    // The annotation has another size: not saturated.
    check_scale(&surge(2, 1, (2, 1), &[1, 2], &[1, 2]), |new| {
        let annotations = &mut new.metadata.annotations;
        annotations.insert(DESIRED_REPLICAS.to_owned(), "3".to_owned());
    });
    check_scale(&surge(2, 1, (2, 1), &[1, 2], &[1, 2]), |new| {
        new.metadata.annotations.remove(DESIRED_REPLICAS);
    });
    // Another size: not saturated, regardless of the available pods.
    check_scale(&surge(2, 1, (2, 1), &[1, 1], &[1, 2]), |new| {
        new.status.available_replicas = 2;
    });
    // If the previous maximum is unknown, the size of the Deployment is used.
    check_scale(&surge(12, 0, (6, 0), &[4, 2], &[8, 4]), |new| {
        new.metadata.annotations.remove(MAX_REPLICAS);
    });
}

#[track_caller]
fn check_rollout(
    strategy: Strategy,
    replicas: i32,
    old: (i32, i32),
    new: (i32, i32),
    want: &[(&str, i32)],
) {
    let mut deployment = mk_deployment(replicas);
    deployment.spec.strategy = strategy;
    deployment.spec.template = mk_template("new").into();
    let mut sets = vec![
        mk_set(&deployment, "old", 1, old.0),
        mk_set(&deployment, "new", 2, new.0),
    ];
    sets[0].status.available_replicas = old.1;
    sets[1].status.available_replicas = new.1;
    let want: Vec<(String, Option<i32>)> = want
        .iter()
        .map(|(image, size)| (format!("web-{image}"), Some(*size)))
        .collect();
    let got = orders(&mk_snapshot(deployment, sets));
    assert_eq!(got, want, "{strategy:?} {replicas} {old:?} {new:?}");
}

/// `TestDeploymentController_reconcileNewReplicaSet`.
#[test]
fn scaling_up_the_new_replica_set_matches_upstream() {
    for (surge, old, new, want) in [
        // The new one does not grow. With both limits 0, one old pod is deleted.
        (0, 10, 0, &[("old", 9)][..]),
        (2, 10, 0, &[("new", 2)]),
        (2, 5, 0, &[("new", 7)]),
        (2, 2, 11, &[("new", 10)]),
    ] {
        check_rollout(rolling(surge, 0), 10, (old, old), (new, new), want);
    }
    check_rollout(rolling(2, 0), 10, (10, 10), (2, 0), &[]);
}

/// `TestDeploymentController_reconcileOldReplicaSets`, `cleanupUnhealthyReplicas` and
/// `scaleDownOldReplicaSetsForRollingUpdate`.
#[test]
fn scaling_down_old_replica_sets_matches_upstream() {
    for (unavailable, old, available, new, want) in [
        (0, 10, 10, 0, &[("old", 9)][..]),
        (2, 10, 10, 0, &[("old", 8)]),
        // Only unhealthy pods.
        (2, 10, 8, 0, &[("old", 8)]),
        // An unhealthy pod, then a healthy one.
        (2, 10, 9, 0, &[("old", 9), ("old", 8)]),
        // Unavailable new pods hold old pods.
        (2, 8, 8, 2, &[]),
        (2, 10, 1, 0, &[("old", 8)]),
    ] {
        let strategy = rolling(0, unavailable);
        check_rollout(strategy, 10, (old, available), (new, 0), want);
    }
    // More pods may be deleted than are unavailable, and vice versa.
    check_rollout(rolling(2, 2), 10, (10, 8), (2, 0), &[("old", 8)]);
    check_rollout(
        rolling(2, 2),
        10,
        (10, 8),
        (2, 1),
        &[("old", 8), ("old", 7)],
    );
    check_rollout(rolling(2, 2), 10, (11, 8), (1, 0), &[("old", 8)]);
}

fn history(deployment: &Deployment, sets: &[(i64, i32, i32)]) -> Vec<ReplicaSet> {
    let mut all = vec![mk_set(deployment, "v1", 1_000, deployment.spec.replicas)];
    for (number, (revision, size, pods)) in (1..).zip(sets) {
        let mut set = mk_set(deployment, &format!("old{number}"), *revision, *size);
        set.status.replicas = *pods;
        set.metadata.creation_timestamp = Some(at(-3600 + number));
        all.push(set);
    }
    all
}

/// `TestDeploymentController_cleanupDeployment` and `cleanupDeploymentOrder`. A paused Deployment always cleans up, and
/// one without pods is not scaled.
#[track_caller]
fn check_clean_up(limit: i32, sets: &[(i64, i32, i32)], deleted: &[usize]) {
    let mut deployment = mk_deployment(0);
    deployment.spec.paused = true;
    deployment.spec.revision_history_limit = limit;
    deployment.spec.progress_deadline_seconds = i32::MAX;
    let annotations = &mut deployment.metadata.annotations;
    annotations.insert(REVISION.to_owned(), "1000".to_owned());
    let sets = history(&deployment, sets);
    let want: Vec<String> = deleted
        .iter()
        .map(|number| format!("web-old{number}"))
        .collect();
    let got: Vec<String> = orders(&mk_snapshot(deployment, sets))
        .into_iter()
        .filter_map(|(name, size)| size.is_none().then_some(name))
        .collect();
    assert_eq!(got, want);
}

#[test]
fn history_clean_up_matches_upstream() {
    check_clean_up(1, &[(1, 0, 0), (2, 0, 0), (3, 0, 0)], &[1, 2]);
    check_clean_up(0, &[(1, 0, 0), (2, 0, 1), (3, 1, 0), (4, 1, 1)], &[1]);
    check_clean_up(0, &[(1, 0, 0), (2, 0, 0)], &[1, 2]);
    check_clean_up(0, &[(1, 1, 1), (2, 1, 1)], &[]);
    check_clean_up(i32::MAX, &[(1, 0, 0), (2, 0, 0), (3, 0, 0)], &[]);
    check_clean_up(i32::MAX - 1, &[(1, 0, 0), (2, 0, 0), (3, 0, 0)], &[]);
    check_clean_up(3, &[(1, 0, 0), (2, 0, 0), (3, 0, 0)], &[]);
    // In order of revision.
    check_clean_up(1, &[(1, 0, 0), (2, 0, 0)], &[1]);
    check_clean_up(1, &[(2, 0, 0), (1, 0, 0)], &[2]);
    check_clean_up(1, &[(1, 0, 1), (2, 0, 0), (3, 0, 0)], &[2]);
    check_clean_up(1, &[(1, 0, 1), (2, 0, 1), (3, 0, 0)], &[]);
    check_clean_up(2, &[(3, 0, 0), (1, 0, 0), (4, 0, 0), (2, 0, 0)], &[2, 4]);
    // Among equal revisions, the oldest is deleted first.
    check_clean_up(1, &[(1, 0, 0), (1, 0, 0), (1, 0, 0)], &[1, 2]);
}

/// Go sorts up to twelve items by insertion. This matters if the order is not a strict one.
#[test]
fn clean_up_without_revisions_has_the_order_of_gos_sort() {
    let mut deployment = mk_deployment(1);
    deployment.spec.revision_history_limit = 3;
    let annotations = &mut deployment.metadata.annotations;
    annotations.insert(REVISION.to_owned(), "1000".to_owned());
    deployment.status.replicas = 1;
    deployment.status.updated_replicas = 1;
    deployment.status.available_replicas = 1;
    deployment.status.observed_generation = 1;
    let clean_up = |revisions: &[&str]| -> Vec<String> {
        let list: Vec<(i64, i32, i32)> = revisions.iter().map(|_| (1, 0, 0)).collect();
        let mut sets = history(&deployment, &list);
        for (set, revision) in sets[1..].iter_mut().zip(revisions) {
            let annotations = &mut set.metadata.annotations;
            annotations.insert(REVISION.to_owned(), (*revision).to_owned());
        }
        let orders = orders(&mk_snapshot(deployment.clone(), sets));
        orders
            .into_iter()
            .map(|(name, _)| name["web-old".len()..].to_owned())
            .collect()
    };
    assert_eq!(clean_up(&["5", "4", "x", "3", "2"]), ["2", "1"]);
    assert_eq!(clean_up(&["5", "x", "4", "3", "2"]), ["1", "2"]);
    assert_eq!(clean_up(&["x", "5", "4", "3", "2"]), ["1", "5"]);
    let twelve = ["9", "8", "7", "6", "5", "4", "3", "2", "1", "x", "1", "2"];
    assert_eq!(
        clean_up(&twelve),
        ["9", "8", "7", "6", "5", "4", "3", "2", "1"]
    );
    // More than twelve are sorted in runs of twelve, and merged.
    let thirteen = [
        "9", "8", "7", "6", "5", "4", "3", "2", "1", "x", "1", "2", "7",
    ];
    assert_eq!(
        clean_up(&thirteen),
        ["9", "8", "7", "6", "5", "4", "3", "13", "2", "1"]
    );
}

/// Runs of twelve are merged repeatedly.
#[test]
fn many_replica_sets_are_cleaned_up_in_order_of_revision() {
    let revision = |number: usize| number * 7 % 53;
    let mut numbers: Vec<usize> = (1..=50).collect();
    let sets = numbers
        .iter()
        .map(|number| (revision(*number) as i64, 0, 0));
    let sets: Vec<(i64, i32, i32)> = sets.collect();
    numbers.sort_by_key(|number| revision(*number));
    check_clean_up(3, &sets, &numbers[..47]);
}
