//! Calls without a gRPC client, which would add its own deadlines and statuses.

use std::net::SocketAddr;

use bytes::{BufMut as _, Bytes, BytesMut};
use h2::RecvStream;
use h2::client::SendRequest;
use prost::Message;
use tokio::net::TcpStream;
use tonic::codegen::http::response::Parts;
use tonic::codegen::http::{HeaderMap, Method, Request};
use tonic::{Code, Status};

/// The preface of HTTP/2, with default settings.
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

pub(super) const PLAN: &str = "/rollplan.v1.RolloutPlanner/PlanRollout";

/// A connection.
pub(super) struct Raw {
    pub(super) send: SendRequest<Bytes>,
}

/// The answer of a server.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: Status,
    pub(super) data: Bytes,
    /// Whether the answer consists of headers only.
    pub(super) is_status_alone: bool,
}

pub(super) async fn connect(address: SocketAddr) -> Raw {
    let stream = TcpStream::connect(address).await.unwrap();
    let (send, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    Raw {
        send: send.ready().await.unwrap(),
    }
}

pub(super) fn request(path: &str, headers: &[(&'static str, &str)]) -> Request<()> {
    let mut request = Request::builder()
        .method(Method::POST)
        .uri(format!("http://test{path}"))
        .header("te", "trailers")
        .header("content-type", "application/grpc");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap()
}

/// A message in the framing of gRPC.
pub(super) fn framed(message: &impl Message) -> Bytes {
    let mut framed = BytesMut::new();
    framed.put_u8(0);
    framed.put_u32(u32::try_from(message.encoded_len()).unwrap());
    message.encode(&mut framed).unwrap();
    framed.freeze()
}

impl Raw {
    /// Makes a call and reads the whole answer.
    pub(super) async fn call(
        &mut self,
        request: Request<()>,
        body: Bytes,
    ) -> Result<Answer, h2::Error> {
        let (answer, mut stream) = self.send.send_request(request, false)?;
        stream.send_data(body, true)?;
        receive(answer).await
    }
}

pub(super) async fn receive(answer: h2::client::ResponseFuture) -> Result<Answer, h2::Error> {
    let (parts, body) = answer.await?.into_parts();
    read(parts, body).await
}

/// Reads the rest of an answer after its headers.
pub(super) async fn read(parts: Parts, mut body: RecvStream) -> Result<Answer, h2::Error> {
    let is_status_alone = body.is_end_stream();
    let mut data = BytesMut::new();
    while let Some(part) = body.data().await {
        let part = part?;
        body.flow_control().release_capacity(part.len())?;
        data.extend_from_slice(&part);
    }
    let trailers = body.trailers().await?;
    let status_of = |headers: &HeaderMap| Status::from_header_map(headers);
    let status = trailers.as_ref().and_then(status_of);
    let status = status.or_else(|| status_of(&parts.headers));
    Ok(Answer {
        status: status.unwrap_or_else(|| Status::new(Code::Unknown, "no status")),
        data: data.freeze(),
        is_status_alone,
    })
}
