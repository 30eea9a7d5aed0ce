//! Spans of OpenTelemetry: one for each call, below that of the caller.
//!
//! Made with OpenTelemetry's own interface and not through `tracing`: there is one span for a call and nothing in
//! it, for the service calls nobody.

use std::time::Duration;

use http::HeaderMap;
use opentelemetry::propagation::{Extractor, TextMapPropagator as _};
use opentelemetry::trace::{
    Span as _, SpanBuilder, SpanContext, SpanKind, Status as SpanStatus, TraceContextExt as _,
    TraceId, Tracer as _, TracerProvider as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider, Span};
use tonic::Code;

/// How long the last spans may take to be sent when the server ends.
const FLUSH_TIME_MAX: Duration = Duration::from_secs(3);

/// Where spans go, if anywhere. What callers say of theirs is read in any case, for the log.
#[derive(Clone)]
pub(super) struct Tracing {
    provider: Option<SdkTracerProvider>,
    tracer: Option<SdkTracer>,
}

/// The span of a call. Dropped before it ended, the client has given the call up.
pub(super) struct CallSpan {
    parent: SpanContext,
    span: Option<Span>,
}

struct Headers<'a>(&'a HeaderMap);

// === impl Tracing ===

impl Tracing {
    /// Spans go nowhere.
    #[cfg(test)]
    pub(super) fn off() -> Self {
        Self {
            provider: None,
            tracer: None,
        }
    }

    /// Spans go to this endpoint, if there is one. Must be called in a runtime.
    pub(super) fn new(endpoint: Option<&str>, ratio: f64) -> Result<Self, ExporterBuildError> {
        let export = |endpoint| {
            let exporter = SpanExporter::builder().with_tonic();
            let exporter = exporter.with_endpoint(endpoint).build()?;
            // OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES come first.
            let resource = Resource::builder()
                .with_attribute(KeyValue::new("service.name", service_name()))
                .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
            Ok(SdkTracerProvider::builder()
                .with_batch_exporter(exporter)
                .with_resource(resource.build())
                .with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(
                    ratio,
                ))))
                .build())
        };
        let provider = endpoint.map(export).transpose()?;
        let tracer = provider
            .as_ref()
            .map(|provider| provider.tracer("rollplan"));
        Ok(Self { provider, tracer })
    }

    /// A call begins. `method` is one of the contract, or says that it is none.
    pub(super) fn start(&self, headers: &HeaderMap, method: &str) -> CallSpan {
        let parent = TraceContextPropagator::new().extract_with_context(
            // Not the current one: calls share threads.
            &Context::new(),
            &Headers(headers),
        );
        let span = self.tracer.as_ref().map(|tracer| {
            let (service, name) = method.split_once('/').unwrap_or((method, method));
            let builder = SpanBuilder::from_name(method.to_owned())
                .with_kind(SpanKind::Server)
                .with_attributes([
                    KeyValue::new("rpc.system", "grpc"),
                    KeyValue::new("rpc.service", service.to_owned()),
                    KeyValue::new("rpc.method", name.to_owned()),
                ]);
            tracer.build_with_context(builder, &parent)
        });
        CallSpan {
            parent: parent.span().span_context().clone(),
            span,
        }
    }

    /// Sends what is not sent yet. Blocks, though not for long.
    pub(super) fn flush(&self) {
        if let Some(provider) = &self.provider
            && let Err(error) = provider.shutdown_with_timeout(FLUSH_TIME_MAX)
        {
            tracing::warn!("the last traces were not sent: {error}");
        }
    }
}

fn service_name() -> String {
    std::env::var("OTEL_SERVICE_NAME").unwrap_or_else(|_| "rollplan".to_owned())
}

// === impl CallSpan ===

impl CallSpan {
    /// The trace that the call belongs to, if anybody has begun one.
    pub(super) fn trace_id(&self) -> Option<TraceId> {
        let own = self.span.as_ref().map(|span| span.span_context());
        let context = own.filter(|own| own.is_valid()).unwrap_or(&self.parent);
        context.is_valid().then(|| context.trace_id())
    }

    pub(super) fn end(mut self, code: Code) {
        self.finish(code);
    }

    fn finish(&mut self, code: Code) {
        let Some(mut span) = self.span.take() else {
            return;
        };
        span.set_attribute(KeyValue::new(
            "rpc.grpc.status_code",
            i64::from(code as i32),
        ));
        // Of a server's span only what is the server's fault is an error (OpenTelemetry's conventions for gRPC).
        if matches!(
            code,
            Code::Unknown
                | Code::DeadlineExceeded
                | Code::Unimplemented
                | Code::Internal
                | Code::Unavailable
                | Code::DataLoss
        ) {
            span.set_status(SpanStatus::error(code.description()));
        }
        span.end();
    }
}

impl Drop for CallSpan {
    fn drop(&mut self) {
        self.finish(Code::Cancelled);
    }
}

// === impl Headers ===

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(http::HeaderName::as_str).collect()
    }
}
