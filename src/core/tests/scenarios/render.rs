//! Plans as readable text.

use rollplan_core::Plan;
use rollplan_core::action::{
    Action, NewReplicaSet, OnFailure, OwnerChange, SetChange, Step, Target, Verb,
};
use rollplan_core::selector::{LabelSelector, Operator};
use rollplan_core::snapshot::{Condition, DeploymentStatus, OwnerReference, StringMap};
use rollplan_core::template::Value;
use rollplan_core::time::Time;

/// The lines of a plan. Times are relative to `now`.
pub(super) fn plan(plan: &Plan, now: Time) -> Vec<String> {
    let Plan {
        steps,
        status,
        requeue_after,
        settled,
        exhausted: _,
    } = plan;
    let mut lines = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        lines.push(format!("{}. {}", index + 1, step.summary()));
        lines.extend(details(step).into_iter().map(|line| format!("   {line}")));
    }
    if steps.is_empty() {
        lines.push("nothing to do".to_owned());
    }
    lines.extend(status_lines(status, now));
    let again = requeue_after.map_or("unless something changes".to_owned(), |span| {
        match span.subsec_nanos() {
            0 => format!("in {}s", span.seconds()),
            nanos => format!("in {}.{nanos:09}s", span.seconds()),
        }
    });
    lines.push(match requeue_after {
        Some(_) => format!("ask again {again}"),
        None => format!("do not ask again {again}"),
    });
    lines.push(if *settled {
        "settled".to_owned()
    } else {
        "not settled: ask again once this is done".to_owned()
    });
    lines
}

fn details(step: &Step) -> Vec<String> {
    let Step {
        action,
        events,
        on_failure,
        reason: _,
    } = step;
    let mut lines = Vec::new();
    if let (Some(action), Some(call)) = (action, step.call()) {
        let subresource = match call.subresource.as_str() {
            "" => String::new(),
            subresource => format!("/{subresource}"),
        };
        let verb = match call.verb {
            Verb::Create => "create",
            Verb::Patch => "patch",
            Verb::Delete => "delete",
        };
        let conditions = preconditions(action);
        lines.push(format!(
            "{verb} {} {} {}/{}{subresource}{conditions}",
            call.api_version, call.kind, call.namespace, call.name
        ));
        lines.extend(contents(action));
    }
    for event in events {
        lines.push(format!(
            "event {} {}: {}",
            event.kind.as_str(),
            event.reason,
            event.message
        ));
    }
    match on_failure {
        OnFailure::Stop => {}
        OnFailure::Tolerate(codes) => {
            let codes: Vec<String> = codes.iter().map(i32::to_string).collect();
            lines.push(format!("continues after {}", codes.join(" or ")));
        }
        OnFailure::Continue => lines.push("continues after any failure".to_owned()),
    }
    lines
}

fn preconditions(action: &Action) -> String {
    let by_version = |target: &Target| match &target.resource_version {
        Some(version) => format!(", if uid {} version {version}", target.uid),
        None => format!(", if uid {}", target.uid),
    };
    match action {
        Action::CreateReplicaSet(_) => String::new(),
        Action::UpdateReplicaSet { set, .. } | Action::ScaleReplicaSet { set, .. } => {
            format!(", if uid {} generation {}", set.uid, set.generation)
        }
        Action::CheckOwner { owner: target }
        | Action::AdoptReplicaSet { set: target, .. }
        | Action::ReleaseReplicaSet { set: target, .. }
        | Action::DeleteReplicaSet { set: target }
        | Action::UpdateDeployment { owner: target, .. }
        | Action::UpdateDeploymentStatus { owner: target, .. } => by_version(target),
    }
}

fn contents(action: &Action) -> Vec<String> {
    match action {
        Action::CheckOwner { .. } | Action::DeleteReplicaSet { .. } => vec![],
        Action::AdoptReplicaSet {
            owner_references, ..
        }
        | Action::ReleaseReplicaSet {
            owner_references, ..
        } => vec![owners(owner_references)],
        Action::CreateReplicaSet(set) => created(set),
        Action::UpdateReplicaSet { change, .. } | Action::ScaleReplicaSet { change, .. } => {
            changed(change)
        }
        Action::UpdateDeployment { change, .. } => owner_changed(change),
        Action::UpdateDeploymentStatus { revision, .. } => revision
            .iter()
            .map(|revision| format!("annotations: revision={revision}"))
            .collect(),
    }
}

fn created(set: &NewReplicaSet) -> Vec<String> {
    let NewReplicaSet {
        metadata,
        replicas: _,
        min_ready_seconds,
        selector,
        template,
        revision,
    } = set;
    vec![
        format!(
            "revision {revision}, minReadySeconds {min_ready_seconds}, labels: {}",
            pairs(&metadata.labels)
        ),
        format!("selector: {}", self::selector(selector)),
        format!("template: {}", self::template(template.value())),
        annotations(&metadata.annotations),
        owners(&metadata.owner_references),
    ]
}

fn changed(change: &SetChange) -> Vec<String> {
    let SetChange {
        annotations: added,
        first_annotations,
        min_ready_seconds,
    } = change;
    let mut lines = Vec::new();
    if !added.is_empty() {
        let first = if *first_annotations { "the first " } else { "" };
        lines.push(format!("{first}{}", annotations(added)));
    }
    lines.extend(min_ready_seconds.map(|seconds| format!("minReadySeconds {seconds}")));
    lines
}

fn owner_changed(change: &OwnerChange) -> Vec<String> {
    let OwnerChange {
        annotations: added,
        removed_annotations,
        all_annotations,
        template: new,
    } = change;
    let mut lines = Vec::new();
    if !added.is_empty() {
        lines.push(annotations(added));
    }
    if !removed_annotations.is_empty() {
        let names: Vec<&str> = removed_annotations.iter().map(|name| short(name)).collect();
        lines.push(format!("removes annotations: {}", names.join(" ")));
    }
    lines.push(format!("leaves {}", annotations(all_annotations)));
    lines.extend(new.iter().map(|new| format!("template: {}", template(new))));
    lines
}

fn owners(owners: &[OwnerReference]) -> String {
    let owners = owners.iter().map(|owner| {
        let OwnerReference {
            api_version,
            kind,
            name,
            uid,
            controller,
            block_owner_deletion,
        } = owner;
        let controller = if *controller == Some(true) {
            ", controller"
        } else {
            ""
        };
        let block = if *block_owner_deletion == Some(true) {
            ", blocks deletion"
        } else {
            ""
        };
        format!("{api_version} {kind} {name} (uid {uid}{controller}{block})")
    });
    let owners: Vec<String> = owners.collect();
    match owners.as_slice() {
        [] => "owners: none".to_owned(),
        owners => format!("owners: {}", owners.join("; ")),
    }
}

fn annotations(map: &StringMap) -> String {
    if map.is_empty() {
        "annotations: none".to_owned()
    } else {
        format!("annotations: {}", pairs(map))
    }
}

fn pairs(map: &StringMap) -> String {
    let pairs = map
        .iter()
        .map(|(key, value)| format!("{}={value}", short(key)));
    pairs.collect::<Vec<_>>().join(" ")
}

/// Annotations of Kubernetes are shortened to their last part.
fn short(key: &str) -> &str {
    key.strip_prefix("deployment.kubernetes.io/").unwrap_or(key)
}

fn selector(selector: &LabelSelector) -> String {
    let expressions = selector.match_expressions.iter().map(|requirement| {
        let key = &requirement.key;
        match &requirement.operator {
            Operator::In(values) => format!("{key} in {values:?}"),
            Operator::NotIn(values) => format!("{key} not in {values:?}"),
            Operator::Exists => format!("{key} exists"),
            Operator::DoesNotExist => format!("{key} does not exist"),
        }
    });
    std::iter::once(pairs(&selector.match_labels))
        .chain(expressions)
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

fn template(template: &Value) -> String {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or("?").to_owned();
    let containers = template
        .at(&["spec", "containers"])
        .and_then(Value::as_list);
    let image = containers.and_then(|list| text(list.first()?.get("image")).into());
    let labels = template.at(&["metadata", "labels"]).and_then(Value::as_map);
    let labels = labels
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", text(Some(value))));
    format!(
        "image {}, labels: {}",
        image.unwrap_or_else(|| "?".to_owned()),
        labels.collect::<Vec<_>>().join(" ")
    )
}

fn status_lines(status: &DeploymentStatus, now: Time) -> Vec<String> {
    let DeploymentStatus {
        observed_generation,
        replicas,
        updated_replicas,
        ready_replicas,
        available_replicas,
        unavailable_replicas,
        terminating_replicas,
        collision_count,
        conditions,
    } = status;
    let mut line = format!(
        "status: observed {observed_generation}, pods {replicas}, updated {updated_replicas}, \
         ready {ready_replicas}, available {available_replicas}, unavailable {unavailable_replicas}"
    );
    if let Some(count) = terminating_replicas {
        line += &format!(", terminating {count}");
    }
    if let Some(count) = collision_count {
        line += &format!(", collisions {count}");
    }
    let mut lines = vec![line];
    lines.extend(
        conditions
            .iter()
            .map(|condition| self::condition(condition, now)),
    );
    lines
}

fn condition(condition: &Condition, now: Time) -> String {
    let Condition {
        kind,
        status,
        reason,
        message,
        last_update_time,
        last_transition_time,
    } = condition;
    format!(
        "{kind} {status} {reason} (updated {}, changed {}): {message}",
        when(*last_update_time, now),
        when(*last_transition_time, now)
    )
}

fn when(time: Option<Time>, now: Time) -> String {
    let Some(time) = time else {
        return "never".to_owned();
    };
    let seconds = time.seconds() - now.seconds();
    let (sign, count) = match seconds {
        0 => return "now".to_owned(),
        1.. => ("+", seconds),
        _ => ("-", -seconds),
    };
    match count {
        _ if count % 3600 == 0 => format!("{sign}{}h", count / 3600),
        _ if count % 60 == 0 => format!("{sign}{}m", count / 60),
        _ => format!("{sign}{count}s"),
    }
}
