//! `rollplan canary`, and canaries in `rollplan status`.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;
use std::time::{Duration, SystemTime};

use prost_types::Timestamp;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::kubectl::{Answer, Kubectl, OPTIONS, Poll, example, failing, poll};
use super::{Run, answered, check_component, path, read, refused};

const EXAMPLE: &str = "after-undo";
const SELECTOR: &str = "app.kubernetes.io/name=web";
const NEW_IMAGE: &str = "web=registry.example/web:9";

/// The Deployment of the example, with what its controllers make of patches.
#[derive(Clone)]
struct World {
    deployment: Value,
    sets: Vec<Value>,
    pods: Vec<Value>,
}

fn ago(seconds: u64) -> String {
    let time = SystemTime::now() - Duration::from_secs(seconds);
    let seconds = Timestamp::from(time).seconds;
    Timestamp { seconds, nanos: 0 }.to_string()
}

impl World {
    fn new() -> Self {
        let of_kind = |kind: &str| {
            let objects = example(EXAMPLE).objects();
            objects
                .into_iter()
                .filter(|it| it["kind"] == kind)
                .collect()
        };
        let deployments: Vec<Value> = of_kind("Deployment");
        Self {
            deployment: deployments[0].clone(),
            sets: of_kind("ReplicaSet"),
            pods: of_kind("Pod"),
        }
    }

    /// The Deployment with the new image.
    fn changed(&self) -> Value {
        let mut changed = self.deployment.clone();
        changed["spec"]["template"]["spec"]["containers"][0]["image"] =
            json!("registry.example/web:9");
        changed
    }

    /// A hold of one pod that has been ready for this number of seconds, if it is ready.
    fn held(ready: Option<u64>) -> Self {
        Self::held_with(ready, &[])
    }

    /// A hold that was started with these options.
    fn held_with(ready: Option<u64>, options: &[&str]) -> Self {
        let mut world = Self::new();
        let start = ["start", "web", "--image", NEW_IMAGE];
        let body = world.dry_run(&[&start[..], options].concat(), true);
        world.patch(&body);
        world.create_canary(ready);
        world
    }

    /// The patch that a command plans.
    fn dry_run(&self, args: &[&str], changes: bool) -> String {
        let changed = self.answer(&self.changed());
        let polls = if changes {
            vec![changed, self.poll()]
        } else {
            vec![self.poll()]
        };
        let kubectl = Kubectl::new(&polls);
        let run = kubectl.run(&[&["canary"], args, &["--dry-run", "-o", "json"]].concat());
        assert_eq!((run.exit, run.err.as_str()), (0, ""), "{args:?}");
        let plan: Value = serde_json::from_str(&run.out).unwrap();
        plan["steps"][0]["call"]["bodyJson"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// The digest of the template of the canary.
    fn digest(&self) -> String {
        let (run, _) = run(&[self.poll()], &["status", "web", "-o", "json"]);
        let json: Value = serde_json::from_str(&run.out).unwrap();
        json["report"]["templateDigest"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// Applies a JSON Patch, which the controller observes at once.
    fn patch(&mut self, body: &str) {
        let operations: Vec<Value> = serde_json::from_str(body).unwrap();
        for operation in &operations {
            let path = operation["path"].as_str().unwrap();
            let (parent, key) = path.rsplit_once('/').unwrap();
            let key = key.replace("~1", "/");
            let parent = self.deployment.pointer_mut(parent).unwrap();
            match operation["op"].as_str().unwrap() {
                "test" => assert_eq!(
                    parent.get(&key).unwrap_or(&Value::Null),
                    &operation["value"],
                    "{path}"
                ),
                "remove" => drop(parent.as_object_mut().unwrap().remove(&key)),
                _ => parent[key] = operation["value"].clone(),
            }
        }
        let generation = self.deployment["metadata"]["generation"].as_i64().unwrap() + 1;
        self.deployment["metadata"]["generation"] = generation.into();
        self.deployment["status"]["observedGeneration"] = generation.into();
    }

    /// Creates the ReplicaSet and the pod of the canary.
    fn create_canary(&mut self, ready: Option<u64>) {
        let spec = &self.deployment["spec"];
        let rename = |object: &Value| {
            let text = object.to_string().replace("779f94f8fc", "canary");
            let mut object: Value = serde_json::from_str(&text).unwrap();
            object["metadata"]["uid"] = "canary".into();
            object
        };
        let stable = |kind: &[Value]| {
            let mut stable = kind.iter();
            let is_stable = |it: &&Value| it.to_string().contains("web-779f94f8fc");
            stable.find(is_stable).unwrap().clone()
        };
        let mut set = rename(&stable(&self.sets));
        set["metadata"]["annotations"]["deployment.kubernetes.io/revision"] = "5".into();
        set["spec"]["replicas"] = 1.into();
        set["spec"]["minReadySeconds"] = spec["minReadySeconds"].clone();
        set["spec"]["template"] = spec["template"].clone();
        set["spec"]["template"]["metadata"]["labels"]["pod-template-hash"] = "canary".into();
        let ready_count = i32::from(ready.is_some());
        set["status"]["replicas"] = 1.into();
        set["status"]["fullyLabeledReplicas"] = 1.into();
        set["status"]["readyReplicas"] = ready_count.into();
        set["status"]["availableReplicas"] = 0.into();
        let mut pod = rename(&stable(&self.pods));
        pod["metadata"]["uid"] = "canary-pod".into();
        let began = ago(ready.unwrap_or(60));
        pod["metadata"]["creationTimestamp"] = began.as_str().into();
        pod["status"]["startTime"] = began.as_str().into();
        let image = &spec["template"]["spec"]["containers"][0]["image"];
        pod["spec"]["containers"][0]["image"] = image.clone();
        pod["metadata"]["ownerReferences"][0]["uid"] = "canary".into();
        for condition in pod["status"]["conditions"].as_array_mut().unwrap() {
            if condition["type"] == "Ready" || condition["type"] == "ContainersReady" {
                condition["lastTransitionTime"] = began.as_str().into();
                condition["status"] = if ready.is_some() { "True" } else { "False" }.into();
            }
        }
        self.sets.push(set);
        self.pods.push(pod);
        let status = &mut self.deployment["status"];
        status["replicas"] = 5.into();
        status["updatedReplicas"] = 1.into();
        status["readyReplicas"] = (4 + ready_count).into();
        status["unavailableReplicas"] = 1.into();
    }

    /// The image of the canary cannot be pulled.
    fn fail(&mut self) {
        let pod = self.pods.last_mut().unwrap();
        pod["status"]["phase"] = "Pending".into();
        let container = &mut pod["status"]["containerStatuses"][0];
        container["ready"] = false.into();
        container["started"] = false.into();
        container["state"] = json!({"waiting": {"reason": "InvalidImageName", "message": "no"}});
    }

    /// Completes the rollout to the ReplicaSet with this hash.
    fn complete(&mut self, hash: &str) {
        for set in &mut self.sets {
            let is_new = set["metadata"]["name"] == format!("web-{hash}");
            let size = if is_new { 4 } else { 0 };
            set["spec"]["replicas"] = size.into();
            set["status"]["replicas"] = size.into();
        }
        let status = &mut self.deployment["status"];
        for count in [
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
        ] {
            status[count] = 4.into();
        }
        status["unavailableReplicas"] = Value::Null;
    }

    fn answer(&self, deployment: &Value) -> Poll {
        let list = |items: &[Value]| {
            Answer::Out(json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string())
        };
        Poll {
            deployment: Answer::Out(deployment.to_string()),
            sets: list(&self.sets),
            pods: list(&self.pods),
        }
    }

    fn poll(&self) -> Poll {
        self.answer(&self.deployment)
    }
}

/// A patch that succeeds.
fn patched() -> Poll {
    let script = "for arg in \"$@\"; do case $arg in --patch-file=*) cat \"${arg#*=}\" >>\"$FAKE_KUBECTL/patches\" ;; esac; \
                  done\necho >>\"$FAKE_KUBECTL/patches\"\necho deployment.apps/web\n";
    Poll {
        deployment: Answer::Script(script.to_owned()),
        ..poll(Vec::new())
    }
}

/// The answer to a patch whose preconditions fail.
fn rejected() -> Poll {
    failing(
        "The request is invalid: the server rejected our request due to an error in our request",
    )
}

fn run(polls: &[Poll], args: &[&str]) -> (Run, Kubectl) {
    let kubectl = Kubectl::new(polls);
    let run = kubectl.run(&[&["canary"], args].concat());
    (run, kubectl)
}

fn patches(kubectl: &Kubectl) -> Vec<String> {
    let patches = fs::read_to_string(kubectl.file("patches")).unwrap_or_default();
    let patches = patches.lines().filter(|line| !line.is_empty());
    patches.map(str::to_owned).collect()
}

/// The columns of the rows of a watch, without times.
fn rows(out: &str) -> Vec<String> {
    let rows = out.lines().skip(2);
    rows.map(|row| row[8..].trim_end().to_owned()).collect()
}

const START: [&str; 6] = ["start", "deploy/web", "-n", "shop", "--image", NEW_IMAGE];
const WATCH: [&str; 2] = ["--watch", "--interval=0"];
const HINT: &str = "note: to go on, promote the canary with `rollplan canary promote deploy/web -n shop`, or abort it with \
                    `rollplan canary abort deploy/web -n shop`\n";

#[test]
fn start_is_watched_until_the_canary_is_good() {
    let rest = World::new();
    let created = World::held(None);
    let polls = [
        rest.answer(&rest.changed()),
        rest.poll(),
        patched(),
        created.poll(),
        World::held(Some(60)).poll(),
    ];
    let (run, kubectl) = run(&polls, &[&START[..], &WATCH].concat());
    assert_eq!((run.exit, run.err.as_str()), (0, HINT));
    assert!(
        run.out.starts_with("Deployment shop/web\nTIME    STATE "),
        "{}",
        run.out
    );
    assert_eq!(
        rows(&run.out),
        [
            "held             0/1      4        the canary starts with 1 of 4 pods",
            "held             0/1      4        the canary waits: 0 of 1 canary pods are ready",
            "held, good       1/1      4        the canary is good: promote or abort it",
        ]
    );
    let calls = kubectl.calls();
    let dry_run = "--field-manager=rollplan-canary --dry-run=server -o json --request-timeout=30s --namespace=shop";
    assert_eq!(
        calls[0],
        format!("set image deploy/web {NEW_IMAGE} {dry_run}")
    );
    assert_eq!(
        calls[1],
        format!("get deploy web --show-managed-fields {OPTIONS} --namespace=shop")
    );
    assert_eq!(
        calls[2],
        format!("get rs --selector={SELECTOR} {OPTIONS} --namespace=shop")
    );
    let (what, body) = calls[4].split_once(" --patch-file=").unwrap();
    assert_eq!(
        what,
        "patch deployment.apps/web -n shop --type=json --field-manager=rollplan-canary"
    );
    assert!(body.starts_with("/dev/fd/"), "{body}");
    let [patch] = &patches(&kubectl)[..] else {
        panic!("one patch");
    };
    World::new().patch(patch);
    assert!(patch.contains("\"value\":2147483646"), "{patch}");
}

/// `status` shows the step, and does not begin the next one.
#[test]
fn next_step_begins_when_the_one_before_is_good() {
    let options = ["--surge", "100%", "--steps", "1,50%"];
    let world = World::held_with(Some(60), &options);
    let (status, _) = self::run(&[world.poll()], &["status", "web"]);
    assert_eq!((status.exit, status.err.as_str()), (3, HINT));
    let shown = "canary held\nstep 1 of 2 of the canary is good\n  step: 1 of 2\n";
    assert!(status.out.contains(shown), "{}", status.out);
    let polls = [world.poll(), world.poll(), patched()];
    let (run, kubectl) = self::run(&polls, &[&START[..], &options].concat());
    assert_eq!((run.exit, run.err.as_str()), (3, HINT), "{}", run.out);
    let shown = "step 2 of 2: the canary grows to 2 of 4 pods\n  step: 2 of 2\n";
    assert!(run.out.contains(shown), "{}", run.out);
    let [patch] = &patches(&kubectl)[..] else {
        panic!("one patch");
    };
    assert!(
        patch.contains(
            r#"{"op":"add","path":"/spec/strategy/rollingUpdate/maxSurge","value":"50%"}"#
        ),
        "{patch}"
    );
    // The verdict of a command is about the step that it finds.
    let options = [&options[..], &["--gate", "smoke"]].concat();
    let gated = World::held_with(Some(60), &options);
    let polls = [gated.poll(), gated.poll(), patched()];
    let verdict = ["--verdict", "smoke=pass"];
    let (run, _) = self::run(&polls, &[&START[..], &options, &verdict].concat());
    assert!(run.out.contains("  step: 2 of 2\n"), "{}", run.out);
    let refused = self::run(
        &[],
        &["start", "web", "--image", NEW_IMAGE, "--steps", "1,x"],
    )
    .0;
    assert_eq!(refused.exit, 2);
    assert!(
        refused.err.contains("must be a number or a percentage"),
        "{}",
        refused.err
    );
}

/// The manifest is applied as the user does: the guard permits dry runs.
#[test]
fn start_takes_a_manifest() {
    let rest = World::new();
    let polls = [rest.answer(&rest.changed()), rest.poll(), patched()];
    let (run, kubectl) = run(&polls, &["start", "-f", "web.yaml"]);
    assert_eq!((run.exit, run.err.as_str()), (3, HINT), "{}", run.out);
    let lines: Vec<&str> = run.out.lines().collect();
    assert_eq!(
        lines[..5],
        [
            "Deployment shop/web: canary held",
            "the canary starts with 1 of 4 pods",
            "  canary pods: 0 of 1 available",
            "  other pods: 4 available",
            "  limits: at least 3 available, at most 5 pods",
        ]
    );
    assert_eq!(
        lines.last(),
        Some(&"  patched: start a canary with 1 of 4 pods")
    );
    assert!(
        kubectl.calls()[0].starts_with("apply --filename=web.yaml --dry-run=server "),
        "{:?}",
        kubectl.calls()
    );
    assert_eq!(patches(&kubectl).len(), 1);
}

/// The canary is tested with the old values of a ConfigMap that the manifest changes.
#[test]
fn changed_configurations_of_a_manifest_are_noted() {
    let rest = World::new();
    let configuration = |kind: &str, name: &str, value: &str| {
        let metadata = json!({"namespace": "shop", "name": name});
        json!({"apiVersion": "v1", "kind": kind, "metadata": metadata, "data": {"key": value}})
    };
    let mut changed = rest.changed();
    changed["spec"]["template"]["spec"]["containers"][0]["envFrom"] = json!([
        {"configMapRef": {"name": "changed"}},
        {"secretRef": {"name": "same"}},
        {"configMapRef": {"name": "new"}},
        {"secretRef": {"name": "forbidden"}},
    ]);
    let manifest = json!({"apiVersion": "v1", "kind": "List", "items": [
        configuration("ConfigMap", "changed", "new"),
        configuration("ConfigMap", "unused", "new"),
        configuration("Secret", "same", "c2FtZQ=="),
        configuration("ConfigMap", "new", "new"),
        configuration("Secret", "forbidden", "bmV3"),
        changed,
    ]});
    let polls = [
        rest.answer(&manifest),
        rest.answer(&configuration("ConfigMap", "changed", "old")),
        rest.answer(&configuration("Secret", "same", "c2FtZQ==")),
        Poll {
            deployment: Answer::Out(String::new()),
            ..rest.poll()
        },
        failing("Error from server (Forbidden): secrets \"forbidden\" is forbidden"),
        rest.poll(),
        patched(),
    ];
    let (run, kubectl) = run(&polls, &["start", "-f", "web.yaml"]);
    let note = "note: pods of the canary have the old values of configmap/changed, because the rest of the manifest is applied after \
                the promotion: to test new values, give the object a new name\n";
    assert_eq!((run.exit, run.err), (3, format!("{note}{HINT}")));
    let calls = kubectl.calls();
    let read = "--ignore-not-found -o json --request-timeout=30s --namespace=shop";
    assert_eq!(
        calls[1..5],
        [
            format!("get configmap/changed {read}"),
            format!("get secret/same {read}"),
            format!("get configmap/new {read}"),
            format!("get secret/forbidden {read}"),
        ]
    );
}

/// A canary changes the template only. The other fields of a manifest are applied before or afterwards.
#[test]
fn manifests_that_change_other_fields_are_refused() {
    for (pointer, value, fields) in [
        ("/spec/replicas", json!(9), Some("replicas")),
        ("/spec/minReadySeconds", json!(9), Some("minReadySeconds")),
        (
            "/spec/progressDeadlineSeconds",
            json!(9),
            Some("progressDeadlineSeconds"),
        ),
        (
            "/spec/strategy/rollingUpdate",
            json!({"maxSurge": 2, "maxUnavailable": 1}),
            Some("strategy"),
        ),
        ("/metadata/labels/team", json!("shop"), None),
    ] {
        let rest = World::new();
        let mut changed = rest.changed();
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        changed.pointer_mut(parent).unwrap()[key] = value;
        let polls = [rest.answer(&changed), rest.poll(), patched()];
        let (run, kubectl) = run(&polls, &["start", "-f", "web.yaml"]);
        let Some(fields) = fields else {
            assert_eq!(run.exit, 3, "{pointer}: {}", run.err);
            continue;
        };
        assert_eq!((run.exit, run.out.as_str()), (2, ""), "{pointer}");
        let advice = format!(
            "would also change {fields}, which a canary does not: start it with --template-only, and apply the manifest after its \
             end\n"
        );
        assert!(run.err.ends_with(&advice), "{pointer}: {}", run.err);
        assert!(patches(&kubectl).is_empty(), "{pointer}");
        let (run, _) = self::run(&polls, &["start", "-f", "web.yaml", "--template-only"]);
        assert_eq!(run.exit, 3, "{pointer}: {}", run.err);
    }
}

#[test]
fn dry_runs_patch_nothing() {
    let rest = World::new();
    let polls = [rest.answer(&rest.changed()), rest.poll()];
    let dry = |more: &[&str]| {
        let (run, kubectl) = run(&polls, &[&START[..], more].concat());
        assert_eq!((run.exit, run.err.as_str()), (0, ""), "{more:?}");
        assert_eq!(kubectl.calls().len(), 4, "{:?}", kubectl.calls());
        run.out
    };
    let text = dry(&["--dry-run"]);
    assert!(text.contains("\n 1. start a canary with 1 of 4 pods\n    call        PATCH apps/v1 Deployment shop/web\n"), "{text}");
    assert!(text.contains("    only if     uid is "), "{text}");
    let script = dry(&["-o", "kubectl"]);
    let command = "kubectl patch deployment.apps/web -n shop --type=json --field-manager=rollplan-canary --patch-file=/dev/fd/3";
    assert!(script.contains(command), "{script}");
    let json: Value = serde_json::from_str(&dry(&["--dry-run", "-o", "json"])).unwrap();
    assert_eq!(json["report"]["phase"], "CANARY_PHASE_HOLD");
    assert!(dry(&["--dry-run", "-o", "yaml"]).contains("phase: CANARY_PHASE_HOLD"));
}

/// Another client has changed the Deployment in between.
#[test]
fn rejected_patches_lead_to_new_plans() {
    let rest = World::new();
    let changed = rest.answer(&rest.changed());
    let polls = [
        changed.clone(),
        rest.poll(),
        rejected(),
        rest.poll(),
        patched(),
    ];
    let (run, kubectl) = run(&polls, &START);
    assert_eq!((run.exit, run.err.as_str()), (3, HINT));
    assert_eq!(patches(&kubectl).len(), 1);
    let mut polls = vec![changed];
    for _ in 0..5 {
        polls.extend([rest.poll(), rejected()]);
    }
    let (run, _) = self::run(&polls, &START);
    assert_eq!((run.exit, run.out.as_str()), (2, ""));
    assert!(
        run.err
            .contains("rejected by the API server: The request is invalid"),
        "{}",
        run.err
    );
}

#[test]
fn promote_waits_until_the_state_is_removed() {
    let held = World::held(Some(60));
    let mut promoting = held.clone();
    promoting.patch(&held.dry_run(&["promote", "web"], false));
    let mut complete = promoting.clone();
    complete.complete("canary");
    let polls = [
        held.poll(),
        patched(),
        promoting.poll(),
        complete.poll(),
        patched(),
    ];
    let (run, kubectl) = run(&polls, &["promote", "web", "--interval=0"]);
    assert_eq!(run.exit, 0);
    assert!(
        run.err.ends_with("apply that now with kubectl apply\n"),
        "{}",
        run.err
    );
    let states: Vec<String> = rows(&run.out);
    let states = states.iter().map(|row| row.split_once(' ').unwrap().0);
    assert_eq!(states.collect::<Vec<_>>(), ["promoting", "promoted"]);
    let patches = patches(&kubectl);
    assert_eq!(patches.len(), 2);
    // The Deployment is the user's again.
    complete.patch(&patches[1]);
    let (before, after) = (World::new().deployment, complete.deployment);
    assert_eq!(
        after["metadata"]["annotations"],
        before["metadata"]["annotations"]
    );
    assert_eq!(after["metadata"]["labels"], before["metadata"]["labels"]);
    assert_eq!(after["spec"]["strategy"], before["spec"]["strategy"]);
    let (run, _) = self::run(&[held.poll(), patched()], &["promote", "web", "--no-wait"]);
    assert_eq!(run.exit, 3, "{}", run.err);
    assert!(
        run.err
            .starts_with("note: the rollout continues: `rollplan canary promote"),
        "{}",
        run.err
    );
}

#[test]
fn promotion_of_a_manifest_applies_it_at_the_end() {
    let held = World::held(Some(60));
    let mut promoting = held.clone();
    promoting.patch(&held.dry_run(&["promote", "web"], false));
    let mut complete = promoting.clone();
    complete.complete("canary");
    let mut applied = held.changed();
    let remembered = "kubectl.kubernetes.io/last-applied-configuration";
    applied["metadata"]["annotations"][remembered] = "{}".into();
    let prints = |text: &str| Poll {
        deployment: Answer::Out(text.to_owned()),
        ..poll(Vec::new())
    };
    let polls = [
        held.answer(&applied),
        held.poll(),
        patched(),
        complete.poll(),
        patched(),
        prints("deployment.apps/web configured\n"),
    ];
    let args = [
        "promote",
        "web",
        "-f",
        "web.yaml",
        "--server-side",
        "--field-manager=ci",
        "--force-conflicts",
        "--interval=0",
    ];
    let (run, kubectl) = run(&polls, &args);
    assert_eq!((run.exit, run.err.as_str()), (0, ""));
    assert!(
        run.out.ends_with("\ndeployment.apps/web configured\n"),
        "{}",
        run.out
    );
    let calls = kubectl.calls();
    let applies: Vec<&String> = calls.iter().filter(|it| it.starts_with("apply ")).collect();
    let options = "apply --filename=web.yaml --server-side --field-manager=ci --force-conflicts ";
    assert_eq!(applies.len(), 2, "{calls:?}");
    assert!(
        applies.iter().all(|it| it.starts_with(options)),
        "{applies:?}"
    );
    assert!(applies[0].contains("--dry-run=server") && !applies[1].contains("--dry-run"));
    assert!(patches(&kubectl)[0].contains("kubectl.kubernetes.io~1last-applied-configuration"));
    // Another template is refused, and nothing is applied.
    let mut other = held.changed();
    other["spec"]["template"]["spec"]["containers"][0]["image"] = "registry.example/web:10".into();
    let (run, kubectl) = self::run(&[held.answer(&other), held.poll()], &args);
    assert_eq!(run.exit, 2, "{}", run.err);
    assert!(run.err.contains("another template"), "{}", run.err);
    assert_eq!(
        kubectl
            .calls()
            .iter()
            .filter(|it| it.starts_with("apply "))
            .count(),
        1
    );
    refused(&["canary", "promote", "web", "-f", "-"], "--filename -");
}

/// The dry run of another manifest conflicts with the canary, which then ends.
#[test]
fn conflicts_with_the_canary_do_not_prevent_the_dry_run() {
    let rest = World::new();
    let conflict = |manager: &str| {
        failing(&format!(
            "error: Apply failed with 1 conflict: conflict with \"{manager}\" using apps/v1: .spec.template.spec.containers[name=\"web\"].image"
        ))
    };
    let args = ["start", "-f", "web.yaml", "--server-side"];
    let polls = [
        conflict("rollplan-canary"),
        rest.answer(&rest.changed()),
        rest.poll(),
        patched(),
    ];
    let (run, kubectl) = run(&polls, &args);
    assert_eq!(run.exit, 3, "{}", run.err);
    assert!(kubectl.calls()[1].starts_with(
        "apply --filename=web.yaml --server-side --force-conflicts --dry-run=server "
    ));
    let (run, kubectl) = self::run(&[conflict("argocd")], &args);
    assert!(run.exit != 0 && run.err.contains("argocd"), "{}", run.err);
    assert_eq!(kubectl.calls().len(), 1);
}

#[test]
fn promotion_that_fails_ends_the_command() {
    let mut promoting = World::held(None);
    promoting.patch(&promoting.dry_run(&["promote", "web", "--force"], false));
    promoting.fail();
    let (run, kubectl) = run(&[promoting.poll()], &["promote", "web", "--interval=0"]);
    assert_eq!(run.exit, 1, "{}{}", run.out, run.err);
    assert_eq!(patches(&kubectl).len(), 0);
    assert!(
        run.err.contains("restores the stable template"),
        "{}",
        run.err
    );
}

#[test]
fn abort_waits_until_the_stable_template_is_restored() {
    let held = World::held(None);
    let mut aborting = held.clone();
    aborting.patch(&held.dry_run(&["abort", "web"], false));
    aborting.complete("779f94f8fc");
    let polls = [held.poll(), patched(), aborting.poll(), patched()];
    let (run, kubectl) = run(&polls, &["abort", "web", "--interval=0"]);
    let hint = "note: to try the rejected template again, run `rollplan canary retry deploy/web -n shop`\n";
    assert_eq!((run.exit, run.err.as_str()), (0, hint), "{}", run.out);
    assert_eq!(patches(&kubectl).len(), 2);
    // The same template is refused from then on.
    let mut aborted = aborting;
    aborted.patch(&patches(&kubectl)[1]);
    let polls = [aborted.answer(&aborted.changed()), aborted.poll()];
    let (run, _) = self::run(&polls, &START);
    assert_eq!((run.exit, run.out.as_str()), (2, ""));
    assert!(run.err.contains("`rollplan canary retry`"), "{}", run.err);
    let (run, _) = self::run(&[aborted.poll()], &["status", "web"]);
    assert_eq!(run.exit, 1);
    assert!(
        run.out.starts_with("Deployment shop/web: canary aborted\n"),
        "{}",
        run.out
    );
}

#[test]
fn retry_of_a_held_canary_starts_none() {
    let (run, kubectl) = run(&[World::held(None).poll()], &["retry", "web"]);
    let notes = format!("note: a canary is held already, so none was started\n{HINT}");
    assert_eq!((run.exit, run.err), (3, notes), "{}", run.out);
    assert_eq!(patches(&kubectl).len(), 0);
}

/// A later canary starts after the state of an earlier one is written.
#[test]
fn start_ends_an_earlier_canary_first() {
    let mut complete = World::held(Some(60));
    complete.patch(&complete.dry_run(&["promote", "web"], false));
    complete.complete("canary");
    let mut changed = complete.clone();
    changed.deployment["spec"]["template"]["spec"]["containers"][0]["image"] = "x:10".into();
    let mut ended = complete.clone();
    let end = ended.dry_run(&["promote", "web"], false);
    ended.patch(&end);
    let mut unobserved = ended.clone();
    unobserved.deployment["status"]["observedGeneration"] = 1.into();
    for set in &mut ended.sets {
        set["metadata"]["generation"] = 1.into();
    }
    let mut merged = ended.clone();
    merged.deployment["spec"] = changed.deployment["spec"].clone();
    let polls = [
        complete.answer(&changed.deployment),
        complete.poll(),
        patched(),
        unobserved.answer(&merged.deployment),
        unobserved.poll(),
        ended.answer(&merged.deployment),
        ended.poll(),
        patched(),
    ];
    let watch = ["start", "deploy/web", "-n", "shop", "--image=web=x:10"];
    let (run, kubectl) = run(&polls, &watch);
    let note = "note: an earlier canary or rollback of Deployment shop/web was not ended: the promotion is complete, and its state \
                was removed\n";
    assert_eq!(
        (run.exit, run.err),
        (3, format!("{note}{HINT}")),
        "{}",
        run.out
    );
    assert!(
        run.out.starts_with("Deployment shop/web: canary held\n"),
        "{}",
        run.out
    );
    assert_eq!(patches(&kubectl).len(), 2);
}

#[test]
fn status_shows_what_the_canary_waits_for() {
    for (ready, more, exit, title, line) in [
        (
            Some(60),
            &[][..],
            0,
            "held, good",
            "the canary is good: promote or abort it",
        ),
        (
            None,
            &[],
            3,
            "held",
            "the canary waits: 0 of 1 canary pods are ready",
        ),
        (
            Some(60),
            &["--gate", "smoke"],
            3,
            "held",
            "the canary waits: the verdict \"smoke\" is missing",
        ),
        (
            Some(60),
            &["--gate", "smoke", "--verdict", "smoke=pass"],
            0,
            "held, good",
            "the canary is good: promote or abort it",
        ),
        (
            Some(60),
            &["--verdict", "smoke=fail"],
            1,
            "held, failed",
            "the canary has failed: the verdict \"smoke\" is that the canary has failed",
        ),
    ] {
        let held = World::held(ready);
        let (run, kubectl) = run(&[held.poll()], &[&["status", "web"], more].concat());
        assert_eq!(
            (run.exit, run.err.as_str()),
            (exit, HINT),
            "{more:?}: {}",
            run.out
        );
        let expected = format!("Deployment shop/web: canary {title}\n{line}\n");
        assert!(run.out.starts_with(&expected), "{}", run.out);
        assert_eq!(patches(&kubectl).len(), 0);
    }
}

#[test]
fn failed_canary_is_aborted() {
    let held = World::held(Some(60));
    let again = |more: &[&str]| {
        let polls = [held.answer(&held.changed()), held.poll(), patched()];
        let verdict = ["--verdict", "smoke=fail"];
        run(&polls, &[&START[..], &verdict, more].concat())
    };
    let (run, kubectl) = again(&[]);
    assert_eq!((run.exit, patches(&kubectl).len()), (3, 1), "{}", run.out);
    assert!(
        run.out
            .starts_with("Deployment shop/web: canary aborting\n"),
        "{}",
        run.out
    );
    assert!(
        run.out
            .contains("  - the verdict \"smoke\" is that the canary has failed\n"),
        "{}",
        run.out
    );
    let (run, kubectl) = again(&["--on-failure=hold"]);
    assert_eq!((run.exit, patches(&kubectl).len()), (1, 0), "{}", run.out);
}

#[test]
fn good_canary_is_promoted_if_the_user_wants_that() {
    let held = World::held(Some(60));
    let polls = [held.answer(&held.changed()), held.poll(), patched()];
    let (run, kubectl) = run(&polls, &[&START[..], &["--on-success=promote"]].concat());
    assert_eq!((run.exit, patches(&kubectl).len()), (3, 1), "{}", run.out);
    assert!(
        run.out
            .starts_with("Deployment shop/web: canary promoting\n"),
        "{}",
        run.out
    );
}

#[test]
fn timeout_ends_the_watch() {
    const TIMED_OUT: &str = "held, timed out  0/1      4        the canary was not decided within 0s: 0 of 1 canary pods are ready";
    let held = World::held(None);
    let polls = [held.answer(&held.changed()), held.poll()];
    let (run, _) = run(&polls, &[&START[..], &WATCH, &["--timeout=0"]].concat());
    assert_eq!((run.exit, run.err.as_str()), (3, HINT));
    assert!(
        rows(&run.out).pop().unwrap().starts_with(TIMED_OUT),
        "{}",
        run.out
    );
}

/// A signal ends only the command.
#[test]
fn interrupted_watch_leaves_a_hold() {
    let held = World::held(None);
    let polls = [held.answer(&held.changed()), held.poll()];
    let kubectl = Kubectl::new(&polls);
    for signal in [Signal::INT, Signal::TERM] {
        let args = [&["canary"], &START[..], &["--watch", "--interval=5ms"]].concat();
        let output = kubectl.interrupted(&args, signal);
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(3), "{err}");
        let interrupted =
            "note: interrupted: the canary of Deployment shop/web stays held; to go on, promote";
        assert!(err.starts_with(interrupted), "{err}");
    }
}

#[test]
fn wrong_commands_are_refused() {
    for (args, expected) in [
        (
            &["start", "web"][..],
            "no change of the template: pass --filename",
        ),
        (&["start", "--image", "a=b"], "no Deployment selected"),
        (
            &["start", "web", "--image=a=b", "--pods=some"],
            "must be a number or a percentage",
        ),
        (
            &["start", "web", "--image=a=b", "--verdict=smoke"],
            "must be NAME=pass",
        ),
        (
            &["start", "web", "--image=a=b", "--watch", "--dry-run"],
            "--watch cannot be used with --dry-run",
        ),
        (
            &["start", "pdeploy/web", "--image=a=b"],
            "only Deployments have canaries",
        ),
        (&["promote", "sts/db"], "supports only Deployments"),
        (&["promote"], "required arguments were not provided"),
        (
            &["status", "web", "-o", "kubectl"],
            "invalid value 'kubectl'",
        ),
    ] {
        let error = refused(&[&["canary"], args].concat(), "");
        assert!(error.contains(expected), "{args:?}: {error}");
    }
    let rest = World::new();
    for command in ["promote", "abort"] {
        let (run, _) = run(&[rest.poll()], &[command, "web"]);
        assert_eq!((run.exit, run.out.as_str()), (2, ""));
        assert!(
            run.err
                .contains("has no canary: start one with `rollplan canary start`"),
            "{}",
            run.err
        );
    }
    let (run, _) = run(&[failing(super::kubectl::DOWN)], &["status", "web"]);
    assert_eq!((run.exit, run.out.as_str()), (4, ""));
}

/// A pipeline may run again without a change.
#[test]
fn current_template_is_complete() {
    let rest = World::new();
    for more in [&[][..], &["--watch"], &["--dry-run"]] {
        let (run, kubectl) = run(&[rest.poll(), rest.poll()], &[&START[..], more].concat());
        assert_eq!((run.exit, run.out.as_str()), (0, ""), "{more:?}");
        let note = "note: deployment \"web\" already has this pod template: change the template to start a canary\n";
        assert_eq!(run.err, note);
        assert_eq!(patches(&kubectl).len(), 0);
    }
}

/// `kubectl set image` prints nothing if the containers have the images already.
#[test]
fn start_with_the_same_image_continues() {
    let nothing = || Poll {
        deployment: Answer::Out("\n".to_owned()),
        ..poll(Vec::new())
    };
    let held = World::held(Some(60));
    let rest = World::new();
    for (world, exit, out) in [
        (&held, 0, "Deployment shop/web: canary held, good\n"),
        (&rest, 0, ""),
    ] {
        let (run, kubectl) = run(&[nothing(), world.poll(), world.poll()], &START);
        assert_eq!(run.exit, exit, "{}", run.err);
        assert!(run.out.starts_with(out), "{}", run.out);
        assert_eq!(patches(&kubectl).len(), 0);
        let call = &kubectl.calls()[1];
        assert_eq!(*call, format!("get deploy web {OPTIONS} --namespace=shop"));
    }
}

#[test]
fn image_of_an_unknown_container_is_refused() {
    let unknown = failing("error: unable to find container named \"nope\"");
    let (run, kubectl) = run(&[unknown], &["start", "web", "--image", "nope=x"]);
    assert_eq!((run.exit, run.out.as_str()), (2, ""), "{}", run.err);
    assert!(run.err.contains("container named \"nope\""), "{}", run.err);
    assert_eq!(kubectl.calls().len(), 1);
}

/// A paused Deployment, for example, is never complete.
#[test]
fn promote_and_abort_wait_for_a_limited_time() {
    let held = World::held(Some(60));
    for (verb, state, hint) in [
        (
            "promote",
            "promoting",
            "; the rollout continues: `rollplan canary promote deploy/web -n shop` waits for its end",
        ),
        (
            "abort",
            "aborting",
            "; `rollplan canary abort deploy/web -n shop` waits for its end",
        ),
    ] {
        let (run, kubectl) = run(&[held.poll(), patched()], &[verb, "web", "--timeout=0s"]);
        assert_eq!(run.exit, 3, "{}{}", run.out, run.err);
        let end =
            format!("note: after 0s, the canary of Deployment shop/web is still {state}{hint}");
        assert!(run.err.contains(&end), "{}", run.err);
        assert_eq!(patches(&kubectl).len(), 1);
    }
}

/// Runs the script of the GitHub Action, with a script that replaces kubectl.
#[test]
fn pipeline_promotes_or_aborts() {
    let rest = World::new();
    let held = World::held(Some(60));
    let mut promoting = held.clone();
    promoting.patch(&held.dry_run(&["promote", "web"], false));
    promoting.complete("canary");
    let mut aborting = held.clone();
    aborting.patch(&held.dry_run(&["abort", "web"], false));
    aborting.complete("779f94f8fc");
    let start = [
        rest.answer(&rest.changed()),
        rest.poll(),
        patched(),
        held.poll(),
    ];
    // A promotion begins with a dry run of the manifest.
    let dry_run = held.answer(&held.changed());
    for (test, dry_run, end, exit, applies) in [
        ("true", Some(&dry_run), &promoting, 0, true),
        ("false", None, &aborting, 1, false),
    ] {
        let mut polls = start.to_vec();
        polls.extend(dry_run.cloned());
        polls.extend([held.poll(), patched(), end.poll(), patched(), patched()]);
        assert_eq!(pipeline(&polls, test), (exit, 3, applies), "{test}");
    }
    // The canary has become bad since the start.
    let mut bad = World::held(None);
    bad.fail();
    let polls = [
        &start[..],
        &[dry_run.clone(), bad.poll(), bad.poll(), patched()],
        &[aborting.poll(), patched()],
    ];
    assert_eq!(pipeline(&polls.concat(), "true"), (2, 3, false));
    // A newer run has replaced it: neither is its canary promoted nor aborted.
    let mut newer = held.clone();
    let containers = "/spec/template/spec/containers/0/image";
    *newer.deployment.pointer_mut(containers).unwrap() = "registry.example/web:10".into();
    for (test, dry_run) in [("true", Some(&dry_run)), ("false", None)] {
        let mut polls = start.to_vec();
        polls.extend(dry_run.cloned());
        polls.extend([newer.poll(), newer.poll()]);
        assert_eq!(pipeline(&polls, test), (2, 1, false), "{test}");
    }
    // The template has not changed, for example because the commit was reverted: there is nothing to test.
    let polls = [rest.poll(), rest.poll(), patched()];
    assert_eq!(pipeline(&polls, "false"), (0, 0, true));
}

/// Runs canary.sh. Returns its exit code, the number of patches, and whether it has applied the manifest.
fn pipeline(polls: &[Poll], test: &str) -> (i32, usize, bool) {
    let prints = |text: &str| Poll {
        deployment: Answer::Out(text.to_owned()),
        ..poll(Vec::new())
    };
    let exists = [
        prints("deployment.apps/web\n"),
        failing(
            "Error from server (AlreadyExists): error when creating \"web.yaml\": deployments.apps \"web\" already exists",
        ),
    ];
    let kubectl = Kubectl::new(&[&exists[..], polls].concat());
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_rollplan"));
    let paths = format!(
        "{}:{}:{}",
        program.parent().unwrap().display(),
        path("tests/it/cli/bin").display(),
        std::env::var("PATH").unwrap()
    );
    let output = Command::new("bash")
        .arg(path("examples/pipelines/canary.sh"))
        .args(["web.yaml", "shop", "web", test])
        .env("PATH", paths)
        .env("FAKE_KUBECTL", kubectl.file(""))
        .envs([("INTERVAL", "0"), ("BAKE", "30s")])
        .env_remove("ROLLPLAN_SERVER")
        .env_remove("KUBECTL")
        .output()
        .unwrap();
    let last = kubectl.calls().pop().unwrap();
    let applied = last.starts_with("apply ") && !last.contains("--dry-run");
    let exit = output.status.code().unwrap_or(-1);
    println!("{}", String::from_utf8_lossy(&output.stderr));
    assert!(
        kubectl.calls()[1].starts_with("create --save-config "),
        "{:?}",
        kubectl.calls()
    );
    (exit, patches(&kubectl).len(), applied)
}

#[test]
fn digest_is_all_that_a_script_reads() {
    let rest = World::new();
    let held = World::held(Some(60));
    let digest = held.digest();
    let polls = [
        rest.answer(&rest.changed()),
        rest.poll(),
        patched(),
        held.poll(),
    ];
    let (watched, _) = run(&polls, &[&START[..], &WATCH, &["-o", "digest"]].concat());
    assert_eq!((watched.exit, watched.out), (0, format!("{digest}\n")));
    assert!(
        watched.err.contains("the canary starts with 1 of 4 pods"),
        "{}",
        watched.err
    );
    let (dry_run, _) = run(
        &polls,
        &[&START[..], &["-o", "digest", "--dry-run"]].concat(),
    );
    assert_eq!((dry_run.exit, dry_run.out), (0, format!("{digest}\n")));
    let (same, _) = run(
        &[rest.poll(), rest.poll()],
        &[&START[..], &["-o", "digest"]].concat(),
    );
    assert_eq!((same.exit, same.out.as_str()), (0, ""));
}

/// The canary of a newer run has taken the place of this one.
#[test]
fn other_templates_are_left_alone() {
    let held = World::held(Some(60));
    let digest = held.digest();
    let other = "has a canary with another template: ";
    for verb in ["promote", "abort"] {
        let args = [verb, "web", "--interval=0", "--template=sha256:1"];
        let (refused, kubectl) = run(&[held.poll()], &args);
        assert_eq!(
            (refused.exit, patches(&kubectl).len()),
            (2, 0),
            "{}",
            refused.err
        );
        assert!(refused.err.contains(other), "{}", refused.err);
        // The command that started the canary has held none.
        let (refused, kubectl) = run(
            &[held.poll()],
            &[verb, "web", "--interval=0", "--template="],
        );
        assert_eq!(
            (refused.exit, patches(&kubectl).len()),
            (2, 0),
            "{}",
            refused.err
        );
        let template = format!("--template={digest}");
        let args = [verb, "web", "--no-wait", &template];
        let (carried_out, kubectl) = run(&[held.poll(), patched()], &args);
        assert_eq!(
            (carried_out.exit, patches(&kubectl).len()),
            (3, 1),
            "{}",
            carried_out.err
        );
    }
    // A watch never acts on it.
    let mut newer = World::held(None);
    newer.fail();
    *newer
        .deployment
        .pointer_mut("/spec/template/spec/containers/0/image")
        .unwrap() = "x:10".into();
    let polls = [
        held.answer(&held.changed()),
        World::held(None).poll(),
        newer.poll(),
    ];
    let (watched, kubectl) = run(&polls, &[&START[..], &WATCH].concat());
    assert_eq!(
        (watched.exit, patches(&kubectl).len()),
        (2, 0),
        "{}",
        watched.err
    );
    assert!(watched.err.contains(other), "{}", watched.err);
}

#[test]
fn canary_that_is_not_good_is_promoted_only_by_force() {
    let held = World::held(None);
    let (refused, kubectl) = run(&[held.poll()], &["promote", "web"]);
    assert_eq!((refused.exit, patches(&kubectl).len()), (2, 0));
    let why = "has a canary that is not good (0 of 1 canary pods are ready";
    assert!(refused.err.contains(why), "{}", refused.err);
    let args = ["promote", "web", "--no-wait", "--force"];
    let (forced, kubectl) = run(&[held.poll(), patched()], &args);
    assert_eq!(
        (forced.exit, patches(&kubectl).len()),
        (3, 1),
        "{}",
        forced.err
    );
}

#[test]
fn status_has_the_criteria_of_the_start() {
    let held = World::held_with(Some(60), &["--bake=5m", "--gate=smoke", "--pipeline=shop"]);
    let (run, _) = run(&[held.poll()], &["status", "web"]);
    assert_eq!(run.exit, 3);
    let waits = "the canary waits: the verdict \"smoke\" is missing\n  - all canary pods are ready, and must stay ready for ";
    let left = run.out.split(waits).nth(1).unwrap();
    // Less, if the command was slow.
    assert!(
        ["4m", "3m"].iter().any(|it| left.starts_with(it)),
        "{}",
        run.out
    );
    assert!(run.out.contains("\n  pipeline: shop\n"), "{}", run.out);
    let verdict = ["status", "web", "--bake=30s", "--verdict=smoke=pass"];
    let (good, _) = self::run(&[held.poll()], &verdict);
    assert_eq!(good.exit, 0, "{}", good.out);
    let promote = ["promote", "web", "--no-wait", "--verdict=smoke=pass"];
    let (refused, _) = self::run(&[held.poll()], &promote);
    assert_eq!(refused.exit, 2, "{}", refused.err);
}

/// The dry run is made again, against the stable template.
#[test]
fn newer_image_of_the_pipeline_replaces_the_canary() {
    let held = World::held_with(None, &["--pipeline=shop"]);
    let mut newer = held.clone();
    *newer
        .deployment
        .pointer_mut("/spec/template/spec/containers/0/image")
        .unwrap() = "x:10".into();
    let mut aborted = held.clone();
    aborted.patch(&held.dry_run(&["abort", "web"], false));
    aborted.complete("779f94f8fc");
    let mut ended = World::new();
    ended.deployment["metadata"]["generation"] = 40.into();
    ended.deployment["status"]["observedGeneration"] = 40.into();
    let mut changed = ended.clone();
    *changed
        .deployment
        .pointer_mut("/spec/template/spec/containers/0/image")
        .unwrap() = "x:10".into();
    let start = ["start", "deploy/web", "-n", "shop", "--image=web=x:10"];
    let replace = [
        "--pipeline=shop",
        "--replace",
        "--watch",
        "--interval=0",
        "--timeout=0",
    ];
    let polls = [
        newer.poll(),
        held.poll(),
        patched(),
        newer.poll(),
        aborted.poll(),
        patched(),
        changed.poll(),
        ended.poll(),
        patched(),
    ];
    let (refused, kubectl) = run(&polls, &start);
    assert_eq!((refused.exit, patches(&kubectl).len()), (2, 0));
    let text = "already has a canary of the pipeline \"shop\": promote or abort it first";
    assert!(refused.err.contains(text), "{}", refused.err);
    let long = [&start[..], &replace[..4], &["--timeout=10m"]].concat();
    let stops = [&polls[..], &[failing(DENIED)]].concat();
    let (replaced, kubectl) = run(&stops, &long);
    let calls = kubectl.calls();
    assert_eq!(
        calls
            .iter()
            .filter(|it| it.starts_with("set image"))
            .count(),
        3,
        "{calls:?}"
    );
    let patches = patches(&kubectl);
    assert_eq!(patches.len(), 3, "{}{}", replaced.out, replaced.err);
    assert!(
        patches[2].contains("x:10") && patches[2].contains("2147483646"),
        "{}",
        patches[2]
    );
    // It waits only as long as the canary has time.
    let (late, _) = run(&polls, &[&start[..], &replace].concat());
    assert_eq!(late.exit, 3, "{}", late.err);
    assert!(late.err.contains("waits for its end"), "{}", late.err);
}

/// The command that rolled back was killed after its patch.
#[test]
fn wait_ends_an_earlier_rollback() {
    let (mut complete, _) = rolled_back(&failed_rollout());
    complete.complete("779f94f8fc");
    let (good, kubectl) = roll_back(&[complete.poll(), complete.poll(), patched()], &[]);
    assert_eq!(
        (good.exit, patches(&kubectl).len()),
        (0, 1),
        "{}{}",
        good.out,
        good.err
    );
    assert!(
        good.err
            .contains("was not ended: the stable template is restored"),
        "{}",
        good.err
    );
    // The next image is bad, too.
    let mut again = failed_rollout();
    again.deployment["metadata"]["annotations"] =
        complete.deployment["metadata"]["annotations"].clone();
    again.deployment["metadata"]["labels"] = complete.deployment["metadata"]["labels"].clone();
    *again
        .deployment
        .pointer_mut("/spec/template/spec/containers/0/image")
        .unwrap() = "x:10".into();
    again.sets.last_mut().unwrap()["spec"]["template"]["spec"]["containers"][0]["image"] =
        "x:10".into();
    let mut ended = again.clone();
    let (_, kubectl) = roll_back(&[again.poll(), again.poll(), patched()], &["--timeout=0"]);
    ended.patch(&patches(&kubectl)[0]);
    let polls = [
        again.poll(),
        again.poll(),
        patched(),
        ended.poll(),
        patched(),
        failing(DENIED),
    ];
    let (bad, kubectl) = roll_back(&polls, &[]);
    assert_eq!(bad.exit, 1, "{}", bad.out);
    let patches = patches(&kubectl);
    assert!(
        patches[1].contains(r#""op":"replace","path":"/spec/template""#),
        "{patches:?}"
    );
}

#[test]
fn component_has_the_script() {
    check_component("canary");
}

#[test]
fn guard_is_the_policy_of_the_chart() {
    let policy = read("helm/rollplan/files/canary-guard.yaml");
    assert_eq!(answered(&["canary", "guard"], ""), policy);
}

/// A hold must not look like a rollout that hangs.
#[test]
fn status_of_the_rollout_shows_the_canary() {
    let held = World::held(Some(60));
    let kubectl = Kubectl::new(&[held.poll()]);
    let run = kubectl.run(&["status", "web", "-n", "shop"]);
    assert_eq!((run.exit, run.err.as_str()), (3, ""));
    let out: String = run.out.split_whitespace().collect::<Vec<_>>().join(" ");
    for text in [
        "Deployment shop/web: progressing deployment \"web\" has a canary - 1 of 1 canary pods are available, and the canary is held \
         since 20",
        "remedy: promote or abort the canary: `rollplan canary promote deploy/web -n shop` or `rollplan canary abort deploy/web -n \
         shop`",
    ] {
        assert!(out.contains(text), "{}", run.out);
    }
    assert!(!out.contains("minReadySeconds"), "{}", run.out);
    let json = kubectl.run(&["status", "web", "-o", "json"]);
    let json: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(json["report"]["verdict"]["reason"], "CANARY_HELD");
    assert!(json["report"]["blockers"][0]["since"].is_string());
    let message = json["report"]["verdict"]["message"].as_str().unwrap();
    assert!(message.contains("the canary is held"), "{message}");
    assert_eq!(json["report"]["verdict"]["outlook"], "OUTLOOK_UNDECIDED");
    let remedy = json["report"]["verdict"]["remedy"].as_str().unwrap();
    assert!(
        remedy.starts_with("promote or abort the canary: "),
        "{remedy}"
    );
    assert_eq!(json["report"]["blockers"][0]["reason"], "CANARY_HELD");
    let mut failed = World::held(None);
    failed.fail();
    let kubectl = Kubectl::new(&[failed.poll()]);
    let run = kubectl.run(&["status", "web"]);
    assert_eq!(run.exit, 1, "{}", run.out);
    assert!(
        run.out.contains("stalled") && run.out.contains("the canary is held"),
        "{}",
        run.out
    );
    let json = Kubectl::new(&[failed.poll()]).run(&["status", "web", "-o", "json"]);
    let report = &serde_json::from_str::<Value>(&json.out).unwrap()["report"];
    let [verdict, blockers] = ["verdict", "blockers"].map(|field| &report[field]);
    assert_eq!(verdict["outlook"], "OUTLOOK_NEEDS_CHANGE");
    assert_eq!(blockers[0]["reason"], verdict["reason"]);
    assert_eq!(blockers[1]["reason"], "CANARY_HELD");
    let kubectl = Kubectl::new(&[held.poll()]);
    let run = kubectl.run(&["wait", "web", "--timeout=0"]);
    assert_eq!(run.exit, 3);
    assert!(
        run.out
            .contains("has a canary: 1 of 1 canary pods are available"),
        "{}",
        run.out
    );
}

const DENIED: &str = "Error from server (Forbidden): deployments.apps \"web\" is forbidden: User \"ci\" cannot patch resource";
const ROLL_BACK: [&str; 5] = ["wait", "web", "-n", "shop", "--on-failure=roll-back"];
const POLLING: &str = "--interval=0";

/// A rollout without a canary, whose new pod certainly needs another image.
fn failed_rollout() -> World {
    let mut world = World::new();
    world.deployment = world.changed();
    world.patch("[]");
    world.create_canary(None);
    world.fail();
    world
}

/// Runs `wait` with automatic rollback.
fn roll_back(polls: &[Poll], more: &[&str]) -> (Run, Kubectl) {
    let kubectl = Kubectl::new(polls);
    let run = kubectl.run(&[&ROLL_BACK[..], &[POLLING], more].concat());
    (run, kubectl)
}

/// The world after the patch of a rollback.
fn rolled_back(failed: &World) -> (World, String) {
    let (_, kubectl) = roll_back(&[failed.poll(), failed.poll(), patched()], &["--timeout=0"]);
    let [patch] = &patches(&kubectl)[..] else {
        panic!("one patch");
    };
    let mut aborting = failed.clone();
    aborting.patch(patch);
    (aborting, patch.clone())
}

#[test]
fn failed_rollout_is_rolled_back() {
    let failed = failed_rollout();
    let (aborting, patch) = rolled_back(&failed);
    assert!(
        patch.contains(r#""op":"replace","path":"/spec/template""#),
        "{patch}"
    );
    // The template is that of the stable ReplicaSet, and nothing else of the user has changed.
    let mut user = aborting.deployment.clone();
    let before = World::new().deployment;
    assert_eq!(user["spec"], before["spec"]);
    let annotations = user["metadata"]["annotations"].as_object_mut().unwrap();
    assert!(annotations.remove("rollplan.dev/canary").is_some());
    assert_eq!(
        user["metadata"]["annotations"],
        before["metadata"]["annotations"]
    );
    let mut complete = aborting.clone();
    complete.complete("779f94f8fc");
    let polls = [
        failed.poll(),
        failed.poll(),
        patched(),
        aborting.poll(),
        complete.poll(),
        patched(),
    ];
    let (run, kubectl) = roll_back(&polls, &[]);
    assert_eq!(run.exit, 1, "{}{}", run.out, run.err);
    assert_eq!(patches(&kubectl).len(), 2);
    assert!(
        run.out
            .contains("the rollout is rolled back to ReplicaSet web-779f94f8fc"),
        "{}",
        run.out
    );
    assert_eq!(
        run.err,
        "note: Deployment shop/web was rolled back; to try the rejected template again, run `rollplan canary retry deploy/web \
         -n shop`\n"
    );
    // Both names of the option are accepted.
    let kubectl = Kubectl::new(&polls);
    let alias = ["wait", "web", "--on-failure=rollback", POLLING];
    assert_eq!(kubectl.run(&alias).exit, 1);
    assert_eq!(patches(&kubectl).len(), 2);
}

#[test]
fn rejected_template_is_not_rolled_back_again() {
    let failed = failed_rollout();
    let (mut complete, _) = rolled_back(&failed);
    complete.complete("779f94f8fc");
    let kubectl = Kubectl::new(&[complete.poll(), patched()]);
    assert_eq!(kubectl.run(&["canary", "abort", "web", POLLING]).exit, 0);
    complete.patch(&patches(&kubectl)[0]);
    // The same manifest is applied again.
    let mut again = failed;
    again.deployment["metadata"]["annotations"] =
        complete.deployment["metadata"]["annotations"].clone();
    let (run, kubectl) = roll_back(&[again.poll()], &[]);
    assert_eq!((run.exit, patches(&kubectl).len()), (1, 0), "{}", run.err);
    assert_eq!(
        run.err,
        "note: Deployment shop/web was not rolled back: this template was rejected before, and is not rolled back again: change it \
         where it comes from; `rollplan undo deploy/web -n shop` shows how to do it by hand\n"
    );
}

/// A rollback needs certainty about the pods: a deadline that has passed is not enough.
#[test]
fn uncertain_failure_is_not_rolled_back() {
    let mut slow = World::new();
    slow.deployment = slow.changed();
    slow.patch("[]");
    slow.create_canary(None);
    let conditions = slow.deployment["status"]["conditions"]
        .as_array_mut()
        .unwrap();
    for condition in conditions.iter_mut() {
        if condition["type"] == "Progressing" {
            condition["status"] = "False".into();
            condition["reason"] = "ProgressDeadlineExceeded".into();
        }
    }
    let (run, kubectl) = roll_back(&[slow.poll()], &[]);
    assert_eq!((run.exit, patches(&kubectl).len()), (1, 0), "{}", run.err);
    let note = "note: Deployment shop/web was not rolled back: it is not certain that its pods need a change";
    assert!(run.err.starts_with(note), "{}", run.err);
}

#[test]
fn rollouts_that_complete_or_are_held_are_left_alone() {
    let (run, kubectl) = roll_back(&[World::new().poll()], &[]);
    assert_eq!((run.exit, run.err.as_str()), (0, ""), "{}", run.out);
    assert_eq!(kubectl.calls().len(), 6, "{:?}", kubectl.calls());
    // A canary that has failed is ended by its own commands.
    let mut held = World::held(None);
    held.fail();
    let (run, kubectl) = roll_back(&[held.poll()], &[]);
    assert_eq!((run.exit, patches(&kubectl).len()), (1, 0), "{}", run.err);
    assert!(
        run.err
            .starts_with("note: Deployment shop/web was not rolled back: "),
        "{}",
        run.err
    );
}

#[test]
fn dry_run_of_a_rollback_patches_nothing() {
    let failed = failed_rollout();
    let (run, kubectl) = roll_back(&[failed.poll()], &["--dry-run"]);
    assert_eq!((run.exit, patches(&kubectl).len()), (1, 0), "{}", run.err);
    let step = "\n 1. the rollout is rolled back to ReplicaSet web-779f94f8fc\n    call        PATCH apps/v1 Deployment shop/web\n";
    assert!(run.out.contains(step), "{}", run.out);
    let (run, kubectl) = roll_back(&[failed.poll()], &["--dry-run", "-o", "json"]);
    assert_eq!((run.exit, patches(&kubectl).len()), (1, 0), "{}", run.err);
    let last: Value = serde_json::from_str(run.out.lines().last().unwrap()).unwrap();
    assert_eq!(last["report"]["phase"], "CANARY_PHASE_ABORTING");
}

/// The rollback continues in the cluster.
#[test]
fn interrupted_rollback_continues() {
    let failed = failed_rollout();
    let (aborting, _) = rolled_back(&failed);
    let polls = [failed.poll(), failed.poll(), patched(), aborting.poll()];
    let kubectl = Kubectl::new(&polls);
    let args = [&ROLL_BACK[..], &["--interval=5ms"]].concat();
    let output = kubectl.interrupted(&args, Signal::INT);
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.signal(), Some(2), "{err}");
    assert_eq!(
        err,
        "note: the rollback of Deployment shop/web continues; `rollplan canary abort deploy/web -n shop` waits for its end\n"
    );
}

#[test]
fn rollback_without_permission_is_reported() {
    let failed = failed_rollout();
    let (run, _) = roll_back(&[failed.poll(), failed.poll(), failing(DENIED)], &[]);
    assert_eq!(run.exit, 1, "{}", run.out);
    assert!(run.err.contains("cannot patch resource"), "{}", run.err);
}

#[test]
fn rollback_options_that_do_not_apply_are_refused() {
    for (args, expected) in [
        (
            &["wait", "web", "--on-failure=roll-back", "--for=deleted"][..],
            "--on-failure can only be used with --for=complete, available or updated",
        ),
        (
            &["wait", "web", "--on-failure=roll-back", "-o", "name"],
            "--on-failure cannot be used with -o name",
        ),
        (&["wait", "web", "--dry-run"], "--on-failure"),
        (&["wait", "web", "--on-failure=abort"], "invalid value"),
    ] {
        let error = refused(args, "");
        assert!(error.contains(expected), "{args:?}: {error}");
    }
}
