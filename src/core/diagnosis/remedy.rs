//! What to change, by the texts of the API server and of the scheduler.

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
