//! One row for each case of Reloader's end-to-end suite (stakater/Reloader, test/e2e), on the same manifests.
//!
//! Omitted, because the planner does not decide them: the rows of ArgoRollout (restartAt) and DeploymentConfig (OpenShift)
//! in all tables, `argo/`, `csi/` with a real Vault, and the pending rows of the suite itself (`PDescribeTable`, `PIt`).
//! The adapter decides which namespaces and labels are watched: the cases of `namespace_ignore`, `namespace_selector`,
//! `resource_selector` and `watch_globally` in `flags/` are rows of tests/e2e/adapter/restarts_test.go. Those of
//! `annotations/pause_period_test.go` have a separate test below.

use rollplan_core::interrupt::Never;
use rollplan_restart::*;
use serde_json::{Value as Json, json};

use super::world::*;

const ALL: &[&str] = &["Deployment", "DaemonSet", "StatefulSet"];
const ONE: &[&str] = &["Deployment"];

const CM_RELOAD: &str = "configmap.reloader.stakater.com/reload";
const SECRET_RELOAD: &str = "secret.reloader.stakater.com/reload";
const SPC_RELOAD: &str = "secretproviderclass.reloader.stakater.com/reload";
const AUTO: &str = "reloader.stakater.com/auto";
const CM_AUTO: &str = "configmap.reloader.stakater.com/auto";
const SECRET_AUTO: &str = "secret.reloader.stakater.com/auto";
const SPC_AUTO: &str = "secretproviderclass.reloader.stakater.com/auto";
const CM_EXCLUDE: &str = "configmaps.exclude.reloader.stakater.com/reload";
const SECRET_EXCLUDE: &str = "secrets.exclude.reloader.stakater.com/reload";
const SPC_EXCLUDE: &str = "secretproviderclasses.exclude.reloader.stakater.com/reload";
const SEARCH: &str = "reloader.stakater.com/search";
const MATCH: &str = "reloader.stakater.com/match";
const IGNORE: &str = "reloader.stakater.com/ignore";

/// The event of a row: how its configuration changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// Its data changes.
    Data,
    /// Only a label changes.
    Label,
    Created,
    Deleted,
}
use Event::{Created, Data as Changed, Deleted, Label};

/// A case of the suite.
struct Row {
    /// The file below test/e2e, and the name of the case.
    source: (&'static str, &'static str),
    kinds: &'static [&'static str],
    /// How the template uses configurations, for example "envFrom:configmap/cm".
    uses: &'static [&'static str],
    annotations: &'static [(&'static str, &'static str)],
    template_annotations: &'static [(&'static str, &'static str)],
    /// Annotation of the configuration that changes.
    on_configuration: &'static [(&'static str, &'static str)],
    options: fn(&mut ReloaderOptions),
    /// The configuration that changes, for example "configmap/cm".
    changes: &'static str,
    event: Event,
    restarts: usize,
}

const DEFAULT: Row = Row {
    source: ("", ""),
    kinds: ONE,
    uses: &["envFrom:configmap/cm", "envFrom:secret/sec"],
    annotations: &[],
    template_annotations: &[],
    on_configuration: &[],
    options: |_| {},
    changes: "configmap/cm",
    event: Changed,
    restarts: 1,
};

macro_rules! row {
    ($file:literal, $case:literal $(, $field:ident: $value:expr)* $(,)?) => {
        Row { source: ($file, $case), $($field: $value,)* ..DEFAULT }
    };
}

const CM: &[(&str, &str)] = &[(CM_RELOAD, "cm")];
const SEC: &[(&str, &str)] = &[(SECRET_RELOAD, "sec")];
const SPC: &[(&str, &str)] = &[(SPC_RELOAD, "spc")];
const AUTO_TRUE: &[(&str, &str)] = &[(AUTO, "true")];

fn rows() -> Vec<Row> {
    let mut rows = core_references();
    rows.extend(core_workloads());
    rows.extend(annotations());
    rows.extend(flags());
    rows.extend(advanced());
    rows
}

fn core_references() -> Vec<Row> {
    const FILE: &str = "core/reference_methods_test.go";
    let of = |case, uses, annotations, changes| Row {
        source: (FILE, case),
        kinds: ALL,
        uses,
        annotations,
        changes,
        ..DEFAULT
    };
    let (cm, sec) = ("configmap/cm", "secret/sec");
    vec![
        of("valueFrom.configMapKeyRef", &["env:configmap/cm"], CM, cm),
        of("valueFrom.secretKeyRef", &["env:secret/sec"], SEC, sec),
        of(
            "ConfigMap in projected volume",
            &["projected:configmap/cm"],
            CM,
            cm,
        ),
        of(
            "Secret in projected volume",
            &["projected:secret/sec"],
            SEC,
            sec,
        ),
        of(
            "ConfigMap in mixed projected volume",
            &["projected:configmap/cm", "projected:secret/sec"],
            CM,
            cm,
        ),
        of(
            "Secret in mixed projected volume",
            &["projected:configmap/cm", "projected:secret/sec"],
            SEC,
            sec,
        ),
        of(
            "init container envFrom ConfigMap",
            &["init-envFrom:configmap/cm"],
            CM,
            cm,
        ),
        of(
            "init container envFrom Secret",
            &["init-envFrom:secret/sec"],
            SEC,
            sec,
        ),
        of(
            "init container volume ConfigMap",
            &["init-volume:configmap/cm"],
            CM,
            cm,
        ),
        of(
            "init container volume Secret",
            &["init-volume:secret/sec"],
            SEC,
            sec,
        ),
        of(
            "auto=true with valueFrom",
            &["env:configmap/cm"],
            AUTO_TRUE,
            cm,
        ),
    ]
}

fn core_workloads() -> Vec<Row> {
    const BOTH: &[(&str, &str)] = &[(CM_RELOAD, "cm"), (SECRET_RELOAD, "sec")];
    const TWO_CM: &[(&str, &str)] = &[(CM_RELOAD, "cm,cm2")];
    const TWO_SEC: &[(&str, &str)] = &[(SECRET_RELOAD, "sec,sec2")];
    let spc: &'static [&'static str] = &["csi:secretproviderclass/spc"];
    let class = "secretproviderclass/spc";
    let labels_spc = Row {
        kinds: ALL,
        uses: spc,
        annotations: SPC,
        changes: class,
        event: Label,
        restarts: 0,
        ..DEFAULT
    };
    vec![
        row!("core/workloads_test.go", "ConfigMap changes", kinds: ALL, annotations: CM),
        row!("core/workloads_test.go", "Secret changes", kinds: ALL, annotations: SEC, changes: "secret/sec"),
        row!("core/workloads_test.go", "SecretProviderClassPodStatus changes", kinds: ALL, uses: spc, annotations: SPC, changes: class),
        row!("core/workloads_test.go", "auto=true when ConfigMap changes", kinds: ALL, annotations: AUTO_TRUE),
        row!("core/workloads_test.go", "only ConfigMap labels change", kinds: ALL, annotations: CM, event: Label, restarts: 0),
        row!("core/workloads_test.go", "only Secret labels change", kinds: ALL, annotations: SEC, changes: "secret/sec", event: Label, restarts: 0),
        Row {
            source: (
                "core/workloads_test.go",
                "only SecretProviderClassPodStatus labels change",
            ),
            ..labels_spc
        },
        row!("core/workloads_test.go", "CronJob: Job when ConfigMap changes", kinds: &["CronJob"], annotations: CM),
        row!("core/workloads_test.go", "CronJob: Job when Secret changes", kinds: &["CronJob"], annotations: SEC, changes: "secret/sec"),
        row!("core/workloads_test.go", "CronJob: Job with auto=true", kinds: &["CronJob"], annotations: AUTO_TRUE),
        row!("core/workloads_test.go", "volume-mounted ConfigMap", kinds: ALL, uses: &["volume:configmap/cm"], annotations: CM),
        row!("core/workloads_test.go", "volume-mounted Secret", kinds: ALL, uses: &["volume:secret/sec"], annotations: SEC, changes: "secret/sec"),
        row!("core/workloads_test.go", "without Reloader annotation", kinds: ALL, restarts: 0),
        row!("core/workloads_test.go", "multiple ConfigMaps", kinds: ALL, uses: &["envFrom:configmap/cm", "envFrom:configmap/cm2"], annotations: TWO_CM, changes: "configmap/cm2"),
        row!("core/workloads_test.go", "multiple Secrets", kinds: ALL, uses: &["envFrom:secret/sec", "envFrom:secret/sec2"], annotations: TWO_SEC, changes: "secret/sec2"),
        row!("core/workloads_test.go", "sequential ConfigMap updates", kinds: ALL, annotations: CM),
        row!("core/workloads_test.go", "either ConfigMap or Secret", kinds: ALL, annotations: BOTH, changes: "secret/sec"),
        row!("core/workloads_test.go", "auto=false", kinds: ALL, annotations: &[(AUTO, "false")], restarts: 0),
        row!("core/workloads_test.go", "ConfigMap annotation on pod template only", kinds: ALL, template_annotations: CM),
        row!("core/workloads_test.go", "Secret annotation on pod template only", kinds: ALL, template_annotations: SEC, changes: "secret/sec"),
        row!("core/workloads_test.go", "auto=true on pod template only", kinds: ALL, template_annotations: AUTO_TRUE),
        row!("core/workloads_test.go", "SecretProviderClass annotation on pod template only", kinds: ALL, uses: spc, template_annotations: SPC, changes: class),
        row!("core/workloads_test.go", "secretproviderclass auto on pod template only", kinds: ALL, uses: spc, template_annotations: &[(SPC_AUTO, "true")], changes: class),
        row!("core/workloads_test.go", "annotations on both workload and pod template", kinds: ALL, annotations: CM, template_annotations: AUTO_TRUE),
        row!("core/workloads_test.go", "pod template has ConfigMap annotation but Secret is updated", kinds: ALL, template_annotations: CM, changes: "secret/sec", restarts: 0),
        row!("core/workloads_test.go", "SecretProviderClass auto annotation", uses: spc, annotations: &[(SPC_AUTO, "true")], changes: class),
        row!("core/workloads_test.go", "excluded SecretProviderClassPodStatus", uses: spc, annotations: &[(AUTO, "true"), (SPC_EXCLUDE, "spc")], changes: class, restarts: 0),
        row!("core/workloads_test.go", "SecretProviderClassPodStatus of an init container", uses: &["init-csi:secretproviderclass/spc"], annotations: SPC, changes: class),
    ]
}

fn annotations() -> Vec<Row> {
    let spc: &'static [&'static str] = &["csi:secretproviderclass/spc", "envFrom:configmap/cm"];
    let class = "secretproviderclass/spc";
    vec![
        row!("annotations/auto_reload_test.go", "auto: ConfigMap", annotations: AUTO_TRUE),
        row!("annotations/auto_reload_test.go", "auto: Secret", annotations: AUTO_TRUE, changes: "secret/sec"),
        row!("annotations/auto_reload_test.go", "auto: either", annotations: AUTO_TRUE, changes: "secret/sec"),
        row!("annotations/auto_reload_test.go", "configmap auto: ConfigMap", annotations: &[(CM_AUTO, "true")]),
        row!("annotations/auto_reload_test.go", "configmap auto: not Secret", annotations: &[(CM_AUTO, "true")], changes: "secret/sec", restarts: 0),
        row!("annotations/auto_reload_test.go", "secret auto: Secret", annotations: &[(SECRET_AUTO, "true")], changes: "secret/sec"),
        row!("annotations/auto_reload_test.go", "secret auto: not ConfigMap", annotations: &[(SECRET_AUTO, "true")], restarts: 0),
        row!("annotations/auto_reload_test.go", "secretproviderclass auto", uses: spc, annotations: &[(SPC_AUTO, "true")], changes: class),
        row!("annotations/auto_reload_test.go", "only secretproviderclass auto: not ConfigMap", uses: spc, annotations: &[(SPC_AUTO, "true")], restarts: 0),
        row!("annotations/auto_reload_test.go", "combined auto for SecretProviderClass", uses: spc, annotations: AUTO_TRUE, changes: class),
        row!("annotations/auto_reload_test.go", "auto with explicit annotation: auto-detected", annotations: &[(AUTO, "true"), (CM_RELOAD, "other")]),
        row!("annotations/combination_test.go", "auto and listed: auto-detected", annotations: &[(AUTO, "true"), (CM_RELOAD, "listed")]),
        row!("annotations/combination_test.go", "auto and listed: listed", annotations: &[(AUTO, "true"), (CM_RELOAD, "listed")], changes: "configmap/listed"),
        row!("annotations/combination_test.go", "auto and listed Secret", annotations: &[(AUTO, "true"), (SECRET_RELOAD, "listed")], changes: "secret/listed"),
        row!("annotations/combination_test.go", "excluded ConfigMap", annotations: &[(AUTO, "true"), (CM_EXCLUDE, "cm")], restarts: 0),
        row!("annotations/combination_test.go", "non-excluded ConfigMap", annotations: &[(AUTO, "true"), (CM_EXCLUDE, "other")]),
        row!("annotations/combination_test.go", "excluded Secret", annotations: &[(AUTO, "true"), (SECRET_EXCLUDE, "sec")], changes: "secret/sec", restarts: 0),
        row!("annotations/combination_test.go", "multiple listed ConfigMaps", annotations: &[(CM_RELOAD, "one, two,three")], changes: "configmap/two"),
        row!("annotations/combination_test.go", "multiple listed Secrets", annotations: &[(SECRET_RELOAD, "one,two,three")], changes: "secret/three"),
        row!("annotations/combination_test.go", "ConfigMap and Secret annotations", annotations: &[(CM_RELOAD, "cm"), (SECRET_RELOAD, "sec")], changes: "secret/sec"),
        row!("annotations/exclude_test.go", "excluded ConfigMap", annotations: &[(AUTO, "true"), (CM_EXCLUDE, "x,cm")], restarts: 0),
        row!("annotations/exclude_test.go", "non-excluded ConfigMap", annotations: &[(AUTO, "true"), (CM_EXCLUDE, "x")]),
        row!("annotations/exclude_test.go", "excluded Secret", annotations: &[(AUTO, "true"), (SECRET_EXCLUDE, "sec")], changes: "secret/sec", restarts: 0),
        row!("annotations/exclude_test.go", "non-excluded Secret", annotations: &[(AUTO, "true"), (SECRET_EXCLUDE, "x")], changes: "secret/sec"),
        row!("annotations/exclude_test.go", "excluded SecretProviderClassPodStatus", uses: spc, annotations: &[(AUTO, "true"), (SPC_EXCLUDE, "spc")], changes: class, restarts: 0),
        row!("annotations/exclude_test.go", "non-excluded SecretProviderClassPodStatus", uses: spc, annotations: &[(AUTO, "true"), (SPC_EXCLUDE, "x")], changes: class),
        row!("annotations/resource_ignore_test.go", "ConfigMap with ignore=true", annotations: CM, on_configuration: &[(IGNORE, "true")], restarts: 0),
        row!("annotations/resource_ignore_test.go", "Secret with ignore=true", annotations: SEC, on_configuration: &[(IGNORE, "true")], changes: "secret/sec", restarts: 0),
        row!("annotations/search_match_test.go", "search and match", annotations: &[(SEARCH, "true")], on_configuration: &[(MATCH, "true")]),
        row!("annotations/search_match_test.go", "search without match", annotations: &[(SEARCH, "true")], restarts: 0),
        row!("annotations/search_match_test.go", "match without search", on_configuration: &[(MATCH, "true")], restarts: 0),
        row!("annotations/search_match_test.go", "only the Deployment with search", annotations: &[(SEARCH, "true")], on_configuration: &[(MATCH, "true")]),
    ]
}

fn flags() -> Vec<Row> {
    vec![
        row!("flags/auto_reload_all_test.go", "without any annotations", options: |it| it.auto_reload_all = true),
        row!("flags/auto_reload_all_test.go", "auto=false is respected", annotations: &[(AUTO, "false")], options: |it| it.auto_reload_all = true, restarts: 0),
        row!("flags/ignore_resources_test.go", "ignoreSecrets: Secret", annotations: AUTO_TRUE, options: |it| it.ignore_secrets = true, changes: "secret/sec", restarts: 0),
        row!("flags/ignore_resources_test.go", "ignoreSecrets: ConfigMap", annotations: AUTO_TRUE, options: |it| it.ignore_secrets = true),
        row!("flags/ignore_resources_test.go", "ignoreConfigMaps: ConfigMap", annotations: AUTO_TRUE, options: |it| it.ignore_config_maps = true, restarts: 0),
        row!("flags/ignore_resources_test.go", "ignoreConfigMaps: Secret", annotations: AUTO_TRUE, options: |it| it.ignore_config_maps = true, changes: "secret/sec"),
        row!("flags/ignored_workloads_test.go", "ignoreCronJobs: CronJob", kinds: &["CronJob"], annotations: CM, options: |it| it.ignore_cron_jobs = true, restarts: 0),
        row!("flags/ignored_workloads_test.go", "ignoreCronJobs: Deployment", annotations: CM, options: |it| it.ignore_cron_jobs = true),
        row!("flags/ignored_workloads_test.go", "both job flags", kinds: &["CronJob", "Job"], annotations: CM, options: |it| { it.ignore_cron_jobs = true; it.ignore_jobs = true; }, restarts: 0),
        row!("flags/reload_on_create_test.go", "reloadOnCreate: ConfigMap", annotations: CM, options: |it| it.reload_on_create = true, event: Created),
        row!("flags/reload_on_create_test.go", "reloadOnCreate: Secret", annotations: SEC, options: |it| it.reload_on_create = true, changes: "secret/sec", event: Created),
        row!("flags/reload_on_create_test.go", "default: nothing on create", annotations: CM, event: Created, restarts: 0),
        row!("flags/reload_on_delete_test.go", "reloadOnDelete: ConfigMap", annotations: CM, options: |it| it.reload_on_delete = true, event: Deleted),
        row!("flags/reload_on_delete_test.go", "reloadOnDelete: Secret", annotations: SEC, options: |it| it.reload_on_delete = true, changes: "secret/sec", event: Deleted),
        row!("flags/reload_on_delete_test.go", "default: nothing on delete", annotations: CM, event: Deleted, restarts: 0),
    ]
}

fn advanced() -> Vec<Row> {
    let class = "secretproviderclass/spc";
    vec![
        row!("advanced/job_reload_test.go", "Job: ConfigMap", kinds: &["Job"], annotations: CM),
        row!("advanced/job_reload_test.go", "Job: Secret", kinds: &["Job"], annotations: SEC, changes: "secret/sec"),
        row!("advanced/job_reload_test.go", "Job: auto=true", kinds: &["Job"], annotations: AUTO_TRUE),
        row!("advanced/job_reload_test.go", "Job: valueFrom ConfigMap", kinds: &["Job"], uses: &["env:configmap/cm"], annotations: CM),
        row!("advanced/job_reload_test.go", "Job: valueFrom Secret", kinds: &["Job"], uses: &["env:secret/sec"], annotations: SEC, changes: "secret/sec"),
        row!("advanced/job_reload_test.go", "Job: SecretProviderClass", kinds: &["Job"], uses: &["csi:secretproviderclass/spc"], annotations: SPC, changes: class),
        row!("advanced/multi_container_test.go", "same ConfigMap in several containers", uses: &["envFrom:configmap/cm", "second-envFrom:configmap/cm"], annotations: CM),
        row!("advanced/multi_container_test.go", "different ConfigMaps", uses: &["envFrom:configmap/cm", "second-envFrom:configmap/cm2"], annotations: &[(CM_RELOAD, "cm,cm2")], changes: "configmap/cm2"),
        row!("advanced/multi_container_test.go", "init container with CSI volume", uses: &["init-csi:secretproviderclass/spc"], annotations: SPC, changes: class),
        row!("advanced/multi_container_test.go", "auto with CSI volume of init container", uses: &["init-csi:secretproviderclass/spc"], annotations: AUTO_TRUE, changes: class),
        row!("advanced/regex_test.go", "ConfigMap that matches", annotations: &[(CM_RELOAD, "app-.*")], changes: "configmap/app-config"),
        row!("advanced/regex_test.go", "ConfigMap that does not match", annotations: &[(CM_RELOAD, "app-.*")], changes: "configmap/other-app-config", restarts: 0),
        row!("advanced/regex_test.go", "Secret that matches", annotations: &[(SECRET_RELOAD, "db-.*-creds")], changes: "secret/db-main-creds"),
    ]
}

fn id(text: &str) -> (ConfigurationKind, &str) {
    let (kind, name) = text.split_once('/').unwrap();
    let kind = ConfigurationKind::ALL
        .into_iter()
        .find(|it| it.key() == kind);
    (kind.unwrap(), name)
}

fn pod(row: &Row) -> Json {
    let mut app = json!({"name": "app", "env": [{"name": "OWN", "value": "x"}], "envFrom": [], "volumeMounts": []});
    let mut second = json!({"name": "second", "envFrom": []});
    let mut init = json!({"name": "init", "envFrom": [], "volumeMounts": []});
    let mut volumes = json!([]);
    let mut sources = json!([]);
    let push = |list: &mut Json, item: Json| list.as_array_mut().unwrap().push(item);
    for (index, text) in row.uses.iter().enumerate() {
        let (usage, configuration) = text.split_once(':').unwrap();
        let (kind, name) = id(configuration);
        let is_map = kind == ConfigMap;
        let from = if is_map {
            json!({"configMapRef": {"name": name}})
        } else {
            json!({"secretRef": {"name": name}})
        };
        let volume = format!("v{index}");
        let mount = json!({"name": volume, "mountPath": "/v"});
        match usage {
            "envFrom" => push(&mut app["envFrom"], from),
            "second-envFrom" => push(&mut second["envFrom"], from),
            "init-envFrom" => push(&mut init["envFrom"], from),
            "env" => {
                let key = if is_map {
                    "configMapKeyRef"
                } else {
                    "secretKeyRef"
                };
                push(
                    &mut app["env"],
                    json!({"name": "X", "valueFrom": {key: {"name": name, "key": "key"}}}),
                );
            }
            "projected" => {
                let key = if is_map { "configMap" } else { "secret" };
                push(&mut sources, json!({key: {"name": name}}));
            }
            "volume" | "init-volume" => {
                let source = if is_map {
                    json!({"name": volume, "configMap": {"name": name}})
                } else {
                    json!({"name": volume, "secret": {"secretName": name}})
                };
                push(&mut volumes, source);
                let container = if usage == "volume" {
                    &mut app
                } else {
                    &mut init
                };
                push(&mut container["volumeMounts"], mount);
            }
            "csi" | "init-csi" => {
                let csi = json!({"driver": "secrets-store.csi.k8s.io", "volumeAttributes": {"secretProviderClass": name}});
                push(&mut volumes, json!({"name": volume, "csi": csi}));
                let container = if usage == "csi" { &mut app } else { &mut init };
                push(&mut container["volumeMounts"], mount);
            }
            usage => panic!("{usage}"),
        }
    }
    if sources != json!([]) {
        push(
            &mut volumes,
            json!({"name": "all", "projected": {"sources": sources}}),
        );
        push(
            &mut app["volumeMounts"],
            json!({"name": "all", "mountPath": "/all"}),
        );
    }
    let annotations: serde_json::Map<_, _> = pairs(row.template_annotations);
    json!({
        "metadata": {"labels": {"app": "web"}, "annotations": annotations},
        "spec": {"containers": [app, second], "initContainers": [init], "volumes": volumes},
    })
}

fn pairs(of: &[(&str, &str)]) -> serde_json::Map<String, Json> {
    of.iter()
        .map(|(key, value)| ((*key).to_owned(), json!(value)))
        .collect()
}

/// The cluster before the change.
fn world(row: &Row, kind: &str, strategy: Strategy) -> World {
    let mut world = World::new(Profile::Reloader);
    world.options.reloader.strategy = strategy;
    (row.options)(&mut world.options.reloader);
    let (changed, name) = id(row.changes);
    for text in row
        .uses
        .iter()
        .map(|it| it.split_once(':').unwrap().1)
        .chain([row.changes])
    {
        let (kind, name) = id(text);
        world.set(kind, name, &[("key", "initial")]);
    }
    for (key, value) in row.on_configuration {
        world.annotate(changed, name, key, value);
    }
    if row.event == Created {
        world.delete(changed, name);
    }
    world.now = 100;
    world.add(kind, "web", Json::Object(pairs(row.annotations)), pod(row));
    world.settle();
    world.now = 200;
    world
}

fn change(world: &mut World, row: &Row) {
    let (kind, name) = id(row.changes);
    match row.event {
        Changed => world.set(kind, name, &[("key", "updated")]),
        Created => world.set(kind, name, &[("key", "initial")]),
        Label => world.annotate(kind, name, "changed", "label"),
        Deleted => world.delete(kind, name),
    }
}

#[test]
fn end_to_end_cases_of_reloader() {
    let rows = rows();
    assert!(rows.len() >= 95, "{}", rows.len());
    for row in &rows {
        for kind in row.kinds {
            for strategy in [Strategy::EnvVars, Strategy::Annotations] {
                let mut world = world(row, kind, strategy);
                let source = format!("{:?} {kind} {strategy:?}", row.source);
                assert_eq!(
                    (world.restarts("web"), world.jobs.len()),
                    (0, 0),
                    "{source}"
                );
                change(&mut world, row);
                world.run(60);
                let done = match *kind {
                    "CronJob" => world.jobs.len(),
                    _ => world.restarts("web"),
                };
                assert_eq!(done, row.restarts, "{source}");
                // The same change a second time, if the event can be repeated.
                if row.event == Changed {
                    let (kind_changed, name) = id(row.changes);
                    world.run(60);
                    world.set(kind_changed, name, &[("key", "updated again")]);
                    world.run(60);
                    let done = match *kind {
                        "CronJob" => world.jobs.len(),
                        _ => world.restarts("web"),
                    };
                    assert_eq!(done, 2 * row.restarts, "{source}: sequential");
                }
            }
        }
    }
}

fn deployment(annotations: &'static [(&'static str, &'static str)], strategy: Strategy) -> World {
    world(
        &Row {
            annotations,
            ..DEFAULT
        },
        "Deployment",
        strategy,
    )
}

#[test]
fn markers_match_reloader() {
    let mut world = deployment(CM, Strategy::EnvVars);
    world.set(ConfigMap, "cm", &[("key", "updated")]);
    world.run(60);
    let container =
        world.workloads["web"].object["spec"]["template"]["spec"]["containers"][0].clone();
    // printf 'key=updated' | sha1sum
    let expected = json!([{"name": "OWN", "value": "x"}, {"name": "STAKATER_CM_CONFIGMAP", "value": SHA1_UPDATED}]);
    assert_eq!(container["env"], expected);
    let mut world = deployment(CM, Strategy::Annotations);
    world.set(ConfigMap, "cm", &[("key", "updated")]);
    world.run(60);
    let template = &world.workloads["web"].object["spec"]["template"];
    let marker =
        template["metadata"]["annotations"]["reloader.stakater.com/last-reloaded-from"].as_str();
    let marker: Json = serde_json::from_str(marker.unwrap()).unwrap();
    assert_eq!(
        marker,
        json!({
            "type": "CONFIGMAP", "name": "cm", "namespace": "shop", "hash": SHA1_UPDATED,
            "containerRefs": ["app"], "observedAt": START + 200,
        })
    );
}

/// As in Reloader, a variable of an init container would not be enough.
#[test]
fn variable_is_set_in_the_container_that_reads_the_configuration() {
    let reader = |name: &str| json!({"name": name, "envFrom": [{"configMapRef": {"name": "cm"}}]});
    let (first, second) = (json!({"name": "first"}), json!({"name": "second"}));
    for (init, containers, expected) in [
        (json!([]), json!([first, reader("second")]), [false, true]),
        (
            json!([reader("init")]),
            json!([first, second]),
            [true, false],
        ),
    ] {
        let mut world = World::new(Profile::Reloader);
        world.set(ConfigMap, "cm", &[("key", "initial")]);
        world.now = 100;
        let pod = json!({"spec": {"initContainers": init, "containers": containers}});
        world.add("Deployment", "web", json!({CM_RELOAD: "cm"}), pod);
        world.settle();
        world.now = 200;
        world.set(ConfigMap, "cm", &[("key", "updated")]);
        world.run(60);
        let containers = &world.workloads["web"].object["spec"]["template"]["spec"]["containers"];
        let has_variable = |index: usize| containers[index]["env"].is_array();
        assert_eq!([has_variable(0), has_variable(1)], expected);
    }
}

#[test]
fn existing_markers_of_reloader_count_as_applied() {
    for strategy in [Strategy::EnvVars, Strategy::Annotations] {
        let mut world = deployment(CM, strategy);
        world.set(ConfigMap, "cm", &[("key", "updated")]);
        world.run(60);
        metadata_without_state(&mut world);
        world.tells_times = false;
        world.run(60);
        assert_eq!(world.restarts("web"), 1, "{strategy:?}");
        // The marker reveals a change that was made while no planner was running.
        metadata_without_state(&mut world);
        world.set(ConfigMap, "cm", &[("key", "third")]);
        world.run(60);
        assert_eq!(world.restarts("web"), 2, "{strategy:?}");
    }
}

/// The annotation names only the configuration of the last restart.
#[test]
fn marker_of_another_configuration_does_not_count_as_applied() {
    for (kind, name) in [(ConfigMap, "other"), (Secret, "cm")] {
        let mut world = deployment(CM, Strategy::Annotations);
        world.set(ConfigMap, "cm", &[("key", "updated")]);
        world.run(60);
        metadata_without_state(&mut world);
        world.tells_times = false;
        world.set(ConfigMap, "cm", &[("key", "third")]);
        let template = &mut world.workloads.get_mut("web").unwrap().object["spec"]["template"];
        let marker = json!({"type": kind.key().to_uppercase(), "name": name, "hash": SHA1_UPDATED});
        template["metadata"]["annotations"]["reloader.stakater.com/last-reloaded-from"] =
            json!(marker.to_string());
        world.run(60);
        assert_eq!(world.restarts("web"), 1, "{kind:?} {name}");
    }
}

#[test]
fn removed_annotation_of_reloader_is_reported_without_a_restart() {
    let mut world = deployment(CM, Strategy::Annotations);
    world.set(ConfigMap, "cm", &[("key", "updated")]);
    world.run(60);
    assert_eq!(world.reasons("web"), [""; 0]);
    world.strip("web");
    world.workloads.get_mut("web").unwrap().started = Some(world.now + 1);
    world.run(3000);
    assert_eq!(world.restarts("web"), 1);
    assert_eq!(world.reasons("web"), ["MARKER_STRIPPED"]);
}

fn metadata_without_state(world: &mut World) {
    let metadata = &mut world.workloads.get_mut("web").unwrap().object["metadata"];
    metadata["annotations"] = json!({CM_RELOAD: "cm"});
}

#[test]
fn pause_period_pauses_and_resumes() {
    // annotations/pause_period_test.go
    let paused: &'static [(&'static str, &'static str)] = &[
        (CM_RELOAD, "cm"),
        ("deployment.reloader.stakater.com/pause-period", "2m"),
    ];
    let mut world = deployment(paused, Strategy::EnvVars);
    world.set(ConfigMap, "cm", &[("key", "updated")]);
    world.settle();
    assert_eq!(world.workloads["web"].object["spec"]["paused"], true);
    assert_eq!(world.plan().requeue_after.unwrap().seconds(), 120);
    world.now += 5;
    world.set(ConfigMap, "cm", &[("key", "within the period")]);
    world.run(110);
    assert_eq!(world.restarts("web"), 1);
    world.run(30);
    assert_eq!(world.restarts("web"), 2);
    world.run(200);
    assert_eq!(world.workloads["web"].object["spec"]["paused"], false);
    let without = deployment(CM, Strategy::EnvVars);
    assert_eq!(
        without.workloads["web"].object["spec"]["paused"],
        Json::Null
    );
}

#[test]
fn jobs_of_a_cron_job_are_created_once() {
    let row = Row {
        annotations: CM,
        ..DEFAULT
    };
    let mut world = world(&row, "CronJob", Strategy::EnvVars);
    world.set(ConfigMap, "cm", &[("key", "updated")]);
    // The adapter dies after it has created the Job.
    let steps = world.steps();
    world.carry_out(&steps[0]).unwrap();
    world.run(60);
    assert_eq!(world.jobs.len(), 1);
    let body: Json = serde_json::from_str(&steps[0].call.body_json).unwrap();
    assert_eq!(
        body["metadata"]["annotations"]["cronjob.kubernetes.io/instantiate"],
        "manual"
    );
    assert_eq!(body["metadata"]["ownerReferences"][0]["uid"], "uid-web");
    assert_eq!(steps[0].done_codes, [409]);
}

#[test]
fn job_is_created_only_from_the_complete_object() {
    let row = Row {
        annotations: CM,
        ..DEFAULT
    };
    let mut world = world(&row, "CronJob", Strategy::EnvVars);
    world.set(ConfigMap, "cm", &[("key", "updated")]);
    world.now += 60;
    let mut input = world.input();
    let plan = |input: &Input| {
        let plan = plan_restarts(input, &Never).unwrap();
        let [workload] = &plan.workloads[..] else {
            panic!("{plan:?}");
        };
        let reasons: Vec<_> = workload.conditions.iter().map(|it| it.reason).collect();
        (workload.decision, reasons)
    };
    assert_eq!(plan(&input), (Decision::Restart, vec![]));
    input.workloads[0].object = None;
    assert_eq!(plan(&input), (Decision::Hold, vec!["OBJECT_REQUIRED"]));
}

#[test]
fn invalid_patterns_are_reported() {
    let world = deployment(&[(CM_RELOAD, "(((,cm")], Strategy::EnvVars);
    assert_eq!(world.reasons("web"), ["INVALID_ANNOTATION"]);
}

/// printf 'key=updated' | sha1sum
const SHA1_UPDATED: &str = "6b3093988321555757cc9b88a5f2d59101a0261c";
