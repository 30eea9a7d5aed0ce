//! What travels beside a call from layer to layer. The call in the protocol of its client, if that is Connect, is an extension
//! of its own (`connect::Call`), as is the rejection of a client (`connection::clients`). [`Current`] is what the work of a call
//! sees on its thread.
//!
//! [`Current`]: crate::server::protocol::cancellation::Current

use std::time::Instant;

use http::Request;

use crate::server::protocol::pending::PendingResponses;
use crate::server::protocol::rejected::Rejected;

/// What travels beside a request, as an extension of it.
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
}

/// What travels beside an answer, as an extension of its response.
#[derive(Clone, Default)]
pub(crate) struct AnswerContext {
    /// The size of its encoded message. (As a size hint of the body, it would become a header.)
    pub(crate) bytes: usize,
    /// The namespace and name of its Deployment, for the log line of a slow call. Empty if there is none.
    pub(crate) deployment: String,
}

// === impl CallContext ===

impl CallContext {
    pub(crate) fn of<B>(request: &Request<B>) -> Self {
        let context = request.extensions().get::<Self>();
        context.cloned().unwrap_or_default()
    }

    pub(crate) fn edit<B>(request: &mut Request<B>) -> &mut Self {
        request.extensions_mut().get_or_insert_default()
    }
}
