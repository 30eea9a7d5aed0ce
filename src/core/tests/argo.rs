//! The tables of Argo Rollouts for the numbers of pods of a canary (`utils/replicaset/canary_test.go` of
//! github.com/argoproj/argo-rollouts, at 01240d81b18c), asked through caps. Only their numbers are used.

use rollplan_core::action::{Action, apply};
use rollplan_core::caps::Caps;
use rollplan_core::plan_pass;
use rollplan_core::snapshot::{Options, Snapshot};
use rollplan_world::{mk_deployment, mk_set, mk_snapshot, mk_template, rolling};

/// How the plan compares with a row of Argo Rollouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compared {
    Equal,
    /// Argo Rollouts exceeds replicas + maxSurge, because pods with traffic routing do not count. The plan does not.
    ExceedsSurge,
    /// Argo Rollouts scales the new ReplicaSet down to its weight. A cap scales nothing down. Our sizes.
    ScalesNewDown(Sizes),
    /// Argo Rollouts scales the stable ReplicaSet up in the middle of a rollout, or removes the pods of the others first.
    /// Kubernetes treats all old ReplicaSets alike. Our sizes.
    PrefersStable(Sizes),
}

/// The sizes of the stable ReplicaSet and of the canary.
type Sizes = (i32, i32);

use Compared::{Equal, ExceedsSurge, PrefersStable, ScalesNewDown};

/// A row of `TestCalculateReplicaCountsForCanary`. Limits in percent are resolved.
struct Row {
    replicas: i32,
    surge: i32,
    unavailable: i32,
    /// Size and available pods of each ReplicaSet.
    stable: (i32, i32),
    canary: (i32, i32),
    older: Option<(i32, i32)>,
    /// The pods of the canary and the stable pods that the weight asks for.
    target: (i32, i32),
    want: Sizes,
    compared: Compared,
}

const fn row(
    limits: (i32, i32, i32),
    stable: (i32, i32),
    canary: (i32, i32),
    target: (i32, i32),
    want: Sizes,
    compared: Compared,
) -> Row {
    Row {
        replicas: limits.0,
        surge: limits.1,
        unavailable: limits.2,
        stable,
        canary,
        older: None,
        target,
        want,
        compared,
    }
}

/// In the order of the source.
const ROWS: [Row; 40] = [
    row((10, 3, 0), (7, 8), (6, 3), (10, 0), (7, 6), Equal),
    row((10, 2, 0), (10, 10), (0, 0), (2, 8), (10, 2), Equal),
    row((10, 2, 0), (10, 10), (0, 0), (2, 8), (10, 2), Equal),
    row((10, 2, 0), (10, 10), (2, 2), (2, 8), (8, 2), Equal),
    row((10, 2, 0), (10, 10), (0, 0), (3, 7), (10, 2), Equal),
    row((10, 0, 2), (10, 10), (0, 0), (2, 8), (8, 0), Equal),
    row((10, 0, 2), (10, 10), (0, 0), (2, 8), (8, 0), Equal),
    row((10, 0, 2), (10, 10), (0, 0), (3, 7), (8, 0), Equal),
    row((10, 2, 1), (10, 10), (0, 0), (5, 5), (9, 2), Equal),
    row((10, 1, 1), (10, 10), (1, 1), (0, 10), (10, 0), Equal),
    row((10, 1, 1), (1, 1), (10, 10), (10, 0), (0, 10), Equal),
    row((1, 1, 0), (1, 1), (0, 0), (1, 1), (1, 1), Equal),
    row((1, 1, 0), (1, 1), (0, 0), (1, 1), (1, 1), Equal),
    row((1, 0, 1), (1, 1), (0, 0), (0, 1), (1, 0), Equal),
    row((1, 0, 1), (1, 1), (0, 0), (1, 0), (0, 0), Equal),
    row((1, 0, 1), (0, 0), (0, 0), (1, 0), (0, 1), Equal),
    Row {
        older: Some((3, 3)),
        ..row(
            (10, 1, 0),
            (1, 1),
            (0, 0),
            (3, 7),
            (7, 1),
            PrefersStable((1, 3)),
        )
    },
    row(
        (10, 0, 3),
        (8, 5),
        (4, 4),
        (3, 7),
        (7, 3),
        ScalesNewDown((6, 4)),
    ),
    row(
        (10, 1, 0),
        (10, 2),
        (10, 8),
        (10, 0),
        (2, 9),
        ScalesNewDown((2, 10)),
    ),
    Row {
        older: Some((3, 3)),
        ..row(
            (10, 0, 1),
            (8, 6),
            (4, 2),
            (3, 7),
            (8, 4),
            PrefersStable((6, 4)),
        )
    },
    row((10, 0, 1), (10, 10), (0, 0), (1, 9), (9, 0), Equal),
    row((10, 0, 1), (9, 9), (0, 0), (1, 9), (9, 1), Equal),
    row((10, 0, 0), (10, 10), (0, 0), (1, 9), (9, 0), Equal),
    row((1, 0, 0), (1, 1), (0, 0), (9, 1), (1, 9), ExceedsSurge),
    row((4, 0, 0), (4, 4), (0, 0), (8, 4), (4, 8), ExceedsSurge),
    row((10, 2, 0), (10, 10), (0, 0), (2, 10), (10, 2), Equal),
    row((10, 2, 0), (10, 10), (0, 0), (2, 8), (10, 2), Equal),
    row((4, 1, 0), (4, 1), (0, 0), (4, 0), (4, 1), Equal),
    row((3, 0, 2), (3, 3), (0, 0), (2, 1), (1, 0), Equal),
    row((3, 0, 2), (1, 1), (0, 0), (2, 1), (1, 2), Equal),
    row((4, 1, 0), (4, 1), (1, 1), (4, 0), (3, 1), Equal),
    row((4, 1, 0), (0, 0), (4, 4), (0, 4), (1, 4), Equal),
    row((4, 1, 0), (1, 0), (4, 4), (0, 4), (1, 4), Equal),
    row((4, 1, 0), (1, 1), (4, 4), (0, 4), (1, 3), Equal),
    row((4, 4, 4), (4, 4), (0, 0), (4, 0), (0, 4), Equal),
    row((4, 3, 0), (4, 4), (0, 0), (4, 0), (4, 3), Equal),
    row((1, 0, 0), (1, 1), (1, 1), (1, 1), (1, 1), ExceedsSurge),
    row((1, 0, 0), (1, 1), (1, 1), (0, 1), (1, 0), Equal),
    row((10, 0, 0), (10, 10), (0, 0), (2, 10), (10, 2), ExceedsSurge),
    row((1, 0, 0), (1, 1), (0, 0), (1, 1), (1, 1), ExceedsSurge),
];

/// A row of `TestApproximateWeightedNewStableReplicaCounts`: replicas, maxSurge, and the pods of the canary and the stable
/// pods that the weight asks for. In the order of the source.
const TARGETS: [(i32, i32, i32, i32); 57] = [
    (0, 0, 0, 0),
    (0, 0, 0, 0),
    (0, 0, 0, 0),
    (0, 1, 0, 0),
    (0, 1, 0, 0),
    (0, 1, 0, 0),
    (1, 0, 0, 1),
    (1, 0, 0, 1),
    (1, 0, 0, 1),
    (1, 0, 1, 0),
    (1, 0, 1, 0),
    (1, 0, 1, 0),
    (1, 1, 0, 1),
    (1, 1, 1, 1),
    (1, 1, 1, 1),
    (1, 1, 1, 1),
    (1, 1, 1, 1),
    (1, 1, 1, 0),
    (2, 0, 0, 2),
    (2, 0, 1, 1),
    (2, 0, 1, 1),
    (2, 0, 1, 1),
    (2, 0, 2, 0),
    (2, 1, 0, 2),
    (2, 1, 1, 2),
    (2, 1, 1, 1),
    (2, 1, 2, 1),
    (2, 1, 2, 0),
    (3, 0, 1, 2),
    (3, 0, 1, 2),
    (3, 0, 1, 2),
    (3, 0, 1, 2),
    (3, 0, 1, 2),
    (3, 0, 2, 1),
    (3, 1, 1, 3),
    (3, 1, 1, 3),
    (3, 1, 1, 2),
    (3, 1, 1, 2),
    (3, 1, 2, 2),
    (3, 1, 2, 2),
    (10, 1, 0, 10),
    (10, 0, 1, 9),
    (10, 0, 1, 9),
    (10, 0, 2, 8),
    (10, 0, 2, 8),
    (10, 0, 9, 1),
    (10, 1, 10, 0),
    (10, 1, 0, 10),
    (10, 1, 1, 10),
    (10, 1, 2, 9),
    (10, 1, 2, 9),
    (10, 1, 2, 8),
    (10, 1, 2, 8),
    (10, 1, 3, 8),
    (10, 1, 3, 8),
    (10, 1, 10, 1),
    (10, 1, 10, 0),
];

/// A rollout from the stable template to that of the canary, or back.
fn mk_world(row: &Row) -> Snapshot {
    let returns = row.target.0 == 0;
    let mut deployment = mk_deployment(row.replicas);
    deployment.spec.strategy = rolling(row.surge, row.unavailable);
    let image = if returns { "stable" } else { "canary" };
    deployment.spec.template = mk_template(image).into();
    let older = row.older.map(|older| ("older", 1, older));
    let sets = older
        .into_iter()
        .chain([("stable", 2, row.stable), ("canary", 3, row.canary)]);
    let sets = sets.map(|(image, revision, (size, available))| {
        let mut set = mk_set(&deployment, image, revision, size);
        set.status.available_replicas = available;
        set
    });
    let sets = sets.collect();
    mk_snapshot(deployment, sets)
}

fn caps(row: &Row) -> Options {
    let (canary, stable) = row.target;
    let (new_max, old_min) = if canary == 0 {
        (stable, 0)
    } else {
        (canary, stable)
    };
    Options {
        caps: Caps { new_max, old_min },
        ..Options::default()
    }
}

/// The sizes of the stable ReplicaSet and of the canary.
fn sizes(world: &Snapshot) -> Sizes {
    let size = |name| {
        let mut sets = world.replica_sets.iter();
        sets.find(|set| set.metadata.name == name).unwrap().replicas
    };
    (size("web-stable"), size("web-canary"))
}

/// Makes a pass. Returns the names of the ReplicaSets that it scales.
fn pass(world: &mut Snapshot, options: Options) -> Vec<String> {
    let plan = plan_pass(world, options);
    let mut scaled = Vec::new();
    for action in plan.steps.iter().filter_map(|step| step.action.as_ref()) {
        if let Action::ScaleReplicaSet { set, .. } = action {
            scaled.push(set.name.clone());
        }
        apply(world, action);
    }
    scaled
}

/// Makes passes until one scales ReplicaSets, if any does. Some passes only write annotations.
fn scaling_pass(world: &mut Snapshot, options: Options) -> Vec<String> {
    let mut passes = (0..3).map(|_| pass(world, options));
    passes.find(|scaled| !scaled.is_empty()).unwrap_or_default()
}

/// Argo Rollouts scales the new and the old ReplicaSets at once. A pass does one of the two.
#[test]
fn one_step_has_the_numbers_of_argo_rollouts() {
    let mut counts = [0; 4];
    for (number, row) in ROWS.iter().enumerate() {
        let mut world = mk_world(row);
        let new = if row.target.0 == 0 {
            "web-stable"
        } else {
            "web-canary"
        };
        if scaling_pass(&mut world, caps(row)) == [new] {
            scaling_pass(&mut world, caps(row));
        }
        let got = sizes(&world);
        let (index, want) = match row.compared {
            Equal => (0, row.want),
            ExceedsSurge => {
                assert!(
                    row.want.0 + row.want.1 > row.replicas + row.surge,
                    "row {number}"
                );
                let total = got.0 + got.1;
                let before = row.stable.0 + row.canary.0;
                assert!(
                    total <= before.max(row.replicas + row.surge),
                    "row {number}"
                );
                counts[1] += 1;
                continue;
            }
            ScalesNewDown(ours) => (2, ours),
            PrefersStable(ours) => (3, ours),
        };
        if index > 1 {
            assert_ne!(row.want, want, "row {number}");
        }
        counts[index] += 1;
        assert_eq!(got, want, "row {number}");
    }
    assert_eq!(counts, [31, 5, 2, 2]);
}

/// From the stable pods alone, the rollout reaches exactly the numbers of each weight, and stays there.
#[test]
fn weights_of_argo_rollouts_are_reached_exactly() {
    for (number, (replicas, surge, canary, stable)) in TARGETS.into_iter().enumerate() {
        let limits = (replicas, surge, i32::from(surge == 0));
        let full = (replicas, replicas);
        let mut row = row(
            limits,
            full,
            (0, 0),
            (canary, stable),
            (stable, canary),
            Equal,
        );
        // A weight of 0 keeps the canary at 0.
        let mut world = mk_world(&Row {
            target: (1, 0),
            ..row
        });
        row.target = (canary, stable);
        let options = Options {
            caps: Caps {
                new_max: canary,
                old_min: stable,
            },
            ..Options::default()
        };
        while !pass(&mut world, options).is_empty() {
            for set in &mut world.replica_sets {
                set.status.replicas = set.replicas;
                set.status.available_replicas = set.replicas;
            }
        }
        assert_eq!(sizes(&world), row.want, "row {number}");
    }
}
