//! The rejection of a request because of its headers.

use http::{HeaderName, HeaderValue, Response, StatusCode};
use tonic::Status;
use tonic::body::Body;

/// The rejection of a request.
#[derive(Clone)]
pub(crate) struct Rejected {
    status: Status,
    http: StatusCode,
    header: Option<(HeaderName, HeaderValue)>,
}

// === impl Rejected ===

impl Rejected {
    pub(crate) fn new(status: Status) -> Self {
        Self {
            status,
            http: StatusCode::OK,
            header: None,
        }
    }

    /// Sets an HTTP status other than that of the gRPC code.
    pub(crate) fn with_http(self, http: StatusCode) -> Self {
        Self { http, ..self }
    }

    pub(crate) fn with_header(self, name: HeaderName, value: HeaderValue) -> Self {
        Self {
            header: Some((name, value)),
            ..self
        }
    }

    pub(crate) fn response(&self) -> Response<Body> {
        let mut response = self.status.clone().into_http();
        *response.status_mut() = self.http;
        if let Some((name, value)) = self.header.clone() {
            response.headers_mut().insert(name, value);
        }
        response
    }
}
