//! Errors as clients receive them: a status code, a message, and structured details.

mod details;
mod framework;

use prost_types::Duration;
use rollplan_service::{BUG, Code, Detail, FieldViolation, INVALID_JSON, RetryInfo};
use rollplan_wire::{LISTED_VIOLATIONS_MAX, REQUEST_BYTES_MAX};
use tonic::Status;

pub(crate) use self::details::{ELLIPSIS, to_tonic};
pub(crate) use self::framework::{complete, completed, failure};

use self::details::truncate_middle;

/// The maximum length of a path in JSON.
const PATH_BYTES_MAX: usize = 260;

/// The initial delay before a shed call is retried: 0.1 s.
const RETRY_DELAY: Duration = Duration {
    seconds: 0,
    nanos: 100_000_000,
};

/// An error with a reason and no further details.
pub(crate) fn rejection(code: tonic::Code, message: &str, reason: &str) -> Status {
    let code = Code::try_from(i32::from(code)).unwrap_or(Code::Unknown);
    to_tonic(rollplan_service::Status::new(code, message, reason))
}

/// Invalid JSON in a request. The field is the path in the JSON.
pub(crate) fn malformed_json(path: &str, problem: &str) -> Status {
    // Shorter than the message, which would otherwise lack the problem.
    let path = truncate_middle(path, PATH_BYTES_MAX);
    let message = match &*path {
        "" => problem.to_owned(),
        path => format!("{path}: {problem}"),
    };
    let field = violation(&path, problem, INVALID_JSON);
    let status = rollplan_service::Status::invalid_fields(message, INVALID_JSON, vec![field]);
    to_tonic(status)
}

/// Unknown or invalid query parameters, with a description each.
pub(crate) fn invalid_parameters(problems: &[(String, String)]) -> Status {
    const REASON: &str = "INVALID_PARAMETER";
    let texts: Vec<String> = problems
        .iter()
        .map(|(name, problem)| format!("{name}: {problem}"))
        .collect();
    let listed = problems.iter().take(LISTED_VIOLATIONS_MAX);
    let fields = listed.map(|(name, problem)| violation(name, problem, REASON));
    let fields = fields.collect();
    to_tonic(rollplan_service::Status::invalid_fields(
        texts.join("; "),
        REASON,
        fields,
    ))
}

fn violation(field: &str, description: &str, reason: &str) -> FieldViolation {
    FieldViolation {
        field: field.to_owned(),
        description: description.to_owned(),
        reason: reason.to_owned(),
    }
}

/// A bug in rollplan. The error contains no internal details.
pub(crate) fn bug() -> Status {
    to_tonic(rollplan_service::Status::bug())
}

/// Whether a call failed because of a bug in rollplan.
pub(crate) fn is_bug(status: &Status) -> bool {
    reason(status).is_some_and(|reason| reason == BUG)
}

/// The reason of an error. `None` if its details cannot be read.
pub(crate) fn reason(status: &Status) -> Option<String> {
    let status = rollplan_service::Status::decode(status.details())?;
    status.reason().map(str::to_owned)
}

/// A call was aborted at shutdown.
pub(crate) fn stopping() -> Status {
    rejection(
        tonic::Code::Unavailable,
        "the server is stopping",
        "STOPPING",
    )
}

/// A call was rejected because of overload. Besides UNAVAILABLE, this is the only error after which a retry is useful,
/// as indicated by `RetryInfo`.
pub(crate) fn overloaded() -> Status {
    let message = "the server is overloaded: try again later";
    let retry = RetryInfo {
        retry_delay: Some(RETRY_DELAY),
    };
    let status = rollplan_service::Status::new(Code::ResourceExhausted, message, "OVERLOADED");
    to_tonic(status.with(Detail::RetryInfo(retry)))
}

/// A request exceeds the size limit of the contract.
pub(crate) fn request_too_large() -> Status {
    to_tonic(rollplan_service::Status::too_large(
        "request",
        "bytes",
        None,
        REQUEST_BYTES_MAX,
    ))
}

#[cfg(test)]
mod tests {
    use rollplan_core::{RollbackError, Subject};
    use rollplan_wire::{Error, Reason, Violation, Violations};
    use tonic::body::Body;

    use super::details::{DETAILS_BYTES_MAX, TEXT_BYTES_MAX};
    use super::*;

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

    fn of(error: Error) -> Status {
        to_tonic((&error).into())
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
        let status = of(Error::InvalidArgument(violations));
        check_header(&status);
        let decoded = rollplan_service::Status::decode(status.details()).unwrap();
        let listed = decoded.field_violations();
        assert_eq!(listed.len(), LISTED_VIOLATIONS_MAX);
        for violation in listed {
            assert_eq!(violation.field, field);
            assert_eq!(violation.description, description);
            assert_eq!(violation.reason, "UNKNOWN_ENUM_VALUE");
        }
        let info = decoded.info().unwrap();
        assert_eq!(info.reason, "INVALID_REQUEST");
        assert_eq!(info.domain, rollplan_service::DOMAIN);
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
                let status = of(Error::InvalidArgument(violations));
                check_header(&status);
                assert!(status.details().len() <= DETAILS_BYTES_MAX);
                let decoded = rollplan_service::Status::decode(status.details()).unwrap();
                let listed = decoded.field_violations();
                assert_eq!(listed.len(), LISTED_VIOLATIONS_MAX);
                assert!(listed[0].field.starts_with(text) && listed[0].field.ends_with(text));
            }
        }
    }

    #[test]
    fn single_long_violation_is_not_truncated() {
        let long = "ü".repeat(128);
        let status = of(Error::InvalidArgument(mk_violations(1, &long, &long)));
        check_header(&status);
        let decoded = rollplan_service::Status::decode(status.details()).unwrap();
        assert_eq!(decoded.field_violations()[0].field, long);
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
            let status = of(Error::Rollback(error));
            check_header(&status);
            assert!(reason(&status).is_some());
        }
    }

    #[test]
    fn long_problems_in_json_fit_a_header() {
        for text in ["x", "ü", "≠", "🦀"] {
            let long = text.repeat(10_000);
            let status = malformed_json(&long, &long);
            check_header(&status);
            assert!(status.message().len() <= TEXT_BYTES_MAX);
            let decoded = rollplan_service::Status::decode(status.details()).unwrap();
            let violation = &decoded.field_violations()[0];
            assert!(violation.field.len() <= PATH_BYTES_MAX);
            assert!(violation.description.len() <= TEXT_BYTES_MAX);
            assert!(violation.field.starts_with(text) && violation.field.ends_with(text));
            assert!(violation.description.starts_with(text));
        }
    }
}
