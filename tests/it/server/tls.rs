//! TLS, including the rotation of certificates.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use hyper_util::rt::TokioIo;
use rcgen::SanType;
use rollplan::client::RolloutPlannerClient;
use rollplan::server::{Config, Server, Shutdown, TlsFiles};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tonic::Code;
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tower::service_fn;

use super::certificates::{Authority, Identity};
use super::connect::ask_json;
use super::observed::{get, mk_observed, sample};
use super::refusals::check;
use super::{mk_request, until};

/// A temporary directory with certificate files.
pub(super) struct Directory(TempDir);

impl Directory {
    pub(super) fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    pub(super) fn path(&self, file: &str) -> PathBuf {
        self.0.path().join(file)
    }

    pub(super) fn files(&self, with_client_ca: bool) -> TlsFiles {
        TlsFiles {
            cert: self.path("tls.crt"),
            key: self.path("tls.key"),
            client_ca: with_client_ca.then(|| self.path("ca.crt")),
        }
    }

    pub(super) fn write(&self, file: &str, text: &str) {
        std::fs::write(self.path(file), text).unwrap();
    }

    /// Writes the key before its certificate, as a rotation may do: in between, they do not match.
    pub(super) fn rotate(&self, identity: &Identity) {
        self.write("tls.key", &identity.key.serialize_pem());
        self.write("tls.crt", &identity.cert.pem());
    }
}

/// A client that trusts this authority, and presents this certificate if given.
fn client_config(trusted: &Authority, shown: Option<&Identity>) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.der.clone()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match shown {
        Some(Identity { cert, key }) => {
            let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
            builder
                .with_client_auth_cert(vec![cert.der().clone()], key)
                .unwrap()
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    config
}

/// A TLS connection of a client that offers these protocols.
pub(super) async fn open_tls(
    address: SocketAddr,
    trusted: &Authority,
    shown: &Identity,
    offered: &[&str],
) -> TlsStream<TcpStream> {
    let mut config = client_config(trusted, Some(shown));
    config.alpn_protocols = offered.iter().map(|it| it.as_bytes().to_vec()).collect();
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("planner.test").unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    connector.connect(name, stream).await.unwrap()
}

/// Connects, and returns the certificate of the server.
async fn connect(
    address: SocketAddr,
    config: ClientConfig,
) -> Result<(Channel, CertificateDer<'static>), tonic::transport::Error> {
    let seen = Arc::new(Mutex::new(None));
    let see = Arc::clone(&seen);
    let connector = TlsConnector::from(Arc::new(config));
    let connect = service_fn(move |_| {
        let (connector, see) = (connector.clone(), Arc::clone(&see));
        async move {
            let stream = TcpStream::connect(address).await?;
            let name = ServerName::try_from("planner.test").unwrap();
            let stream = connector.connect(name, stream).await?;
            let shown = stream.get_ref().1.peer_certificates().unwrap()[0].clone();
            *see.lock().unwrap() = Some(shown.into_owned());
            Ok::<_, std::io::Error>(TokioIo::new(stream))
        }
    });
    let endpoint = Endpoint::from_static("http://planner.test");
    let channel = endpoint.connect_with_connector(connect).await?;
    let shown = seen.lock().unwrap().take().unwrap();
    Ok((channel, shown))
}

pub(super) fn with_tls(files: TlsFiles) -> Config {
    Config {
        tls: Some(files),
        ..mk_observed()
    }
}

async fn serve(files: TlsFiles) -> (SocketAddr, SocketAddr, watch::Sender<Shutdown>) {
    serve_with(with_tls(files)).await
}

pub(super) async fn serve_with(
    config: Config,
) -> (SocketAddr, SocketAddr, watch::Sender<Shutdown>) {
    let server = Server::bind(config).await.unwrap();
    let (address, http) = (server.local_addr(), server.http_addr().unwrap());
    let (stop, stopped) = watch::channel(Shutdown::NotRequested);
    tokio::spawn(server.serve(stopped));
    (address, http, stop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificate_rotation_under_load_fails_no_call() {
    let directory = Directory::new();
    let authority = Authority::new();
    let (first, second) = (authority.sign(), authority.sign());
    directory.rotate(&first);
    let (address, http, _stop) = serve(directory.files(false)).await;
    let reloads = |outcome| async move {
        let (_, text) = get(http, "/metrics").await;
        sample(&text, "rollplan_tls_reloads_total", &[("outcome", outcome)])
    };

    let (_, text) = get(http, "/metrics").await;
    let expiry = sample(
        &text,
        "rollplan_tls_certificate_expiry_timestamp_seconds",
        &[],
    );
    // 2100-01-02.
    assert_eq!(expiry, 4_102_531_200.0);

    // Continuous calls on new connections, and on one that stays open.
    let config = client_config(&authority, None);
    let (stays, shown) = connect(address, config.clone()).await.unwrap();
    assert_eq!(shown, *first.cert.der());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let see = Arc::clone(&seen);
    let load_config = config.clone();
    let load = tokio::spawn(async move {
        loop {
            let connected = connect(address, load_config.clone()).await;
            let (channel, shown) = connected.unwrap();
            for channel in [channel, stays.clone()] {
                let mut client = RolloutPlannerClient::new(channel);
                client.plan_rollout(mk_request()).await.unwrap();
            }
            see.lock().unwrap().push(shown);
        }
    });

    // Invalid files are not used.
    directory.write("tls.crt", "no certificate");
    until("a failure is counted", async || {
        reloads("failed").await >= 1.0
    })
    .await;
    directory.rotate(&second);
    until("a change is counted", async || reloads("done").await >= 1.0).await;
    let (_, shown) = connect(address, config).await.unwrap();
    assert_eq!(shown, *second.cert.der());
    until("new connections have it", async || {
        seen.lock().unwrap().last() == Some(second.cert.der())
    })
    .await;
    assert_eq!(seen.lock().unwrap().first(), Some(first.cert.der()));
    assert!(!load.is_finished(), "{:?}", load.await);
    load.abort();
    load.await.unwrap_err();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_certificates_are_verified_against_the_current_ca() {
    let directory = Directory::new();
    let (servers, old, new) = (Authority::new(), Authority::new(), Authority::new());
    directory.rotate(&servers.sign());
    directory.write("ca.crt", &old.pem);
    let (address, _, _stop) = serve(directory.files(true)).await;
    let may = |shown: Option<Identity>| {
        let config = client_config(&servers, shown.as_ref());
        async move {
            // With TLS 1.3, the client learns of the refusal at its first call.
            match connect(address, config).await {
                Ok((channel, _)) => {
                    let mut client = RolloutPlannerClient::new(channel);
                    client.plan_rollout(mk_request()).await.is_ok()
                }
                Err(_) => false,
            }
        }
    };
    assert!(!may(None).await);
    assert!(may(Some(old.sign())).await);
    assert!(!may(Some(new.sign())).await);
    directory.write("ca.crt", &new.pem);
    until("the new authority counts", async || {
        may(Some(new.sign())).await
    })
    .await;
    assert!(!may(Some(old.sign())).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_clients_with_an_allowed_name_may_call() {
    let directory = Directory::new();
    let (servers, clients) = (Authority::new(), Authority::new());
    directory.rotate(&servers.sign());
    directory.write("ca.crt", &clients.pem);
    let allowed = ["web.apps.svc", "spiffe://cluster.local/ns/apps/*"];
    let config = Config {
        tls_client_sans: allowed.map(str::to_owned).into(),
        ..with_tls(directory.files(true))
    };
    let (address, http, _stop) = serve_with(config).await;
    let dns = |name: &str| SanType::DnsName(name.try_into().unwrap());
    let uri = |uri: &str| SanType::URI(uri.try_into().unwrap());
    let web = "spiffe://cluster.local/ns/apps/sa/web";
    for (names, may) in [
        (vec![dns("web.apps.svc")], true),
        (vec![uri(web)], true),
        (vec![dns("other.svc"), uri(web)], true),
        (vec![dns("other.svc")], false),
        (vec![uri("spiffe://cluster.local/ns/other/sa/web")], false),
        // The right name, but of the wrong type.
        (vec![dns(web)], false),
        (vec![], false),
    ] {
        let identity = clients.sign_as(names.clone());
        let config = client_config(&servers, Some(&identity));
        let (channel, _) = connect(address, config).await.unwrap();
        let mut client = RolloutPlannerClient::new(channel.clone());
        let called = client.plan_rollout(mk_request()).await;
        let mut health = HealthClient::new(channel);
        let checked = health.check(HealthCheckRequest::default()).await;
        if may {
            called.unwrap();
            checked.unwrap();
            continue;
        }
        for status in [called.unwrap_err(), checked.unwrap_err()] {
            check(&status, Code::PermissionDenied, "CLIENT_NOT_ALLOWED");
            // The error contains the refused names.
            for name in &names {
                if let SanType::DnsName(name) = name
                    && !name.as_str().contains("://")
                {
                    assert!(status.message().contains(name.as_str()), "{status:?}");
                }
            }
        }
    }
    let (_, text) = get(http, "/metrics").await;
    let denied = sample(
        &text,
        "grpc_server_handled_total",
        &[
            ("grpc_method", "PlanRollout"),
            ("grpc_code", "PermissionDenied"),
        ],
    );
    assert_eq!(denied, 4.0);
}

/// Without the alert close_notify, a client cannot tell the end of a connection from an attack that cuts it.
#[tokio::test]
async fn encrypted_connections_end_with_an_alert() {
    use tokio::io::AsyncReadExt as _;

    let directory = Directory::new();
    let authority = Authority::new();
    directory.rotate(&authority.sign());
    let (address, _, _stop) = serve(directory.files(false)).await;
    let mut stream = open_tls(address, &authority, &authority.sign(), &["http/1.1"]).await;
    let ask = ask_json(&mk_request()).with("connection", "close");
    assert_eq!(ask.on(&mut stream).await.status, 200);
    let mut rest = Vec::new();
    // An end without the alert is an error.
    assert_eq!(stream.read_to_end(&mut rest).await.unwrap(), 0);
}

/// Clients send plain text instead of a handshake, or nothing at all.
#[tokio::test]
async fn plain_connection_to_an_encrypted_port_is_refused() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    let directory = Directory::new();
    let authority = Authority::new();
    directory.rotate(&authority.sign());
    let (address, http, _stop) = serve(directory.files(false)).await;
    let _silent = TcpStream::connect(address).await.unwrap();
    let mut plain = TcpStream::connect(address).await.unwrap();
    plain
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        .await
        .unwrap();
    let mut answer = Vec::new();
    // The server sends a TLS alert at most.
    let _ = plain.read_to_end(&mut answer).await;
    assert!(answer.len() < 20, "{answer:?}");
    let (_, text) = get(http, "/metrics").await;
    let failures = |reason| {
        let labels = [("reason", reason)];
        sample(&text, "rollplan_tls_handshake_failures_total", &labels)
    };
    assert_eq!(failures("failed"), 1.0);
    assert_eq!(failures("timed_out"), 0.0);
    assert_eq!(sample(&text, "rollplan_open_connections", &[]), 0.0);
    let config = client_config(&authority, None);
    let (channel, _) = connect(address, config).await.unwrap();
    let mut client = RolloutPlannerClient::new(channel);
    client.plan_rollout(mk_request()).await.unwrap();
}
