//! Traces: spans reach the collector, and no collector affects the server.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyValue;
use opentelemetry_proto::tonic::trace::v1::Span;
use rcgen::SanType;
use rollplan::client::RolloutPlannerClient;
use rollplan::server::{Config, Shutdown, Traces};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::{Certificate, Identity, ServerTlsConfig};
use tonic::{Code, Request, Response, Status};

use super::certificates::{self, Authority};
use super::planners::Staged;
use super::process::{self, Log, Process};
use super::raw;
use super::tls::Directory;
use super::{PATIENCE, Serving, connect, ends, mk_config, mk_request, start_with};

/// A collector of traces.
struct Collector(mpsc::UnboundedSender<ExportTraceServiceRequest>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.0.send(request.into_inner()).unwrap();
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    /// Starts a collector. Returns its address and the received spans.
    async fn start() -> (
        SocketAddr,
        mpsc::UnboundedReceiver<ExportTraceServiceRequest>,
    ) {
        Self::start_on(tonic::transport::Server::builder()).await
    }

    async fn start_on(
        mut server: tonic::transport::Server,
    ) -> (
        SocketAddr,
        mpsc::UnboundedReceiver<ExportTraceServiceRequest>,
    ) {
        let (sender, received) = mpsc::unbounded_channel();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = server.add_service(TraceServiceServer::new(Self(sender)));
        tokio::spawn(router.serve_with_incoming(TcpListenerStream::new(listener)));
        (address, received)
    }
}

/// Sends traces to this collector.
fn mk_traced(collector: SocketAddr, trace_ratio: f64) -> Config {
    Config {
        traces: Traces {
            endpoint: Some(format!("http://{collector}")),
            ratio: trace_ratio,
            ..Traces::default()
        },
        ..mk_config()
    }
}

/// All spans received so far.
fn spans(received: &mut mpsc::UnboundedReceiver<ExportTraceServiceRequest>) -> Vec<Span> {
    let mut spans = Vec::new();
    while let Ok(request) = received.try_recv() {
        for resource in request.resource_spans {
            let attributes = resource.resource.unwrap().attributes;
            let name = attributes.iter().find(|it| it.key == "service.name");
            let name = name.unwrap().value.clone().unwrap().value.unwrap();
            assert_eq!(name, text("rollplan"));
            spans.extend(resource.scope_spans.into_iter().flat_map(|it| it.spans));
        }
    }
    spans
}

fn text(text: &str) -> AnyValue {
    AnyValue::StringValue(text.to_owned())
}

fn attribute(span: &Span, key: &str) -> AnyValue {
    let found = span.attributes.iter().find(|it| it.key == key).unwrap();
    found.value.clone().unwrap().value.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spans_are_children_of_the_callers_span() {
    let (collector, mut received) = Collector::start().await;
    // Only traces that the caller samples are sent.
    let Serving {
        mut client,
        address,
        stop,
        ended,
        ..
    } = start_with(mk_traced(collector, 0.0)).await;
    let call = |parent: &'static str, request| {
        let mut request = Request::new(request);
        let parent = tonic::metadata::MetadataValue::from_static(parent);
        request.metadata_mut().insert("traceparent", parent);
        request
    };
    let sampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let unsampled = "00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
    client
        .plan_rollout(call(sampled, mk_request()))
        .await
        .unwrap();
    client
        .plan_rollout(call(unsampled, mk_request()))
        .await
        .unwrap();
    client.plan_rollout(mk_request()).await.unwrap();
    let mut wrong = mk_request();
    wrong.snapshot = None;
    client.plan_rollout(call(sampled, wrong)).await.unwrap_err();
    let unknown = raw::request("/hunter2/Plan", &[("traceparent", sampled)]);
    let mut raw = raw::connect(address).await;
    let (answer, _) = raw.send.send_request(unknown, true).unwrap();
    raw::receive(answer).await.unwrap();
    let status = raw::request("/v1/status", &[("traceparent", sampled)]);
    let (answer, _) = raw.send.send_request(status, true).unwrap();
    raw::receive(answer).await.unwrap();
    // The last spans are sent before the process exits.
    stop.send(Shutdown::SkipDelay).unwrap();
    ends(ended).await;

    let mut spans = spans(&mut received);
    // A method answers the request, but it is not a call of that method.
    let status = spans.pop().unwrap();
    assert_eq!(status.name, "rollplan.v1.RolloutPlanner/ComputeStatus");
    assert_eq!(attribute(&status, "rpc.system"), text("http"));
    // The span does not contain the path, which the client chose.
    let unknown = spans.pop().unwrap();
    assert_eq!(unknown.name, "unknown");
    assert_eq!(attribute(&unknown, "rpc.service"), text("unknown"));
    assert_eq!(attribute(&unknown, "rpc.method"), text("unknown"));
    assert_eq!(spans.len(), 2, "{spans:?}");
    for (span, code) in spans.iter().zip([Code::Ok, Code::InvalidArgument]) {
        assert_eq!(span.name, "rollplan.v1.RolloutPlanner/PlanRollout");
        assert_eq!(
            span.trace_id,
            0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c_u128.to_be_bytes()
        );
        assert_eq!(span.parent_span_id, 0xb7ad_6b71_6920_3331_u64.to_be_bytes());
        assert_eq!(attribute(span, "rpc.system"), text("grpc"));
        assert_eq!(
            attribute(span, "rpc.service"),
            text("rollplan.v1.RolloutPlanner")
        );
        assert_eq!(attribute(span, "rpc.method"), text("PlanRollout"));
        let number = AnyValue::IntValue(i64::from(code as i32));
        assert_eq!(attribute(span, "rpc.grpc.status_code"), number);
        assert_eq!(span.attributes.len(), 4);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spans_of_canceled_calls_have_their_status() {
    let (collector, mut received) = Collector::start().await;
    let mut config = mk_traced(collector, 1.0);
    config.traces.delay = Duration::from_millis(10);
    let staged = Staged::default();
    let Serving {
        mut client,
        stop: _stop,
        ..
    } = staged.start(config).await;
    let call = tokio::spawn(async move { client.plan_rollout(mk_request()).await });
    staged.started.notified().await;
    call.abort();
    let sent = timeout(PATIENCE, received.recv()).await.unwrap().unwrap();
    let span = &sent.resource_spans[0].scope_spans[0].spans[0];
    let number = AnyValue::IntValue(i64::from(Code::Cancelled as i32));
    assert_eq!(attribute(span, "rpc.grpc.status_code"), number);
}

/// The collector presents its certificate and verifies that of the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spans_are_sent_encrypted() {
    let directory = Directory::new();
    let (collectors, servers) = (Authority::new(), Authority::new());
    let identity = |signed: &certificates::Identity| {
        Identity::from_pem(signed.cert.pem(), signed.key.serialize_pem())
    };
    let address = [127, 0, 0, 1].into();
    let tls = ServerTlsConfig::new()
        .identity(identity(
            &collectors.sign_as(vec![SanType::IpAddress(address)]),
        ))
        .client_ca_root(Certificate::from_pem(&servers.pem));
    let server = tonic::transport::Server::builder().tls_config(tls).unwrap();
    let (collector, mut received) = Collector::start_on(server).await;
    directory.rotate(&servers.sign());
    for (file, pem) in [("ca.crt", &collectors.pem), ("other.crt", &servers.pem)] {
        directory.write(file, pem);
    }
    for (ca, sent) in [("ca.crt", 1), ("other.crt", 0)] {
        let config = Config {
            traces: Traces {
                endpoint: Some(format!("https://{collector}")),
                ca: Some(directory.path(ca)),
                client: Some((directory.path("tls.crt"), directory.path("tls.key"))),
                ..Traces::default()
            },
            ..mk_config()
        };
        let Serving {
            mut client,
            stop,
            ended,
            ..
        } = start_with(config).await;
        client.plan_rollout(mk_request()).await.unwrap();
        stop.send(Shutdown::SkipDelay).unwrap();
        ends(ended).await;
        assert_eq!(spans(&mut received).len(), sent, "{ca}");
    }
}

/// The name and the version of the process in the standard variables take precedence.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn standard_variables_name_the_service() {
    const VERSION: &str = env!("CARGO_PKG_VERSION");
    for (name, attributes, expected) in [
        ("", "", ["rollplan", VERSION]),
        ("planner", "", ["planner", VERSION]),
        (
            "",
            "service.name=planner,service.version=9",
            ["planner", "9"],
        ),
    ] {
        let (collector, mut received) = Collector::start().await;
        let mut command = process::command();
        command.envs([
            ("OTEL_SERVICE_NAME", name),
            ("OTEL_RESOURCE_ATTRIBUTES", attributes),
            ("OTEL_BSP_SCHEDULE_DELAY", "10"),
        ]);
        let endpoint = format!("http://{collector}");
        let server = Process::spawn(command, &["--otlp-endpoint", &endpoint], Log::Read);
        let mut client = RolloutPlannerClient::new(connect(server.address).await);
        client.plan_rollout(mk_request()).await.unwrap();
        let sent = timeout(PATIENCE, received.recv()).await.unwrap().unwrap();
        let resource = sent.resource_spans[0].resource.clone().unwrap();
        for (key, expected) in ["service.name", "service.version"].iter().zip(expected) {
            let found = resource.attributes.iter().find(|it| it.key == *key);
            let value = found.unwrap().value.clone().unwrap().value.unwrap();
            assert_eq!(value, text(expected), "{name:?} {attributes:?}");
        }
    }
}

/// If the caller does not decide, traces are sampled randomly.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sampling_ratio_applies_to_new_traces() {
    const CALLS: usize = 100;
    // With a share of one half, fewer than 20 or more than 80 of 100 are sent once in 10^9 runs.
    let request = mk_request();
    for (ratio, least, most) in [(0.0, 0, 0), (0.5, 20, 80), (1.0, CALLS, CALLS)] {
        let (collector, mut received) = Collector::start().await;
        let Serving {
            mut client,
            stop,
            ended,
            ..
        } = start_with(mk_traced(collector, ratio)).await;
        for _ in 0..CALLS {
            client.plan_rollout(request.clone()).await.unwrap();
        }
        stop.send(Shutdown::SkipDelay).unwrap();
        ends(ended).await;
        let sent = spans(&mut received).len();
        assert!(sent >= least && sent <= most, "{sent} at {ratio}");
    }
}

/// The time that a server with a span for this collector takes to stop.
async fn stops_after(collector: SocketAddr) -> Duration {
    let Serving {
        mut client,
        stop,
        ended,
        ..
    } = start_with(mk_traced(collector, 1.0)).await;
    client.plan_rollout(mk_request()).await.unwrap();
    let asked = Instant::now();
    stop.send(Shutdown::SkipDelay).unwrap();
    ends(ended).await;
    asked.elapsed()
}

/// By default, the exporter waits for ten seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hanging_or_absent_collector_does_not_delay_shutdown() {
    // The system accepts connections, but they are never read.
    let hung = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let took = stops_after(hung.local_addr().unwrap()).await;
    assert!(took < Duration::from_secs(8), "{took:?}");
    let absent = hung.local_addr().unwrap();
    drop(hung);
    let took = stops_after(absent).await;
    assert!(took < Duration::from_secs(8), "{took:?}");
}
