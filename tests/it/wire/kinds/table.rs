//! The table of kinds and the rule for the rest, with statuses as their controllers write them.

use rollplan::proto::{self, Outlook, Phase};
use rollplan_health::kinds::table::{CONFIGURATION, TABLE, row};
use rollplan_world::json;
use serde_json::{Value, json};

use super::super::{read, root};
use super::{object, report};

use Expected::{Complete, Failed, Final, NotJudged, Paused, Progressing};

/// What a report says, and a part of its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    Complete,
    Progressing,
    Paused,
    /// STALLED, by the judgement of the controller.
    Failed,
    /// STALLED, and certain.
    Final,
    NotJudged,
}

fn expected(report: &proto::RolloutReport) -> Expected {
    let verdict = report.verdict.as_ref().unwrap();
    let blocker = report.blockers.first().map(|blocker| &*blocker.reason);
    assert_eq!(blocker.unwrap_or_default(), verdict.reason, "{report:#?}");
    assert_eq!(
        verdict.reason == "JOB_FAILED",
        verdict.certain && report.phase() == Phase::Stalled
    );
    match (report.phase(), verdict.outlook(), verdict.certain) {
        (Phase::Complete, Outlook::Complete, true) => Complete,
        (Phase::Progressing, Outlook::Undecided, false) => Progressing,
        (Phase::Paused, Outlook::NeedsChange, true) => Paused,
        (Phase::Stalled, Outlook::NeedsChange, false) => Failed,
        (Phase::Stalled, Outlook::NeedsChange, true) => Final,
        (Phase::NotJudged, Outlook::NotJudged, false) => NotJudged,
        other => panic!("{other:?}: {report:#?}"),
    }
}

/// Conditions from "Ready=True", "Ready=False:Reason" or "Ready=False:Reason: message", separated by semicolons.
fn conditions(text: &str) -> Value {
    let one = |text: &str| {
        let (kind, rest) = text.split_once('=').unwrap();
        let (status, reason) = rest.split_once(':').unwrap_or((rest, ""));
        let (reason, message) = reason.split_once(": ").unwrap_or((reason, ""));
        json!({"type": kind, "status": status, "reason": reason, "message": message,
               "lastTransitionTime": super::at(5)})
    };
    text.split("; ").map(one).collect()
}

fn with(text: &str) -> Value {
    json!({"observedGeneration": 1, "conditions": conditions(text)})
}

fn phase(word: &str) -> Value {
    json!({"phase": word})
}

/// The rows of the stories: the version, the kind and the phase.
fn cases() -> Vec<(String, String, String)> {
    let text = read(root().join("tests/stories/kinds.md"));
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    let cell = |cell: &str| cell.trim().trim_matches('`').to_owned();
    let case = |row: &str| {
        let cells: Vec<String> = row.replace("\\|", "").split('|').map(cell).collect();
        (cells[1].clone(), cells[2].clone(), cells[5].clone())
    };
    rows.map(case).collect()
}

#[test]
fn every_row_has_stories_of_complete_and_other_objects() {
    let mut states = vec![Vec::new(); TABLE.len()];
    for (version, kind, phase) in cases() {
        let group = version.rsplit_once('/').map_or("", |(group, _)| group);
        if let Some(row) = row(group, &kind) {
            let index = TABLE.iter().position(|it| std::ptr::eq(it, row)).unwrap();
            states[index].push(phase == "complete");
        }
    }
    for (row, states) in TABLE.iter().zip(states) {
        let complete = states.iter().filter(|it| **it).count();
        assert!(complete > 0 && states.len() >= complete + 2, "{row:?}");
    }
}

fn other(spec: Value, status: Value, has_subresource: Option<bool>) -> proto::RolloutReport {
    let object = object("example.com/v1", "Database", "main", spec, status);
    let mut request = super::request(60, &object, &[]);
    let target = request.snapshot.as_mut().unwrap().target.as_mut().unwrap();
    target.status_subresource = has_subresource;
    rollplan::service::answer(request).unwrap().report.unwrap()
}

/// Without Ready and an observed generation, it is the word of an unknown controller.
#[test]
fn phase_of_another_kind_is_not_certain() {
    let report = other(json!({}), phase("Ready"), None);
    assert_eq!(report.phase(), Phase::Complete);
    assert!(!report.verdict.unwrap().certain);
}

#[test]
fn conditions_of_an_earlier_generation_are_unknown() {
    let of = |text: &str| {
        let mut all = conditions(text);
        for condition in all.as_array_mut().unwrap() {
            condition["observedGeneration"] = json!(0);
        }
        other(json!({}), json!({"conditions": all}), None)
    };
    let report = of("Ready=True");
    assert_eq!(expected(&report), Progressing);
    let message = "database \"main\" is not ready: its condition Ready is of an earlier generation";
    assert_eq!(report.message, message);
    assert_eq!(expected(&of("Stalled=True; Ready=True")), Progressing);
    assert_eq!(expected(&of("Paused=True; Ready=True")), Progressing);
    assert_eq!(expected(&of("Reconciling=True; Ready=True")), Progressing);
}

/// A Rollout may refer to a Deployment, whose generation the controller publishes apart from its own.
#[test]
fn rollout_is_behind_until_the_change_of_its_workload_is_observed() {
    for (annotation, observed, wanted) in [
        (Some("2"), json!("2"), Complete),
        (Some("2"), json!("1"), Progressing),
        (Some("2"), json!(null), Progressing),
        (None, json!(null), Complete),
    ] {
        let status = json!({"phase": "Healthy", "observedGeneration": "1", "workloadObservedGeneration": observed});
        let mut rollout = object("argoproj.io/v1alpha1", "Rollout", "web", json!({}), status);
        if let Some(value) = annotation {
            rollout["metadata"]["annotations"] =
                json!({"rollout.argoproj.io/workload-generation": value});
        }
        let report = report(60, &rollout, &[]);
        assert_eq!(expected(&report), wanted, "{}", report.message);
    }
}

/// Until the first success, the controllers of Flux leave the observed generation at -1, and report failures in conditions with
/// their generation.
#[test]
fn conditions_of_the_latest_generation_count_before_it_is_observed() {
    let of = |condition: Value| {
        let status = json!({"observedGeneration": -1, "conditions": [condition]});
        let version = "kustomize.toolkit.fluxcd.io/v1";
        report(
            60,
            &object(version, "Kustomization", "shop", json!({}), status),
            &[],
        )
    };
    let unobserved = "no controller has observed the latest change (generation 1, observed -1)";
    for (kind, status, generation, wanted, message) in [
        (
            "Stalled",
            "True",
            Some(1),
            Failed,
            "its condition Stalled is true (AccessDenied)",
        ),
        (
            "Ready",
            "False",
            Some(1),
            Progressing,
            "its condition Ready is false (AccessDenied)",
        ),
        (
            "Reconciling",
            "True",
            Some(1),
            Progressing,
            "its controller is working on it (AccessDenied)",
        ),
        (
            "Paused",
            "True",
            Some(1),
            Paused,
            "its condition Paused is true (AccessDenied)",
        ),
        ("Ready", "True", Some(1), Progressing, unobserved),
        ("Stalled", "True", Some(0), Progressing, unobserved),
        ("Stalled", "True", None, Progressing, unobserved),
    ] {
        let mut condition = json!({"type": kind, "status": status, "reason": "AccessDenied"});
        if let Some(generation) = generation {
            condition["observedGeneration"] = generation.into();
        }
        let report = of(condition);
        assert_eq!(expected(&report), wanted, "{kind}: {}", report.message);
        assert_eq!(report.blockers[0].message, message);
    }
}

#[test]
fn requested_reconciliation_of_flux_must_be_handled() {
    for (requested, handled, wanted) in [
        (
            json!("2026-11-28T10:00:00Z"),
            json!("2026-11-28T10:00:00Z"),
            Complete,
        ),
        (
            json!("2026-11-28T10:00:00Z"),
            json!("2026-11-27T10:00:00Z"),
            Progressing,
        ),
        (json!("2026-11-28T10:00:00Z"), json!(null), Progressing),
        (json!(null), json!("2026-11-27T10:00:00Z"), Complete),
    ] {
        let status = json!({"observedGeneration": 1, "lastHandledReconcileAt": handled,
            "conditions": [{"type": "Ready", "status": "True", "observedGeneration": 1}]});
        let version = "source.toolkit.fluxcd.io/v1";
        let mut repository = object(version, "GitRepository", "shop", json!({}), status);
        if !requested.is_null() {
            repository["metadata"]["annotations"] =
                json!({"reconcile.fluxcd.io/requestedAt": requested});
        }
        let report = report(60, &repository, &[]);
        assert_eq!(expected(&report), wanted, "{}", report.message);
    }
}

/// `argocd app sync` removes the state of the last operation when it requests the next one.
#[test]
fn application_waits_for_its_operation_and_ignores_a_failed_one_of_another_revision() {
    let failed = |revision: &str| {
        let result = json!({"revision": revision});
        json!({"phase": "Failed", "message": "a hook has failed", "syncResult": result})
    };
    for (operation, state, wanted) in [
        (json!(null), json!(null), Complete),
        (json!({"sync": {"revision": "b"}}), json!(null), Progressing),
        (json!(null), failed("b"), Failed),
        (json!(null), failed("a"), Complete),
        (json!(null), failed(""), Failed),
    ] {
        let mut status =
            json!({"health": {"status": "Healthy"}, "sync": {"status": "Synced", "revision": "b"}});
        if !state.is_null() {
            status["operationState"] = state;
        }
        let version = "argoproj.io/v1alpha1";
        let mut application = object(version, "Application", "shop", json!({}), status);
        if !operation.is_null() {
            application["operation"] = operation;
        }
        let report = report(60, &application, &[]);
        assert_eq!(expected(&report), wanted, "{}", report.message);
    }
}

#[test]
fn objects_without_a_status_are_complete_only_if_their_kind_has_none() {
    for (has_subresource, wanted) in [
        (Some(false), Complete),
        (Some(true), NotJudged),
        (None, NotJudged),
    ] {
        for status in [json!(null), json!({})] {
            let report = other(json!({}), status, has_subresource);
            assert_eq!(expected(&report), wanted, "{has_subresource:?}");
        }
        let report = other(json!({}), json!({"mood": "good"}), has_subresource);
        assert_eq!(expected(&report), NotJudged, "it has a status");
    }
    let report = other(json!({}), json!({}), Some(false));
    assert_eq!(report.message, "database \"main\" has nothing to wait for");
}

#[test]
fn configuration_has_nothing_to_wait_for() {
    for (groups, kinds) in CONFIGURATION {
        for (group, kind) in groups
            .iter()
            .zip(kinds.iter().cycle())
            .chain(groups.iter().cycle().zip(kinds))
        {
            let version = format!("{}/v1", group.replace('*', "x"));
            for status in [json!(null), json!({"bindings": []})] {
                let object = object(&version, kind, "main", json!({}), status);
                let report = report(60, &object, &[]);
                assert_eq!(expected(&report), Complete, "{version} {kind}");
            }
        }
    }
    for (version, kind, status) in [
        ("rbac.authorization.k8s.io/v1", "ClusterRole", json!(null)),
        ("networking.k8s.io/v1", "NetworkPolicy", json!({})),
        (
            "networking.k8s.io/v1",
            "Ingress",
            json!({"loadBalancer": {}}),
        ),
        ("storage.k8s.io/v1", "StorageClass", json!(null)),
        (
            "admissionregistration.k8s.io/v1",
            "ValidatingWebhookConfiguration",
            json!(null),
        ),
        ("v1", "ServiceAccount", json!(null)),
        ("v1", "Namespace", json!({"phase": "Active"})),
        (
            "v1",
            "ResourceQuota",
            json!({"hard": {"pods": "4"}, "used": {"pods": "1"}}),
        ),
    ] {
        let object = object(version, kind, "main", json!({}), status);
        let report = report(60, &object, &[]);
        assert_eq!(expected(&report), Complete, "{kind}: {}", report.message);
        assert!(
            report.message.ends_with("has nothing to wait for"),
            "{}",
            report.message
        );
    }
    // Kinds of Kubernetes that report conditions are judged by them.
    let node = object(
        "v1",
        "Node",
        "n",
        json!({}),
        json!({"conditions": conditions("Ready=False")}),
    );
    assert_eq!(expected(&report(60, &node, &[])), Progressing);
    let lost = object("v1", "PersistentVolume", "v", json!({}), phase("Failed"));
    assert_eq!(expected(&report(60, &lost, &[])), Failed);
}

#[test]
fn reports_that_do_not_judge_list_the_first_conditions() {
    let many: Vec<String> = (0..12).map(|index| format!("C{index}\n=True")).collect();
    let report = other(json!({}), with(&many.join("; ")), None);
    let message = "conditions C0=True, C1=True, C2=True, C3=True, C4=True, C5=True, C6=True, C7=True and 4 more";
    assert!(report.message.ends_with(message), "{}", report.message);
}

#[test]
fn replication_controllers_are_judged_by_their_pods() {
    let of = |ready: i64, status: Value| {
        let all = json!({"observedGeneration": 1, "replicas": 3, "fullyLabeledReplicas": 3, "readyReplicas": ready,
                         "availableReplicas": ready});
        let object = object(
            "v1",
            "ReplicationController",
            "web",
            json!({"replicas": 3}),
            json::with(all, &status),
        );
        let pods = [super::pod("web-1", &object, "", "n", super::no_image())];
        report(600, &object, &pods)
    };
    let report = of(1, json!({}));
    assert_eq!(report.phase(), Phase::Progressing);
    assert!(!report.generic);
    let message = "replicationcontroller \"web\" is not complete (1 of 3 available): image web:2 of container web cannot be \
                   pulled";
    assert!(report.message.starts_with(message), "{}", report.message);
    assert_eq!(of(3, json!({})).phase(), Phase::Complete);
    let behind = of(3, json!({"observedGeneration": 0}));
    assert_eq!(behind.phase(), Phase::Progressing);
    let refused = of(
        3,
        json!({"conditions": conditions("ReplicaFailure=True:FailedCreate: exceeded quota: q")}),
    );
    assert_eq!(refused.verdict.unwrap().reason, "PODS_REFUSED");
}

/// A template of something other than pods is not a Deployment's.
#[test]
fn deployments_have_a_template_of_pods() {
    let spec = |template: Value| {
        json!({"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": {"spec": template},
               "strategy": {"type": "RollingUpdate"}})
    };
    let status = with("Ready=True");
    let machines = other(spec(json!({"bootstrap": {}})), status.clone(), None);
    assert_eq!(
        machines.message,
        "database \"main\" is ready, according to its condition Ready"
    );
    let pods = other(spec(json!({"containers": [{"name": "web"}]})), status, None);
    assert!(!pods.generic);
}
