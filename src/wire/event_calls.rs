//! Converts the events of a plan to API calls that record them.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use rollplan_core::snapshot::Snapshot;
use rollplan_core::time::Time;
use serde_json::json;

use super::path;
use crate::proto;

/// The source component of events.
const COMPONENT: &str = "rollplan";

/// The maximum length of the name of an object.
const NAME_BYTES_MAX: usize = 253;

/// Adds the calls that record the events of the steps.
pub(super) fn add(steps: &mut [proto::Step], snapshot: &Snapshot) {
    let Snapshot {
        now, deployment, ..
    } = snapshot;
    for (index, step) in steps.iter_mut().enumerate() {
        let events = step.events.iter();
        let owner = &deployment.metadata;
        let involved = Involved {
            api_version: &deployment.api_version,
            kind: &deployment.kind,
            namespace: &owner.namespace,
            name: &owner.name,
            uid: &owner.uid,
            resource_version: &owner.resource_version,
        };
        let calls = events.map(|event| call(event, index, &involved, *now));
        step.event_calls = calls.collect();
    }
}

/// The object of an event.
pub(super) struct Involved<'a> {
    pub(super) api_version: &'a str,
    pub(super) kind: &'a str,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) uid: &'a str,
    pub(super) resource_version: &'a str,
}

/// The call that records an event of a step.
pub(super) fn call(
    event: &proto::Event,
    step: usize,
    owner: &Involved<'_>,
    now: Time,
) -> proto::ApiCall {
    let proto::Event {
        r#type,
        reason,
        message,
    } = event;
    let mut hasher = DefaultHasher::new();
    // As 64 bits on every platform, so that all of them give the same name.
    let step = step as u64;
    (&owner.uid, reason, message, now.to_string(), step).hash(&mut hasher);
    let name = name(owner.name, hasher.finish());
    let time = now.whole_seconds().to_string();
    let body = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": owner.namespace},
        "involvedObject": {
            "apiVersion": owner.api_version,
            "kind": owner.kind,
            "namespace": owner.namespace,
            "name": owner.name,
            "uid": owner.uid,
            "resourceVersion": owner.resource_version,
        },
        "type": r#type,
        "reason": reason,
        "message": message,
        "count": 1,
        "firstTimestamp": time,
        "lastTimestamp": time,
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": "",
    });
    proto::ApiCall {
        verb: proto::Verb::Create.into(),
        api_version: "v1".to_owned(),
        kind: "Event".to_owned(),
        namespace: owner.namespace.to_owned(),
        content_type: "application/json".to_owned(),
        body_json: body.to_string(),
        path: path::of_kind("v1", "Event", owner.namespace),
        query: path::FIELD_MANAGER.to_owned(),
        subresource: String::new(),
        name,
        accept: String::new(),
    }
}

/// The name of an event. The same event of the same plan has the same name, so repeated calls record it only once.
fn name(owner: &str, hash: u64) -> String {
    let suffix = format!(".{hash:016x}");
    // Names are ASCII, so any index is a character boundary.
    let owner = owner.get(..NAME_BYTES_MAX - suffix.len()).unwrap_or(owner);
    // The truncated name may end with a dot or a hyphen, which is not allowed before a dot.
    format!("{}{suffix}", owner.trim_end_matches(['.', '-']))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_of_events_are_valid() {
        assert_eq!(name("web", 0xab), "web.00000000000000ab");
        let long = format!("{}-.{}", "a".repeat(234), "b".repeat(17));
        assert_eq!(long.len(), 253);
        assert_eq!(
            name(&long, 1),
            format!("{}.0000000000000001", "a".repeat(234))
        );
        assert_eq!(name(&"a".repeat(253), 1).len(), 253);
    }

    /// The name depends on exactly the data that distinguishes events.
    #[test]
    fn events_of_a_plan_have_different_names() {
        let owner = |uid| Involved {
            api_version: "apps/v1",
            kind: "Deployment",
            namespace: "shop",
            name: "web",
            uid,
            resource_version: "7",
        };
        let event = |reason: &str, message: &str| proto::Event {
            r#type: "Normal".to_owned(),
            reason: reason.to_owned(),
            message: message.to_owned(),
        };
        let now = |seconds| Time::new(seconds, 0).unwrap();
        let scaled = event("Scaled", "up");
        let name = |event: &proto::Event, step, uid, seconds| {
            call(event, step, &owner(uid), now(seconds)).name
        };
        let names = [
            name(&scaled, 0, "u", 0),
            name(&scaled, 1, "u", 0),
            name(&scaled, 0, "v", 0),
            name(&scaled, 0, "u", 1),
            name(&event("Scaled", "down"), 0, "u", 0),
            name(&event("Created", "up"), 0, "u", 0),
        ];
        assert_eq!(names[0], name(&scaled, 0, "u", 0));
        assert_eq!(BTreeSet::from(names.clone()).len(), names.len());
        assert!(names.iter().all(|name| name.starts_with("web.")));
    }
}
