//! `rollplan forecast`.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use super::kubectl::{Answer, Kubectl, OPTIONS, Poll, example, failing, forbidden_text, poll};
use super::{Scratch, answered, path, refused, rollplan};

/// A complete rollout of two revisions.
const SNAPSHOT: &str = "examples/after-undo.json";
const EXAMPLE: &str = "after-undo";
const SELECTOR: &str = "app.kubernetes.io/name=web";
const TIMES: [&str; 2] = ["--start-time=8s,9s,10s,11s,12s", "--termination-time=2s"];

fn now() -> String {
    super::examples::time_of(EXAMPLE)
}

fn deployment() -> Value {
    let objects = example(EXAMPLE).objects();
    let mut deployments = objects.into_iter().filter(|it| it["kind"] == "Deployment");
    deployments.next().unwrap()
}

/// The Deployment with another image.
fn changed() -> Value {
    let mut changed = deployment();
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = json!("registry.example/web:9");
    changed
}

/// The arguments of a forecast from files.
fn offline(more: &[&str]) -> Vec<String> {
    let now = format!("--now={}", now());
    let args = ["forecast", "--snapshot", SNAPSHOT, &now];
    let args = args.iter().chain(&TIMES).chain(more);
    args.map(|it| (*it).to_owned()).collect()
}

fn forecast(more: &[&str]) -> String {
    let args = offline(more);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    answered(&args, "")
}

fn title(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

#[test]
fn effect_of_a_change_is_the_first_line() {
    let manifest = Scratch::new(&deployment().to_string());
    let other = Scratch::new(&changed().to_string());
    for (change, expected) in [
        (&[][..], "no rollout is in progress"),
        (
            &["--image", "web=registry.example/web:9"],
            "the change starts a rollout, which replaces all pods",
        ),
        (
            &["-f", other.path()],
            "the change starts a rollout, which replaces all pods",
        ),
        (
            &["-f", manifest.path()],
            "nothing changes, and no pod is replaced",
        ),
        (
            &["--replicas", "12"],
            "the change only scales from 4 to 12, and no pod is replaced",
        ),
        (
            &["--undo", "--to-revision", "3"],
            "the change returns to revision 3, with a rollout that replaces all pods",
        ),
    ] {
        let text = forecast(change);
        assert_eq!(
            title(&text),
            format!("Deployment shop/web: {expected}"),
            "{text}"
        );
    }
}

#[test]
fn outcome_is_the_last_line_and_the_exit_code() {
    let image = ["--image", "web=registry.example/web:9"];
    let text = forecast(&image);
    let last = text.lines().last().unwrap();
    assert!(last.starts_with("Completes in "), "{text}");
    // Without room for one more pod, a rollout that may not remove any never completes.
    let mut stuck = example(EXAMPLE).objects();
    for object in stuck.iter_mut().filter(|it| it["kind"] == "Deployment") {
        object["spec"]["strategy"]["rollingUpdate"] = json!({"maxSurge": 1, "maxUnavailable": 0});
    }
    let list = json!({"apiVersion": "v1", "kind": "List", "items": stuck});
    let now = now();
    let args = [
        "forecast",
        "--snapshot",
        "-",
        "--now",
        &now,
        "--quota-pods=0",
    ];
    let run = rollplan(&[&args, &TIMES[..], &image].concat(), &list.to_string());
    assert_eq!((run.exit, run.err.as_str()), (1, ""), "{}", run.out);
    let last = run.out.lines().last().unwrap();
    assert!(
        last.starts_with("Never completes. The quota "),
        "{}",
        run.out
    );
}

#[test]
fn forecast_is_the_same_for_the_same_seed() {
    let args = |seed| ["--image", "web=x:9", "--seed", seed, "-o", "json"];
    assert_eq!(forecast(&args("7")), forecast(&args("7")));
    assert_ne!(forecast(&args("7")), forecast(&args("8")));
}

#[test]
fn formats_show_the_same_outcome() {
    let formatted = |format: &str| forecast(&["--image", "web=x:9", "-o", format]);
    let text = forecast(&["--image", "web=x:9"]);
    let outcome = text.lines().last().unwrap();
    for (format, start) in [
        ("svg", "<svg xmlns="),
        ("html", "<!DOCTYPE html>\n"),
        (
            "markdown",
            "### Deployment shop/web: the change starts a rollout",
        ),
    ] {
        let text = formatted(format);
        assert!(text.starts_with(start), "{format}: {text}");
        assert!(text.contains(outcome), "{format}: {outcome}: {text}");
    }
    let json: Value = serde_json::from_str(&formatted("json")).unwrap();
    assert_eq!(json["expected"]["outcome"], "OUTCOME_COMPLETES");
    assert!(formatted("yaml").contains("outcome: OUTCOME_COMPLETES"));
}

/// A manifest of the example with another image.
fn mk_manifest() -> Value {
    let mut manifest = changed();
    manifest["metadata"] = json!({"name": "web"});
    manifest["status"].take();
    manifest
}

/// The forecast of a manifest for the Deployment of the example, after an edit of the Deployment.
fn forecast_of(manifest: &Value, edit: impl Fn(&mut Value)) -> String {
    let mut objects = example(EXAMPLE).objects();
    let deployments = objects.iter_mut().filter(|it| it["kind"] == "Deployment");
    deployments.for_each(edit);
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    let (snapshot, manifest) = (
        Scratch::new(&list.to_string()),
        Scratch::new(&manifest.to_string()),
    );
    let now = format!("--now={}", now());
    let args = [
        &[
            "forecast",
            "--snapshot",
            snapshot.path(),
            &now,
            "-f",
            manifest.path(),
        ],
        &TIMES[..],
    ];
    let text = answered(&args.concat(), "");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Without a cluster, a manifest is merged as kubectl apply merges it, if the last one is known.
#[test]
fn manifests_without_a_cluster_are_merged_with_the_last_applied_one() {
    let mut manifest = mk_manifest();
    let spec = manifest["spec"].as_object_mut().unwrap();
    spec.remove("replicas");
    let apply = |last: Value| {
        forecast_of(&manifest, |deployment| {
            deployment["metadata"]["annotations"][LAST_APPLIED] = last.to_string().into();
        })
    };
    let scaled = apply(json!({"spec": {"replicas": 3}}));
    assert!(
        scaled.contains(
            "the change starts a rollout, which replaces all pods, and scales from 4 to 1"
        ),
        "{scaled}"
    );
    let kept = apply(json!({"spec": {}}));
    assert!(
        kept.contains("which replaces all pods Changes of the template"),
        "{kept}"
    );
    assert!(kept.contains("the number stays 4"), "{kept}");
    let unknown = forecast_of(&manifest, |deployment| {
        deployment["metadata"]["annotations"]
            .as_object_mut()
            .unwrap()
            .remove(LAST_APPLIED);
    });
    assert!(
        unknown.contains("assumption: The manifest is the whole Deployment: "),
        "{unknown}"
    );
    assert!(
        unknown.contains("nothing shows who does: the number stays 4"),
        "{unknown}"
    );
    assert!(!forecast(&["--replicas=3"]).contains("The manifest"));
}

/// With the owners of the fields, it is merged as a server-side apply merges it.
#[test]
fn manifests_without_a_cluster_are_merged_by_the_owners_of_fields() {
    let manifest = mk_manifest();
    let container = json!({"name": manifest["spec"]["template"]["spec"]["containers"][0]["name"]});
    let container = format!("k:{container}");
    let fields = |fields: Value| {
        let containers = json!({"f:containers": {&container: fields}});
        json!({"f:spec": {"f:template": {"f:spec": containers}}})
    };
    let text = forecast_of(&manifest, |deployment| {
        let metadata = &mut deployment["metadata"];
        let annotations = metadata["annotations"].as_object_mut().unwrap();
        annotations.remove(LAST_APPLIED);
        metadata["managedFields"] = json!([
            {"manager": "flux", "operation": "Apply", "fieldsV1": fields(json!({
                ".": {}, "f:name": {}, "f:image": {}, "f:args": {}, "f:workingDir": {}, "f:lifecycle": {"f:preStop": {"f:sleep": {"f:seconds": {}}}},
            }))},
            {"manager": "other", "operation": "Update", "fieldsV1": fields(json!({"f:workingDir": {}, "f:command": {}}))},
        ]);
        let container = &mut deployment["spec"]["template"]["spec"]["containers"][0];
        container["args"] = json!(["a"]);
        container["command"] = json!(["c"]);
        container["workingDir"] = json!("/w");
        container["lifecycle"] = json!({"preStop": {"sleep": {"seconds": 5}}});
    });
    assert!(
        text.contains("a server-side apply by the same manager"),
        "{text}"
    );
    for removed in [
        r#".args from ["a"]"#,
        r#".lifecycle from {"preStop":{"sleep":{"seconds":5}}}"#,
    ] {
        assert!(text.contains(&format!("{removed} to (absent)")), "{text}");
    }
    assert!(
        text.contains(r#".image from "registry.example/web:"#),
        "{text}"
    );
    for kept in ["command", "workingDir"] {
        assert!(!text.contains(kept), "{text}");
    }
}

#[test]
fn other_changed_fields_of_the_spec_are_named() {
    let mut manifest = mk_manifest();
    manifest["spec"] = deployment()["spec"].clone();
    manifest["spec"]["strategy"] = json!({"type": "Recreate"});
    let text = forecast_of(&manifest, |_| {});
    assert!(
        text.contains("the change of strategy starts no rollout, and no pod is replaced"),
        "{text}"
    );
    assert!(text.contains("Changes of the spec"), "{text}");
}

/// What the API server would reject has no forecast.
#[test]
fn manifests_that_the_api_server_rejects_are_refused() {
    let refused_with = |edit: &dyn Fn(&mut Value), expected: &str| {
        let mut manifest = mk_manifest();
        edit(&mut manifest["spec"]);
        let manifest = Scratch::new(&manifest.to_string());
        let args = offline(&["-f", manifest.path()]);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let error = refused(&args, "");
        assert!(error.contains(expected), "{error}");
    };
    let container = "/template/spec/containers/0";
    let at = |spec: &mut Value, key: &str, value: Value| {
        spec.pointer_mut(container).unwrap()[key] = value;
    };
    refused_with(
        &|spec| at(spec, "env", json!([{"name": "PORT", "value": 8080}])),
        "env[0].value: is a number, and must be a string: quote it",
    );
    refused_with(
        &|spec| at(spec, "ports", json!([{"containerPort": "80"}])),
        "containerPort: is a string, and must be an integer",
    );
    refused_with(
        &|spec| at(spec, "resources", json!({"limits": {"cpu": "1x"}})),
        "must be a quantity",
    );
    refused_with(
        &|spec| at(spec, "imagePullPolcy", json!("Always")),
        "is not a field of Container",
    );
    refused_with(
        &|spec| at(spec, "livenessProbe", json!({"periodSeconds": 5})),
        "must have exactly one of",
    );
    refused_with(
        &|spec| spec["template"]["metadata"]["labels"]["version"] = json!(1),
        "is a number, and must be a string",
    );
    refused_with(
        &|spec| spec["selector"]["matchLabels"]["tier"] = json!("api"),
        "selector: cannot be changed",
    );
    refused_with(
        &|spec| spec["template"]["metadata"]["labels"] = json!({"app": "other"}),
        "do not match the selector",
    );
    refused_with(
        &|spec| {
            spec["strategy"] = json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}});
        },
        "may not be 0 if maxSurge is 0",
    );
    refused_with(
        &|spec| {
            spec["minReadySeconds"] = json!(30);
            spec["progressDeadlineSeconds"] = json!(30);
        },
        "must be greater than minReadySeconds",
    );
}

#[test]
fn wrong_changes_are_refused() {
    let other = Scratch::new(&deployment().to_string().replace("\"web\"", "\"api\""));
    for (args, expected) in [
        (
            &["--image", "nope=x:1"][..],
            "error: Deployment shop/web has no container nope\n",
        ),
        (&["--image", "x:1"], "must be CONTAINER=IMAGE"),
        (&["--image=-x=y"], "must be CONTAINER=IMAGE"),
        (&["--image", "web=x", "--undo"], "cannot be used with"),
        (&["--to-revision=2"], "--undo"),
        (&["--samples=0"], "--samples"),
        (
            &["-f", other.path()],
            "error: Deployment web not found in the input, which has:",
        ),
        (
            &["-n", "shop"],
            "error: --namespace cannot be used with --snapshot",
        ),
    ] {
        let args = offline(args);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let error = refused(&args, "");
        assert!(error.contains(expected), "{error}");
    }
    let error = refused(&["forecast"], "");
    assert!(
        error.starts_with("error: no Deployment selected: "),
        "{error}"
    );
    refused(&["forecast", "--snapshot", "-", "-f", "-"], "");
    refused(&["forecast", "web", "--snapshot", SNAPSHOT], "");
}

fn with_deployment(deployment: &Value) -> Poll {
    Poll {
        deployment: Answer::Out(deployment.to_string()),
        ..example(EXAMPLE)
    }
}

fn get_calls(options: &str) -> Vec<String> {
    vec![
        format!("get deploy web {OPTIONS}{options}"),
        format!("get rs --selector={SELECTOR} {OPTIONS}{options}"),
        format!("get pods --selector={SELECTOR} {OPTIONS}{options}"),
    ]
}

/// The API server knows the defaults, webhooks and other owners of fields.
#[test]
fn cluster_makes_dry_runs_of_changes() {
    let dry_run = "--dry-run=server -o json --request-timeout=30s --namespace=shop";
    let (current, changed) = (with_deployment(&deployment()), with_deployment(&changed()));
    let gets = get_calls(" --namespace=shop");
    let apply = |options: &str| format!("apply --filename=a b.yaml --filename=- {options}");
    let apply = apply(dry_run);
    let files = ["-n", "shop", "-f", "a b.yaml", "-f", "-"];
    let set_image = format!("set image deploy/web web=x:9 *=y {dry_run}");
    let images = ["web", "-n", "shop", "--image", "web=x:9", "--image=*=y"];
    for (args, polls, calls) in [
        (
            [&["web"], &files[..]].concat(),
            [&changed, &current],
            [&[apply.clone()][..], &gets].concat(),
        ),
        // The manifest has the name.
        (
            files.to_vec(),
            [&changed, &current],
            [&[apply][..], &gets].concat(),
        ),
        (
            images.to_vec(),
            [&current, &changed],
            [&gets[..], &[set_image]].concat(),
        ),
    ] {
        let kubectl = Kubectl::new(&polls.map(Poll::clone));
        let run = kubectl.run(&[&["forecast"], &args[..], &TIMES].concat());
        assert_eq!((run.exit, run.err.as_str()), (0, ""), "{args:?}");
        let expected = "Deployment shop/web: the change starts a rollout, which replaces all pods";
        assert_eq!(title(&run.out), expected);
        assert!(!run.out.contains("The manifest is"), "{}", run.out);
        assert_eq!(kubectl.calls(), calls);
    }
}

#[test]
fn namespace_of_the_manifest_is_read() {
    let polls = [with_deployment(&changed()), with_deployment(&deployment())];
    let kubectl = Kubectl::new(&polls);
    let run = kubectl.run(&["forecast", "-f", "web.yaml"]);
    assert_eq!((run.exit, run.err.as_str()), (0, ""));
    assert_eq!(kubectl.calls()[1..], get_calls(" --namespace=shop"));
}

#[test]
fn rollout_in_progress_needs_no_dry_run() {
    let kubectl = Kubectl::new(&[example("mid-rollout")]);
    let run = kubectl.run(&[&["forecast", "web", "-n", "shop"], &TIMES[..]].concat());
    assert_eq!(run.err, "");
    assert_eq!(
        title(&run.out),
        "Deployment shop/web: a rollout is in progress"
    );
    assert_eq!(kubectl.calls(), get_calls(" --namespace=shop"));
}

#[test]
fn refused_dry_runs_are_errors() {
    for (text, exit) in [
        (forbidden_text("deployments"), 2),
        ("The connection to the server was refused".to_owned(), 4),
    ] {
        let kubectl = Kubectl::new(&[failing(&text)]);
        let run = kubectl.run(&["forecast", "web", "-f", "web.yaml"]);
        assert_eq!((run.exit, run.out.as_str()), (exit, ""), "{}", run.err);
    }
    // kubectl may print other objects than the Deployment.
    let other = poll(vec![
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "api"}}),
    ]);
    let kubectl = Kubectl::new(&[other]);
    let run = kubectl.run(&["forecast", "web", "-f", "web.yaml"]);
    assert_eq!(run.exit, 2, "{}", run.err);
}

/// Runs the script of the GitHub Action and of the component of GitLab, with a script that replaces kubectl, and those in a
/// folder.
fn run_script(
    folder: &std::path::Path,
    with: impl FnOnce(&mut Command) -> &mut Command,
) -> std::process::Output {
    let polls = [with_deployment(&changed()), with_deployment(&deployment())];
    let kubectl = Kubectl::new(&[polls.clone(), polls].concat());
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_rollplan"));
    let [folders, bin] = [folder, program.parent().unwrap()].map(|it| it.display().to_string());
    let paths = format!(
        "{bin}:{folders}:{}:{}",
        path("tests/it/cli/bin").display(),
        std::env::var("PATH").unwrap()
    );
    let mut command = Command::new("bash");
    command
        .arg(path("examples/pipelines/forecast.sh"))
        .args(["web.yaml", "shop", "web"])
        .env("PATH", paths)
        .env("FAKE_KUBECTL", kubectl.file(""))
        .env_remove("ROLLPLAN_SERVER")
        .env_remove("KUBECTL");
    with(&mut command).output().unwrap()
}

/// Answers the requests of a script with an API of GitLab that has these notes, and returns each request with its body.
fn serve_notes(
    listener: &std::net::TcpListener,
    notes: &str,
    count: usize,
) -> Vec<(String, String)> {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    let mut requests = Vec::new();
    for _ in 0..count {
        let (mut stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let (mut head, mut length) = (String::new(), 0);
        while !head.ends_with("\r\n\r\n") {
            let start = head.len();
            assert!(reader.read_line(&mut head).unwrap() > 0, "{head}");
            let line = head[start..].to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        requests.push((head, String::from_utf8(body).unwrap()));
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{notes}",
            notes.len()
        );
        stream.write_all(answer.as_bytes()).unwrap();
    }
    requests
}

/// Runs the script of the component of GitLab, with a server that answers as its API. It requires curl and jq.
#[test]
fn merge_requests_get_one_comment() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let own = r#"[{"id": 76, "body": "hi"}, {"id": 77, "body": "<!-- rollplan forecast shop/web -->\nold"}]"#;
    for (notes, wanted) in [
        ("[]", "POST /api/v4/projects/3/merge_requests/5/notes HTTP"),
        (own, "PUT /api/v4/projects/3/merge_requests/5/notes/77 HTTP"),
    ] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/api/v4", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || serve_notes(&listener, notes, 2));
        let output = run_script(folder.path(), |command| {
            command.env("CI_API_V4_URL", url).envs([
                ("CI_PROJECT_ID", "3"),
                ("CI_MERGE_REQUEST_IID", "5"),
                ("GITLAB_TOKEN", "secret"),
                ("no_proxy", "*"),
            ])
        });
        assert!(output.status.success(), "{output:?}");
        let printed = String::from_utf8(output.stdout).unwrap();
        assert!(!printed.contains("cannot comment"), "{printed}");
        let requests = server.join().unwrap();
        let list = "GET /api/v4/projects/3/merge_requests/5/notes?per_page=100 HTTP";
        for ((head, _), start) in requests.iter().zip([list, wanted]) {
            assert!(head.starts_with(start), "{head}");
            assert!(head.contains("PRIVATE-TOKEN: secret\r\n"), "{head}");
        }
        // Versions of curl encode a space in one way or the other.
        let body = requests[1].1.replace("%20", "+");
        let start = "body=%3C%21--+rollplan+forecast+shop%2Fweb+--%3E%0A%23%23%23+Deployment+";
        assert!(body.starts_with(start), "{body}");
    }
}

/// Runs the script of the GitHub Action, with scripts that replace kubectl and gh.
#[test]
fn pull_requests_get_one_comment() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let gh = folder.path().join("gh");
    let script = "#!/bin/sh\nprintf '%s\\n' \"$*\" >>\"$GH_CALLS\"\ncase \"$*\" in *--jq*) cat \"$GH_FOUND\" ;; *) \
                  eval last=\\${$#}; cp \"${last#body=@}\" \"$GH_BODY\" ;; esac\n";
    fs::write(&gh, script).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&gh, mode).unwrap();
    let file = |name: &str| folder.path().join(name);
    for (found, call) in [
        ("", "api --silent repos/o/shop/issues/5/comments -F body=@"),
        (
            "77\n78\n",
            "api --silent --method PATCH repos/o/shop/issues/comments/77 -F body=@",
        ),
    ] {
        fs::write(file("found"), found).unwrap();
        fs::write(file("calls"), "").unwrap();
        let output = run_script(folder.path(), |command| {
            command
                .env("GH_CALLS", file("calls"))
                .env("GH_FOUND", file("found"))
                .env("GH_BODY", file("body"))
                .env("GITHUB_STEP_SUMMARY", file("summary"))
                .env("HTML", file("page.html"))
                .envs([
                    ("PULL_REQUEST", "5"),
                    ("GH_TOKEN", "t"),
                    ("GITHUB_REPOSITORY", "o/shop"),
                ])
        });
        assert!(output.status.success(), "{output:?}");
        let printed = String::from_utf8(output.stdout).unwrap();
        assert!(
            printed.starts_with("### Deployment shop/web: the change starts a rollout"),
            "{printed}"
        );
        let calls = fs::read_to_string(file("calls")).unwrap();
        let calls: Vec<&str> = calls.lines().collect();
        assert_eq!(calls.len(), 2, "{calls:?}");
        assert!(calls[1].starts_with(call), "{calls:?}");
        let body = fs::read_to_string(file("body")).unwrap();
        assert_eq!(
            body,
            format!("<!-- rollplan forecast shop/web -->\n{printed}")
        );
        assert!(
            fs::read_to_string(file("page.html"))
                .unwrap()
                .starts_with("<!DOCTYPE html>")
        );
    }
    assert!(
        fs::read_to_string(file("summary"))
            .unwrap()
            .starts_with("### ")
    );
}

#[test]
fn component_has_the_script() {
    super::check_component("forecast");
}
