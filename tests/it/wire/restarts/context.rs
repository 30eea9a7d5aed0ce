//! What other objects say about workloads and configurations: namespaces, budgets, pods, ReplicaSets and statuses of
//! SecretProviderClasses.

use rollplan::proto::{self, RestartPlan};
use serde_json::{Value, json};

use super::{
    NOW, call, config_map, decisions, deployment, list, object, objects, plan, pod_of, restarts_of,
    revision_of, state,
};

const BEFORE: &str = "2026-01-01T00:20:00Z";
const CHANGED: &str = "2026-01-01T00:30:00Z";
const AFTER: &str = "2026-01-01T00:40:00Z";

/// The ConfigMap after its change.
fn changed() -> Value {
    let mut changed = config_map("app", json!({"A": "2"}));
    changed["metadata"]["managedFields"] =
        json!([{"manager": "kubectl", "time": CHANGED, "fieldsV1": {"f:data": {"f:A": {}}}}]);
    changed
}

/// The workload with the state that is recorded before the change.
fn recorded(mut workload: Value) -> Value {
    let before = [config_map("app", json!({"A": "1"})), workload.clone()];
    let first = plan(&objects(&before, json!({})));
    workload["metadata"]["annotations"][super::STATE] = json!(state(&first.plans[0]));
    workload
}

/// The only plan after the change, with these objects beside the workload.
fn planned(workload: &Value, beside: &[Value], options: Value) -> RestartPlan {
    let all = [&[changed(), workload.clone()], beside].concat();
    let mut plans = plan(&objects(&all, options)).plans;
    assert_eq!(plans.len(), 1, "{plans:?}");
    plans.remove(0)
}

/// The annotations of a workload after the first step of a plan.
fn annotations_after(plan: &RestartPlan, workload: &Value) -> Value {
    let mut annotations = workload["metadata"]["annotations"].clone();
    let body: Value = serde_json::from_str(&call(plan).body_json).unwrap();
    let adds = body
        .as_array()
        .unwrap()
        .iter()
        .filter(|it| it["op"] == "add");
    for operation in adds {
        let path = operation["path"].as_str().unwrap();
        if let Some(key) = path.strip_prefix("/metadata/annotations/") {
            annotations[key.replace("~1", "/")] = operation["value"].clone();
        }
    }
    annotations
}

fn reasons(plan: &RestartPlan) -> Vec<&str> {
    let conditions = plan.conditions.iter();
    conditions.map(|it| it.reason.as_str()).collect()
}

/// A workload of another kind than Deployment.
fn workload(kind: &str) -> Value {
    let mut workload = deployment("web", None);
    workload["kind"] = json!(kind);
    workload
}

/// A running pod of a workload, with this label.
fn pod(owner: &Value, label: (&str, &str), started_at: &str) -> Value {
    let mut pod = pod_of(owner, started_at);
    pod["metadata"]["labels"] = json!({(label.0): label.1});
    pod
}

#[test]
fn annotation_of_a_namespace_freezes_its_workloads() {
    let web = recorded(deployment("web", None));
    for (name, value, is_frozen) in [
        ("shop", "true", true),
        ("shop", "false", false),
        ("other", "true", false),
    ] {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "annotations": {"rollplan.dev/restart-frozen": value}}});
        let plan = planned(&web, &[namespace], json!({"quiet": "0s"}));
        let reasons = reasons(&plan);
        assert_eq!(reasons.contains(&"FROZEN"), is_frozen, "{name} {value}");
    }
}

#[test]
fn restarts_wait_for_the_budget_of_their_pods() {
    let web = recorded(deployment("web", None));
    let budget = |namespace: &str, app: &str, allowed: i64| {
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": format!("{app}-{allowed}"), "namespace": namespace},
            "spec": {"selector": {"matchLabels": {"app": app}}}, "status": {"disruptionsAllowed": allowed}})
    };
    let options = json!({"quiet": "0s", "disruptionBudgetWait": "3600s"});
    for (budgets, is_waiting) in [
        (vec![], false),
        (vec![budget("shop", "web", 0)], true),
        (vec![budget("shop", "web", 1)], false),
        (
            vec![budget("shop", "web", 1), budget("shop", "web", 0)],
            true,
        ),
        (vec![budget("shop", "api", 0)], false),
        (vec![budget("other", "web", 0)], false),
    ] {
        let plan = planned(&web, &budgets, options.clone());
        let reasons = reasons(&plan);
        assert_eq!(
            reasons.contains(&"DISRUPTION_BUDGET"),
            is_waiting,
            "{budgets:?}"
        );
    }
}

#[test]
fn workloads_that_are_being_deleted_are_not_restarted() {
    let mut web = recorded(deployment("web", None));
    web["metadata"]["deletionTimestamp"] = json!(NOW);
    let answer = plan(&objects(
        &[changed(), web],
        json!({"includeUnchanged": true}),
    ));
    assert!(decisions(&answer).is_empty());
}

/// During a rotation, the pods of a SecretProviderClass mount different versions.
#[test]
fn latest_status_of_a_secret_provider_class_applies() {
    let mut web = deployment("web", None);
    let spec = &mut web["spec"]["template"]["spec"];
    spec["containers"][0] =
        json!({"name": "app", "volumeMounts": [{"name": "secrets", "mountPath": "/secrets"}]});
    spec["volumes"] = json!([{"name": "secrets", "csi": {"driver": "secrets-store.csi.k8s.io",
        "volumeAttributes": {"secretProviderClass": "vault"}}}]);
    let status = |pod: &str, version: &str, time: &str| {
        json!({"apiVersion": "secrets-store.csi.x-k8s.io/v1", "kind": "SecretProviderClassPodStatus",
            "metadata": {"name": pod, "namespace": "shop",
                "managedFields": [{"manager": "csi", "time": time, "fieldsV1": {"f:status": {}}}]},
            "status": {"secretProviderClassName": "vault", "objects": [{"id": "password", "version": version}]}})
    };
    let old = status("a", "1", BEFORE);
    let new = status("b", "2", CHANGED);
    // A kind of another group with this name.
    let mut stranger = status("c", "3", AFTER);
    stranger["apiVersion"] = json!("example.com/v1");
    let first = plan(&objects(&[old.clone(), web.clone()], json!({})));
    web["metadata"]["annotations"][super::STATE] = json!(state(&first.plans[0]));
    let unchanged = plan(&objects(&[old.clone(), stranger, web.clone()], json!({})));
    assert!(decisions(&unchanged).is_empty());
    for statuses in [[&old, &new], [&new, &old]] {
        let all = [statuses[0].clone(), statuses[1].clone(), web.clone()];
        let answer = plan(&objects(&all, json!({"quiet": "0s"})));
        assert_eq!(
            decisions(&answer),
            [("web".to_owned(), "RESTART".to_owned())]
        );
        let [change] = &answer.plans[0].changes[..] else {
            panic!("{:?}", answer.plans[0].changes);
        };
        let expected = proto::ConfigurationKind::SecretProviderClass;
        assert_eq!((change.kind(), &*change.key), (expected, "password"));
    }
    // Times have a precision of seconds: of two with the same time, the last one applies.
    let same = status("b", "2", BEFORE);
    for (statuses, is_changed) in [([&old, &same], true), ([&same, &old], false)] {
        let all = [statuses[0].clone(), statuses[1].clone(), web.clone()];
        let answer = plan(&objects(&all, json!({"quiet": "0s"})));
        assert_eq!(!answer.plans.is_empty(), is_changed);
    }
}

#[test]
fn changes_of_secrets_are_those_of_secrets() {
    let mut web = deployment("web", None);
    web["spec"]["template"]["spec"]["containers"][0]["envFrom"] =
        json!([{"secretRef": {"name": "db"}}]);
    let secret = |value: &str| {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db", "namespace": "shop"},
            "data": {"k": value}})
    };
    let first = plan(&objects(&[secret("djE="), web.clone()], json!({})));
    web["metadata"]["annotations"][super::STATE] = json!(state(&first.plans[0]));
    let answer = plan(&objects(&[secret("djI="), web], json!({"quiet": "0s"})));
    let change = &answer.plans[0].changes[0];
    assert_eq!(change.kind(), proto::ConfigurationKind::Secret);
}

/// No pods have seen the old configuration if none have been created, or if all were created after the change.
#[test]
fn deployments_whose_pods_are_newer_than_the_change_are_not_restarted() {
    let mut web = recorded(deployment("web", None));
    web["metadata"]["annotations"]["deployment.kubernetes.io/revision"] = json!("2");
    web["metadata"]["generation"] = json!(3);
    let set = |revision: &str, created_at: &str| {
        let mut set = revision_of(&web, revision);
        set["metadata"]["creationTimestamp"] = json!(created_at);
        set
    };
    let restart = proto::RestartDecision::Restart;
    let record = proto::RestartDecision::Record;
    for (replicas, observed, sets, decision) in [
        // The pods are not in the request: the ReplicaSet tells.
        (1, 3, vec![set("2", AFTER)], record),
        (1, 3, vec![set("2", BEFORE)], restart),
        (1, 3, vec![set("2", BEFORE), set("1", AFTER)], restart),
        (1, 3, vec![set("1", BEFORE), set("2", AFTER)], record),
        // Neither are the ReplicaSets.
        (0, 3, vec![], record),
        (0, 2, vec![], restart),
        (1, 3, vec![], restart),
    ] {
        let mut web = web.clone();
        web["status"] = json!({"replicas": replicas, "observedGeneration": observed});
        // A rollout in progress would hold the restart.
        web["status"]["conditions"] =
            json!([{"type": "Progressing", "reason": "ProgressDeadlineExceeded"}]);
        web["spec"]["replicas"] = json!(replicas);
        let plan = planned(&web, &sets, json!({"quiet": "0s"}));
        let is_observed = observed == 3;
        let expected = if is_observed {
            decision
        } else {
            proto::RestartDecision::Hold
        };
        assert_eq!(plan.decision(), expected, "{replicas} {observed} {sets:?}");
    }
}

#[test]
fn pods_of_the_current_revision_that_started_after_the_change_need_no_restart() {
    let mut set = recorded(workload("StatefulSet"));
    set["metadata"]["generation"] = json!(1);
    set["spec"]["replicas"] = json!(1);
    set["status"] = json!({"observedGeneration": 1, "replicas": 1, "readyReplicas": 1, "updatedReplicas": 1,
        "updateRevision": "web-2"});
    let mut daemons = recorded(workload("DaemonSet"));
    daemons["metadata"]["generation"] = json!(1);
    daemons["metadata"]["annotations"]["deprecated.daemonset.template.generation"] = json!("2");
    daemons["status"] = json!({"observedGeneration": 1, "desiredNumberScheduled": 1, "updatedNumberScheduled": 1,
        "numberAvailable": 1});
    let restart = proto::RestartDecision::Restart;
    let record = proto::RestartDecision::Record;
    for (workload, label, [old, new]) in [
        (set, "controller-revision-hash", ["web-1", "web-2"]),
        (daemons, "pod-template-generation", ["1", "2"]),
    ] {
        let of = |revision: &str, time: &str| pod(&workload, (label, revision), time);
        let another = object("apps/v1", "StatefulSet", "another");
        let mut succeeded = of(new, BEFORE);
        succeeded["status"]["phase"] = json!("Succeeded");
        let mut deleted = of(new, BEFORE);
        deleted["metadata"]["deletionTimestamp"] = json!(NOW);
        for (pods, decision) in [
            (vec![of(new, AFTER)], record),
            (vec![of(new, BEFORE)], restart),
            (vec![of(new, AFTER), of(new, BEFORE)], restart),
            (vec![of(old, AFTER)], restart),
            (vec![of(old, BEFORE), of(new, AFTER)], record),
            // Pods that have ended, or are about to, do not matter.
            (vec![succeeded, of(new, AFTER)], record),
            (vec![deleted, of(new, AFTER)], record),
            (vec![pod(&another, (label, new), AFTER)], restart),
        ] {
            let mut named = pods.clone();
            for (index, pod) in named.iter_mut().enumerate() {
                pod["metadata"]["name"] = json!(format!("p-{index}"));
                pod["metadata"]["uid"] = json!(format!("pod-{index}"));
            }
            let plan = planned(&workload, &named, json!({"quiet": "0s"}));
            assert_eq!(plan.decision(), decision, "{} {named:?}", workload["kind"]);
        }
        // The status may be about the revision before.
        let mut outdated = workload.clone();
        outdated["metadata"]["generation"] = json!(2);
        let plan = planned(&outdated, &[of(new, AFTER)], json!({"quiet": "0s"}));
        assert_eq!(plan.decision(), proto::RestartDecision::Hold);
    }
}

#[test]
fn jobs_and_templates_that_cannot_be_changed_hold_the_restart() {
    let mut job = workload("Job");
    job["apiVersion"] = json!("batch/v1");
    let mut on_delete = workload("DaemonSet");
    on_delete["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
    let mut paused = workload("Deployment");
    paused["spec"]["paused"] = json!(true);
    for (workload, reason) in [(job, "JOB"), (on_delete, "ON_DELETE"), (paused, "PAUSED")] {
        let plan = planned(&recorded(workload), &[], json!({"quiet": "0s"}));
        assert_eq!(plan.decision(), proto::RestartDecision::Hold);
        assert_eq!(reasons(&plan), [reason]);
    }
}

/// Its next Job reads the new configuration.
#[test]
fn configurations_of_the_jobs_of_cron_jobs_are_recorded() {
    let mut cron_job = deployment("web", None);
    cron_job["apiVersion"] = json!("batch/v1");
    cron_job["kind"] = json!("CronJob");
    let template = cron_job["spec"]["template"].take();
    cron_job["spec"] = json!({"jobTemplate": {"spec": {"template": template}}});
    let all = [config_map("app", json!({"A": "1"})), cron_job];
    let answer = plan(&objects(&all, json!({"includeUnchanged": true})));
    assert_eq!(
        decisions(&answer),
        [("web".to_owned(), "RECORD".to_owned())]
    );
    assert_eq!(answer.plans[0].uses[0].name, "app");
}

/// A container that cannot start with an old configuration stalls the rollout, which a restart may end.
#[test]
fn rollouts_that_stall_on_failing_containers_are_restarted() {
    let mut set = recorded(workload("StatefulSet"));
    set["spec"]["replicas"] = json!(1);
    set["status"] = json!({"observedGeneration": 1, "replicas": 1, "readyReplicas": 0, "updatedReplicas": 1,
        "updateRevision": "web-2"});
    for (reason, decision) in [
        ("CrashLoopBackOff", proto::RestartDecision::Restart),
        (
            "CreateContainerConfigError",
            proto::RestartDecision::Restart,
        ),
        ("ContainerCreating", proto::RestartDecision::Hold),
    ] {
        let mut pod = pod(&set, ("controller-revision-hash", "web-2"), BEFORE);
        let running = pod["status"]["containerStatuses"][0].clone();
        let waiting = json!({"name": "app", "state": {"waiting": {"reason": reason}}});
        pod["status"]["containerStatuses"] = json!([running, waiting]);
        let plan = planned(&set, &[pod], json!({"quiet": "0s"}));
        assert_eq!(plan.decision(), decision, "{reason}: {:?}", plan.conditions);
    }
}

/// Other conditions end by themselves.
#[test]
fn conditions_that_need_somebody_have_an_event() {
    let events = |workload: &Value, options: Value| {
        let plan = planned(workload, &[], options);
        let events = plan.conditions.into_iter().map(|it| (it.reason, it.event));
        events.collect::<Vec<_>>()
    };
    let mut paused = recorded(workload("Deployment"));
    paused["spec"]["paused"] = json!(true);
    let found = events(&paused, json!({"quiet": "0s"}));
    let (_, event) = found.iter().find(|(reason, _)| reason == "PAUSED").unwrap();
    let event = event.as_ref().unwrap();
    assert_eq!(
        (&*event.r#type, &*event.reason),
        ("Warning", "RestartPaused")
    );
    assert!(event.message.contains("paused: "), "{}", event.message);
    let waits = events(
        &recorded(workload("Deployment")),
        json!({"quiet": "90000s", "maxWait": "900000s"}),
    );
    assert!(!waits.is_empty());
    assert!(waits.iter().all(|(_, event)| event.is_none()), "{waits:?}");
}

/// The Job may be gone already, which is as good.
#[test]
fn jobs_are_deleted_if_they_exist_then_created_again() {
    let mut job = deployment("job", None);
    job["apiVersion"] = json!("batch/v1");
    job["kind"] = json!("Job");
    job["metadata"]["annotations"] = json!({"reloader.stakater.com/auto": "true"});
    let options = json!({"profile": "RESTART_PROFILE_RELOADER", "quiet": "0s"});
    let first = plan(&objects(
        &[config_map("app", json!({"A": "1"})), job.clone()],
        options.clone(),
    ));
    job["metadata"]["annotations"] = annotations_after(&first.plans[0], &job);
    let plan = planned(&job, &[], options);
    let steps: Vec<_> = plan
        .steps
        .iter()
        .map(|it| {
            (
                it.call.as_ref().unwrap().verb(),
                it.on_failure(),
                &*it.done_http_codes,
            )
        })
        .collect();
    let summaries: Vec<_> = plan.steps.iter().map(|it| &*it.summary).collect();
    assert_eq!(summaries, ["delete Job job", "create Job job again"]);
    assert_eq!(
        steps,
        [
            (proto::Verb::Delete, proto::OnFailure::DoneIf, &[404][..]),
            (proto::Verb::Create, proto::OnFailure::Stop, &[]),
        ]
    );
    let events = plan.steps.iter().flat_map(|it| &it.events);
    let events: Vec<_> = events.map(|it| (&*it.reason, &*it.message)).collect();
    assert_eq!(
        events,
        [(
            "ConfigurationChanged",
            "Restarted: ConfigMap shop/app changed"
        )]
    );
}

/// Without a key, anyone who may read the workloads could try values.
#[test]
fn checksums_depend_on_the_key() {
    // sha256 of "1"
    let plain = "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b";
    let with = |key: &str| {
        let all = [
            config_map("app", json!({"A": "1"})),
            deployment("web", None),
        ];
        let options = json!({"checksumKey": key});
        state(&plan(&objects(&all, options)).plans[0])
    };
    let is_plain = |state: &str| state.contains(&plain[..12]);
    assert!(is_plain(&with("")), "{}", with(""));
    assert!(!is_plain(&with("c2VjcmV0")));
    assert_ne!(with("c2VjcmV0"), with("b3RoZXI="));
}

/// What is missing from a page of a list may be on the next one.
#[test]
fn configurations_missing_from_a_page_are_not_deleted() {
    let web = recorded(deployment("web", None));
    let mut request = objects(std::slice::from_ref(&web), json!({"quiet": "0s"}));
    let reasons_of = |request: &Value| {
        let plans = plan(request).plans;
        plans
            .iter()
            .flat_map(reasons)
            .any(|it| it == "REQUIRED_MISSING")
    };
    assert!(reasons_of(&request));
    request["configurationsComplete"] = json!(false);
    assert!(!reasons_of(&request));
    let mut page = list(&[web]);
    page["metadata"]["continue"] = "next".into();
    let mut request = restarts_of(NOW, &[page.to_string()]);
    request["options"] = json!({"quiet": "0s"});
    assert!(!reasons_of(&request));
}

/// Its metadata may change, but its data does not.
#[test]
fn immutable_configurations_changed_when_they_were_created() {
    let mut set = recorded(workload("StatefulSet"));
    set["spec"]["replicas"] = json!(1);
    set["status"] = json!({"observedGeneration": 1, "replicas": 1, "readyReplicas": 1, "updatedReplicas": 1,
        "updateRevision": "web-2"});
    let pod = pod(&set, ("controller-revision-hash", "web-2"), AFTER);
    for (immutable, expected) in [(true, "RECORD"), (false, "RESTART")] {
        let mut map = config_map("app", json!({"A": "2"}));
        map["immutable"] = json!(immutable);
        map["metadata"]["creationTimestamp"] = json!(BEFORE);
        map["metadata"]["managedFields"] =
            json!([{"manager": "kubectl", "time": NOW, "fieldsV1": {"f:data": {"f:A": {}}}}]);
        let answer = plan(&objects(
            &[map, set.clone(), pod.clone()],
            json!({"quiet": "0s"}),
        ));
        assert_eq!(
            decisions(&answer),
            [("web".to_owned(), expected.to_owned())]
        );
    }
}

#[test]
fn marks_that_are_gone_from_the_template_are_reported() {
    let mut web = recorded(deployment("web", None));
    let restart = planned(&web, &[], json!({"quiet": "0s"}));
    web["metadata"]["annotations"][super::STATE] = json!(state(&restart));
    let after = |web: Value| {
        let answer = plan(&objects(
            &[changed(), web],
            json!({"includeUnchanged": true}),
        ));
        let reasons = reasons(&answer.plans[0]);
        reasons.contains(&"MARKER_STRIPPED")
    };
    assert!(after(web.clone()));
    web["spec"]["template"]["metadata"]["annotations"] = json!({"rollplan.dev/restarted-at": NOW});
    assert!(!after(web));
}

/// After an undo, pods that started before the last change run with an older configuration, whichever that is.
#[test]
fn pods_older_than_the_applied_change_are_restarted() {
    let mut set = recorded(workload("StatefulSet"));
    set["spec"]["replicas"] = json!(1);
    set["status"] = json!({"observedGeneration": 1, "replicas": 1, "readyReplicas": 1, "updatedReplicas": 1,
        "updateRevision": "web-2"});
    let [younger, older] =
        [AFTER, BEFORE].map(|time| pod(&set, ("controller-revision-hash", "web-2"), time));
    let fresh = planned(&set, &[younger], json!({"quiet": "0s"}));
    set["metadata"]["annotations"][super::STATE] = json!(state(&fresh));
    let undone = planned(&set, &[older], json!({"quiet": "0s"}));
    let [change] = &undone.changes[..] else {
        panic!("{undone:?}");
    };
    let expected = (proto::ConfigurationKind::Unspecified, "undone", "");
    assert_eq!((change.kind(), &*change.r#type, &*change.name), expected);
}

#[test]
fn custom_kinds_have_their_template_where_deployments_have_it() {
    let mut web = deployment("web", None);
    web["apiVersion"] = json!("example.com/v1");
    web["kind"] = json!("Rollout");
    let kinds =
        json!([{"apiVersion": "example.com/v1", "kind": "Rollout", "resource": "rollouts"}]);
    let all = [config_map("app", json!({"A": "1"})), web];
    let answer = plan(&objects(&all, json!({"kinds": kinds})));
    assert_eq!(
        decisions(&answer),
        [("web".to_owned(), "RECORD".to_owned())]
    );
}

#[test]
fn containers_of_references_are_named_to_reloader() {
    let mut workload = deployment("web", None);
    workload["metadata"]["annotations"] = json!({"reloader.stakater.com/auto": "true"});
    workload["spec"]["template"]["spec"]["containers"][0]["name"] = json!("side");
    let with = |workload: &Value, checksum: &str| {
        let options = json!({"profile": "RESTART_PROFILE_RELOADER", "quiet": "0s",
            "reloader": {"strategy": "RELOAD_STRATEGY_ANNOTATIONS"}});
        let mut request = objects(std::slice::from_ref(workload), options);
        request["configurations"] = json!([{"kind": "CONFIGURATION_KIND_CONFIG_MAP", "namespace": "shop", "name": "app",
            "checksum": checksum.repeat(40)}]);
        plan(&request)
    };
    let first = with(&workload, "a");
    let mut written = workload.clone();
    written["metadata"]["annotations"] = annotations_after(&first.plans[0], &workload);
    let second = with(&written, "b");
    let body = &call(&second.plans[0]).body_json;
    assert!(body.contains(r#"\"containerRefs\":[\"side\"]"#), "{body}");
}

/// Pods that no status counts start after the creation of their owner.
#[test]
fn pods_that_do_not_exist_yet_start_after_their_owner_was_created() {
    let created = |kind: &str, status: Value| {
        let mut it = recorded(workload(kind));
        it["metadata"]["generation"] = json!(1);
        it["metadata"]["creationTimestamp"] = json!(AFTER);
        it["spec"]["replicas"] = json!(1);
        it["status"] = status;
        it["status"]["observedGeneration"] = json!(1);
        it
    };
    let decision = |workload: &Value, beside: &[Value]| {
        planned(workload, beside, json!({"quiet": "0s"})).decision()
    };
    let record = proto::RestartDecision::Record;
    let restart = proto::RestartDecision::Restart;
    let mut web = created("Deployment", json!({}));
    assert_eq!(decision(&web, &[]), record);
    web["metadata"]["annotations"]["deployment.kubernetes.io/revision"] = json!("2");
    let mut set = revision_of(&web, "2");
    set["metadata"]["creationTimestamp"] = json!(AFTER);
    set["status"]["replicas"] = json!(0);
    assert_eq!(decision(&web, &[set]), record);
    for (updated, expected) in [(0, record), (1, restart)] {
        let status = json!({"replicas": updated, "readyReplicas": updated, "updatedReplicas": updated,
            "updateRevision": "web-2"});
        let set = created("StatefulSet", status);
        assert_eq!(decision(&set, &[]), expected, "{updated}");
    }
}

/// A StatefulSet without a recorded state, and its only pod.
fn observed(created_at: &str, started_at: &str) -> [Value; 2] {
    let mut set = workload("StatefulSet");
    set["metadata"]["generation"] = json!(1);
    set["spec"]["replicas"] = json!(1);
    set["status"] = json!({"observedGeneration": 1, "replicas": 1, "readyReplicas": 1, "updatedReplicas": 1,
        "updateRevision": "web-2"});
    let mut pod = pod(&set, ("controller-revision-hash", "web-2"), started_at);
    pod["metadata"]["creationTimestamp"] = json!(created_at);
    [set, pod]
}

/// The time of a manager is that of its last change of any of its fields.
#[test]
fn first_observation_restarts_only_if_a_manager_can_only_have_changed_data() {
    let last_applied = json!({"f:annotations": {".": {}, "f:kubectl.kubernetes.io/last-applied-configuration": {}}});
    let mut annotated = last_applied.clone();
    annotated["f:annotations"]["f:team"] = json!({});
    for (fields, decision) in [
        (json!({"f:data": {}}), "RESTART"),
        (json!({"f:data": {}, "f:type": {}}), "RESTART"),
        (json!({"f:data": {}, "f:metadata": last_applied}), "RESTART"),
        (json!({"f:data": {}, "f:metadata": annotated}), "RECORD"),
        (
            json!({"f:data": {}, "f:metadata": {"f:labels": {"f:version": {}}}}),
            "RECORD",
        ),
        (json!({"f:data": {}, "f:immutable": {}}), "RECORD"),
    ] {
        let [set, pod] = observed(BEFORE, BEFORE);
        let mut map = config_map("app", json!({"A": "2"}));
        map["metadata"]["creationTimestamp"] = json!("2026-01-01T00:10:00Z");
        map["metadata"]["managedFields"] =
            json!([{"manager": "m", "time": CHANGED, "fieldsV1": fields}]);
        let answer = plan(&objects(&[map, set, pod], json!({"quiet": "0s"})));
        assert_eq!(
            decisions(&answer),
            [("web".to_owned(), decision.to_owned())],
            "{fields}"
        );
        let is_unproven = reasons(&answer.plans[0]).contains(&"CHANGE_UNPROVEN");
        assert_eq!(is_unproven, decision == "RECORD", "{fields}");
    }
}

/// Pods of the second of the change were created after it if they had no node at a later resource version.
#[test]
fn creation_of_pods_is_compared_with_the_change() {
    let later = "2026-01-01T00:30:01Z";
    for (created_at, unscheduled, decision) in [
        (later, None, "RECORD"),
        (CHANGED, None, "RESTART"),
        (CHANGED, Some("99"), "RESTART"),
        (CHANGED, Some("101"), "RECORD"),
        (BEFORE, Some("101"), "RECORD"),
    ] {
        let [set, mut pod] = observed(created_at, created_at);
        if let Some(version) = unscheduled {
            pod["metadata"]["annotations"] = json!({"rollplan.dev/unscheduled-version": version});
        }
        let mut map = changed();
        map["metadata"]["resourceVersion"] = json!("100");
        let all = [map, recorded(set), pod];
        let answer = plan(&objects(&all, json!({"quiet": "0s"})));
        assert_eq!(
            decisions(&answer),
            [("web".to_owned(), decision.to_owned())],
            "{created_at} {unscheduled:?}"
        );
    }
}
