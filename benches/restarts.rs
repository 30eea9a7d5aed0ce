//! Measures plans of restarts for large clusters, from the decoded request to the response.
//!
//!     cargo bench -p rollplan-benches --bench restarts
//!
//! Workloads have three references each. Every tenth configuration is shared by ten workloads. The time must grow linearly: at the
//! end, the time for a workload among 10,000 is compared with that among 2,500, measured in turns, so that a busy machine slows both
//! down.

#![allow(
    clippy::unwrap_used,
    reason = "a benchmark that cannot start may panic"
)]

use std::time::{Duration, Instant};

use divan::Bencher;
use divan::counter::ItemsCount;
use mimalloc::MiMalloc;
use rollplan::proto::{Configuration, PlanRestartsRequest, RestartOptions};
use rollplan_world::json::workload;
use serde_json::{Value, json};

// As the service does.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const LARGE: usize = 10_000;
const SMALL: usize = 2_500;
const ROUNDS: usize = 9;

fn main() {
    divan::main();
    compare();
}

/// Prints the time of the largest plans, compared with that of smaller ones.
fn compare() {
    for (name, request) in [
        ("first observation", request as fn(usize) -> _),
        ("at rest", recorded),
        ("all changed", changed),
    ] {
        let requests = [request(SMALL), request(LARGE)];
        let mut best = [Duration::MAX; 2];
        for _ in 0..ROUNDS {
            for (best, request) in best.iter_mut().zip(&requests) {
                let request = request.clone();
                let start = Instant::now();
                let response = rollplan::service::answer(request).unwrap();
                *best = start.elapsed().min(*best);
                drop(response);
            }
        }
        let [small, large] = best;
        let ratio = large.as_secs_f64() / small.as_secs_f64() / (LARGE as f64 / SMALL as f64);
        println!(
            "{name}: {LARGE} workloads in {large:.1?}, {ratio:.2} times the time per workload of {SMALL}"
        );
    }
}

const WORKLOADS: [usize; 3] = [100, 1_000, 10_000];

const KEYS: usize = 5;

/// Checksums of the keys of a configuration. `seed` changes one of them.
fn checksums(seed: u64) -> impl Iterator<Item = (String, String)> {
    (0..KEYS).map(move |key| {
        let value = if key == 0 { seed } else { 7 };
        (format!("KEY_{key}"), format!("{value:064x}"))
    })
}

fn request(count: usize) -> PlanRestartsRequest {
    let name = |index: usize, of: usize| match of {
        0 => format!("shared-{}", index / 10),
        of => format!("own-{index}-{of}"),
    };
    let workload = |index: usize| {
        let sources = (0..3).map(|of| json!({"configMapRef": {"name": name(index, of)}}));
        let container = json!({"envFrom": sources.collect::<Vec<_>>()});
        let mut workload = workload(&format!("web-{index}"), json!({}), container);
        workload["metadata"]["namespace"] = format!("shop-{}", index / 1_000).into();
        workload
    };
    let mut request = PlanRestartsRequest {
        now: Some(prost_types::Timestamp {
            seconds: 1_767_225_600,
            nanos: 0,
        }),
        objects: (0..count)
            .map(|index| workload(index).to_string())
            .collect(),
        options: Some(RestartOptions {
            all_workloads: true,
            ..RestartOptions::default()
        }),
        ..PlanRestartsRequest::default()
    };
    for index in 0..count {
        let own = (0..3).filter(|of| *of > 0 || index % 10 == 0);
        request.configurations.extend(own.map(|of| Configuration {
            kind: 1,
            namespace: format!("shop-{}", index / 1_000),
            name: name(index, of),
            key_checksums: checksums(0).collect(),
            ..Configuration::default()
        }));
    }
    request
}

/// The request with the state that the first plan records.
fn recorded(count: usize) -> PlanRestartsRequest {
    let mut request = request(count);
    let mut page = request.clone();
    let mut states = std::collections::HashMap::new();
    loop {
        let response = rollplan::service::answer(page.clone()).unwrap();
        for plan in response.plans {
            let call = plan.steps[0].call.as_ref().unwrap();
            let body: Value = serde_json::from_str(&call.body_json).unwrap();
            let operations = body.as_array().unwrap();
            let written = &operations.last().unwrap()["value"]["rollplan.dev/restart-state"];
            states.insert(plan.uid, written.as_str().unwrap().to_owned());
        }
        if response.continue_after.is_empty() {
            break;
        }
        page.continue_after = response.continue_after;
    }
    for text in &mut request.objects {
        let mut workload: Value = serde_json::from_str(text).unwrap();
        let metadata = &mut workload["metadata"];
        let state = &states[metadata["uid"].as_str().unwrap()];
        metadata["annotations"] = json!({"rollplan.dev/restart-state": state});
        *text = workload.to_string();
    }
    request
}

/// The request with the state of an earlier plan, after a key of every configuration has changed.
fn changed(count: usize) -> PlanRestartsRequest {
    let mut request = recorded(count);
    for configuration in &mut request.configurations {
        configuration.key_checksums = checksums(1).collect();
    }
    request
}

fn bench(bencher: Bencher<'_, '_>, request: &PlanRestartsRequest) {
    bencher
        .counter(ItemsCount::new(request.objects.len()))
        .with_inputs(|| request.clone())
        .bench_values(|request| rollplan::service::answer(request).unwrap());
}

/// No workload has a state yet: all are recorded.
#[divan::bench(args = WORKLOADS)]
fn first_observation(bencher: Bencher<'_, '_>, workloads: usize) {
    bench(bencher, &request(workloads));
}

/// Nothing has changed.
#[divan::bench(args = WORKLOADS)]
fn at_rest(bencher: Bencher<'_, '_>, workloads: usize) {
    bench(bencher, &recorded(workloads));
}

/// A key of every configuration has changed.
#[divan::bench(args = WORKLOADS)]
fn all_changed(bencher: Bencher<'_, '_>, workloads: usize) {
    bench(bencher, &changed(workloads));
}
