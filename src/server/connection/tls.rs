//! TLS for calls, with certificate files that are reloaded when they change.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use metrics::{Counter, Gauge};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{self, RootCertStore, ServerConfig};
use x509_cert::Certificate;
use x509_cert::der::Decode as _;

use crate::config::TlsFiles;

/// Why the certificate files cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{path} cannot be read: {source}")]
    Read { path: String, source: io::Error },
    #[error("{path} does not contain a {what} in PEM")]
    Pem { path: String, what: &'static str },
    #[error("cannot use the certificate and its key: {0}")]
    Unusable(#[from] rustls::Error),
    #[error("cannot use the CA certificates in {path}: {problem}")]
    Roots { path: String, problem: String },
}

/// The TLS configuration for new connections. Open connections keep their own configuration.
#[derive(Clone)]
pub(crate) struct Tls {
    files: Arc<TlsFiles>,
    current: Arc<RwLock<Certificates>>,
    observed: TlsMetrics,
}

struct Certificates {
    read: Contents,
    config: Arc<ServerConfig>,
    failing: Option<Failing>,
}

/// A change of the files that cannot be used.
struct Failing {
    problem: String,
    is_logged: bool,
}

/// The metrics of reloading.
#[derive(Clone)]
pub(crate) struct TlsMetrics {
    pub(crate) reloads: Counter,
    /// Incremented on each poll of the files.
    pub(crate) failures: Counter,
    /// When the first certificate expires, in seconds of Unix time.
    pub(crate) expiry: Gauge,
}

/// The contents of the files.
#[derive(PartialEq, Eq)]
struct Contents {
    cert: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

// === impl Tls ===

impl Tls {
    /// Reads the files for the first time.
    pub(crate) fn read(files: TlsFiles, observed: TlsMetrics) -> Result<Self, Error> {
        let read = Contents::read(&files)?;
        let (config, expiry) = read.to_config(&files)?;
        observed.expiry.set(expiry);
        Ok(Self {
            files: Arc::new(files),
            current: Arc::new(RwLock::new(Certificates {
                read,
                config,
                failing: None,
            })),
            observed,
        })
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.current().config))
    }

    /// Reloads the files. If they cannot be used, the current configuration remains, and the problem is reported if it
    /// persists at the next poll, because the files may be in the middle of a change.
    ///
    /// Compares whole files instead of modification times, because Kubernetes replaces a link to their directory.
    pub(crate) fn reload(&self) {
        let read = Contents::read(&self.files);
        // Only this function changes it, so the comparison remains valid.
        let is_same = |read: &Contents| *read == self.current().read;
        let renewed = match read {
            Ok(read) if is_same(&read) => Ok(None),
            Ok(read) => {
                let config = read.to_config(&self.files);
                config.map(|(config, expiry)| Some((read, config, expiry)))
            }
            Err(error) => Err(error),
        };
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let failing = current.failing.take();
        match renewed {
            Ok(None) => {}
            Ok(Some((read, config, expiry))) => {
                *current = Certificates {
                    read,
                    config,
                    failing: None,
                };
                self.observed.reloads.increment(1);
                self.observed.expiry.set(expiry);
                tracing::info!("reloaded the certificates");
            }
            Err(error) => current.failing = Some(self.failed(error.to_string(), failing)),
        }
    }

    fn failed(&self, problem: String, before: Option<Failing>) -> Failing {
        let is_again = before.is_some();
        let was_logged = before.is_some_and(|it| it.is_logged && it.problem == problem);
        if is_again {
            self.observed.failures.increment(1);
            if !was_logged {
                tracing::error!("cannot reload the certificates: {problem}");
            }
        }
        Failing {
            problem,
            is_logged: is_again,
        }
    }

    fn current(&self) -> RwLockReadGuard<'_, Certificates> {
        self.current.read().unwrap_or_else(PoisonError::into_inner)
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

    /// The TLS configuration, and the earliest expiry of the certificates in seconds of Unix time.
    fn to_config(&self, files: &TlsFiles) -> Result<(Arc<ServerConfig>, f64), Error> {
        let certs = certificates(&self.cert, &files.cert)?;
        let expiry = first_expiry(&certs).ok_or_else(|| Error::Pem {
            path: files.cert.display().to_string(),
            what: "certificate",
        })?;
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
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok((Arc::new(config), expiry))
    }
}

/// The earliest expiry, in seconds of Unix time.
fn first_expiry(certs: &[CertificateDer<'_>]) -> Option<f64> {
    let ends = certs.iter().map(|cert| {
        let cert = Certificate::from_der(cert).ok()?;
        let validity = cert.tbs_certificate().validity();
        Some(validity.not_after.to_unix_duration().as_secs_f64())
    });
    ends.reduce(|first, end| Some(first?.min(end?))).flatten()
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use tempfile::TempDir;

    use super::*;
    use crate::observability::log::Written;

    /// A certificate and its key.
    fn mk_files(directory: &TempDir) -> TlsFiles {
        let files = TlsFiles {
            cert: directory.path().join("cert"),
            key: directory.path().join("key"),
            client_ca: None,
        };
        let signed = rcgen::generate_simple_self_signed(["planner.test".to_owned()]).unwrap();
        fs::write(&files.cert, signed.cert.pem()).unwrap();
        fs::write(&files.key, signed.signing_key.serialize_pem()).unwrap();
        files
    }

    fn mk_observed() -> TlsMetrics {
        TlsMetrics {
            reloads: Counter::noop(),
            failures: Counter::noop(),
            expiry: Gauge::noop(),
        }
    }

    #[test]
    fn files_without_certificate_or_key_are_named() {
        let directory = TempDir::new().unwrap();
        for (file, what) in [
            ("cert", "certificate"),
            ("key", "private key"),
            ("ca", "certificate"),
        ] {
            let mut files = mk_files(&directory);
            let path = directory.path().join(file);
            if file == "ca" {
                files.client_ca = Some(path.clone());
            }
            fs::write(&path, "").unwrap();
            let problem = Tls::read(files, mk_observed()).err().unwrap();
            let expected = format!("{} does not contain a {what} in PEM", path.display());
            assert_eq!(problem.to_string(), expected);
        }
    }

    #[test]
    fn lasting_problem_is_logged_once() {
        let directory = TempDir::new().unwrap();
        let files = mk_files(&directory);
        let tls = Tls::read(files.clone(), mk_observed()).unwrap();
        let (written, _guard) = Written::start();
        let path = files.cert.display().to_string();
        let mut logged = 0;
        for (change, polls) in [
            (
                &(|| fs::write(&files.cert, "no certificate")) as &dyn Fn() -> io::Result<()>,
                [0, 1, 1],
            ),
            // Another problem.
            (&|| fs::remove_file(&files.cert), [1, 1, 1]),
        ] {
            change().unwrap();
            for lines in polls {
                tls.reload();
                assert_eq!(written.lines().len(), logged + lines);
            }
            logged += polls[2];
            let message = written.lines()[logged - 1]["message"].to_string();
            assert!(
                message.contains("cannot reload the certificates"),
                "{message}"
            );
            assert!(message.contains(&path), "{message}");
        }
    }

    #[test]
    fn incomplete_change_is_tolerated_once_and_lasting_failures_are_counted() {
        let directory = TempDir::new().unwrap();
        let files = mk_files(&directory);
        let write = |cert: &rcgen::CertifiedKey<rcgen::KeyPair>| {
            fs::write(&files.cert, cert.cert.pem()).unwrap();
        };
        let mk = || rcgen::generate_simple_self_signed(["planner.test".to_owned()]).unwrap();
        let (first, second) = (mk(), mk());
        write(&first);
        fs::write(&files.key, first.signing_key.serialize_pem()).unwrap();
        let (done, failed) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let observed = TlsMetrics {
            reloads: Counter::from_arc(Arc::clone(&done)),
            failures: Counter::from_arc(Arc::clone(&failed)),
            expiry: Gauge::noop(),
        };
        let tls = Tls::read(files.clone(), observed).unwrap();
        let counts = |tls: &Tls| {
            tls.reload();
            (done.load(Ordering::Relaxed), failed.load(Ordering::Relaxed))
        };
        assert_eq!(counts(&tls), (0, 0));
        // The certificate is replaced before its key.
        write(&second);
        assert_eq!(counts(&tls), (0, 0));
        fs::write(&files.key, second.signing_key.serialize_pem()).unwrap();
        assert_eq!(counts(&tls), (1, 0));
        fs::write(&files.cert, "no certificate").unwrap();
        assert_eq!(counts(&tls), (1, 0));
        assert_eq!(counts(&tls), (1, 1));
        // While the problem persists.
        assert_eq!(counts(&tls), (1, 2));
        fs::remove_file(&files.cert).unwrap();
        assert_eq!(counts(&tls), (1, 3));
        write(&second);
        assert_eq!(counts(&tls), (1, 3));
    }
}
