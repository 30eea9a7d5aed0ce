//! A method of the service.

use bytes::Bytes;
use prost::{Message, Name};
use rollplan_wire::{Context, Error, REQUEST_BYTES_MAX};

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
    pub(crate) call_json: fn(&str, JsonForm, &mut Context<'_>) -> Result<String, Error>,
}

/// How an answer is printed in JSON.
#[derive(Clone, Copy)]
pub(crate) enum JsonForm {
    /// As the service does: 64-bit integers are strings, and the size has a limit.
    Service,
    /// As programs with Kubernetes types expect: 64-bit integers are numbers.
    Kubernetes,
}

// === impl Method ===

impl Method {
    /// Answers a request that is encoded as protobuf.
    ///
    /// # Errors
    ///
    /// The status of [the error](MethodRequest::answer), or of bytes that are not the request of the method.
    pub fn call(&self, request: Bytes, context: &mut Context<'_>) -> Result<Vec<u8>, Status> {
        check_size(request.len())?;
        (self.call)(request, context).map_err(|error| Status::from(&error))
    }

    /// Answers a request in JSON. 64-bit integers in the response are numbers.
    ///
    /// # Errors
    ///
    /// The status of [the error](MethodRequest::answer), or of a text that is not the request of the method.
    pub fn call_json(&self, request: &str, context: &mut Context<'_>) -> Result<String, Status> {
        self.print_json(request, JsonForm::Kubernetes, context)
    }

    pub(crate) fn print_json(
        &self,
        request: &str,
        form: JsonForm,
        context: &mut Context<'_>,
    ) -> Result<String, Status> {
        check_size(request.len())?;
        (self.call_json)(request, form, context).map_err(|error| Status::from(&error))
    }
}

/// Like a server, which does not receive the rest, this does not report the actual size.
fn check_size(bytes: usize) -> Result<(), Status> {
    if bytes > REQUEST_BYTES_MAX {
        return Err(Status::too_large(
            "request",
            "bytes",
            None,
            REQUEST_BYTES_MAX,
        ));
    }
    Ok(())
}
