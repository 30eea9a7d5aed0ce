//! Malicious and broken clients: meanwhile, other calls and health checks are answered, and memory is bounded.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use rollplan::client::RolloutPlannerClient;
use rollplan::wire::{OBJECTS_MAX, REQUEST_BYTES_MAX};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use super::observed::{get, sample};
use super::process::{Log, Process};
use super::raw::{self, PLAN, PREFACE, framed};
use super::{PATIENCE, connect, mk_request, mk_request_with_long_answer};

/// Runs well-behaved clients during an attack: calls and health checks must succeed. Returns the
/// maximum memory of the server in MiB.
async fn withstand(server: &Process, attack: impl Future<Output = ()>) -> u64 {
    let over = Arc::new(AtomicBool::new(false));
    let answered = Arc::new(AtomicU32::new(0));
    let good = {
        let (over, answered, address) = (Arc::clone(&over), Arc::clone(&answered), server.address);
        let http = server.http;
        tokio::spawn(async move {
            let channel = connect(address).await;
            let mut client = RolloutPlannerClient::new(channel.clone());
            let mut health = HealthClient::new(channel);
            while !over.load(Ordering::Relaxed) || answered.load(Ordering::Relaxed) == 0 {
                client.plan_rollout(mk_request()).await.unwrap();
                let check = health.check(HealthCheckRequest::default());
                timeout(PATIENCE, check).await.unwrap().unwrap();
                let ready = timeout(PATIENCE, get(http, "/readyz")).await.unwrap();
                assert_eq!(ready.0, 200);
                // New connections are accepted, too.
                let mut other = RolloutPlannerClient::new(connect(address).await);
                other.plan_rollout(mk_request()).await.unwrap();
                answered.fetch_add(1, Ordering::Relaxed);
            }
        })
    };
    let mut most = 0;
    tokio::pin!(attack);
    loop {
        most = most.max(server.resident_mib());
        tokio::select! {
            () = &mut attack => break,
            () = sleep(Duration::from_millis(50)) => {}
        }
        assert!(!good.is_finished(), "{:?}", good.await);
    }
    over.store(true, Ordering::Relaxed);
    good.await.unwrap();
    most.max(server.resident_mib())
}

/// The number of connections to open: ROLLPLAN_IDLE_CONNECTIONS, or the limit of open files, but at most 10,000.
fn idle_connections() -> usize {
    if let Ok(count) = std::env::var("ROLLPLAN_IDLE_CONNECTIONS") {
        return count.parse().unwrap();
    }
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let files = limits.lines().find(|it| it.starts_with("Max open files"));
    let soft = files.unwrap().split_whitespace().nth(3).unwrap();
    let soft: usize = soft.parse().unwrap_or(usize::MAX);
    // Other tests need open files, too.
    let count = 10_000.min(soft.saturating_sub(500));
    println!("{count} idle connections");
    count
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_cost_little() {
    let server = Process::start(&[]);
    let before = server.resident_mib();
    let count = idle_connections();
    let mut idle = Vec::new();
    let attack = async {
        for i in 0..count {
            let mut stream = TcpStream::connect(server.address).await.unwrap();
            // Half of them send the preface, the other half nothing.
            if i % 2 == 0 {
                stream.write_all(PREFACE).await.unwrap();
            }
            idle.push(stream);
        }
    };
    let most = withstand(&server, attack).await;
    println!("{count} idle connections: {before} MiB before, {most} MiB at most");
    // 20 KiB each should suffice.
    assert!(most < before + 32 + count as u64 / 32, "{most} MiB");
}

/// Clients request large answers and do not read them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_of_slow_readers_is_bounded() {
    let server = Process::start(&["--buffer-mib-max", "64"]);
    let request = mk_request_with_long_answer(1 << 20);
    let body = framed(&request);
    let attack = async {
        let attackers = (0..10).map(|_| {
            let body = body.clone();
            let address = server.address;
            tokio::spawn(async move {
                let mut raw = raw::connect(address).await;
                let mut refused = 0;
                let mut kept = Vec::new();
                for _ in 0..12 {
                    let answered = async {
                        raw.send = raw.send.clone().ready().await?;
                        let request = raw::request(PLAN, &[]);
                        let (answer, mut stream) = raw.send.send_request(request, false)?;
                        send(&mut stream, body.clone()).await;
                        answer.await
                    };
                    let Ok(answer) = answered.await else {
                        // The server has closed the connection, because its answers are not read.
                        refused += 1;
                        break;
                    };
                    let (parts, body) = answer.into_parts();
                    if parts.headers.contains_key("grpc-status") {
                        refused += 1;
                    }
                    // The window is not extended, so only the first part of the answer is sent.
                    kept.push(body);
                }
                (raw, kept, refused)
            })
        });
        let mut attackers: Vec<_> = attackers.collect();
        let mut all = Vec::new();
        for attacker in attackers.drain(..) {
            all.push(attacker.await.unwrap());
        }
        // 120 answers of 1 MiB exceed the limit, so some calls are refused.
        assert!(all.iter().map(|(_, _, refused)| refused).sum::<u32>() > 0);
    };
    let most = withstand(&server, attack).await;
    println!("slow readers: {most} MiB at most");
    assert!(most < 350, "{most} MiB");
}

/// Sends a whole body, as fast as the server reads it.
async fn send(stream: &mut h2::SendStream<Bytes>, mut body: Bytes) {
    while !body.is_empty() {
        stream.reserve_capacity(body.len());
        let capacity = std::future::poll_fn(|cx| stream.poll_capacity(cx)).await;
        let Some(Ok(capacity)) = capacity else {
            // The server refused the call before the end of the body.
            return;
        };
        let part = body.split_to(capacity.min(body.len()));
        if stream.send_data(part, body.is_empty()).is_err() {
            return;
        }
    }
}

/// A compressed message in the framing of gRPC.
fn compressed(message: &[u8], times: usize) -> Bytes {
    use std::io::Write as _;

    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    for _ in 0..times {
        encoder.write_all(message).unwrap();
    }
    let encoded = encoder.finish().unwrap();
    let mut body = BytesMut::new();
    body.put_u8(1);
    body.put_u32(u32::try_from(encoded.len()).unwrap());
    body.extend_from_slice(&encoded);
    body.freeze()
}

/// Wraps the bytes of fields in messages with these tags.
fn nested(tags: &[u8], fields: &[u8]) -> Vec<u8> {
    tags.iter().rev().fold(fields.to_vec(), |inside, tag| {
        let mut outside = vec![*tag];
        prost::encoding::encode_varint(inside.len() as u64, &mut outside);
        outside.extend(inside);
        outside
    })
}

/// Messages that are small on the wire and large in memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_of_compression_bombs_is_bounded() {
    let most = bombs(&[compressed(&vec![0; REQUEST_BYTES_MAX], 16)]).await;
    assert!(most < 300, "{most} MiB");
}

/// Messages that are small even decompressed, but large when decoded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_of_empty_message_bombs_is_bounded() {
    const COUNT: usize = 1 << 20;
    // Tags of the fields snapshot, answers and objects.
    const SNAPSHOT: u8 = (1 << 3) | 2;
    const ANSWERS: u8 = (6 << 3) | 2;
    const OBJECTS: u8 = (2 << 3) | 2;
    let objects = vec![r#"{"kind":"x"}"#; OBJECTS_MAX + 1].join(",");
    let list = format!(r#"{{"kind":"List","items":[{objects}]}}"#);
    let most = bombs(&[
        compressed(&nested(&[SNAPSHOT], &[ANSWERS, 0].repeat(COUNT)), 1),
        // Few enough to be decoded, but too many for a plan.
        compressed(&nested(&[SNAPSHOT], &[ANSWERS, 0].repeat(COUNT / 8)), 1),
        compressed(&nested(&[SNAPSHOT, OBJECTS], list.as_bytes()), 1),
    ])
    .await;
    // Two calls at once, and the memory of an idle server (docs/guides/operations.md).
    assert!(most < 2 * 300 + 50, "{most} MiB");
}

/// Sends these from several clients. Returns the maximum memory of the server in MiB.
async fn bombs(bombs: &[Bytes]) -> u64 {
    let server = Process::start(&["--large-plans-max", "2"]);
    let attack = async {
        let attackers = (0..4).map(|_| {
            let (bombs, address) = (bombs.to_vec(), server.address);
            tokio::spawn(async move {
                let mut raw = raw::connect(address).await;
                for body in bombs.iter().cycle().take(8) {
                    let request = raw::request(PLAN, &[("grpc-encoding", "gzip")]);
                    let (answer, mut stream) = raw.send.send_request(request, false).unwrap();
                    send(&mut stream, body.clone()).await;
                    let status = raw::receive(answer).await.unwrap().status;
                    // Too large, or too large together.
                    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
                }
            })
        });
        for attacker in attackers.collect::<Vec<_>>() {
            attacker.await.unwrap();
        }
    };
    let most = withstand(&server, attack).await;
    println!("bombs: {most} MiB at most");
    most
}

/// Calls are canceled as soon as they start, at an unrealistic rate.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_of_rapid_resets_is_bounded() {
    let server = Process::start(&[]);
    let body = framed(&mk_request());
    let attack = async {
        let mut given_up = 0;
        let mut connections = 0;
        // The server closes such connections, because rapid resets are a known attack.
        while given_up < 20_000 && connections < 500 {
            connections += 1;
            let mut raw = raw::connect(server.address).await;
            for _ in 0..1_000 {
                let Ok(ready) = raw.send.clone().ready().await else {
                    break;
                };
                raw.send = ready;
                let Ok((answer, mut stream)) =
                    raw.send.send_request(raw::request(PLAN, &[]), false)
                else {
                    break;
                };
                let _ = stream.send_data(body.clone(), true);
                stream.send_reset(h2::Reason::CANCEL);
                drop(answer);
                given_up += 1;
            }
        }
        println!("{given_up} calls given up on {connections} connections");
        assert!(given_up >= 1_000);
    };
    let most = withstand(&server, attack).await;
    println!("calls given up: {most} MiB at most");
    assert!(most < 200, "{most} MiB");
}

async fn says(address: SocketAddr, bytes: &[u8]) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // The server may close the connection before all is sent.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let _ = timeout(PATIENCE, stream.read_to_end(&mut answer))
        .await
        .expect("the server closes the connection");
}

/// An HTTP/2 frame.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let head = [length[1], length[2], length[3], kind, flags];
    [&head[..], &stream.to_be_bytes(), payload].concat()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_and_header_floods_close_only_their_connection() {
    let server = Process::start(&[]);
    let address = server.address;
    let attack = async {
        for _ in 0..20 {
            says(
                address,
                b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
            )
            .await;
            // Endless HTTP/1 headers, and a body with broken chunks.
            let endless = [b"GET / HTTP/1.1\r\na: ", &[b'x'; 1 << 20][..]].concat();
            says(address, &endless).await;
            let chunks =
                b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\n";
            says(address, chunks).await;
            says(address, &[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3]).await;
            says(address, &[0xff; 4096]).await;
            // A frame that exceeds the maximum frame size.
            says(address, &[PREFACE, &[0xff; 64]].concat()).await;
            // Endless headers: one stream with CONTINUATION frames.
            let mut flood = PREFACE.to_vec();
            // Each frame has a literal header of 1 KiB, without END_HEADERS.
            let mut header = vec![0x40, 1, b'a', 0x7f, 0x81, 7];
            header.extend([b'x'; 1024]);
            flood.extend(frame(1, 0, 1, &header));
            for _ in 0..4_096 {
                flood.extend(frame(9, 0, 1, &header));
            }
            says(address, &flood).await;
        }
        // A valid request with too many headers.
        let mut raw = raw::connect(address).await;
        let long = "x".repeat(1 << 14);
        let request = raw::request(PLAN, &[("a", &long), ("b", &long)]);
        let answer = raw.call(request, framed(&mk_request())).await;
        assert!(answer.is_err() || answer.unwrap().status.code() != Code::Ok);
    };
    let most = withstand(&server, attack).await;
    println!("garbage: {most} MiB at most");
    assert!(most < 100, "{most} MiB");
}

/// With a limit of zero, each call writes a line to the log. It is not read, as with a full disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_log_blocks_no_call_and_drops_lines() {
    let server = Process::start_with(&["--slow-call", "0s"], Log::Unread);
    let channel = connect(server.address).await;
    let mut health = HealthClient::new(channel.clone());
    let dropped = async || {
        let (_, text) = get(server.http, "/metrics").await;
        let labels = [("reason", "not_written")];
        sample(&text, "rollplan_log_lines_dropped_total", &labels)
    };
    // A pipe holds some hundred lines, and the queue in memory 4,096.
    for _ in 0..6_000 {
        let check = health.check(HealthCheckRequest::default());
        timeout(PATIENCE, check).await.unwrap().unwrap();
    }
    assert!(dropped().await > 0.0);
    let mut client = RolloutPlannerClient::new(channel);
    client.plan_rollout(mk_request()).await.unwrap();
}

/// SIGTERM with incomplete calls, open streams and a client that does not read: the process exits in time and successfully.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_is_bounded_with_hanging_clients() {
    // No call ends by its own deadline.
    let times = ["--deadline-max", "1h", "--drain-delay", "1s"];
    let mut server = Process::start(&[&times[..], &["--drain-grace", "2s"]].concat());
    let _silent = TcpStream::connect(server.address).await.unwrap();
    let _watch = super::stop::watch(server.address).await;
    let mut raw = raw::connect(server.address).await;
    let request = raw::request(PLAN, &[]);
    let (_answer, mut stream) = raw.send.send_request(request, false).unwrap();
    stream
        .send_data(framed(&mk_request()).slice(..50), false)
        .unwrap();
    server.signal("TERM");
    let status = tokio::task::spawn_blocking(move || server.ended());
    assert_eq!(status.await.unwrap().code(), Some(0));
}
