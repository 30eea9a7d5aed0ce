//! The table of kinds and the rule for the rest, with statuses as their controllers write them.

use rollplan::proto::{self, Outlook, Phase};
use rollplan_health::kinds::table::{CONFIGURATION, TABLE, row};
use serde_json::{Value, json};

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

struct Case {
    kind: (&'static str, &'static str),
    spec: Value,
    status: Value,
    expected: Expected,
    message: &'static str,
}

fn check(cases: Vec<Case>) {
    for Case {
        kind: (version, kind),
        spec,
        status,
        expected: wanted,
        message,
    } in cases
    {
        let object = object(version, kind, "main", spec, status.clone());
        let report = report(60, &object, &[]);
        let text = &report.message;
        assert_eq!(expected(&report), wanted, "{kind} {status}: {text}");
        assert!(text.contains(message), "{kind} {status}: {text}");
        assert!(report.generic);
    }
}

/// Every row has an object that is complete and others that are not.
fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    let mut of = |version, kind, states: Vec<(Value, Value, Expected, &'static str)>| {
        for (spec, status, expected, message) in states {
            all.push(Case {
                kind: (version, kind),
                spec,
                status,
                expected,
                message,
            });
        }
    };
    let none = || json!({});
    of(
        "argoproj.io/v1alpha1",
        "Rollout",
        vec![
            (
                json!({"replicas": 3}),
                json!({"phase": "Healthy", "observedGeneration": "1", "replicas": 3, "updatedReplicas": 3,
                       "readyReplicas": 3, "availableReplicas": 3,
                       "conditions": conditions("Available=True; Healthy=True; Completed=True; Paused=False; \
                                                 Progressing=True:NewReplicaSetAvailable")}),
                Complete,
                "is complete: status.phase is Healthy",
            ),
            (
                json!({"replicas": 3}),
                json!({"phase": "Progressing", "observedGeneration": "1", "message": "more replicas need to be updated",
                       "conditions": conditions("Healthy=False; Completed=False; Progressing=True:ReplicaSetUpdated")}),
                Progressing,
                "status.phase is Progressing: more replicas need to be updated",
            ),
            (
                none(),
                json!({"phase": "Healthy", "observedGeneration": "0"}),
                Progressing,
                "(generation 1, observed 0)",
            ),
            (
                json!({"replicas": 3}),
                json!({"phase": "Healthy", "observedGeneration": "1", "updatedReplicas": 3, "availableReplicas": 2}),
                Progressing,
                "status.availableReplicas is 2, and spec.replicas is 3",
            ),
            (
                none(),
                json!({"phase": "Paused", "observedGeneration": "1", "message": "CanaryPauseStep"}),
                Paused,
                "status.phase is Paused: CanaryPauseStep",
            ),
            (
                none(),
                json!({"phase": "Degraded", "observedGeneration": "1",
                       "message": "ProgressDeadlineExceeded: ReplicaSet \"web\" has timed out progressing."}),
                Failed,
                "status.phase is Degraded: ProgressDeadlineExceeded",
            ),
            (
                none(),
                json!({"phase": "Degraded", "observedGeneration": "1",
                       "conditions": conditions("InvalidSpec=True:InvalidSpec: The Rollout \"web\" is invalid")}),
                Failed,
                "its condition InvalidSpec is true (InvalidSpec): The Rollout",
            ),
            (
                none(),
                json!({"observedGeneration": "1",
                       "conditions": conditions("Progressing=False:RolloutAborted: Rollout aborted update to revision 2")}),
                Failed,
                "its condition Progressing is false (RolloutAborted)",
            ),
            (
                none(),
                phase("Surprised"),
                NotJudged,
                "status.phase is Surprised",
            ),
            (none(), none(), Progressing, "status.phase is not set yet"),
        ],
    );
    let application = |health: &str, sync: &str, operation: &str| {
        json!({"health": {"status": health}, "sync": {"status": sync},
               "operationState": {"phase": operation, "message": "one or more objects failed to apply"},
               "conditions": [{"type": "SyncError", "message": "failed"}]})
    };
    of(
        "argoproj.io/v1alpha1",
        "Application",
        vec![
            (
                none(),
                application("Healthy", "Synced", "Succeeded"),
                Complete,
                "is complete",
            ),
            (
                none(),
                json!({"health": {"status": "Healthy"}, "sync": {"status": "Synced"}}),
                Complete,
                "is complete",
            ),
            (
                none(),
                application("Progressing", "Synced", "Succeeded"),
                Progressing,
                "status.health.status",
            ),
            (
                none(),
                application("Degraded", "Synced", "Succeeded"),
                Progressing,
                "status.health.status is Degraded",
            ),
            (
                none(),
                application("Missing", "OutOfSync", "Running"),
                Progressing,
                "operationState.phase is Running",
            ),
            (
                none(),
                application("Healthy", "OutOfSync", "Succeeded"),
                Progressing,
                "sync.status is OutOfSync",
            ),
            (
                none(),
                application("Suspended", "Synced", "Succeeded"),
                Paused,
                "is Suspended",
            ),
            (
                none(),
                application("Healthy", "OutOfSync", "Failed"),
                Failed,
                "objects failed to apply",
            ),
            (
                none(),
                json!({"sync": {"status": "Synced"}}),
                Progressing,
                "status.health.status is not set",
            ),
        ],
    );
    for (kind, good) in [("AnalysisRun", "Successful"), ("Workflow", "Succeeded")] {
        of(
            "argoproj.io/v1alpha1",
            kind,
            vec![
                (none(), phase(good), Complete, good),
                (none(), phase("Running"), Progressing, "Running"),
                (none(), phase(""), Progressing, "not set yet"),
                (
                    none(),
                    json!({"phase": "Failed", "message": "child failed"}),
                    Final,
                    "has failed: status.phase is Failed: child failed",
                ),
                (none(), phase("Error"), Final, "Error"),
                (none(), phase("Inconclusive"), NotJudged, "Inconclusive"),
            ],
        );
    }
    of(
        "argoproj.io/v1alpha1",
        "ApplicationSet",
        vec![
            (
                none(),
                with("ErrorOccurred=False; ParametersGenerated=True; ResourcesUpToDate=True"),
                Complete,
                "",
            ),
            (
                none(),
                with("RolloutProgressing=True; ResourcesUpToDate=True"),
                Progressing,
                "RolloutProgressing",
            ),
            (
                none(),
                with(
                    "ErrorOccurred=True:ApplicationGenerationFromParamsError; ResourcesUpToDate=False",
                ),
                Failed,
                "",
            ),
        ],
    );
    of(
        "helm.toolkit.fluxcd.io/v2",
        "HelmRelease",
        vec![
            (
                none(),
                with("Ready=True:UpgradeSucceeded; Released=True"),
                Complete,
                "is ready",
            ),
            (
                none(),
                with("Reconciling=True:Progressing; Ready=Unknown:Progressing"),
                Progressing,
                "working on it",
            ),
            (
                none(),
                with("Ready=False:InstallFailed: timed out"),
                Progressing,
                "(InstallFailed): timed out",
            ),
            (
                none(),
                with("Stalled=True:RetriesExceeded; Ready=False"),
                Failed,
                "Stalled is true (RetriesExceeded)",
            ),
            // The change that suspends it is never observed.
            (
                json!({"suspend": true}),
                json!({"observedGeneration": 0, "conditions": conditions("Ready=True")}),
                Paused,
                "spec.suspend is true",
            ),
            (
                none(),
                json!({"observedGeneration": -1}),
                Progressing,
                "observed -1",
            ),
        ],
    );
    of(
        "cert-manager.io/v1",
        "Certificate",
        vec![
            (none(), with("Ready=True:Ready"), Complete, ""),
            (
                none(),
                with("Ready=True:Ready; Issuing=True:Renewing"),
                Complete,
                "is ready",
            ),
            (
                none(),
                with("Ready=False:DoesNotExist: Issuing certificate; Issuing=True:DoesNotExist"),
                Progressing,
                "Ready is false",
            ),
            (
                none(),
                with(
                    "Issuing=False:Failed: It will be retried: no such issuer; Ready=False:DoesNotExist: No secret",
                ),
                Progressing,
                "No secret; Issuing is false (Failed): It will be retried: no such issuer",
            ),
            (
                none(),
                with("Issuing=False:Failed: It will be retried; Ready=True:Ready"),
                Complete,
                "is ready",
            ),
            (none(), none(), Progressing, "no condition Ready yet"),
        ],
    );
    of(
        "cert-manager.io/v1",
        "CertificateRequest",
        vec![
            (
                none(),
                with("Approved=True:policy; Ready=True:Issued"),
                Complete,
                "is ready",
            ),
            (
                none(),
                with("Approved=True:policy; Ready=False:Pending: Waiting"),
                Progressing,
                "(Pending): Waiting",
            ),
            (
                none(),
                with("Denied=True:policy: Not allowed; Ready=False:Denied"),
                Final,
                "has failed: its condition Denied is true (policy): Not allowed",
            ),
            (
                none(),
                with("Ready=True:Issued; Denied=True:policy"),
                Final,
                "Denied",
            ),
            (
                none(),
                with("InvalidRequest=True:Bad: usages"),
                Final,
                "usages",
            ),
            (
                none(),
                with("Ready=False:Failed: The order is invalid"),
                Final,
                "The order is invalid",
            ),
            (none(), none(), Progressing, "no condition Ready yet"),
        ],
    );
    let state = |state: &str| json!({"state": state, "reason": "the server answers"});
    for kind in ["Challenge", "Order"] {
        let mut states = vec![
            (none(), state("valid"), Complete, "status.state is valid"),
            (
                none(),
                json!({"reason": "Waiting for propagation"}),
                Progressing,
                "status.state is not set yet: Waiting for propagation",
            ),
        ];
        for it in ["ready", "pending", "processing"] {
            states.push((none(), state(it), Progressing, ": the server answers"));
        }
        for it in ["invalid", "expired", "errored"] {
            states.push((none(), state(it), Final, ": the server answers"));
        }
        of("acme.cert-manager.io/v1", kind, states);
    }
    of(
        "jobset.x-k8s.io/v1alpha2",
        "JobSet",
        vec![
            (
                none(),
                with(
                    "Completed=True:AllJobsCompleted; Suspended=False; StartupPolicyInProgress=False",
                ),
                Complete,
                "condition Completed",
            ),
            (
                none(),
                with("StartupPolicyInProgress=True:InOrder"),
                Progressing,
                "StartupPolicyInProgress",
            ),
            (
                none(),
                with("RestartingJobSet=True:FailurePolicy"),
                Progressing,
                "RestartingJobSet",
            ),
            (
                none(),
                with("Failed=True:FailedJobs: one failed"),
                Final,
                "(FailedJobs): one failed",
            ),
            (
                json!({"suspend": true}),
                with("Suspended=True:SuspendedJobs"),
                Paused,
                "spec.suspend",
            ),
            (none(), none(), Progressing, "no condition Completed yet"),
        ],
    );
    of(
        "cert-manager.io/v1",
        "ClusterIssuer",
        vec![
            (
                none(),
                with("Ready=True:ACMEAccountRegistered"),
                Complete,
                "",
            ),
            (none(), none(), Progressing, ""),
            (
                none(),
                with("Ready=False:ErrRegisterACMEAccount"),
                Progressing,
                "ErrRegisterACMEAccount",
            ),
        ],
    );
    of(
        "external-secrets.io/v1",
        "ExternalSecret",
        vec![
            (
                none(),
                json!({"conditions": conditions("Ready=True:SecretSynced")}),
                Complete,
                "",
            ),
            (none(), none(), Progressing, ""),
            (
                none(),
                json!({"conditions": conditions("Ready=False:SecretSyncedError")}),
                Progressing,
                "",
            ),
        ],
    );
    of(
        "bitnami.com/v1alpha1",
        "SealedSecret",
        vec![
            (none(), with("Synced=True"), Complete, "condition Synced"),
            (none(), none(), Progressing, "no condition Synced yet"),
            (
                none(),
                with("Synced=False:ErrUnsealFailed: no key could decrypt secret"),
                Failed,
                "no key could decrypt",
            ),
        ],
    );
    let listener = |text: &str| json!([{"name": "http", "conditions": conditions(text)}]);
    let listeners = |names: &[&str]| {
        let listeners = names.iter().map(|name| json!({"name": name}));
        json!({"listeners": listeners.collect::<Vec<_>>()})
    };
    let gateway = |text: &str, listeners: Value| json!({"conditions": conditions(text), "listeners": listeners});
    let good = "Accepted=True; Programmed=True";
    of(
        "gateway.networking.k8s.io/v1",
        "Gateway",
        vec![
            (
                listeners(&["http"]),
                gateway(
                    good,
                    listener("Accepted=True; Programmed=True; ResolvedRefs=True; Conflicted=False"),
                ),
                Complete,
                "conditions Accepted, Programmed",
            ),
            // A listener that the spec no longer has.
            (
                listeners(&[]),
                gateway(good, listener("Accepted=False")),
                Complete,
                "",
            ),
            (
                none(),
                gateway(
                    "Accepted=Unknown:Pending; Programmed=Unknown:Pending",
                    json!([]),
                ),
                Progressing,
                "unknown",
            ),
            (
                none(),
                gateway(
                    "Accepted=True; Programmed=False:AddressNotAssigned",
                    json!([]),
                ),
                Progressing,
                "AddressNot",
            ),
            (
                none(),
                gateway("Accepted=True", json!([])),
                Progressing,
                "no condition Programmed yet",
            ),
            (
                listeners(&["http", "https"]),
                gateway(good, listener("Accepted=True; Programmed=True")),
                Progressing,
                "status.listeners has no item for spec.listeners[1] (name https) yet",
            ),
            (
                listeners(&["http"]),
                gateway(
                    good,
                    listener("Programmed=True; ResolvedRefs=False:InvalidCertificateRef"),
                ),
                Progressing,
                "spec.listeners[0] (name http): its condition ResolvedRefs is false (InvalidCertificateRef)",
            ),
            (
                listeners(&["http"]),
                gateway(good, listener("ResolvedRefs=True")),
                Progressing,
                "it has no condition Accepted or Programmed yet",
            ),
            (
                listeners(&["http"]),
                gateway(
                    good,
                    listener("Accepted=True; Conflicted=True:HostnameConflict"),
                ),
                Progressing,
                "Conflicted is true (HostnameConflict)",
            ),
        ],
    );
    of(
        "gateway.networking.k8s.io/v1",
        "ListenerSet",
        vec![
            (
                listeners(&["http"]),
                gateway(good, listener("Accepted=True; Programmed=True")),
                Complete,
                "",
            ),
            (
                listeners(&["http", "b"]),
                gateway(good, listener("Accepted=True; Programmed=True")),
                Progressing,
                "(name b)",
            ),
        ],
    );
    // Parents with their conditions and the generation of these.
    let route = |parents: &[(Value, &str, i64)]| {
        let parents = parents.iter().map(|(parent, text, generation)| {
            let mut all = conditions(text);
            for condition in all.as_array_mut().unwrap() {
                condition["observedGeneration"] = json!(generation);
            }
            json!({"parentRef": parent, "controllerName": "example.com/gw", "conditions": all})
        });
        json!({"parents": parents.collect::<Vec<_>>()})
    };
    let refs = |parents: &[&Value]| json!({"parentRefs": parents});
    let good = "Accepted=True; ResolvedRefs=True";
    let (a, b) = (
        json!({"name": "a"}),
        json!({"name": "b", "namespace": "gw"}),
    );
    let with_defaults = json!({"group": "gateway.networking.k8s.io", "kind": "Gateway", "namespace": "shop", "name": "a",
                               "sectionName": ""});
    let section = json!({"name": "a", "sectionName": "https"});
    let port = json!({"name": "a", "port": 443});
    let service = |group: &str| json!({"group": group, "kind": "Service", "name": "a", "port": 80});
    let mut states = vec![
        (
            refs(&[&a, &b]),
            route(&[(b.clone(), good, 1), (a.clone(), good, 1)]),
            Complete,
            "condition Accepted of each item in status.parents",
        ),
        (
            refs(&[&a]),
            none(),
            Progressing,
            "status.parents has no item for spec.parentRefs[0] (namespace shop, name a) yet",
        ),
        (
            refs(&[&a, &b]),
            route(&[(a.clone(), good, 1)]),
            Progressing,
            "no item for spec.parentRefs[1] (namespace gw, name b) yet",
        ),
        // Of an earlier spec.
        (
            refs(&[&a]),
            route(&[
                (b.clone(), "Accepted=False:NoMatchingParent", 0),
                (a.clone(), good, 1),
            ]),
            Complete,
            "",
        ),
        (
            refs(&[&a]),
            route(&[(a.clone(), good, 0)]),
            Progressing,
            "spec.parentRefs[0] (namespace shop, name a): its condition Accepted is of an earlier generation",
        ),
        // Another controller reports on the same parent.
        (
            refs(&[&a]),
            route(&[
                (a.clone(), "Affected=True", 1),
                (a.clone(), "Accepted=True", 0),
                (a.clone(), good, 1),
            ]),
            Complete,
            "",
        ),
        (
            refs(&[&a]),
            route(&[
                (a.clone(), "Accepted=True", 0),
                (a.clone(), "Accepted=False:NotAllowedByListeners", 1),
            ]),
            Progressing,
            "NotAllowedByListeners",
        ),
        (
            refs(&[&a]),
            route(&[(a.clone(), "ResolvedRefs=True", 1)]),
            Progressing,
            "no condition Accepted yet",
        ),
        (
            refs(&[&a]),
            route(&[(a.clone(), "Accepted=False:NoMatchingParent", 1)]),
            Progressing,
            "NoMatchingParent",
        ),
        (
            refs(&[&a]),
            route(&[(
                a.clone(),
                "Accepted=True; ResolvedRefs=False:BackendNotFound",
                1,
            )]),
            Progressing,
            "BackendNotFound",
        ),
        (
            refs(&[&a]),
            route(&[(
                a.clone(),
                "Accepted=True; PartiallyInvalid=True:UnsupportedValue: Dropped Rule 1",
                1,
            )]),
            Progressing,
            "Dropped Rule 1",
        ),
        // Nothing will accept it.
        (none(), none(), Complete, "spec.parentRefs is empty"),
        (
            none(),
            route(&[(a.clone(), "Accepted=False", 1)]),
            Complete,
            "spec.parentRefs is empty",
        ),
        (
            json!({"useDefaultGateways": "All"}),
            none(),
            Progressing,
            "no item for spec.useDefaultGateways yet",
        ),
        (
            json!({"useDefaultGateways": "All"}),
            route(&[(a.clone(), good, 1)]),
            Complete,
            "",
        ),
        (json!({"useDefaultGateways": "None"}), none(), Complete, ""),
    ];
    for (wanted, reported, expected) in [
        (&a, &with_defaults, Complete),
        (&with_defaults, &a, Complete),
        (&a, &b, Progressing),
        (&a, &section, Progressing),
        (&section, &a, Progressing),
        (&section, &section, Complete),
        (&port, &a, Progressing),
        (&port, &port, Complete),
        (&service(""), &service(""), Complete),
        (&service(""), &service("core"), Complete),
        (&service(""), &service("multicluster.x-k8s.io"), Progressing),
        (&a, &json!({"name": "a", "group": ""}), Progressing),
        (
            &a,
            &json!({"name": "a", "kind": "ListenerSet"}),
            Progressing,
        ),
        (&a, &json!({"name": "a", "namespace": "gw"}), Progressing),
    ] {
        let status = route(&[(reported.clone(), good, 1)]);
        states.push((refs(&[wanted]), status, expected, ""));
    }
    of("gateway.networking.k8s.io/v1beta1", "HTTPRoute", states);
    let status = route(&[(a.clone(), good, 1)]);
    for (version, kind) in [
        ("gateway.networking.k8s.io/v1", "GRPCRoute"),
        ("gateway.networking.k8s.io/v1alpha2", "TCPRoute"),
        ("gateway.networking.k8s.io/v1alpha3", "TLSRoute"),
        ("gateway.networking.k8s.io/v1alpha2", "UDPRoute"),
    ] {
        let states = vec![
            (refs(&[&a]), status.clone(), Complete, ""),
            (refs(&[&a, &b]), status.clone(), Progressing, "name b"),
        ];
        of(version, kind, states);
    }
    let of_generation = |text: &str, generation: i64| {
        let mut all = conditions(text);
        all[0]["observedGeneration"] = json!(generation);
        json!({"conditions": all})
    };
    of(
        "gateway.networking.k8s.io/v1",
        "GatewayClass",
        vec![
            (none(), of_generation("Accepted=True", 1), Complete, ""),
            (
                none(),
                of_generation("Accepted=True", 0),
                Progressing,
                "of an earlier generation",
            ),
            (
                none(),
                of_generation("Accepted=Unknown:Waiting", 1),
                Progressing,
                "(Waiting)",
            ),
            (
                none(),
                of_generation("Accepted=False:InvalidParameters", 1),
                Progressing,
                "(InvalidParameters)",
            ),
        ],
    );
    of(
        "cluster.x-k8s.io/v1beta1",
        "Cluster",
        vec![
            (
                none(),
                json!({"phase": "Provisioned", "observedGeneration": 1,
                       "conditions": conditions("Ready=True; ControlPlaneInitialized=True; Remediating=False")}),
                Complete,
                "is ready",
            ),
            (
                none(),
                json!({"phase": "Provisioned", "conditions": conditions("Available=True; Paused=False; Deleting=False; \
                        ScalingUp=False; RollingOut=False")}),
                Complete,
                "condition Available",
            ),
            (
                none(),
                json!({"phase": "Provisioning", "conditions": conditions("Ready=False")}),
                Progressing,
                "Provisioning",
            ),
            (
                none(),
                json!({"phase": "Provisioned", "conditions": [
                    {"type": "Ready", "status": "False", "severity": "Error", "reason": "ScalingUp"}]}),
                Progressing,
                "Ready is false (ScalingUp)",
            ),
            (
                none(),
                json!({"phase": "Failed", "failureMessage": "no credentials", "conditions": conditions("Ready=False")}),
                Failed,
                "status.phase is Failed: no credentials",
            ),
            (
                none(),
                json!({"phase": "Surprised", "conditions": conditions("Ready=True")}),
                NotJudged,
                "status.phase is Surprised; conditions Ready=True",
            ),
            (
                json!({"paused": true}),
                phase("Provisioned"),
                Paused,
                "spec.paused is true",
            ),
        ],
    );
    let machines = |ready: i64, updated: i64| {
        json!({"phase": "Running", "observedGeneration": 1, "replicas": 3, "readyReplicas": ready,
               "availableReplicas": 3, "updatedReplicas": updated})
    };
    // A custom resource with a selector and a template of machines, not of pods.
    let spec = || {
        json!({"replicas": 3, "selector": {"matchLabels": {"a": "b"}}, "template": {"spec": {"clusterName": "c"}},
               "strategy": {"type": "RollingUpdate"}})
    };
    of(
        "cluster.x-k8s.io/v1beta1",
        "MachineDeployment",
        vec![
            (spec(), machines(3, 3), Complete, ""),
            (
                spec(),
                machines(1, 3),
                Progressing,
                "status.readyReplicas is 1",
            ),
            (
                spec(),
                machines(3, 2),
                Progressing,
                "status.updatedReplicas is 2",
            ),
            (
                spec(),
                phase("Running"),
                Progressing,
                "status.readyReplicas is 0",
            ),
            (spec(), phase("ScalingUp"), Progressing, "ScalingUp"),
            (spec(), phase("Failed"), Failed, "Failed"),
        ],
    );
    of(
        "cluster.x-k8s.io/v1beta1",
        "Machine",
        vec![
            (none(), phase("Running"), Complete, ""),
            (none(), phase("Provisioned"), Progressing, ""),
            (none(), phase("Failed"), Failed, ""),
        ],
    );
    of(
        "pkg.crossplane.io/v1",
        "Provider",
        vec![
            (
                none(),
                with("Installed=True:ActivePackageRevision; Healthy=True"),
                Complete,
                "",
            ),
            (
                none(),
                with("Installed=True"),
                Progressing,
                "no condition Healthy yet",
            ),
            (
                none(),
                with("Installed=False:UnpackingPackage: cannot unpack"),
                Progressing,
                "no condition Healthy",
            ),
            (
                none(),
                with("Installed=True; Healthy=False:UnhealthyPackageRevision"),
                Progressing,
                "UnhealthyPackage",
            ),
        ],
    );
    of(
        "apiextensions.crossplane.io/v1",
        "CompositeResourceDefinition",
        vec![
            (none(), with("Established=True; Offered=True"), Complete, ""),
            (none(), none(), Progressing, ""),
            (none(), with("Established=False"), Progressing, ""),
        ],
    );
    of(
        "s3.aws.upbound.io/v1beta1",
        "Bucket",
        vec![
            (
                none(),
                with("Ready=True:Available; Synced=True; LastAsyncOperation=True"),
                Complete,
                "Ready, Synced",
            ),
            (
                none(),
                with("Ready=False:Creating; Synced=True"),
                Progressing,
                "(Creating)",
            ),
            (
                none(),
                with("Synced=True"),
                Progressing,
                "no condition Ready yet",
            ),
            (
                none(),
                with("Ready=True; Synced=False:ReconcileError: access denied"),
                Progressing,
                "access denied",
            ),
            (
                none(),
                with("Ready=True; Synced=True; LastAsyncOperation=False"),
                Progressing,
                "LastAsyncOperation",
            ),
        ],
    );
    of(
        "serving.knative.dev/v1",
        "Service",
        vec![
            (
                none(),
                with("ConfigurationsReady=True; Ready=True; RoutesReady=True"),
                Complete,
                "",
            ),
            (
                none(),
                with("ConfigurationsReady=Unknown; Ready=Unknown; RoutesReady=Unknown"),
                Progressing,
                "unknown",
            ),
            (
                none(),
                with("ConfigurationsReady=False; Ready=False:RevisionFailed; RoutesReady=True"),
                Progressing,
                "Revision",
            ),
        ],
    );
    of(
        "serving.knative.dev/v1",
        "Revision",
        vec![
            (
                none(),
                with("Active=False:NoTraffic; Ready=True; ContainerHealthy=True"),
                Complete,
                "",
            ),
            (none(), with("Ready=Unknown:Deploying"), Progressing, ""),
            (
                none(),
                with("Ready=False:ContainerMissing"),
                Progressing,
                "",
            ),
        ],
    );
    of(
        "keda.sh/v1alpha1",
        "ScaledObject",
        vec![
            (
                none(),
                with("Ready=True; Active=False:ScalerNotActive; Fallback=False; Paused=False"),
                Complete,
                "",
            ),
            (none(), none(), Progressing, ""),
            (
                none(),
                with("Ready=True; Fallback=True:FallbackExists"),
                Progressing,
                "Fallback is true",
            ),
            (
                none(),
                with("Ready=False:ScaledObjectCheckFailed"),
                Progressing,
                "",
            ),
            (
                none(),
                with("Ready=True; Paused=True:ScaledObjectPaused"),
                Paused,
                "Paused is true",
            ),
        ],
    );
    of(
        "tekton.dev/v1",
        "PipelineRun",
        vec![
            (
                none(),
                json!({"conditions": conditions("Succeeded=True:Completed")}),
                Complete,
                "",
            ),
            (
                none(),
                json!({"conditions": conditions("Succeeded=Unknown:Running")}),
                Progressing,
                "unknown (Running)",
            ),
            (none(), none(), Progressing, ""),
            (
                none(),
                json!({"conditions": conditions("Succeeded=False:Failed: Tasks Completed: 1 (Failed: 1)")}),
                Final,
                "has failed: its condition Succeeded is false (Failed): Tasks Completed",
            ),
        ],
    );
    of(
        "kafka.strimzi.io/v1beta2",
        "Kafka",
        vec![
            (none(), with("Ready=True"), Complete, ""),
            (
                none(),
                with("NotReady=True:Creating: Kafka cluster is being deployed"),
                Progressing,
                "being deployed",
            ),
            (
                none(),
                json!({"observedGeneration": 0, "conditions": conditions("Ready=True")}),
                Progressing,
                "observed 0",
            ),
            (
                none(),
                with("NotReady=True:FatalProblem"),
                Failed,
                "FatalProblem",
            ),
            (none(), with("ReconciliationPaused=True"), Paused, ""),
        ],
    );
    of(
        "karpenter.sh/v1",
        "NodeClaim",
        vec![
            (
                none(),
                with("Ready=True; Initialized=True; Consolidatable=False; Drifted=True"),
                Complete,
                "",
            ),
            (
                none(),
                with("Launched=True; Registered=Unknown; Ready=Unknown:ReconcilingDependents"),
                Progressing,
                "",
            ),
            (none(), with("Ready=False:LaunchFailed"), Progressing, ""),
            (none(), with("Ready=True; Disrupting=True"), Paused, ""),
        ],
    );
    let scaler = |text: &str| json!({"currentReplicas": 1, "conditions": conditions(text)});
    of(
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        vec![
            (
                none(),
                scaler("AbleToScale=True; ScalingActive=True; ScalingLimited=True"),
                Complete,
                "",
            ),
            (
                none(),
                scaler("AbleToScale=True; ScalingActive=False:ScalingDisabled"),
                Complete,
                "",
            ),
            (none(), none(), Progressing, "no condition AbleToScale yet"),
            (
                none(),
                scaler(
                    "AbleToScale=True; ScalingActive=False:FailedGetResourceMetric: no metrics returned",
                ),
                Progressing,
                "(FailedGetResourceMetric): no metrics returned",
            ),
            (
                none(),
                scaler("AbleToScale=False:FailedGetScale"),
                Progressing,
                "FailedGetScale",
            ),
        ],
    );
    // Its conditions are an annotation there.
    of(
        "autoscaling/v1",
        "HorizontalPodAutoscaler",
        vec![(none(), json!({"currentReplicas": 1}), NotJudged, "")],
    );
    of(
        "apiregistration.k8s.io/v1",
        "APIService",
        vec![
            (
                none(),
                json!({"conditions": conditions("Available=True:Passed")}),
                Complete,
                "",
            ),
            (none(), none(), Progressing, ""),
            (
                none(),
                json!({"conditions": conditions("Available=False:MissingEndpoints: endpoints for service/api have no addresses")}),
                Progressing,
                "Available is false (MissingEndpoints)",
            ),
        ],
    );
    of(
        "policy/v1",
        "PodDisruptionBudget",
        vec![
            (
                none(),
                with("DisruptionAllowed=True:SufficientPods"),
                Complete,
                "",
            ),
            (
                none(),
                with("DisruptionAllowed=False:InsufficientPods"),
                Complete,
                "",
            ),
            (
                none(),
                json!({"observedGeneration": 1, "expectedPods": 0}),
                Complete,
                "is observed",
            ),
            (none(), none(), Progressing, ""),
            (
                none(),
                with("DisruptionAllowed=False:SyncFailed"),
                Progressing,
                "SyncFailed",
            ),
        ],
    );
    of(
        "certificates.k8s.io/v1",
        "CertificateSigningRequest",
        vec![
            (
                none(),
                json!({"conditions": conditions("Approved=True:AutoApproved"), "certificate": "LQo="}),
                Complete,
                "",
            ),
            (none(), none(), Progressing, ""),
            (
                none(),
                json!({"conditions": conditions("Denied=True:No")}),
                Final,
                "",
            ),
            (
                none(),
                json!({"conditions": conditions("Approved=True:AutoApproved")}),
                Progressing,
                "status.certificate is not set yet",
            ),
        ],
    );
    of(
        "snapshot.storage.k8s.io/v1",
        "VolumeSnapshot",
        vec![
            (
                none(),
                json!({"readyToUse": true}),
                Complete,
                "status.readyToUse is true",
            ),
            (
                none(),
                json!({"readyToUse": false}),
                Progressing,
                "status.readyToUse is false",
            ),
            (none(), none(), Progressing, ""),
            (
                none(),
                json!({"readyToUse": false, "error": {"message": "timeout"}}),
                Progressing,
                "false: timeout",
            ),
        ],
    );
    let cluster = |phase: &str, ready: &str, instances: i64| {
        json!({"phase": phase, "phaseReason": "why", "instances": 3, "readyInstances": instances,
               "conditions": conditions(ready)})
    };
    let spec = || json!({"instances": 3});
    of(
        "postgresql.cnpg.io/v1",
        "Cluster",
        vec![
            (
                spec(),
                cluster(
                    "Cluster in healthy state",
                    "Ready=True; ContinuousArchiving=False",
                    3,
                ),
                Complete,
                "",
            ),
            (
                spec(),
                cluster("Creating a new replica", "Ready=False:ClusterIsNotReady", 2),
                Progressing,
                "ClusterIsNot",
            ),
            (
                spec(),
                cluster("Cluster in healthy state", "Ready=True", 2),
                Progressing,
                "status.readyInstances is 2",
            ),
            (
                spec(),
                cluster(
                    "Unable to create required cluster objects",
                    "Ready=False",
                    0,
                ),
                Failed,
                "objects: why",
            ),
            (
                spec(),
                cluster(
                    "Cluster is unrecoverable and needs manual intervention",
                    "Ready=False",
                    0,
                ),
                Failed,
                "unrecoverable",
            ),
        ],
    );
    let search = |phase: &str, health: &str, nodes: i64| json!({"phase": phase, "health": health, "availableNodes": nodes, "observedGeneration": 1});
    let spec = || json!({"nodeSets": [{"name": "a", "count": 1}, {"name": "b", "count": 2}]});
    of(
        "elasticsearch.k8s.elastic.co/v1",
        "Elasticsearch",
        vec![
            (spec(), search("Ready", "green", 3), Complete, ""),
            (spec(), search("Ready", "yellow", 3), Progressing, "yellow"),
            (
                spec(),
                search("Ready", "green", 2),
                Progressing,
                "status.availableNodes is 2, and spec.nodeSets[].count is 3",
            ),
            (
                spec(),
                search("ApplyingChanges", "red", 2),
                Progressing,
                "ApplyingChanges",
            ),
            (spec(), search("Ready", "red", 3), Failed, "red"),
            (spec(), search("Invalid", "unknown", 0), Failed, "Invalid"),
        ],
    );
    of(
        "rabbitmq.com/v1beta1",
        "RabbitmqCluster",
        vec![
            (
                none(),
                with(
                    "AllReplicasReady=True; ClusterAvailable=True; NoWarnings=False; ReconcileSuccess=True",
                ),
                Complete,
                "",
            ),
            (
                none(),
                with("AllReplicasReady=False:NotAllPodsReady; ClusterAvailable=True"),
                Progressing,
                "NotAllPods",
            ),
            (
                none(),
                with("AllReplicasReady=True; ClusterAvailable=True; ReconcileSuccess=False"),
                Progressing,
                "Reconcile",
            ),
        ],
    );
    of(
        "monitoring.coreos.com/v1",
        "Prometheus",
        vec![
            (
                none(),
                json!({"conditions": conditions("Available=True; Reconciled=True")}),
                Complete,
                "",
            ),
            (
                none(),
                json!({"conditions": conditions("Available=Degraded:SomePodsNotReady; Reconciled=True")}),
                Progressing,
                "",
            ),
            (
                none(),
                json!({"conditions": conditions("Available=False:NoPodReady; Reconciled=False")}),
                Progressing,
                "",
            ),
        ],
    );
    of(
        "flagger.app/v1beta1",
        "Canary",
        vec![
            (none(), phase("Initialized"), Complete, ""),
            (
                none(),
                json!({"phase": "Succeeded", "conditions": conditions("Promoted=True:Succeeded")}),
                Complete,
                "",
            ),
            (none(), phase("WaitingPromotion"), Progressing, ""),
            (
                none(),
                json!({"phase": "Progressing", "conditions": conditions("Promoted=Unknown")}),
                Progressing,
                "",
            ),
            (none(), phase("Failed"), Failed, ""),
        ],
    );
    let model = |state: &str, text: &str| {
        json!({"modelStatus": {"transitionStatus": state, "lastFailureInfo": {"message": "no such bucket"}},
               "conditions": conditions(text)})
    };
    of(
        "serving.kserve.io/v1beta1",
        "InferenceService",
        vec![
            (
                none(),
                model(
                    "UpToDate",
                    "IngressReady=True; PredictorReady=True; Ready=True; Stopped=False",
                ),
                Complete,
                "",
            ),
            (
                none(),
                model("InProgress", "Ready=Unknown"),
                Progressing,
                "InProgress",
            ),
            (
                none(),
                model("UpToDate", "Ready=False:PredictorNotReady"),
                Progressing,
                "",
            ),
            (
                none(),
                model("BlockedByFailedLoad", "Ready=False"),
                Failed,
                "no such bucket",
            ),
            (
                none(),
                model("", "Ready=False; Stopped=True"),
                Paused,
                "Stopped is true",
            ),
        ],
    );
    let subscription =
        |state: &str, text: &str| json!({"state": state, "conditions": conditions(text)});
    of(
        "operators.coreos.com/v1alpha1",
        "Subscription",
        vec![
            (
                none(),
                subscription("AtLatestKnown", "CatalogSourcesUnhealthy=False"),
                Complete,
                "",
            ),
            (
                none(),
                subscription(
                    "UpgradePending",
                    "CatalogSourcesUnhealthy=False; InstallPlanPending=True",
                ),
                Progressing,
                "",
            ),
            (
                none(),
                subscription("", "CatalogSourcesUnhealthy=False"),
                Progressing,
                "status.state is not set yet",
            ),
            (
                none(),
                subscription("UpgradeFailed", "InstallPlanFailed=False"),
                Failed,
                "",
            ),
            (
                none(),
                subscription(
                    "UpgradePending",
                    "InstallPlanFailed=True:InstallComponentFailed",
                ),
                Failed,
                "",
            ),
        ],
    );
    of(
        "kubevirt.io/v1",
        "VirtualMachine",
        vec![
            (
                none(),
                json!({"printableStatus": "Running", "created": true, "conditions": conditions("Ready=True")}),
                Complete,
                "",
            ),
            (
                none(),
                json!({"printableStatus": "Starting", "created": true, "conditions": conditions("Ready=False:GuestNotRunning")}),
                Progressing,
                "GuestNotRunning",
            ),
            (
                none(),
                json!({"printableStatus": "Stopped", "conditions": conditions("Ready=False:VMINotExists")}),
                Paused,
                "Stopped",
            ),
            (
                none(),
                json!({"conditions": conditions("Ready=False; Paused=True:PausedByUser")}),
                Paused,
                "",
            ),
        ],
    );
    of(
        "s3.services.k8s.aws/v1alpha1",
        "Bucket",
        vec![
            (
                none(),
                json!({"conditions": conditions("Ready=True; ACK.ResourceSynced=True")}),
                Complete,
                "",
            ),
            (
                none(),
                json!({"conditions": conditions("ACK.ResourceSynced=True")}),
                Complete,
                "",
            ),
            (
                none(),
                json!({"conditions": conditions("ACK.ResourceSynced=False")}),
                Progressing,
                "",
            ),
            (none(), none(), Progressing, ""),
            (
                none(),
                json!({"conditions": conditions("ACK.ResourceSynced=True; ACK.Terminal=True:: InvalidBucketName")}),
                Failed,
                "ACK.Terminal is true: InvalidBucketName",
            ),
        ],
    );
    let postgres = |word: &str| json!({"PostgresClusterStatus": word});
    of(
        "acid.zalan.do/v1",
        "postgresql",
        vec![
            (none(), postgres("Running"), Complete, ""),
            (none(), postgres("Updating"), Progressing, ""),
            (none(), postgres("SyncFailed"), Failed, ""),
        ],
    );
    let spark =
        |word: &str| json!({"applicationState": {"state": word, "errorMessage": "driver failed"}});
    of(
        "sparkoperator.k8s.io/v1beta2",
        "SparkApplication",
        vec![
            (none(), spark("COMPLETED"), Complete, ""),
            (none(), spark("RUNNING"), Progressing, ""),
            (none(), spark("FAILED"), Failed, "driver failed"),
        ],
    );
    let flink = |life: &str, manager: &str, state: &str| {
        json!({"lifecycleState": life, "jobManagerDeploymentStatus": manager, "observedGeneration": 1,
               "reconciliationStatus": {"state": state}})
    };
    of(
        "flink.apache.org/v1beta1",
        "FlinkDeployment",
        vec![
            (none(), flink("STABLE", "READY", "DEPLOYED"), Complete, ""),
            (
                none(),
                json!({"reconciliationStatus": {"state": "DEPLOYED"}}),
                Complete,
                "",
            ),
            (
                none(),
                flink("DEPLOYED", "DEPLOYING", "DEPLOYED"),
                Progressing,
                "jobManagerDeploymentStatus is DEPLOYING",
            ),
            (
                none(),
                flink("UPGRADING", "MISSING", "UPGRADING"),
                Progressing,
                "",
            ),
            (none(), flink("DEPLOYED", "ERROR", "DEPLOYED"), Failed, ""),
            (none(), flink("FAILED", "READY", "DEPLOYED"), Failed, ""),
            (
                none(),
                flink("SUSPENDED", "MISSING", "DEPLOYED"),
                Paused,
                "",
            ),
        ],
    );
    let installation = |word: &str| json!({"status": word});
    of(
        "clickhouse.altinity.com/v1",
        "ClickHouseInstallation",
        vec![
            (none(), installation("Completed"), Complete, ""),
            (none(), installation("InProgress"), Progressing, ""),
            (none(), installation("Aborted"), Failed, ""),
        ],
    );
    for kind in ["Backup", "Restore"] {
        of(
            "velero.io/v1",
            kind,
            vec![
                (none(), phase("Completed"), Complete, ""),
                (none(), none(), Progressing, ""),
                (
                    none(),
                    phase("WaitingForPluginOperationsPartiallyFailed"),
                    Progressing,
                    "",
                ),
                (none(), phase("PartiallyFailed"), Final, ""),
                (none(), phase("FailedValidation"), Final, ""),
            ],
        );
    }
    all
}

#[test]
fn kinds_are_judged_by_their_row() {
    check(cases());
}

#[test]
fn every_row_has_complete_and_other_objects() {
    let mut states: Vec<Vec<Expected>> = vec![Vec::new(); TABLE.len()];
    for case in cases() {
        let (version, kind) = case.kind;
        let group = version.split_once('/').map_or("", |(group, _)| group);
        let row = row(group, kind).unwrap();
        let index = TABLE.iter().position(|it| std::ptr::eq(it, row));
        states[index.unwrap()].push(case.expected);
    }
    for (row, states) in TABLE.iter().zip(states) {
        let complete = states.iter().filter(|it| **it == Complete).count();
        assert!(complete > 0 && states.len() >= complete + 2, "{row:?}");
    }
}

fn other(spec: Value, status: Value, has_subresource: Option<bool>) -> proto::RolloutReport {
    let object = object("example.com/v1", "Database", "main", spec, status);
    let mut request = super::request(60, &object, &[]);
    let target = request.snapshot.as_mut().unwrap().target.as_mut().unwrap();
    target.status_subresource = has_subresource;
    rollplan::wire::compute_status(request)
        .unwrap()
        .report
        .unwrap()
}

/// Unknown kinds: the rule, in its order.
#[test]
fn other_kinds_are_judged_by_one_rule() {
    for (spec, status, wanted, message) in [
        (json!({}), with("Ready=True"), Complete, "is ready"),
        (
            json!({}),
            with("Ready=True; Whatever=False; Error=True"),
            Complete,
            "is ready",
        ),
        (
            json!({}),
            with("Ready=False:Installing: 1 of 3"),
            Progressing,
            "Ready is false (Installing): 1 of 3",
        ),
        (
            json!({}),
            with("Ready=Unknown"),
            Progressing,
            "Ready is unknown",
        ),
        (
            json!({}),
            with("Ready=True; Synced=False"),
            Progressing,
            "Synced is false",
        ),
        (
            json!({}),
            with("Ready=True; Available=False"),
            Complete,
            "is ready",
        ),
        (
            json!({}),
            with("Available=True; Installed=False"),
            Progressing,
            "Installed is false",
        ),
        (
            json!({}),
            with("Available=True; Installed=True"),
            Complete,
            "conditions Available, Installed",
        ),
        (
            json!({}),
            with("Ready=True; Degraded=True:NodeLost"),
            Failed,
            "Degraded is true (NodeLost)",
        ),
        (
            json!({}),
            with("Ready=True; Degraded=False; Failed=False; Stalled=False"),
            Complete,
            "",
        ),
        (
            json!({}),
            with("x.example.com/Failed.Terminal=True; Ready=True"),
            Failed,
            "Terminal is true",
        ),
        (
            json!({}),
            with("Ready=True; Paused=True"),
            Paused,
            "Paused is true",
        ),
        (
            json!({"suspend": true}),
            with("Ready=True"),
            Paused,
            "spec.suspend is true",
        ),
        (
            json!({"paused": true}),
            with("Stalled=True"),
            Paused,
            "spec.paused is true",
        ),
        (
            json!({"suspend": "yes", "paused": false}),
            with("Ready=True"),
            Complete,
            "",
        ),
        (
            json!({}),
            with("Ready=True; Reconciling=True"),
            Progressing,
            "working on it",
        ),
        (
            json!({}),
            with("Ready=True; Progressing=True"),
            Complete,
            "",
        ),
        (
            json!({}),
            with("Stalled=True; Reconciling=True"),
            Failed,
            "Stalled",
        ),
        (
            json!({}),
            json!({"observedGeneration": "0", "conditions": conditions("Ready=True")}),
            Progressing,
            "observed 0",
        ),
        (
            json!({}),
            json!({"observedGeneration": 1, "phase": "ready"}),
            Complete,
            "status.phase is ready",
        ),
        (
            json!({}),
            json!({"observedGeneration": 1, "health": {"status": "HEALTHY"}}),
            Complete,
            "status.health.status",
        ),
        (
            json!({}),
            json!({"state": "Failed"}),
            Failed,
            "status.state is Failed",
        ),
        (
            json!({}),
            json!({"phase": "Creating", "conditions": conditions("Ready=True")}),
            Progressing,
            "Creating",
        ),
        (
            json!({}),
            json!({"phase": "Ready", "conditions": conditions("Ready=False")}),
            Progressing,
            "Ready is false",
        ),
        (
            json!({}),
            json!({"phase": "Ready", "conditions": conditions("Stalled=True")}),
            Failed,
            "Stalled",
        ),
        (
            json!({}),
            json!({"phase": "Warm", "conditions": conditions("Ready=True")}),
            Complete,
            "",
        ),
        (
            json!({}),
            json!({"phase": "Running"}),
            NotJudged,
            "status.phase is Running",
        ),
        (
            json!({}),
            json!({"phase": "Active"}),
            NotJudged,
            "status.phase is Active",
        ),
        (
            json!({}),
            with("Synthesized=True; Ok=False"),
            NotJudged,
            "conditions Synthesized=True, Ok=False",
        ),
        (
            json!({}),
            json!({"observedGeneration": 1}),
            NotJudged,
            "no conditions and no phase",
        ),
        (json!({}), json!({}), NotJudged, "it has no status yet"),
        (json!({}), json!(null), NotJudged, "it has no status yet"),
        (
            json!({"replicas": 3}),
            json!({"observedGeneration": 1, "readyReplicas": 3}),
            Complete,
            "3 of 3",
        ),
        (
            json!({"replicas": 3}),
            json!({"observedGeneration": 1, "readyReplicas": 1}),
            Progressing,
            "is 1, and spec.replicas is 3",
        ),
        (
            json!({"replicas": 3}),
            json!({"phase": "Ready", "updatedReplicas": 2}),
            Progressing,
            "updatedReplicas is 2",
        ),
        (
            json!({"replicas": 3}),
            json!({"updatedReplicas": 3}),
            NotJudged,
            "",
        ),
        (
            json!({"replicas": 3}),
            json!({"readyReplicas": 2, "conditions": conditions("Ready=True")}),
            Progressing,
            "is 2",
        ),
    ] {
        let report = other(spec, status.clone(), None);
        assert_eq!(expected(&report), wanted, "{status}: {report:#?}");
        assert!(
            report.message.contains(message),
            "{status}: {}",
            report.message
        );
    }
    // Without Ready and an observed generation, it is the word of an unknown controller.
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
        (Some("many"), json!("1"), Complete),
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

/// The report names what the status contains, and a command that waits for it. Text from a cluster is escaped.
#[test]
fn reports_that_do_not_judge_name_what_is_there() {
    let remedy = |status: Value| {
        let report = other(json!({}), status, None);
        let blocker = report.blockers[0].clone();
        assert_eq!(blocker.reason, "NOT_JUDGED");
        blocker.remedy
    };
    let start = "wait for what shows that it is ready, for example: rollplan wait database/main -n shop --for";
    assert_eq!(remedy(json!({})), format!("{start} condition=Ready"));
    // What it has now may be a failure.
    assert_eq!(remedy(with("Up=False")), format!("{start} condition=TYPE"));
    let found = remedy(json!({"phase": "Warm"}));
    assert_eq!(found, format!("{start} jsonpath='{{.status.phase}}'=VALUE"));
    let found = other(json!({}), json!({"phase": "it's\n\u{1b}[31m $(hot)"}), None).message;
    assert!(
        found.ends_with("status.phase is it's [31m $(hot)"),
        "{found}"
    );
    let many: Vec<String> = (0..12).map(|index| format!("C{index}\n=True")).collect();
    let report = other(json!({}), with(&many.join("; ")), None);
    let message = "conditions C0=True, C1=True, C2=True, C3=True, C4=True, C5=True, C6=True, C7=True and 4 more";
    assert!(report.message.ends_with(message), "{}", report.message);
    assert_eq!(report.verdict.unwrap().reason, "NOT_JUDGED");
}

/// Errors that a status lists, and conditions of its parts, explain why an object is not complete.
#[test]
fn messages_have_the_errors_that_a_status_lists() {
    let message = |status: Value| other(json!({}), status, None).message;
    let not_ready =
        "database \"main\" is not ready: its condition Ready is false (Errors): see Errors";
    let unready = |key: &str, value: Value| {
        let mut status = with("Ready=False:Errors: see Errors");
        status[key] = value;
        status
    };
    for (key, value, expected) in [
        ("errors", json!(["no disk", "no net"]), "; no disk; no net"),
        (
            "errors",
            json!([{"code": "1021", "errorMessage": "no disk"}, {"code": "3"}]),
            "; no disk",
        ),
        ("error", json!({"message": "no\ndisk"}), "; no disk"),
        (
            "sync",
            json!({"errors": [{"errorMessage": "no disk"}]}),
            "; no disk",
        ),
        (
            "byPod",
            json!([{"id": "x", "errors": [{"message": "no disk"}]}]),
            "; no disk",
        ),
        (
            "nodes",
            json!([{"name": "n", "conditions": conditions("Ready=False:Full: no disk; Tidy=False:No: dust")}]),
            "; status.nodes[0]: Ready is false (Full): no disk",
        ),
        (
            "errors",
            json!(["no disk", "no disk", "no net", "no name", "no time"]),
            "; no disk; no net; no name",
        ),
        ("errors", json!(3), ""),
        ("errors", json!([]), ""),
        ("notes", json!(["no disk"]), ""),
    ] {
        let found = message(unready(key, value.clone()));
        assert_eq!(found, format!("{not_ready}{expected}"), "{key} {value}");
    }
    let found = message(with(
        "Stalled=True:RetriesExceeded: Failed after 1 attempt; Ready=False:UpgradeFailed: no chart",
    ));
    let expected = "database \"main\" is stalled: its condition Stalled is true (RetriesExceeded): Failed after 1 attempt; \
                    Ready is false (UpgradeFailed): no chart";
    assert_eq!(found, expected);
    let complete = json!({"conditions": conditions("Ready=True"), "errors": ["an old one"]});
    assert_eq!(
        message(complete),
        "database \"main\" is ready, according to its condition Ready"
    );
}

/// The owner that suspends an object resumes it.
#[test]
fn suspended_objects_of_a_queue_or_an_owner_are_resumed_by_it() {
    let of = |label: Option<&str>, owner: Option<(&str, bool)>| {
        let mut set = object(
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            "train",
            json!({"suspend": true}),
            with("Suspended=True"),
        );
        if let Some(label) = label {
            set["metadata"]["labels"] = json!({label: "batch"});
        }
        if let Some((kind, controller)) = owner {
            set["metadata"]["ownerReferences"] = json!([{"apiVersion": "x/v1", "kind": kind, "name": "big", "uid": "u", "controller": controller}]);
        }
        let report = report(60, &set, &[]);
        assert_eq!(report.phase(), Phase::Paused);
        let verdict = report.verdict.unwrap();
        (verdict.outlook(), verdict.remedy, verdict.message)
    };
    let (outlook, remedy, message) = of(Some("kueue.x-k8s.io/queue-name"), None);
    assert_eq!((outlook, &*remedy), (Outlook::Undecided, ""));
    assert_eq!(
        message,
        "spec.suspend is true; the controller of its queue resumes it"
    );
    let (outlook, _, message) = of(None, Some(("TrainJob", true)));
    assert_eq!(outlook, Outlook::Undecided);
    assert_eq!(
        message,
        "spec.suspend is true; its owner TrainJob big resumes it"
    );
    for (label, owner) in [
        (None, None),
        (Some("team"), None),
        (None, Some(("TrainJob", false))),
        (None, Some(("CronJob", true))),
    ] {
        let (outlook, remedy, _) = of(label, owner);
        assert_eq!(outlook, Outlook::NeedsChange, "{label:?} {owner:?}");
        assert_eq!(remedy, "resume it: set spec.suspend to false");
    }
}

#[test]
fn replication_controllers_are_judged_by_their_pods() {
    let of = |ready: i64, status: Value| {
        let mut all = json!({"observedGeneration": 1, "replicas": 3, "fullyLabeledReplicas": 3, "readyReplicas": ready,
                             "availableReplicas": ready});
        for (key, value) in status.as_object().unwrap() {
            all[key] = value.clone();
        }
        let object = object(
            "v1",
            "ReplicationController",
            "web",
            json!({"replicas": 3}),
            all,
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
