//! The parts of the pod template that reports use: probes, ports and limits of the containers.

use rollplan_core::template::{Template, Value};

use crate::text::{PROGRAM_MAX, one_line};

/// The kinds of probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProbeKind {
    Startup,
    Readiness,
    Liveness,
}

impl ProbeKind {
    /// The name with which events of the kubelet begin.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Startup => "Startup",
            Self::Readiness => "Readiness",
            Self::Liveness => "Liveness",
        }
    }
}

/// A probe of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Probe {
    /// What it does, for example "GET :8080/healthz".
    pub(super) action: String,
    /// Seconds from the start of the container until the kubelet kills it because the probe has failed.
    pub(super) budget: i64,
}

/// A container of a pod template, if it exists.
pub(super) fn container<'a>(template: &'a Template, name: &str, init: bool) -> Option<&'a Value> {
    let list = if init { "initContainers" } else { "containers" };
    let containers = template.value().at(&["spec", list])?;
    let mut containers = containers.as_list()?.iter();
    containers.find(|container| text(container, "name") == Some(name))
}

/// A probe of a container.
pub(super) fn probe(container: &Value, kind: ProbeKind) -> Option<Probe> {
    let probe = container.get(match kind {
        ProbeKind::Startup => "startupProbe",
        ProbeKind::Readiness => "readinessProbe",
        ProbeKind::Liveness => "livenessProbe",
    })?;
    let number = |field: &str, otherwise: i64| {
        let number = probe.get(field).and_then(Value::as_number);
        let number = number.and_then(|number| number.as_i64());
        // Some clients send 0 for an absent number.
        let number = number.filter(|number| *number > 0).unwrap_or(otherwise);
        number.min(i64::from(i32::MAX))
    };
    let action = action(container, probe)?;
    Some(Probe {
        action,
        budget: number("initialDelaySeconds", 0).saturating_add(
            number("failureThreshold", 3).saturating_mul(number("periodSeconds", 10)),
        ),
    })
}

/// The number of seconds that the containers have to end.
pub(super) fn grace_period(template: &Template) -> i64 {
    let grace = template
        .value()
        .at(&["spec", "terminationGracePeriodSeconds"]);
    let grace = grace.and_then(Value::as_number);
    grace.and_then(|grace| grace.as_i64()).unwrap_or(30)
}

/// The paths at which volumes are mounted into a container.
pub(super) fn mounts(container: &Value) -> impl Iterator<Item = &str> {
    let mounts = container.get("volumeMounts").and_then(Value::as_list);
    let mounts = mounts.unwrap_or_default().iter();
    mounts.filter_map(|mount| text(mount, "mountPath"))
}

/// The working directory of a container, unless it is that of the image.
pub(super) fn working_directory(container: &Value) -> Option<&str> {
    text(container, "workingDir").filter(|directory| !directory.is_empty())
}

/// The variable PATH of a container, if the template sets it to a text without references.
pub(super) fn search_path(container: &Value) -> Option<&str> {
    let variables = container.get("env")?.as_list()?;
    let path = variables
        .iter()
        .rfind(|it| text(it, "name") == Some("PATH"))?;
    text(path, "value").filter(|path| !path.contains("$("))
}

/// Whether an init container is a sidecar, which runs beside the other containers.
pub(super) fn is_sidecar(container: &Value) -> bool {
    text(container, "restartPolicy") == Some("Always")
}

/// The memory limit of a container.
pub(super) fn memory_limit(container: &Value) -> Option<String> {
    let limit = container.at(&["resources", "limits", "memory"])?;
    Some(one_line(limit.as_str()?, PROGRAM_MAX))
}

fn text<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value.get(field)?.as_str()
}

fn action(container: &Value, probe: &Value) -> Option<String> {
    let action = if let Some(get) = probe.get("httpGet") {
        let scheme = match text(get, "scheme") {
            Some("HTTPS") => "https://",
            _ => "",
        };
        let host = text(get, "host").unwrap_or_default();
        let path = text(get, "path").unwrap_or("/");
        let slash = if path.starts_with('/') { "" } else { "/" };
        format!("GET {scheme}{host}:{}{slash}{path}", port(container, get)?)
    } else if let Some(socket) = probe.get("tcpSocket") {
        let host = text(socket, "host").unwrap_or_default();
        format!("TCP {host}:{}", port(container, socket)?)
    } else if let Some(grpc) = probe.get("grpc") {
        format!("gRPC :{}", port(container, grpc)?)
    } else if let Some(exec) = probe.get("exec") {
        match exec.get("command").and_then(program) {
            Some(program) => format!("(command {program})"),
            None => "(command)".to_owned(),
        }
    } else {
        return None;
    };
    Some(one_line(&action, PROGRAM_MAX))
}

/// The program of a command. The rest may contain a password, and so may the rest of a command that is written as one word.
fn program(command: &Value) -> Option<&str> {
    let program = command.as_list()?.first()?.as_str()?;
    let program = program.split_whitespace().next()?;
    (!program.contains('=')).then_some(program)
}

/// The port of a probe: a number, or the name of a port of the container.
fn port(container: &Value, action: &Value) -> Option<String> {
    let port = action.get("port")?;
    let number = |port: &Value| port.as_number().map(|number| number.to_string());
    let Some(name) = port.as_str() else {
        return number(port);
    };
    let ports = container
        .get("ports")
        .and_then(Value::as_list)
        .unwrap_or_default();
    let named = ports.iter().find(|port| text(port, "name") == Some(name));
    let named = named.and_then(|port| number(port.get("containerPort")?));
    Some(named.unwrap_or_else(|| name.to_owned()))
}
