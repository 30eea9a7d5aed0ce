//! The error of a call, as a plain `google.rpc.Status`.
//!
//! It contains all texts in full: a transport with a limit, such as the headers of gRPC, shortens them.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::fmt;

use prost::{Enumeration, Message as _};
use prost_types::Any;
use rollplan_core::RollbackError;
use rollplan_forecast::{ForecastError, REPLICAS_MAX};
use rollplan_wire::{Error, Rejection, Violations};

use crate::details::{
    BadRequest, ErrorInfo, FieldViolation, PreconditionFailure, PreconditionViolation,
    QuotaFailure, QuotaViolation, ResourceInfo, RetryInfo, RpcStatus, as_any,
};

/// The domain of every [`ErrorInfo`].
pub const DOMAIN: &str = "rollplan.dev";

/// The reason of errors that are bugs in rollplan.
pub const BUG: &str = "INTERNAL_ERROR";

/// The reason of errors whose messages contain keys from the request: these are not logged.
pub const INVALID_JSON: &str = "INVALID_JSON";

/// The codes of `google.rpc.Code`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
#[expect(missing_docs, reason = "google.rpc.Code describes them")]
pub enum Code {
    Ok = 0,
    Cancelled = 1,
    Unknown = 2,
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    AlreadyExists = 6,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    Aborted = 10,
    OutOfRange = 11,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
    DataLoss = 15,
    Unauthenticated = 16,
}

/// The error of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// Its code.
    pub code: Code,
    /// A description for people.
    pub message: String,
    /// Further details. The first one of every error of rollplan is its reason.
    pub details: Vec<Detail>,
}

/// A detail of an error.
#[derive(Clone, Debug, PartialEq)]
pub enum Detail {
    /// The stable reason with values.
    ErrorInfo(ErrorInfo),
    /// Fields of the request are invalid.
    BadRequest(BadRequest),
    /// The state of an object does not allow an answer.
    PreconditionFailure(PreconditionFailure),
    /// A limit is exceeded.
    QuotaFailure(QuotaFailure),
    /// An object does not exist.
    ResourceInfo(ResourceInfo),
    /// A retry may succeed.
    RetryInfo(RetryInfo),
}

// === impl Status ===

impl Status {
    /// An error with a reason.
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>, reason: &str) -> Self {
        let info = ErrorInfo {
            reason: reason.to_owned(),
            domain: DOMAIN.to_owned(),
            metadata: BTreeMap::new(),
        };
        Self {
            code,
            message: message.into(),
            details: vec![Detail::ErrorInfo(info)],
        }
    }

    /// Adds values to its reason.
    #[must_use]
    pub fn with_metadata<const N: usize>(mut self, values: [(&str, String); N]) -> Self {
        if let Some(Detail::ErrorInfo(info)) = self.details.first_mut() {
            let values = values.map(|(key, value)| (key.to_owned(), value));
            info.metadata.extend(values);
        }
        self
    }

    /// Adds a detail.
    #[must_use]
    pub fn with(mut self, detail: Detail) -> Self {
        self.details.push(detail);
        self
    }

    /// A request or an answer exceeds a limit. `what` is its name.
    #[must_use]
    pub fn over_quota(reason: &str, what: &str, message: String) -> Self {
        let violation = QuotaViolation {
            subject: what.to_owned(),
            description: message.clone(),
        };
        Self::new(Code::ResourceExhausted, message, reason).with(Detail::QuotaFailure(
            QuotaFailure {
                violations: vec![violation],
            },
        ))
    }

    /// A request exceeds a limit of the contract. `count` is its actual size, if known.
    #[must_use]
    pub fn too_large(what: &str, unit: &str, count: Option<usize>, max: usize) -> Self {
        let message = match count {
            Some(count) => format!("{what}: {count} {unit} exceed the limit of {max}"),
            None => format!("{what}: more than {max} {unit}"),
        };
        let status = Self::over_quota("REQUEST_TOO_LARGE", what, message)
            .with_metadata([("what", what.to_owned()), ("max", max.to_string())]);
        match count {
            Some(count) => status.with_metadata([("count", count.to_string())]),
            None => status,
        }
    }

    /// Invalid fields, all with the same reason.
    #[must_use]
    pub fn invalid_fields(message: String, reason: &str, fields: Vec<FieldViolation>) -> Self {
        Self::new(Code::InvalidArgument, message, reason).with(Detail::BadRequest(BadRequest {
            field_violations: fields,
        }))
    }

    /// A bug in rollplan. The error contains no internal details.
    #[must_use]
    pub fn bug() -> Self {
        let message = "this is a bug in rollplan: the same request will fail again";
        Self::new(Code::Internal, message, BUG)
    }

    /// Reads an encoded `google.rpc.Status`. `None` if the bytes are none, or have an unknown code. Details of other
    /// types are ignored.
    #[must_use]
    pub fn decode(encoded: &[u8]) -> Option<Self> {
        let RpcStatus {
            code,
            message,
            details,
        } = RpcStatus::decode(encoded).ok()?;
        Some(Self {
            code: Code::try_from(code).ok()?,
            message,
            details: details.iter().filter_map(Detail::decode).collect(),
        })
    }

    /// Encodes it as a `google.rpc.Status`.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        RpcStatus {
            code: self.code.into(),
            message: self.message.clone(),
            details: self.details.iter().map(Detail::encode).collect(),
        }
        .encode_to_vec()
    }

    /// The reason with its values. `None` if another program than rollplan has created the error.
    #[must_use]
    pub fn info(&self) -> Option<&ErrorInfo> {
        self.details.iter().find_map(|detail| match detail {
            Detail::ErrorInfo(info) if info.domain == DOMAIN => Some(info),
            _ => None,
        })
    }

    /// The reason. `None` if another program than rollplan has created the error.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.info().map(|info| &*info.reason)
    }

    /// The invalid fields of the request.
    #[must_use]
    pub fn field_violations(&self) -> &[FieldViolation] {
        let bad = self.details.iter().find_map(|detail| match detail {
            Detail::BadRequest(bad) => Some(&*bad.field_violations),
            _ => None,
        });
        bad.unwrap_or_default()
    }

    /// Whether a retry may succeed, according to its details.
    #[must_use]
    pub fn has_retry_info(&self) -> bool {
        let mut details = self.details.iter();
        details.any(|detail| matches!(detail, Detail::RetryInfo(_)))
    }
}

impl std::error::Error for Status {}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<&Error> for Status {
    fn from(error: &Error) -> Self {
        match error {
            Error::InvalidArgument(violations) => invalid_request(violations),
            Error::TooLarge {
                what,
                unit,
                count,
                max,
            } => Self::too_large(what, unit, Some(*count), *max),
            Error::AnswerTooLarge { bytes, max } => answer_too_large(*bytes, *max),
            Error::Undecodable { message, .. } => malformed(error, "MALFORMED_REQUEST", message),
            Error::InvalidJson { message, .. } => malformed(error, INVALID_JSON, message),
            Error::Rollback(error) => rejected_rollback(error),
            Error::Forecast(error) => rejected_forecast(error),
            Error::Canary(refusal) => {
                precondition(refusal.to_string(), refusal.cause.as_str(), &refusal.name)
            }
            // The client does not receive it.
            Error::Interrupted(_) => Self::new(Code::Cancelled, error.to_string(), "CANCELLED"),
            Error::Descriptors { .. } => Self::bug(),
        }
    }
}

/// Bytes or a text that are not a message of this type.
fn malformed(error: &Error, reason: &str, message: &str) -> Status {
    let text = match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    };
    let status = Status::new(Code::InvalidArgument, text, reason);
    status.with_metadata([("message", message.to_owned())])
}

fn invalid_request(violations: &Violations) -> Status {
    let Violations { listed, omitted } = violations;
    let count = listed.len().saturating_add(*omitted);
    let fields = listed.iter().map(|violation| FieldViolation {
        field: violation.field.clone(),
        description: violation.description.clone(),
        reason: violation.reason.as_str().to_owned(),
    });
    Status::invalid_fields(violations.to_string(), "INVALID_REQUEST", fields.collect())
        .with_metadata([
            ("violations", count.to_string()),
            ("omitted", omitted.to_string()),
        ])
}

/// A rejected rollback. The request itself is valid.
fn rejected_rollback(error: &RollbackError) -> Status {
    let message = error.to_string();
    let reason = Rejection::of_rollback(error).as_str();
    match error {
        RollbackError::Incomplete { subject, .. }
        | RollbackError::Paused { subject, .. }
        | RollbackError::NoneAvailable { subject }
        | RollbackError::NoHistory { subject } => precondition(message, reason, &subject.name),
        RollbackError::NotFound {
            subject,
            revision,
            // The message contains it.
            now: _,
            existing,
        } => {
            let existing: Vec<String> = existing.iter().map(ToString::to_string).collect();
            Status::new(Code::NotFound, message, reason)
                .with_metadata([
                    ("deployment", subject.name.clone()),
                    ("revision", revision.to_string()),
                    ("existing_revisions", existing.join(",")),
                ])
                .with(Detail::ResourceInfo(ResourceInfo {
                    resource_type: "revision".to_owned(),
                    resource_name: revision.to_string(),
                    owner: subject.name.clone(),
                    description: String::new(),
                }))
        }
    }
}

/// A rejected forecast. The request itself is valid.
fn rejected_forecast(error: &ForecastError) -> Status {
    let rejected = |rejection: Rejection, name: &str| {
        precondition(error.to_string(), rejection.as_str(), name)
    };
    match error {
        ForecastError::Rollback(error) => rejected_rollback(error),
        ForecastError::ReplicaSetsIncomplete { name } => {
            rejected(Rejection::ReplicaSetsIncomplete, name)
        }
        ForecastError::PodsIncomplete { name } => rejected(Rejection::PodsIncomplete, name),
        ForecastError::TooManyPods { replicas } => {
            let count = usize::try_from(*replicas).ok();
            let max = usize::try_from(REPLICAS_MAX).unwrap_or(usize::MAX);
            Status::too_large("replicas", "pods", count, max)
        }
    }
}

/// A Deployment whose state does not allow the answer.
fn precondition(message: String, reason: &str, name: &str) -> Status {
    let violation = PreconditionViolation {
        r#type: reason.to_owned(),
        subject: name.to_owned(),
        description: message.clone(),
    };
    Status::new(Code::FailedPrecondition, message, reason)
        .with_metadata([("deployment", name.to_owned())])
        .with(Detail::PreconditionFailure(PreconditionFailure {
            violations: vec![violation],
        }))
}

fn answer_too_large(bytes: usize, max: usize) -> Status {
    let message = format!(
        "the answer: {bytes} bytes exceed the limit of {max}: delete old ReplicaSets, or lower revisionHistoryLimit"
    );
    Status::over_quota("ANSWER_TOO_LARGE", "answer", message).with_metadata([
        ("what", "answer".to_owned()),
        ("max", max.to_string()),
        ("count", bytes.to_string()),
    ])
}

// === impl Detail ===

impl Detail {
    fn decode(any: &Any) -> Option<Self> {
        let detail = any.to_msg().map(Self::ErrorInfo);
        let detail = detail.or_else(|_| any.to_msg().map(Self::BadRequest));
        let detail = detail.or_else(|_| any.to_msg().map(Self::PreconditionFailure));
        let detail = detail.or_else(|_| any.to_msg().map(Self::QuotaFailure));
        let detail = detail.or_else(|_| any.to_msg().map(Self::ResourceInfo));
        detail.or_else(|_| any.to_msg().map(Self::RetryInfo)).ok()
    }

    fn encode(&self) -> Any {
        match self {
            Self::ErrorInfo(detail) => as_any(detail),
            Self::BadRequest(detail) => as_any(detail),
            Self::PreconditionFailure(detail) => as_any(detail),
            Self::QuotaFailure(detail) => as_any(detail),
            Self::ResourceInfo(detail) => as_any(detail),
            Self::RetryInfo(detail) => as_any(detail),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_encoded_and_decoded() {
        let retry = RetryInfo {
            retry_delay: Some(prost_types::Duration {
                seconds: 0,
                nanos: 100_000_000,
            }),
        };
        let not_found = Error::Rollback(RollbackError::NotFound {
            subject: rollplan_core::Subject {
                kind: "deployment".to_owned(),
                name: "web".to_owned(),
            },
            revision: 7,
            now: None,
            existing: vec![1, 2],
        });
        let no_history = Error::Rollback(RollbackError::NoHistory {
            subject: rollplan_core::Subject {
                kind: "deployment".to_owned(),
                name: "web".to_owned(),
            },
        });
        let field = FieldViolation {
            field: "snapshot.now".to_owned(),
            description: "is required".to_owned(),
            reason: "REQUIRED".to_owned(),
        };
        for status in [
            Status::bug(),
            Status::too_large("snapshot.pods", "entries", Some(3), 2),
            Status::new(Code::Unavailable, "busy", "BUSY").with(Detail::RetryInfo(retry)),
            Status::invalid_fields("bad".to_owned(), "INVALID_REQUEST", vec![field]),
            Status::from(&not_found),
            Status::from(&no_history),
        ] {
            let decoded = Status::decode(&status.encode());
            assert_eq!(decoded, Some(status));
        }
        assert_eq!(
            Status::from(&not_found).reason(),
            Some("REVISION_NOT_FOUND")
        );
        let no_code = RpcStatus {
            code: 77,
            ..RpcStatus::default()
        };
        assert_eq!(Status::decode(&no_code.encode_to_vec()), None);
        assert_eq!(Status::decode(b"\xff"), None);
    }

    #[test]
    fn size_limits_are_quota_failures() {
        let status = Status::from(&Error::TooLarge {
            what: "snapshot.pods",
            unit: "entries",
            count: 20_001,
            max: 20_000,
        });
        assert_eq!(status.code, Code::ResourceExhausted);
        assert_eq!(
            status.message,
            "snapshot.pods: 20001 entries exceed the limit of 20000"
        );
        let [Detail::ErrorInfo(info), Detail::QuotaFailure(quota)] = &*status.details else {
            panic!("{:?}", status.details);
        };
        assert_eq!(quota.violations.len(), 1);
        assert_eq!(quota.violations[0].subject, "snapshot.pods");
        assert_eq!(info.reason, "REQUEST_TOO_LARGE");
        assert_eq!(info.metadata["count"], "20001");
        assert_eq!(info.metadata["max"], "20000");
    }
}
