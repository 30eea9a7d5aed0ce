//! The load generator: a closed loop, in which callers wait for responses, and an open loop with a fixed rate.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rollplan_benches::bytes_codec::BytesCodec;
use tokio::sync::mpsc;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};
use tonic_types::StatusExt as _;

/// The number of connections, as for a few clients.
const CONNECTIONS: usize = 4;

/// A server, and the request to send.
pub(super) struct Target {
    channels: Vec<Channel>,
    request: Bytes,
}

/// The results of an open loop.
pub(super) struct Open {
    /// The times from the planned start of a call to its response, in ascending order.
    pub(super) answered: Vec<Duration>,
    pub(super) refused: usize,
    pub(super) failed: usize,
    pub(super) took: Duration,
}

impl Target {
    pub(super) async fn connect(address: SocketAddr, request: &[u8]) -> Self {
        let mut channels = Vec::new();
        for _ in 0..CONNECTIONS {
            let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
            channels.push(endpoint.connect().await.unwrap());
        }
        Self {
            channels,
            request: Bytes::copy_from_slice(request),
        }
    }

    fn call(&self, i: usize) -> impl Future<Output = Result<(), Status>> + Send + 'static {
        let mut grpc = Grpc::new(self.channels[i % CONNECTIONS].clone());
        let request = Request::new(self.request.clone());
        async move {
            let ready = grpc.ready().await;
            ready.map_err(|error| Status::unavailable(error.to_string()))?;
            let path = PathAndQuery::from_static("/rollplan.v1.RolloutPlanner/PlanRollout");
            grpc.unary(request, path, BytesCodec).await.map(drop)
        }
    }

    /// Returns the responses per second if each caller makes its next call as soon as it has a response.
    pub(super) async fn closed(&self, callers: usize, time: Duration) -> f64 {
        let start = Instant::now();
        let answered = self.run(callers, move |_| start.elapsed() < time).await;
        answered as f64 / start.elapsed().as_secs_f64()
    }

    /// Makes this many calls.
    pub(super) async fn calls(&self, callers: usize, count: u64) {
        self.run(callers, move |begun| begun < count).await;
    }

    async fn run(
        &self,
        callers: usize,
        should_continue: impl Fn(u64) -> bool + Copy + Send + Sync + 'static,
    ) -> u64 {
        let begun = Arc::new(AtomicU64::new(0));
        let tasks = (0..callers).map(|i| {
            let begun = Arc::clone(&begun);
            let target = Self {
                channels: self.channels.clone(),
                request: self.request.clone(),
            };
            tokio::spawn(async move {
                let mut answered = 0;
                while should_continue(begun.fetch_add(1, Ordering::Relaxed)) {
                    target.call(i).await.unwrap();
                    answered += 1;
                }
                answered
            })
        });
        let mut answered = 0;
        for task in tasks.collect::<Vec<_>>() {
            answered += task.await.unwrap();
        }
        answered
    }

    /// Starts calls at this rate, regardless of the responses.
    pub(super) async fn open(&self, rate: f64, time: Duration) -> Open {
        let (sender, mut ended) = mpsc::unbounded_channel();
        let start = Instant::now();
        let mut begun = 0_usize;
        while start.elapsed() < time {
            let due = (start.elapsed().as_secs_f64() * rate) as usize;
            for i in begun..due {
                // Measure from the planned start, so that delays of the client do not flatter the server.
                let due = start + Duration::from_secs_f64(i as f64 / rate);
                let (call, sender) = (self.call(i), sender.clone());
                tokio::spawn(async move {
                    let answer = call.await;
                    let _ = sender.send((due.elapsed(), answer));
                });
            }
            begun = due;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        drop(sender);
        let mut open = Open {
            answered: Vec::new(),
            refused: 0,
            failed: 0,
            took: Duration::ZERO,
        };
        while let Some((took, answer)) = ended.recv().await {
            match answer {
                Ok(()) => open.answered.push(took),
                Err(status)
                    if status.code() == Code::ResourceExhausted
                        && status.get_details_retry_info().is_some() =>
                {
                    open.refused += 1;
                }
                Err(status) => {
                    println!("{status:?}");
                    open.failed += 1;
                }
            }
        }
        open.took = start.elapsed();
        open.answered.sort();
        open
    }
}

impl Open {
    /// The time within which this share of the responses arrived.
    pub(super) fn within(&self, share: f64) -> Duration {
        let last = self.answered.len() - 1;
        self.answered[(last as f64 * share) as usize]
    }
}
