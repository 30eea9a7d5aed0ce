//! Formats steps as one shell command: kubectl makes the same calls, with the same preconditions.
//!
//! Bodies are here-documents on file descriptor 3. Standard input remains that of the shell, for credential plugins
//! that ask for a password.

use rollplan_text::{undo_title, wrapped};
use rollplan_wire::proto::{
    self, ApiCall, PlanCanaryResponse, PlanRestartsResponse, PlanRolloutResponse, RollbackResponse,
    Step, Verb,
};
use serde_json::Value;

use super::{body, shell};
use crate::cli::error::Error;
use crate::cli::options::ClusterArgs;

/// The path of the body of a call.
const BODY: &str = "/dev/fd/3";

/// The query parameter for the field manager of a call.
const MANAGER: &str = "fieldManager=";

/// The delimiter of here-documents. It is never a line of JSON.
const BODY_END: &str = "EOF";

/// The width of comments.
const COMMENT_COLUMNS: usize = 98;

/// Runs kubectl and ignores a failure for which the API server reports one of the given reasons. kubectl's output is
/// shown while it runs. `grep` must read all of it, unlike `grep -q`.
const TOLERATE: &str = r#"
# tolerate REASON COMMAND...: succeeds if the command does, or if kubectl reports REASON.
tolerate() {
  report="^Error from server [(]($1)[)]"
  shift
  outcome=$({
    { "$@" 2>&1 >&4 && echo succeeded >&6; } | tee /dev/fd/5 5>&1 >&2 | grep -E -c "$report" >&6
  } 6>&1) || :
  case $outcome in
  succeeded* | [1-9]*) ;;
  *) return 1 ;;
  esac
} 4>&1
"#;

/// The largest command that is printed without a warning. Linux limits the arguments of a process to 2 MiB, macOS to 1
/// MiB.
const SCRIPT_BYTES_MAX: usize = 900 << 10;

/// Commands to paste, with notes for the user.
#[derive(Debug)]
pub(in crate::cli) struct Commands {
    pub(in crate::cli) text: String,
    pub(in crate::cli) warnings: Vec<String>,
}

/// The command that executes a plan.
pub(in crate::cli) fn plan(
    subject: &str,
    cluster: &ClusterArgs,
    response: &PlanRolloutResponse,
) -> Result<Commands, Error> {
    let mut script = Script::new(cluster)?;
    let PlanRolloutResponse { steps, .. } = response;
    match steps.len() {
        0 => script.comment(&format!("{subject}: nothing to do now")),
        count => {
            let steps = if count == 1 { "step" } else { "steps" };
            script.comment(&format!("{subject}: {count} {steps}"));
            script.comment(
                "Each call has its preconditions. If one fails, the calls after it are not made. \
                 Events are not recorded. Plan again afterwards, even if a call failed.",
            );
        }
    }
    script.steps(steps)?;
    Ok(script.into_commands(steps))
}

/// The command that executes a plan of a canary.
pub(in crate::cli) fn canary(
    subject: &str,
    cluster: &ClusterArgs,
    response: &PlanCanaryResponse,
) -> Result<Commands, Error> {
    let mut script = Script::new(cluster)?;
    let report = response.report.clone().unwrap_or_default();
    script.comment(&format!("{subject}: {}", report.message));
    if !response.steps.is_empty() {
        script.comment("The call has its preconditions. Plan again afterwards, even if it failed.");
    }
    script.steps(&response.steps)?;
    Ok(script.into_commands(&response.steps))
}

/// The command that executes a rollback.
pub(in crate::cli) fn undo(
    subject: &str,
    cluster: &ClusterArgs,
    response: &RollbackResponse,
) -> Result<Commands, Error> {
    let mut script = Script::new(cluster)?;
    script.comment(&undo_title(subject, response));
    if !response.reason.is_empty() {
        script.comment(&response.reason);
    }
    for warning in &response.warnings {
        script.comment(&format!("- {warning}"));
    }
    script.steps(&response.steps)?;
    Ok(script.into_commands(&response.steps))
}

/// The commands that execute restarts, one for each workload, because workloads do not depend on each other.
pub(in crate::cli) fn restarts(
    cluster: &ClusterArgs,
    response: &PlanRestartsResponse,
) -> Result<Commands, Error> {
    let mut script = Script::new(cluster)?;
    let mut steps = Vec::new();
    for plan in &response.plans {
        let mut of_workload = plan.steps.clone();
        if let [step] = of_workload.as_mut_slice() {
            step.on_failure = proto::OnFailure::Continue.into();
        }
        steps.extend(of_workload);
    }
    match steps.len() {
        0 => script.comment("restarts: nothing to do now"),
        count => {
            script.comment(&format!(
                "restarts: {count} calls, each with its preconditions"
            ));
            script
                .comment("Events are not recorded. Plan again afterwards, even if a call failed.");
        }
    }
    script.steps(&steps)?;
    Ok(script.into_commands(&steps))
}

/// The script for `sh`.
struct Script {
    text: String,
    /// The options of every kubectl command, each with a leading blank.
    options: String,
}

/// How the script handles a failed call.
enum FailureHandling {
    Stop,
    /// Ignore these reasons of the API server, given as an extended regular expression.
    Tolerate(String),
    Continue,
}

// === impl Script ===

impl Script {
    /// An empty script for the cluster that the objects were read from.
    fn new(cluster: &ClusterArgs) -> Result<Self, Error> {
        let mut options = String::new();
        // The namespace is set in each command, for its object.
        for (name, value) in cluster.options().filter(|(name, _)| *name != "--namespace") {
            options.extend([" ", name, "=", &shell::word(value)?]);
        }
        Ok(Self {
            text: "\n".to_owned(),
            options,
        })
    }

    fn comment(&mut self, text: &str) {
        for line in wrapped(&shell::comment(text), COMMENT_COLUMNS) {
            self.text.extend(["# ", &line, "\n"]);
        }
    }

    fn steps(&mut self, steps: &[Step]) -> Result<(), Error> {
        let on_failure: Vec<FailureHandling> = steps.iter().map(FailureHandling::of).collect();
        if on_failure
            .iter()
            .any(|on_failure| matches!(on_failure, FailureHandling::Tolerate(_)))
        {
            self.text.push_str(TOLERATE);
        }
        for (index, (step, on_failure)) in steps.iter().zip(&on_failure).enumerate() {
            self.text.push('\n');
            let number = index + 1;
            self.comment(&format!("{number}. {}", step.summary));
            match &step.call {
                Some(call) => self.call(number, call, on_failure)?,
                None => self.comment("No call: events only."),
            }
        }
        Ok(())
    }

    fn call(
        &mut self,
        number: usize,
        call: &ApiCall,
        on_failure: &FailureHandling,
    ) -> Result<(), Error> {
        let command = self.kubectl(call)?;
        let (before, after) = match on_failure {
            FailureHandling::Stop => (String::new(), String::new()),
            FailureHandling::Tolerate(reasons) => {
                (format!("tolerate \"{reasons}\" "), String::new())
            }
            FailureHandling::Continue => {
                let text =
                    format!("step {number} failed; the steps after it are still carried out");
                (String::new(), format!(" || echo \"{text}\" >&2"))
            }
        };
        let body = body::lines(&call.body_json)?;
        let text = format!("{before}{command} 3<<\\{BODY_END}{after}\n{body}{BODY_END}\n");
        self.text.push_str(&text);
        Ok(())
    }

    fn kubectl(&self, call: &ApiCall) -> Result<String, Error> {
        let options = &self.options;
        let namespace = shell::word(&call.namespace)?;
        Ok(match call.verb() {
            Verb::Create => format!("kubectl create{options} -n {namespace} -f {BODY}"),
            Verb::Delete => {
                let path = shell::word(&call.path)?;
                format!("kubectl delete{options} --raw {path} -f {BODY}")
            }
            Verb::Patch | Verb::Get | Verb::Unspecified => {
                let mut args = String::new();
                for arg in patch_args(call) {
                    args.extend([" ", &shell::word(&arg)?]);
                }
                format!("kubectl patch{options}{args} --patch-file={BODY}")
            }
        })
    }

    fn into_commands(self, steps: &[Step]) -> Commands {
        let text = shell::command(&self.text);
        let mut warnings = Vec::new();
        if steps.iter().any(has_environment) {
            warnings.push(
                "the commands contain the values of environment variables, which the table hides: do not \
                 show them to anyone who must not know these values"
                    .to_owned(),
            );
        }
        if text.len() > SCRIPT_BYTES_MAX {
            warnings.push(format!(
                "the command has {} KiB, which may be more than this system allows: use -o json to print the calls",
                text.len() >> 10
            ));
        }
        Commands { text, warnings }
    }
}

// === impl FailureHandling ===

impl FailureHandling {
    fn of(step: &Step) -> Self {
        match step.on_failure() {
            proto::OnFailure::Unspecified | proto::OnFailure::Stop => Self::Stop,
            proto::OnFailure::Continue => Self::Continue,
            proto::OnFailure::DoneIf => {
                let codes = step.done_http_codes.iter();
                let reasons: Vec<&str> = codes.flat_map(|code| reasons(*code)).copied().collect();
                match reasons.as_slice() {
                    [] => Self::Stop,
                    reasons => Self::Tolerate(reasons.join("|")),
                }
            }
        }
    }
}

/// The reason in kubectl's messages, such as "Error from server (NotFound): …". Unknown codes are not tolerated.
fn reasons(code: i32) -> &'static [&'static str] {
    match code {
        403 => &["Forbidden"],
        404 => &["NotFound"],
        409 => &["AlreadyExists", "Conflict"],
        410 => &["Expired", "Gone"],
        422 => &["Invalid"],
        _ => &[],
    }
}

/// Whether the body of the call contains values of environment variables.
fn has_environment(step: &Step) -> bool {
    fn within(value: &Value) -> bool {
        let is_set = |item: &Value| item.get("value").is_some_and(|value| value != "");
        match value {
            Value::Object(fields) => fields.iter().any(|(name, value)| {
                let items = value.as_array().filter(|_| name == "env");
                items.is_some_and(|items| items.iter().any(is_set)) || within(value)
            }),
            Value::Array(items) => items.iter().any(within),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        }
    }
    let body = step
        .call
        .as_ref()
        .map(|call| serde_json::from_str(&call.body_json));
    body.is_some_and(|body| body.is_ok_and(|body: Value| within(&body)))
}

/// The arguments of `kubectl patch` for a call, except for the body.
pub(in crate::cli) fn patch_args(call: &ApiCall) -> Vec<String> {
    let kind = match call.content_type.as_str() {
        "application/json-patch+json" => "json",
        "application/strategic-merge-patch+json" => "strategic",
        _ => "merge",
    };
    let part = match call.subresource.as_str() {
        "" => None,
        part => Some(format!("--subresource={part}")),
    };
    // By its name, admission policies recognize the patches of canaries.
    let manager = call.query.strip_prefix(MANAGER);
    let manager = manager.filter(|it| it.starts_with("rollplan-"));
    let manager = manager.map(|manager| format!("--field-manager={manager}"));
    let object = [object(call), "-n".to_owned(), call.namespace.clone()];
    let object = object.into_iter().chain(part);
    object
        .chain([format!("--type={kind}")])
        .chain(manager)
        .collect()
}

/// The object in kubectl's notation, with its group, because kinds of other groups may have the same name.
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

#[cfg(test)]
#[allow(clippy::expect_used, reason = "a test that fails may panic")]
mod tests {
    use serde_json::json;

    use super::*;

    fn step(verb: Verb, body: &Value) -> Step {
        Step {
            call: Some(ApiCall {
                verb: verb.into(),
                api_version: "apps/v1".to_owned(),
                kind: "ReplicaSet".to_owned(),
                namespace: "shop".to_owned(),
                name: "web-1".to_owned(),
                body_json: body.to_string(),
                ..ApiCall::default()
            }),
            ..Step::default()
        }
    }

    fn commands(context: &str, steps: Vec<Step>) -> Result<Commands, Error> {
        let cluster = ClusterArgs {
            all_namespaces: false,
            namespace: Some("ignored".to_owned()),
            context: Some(context.to_owned()),
            kubeconfig: None,
        };
        let response = PlanRolloutResponse {
            steps,
            ..PlanRolloutResponse::default()
        };
        plan("Deployment shop/web", &cluster, &response)
    }

    #[test]
    fn only_tolerated_reasons_are_ignored() {
        let tolerating = |codes: &[i32]| {
            let mut step = step(Verb::Delete, &json!({}));
            let on_failure = match codes {
                [] => proto::OnFailure::Continue,
                _ => proto::OnFailure::DoneIf,
            };
            step.set_on_failure(on_failure);
            step.done_http_codes = codes.to_vec();
            commands("prod", vec![step]).expect("commands").text
        };
        assert!(tolerating(&[404]).contains("\ntolerate \"NotFound\" kubectl delete"));
        assert!(
            tolerating(&[404, 409]).contains("\ntolerate \"NotFound|AlreadyExists|Conflict\" ")
        );
        let all = "\ntolerate \"Forbidden|Expired|Gone|Invalid\" ";
        assert!(tolerating(&[403, 410, 422]).contains(all));
        // Unknown codes are not tolerated.
        let text = tolerating(&[599]);
        assert!(!text.contains("tolerate") && !text.contains("||"), "{text}");
        assert!(tolerating(&[]).contains(" 3<<\\EOF || echo \"step 1 failed; "));
    }

    #[test]
    fn patches_have_the_type_of_their_content() {
        for (content_type, kind) in [
            ("application/json-patch+json", "json"),
            ("application/strategic-merge-patch+json", "strategic"),
            ("application/merge-patch+json", "merge"),
        ] {
            let mut step = step(Verb::Patch, &json!({}));
            if let Some(call) = &mut step.call {
                call.content_type = content_type.to_owned();
            }
            let text = commands("prod", vec![step]).expect("commands").text;
            assert!(text.contains(&format!(" --type={kind} ")), "{text}");
        }
    }

    #[test]
    fn environment_values_cause_a_warning() {
        let template = |env: Value| json!({"spec": {"containers": [{"env": env}]}});
        for (env, warns) in [
            (json!([{"name": "A", "value": "secret"}]), true),
            (json!([{"name": "A"}, {"name": "B", "value": ""}]), false),
            (json!([{"name": "A", "valueFrom": {"fieldRef": {}}}]), false),
        ] {
            let patch =
                json!([{"op": "replace", "path": "/spec/template", "value": template(env)}]);
            let commands = commands("prod", vec![step(Verb::Patch, &patch)]).expect("commands");
            assert_eq!(!commands.warnings.is_empty(), warns, "{patch}");
        }
    }

    #[test]
    fn very_large_commands_cause_a_warning() {
        let body = json!({"a": "x".repeat(SCRIPT_BYTES_MAX)});
        let commands = commands("prod", vec![step(Verb::Patch, &body)]).expect("commands");
        assert_eq!(commands.warnings.len(), 1, "{:?}", commands.warnings);
    }

    #[test]
    fn unquotable_text_is_refused() {
        let error = commands("a\nb", vec![]).expect_err("a line break");
        assert!(matches!(error, Error::Usage(_)), "{error}");
        let mut step = step(Verb::Patch, &json!({}));
        if let Some(call) = &mut step.call {
            call.body_json = "'; touch pwned; '".to_owned();
        }
        let error = commands("prod", vec![step]).expect_err("a body that is not JSON");
        assert!(matches!(error, Error::Bug(_)), "{error}");
    }

    #[test]
    fn kinds_of_other_groups_are_qualified() {
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
