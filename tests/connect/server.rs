//! The service of the Connect project's conformance suite, behind the same layers as the planner. The suite starts this
//! program, sends the configuration to its standard input, and stops it with a signal.
//!
//! The only argument is the file with the descriptors of the suite's contract. All messages are dynamic, so no definitions
//! of the suite have to be copied.

use std::convert::Infallible;
use std::error::Error;
use std::io::{Read as _, Write as _};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, ReflectMessage as _, Value};
use rollplan::server::{Config, Server, Shutdown, TlsFiles};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::{Code, Status};
use tonic_types::pb;
use tower::Service;

const PACKAGE: &str = "connectrpc.conformance.v1";

type Boxed = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Boxed> {
    let file = std::env::args_os()
        .nth(1)
        .ok_or("the descriptors are missing")?;
    let pool = DescriptorPool::decode(&std::fs::read(file)?[..])?;
    let asked = read(&pool)?;
    let directory = tempfile::tempdir()?;
    let tls = match asked.get_field_by_name("use_tls").as_deref() {
        Some(Value::Bool(true)) => Some(tls_files(&asked, directory.path())?),
        _ => None,
    };
    let encrypted = tls.is_some();
    let config = Config {
        listen: ([127, 0, 0, 1], 0).into(),
        tls,
        compress_answers_min: Some(1),
        queue_time_max: Duration::from_secs(60),
        ..Config::default()
    };
    let service = Conformance { pool: pool.clone() };
    let server = Server::bind_service(config, &pool, service).await?;
    let mut answer = message(&pool, "ServerCompatResponse")?;
    let address = server.local_addr();
    answer.set_field_by_name("host", Value::String(address.ip().to_string()));
    answer.set_field_by_name("port", Value::U32(address.port().into()));
    if encrypted {
        let cert = std::fs::read(directory.path().join("cert"))?;
        answer.set_field_by_name("pem_cert", Value::Bytes(cert.into()));
    }
    let signals = (
        signal(SignalKind::interrupt())?,
        signal(SignalKind::terminate())?,
    );
    let (stop, stopped) = watch::channel(Shutdown::NotRequested);
    let serving = tokio::spawn(server.serve(stopped));
    let encoded = answer.encode_to_vec();
    let mut stdout = std::io::stdout();
    stdout.write_all(&u32::try_from(encoded.len())?.to_be_bytes())?;
    stdout.write_all(&encoded)?;
    stdout.flush()?;
    let (mut interrupted, mut terminated) = signals;
    tokio::select! {
        _ = interrupted.recv() => {}
        _ = terminated.recv() => {}
    }
    stop.send(Shutdown::Immediate)?;
    serving.await??;
    Ok(())
}

fn message(pool: &DescriptorPool, name: &str) -> Result<DynamicMessage, Boxed> {
    let descriptor = pool.get_message_by_name(&format!("{PACKAGE}.{name}"));
    let descriptor = descriptor.ok_or_else(|| format!("no message {name}"))?;
    Ok(DynamicMessage::new(descriptor))
}

/// Reads the configuration that the suite sends.
fn read(pool: &DescriptorPool) -> Result<DynamicMessage, Boxed> {
    let mut stdin = std::io::stdin();
    let mut length = [0; 4];
    stdin.read_exact(&mut length)?;
    let mut encoded = vec![0; u32::from_be_bytes(length) as usize];
    stdin.read_exact(&mut encoded)?;
    let mut asked = message(pool, "ServerCompatRequest")?;
    asked.merge(&encoded[..])?;
    Ok(asked)
}

fn tls_files(asked: &DynamicMessage, directory: &std::path::Path) -> Result<TlsFiles, Boxed> {
    let write = |name: &str, bytes: Bytes| {
        let path = directory.join(name);
        std::fs::write(&path, bytes).map(|()| path)
    };
    let creds = nested(asked, "server_creds").ok_or("no certificate")?;
    let client_ca = bytes(asked, "client_tls_cert");
    Ok(TlsFiles {
        cert: write("cert", bytes(&creds, "cert"))?,
        key: write("key", bytes(&creds, "key"))?,
        client_ca: if client_ca.is_empty() {
            None
        } else {
            Some(write("ca", client_ca)?)
        },
    })
}

// Accessors for fields of dynamic messages.

fn nested(message: &DynamicMessage, field: &str) -> Option<DynamicMessage> {
    let is_set = message.has_field_by_name(field);
    let value = message.get_field_by_name(field).filter(|_| is_set)?;
    value.as_message().cloned()
}

fn bytes(message: &DynamicMessage, field: &str) -> Bytes {
    let value = message.get_field_by_name(field);
    value
        .and_then(|it| it.as_bytes().cloned())
        .unwrap_or_default()
}

fn list(message: &DynamicMessage, field: &str) -> Vec<DynamicMessage> {
    let value = message.get_field_by_name(field);
    let items = value
        .as_deref()
        .and_then(Value::as_list)
        .unwrap_or_default();
    items
        .iter()
        .filter_map(|it| it.as_message().cloned())
        .collect()
}

fn text(message: &DynamicMessage, field: &str) -> String {
    let value = message.get_field_by_name(field);
    value
        .as_deref()
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

/// Converts the suite's description of headers.
fn headers(message: &DynamicMessage, field: &str) -> HeaderMap {
    let mut map = HeaderMap::new();
    for header in list(message, field) {
        let name = HeaderName::try_from(text(&header, "name"));
        let values = header.get_field_by_name("value");
        let values = values
            .as_deref()
            .and_then(Value::as_list)
            .unwrap_or_default();
        for value in values.iter().filter_map(Value::as_str) {
            if let (Ok(name), Ok(value)) = (&name, HeaderValue::from_str(value)) {
                map.append(name, value);
            }
        }
    }
    map
}

/// The suite's service as a gRPC service.
#[derive(Clone)]
struct Conformance {
    pool: DescriptorPool,
}

impl NamedService for Conformance {
    const NAME: &'static str = "connectrpc.conformance.v1.ConformanceService";
}

impl Service<Request<Body>> for Conformance {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            let answered = this.answer(request).await;
            Ok(answered.unwrap_or_else(|status| status.into_http()))
        })
    }
}

impl Conformance {
    async fn answer(&self, request: Request<Body>) -> Result<Response<Body>, Status> {
        let (parts, body) = request.into_parts();
        let method = parts.uri.path().rsplit('/').next().unwrap_or_default();
        if !matches!(method, "Unary" | "IdempotentUnary") {
            return Err(Status::unimplemented(format!(
                "{method} is not implemented"
            )));
        }
        // The same check as in tonic, which decodes the messages of the planner.
        let encoding = parts.headers.get("grpc-encoding");
        if encoding.is_some_and(|it| !matches!(it.as_bytes(), b"identity" | b"gzip" | b"zstd")) {
            let mut refused = Status::unimplemented("unknown compression").into_http();
            let accepted = HeaderValue::from_static("identity,gzip,zstd");
            refused
                .headers_mut()
                .insert("grpc-accept-encoding", accepted);
            return Ok(refused);
        }
        // The layers have buffered and decompressed the body, which is now a prefix and one message.
        let framed = body.collect().await?.to_bytes();
        if framed.first() != Some(&0) {
            return Err(Status::internal("the message is compressed"));
        }
        let invalid = |error: &dyn Error| Status::invalid_argument(error.to_string());
        let bug = |error: Boxed| Status::internal(error.to_string());
        let mut asked = message(&self.pool, &format!("{method}Request")).map_err(bug)?;
        asked.merge(&framed[5..]).map_err(|error| invalid(&error))?;
        let info = self.request_info(&parts.headers, &asked).map_err(bug)?;
        let definition = nested(&asked, "response_definition");
        let Some(definition) = definition else {
            let answer = self.payload(method, Bytes::new(), info).map_err(bug)?;
            return Ok(response(HeaderMap::new(), &answer, HeaderMap::new()));
        };
        if let Some(delay) = definition.get_field_by_name("response_delay_ms") {
            let delay = delay.as_u32().unwrap_or_default();
            tokio::time::sleep(Duration::from_millis(delay.into())).await;
        }
        let leading = headers(&definition, "response_headers");
        let trailing = headers(&definition, "response_trailers");
        match nested(&definition, "error") {
            Some(error) => Ok(failed(leading, &status(&error, &info), trailing)),
            None => {
                let data = bytes(&definition, "response_data");
                let answer = self.payload(method, data, info).map_err(bug)?;
                Ok(response(leading, &answer, trailing))
            }
        }
    }

    fn request_info(
        &self,
        headers: &HeaderMap,
        request: &DynamicMessage,
    ) -> Result<DynamicMessage, Boxed> {
        let mut info = message(&self.pool, "ConformancePayload.RequestInfo")?;
        let mut seen = Vec::new();
        for name in headers.keys() {
            let mut header = message(&self.pool, "Header")?;
            header.set_field_by_name("name", Value::String(name.to_string()));
            let values = headers.get_all(name).iter();
            let values = values.filter_map(|it| it.to_str().ok());
            let values = values.map(|it| Value::String(it.to_owned())).collect();
            header.set_field_by_name("value", Value::List(values));
            seen.push(Value::Message(header));
        }
        info.set_field_by_name("request_headers", Value::List(seen));
        let timeout = headers.get("grpc-timeout").and_then(|it| it.to_str().ok());
        if let Some(milliseconds) = timeout.and_then(milliseconds) {
            info.set_field_by_name("timeout_ms", Value::I64(milliseconds));
        }
        let any = self.any(request)?;
        info.set_field_by_name("requests", Value::List(vec![Value::Message(any)]));
        Ok(info)
    }

    fn any(&self, message: &DynamicMessage) -> Result<DynamicMessage, Boxed> {
        let any = self.pool.get_message_by_name("google.protobuf.Any");
        let mut any = DynamicMessage::new(any.ok_or("no Any")?);
        let url = format!("type.googleapis.com/{}", message.descriptor().full_name());
        any.set_field_by_name("type_url", Value::String(url));
        any.set_field_by_name("value", Value::Bytes(message.encode_to_vec().into()));
        Ok(any)
    }

    fn payload(
        &self,
        method: &str,
        data: Bytes,
        info: DynamicMessage,
    ) -> Result<DynamicMessage, Boxed> {
        let mut payload = message(&self.pool, "ConformancePayload")?;
        payload.set_field_by_name("data", Value::Bytes(data));
        payload.set_field_by_name("request_info", Value::Message(info));
        let mut answer = message(&self.pool, &format!("{method}Response"))?;
        answer.set_field_by_name("payload", Value::Message(payload));
        Ok(answer)
    }
}

/// A `grpc-timeout` in milliseconds.
fn milliseconds(timeout: &str) -> Option<i64> {
    let (digits, unit) = timeout.split_at(timeout.len().checked_sub(1)?);
    let count: i64 = digits.parse().ok()?;
    Some(match unit {
        "H" => count * 3_600_000,
        "M" => count * 60_000,
        "S" => count * 1_000,
        "m" => count,
        "u" => count / 1_000,
        _ => count / 1_000_000,
    })
}

/// The status that the suite requests. Its details include the description of the request.
fn status(error: &DynamicMessage, info: &DynamicMessage) -> Status {
    let code = error.get_field_by_name("code");
    let code = code.and_then(|it| it.as_enum_number()).unwrap_or_default();
    let code = Code::from_i32(code);
    let text = text(error, "message");
    let mut details: Vec<_> = list(error, "details")
        .iter()
        .map(|any| prost_types::Any {
            type_url: self::text(any, "type_url"),
            value: bytes(any, "value").to_vec(),
        })
        .collect();
    details.push(prost_types::Any {
        type_url: format!("type.googleapis.com/{}", info.descriptor().full_name()),
        value: info.encode_to_vec(),
    });
    let encoded = pb::Status {
        code: code.into(),
        message: text.clone(),
        details,
    };
    Status::with_details(code, text, encoded.encode_to_vec().into())
}

fn response(
    leading: HeaderMap,
    answer: &DynamicMessage,
    mut trailing: HeaderMap,
) -> Response<Body> {
    let mut framed = BytesMut::new();
    framed.put_u8(0);
    framed.put_u32(u32::try_from(answer.encoded_len()).unwrap_or(u32::MAX));
    framed.extend_from_slice(&answer.encode_to_vec());
    trailing.insert("grpc-status", HeaderValue::from_static("0"));
    frames(
        leading,
        vec![Frame::data(framed.freeze()), Frame::trailers(trailing)],
    )
}

fn failed(leading: HeaderMap, status: &Status, mut trailing: HeaderMap) -> Response<Body> {
    if let Err(bug) = status.add_header(&mut trailing) {
        return bug.into_http();
    }
    frames(leading, vec![Frame::trailers(trailing)])
}

fn frames(leading: HeaderMap, frames: Vec<Frame<Bytes>>) -> Response<Body> {
    let frames = frames.into_iter().map(Ok::<_, Infallible>);
    let mut response = Response::new(Body::new(StreamBody::new(tokio_stream::iter(frames))));
    *response.headers_mut() = leading;
    let grpc = HeaderValue::from_static("application/grpc");
    response.headers_mut().insert("content-type", grpc);
    response
}
