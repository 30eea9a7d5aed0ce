//! The end of the process: signals, delays and exit codes.

use std::process::Command;
use std::time::Duration;

use rollplan::client::RolloutPlannerClient;
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::observed::get;
use super::process::Process;
use super::raw::{self, PLAN, framed};
use super::{connect, mk_request, until};

/// Times longer than any test: only another signal ends the process.
const FOREVER: [&str; 6] = [
    "--deadline-max",
    "1h",
    "--drain-delay",
    "1h",
    "--drain-grace",
    "1h",
];

async fn withdrawn(server: &Process) {
    until("readiness is withdrawn", async || {
        get(server.http, "/readyz").await.0 == 503
    })
    .await;
}

async fn closed(server: &Process) {
    until("the port is closed", async || {
        TcpStream::connect(server.address).await.is_err()
    })
    .await;
}

/// A call that never ends, because its request is never complete.
async fn hang(server: &Process) -> impl Sized + use<> {
    let mut raw = raw::connect(server.address).await;
    let request = raw::request(PLAN, &[]);
    let (answer, mut stream) = raw.send.send_request(request, false).unwrap();
    let part = framed(&mk_request()).slice(..50);
    stream.send_data(part, false).unwrap();
    // After a response on the same connection, the server has seen both calls.
    let check = raw::request(PLAN, &[]);
    raw.call(check, framed(&mk_request())).await.unwrap();
    (raw, answer, stream)
}

#[tokio::test]
async fn each_further_sigterm_escalates() {
    let mut server = Process::start(&FOREVER);
    let _hangs = hang(&server).await;
    server.signal("TERM");
    withdrawn(&server).await;
    // It keeps serving.
    let mut client = RolloutPlannerClient::new(connect(server.address).await);
    client.plan_rollout(mk_request()).await.unwrap();
    server.signal("TERM");
    closed(&server).await;
    assert!(server.is_running());
    server.signal("TERM");
    assert_eq!(server.ended().code(), Some(0));
}

#[tokio::test]
async fn first_sigint_skips_the_delay_and_a_second_one_the_grace() {
    let mut server = Process::start(&FOREVER);
    let _hangs = hang(&server).await;
    server.signal("INT");
    closed(&server).await;
    assert!(server.is_running());
    server.signal("INT");
    assert_eq!(server.ended().code(), Some(0));
    // Without calls in flight, one signal is enough.
    let mut server = Process::start(&FOREVER);
    server.signal("INT");
    assert_eq!(server.ended().code(), Some(0));
}

#[tokio::test]
async fn running_calls_are_aborted_after_the_grace() {
    let times = ["--drain-delay", "0s", "--drain-grace", "1s"];
    let mut server = Process::start(&[&FOREVER[..2], &times].concat());
    let _hangs = hang(&server).await;
    let asked = Instant::now();
    server.signal("TERM");
    assert_eq!(server.ended().code(), Some(0));
    assert!(asked.elapsed() >= Duration::from_secs(1));
}

/// Without file descriptors, the runtime cannot start.
#[test]
fn process_that_cannot_start_exits_with_70() {
    // The loader of the program needs one descriptor, the runtime several.
    let script = "ulimit -n 4; exec \"$0\" serve --listen 127.0.0.1:0";
    let run = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_rollplan")])
        .output()
        .unwrap();
    let said = String::from_utf8(run.stderr).unwrap();
    assert_eq!(run.status.code(), Some(70), "{said}");
    assert!(said.starts_with("error: cannot start: "), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}
