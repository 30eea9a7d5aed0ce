//! The codes of gRPC, Connect and HTTP, the reason and the details in each row of the table of errors match the answers of
//! a server. Every row has a case.

use std::io::Write as _;
use std::net::SocketAddr;

use bytes::{BufMut as _, Bytes, BytesMut};
use flate2::Compression;
use flate2::write::GzEncoder;
use prost::{Message, Name};
use rcgen::SanType;
use rollplan::proto::{
    CanaryAction, CanaryCommand, ComputeStatusRequest, ForecastRolloutRequest, PlanCanaryRequest,
    PlanRestartsRequest, PlanRolloutRequest, RollbackRequest, StepAnswer,
};
use rollplan::server::{Config, Shutdown};
use rollplan::wire::{REQUEST_BYTES_MAX, json};
use rollplan_world::json::{list, workload};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tonic_health::pb::HealthCheckRequest;

use super::certificates::Authority;
use super::connect::{ask_json, ask_proto};
use super::http::Ask;
use super::planners::Staged;
use super::raw::{self, PLAN, Raw, framed};
use super::table::Table;
use super::tls::{Directory, open_tls, serve_with, with_tls};
use super::{Serving, mk_config, mk_request, mk_request_with_long_answer, mk_rollout, start};
use crate::request::Request;

const STATUS: &str = "/rollplan.v1.RolloutPlanner/ComputeStatus";
const FORECAST: &str = "/rollplan.v1.RolloutPlanner/ForecastRollout";
const CANARY: &str = "/rollplan.v1.RolloutPlanner/PlanCanary";
const RESTARTS: &str = "/rollplan.v1.RolloutPlanner/PlanRestarts";
/// The row of all limits.
const TOO_LARGE: &str = "a request exceeds";
const ROLLBACK: &str = "/rollplan.v1.RolloutPlanner/Rollback";

/// A server, a connection to it, and the table to compare its answers with.
struct Checks {
    table: Table,
    address: SocketAddr,
    raw: Raw,
}

// === impl Checks ===

impl Checks {
    async fn grpc(
        &mut self,
        cause: &str,
        path: &str,
        headers: &[(&'static str, &str)],
        body: Bytes,
    ) {
        let call = self.raw.call(raw::request(path, headers), body);
        self.table.grpc(cause, &call.await.unwrap());
    }

    async fn http(&mut self, cause: &str, ask: &Ask) {
        self.table.http(cause, &ask.over_http1(self.address).await);
    }

    /// Sends the same message by every protocol: gRPC, and Connect with both codecs over both versions of HTTP.
    async fn message<M: Message + Name>(&mut self, cause: &str, path: &str, message: &M) {
        self.grpc(cause, path, &[], framed(message)).await;
        for ask in [
            Ask::post(path, "application/json", json::to_json(message).unwrap()),
            Ask::post(path, "application/proto", message.encode_to_vec()),
        ] {
            self.http(cause, &ask).await;
            let reply = ask.over_http2(&mut self.raw).await;
            self.table.http(cause, &reply);
        }
    }
}

fn mk_rollback(change: impl FnOnce(&mut Request)) -> RollbackRequest {
    let mut request = mk_rollout();
    change(&mut request);
    request.rollback_request()
}

#[tokio::test]
async fn every_row_of_the_error_table_matches_the_server() {
    let Serving { address, .. } = start().await;
    let mut checks = Checks {
        table: Table::new(),
        address,
        raw: raw::connect(address).await,
    };
    requests(&mut checks).await;
    rollbacks(&mut checks).await;
    forecasts(&mut checks).await;
    restarts(&mut checks).await;
    canaries(&mut checks).await;
    protocols(&mut checks).await;
    let Checks { mut table, .. } = checks;
    overloaded_and_bugs(&mut table).await;
    not_allowed(&mut table).await;
    stopping(&mut table).await;
    table.check_complete();
}

/// Errors in the content of a request.
async fn requests(checks: &mut Checks) {
    let cause = "the request contradicts the contract";
    let empty = PlanRolloutRequest::default();
    checks.message(cause, PLAN, &empty).await;
    let mut large = mk_rollout();
    let annotations = (0..10_001).map(|index| (format!("a{index}"), "".into()));
    large.set(0)["metadata"]["annotations"] = Value::Object(annotations.collect());
    checks.message(cause, PLAN, &large.message()).await;

    let cause = TOO_LARGE;
    let changes: [fn(&mut Request); 6] = [
        |it| repeat(it, "ReplicaSet", 10_001),
        |it| repeat(it, "Pod", 20_001),
        |it| {
            let uid = it.meta()["uid"].clone();
            let event =
                json!({"apiVersion": "v1", "kind": "Event", "involvedObject": {"uid": uid}});
            it.items.push(event);
            repeat(it, "Event", 20_001);
        },
        |it| it.snapshot.answers = vec![StepAnswer::default(); 1_001],
        |it| require(it, 101, &[]),
        |it| require(it, 1, &["web"; 1_001]),
    ];
    for change in changes {
        let mut request = mk_rollout();
        change(&mut request);
        checks.message(cause, PLAN, &request.message()).await;
    }

    let bomb = gzip(&vec![0; REQUEST_BYTES_MAX + 1]);
    let mut compressed = BytesMut::new();
    compressed.put_u8(1);
    compressed.put_u32(u32::try_from(bomb.len()).unwrap());
    compressed.put_slice(&bomb);
    let headers = [("grpc-encoding", "gzip")];
    checks
        .grpc(cause, PLAN, &headers, compressed.freeze())
        .await;
    for content_type in ["application/json", "application/proto"] {
        let ask = Ask::post(PLAN, content_type, bomb.clone()).with("content-encoding", "gzip");
        checks.http(cause, &ask).await;
        let ask = Ask::post(PLAN, content_type, vec![b' '; REQUEST_BYTES_MAX + 1]);
        checks.http(cause, &ask).await;
    }
    // A small request that needs more than 256 MiB in memory.
    let answers = "{},".repeat(2 << 20);
    let text = format!(r#"{{"snapshot":{{"answers":[{answers}{{}}]}}}}"#);
    let ask = Ask::post(PLAN, "application/json", text);
    checks.http(cause, &ask).await;

    let cause = "a response exceeds";
    let long = mk_request_with_long_answer(5 << 20);
    checks.message(cause, PLAN, &long).await;

    let cause = "bytes that cannot be decoded";
    let garbage = Bytes::from_static(&[0, 0, 0, 0, 1, 7]);
    checks.grpc(cause, PLAN, &[], garbage).await;
    let garbage = Ask::post(PLAN, "application/proto", &b"\x07"[..]);
    checks.http(cause, &garbage).await;

    let cause = "text that is not the JSON of a request";
    checks
        .http(cause, &Ask::post(PLAN, "application/json", "{"))
        .await;
}

/// Adds copies of the first object of a kind.
fn repeat(request: &mut Request, kind: &str, count: usize) {
    let object = request.all(kind).next().unwrap().clone();
    request.items.extend((0..count).map(|index| {
        let mut object = object.clone();
        object["metadata"]["name"] = format!("other-{index}").into();
        object["metadata"]["uid"] = format!("other-{index}").into();
        object
    }));
}

fn require(request: &mut Request, expressions: usize, values: &[&str]) {
    let operator = if values.is_empty() { "Exists" } else { "In" };
    let requirement = json!({"key": "app", "operator": operator, "values": values});
    request.spec()["selector"]["matchExpressions"] = vec![requirement; expressions].into();
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

async fn rollbacks(checks: &mut Checks) {
    let paused = mk_rollback(|it| it.spec()["paused"] = true.into());
    let incomplete = mk_rollback(|it| it.snapshot.replica_sets_complete = false);
    let first = mk_rollback(|it| it.remove_all("ReplicaSet"));
    let mut unavailable = first.clone();
    unavailable.to_last_available = true;
    let mut missing = mk_rollback(|_| {});
    missing.to_revision = 99;
    for (cause, request) in [
        ("rollback of a paused Deployment", paused),
        (
            "rollback or forecast without `replica_sets_complete`",
            incomplete,
        ),
        (
            "rollback to the last available revision, and no earlier revision has available pods",
            unavailable,
        ),
        ("rollback with no earlier revision", first),
        ("rollback to a revision that does not exist", missing),
    ] {
        checks.message(cause, ROLLBACK, &request).await;
    }
}

async fn forecasts(checks: &mut Checks) {
    let incomplete = mk_rollback(|it| it.snapshot.pods_complete = false);
    let complete = mk_rollback(|it| it.snapshot.pods_complete = true);
    for (cause, snapshot, samples) in [
        ("forecast without `pods_complete`", incomplete.snapshot, 1),
        (TOO_LARGE, complete.snapshot, 1_001),
    ] {
        let request = ForecastRolloutRequest {
            snapshot,
            samples,
            ..ForecastRolloutRequest::default()
        };
        checks.message(cause, FORECAST, &request).await;
    }
}

async fn restarts(checks: &mut Checks) {
    let workloads =
        (0..20_001).map(|index| workload(&format!("web-{index}"), json!({}), json!({})));
    let request = PlanRestartsRequest {
        now: Some(prost_types::Timestamp::default()),
        objects: vec![list(&workloads.collect::<Vec<_>>()).to_string()],
        ..PlanRestartsRequest::default()
    };
    let cause = TOO_LARGE;
    checks.message(cause, RESTARTS, &request).await;
}

async fn canaries(checks: &mut Checks) {
    let mut command = CanaryCommand::default();
    command.set_action(CanaryAction::Promote);
    let request = PlanCanaryRequest {
        snapshot: mk_rollback(|it| it.snapshot.pods_complete = true).snapshot,
        command: Some(command),
        ..PlanCanaryRequest::default()
    };
    let cause = "command about a canary that is refused";
    checks.message(cause, CANARY, &request).await;
}

/// Errors of a call that do not depend on its message.
async fn protocols(checks: &mut Checks) {
    let plan = framed(&mk_request());
    let cause = "a compression that is neither";
    let headers = [("grpc-encoding", "br")];
    checks.grpc(cause, PLAN, &headers, plan.clone()).await;
    let ask = ask_json(&mk_request());
    let with = |name: &'static str, value: &str| ask.clone().with(name, value);
    checks.http(cause, &with("content-encoding", "br")).await;

    let cause = "no message in a request";
    for messages in [Bytes::new(), plan.repeat(2).into()] {
        checks.grpc(cause, PLAN, &[], messages).await;
    }

    let cause = "a `grpc-timeout`";
    let headers = [("grpc-timeout", "1s")];
    checks.grpc(cause, PLAN, &headers, plan.clone()).await;
    checks.http(cause, &with("connect-timeout-ms", "1s")).await;

    for (cause, ask) in [
        (
            "a `Connect-Protocol-Version`",
            with("connect-protocol-version", "2"),
        ),
        ("a content type that", with("content-type", "text/html")),
        (
            "gRPC over HTTP/1.1",
            with("content-type", "application/grpc"),
        ),
    ] {
        checks.http(cause, &ask).await;
    }
    for method in ["GET", "PUT", "DELETE", "OPTIONS"] {
        let cause = "a method of HTTP other than POST";
        let ask = Ask {
            method,
            body: Bytes::new(),
            ..ask.clone()
        };
        checks.http(cause, &ask).await;
    }
    for query in ["unknown", "now=yesterday", "deployment=a&deployment=b"] {
        for path in ["/v1/status", "/v1/plan"] {
            let cause = "a parameter of `/v1/*`";
            let ask = Ask::post(&format!("{path}?{query}"), "text/plain", "");
            checks.http(cause, &ask).await;
        }
    }

    let cause = "an unknown method";
    checks.grpc(cause, "/unknown/Unknown", &[], plan).await;
    for path in ["/unknown", "/rollplan.v1.RolloutPlanner/Unknown"] {
        let ask = Ask {
            path: path.to_owned(),
            ..ask.clone()
        };
        checks.http(cause, &ask).await;
    }

    let cause = "a health check for an unknown service";
    let health = HealthCheckRequest {
        service: "unknown".to_owned(),
    };
    let path = "/grpc.health.v1.Health/Check";
    checks.grpc(cause, path, &[], framed(&health)).await;

    let cause = "headers of more than 16 KiB";
    let long = with("long", &"x".repeat(17 << 10));
    let reply = long.over_http2(&mut checks.raw).await;
    checks.table.http(cause, &reply);
    checks.http(cause, &long).await;
}

async fn overloaded_and_bugs(table: &mut Table) {
    let staged = Staged::default();
    let config = Config {
        concurrent_calls_max: 1,
        ..mk_config()
    };
    let Serving { address, .. } = staged.start(config).await;
    let mut raw = raw::connect(address).await;

    // ComputeStatus panics.
    let cause = "a bug";
    let status = ComputeStatusRequest::default();
    let call = raw.call(raw::request(STATUS, &[]), framed(&status)).await;
    table.grpc(cause, &call.unwrap());
    let ask = Ask::post(STATUS, "application/json", "{}");
    table.http(cause, &ask.over_http1(address).await);

    // PlanRollout waits: past the deadline, and until another call exceeds the limit.
    let cause = "not answered in time";
    let plan = mk_request();
    let late = raw::request(PLAN, &[("grpc-timeout", "50m")]);
    table.grpc(cause, &raw.call(late, framed(&plan)).await.unwrap());
    let late = ask_proto(&plan).with("connect-timeout-ms", "50");
    table.http(cause, &late.over_http1(address).await);
    staged.started.notified().await;

    let cause = "the server is overloaded";
    let running = ask_proto(&plan);
    let running = tokio::spawn(async move { running.over_http1(address).await });
    staged.started.notified().await;
    let call = raw.call(raw::request(PLAN, &[]), framed(&plan)).await;
    table.grpc(cause, &call.unwrap());
    table.http(cause, &ask_proto(&plan).over_http1(address).await);
    staged.go_on.notify_one();
    running.await.unwrap();
}

/// This is also the only test of HTTP/1 over TLS.
async fn not_allowed(table: &mut Table) {
    let cause = "a certificate without any of the names";
    let directory = Directory::new();
    let (servers, clients) = (Authority::new(), Authority::new());
    directory.rotate(&servers.sign());
    directory.write("ca.crt", &clients.pem);
    let config = Config {
        tls_client_sans: vec!["web.apps.svc".to_owned()],
        ..with_tls(directory.files(true))
    };
    let (address, _, _stop): (_, _, watch::Sender<Shutdown>) = serve_with(config).await;
    let named = |name: &str| clients.sign_as(vec![SanType::DnsName(name.try_into().unwrap())]);
    let plan = ask_json(&mk_request());
    // A client without ALPN, and one with HTTP/1.1 only.
    for offered in [&[][..], &["http/1.1"]] {
        let mut stream = open_tls(address, &servers, &named("web.apps.svc"), offered).await;
        assert_eq!(plan.on(&mut stream).await.status, 200);
        let mut stream = open_tls(address, &servers, &named("other.svc"), offered).await;
        table.http(cause, &plan.on(&mut stream).await);
    }
    let offered = ["http/1.1", "h2"];
    let stream = open_tls(address, &servers, &named("other.svc"), &offered).await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let mut raw = connect_on(stream).await;
    let call = raw.call(raw::request(PLAN, &[]), framed(&mk_request()));
    table.grpc(cause, &call.await.unwrap());
    table.http(cause, &plan.over_http2(&mut raw).await);
}

async fn connect_on(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Raw {
    let (send, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    Raw {
        send: send.ready().await.unwrap(),
    }
}

async fn stopping(table: &mut Table) {
    let cause = "the server is stopping";
    let Serving { address, stop, .. } = start().await;
    let mut raw = raw::connect(address).await;
    let request = raw::request("/grpc.health.v1.Health/Watch", &[]);
    let (answer, mut stream) = raw.send.send_request(request, false).unwrap();
    stream
        .send_data(framed(&HealthCheckRequest::default()), true)
        .unwrap();
    // After its first answer, the stream is open.
    let (parts, body) = answer.await.unwrap().into_parts();
    stop.send(Shutdown::Graceful).unwrap();
    table.grpc(cause, &raw::read(parts, body).await.unwrap());
}
