//! Revisions of StatefulSets and DaemonSets, and rollbacks to them.

use rollplan_core::RollbackError;
use rollplan_core::controller_revision::{
    ControllerRevision, REVISION_LABEL, Restoration, ToRevision, Workload,
    list_controller_revisions_until, restore_until,
};
use rollplan_core::interrupt::Never;
use rollplan_core::reference::ConfigurationKind;
use rollplan_core::snapshot::{Existence, ObjectMeta, Pod, PodCondition, Surroundings};
use rollplan_core::template::{Template, Value};
use rollplan_core::time::Time;
use rollplan_world::mk_template;

fn meta(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: name.to_owned(),
        namespace: "shop".to_owned(),
        uid: format!("{name}-uid"),
        resource_version: "7".to_owned(),
        ..ObjectMeta::default()
    }
}

fn mk_revision(number: i64, image: &str) -> ControllerRevision {
    let mut template = mk_template(image);
    let fields = template.as_map_mut().unwrap();
    fields.insert("$patch".to_owned(), "replace".into());
    ControllerRevision {
        metadata: meta(&format!("db-{number}")),
        revision: number,
        data: Value::from([("spec", Value::from([("template", template)]))]),
    }
}

fn mk_pod(ordinal: usize, revision: i64, ready: bool) -> Pod {
    let mut metadata = meta(&format!("db-{ordinal}"));
    metadata
        .labels
        .insert(REVISION_LABEL.to_owned(), format!("db-{revision}"));
    let status = if ready { "True" } else { "False" };
    Pod {
        metadata,
        phase: "Running".to_owned(),
        conditions: vec![PodCondition {
            kind: "Ready".to_owned(),
            status: status.to_owned(),
            ..PodCondition::default()
        }],
        ..Pod::default()
    }
}

/// A StatefulSet with three revisions, whose third one is broken.
fn mk_workload() -> Workload {
    Workload {
        now: Time::new(1_000, 0).unwrap(),
        api_version: "apps/v1".to_owned(),
        kind: "StatefulSet".to_owned(),
        metadata: meta("db"),
        template: Template::from(mk_template("v3")),
        replicas: Some(3),
        min_ready_seconds: 0,
        history_limit: 10,
        is_on_delete: false,
        partition: 0,
        is_ordered: true,
        live: ["db-2", "db-3"].map(str::to_owned).into(),
        revisions: vec![
            mk_revision(3, "v3"),
            mk_revision(1, "v1"),
            mk_revision(2, "v2"),
        ],
        revisions_complete: true,
        pods: vec![mk_pod(0, 2, true), mk_pod(1, 2, true), mk_pod(2, 3, false)],
        surroundings: Surroundings::default(),
    }
}

#[track_caller]
fn restore(workload: &Workload, to: ToRevision) -> Restoration {
    restore_until(workload, to, &Never).unwrap().unwrap()
}

fn error(workload: &Workload, to: ToRevision) -> String {
    let restored = restore_until(workload, to, &Never).unwrap();
    restored.unwrap_err().to_string()
}

fn has_note(restoration: &Restoration, part: &str) -> bool {
    restoration.warnings.iter().any(|note| note.contains(part))
}

#[test]
fn the_previous_template_is_restored_with_the_patch_of_kubectl() {
    let restoration = restore(&mk_workload(), ToRevision::Previous);
    assert_eq!(
        (
            restoration.from_revision,
            restoration.to_revision,
            &*restoration.name
        ),
        (3, 2, "db-2")
    );
    let paths: Vec<_> = restoration.changes.iter().map(|it| &*it.path).collect();
    assert_eq!(paths, ["spec.containers[name=main].image"]);
    let (summary, call) = restoration.call.unwrap();
    assert_eq!(
        summary,
        "restore the template of StatefulSet db from ControllerRevision db-2"
    );
    assert_eq!(call.content_type, "application/strategic-merge-patch+json");
    assert_eq!(
        call.body_json,
        concat!(
            r#"{"metadata":{"resourceVersion":"7","uid":"db-uid"},"spec":{"template":{"$patch":"replace","#,
            r#""metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"image":"v2","name":"main"}]}}}}"#
        )
    );
}

#[test]
fn refusals_are_those_of_deployments() {
    let mut workload = mk_workload();
    assert_eq!(
        error(&workload, ToRevision::Number(9)),
        "statefulset \"db\" has no revision 9; it has 1, 2, 3"
    );
    workload.revisions.truncate(1);
    assert_eq!(
        error(&workload, ToRevision::Previous),
        "statefulset \"db\" has no earlier revision"
    );
    assert_eq!(
        error(&workload, ToRevision::LastAvailable),
        "statefulset \"db\" has no earlier revision with available pods"
    );
    let same = restore(&workload, ToRevision::Number(3));
    assert_eq!(same.call, None);
    assert_eq!(
        same.reason,
        "the current template already is that of revision 3"
    );
    workload.revisions_complete = false;
    let restored = restore_until(&workload, ToRevision::Previous, &Never).unwrap();
    assert!(matches!(restored, Err(RollbackError::Incomplete { .. })));
}

#[test]
fn pods_that_block_the_rollback_are_named() {
    let mut workload = mk_workload();
    let note = "`kubectl delete pod db-2 -n shop`";
    assert!(has_note(&restore(&workload, ToRevision::Previous), note));
    // A parallel set replaces it, and OnDelete replaces no pod.
    workload.is_ordered = false;
    assert!(!has_note(&restore(&workload, ToRevision::Previous), note));
    workload.is_ordered = true;
    workload.is_on_delete = true;
    assert!(!has_note(&restore(&workload, ToRevision::Previous), note));
    workload.is_on_delete = false;
    for pod in [mk_pod(2, 3, true), mk_pod(2, 2, false)] {
        workload.pods[2] = pod;
        assert!(!has_note(&restore(&workload, ToRevision::Previous), note));
    }
    // The controller replaces a pod that has ended.
    workload.pods[2] = mk_pod(2, 3, false);
    workload.pods[2].phase = "Failed".to_owned();
    assert!(!has_note(&restore(&workload, ToRevision::Previous), note));
}

#[test]
fn the_last_available_revision_is_the_one_with_the_most_pods() {
    let mut workload = mk_workload();
    workload.revisions.push(mk_revision(4, "v4"));
    workload.template = Template::from(mk_template("v4"));
    let previous = restore(&workload, ToRevision::Previous);
    assert_eq!(previous.to_revision, 3);
    assert!(has_note(
        &previous,
        "revision 3 has no available pods, and revision 2 still has some (2)"
    ));
    let last = restore(&workload, ToRevision::LastAvailable);
    assert_eq!(last.to_revision, 2);
    assert!(!has_note(&last, "available pods"));
}

#[test]
fn configuration_that_no_longer_exists_is_named() {
    let mut workload = mk_workload();
    let source = Value::from([("configMapRef", Value::from([("name", "settings")]))]);
    let template = workload.revisions[2].data.as_map_mut().unwrap();
    let template = template.get_mut("spec").unwrap().as_map_mut().unwrap();
    let template = template.get_mut("template").unwrap().as_map_mut().unwrap();
    let spec = template.get_mut("spec").unwrap().as_map_mut().unwrap();
    let container = Value::from([
        ("name", Value::from("main")),
        ("image", Value::from("v2")),
        ("envFrom", Value::from(vec![source])),
    ]);
    spec.insert("containers".to_owned(), Value::from(vec![container]));
    let gone = "ConfigMap settings does not exist";
    // Without any ConfigMap, it is not known which ones exist.
    assert!(!has_note(&restore(&workload, ToRevision::Previous), gone));
    let of_kind = |names: &[&str]| {
        let present = |name: &&str| ((*name).to_owned(), Existence::Present);
        [(
            ConfigurationKind::ConfigMap,
            names.iter().map(present).collect(),
        )]
        .into()
    };
    workload.surroundings.configurations = of_kind(&["other"]);
    assert!(has_note(&restore(&workload, ToRevision::Previous), gone));
    workload.surroundings.configurations = of_kind(&["other", "settings"]);
    assert!(!has_note(&restore(&workload, ToRevision::Previous), gone));
    // What was looked up counts more.
    let key = (ConfigurationKind::ConfigMap, "settings".to_owned());
    workload.surroundings.looked_up = [(key.clone(), Existence::Absent)].into();
    assert!(has_note(&restore(&workload, ToRevision::Previous), gone));
    workload.surroundings.configurations = of_kind(&["other"]);
    workload.surroundings.looked_up = [(key, Existence::Present)].into();
    assert!(!has_note(&restore(&workload, ToRevision::Previous), gone));
}

#[test]
fn revisions_without_pods_beyond_the_limit_are_cleaned_up_next() {
    let cleaned_up = |workload: &Workload| {
        let revisions = list_controller_revisions_until(workload, &Never).unwrap();
        let current: Vec<i64> = revisions
            .iter()
            .filter(|it| it.current)
            .map(|it| it.revision)
            .collect();
        assert_eq!(current, [3]);
        let surplus = revisions.iter().filter(|it| it.cleaned_up_next);
        surplus.map(|it| it.revision).collect::<Vec<_>>()
    };
    let mut workload = mk_workload();
    workload.history_limit = 2;
    assert_eq!(cleaned_up(&workload), [0; 0]);
    workload.history_limit = 1;
    assert_eq!(cleaned_up(&workload), [1]);
    // A DaemonSet also counts revisions with pods.
    workload.kind = "DaemonSet".to_owned();
    workload.live.clear();
    workload.history_limit = 2;
    assert_eq!(cleaned_up(&workload), [1]);
    let revisions = list_controller_revisions_until(&workload, &Never).unwrap();
    let counts = revisions
        .iter()
        .map(|it| (it.replicas, it.ready_replicas, it.available_replicas));
    assert_eq!(
        counts.collect::<Vec<_>>(),
        [(0, 0, 0), (2, 2, 2), (1, 0, 0)]
    );
}
