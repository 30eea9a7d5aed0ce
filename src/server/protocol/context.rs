//! The context of a call, which the layers pass on as extensions. Only two things are passed elsewhere: the rejection of a
//! client (`connection/clients.rs`), and the cancellation ([`Current`]), because tonic's decoder does not see the
//! extensions of a request.
//!
//! [`Current`]: crate::protocol::cancellation::Current

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::{Extensions, Request};
use rollplan_wire::{self as wire, Shown};
use tonic::Status;

use crate::protocol::pending::PendingResponses;
use crate::protocol::rejected::Rejected;

/// The context of a request, as an extension of it.
#[derive(Clone, Default)]
pub(crate) struct CallContext {
    /// When the call arrived, before it waited for the first time. Set by `observability/calls.rs`.
    pub(crate) received_at: Option<Instant>,
    /// When its deadline expires, for work that dropping the future does not cancel. Set by `deadline.rs`.
    pub(crate) due: Option<Instant>,
    /// Why it is rejected. Set by the layer that reads its headers, and carried out below the log and the metrics.
    pub(crate) rejected: Option<Rejected>,
    /// What the client of the connection has not read yet. Set by the connection: `None` in tests without one.
    pub(crate) pending: Option<PendingResponses>,
    /// The encoding of its messages, if they are not framed as in gRPC. Set by `connect/`.
    pub(crate) encoding: Option<Arc<dyn Encoding>>,
    /// What the planner infers from the objects, for calls for people. Set by `connect/`.
    pub(crate) inferred: Option<Inferred>,
}

/// The encoding of the messages of a call. Its bodies are single messages without a prefix.
pub(crate) trait Encoding: Send + Sync {
    /// The name of the protocol in traces.
    fn protocol(&self) -> &'static str;

    /// Whether messages are encoded in another format than protobuf.
    fn is_transcoded(&self) -> bool;

    /// An upper bound for the memory of [`decode`](Self::decode), in bytes.
    fn decoding_memory(&self, text: &[u8]) -> usize;

    /// Encodes a request as protobuf.
    fn decode(&self, text: &[u8]) -> Result<Vec<u8>, Status>;

    /// Converts a framed response to the client's encoding. `subject` is that of [`AnswerContext`]. `None` is a bug.
    fn encode(&self, framed: &Bytes, subject: &str) -> Option<Bytes>;
}

/// What the planner infers from the objects of a call.
#[derive(Clone)]
pub(crate) struct Inferred {
    pub(crate) shown: Shown,
    /// Describes an error in the terms of the client.
    pub(crate) explain: fn(wire::Error) -> wire::Error,
}

/// The context of an answer, as an extension of its response.
#[derive(Clone, Default)]
pub(crate) struct AnswerContext {
    /// The size of its encoded message. (As a size hint of the body, it would become a header.)
    pub(crate) bytes: usize,
    /// The namespace and name of its Deployment, for the log line of a slow call. Empty if there is none.
    pub(crate) deployment: String,
    /// The inferred object that the call is about, for example "Deployment shop/web". Empty if nothing was inferred.
    pub(crate) subject: String,
}

// === impl CallContext ===

impl CallContext {
    pub(crate) fn of<B>(request: &Request<B>) -> Self {
        let context = request.extensions().get::<Self>();
        context.cloned().unwrap_or_default()
    }

    /// The encoding of the messages of a request, if it is not protobuf.
    pub(crate) fn transcoding(extensions: &Extensions) -> Option<Arc<dyn Encoding>> {
        let encoding = extensions.get::<Self>()?.encoding.as_ref()?;
        encoding.is_transcoded().then(|| Arc::clone(encoding))
    }

    pub(crate) fn edit<B>(request: &mut Request<B>) -> &mut Self {
        request.extensions_mut().get_or_insert_default()
    }
}
