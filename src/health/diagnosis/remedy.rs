//! Remedies, derived from the texts of the scheduler.

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
