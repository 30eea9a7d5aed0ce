//! OpenTelemetry spans: one for each call, with the caller's span as the parent.
//!
//! They use the OpenTelemetry API instead of `tracing`: a call has only one span, because the service calls no other
//! service.

use std::fs;
use std::path::Path;
use std::time::Duration;

use http::HeaderMap;
use opentelemetry::propagation::{Extractor, TextMapPropagator as _};
use opentelemetry::trace::{
    Span as _, SpanBuilder, SpanContext, SpanKind, Status as SpanStatus, TraceContextExt as _,
    TraceId, Tracer as _, TracerProvider as _,
};
use opentelemetry::{Context, Key, KeyValue};
use opentelemetry_otlp::{
    ExporterBuildError, SpanExporter, WithExportConfig as _, WithTonicConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::resource::{EnvResourceDetector, ResourceDetector as _};
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracer, SdkTracerProvider, Span,
};
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tonic::Code;
use tonic::transport::{Certificate, ClientTlsConfig, Identity};

use crate::config::Traces;

/// The timeout for sending the last spans at shutdown.
const FLUSH_TIME_MAX: Duration = Duration::from_secs(3);

/// The destination of spans, if any. The trace context of callers is always read, for the log.
#[derive(Clone)]
pub(crate) struct Tracing {
    provider: Option<SdkTracerProvider>,
    tracer: Option<SdkTracer>,
}

/// The span of a call. If it is dropped before its end, the client canceled the call.
pub(crate) struct CallSpan {
    parent: SpanContext,
    span: Option<Span>,
}

struct Headers<'a>(&'a HeaderMap);

// === impl Tracing ===

impl Tracing {
    /// Does not send spans.
    #[cfg(test)]
    pub(crate) fn off() -> Self {
        Self {
            provider: None,
            tracer: None,
        }
    }

    /// Must be called in a runtime. If the exporter cannot be created, spans are not sent, because serving calls is
    /// more important.
    pub(crate) fn new(traces: &Traces) -> Self {
        let provider = traces.endpoint.as_deref().and_then(|endpoint| {
            let provider = provider(endpoint, traces);
            let failed = |error: &_| tracing::error!("traces are not sent: {error}");
            provider.inspect_err(failed).ok()
        });
        let tracer = provider
            .as_ref()
            .map(|provider| provider.tracer("rollplan"));
        Self { provider, tracer }
    }

    /// Starts the span of a call. `method` is a method of the contract or `unknown`.
    pub(crate) fn start(
        &self,
        headers: &HeaderMap,
        system: &'static str,
        method: &str,
    ) -> CallSpan {
        let parent = TraceContextPropagator::new().extract_with_context(
            // Not the current context, because calls share threads.
            &Context::new(),
            &Headers(headers),
        );
        let span = self.tracer.as_ref().map(|tracer| {
            let (service, name) = method.split_once('/').unwrap_or((method, method));
            let builder = SpanBuilder::from_name(method.to_owned())
                .with_kind(SpanKind::Server)
                .with_attributes([
                    KeyValue::new("rpc.system", system),
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

    /// Sends the remaining spans. Blocks for a limited time.
    pub(crate) fn flush(&self) {
        if let Some(provider) = &self.provider
            && let Err(error) = provider.shutdown_with_timeout(FLUSH_TIME_MAX)
        {
            tracing::warn!("the last traces were not sent: {error}");
        }
    }
}

fn provider(endpoint: &str, traces: &Traces) -> Result<SdkTracerProvider, ExporterBuildError> {
    let exporter = SpanExporter::builder()
        .with_tonic()
        .with_endpoint(endpoint)
        .with_timeout(traces.timeout);
    let exporter = if endpoint.starts_with("https:") {
        exporter.with_tls_config(tls(traces))
    } else {
        exporter
    };
    let batches = BatchConfigBuilder::default()
        .with_scheduled_delay(traces.delay)
        .with_max_queue_size(traces.queue_max)
        .with_max_export_batch_size(traces.batch_max);
    let processor = BatchSpanProcessor::builder(exporter.build()?)
        .with_batch_config(batches.build())
        .build();
    let share = Sampler::TraceIdRatioBased(traces.ratio);
    let sampler = if traces.is_parent_based {
        Sampler::ParentBased(Box::new(share))
    } else {
        share
    };
    Ok(SdkTracerProvider::builder()
        .with_span_processor(processor)
        .with_resource(resource())
        .with_sampler(sampler)
        .build())
}

/// The attributes of this process. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES take precedence.
fn resource() -> Resource {
    let set = EnvResourceDetector::new().detect();
    let name = std::env::var("OTEL_SERVICE_NAME").ok();
    let is_named = name.is_some_and(|name| !name.is_empty());
    let own = [
        ("service.name", "rollplan", is_named),
        ("service.version", env!("CARGO_PKG_VERSION"), false),
    ];
    let own = own
        .into_iter()
        .filter(|(key, _, is_set)| !is_set && set.get(&Key::new(*key)).is_none())
        .map(|(key, value, _)| KeyValue::new(key, value));
    Resource::builder().with_attributes(own).build()
}

/// The TLS configuration of exports. A file that cannot be used is logged and ignored.
fn tls(traces: &Traces) -> ClientTlsConfig {
    let tls = ClientTlsConfig::new();
    let tls = match traces.ca.as_deref().and_then(certificates) {
        Some(pem) => tls.ca_certificate(Certificate::from_pem(pem)),
        None => tls.with_native_roots(),
    };
    let client = traces.client.as_ref();
    match client.and_then(|(cert, key)| certificates(cert).zip(read(key))) {
        Some((cert, key)) => tls.identity(Identity::from_pem(cert, key)),
        None => tls,
    }
}

fn certificates(path: &Path) -> Option<Vec<u8>> {
    let pem = read(path)?;
    if let Some(Ok(_)) = CertificateDer::pem_slice_iter(&pem).next() {
        return Some(pem);
    }
    let path = path.display();
    tracing::warn!("{path} is ignored for traces: no certificate in PEM found");
    None
}

fn read(path: &Path) -> Option<Vec<u8>> {
    let ignored = |error: &_| {
        let path = path.display();
        tracing::warn!("{path} is ignored for traces: {error}");
    };
    fs::read(path).inspect_err(ignored).ok()
}

// === impl CallSpan ===

impl CallSpan {
    /// The trace that the call belongs to, if any.
    pub(crate) fn trace_id(&self) -> Option<TraceId> {
        let own = self.span.as_ref().map(|span| span.span_context());
        let context = own.filter(|own| own.is_valid()).unwrap_or(&self.parent);
        context.is_valid().then(|| context.trace_id())
    }

    pub(crate) fn end(mut self, code: Code) {
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
        // The status of a server span is an error only if the server failed (OpenTelemetry's conventions for gRPC).
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
