//! Measures the cost of a plan from the encoded request to the encoded response, and of its parts.
//!
//!     cargo bench -p rollplan-benches --bench plan
//!
//! The input is examples/mid-rollout.json with larger templates: 10 replicas, three ReplicaSets and 13 pods. Larger inputs
//! have more pods, or more ReplicaSets with a different template each.

#![allow(
    clippy::unwrap_used,
    reason = "a benchmark that cannot start may panic"
)]

use bytes::Bytes;
use divan::Bencher;
use divan::counter::BytesCount;
use mimalloc::MiMalloc;
use prost::Message as _;
use rollplan::proto::{self, PlanRolloutRequest};
use rollplan::service::MethodRequest as _;
use rollplan::wire::json::from_json as read_json;
use rollplan::wire::{self, Context};
use rollplan_benches::derive;
use rollplan_benches::request::{self, SIZES, create_request, request};
use rollplan_core::snapshot::{Options, Snapshot};
use rollplan_core::template::equal;

/// The allocator of the program.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() {
    divan::main();
}

fn snapshot(sets: usize, pods: usize) -> Snapshot {
    wire::parse_snapshot(request(sets, pods).snapshot).unwrap()
}

/// Reads the fields that the planner needs with serde's derive, and discards them.
#[divan::bench(args = SIZES)]
fn read_with_derive(bencher: Bencher<'_, '_>, (sets, pods): (usize, usize)) {
    let text = request::text(sets, pods);
    bencher
        .counter(BytesCount::of_str(&text))
        .bench(|| derive::read(&text).unwrap());
}

/// Reads and validates the objects, and compares each template with the Deployment's.
#[divan::bench(args = SIZES)]
fn parse(bencher: Bencher<'_, '_>, (sets, pods): (usize, usize)) {
    let request = request(sets, pods);
    bencher
        .with_inputs(|| request.snapshot.clone())
        .bench_values(wire::parse_snapshot);
}

/// Compares each decoded template with the Deployment's: the part of parsing that does not depend on the reader.
#[divan::bench(args = SIZES)]
fn compare_templates(bencher: Bencher<'_, '_>, (sets, pods): (usize, usize)) {
    let snapshot = snapshot(sets, pods);
    let own = snapshot.deployment.spec.template.value();
    let sets = snapshot.replica_sets.iter();
    let values: Vec<_> = sets.map(|set| set.template.value()).collect();
    bencher.bench(|| values.iter().filter(|value| equal(**value, own)).count());
}

/// Makes a settled plan. Templates are decoded if the planner needs their values.
#[divan::bench(args = SIZES)]
fn plan_settled(bencher: Bencher<'_, '_>, (sets, pods): (usize, usize)) {
    bencher
        .with_inputs(|| snapshot(sets, pods))
        .bench_refs(|snapshot| rollplan_core::plan_settled(snapshot, Options::default()));
}

/// Plans a single pass.
#[divan::bench(args = SIZES)]
fn plan_pass(bencher: Bencher<'_, '_>, (sets, pods): (usize, usize)) {
    bencher
        .with_inputs(|| snapshot(sets, pods))
        .bench_refs(|snapshot| rollplan_core::plan_pass(snapshot, Options::default()));
}

/// Processes a complete request, whose bytes are shared, as those that the service receives.
fn plan(bencher: Bencher<'_, '_>, request: &proto::PlanRolloutRequest) {
    let bytes = Bytes::from(request.encode_to_vec());
    bencher
        .counter(BytesCount::new(bytes.len()))
        .bench(|| PlanRolloutRequest::METHOD.call(bytes.clone(), &mut Context::default()));
}

/// Processes a complete request.
#[divan::bench(args = SIZES)]
fn bytes_to_bytes(bencher: Bencher<'_, '_>, (sets, pods): (usize, usize)) {
    plan(bencher, &request(sets, pods));
}

/// Processes a complete request for which a ReplicaSet is created.
#[divan::bench]
fn bytes_to_bytes_create(bencher: Bencher<'_, '_>) {
    plan(bencher, &create_request());
}

/// Parses the same request from the JSON of Connect.
#[divan::bench(args = SIZES)]
fn from_json(bencher: Bencher<'_, '_>, (sets, pods): (usize, usize)) {
    let text = wire::json::to_json(&request(sets, pods)).unwrap();
    bencher
        .counter(BytesCount::of_str(&text))
        .bench(|| read_json::<proto::PlanRolloutRequest>(&text));
}
