//! Measures the cost of a forecast with 100 samples, from the encoded request to the encoded response.
//!
//!     cargo bench -p rollplan-benches --bench forecast
//!
//! The input is a rollout in progress as in examples/mid-rollout.json, with more pods, and the change is another image.

#![allow(
    clippy::unwrap_used,
    reason = "a benchmark that cannot start may panic"
)]

use bytes::Bytes;
use divan::Bencher;
use mimalloc::MiMalloc;
use prost::Message as _;
use rollplan::proto;
use rollplan::service::MethodRequest as _;
use rollplan::wire::Context;
use rollplan_benches::request;
use serde_json::json;

/// The allocator of the program.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() {
    divan::main();
}

/// A forecast of a rollout of this many replicas.
fn mk_forecast(replicas: usize) -> proto::ForecastRolloutRequest {
    let mut items = request::objects(3, replicas * 13 / 10);
    let owners: Vec<_> = items
        .iter()
        .map(|item| item["metadata"]["ownerReferences"][0]["uid"].clone())
        .collect();
    let mut deployment = json!(null);
    for item in &mut items {
        let uid = item["metadata"]["uid"].clone();
        match item["kind"].as_str() {
            Some("Deployment") => {
                item["spec"]["replicas"] = replicas.into();
                deployment = item.clone();
            }
            Some("ReplicaSet") => {
                let pods = owners.iter().filter(|owner| **owner == uid).count();
                item["spec"]["replicas"] = pods.into();
                for counter in ["replicas", "readyReplicas", "availableReplicas"] {
                    item["status"][counter] = pods.into();
                }
                let annotations = &mut item["metadata"]["annotations"];
                annotations["deployment.kubernetes.io/desired-replicas"] =
                    replicas.to_string().into();
                annotations["deployment.kubernetes.io/max-replicas"] =
                    (replicas * 13 / 10).to_string().into();
            }
            _ => {}
        }
    }
    deployment["spec"]["template"]["spec"]["containers"][0]["image"] =
        "example.com/web:next".into();
    let change = proto::deployment_change::Change::Deployment(deployment.to_string());
    let second = |seconds| prost_types::Duration { seconds, nanos: 0 };
    proto::ForecastRolloutRequest {
        snapshot: request::request_of(&items).snapshot,
        changes: vec![proto::DeploymentChange {
            change: Some(change),
        }],
        pod_times: Some(proto::PodTimes {
            start: (5..25).map(second).collect(),
            ..proto::PodTimes::default()
        }),
        ..proto::ForecastRolloutRequest::default()
    }
}

/// Makes a complete forecast.
#[divan::bench(args = [10, 100, 1_000, 4_000], max_time = 20)]
fn bytes_to_bytes(bencher: Bencher<'_, '_>, replicas: usize) {
    let bytes = Bytes::from(mk_forecast(replicas).encode_to_vec());
    let method = proto::ForecastRolloutRequest::METHOD;
    bencher.bench(|| method.call(bytes.clone(), &mut Context::default()).unwrap());
}
