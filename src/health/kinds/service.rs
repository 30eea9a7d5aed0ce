//! Services: complete at once, unless they need a load balancer.

use super::observed::ObservedObject;
use crate::explain::{Blocker, Cause};
use crate::report::{Phase, Report};
use crate::text::{KUBERNETES_MAX, because, one_line};

/// The fields of a Service that a report uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// Whether `spec.type` is LoadBalancer.
    pub is_load_balancer: bool,
    /// `spec.clusterIP`.
    pub cluster_ip: String,
    /// The addresses and host names in `status.loadBalancer.ingress`.
    pub addresses: Vec<String>,
}

pub(super) fn report(service: &Service, object: &ObservedObject<'_>) -> Report {
    if !service.is_load_balancer {
        return object.complete("is ready", Vec::new());
    }
    if let Some(address) = service
        .addresses
        .first()
        .filter(|_| !service.cluster_ip.is_empty())
    {
        let address = one_line(address, KUBERNETES_MAX);
        return object.complete(&format!("has a load balancer at {address}"), Vec::new());
    }
    let events = object.context.events_about(&object.snapshot.metadata.uid);
    let failed = events
        .filter(|event| event.kind == "Warning" && event.reason.contains("LoadBalancer"))
        .max_by_key(|event| event.last);
    let (message, remedy) = match failed {
        Some(event) => (
            format!(
                "its load balancer cannot be provisioned{}",
                because(&one_line(&event.message, KUBERNETES_MAX))
            ),
            "check the load balancer controller and the quotas of the cloud provider",
        ),
        None if service.cluster_ip.is_empty() => {
            ("it has no cluster IP address yet".to_owned(), "")
        }
        None => ("its load balancer has no address yet".to_owned(), ""),
    };
    let blocker = Blocker::new(Cause::NoAddress, message, remedy);
    object.open(Phase::Progressing, "is not ready", blocker)
}
