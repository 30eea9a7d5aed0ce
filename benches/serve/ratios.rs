//! Measures the costs of kinds of plans relative to each other, in processor time of one thread and without a server.

use bytes::Bytes;
use prost::Message as _;
use rollplan::proto::{ListRevisionsRequest, PlanRolloutRequest};
use rollplan::service::MethodRequest as _;
use rollplan::wire::Context;
use rollplan_benches::{derive, request};
use rustix::time::{ClockId, clock_gettime};

/// The number of rounds of each kind. The fastest round counts, because other programs only make rounds slower.
const ROUNDS: usize = 40;
const CALLS_PER_ROUND: usize = 50;

/// The numbers of pods: those of the example, many, and about as many as fit in a request.
const PODS: [usize; 3] = [13, 1_000, 5_000];

/// The name of a measurement, the number of its pods, and the call to measure.
type Measured<'a> = (&'static str, usize, &'a dyn Fn() -> usize);

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
    let texts = PODS.map(|pods| request::text(3, pods));
    let plans = PODS.map(|pods| request::request(3, pods));
    let list = ListRevisionsRequest {
        snapshot: plans[0].snapshot.clone(),
    };
    let mut reported = plans[0].clone();
    reported.options.get_or_insert_default().report = true;
    let [few, many, most] = plans.map(|request| Bytes::from(request.encode_to_vec()));
    let [reported, create] =
        [reported, request::create_request()].map(|it| Bytes::from(it.encode_to_vec()));
    // The bytes are shared, as those that the service receives.
    let plan = |bytes: &Bytes| {
        let answer = PlanRolloutRequest::METHOD.call(bytes.clone(), &mut Context::default());
        answer.unwrap().len()
    };
    let derive = |text: &str| {
        std::hint::black_box(derive::read(text).unwrap());
        text.len()
    };
    let times = fastest(&[
        ("plan", PODS[0], &|| plan(&few)),
        ("plan with its report", PODS[0], &|| plan(&reported)),
        ("plan that creates a ReplicaSet", PODS[0], &|| plan(&create)),
        ("list of revisions", PODS[0], &|| {
            rollplan::service::answer(list.clone())
                .unwrap()
                .encoded_len()
        }),
        ("plan", PODS[1], &|| plan(&many)),
        ("plan", PODS[2], &|| plan(&most)),
        ("serde's derive", PODS[0], &|| derive(&texts[0])),
        ("serde's derive", PODS[1], &|| derive(&texts[1])),
    ]);
    let [
        plan,
        reported,
        create,
        list,
        many,
        most,
        derive,
        derive_many,
    ] = times;
    let of = |name, value: f64, goal, max| Ratio {
        name,
        value,
        goal,
        max,
    };
    vec![
        of("plan with its report / plan", reported / plan, None, 1.5),
        of("plan with a create / plan", create / plan, Some(1.2), 1.9),
        of("list of revisions / plan", list / plan, None, 1.3),
        of("plan / serde's derive", plan / derive, None, 3.0),
        of("the same with 1,000 pods", many / derive_many, None, 3.0),
        of(
            "a pod of 5,000 / a pod of 1,000",
            most / many * PODS[1] as f64 / PODS[2] as f64,
            Some(1.0),
            2.0,
        ),
    ]
}

fn fastest<const N: usize>(measured: &[Measured<'_>; N]) -> [f64; N] {
    let mut best = [f64::MAX; N];
    for _ in 0..ROUNDS {
        for ((_, pods, call), best) in measured.iter().zip(&mut best) {
            let calls = (CALLS_PER_ROUND * PODS[0] / pods).max(1);
            let start = thread_micros();
            for _ in 0..calls {
                std::hint::black_box(call());
            }
            *best = best.min((thread_micros() - start) / calls as f64);
        }
    }
    println!("\n| without a server | pods | µs |\n| --- | ---: | ---: |");
    for ((name, pods, _), best) in measured.iter().zip(best) {
        println!("| {name} | {pods} | {best:.1} |");
    }
    best
}

/// The processor time of this thread.
fn thread_micros() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 * 1e-3
}
