//! The table of kinds that report their state in their own way, and the lists of kinds that have nothing to wait for. Tests
//! compare both with docs/reference/kinds.md. `generic.rs` has the rule that applies the rows.

/// A row of the table: what the fields of some kinds mean.
#[derive(Clone, Copy, Debug)]
pub struct KindRow {
    /// The API groups. "*.example.com" matches each group that ends in ".example.com".
    pub groups: &'static [&'static str],
    /// The kinds. Empty for every kind of the groups.
    pub kinds: &'static [&'static str],
    /// The words that report a state, in the order in which they decide.
    pub words: &'static [Word],
    /// The conditions that must be true. Of alternatives, at least one must exist, and all that exist must be true.
    pub required: &'static [&'static [&'static str]],
    /// Conditions that must be true if they exist.
    pub counted: &'static [&'static str],
    /// Conditions that explain, while they are false, why a required one is not true.
    pub explaining: &'static [&'static str],
    /// Conditions that are good while they are false for this reason.
    pub excused: &'static [(&'static str, &'static str)],
    /// Conditions that report a pause while they are true.
    pub paused: &'static [&'static str],
    /// Conditions that report a failure while they are true.
    pub bad: &'static [&'static str],
    /// Conditions that report a failure while they are false.
    pub fails_when_false: &'static [&'static str],
    /// Conditions that report a failure while they are false for this reason.
    pub failed_reasons: &'static [(&'static str, &'static str)],
    /// Conditions that report work while they are true.
    pub busy: &'static [&'static str],
    /// Conditions in a list of the status.
    pub nested: Option<Nested>,
    /// The numbers that must reach the desired number.
    pub counters: Counters,
    /// An annotation, and the field into which the controller copies its value when it has handled it.
    pub handled: Option<(&'static str, &'static str)>,
    /// Fields that request work, and that the controller removes when it has done it.
    pub requests: &'static [&'static str],
    /// Whether an observed generation is all that the kind reports.
    pub is_complete_when_observed: bool,
    /// Whether a failure is final, so that it is certain.
    pub is_final: bool,
    /// An API version whose objects do not have the conditions.
    pub unjudged_version: &'static str,
}

/// A field whose value is a word for a state. Words are compared without regard to case. Without any words, every value is
/// good.
#[derive(Clone, Copy, Debug)]
pub struct Word {
    /// The path of the field.
    pub path: &'static str,
    /// The path of the message that explains it.
    pub message: &'static str,
    /// Whether the object may be complete without it.
    pub is_optional: bool,
    /// Two fields that differ if the word is about an earlier state. It does not count then.
    pub about: Option<(&'static str, &'static str)>,
    /// The words for a good state.
    pub good: &'static [&'static str],
    /// The words for a state that passes.
    pub busy: &'static [&'static str],
    /// The words for a pause.
    pub paused: &'static [&'static str],
    /// The words for a failure.
    pub failed: &'static [&'static str],
}

/// A list of the status with conditions in each item, which must have an item for each one of a list of the spec.
#[derive(Clone, Copy, Debug)]
pub struct Nested {
    /// The path of the list in the status. Its items have the field `conditions`.
    pub path: &'static str,
    /// The path of the list in the spec. Items of the status that belong to none of its items do not count.
    pub wanted: &'static str,
    /// A field of the spec with which the status has items beyond the list of the spec, unless its value is "None".
    pub implied_by: &'static str,
    /// The field of an item of the status that refers to the item of the spec. Empty if the item itself does.
    pub reference: &'static str,
    /// The fields that identify an item.
    pub key: &'static [Key],
    /// The conditions that must be true in an item. At least one must exist, and all that exist must be true.
    pub required: &'static [&'static str],
    /// The conditions that must be true in an item that has them.
    pub counted: &'static [&'static str],
    /// The conditions that must not be true in an item.
    pub unwanted: &'static [&'static str],
    /// What to check while the status has no item.
    pub remedy: &'static str,
}

/// A field that identifies an item.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The name.
    pub field: &'static str,
    /// The value of an absent field.
    pub default: &'static str,
    /// Another name for a value, and the value.
    pub alias: Option<(&'static str, &'static str)>,
}

/// The default of a field whose value is the namespace of the object, also if it is empty.
pub const OWN_NAMESPACE: &str = "metadata.namespace";

/// Numbers that a controller publishes, compared with the desired number.
#[derive(Clone, Copy, Debug)]
pub struct Counters {
    /// The path of the desired number. "[]" after the name of a list stands for the sum of its items.
    pub wanted: &'static str,
    /// The paths of numbers that are 0 if they are absent.
    pub required: &'static [&'static str],
    /// The paths of numbers that count if they are present.
    pub counted: &'static [&'static str],
}

const WORD: Word = Word {
    path: "status.phase",
    message: "status.message",
    is_optional: false,
    about: None,
    good: &[],
    busy: &[],
    paused: &[],
    failed: &[],
};

const ROW: KindRow = KindRow {
    groups: &[],
    kinds: &[],
    words: &[],
    required: &[],
    counted: &[],
    explaining: &[],
    excused: &[],
    paused: &[],
    bad: &[],
    fails_when_false: &[],
    failed_reasons: &[],
    busy: &[],
    nested: None,
    counters: Counters {
        wanted: "spec.replicas",
        required: &[],
        counted: &[
            "status.updatedReplicas",
            "status.readyReplicas",
            "status.availableReplicas",
        ],
    },
    handled: None,
    requests: &[],
    is_complete_when_observed: false,
    is_final: false,
    unjudged_version: "",
};

const fn key(field: &'static str, default: &'static str) -> Key {
    Key {
        field,
        default,
        alias: None,
    }
}

/// The annotation of a Rollout with the generation of the Deployment that it refers to.
const WORKLOAD_GENERATION: &str = "rollout.argoproj.io/workload-generation";
/// The annotation that requests a reconciliation by Flux (`ReconcileRequestAnnotation` in apis/meta of fluxcd/pkg).
const RECONCILE_REQUEST: &str = "reconcile.fluxcd.io/requestedAt";

/// Fields that pause an object while they are true, for every kind.
pub(super) const PAUSED_FIELDS: [&str; 2] = ["spec.suspend", "spec.paused"];

/// The table. The first row with the group and kind of an object applies.
pub static TABLE: [KindRow; 47] = [
    KindRow {
        groups: &["argoproj.io"],
        kinds: &["Rollout"],
        words: &[Word {
            good: &["Healthy"],
            busy: &["Progressing"],
            paused: &["Paused"],
            failed: &["Degraded"],
            ..WORD
        }],
        failed_reasons: &[
            ("Progressing", "RolloutAborted"),
            ("Progressing", "ProgressDeadlineExceeded"),
        ],
        handled: Some((WORKLOAD_GENERATION, "status.workloadObservedGeneration")),
        ..ROW
    },
    KindRow {
        groups: &["argoproj.io"],
        kinds: &["Application"],
        words: &[
            // A sync of a revision that Git no longer asks for is over.
            Word {
                path: "status.operationState.phase",
                message: "status.operationState.message",
                is_optional: true,
                about: Some((
                    "status.operationState.syncResult.revision",
                    "status.sync.revision",
                )),
                good: &["Succeeded"],
                busy: &["Running", "Terminating"],
                failed: &["Failed", "Error"],
                ..WORD
            },
            // Degraded may be temporary: applications are also Degraded while their pods start.
            Word {
                path: "status.health.status",
                message: "status.health.message",
                good: &["Healthy"],
                busy: &["Progressing", "Missing", "Degraded", "Unknown"],
                paused: &["Suspended"],
                ..WORD
            },
            Word {
                path: "status.sync.status",
                good: &["Synced"],
                busy: &["OutOfSync", "Unknown"],
                ..WORD
            },
        ],
        // The state of the last operation is removed with the request (SetAppOperation in util/argo/argo.go), and a request
        // only when its operation has ended (setOperationState in controller/appcontroller.go).
        requests: &["operation"],
        ..ROW
    },
    KindRow {
        groups: &["argoproj.io"],
        kinds: &["AnalysisRun", "Workflow"],
        words: &[Word {
            good: &["Successful", "Succeeded"],
            busy: &["Pending", "Running"],
            failed: &["Failed", "Error", "Inconclusive"],
            ..WORD
        }],
        is_final: true,
        ..ROW
    },
    KindRow {
        groups: &["argoproj.io"],
        kinds: &["ApplicationSet"],
        required: &[&["ResourcesUpToDate"]],
        ..ROW
    },
    KindRow {
        groups: &["*.toolkit.fluxcd.io"],
        // A HelmRepository of type oci has no status.
        kinds: &[
            "Bucket",
            "GitRepository",
            "HelmChart",
            "HelmRelease",
            "ImagePolicy",
            "ImageRepository",
            "ImageUpdateAutomation",
            "Kustomization",
            "OCIRepository",
            "Receiver",
        ],
        required: READY,
        handled: Some((RECONCILE_REQUEST, "status.lastHandledReconcileAt")),
        ..ROW
    },
    KindRow {
        groups: &["cert-manager.io"],
        kinds: &["Certificate"],
        // A certificate is also issued to renew one that is valid. A failed issuance is retried (failIssueCertificate in
        // pkg/controller/certificates/issuing/issuing_controller.go of cert-manager).
        required: READY,
        explaining: &["Issuing"],
        ..ROW
    },
    // A request is never retried (pkg/apis/certmanager/v1/types_certificaterequest.go). A denied one stays denied even if an
    // issuer signs it.
    KindRow {
        groups: &["cert-manager.io"],
        kinds: &["CertificateRequest"],
        required: READY,
        bad: &["Denied", "InvalidRequest"],
        failed_reasons: &[("Ready", "Denied"), ("Ready", "Failed")],
        is_final: true,
        ..ROW
    },
    // The states of RFC 8555, section 7.1.6, and those of cert-manager (pkg/apis/acme/v1/types_order.go). An order that is
    // ready has no certificate yet.
    KindRow {
        groups: &["acme.cert-manager.io"],
        kinds: &["Challenge", "Order"],
        words: &[Word {
            path: "status.state",
            message: "status.reason",
            good: &["valid"],
            busy: &["pending", "processing", "ready"],
            failed: &["errored", "expired", "invalid"],
            ..WORD
        }],
        is_final: true,
        ..ROW
    },
    KindRow {
        groups: &["cert-manager.io"],
        kinds: &["ClusterIssuer", "Issuer"],
        required: READY,
        ..ROW
    },
    KindRow {
        groups: &["external-secrets.io"],
        kinds: &[
            "ClusterSecretStore",
            "ExternalSecret",
            "PushSecret",
            "SecretStore",
        ],
        required: READY,
        ..ROW
    },
    KindRow {
        groups: &["bitnami.com"],
        kinds: &["SealedSecret"],
        required: &[&["Synced"]],
        fails_when_false: &["Synced"],
        ..ROW
    },
    KindRow {
        groups: &["gateway.networking.k8s.io", "gateway.networking.x-k8s.io"],
        kinds: &["Gateway", "ListenerSet", "XListenerSet"],
        required: &[&["Accepted"], &["Programmed"]],
        nested: Some(Nested {
            path: "status.listeners",
            wanted: "spec.listeners",
            implied_by: "",
            reference: "",
            key: &[key("name", "")],
            required: &["Accepted", "Programmed"],
            counted: &["ResolvedRefs"],
            unwanted: &["Conflicted"],
            remedy: "",
        }),
        ..ROW
    },
    // One of several controllers that report on a parent is enough: some report only what they add to it.
    KindRow {
        groups: &["gateway.networking.k8s.io"],
        kinds: &["GRPCRoute", "HTTPRoute", "TCPRoute", "TLSRoute", "UDPRoute"],
        nested: Some(Nested {
            path: "status.parents",
            wanted: "spec.parentRefs",
            implied_by: "spec.useDefaultGateways",
            reference: "parentRef",
            // The defaults of ParentReference in apis/v1/shared_types.go of the Gateway API. Linkerd calls the group of
            // Services "core" (policy-controller/k8s/status/src/index.rs).
            key: &[
                Key {
                    alias: Some(("core", "")),
                    ..key("group", "gateway.networking.k8s.io")
                },
                key("kind", "Gateway"),
                key("namespace", OWN_NAMESPACE),
                key("name", ""),
                key("sectionName", ""),
                key("port", ""),
            ],
            required: &["Accepted"],
            counted: &["ResolvedRefs"],
            unwanted: &["PartiallyInvalid"],
            remedy: "check that this parent exists, and that its controller supports this kind of route in this namespace",
        }),
        ..ROW
    },
    KindRow {
        groups: &["gateway.networking.k8s.io"],
        kinds: &["GatewayClass"],
        required: &[&["Accepted"]],
        ..ROW
    },
    KindRow {
        groups: &["cluster.x-k8s.io"],
        kinds: &["Cluster"],
        words: &[Word {
            message: "status.failureMessage",
            good: &["Provisioned"],
            busy: &["Pending", "Provisioning", "Deleting", "Unknown"],
            failed: &["Failed"],
            ..WORD
        }],
        required: &[&["Ready", "Available"]],
        ..ROW
    },
    KindRow {
        groups: &["cluster.x-k8s.io"],
        kinds: &["Machine", "MachineDeployment"],
        words: &[Word {
            message: "status.failureMessage",
            good: &["Running"],
            busy: &[
                "Pending",
                "Provisioning",
                "Provisioned",
                "ScalingUp",
                "ScalingDown",
                "Deleting",
                "Unknown",
            ],
            failed: &["Failed"],
            ..WORD
        }],
        counted: &["Ready", "Available"],
        counters: Counters {
            wanted: "spec.replicas",
            required: &["status.readyReplicas", "status.availableReplicas"],
            counted: &["status.updatedReplicas", "status.upToDateReplicas"],
        },
        ..ROW
    },
    KindRow {
        groups: &["pkg.crossplane.io"],
        kinds: &["Configuration", "Function", "Provider"],
        required: &[&["Installed"], &["Healthy"]],
        ..ROW
    },
    KindRow {
        groups: &["apiextensions.crossplane.io"],
        kinds: &["CompositeResourceDefinition"],
        required: &[&["Established"]],
        ..ROW
    },
    KindRow {
        groups: &[
            "*.aws.upbound.io",
            "*.aws.m.upbound.io",
            "*.azure.upbound.io",
            "*.azure.m.upbound.io",
            "*.gcp.upbound.io",
            "*.gcp.m.upbound.io",
            "*.aws.crossplane.io",
            "helm.crossplane.io",
            "kubernetes.crossplane.io",
            "*.m.crossplane.io",
        ],
        required: &[&["Ready"], &["Synced"]],
        ..ROW
    },
    KindRow {
        groups: &["serving.knative.dev"],
        kinds: &["Service"],
        required: &[&["Ready"], &["ConfigurationsReady"], &["RoutesReady"]],
        ..ROW
    },
    KindRow {
        groups: &["serving.knative.dev"],
        kinds: &["Configuration", "Revision", "Route"],
        required: READY,
        ..ROW
    },
    KindRow {
        groups: &["keda.sh"],
        kinds: &["ScaledJob", "ScaledObject"],
        required: READY,
        busy: &["Fallback"],
        ..ROW
    },
    KindRow {
        groups: &["tekton.dev"],
        kinds: &["CustomRun", "PipelineRun", "TaskRun"],
        required: &[&["Succeeded"]],
        fails_when_false: &["Succeeded"],
        is_final: true,
        ..ROW
    },
    KindRow {
        groups: &["kafka.strimzi.io"],
        kinds: &[
            "Kafka",
            "KafkaBridge",
            "KafkaConnect",
            "KafkaConnector",
            "KafkaMirrorMaker2",
            "KafkaTopic",
            "KafkaUser",
        ],
        required: READY,
        paused: &["ReconciliationPaused"],
        ..ROW
    },
    KindRow {
        groups: &["karpenter.sh"],
        kinds: &["NodeClaim", "NodePool"],
        required: READY,
        explaining: &[
            "Launched",
            "Registered",
            "Initialized",
            "NodeClassReady",
            "ValidationSucceeded",
        ],
        paused: &["Disrupting"],
        ..ROW
    },
    // Until its first metrics exist, ScalingActive is temporarily false.
    KindRow {
        groups: &["autoscaling"],
        kinds: &["HorizontalPodAutoscaler"],
        required: &[&["AbleToScale"]],
        counted: &["ScalingActive"],
        excused: &[("ScalingActive", "ScalingDisabled")],
        unjudged_version: "autoscaling/v1",
        ..ROW
    },
    KindRow {
        groups: &["apiregistration.k8s.io"],
        kinds: &["APIService"],
        required: &[&["Available"]],
        ..ROW
    },
    KindRow {
        groups: &["policy"],
        kinds: &["PodDisruptionBudget"],
        counted: &["DisruptionAllowed"],
        excused: &[("DisruptionAllowed", "InsufficientPods")],
        is_complete_when_observed: true,
        ..ROW
    },
    KindRow {
        groups: &["certificates.k8s.io"],
        kinds: &["CertificateSigningRequest"],
        words: &[Word {
            path: "status.certificate",
            ..WORD
        }],
        required: &[&["Approved"]],
        bad: &["Denied"],
        is_final: true,
        ..ROW
    },
    KindRow {
        groups: &["storage.k8s.io"],
        kinds: &["VolumeAttachment"],
        words: &[Word {
            path: "status.attached",
            message: "status.attachError.message",
            good: &["true"],
            busy: &["false"],
            ..WORD
        }],
        ..ROW
    },
    KindRow {
        groups: &["snapshot.storage.k8s.io"],
        kinds: &["VolumeSnapshot", "VolumeSnapshotContent"],
        words: &[Word {
            path: "status.readyToUse",
            message: "status.error.message",
            good: &["true"],
            busy: &["false"],
            ..WORD
        }],
        ..ROW
    },
    KindRow {
        groups: &["postgresql.cnpg.io"],
        kinds: &["Cluster"],
        words: &[Word {
            message: "status.phaseReason",
            is_optional: true,
            failed: &[
                "Unable to create required cluster objects",
                "Cluster is unrecoverable and needs manual intervention",
            ],
            ..WORD
        }],
        required: READY,
        paused: &["cnpg.io/hibernation"],
        counters: Counters {
            wanted: "spec.instances",
            required: &["status.readyInstances"],
            counted: &[],
        },
        ..ROW
    },
    KindRow {
        groups: &["elasticsearch.k8s.elastic.co"],
        kinds: &["Elasticsearch"],
        words: &[
            Word {
                good: &["Ready"],
                busy: &["ApplyingChanges", "MigratingData"],
                failed: &["Invalid"],
                ..WORD
            },
            Word {
                path: "status.health",
                good: &["green"],
                busy: &["yellow", "unknown"],
                failed: &["red"],
                ..WORD
            },
        ],
        counters: Counters {
            wanted: "spec.nodeSets[].count",
            required: &["status.availableNodes"],
            counted: &[],
        },
        ..ROW
    },
    KindRow {
        groups: &["rabbitmq.com"],
        kinds: &["RabbitmqCluster"],
        required: &[&["ClusterAvailable"], &["AllReplicasReady"]],
        ..ROW
    },
    KindRow {
        groups: &["monitoring.coreos.com"],
        kinds: &[
            "Alertmanager",
            "Prometheus",
            "PrometheusAgent",
            "ThanosRuler",
        ],
        required: &[&["Available"], &["Reconciled"]],
        ..ROW
    },
    KindRow {
        groups: &["flagger.app"],
        kinds: &["Canary"],
        words: &[Word {
            good: &["Succeeded", "Initialized"],
            busy: &[
                "Initializing",
                "Progressing",
                "Promoting",
                "Finalising",
                "Waiting",
                "WaitingPromotion",
            ],
            failed: &["Failed"],
            ..WORD
        }],
        ..ROW
    },
    KindRow {
        groups: &["serving.kserve.io"],
        kinds: &["InferenceService"],
        words: &[Word {
            path: "status.modelStatus.transitionStatus",
            message: "status.modelStatus.lastFailureInfo.message",
            is_optional: true,
            good: &["UpToDate"],
            busy: &["InProgress"],
            failed: &["BlockedByFailedLoad", "InvalidSpec"],
            ..WORD
        }],
        required: READY,
        counted: &[
            "PredictorReady",
            "TransformerReady",
            "ExplainerReady",
            "IngressReady",
        ],
        paused: &["Stopped"],
        ..ROW
    },
    KindRow {
        groups: &["operators.coreos.com"],
        kinds: &["Subscription"],
        words: &[Word {
            path: "status.state",
            good: &["AtLatestKnown"],
            busy: &["UpgradeAvailable", "UpgradePending"],
            failed: &["UpgradeFailed"],
            ..WORD
        }],
        bad: &[
            "CatalogSourcesUnhealthy",
            "InstallPlanFailed",
            "ResolutionFailed",
        ],
        busy: &["InstallPlanPending"],
        ..ROW
    },
    KindRow {
        groups: &["operators.coreos.com"],
        kinds: &["InstallPlan"],
        words: &[Word {
            good: &["Complete"],
            busy: &["Planning", "Installing"],
            paused: &["RequiresApproval"],
            failed: &["Failed"],
            ..WORD
        }],
        ..ROW
    },
    KindRow {
        groups: &["kubevirt.io"],
        kinds: &["VirtualMachine"],
        words: &[Word {
            path: "status.printableStatus",
            is_optional: true,
            paused: &["Stopped", "Paused"],
            ..WORD
        }],
        required: READY,
        ..ROW
    },
    KindRow {
        groups: &["*.services.k8s.aws"],
        required: &[&["Ready", "ACK.ResourceSynced"]],
        ..ROW
    },
    KindRow {
        groups: &["acid.zalan.do"],
        kinds: &["postgresql"],
        words: &[Word {
            path: "status.PostgresClusterStatus",
            good: &["Running"],
            busy: &["Creating", "Updating"],
            failed: &["CreateFailed", "UpdateFailed", "SyncFailed", "Invalid"],
            ..WORD
        }],
        ..ROW
    },
    // It runs to completion, so RUNNING is not the end. A failed submission is retried, or the application fails
    // (reconcileFailedSubmissionSparkApplication in internal/controller/sparkapplication/controller.go of the operator).
    KindRow {
        groups: &["sparkoperator.k8s.io"],
        kinds: &["SparkApplication"],
        words: &[Word {
            path: "status.applicationState.state",
            message: "status.applicationState.errorMessage",
            good: &["COMPLETED"],
            busy: &[
                "SUBMITTED",
                "RUNNING",
                "PENDING_RERUN",
                "PENDING_SUBMISSION",
                "INVALIDATING",
                "SUBMISSION_FAILED",
                "SUCCEEDING",
                "FAILING",
                "SUSPENDING",
                "RESUMING",
                "UNKNOWN",
            ],
            paused: &["SUSPENDED"],
            failed: &["FAILED"],
            ..WORD
        }],
        ..ROW
    },
    // The conditions of api/jobset/v1alpha2/jobset_types.go of JobSet.
    KindRow {
        groups: &["jobset.x-k8s.io"],
        kinds: &["JobSet"],
        required: &[&["Completed"]],
        paused: &["Suspended"],
        busy: &["RestartingJobSet", "StartupPolicyInProgress"],
        bad: &["Failed"],
        is_final: true,
        ..ROW
    },
    KindRow {
        groups: &["flink.apache.org"],
        kinds: &["FlinkDeployment"],
        words: &[
            Word {
                path: "status.lifecycleState",
                message: "status.error",
                is_optional: true,
                about: None,
                good: &["DEPLOYED", "STABLE"],
                busy: &["CREATED", "UPGRADING", "ROLLING_BACK"],
                paused: &["SUSPENDED"],
                failed: &["FAILED", "ROLLED_BACK"],
            },
            Word {
                path: "status.jobManagerDeploymentStatus",
                message: "status.error",
                is_optional: true,
                good: &["READY"],
                busy: &["MISSING", "DEPLOYING", "DEPLOYED_NOT_READY"],
                failed: &["ERROR"],
                ..WORD
            },
            Word {
                path: "status.reconciliationStatus.state",
                message: "status.error",
                is_optional: true,
                good: &["DEPLOYED"],
                busy: &["UPGRADING", "ROLLING_BACK"],
                failed: &["ROLLED_BACK"],
                ..WORD
            },
        ],
        ..ROW
    },
    KindRow {
        groups: &["clickhouse.altinity.com"],
        kinds: &["ClickHouseInstallation"],
        words: &[Word {
            path: "status.status",
            message: "status.error",
            good: &["Completed"],
            busy: &["InProgress", "Terminating"],
            failed: &["Aborted"],
            ..WORD
        }],
        ..ROW
    },
    KindRow {
        groups: &["velero.io"],
        kinds: &["Backup", "Restore"],
        words: &[Word {
            message: "status.failureReason",
            good: &["Completed"],
            busy: &[
                "New",
                "Queued",
                "ReadyToStart",
                "InProgress",
                "WaitingForPluginOperations",
                "WaitingForPluginOperationsPartiallyFailed",
                "Finalizing",
                "FinalizingPartiallyFailed",
                "Deleting",
            ],
            failed: &["Failed", "PartiallyFailed", "FailedValidation"],
            ..WORD
        }],
        is_final: true,
        ..ROW
    },
];

const READY: &[&[&str]] = &[&["Ready"]];

/// The rule for the kinds that are not in the table.
pub(super) static GENERAL: KindRow = KindRow {
    words: &[
        general_word("status.phase"),
        general_word("status.state"),
        general_word("status.health"),
        general_word("status.health.status"),
    ],
    ..ROW
};

const fn general_word(path: &'static str) -> Word {
    Word {
        path,
        is_optional: true,
        // "Running" and "Active" are not included, because a running Job is not complete.
        good: &[
            "Healthy",
            "Ready",
            "Available",
            "Bound",
            "Green",
            "Succeeded",
            "Successful",
            "Completed",
            "Provisioned",
            "Synced",
        ],
        busy: &[
            "New",
            "Pending",
            "Queued",
            "Waiting",
            "Creating",
            "Provisioning",
            "Initializing",
            "Installing",
            "Starting",
            "Deploying",
            "Progressing",
            "InProgress",
            "Reconciling",
            "Updating",
            "Upgrading",
            "Scaling",
            "ScalingUp",
            "ScalingDown",
            "Terminating",
            "Deleting",
        ],
        failed: &[
            "Failed",
            "Error",
            "Degraded",
            "Invalid",
            "InvalidSpec",
            "PartiallyFailed",
            "Lost",
            "Red",
        ],
        ..WORD
    }
}

/// Kinds that configure other components. Most of them have no status; for the others, nothing depends on it.
pub const CONFIGURATION: [(&[&str], &[&str]); 16] = [
    (
        &["argoproj.io"],
        &[
            "AnalysisTemplate",
            "AppProject",
            "ClusterAnalysisTemplate",
            "ClusterWorkflowTemplate",
            "WorkflowEventBinding",
            "WorkflowTemplate",
        ],
    ),
    (
        &["monitoring.coreos.com"],
        &[
            "AlertmanagerConfig",
            "PodMonitor",
            "Probe",
            "PrometheusRule",
            "ScrapeConfig",
            "ServiceMonitor",
        ],
    ),
    (
        &["networking.istio.io"],
        &[
            "DestinationRule",
            "EnvoyFilter",
            "Gateway",
            "ProxyConfig",
            "ServiceEntry",
            "Sidecar",
            "VirtualService",
            "WorkloadEntry",
            "WorkloadGroup",
        ],
    ),
    (
        &["security.istio.io"],
        &[
            "AuthorizationPolicy",
            "PeerAuthentication",
            "RequestAuthentication",
        ],
    ),
    (&["telemetry.istio.io"], &["Telemetry"]),
    (&["extensions.istio.io"], &["WasmPlugin"]),
    (
        &["*.crossplane.io", "*.upbound.io"],
        &[
            "ClusterProviderConfig",
            "ClusterProviderConfigUsage",
            "Composition",
            "CompositionRevision",
            "ControllerConfig",
            "DeploymentRuntimeConfig",
            "EnvironmentConfig",
            "ImageConfig",
            "ProviderConfig",
            "ProviderConfigUsage",
            "StoreConfig",
        ],
    ),
    (&["gateway.networking.k8s.io"], &["ReferenceGrant"]),
    (
        &["keda.sh"],
        &["ClusterTriggerAuthentication", "TriggerAuthentication"],
    ),
    (&["notification.toolkit.fluxcd.io"], &["Alert", "Provider"]),
    (&["snapshot.storage.k8s.io"], &["VolumeSnapshotClass"]),
    (
        &["tekton.dev"],
        &["ClusterTask", "Pipeline", "StepAction", "Task"],
    ),
    (
        &["triggers.tekton.dev"],
        &[
            "ClusterTriggerBinding",
            "Trigger",
            "TriggerBinding",
            "TriggerTemplate",
        ],
    ),
    (
        &["traefik.io", "traefik.containo.us"],
        &[
            "IngressRoute",
            "IngressRouteTCP",
            "IngressRouteUDP",
            "Middleware",
            "MiddlewareTCP",
            "ServersTransport",
            "ServersTransportTCP",
            "TLSOption",
            "TLSStore",
            "TraefikService",
        ],
    ),
    (&["flagger.app"], &["AlertProvider", "MetricTemplate"]),
    (&["k8s.cni.cncf.io"], &["NetworkAttachmentDefinition"]),
];

/// The row for objects of this group and kind.
#[must_use]
pub fn row(group: &str, kind: &str) -> Option<&'static KindRow> {
    let mut rows = TABLE.iter();
    rows.find(|row| {
        has_group(row.groups, group) && (row.kinds.is_empty() || row.kinds.contains(&kind))
    })
}

/// The row for objects of this group and kind, or that for all kinds without one.
#[must_use]
pub fn rule(group: &str, kind: &str) -> &'static KindRow {
    row(group, kind).unwrap_or(&GENERAL)
}

/// Whether the kind only configures other components, so that there is nothing to wait for.
#[must_use]
pub fn is_configuration(group: &str, kind: &str) -> bool {
    let mut list = CONFIGURATION.iter();
    list.any(|(groups, kinds)| has_group(groups, group) && kinds.contains(&kind))
}

fn has_group(groups: &[&str], group: &str) -> bool {
    groups
        .iter()
        .any(|pattern| match pattern.strip_prefix('*') {
            Some(suffix) => group.ends_with(suffix),
            None => *pattern == group,
        })
}

// === impl Word ===

impl Word {
    /// Whether every value is good.
    pub(super) fn is_any(&self) -> bool {
        [self.good, self.busy, self.paused, self.failed]
            .iter()
            .all(|list| list.is_empty())
    }
}

// === impl KindRow ===

impl KindRow {
    /// The paths of all texts that the rule reads.
    pub fn texts(&self) -> impl Iterator<Item = &'static str> {
        let words = self.words.iter().flat_map(|word| {
            let about = word.about.into_iter();
            [word.path, word.message]
                .into_iter()
                .chain(about.flat_map(|(of, current)| [of, current]))
        });
        let nested = self.nested.map(|nested| nested.implied_by);
        let handled = self.handled.map(|(_, field)| field);
        words.chain(PAUSED_FIELDS).chain(nested).chain(handled)
    }

    /// The paths of all numbers that the rule reads.
    pub fn numbers(&self) -> impl Iterator<Item = &'static str> {
        let Counters {
            wanted,
            required,
            counted,
        } = self.counters;
        let counters = required.iter().chain(counted).copied();
        counters.chain([wanted])
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use rollplan_world::page::{check, table};

    use super::*;

    const PAGE: &str = "docs/reference/kinds.md";

    fn code(texts: &[&str]) -> String {
        let texts: Vec<_> = texts.iter().map(|text| format!("`{text}`")).collect();
        texts.join(", ")
    }

    /// The values of each word, from one of its lists.
    fn words(row: &KindRow, list: fn(&Word) -> &'static [&'static str]) -> Vec<String> {
        let words = row.words.iter().filter(|word| !list(word).is_empty());
        words
            .map(|word| format!("`{}` {}", word.path, list(word).join(", ")))
            .collect()
    }

    fn each(kinds: &[&str], end: &str) -> Vec<String> {
        kinds.iter().map(|kind| format!("{kind} {end}")).collect()
    }

    /// The item of the list in docs/reference/kinds.md.
    fn item(row: &KindRow) -> String {
        let kinds = match row.kinds {
            [] => "every kind".to_owned(),
            kinds => kinds.join(", "),
        };
        let mut good = words(row, |word| word.good);
        for (text, word) in good
            .iter_mut()
            .zip(row.words.iter().filter(|word| !word.good.is_empty()))
        {
            if word.is_optional {
                text.push_str(", if it is set");
            }
        }
        let set = row.words.iter().filter(|word| word.is_any());
        good.extend(set.map(|word| format!("`{}` is set", word.path)));
        let required = row.required.iter();
        good.extend(required.map(|alternatives| alternatives.join(" or ")));
        good.extend(each(row.counted, "if it exists"));
        let excused = row.excused.iter();
        good.extend(excused.map(|(kind, reason)| format!("{kind} may be false ({reason})")));
        if let Some(nested) = row.nested {
            let mut inner = vec![nested.required.join(" or ")];
            inner.extend(each(nested.counted, "if it exists"));
            inner.extend(each(nested.unwanted, "not true"));
            good.push(format!(
                "in `{}`, for each of `{}`: {}",
                nested.path,
                nested.wanted,
                inner.join(", ")
            ));
        }
        if !row.counters.required.is_empty() {
            let numbers = [row.counters.required, row.counters.counted].concat();
            good.push(format!(
                "`{}` reached by {}",
                row.counters.wanted,
                code(&numbers)
            ));
        }
        if let Some((annotation, field)) = row.handled {
            good.push(format!(
                "`{field}` is that of the annotation `{annotation}`, if it is set"
            ));
        }
        good.extend(row.requests.iter().map(|field| format!("no `{field}`")));
        if row.is_complete_when_observed {
            good.push("the generation is observed".to_owned());
        }
        let mut busy = words(row, |word| word.busy);
        busy.extend(each(row.busy, "true"));
        let mut paused = words(row, |word| word.paused);
        paused.extend(each(row.paused, "true"));
        let mut failed = words(row, |word| word.failed);
        failed.extend(each(row.bad, "true"));
        failed.extend(each(row.fails_when_false, "false"));
        let reasons = row.failed_reasons.iter();
        failed.extend(reasons.map(|(kind, reason)| format!("{kind} false ({reason})")));
        if row.is_final {
            failed.push("certain".to_owned());
        }
        let mut text = format!("- **{kinds}** in {}\n", code(row.groups));
        for (phase, parts) in [
            ("COMPLETE", good),
            ("PROGRESSING", busy),
            ("PAUSED", paused),
            ("STALLED", failed),
        ] {
            if !parts.is_empty() {
                _ = writeln!(text, "  - {phase}: {}", parts.join("; "));
            }
        }
        text
    }

    #[test]
    fn documentation_has_the_list() {
        let items: String = TABLE.iter().map(item).collect();
        check(PAGE, "kinds", &items);
    }

    #[test]
    fn documentation_has_the_configuration() {
        let rows = CONFIGURATION
            .iter()
            .map(|(groups, kinds)| vec![kinds.join(", "), code(groups)]);
        check(PAGE, "configuration", &table(&["kinds", "groups"], rows));
    }

    #[test]
    fn documentation_has_the_words_of_other_kinds() {
        let word = GENERAL.words[0];
        let rows = [
            ("STALLED, not certain", word.failed),
            ("PROGRESSING", word.busy),
            ("good", word.good),
        ];
        let rows = rows.map(|(effect, list)| vec![effect.to_owned(), list.join(", ")]);
        check(PAGE, "words", &table(&["effect", "words"], rows));
    }

    #[test]
    fn groups_match_by_their_end() {
        for (group, kind, is_known) in [
            ("argoproj.io", "Rollout", true),
            ("argoproj.io", "rollout", false),
            ("example.argoproj.io", "Rollout", false),
            ("", "Rollout", false),
            ("source.toolkit.fluxcd.io", "GitRepository", true),
            ("toolkit.fluxcd.io", "GitRepository", false),
            ("source.toolkit.fluxcd.io", "HelmRepository", false),
            ("s3.services.k8s.aws", "Bucket", true),
            ("services.k8s.aws", "FieldExport", false),
        ] {
            assert_eq!(row(group, kind).is_some(), is_known, "{group} {kind}");
        }
        assert!(is_configuration("aws.upbound.io", "ProviderConfig"));
        assert!(!is_configuration("example.com", "ProviderConfig"));
    }

    /// The first row that matches applies, and configuration precedes all rows.
    #[test]
    fn each_kind_is_listed_once() {
        let mut seen = std::collections::BTreeSet::new();
        for row in &TABLE {
            for (group, kind) in row
                .groups
                .iter()
                .flat_map(|group| row.kinds.iter().map(move |kind| (group, kind)))
            {
                assert!(seen.insert((group, kind)), "{group} {kind}");
                assert!(!is_configuration(group, kind), "{group} {kind}");
            }
        }
    }
}
