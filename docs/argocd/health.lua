-- A health check for Argo CD: the states of rollplan. docs/guides/argocd.md describes how to install it. It needs Lua's library
-- string, and so health.lua.useOpenLibs.
-- The lists between the marks are generated from src/health/kinds: UPDATE_GOLDEN=1 cargo test -p rollplan-health argo

-- generated
local bad = { "Stalled", "Failed", "Failing", "InvalidSpec", "ErrorOccurred", "NotReady", "Degraded" }
local terminal = ".Terminal"
local creating = { "NotReady", "Creating" }
local paused_reasons = { { "Synced", "False", "ReconcilePaused" }, { "InstallPlanPending", "True", "RequiresApproval" } }
local busy = { "Reconciling", "RolloutProgressing" }
local updating = "Progressing"
local operator_health = { "Degraded", "Failing" }
local summary = "Ready"
local good_conditions = { "Succeeded", "Complete", "Available", "Healthy", "Established", "Programmed", "Accepted", "Synced", "Installed", "Deployed", "Valid", "Reconciled" }
local beside = { "ResolvedRefs", "NamesAccepted", "Synced", "ReconcileSuccess", "LastAsyncOperation", "AsyncOperation" }
local paused_fields = { "spec.suspend", "spec.paused" }
local own_namespace = "metadata.namespace"
local general = { groups = {}, kinds = {}, words = { { path = "status.phase", message = "status.message", is_optional = true, good = { "Healthy", "Ready", "Available", "Bound", "Green", "Succeeded", "Successful", "Completed", "Provisioned", "Synced" }, busy = { "New", "Pending", "Queued", "Waiting", "Creating", "Provisioning", "Initializing", "Installing", "Starting", "Deploying", "Progressing", "InProgress", "Reconciling", "Updating", "Upgrading", "Scaling", "ScalingUp", "ScalingDown", "Terminating", "Deleting" }, failed = { "Failed", "Error", "Degraded", "Invalid", "InvalidSpec", "PartiallyFailed", "Lost", "Red" } }, { path = "status.state", message = "status.message", is_optional = true, good = { "Healthy", "Ready", "Available", "Bound", "Green", "Succeeded", "Successful", "Completed", "Provisioned", "Synced" }, busy = { "New", "Pending", "Queued", "Waiting", "Creating", "Provisioning", "Initializing", "Installing", "Starting", "Deploying", "Progressing", "InProgress", "Reconciling", "Updating", "Upgrading", "Scaling", "ScalingUp", "ScalingDown", "Terminating", "Deleting" }, failed = { "Failed", "Error", "Degraded", "Invalid", "InvalidSpec", "PartiallyFailed", "Lost", "Red" } }, { path = "status.health", message = "status.message", is_optional = true, good = { "Healthy", "Ready", "Available", "Bound", "Green", "Succeeded", "Successful", "Completed", "Provisioned", "Synced" }, busy = { "New", "Pending", "Queued", "Waiting", "Creating", "Provisioning", "Initializing", "Installing", "Starting", "Deploying", "Progressing", "InProgress", "Reconciling", "Updating", "Upgrading", "Scaling", "ScalingUp", "ScalingDown", "Terminating", "Deleting" }, failed = { "Failed", "Error", "Degraded", "Invalid", "InvalidSpec", "PartiallyFailed", "Lost", "Red" } }, { path = "status.health.status", message = "status.message", is_optional = true, good = { "Healthy", "Ready", "Available", "Bound", "Green", "Succeeded", "Successful", "Completed", "Provisioned", "Synced" }, busy = { "New", "Pending", "Queued", "Waiting", "Creating", "Provisioning", "Initializing", "Installing", "Starting", "Deploying", "Progressing", "InProgress", "Reconciling", "Updating", "Upgrading", "Scaling", "ScalingUp", "ScalingDown", "Terminating", "Deleting" }, failed = { "Failed", "Error", "Degraded", "Invalid", "InvalidSpec", "PartiallyFailed", "Lost", "Red" } } }, required = {}, counted = {}, counters = { wanted = "spec.replicas", required = {}, counted = { "status.updatedReplicas", "status.readyReplicas", "status.availableReplicas" } } }
local rows = {
  { groups = { "argoproj.io" }, kinds = { "Rollout" }, words = { { path = "status.phase", message = "status.message", good = { "Healthy" }, busy = { "Progressing" }, paused = { "Paused" }, failed = { "Degraded" } } }, required = {}, counted = {}, failed_reasons = { { "Progressing", "RolloutAborted" }, { "Progressing", "ProgressDeadlineExceeded" } }, counters = { wanted = "spec.replicas", required = {}, counted = { "status.updatedReplicas", "status.readyReplicas", "status.availableReplicas" } }, handled = { "rollout.argoproj.io/workload-generation", "status.workloadObservedGeneration" } },
  { groups = { "argoproj.io" }, kinds = { "Application" }, words = { { path = "status.operationState.phase", message = "status.operationState.message", is_optional = true, about = { "status.operationState.syncResult.revision", "status.sync.revision" }, good = { "Succeeded" }, busy = { "Running", "Terminating" }, failed = { "Failed", "Error" } }, { path = "status.health.status", message = "status.health.message", good = { "Healthy" }, busy = { "Progressing", "Missing", "Degraded", "Unknown" }, paused = { "Suspended" } }, { path = "status.sync.status", message = "status.message", good = { "Synced" }, busy = { "OutOfSync", "Unknown" } } }, required = {}, counted = {}, requests = { "operation" }, counters = { wanted = "spec.replicas", required = {}, counted = { "status.updatedReplicas", "status.readyReplicas", "status.availableReplicas" } } },
  { groups = { "argoproj.io" }, kinds = { "AnalysisRun", "Workflow" }, words = { { path = "status.phase", message = "status.message", good = { "Successful", "Succeeded" }, busy = { "Pending", "Running" }, failed = { "Failed", "Error", "Inconclusive" } } }, required = {}, counted = {}, counters = { wanted = "spec.replicas", required = {}, counted = { "status.updatedReplicas", "status.readyReplicas", "status.availableReplicas" } } },
  { groups = { "argoproj.io" }, kinds = { "ApplicationSet" }, words = {}, required = { { "ResourcesUpToDate" } }, counted = {}, counters = { wanted = "spec.replicas", required = {}, counted = { "status.updatedReplicas", "status.readyReplicas", "status.availableReplicas" } } },
  { groups = { "*.toolkit.fluxcd.io" }, kinds = { "Bucket", "GitRepository", "HelmChart", "HelmRelease", "ImagePolicy", "ImageRepository", "ImageUpdateAutomation", "Kustomization", "OCIRepository", "Receiver" }, words = {}, required = { { "Ready" } }, counted = {}, counters = { wanted = "spec.replicas", required = {}, counted = { "status.updatedReplicas", "status.readyReplicas", "status.availableReplicas" } }, handled = { "reconcile.fluxcd.io/requestedAt", "status.lastHandledReconcileAt" } },
  { groups = { "cert-manager.io" }, kinds = { "Certificate" }, words = {}, required = { { "Ready" } }, counted = {}, counters = { wanted = "spec.replicas", required = {}, counted = { "status.updatedReplicas", "status.readyReplicas", "status.availableReplicas" } } },
  { groups = { "cert-manager.io" }, kinds = { "CertificateRequest" }, words = {}, required = { { "Ready" } }, counted = {}, bad = { "Denied", "InvalidRequest" }, failed_reasons = { { "Ready", "Denied" }, { "Ready", "Failed" } }, counters = { wanted = "spec.replicas", required = {}, counted = { "status.updatedReplicas", "status.readyReplicas", "status.availableReplicas" } } },
  { groups = { "acme.cert-manager.io" }, kinds = { "Challenge", "Order" }, words = { { path = "status.state", message = "status.reason", good = { "valid" }, busy = { "pending", "processing", "ready" }, failed = { "errored", "expired", "invalid" } } }, required = {}, counted = {}, counters = { wanted = "spec.replicas", required = {}, counted = { "status.updatedReplicas", "status.readyReplicas", "status.availableReplicas" } } },
  { groups = { "cert-manager.io" }, kinds = { "ClusterIssuer", "Issuer" }, words = {}, required = { { "Ready" } }, counted = {}, counters = { wanted = "spec.replicas", required = {}, counted = { "status.updatedReplicas", "status.readyReplicas", "status.availableReplicas" } } },
  { groups = { "external-secrets.io" }, kinds = { "ClusterSecretStore", "ExternalSecret", "PushSecret", "SecretStore" }, words = {}, required = { { "Ready" } }, counted = {}, counters = { wanted = "spec.replicas", required = {}, counted = { "status.updatedReplicas", "status.readyReplicas", "status.availableReplicas" } } },
  { groups = { "bitnami.com" }, kinds = { "SealedSecret" }, words = {}, required = { { "Synced" } }, counted = {}, fails_when_false = { "Synced" }, counters = { wanted = "spec.replicas", required = {}, counted = { "status.updatedReplicas", "status.readyReplicas", "status.availableReplicas" } } },
  { groups = { "gateway.networking.k8s.io", "gateway.networking.x-k8s.io" }, kinds = { "Gateway", "ListenerSet", "XListenerSet" }, words = {}, required = { { "Accepted" }, { "Programmed" } }, counted = {}, nested = { path = "status.listeners", wanted = "spec.listeners", implied_by = "", reference = "", required = { "Accepted", "Programmed" }, counted = { "ResolvedRefs" }, unwanted = { "Conflicted" }, key = { { "name", "", "", "" } } }, counters = { wanted = "spec.replicas", required = {}, counted = { "status.updatedReplicas", "status.readyReplicas", "status.availableReplicas" } } },
  { groups = { "gateway.networking.k8s.io" }, kinds = { "GRPCRoute", "HTTPRoute", "TCPRoute", "TLSRoute", "UDPRoute" }, words = {}, required = {}, counted = {}, nested = { path = "status.parents", wanted = "spec.parentRefs", implied_by = "spec.useDefaultGateways", reference = "parentRef", required = { "Accepted" }, counted = { "ResolvedRefs" }, unwanted = { "PartiallyInvalid" }, key = { { "group", "gateway.networking.k8s.io", "core", "" }, { "kind", "Gateway", "", "" }, { "namespace", "metadata.namespace", "", "" }, { "name", "", "", "" }, { "sectionName", "", "", "" }, { "port", "", "", "" } } }, counters = { wanted = "spec.replicas", required = {}, counted = { "status.updatedReplicas", "status.readyReplicas", "status.availableReplicas" } } },
  { groups = { "gateway.networking.k8s.io" }, kinds = { "GatewayClass" }, words = {}, required = { { "Accepted" } }, counted = {}, counters = { wanted = "spec.replicas", required = {}, counted = { "status.updatedReplicas", "status.readyReplicas", "status.availableReplicas" } } },
  { groups = { "cluster.x-k8s.io" }, kinds = { "Cluster" }, words = { { path = "status.phase", message = "status.failureMessage", good = { "Provisioned" }, busy = { "Pending", "Provisioning", "Deleting", "Unknown" }, failed = { "Failed" } } }, required = { { "Ready", "Available" } }, counted = {}, counters = { wanted = "spec.replicas", required = {}, counted = { "status.updatedReplicas", "status.readyReplicas", "status.availableReplicas" } } },
  { groups = { "cluster.x-k8s.io" }, kinds = { "Machine", "MachineDeployment" }, words = { { path = "status.phase", message = "status.failureMessage", good = { "Running" }, busy = { "Pending", "Provisioning", "Provisioned", "ScalingUp", "ScalingDown", "Deleting", "Unknown" }, failed = { "Failed" } } }, required = {}, counted = { "Ready", "Available" }, counters = { wanted = "spec.replicas", required = { "status.readyReplicas", "status.availableReplicas" }, counted = { "status.updatedReplicas", "status.upToDateReplicas" } } },
  { groups = { "pkg.crossplane.io" }, kinds = { "Configuration", "Function", "Provider" }, words = {}, required = { { "Installed" }, { "Healthy" } }, counted = {}, counters = { wanted = "spec.replicas", required = {}, counted = { "status.updatedReplicas", "status.readyReplicas", "status.availableReplicas" } } },
  { groups = { "apiextensions.crossplane.io" }, kinds = { "CompositeResourceDefinition" }, words = {}, required = { { "Established" } }, counted = {}, counters = { wanted = "spec.replicas", required = {}, counted = { "status.updatedReplicas", "status.readyReplicas", "status.availableReplicas" } } },
  { groups = { "*.aws.upbound.io", "*.aws.m.upbound.io", "*.azure.upbound.io", "*.azure.m.upbound.io", "*.gcp.upbound.io", "*.gcp.m.upbound.io", "*.aws.crossplane.io", "helm.crossplane.io", "kubernetes.crossplane.io", "*.m.crossplane.io" }, kinds = {}, words = {}, required = { { "Ready" }, { "Synced" } }, counted = {}, counters = { wanted = "spec.replicas", required = {}, counted = { "status.updatedReplicas", "status.readyReplicas", "status.availableReplicas" } } },
  { groups = { "serving.knative.dev" }, kinds = { "Service" }, words = {}, required = { { "Ready" }, { "ConfigurationsReady" }, { "RoutesReady" } }, counted = {}, counters = { wanted = "spec.replicas", required = {}, counted = { "status.updatedReplicas", "status.readyReplicas", "status.availableReplicas" } } },
  { groups = { "serving.knative.dev" }, kinds = { "Configuration", "Revision", "Route" }, words = {}, required = { { "Ready" } }, counted = {}, counters = { wanted = "spec.replicas", required = {}, counted = { "status.updatedReplicas", "status.readyReplicas", "status.availableReplicas" } } },
  { groups = { "keda.sh" }, kinds = { "ScaledJob", "ScaledObject" }, words = {}, required = { { "Ready" } }, counted = {}, busy = { "Fallback" }, counters = { wanted = "spec.replicas", required = {}, counted = { "status.updatedReplicas", "status.readyReplicas", "status.availableReplicas" } } },
  { groups = { "tekton.dev" }, kinds = { "CustomRun", "PipelineRun", "TaskRun" }, words = {}, required = { { "Succeeded" } }, counted = {}, fails_when_false = { "Succeeded" }, counters = { wanted = "spec.replicas", required = {}, counted = { "status.updatedReplicas", "status.readyReplicas", "status.availableReplicas" } } },
  { groups = { "kafka.strimzi.io" }, kinds = { "Kafka", "KafkaBridge", "KafkaConnect", "KafkaConnector", "KafkaMirrorMaker2", "KafkaTopic", "KafkaUser" }, words = {}, required = { { "Ready" } }, counted = {}, paused = { "ReconciliationPaused" }, counters = { wanted = "spec.replicas", required = {}, counted = { "status.updatedReplicas", "status.readyReplicas", "status.availableReplicas" } } },
  { groups = { "karpenter.sh" }, kinds = { "NodeClaim", "NodePool" }, words = {}, required = { { "Ready" } }, counted = {}, paused = { "Disrupting" }, counters = { wanted = "spec.replicas", required = {}, counted = { "status.updatedReplicas", "status.readyReplicas", "status.availableReplicas" } } },
  { groups = { "autoscaling" }, kinds = { "HorizontalPodAutoscaler" }, words = {}, required = { { "AbleToScale" } }, counted = { "ScalingActive" }, excused = { { "ScalingActive", "ScalingDisabled" } }, counters = { wanted = "spec.replicas", required = {}, counted = { "status.updatedReplicas", "status.readyReplicas", "status.availableReplicas" } }, unjudged_version = "autoscaling/v1" },
  { groups = { "apiregistration.k8s.io" }, kinds = { "APIService" }, words = {}, required = { { "Available" } }, counted = {}, counters = { wanted = "spec.replicas", required = {}, counted = { "status.updatedReplicas", "status.readyReplicas", "status.availableReplicas" } } },
  { groups = { "policy" }, kinds = { "PodDisruptionBudget" }, words = {}, required = {}, counted = { "DisruptionAllowed" }, excused = { { "DisruptionAllowed", "InsufficientPods" } }, counters = { wanted = "spec.replicas", required = {}, counted = { "status.updatedReplicas", "status.readyReplicas", "status.availableReplicas" } }, is_complete_when_observed = true },
  { groups = { "certificates.k8s.io" }, kinds = { "CertificateSigningRequest" }, words = { { path = "status.certificate", message = "status.message" } }, required = { { "Approved" } }, counted = {}, bad = { "Denied" }, counters = { wanted = "spec.replicas", required = {}, counted = { "status.updatedReplicas", "status.readyReplicas", "status.availableReplicas" } } },
  { groups = { "storage.k8s.io" }, kinds = { "VolumeAttachment" }, words = { { path = "status.attached", message = "status.attachError.message", good = { "true" }, busy = { "false" } } }, required = {}, counted = {}, counters = { wanted = "spec.replicas", required = {}, counted = { "status.updatedReplicas", "status.readyReplicas", "status.availableReplicas" } } },
  { groups = { "snapshot.storage.k8s.io" }, kinds = { "VolumeSnapshot", "VolumeSnapshotContent" }, words = { { path = "status.readyToUse", message = "status.error.message", good = { "true" }, busy = { "false" } } }, required = {}, counted = {}, counters = { wanted = "spec.replicas", required = {}, counted = { "status.updatedReplicas", "status.readyReplicas", "status.availableReplicas" } } },
  { groups = { "postgresql.cnpg.io" }, kinds = { "Cluster" }, words = { { path = "status.phase", message = "status.phaseReason", is_optional = true, failed = { "Unable to create required cluster objects", "Cluster is unrecoverable and needs manual intervention" } } }, required = { { "Ready" } }, counted = {}, paused = { "cnpg.io/hibernation" }, counters = { wanted = "spec.instances", required = { "status.readyInstances" }, counted = {} } },
  { groups = { "elasticsearch.k8s.elastic.co" }, kinds = { "Elasticsearch" }, words = { { path = "status.phase", message = "status.message", good = { "Ready" }, busy = { "ApplyingChanges", "MigratingData" }, failed = { "Invalid" } }, { path = "status.health", message = "status.message", good = { "green" }, busy = { "yellow", "unknown" }, failed = { "red" } } }, required = {}, counted = {}, counters = { wanted = "spec.nodeSets[].count", required = { "status.availableNodes" }, counted = {} } },
  { groups = { "rabbitmq.com" }, kinds = { "RabbitmqCluster" }, words = {}, required = { { "ClusterAvailable" }, { "AllReplicasReady" } }, counted = {}, counters = { wanted = "spec.replicas", required = {}, counted = { "status.updatedReplicas", "status.readyReplicas", "status.availableReplicas" } } },
  { groups = { "monitoring.coreos.com" }, kinds = { "Alertmanager", "Prometheus", "PrometheusAgent", "ThanosRuler" }, words = {}, required = { { "Available" }, { "Reconciled" } }, counted = {}, counters = { wanted = "spec.replicas", required = {}, counted = { "status.updatedReplicas", "status.readyReplicas", "status.availableReplicas" } } },
  { groups = { "flagger.app" }, kinds = { "Canary" }, words = { { path = "status.phase", message = "status.message", good = { "Succeeded", "Initialized" }, busy = { "Initializing", "Progressing", "Promoting", "Finalising", "Waiting", "WaitingPromotion" }, failed = { "Failed" } } }, required = {}, counted = {}, counters = { wanted = "spec.replicas", required = {}, counted = { "status.updatedReplicas", "status.readyReplicas", "status.availableReplicas" } } },
  { groups = { "serving.kserve.io" }, kinds = { "InferenceService" }, words = { { path = "status.modelStatus.transitionStatus", message = "status.modelStatus.lastFailureInfo.message", is_optional = true, good = { "UpToDate" }, busy = { "InProgress" }, failed = { "BlockedByFailedLoad", "InvalidSpec" } } }, required = { { "Ready" } }, counted = { "PredictorReady", "TransformerReady", "ExplainerReady", "IngressReady" }, paused = { "Stopped" }, counters = { wanted = "spec.replicas", required = {}, counted = { "status.updatedReplicas", "status.readyReplicas", "status.availableReplicas" } } },
  { groups = { "operators.coreos.com" }, kinds = { "Subscription" }, words = { { path = "status.state", message = "status.message", good = { "AtLatestKnown" }, busy = { "UpgradeAvailable", "UpgradePending" }, failed = { "UpgradeFailed" } } }, required = {}, counted = {}, bad = { "CatalogSourcesUnhealthy", "InstallPlanFailed", "ResolutionFailed" }, busy = { "InstallPlanPending" }, counters = { wanted = "spec.replicas", required = {}, counted = { "status.updatedReplicas", "status.readyReplicas", "status.availableReplicas" } } },
  { groups = { "operators.coreos.com" }, kinds = { "InstallPlan" }, words = { { path = "status.phase", message = "status.message", good = { "Complete" }, busy = { "Planning", "Installing" }, paused = { "RequiresApproval" }, failed = { "Failed" } } }, required = {}, counted = {}, counters = { wanted = "spec.replicas", required = {}, counted = { "status.updatedReplicas", "status.readyReplicas", "status.availableReplicas" } } },
  { groups = { "kubevirt.io" }, kinds = { "VirtualMachine" }, words = { { path = "status.printableStatus", message = "status.message", is_optional = true, paused = { "Stopped", "Paused" } } }, required = { { "Ready" } }, counted = {}, counters = { wanted = "spec.replicas", required = {}, counted = { "status.updatedReplicas", "status.readyReplicas", "status.availableReplicas" } } },
  { groups = { "*.services.k8s.aws" }, kinds = {}, words = {}, required = { { "Ready", "ACK.ResourceSynced" } }, counted = {}, counters = { wanted = "spec.replicas", required = {}, counted = { "status.updatedReplicas", "status.readyReplicas", "status.availableReplicas" } } },
  { groups = { "acid.zalan.do" }, kinds = { "postgresql" }, words = { { path = "status.PostgresClusterStatus", message = "status.message", good = { "Running" }, busy = { "Creating", "Updating" }, failed = { "CreateFailed", "UpdateFailed", "SyncFailed", "Invalid" } } }, required = {}, counted = {}, counters = { wanted = "spec.replicas", required = {}, counted = { "status.updatedReplicas", "status.readyReplicas", "status.availableReplicas" } } },
  { groups = { "sparkoperator.k8s.io" }, kinds = { "SparkApplication" }, words = { { path = "status.applicationState.state", message = "status.applicationState.errorMessage", good = { "COMPLETED" }, busy = { "SUBMITTED", "RUNNING", "PENDING_RERUN", "PENDING_SUBMISSION", "INVALIDATING", "SUBMISSION_FAILED", "SUCCEEDING", "FAILING", "SUSPENDING", "RESUMING", "UNKNOWN" }, paused = { "SUSPENDED" }, failed = { "FAILED" } } }, required = {}, counted = {}, counters = { wanted = "spec.replicas", required = {}, counted = { "status.updatedReplicas", "status.readyReplicas", "status.availableReplicas" } } },
  { groups = { "jobset.x-k8s.io" }, kinds = { "JobSet" }, words = {}, required = { { "Completed" } }, counted = {}, paused = { "Suspended" }, bad = { "Failed" }, busy = { "RestartingJobSet", "StartupPolicyInProgress" }, counters = { wanted = "spec.replicas", required = {}, counted = { "status.updatedReplicas", "status.readyReplicas", "status.availableReplicas" } } },
  { groups = { "flink.apache.org" }, kinds = { "FlinkDeployment" }, words = { { path = "status.lifecycleState", message = "status.error", is_optional = true, good = { "DEPLOYED", "STABLE" }, busy = { "CREATED", "UPGRADING", "ROLLING_BACK" }, paused = { "SUSPENDED" }, failed = { "FAILED", "ROLLED_BACK" } }, { path = "status.jobManagerDeploymentStatus", message = "status.error", is_optional = true, good = { "READY" }, busy = { "MISSING", "DEPLOYING", "DEPLOYED_NOT_READY" }, failed = { "ERROR" } }, { path = "status.reconciliationStatus.state", message = "status.error", is_optional = true, good = { "DEPLOYED" }, busy = { "UPGRADING", "ROLLING_BACK" }, failed = { "ROLLED_BACK" } } }, required = {}, counted = {}, counters = { wanted = "spec.replicas", required = {}, counted = { "status.updatedReplicas", "status.readyReplicas", "status.availableReplicas" } } },
  { groups = { "clickhouse.altinity.com" }, kinds = { "ClickHouseInstallation" }, words = { { path = "status.status", message = "status.error", good = { "Completed" }, busy = { "InProgress", "Terminating" }, failed = { "Aborted" } } }, required = {}, counted = {}, counters = { wanted = "spec.replicas", required = {}, counted = { "status.updatedReplicas", "status.readyReplicas", "status.availableReplicas" } } },
  { groups = { "velero.io" }, kinds = { "Backup", "Restore" }, words = { { path = "status.phase", message = "status.failureReason", good = { "Completed" }, busy = { "New", "Queued", "ReadyToStart", "InProgress", "WaitingForPluginOperations", "WaitingForPluginOperationsPartiallyFailed", "Finalizing", "FinalizingPartiallyFailed", "Deleting" }, failed = { "Failed", "PartiallyFailed", "FailedValidation" } } }, required = {}, counted = {}, counters = { wanted = "spec.replicas", required = {}, counted = { "status.updatedReplicas", "status.readyReplicas", "status.availableReplicas" } } },
}
-- end of generated

if obj == nil then
  return { rows = rows }
end

local function contains(list, text)
  for _, it in ipairs(list or {}) do
    if it == text then
      return true
    end
  end
  return false
end

-- The value at a path. "[]" after the name of a list stands for the sum of its items.
local function at(value, path)
  local name, rest = path:match("^([^.]+)%.?(.*)$")
  if name == nil then
    return value
  end
  if type(value) ~= "table" then
    return nil
  end
  local list = name:match("^(.*)%[%]$")
  if list == nil then
    return at(value[name], rest)
  end
  if type(value[list]) ~= "table" then
    return nil
  end
  local sum = nil
  for _, item in ipairs(value[list]) do
    sum = (sum or 0) + (tonumber(at(item, rest)) or 0)
  end
  return sum
end

local function text(path)
  local value = at(obj, path)
  if value == nil or type(value) == "table" then
    return ""
  end
  return tostring(value)
end

local function number(path)
  local value = at(obj, path)
  if type(value) == "number" then
    return value
  end
  return nil
end

local metadata = obj.metadata or {}
local status = obj.status or {}
local generation = metadata.generation or 0
local group = (obj.apiVersion or ""):match("^(.*)/") or ""

local function has_group(groups)
  for _, pattern in ipairs(groups) do
    local suffix = pattern:match("^%*(.*)$")
    if pattern == group or (suffix and #group > #suffix and group:sub(-#suffix) == suffix) then
      return true
    end
  end
  return false
end

local row, is_known = general, false
for _, it in ipairs(rows) do
  if has_group(it.groups) and (#it.kinds == 0 or contains(it.kinds, obj.kind)) then
    if it.unjudged_version ~= obj.apiVersion then
      row, is_known = it, true
    end
    break
  end
end

local function health(name, message)
  return { status = name, message = message or "" }
end

local function explained(condition)
  local message = condition.message or ""
  if message == "" then
    message = condition.reason or ""
  end
  if message == "" then
    return ""
  end
  return ": " .. message
end

local observed = status.observedGeneration
local is_behind = type(observed) == "number" and observed < generation

-- A condition that was written for an earlier generation counts as unknown.
local function truth(condition)
  local is_stale = is_behind
  if condition.observedGeneration then
    is_stale = condition.observedGeneration < generation
  end
  return is_stale and "Unknown" or condition.status
end

local conditions = {}
if type(status.conditions) == "table" then
  conditions = status.conditions
end

local function condition_of(kind)
  for _, it in ipairs(conditions) do
    if it.type == kind then
      return it
    end
  end
  return nil
end

local function first_true(kinds, more)
  for _, it in ipairs(conditions) do
    if (contains(kinds, it.type) or contains(more, it.type)) and truth(it) == "True" then
      return it
    end
  end
  return nil
end

local function has_pair(pairs_, kind, reason)
  for _, it in ipairs(pairs_ or {}) do
    if it[1] == kind and it[2] == reason then
      return true
    end
  end
  return false
end

if metadata.deletionTimestamp then
  return health("Progressing", "is being deleted")
end

-- A controller may not observe the change that pauses it.
for _, path in ipairs(paused_fields) do
  if text(path) == "true" then
    return health("Suspended", path .. " is true")
  end
end

if row.handled then
  local annotation, field = row.handled[1], row.handled[2]
  local wanted = (metadata.annotations or {})[annotation]
  if wanted and text(field) ~= wanted then
    return health("Progressing", "its controller has not handled the annotation " .. annotation .. " yet")
  end
end
for _, field in ipairs(row.requests or {}) do
  if obj[field] ~= nil then
    return health("Progressing", "its controller has not done yet what the field " .. field .. " requests")
  end
end

local paused = first_true({ "Paused" }, row.paused)
if paused then
  return health("Suspended", "its condition " .. paused.type .. " is true" .. explained(paused))
end
for _, it in ipairs(conditions) do
  for _, by in ipairs(paused_reasons) do
    if it.type == by[1] and truth(it) == by[2] and it.reason == by[3] then
      return health("Suspended", "its condition " .. it.type .. " is " .. it.status:lower() .. explained(it))
    end
  end
end

-- The condition that an operator is applying a change. The conditions about its own health may pass.
local applying = nil
for _, kind in ipairs(operator_health) do
  applying = applying or (condition_of(kind) and first_true({ updating }, {}))
end

for _, it in ipairs(conditions) do
  local kind, reason, is = it.type or "", it.reason or "", truth(it)
  if applying and contains(operator_health, kind) then
    is = "Unknown"
  end
  local is_bad = contains(bad, kind) or contains(row.bad, kind) or kind:sub(-#terminal) == terminal
  local is_creating = kind == creating[1] and reason == creating[2]
  local fails = contains(row.fails_when_false, kind) or has_pair(row.failed_reasons, kind, reason)
  if (is == "True" and is_bad and not is_creating) or (is == "False" and fails) then
    return health("Degraded", "its condition " .. kind .. " is " .. is .. explained(it))
  end
end

local working = first_true(busy, row.busy) or applying or first_true({ creating[1] }, {})
if working then
  return health("Progressing", "its condition " .. working.type .. " is true" .. explained(working))
end

if is_behind then
  local ready = condition_of(summary)
  if ready and truth(ready) == "False" then
    return health("Progressing", "its condition " .. summary .. " is not true" .. explained(ready))
  end
  return health("Progressing", "no controller has observed the latest change")
end

local good = false
local has_word = false
local function has(list, word)
  for _, it in ipairs(list or {}) do
    if it:lower() == word:lower() then
      return true
    end
  end
  return false
end
for _, word in ipairs(row.words) do
  local value = text(word.path)
  -- A word about an earlier state does not count.
  if word.about then
    local of, current = text(word.about[1]), text(word.about[2])
    if of ~= current and of ~= "" and current ~= "" then
      value = ""
    end
  end
  if value ~= "" then
    has_word = true
    local message = word.path .. " is " .. value
    local why = text(word.message)
    if why ~= "" then
      message = message .. ": " .. why
    end
    if has(word.failed, value) then
      return health("Degraded", message)
    elseif has(word.paused, value) then
      return health("Suspended", message)
    elseif has(word.busy, value) then
      return health("Progressing", message)
    elseif has(word.good, value) or not (word.good or word.busy or word.paused or word.failed) then
      good = true
    elseif not word.is_optional then
      return health("Unknown", message)
    end
  end
end
for _, word in ipairs(row.words) do
  if not word.is_optional and text(word.path) == "" then
    return health("Progressing", word.path .. " is not set yet")
  end
end

local counted = {}
if is_known then
  for _, alternatives in ipairs(row.required) do
    local before = #counted
    for _, kind in ipairs(alternatives) do
      if condition_of(kind) then
        table.insert(counted, kind)
      end
    end
    if #counted == before then
      return health("Progressing", "it has no condition " .. alternatives[1] .. " yet")
    end
  end
elseif condition_of(summary) then
  table.insert(counted, summary)
else
  for _, kind in ipairs(good_conditions) do
    if condition_of(kind) then
      table.insert(counted, kind)
    end
  end
end
if #counted > 0 then
  good = true
end
local function is_fault(condition)
  local is = truth(condition)
  return not (is == "True" or (is == "False" and has_pair(row.excused, condition.type, condition.reason or "")))
end
for _, list in ipairs({ counted, beside, row.counted }) do
  for _, kind in ipairs(list) do
    local condition = condition_of(kind)
    if condition and is_fault(condition) then
      return health("Progressing", "its condition " .. kind .. " is not true" .. explained(condition))
    end
  end
end

-- The values that identify an item, after defaulting.
local function key_of(item)
  local values = {}
  for _, it in ipairs(row.nested.key) do
    local field, default, alias, name = it[1], it[2], it[3], it[4]
    local value = type(item) == "table" and item[field] or nil
    local given = (value == nil or type(value) == "table") and "" or tostring(value)
    if default == own_namespace and given == "" then
      given = metadata.namespace or ""
    elseif value == nil then
      given = default
    elseif alias ~= "" and given == alias then
      given = name
    end
    table.insert(values, given)
  end
  return table.concat(values, "\n")
end

local function fault_of_item(item)
  local has_required = false
  local fault = nil
  for _, it in ipairs(item.conditions or {}) do
    local is_required = contains(row.nested.required, it.type)
    has_required = has_required or is_required
    if (is_required or contains(row.nested.counted, it.type)) and is_fault(it) then
      fault = fault or ("its condition " .. it.type .. " is not true" .. explained(it))
    elseif contains(row.nested.unwanted, it.type) and truth(it) == "True" then
      fault = fault or ("its condition " .. it.type .. " is true" .. explained(it))
    end
  end
  if not has_required then
    return "it has no condition " .. table.concat(row.nested.required, " or ") .. " yet"
  end
  return fault
end

if row.nested then
  local function list(path)
    local value = at(obj, path)
    return type(value) == "table" and value or {}
  end
  local items, all_wanted = list(row.nested.path), list(row.nested.wanted)
  -- One of the items for the same key is enough.
  local function lacking(place, key)
    local what = nil
    for _, item in ipairs(items) do
      local reference = item
      if row.nested.reference ~= "" then
        reference = item[row.nested.reference]
      end
      if key == nil or key_of(reference) == key then
        local fault = fault_of_item(item)
        if fault == nil then
          return nil
        end
        what = what or (place .. ": " .. fault)
      end
    end
    return health("Progressing", what or (row.nested.path .. " has no item for " .. place .. " yet"))
  end
  for index, it in ipairs(all_wanted) do
    local lacks = lacking(row.nested.wanted .. "[" .. (index - 1) .. "]", key_of(it))
    if lacks then
      return lacks
    end
  end
  local implied = text(row.nested.implied_by)
  if #all_wanted == 0 and implied ~= "" and implied ~= "None" then
    local lacks = lacking(row.nested.implied_by, nil)
    if lacks then
      return lacks
    end
  end
  good = true
end

local wanted = number(row.counters.wanted)
if wanted then
  local function lacks(path, value)
    return value < wanted and health("Progressing", path .. " is " .. value .. " of " .. wanted) or nil
  end
  local has_counter = false
  for _, path in ipairs(row.counters.required) do
    local lacking = lacks(path, number(path) or 0)
    if lacking then
      return lacking
    end
    has_counter = true
  end
  for _, path in ipairs(row.counters.counted) do
    local value = number(path)
    if value then
      local lacking = lacks(path, value)
      if lacking then
        return lacking
      end
      has_counter = true
    end
  end
  local is_ready = number("status.readyReplicas") or number("status.availableReplicas")
  if not is_known and has_counter and is_ready then
    good = true
  end
end

if row.is_complete_when_observed and type(observed) == "number" then
  good = true
end
if good then
  return health("Healthy")
end
if is_known and not has_word then
  return health("Progressing", "its controller has not reported its state yet")
end
if obj.status == nil then
  return health("Progressing", "it has no status yet")
end
return health("Unknown", "its status does not show whether it is ready")
