//! Files and directories with manifests: what is read, and what is skipped with a note.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use crate::cli::{Run, rollplan};

const NOW: &str = "--now=2026-01-01T01:00:00Z";
const WEB: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: 'web:1', envFrom: [{configMapRef: {name: app}}]}]}
";

/// A directory with these files.
fn directory(files: &[(&str, &str)]) -> TempDir {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for (name, text) in files {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    directory
}

/// Runs a command on a directory, whose name is removed from the notes.
fn run(args: &[&str], directory: &Path) -> Run {
    let path = directory.to_str().unwrap();
    let mut run = rollplan(&[args, &["-f", path, NOW]].concat(), "");
    run.err = run
        .err
        .replace(&format!("{path}/"), "")
        .replace(path, "DIR");
    run
}

fn uses(files: &[(&str, &str)], more: &[&str]) -> Run {
    let directory = directory(files);
    run(
        &[&["uses", "configmap/app"], more].concat(),
        directory.path(),
    )
}

#[test]
fn unreadable_files_of_a_directory_are_skipped_with_a_note() {
    for (name, text, expected) in [
        ("a.yaml", "a: [1", "a.yaml: line "),
        (
            "a.yaml",
            "kind: {{ .Values.kind }}\n",
            "a.yaml: line 1: this is a template: render it first, for example with helm template",
        ),
        (
            "kustomization.yaml",
            "resources: [web.yaml]\n",
            "kustomization.yaml: this is a kustomization: render it first, for example with kubectl kustomize",
        ),
        (
            "a.yaml",
            "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nmetadata: {name: a}\n",
            "a.yaml: this is a kustomization: render it first, for example with kubectl kustomize",
        ),
        (
            "a.yaml",
            "replicas: 1\n",
            "a.yaml: not a Kubernetes object: missing kind",
        ),
        (
            "a.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: 123}\n",
            "a.yaml: metadata.name: 123 is a number, and must be a string: put it in quotes",
        ),
        (
            "a.yaml",
            "apiVersion: 1.1\nkind: ConfigMap\nmetadata: {name: a}\n",
            "a.yaml: apiVersion: 1.1 is a number, and must be a string: put it in quotes",
        ),
        (
            "a.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: a-}\n",
            "a.yaml: the object has generateName and no name: ",
        ),
        (
            "a.yaml",
            "apiVersion: v1\nkind: List\nitems: [null]\n",
            "a.yaml: items[0]: must be an object or a List of objects",
        ),
    ] {
        let Run { exit, out, err } = uses(&[(name, text), ("web.yaml", WEB)], &[]);
        assert!(
            err.starts_with(&format!("note: skipped: {expected}")),
            "{text}: {err}"
        );
        assert_eq!(exit, 2, "{text}: {err}");
        assert!(out.contains("Deployment/web"), "{text}: {out}");
        // If no file can be read, the command fails.
        let Run { exit, out, err } = uses(&[(name, text)], &[]);
        assert!(
            err.starts_with("error: ") || text.contains("List"),
            "{text}: {err}"
        );
        assert!(exit == 2 && !out.contains("web"), "{text}: {err}");
    }
}

#[test]
fn skipped_files_may_contain_uses() {
    const OTHER: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}\n";
    for (files, heading) in [
        (
            &[("a.yaml", "a: [1"), ("other.yaml", OTHER)],
            "no use was found",
        ),
        (
            &[("a.yaml", "a: [1"), ("web.yaml", WEB)],
            "used by 1 workload",
        ),
    ] {
        let table = uses(files, &[]).out;
        assert!(
            table.starts_with(&format!("configmap/app: {heading}\n")),
            "{table}"
        );
        let markdown = uses(files, &["-o", "markdown"]).out;
        assert!(
            markdown.starts_with(&format!("### configmap/app: {heading}\n")),
            "{markdown}"
        );
    }
}

#[test]
fn charts_are_not_read() {
    let chart = [("Chart.yaml", "name: a\n"), ("templates/web.yaml", WEB)];
    let Run { exit, err, .. } = uses(&chart, &[]);
    assert_eq!(exit, 2);
    assert_eq!(
        err,
        "error: DIR: this is a Helm chart: render it first, for example with helm template\n"
    );
}

#[test]
fn directories_in_directories_are_searched_on_request() {
    let files = [
        ("web.yaml", WEB),
        ("more/api.yaml", &WEB.replace("web", "api")),
    ];
    let Run { exit, out, err } = uses(&files, &[]);
    assert_eq!(exit, 0);
    assert_eq!(
        err,
        "note: more is not searched: pass -R to search directories in directories\n"
    );
    assert!(
        out.contains("Deployment/web") && !out.contains("Deployment/api"),
        "{out}"
    );
    let Run { exit, out, err } = uses(&files, &["-R"]);
    assert_eq!((exit, err.as_str()), (0, ""));
    assert!(
        out.contains("Deployment/web") && out.contains("Deployment/api"),
        "{out}"
    );
    let Run { err, .. } = uses(&files[1..], &[]);
    assert!(
        err.ends_with("with .json, .yaml or .yml; -R also searches the directories in it\n"),
        "{err}"
    );
}

#[test]
fn last_of_two_values_counts_with_a_note() {
    let twice = WEB.replace("kind: Deployment", "kind: DaemonSet\nkind: Deployment");
    let Run { exit, out, err } = uses(&[("web.yaml", &twice)], &[]);
    assert_eq!(exit, 0);
    assert_eq!(
        err,
        "note: web.yaml: line 3, column 1: the key \"kind\" is given twice: the last value counts\n"
    );
    assert!(out.contains("Deployment/web"), "{out}");
}

#[test]
fn objects_without_a_namespace_are_in_the_given_one() {
    let other = WEB.replace("name: web}", "name: web, namespace: other}");
    let files = [("web.yaml", WEB), ("other.yaml", &other)];
    let Run { exit, out, err } = uses(&files, &["-n", "shop"]);
    assert_eq!(exit, 0);
    assert_eq!(
        err,
        "note: skipped: objects of other namespaces than that of -n: 1\n"
    );
    assert!(out.contains("shop") && !out.contains("other"), "{out}");
    let Run { out, .. } = uses(&files, &[]);
    assert!(out.contains("other"), "{out}");
}

#[test]
fn secrets_have_the_same_value_in_either_field() {
    let secret =
        |fields: &str| format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: s}}\n{fields}\n");
    let reads = WEB.replace("configMapRef: {name: app}", "secretRef: {name: s}");
    let old = directory(&[("s.yaml", &secret("data: {a: Zm9v}")), ("web.yaml", &reads)]);
    for (fields, is_same) in [
        ("stringData: {a: foo}", true),
        ("data: {a: YmFy}\nstringData: {a: foo}", true),
        ("data:\n  a: |\n    Zm\n    9v", true),
        ("stringData: {a: bar}", false),
        ("stringData: {a: foo, b: c}", false),
    ] {
        let new = directory(&[("s.yaml", &secret(fields)), ("web.yaml", &reads)]);
        let since = [
            "restarts",
            "--all-workloads",
            "--since",
            old.path().to_str().unwrap(),
        ];
        let Run { exit, out, err } = run(&since, new.path());
        assert_eq!((exit, err.as_str()), (0, ""), "{fields}");
        assert_eq!(
            !out.contains("Secret default/s"),
            is_same,
            "{fields}: {out}"
        );
    }
}

#[test]
fn uses_names_workloads_that_no_profile_restarts() {
    let spec = "containers: [{name: c, image: 'c:1', envFrom: [{configMapRef: {name: app}}]}]";
    let workload = |version: &str, kind: &str| {
        format!(
            "---\napiVersion: {version}\nkind: {kind}\nmetadata: {{name: x}}\nspec: {{template: {{spec: {{{spec}}}}}}}\n"
        )
    };
    let pod = format!("---\napiVersion: v1\nkind: Pod\nmetadata: {{name: x}}\nspec: {{{spec}}}\n");
    let all = [
        pod,
        workload("v1", "ReplicationController"),
        workload("apps/v1", "ReplicaSet"),
        workload("argoproj.io/v1alpha1", "Rollout"),
        workload("example.com/v1", "Widget"),
    ];
    let Run { exit, out, err } = uses(&[("all.yaml", &all.concat())], &[]);
    assert_eq!(exit, 0);
    for kind in ["Pod", "ReplicationController", "ReplicaSet", "Rollout"] {
        assert!(out.contains(&format!("{kind}/x")), "{kind}: {out}");
    }
    assert!(!out.contains("Widget"), "{out}");
    assert_eq!(err, "note: not examined: 1 Widget (example.com/v1)\n");
}
