//! Statuses of tonic. They are sent in a header, and proxies reject calls with more than 8 KiB of headers, so long texts are
//! truncated.

use rollplan_service::{Detail, FieldViolation, Status};
use tonic::Code;

/// The maximum length of a text. Each byte of the message may take three bytes percent-encoded in the header, and one in the
/// details.
pub(super) const TEXT_BYTES_MAX: usize = 512;
/// The maximum size of the details before base64: 5.3 KiB in the header, which leaves room for the message and other
/// headers.
pub(super) const DETAILS_BYTES_MAX: usize = 4 << 10;
/// The maximum lengths of a field and a description. The first pair with which all violations fit is used. They always
/// fit with the last pair, because at most [`LISTED_VIOLATIONS_MAX`](rollplan_wire::LISTED_VIOLATIONS_MAX) are listed.
const VIOLATION_BYTES_MAX: [(usize, usize); 5] = [
    (usize::MAX, usize::MAX),
    (260, 256),
    (260, 96),
    (160, 64),
    (96, 40),
];

/// Converts a status, with texts that are short enough for a header.
pub(crate) fn to_tonic(mut status: Status) -> tonic::Status {
    truncate(&mut status.message);
    for detail in &mut status.details {
        match detail {
            Detail::ErrorInfo(info) => info.metadata.values_mut().for_each(truncate),
            // Below.
            Detail::BadRequest(_) => {}
            Detail::PreconditionFailure(failure) => {
                for violation in &mut failure.violations {
                    truncate(&mut violation.subject);
                    truncate(&mut violation.description);
                }
            }
            Detail::QuotaFailure(failure) => {
                for violation in &mut failure.violations {
                    truncate(&mut violation.description);
                }
            }
            Detail::ResourceInfo(resource) => truncate(&mut resource.owner),
            Detail::RetryInfo(_) => {}
        }
    }
    let code = Code::from(i32::from(status.code));
    let [first, others @ ..] = VIOLATION_BYTES_MAX;
    let details = others
        .into_iter()
        .fold(with_violations(&status, first), |fits, limits| {
            if fits.len() <= DETAILS_BYTES_MAX {
                fits
            } else {
                with_violations(&status, limits)
            }
        });
    tonic::Status::with_details(code, status.message, details.into())
}

/// The encoded status with fields and descriptions of at most these lengths.
fn with_violations(status: &Status, limits: (usize, usize)) -> Vec<u8> {
    let (field_bytes_max, description_bytes_max) = limits;
    let mut status = status.clone();
    for detail in &mut status.details {
        if let Detail::BadRequest(bad) = detail {
            for FieldViolation {
                field, description, ..
            } in &mut bad.field_violations
            {
                *field = truncate_middle(field, field_bytes_max);
                *description = truncate_end(description, description_bytes_max);
            }
        }
    }
    status.encode()
}

fn truncate(text: &mut String) {
    if text.len() > TEXT_BYTES_MAX {
        *text = truncate_end(text, TEXT_BYTES_MAX);
    }
}

/// Replaces truncated text.
pub(crate) const ELLIPSIS: &str = "...";

/// Truncates text to at most `bytes_max` bytes, between characters.
fn truncate_end(text: &str, bytes_max: usize) -> String {
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
