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

use crate::config::client_name::{is_uri, matches};
use crate::protocol::errors::rejection;

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
    let status = rejection(Code::PermissionDenied, &message, "CLIENT_NOT_ALLOWED");
    Some(status.into_http())
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, SanType};

    use super::*;
    use crate::protocol::errors::failure;

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
