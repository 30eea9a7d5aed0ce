//! Restricts which clients may call, by the names in their certificates.

use std::fmt::Write as _;
use std::sync::Arc;

use http::{Request, Response};
use tokio_rustls::rustls::pki_types::CertificateDer;
use tonic::Code;
use tonic::body::Body;
use x509_cert::Certificate;
use x509_cert::der::Decode as _;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

use crate::server::call::errors::rejection;

/// The end of a URI that matches all URIs below it.
const BELOW: &str = "/*";

/// The DNS names and URIs of clients that may call. If empty, all clients may call.
#[derive(Clone, Debug)]
pub(crate) struct AllowedClients(Arc<[String]>);

/// A client that may not call, with its names. Its connection adds this to each of its requests as an extension.
#[derive(Clone, Debug)]
pub(crate) struct NotAllowed(Arc<[String]>);

// === impl AllowedClients ===

impl AllowedClients {
    pub(crate) fn new(names: &[String]) -> Self {
        Self(names.into())
    }

    /// Returns the names of the client if it may not call.
    pub(crate) fn reject(&self, certificate: Option<&CertificateDer<'_>>) -> Option<NotAllowed> {
        if self.0.is_empty() {
            return None;
        }
        let has = certificate.map(names).unwrap_or_default();
        let is_allowed = |name: &String| self.0.iter().any(|allowed| matches(allowed, name));
        (!has.iter().any(is_allowed)).then(|| NotAllowed(has.into()))
    }
}

/// Validates a configured name.
pub(crate) fn check(allowed: &str) -> Result<(), &'static str> {
    let name = if is_uri(allowed) {
        allowed.strip_suffix(BELOW).unwrap_or(allowed)
    } else {
        allowed
    };
    if name.is_empty() || name.ends_with("://") {
        return Err("is empty");
    }
    if name.contains('*') {
        return Err(
            "may have * only at the end of a URI, for example spiffe://cluster.local/ns/apps/*",
        );
    }
    if !name.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("is neither a DNS name nor a URI");
    }
    Ok(())
}

fn is_uri(name: &str) -> bool {
    name.contains("://")
}

fn matches(allowed: &str, name: &str) -> bool {
    if !is_uri(allowed) {
        return allowed.eq_ignore_ascii_case(name);
    }
    match allowed.strip_suffix(BELOW) {
        Some(above) => name
            .strip_prefix(above)
            .and_then(|rest| rest.strip_prefix('/'))
            .is_some_and(|rest| !rest.is_empty()),
        None => allowed == name,
    }
}

/// The DNS names and URIs of a certificate. Empty if it cannot be parsed.
fn names(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Ok(certificate) = Certificate::from_der(certificate) else {
        return Vec::new();
    };
    let found = certificate.tbs_certificate().get_extension();
    let Ok(Some((_, SubjectAltName(names)))) = found else {
        return Vec::new();
    };
    // A name must have the form of its type, regardless of what a CA has signed.
    let names = names.iter().filter_map(|name| match name {
        GeneralName::DnsName(name) if !is_uri(name.as_str()) => Some(name.as_str().to_owned()),
        GeneralName::UniformResourceIdentifier(uri) if is_uri(uri.as_str()) => {
            Some(uri.as_str().to_owned())
        }
        _ => None,
    });
    names.collect()
}

/// The response to a client that may not call.
pub(crate) fn rejected(request: &Request<Body>) -> Option<Response<Body>> {
    let NotAllowed(names) = request.extensions().get()?;
    let mut message = "none of the names in the client certificate is allowed to call".to_owned();
    for (i, name) in names.iter().enumerate() {
        let separator = if i == 0 { ": it has " } else { ", " };
        // Writing to a String does not fail.
        let _ = write!(message, "{separator}{}", name.escape_default());
    }
    let status = rejection(Code::PermissionDenied, &message, "CLIENT_NOT_ALLOWED", &[]);
    Some(status.into_http())
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, SanType};

    use super::*;
    use crate::server::call::errors::failure;

    #[test]
    fn names_must_match_exactly_or_be_below_a_uri() {
        let uri = "spiffe://cluster.local/ns/apps/sa/web";
        for (allowed, name, expected) in [
            ("web.apps.svc", "web.apps.svc", true),
            ("web.apps.svc", "Web.Apps.SVC", true),
            ("web.apps.svc", "b.web.apps.svc", false),
            ("web.apps.svc", "web.apps.svc.evil", false),
            (uri, uri, true),
            (uri, "spiffe://cluster.local/ns/apps/sa/web2", false),
            (uri, "spiffe://cluster.local/ns/apps/sa/WEB", false),
            ("spiffe://cluster.local/ns/apps/*", uri, true),
            ("spiffe://cluster.local/*", uri, true),
            ("spiffe://cluster.local/ns/app/*", uri, false),
            ("spiffe://cluster.local/ns/apps/sa/web/*", uri, false),
            (
                "spiffe://cluster.local/ns/*",
                "spiffe://cluster.local/ns/",
                false,
            ),
            (
                "spiffe://cluster.local/*",
                "spiffe://cluster.local.evil/x",
                false,
            ),
        ] {
            assert_eq!(matches(allowed, name), expected, "{allowed} {name}");
        }
    }

    #[test]
    fn invalid_names_are_rejected() {
        for allowed in ["web.apps.svc", "spiffe://a/b", "spiffe://a/*", "https://a"] {
            assert_eq!(check(allowed), Ok(()), "{allowed}");
        }
        for wrong in [
            "",
            "*",
            "*.svc",
            "spiffe://",
            "spiffe://a/*/b",
            "spiffe://a*",
            "a b",
            "ä",
        ] {
            assert!(check(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn without_names_every_client_may_call() {
        assert!(AllowedClients::new(&[]).reject(None).is_none());
        assert!(
            AllowedClients::new(&["a".to_owned()])
                .reject(None)
                .is_some()
        );
    }

    #[test]
    fn rejections_contain_the_escaped_names() {
        let none = "none of the names in the client certificate is allowed to call";
        for (names, has) in [
            (&[][..], ""),
            (&["a.svc"], ": it has a.svc"),
            (
                &["a.svc", "spiffe://b/c", "\u{1b}[31m"],
                ": it has a.svc, spiffe://b/c, \\u{1b}[31m",
            ),
        ] {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let mut request = Request::new(Body::empty());
            request.extensions_mut().insert(NotAllowed(names.into()));
            let status = failure(&rejected(&request).unwrap()).unwrap();
            assert_eq!(status.code(), Code::PermissionDenied);
            assert_eq!(status.message(), format!("{none}{has}"));
        }
        assert!(rejected(&Request::new(Body::empty())).is_none());
    }

    #[test]
    fn dns_names_are_not_taken_for_uris() {
        let uri = "spiffe://cluster.local/ns/apps/sa/web";
        let of = |name: &str| name.try_into().unwrap();
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![
            SanType::DnsName(of("web.apps.svc")),
            SanType::DnsName(of(uri)),
            SanType::URI(of("api.apps.svc")),
            SanType::URI(of(&format!("{uri}2"))),
        ];
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let expected = ["web.apps.svc".to_owned(), format!("{uri}2")];
        assert_eq!(names(certificate.der()), expected);
    }
}
