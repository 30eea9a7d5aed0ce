//! The rules that the API server has for the template of a Deployment, in addition to the types of its fields.
//!
//! Kubernetes source: `ValidatePodTemplateSpecForReplicaSet` in `pkg/apis/apps/validation`, and `ValidatePodTemplateSpec` in
//! `pkg/apis/core/validation`. Rules for storage of vendors, for Windows and for sysctls are left to the API server.

use std::collections::{BTreeMap, BTreeSet};

use rollplan_core::template::{Quantity, Value};

use super::Parser;
use super::name::{is_dns_label, is_dns_subdomain, is_qualified_name};
use super::path::Path;
use crate::wire::error::Reason;

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

impl Parser<'_> {
    /// Checks a template with the types of Kubernetes that has its defaults.
    pub(super) fn pod_template(&mut self, template: &Value, path: &Path<'_>) {
        let strings = |key| {
            let entries = template.at(&["metadata", key]).and_then(Value::as_map);
            let entries = entries.into_iter().flatten();
            let entries = entries.map(|(key, value)| {
                let value = value.as_str().unwrap_or_default();
                (key.clone(), value.to_owned())
            });
            entries.collect::<BTreeMap<String, String>>()
        };
        let metadata = path.field("metadata");
        self.labels(&strings("labels"), &metadata.field("labels"));
        self.annotations(&strings("annotations"), &metadata.field("annotations"));
        let mut rules = Rules {
            parser: self,
            template: path,
        };
        rules.pod(template.get("spec").unwrap_or(&Value::Null));
    }
}

/// Checks values at paths below a template.
struct Rules<'p, 'i> {
    parser: &'p mut Parser<'i>,
    template: &'p Path<'p>,
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
        let selector = spec.get("nodeSelector").and_then(Value::as_map);
        let selector = selector.into_iter().flatten().map(|(key, value)| {
            let value = value.as_str().unwrap_or_default();
            (key.clone(), value.to_owned())
        });
        let selector_path = self.template.text(".spec.nodeSelector");
        self.parser.labels(&selector.collect(), &selector_path);
        self.placement(spec);
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
                let description = "must be Exists if there is no key";
                self.fault(
                    &format!("{path}.operator"),
                    Reason::InvalidValue,
                    description,
                );
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
            }
        }
        for kind in ["podAffinity", "podAntiAffinity"] {
            let affinity = affinity.get(kind).unwrap_or(&Value::Null);
            let path = format!(".spec.affinity.{kind}");
            for (path, term) in items(affinity, required, &path) {
                self.required(term, "topologyKey", &path);
            }
            let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
            for (path, term) in items(affinity, preferred, &path) {
                let weight = number(term, "weight").unwrap_or(0);
                if !(1..=100).contains(&weight) {
                    let description = "must be between 1 and 100";
                    self.fault(&format!("{path}.weight"), Reason::OutOfRange, description);
                }
                let term = term.get("podAffinityTerm").unwrap_or(&Value::Null);
                self.required(term, "topologyKey", &format!("{path}.podAffinityTerm"));
            }
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
        // Claims of resources are no volumes.
        names
    }

    /// A source of a volume.
    fn source(&mut self, kind: &str, source: &Value, path: &str, required: &[(&str, &[&str])]) {
        let fields = required.iter().find(|(name, _)| *name == kind);
        for key in fields.map_or(&[][..], |(_, fields)| *fields) {
            self.required(source, key, path);
        }
        self.mode(source, "defaultMode", path);
        for (path, item) in items(source, "items", path) {
            if matches!(kind, "configMap" | "secret") {
                self.required(item, "key", &path);
            }
            if self.required(item, "path", &path) {
                self.inner_path(item, "path", &path);
            }
            self.mode(item, "mode", &path);
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
        let resources = container.get("resources").unwrap_or(&Value::Null);
        self.resources(resources, &format!("{path}.resources"));
        let context = container.get("securityContext").unwrap_or(&Value::Null);
        let path = format!("{path}.securityContext");
        self.not_negative(context, "runAsUser", &path);
        self.not_negative(context, "runAsGroup", &path);
        let is = |key, value| context.get(key) == Some(&Value::from(value));
        if is("allowPrivilegeEscalation", false) && is("privileged", true) {
            let description = "cannot be false in a privileged container";
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
            if self.required(variable, "name", &path) {
                let name = text(variable, "name");
                // As IsRelaxedEnvVarName in Kubernetes.
                if !name
                    .bytes()
                    .all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=')
                {
                    let description = "must be printable ASCII without '='";
                    self.fault(&format!("{path}.name"), Reason::InvalidName, description);
                }
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
                    self.required(reference, "key", &path);
                }
            }
            if let Some(field) = source.get("fieldRef").filter(|it| !it.is_null()) {
                self.required(field, "fieldPath", &format!("{path}.fieldRef"));
            }
        }
        for (path, source) in items(container, "envFrom", path) {
            self.exactly_one(source, &["configMapRef", "secretRef"], &path);
            for key in ["configMapRef", "secretRef"] {
                if let Some(reference) = source.get(key).filter(|it| !it.is_null()) {
                    self.required(reference, "name", &format!("{path}.{key}"));
                }
            }
        }
    }

    fn resources(&mut self, resources: &Value, path: &str) {
        let quantities = |key: &str| {
            let entries = resources.get(key).and_then(Value::as_map);
            let entries = entries.into_iter().flatten();
            let entries = entries.filter_map(|(name, value)| {
                let quantity = match value {
                    Value::String(text) => Quantity::parse(text),
                    Value::Number(number) => Quantity::parse(&number.to_string()),
                    _ => None,
                };
                Some((name.clone(), quantity?.to_nanos()?))
            });
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
                if !is_standard && (!name.contains('/') || !is_qualified_name(name)) {
                    let description = "is not a resource that containers have";
                    self.fault(&path, Reason::InvalidName, description);
                }
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
            let path = format!("{path}.port");
            match action.get("port") {
                Some(Value::String(name)) => self.port_name(name, &path),
                port => {
                    let port = port.and_then(Value::as_number);
                    self.port_number(port.and_then(|it| it.as_i64()).unwrap_or(0), &path);
                }
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
