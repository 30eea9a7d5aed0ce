//! The rules that the API server has for the template of a Deployment, in addition to the types of its fields.
//!
//! Kubernetes source: `ValidatePodTemplateSpecForReplicaSet` in `pkg/apis/apps/validation`, and `ValidatePodTemplateSpec` in
//! `pkg/apis/core/validation`. Rules for storage of vendors, for Windows, for sysctls and for resources of whole pods are
//! left to the API server.

use std::collections::{BTreeMap, BTreeSet};

use rollplan_core::template::{Quantity, Value};

use super::Parser;
use super::name::{is_dns_label, is_dns_subdomain, is_qualified_name};
use super::path::Path;
use crate::error::Reason;

const PULL_POLICIES: &[&str] = &["Always", "IfNotPresent", "Never"];
const MESSAGE_POLICIES: &[&str] = &["FallbackToLogsOnError", "File"];
const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
const SCHEMES: &[&str] = &["HTTP", "HTTPS"];
const RESTART_POLICIES: &[&str] = &["Always", "Never", "OnFailure"];
const DNS_POLICIES: &[&str] = &["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"];
const EFFECTS: &[&str] = &["NoExecute", "NoSchedule", "PreferNoSchedule"];
const TOLERATION_OPERATORS: &[&str] = &["Equal", "Exists", "Gt", "Lt"];
const NODE_OPERATORS: &[&str] = &["DoesNotExist", "Exists", "Gt", "In", "Lt", "NotIn"];
const UNSATISFIABLE: &[&str] = &["DoNotSchedule", "ScheduleAnyway"];
const HANDLERS: &[&str] = &["exec", "grpc", "httpGet", "sleep", "tcpSocket"];
const ENV_SOURCES: &[&str] = &[
    "configMapKeyRef",
    "fieldRef",
    "fileKeyRef",
    "resourceFieldRef",
    "secretKeyRef",
];
/// The fields of the sources of volumes, and of those of a projected volume, that must not be empty.
const VOLUME_FIELDS: &[(&str, &[&str])] = &[
    ("configMap", &["name"]),
    ("csi", &["driver"]),
    ("ephemeral", &["volumeClaimTemplate"]),
    ("hostPath", &["path"]),
    ("nfs", &["path", "server"]),
    ("persistentVolumeClaim", &["claimName"]),
    ("secret", &["secretName"]),
];
const PROJECTED_FIELDS: &[(&str, &[&str])] = &[
    ("configMap", &["name"]),
    ("secret", &["name"]),
    ("serviceAccountToken", &["path"]),
];
const MODE_MAX: i64 = 0o777;
const ID_MAX: i64 = i32::MAX as i64;
const SECCOMP_TYPES: &[&str] = &["Localhost", "RuntimeDefault", "Unconfined"];
const GROUP_POLICIES: &[&str] = &["Always", "OnRootMismatch"];
const SUPPLEMENTAL_POLICIES: &[&str] = &["Merge", "Strict"];
const PREEMPTION_POLICIES: &[&str] = &["Never", "PreemptLowerPriority"];
const PROPAGATIONS: &[&str] = &["Bidirectional", "HostToContainer", "None"];
const HOST_PATH_TYPES: &[&str] = &[
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
];
/// The fields of a pod that its environment variables can have, apart from labels and annotations.
const POD_FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
const CONTAINER_RESOURCES: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
/// The fields of a pod that a volume can have, apart from single labels and annotations.
const VOLUME_POD_FIELDS: &[&str] = &[
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
];
const INCLUSION_POLICIES: &[&str] = &["Honor", "Ignore"];
const PROC_MOUNTS: &[&str] = &["Default", "Unmasked"];
const RESIZED: &[&str] = &["cpu", "memory"];
const RESIZE_POLICIES: &[&str] = &["NotRequired", "RestartContainer"];
const SYSTEMS: &[&str] = &["linux", "windows"];
const TOKEN_SECONDS_MIN: i64 = 600;
const NANOS: i128 = 1_000_000_000;
const NAMESERVERS_MAX: usize = 3;
const SEARCHES_MAX: usize = 32;

impl Parser<'_> {
    /// Checks a template with the types of Kubernetes that has its defaults.
    pub(super) fn pod_template(&mut self, template: &Value, path: &Path<'_>) {
        let of_pods = template.get("metadata").unwrap_or(&Value::Null);
        let metadata = path.field("metadata");
        self.labels(&strings(of_pods, "labels"), &metadata.field("labels"));
        let annotations = strings(of_pods, "annotations");
        self.annotations(&annotations, &metadata.field("annotations"));
        let spec = template.get("spec").unwrap_or(&Value::Null);
        let mut rules = Rules {
            parser: self,
            template: path,
            spec,
        };
        rules.pod(spec);
    }
}

/// Checks values at paths below a template.
struct Rules<'p, 'i> {
    parser: &'p mut Parser<'i>,
    template: &'p Path<'p>,
    spec: &'p Value,
}

/// The items of a list, with their paths.
fn items<'v>(value: &'v Value, key: &str, path: &str) -> Vec<(String, &'v Value)> {
    let items = value.get(key).and_then(Value::as_list).unwrap_or_default();
    let items = items.iter().enumerate();
    items
        .map(|(index, item)| (format!("{path}.{key}[{index}]"), item))
        .collect()
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// A map of strings.
fn strings(value: &Value, key: &str) -> BTreeMap<String, String> {
    let entries = value.get(key).and_then(Value::as_map);
    let entries = entries.into_iter().flatten().map(|(key, value)| {
        let value = value.as_str().unwrap_or_default();
        (key.clone(), value.to_owned())
    });
    entries.collect()
}

fn number(value: &Value, key: &str) -> Option<i64> {
    value.get(key)?.as_number()?.as_i64()
}

/// Whether a pointer is set.
fn has(value: &Value, key: &str) -> bool {
    value.get(key).is_some_and(|value| !value.is_null())
}

fn is_empty(value: &Value, key: &str) -> bool {
    match value.get(key) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(_) => false,
    }
}

/// A quantity in billionths.
fn nanos(value: Option<&Value>) -> Option<i128> {
    Quantity::of(value?)?.to_nanos()
}

/// As IsRelaxedEnvVarName in Kubernetes.
fn is_variable_name(name: &str) -> bool {
    name.bytes()
        .all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=')
}

// === impl Rules ===

impl Rules<'_, '_> {
    fn fault(&mut self, path: &str, reason: Reason, description: impl std::fmt::Display) {
        let path = self.template.text(path);
        self.parser.violation(&path, reason, description);
    }

    fn required(&mut self, value: &Value, key: &str, path: &str) -> bool {
        let is_missing = is_empty(value, key);
        if is_missing {
            self.fault(&format!("{path}.{key}"), Reason::Required, "is required");
        }
        !is_missing
    }

    fn one_of(&mut self, value: &Value, key: &str, allowed: &[&str], path: &str) {
        if !is_empty(value, key) && !allowed.contains(&text(value, key)) {
            let description = format!("must be one of {}", allowed.join(", "));
            self.fault(&format!("{path}.{key}"), Reason::InvalidValue, description);
        }
    }

    fn not_negative(&mut self, value: &Value, key: &str, path: &str) {
        if number(value, key).is_some_and(|number| number < 0) {
            self.fault(
                &format!("{path}.{key}"),
                Reason::Negative,
                "may not be negative",
            );
        }
    }

    fn subdomain(&mut self, value: &Value, key: &str, path: &str) {
        if !is_empty(value, key) && !is_dns_subdomain(text(value, key)) {
            let description = "is not a DNS subdomain";
            self.fault(&format!("{path}.{key}"), Reason::InvalidName, description);
        }
    }

    /// A required DNS label that no other item has.
    fn name<'v>(&mut self, item: &'v Value, path: &str, names: &mut BTreeSet<&'v str>) {
        let name = text(item, "name");
        if !self.required(item, "name", path) {
            return;
        }
        let path = format!("{path}.name");
        if !is_dns_label(name) {
            let description = "is not a DNS label: at most 63 of a-z, 0-9 and '-', beginning and ending with a-z or 0-9";
            self.fault(&path, Reason::InvalidName, description);
        }
        if !names.insert(name) {
            self.fault(&path, Reason::Duplicate, "another one has this name");
        }
    }

    /// Whether exactly one of some fields must be set, and is.
    fn exactly_one(&mut self, value: &Value, keys: &[&str], path: &str) {
        let set = keys.iter().filter(|key| has(value, key)).count();
        if set != 1 {
            let description = format!("must have exactly one of {}", keys.join(", "));
            self.fault(path, Reason::Exclusive, description);
        }
    }

    fn pod(&mut self, spec: &Value) {
        let path = ".spec";
        if text(spec, "restartPolicy") != "Always" {
            let description = "must be Always in a Deployment";
            self.fault(".spec.restartPolicy", Reason::InvalidValue, description);
        }
        if has(spec, "activeDeadlineSeconds") {
            let description = "is not allowed in a Deployment";
            self.fault(
                ".spec.activeDeadlineSeconds",
                Reason::InvalidValue,
                description,
            );
        }
        if !items(spec, "ephemeralContainers", path).is_empty() {
            let description = "is not allowed in a pod template";
            self.fault(
                ".spec.ephemeralContainers",
                Reason::InvalidValue,
                description,
            );
        }
        self.one_of(spec, "dnsPolicy", DNS_POLICIES, path);
        for key in [
            "serviceAccountName",
            "priorityClassName",
            "runtimeClassName",
            "nodeName",
        ] {
            self.subdomain(spec, key, path);
        }
        for key in ["hostname", "subdomain"] {
            if !is_empty(spec, key) && !is_dns_label(text(spec, key)) {
                let description = "is not a DNS label";
                self.fault(&format!("{path}.{key}"), Reason::InvalidName, description);
            }
        }
        let selector = strings(spec, "nodeSelector");
        let selector_path = self.template.text(".spec.nodeSelector");
        self.parser.labels(&selector, &selector_path);
        self.placement(spec);
        self.network(spec);
        let context = spec.get("securityContext").unwrap_or(&Value::Null);
        self.security(context, ".spec.securityContext");
        let is_true = |key| spec.get(key) == Some(&Value::from(true));
        if is_true("shareProcessNamespace") && is_true("hostPID") {
            let description = "excludes hostPID";
            self.fault(
                ".spec.shareProcessNamespace",
                Reason::Exclusive,
                description,
            );
        }
        self.one_of(spec, "preemptionPolicy", PREEMPTION_POLICIES, path);
        let system = spec.get("os").unwrap_or(&Value::Null);
        self.one_of(system, "name", SYSTEMS, ".spec.os");
        for (list, key) in [
            ("readinessGates", "conditionType"),
            ("schedulingGates", "name"),
        ] {
            let mut names = BTreeSet::new();
            for (path, gate) in items(spec, list, path) {
                if list == "schedulingGates" && !names.insert(text(gate, key)) {
                    self.fault(&path, Reason::Duplicate, "another one has this name");
                }
                if !is_qualified_name(text(gate, key)) {
                    let description = "is not a qualified name";
                    self.fault(&format!("{path}.{key}"), Reason::InvalidName, description);
                }
            }
        }
        let volumes = self.volumes(spec);
        let mut names = BTreeSet::new();
        let containers = items(spec, "containers", path);
        if containers.is_empty() {
            self.fault(".spec.containers", Reason::Required, "is required");
        }
        for (path, container) in &containers {
            self.container(container, path, &volumes, &mut names);
            self.probes(container, path);
            self.host_ports(spec, container, path);
        }
        self.unique_host_ports(&containers);
        for (path, container) in items(spec, "initContainers", path) {
            self.container(container, &path, &volumes, &mut names);
            self.one_of(container, "restartPolicy", RESTART_POLICIES, &path);
            if text(container, "restartPolicy") == "Always" {
                self.probes(container, &path);
                continue;
            }
            for key in [
                "lifecycle",
                "livenessProbe",
                "readinessProbe",
                "startupProbe",
            ] {
                if has(container, key) {
                    let description =
                        "is not allowed in an init container without restartPolicy Always";
                    self.fault(&format!("{path}.{key}"), Reason::InvalidValue, description);
                }
            }
        }
    }

    /// DNS and host names.
    fn network(&mut self, spec: &Value) {
        let path = ".spec.dnsConfig";
        let config = spec.get("dnsConfig").unwrap_or(&Value::Null);
        let servers = config.get("nameservers").and_then(Value::as_list);
        let servers = servers.unwrap_or_default();
        if text(spec, "dnsPolicy") == "None" && servers.is_empty() {
            let description = "is required with the dnsPolicy None";
            self.fault(
                &format!("{path}.nameservers"),
                Reason::Required,
                description,
            );
        }
        let searches = config.get("searches").and_then(Value::as_list);
        let searches = searches.unwrap_or_default();
        for (key, count, max) in [
            ("nameservers", servers.len(), NAMESERVERS_MAX),
            ("searches", searches.len(), SEARCHES_MAX),
        ] {
            if count > max {
                let description = format!("must have at most {max} entries");
                self.fault(&format!("{path}.{key}"), Reason::OutOfRange, description);
            }
        }
        for (index, server) in servers.iter().enumerate() {
            self.address(server, &format!("{path}.nameservers[{index}]"));
        }
        for (path, option) in items(config, "options", path) {
            self.required(option, "name", &path);
        }
        for (path, alias) in items(spec, "hostAliases", ".spec") {
            self.address(
                alias.get("ip").unwrap_or(&Value::Null),
                &format!("{path}.ip"),
            );
            let names = alias.get("hostnames").and_then(Value::as_list);
            for (index, name) in names.unwrap_or_default().iter().enumerate() {
                if !is_dns_subdomain(name.as_str().unwrap_or_default()) {
                    let path = format!("{path}.hostnames[{index}]");
                    self.fault(&path, Reason::InvalidName, "is not a DNS subdomain");
                }
            }
        }
    }

    fn address(&mut self, value: &Value, path: &str) {
        let text = value.as_str().unwrap_or_default();
        // Of an IPv4 address, the API server also accepts numbers that begin with 0.
        let is_like_v4 = text.split('.').count() == 4
            && text.split('.').all(|part| {
                part.bytes().all(|byte| byte.is_ascii_digit())
                    && (1..=3).contains(&part.len())
                    && part.parse::<u16>().is_ok_and(|number| number <= 255)
            });
        if !is_like_v4 && text.parse::<std::net::IpAddr>().is_err() {
            self.fault(path, Reason::InvalidValue, "is not an IP address");
        }
    }

    /// The security context of a pod or of a container.
    fn security(&mut self, context: &Value, path: &str) {
        for key in ["runAsUser", "runAsGroup", "fsGroup"] {
            self.id(context.get(key), &format!("{path}.{key}"));
        }
        let groups = context.get("supplementalGroups").and_then(Value::as_list);
        for (index, group) in groups.unwrap_or_default().iter().enumerate() {
            self.id(Some(group), &format!("{path}.supplementalGroups[{index}]"));
        }
        self.one_of(context, "fsGroupChangePolicy", GROUP_POLICIES, path);
        self.one_of(
            context,
            "supplementalGroupsPolicy",
            SUPPLEMENTAL_POLICIES,
            path,
        );
        for key in ["seccompProfile", "appArmorProfile"] {
            let Some(profile) = context.get(key).filter(|it| !it.is_null()) else {
                continue;
            };
            let path = format!("{path}.{key}");
            if self.required(profile, "type", &path) {
                self.one_of(profile, "type", SECCOMP_TYPES, &path);
            }
            let is_local = text(profile, "type") == "Localhost";
            let path = format!("{path}.localhostProfile");
            if is_local && is_empty(profile, "localhostProfile") {
                self.fault(
                    &path,
                    Reason::Required,
                    "is required with the type Localhost",
                );
            }
            let local = text(profile, "localhostProfile");
            if is_local && (local.starts_with('/') || local.split('/').any(|step| step == "..")) {
                let description = "must be a relative path without \"..\"";
                self.fault(&path, Reason::InvalidValue, description);
            }
            if !is_local && has(profile, "localhostProfile") {
                self.fault(
                    &path,
                    Reason::Exclusive,
                    "is only allowed with the type Localhost",
                );
            }
        }
    }

    /// A user or a group.
    fn id(&mut self, value: Option<&Value>, path: &str) {
        let id = value.and_then(Value::as_number);
        let id = id.and_then(|it| it.as_i64());
        if id.is_some_and(|id| !(0..=ID_MAX).contains(&id)) {
            let description = "must be between 0 and 2147483647";
            self.fault(path, Reason::OutOfRange, description);
        }
    }

    /// No two containers can use the same port of the host.
    fn unique_host_ports(&mut self, containers: &[(String, &Value)]) {
        let mut seen = BTreeSet::new();
        for (path, container) in containers {
            for (path, port) in items(container, "ports", path) {
                let host = number(port, "hostPort").unwrap_or(0);
                let key = (text(port, "protocol"), text(port, "hostIP"), host);
                if host != 0 && !seen.insert(key) {
                    let description = "another port has this hostPort";
                    self.fault(&format!("{path}.hostPort"), Reason::Duplicate, description);
                }
            }
        }
    }

    fn placement(&mut self, spec: &Value) {
        for (path, toleration) in items(spec, "tolerations", ".spec") {
            let operator = text(toleration, "operator");
            self.one_of(toleration, "operator", TOLERATION_OPERATORS, &path);
            self.one_of(toleration, "effect", EFFECTS, &path);
            let key = text(toleration, "key");
            if !key.is_empty() && !is_qualified_name(key) {
                let description = "is not a valid key of a taint";
                self.fault(&format!("{path}.key"), Reason::InvalidLabelKey, description);
            }
            if key.is_empty() && operator != "Exists" {
                let description = "must be Exists if key is empty";
                self.fault(
                    &format!("{path}.operator"),
                    Reason::InvalidValue,
                    description,
                );
            }
            let value = text(toleration, "value");
            if matches!(operator, "" | "Equal") && !value.is_empty() {
                let value_path = format!("{path}.value");
                let value_path = self.template.text(&value_path);
                self.parser.label_value(value, &value_path);
            }
            if operator == "Exists" && !is_empty(toleration, "value") {
                let description = "must be empty with the operator Exists";
                self.fault(
                    &format!("{path}.value"),
                    Reason::OperatorValues,
                    description,
                );
            }
            if has(toleration, "tolerationSeconds") && text(toleration, "effect") != "NoExecute" {
                let description = "must be NoExecute if tolerationSeconds is set";
                self.fault(&format!("{path}.effect"), Reason::InvalidValue, description);
            }
        }
        let mut pairs = BTreeSet::new();
        for (path, constraint) in items(spec, "topologySpreadConstraints", ".spec") {
            if number(constraint, "maxSkew").unwrap_or(0) <= 0 {
                let description = "must be above zero";
                self.fault(&format!("{path}.maxSkew"), Reason::OutOfRange, description);
            }
            for key in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
                self.one_of(constraint, key, INCLUSION_POLICIES, &path);
            }
            if let Some(domains) = number(constraint, "minDomains") {
                let path = format!("{path}.minDomains");
                if domains <= 0 {
                    self.fault(&path, Reason::OutOfRange, "must be above zero");
                }
                if text(constraint, "whenUnsatisfiable") != "DoNotSchedule" {
                    let description = "needs whenUnsatisfiable DoNotSchedule";
                    self.fault(&path, Reason::InvalidValue, description);
                }
            }
            self.label_selector(constraint, "labelSelector", &path);
            self.required(constraint, "topologyKey", &path);
            if self.required(constraint, "whenUnsatisfiable", &path) {
                self.one_of(constraint, "whenUnsatisfiable", UNSATISFIABLE, &path);
            }
            let pair = [
                text(constraint, "topologyKey"),
                text(constraint, "whenUnsatisfiable"),
            ];
            if !pairs.insert(pair) {
                let description = "another one has this topologyKey and whenUnsatisfiable";
                self.fault(&path, Reason::Duplicate, description);
            }
        }
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        let affinity = spec.get("affinity").unwrap_or(&Value::Null);
        let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
        let of_nodes = affinity.get("nodeAffinity").unwrap_or(&Value::Null);
        for (path, term) in items(of_nodes, preferred, ".spec.affinity.nodeAffinity") {
            self.weight(term, &path);
            let term = term.get("preference").unwrap_or(&Value::Null);
            for (path, requirement) in
                items(term, "matchExpressions", &format!("{path}.preference"))
            {
                self.node_requirement(requirement, &path);
            }
        }
        if let Some(selector) = affinity.at(&["nodeAffinity", required])
            && !selector.is_null()
        {
            let path = format!(".spec.affinity.nodeAffinity.{required}");
            let terms = items(selector, "nodeSelectorTerms", &path);
            if terms.is_empty() {
                let path = format!("{path}.nodeSelectorTerms");
                self.fault(&path, Reason::Required, "is required");
            }
            for (path, term) in terms {
                for (path, requirement) in items(term, "matchExpressions", &path) {
                    self.node_requirement(requirement, &path);
                }
                for (path, requirement) in items(term, "matchFields", &path) {
                    let values = items(requirement, "values", &path).len();
                    let operator = text(requirement, "operator");
                    if !matches!(operator, "In" | "NotIn") || values != 1 {
                        let description = "must be In or NotIn with one value";
                        self.fault(&path, Reason::OperatorValues, description);
                    }
                    if text(requirement, "key") != "metadata.name" {
                        let description = "must be metadata.name";
                        self.fault(&format!("{path}.key"), Reason::InvalidValue, description);
                    }
                }
            }
        }
        for kind in ["podAffinity", "podAntiAffinity"] {
            let affinity = affinity.get(kind).unwrap_or(&Value::Null);
            let path = format!(".spec.affinity.{kind}");
            for (path, term) in items(affinity, required, &path) {
                self.pod_term(term, &path);
            }
            for (path, term) in items(affinity, preferred, &path) {
                self.weight(term, &path);
                let term = term.get("podAffinityTerm").unwrap_or(&Value::Null);
                self.pod_term(term, &format!("{path}.podAffinityTerm"));
            }
        }
    }

    /// A term of the affinity to other pods.
    fn pod_term(&mut self, term: &Value, path: &str) {
        self.required(term, "topologyKey", path);
        self.label_selector(term, "labelSelector", path);
        self.label_selector(term, "namespaceSelector", path);
    }

    /// The keys and operators of a selector. Of stored templates, Kubernetes accepts invalid values.
    fn label_selector(&mut self, value: &Value, key: &str, path: &str) {
        let selector = value.get(key).unwrap_or(&Value::Null);
        let path = format!("{path}.{key}");
        let labels = selector.get("matchLabels").and_then(Value::as_map);
        for key in labels.into_iter().flat_map(|labels| labels.keys()) {
            if !is_qualified_name(key) {
                let description = "is not a valid label key";
                let path = format!("{path}.matchLabels[{key:?}]");
                self.fault(&path, Reason::InvalidLabelKey, description);
            }
        }
        for (path, requirement) in items(selector, "matchExpressions", &path) {
            let values = items(requirement, "values", &path).len();
            let is_right = match text(requirement, "operator") {
                "In" | "NotIn" => values > 0,
                "Exists" | "DoesNotExist" => values == 0,
                _ => {
                    let description = "must be one of DoesNotExist, Exists, In, NotIn";
                    let path = format!("{path}.operator");
                    self.fault(&path, Reason::UnknownOperator, description);
                    true
                }
            };
            if !is_right {
                let description = "must have the number of values that the operator requires";
                let path = format!("{path}.values");
                self.fault(&path, Reason::OperatorValues, description);
            }
            if !is_qualified_name(text(requirement, "key")) {
                let description = "is not a valid label key";
                self.fault(&format!("{path}.key"), Reason::InvalidLabelKey, description);
            }
        }
    }

    fn weight(&mut self, term: &Value, path: &str) {
        let weight = number(term, "weight").unwrap_or(0);
        if !(1..=100).contains(&weight) {
            let description = "must be between 1 and 100";
            self.fault(&format!("{path}.weight"), Reason::OutOfRange, description);
        }
    }

    fn node_requirement(&mut self, requirement: &Value, path: &str) {
        let values = items(requirement, "values", path).len();
        let is_right = match text(requirement, "operator") {
            "In" | "NotIn" => values > 0,
            "Exists" | "DoesNotExist" => values == 0,
            "Gt" | "Lt" => values == 1,
            _ => {
                let description = format!("must be one of {}", NODE_OPERATORS.join(", "));
                self.fault(
                    &format!("{path}.operator"),
                    Reason::UnknownOperator,
                    description,
                );
                true
            }
        };
        if !is_right {
            let description = "must have the number of values that the operator requires";
            self.fault(
                &format!("{path}.values"),
                Reason::OperatorValues,
                description,
            );
        }
        if !is_qualified_name(text(requirement, "key")) {
            let description = "is not a valid label key";
            self.fault(&format!("{path}.key"), Reason::InvalidLabelKey, description);
        }
    }

    /// Checks the volumes, and returns the names of those that containers can mount.
    fn volumes<'v>(&mut self, spec: &'v Value) -> BTreeSet<&'v str> {
        let mut names = BTreeSet::new();
        for (path, volume) in items(spec, "volumes", ".spec") {
            self.name(volume, &path, &mut names);
            let sources = volume.as_map().into_iter().flatten();
            let sources = sources.filter(|(key, value)| *key != "name" && !value.is_null());
            let sources: Vec<_> = sources.collect();
            if sources.len() > 1 {
                let description = "must have exactly one source";
                self.fault(&path, Reason::Exclusive, description);
            }
            for (kind, source) in sources {
                self.source(kind, source, &format!("{path}.{kind}"), VOLUME_FIELDS);
                if kind == "projected" {
                    for (path, source) in items(source, "sources", &format!("{path}.{kind}")) {
                        let parts = source.as_map().into_iter().flatten();
                        for (kind, part) in parts.filter(|(_, part)| !part.is_null()) {
                            self.source(kind, part, &format!("{path}.{kind}"), PROJECTED_FIELDS);
                        }
                    }
                }
            }
        }
        names
    }

    /// A source of a volume.
    fn source(&mut self, kind: &str, source: &Value, path: &str, required: &[(&str, &[&str])]) {
        let fields = required.iter().find(|(name, _)| *name == kind);
        for key in fields.map_or(&[][..], |(_, fields)| *fields) {
            self.required(source, key, path);
        }
        self.mode(source, "defaultMode", path);
        let has_back_step = |key| text(source, key).split('/').any(|step| step == "..");
        match kind {
            "hostPath" => {
                self.one_of(source, "type", HOST_PATH_TYPES, path);
                if has_back_step("path") {
                    let path = format!("{path}.path");
                    self.fault(&path, Reason::InvalidValue, "must not contain \"..\"");
                }
            }
            "nfs" if !text(source, "path").starts_with('/') => {
                let path = format!("{path}.path");
                self.fault(&path, Reason::InvalidValue, "must be an absolute path");
            }
            "emptyDir" if nanos(source.get("sizeLimit")).is_some_and(|nanos| nanos < 0) => {
                let path = format!("{path}.sizeLimit");
                self.fault(&path, Reason::Negative, "may not be negative");
            }
            "serviceAccountToken" => {
                let seconds = number(source, "expirationSeconds");
                if seconds.is_some_and(|seconds| seconds < TOKEN_SECONDS_MIN) {
                    let description = "must be at least 600, which is 10 minutes";
                    let path = format!("{path}.expirationSeconds");
                    self.fault(&path, Reason::OutOfRange, description);
                }
            }
            _ => {}
        }
        for (path, item) in items(source, "items", path) {
            if matches!(kind, "configMap" | "secret") {
                self.required(item, "key", &path);
            }
            if self.required(item, "path", &path) {
                self.inner_path(item, "path", &path);
            }
            self.mode(item, "mode", &path);
            if let Some(field) = item.get("fieldRef").filter(|it| !it.is_null()) {
                let path = format!("{path}.fieldRef.fieldPath");
                self.pod_field(text(field, "fieldPath"), VOLUME_POD_FIELDS, &path);
            }
        }
    }

    fn mode(&mut self, value: &Value, key: &str, path: &str) {
        let is_wrong = |mode| !(0..=MODE_MAX).contains(&mode);
        if number(value, key).is_some_and(is_wrong) {
            let description = "must be between 0 and 0777 (octal), which is 511";
            self.fault(&format!("{path}.{key}"), Reason::OutOfRange, description);
        }
    }

    /// A path that stays inside of a volume.
    fn inner_path(&mut self, value: &Value, key: &str, path: &str) {
        let inner = text(value, key);
        if inner.starts_with('/') || inner.split('/').any(|step| step == "..") {
            let description = "must be a relative path without \"..\"";
            self.fault(&format!("{path}.{key}"), Reason::InvalidValue, description);
        }
    }

    fn container<'v>(
        &mut self,
        container: &'v Value,
        path: &str,
        volumes: &BTreeSet<&str>,
        names: &mut BTreeSet<&'v str>,
    ) {
        self.name(container, path, names);
        self.required(container, "image", path);
        self.one_of(container, "imagePullPolicy", PULL_POLICIES, path);
        self.one_of(
            container,
            "terminationMessagePolicy",
            MESSAGE_POLICIES,
            path,
        );
        self.ports(container, path);
        self.environment(container, path);
        let mut mounted = BTreeSet::new();
        for (path, mount) in items(container, "volumeMounts", path) {
            if self.required(mount, "name", &path) && !volumes.contains(text(mount, "name")) {
                let description = "no volume has this name";
                self.fault(&format!("{path}.name"), Reason::NotFound, description);
            }
            if self.required(mount, "mountPath", &path) && !mounted.insert(text(mount, "mountPath"))
            {
                let description = "another mount has this path";
                self.fault(&format!("{path}.mountPath"), Reason::Duplicate, description);
            }
            self.one_of(mount, "mountPropagation", PROPAGATIONS, &path);
            self.inner_path(mount, "subPath", &path);
            self.inner_path(mount, "subPathExpr", &path);
            if !is_empty(mount, "subPath") && !is_empty(mount, "subPathExpr") {
                let description = "excludes subPath";
                self.fault(
                    &format!("{path}.subPathExpr"),
                    Reason::Exclusive,
                    description,
                );
            }
        }
        for (path, device) in items(container, "volumeDevices", path) {
            if self.required(device, "name", &path) && !volumes.contains(text(device, "name")) {
                let description = "no volume has this name";
                self.fault(&format!("{path}.name"), Reason::NotFound, description);
            }
            self.required(device, "devicePath", &path);
        }
        for (path, policy) in items(container, "resizePolicy", path) {
            self.one_of(policy, "resourceName", RESIZED, &path);
            self.one_of(policy, "restartPolicy", RESIZE_POLICIES, &path);
        }
        let resources = container.get("resources").unwrap_or(&Value::Null);
        self.resources(resources, &format!("{path}.resources"));
        let context = container.get("securityContext").unwrap_or(&Value::Null);
        let path = format!("{path}.securityContext");
        self.security(context, &path);
        self.one_of(context, "procMount", PROC_MOUNTS, &path);
        let shares_users = self.spec.get("hostUsers") != Some(&Value::from(false));
        if shares_users && text(context, "procMount") == "Unmasked" {
            let description = "cannot be Unmasked unless hostUsers is false";
            let path = format!("{path}.procMount");
            self.fault(&path, Reason::InvalidValue, description);
        }
        let added = context
            .at(&["capabilities", "add"])
            .and_then(Value::as_list);
        let mut added = added.unwrap_or_default().iter();
        let is_admin = added.any(|it| it.as_str() == Some("CAP_SYS_ADMIN"));
        let is = |key, value| context.get(key) == Some(&Value::from(value));
        if is("allowPrivilegeEscalation", false) && (is("privileged", true) || is_admin) {
            let description = "cannot be false in a privileged container, or with CAP_SYS_ADMIN";
            let path = format!("{path}.allowPrivilegeEscalation");
            self.fault(&path, Reason::InvalidValue, description);
        }
    }

    fn ports(&mut self, container: &Value, path: &str) {
        let mut names = BTreeSet::new();
        for (path, port) in items(container, "ports", path) {
            self.one_of(port, "protocol", PROTOCOLS, &path);
            self.port_number(
                number(port, "containerPort").unwrap_or(0),
                &format!("{path}.containerPort"),
            );
            if let Some(host) = number(port, "hostPort").filter(|port| *port != 0) {
                self.port_number(host, &format!("{path}.hostPort"));
            }
            let name = text(port, "name");
            if name.is_empty() {
                continue;
            }
            self.port_name(name, &format!("{path}.name"));
            if !names.insert(name) {
                self.fault(
                    &format!("{path}.name"),
                    Reason::Duplicate,
                    "another port has this name",
                );
            }
        }
    }

    fn port_number(&mut self, port: i64, path: &str) {
        if !(1..=65535).contains(&port) {
            self.fault(path, Reason::OutOfRange, "must be between 1 and 65535");
        }
    }

    /// As IsValidPortName in Kubernetes.
    fn port_name(&mut self, name: &str, path: &str) {
        let bytes = name.as_bytes();
        let is_part =
            |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-';
        let is_valid = bytes.len() <= 15
            && bytes.iter().all(is_part)
            && bytes.iter().any(u8::is_ascii_lowercase)
            && !name.contains("--")
            && !name.starts_with('-')
            && !name.ends_with('-');
        if !is_valid {
            let description =
                "is not the name of a port: at most 15 of a-z, 0-9 and '-', with a letter";
            self.fault(path, Reason::InvalidName, description);
        }
    }

    /// Ports of the host: those of a pod in the network of its host are the ports of its containers.
    fn host_ports(&mut self, spec: &Value, container: &Value, path: &str) {
        if spec.get("hostNetwork") != Some(&Value::from(true)) {
            return;
        }
        for (path, port) in items(container, "ports", path) {
            let host = number(port, "hostPort").unwrap_or(0);
            if host != 0 && Some(host) != number(port, "containerPort") {
                let description = "must be the containerPort if hostNetwork is true";
                self.fault(
                    &format!("{path}.hostPort"),
                    Reason::InvalidValue,
                    description,
                );
            }
        }
    }

    fn environment(&mut self, container: &Value, path: &str) {
        for (path, variable) in items(container, "env", path) {
            if self.required(variable, "name", &path) && !is_variable_name(text(variable, "name")) {
                let description = "must be printable ASCII without '='";
                self.fault(&format!("{path}.name"), Reason::InvalidName, description);
            }
            let Some(source) = variable.get("valueFrom").filter(|it| !it.is_null()) else {
                continue;
            };
            let path = format!("{path}.valueFrom");
            if !is_empty(variable, "value") {
                self.fault(&path, Reason::Exclusive, "excludes value");
            }
            self.exactly_one(source, ENV_SOURCES, &path);
            for key in ["configMapKeyRef", "secretKeyRef"] {
                if let Some(reference) = source.get(key).filter(|it| !it.is_null()) {
                    let path = format!("{path}.{key}");
                    self.required(reference, "name", &path);
                    if self.required(reference, "key", &path) {
                        self.config_key(text(reference, "key"), &format!("{path}.key"));
                    }
                }
            }
            if let Some(field) = source.get("fieldRef").filter(|it| !it.is_null()) {
                let path = format!("{path}.fieldRef");
                if self.required(field, "fieldPath", &path) {
                    let field = text(field, "fieldPath");
                    self.pod_field(field, POD_FIELDS, &format!("{path}.fieldPath"));
                }
            }
            if let Some(field) = source.get("resourceFieldRef").filter(|it| !it.is_null()) {
                let path = format!("{path}.resourceFieldRef");
                let resource = text(field, "resource");
                let of_huge_pages = ["limits.hugepages-", "requests.hugepages-"];
                if self.required(field, "resource", &path)
                    && !of_huge_pages.iter().any(|it| resource.starts_with(it))
                {
                    self.one_of(field, "resource", CONTAINER_RESOURCES, &path);
                }
            }
        }
        for (path, source) in items(container, "envFrom", path) {
            self.exactly_one(source, &["configMapRef", "secretRef"], &path);
            for key in ["configMapRef", "secretRef"] {
                if let Some(reference) = source.get(key).filter(|it| !it.is_null()) {
                    let path = format!("{path}.{key}");
                    self.required(reference, "name", &path);
                    self.subdomain(reference, "name", &path);
                }
            }
            if !is_variable_name(text(source, "prefix")) {
                let description = "must be printable ASCII without '='";
                let path = format!("{path}.prefix");
                self.fault(&path, Reason::InvalidName, description);
            }
        }
    }

    /// As IsConfigMapKey in Kubernetes.
    fn config_key(&mut self, key: &str, path: &str) {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        if key.len() > 253 || !key.bytes().all(is_part) || key == "." || key.starts_with("..") {
            let description = "is not a key of a ConfigMap or Secret: at most 253 of a-z, A-Z, 0-9, '-', '_' and '.'";
            self.fault(path, Reason::InvalidName, description);
        }
    }

    /// A field of the pod, for example "metadata.labels['app']".
    fn pod_field(&mut self, field: &str, fields: &[&str], path: &str) {
        let entry_of = |map: &str| field.strip_prefix(map)?.strip_suffix("']");
        let is_right = match (
            entry_of("metadata.labels['"),
            entry_of("metadata.annotations['"),
        ) {
            (Some(key), _) => is_qualified_name(key),
            (None, Some(key)) => is_qualified_name(&key.to_ascii_lowercase()),
            (None, None) => fields.contains(&field),
        };
        if !is_right {
            let description = format!(
                "must be an entry of metadata.labels or metadata.annotations, or one of {}",
                fields.join(", ")
            );
            self.fault(path, Reason::InvalidValue, description);
        }
    }

    fn resources(&mut self, resources: &Value, path: &str) {
        let quantities = |key: &str| {
            let entries = resources.get(key).and_then(Value::as_map);
            let entries = entries.into_iter().flatten();
            let entries =
                entries.filter_map(|(name, value)| Some((name.clone(), nanos(Some(value))?)));
            entries.collect::<BTreeMap<String, i128>>()
        };
        let (limits, requests) = (quantities("limits"), quantities("requests"));
        for (key, values) in [("limits", &limits), ("requests", &requests)] {
            for (name, nanos) in values {
                let path = format!("{path}.{key}[{name:?}]");
                if *nanos < 0 {
                    self.fault(&path, Reason::Negative, "may not be negative");
                }
                let is_standard = matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage")
                    || name.starts_with("hugepages-");
                if name.contains('/') && nanos % NANOS != 0 {
                    self.fault(&path, Reason::InvalidValue, "must be a whole number");
                }
                let page = name.strip_prefix("hugepages-").and_then(Quantity::parse);
                let page = page.and_then(|page| page.to_nanos());
                if page.is_some_and(|page| page <= 0 || *nanos <= 0 || nanos % page != 0) {
                    let description = "must be a multiple of the size of a page";
                    self.fault(&path, Reason::InvalidValue, description);
                }
                if !is_standard && (!name.contains('/') || !is_qualified_name(name)) {
                    let description = "is not a resource that containers have";
                    self.fault(&path, Reason::InvalidName, description);
                }
            }
        }
        let mut names = limits.keys().chain(requests.keys());
        if names.clone().any(|name| name.starts_with("hugepages-"))
            && !names.any(|name| matches!(name.as_str(), "cpu" | "memory"))
        {
            let description = "must have cpu or memory with huge pages";
            self.fault(path, Reason::Required, description);
        }
        let claims = items(self.spec, "resourceClaims", "");
        for (path, claim) in items(resources, "claims", path) {
            let name = text(claim, "name");
            if !claims.iter().any(|(_, it)| text(it, "name") == name) {
                let description = "no resource claim of the pod has this name";
                self.fault(&format!("{path}.name"), Reason::NotFound, description);
            }
        }
        for (name, request) in &requests {
            let is_overcommitted = matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage");
            let path = format!("{path}.requests[{name:?}]");
            match limits.get(name) {
                Some(limit) if is_overcommitted && request > limit => {
                    self.fault(&path, Reason::OutOfRange, "must be at most the limit");
                }
                Some(limit) if !is_overcommitted && request != limit => {
                    self.fault(&path, Reason::OutOfRange, "must be equal to the limit");
                }
                None if !is_overcommitted => {
                    self.fault(&path, Reason::Required, "needs a limit");
                }
                _ => {}
            }
        }
    }

    /// The probes and the lifecycle of a container.
    fn probes(&mut self, container: &Value, path: &str) {
        for key in ["livenessProbe", "readinessProbe", "startupProbe"] {
            let Some(probe) = container.get(key).filter(|it| !it.is_null()) else {
                continue;
            };
            let path = format!("{path}.{key}");
            self.handler(probe, &path);
            for key in [
                "initialDelaySeconds",
                "timeoutSeconds",
                "periodSeconds",
                "successThreshold",
                "failureThreshold",
            ] {
                self.not_negative(probe, key, &path);
            }
            let threshold = number(probe, "successThreshold");
            if key != "readinessProbe" && threshold != Some(1) {
                let description = "must be 1";
                self.fault(
                    &format!("{path}.successThreshold"),
                    Reason::InvalidValue,
                    description,
                );
            }
            let grace = number(probe, "terminationGracePeriodSeconds");
            if grace.is_some_and(|grace| grace <= 0 || key == "readinessProbe") {
                let description = "must be above zero, and absent in a readiness probe";
                let path = format!("{path}.terminationGracePeriodSeconds");
                self.fault(&path, Reason::InvalidValue, description);
            }
        }
        for key in ["postStart", "preStop"] {
            let handler = container.at(&["lifecycle", key]);
            if let Some(handler) = handler.filter(|it| !it.is_null()) {
                self.handler(handler, &format!("{path}.lifecycle.{key}"));
            }
        }
    }

    /// A handler of a probe or of the lifecycle.
    fn handler(&mut self, handler: &Value, path: &str) {
        self.exactly_one(handler, HANDLERS, path);
        for key in ["httpGet", "tcpSocket", "grpc"] {
            let Some(action) = handler.get(key).filter(|it| !it.is_null()) else {
                continue;
            };
            let path = format!("{path}.{key}");
            self.one_of(action, "scheme", SCHEMES, &path);
            for (path, header) in items(action, "httpHeaders", &path) {
                let name = text(header, "name");
                let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
                if name.is_empty() || !name.bytes().all(is_part) {
                    let description = "is not the name of an HTTP header";
                    self.fault(&format!("{path}.name"), Reason::InvalidName, description);
                }
            }
            let path = format!("{path}.port");
            match action.get("port") {
                Some(Value::String(name)) => self.port_name(name, &path),
                port => {
                    let port = port.and_then(Value::as_number);
                    self.port_number(port.and_then(|it| it.as_i64()).unwrap_or(0), &path);
                }
            }
        }
        let sleep = handler.get("sleep");
        if let Some(seconds) = sleep.and_then(|it| number(it, "seconds")) {
            let grace = number(self.spec, "terminationGracePeriodSeconds");
            if seconds < 0 || grace.is_some_and(|grace| seconds > grace) {
                let description = "must be between 0 and terminationGracePeriodSeconds";
                let path = format!("{path}.sleep.seconds");
                self.fault(&path, Reason::OutOfRange, description);
            }
        }
        if let Some(exec) = handler.get("exec").filter(|it| !it.is_null())
            && items(exec, "command", path).is_empty()
        {
            self.fault(
                &format!("{path}.exec.command"),
                Reason::Required,
                "is required",
            );
        }
    }
}
