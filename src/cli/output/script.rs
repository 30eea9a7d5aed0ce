//! Steps as commands for a shell: kubectl makes the same calls, preconditions and all.

use super::page::printable;
use super::revision::undo_title;
use crate::cli::args::ClusterArgs;
use crate::proto::{ApiCall, PlanRolloutResponse, RollbackResponse, Step, Verb};

/// Bytes of a body that go into an argument. Linux takes 128 KiB in one.
const ARGUMENT_BYTES_MAX: usize = 64 << 10;

/// Commands that carry out a plan.
pub(in crate::cli) fn plan(
    subject: &str,
    cluster: &ClusterArgs,
    response: &PlanRolloutResponse,
) -> String {
    let mut script = Script::new(cluster);
    let PlanRolloutResponse { steps, .. } = response;
    match steps.len() {
        0 => script.comment(&format!("{subject}: nothing to do now")),
        count => {
            let steps = if count == 1 { "step" } else { "steps" };
            script.comment(&format!(
                "{subject}: {count} {steps}, each with its preconditions. The first that fails ends them."
            ));
            script.comment(
                "Events are not recorded. Plan again afterwards, also when a step failed.",
            );
        }
    }
    script.steps(steps);
    script.text
}

/// Commands that carry out a rollback.
pub(in crate::cli) fn undo(
    subject: &str,
    cluster: &ClusterArgs,
    response: &RollbackResponse,
) -> String {
    let mut script = Script::new(cluster);
    script.comment(&undo_title(subject, response));
    if !response.reason.is_empty() {
        script.comment(&response.reason);
    }
    for warning in &response.warnings {
        script.comment(&format!("- {warning}"));
    }
    script.steps(&response.steps);
    script.text
}

struct Script {
    text: String,
    /// Options that every command has, blank first.
    options: String,
}

// === impl Script ===

impl Script {
    /// For the cluster that the objects were read from.
    fn new(cluster: &ClusterArgs) -> Self {
        // Every command names the namespace of its object.
        let options = cluster.options().filter(|(name, _)| *name != "--namespace");
        let options = options.map(|(name, value)| format!(" {name}={}", quoted(value)));
        Self {
            text: String::new(),
            options: options.collect(),
        }
    }

    fn comment(&mut self, text: &str) {
        let text = printable(text).replace('\n', " ");
        self.text.extend(["# ", &text, "\n"]);
    }

    /// Each command only runs if those before it went well, or may fail.
    fn steps(&mut self, steps: &[Step]) {
        let last_call = steps.iter().rposition(|step| step.call.is_some());
        for (index, step) in steps.iter().enumerate() {
            self.text.push('\n');
            self.comment(&format!("{}. {}", index + 1, step.summary));
            match &step.call {
                Some(call) => {
                    self.command(call, step.continue_on_failure, Some(index) == last_call);
                }
                None => self.comment("no call: events only"),
            }
        }
    }

    fn command(&mut self, call: &ApiCall, may_fail: bool, is_last: bool) {
        let (command, input) = self.kubectl(call);
        let command = match input {
            Some(_) => command + " <<'EOF'",
            None => command,
        };
        let command = match (may_fail, is_last) {
            (false, _) => command,
            (true, true) => format!("{command} || true"),
            (true, false) => format!("{{ {command} || true; }}"),
        };
        self.text.push_str(&command);
        self.text.push_str(if is_last { "\n" } else { " &&\n" });
        if let Some(input) = input {
            // A line of JSON never is that of the end.
            self.text.extend([&input, "\nEOF\n"]);
        }
    }

    /// The command, and what it reads.
    fn kubectl(&self, call: &ApiCall) -> (String, Option<String>) {
        let body = plain_json(&call.body_json);
        let options = &self.options;
        let namespace = quoted(&call.namespace);
        match call.verb() {
            Verb::Create => (
                format!("kubectl create{options} -n {namespace} -f -"),
                Some(body),
            ),
            Verb::Delete => {
                let path = quoted(&path(call));
                (
                    format!("kubectl delete{options} --raw {path} -f -"),
                    Some(body),
                )
            }
            Verb::Patch | Verb::Unspecified => {
                let kind = match call.content_type.as_str() {
                    "application/json-patch+json" => "json",
                    "application/strategic-merge-patch+json" => "strategic",
                    _ => "merge",
                };
                let part = match call.subresource.as_str() {
                    "" => String::new(),
                    part => format!(" --subresource={}", quoted(part)),
                };
                let object = quoted(&object(call));
                let command =
                    format!("kubectl patch{options} {object} -n {namespace}{part} --type={kind}");
                if body.len() > ARGUMENT_BYTES_MAX {
                    (command + " --patch-file=/dev/stdin", Some(body))
                } else {
                    (format!("{command} -p {}", quoted(&body)), None)
                }
            }
        }
    }
}

/// The object as kubectl takes it, its group named: others may have a kind of the same name.
fn object(call: &ApiCall) -> String {
    let ApiCall {
        api_version,
        kind,
        name,
        ..
    } = call;
    match (api_version.split_once('/'), kind.as_str()) {
        (Some(("apps", _)), "Deployment" | "ReplicaSet") => {
            format!("{}.apps/{name}", kind.to_ascii_lowercase())
        }
        (Some((group, version)), _) => format!("{kind}.{version}.{group}/{name}"),
        (None, _) => format!("{}/{name}", kind.to_ascii_lowercase()),
    }
}

/// The path of the object on the API server.
fn path(call: &ApiCall) -> String {
    let ApiCall {
        api_version,
        kind,
        namespace,
        name,
        ..
    } = call;
    let root = if api_version.contains('/') {
        "apis"
    } else {
        "api"
    };
    let kind = kind.to_ascii_lowercase();
    format!("/{root}/{api_version}/namespaces/{namespace}/{kind}s/{name}")
}

/// One word for a shell, whatever is in it.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | ':');
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// The same JSON on one line of which a terminal and an interactive shell leave every character as it is. What
/// is escaped stands in strings only; line breaks in them are escaped already.
fn plain_json(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '\n' | '\r' | '\t' => text.push(' '),
            // Bash replaces what follows it, in quotes too, by commands that were typed before.
            '!' | '\u{2028}' | '\u{2029}' | '\u{feff}' => {
                text.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c if c.is_control() => text.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => text.push(c),
        }
    }
    text
}

#[cfg(test)]
#[allow(clippy::expect_used, reason = "a test that fails may panic")]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use serde_json::{Value, json};

    use super::*;

    const NASTY: &str =
        "it's \"quoted\" $HOME `id` \\ \n\nEOF\n!x !! \u{1b}[31m \u{9b} \u{2028} ü %s {a,b} ~ * #";

    fn cluster(context: Option<&str>) -> ClusterArgs {
        ClusterArgs {
            namespace: Some("ignored".to_owned()),
            context: context.map(str::to_owned),
            kubeconfig: None,
        }
    }

    fn step(
        verb: Verb,
        content_type: &str,
        subresource: &str,
        body: &Value,
        may_fail: bool,
    ) -> Step {
        Step {
            summary: format!("{} with {NASTY}", verb.as_str_name()),
            call: Some(ApiCall {
                verb: verb.into(),
                api_version: "apps/v1".to_owned(),
                kind: "ReplicaSet".to_owned(),
                namespace: "shop".to_owned(),
                name: "web-1".to_owned(),
                subresource: subresource.to_owned(),
                content_type: content_type.to_owned(),
                body_json: body.to_string(),
            }),
            continue_on_failure: may_fail,
            ..Step::default()
        }
    }

    /// What a kubectl is told that fails for delete: its arguments and what it reads, each on a line.
    fn run(script: &str) -> Vec<String> {
        let kubectl = "kubectl() { printf '%s|' \"$@\"; case \"$*\" in *'-f -'*|*stdin*) cat;; *) echo;; esac; \
                       [ \"$1\" != delete ]; }\n";
        let mut bash = Command::new("bash")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("bash");
        // Longer than an argument may be.
        let mut stdin = bash.stdin.take().expect("a pipe");
        let input = format!("{kubectl}{script}");
        let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
        let output = bash.wait_with_output().expect("bash ends");
        writer.join().expect("no panic").expect("bash reads");
        let errors = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!(errors, "", "{script}");
        let out = String::from_utf8(output.stdout).expect("UTF-8");
        out.lines().map(str::to_owned).collect()
    }

    fn json_of<'a>(line: &'a str, head: &str) -> Value {
        let body: &'a str = line.strip_prefix(head).unwrap_or_else(|| panic!("{line}"));
        serde_json::from_str(body.trim_end_matches('|')).expect("JSON")
    }

    #[test]
    fn bodies_arrive_as_they_are() {
        let body =
            json!({"metadata": {"annotations": {NASTY: NASTY}}, "n": 9_007_199_254_740_993_i64});
        let long = json!({"metadata": {"annotations": {"a": "x'".repeat(ARGUMENT_BYTES_MAX)}}});
        let response = PlanRolloutResponse {
            steps: vec![
                step(Verb::Create, "application/json", "", &body, false),
                step(Verb::Delete, "application/json", "", &body, true),
                Step::default(),
                step(Verb::Patch, "application/json-patch+json", "", &body, false),
                step(
                    Verb::Patch,
                    "application/merge-patch+json",
                    "status",
                    &body,
                    true,
                ),
                step(
                    Verb::Patch,
                    "application/merge-patch+json",
                    "",
                    &long,
                    false,
                ),
            ],
            ..PlanRolloutResponse::default()
        };
        let context = "my 'context'";
        let script = plan("Deployment shop/web", &cluster(Some(context)), &response);
        assert!(
            !script.contains(|c: char| c.is_control() && c != '\n'),
            "{script}"
        );
        let lines = run(&script);
        assert_eq!(lines.len(), 5, "{script}");
        let option = format!("--context={context}|");
        let head = format!("create|{option}-n|shop|-f|-|");
        assert_eq!(json_of(&lines[0], &head), body);
        let path = "/apis/apps/v1/namespaces/shop/replicasets/web-1";
        let head = format!("delete|{option}--raw|{path}|-f|-|");
        assert_eq!(json_of(&lines[1], &head), body);
        let head = format!("patch|{option}replicaset.apps/web-1|-n|shop|");
        assert_eq!(json_of(&lines[2], &format!("{head}--type=json|-p|")), body);
        let status = format!("{head}--subresource=status|--type=merge|-p|");
        assert_eq!(json_of(&lines[3], &status), body);
        let file = format!("{head}--type=merge|--patch-file=/dev/stdin|");
        assert_eq!(json_of(&lines[4], &file), long);
    }

    /// The first that fails ends it, unless it may.
    #[test]
    fn failures_end_the_chain() {
        let patch = |may_fail| {
            step(
                Verb::Patch,
                "application/merge-patch+json",
                "",
                &json!({}),
                may_fail,
            )
        };
        let delete = |may_fail| step(Verb::Delete, "application/json", "", &json!({}), may_fail);
        for (steps, runs) in [
            (vec![patch(false), delete(false), patch(false)], 2),
            (
                vec![patch(false), delete(false), patch(true), patch(false)],
                2,
            ),
            (vec![patch(false), delete(true), patch(false)], 3),
            (vec![delete(true), delete(true), patch(false)], 3),
            (vec![patch(false), delete(true), Step::default()], 2),
        ] {
            let response = PlanRolloutResponse {
                steps,
                ..PlanRolloutResponse::default()
            };
            let script = plan("Deployment shop/web", &cluster(None), &response);
            assert_eq!(run(&script).len(), runs, "{script}");
        }
    }

    #[test]
    fn kinds_of_others_are_named_in_full() {
        let mut call = ApiCall {
            api_version: "rollplan.dev/v1alpha1".to_owned(),
            kind: "PlannedDeployment".to_owned(),
            name: "web".to_owned(),
            ..ApiCall::default()
        };
        assert_eq!(object(&call), "PlannedDeployment.v1alpha1.rollplan.dev/web");
        call.api_version = "v1".to_owned();
        assert_eq!(object(&call), "planneddeployment/web");
    }
}
