//! A method of the service.

use bytes::Bytes;
use prost::{Message, Name};
use rollplan_wire::{Context, Error};

use crate::status::Status;

/// A request of the service. Its type determines the method.
pub trait MethodRequest: Message + Name + Default + 'static {
    /// The method.
    const METHOD: Method;

    /// The response of the method.
    type Response: Message + Name + Clone + Default + 'static;

    /// Answers the request.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] with all violations of the request; [`Error::TooLarge`] if it exceeds a limit of the
    /// contract; [`Error::Rollback`], [`Error::Forecast`] or [`Error::Canary`] if the state of the object does not allow an
    /// answer; [`Error::Interrupted`]. A rollout that is blocked or complete is not an error.
    fn answer(self, context: &mut Context<'_>) -> Result<Self::Response, Error>;
}

/// A method, for callers that know its name or have encoded requests.
#[derive(Clone, Copy)]
pub struct Method {
    /// Its name in the contract.
    pub name: &'static str,
    /// The path of its calls.
    pub path: &'static str,
    /// The full name of its request.
    pub request: &'static str,
    /// The memory of its work in bytes, besides that of its objects.
    pub memory: usize,
    pub(crate) call: fn(Bytes, &mut Context<'_>) -> Result<Vec<u8>, Error>,
    pub(crate) call_json: fn(&str, &mut Context<'_>) -> Result<String, Error>,
}

// === impl Method ===

impl Method {
    /// Answers a request that is encoded as protobuf.
    ///
    /// # Errors
    ///
    /// The status of [the error](MethodRequest::answer), or of bytes that are not the request of the method.
    pub fn call(&self, request: Bytes, context: &mut Context<'_>) -> Result<Vec<u8>, Status> {
        (self.call)(request, context).map_err(|error| Status::from(&error))
    }

    /// Answers a request in JSON. 64-bit integers in the response are numbers.
    ///
    /// # Errors
    ///
    /// The status of [the error](MethodRequest::answer), or of a text that is not the request of the method.
    pub fn call_json(&self, request: &str, context: &mut Context<'_>) -> Result<String, Status> {
        (self.call_json)(request, context).map_err(|error| Status::from(&error))
    }
}
