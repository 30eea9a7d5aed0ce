//! Sends the most expensive valid requests to a service with a real memory limit. The kernel kills a process that exceeds the limit,
//! so the service passes if it survives. `bash tests/run memory` runs this as root, with the program in the variable ROLLPLAN_BIN.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that fails may panic"
)]

mod cgroup;

use std::env;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use prost::Message as _;
use rollplan_benches::bytes_codec::BytesCodec;
use rollplan_benches::{request, shapes};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};
use tonic_types::StatusExt as _;

use cgroup::Cgroup;

/// Concurrent expensive calls.
const ATTACKERS: usize = 30;
/// Much longer than a typical call takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// The memory of a server without calls, as in docs/guides/operations.md.
const IDLE_MIB: u64 = 64;

/// A server in a control group.
struct Server {
    child: Child,
    address: SocketAddr,
    cgroup: Cgroup,
    buffer_mib_max: u64,
}

impl Server {
    /// Starts a server with the given buffer, or with the default, which depends on the memory limit.
    fn start(mib: u64, buffer_mib_max: Option<u64>) -> Self {
        let cgroup = Cgroup::new(mib << 20);
        let mut command =
            cgroup.command(&env::var("ROLLPLAN_BIN").expect("ROLLPLAN_BIN is the program to test"));
        command.args([
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--queue-time-max",
            "60s",
        ]);
        if let Some(mib) = buffer_mib_max {
            command.args(["--buffer-mib-max", &mib.to_string()]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut buffer_mib_max = None;
        let address = lines.by_ref().map_while(Result::ok).find_map(|line| {
            let line: serde_json::Value = serde_json::from_str(&line).unwrap();
            if let Some(limit) = line["memory_limit_bytes"].as_u64() {
                assert_eq!(limit, mib << 20);
                buffer_mib_max = line["buffer_mib_max"].as_u64();
            }
            let message = line["message"].as_str()?;
            message.strip_prefix("listening on ")?.parse().ok()
        });
        // Keep reading: the server would block once the pipe is full.
        std::thread::spawn(move || lines.for_each(drop));
        Self {
            child,
            address: address.expect("the server logs its address"),
            cgroup,
            buffer_mib_max: buffer_mib_max.expect("the server logs the size of its buffer"),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn connect(address: SocketAddr) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    endpoint.connect().await.unwrap()
}

async fn call(channel: Channel, method: &str, request: Bytes) -> Result<Bytes, Status> {
    let mut grpc = Grpc::new(channel);
    grpc.ready()
        .await
        .map_err(|error| Status::unknown(error.to_string()))?;
    let path = format!("/rollplan.v1.RolloutPlanner/{method}");
    let path = PathAndQuery::try_from(path).unwrap();
    let answered = grpc.unary(Request::new(request), path, BytesCodec).await;
    answered.map(tonic::Response::into_inner)
}

/// The outcomes of the expensive calls.
#[derive(Default)]
struct Outcomes {
    answered: AtomicUsize,
    shed: AtomicUsize,
    refused: AtomicUsize,
    late: AtomicUsize,
}

impl Outcomes {
    fn note(&self, answered: &Result<Bytes, Status>) {
        let outcome = match answered {
            Ok(_) => &self.answered,
            Err(status) => match status.code() {
                Code::ResourceExhausted if status.get_details_retry_info().is_some() => &self.shed,
                Code::ResourceExhausted | Code::InvalidArgument => &self.refused,
                Code::DeadlineExceeded => &self.late,
                other => panic!("{other:?}: {status:?}"),
            },
        };
        outcome.fetch_add(1, Ordering::Relaxed);
    }
}

/// A method, and an expensive request.
type Expensive = (&'static str, Bytes);

/// Sends expensive calls to a server with this memory limit, and with this buffer or the default one. Returns the number of
/// expensive calls that were answered.
async fn withstand(mib: u64, buffer_mib_max: Option<u64>, expensive: &[Expensive]) -> usize {
    let mut server = Server::start(mib, buffer_mib_max);
    let address = server.address;
    let over = Arc::new(AtomicBool::new(false));
    let usual = Bytes::from(request::request(3, 13).encode_to_vec());
    let usual_calls = tokio::spawn({
        let over = Arc::clone(&over);
        async move {
            let channel = connect(address).await;
            let mut count = 0;
            while !over.load(Ordering::Relaxed) || count == 0 {
                let answered = call(channel.clone(), "PlanRollout", usual.clone());
                let answered = tokio::time::timeout(PATIENCE, answered);
                answered
                    .await
                    .expect("typical calls are answered in time")
                    .unwrap();
                count += 1;
            }
            count
        }
    });
    let outcomes = Arc::new(Outcomes::default());
    let attackers = (0..ATTACKERS).map(|attacker| {
        let (outcomes, expensive) = (Arc::clone(&outcomes), expensive.to_vec());
        tokio::spawn(async move {
            let channel = connect(address).await;
            let from_here = expensive.iter().cycle().skip(attacker);
            for (method, request) in from_here.take(expensive.len()) {
                outcomes.note(&call(channel.clone(), method, request.clone()).await);
            }
        })
    });
    for attacker in attackers.collect::<Vec<_>>() {
        attacker.await.unwrap();
    }
    over.store(true, Ordering::Relaxed);
    let usual = usual_calls.await.unwrap();
    let Outcomes {
        answered,
        shed,
        refused,
        late,
    } = &*outcomes;
    let (buffer, peak) = (server.buffer_mib_max, server.cgroup.peak_bytes() >> 20);
    println!(
        "{mib} MiB, buffer of {buffer}: {answered:?} expensive calls answered, {shed:?} shed, {refused:?} refused, {late:?} late; \
         {usual} typical calls answered; peak memory {peak} MiB"
    );
    assert!(
        server.child.try_wait().unwrap().is_none(),
        "the kernel killed the server"
    );
    let most = 2 * buffer + IDLE_MIB;
    assert!(peak <= most, "{peak} MiB exceed the limit of {most} MiB");
    answered.load(Ordering::Relaxed)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn service_stays_within_its_memory_limit() {
    let shapes = shapes::all().into_iter();
    let expensive = shapes.filter(|shape| !shape.name.starts_with("usual"));
    let expensive: Vec<_> = expensive
        .map(|shape| (shape.method, Bytes::from(shape.bytes)))
        .collect();
    let mut answered = 0;
    // The default buffer is as large as the limit allows, so the kernel enforces the documented bound. The last server has a
    // smaller buffer, so that its bound is below its memory limit.
    for (mib, buffer) in [(256, None), (512, None), (1024, None), (1024, Some(96))] {
        answered += withstand(mib, buffer, &expensive).await;
    }
    // The smallest limit may leave no room for any expensive call, but the test needs calls that reach the planner.
    assert!(answered > 0);
}
