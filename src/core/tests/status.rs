//! The status of a Deployment, and its progress deadline.

use rollplan_core::plan_settled;
use rollplan_core::revision::REVISION;
use rollplan_core::selector::LabelSelector;
use rollplan_core::snapshot::{
    Condition, Deployment, DeploymentStatus, Options, ReplicaSet, Snapshot, Strategy,
};
use rollplan_core::status::{
    condition, has_progress_deadline, is_complete, new_condition, progress_deadline, requeue_after,
    set_condition,
};
use rollplan_core::time::{Span, Time};
use rollplan_core::{compute_status, plan_pass};
use rollplan_world::{
    at, mk_condition, mk_deployment, mk_set, mk_set_status, mk_snapshot, mk_template, now, rolling,
    strings,
};

fn counts(replicas: i32, updated: i32, ready: i32, available: i32) -> DeploymentStatus {
    DeploymentStatus {
        replicas,
        updated_replicas: updated,
        ready_replicas: ready,
        available_replicas: available,
        ..DeploymentStatus::default()
    }
}

/// `TestDeploymentComplete` of Kubernetes.
#[test]
fn completion_matches_upstream() {
    for (wanted, pods, updated, available, want) in [
        (5, 5, 5, 4, false),
        (5, 5, 5, 3, false),
        (5, 5, 5, 5, true),
        (5, 5, 4, 5, false),
        (1, 2, 1, 1, false),
        (1, 1, 1, 0, false),
        (0, 0, 0, 0, true),
        (0, 1, 0, 0, false),
    ] {
        let mut deployment = mk_deployment(wanted);
        let mut status = counts(pods, updated, 0, available);
        for (generation, observed, seen) in [(3, 2, false), (3, 3, true), (3, 4, true)] {
            deployment.metadata.generation = generation;
            status.observed_generation = observed;
            assert_eq!(
                is_complete(&deployment, &status),
                want && seen,
                "{status:?}"
            );
        }
    }
}

/// The reason of the condition Progressing for a late rollout with this status, whose ReplicaSet reports `after`.
fn progressing_after(before: DeploymentStatus, after: DeploymentStatus) -> String {
    let mut deployment = mk_deployment(50);
    deployment.spec.strategy = rolling(1, 50);
    deployment.metadata.annotations = strings([(REVISION, "2")]);
    deployment.spec.template = mk_template("v2").into();
    let mut sets = vec![
        mk_set(&deployment, "v1", 1, 0),
        mk_set(&deployment, "v2", 2, 50),
    ];
    let old = after.replicas - after.updated_replicas;
    sets[0].status = mk_set_status(old, 0);
    sets[1].status = mk_set_status(after.updated_replicas, after.available_replicas);
    sets[1].status.ready_replicas = after.ready_replicas;
    deployment.status = before;
    let since = at(-60);
    deployment.status.conditions = vec![mk_condition(
        "Progressing",
        "False",
        "ProgressDeadlineExceeded",
        since,
    )];
    let plan = plan_pass(&mk_snapshot(deployment, sets), Options::default());
    condition(&plan.status, "Progressing")
        .unwrap()
        .reason
        .clone()
}

/// `TestDeploymentProgressing` of Kubernetes.
#[test]
fn progress_matches_upstream() {
    const YES: &str = "ReplicaSetUpdated";
    const NO: &str = "ProgressDeadlineExceeded";
    for (before, after, want) in [
        (counts(10, 4, 4, 4), counts(10, 6, 4, 4), YES),
        (counts(10, 4, 4, 4), counts(10, 4, 4, 4), NO),
        (counts(10, 4, 6, 6), counts(8, 4, 6, 6), YES),
        (counts(10, 7, 3, 3), counts(10, 6, 3, 3), NO),
        (counts(10, 4, 7, 7), counts(8, 8, 5, 5), YES),
        (counts(10, 10, 9, 8), counts(10, 10, 10, 8), YES),
        (counts(10, 10, 10, 9), counts(10, 10, 10, 10), YES),
        (counts(10, 4, 4, 4), counts(11, 4, 4, 4), NO),
        (counts(10, 4, 4, 4), counts(10, 4, 3, 3), NO),
    ] {
        assert_eq!(
            progressing_after(before.clone(), after.clone()),
            want,
            "{before:?} {after:?}"
        );
    }
}

/// A case of `TestSyncRolloutStatus` of Kubernetes: deadline, replicas, pods of the new ReplicaSet (wanted, existing,
/// available) and of the old one, the condition before, and the condition after.
struct Sync {
    deadline: i32,
    status: (i32, i32, i32),
    new: Option<(i32, i32, i32)>,
    old: Option<(i32, i32, i32)>,
    before: Option<Condition>,
    want: Option<Condition>,
}

fn progressing(
    status: &str,
    reason: &str,
    message: &str,
    updated: Time,
    changed: Time,
) -> Condition {
    Condition {
        kind: "Progressing".to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_update_time: Some(updated),
        last_transition_time: Some(changed),
    }
}

#[track_caller]
fn check_sync(case: Sync) {
    let Sync {
        deadline,
        status: (pods, updated, available),
        new,
        old,
        before,
        want,
    } = case;
    let mut deployment = mk_deployment(3);
    deployment.spec.strategy = Strategy::Recreate;
    deployment.spec.progress_deadline_seconds = deadline;
    deployment.metadata.annotations = strings([(REVISION, "2")]);
    deployment.status = counts(pods, updated, 0, available);
    deployment.status.conditions = before.into_iter().collect();
    let set = |image: &str, revision, (size, pods, available)| {
        let mut set = mk_set(&deployment, image, revision, size);
        set.status = mk_set_status(pods, available);
        set.status.ready_replicas = 0;
        set
    };
    let sets: Vec<ReplicaSet> = old
        .map(|pods| set("v0", 1, pods))
        .into_iter()
        .chain(new.map(|pods| set("v1", 2, pods)))
        .collect();
    let status = compute_status(&mk_snapshot(deployment, sets), Options::default());
    assert_eq!(condition(&status, "Progressing"), want.as_ref());
}

#[test]
fn rollout_conditions_match_upstream() {
    let then = at(-90);
    let updated = || progressing("True", "ReplicaSetUpdated", "before", then, then);
    let late = || progressing("False", "ProgressDeadlineExceeded", "before", then, then);
    let done = || progressing("True", "NewReplicaSetAvailable", "before", then, then);
    let base = |before: Option<Condition>, want: Option<Condition>| Sync {
        deadline: 60,
        status: (2, 2, 2),
        new: Some((3, 2, 2)),
        old: Some((0, 1, 1)),
        before,
        want,
    };
    let is_progressing = |changed| {
        let message = "ReplicaSet \"web-v1\" is progressing.";
        Some(progressing(
            "True",
            "ReplicaSetUpdated",
            message,
            now(),
            changed,
        ))
    };
    let is_done = |changed| {
        let message = "ReplicaSet \"web-v1\" has successfully progressed.";
        Some(progressing(
            "True",
            "NewReplicaSetAvailable",
            message,
            now(),
            changed,
        ))
    };
    // A Deployment without a deadline has no condition.
    check_sync(Sync {
        deadline: i32::MAX,
        ..base(Some(updated()), None)
    });
    // Progress.
    check_sync(base(Some(updated()), is_progressing(then)));
    check_sync(base(Some(late()), is_progressing(now())));
    check_sync(base(None, is_progressing(now())));
    // Completion.
    let complete = |before, want| Sync {
        status: (3, 3, 3),
        new: Some((3, 3, 3)),
        old: None,
        ..base(before, want)
    };
    check_sync(complete(Some(updated()), is_done(then)));
    check_sync(complete(Some(late()), is_done(now())));
    check_sync(complete(None, is_done(now())));
    check_sync(complete(Some(done()), Some(done())));
    // It was complete, and now other pods exist as well: neither progress nor a timeout.
    check_sync(Sync {
        status: (4, 3, 3),
        old: Some((0, 1, 0)),
        new: Some((3, 3, 3)),
        ..base(Some(done()), Some(done()))
    });
    // Past the deadline.
    let stuck = |before, want| Sync {
        old: None,
        ..base(before, want)
    };
    let message = "ReplicaSet \"web-v1\" has timed out progressing.";
    let is_late = progressing("False", "ProgressDeadlineExceeded", message, now(), now());
    check_sync(stuck(Some(updated()), Some(is_late)));
    check_sync(stuck(Some(late()), Some(late())));
    // Just before the deadline.
    check_sync(Sync {
        deadline: 90,
        ..stuck(Some(updated()), Some(updated()))
    });
}

#[test]
fn messages_name_the_deployment_without_a_new_replica_set() {
    let mut deployment = mk_deployment(0);
    deployment.spec.strategy = Strategy::Recreate;
    deployment.status.replicas = 3;
    let old = mk_set(&deployment, "v0", 1, 0);
    let status = compute_status(&mk_snapshot(deployment, vec![old]), Options::default());
    let done = "Deployment \"web\" has successfully progressed.";
    let want = progressing("True", "NewReplicaSetAvailable", done, now(), now());
    assert_eq!(condition(&status, "Progressing"), Some(&want));

    let mut deployment = mk_deployment(1);
    deployment.spec.strategy = Strategy::Recreate;
    let then = at(-601);
    deployment.status.conditions = vec![mk_condition("Progressing", "True", "Some", then)];
    let mut old = mk_set(&deployment, "v0", 1, 0);
    old.status.replicas = 1;
    deployment.status.replicas = 1;
    let status = compute_status(&mk_snapshot(deployment, vec![old]), Options::default());
    let late = "Deployment \"web\" has timed out progressing.";
    let want = progressing("False", "ProgressDeadlineExceeded", late, now(), now());
    assert_eq!(condition(&status, "Progressing"), Some(&want));
}

/// `TestDeploymentTimedOut` and `TestRequeueStuckDeployment` of Kubernetes, and the cases in which no timer runs.
#[test]
fn deadline_timer_runs_while_a_rollout_may_be_stuck() {
    let deployment = |change: fn(&mut Deployment)| {
        let mut deployment = mk_deployment(3);
        deployment.spec.progress_deadline_seconds = 60;
        change(&mut deployment);
        deployment
    };
    let stuck = |reason| {
        let mut status = counts(3, 3, 3, 1);
        status.observed_generation = 1;
        let since = at(-30);
        status.conditions = vec![
            mk_condition("Available", "True", "Some", at(-1)),
            mk_condition("Progressing", "True", reason, since),
        ];
        status
    };
    let same = |_: &mut Deployment| {};
    assert_eq!(
        progress_deadline(&deployment(same), &stuck("")),
        Some(at(30))
    );
    for reason in [
        "ReplicaSetUpdated",
        "NewReplicaSetCreated",
        "FoundNewReplicaSet",
        "ReplicaSetCreateError",
        "DeploymentResumed",
    ] {
        let deadline = progress_deadline(&deployment(same), &stuck(reason));
        assert_eq!(deadline, Some(at(30)), "{reason}");
    }
    for reason in ["ProgressDeadlineExceeded", "NewReplicaSetAvailable"] {
        assert_eq!(progress_deadline(&deployment(same), &stuck(reason)), None);
    }
    let idle: [fn(&mut Deployment); 4] = [
        |deployment| deployment.spec.paused = true,
        |deployment| deployment.metadata.deletion_timestamp = Some(at(0)),
        |deployment| deployment.spec.progress_deadline_seconds = i32::MAX,
        |deployment| deployment.spec.replicas = 1,
    ];
    for change in idle {
        let mut status = stuck("");
        // Complete for one wanted pod.
        (status.replicas, status.updated_replicas) = (1, 1);
        assert_eq!(progress_deadline(&deployment(change), &status), None);
    }
    let mut none = stuck("");
    none.conditions.pop();
    assert_eq!(progress_deadline(&deployment(same), &none), None);
    // A condition without a time was never updated.
    let mut never = stuck("");
    never.conditions[1].last_update_time = None;
    assert_eq!(
        progress_deadline(&deployment(same), &never),
        Some(Time::MIN.plus_seconds(60))
    );

    let requeue = |now| requeue_after(&deployment(same), &stuck(""), now);
    for (seconds, want) in [(0, 31), (29, 2), (30, 1), (31, 1), (3600, 1), (-10, 41)] {
        assert_eq!(requeue(at(seconds)), Some(Span::from_seconds(want)));
    }
    let just_before = Time::new(at(29).seconds(), 999_999_999).unwrap();
    let span = requeue(just_before).unwrap();
    assert_eq!((span.seconds(), span.subsec_nanos()), (1, 1));

    assert!(has_progress_deadline(&deployment(same)));
    assert!(!has_progress_deadline(&deployment(idle[2])));
    assert!(has_progress_deadline(&deployment(|deployment| {
        deployment.spec.progress_deadline_seconds = i32::MAX - 1;
    })));
}

#[test]
fn deadline_is_exceeded_after_its_last_second() {
    let mut deployment = mk_deployment(1);
    deployment.metadata.annotations = strings([(REVISION, "1")]);
    deployment.status.conditions = vec![mk_condition("Progressing", "True", "Some", at(-600))];
    let mut set = mk_set(&deployment, "v1", 1, 1);
    set.status = mk_set_status(0, 0);
    let mut snapshot = mk_snapshot(deployment, vec![set]);
    let reason = |snapshot: &Snapshot| {
        let status = compute_status(snapshot, Options::default());
        condition(&status, "Progressing").unwrap().reason.clone()
    };
    assert_eq!(reason(&snapshot), "Some");
    snapshot.now = Time::new(now().seconds(), 1).unwrap();
    assert_eq!(reason(&snapshot), "ProgressDeadlineExceeded");
    // Without its fraction, which the server does not store.
    let status = compute_status(&snapshot, Options::default());
    let late = condition(&status, "Progressing").unwrap();
    assert_eq!(late.last_update_time, Some(now()));
    assert_eq!(late.last_transition_time, Some(now()));
}

#[test]
fn updating_conditions_matches_upstream() {
    let (then, now) = (at(-60), at(0));
    let old = |kind: &str, status: &str, reason: &str| mk_condition(kind, status, reason, then);
    let new = |status: &str, reason: &str| new_condition("P", status, reason, "new", now);
    assert_eq!(
        new("True", "A"),
        Condition {
            kind: "P".to_owned(),
            status: "True".to_owned(),
            reason: "A".to_owned(),
            message: "new".to_owned(),
            last_update_time: Some(now),
            last_transition_time: Some(now),
        }
    );
    let before = || DeploymentStatus {
        conditions: vec![old("P", "True", "A"), old("Q", "True", "A")],
        ..DeploymentStatus::default()
    };
    let set = |condition: Condition| {
        let mut status = before();
        set_condition(&mut status, condition);
        status.conditions
    };
    // Unchanged.
    assert_eq!(set(new("True", "A")), before().conditions);
    // A condition with another reason or status moves to the end of the list.
    let mut want = new("True", "B");
    want.last_transition_time = Some(then);
    assert_eq!(set(new("True", "B")), [old("Q", "True", "A"), want]);
    assert_eq!(
        set(new("False", "A")),
        [old("Q", "True", "A"), new("False", "A")]
    );
    let added = new_condition("R", "True", "A", "new", now);
    assert_eq!(
        set(added.clone()),
        [old("P", "True", "A"), old("Q", "True", "A"), added]
    );
    assert_eq!(condition(&before(), "Q"), Some(&old("Q", "True", "A")));
    assert_eq!(condition(&before(), "R"), None);
}

/// `compute_status` returns the status that the controller would publish without other writes, even if a pass ends before
/// it writes the status.
#[test]
fn compute_status_ignores_planned_writes() {
    let available = |status, reason, message: &str| Condition {
        message: message.to_owned(),
        ..mk_condition("Available", status, reason, now())
    };
    let enough = || {
        let message = "Deployment has minimum availability.";
        available("True", "MinimumReplicasAvailable", message)
    };
    let mut deployment = mk_deployment(3);
    deployment.metadata.generation = 5;
    deployment.spec.paused = true;
    deployment.status.collision_count = Some(2);
    let mut old = mk_set(&deployment, "v0", 1, 2);
    old.status = mk_set_status(3, 1);
    old.status.terminating_replicas = Some(4);
    let mut new = mk_set(&deployment, "v1", 2, 2);
    new.status.ready_replicas = 1;
    let counted = DeploymentStatus {
        observed_generation: 5,
        replicas: 5,
        updated_replicas: 2,
        ready_replicas: 2,
        available_replicas: 3,
        unavailable_replicas: 1,
        terminating_replicas: Some(4),
        collision_count: Some(2),
        conditions: vec![],
    };
    let mut snapshot = mk_snapshot(deployment, vec![old, new]);
    let status = |snapshot: &Snapshot| compute_status(snapshot, Options::default());

    // Paused: with the condition that a separate pass would write.
    let paused = progressing(
        "Unknown",
        "DeploymentPaused",
        "Deployment is paused",
        now(),
        now(),
    );
    let want = DeploymentStatus {
        conditions: vec![paused, enough()],
        ..counted.clone()
    };
    assert_eq!(status(&snapshot), want);
    // Not paused: the conditions of a rollout.
    snapshot.deployment.spec.paused = false;
    let text = "ReplicaSet \"web-v1\" is progressing.";
    let want = DeploymentStatus {
        conditions: vec![
            enough(),
            progressing("True", "ReplicaSetUpdated", text, now(), now()),
        ],
        ..counted.clone()
    };
    assert_eq!(status(&snapshot), want);
    // Being deleted: without either.
    snapshot.deployment.metadata.deletion_timestamp = Some(at(-5));
    let want = DeploymentStatus {
        conditions: vec![enough()],
        ..counted.clone()
    };
    assert_eq!(status(&snapshot), want);
    snapshot.deployment.spec.paused = true;
    assert_eq!(status(&snapshot), want);
    // The server may not support all fields.
    let options = Options {
        terminating_replicas: false,
        ..Options::default()
    };
    let want = DeploymentStatus {
        terminating_replicas: None,
        ..want
    };
    assert_eq!(compute_status(&snapshot, options), want);
    // A Deployment that selects all pods keeps its status.
    snapshot.deployment.spec.selector = LabelSelector::default();
    assert_eq!(status(&snapshot), snapshot.deployment.status);
}

#[test]
fn availability_depends_on_the_minimum() {
    for (strategy, available, want) in [
        (rolling(1, 2), 2, "False"),
        (rolling(1, 2), 3, "True"),
        (rolling(0, 0), 3, "False"),
        (rolling(0, 0), 4, "True"),
        (rolling(1, 9), 0, "True"),
        (Strategy::Recreate, 4, "False"),
        (Strategy::Recreate, 5, "True"),
    ] {
        let mut deployment = mk_deployment(5);
        deployment.spec.strategy = strategy;
        let mut set = mk_set(&deployment, "v1", 1, 5);
        set.status.available_replicas = available;
        let status = compute_status(&mk_snapshot(deployment, vec![set]), Options::default());
        let got = &condition(&status, "Available").unwrap().status;
        assert_eq!(got, want, "{strategy:?} {available}");
    }
}

/// Repeated plans for a complete Deployment write nothing.
#[test]
fn complete_deployments_have_no_writes() {
    let mut deployment = mk_deployment(3);
    deployment.metadata.annotations = strings([(REVISION, "2")]);
    deployment.status = counts(3, 3, 3, 3);
    deployment.status.observed_generation = 1;
    deployment.status.terminating_replicas = Some(0);
    let since = at(-3600);
    deployment.status.conditions = vec![
        mk_condition("Available", "True", "MinimumReplicasAvailable", since),
        mk_condition("Progressing", "True", "NewReplicaSetAvailable", since),
    ];
    let sets = vec![
        mk_set(&deployment, "v0", 1, 0),
        mk_set(&deployment, "v1", 2, 3),
    ];
    let status = deployment.status.clone();
    let snapshot = mk_snapshot(deployment, sets);
    for plan in [
        plan_pass(&snapshot, Options::default()),
        plan_settled(&snapshot, Options::default()),
    ] {
        assert_eq!(plan.steps, []);
        assert_eq!(plan.status, status);
        assert_eq!(plan.requeue_after, None);
        assert!(plan.settled);
    }
}
