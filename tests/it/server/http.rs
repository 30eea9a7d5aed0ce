//! Plain HTTP/1.1 and HTTP/2 calls, like those of curl. An HTTP client library would retry calls or follow redirects.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use bytes::{Bytes, BytesMut};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tonic::codegen::http::{Method, Request};

use super::raw::Raw;

/// An answer. Header names are in lower case.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: Bytes,
}

impl Reply {
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("it is JSON")
    }

    pub(super) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

/// A request: method, path, headers and body.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) method: &'static str,
    pub(super) path: String,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Bytes,
}

impl Ask {
    pub(super) fn post(path: &str, content_type: &str, body: impl Into<Bytes>) -> Self {
        Self {
            method: "POST",
            path: path.to_owned(),
            headers: vec![("content-type", content_type.to_owned())],
            body: body.into(),
        }
    }

    pub(super) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.retain(|(set, _)| *set != name);
        self.headers.push((name, value.to_owned()));
        self
    }

    pub(super) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(set, _)| *set != name);
        self
    }

    /// Sends the request on a new HTTP/1.1 connection.
    pub(super) async fn over_http1(&self, address: SocketAddr) -> Reply {
        let mut stream = TcpStream::connect(address).await.unwrap();
        self.on(&mut stream).await
    }

    /// Sends the request on an open HTTP/1.1 connection.
    pub(super) async fn on(&self, stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> Reply {
        let Self {
            method,
            path,
            headers,
            body,
        } = self;
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: test\r\n");
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += &format!("Content-Length: {}\r\n\r\n", body.len());
        stream.write_all(head.as_bytes()).await.unwrap();
        // The server may refuse the request and close the connection before the whole body is sent.
        let _ = stream.write_all(body).await;
        read(stream).await
    }

    /// Sends the request on an HTTP/2 connection.
    pub(super) async fn over_http2(&self, raw: &mut Raw) -> Reply {
        let mut request = Request::builder()
            .method(Method::from_bytes(self.method.as_bytes()).unwrap())
            .uri(format!("http://test{}", self.path));
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        let request = request.body(()).unwrap();
        let (answer, mut stream) = raw.send.send_request(request, false).unwrap();
        stream.send_data(self.body.clone(), true).unwrap();
        let (parts, mut body) = answer.await.unwrap().into_parts();
        let mut data = BytesMut::new();
        while let Some(part) = body.data().await {
            let part = part.unwrap();
            body.flow_control().release_capacity(part.len()).unwrap();
            data.extend_from_slice(&part);
        }
        let headers = parts.headers.iter();
        Reply {
            status: parts.status.as_u16(),
            headers: headers
                .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
                .collect(),
            body: data.freeze(),
        }
    }
}

/// Reads one answer with a Content-Length.
pub(super) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Reply {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.expect("the answer has headers"));
    }
    let head = String::from_utf8(head).unwrap();
    let mut lines = head.trim_end().lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap();
    let status = status.parse().unwrap();
    let headers: BTreeMap<_, _> = lines
        .map(|line| line.split_once(':').unwrap())
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers.get("content-length").map_or("0", String::as_str);
    let mut body = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut body).await.unwrap();
    Reply {
        status,
        headers,
        body: body.into(),
    }
}
