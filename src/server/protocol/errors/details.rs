//! The details of errors. They are sent in a header, and proxies reject calls with more than 8 KiB of headers, so long
//! texts are truncated.

use std::collections::BTreeMap;

use prost::{Message, Name};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, QuotaFailure, StatusExt as _, pb};

/// The domain of every `ErrorInfo`.
pub const DOMAIN: &str = "rollplan.dev";

/// The maximum length of a message. Each byte may take three bytes percent-encoded in the header, and one in the
/// details.
pub(super) const MESSAGE_BYTES_MAX: usize = 512;

/// `google.rpc.ErrorInfo` with ordered metadata, so that errors are deterministic.
#[derive(Clone, PartialEq, Message)]
struct ErrorInfo {
    #[prost(string, tag = "1")]
    reason: String,
    #[prost(string, tag = "2")]
    domain: String,
    #[prost(btree_map = "string, string", tag = "3")]
    metadata: BTreeMap<String, String>,
}

impl Name for ErrorInfo {
    const NAME: &'static str = "ErrorInfo";
    const PACKAGE: &'static str = "google.rpc";
}

/// An error with an `ErrorInfo` and no further details.
pub(crate) fn rejection(
    code: Code,
    message: &str,
    reason: &str,
    metadata: &[(&str, &str)],
) -> Status {
    let message = truncate_end(message, MESSAGE_BYTES_MAX);
    failed(code, &message, reason, metadata, ErrorDetails::new())
}

/// An error with the given details, in addition to the `ErrorInfo` of every error.
pub(super) fn failed(
    code: Code,
    message: &str,
    reason: &str,
    metadata: &[(&str, &str)],
    details: ErrorDetails,
) -> Status {
    let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    let info = ErrorInfo {
        reason: reason.to_owned(),
        domain: DOMAIN.to_owned(),
        metadata: metadata.iter().map(own).collect(),
    };
    let info = prost_types::Any {
        type_url: format!("type.googleapis.com/{}", ErrorInfo::full_name()),
        value: info.encode_to_vec(),
    };
    let others = Status::with_error_details(code, message, details);
    // It was encoded above, so it can be decoded.
    let mut status = pb::Status::decode(others.details()).unwrap_or_default();
    status.details.insert(0, info);
    Status::with_details(code, message, status.encode_to_vec().into())
}

/// An error about an exceeded limit.
pub(super) fn over_quota(
    reason: &str,
    what: &str,
    message: &str,
    metadata: &[(&str, &str)],
) -> Status {
    let quota = QuotaFailure::with_violation(what, message);
    let details = ErrorDetails::with_quota_failure(quota.violations);
    failed(Code::ResourceExhausted, message, reason, metadata, details)
}

/// Replaces truncated text.
pub(crate) const ELLIPSIS: &str = "...";

/// Truncates text to at most `bytes_max` bytes, between characters.
pub(super) fn truncate_end(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(bytes_max.saturating_sub(ELLIPSIS.len()));
    format!("{}{ELLIPSIS}", &text[..end])
}

/// Like [`truncate_end`], but removes the middle: both ends of a path are more useful.
pub(super) fn truncate_middle(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let keep = bytes_max.saturating_sub(ELLIPSIS.len());
    let end = text.floor_char_boundary(keep / 2);
    let start = text.ceil_char_boundary(text.len() - keep / 2);
    format!("{}{ELLIPSIS}{}", &text[..end], &text[start..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_truncated_between_characters() {
        assert_eq!(truncate_end("größer", 8), "größer");
        assert_eq!(truncate_end("größer", 6), "gr...");
        assert_eq!(truncate_end("größer", 2), "...");
        assert_eq!(
            truncate_middle("snapshot.pods.name", 18),
            "snapshot.pods.name"
        );
        assert_eq!(truncate_middle("snapshot.pods.name", 13), "snaps....name");
        assert_eq!(truncate_middle("ööööö", 8), "ö...ö");
    }
}
