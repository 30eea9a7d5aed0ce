//! Jobs that no longer exist. Some are deleted between two polls, as soon as they finish. Their events are kept longer.

use serde_json::Value;

use super::object::{Object, Objects, Role};

/// The controller whose events report the result of a Job.
const CONTROLLER: &str = "job-controller";

/// The reasons of the condition Failed. The event has the same reason.
const FAILURES: [&str; 5] = [
    "BackoffLimitExceeded",
    "DeadlineExceeded",
    "FailedIndexes",
    "MaxFailedIndexesExceeded",
    "PodFailurePolicy",
];

/// The result of a finished Job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) enum JobEnd {
    Complete,
    /// The Job failed, with the reason and message of the event.
    Failed(String),
}

/// The result of the Job with this UID, if an event reports it.
pub(in crate::cli) fn job_end(events: &Objects<'_>, uid: &str) -> Option<JobEnd> {
    let about = events.all.iter().filter(|event| {
        event.role() == Role::Event
            && event
                .found
                .involved_uid
                .as_ref()
                .is_some_and(|it| it == uid)
    });
    about.filter(|event| is_by_controller(event)).find_map(end)
}

fn is_by_controller(event: &Object<'_>) -> bool {
    let source = event.value("source");
    source.get("component").is_some_and(|it| it == CONTROLLER)
        || event.value("reportingComponent") == CONTROLLER
}

fn end(event: &Object<'_>) -> Option<JobEnd> {
    let [kind, reason, message] = ["type", "reason", "message"].map(|field| event.value(field));
    match (kind.as_str()?, reason.as_str()?) {
        ("Normal", "Completed") => Some(JobEnd::Complete),
        ("Warning", reason) if FAILURES.contains(&reason) => {
            let message = message.as_str().unwrap_or_default();
            Some(JobEnd::Failed(format!("{reason}: {message}")))
        }
        _ => None,
    }
}

/// The reason why an object is deleted once it has finished, such as a time to live. `None` if the object does not
/// state one.
pub(super) fn expiry(object: &Object<'_>) -> Option<String> {
    if (&*object.found.api_version, &*object.found.kind) != ("batch/v1", "Job") {
        return None;
    }
    let (metadata, spec) = (object.value("metadata"), object.value("spec"));
    let seconds = spec.get("ttlSecondsAfterFinished").and_then(Value::as_i64);
    if let Some(seconds) = seconds {
        return Some(format!("its ttlSecondsAfterFinished is {seconds}"));
    }
    let policy = metadata.pointer("/annotations/helm.sh~1hook-delete-policy");
    let policy = policy.and_then(Value::as_str).unwrap_or_default();
    if let Some(policy) = ["hook-succeeded", "hook-failed"]
        .into_iter()
        .find(|it| policy.contains(it))
    {
        return Some(format!("its helm.sh/hook-delete-policy has {policy}"));
    }
    let owners = metadata.get("ownerReferences").and_then(Value::as_array);
    let mut owners = owners.into_iter().flatten();
    owners
        .any(|owner| owner["kind"] == "CronJob" && owner["controller"] == true)
        .then(|| "its CronJob keeps only a few finished Jobs".to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{Source, Texts};
    use super::*;

    fn with<T>(object: &Value, read: impl FnOnce(&Objects<'_>) -> T) -> T {
        let source = [Source::new("test", object.to_string().into_bytes()).unwrap()];
        let texts = Texts::read(&source).unwrap();
        read(&Objects::find(&texts).unwrap())
    }

    #[test]
    fn controller_events_report_the_result_of_a_job() {
        let event = |kind: &str, reason: &str, component: &str| {
            json!({
                "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "involvedObject": {"uid": "u"},
                "type": kind, "reason": reason, "message": "why", "source": {"component": component},
            })
        };
        let failed = |reason: &str| Some(JobEnd::Failed(format!("{reason}: why")));
        for (event, expected) in [
            (
                event("Normal", "Completed", CONTROLLER),
                Some(JobEnd::Complete),
            ),
            (
                event("Warning", "DeadlineExceeded", CONTROLLER),
                failed("DeadlineExceeded"),
            ),
            (
                event("Warning", "PodFailurePolicy", CONTROLLER),
                failed("PodFailurePolicy"),
            ),
            (event("Normal", "SuccessfulCreate", CONTROLLER), None),
            (event("Warning", "FailedCreate", CONTROLLER), None),
            // Any user may create an event.
            (event("Normal", "Completed", "somebody"), None),
        ] {
            let end = with(&event, |events| job_end(events, "u"));
            assert_eq!(end, expected, "{event}");
            assert_eq!(with(&event, |events| job_end(events, "other")), None);
        }
        let mut newer = event("Normal", "Completed", "");
        newer["reportingComponent"] = json!(CONTROLLER);
        assert_eq!(
            with(&newer, |events| job_end(events, "u")),
            Some(JobEnd::Complete)
        );
    }

    #[test]
    fn expiry_of_finished_jobs_is_detected() {
        let job = |metadata: Value, spec: Value| json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec});
        let hook = |policy: &str| json!({"annotations": {"helm.sh/hook-delete-policy": policy}});
        let owner = |kind: &str, controller: bool| json!({"ownerReferences": [{"kind": kind, "uid": "c", "controller": controller}]});
        for (object, expected) in [
            (
                job(json!({}), json!({"ttlSecondsAfterFinished": 0})),
                Some("its ttlSecondsAfterFinished is 0"),
            ),
            (
                job(hook("before-hook-creation,hook-succeeded"), json!({})),
                Some("its helm.sh/hook-delete-policy has hook-succeeded"),
            ),
            (
                job(owner("CronJob", true), json!({})),
                Some("its CronJob keeps only a few finished Jobs"),
            ),
            (job(owner("CronJob", false), json!({})), None),
            (job(owner("Workflow", true), json!({})), None),
            (job(hook("before-hook-creation"), json!({})), None),
            (job(json!({}), json!({})), None),
            (
                json!({"apiVersion": "example.com/v1", "kind": "Job", "spec": {"ttlSecondsAfterFinished": 0}}),
                None,
            ),
        ] {
            let found = with(&object, |objects| expiry(&objects.all[0]));
            assert_eq!(found.as_deref(), expected, "{object}");
        }
    }
}
