//! Measures the costs of kinds of plans relative to each other, in processor time of one thread and without a server.

use bytes::Bytes;
use prost::Message as _;
use rollplan::proto::ListRevisionsRequest;
use rollplan::wire;
use rollplan_core::interrupt::Never;
use rustix::time::{ClockId, clock_gettime};

use super::request;

/// The number of rounds of each kind. The fastest round counts, because other programs only make rounds slower.
const ROUNDS: usize = 40;
const CALLS_PER_ROUND: u32 = 50;
const MANY_PODS: usize = 1_000;

/// The name of a measurement, and the call to measure.
type Measured<'a> = (&'static str, &'a dyn Fn() -> usize);

/// A ratio.
pub(super) struct Ratio {
    pub(super) name: &'static str,
    pub(super) value: f64,
    /// The goal for later versions, if any.
    pub(super) goal: Option<f64>,
    /// The maximum, even on a busy machine.
    pub(super) max: f64,
}

/// Prints times in microseconds, and returns the ratios.
pub(super) fn measure() -> Vec<Ratio> {
    let typed = request::request(3, 13);
    let list = ListRevisionsRequest {
        snapshot: typed.snapshot.clone(),
    };
    let mut reported = typed.clone();
    reported.options.get_or_insert_default().report = true;
    let [typed, reported, json, create, typed_many, json_many] = [
        typed,
        reported,
        request::json_request(13, None),
        request::create_request(),
        request::request(3, MANY_PODS),
        request::json_request(MANY_PODS, None),
    ]
    .map(|request| Bytes::from(request.encode_to_vec()));
    // The bytes are shared, as those that the service receives.
    let plan = |bytes: &Bytes| {
        let answer = wire::plan_rollout_bytes_until(bytes.clone(), &Never);
        answer.unwrap().len()
    };
    let times = fastest(&[
        ("plan", &|| plan(&typed)),
        ("plan with its report", &|| plan(&reported)),
        ("plan from Kubernetes JSON", &|| plan(&json)),
        ("plan that creates a ReplicaSet", &|| plan(&create)),
        ("list of revisions", &|| {
            wire::list_revisions(list.clone()).unwrap().encoded_len()
        }),
        ("plan with 1,000 pods", &|| plan(&typed_many)),
        ("the same from Kubernetes JSON", &|| plan(&json_many)),
    ]);
    let [plan, reported, json, create, list, many, json_many] = times;
    let of = |name, time: f64, goal, max| Ratio {
        name,
        value: time / plan,
        goal,
        max,
    };
    vec![
        of("plan with its report / plan", reported, None, 1.5),
        of(
            "plan from JSON / plan from typed fields",
            json,
            Some(1.0),
            2.0,
        ),
        Ratio {
            name: "the same with 1,000 pods",
            value: json_many / many,
            goal: Some(1.0),
            max: 1.6,
        },
        of("plan with a create / plan", create, Some(1.2), 1.9),
        of("list of revisions / plan", list, None, 1.1),
    ]
}

fn fastest<const N: usize>(measured: &[Measured<'_>; N]) -> [f64; N] {
    let mut best = [f64::MAX; N];
    for _ in 0..ROUNDS {
        for ((_, call), best) in measured.iter().zip(&mut best) {
            let start = thread_micros();
            for _ in 0..CALLS_PER_ROUND {
                std::hint::black_box(call());
            }
            *best = best.min((thread_micros() - start) / f64::from(CALLS_PER_ROUND));
        }
    }
    println!("\n| without a server | µs |\n| --- | ---: |");
    for ((name, _), best) in measured.iter().zip(best) {
        println!("| {name} | {best:.1} |");
    }
    best
}

/// The processor time of this thread.
fn thread_micros() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 * 1e-3
}
