//! Rollbacks and the list of revisions, like `kubectl rollout undo` and `kubectl rollout history`.

use std::collections::BTreeMap;

use rollplan_core::interrupt::Never;
use rollplan_core::revision::{DESIRED_REPLICAS, MAX_REPLICAS, REVISION};
use rollplan_core::snapshot::Snapshot;
use rollplan_core::template::{Template, Value};
use rollplan_core::{
    RollbackError, Subject, last_available_revision, list_revisions, previous_was_never_available,
    rollback,
};
use rollplan_world::{at, mk_deployment, mk_set, mk_snapshot, mk_template, strings};

/// Three revisions. The rollout to the third one, with the image `v3`, is in progress.
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

/// The fields of the only container of a template.
fn main_container(template: &mut Value) -> &mut BTreeMap<String, Value> {
    let spec = template.as_map_mut().unwrap().get_mut("spec").unwrap();
    let containers = spec.as_map_mut().unwrap().get_mut("containers").unwrap();
    let Value::List(containers) = containers else {
        panic!("no list");
    };
    containers[0].as_map_mut().unwrap()
}

fn web() -> Subject {
    Subject {
        kind: "deployment".to_owned(),
        name: "web".to_owned(),
    }
}

fn undo(world: &Snapshot, revision: i64) -> Result<rollplan_core::Rollback, RollbackError> {
    rollback(world, revision)
}

#[test]
fn incomplete_replica_sets_are_not_rolled_back() {
    let mut world = mk_history();
    world.replica_sets_complete = false;
    for revision in [0, 1] {
        assert_eq!(
            undo(&world, revision),
            Err(RollbackError::Incomplete {
                subject: web(),
                list: "ReplicaSets",
            })
        );
    }
    // The list contains the known revisions.
    world.replica_sets.remove(0);
    let revisions = list_revisions(&world);
    let numbers: Vec<i64> = revisions.iter().map(|revision| revision.revision).collect();
    assert_eq!(numbers, [2, 3]);
}

#[test]
fn rollout_in_progress_rolls_back_to_the_previous_revision() {
    let world = mk_history();
    let back = undo(&world, 0).unwrap();
    assert_eq!((back.from_revision, back.to_revision), (3, 2));
    assert_eq!(back.replica_set, "web-v2");
    assert_eq!(back.reason, "");
    let [step] = back.steps.as_slice() else {
        panic!("{:?}", back.steps);
    };
    let call = step.call().unwrap();
    assert_eq!(call.content_type, "application/json-patch+json");
    // The size stays, because an autoscaler may own it. Annotations are those of the ReplicaSet, except for those that are
    // specific to an object.
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
fn rollback_without_a_target_is_refused() {
    let mut world = mk_history();
    assert_eq!(
        undo(&world, 7).unwrap_err(),
        RollbackError::NotFound {
            subject: web(),
            revision: 7,
            now: None,
            existing: vec![1, 2, 3],
        }
    );
    assert_eq!(
        undo(&world, 7).unwrap_err().to_string(),
        "deployment \"web\" has no revision 7; it has 1, 2, 3"
    );
    // A rollback gives the ReplicaSet a new revision.
    let history = "deployment.kubernetes.io/revision-history".to_owned();
    let annotations = &mut world.replica_sets[2].metadata.annotations;
    annotations.insert(history, "0,7".to_owned());
    assert_eq!(
        undo(&world, 7).unwrap_err().to_string(),
        "deployment \"web\" has no revision 7; it has 1, 2, 3; revision 7 is now 3"
    );
    world.deployment.spec.paused = true;
    assert_eq!(
        undo(&world, 0).unwrap_err(),
        RollbackError::Paused {
            subject: web(),
            resume: Some(format!(
                "kubectl rollout resume deploy/web -n {}",
                mk_history().deployment.metadata.namespace
            )),
        }
    );
    // As in kubectl, a missing revision is reported before the pause.
    assert!(matches!(
        undo(&world, 7),
        Err(RollbackError::NotFound { .. })
    ));
    world.deployment.spec.paused = false;
    world.replica_sets.truncate(1);
    assert_eq!(
        undo(&world, 0).unwrap_err(),
        RollbackError::NoHistory { subject: web() }
    );
    world.replica_sets.clear();
    assert_eq!(
        undo(&world, 1).unwrap_err().to_string(),
        "deployment \"web\" has no revision 1; it has none"
    );
}

#[test]
fn rollback_to_the_same_template_has_no_steps() {
    let back = undo(&mk_history(), 3).unwrap();
    assert_eq!(back.steps, vec![]);
    assert_eq!(
        back.reason,
        "the current template already is that of revision 3"
    );
    assert_eq!((back.changes, back.warnings), (vec![], vec![]));
}

/// A custom resource is stored as written, and its ReplicaSets with defaults.
#[test]
fn defaults_of_a_custom_resource_are_not_changes() {
    let mut world = mk_history();
    world.deployment.kind = "PlannedDeployment".to_owned();
    for set in &mut world.replica_sets {
        set.template = Template::from(set.template.defaulted().clone());
    }
    assert_eq!(undo(&world, 3).unwrap().steps, vec![]);
    let back = undo(&world, 1).unwrap();
    let paths: Vec<&str> = back.changes.iter().map(|it| it.path.as_str()).collect();
    assert_eq!(paths, ["spec.containers[name=main].image"]);
    let current = list_revisions(&world);
    let current: Vec<i64> = current
        .iter()
        .filter(|it| it.current)
        .map(|it| it.revision)
        .collect();
    assert_eq!(current, [3]);

    // The API server stores Deployments with defaults, so a template without them is different.
    world.deployment.kind = "Deployment".to_owned();
    assert_eq!(undo(&world, 3).unwrap().steps.len(), 1);
}

#[test]
fn revisions_compare_as_numbers() {
    let mut world = mk_history();
    for (set, revision) in world.replica_sets.iter_mut().zip(["9", "x", "10"]) {
        let annotations = &mut set.metadata.annotations;
        annotations.insert(REVISION.to_owned(), revision.to_owned());
    }
    assert_eq!(undo(&world, 0).unwrap().to_revision, 9);
    // The ReplicaSet of another owner is not a revision of the Deployment.
    world.replica_sets[0].metadata.owner_references[0].uid = "other".to_owned();
    assert!(matches!(
        undo(&world, 9),
        Err(RollbackError::NotFound { .. })
    ));
}

#[test]
fn first_of_equal_revisions_is_the_higher_one() {
    let target = |revisions: [&str; 3]| {
        let mut world = mk_history();
        for (set, revision) in world.replica_sets.iter_mut().zip(revisions) {
            let annotations = &mut set.metadata.annotations;
            annotations.insert(REVISION.to_owned(), revision.to_owned());
        }
        let back = undo(&world, 0).unwrap();
        (back.to_revision, back.replica_set)
    };
    assert_eq!(target(["1", "x", "3"]), (1, "web-v1".to_owned()));
    assert_eq!(target(["2", "2", "3"]), (2, "web-v1".to_owned()));
    assert_eq!(target(["3", "3", "1"]), (3, "web-v2".to_owned()));
    assert_eq!(target(["3", "2", "2"]), (2, "web-v2".to_owned()));
}

#[test]
fn environment_values_are_hidden_and_references_have_warnings() {
    let mut world = mk_history();
    let mut template = mk_template("v2:latest");
    let env = Value::from(vec![Value::from([
        ("name", "PASSWORD"),
        ("value", "hunter2"),
    ])]);
    let from = Value::from([("secretRef", Value::from([("name", "keys")]))]);
    let container = main_container(&mut template);
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
            "Secret keys keeps its current content",
            "image v2:latest may have been replaced in the registry",
            "replicas stays 4: it is not part of a revision",
            "the annotations of the Deployment become those of revision 2, which removes gone",
        ]
    );
}

#[test]
fn what_a_rollback_removes_and_who_undoes_it_is_named() {
    let warnings = |annotations: &[(&str, &str)], labels: &[(&str, &str)]| {
        let mut world = mk_history();
        let metadata = &mut world.deployment.metadata;
        metadata.annotations.remove("gone");
        let owned = |it: &(&str, &str)| (it.0.to_owned(), it.1.to_owned());
        metadata.annotations.extend(annotations.iter().map(owned));
        metadata.labels = labels.iter().map(owned).collect();
        let warnings = undo(&world, 2).unwrap().warnings.into_iter();
        let others = warnings.filter(|it| !it.starts_with("replicas") && !it.starts_with("image"));
        others.collect::<Vec<String>>()
    };
    assert_eq!(warnings(&[], &[]), Vec::<String>::new());
    let found = warnings(
        &[
            ("argocd.argoproj.io/tracking-id", "x"),
            ("reloader.stakater.com/auto", "true"),
            ("meta.helm.sh/release-name", "shop"),
            ("kubectl.kubernetes.io/last-applied-configuration", "{}"),
        ],
        &[("helm.toolkit.fluxcd.io/name", "shop")],
    );
    let again = "change the template where it comes from as well";
    assert_eq!(
        found,
        [
            // kubectl keeps the annotation of its own apply.
            "the annotations of the Deployment become those of revision 2, which removes argocd.argoproj.io/tracking-id, \
             meta.helm.sh/release-name, reloader.stakater.com/auto"
                .to_owned(),
            "the labels of the Deployment stay: they are not part of a revision".to_owned(),
            format!("Argo CD undoes this with its next sync: {again}"),
            format!("Flux (HelmRelease shop) undoes this with its next reconciliation: {again}"),
            format!("Helm (release shop) undoes this with the next upgrade: {again}"),
            format!("kubectl apply undoes this with the same manifest: {again}"),
        ]
    );
}

/// The rollout to revision 2 failed, so revision 1 still has all pods while the rollout to revision 3 fails as well.
fn mk_two_failures() -> Snapshot {
    let mut world = mk_history();
    for (set, available) in world.replica_sets.iter_mut().zip([4, 0, 0]) {
        set.replicas = available;
        set.status.replicas = available;
        set.status.available_replicas = available;
    }
    world
}

#[test]
fn a_revision_that_never_became_available_is_named() {
    let world = mk_two_failures();
    let warning = |world: &Snapshot, to| {
        let warnings = undo(world, to).unwrap().warnings;
        warnings
            .into_iter()
            .find(|it| it.contains("never became available"))
    };
    assert_eq!(
        warning(&world, 0).unwrap(),
        "revision 2 never became available, and revision 1 still has available pods (4): --to-revision last-available restores \
         that one"
    );
    assert_eq!(last_available_revision(&world, &Never), Ok(1));
    assert!(previous_was_never_available(&world, &Never));
    assert_eq!(warning(&world, 1), None);
    // A rollout to revision 2 that completed has left no pods of revision 1.
    let world = mk_history();
    assert_eq!(warning(&world, 0), None);
    assert!(!previous_was_never_available(&world, &Never));
    let mut none = mk_two_failures();
    none.replica_sets[0].status.available_replicas = 0;
    assert_eq!(warning(&none, 0), None);
    assert!(matches!(
        last_available_revision(&none, &Never),
        Err(RollbackError::NoneAvailable { .. })
    ));
}

/// A template whose only container has this variable.
fn mk_env(name: &str, key: &str, value: impl Into<Value>) -> Value {
    let variable = Value::from([("name", name.into()), (key, value.into())]);
    let mut template = mk_template("v2");
    let env = Value::from(vec![variable]);
    main_container(&mut template).insert("env".to_owned(), env);
    template
}

#[test]
fn changed_variable_is_named_without_its_value() {
    let mut world = mk_history();
    world.deployment.spec.template = mk_env("PASSWORD", "value", "hunter2").into();
    world.replica_sets[1].template = mk_env("PASSWORD", "value", "hunter1").into();
    let hidden = Some(Value::from("(not shown)"));
    let changes = undo(&world, 2).unwrap().changes;
    let [change] = changes.as_slice() else {
        panic!("{changes:?}");
    };
    assert_eq!(
        (change.path.as_str(), &change.from, &change.to),
        (
            "spec.containers[name=main].env[name=PASSWORD].value",
            &hidden,
            &hidden
        )
    );
}

/// The paths of 20,000 differences below a key of 1 MB would need gigabytes.
#[test]
fn differences_below_a_long_path_are_merged() {
    let template = |key: &str, value: &str| {
        let inner = Value::from([("x", value), ("y", value)]);
        let mut template = mk_template("v2");
        let root = template.as_map_mut().unwrap();
        root.insert("unknown".to_owned(), Value::from([(key, inner)]));
        template
    };
    let paths = |key: &str| -> Vec<String> {
        let mut world = mk_history();
        world.deployment.spec.template = template(key, "a").into();
        world.replica_sets[1].template = template(key, "b").into();
        let changes = undo(&world, 2).unwrap().changes.into_iter();
        changes.map(|change| change.path).collect()
    };
    assert_eq!(paths("k"), ["unknown.k.x", "unknown.k.y"]);
    let long = "k".repeat(1_000);
    assert_eq!(paths(&long), [format!("unknown.{long}")]);
}

#[test]
fn named_items_are_matched_by_name() {
    let variable = |name: &str, key: &str| {
        let reference = Value::from([("fieldPath", key)]);
        Value::from([("name", Value::from(name)), ("valueFrom", reference)])
    };
    let template = |env: Vec<Value>| {
        let mut template = mk_template("v2");
        main_container(&mut template).insert("env".to_owned(), Value::from(env));
        template
    };
    let paths = |from: Vec<Value>, to: Vec<Value>| {
        let mut world = mk_history();
        world.deployment.spec.template = template(from).into();
        world.replica_sets[1].template = template(to).into();
        let changes = undo(&world, 2).unwrap().changes.into_iter();
        changes.map(|change| change.path).collect::<Vec<_>>()
    };
    let from = vec![
        variable("C", "c"),
        variable("B", "b"),
        variable("A", "other"),
    ];
    let to = vec![variable("A", "a"), variable("D", "d"), variable("C", "c")];
    let env = "spec.containers[name=main].env";
    assert_eq!(
        paths(from.clone(), to.clone()),
        [
            format!("{env}[name=A].valueFrom.fieldPath"),
            format!("{env}[name=B]"),
            format!("{env}[name=D]"),
        ]
    );
    // Items with the same name cannot be matched: the list changes as a whole.
    let twice = vec![variable("A", "a"), variable("A", "b")];
    assert_eq!(paths(from, twice.clone()), [env]);
    assert_eq!(paths(twice, to), [env]);
}

#[test]
fn source_of_a_variable_is_shown() {
    let from_key = |key: &str| {
        let reference = Value::from([("name", "settings"), ("key", key)]);
        mk_env(
            "MODE",
            "valueFrom",
            Value::from([("configMapKeyRef", reference)]),
        )
    };
    let mut world = mk_history();
    world.deployment.spec.template = from_key("new").into();
    world.replica_sets[1].template = from_key("old").into();
    let back = undo(&world, 2).unwrap();
    assert_eq!(back.changes[0].to, Some(Value::from("old")));
    assert!(
        back.warnings
            .contains(&"ConfigMap settings keeps its current content".to_owned()),
        "{:?}",
        back.warnings
    );
}

#[test]
fn mutable_image_tags_have_warnings() {
    let warned = |image: &str| {
        let mut world = mk_history();
        world.replica_sets[1].template = mk_template(image).into();
        let warnings = undo(&world, 2).unwrap().warnings;
        warnings.iter().any(|warning| warning.contains(image))
    };
    for image in ["web", "registry:5000/web", "web:latest", "a/b/web:latest"] {
        assert!(warned(image), "{image}");
    }
    for image in ["web:1", "registry:5000/web:1", "web@sha256:0123"] {
        assert!(!warned(image), "{image}");
    }
}

#[test]
fn list_marks_current_previous_and_expiring_revisions() {
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
    let list = list_revisions(&world);
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
    // After a fourth revision, two old ones exceed the limit. The second one still has pods.
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
    let list = list_revisions(&world);
    assert!(list.iter().all(|revision| !revision.cleaned_up_next));
}

#[test]
fn clean_up_counts_the_current_revision_and_waits_for_pods() {
    let mut world = mk_history();
    world.replica_sets[1] = mk_set(&world.deployment, "v2", 2, 0);
    let next = |world: &Snapshot, limit| {
        let mut world = world.clone();
        world.deployment.spec.revision_history_limit = limit;
        let list = list_revisions(&world).into_iter();
        let going = list.filter(|revision| revision.cleaned_up_next);
        going.map(|revision| revision.revision).collect::<Vec<_>>()
    };
    assert_eq!(next(&world, 0), [1, 2]);
    assert_eq!(next(&world, 1), [1, 2]);
    assert_eq!(next(&world, 2), [1]);
    assert_eq!(next(&world, 3), [0; 0]);
    // Its last pod is still terminating.
    world.replica_sets[0].status.replicas = 1;
    assert_eq!(next(&world, 1), [2]);
    // A ReplicaSet that is being deleted does not count.
    world.replica_sets[0].metadata.deletion_timestamp = Some(at(-1));
    assert_eq!(next(&world, 1), [2]);
    assert_eq!(next(&world, 2), [0; 0]);
}

/// Of several ReplicaSets that had revisions before, the one that had the requested revision is named.
#[test]
fn missing_revision_is_named_with_its_replica_set() {
    let mut world = mk_history();
    for (set, history) in world.replica_sets.iter_mut().zip(["5", "", "0,7"]) {
        let name = "deployment.kubernetes.io/revision-history".to_owned();
        set.metadata.annotations.insert(name, history.to_owned());
    }
    let message = |revision| undo(&world, revision).unwrap_err().to_string();
    let missing =
        |revision: i64| format!("deployment \"web\" has no revision {revision}; it has 1, 2, 3");
    assert_eq!(message(5), format!("{}; revision 5 is now 1", missing(5)));
    assert_eq!(message(7), format!("{}; revision 7 is now 3", missing(7)));
    assert_eq!(message(8), missing(8));
}
