//! A real Envoy in front of servers.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::PATIENCE;
use crate::certificates::{Authority, Identity};

/// An Envoy process, which stops when the test ends.
pub(super) struct Envoy {
    child: Child,
    directory: PathBuf,
    pub(super) address: SocketAddr,
    admin: SocketAddr,
}

/// The role of an Envoy.
#[derive(Clone, Copy)]
pub(super) enum Role<'a> {
    /// Between callers and all servers.
    Balancer,
    /// A sidecar of a caller: balances, and presents a client certificate.
    Caller(&'a Member),
    /// A sidecar of a server: accepts only clients with a certificate of the mesh.
    Server(&'a Member),
}

/// The credentials that a mesh issues to a member.
pub(super) struct Member {
    authority: Authority,
    identity: Identity,
}

impl Member {
    pub(super) fn new() -> Self {
        let authority = Authority::new();
        let identity = authority.sign();
        Self {
            authority,
            identity,
        }
    }

    /// The TLS configuration of one end of a connection: `UpstreamTlsContext` or `DownstreamTlsContext`.
    fn transport_socket(&self, context: &str) -> Value {
        let common = json!({
            "alpn_protocols": ["h2"],
            "tls_certificates": [{
                "certificate_chain": {"inline_string": self.identity.cert.pem()},
                "private_key": {"inline_string": self.identity.key.serialize_pem()},
            }],
            "validation_context": {"trusted_ca": {"inline_string": self.authority.pem}},
        });
        let mut config = json!({
            "@type": format!("type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.{context}"),
            "common_tls_context": common,
        });
        if context == "DownstreamTlsContext" {
            config["require_client_certificate"] = json!(true);
        }
        json!({"name": "tls", "typed_config": config})
    }
}

impl Envoy {
    pub(super) async fn start(servers: &[SocketAddr], role: Role<'_>) -> Self {
        // Several Envoys run at the same time, each in its own directory.
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let name = format!("rollplan-envoy-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).unwrap();
        let path = |file: &str| directory.join(file).display().to_string();
        let config = config(servers, role);
        std::fs::write(path("envoy.json"), config.to_string()).unwrap();
        let program = std::env::var("ENVOY").unwrap_or_else(|_| "envoy".to_owned());
        let child = Command::new(&program)
            .args(["-c", &path("envoy.json"), "--log-level", "warn"])
            .args(["--admin-address-path", &path("admin"), "--concurrency", "1"])
            .args(["--disable-hot-restart", "--use-dynamic-base-id"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{program}: {error}; see tests/run mesh"));
        let mut envoy = Self {
            child,
            directory,
            address: ([127, 0, 0, 1], 0).into(),
            admin: ([127, 0, 0, 1], 0).into(),
        };
        let started = async {
            loop {
                assert!(envoy.child.try_wait().unwrap().is_none(), "Envoy ended");
                let text = std::fs::read_to_string(envoy.directory.join("admin"));
                if let Ok(admin) = text.unwrap_or_default().trim().parse() {
                    envoy.admin = admin;
                    break;
                }
                sleep(Duration::from_millis(20)).await;
            }
            // "calls::127.0.0.1:41235"
            loop {
                let listeners = get(envoy.admin, "/listeners").await;
                let address = listeners.lines().find_map(|it| it.strip_prefix("calls::"));
                if let Some(Ok(address)) = address.map(str::parse) {
                    envoy.address = address;
                    break;
                }
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, started).await.unwrap();
        envoy
    }

    /// Waits until at least this many servers are healthy and not ejected.
    pub(super) async fn healthy(&self, count: u64) {
        self.is_healthy(|healthy| healthy >= count).await;
    }

    /// Waits for this number of healthy servers.
    pub(super) async fn is_healthy(&self, wanted: impl Fn(u64) -> bool) {
        let healthy = async {
            while !wanted(self.stat("cluster.rollplan.membership_healthy").await) {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, healthy).await.unwrap();
    }

    pub(super) async fn stat(&self, name: &str) -> u64 {
        let text = get(self.admin, &format!("/stats?filter={name}")).await;
        let value = text
            .lines()
            .find_map(|it| it.strip_prefix(&format!("{name}: ")));
        value.unwrap_or("0").parse().unwrap()
    }
}

impl Drop for Envoy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Requests a path over plain HTTP and returns the text of the response.
pub(super) async fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    // The text still contains the sizes of the chunks, on lines of their own. Callers do not search for them.
    String::from_utf8_lossy(&answer).replace("\r\n", "\n")
}

/// The value of a metric series.
pub(super) fn sample(text: &str, series: &str) -> u64 {
    let value = text
        .lines()
        .find_map(|it| it.strip_prefix(&format!("{series} ")));
    value.unwrap().parse().unwrap()
}

/// The configuration in docs/guides/meshes.md, with shorter times.
fn config(servers: &[SocketAddr], role: Role<'_>) -> Value {
    let address = |address: &SocketAddr| {
        json!({"socket_address": {
            "address": address.ip().to_string(),
            "port_value": address.port(),
        }})
    };
    let any: SocketAddr = ([127, 0, 0, 1], 0).into();
    let endpoints: Vec<_> = servers
        .iter()
        .map(|server| json!({"endpoint": {"address": address(server)}}))
        .collect();
    let http2 = json!({
        "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": {"http2_protocol_options": {}},
    });
    let route = json!({
        "match": {"prefix": "/"},
        "route": {
            "cluster": "rollplan",
            "timeout": "10s",
            "retry_policy": {
                // `reset`: a killed server resets its calls in progress. Every call may be repeated.
                "retry_on": "unavailable,connect-failure,refused-stream,reset",
                "num_retries": 3,
                "retry_host_predicate": [{
                    "name": "previous",
                    "typed_config": {"@type": "type.googleapis.com/envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate"},
                }],
                "host_selection_retry_max_attempts": 3,
            },
        },
    });
    let manager = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "calls",
        "codec_type": "HTTP2",
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}]},
        "http_filters": [{
            "name": "router",
            "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"},
        }],
    });
    let mut chain = json!({"filters": [{"name": "http", "typed_config": manager}]});
    let mut cluster = json!({
        "name": "rollplan",
        "type": "STATIC",
        "connect_timeout": "1s",
        "lb_policy": "ROUND_ROBIN",
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": http2,
        },
        "load_assignment": {
            "cluster_name": "rollplan",
            "endpoints": [{"lb_endpoints": endpoints}],
        },
        // When a server fails, more calls are retried at once than the default limit of 3.
        "circuit_breakers": {"thresholds": [{"max_retries": 1000}]},
    });
    match role {
        Role::Balancer => watch(&mut cluster),
        Role::Caller(member) => {
            watch(&mut cluster);
            cluster["transport_socket"] = member.transport_socket("UpstreamTlsContext");
        }
        // The sidecar of the caller chooses the server.
        Role::Server(member) => {
            chain["transport_socket"] = member.transport_socket("DownstreamTlsContext");
        }
    }
    json!({
        "admin": {"address": address(&any)},
        "static_resources": {
            "listeners": [{"name": "calls", "address": address(&any), "filter_chains": [chain]}],
            "clusters": [cluster],
        },
    })
}

/// Adds active health checks and outlier detection to a cluster.
fn watch(cluster: &mut Value) {
    cluster["health_checks"] = json!([{
        "timeout": "1s",
        "interval": "0.2s",
        "no_traffic_interval": "0.2s",
        "unhealthy_threshold": 1,
        "healthy_threshold": 1,
        "grpc_health_check": {"service_name": "rollplan.v1.RolloutPlanner"},
    }]);
    cluster["outlier_detection"] = json!({
        "consecutive_5xx": 5,
        "consecutive_gateway_failure": 5,
        "enforcing_consecutive_gateway_failure": 100,
        "interval": "0.2s",
        "base_ejection_time": "60s",
        "max_ejection_percent": 34,
        // The misbehaving server passes its health checks, which must not end its ejection.
        "successful_active_health_check_uneject_host": false,
    });
}
