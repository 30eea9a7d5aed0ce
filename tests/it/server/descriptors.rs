//! The limit of open files: probes are answered with any number of open connections.

use std::future::pending;

use rollplan::client::RolloutPlannerClient;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::observed::{get, sample};
use super::process::Process;
use super::{PATIENCE, connect, mk_request, until};

#[tokio::test]
async fn probes_are_answered_with_more_connections_than_descriptors() {
    let server = Process::start_after("ulimit -n 256", &[]);
    // When the accept queue is full, the system keeps retrying.
    let mut connections = JoinSet::new();
    for _ in 0..400 {
        let connection = TcpStream::connect(server.address);
        connections.spawn(async move {
            let _open = connection.await;
            pending::<()>().await;
        });
    }
    let scrape = async || get(server.http, "/metrics").await.1;
    until("all permitted connections are accepted", async || {
        sample(&scrape().await, "rollplan_open_connections", &[]) == 160.0
    })
    .await;
    for path in ["/livez", "/readyz"] {
        let (status, _) = timeout(PATIENCE, get(server.http, path)).await.unwrap();
        assert_eq!(status, 200, "{path}");
    }
    let scrape = scrape().await;
    assert_eq!(sample(&scrape, "rollplan_connections_max", &[]), 160.0);
    assert!(sample(&scrape, "process_open_fds", &[]) < 256.0);
    drop(connections);
    until("closed connections are not counted", async || {
        let (_, scrape) = get(server.http, "/metrics").await;
        sample(&scrape, "rollplan_open_connections", &[]) == 0.0
    })
    .await;
}

#[tokio::test]
async fn soft_limit_of_open_files_is_raised_to_the_hard_one() {
    let server = Process::start_after("ulimit -S -n 100; ulimit -H -n 700", &[]);
    let (_, scrape) = get(server.http, "/metrics").await;
    assert_eq!(sample(&scrape, "process_max_fds", &[]), 700.0);
    assert_eq!(sample(&scrape, "rollplan_connections_max", &[]), 604.0);
}

/// With so low a limit, the descriptors of the server itself use up those that are left for connections.
#[tokio::test]
async fn lack_of_descriptors_is_logged_and_temporary() {
    let mut server = Process::start_after("ulimit -n 23", &[]);
    let connections: Vec<_> = (0..20)
        .map(|_| std::net::TcpStream::connect(server.address).unwrap())
        .collect();
    let logged = tokio::task::spawn_blocking(move || {
        let is_expected = |line: &String| line.contains("cannot accept a connection");
        while !is_expected(&server.said.recv_timeout(PATIENCE).unwrap()) {}
        server
    });
    server = logged.await.unwrap();
    drop(connections);
    let mut client = RolloutPlannerClient::new(connect(server.address).await);
    client.plan_rollout(mk_request()).await.unwrap();
}
