//! Errors as clients see them: a status code, a line for people, and details for programs.
//!
//! Details travel in a header, and proxies refuse calls whose headers pass 8 KiB: whatever could be long is cut.

use std::collections::HashMap;
use std::error::Error as _;

use http::Response;
use tonic::body::Body;
use tonic::{Code, Status};
use tonic_types::{BadRequest, ErrorDetails, FieldViolation, QuotaFailure, StatusExt as _};

use rollplan_core::RollbackError;

use crate::wire::{self, REQUEST_BYTES_MAX, Violations};

/// The domain of every `ErrorInfo`.
pub const DOMAIN: &str = "rollplan.dev";

/// Bytes of a message. Each may take three in the header, being percent-encoded, and one in the details.
const MESSAGE_BYTES_MAX: usize = 512;
/// Bytes of a name. Kubernetes has none that is longer.
const NAME_BYTES_MAX: usize = 253;
/// Bytes of the details before base64: 5.3 KiB in the header, which leaves room for the message and the rest.
const DETAILS_BYTES_MAX: usize = 4 << 10;
/// Bytes that a field and a description may have: the first pair with which all violations fit. With the last
/// they always do, there being at most [`wire::LISTED_VIOLATIONS_MAX`] of them.
const VIOLATION_BYTES_MAX: [(usize, usize); 4] =
    [(usize::MAX, usize::MAX), (260, 96), (160, 64), (96, 40)];

/// The one mapping of errors to what clients see.
#[must_use]
pub fn to_status(error: &wire::Error) -> Status {
    match error {
        wire::Error::InvalidArgument(violations) => invalid_request(violations),
        wire::Error::TooLarge { what, count, max } => too_large(what, Some(*count), *max),
        wire::Error::Undecodable { message, .. } => refusal(
            Code::Internal,
            &with_source(error),
            "MALFORMED_REQUEST",
            &[("message", message)],
        ),
        wire::Error::InvalidJson { message, .. } => refusal(
            Code::InvalidArgument,
            &with_source(error),
            "INVALID_JSON",
            &[("message", message)],
        ),
        wire::Error::Rollback(error) => no_way_back(error),
        wire::Error::Descriptors { .. } => bug(),
    }
}

/// A rollback that cannot be, though the request is sound.
fn no_way_back(error: &RollbackError) -> Status {
    let message = cut_end(&error.to_string(), MESSAGE_BYTES_MAX);
    let refused = |reason: &str, name: &str| {
        let name = cut_end(name, NAME_BYTES_MAX);
        let metadata = owned(&[("deployment", &name)]);
        let mut details = ErrorDetails::with_error_info(reason, DOMAIN, metadata);
        details.add_precondition_failure_violation(reason, name, message.as_str());
        Status::with_error_details(Code::FailedPrecondition, message.as_str(), details)
    };
    match error {
        RollbackError::Paused { name } => refused("DEPLOYMENT_PAUSED", name),
        RollbackError::NoHistory { name } => refused("NO_EARLIER_REVISION", name),
        RollbackError::NotFound {
            name,
            revision,
            existing,
        } => {
            let name = cut_end(name, NAME_BYTES_MAX);
            let revision = revision.to_string();
            let existing: Vec<String> = existing.iter().map(ToString::to_string).collect();
            let existing = cut_end(&existing.join(","), MESSAGE_BYTES_MAX);
            let metadata = owned(&[
                ("deployment", &name),
                ("revision", &revision),
                ("existing_revisions", &existing),
            ]);
            let mut details = ErrorDetails::with_error_info("REVISION_NOT_FOUND", DOMAIN, metadata);
            details.set_resource_info("revision", revision, name, "");
            Status::with_error_details(Code::NotFound, message, details)
        }
    }
}

/// What a client is told about a bug of ours: nothing about its inside.
pub(super) fn bug() -> Status {
    refusal(
        Code::Internal,
        "a bug in rollplan: the same request will fail again",
        "INTERNAL_ERROR",
        &[],
    )
}

/// An error with an `ErrorInfo` and no further details.
pub(super) fn refusal(
    code: Code,
    message: &str,
    reason: &str,
    metadata: &[(&str, &str)],
) -> Status {
    let details = ErrorDetails::with_error_info(reason, DOMAIN, owned(metadata));
    Status::with_error_details(code, cut_end(message, MESSAGE_BYTES_MAX), details)
}

/// Gives an error that the framework made the code and the details that all errors have. Other headers stay:
/// some say which compressions are accepted.
pub(super) fn complete(mut response: Response<Body>) -> Response<Body> {
    let Some(status) = failure(&response) else {
        return response;
    };
    if !status.details().is_empty() {
        return response;
    }
    let completed = completed(&status);
    // It fails for headers that cannot be, which base64 and percent-encoding make sure of.
    if completed.add_header(response.headers_mut()).is_ok() {
        response.extensions_mut().insert(completed);
    }
    response
}

/// The status of a call that failed before anything of its answer was sent.
pub(super) fn failure(response: &Response<Body>) -> Option<Status> {
    let status = match response.extensions().get::<Status>() {
        Some(status) => status.clone(),
        None => Status::from_header_map(response.headers())?,
    };
    (status.code() != Code::Ok).then_some(status)
}

fn completed(status: &Status) -> Status {
    let reason = match status.code() {
        // Longer than the limit: before it is decompressed the one, while it is the other.
        Code::OutOfRange | Code::ResourceExhausted => {
            return too_large("request", None, REQUEST_BYTES_MAX);
        }
        // Bytes that are no message, or no frame.
        Code::Internal => "MALFORMED_REQUEST",
        Code::Unimplemented => "UNKNOWN_METHOD",
        Code::NotFound => "NOT_FOUND",
        Code::Cancelled => "CANCELLED",
        _ => "UNKNOWN",
    };
    let message = match status.message() {
        "" => status.code().description(),
        message => message,
    };
    refusal(status.code(), message, reason, &[])
}

fn too_large(what: &str, count: Option<usize>, max: usize) -> Status {
    let unit = if what == "request" {
        "bytes"
    } else {
        "entries"
    };
    let message = match count {
        Some(count) => format!("{what} has {count} {unit} and may have {max}"),
        None => format!("{what} has more than {max} {unit}"),
    };
    let mut metadata = HashMap::from([
        ("what".to_owned(), what.to_owned()),
        ("max".to_owned(), max.to_string()),
    ]);
    if let Some(count) = count {
        metadata.insert("count".to_owned(), count.to_string());
    }
    let mut details = ErrorDetails::with_error_info("REQUEST_TOO_LARGE", DOMAIN, metadata);
    details.set_quota_failure(QuotaFailure::with_violation(what, &message).violations);
    Status::with_error_details(Code::ResourceExhausted, message, details)
}

fn invalid_request(violations: &Violations) -> Status {
    let Violations { listed, omitted } = violations;
    let count = listed.len().saturating_add(*omitted);
    let details = |(field_bytes_max, description_bytes_max)| {
        let violations = listed.iter().map(|violation| FieldViolation {
            field: cut_middle(&violation.field, field_bytes_max),
            description: cut_end(&violation.description, description_bytes_max),
            reason: violation.reason.as_str().to_owned(),
            localized_message: None,
        });
        let mut details = ErrorDetails::with_bad_request(
            BadRequest::new(violations.collect::<Vec<_>>()).field_violations,
        );
        let (count, omitted) = (count.to_string(), omitted.to_string());
        let metadata = owned(&[("violations", &count), ("omitted", &omitted)]);
        details.set_error_info("INVALID_REQUEST", DOMAIN, metadata);
        details
    };
    let message = cut_end(&violations.to_string(), MESSAGE_BYTES_MAX);
    let mut status = Status::invalid_argument(message.as_str());
    for limits in VIOLATION_BYTES_MAX {
        status =
            Status::with_error_details(Code::InvalidArgument, message.as_str(), details(limits));
        if status.details().len() <= DETAILS_BYTES_MAX {
            break;
        }
    }
    status
}

fn owned(pairs: &[(&str, &str)]) -> HashMap<String, String> {
    let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    pairs.iter().map(own).collect()
}

fn with_source(error: &wire::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

const CUT: &str = "...";

/// Cut between characters, to at most so many bytes.
fn cut_end(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(bytes_max.saturating_sub(CUT.len()));
    format!("{}{CUT}", &text[..end])
}

/// As [`cut_end`]. Of a path both ends say most.
fn cut_middle(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let keep = bytes_max.saturating_sub(CUT.len());
    let end = text.floor_char_boundary(keep / 2);
    let start = text.ceil_char_boundary(text.len() - keep / 2);
    format!("{}{CUT}{}", &text[..end], &text[start..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{LISTED_VIOLATIONS_MAX, Reason, Violation};

    /// What proxies allow for all headers together.
    const HEADER_BYTES_MAX: usize = 8 << 10;

    fn check_header(status: &Status) {
        let response = status.clone().into_http::<Body>();
        // RFC 9113, 6.5.2: how the size of a header list is counted.
        let bytes: usize = response
            .headers()
            .iter()
            .map(|(name, value)| name.as_str().len() + value.len() + 32)
            .sum();
        // Leaves room for what is added on the way.
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
    fn short_violations_stay_whole() {
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
    fn the_longest_violations_fit_a_header() {
        for text in ["x", "ü", "≠", "🦀"] {
            // More than the parser ever gives.
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
    fn a_single_long_violation_stays_whole() {
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
    fn text_is_cut_between_characters() {
        assert_eq!(cut_end("größer", 8), "größer");
        assert_eq!(cut_end("größer", 6), "gr...");
        assert_eq!(cut_end("größer", 2), "...");
        assert_eq!(cut_middle("snapshot.pods.name", 18), "snapshot.pods.name");
        assert_eq!(cut_middle("snapshot.pods.name", 13), "snaps....name");
        assert_eq!(cut_middle("ööööö", 8), "ö...ö");
    }

    #[test]
    fn rollbacks_of_any_name_and_history_fit_a_header() {
        let name = "🦀".repeat(1000);
        let errors = [
            RollbackError::Paused { name: name.clone() },
            RollbackError::NoHistory { name: name.clone() },
            RollbackError::NotFound {
                name,
                revision: i64::MIN,
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
    fn what_is_too_large_is_a_quota() {
        let status = to_status(&wire::Error::TooLarge {
            what: "snapshot.pods",
            count: 20_001,
            max: 20_000,
        });
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert_eq!(
            status.message(),
            "snapshot.pods has 20001 entries and may have 20000"
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

    #[test]
    fn errors_of_the_framework_get_details_and_keep_their_headers() {
        let mut response = Status::unimplemented("Content is compressed with `br`").into_http();
        response.headers_mut().insert(
            "grpc-accept-encoding",
            http::HeaderValue::from_static("gzip"),
        );
        let response = complete(response);
        assert_eq!(response.headers()["grpc-accept-encoding"], "gzip");
        let status = Status::from_header_map(response.headers()).unwrap();
        assert_eq!(status.code(), Code::Unimplemented);
        assert_eq!(status.message(), "Content is compressed with `br`");
        let info = status.get_details_error_info().unwrap();
        assert_eq!(info.reason, "UNKNOWN_METHOD");
        assert_eq!(info.domain, DOMAIN);
    }

    #[test]
    fn answers_and_errors_with_details_stay_as_they_are() {
        let ours = refusal(Code::ResourceExhausted, "busy", "BUSY", &[]);
        let status = failure(&complete(ours.into_http())).unwrap();
        assert_eq!(status.message(), "busy");
        assert_eq!(status.get_details_error_info().unwrap().reason, "BUSY");
        assert!(failure(&complete(Response::default())).is_none());
    }
}
