//! Errors as clients receive them: a status code, a message, and structured details.

mod details;
mod framework;

use std::error::Error as _;
use std::time::Duration;

use tonic::{Code, Status};
use tonic_types::{BadRequest, ErrorDetails, FieldViolation, StatusExt as _};

use rollplan_core::RollbackError;
use rollplan_forecast::{ForecastError, REPLICAS_MAX};

pub use self::details::DOMAIN;
pub(crate) use self::details::{ELLIPSIS, rejection};
pub(crate) use self::framework::{complete, completed, failure};

use self::details::{MESSAGE_BYTES_MAX, failed, over_quota, truncate_end, truncate_middle};
use crate::wire::{self, REQUEST_BYTES_MAX, Rejection, Violations};

/// The maximum length of a name. Names in Kubernetes are not longer.
const NAME_BYTES_MAX: usize = 253;
/// The maximum size of the details before base64: 5.3 KiB in the header, which leaves room for the message and other
/// headers.
const DETAILS_BYTES_MAX: usize = 4 << 10;
/// The maximum lengths of a field and a description. The first pair with which all violations fit is used. They always
/// fit with the last pair, because at most [`wire::LISTED_VIOLATIONS_MAX`] are listed.
const VIOLATION_BYTES_MAX: [(usize, usize); 4] =
    [(usize::MAX, usize::MAX), (260, 96), (160, 64), (96, 40)];

/// The reason of errors that are bugs in rollplan.
const BUG: &str = "INTERNAL_ERROR";

/// The reason of errors whose messages contain keys from the request: these are not logged.
pub(crate) const INVALID_JSON: &str = "INVALID_JSON";

/// The initial delay before a shed call is retried.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// Maps all errors to statuses.
#[must_use]
pub fn to_status(error: &wire::Error) -> Status {
    match error {
        wire::Error::InvalidArgument(violations) => invalid_request(violations),
        wire::Error::TooLarge {
            what,
            unit,
            count,
            max,
        } => too_large(what, unit, Some(*count), *max),
        wire::Error::AnswerTooLarge { bytes, max } => answer_too_large(*bytes, *max),
        wire::Error::Undecodable { message, .. } => rejection(
            Code::InvalidArgument,
            &with_source(error),
            "MALFORMED_REQUEST",
            &[("message", message)],
        ),
        wire::Error::InvalidJson { message, .. } => rejection(
            Code::InvalidArgument,
            &with_source(error),
            INVALID_JSON,
            &[("message", message)],
        ),
        wire::Error::Rollback(error) => rejected_rollback(error),
        wire::Error::Forecast(error) => rejected_forecast(error),
        wire::Error::Canary(refusal) => {
            let message = truncate_end(&refusal.to_string(), MESSAGE_BYTES_MAX);
            precondition(&message, refusal.cause.as_str(), &refusal.name)
        }
        // The client does not receive it.
        wire::Error::Interrupted(_) => {
            rejection(Code::Cancelled, &error.to_string(), "CANCELLED", &[])
        }
        wire::Error::Descriptors { .. } => bug(),
    }
}

/// Invalid JSON in a request. The field is the path in the JSON.
pub(crate) fn malformed_json(path: &str, problem: &str) -> Status {
    let field = truncate_middle(path, VIOLATION_BYTES_MAX[1].0);
    let problem = truncate_end(problem, MESSAGE_BYTES_MAX / 2);
    let message = match &*field {
        "" => problem.clone(),
        field => format!("{field}: {problem}"),
    };
    let violation = FieldViolation {
        field,
        description: problem,
        reason: INVALID_JSON.to_owned(),
        localized_message: None,
    };
    let details = ErrorDetails::with_bad_request(vec![violation]);
    let message = truncate_end(&message, MESSAGE_BYTES_MAX);
    failed(Code::InvalidArgument, &message, INVALID_JSON, &[], details)
}

/// Unknown or invalid query parameters, with a description each.
pub(crate) fn invalid_parameters(problems: &[(String, String)]) -> Status {
    const REASON: &str = "INVALID_PARAMETER";
    let (field_bytes_max, description_bytes_max) = VIOLATION_BYTES_MAX[2];
    let listed = problems.iter().take(wire::LISTED_VIOLATIONS_MAX);
    let violations = listed.map(|(name, problem)| FieldViolation {
        field: truncate_middle(name, field_bytes_max),
        description: truncate_end(problem, description_bytes_max),
        reason: REASON.to_owned(),
        localized_message: None,
    });
    let details = ErrorDetails::with_bad_request(violations.collect::<Vec<_>>());
    let texts: Vec<String> = problems
        .iter()
        .map(|(name, problem)| format!("{name}: {problem}"))
        .collect();
    let message = truncate_end(&texts.join("; "), MESSAGE_BYTES_MAX);
    failed(Code::InvalidArgument, &message, REASON, &[], details)
}

/// A rejected rollback. The request itself is valid.
fn rejected_rollback(error: &RollbackError) -> Status {
    let message = truncate_end(&error.to_string(), MESSAGE_BYTES_MAX);
    let reason = Rejection::of_rollback(error).as_str();
    match error {
        RollbackError::Incomplete { subject, .. }
        | RollbackError::Paused { subject, .. }
        | RollbackError::NoneAvailable { subject }
        | RollbackError::NoHistory { subject } => precondition(&message, reason, &subject.name),
        RollbackError::NotFound {
            subject,
            revision,
            // The message contains it.
            now: _,
            existing,
        } => {
            let name = truncate_end(&subject.name, NAME_BYTES_MAX);
            let revision = revision.to_string();
            let existing: Vec<String> = existing.iter().map(ToString::to_string).collect();
            let existing = truncate_end(&existing.join(","), MESSAGE_BYTES_MAX);
            let metadata = [
                ("deployment", &*name),
                ("revision", &*revision),
                ("existing_revisions", &*existing),
            ];
            let mut details = ErrorDetails::new();
            details.set_resource_info("revision", revision.as_str(), name.as_str(), "");
            failed(Code::NotFound, &message, reason, &metadata, details)
        }
    }
}

/// A rejected forecast. The request itself is valid.
fn rejected_forecast(error: &ForecastError) -> Status {
    let message = truncate_end(&error.to_string(), MESSAGE_BYTES_MAX);
    match error {
        ForecastError::Rollback(error) => rejected_rollback(error),
        ForecastError::ReplicaSetsIncomplete { name } => {
            precondition(&message, Rejection::ReplicaSetsIncomplete.as_str(), name)
        }
        ForecastError::PodsIncomplete { name } => {
            precondition(&message, Rejection::PodsIncomplete.as_str(), name)
        }
        ForecastError::TooManyPods { replicas } => {
            let count = usize::try_from(*replicas).ok();
            let max = usize::try_from(REPLICAS_MAX).unwrap_or(usize::MAX);
            too_large("replicas", "pods", count, max)
        }
    }
}

/// A Deployment whose state does not allow the answer.
fn precondition(message: &str, reason: &str, name: &str) -> Status {
    let name = truncate_end(name, NAME_BYTES_MAX);
    let mut details = ErrorDetails::new();
    details.add_precondition_failure_violation(reason, name.as_str(), message);
    let metadata = [("deployment", &*name)];
    failed(
        Code::FailedPrecondition,
        message,
        reason,
        &metadata,
        details,
    )
}

/// A bug in rollplan. The error contains no internal details.
pub(crate) fn bug() -> Status {
    rejection(
        Code::Internal,
        "this is a bug in rollplan: the same request will fail again",
        BUG,
        &[],
    )
}

/// Whether a call failed because of a bug in rollplan.
pub(crate) fn is_bug(status: &Status) -> bool {
    let info = status.get_error_details();
    info.error_info().is_some_and(|info| info.reason == BUG)
}

/// A call was aborted at shutdown.
pub(crate) fn stopping() -> Status {
    rejection(Code::Unavailable, "the server is stopping", "STOPPING", &[])
}

/// A call was rejected because of overload. Besides UNAVAILABLE, this is the only error after which a retry is useful,
/// as indicated by `RetryInfo`.
pub(crate) fn overloaded() -> Status {
    failed(
        Code::ResourceExhausted,
        "the server is overloaded: try again later",
        "OVERLOADED",
        &[],
        ErrorDetails::with_retry_info(Some(RETRY_DELAY)),
    )
}

/// A request exceeds the size limit of the contract.
pub(crate) fn request_too_large() -> Status {
    too_large("request", "bytes", None, REQUEST_BYTES_MAX)
}

fn too_large(what: &str, unit: &str, count: Option<usize>, max: usize) -> Status {
    let message = match count {
        Some(count) => format!("{what}: {count} {unit} exceed the limit of {max}"),
        None => format!("{what}: more than {max} {unit}"),
    };
    let (max, count) = (max.to_string(), count.map(|count| count.to_string()));
    let mut metadata = vec![("what", what), ("max", &max)];
    if let Some(count) = &count {
        metadata.push(("count", count));
    }
    over_quota("REQUEST_TOO_LARGE", what, &message, &metadata)
}

fn answer_too_large(bytes: usize, max: usize) -> Status {
    let message = format!(
        "the answer: {bytes} bytes exceed the limit of {max}: delete old ReplicaSets, or lower revisionHistoryLimit"
    );
    let (max, bytes) = (max.to_string(), bytes.to_string());
    let metadata = [("what", "answer"), ("max", &max), ("count", &bytes)];
    over_quota("ANSWER_TOO_LARGE", "answer", &message, &metadata)
}

fn invalid_request(violations: &Violations) -> Status {
    let Violations { listed, omitted } = violations;
    let count = listed.len().saturating_add(*omitted);
    let (count, omitted) = (count.to_string(), omitted.to_string());
    let message = truncate_end(&violations.to_string(), MESSAGE_BYTES_MAX);
    let status = |(field_bytes_max, description_bytes_max)| {
        let violations = listed.iter().map(|violation| FieldViolation {
            field: truncate_middle(&violation.field, field_bytes_max),
            description: truncate_end(&violation.description, description_bytes_max),
            reason: violation.reason.as_str().to_owned(),
            localized_message: None,
        });
        let details = ErrorDetails::with_bad_request(
            BadRequest::new(violations.collect::<Vec<_>>()).field_violations,
        );
        let metadata = [("violations", &*count), ("omitted", &*omitted)];
        let code = Code::InvalidArgument;
        failed(code, &message, "INVALID_REQUEST", &metadata, details)
    };
    let [first, others @ ..] = VIOLATION_BYTES_MAX;
    others.into_iter().fold(status(first), |fits, limits| {
        if fits.details().len() <= DETAILS_BYTES_MAX {
            fits
        } else {
            status(limits)
        }
    })
}

fn with_source(error: &wire::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use rollplan_core::Subject;
    use tonic::body::Body;

    use super::*;
    use crate::wire::{LISTED_VIOLATIONS_MAX, Reason, Violation};

    /// The limit of proxies for all headers together.
    const HEADER_BYTES_MAX: usize = 8 << 10;

    fn check_header(status: &Status) {
        let response = status.clone().into_http::<Body>();
        // The size of a header list as defined by RFC 9113, 6.5.2.
        let bytes: usize = response
            .headers()
            .iter()
            .map(|(name, value)| name.as_str().len() + value.len() + 32)
            .sum();
        // Leaves room for headers that proxies add.
        assert!(bytes < HEADER_BYTES_MAX - 512, "{bytes} bytes of headers");
    }

    fn mk_violations(count: usize, field: &str, description: &str) -> Violations {
        Violations {
            listed: vec![
                Violation {
                    field: field.to_owned(),
                    reason: Reason::UnknownEnumValue,
                    description: description.to_owned(),
                };
                count
            ],
            omitted: 12_345_678,
        }
    }

    #[test]
    fn short_violations_are_not_truncated() {
        let field = "snapshot.replica_sets[7].metadata.labels[\"app.kubernetes.io/name\"]";
        let description = "is required";
        let violations = mk_violations(LISTED_VIOLATIONS_MAX, field, description);
        let status = to_status(&wire::Error::InvalidArgument(violations));
        check_header(&status);
        let details = status.get_error_details();
        let listed = &details.bad_request().unwrap().field_violations;
        assert_eq!(listed.len(), LISTED_VIOLATIONS_MAX);
        for violation in listed {
            assert_eq!(violation.field, field);
            assert_eq!(violation.description, description);
            assert_eq!(violation.reason, "UNKNOWN_ENUM_VALUE");
        }
        let info = details.error_info().unwrap();
        assert_eq!(info.reason, "INVALID_REQUEST");
        assert_eq!(info.domain, DOMAIN);
        assert_eq!(info.metadata["violations"], "12345698");
        assert_eq!(info.metadata["omitted"], "12345678");
    }

    #[test]
    fn longest_violations_fit_a_header() {
        for text in ["x", "ü", "≠", "🦀"] {
            // Longer than any text of the parser.
            for bytes in [256, 260, 100_000] {
                let long = text.repeat(bytes / text.len());
                let violations = mk_violations(LISTED_VIOLATIONS_MAX, &long, &long);
                let status = to_status(&wire::Error::InvalidArgument(violations));
                check_header(&status);
                assert!(status.details().len() <= DETAILS_BYTES_MAX);
                let details = status.get_error_details();
                let listed = &details.bad_request().unwrap().field_violations;
                assert_eq!(listed.len(), LISTED_VIOLATIONS_MAX);
                assert!(listed[0].field.starts_with(text) && listed[0].field.ends_with(text));
            }
        }
    }

    #[test]
    fn single_long_violation_is_not_truncated() {
        let long = "ü".repeat(128);
        let status = to_status(&wire::Error::InvalidArgument(mk_violations(
            1, &long, &long,
        )));
        check_header(&status);
        let details = status.get_error_details();
        assert_eq!(
            details.bad_request().unwrap().field_violations[0].field,
            long
        );
    }

    #[test]
    fn rejected_rollbacks_fit_a_header() {
        let name = "🦀".repeat(1000);
        let subject = || Subject {
            kind: "deployment".to_owned(),
            name: name.clone(),
        };
        let errors = [
            RollbackError::Incomplete {
                subject: subject(),
                list: "ReplicaSets",
            },
            RollbackError::Paused {
                subject: subject(),
                resume: Some(name.clone()),
            },
            RollbackError::NoneAvailable { subject: subject() },
            RollbackError::NoHistory { subject: subject() },
            RollbackError::NotFound {
                subject: subject(),
                revision: i64::MIN,
                now: None,
                existing: (0..10_000).map(|i| i64::MAX - i).collect(),
            },
        ];
        for error in errors {
            let status = to_status(&wire::Error::Rollback(error));
            check_header(&status);
            assert!(status.get_details_error_info().is_some());
        }
    }

    #[test]
    fn long_problems_in_json_fit_a_header() {
        for text in ["x", "ü", "≠", "🦀"] {
            let long = text.repeat(10_000);
            let status = malformed_json(&long, &long);
            check_header(&status);
            assert!(status.message().len() <= MESSAGE_BYTES_MAX);
            let details = status.get_error_details();
            let violation = &details.bad_request().unwrap().field_violations[0];
            assert!(violation.field.len() <= VIOLATION_BYTES_MAX[1].0);
            assert!(violation.description.len() <= MESSAGE_BYTES_MAX / 2);
            assert!(violation.field.starts_with(text) && violation.field.ends_with(text));
            assert!(violation.description.starts_with(text));
        }
    }

    #[test]
    fn size_limits_are_quota_failures() {
        let status = to_status(&wire::Error::TooLarge {
            what: "snapshot.pods",
            unit: "entries",
            count: 20_001,
            max: 20_000,
        });
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert_eq!(
            status.message(),
            "snapshot.pods: 20001 entries exceed the limit of 20000"
        );
        let details = status.get_error_details();
        let quota = &details.quota_failure().unwrap().violations;
        assert_eq!(quota.len(), 1);
        assert_eq!(quota[0].subject, "snapshot.pods");
        let info = details.error_info().unwrap();
        assert_eq!(info.reason, "REQUEST_TOO_LARGE");
        assert_eq!(info.metadata["count"], "20001");
        assert_eq!(info.metadata["max"], "20000");
    }
}
