//! What a report reads out of the pod template: probes, ports and limits of the containers.

use rollplan_core::template::{Template, Value};

use super::text::{PROGRAM_MAX, one_line};

/// The kinds of probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProbeKind {
    Startup,
    Readiness,
    Liveness,
}

impl ProbeKind {
    /// Its name, as the events of the kubelet begin with it.
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

/// A container of a pod template, if the template has it.
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
        // An absent number is sent as 0 by some clients.
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
    } else if probe.get("exec").is_some() {
        // The command may contain a password.
        "a command".to_owned()
    } else {
        return None;
    };
    Some(one_line(&action, PROGRAM_MAX))
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
