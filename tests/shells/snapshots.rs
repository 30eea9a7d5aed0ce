//! Snapshots that are rolled back or planned.

use std::path::Path;

use serde_json::{Value, json};

/// The command of rollplan and its input.
pub(super) struct Rollout {
    pub(super) verb: &'static str,
    pub(super) input: String,
    pub(super) now: String,
}

/// Runs a command in every shell unless it is quoted.
const IMAGE: &str = "x$(touch pwned):latest";

/// Characters that have a meaning for shells, terminals and JSON parsers.
const TEXT: &str = "it's \"quoted\" `touch pwned`; touch pwned\n'; touch pwned; '\n\\' \\\\ \\\n\nEOF\n!touch !! ^a^b\t\
                    \u{1b}[31m\u{1b}[201~\u{9b}2J\u{202e} %s {a,b} ~ * # ü🦀 \r\u{3}\u{4}\u{15}";

/// A file in examples/, with the time of its snapshot.
pub(super) fn example(name: &str, verb: &'static str) -> Rollout {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let input = std::fs::read_to_string(folder.join(format!("{name}.json"))).unwrap();
    let readme = std::fs::read_to_string(folder.join("README.md")).unwrap();
    let row = readme
        .lines()
        .find(|line| line.starts_with(&format!("| [{name}.json]")));
    let now = row
        .unwrap()
        .rsplit('|')
        .map(str::trim)
        .find(|cell| !cell.is_empty());
    Rollout {
        verb,
        input,
        now: now.unwrap().trim_matches('`').to_owned(),
    }
}

/// A Deployment with the template `current`, a ReplicaSet of this template, and one of the template `earlier`.
fn deployment(verb: &'static str, earlier: &Value, current: &Value) -> Rollout {
    let owner = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d", "controller": true,
                       "blockOwnerDeletion": true});
    let labelled = |template: &Value, labels: &Value| {
        let mut template = template.clone();
        template["metadata"]["labels"] = labels.clone();
        template
    };
    let set = |hash: &str, revision: &str, replicas: i32, template: &Value| {
        let labels = json!({"app": "web", "pod-template-hash": hash});
        json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {
                "name": format!("web-{hash}"), "namespace": "shop", "uid": hash, "resourceVersion": "5", "generation": 1,
                "labels": labels, "ownerReferences": [owner],
                "annotations": {"deployment.kubernetes.io/revision": revision},
            },
            "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": labelled(template, &labels)},
            "status": {"observedGeneration": 1, "replicas": replicas, "readyReplicas": replicas,
                       "availableReplicas": replicas, "terminatingReplicas": 0},
        })
    };
    let labels = json!({"app": "web"});
    let web = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "uid": "d", "resourceVersion": "9", "generation": 2,
                     "annotations": {"deployment.kubernetes.io/revision": "2"}},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": labelled(current, &labels)},
    });
    // A plan creates the ReplicaSet of the current template.
    let mut items = vec![web, set("1", "1", 1, earlier)];
    if verb == "undo" {
        items.push(set("2", "2", 0, current));
    }
    Rollout {
        verb,
        input: json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string(),
        now: "2026-11-20T12:00:00Z".to_owned(),
    }
}

fn template(image: &str, annotation: &str) -> Value {
    json!({
        "metadata": {"annotations": {"note": annotation}},
        "spec": {"containers": [{"name": "app", "image": image, "args": [annotation]}]},
    })
}

pub(super) fn nasty(verb: &'static str) -> Rollout {
    let (nasty, plain) = (template(IMAGE, TEXT), template("web:2", "plain"));
    match verb {
        "undo" => deployment(verb, &nasty, &plain),
        _ => deployment(verb, &plain, &nasty),
    }
}

/// A text that exceeds the line length of a terminal.
pub(super) fn long() -> Rollout {
    let long = format!("{TEXT}{}{TEXT}", "long'\\ ".repeat(300));
    deployment("undo", &template(IMAGE, &long), &template("web:2", "plain"))
}

/// A body that exceeds the size of an argument.
pub(super) fn large() -> Rollout {
    let large = "large text ".repeat(6500);
    deployment(
        "plan",
        &template("web:1", "plain"),
        &template(IMAGE, &format!("{large}{TEXT}")),
    )
}

pub(super) fn environment() -> Rollout {
    let mut earlier = template("web:1", "plain");
    earlier["spec"]["containers"][0]["env"] = json!([{"name": "TOKEN", "value": "secret"}]);
    deployment("undo", &earlier, &template("web:2", "plain"))
}

pub(super) fn newest_is_stuck() -> Rollout {
    deployment(
        "undo",
        &template("web:1", "plain"),
        &template("web:2", "plain"),
    )
}
