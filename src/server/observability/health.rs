//! The health service `grpc.health.v1`: whether this server accepts calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tonic_health::ServingStatus;
use tonic_health::pb::health_server::{Health as HealthApi, HealthServer};
use tonic_health::server::HealthReporter;

use crate::protocol::methods::PLANNER;

/// The services with a health status: the whole server, and the planner. Other names are NOT_FOUND.
const SERVICES: [&str; 2] = ["", PLANNER];

/// The status that health checks report.
#[derive(Clone)]
pub(crate) struct Health {
    reporter: HealthReporter,
    is_serving: Arc<AtomicBool>,
}

// === impl Health ===

impl Health {
    /// Starts as NOT_SERVING.
    pub(crate) async fn new() -> (Self, HealthServer<impl HealthApi>) {
        let (reporter, service) = tonic_health::server::health_reporter();
        let health = Self {
            reporter,
            is_serving: Arc::default(),
        };
        health.not_serving().await;
        (health, service)
    }

    pub(crate) async fn serving(&self) {
        self.set(ServingStatus::Serving).await;
    }

    pub(crate) async fn not_serving(&self) {
        self.set(ServingStatus::NotServing).await;
    }

    /// The same status for HTTP probes.
    pub(crate) fn is_serving(&self) -> bool {
        self.is_serving.load(Ordering::Relaxed)
    }

    async fn set(&self, status: ServingStatus) {
        let is_serving = matches!(status, ServingStatus::Serving);
        self.is_serving.store(is_serving, Ordering::Relaxed);
        for service in SERVICES {
            self.reporter.set_service_status(service, status).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use tonic_health::pb::HealthCheckRequest;
    use tonic_health::pb::health_check_response::ServingStatus::{NotServing, Serving};
    use tonic_health::pb::health_client::HealthClient;

    use super::*;

    #[tokio::test]
    async fn status_is_not_serving_before_start_and_after_shutdown() {
        let (health, service) = Health::new().await;
        let mut client = HealthClient::new(service);
        let is_serving = health.clone();
        let mut check = async |expected| {
            assert_eq!(is_serving.is_serving(), expected == Serving);
            for service in SERVICES {
                let service = service.to_owned();
                let answer = client.check(HealthCheckRequest { service }).await.unwrap();
                assert_eq!(answer.into_inner().status(), expected);
            }
        };
        check(NotServing).await;
        health.serving().await;
        check(Serving).await;
        health.not_serving().await;
        check(NotServing).await;
    }
}
