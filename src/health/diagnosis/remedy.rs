//! What to change, by the texts of the API server, the scheduler and the kubelet.

use super::failure::definite::{missing_key, missing_object};

/// What to change so that the API server accepts the pods.
pub(crate) fn refused(message: &str, namespace: &str) -> String {
    let has = |text: &str| message.contains(text);
    if has("exceeded quota") {
        format!("raise the quota, or free some of it: kubectl describe quota -n {namespace}")
    } else if has("violates PodSecurity") {
        "set the securityContext that the message demands, or change the label pod-security.kubernetes.io/enforce of the \
         namespace"
            .to_owned()
    } else if has("usage per") {
        format!(
            "change the resources of the containers, or the limits: kubectl describe limitrange -n {namespace}"
        )
    } else if has("error looking up service account") {
        "create the ServiceAccount, or correct serviceAccountName".to_owned()
    } else if has("PriorityClass") {
        "create the PriorityClass, or correct priorityClassName".to_owned()
    } else if has("failed calling webhook") {
        "check that the webhook answers".to_owned()
    } else {
        "fix what the message reports".to_owned()
    }
}

/// What to change so that a node can run the pods.
pub(crate) fn unschedulable(message: &str, namespace: &str) -> String {
    let has = |text: &str| message.contains(text);
    if has("PersistentVolumeClaim") || has("persistentvolumeclaim") {
        format!("create or bind the claims: kubectl get pvc -n {namespace}")
    } else if has("Insufficient ") {
        "add or free resources, or lower the requests of the pods".to_owned()
    } else if has("free ports") {
        "set maxSurge to 0, or remove hostPort".to_owned()
    } else if has("untolerated taint") {
        "add a toleration to the template, or remove the taint of a node".to_owned()
    } else if has("node affinity") || has("node selector") {
        "label a node as the template demands, or correct its nodeSelector or affinity".to_owned()
    } else if has("were unschedulable") {
        "uncordon a node".to_owned()
    } else {
        "add or free resources, or lower the requests of the pods".to_owned()
    }
}

/// What to change so that the kubelet can create a container from its configuration.
pub(crate) fn config(message: &str, container: &str, namespace: &str) -> String {
    let has = |text: &str| message.contains(text);
    let change = if let Some((kind, name)) = missing_object(message) {
        return format!(
            "create the missing {kind} {name} in namespace {namespace}, or correct the reference to it"
        );
    } else if let Some((key, object)) = missing_key(message) {
        return format!("add key {key} to {object}, or correct the reference to it");
    } else if has("image has non-numeric user") {
        "set runAsUser of container {} to the numeric ID of the user"
    } else if has("runAsUser breaks non-root policy") {
        "set runAsUser of container {} to another user than 0"
    } else if has("runAsNonRoot") {
        "set runAsUser of container {} to another user than 0, or use an image that does not run as root"
    } else if has("no command specified") {
        "set the command of container {}, or use an image that has one"
    } else {
        "fix what the message reports"
    };
    change.replace("{}", container)
}

/// What to change so that a probe passes, by what it reports. `log` is the command that prints the log of the container.
pub(crate) fn probe(name: &str, message: &str, log: &str) -> String {
    let name = name.to_lowercase();
    let has = |text: &str| message.contains(text);
    let code = message.split_once("statuscode: ").map(|(_, code)| code);
    match code.and_then(|code| code.as_bytes().first()) {
        Some(b'4') if has(": 401") || has(": 403") => {
            format!("let its {name} probe pass without credentials, or correct its path")
        }
        Some(b'4') => format!("correct the path or the port of its {name} probe"),
        _ if has("connection refused") => {
            format!(
                "correct the port of its {name} probe, or check why nothing listens on it: {log}"
            )
        }
        _ if has("deadline exceeded") || has("timeout") || has("timed out") => {
            format!(
                "raise timeoutSeconds of its {name} probe, or check why the answer takes so long: {log}"
            )
        }
        _ => format!("check why its {name} probe fails: {log}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_errors_have_their_own_remedies() {
        for (message, expected) in [
            (
                "configmap \"web\" not found",
                "create the missing configmap web in namespace shop, or correct the reference to it",
            ),
            (
                "couldn't find key port in Secret shop/keys",
                "add key port to Secret shop/keys, or correct the reference to it",
            ),
            (
                "couldn't find key a.b in ConfigMap shop/web",
                "add key a.b to ConfigMap shop/web, or correct the reference to it",
            ),
            (
                "MountVolume.SetUp failed for volume \"tls\" : references non-existent secret key: tls.key",
                "add key tls.key to the Secret of the volume, or correct the reference to it",
            ),
            (
                "MountVolume.SetUp failed for volume \"c\" : configmap references non-existent config key: x",
                "add key x to the ConfigMap of the volume, or correct the reference to it",
            ),
            (
                "container has runAsNonRoot and image will run as root (pod: \"web\", container: web)",
                "set runAsUser of container web to another user than 0, or use an image that does not run as root",
            ),
            (
                "container has runAsNonRoot and image has non-numeric user (app), cannot verify user is non-root",
                "set runAsUser of container web to the numeric ID of the user",
            ),
            (
                "container's runAsUser breaks non-root policy (pod: \"web\", container: web)",
                "set runAsUser of container web to another user than 0",
            ),
            (
                "no command specified",
                "set the command of container web, or use an image that has one",
            ),
            ("something new", "fix what the message reports"),
        ] {
            assert_eq!(config(message, "web", "shop"), expected, "{message}");
        }
    }

    #[test]
    fn failing_probes_have_remedies_by_what_they_report() {
        for (message, expected) in [
            (
                "HTTP probe failed with statuscode: 404",
                "correct the path or the port of its readiness probe",
            ),
            (
                "HTTP probe failed with statuscode: 403",
                "let its readiness probe pass without credentials, or correct its path",
            ),
            (
                "HTTP probe failed with statuscode: 503",
                "check why its readiness probe fails: LOG",
            ),
            (
                "Get \"http://10.0.0.7:8080/ok\": dial tcp 10.0.0.7:8080: connect: connection refused",
                "correct the port of its readiness probe, or check why nothing listens on it: LOG",
            ),
            (
                "Get \"http://10.0.0.7:8080/ok\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)",
                "raise timeoutSeconds of its readiness probe, or check why the answer takes so long: LOG",
            ),
            ("", "check why its readiness probe fails: LOG"),
            ("not ready", "check why its readiness probe fails: LOG"),
        ] {
            assert_eq!(probe("Readiness", message, "LOG"), expected, "{message}");
        }
    }
}
