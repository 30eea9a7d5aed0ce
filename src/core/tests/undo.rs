//! Going back to a revision, and the list of them, as `kubectl rollout undo` and `history`.

use super::world::{mk_deployment, mk_set, mk_snapshot, mk_template, strings};
use crate::revision::{DESIRED_REPLICAS, MAX_REPLICAS, REVISION};
use crate::snapshot::{Options, Snapshot};
use crate::template::{Template, Value};
use crate::{RollbackError, list_revisions, rollback};

/// Three revisions; the Deployment has the image `v3`, its rollout is half done.
fn mk_history() -> Snapshot {
    let mut deployment = mk_deployment(4);
    deployment.spec.template = Template::from(mk_template("v3"));
    deployment.metadata.annotations.extend(strings([
        (REVISION, "3"),
        ("cause", "third"),
        ("gone", "x"),
    ]));
    let mut sets = vec![
        mk_set(&deployment, "v1", 1, 0),
        mk_set(&deployment, "v2", 2, 2),
        mk_set(&deployment, "v3", 3, 2),
    ];
    for (set, cause) in sets.iter_mut().zip(["first", "second", "third"]) {
        let annotations = &mut set.metadata.annotations;
        annotations.insert("cause".to_owned(), cause.to_owned());
    }
    mk_snapshot(deployment, sets)
}

fn undo(world: &Snapshot, revision: i64) -> Result<crate::Rollback, RollbackError> {
    rollback(world, Options::default(), revision)
}

#[test]
fn a_half_done_rollout_goes_back_to_the_revision_before() {
    let world = mk_history();
    let back = undo(&world, 0).unwrap();
    assert_eq!((back.from_revision, back.to_revision), (3, 2));
    assert_eq!(back.replica_set, "web-v2");
    assert_eq!(back.reason, "");
    let [step] = back.steps.as_slice() else {
        panic!("{:?}", back.steps);
    };
    let call = step.call.as_ref().unwrap();
    assert_eq!(call.content_type, "application/json-patch+json");
    // Nothing of the size: an autoscaler's replicas stay. Annotations come from the ReplicaSet, but for those that
    // stay with each object.
    assert_eq!(
        call.body_json,
        concat!(
            r#"[{"op":"test","path":"/metadata/uid","value":"web-uid"},"#,
            r#"{"op":"test","path":"/metadata/resourceVersion","value":"100"},"#,
            r#"{"op":"add","path":"/metadata/annotations","value":{"cause":"second","deployment.kubernetes.io/revision":"3"}},"#,
            r#"{"op":"replace","path":"/spec/template","value":{"metadata":{"labels":{"app":"web"}},"#,
            r#""spec":{"containers":[{"image":"v2","name":"main"}]}}}]"#
        )
    );
    let changes: Vec<_> = back
        .changes
        .iter()
        .map(|change| change.path.as_str())
        .collect();
    assert_eq!(changes, ["spec.containers[name=main].image"]);
    assert_eq!(back.changes[0].from, Some(Value::from("v3")));
    assert_eq!(back.changes[0].to, Some(Value::from("v2")));
    assert_eq!(undo(&world, 1).unwrap().replica_set, "web-v1");
}

#[test]
fn there_is_not_always_a_way_back() {
    let mut world = mk_history();
    let name = || "web".to_owned();
    assert_eq!(
        undo(&world, 7).unwrap_err(),
        RollbackError::NotFound {
            name: name(),
            revision: 7,
            existing: vec![1, 2, 3],
        }
    );
    assert_eq!(
        undo(&world, 7).unwrap_err().to_string(),
        "deployment \"web\" has no revision 7; it has 1, 2, 3"
    );
    world.deployment.spec.paused = true;
    assert_eq!(
        undo(&world, 0).unwrap_err(),
        RollbackError::Paused { name: name() }
    );
    // As kubectl: what is not there is said before what is paused.
    assert!(matches!(
        undo(&world, 7),
        Err(RollbackError::NotFound { .. })
    ));
    world.deployment.spec.paused = false;
    world.replica_sets.truncate(1);
    assert_eq!(
        undo(&world, 0).unwrap_err(),
        RollbackError::NoHistory { name: name() }
    );
    world.replica_sets.clear();
    assert_eq!(
        undo(&world, 1).unwrap_err().to_string(),
        "deployment \"web\" has no revision 1; it has none"
    );
}

#[test]
fn the_same_template_needs_no_step() {
    let back = undo(&mk_history(), 3).unwrap();
    assert_eq!(back.steps, vec![]);
    assert_eq!(
        back.reason,
        "the current template already is that of revision 3"
    );
    assert_eq!((back.changes, back.warnings), (vec![], vec![]));
}

#[test]
fn revisions_compare_as_numbers() {
    let mut world = mk_history();
    for (set, revision) in world.replica_sets.iter_mut().zip(["9", "x", "10"]) {
        let annotations = &mut set.metadata.annotations;
        annotations.insert(REVISION.to_owned(), revision.to_owned());
    }
    assert_eq!(undo(&world, 0).unwrap().to_revision, 9);
    // Another owner's ReplicaSet is no revision of ours.
    world.replica_sets[0].metadata.owner_references[0].uid = "other".to_owned();
    assert!(matches!(
        undo(&world, 9),
        Err(RollbackError::NotFound { .. })
    ));
}

#[test]
fn values_of_the_environment_are_not_shown_and_references_are_warned_of() {
    let mut world = mk_history();
    let mut template = mk_template("v2:latest");
    let env = Value::from(vec![Value::from([
        ("name", "PASSWORD"),
        ("value", "hunter2"),
    ])]);
    let from = Value::from([("secretRef", Value::from([("name", "keys")]))]);
    let spec = template.as_map_mut().unwrap().get_mut("spec").unwrap();
    let containers = spec.as_map_mut().unwrap().get_mut("containers").unwrap();
    let Value::List(containers) = containers else {
        panic!("no list");
    };
    let container = containers[0].as_map_mut().unwrap();
    container.insert("env".to_owned(), env);
    container.insert("envFrom".to_owned(), Value::from(vec![from]));
    world.replica_sets[1].template = Template::from(template);
    let back = undo(&world, 2).unwrap();
    assert!(!format!("{:?}{:?}", back.changes, back.warnings).contains("hunter2"));
    let env = back
        .changes
        .iter()
        .find(|change| change.path.ends_with(".env"))
        .unwrap();
    assert_eq!(
        env.to.as_ref().unwrap().to_json(),
        r#"[{"name":"PASSWORD","value":"(not shown)"}]"#
    );
    assert_eq!(
        back.warnings,
        [
            "Secret keys keeps its present content",
            "image v2:latest may be another one by now",
            "the size stays 4: it belongs to no revision",
        ]
    );
}

#[test]
fn the_list_says_what_is_current_and_what_goes_next() {
    let mut world = mk_history();
    world.deployment.spec.revision_history_limit = 1;
    let annotations = &mut world.replica_sets[2].metadata.annotations;
    annotations.insert(
        "deployment.kubernetes.io/revision-history".to_owned(),
        "x,1".to_owned(),
    );
    annotations.insert(
        "kubernetes.io/change-cause".to_owned(),
        "new colour".to_owned(),
    );
    assert!(annotations.contains_key(DESIRED_REPLICAS) && annotations.contains_key(MAX_REPLICAS));
    let list = list_revisions(&world, Options::default());
    let told: Vec<_> = list
        .iter()
        .map(|revision| {
            (
                revision.revision,
                revision.replica_set.as_str(),
                revision.images.join(","),
                revision.replicas,
                revision.available_replicas,
                revision.current,
                revision.cleaned_up_next,
            )
        })
        .collect();
    // Two of the old ones are too many once there is a fourth revision; the second still has pods.
    assert_eq!(
        told,
        [
            (1, "web-v1", "v1".to_owned(), 0, 0, false, true),
            (2, "web-v2", "v2".to_owned(), 2, 2, false, false),
            (3, "web-v3", "v3".to_owned(), 2, 2, true, false),
        ]
    );
    assert_eq!(list[2].change_cause, "new colour");
    assert_eq!(list[2].earlier_revisions, [1]);
    world.deployment.spec.revision_history_limit = i32::MAX;
    let list = list_revisions(&world, Options::default());
    assert!(list.iter().all(|revision| !revision.cleaned_up_next));
}
