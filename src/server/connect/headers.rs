//! Translates the headers of Connect to those of gRPC.

use http::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, TE, TRAILER, TRANSFER_ENCODING,
};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::rejection;
use crate::protocol::deadline::GRPC_TIMEOUT;
use crate::protocol::rejected::Rejected;

const GRPC_ENCODING: &str = "grpc-encoding";
const GRPC_ACCEPT_ENCODING: &str = "grpc-accept-encoding";

const PROTOCOL_VERSION: &str = "connect-protocol-version";
const TIMEOUT: &str = "connect-timeout-ms";

/// Translates the headers of a call. `accepts_gzip` states whether tonic may compress the answer.
pub(super) fn to_grpc(headers: &mut HeaderMap, accepts_gzip: bool) -> Result<(), Rejected> {
    let timeout = timeout(headers)?;
    for name in [GRPC_TIMEOUT, GRPC_ENCODING, GRPC_ACCEPT_ENCODING] {
        headers.remove(name);
    }
    if let Some(timeout) = timeout {
        headers.insert(GRPC_TIMEOUT, timeout);
    }
    if let Some(encoding) = headers.remove(CONTENT_ENCODING) {
        headers.insert(GRPC_ENCODING, encoding);
    }
    if accepts_gzip {
        headers.insert(GRPC_ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
    }
    Ok(())
}

/// The client's deadline in gRPC's format.
fn timeout(headers: &HeaderMap) -> Result<Option<HeaderValue>, Rejected> {
    /// gRPC allows eight digits, Connect ten. Eight digits of milliseconds are more than a day.
    const MAX: u64 = 99_999_999;
    let Some(text) = headers.get(TIMEOUT) else {
        return Ok(None);
    };
    let is_number =
        |text: &&str| text.len() <= 10 && text.bytes().all(|byte| byte.is_ascii_digit());
    let milliseconds = text.to_str().ok().filter(is_number);
    let milliseconds: Option<u64> = milliseconds.and_then(|text| text.parse().ok());
    let written = milliseconds.and_then(|it| format!("{}m", it.min(MAX)).parse().ok());
    written.map(Some).ok_or_else(rejection::malformed_timeout)
}

/// Checks the version of the protocol. It is optional, so that curl can be used without it.
pub(super) fn check_version(headers: &HeaderMap) -> Result<(), Rejected> {
    match headers.get(PROTOCOL_VERSION).map(HeaderValue::as_bytes) {
        None | Some(b"1") => Ok(()),
        Some(_) => Err(rejection::unsupported_version()),
    }
}

/// Checks that the compression of the message is supported.
pub(super) fn check_encoding(headers: &HeaderMap) -> Result<(), Rejected> {
    match headers.get(CONTENT_ENCODING).map(HeaderValue::as_bytes) {
        None | Some(b"identity" | b"gzip" | b"zstd") => Ok(()),
        Some(_) => Err(rejection::unsupported_encoding()),
    }
}

/// The content type in lower case, without its parameters.
pub(super) fn media_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let (media_type, _) = value.split_once(';').unwrap_or((value, ""));
    Some(media_type.trim().to_ascii_lowercase())
}

/// Whether the client accepts a compressed answer.
pub(super) fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT_ENCODING).into_iter();
    let values = values.filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|coding| {
        let (name, weight) = weighted(coding);
        name.eq_ignore_ascii_case("gzip") && weight > 0.0
    })
}

/// An entry of an accept header, and its weight. A weight of 0 is "not acceptable" (RFC 9110, 12.4.2).
pub(super) fn weighted(entry: &str) -> (&str, f32) {
    let mut parts = entry.split(';').map(str::trim);
    let name = parts.next().unwrap_or_default();
    let weight = parts.find_map(|part| {
        let weight = part.strip_prefix("q=").or_else(|| part.strip_prefix("Q="));
        weight?.parse().ok()
    });
    (name, weight.unwrap_or(1.0))
}

/// Copies the metadata of an answer. gRPC's trailing metadata becomes headers with a prefix.
pub(super) fn copy_metadata(leading: &HeaderMap, trailing: &HeaderMap, to: &mut HeaderMap) {
    for (name, value) in leading.iter().filter(|(name, _)| is_metadata(name)) {
        to.append(name, value.clone());
    }
    for (name, value) in trailing.iter().filter(|(name, _)| is_metadata(name)) {
        let prefixed = HeaderName::try_from(format!("trailer-{name}"));
        if let Ok(name) = prefixed {
            to.append(name, value.clone());
        }
    }
}

/// Whether a header is metadata, not a header of HTTP or gRPC itself.
fn is_metadata(name: &HeaderName) -> bool {
    let of_http = [CONTENT_TYPE, CONTENT_LENGTH, TRANSFER_ENCODING, TE, TRAILER];
    !of_http.contains(name) && !name.as_str().starts_with("grpc-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_headers(name: &'static str, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        )])
    }

    #[test]
    fn timeouts_have_up_to_ten_digits() {
        let read = |text| {
            let timeout = timeout(&mk_headers(TIMEOUT, text)).map_err(|_| "rejected");
            timeout.map(|it| it.unwrap().to_str().unwrap().to_owned())
        };
        assert_eq!(read("0").as_deref(), Ok("0m"));
        assert_eq!(read("1500").as_deref(), Ok("1500m"));
        assert_eq!(read("0000001500").as_deref(), Ok("1500m"));
        assert_eq!(read("9999999999").as_deref(), Ok("99999999m"));
        for wrong in ["", "-1", "+1", "1.5", "1s", " 1", "10000000000"] {
            assert_eq!(read(wrong), Err("rejected"), "{wrong}");
        }
        assert!(timeout(&HeaderMap::new()).is_ok_and(|it| it.is_none()));
    }

    #[test]
    fn gzip_is_accepted_unless_its_weight_is_zero() {
        for (value, expected) in [
            ("gzip", true),
            ("GZIP", true),
            ("br, gzip;q=0.5", true),
            ("deflate, gzip , br", true),
            ("gzip;q=0", false),
            ("gzip; q=0.000", false),
            ("identity", false),
            ("x-gzip", false),
            ("", false),
        ] {
            let headers = mk_headers("accept-encoding", value);
            assert_eq!(accepts_gzip(&headers), expected, "{value}");
        }
    }

    #[test]
    fn parameters_of_content_types_are_ignored() {
        let read = |value| media_type(&mk_headers("content-type", value));
        let json = Some("application/json".to_owned());
        assert_eq!(read("application/json"), json);
        assert_eq!(read("Application/JSON; charset=utf-8"), json);
        assert_ne!(read("application/jsonx"), json);
        assert_eq!(media_type(&HeaderMap::new()), None);
    }
}
