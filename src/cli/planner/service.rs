//! A remote planner, called with gRPC.

use std::error::Error as _;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use http::uri::PathAndQuery;
use rollplan_service::{Code, MethodRequest};
use rollplan_wire::REQUEST_BYTES_MAX;
use tokio::runtime::{Builder, Runtime};
use tonic::client::Grpc;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity, Uri};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

use super::Refusal;
use crate::cli::error::{Error, chain};
use crate::cli::options::ServerArgs;

/// The timeout of a connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The timeout of a call. Plans take milliseconds.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// The client of a service.
#[derive(Debug)]
pub(in crate::cli) struct Service {
    url: String,
    endpoint: Endpoint,
    /// Set by the first call.
    connection: OnceLock<Connection>,
}

/// A client that connects again when its connection has ended.
#[derive(Debug)]
struct Connection {
    /// Its thread notices the end of a connection between two calls.
    runtime: Runtime,
    channel: Channel,
}

// === impl Service ===

impl Service {
    /// Does not connect yet. An address without a scheme gets `http`.
    pub(super) fn new(url: &str, args: &ServerArgs) -> Result<Self, Error> {
        let wrong = |why: &str| Error::Usage(format!("--server {url}: {why}"));
        let url = if url.contains("://") {
            url.to_owned()
        } else {
            format!("http://{url}")
        };
        let uri: Uri = url
            .parse()
            .map_err(|_| wrong("not an address, for example http://127.0.0.1:50051"))?;
        let is_tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(wrong("only http and https are supported")),
        };
        let mut endpoint = Endpoint::from(uri)
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(CALL_TIMEOUT);
        let ServerArgs {
            url: _,
            ca_file,
            client_cert_file,
            client_key_file,
        } = args;
        if is_tls {
            let config = tls(
                ca_file.as_deref(),
                client_cert_file.as_deref(),
                client_key_file.as_deref(),
            )?;
            endpoint = endpoint.tls_config(config).map_err(|error| {
                wrong(&format!("invalid certificates or key: {}", chain(&error)))
            })?;
        } else if ca_file.is_some() || client_cert_file.is_some() {
            return Err(wrong("certificates can only be used with https"));
        }
        Ok(Self {
            url,
            endpoint,
            connection: OnceLock::new(),
        })
    }

    pub(super) fn answer<R: MethodRequest>(&self, request: R) -> Result<R::Response, Refusal> {
        let Connection { runtime, channel } = self.connection()?;
        // A plan creates at most one ReplicaSet, from a template of the request.
        let mut client = Grpc::new(channel.clone()).max_decoding_message_size(REQUEST_BYTES_MAX);
        let path = PathAndQuery::from_static(R::METHOD.path);
        let answer = runtime.block_on(async {
            client
                .ready()
                .await
                .map_err(|error| Status::from_error(error.into()))?;
            client
                .unary(
                    Request::new(request),
                    path,
                    ProstCodec::<R, R::Response>::default(),
                )
                .await
        });
        answer
            .map(Response::into_inner)
            .map_err(|status| self.refusal(R::METHOD.name, &status))
    }

    fn connection(&self) -> Result<&Connection, Refusal> {
        if let Some(connection) = self.connection.get() {
            return Ok(connection);
        }
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build();
        let runtime = runtime.map_err(|error| self.unreachable(chain(&error)))?;
        let channel = runtime.block_on(self.endpoint.connect());
        let channel = channel.map_err(|error| self.unreachable(chain(&error)))?;
        Ok(self
            .connection
            .get_or_init(|| Connection { runtime, channel }))
    }

    fn unreachable(&self, reason: String) -> Refusal {
        Refusal::Error(Error::Unreachable {
            server: self.url.clone(),
            reason,
        })
    }

    /// Permanent errors are those of the local planner. Others may be temporary.
    fn refusal(&self, method: &str, status: &Status) -> Refusal {
        let decoded = decode(status);
        if let Some(refusal) = Refusal::of(method, &decoded) {
            return refusal;
        }
        // rollplan itself responded, not a client library or a proxy.
        if decoded.code == Code::Internal && decoded.info().is_some() {
            return Refusal::Error(Error::Service {
                server: self.url.clone(),
                reason: decoded.message,
            });
        }
        let mut reason = format!("{}: {}", status.code().description(), status.message());
        // The connection has failed.
        if let Some(source) = status.source() {
            reason = format!("{reason}: {}", chain(source));
            if self.url.starts_with("http:") {
                reason.push_str("; if the service has TLS, its address begins with https://");
            }
        }
        self.unreachable(reason)
    }
}

/// The status with its details, if it has any.
fn decode(status: &Status) -> rollplan_service::Status {
    let code = Code::try_from(i32::from(status.code())).unwrap_or(Code::Unknown);
    let message = status.message().to_owned();
    let decoded = rollplan_service::Status::decode(status.details());
    rollplan_service::Status {
        code,
        message,
        details: decoded.map_or_else(Vec::new, |it| it.details),
    }
}

/// The authorities of the system or of a file, and the certificate of the client.
fn tls(
    ca_file: Option<&Path>,
    cert_file: Option<&Path>,
    key_file: Option<&Path>,
) -> Result<ClientTlsConfig, Error> {
    let read = |file: &Path| {
        let text = std::fs::read(file);
        text.map_err(|error| Error::Usage(format!("{} cannot be read: {error}", file.display())))
    };
    let mut config = ClientTlsConfig::new();
    config = match ca_file {
        Some(file) => config.ca_certificate(Certificate::from_pem(read(file)?)),
        None => config.with_native_roots(),
    };
    if let (Some(cert), Some(key)) = (cert_file, key_file) {
        config = config.identity(Identity::from_pem(read(cert)?, read(key)?));
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use rollplan_service::DOMAIN;
    use rollplan_wire::Rejection;
    use tonic::Code;
    use tonic_types::{ErrorDetails, FieldViolation, StatusExt as _};

    use super::*;
    use crate::cli::exit::Exit;

    fn with_reason(reason: &str) -> ErrorDetails {
        ErrorDetails::with_error_info(reason, DOMAIN, HashMap::new())
    }

    fn refusal(code: Code, details: ErrorDetails) -> Refusal {
        let service = Service::new("127.0.0.1:1", &ServerArgs::default()).unwrap();
        service.refusal(
            "PlanRollout",
            &Status::with_error_details(code, "no", details),
        )
    }

    #[test]
    fn errors_of_a_service_have_the_exit_codes_of_the_local_planner() {
        let retry = ErrorDetails::with_retry_info(Some(Duration::from_secs(1)));
        for (code, details, exit) in [
            (Code::InvalidArgument, ErrorDetails::new(), Exit::Usage),
            (
                Code::InvalidArgument,
                ErrorDetails::with_bad_request(Vec::new()),
                Exit::Usage,
            ),
            (Code::ResourceExhausted, ErrorDetails::new(), Exit::Usage),
            (Code::ResourceExhausted, retry, Exit::Unreachable),
            (
                Code::FailedPrecondition,
                with_reason(Rejection::ReplicaSetsIncomplete.as_str()),
                Exit::Usage,
            ),
            (
                Code::FailedPrecondition,
                with_reason(Rejection::PodsIncomplete.as_str()),
                Exit::Usage,
            ),
            (
                Code::FailedPrecondition,
                with_reason(Rejection::DeploymentPaused.as_str()),
                Exit::Failed,
            ),
            (
                Code::NotFound,
                with_reason(Rejection::RevisionNotFound.as_str()),
                Exit::Failed,
            ),
            (Code::Internal, with_reason("INTERNAL"), Exit::Internal),
            // These are errors of a proxy or a client library.
            (
                Code::FailedPrecondition,
                with_reason("OTHER"),
                Exit::Unreachable,
            ),
            (Code::NotFound, ErrorDetails::new(), Exit::Unreachable),
            (Code::Internal, ErrorDetails::new(), Exit::Unreachable),
            (Code::Unavailable, ErrorDetails::new(), Exit::Unreachable),
        ] {
            let Refusal::Error(error) = refusal(code, details) else {
                panic!("{code:?}: no violations were sent");
            };
            assert_eq!(error.exit(), exit, "{code:?}: {error}");
            assert!(error.texts()[0].contains("no"), "{code:?}: {error}");
        }
    }

    #[test]
    fn violations_of_a_service_are_listed_and_counted() {
        let violations = || {
            ErrorDetails::with_bad_request(vec![FieldViolation::new("snapshot.now", "is required")])
        };
        let mut more = violations();
        let metadata = HashMap::from([("omitted".to_owned(), "7".to_owned())]);
        more.set_error_info("INVALID", DOMAIN, metadata);
        for (details, expected) in [(violations(), 0), (more, 7)] {
            let Refusal::Violations(listed, omitted) = refusal(Code::InvalidArgument, details)
            else {
                panic!("violations were sent");
            };
            let (field, text) = &listed[0];
            assert_eq!(
                (field.as_str(), text.as_str()),
                ("snapshot.now", "is required")
            );
            assert_eq!((listed.len(), omitted), (1, expected));
        }
    }
}
