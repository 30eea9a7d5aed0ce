//! When connections are renewed.

use std::time::Duration;

use rollplan::server::Config;
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::{mk_config, start_with};

/// Clients that connect together must not all have to reconnect together.
#[tokio::test]
async fn every_connection_has_an_age_of_its_own() {
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
            // Told to go, and with no call to wait for, the connection ends.
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
    // Of 20 ages within a minute, hardly ever all are within 5 seconds.
    assert!(*last - *first > Duration::from_secs(5), "{ages:?}");
}
