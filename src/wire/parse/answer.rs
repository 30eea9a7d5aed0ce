//! Parses the API server's answers to the calls of the last plan, and finds the rejections.

use rollplan_core::action::{ApiCall, CallId, Verb};
use rollplan_core::interrupt::Never;
use rollplan_core::snapshot::{self, ReplicaSet, StepFailure};
use serde_json::Value;

use super::path::Path;
use super::{Owner, Parser, unselected};
use crate::error::{Reason, Violation, Violations};
use crate::objects::{ContentReader, Objects};
use crate::proto;
use crate::read::kubernetes;

/// The maximum size of the body of an answer, in bytes.
const BODY_BYTES_MAX: usize = 64 << 10;

/// The parts of a Status, the API server's answer to a failed call, that the planner uses.
#[derive(Debug, Default)]
struct Status {
    reason: String,
    message: String,
    /// The reasons in `details.causes`.
    causes: Vec<String>,
}

/// The meaning of an answer.
#[derive(Debug)]
enum Meaning {
    /// The call succeeded, or its outcome is unknown, or its precondition failed. The snapshot shows the result.
    Nothing,
    /// The API server rejected the call.
    Rejected(Status),
}

/// The rejection of a call, without the object that has its name. `None` if the answer is not a rejection.
pub(crate) fn rejection(call: &CallId, http_code: i32, body: &[u8]) -> Option<StepFailure> {
    match Meaning::of(http_code, call.verb, body) {
        Meaning::Nothing => None,
        Meaning::Rejected(status) => Some(StepFailure {
            call: call.clone(),
            http_code,
            reason: status.reason,
            message: status.message,
            causes: status.causes,
            existing: None,
        }),
    }
}

/// Whether an answer says that nothing can be created anymore, because the namespace is being deleted.
pub(crate) fn is_of_terminating_namespace(body: &[u8]) -> bool {
    Status::read(body).is_some_and(|status| snapshot::is_of_terminating_namespace(&status.causes))
}

// === impl Meaning ===

impl Meaning {
    fn of(http_code: i32, verb: Verb, body: &[u8]) -> Self {
        let Some(status) = Status::read(body) else {
            return match http_code {
                // Not from the API server: for example, an authenticating proxy rejected the call.
                400..=499 if !matches!(http_code, 404 | 408 | 409 | 422 | 429) => {
                    Self::Rejected(Status {
                        message: format!("the server answered HTTP {http_code} without a Status"),
                        ..Status::default()
                    })
                }
                _ => Self::Nothing,
            };
        };
        let is_stale_or_unknown = match http_code {
            409 => status.reason != "AlreadyExists",
            // A failed `test` of a JSON Patch. Validation errors have causes.
            422 => status.causes.is_empty(),
            // The object was already deleted, as planned.
            404 => verb == Verb::Delete,
            400..=599 => matches!(status.reason.as_str(), "Timeout" | "ServerTimeout"),
            _ => true,
        };
        if is_stale_or_unknown {
            Self::Nothing
        } else {
            Self::Rejected(status)
        }
    }
}

// === impl Status ===

impl Status {
    /// `None` if the body is not a Status in JSON.
    fn read(body: &[u8]) -> Option<Self> {
        let body: Value = serde_json::from_slice(body).ok()?;
        if body.get("kind")?.as_str()? != "Status" {
            return None;
        }
        let text = |value: Option<&Value>| {
            let text = value.and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        let causes = body.pointer("/details/causes").and_then(Value::as_array);
        Some(Self {
            reason: text(body.get("reason")),
            message: text(body.get("message")),
            causes: causes
                .into_iter()
                .flatten()
                .map(|cause| text(cause.get("reason")))
                .collect(),
        })
    }
}

// === impl Parser ===

impl Parser<'_> {
    /// The rejections among the answers.
    pub(crate) fn answers(
        &mut self,
        answers: Vec<proto::StepAnswer>,
        owner: &Owner<'_>,
        path: &Path<'_>,
    ) -> Vec<StepFailure> {
        let interrupt = self.interrupt;
        answers
            .into_iter()
            .enumerate()
            .take_while(|_| !interrupt.is_interrupted())
            .filter_map(|(index, answer)| self.answer(answer, owner, &path.index(index)))
            .collect()
    }

    fn answer(
        &mut self,
        answer: proto::StepAnswer,
        owner: &Owner<'_>,
        path: &Path<'_>,
    ) -> Option<StepFailure> {
        let proto::StepAnswer {
            call,
            http_code,
            body,
            existing_json,
        } = answer;
        let call_path = path.field("call");
        let call = self.required(call, &call_path);
        let call = self.call(call, &call_path);
        self.http_code(http_code, path);
        if !self.body(&body, path) {
            return None;
        }
        let existing = self.existing(&existing_json, owner, &path.field("existing_json"));
        let failure = rejection(&call.id(), http_code, &body)?;
        Some(StepFailure {
            existing,
            ..failure
        })
    }

    fn http_code(&mut self, http_code: i32, path: &Path<'_>) {
        if http_code != 0 && !(100..=599).contains(&http_code) {
            let description = format_args!("is {http_code}, and must be 0 or from 100 to 599");
            self.violation(&path.field("http_code"), Reason::OutOfRange, description);
        }
    }

    /// Checks the size of the body of a failed call.
    fn body(&mut self, body: &[u8], path: &Path<'_>) -> bool {
        let is_small = body.len() <= BODY_BYTES_MAX;
        if !is_small {
            let bytes = body.len();
            let description =
                format_args!("has {bytes} bytes, and must have at most {BODY_BYTES_MAX}");
            self.violation(&path.field("body"), Reason::OutOfRange, description);
        }
        is_small
    }

    /// Checks the code of an answer in the loop of an adapter, and the size of its body if the call has failed.
    pub(crate) fn answer_in_loop(&mut self, answer: &proto::Answer, path: &Path<'_>) {
        self.http_code(answer.http_code, path);
        if !(200..300).contains(&answer.http_code) {
            self.body(&answer.body, path);
        }
    }

    /// The existing object with the name of one to create.
    pub(crate) fn existing(
        &mut self,
        bytes: &[u8],
        owner: &Owner<'_>,
        path: &Path<'_>,
    ) -> Option<ReplicaSet> {
        if bytes.is_empty() {
            return None;
        }
        let text = match str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                let description = format_args!("byte {}: is not UTF-8", error.valid_up_to());
                self.violation(path, Reason::InvalidUtf8, description);
                return None;
            }
        };
        let mut objects = Objects::default();
        let mut violations = Violations::default();
        let added = objects.add("", 0, text, &mut violations, &Never);
        if let Some(Violation {
            field,
            reason,
            description,
        }) = violations.listed.into_iter().next()
        {
            // The paths start with the place of the text.
            let inside = field.strip_prefix("[0]").unwrap_or(&field);
            self.violation(&path.text(inside), reason, description);
            return None;
        }
        let object = match (added, objects.found.as_slice()) {
            (Ok(()), [object]) => object,
            (_, found) => {
                let description =
                    format_args!("must be one ReplicaSet, and has {} objects", found.len());
                self.violation(path, Reason::WrongKind, description);
                return None;
            }
        };
        let (api_version, kind) = (&*object.api_version, &*object.kind);
        if (api_version, kind) != ("apps/v1", "ReplicaSet") {
            let description =
                format_args!("must be an apps/v1 ReplicaSet, and is {api_version} {kind}");
            self.violation(path, Reason::WrongKind, description);
            return None;
        }
        let metadata = &object.metadata;
        if !owner.is_in_namespace(&metadata.namespace) {
            return None;
        }
        let is_own = metadata.controller_uid().is_some_and(|uid| owner.is(uid));
        // Without a name, it is read for its violations.
        if !is_own && !metadata.name.is_empty() {
            return Some(unselected(object, owner.deployment));
        }
        match ContentReader::new(&Never).read::<kubernetes::ReplicaSet<'_>>(object) {
            Ok(Ok(set)) => Some(self.replica_set(set, owner, path)),
            Ok(Err(fault)) => {
                let inside = fault.path();
                self.violation(&path.text(&inside), fault.reason, fault.description);
                None
            }
            Err(error) => {
                self.violation(path, Reason::ObjectTooLarge, error);
                None
            }
        }
    }

    /// The planned call. A missing call has been reported already.
    fn call(&mut self, call: Option<proto::ApiCall>, path: &Path<'_>) -> ApiCall {
        let given = call.is_some();
        let proto::ApiCall {
            verb,
            api_version,
            kind,
            namespace,
            name,
            subresource,
            content_type,
            body_json,
            // These follow from the fields above.
            path: _,
            query: _,
            accept: _,
        } = call.unwrap_or_default();
        let verb_path = path.field("verb");
        let verb = match proto::Verb::try_from(verb) {
            Ok(proto::Verb::Create) => Verb::Create,
            Ok(proto::Verb::Patch) => Verb::Patch,
            Ok(proto::Verb::Delete) => Verb::Delete,
            Ok(proto::Verb::Unspecified) => {
                if given {
                    self.violation(&verb_path, Reason::Required, "is required");
                }
                Verb::Create
            }
            Ok(proto::Verb::Get) => {
                let description = "must be the verb of a planned call, which is never VERB_GET";
                self.violation(&verb_path, Reason::OutOfRange, description);
                Verb::Create
            }
            Err(_) => {
                let description = format_args!("unknown verb {verb}");
                self.violation(&verb_path, Reason::UnknownEnumValue, description);
                Verb::Create
            }
        };
        ApiCall {
            verb,
            api_version,
            kind,
            namespace,
            name,
            subresource,
            content_type,
            body_json,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether an answer is a rejection.
    fn is_rejection(http_code: i32, verb: Verb, body: &str) -> bool {
        matches!(
            Meaning::of(http_code, verb, body.as_bytes()),
            Meaning::Rejected(_)
        )
    }

    fn status(reason: &str, causes: &str) -> String {
        format!(
            r#"{{"kind":"Status","reason":"{reason}","message":"no","details":{{"causes":{causes}}}}}"#
        )
    }

    #[test]
    fn rejections_by_the_api_server_are_recognized() {
        for (http_code, reason, causes, rejection) in [
            (409, "Conflict", "[]", false),
            (409, "AlreadyExists", "[]", true),
            (422, "Invalid", "[]", false),
            (422, "Invalid", r#"[{"reason":"FieldValueInvalid"}]"#, true),
            (403, "Forbidden", "[]", true),
            (404, "NotFound", "[]", true),
            (429, "TooManyRequests", "[]", true),
            (500, "InternalError", "[]", true),
            (500, "ServerTimeout", "[]", false),
            (504, "Timeout", "[]", false),
            (200, "", "[]", false),
        ] {
            let body = status(reason, causes);
            assert_eq!(
                is_rejection(http_code, Verb::Patch, &body),
                rejection,
                "{http_code} {reason}"
            );
        }
        assert!(!is_rejection(404, Verb::Delete, &status("NotFound", "[]")));
    }

    #[test]
    fn rejections_by_proxies_are_recognized() {
        const HTML: &str = "<html><h1>Bad Gateway</h1></html>";
        for (http_code, rejection) in [
            (0, false),
            (201, false),
            (302, false),
            (401, true),
            (403, true),
            (404, false),
            (408, false),
            (409, false),
            (413, true),
            (422, false),
            (429, false),
            (500, false),
            (502, false),
            (504, false),
        ] {
            for body in [HTML, "", "{", "[]", "{\"kind\":\"ReplicaSet\"}"] {
                assert_eq!(
                    is_rejection(http_code, Verb::Create, body),
                    rejection,
                    "{http_code} {body}"
                );
            }
        }
    }
}
