//! The table of docs/api.md: every reason with its code of gRPC, its code of Connect and its status of HTTP, each as a
//! server answers.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use prost::{Message, Name};
use rcgen::SanType;
use rollplan::proto::{ComputeStatusRequest, PlanRolloutRequest, RollbackRequest};
use rollplan::server::{Config, Shutdown};
use rollplan::wire::json;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_types::StatusExt as _;

use super::certificates::Authority;
use super::connect::{ask_json, ask_proto};
use super::http::{Ask, Reply};
use super::raw::{self, Answer, PLAN, framed};
use super::tls::{Directory, open_tls, serve_with, with_tls};
use super::{
    Serving, Staged, mk_config, mk_request, mk_request_with_long_answer, mk_request_with_pods,
    start,
};

const STATUS: &str = "/rollplan.v1.RolloutPlanner/ComputeStatus";
const ROLLBACK: &str = "/rollplan.v1.RolloutPlanner/Rollback";

/// Codes of gRPC and Connect, and the status of HTTP. Empty where a protocol has no such error.
type Codes = [String; 3];

/// What docs/api.md says, by reason.
fn documented() -> BTreeMap<String, Codes> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/api.md");
    let text = std::fs::read_to_string(path).unwrap();
    let rows = text
        .lines()
        .skip_while(|line| !line.starts_with("| cause |"));
    let mut documented = BTreeMap::new();
    for row in rows.skip(2).take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let codes = [cells[2], cells[3], cells[4]].map(|it| it.trim_matches('–').to_owned());
        let Some(reason) = cells[5].split('`').nth(1) else {
            assert_eq!(cells[5], "none", "{row}");
            continue;
        };
        let before = documented.insert(reason.to_owned(), codes.clone());
        assert!(before.is_none_or(|before| before == codes), "{reason}");
    }
    assert!(documented.len() > 15);
    documented
}

#[derive(Default)]
struct Observed {
    grpc: BTreeMap<String, String>,
    http: BTreeMap<String, (String, String)>,
}

impl Observed {
    fn grpc(&mut self, answer: &Answer) {
        let status = &answer.status;
        let info = status.get_details_error_info();
        let reason = info.unwrap_or_else(|| panic!("{status:?}")).reason;
        let code = match status.code() {
            Code::InvalidArgument => "INVALID_ARGUMENT",
            Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
            Code::NotFound => "NOT_FOUND",
            Code::PermissionDenied => "PERMISSION_DENIED",
            Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
            Code::FailedPrecondition => "FAILED_PRECONDITION",
            Code::Unimplemented => "UNIMPLEMENTED",
            Code::Internal => "INTERNAL",
            Code::Unavailable => "UNAVAILABLE",
            other => panic!("{other:?}"),
        };
        self.grpc.insert(reason, code.to_owned());
    }

    fn http(&mut self, reply: &Reply) {
        let error: Value = reply.json();
        let reason = error["details"][0]["debug"]["reason"].as_str();
        let reason = reason.unwrap_or_else(|| panic!("{reply:?}"));
        let code = error["code"].as_str().unwrap().to_owned();
        let status = reply.status.to_string();
        self.http.insert(reason.to_owned(), (code, status));
    }
}

fn ask<M: Message + Name>(path: &str, message: &M) -> Ask {
    Ask::post(path, "application/json", json::to_json(message).unwrap())
}

fn mk_rollback(change: impl FnOnce(&mut RollbackRequest)) -> RollbackRequest {
    let PlanRolloutRequest { snapshot, options } = mk_request();
    let mut request = RollbackRequest {
        snapshot,
        to_revision: 0,
        options,
    };
    change(&mut request);
    request
}

#[tokio::test]
async fn every_reason_has_the_codes_of_the_table() {
    let mut observed = Observed::default();
    let Serving { address, .. } = start().await;
    let mut raw = raw::connect(address).await;

    // The same message with both protocols.
    let paused = mk_rollback(|it| {
        let deployment = it.snapshot.as_mut().unwrap().deployment.as_mut();
        deployment.unwrap().spec.as_mut().unwrap().paused = true;
    });
    let missing = mk_rollback(|it| it.to_revision = 99);
    let first = mk_rollback(|it| it.snapshot.as_mut().unwrap().replica_sets.clear());
    let plans = [
        PlanRolloutRequest::default(),
        mk_request_with_pods(20_001),
        mk_request_with_long_answer(5 << 20),
    ];
    let calls = plans.iter().map(|it| (framed(it), ask_proto(it), PLAN));
    let incomplete = mk_rollback(|it| it.snapshot.as_mut().unwrap().replica_sets_complete = false);
    let rollbacks = [paused, missing, first, incomplete];
    let rollbacks = rollbacks
        .iter()
        .map(|it| (framed(it), ask(ROLLBACK, it), ROLLBACK));
    for (message, ask, path) in calls.chain(rollbacks) {
        observed.grpc(&raw.call(raw::request(path, &[]), message).await.unwrap());
        observed.http(&ask.over_http1(address).await);
    }

    // What is wrong with the protocol.
    let plan = framed(&mk_request());
    let health = HealthCheckRequest {
        service: "unknown".to_owned(),
    };
    for (path, headers, body) in [
        (PLAN, &[][..], Bytes::from_static(&[0, 0, 0, 0, 1, 7])),
        (PLAN, &[("grpc-encoding", "br")], plan.clone()),
        (PLAN, &[("grpc-timeout", "1s")], plan.clone()),
        (PLAN, &[], plan.repeat(2).into()),
        ("/unknown/Unknown", &[], plan.clone()),
        ("/grpc.health.v1.Health/Check", &[], framed(&health)),
    ] {
        let request = raw::request(path, headers);
        observed.grpc(&raw.call(request, body).await.unwrap());
    }
    let plan = ask_json(&mk_request());
    for ask in [
        Ask::post(PLAN, "application/proto", &b"\x07"[..]),
        Ask::post(PLAN, "application/json", "{"),
        plan.clone().with("content-encoding", "br"),
        plan.clone().with("connect-timeout-ms", "1s"),
        plan.clone().with("connect-protocol-version", "2"),
        plan.clone().with("content-type", "text/html"),
        plan.clone().with("content-type", "application/grpc"),
        Ask {
            method: "GET",
            ..plan.clone()
        },
        Ask {
            path: "/unknown".to_owned(),
            ..plan.clone()
        },
        Ask {
            path: "/v1/plan?unknown".to_owned(),
            ..plan.clone()
        },
    ] {
        observed.http(&ask.over_http1(address).await);
    }

    overloaded_and_bugs(&mut observed).await;
    not_allowed(&mut observed).await;
    stopping(&mut observed).await;

    let documented = documented();
    let reasons = observed.grpc.keys().chain(observed.http.keys());
    let reasons: BTreeSet<_> = reasons.collect();
    assert_eq!(reasons, documented.keys().collect::<BTreeSet<_>>());
    for (reason, codes) in &documented {
        let grpc = observed.grpc.get(reason).cloned().unwrap_or_default();
        let (connect, http) = observed.http.get(reason).cloned().unwrap_or_default();
        assert_eq!(&[grpc, connect, http], codes, "{reason}");
    }
}

async fn overloaded_and_bugs(observed: &mut Observed) {
    let staged = Staged::default();
    let config = Config {
        concurrent_calls_max: 1,
        ..mk_config()
    };
    let Serving { address, .. } = staged.start(config).await;
    let mut raw = raw::connect(address).await;
    // It panics.
    let status = ComputeStatusRequest::default();
    let call = raw.call(raw::request(STATUS, &[]), framed(&status)).await;
    observed.grpc(&call.unwrap());
    observed.http(&ask(STATUS, &status).over_http1(address).await);
    // It waits, for too long and for long enough.
    let late = raw::request(PLAN, &[("grpc-timeout", "50m")]);
    let call = raw.call(late, framed(&mk_request())).await;
    observed.grpc(&call.unwrap());
    let late = ask_proto(&mk_request()).with("connect-timeout-ms", "50");
    observed.http(&late.over_http1(address).await);
    staged.started.notified().await;
    let plan = mk_request();
    let running = ask_proto(&plan);
    let running = tokio::spawn(async move { running.over_http1(address).await });
    staged.started.notified().await;
    let call = raw.call(raw::request(PLAN, &[]), framed(&plan)).await;
    observed.grpc(&call.unwrap());
    observed.http(&ask_proto(&plan).over_http1(address).await);
    staged.go_on.notify_one();
    running.await.unwrap();
}

/// Also the one test that calls with HTTP/1 over TLS.
async fn not_allowed(observed: &mut Observed) {
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
    // As a client without ALPN, and one that has only HTTP/1.1.
    for offered in [&[][..], &["http/1.1"]] {
        let mut stream = open_tls(address, &servers, &named("web.apps.svc"), offered).await;
        assert_eq!(plan.on(&mut stream).await.status, 200);
        let mut stream = open_tls(address, &servers, &named("other.svc"), offered).await;
        observed.http(&plan.on(&mut stream).await);
    }
    let offered = ["http/1.1", "h2"];
    let stream = open_tls(address, &servers, &named("other.svc"), &offered).await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let mut raw = connect_on(stream).await;
    let call = raw.call(raw::request(PLAN, &[]), framed(&mk_request()));
    observed.grpc(&call.await.unwrap());
    observed.http(&plan.over_http2(&mut raw).await);
}

async fn connect_on(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> raw::Raw {
    let (send, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    raw::Raw {
        send: send.ready().await.unwrap(),
    }
}

async fn stopping(observed: &mut Observed) {
    let Serving { address, stop, .. } = start().await;
    let mut raw = raw::connect(address).await;
    let request = raw::request("/grpc.health.v1.Health/Watch", &[]);
    let (answer, mut stream) = raw.send.send_request(request, false).unwrap();
    stream
        .send_data(framed(&HealthCheckRequest::default()), true)
        .unwrap();
    // The stream is open once it has answered.
    let (parts, body) = answer.await.unwrap().into_parts();
    stop.send(Shutdown::Graceful).unwrap();
    observed.grpc(&raw::read(parts, body).await.unwrap());
}
