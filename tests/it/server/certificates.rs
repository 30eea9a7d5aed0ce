//! Certificates for tests.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType, date_time_ymd,
};
use tokio_rustls::rustls::pki_types::CertificateDer;

/// A certificate authority.
pub(crate) struct Authority {
    pub(crate) pem: String,
    pub(crate) der: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key.
pub(crate) struct Identity {
    pub(crate) cert: rcgen::Certificate,
    pub(crate) key: KeyPair,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // If all had the same name, Envoy would consider certificates self-signed.
        params
            .distinguished_name
            .push(DnType::CommonName, "authority");
        let cert = params.self_signed(&key).unwrap();
        Self {
            pem: cert.pem(),
            der: cert.der().clone(),
            issuer: Issuer::new(params, key),
        }
    }

    pub(crate) fn sign(&self) -> Identity {
        let name = "planner.test".try_into().unwrap();
        self.sign_as(vec![SanType::DnsName(name)])
    }

    /// A certificate with these names.
    pub(crate) fn sign_as(&self, names: Vec<SanType>) -> Identity {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.subject_alt_names = names;
        params.not_after = date_time_ymd(2100, 1, 2);
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        Identity { cert, key }
    }
}
