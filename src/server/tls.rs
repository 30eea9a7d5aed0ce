//! Encryption of calls, with files that are read again when they change.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use metrics::Counter;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{self, RootCertStore, ServerConfig};

use super::config::TlsFiles;

/// Why certificates cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("{path} cannot be read: {source}")]
    Read { path: String, source: io::Error },
    #[error("{path} is no {what} in PEM")]
    Pem { path: String, what: &'static str },
    #[error("certificate and key cannot be used: {0}")]
    Unusable(#[from] rustls::Error),
    #[error("{path} has no root that can be used: {problem}")]
    Roots { path: String, problem: String },
}

/// What connections are encrypted with from now on. Those that are open keep what they began with.
#[derive(Clone)]
pub(super) struct Tls {
    files: Arc<TlsFiles>,
    current: Arc<RwLock<Current>>,
    reloads: Reloads,
}

struct Current {
    read: Contents,
    config: Arc<ServerConfig>,
}

/// How reloads went.
#[derive(Clone)]
pub(super) struct Reloads {
    pub(super) done: Counter,
    pub(super) failed: Counter,
}

/// The files, as they were read.
#[derive(PartialEq, Eq)]
struct Contents {
    cert: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

// === impl Tls ===

impl Tls {
    /// Reads the files for the first time.
    pub(super) fn read(files: TlsFiles, reloads: Reloads) -> Result<Self, Error> {
        let read = Contents::read(&files)?;
        let config = read.to_config(&files)?;
        Ok(Self {
            files: Arc::new(files),
            current: Arc::new(RwLock::new(Current { read, config })),
            reloads,
        })
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        TlsAcceptor::from(Arc::clone(&current.config))
    }

    /// Takes the files as they are now. What cannot be used is left: it may be half of a change.
    ///
    /// Files are compared as a whole, not by their times: Kubernetes swaps a link to their directory.
    pub(super) fn reload(&self) {
        let failed = |error: Error| {
            self.reloads.failed.increment(1);
            tracing::error!("certificates are not renewed: {error}");
        };
        let read = match Contents::read(&self.files) {
            Ok(read) => read,
            Err(error) => return failed(error),
        };
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        if read == current.read {
            return;
        }
        drop(current);
        match read.to_config(&self.files) {
            Ok(config) => {
                let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
                *current = Current { read, config };
                self.reloads.done.increment(1);
                tracing::info!("certificates are renewed");
            }
            Err(error) => failed(error),
        }
    }
}

// === impl Contents ===

impl Contents {
    fn read(files: &TlsFiles) -> Result<Self, Error> {
        let TlsFiles {
            cert,
            key,
            client_ca,
        } = files;
        let read = |path: &Path| {
            fs::read(path).map_err(|source| Error::Read {
                path: path.display().to_string(),
                source,
            })
        };
        Ok(Self {
            cert: read(cert)?,
            key: read(key)?,
            client_ca: client_ca.as_deref().map(read).transpose()?,
        })
    }

    fn to_config(&self, files: &TlsFiles) -> Result<Arc<ServerConfig>, Error> {
        let certs = certificates(&self.cert, &files.cert)?;
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(|_| Error::Pem {
            path: files.key.display().to_string(),
            what: "private key",
        })?;
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?;
        let builder = match (&self.client_ca, &files.client_ca) {
            (Some(roots), Some(path)) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(
                    Arc::new(root_store(roots, path)?),
                    provider,
                );
                let verifier = verifier.build().map_err(|error| Error::Roots {
                    path: path.display().to_string(),
                    problem: error.to_string(),
                })?;
                builder.with_client_cert_verifier(verifier)
            }
            _ => builder.with_no_client_auth(),
        };
        let mut config = builder.with_single_cert(certs, key)?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Arc::new(config))
    }
}

fn certificates(pem: &[u8], path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match read {
        Ok(certs) if !certs.is_empty() => Ok(certs),
        _ => Err(Error::Pem {
            path: path.display().to_string(),
            what: "certificate",
        }),
    }
}

fn root_store(pem: &[u8], path: &Path) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    for cert in certificates(pem, path)? {
        roots.add(cert).map_err(|error| Error::Roots {
            path: path.display().to_string(),
            problem: error.to_string(),
        })?;
    }
    Ok(roots)
}
