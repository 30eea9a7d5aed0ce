//! Jobs that no longer exist. Some are deleted between two polls, as soon as they finish. Their events are kept longer.

use rollplan_health::kinds::{JobEnd, JobEvent};
use serde_json::Value;

use super::object::{Object, Objects, Role};

/// The result of the Job with this UID, if an event reports it.
pub(in crate::cli) fn job_end(events: &Objects<'_>, uid: &str) -> Option<JobEnd> {
    let is_about_it = |event: &&Object<'_>| {
        event.role() == Role::Event && event.found.involved_uid.as_deref() == Some(uid)
    };
    events.all.iter().filter(is_about_it).find_map(end)
}

fn end(event: &Object<'_>) -> Option<JobEnd> {
    let fields = ["source", "reportingComponent", "type", "reason", "message"];
    let [source, reporter, event_type, reason, message] = fields.map(|field| event.value(field));
    let component = source.get("component").and_then(Value::as_str);
    JobEnd::of_event(JobEvent {
        component: component.or(reporter.as_str()).unwrap_or_default(),
        event_type: event_type.as_str().unwrap_or_default(),
        reason: reason.as_str().unwrap_or_default(),
        message: message.as_str().unwrap_or_default(),
    })
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
    fn events_about_a_job_report_its_result() {
        let mut event = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "involvedObject": {"uid": "u"},
            "type": "Normal", "reason": "Completed", "message": "Job completed",
            "source": {"component": "job-controller"}, "reportingComponent": "",
        });
        let end = |event: &Value, uid: &str| with(event, |events| job_end(events, uid));
        assert_eq!(end(&event, "u"), Some(JobEnd::Complete));
        assert_eq!(end(&event, "other"), None);
        // As events.k8s.io/v1 has it.
        event["source"] = json!({});
        assert_eq!(end(&event, "u"), None);
        event["reportingComponent"] = json!("job-controller");
        assert_eq!(end(&event, "u"), Some(JobEnd::Complete));
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
