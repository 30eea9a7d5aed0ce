//! Server reflection as its protocol specifies it: an unknown name gets an error response and the stream continues, and
//! a malformed request ends the stream with an error status.
//!
//! tonic-reflection, which resolves the names, ends the stream after an unknown name, and ends it with OK after a
//! malformed request.

use std::pin::Pin;
use std::task::{Context, Poll};

use http::Request;
use rollplan_wire::proto::FILE_DESCRIPTOR_SET;
use tokio_stream::{Stream, StreamExt as _};
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::service::Routes;
use tonic::{Code, Response, Status, Streaming};
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::server_reflection_server as v1;
use tonic_reflection::pb::v1::{
    ErrorResponse, ExtensionNumberResponse, ServerReflectionRequest, ServerReflectionResponse,
};
use tonic_reflection::pb::v1alpha::server_reflection_server as v1alpha;
use tonic_reflection::server::Builder;
use tower::Service;

use crate::Error;
use crate::protocol::errors;

/// The descriptors of all services.
#[derive(Clone)]
pub(crate) struct Reflection {
    descriptors: ServerReflectionClient<Routes>,
}

/// The same service under its former name. The messages have the same encoding.
#[derive(Clone)]
pub(crate) struct V1Alpha<S>(pub(crate) S);

type Responses = Pin<Box<dyn Stream<Item = Result<ServerReflectionResponse, Status>> + Send>>;

// === impl Reflection ===

impl Reflection {
    pub(crate) fn new() -> Result<Self, Error> {
        let descriptors = Builder::configure()
            .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(
                tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
            )
            // Allows tools to print the details of errors.
            .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
            .build_v1()
            .map_err(|source| Error::Reflection { source })?;
        Ok(Self {
            descriptors: ServerReflectionClient::new(Routes::new(descriptors)),
        })
    }

    async fn answer(&self, request: ServerReflectionRequest) -> ServerReflectionResponse {
        let found = match &request.message_request {
            Some(asked) => self.find(asked.clone()).await,
            None => Err(Status::invalid_argument("the request is empty")),
        };
        let message = found.unwrap_or_else(|status| {
            MessageResponse::ErrorResponse(ErrorResponse {
                error_code: status.code().into(),
                error_message: status.message().to_owned(),
            })
        });
        ServerReflectionResponse {
            valid_host: request.host.clone(),
            original_request: Some(request),
            message_response: Some(message),
        }
    }

    async fn find(&self, asked: MessageRequest) -> Result<MessageResponse, Status> {
        let MessageRequest::AllExtensionNumbersOfType(name) = asked else {
            return self.look_up(asked).await;
        };
        // Messages have no extensions, but an unknown message must be an error, and the library does not check it.
        let symbol = MessageRequest::FileContainingSymbol(name.clone());
        self.look_up(symbol).await?;
        Ok(MessageResponse::AllExtensionNumbersResponse(
            ExtensionNumberResponse {
                base_type_name: name,
                extension_number: Vec::new(),
            },
        ))
    }

    async fn look_up(&self, asked: MessageRequest) -> Result<MessageResponse, Status> {
        let request = ServerReflectionRequest {
            host: String::new(),
            message_request: Some(asked),
        };
        // A function call, without a connection.
        let mut descriptors = self.descriptors.clone();
        let responses = descriptors.server_reflection_info(tokio_stream::once(request));
        let response = responses.await?.into_inner().message().await?;
        response
            .and_then(|response| response.message_response)
            .ok_or_else(|| Status::new(Code::NotFound, "not found"))
    }
}

#[tonic::async_trait]
impl v1::ServerReflection for Reflection {
    type ServerReflectionInfoStream = Responses;

    async fn server_reflection_info(
        &self,
        requests: tonic::Request<Streaming<ServerReflectionRequest>>,
    ) -> Result<Response<Responses>, Status> {
        let reflection = self.clone();
        let responses = requests.into_inner().then(move |request| {
            let reflection = reflection.clone();
            async move {
                match request {
                    Ok(request) => Ok(reflection.answer(request).await),
                    Err(status) => Err(errors::completed(&status)),
                }
            }
        });
        Ok(Response::new(Box::pin(responses)))
    }
}

// === impl V1Alpha ===

impl<S> NamedService for V1Alpha<S> {
    const NAME: &'static str = v1alpha::SERVICE_NAME;
}

impl<S: Service<Request<Body>>> Service<Request<Body>> for V1Alpha<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let method = request.uri().path().rsplit('/').next().unwrap_or_default();
        // Built from parts of valid paths, so the path is valid.
        if let Ok(path) = format!("/{}/{method}", v1::SERVICE_NAME).parse() {
            *request.uri_mut() = path;
        }
        self.0.call(request)
    }
}
