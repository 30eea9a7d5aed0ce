//! The maximum age of connections.

use std::time::Duration;

use rollplan::server::Config;
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::{mk_config, start_with};

/// Clients that connect at the same time should not all reconnect at the same time.
#[tokio::test]
async fn connection_ages_are_spread() {
    let age = Duration::from_secs(300);
    let serving = start_with(Config {
        connection_age_max: Some(age),
        ..mk_config()
    })
    .await;
    let mut connections = Vec::new();
    for _ in 0..20 {
        let stream = TcpStream::connect(serving.address).await.unwrap();
        let (send, connection) = h2::client::handshake(stream).await.unwrap();
        connections.push((send.ready().await.unwrap(), connection));
    }
    // From here on, time advances only when there is nothing else to do.
    tokio::time::pause();
    let start = Instant::now();
    let closed = connections.into_iter().map(|(send, connection)| {
        tokio::spawn(async move {
            // After the GOAWAY, a connection without calls ends.
            connection.await.unwrap();
            drop(send);
            start.elapsed()
        })
    });
    let mut ages = Vec::new();
    for closed in closed.collect::<Vec<_>>() {
        ages.push(closed.await.unwrap());
    }
    let (first, last) = (ages.iter().min().unwrap(), ages.iter().max().unwrap());
    let slack = Duration::from_secs(5);
    assert!(*first >= age.mul_f64(0.9) - slack && *last <= age.mul_f64(1.1) + slack);
    // 20 random ages within a minute are practically never all within 5 seconds.
    assert!(*last - *first > Duration::from_secs(5), "{ages:?}");
}
