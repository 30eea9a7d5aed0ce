//! The messages of `google/rpc/status.proto` and `google/rpc/error_details.proto` that errors consist of, without those
//! fields that rollplan does not set. (`tonic-types` has all of them, but depends on a transport.)

use std::collections::BTreeMap;

use prost::{Message, Name};
use prost_types::{Any, Duration};

/// The encoded form of a status.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct RpcStatus {
    #[prost(int32, tag = "1")]
    pub(crate) code: i32,
    #[prost(string, tag = "2")]
    pub(crate) message: String,
    #[prost(message, repeated, tag = "3")]
    pub(crate) details: Vec<Any>,
}

/// A stable reason with values. Its metadata is ordered, so that errors are deterministic.
#[derive(Clone, PartialEq, Message)]
pub struct ErrorInfo {
    /// For example "INVALID_REQUEST".
    #[prost(string, tag = "1")]
    pub reason: String,
    /// "rollplan.dev".
    #[prost(string, tag = "2")]
    pub domain: String,
    /// Further values.
    #[prost(btree_map = "string, string", tag = "3")]
    pub metadata: BTreeMap<String, String>,
}

/// Invalid fields of a request.
#[derive(Clone, PartialEq, Message)]
pub struct BadRequest {
    /// The fields.
    #[prost(message, repeated, tag = "1")]
    pub field_violations: Vec<FieldViolation>,
}

/// An invalid field.
#[derive(Clone, PartialEq, Message)]
pub struct FieldViolation {
    /// Its path, for example `snapshot.now`.
    #[prost(string, tag = "1")]
    pub field: String,
    /// What is wrong, for people.
    #[prost(string, tag = "2")]
    pub description: String,
    /// The stable name of the rule.
    #[prost(string, tag = "3")]
    pub reason: String,
}

/// Objects whose state does not allow an answer.
#[derive(Clone, PartialEq, Message)]
pub struct PreconditionFailure {
    /// The objects.
    #[prost(message, repeated, tag = "1")]
    pub violations: Vec<PreconditionViolation>,
}

/// An object whose state does not allow an answer.
#[derive(Clone, PartialEq, Message)]
pub struct PreconditionViolation {
    /// The reason.
    #[prost(string, tag = "1")]
    pub r#type: String,
    /// The name of the object.
    #[prost(string, tag = "2")]
    pub subject: String,
    /// The message of the error.
    #[prost(string, tag = "3")]
    pub description: String,
}

/// Exceeded limits.
#[derive(Clone, PartialEq, Message)]
pub struct QuotaFailure {
    /// The limits.
    #[prost(message, repeated, tag = "1")]
    pub violations: Vec<QuotaViolation>,
}

/// An exceeded limit.
#[derive(Clone, PartialEq, Message)]
pub struct QuotaViolation {
    /// What exceeds it.
    #[prost(string, tag = "1")]
    pub subject: String,
    /// The message of the error.
    #[prost(string, tag = "2")]
    pub description: String,
}

/// An object that does not exist.
#[derive(Clone, PartialEq, Message)]
pub struct ResourceInfo {
    /// For example "revision".
    #[prost(string, tag = "1")]
    pub resource_type: String,
    /// Its name.
    #[prost(string, tag = "2")]
    pub resource_name: String,
    /// The object that it would belong to.
    #[prost(string, tag = "3")]
    pub owner: String,
    /// A description for people.
    #[prost(string, tag = "4")]
    pub description: String,
}

/// When a retry may succeed.
#[derive(Clone, PartialEq, Message)]
pub struct RetryInfo {
    /// The minimum time to wait.
    #[prost(message, optional, tag = "1")]
    pub retry_delay: Option<Duration>,
}

/// Gives messages of `google.rpc` their full names.
macro_rules! named {
    ($($message:ident)*) => {
        $(
            impl Name for $message {
                const NAME: &'static str = stringify!($message);
                const PACKAGE: &'static str = "google.rpc";

                fn type_url() -> String {
                    format!("type.googleapis.com/{}", Self::full_name())
                }
            }
        )*
    };
}

named! { ErrorInfo BadRequest PreconditionFailure QuotaFailure ResourceInfo RetryInfo }

/// Encodes a detail.
pub(crate) fn as_any<M: Message + Name>(detail: &M) -> Any {
    Any {
        type_url: M::type_url(),
        value: detail.encode_to_vec(),
    }
}
