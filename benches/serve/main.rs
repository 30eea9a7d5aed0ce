//! Compares the cost of the service with servers that do less, all in one run:
//!
//!     cargo bench -p rollplan-benches --bench serve   (SECONDS per measurement, default 3; CALLS for memory, default 100000)
//!
//! Each server is a process with one thread for calls; the client has the rest of the machine. The results are calls per
//! second of wall-clock time, and per second of the server's CPU time, which is more reliable on a busy machine. Tables have
//! the medians of all rounds, the ratio is that of the best rounds.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a benchmark that cannot start may panic"
)]

mod load;
mod ratios;
mod server;

use std::env;
use std::time::{Duration, Instant};

use mimalloc::MiMalloc;
use prost::Message as _;
use rollplan_benches::request;

use load::Target;
use ratios::Ratio;
use server::{Kind, Process};

/// The allocator of the program, for all servers.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// The number of concurrent calls when throughput is measured.
const CALLERS: usize = 32;
/// The number of measurements of each server.
const ROUNDS: usize = 5;
/// A request of this many pods is measured with fewer concurrent calls.
const MANY_PODS: usize = 1_000;
const FEW_CALLERS: usize = 4;

// Limits that hold on a busy machine. docs/contributors/benchmarks.md has the actual results.
const IDLE_MIB_MAX: f64 = 20.0;
/// The maximum growth of memory in the last two fifths of the calls.
const GROWTH_MIB_MAX: f64 = 4.0;

fn number(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |text| text.parse().unwrap())
}

fn main() {
    // This program also runs the servers.
    if let Ok(kind) = env::var("ROLLPLAN_BENCH_SERVER") {
        return server::run(&kind);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    runtime.unwrap().block_on(measure());
}

async fn measure() {
    let time = Duration::from_secs(number("SECONDS", 3));
    let few = request::request(3, 13).encode_to_vec();
    println!(
        "PlanRollout of {} bytes: 10 replicas, 3 ReplicaSets, 13 pods; {CALLERS} concurrent calls, {ROUNDS} rounds of {} s\n",
        few.len(),
        time.as_secs()
    );
    let servers = Kind::ALL.map(Process::start);
    let idle_kib = servers.each_ref().map(Process::resident_kib);
    let of_few = rates(&servers.each_ref(), &few, CALLERS, time).await;
    let medians: Vec<_> = of_few.iter().map(|rates| medians(rates)).collect();
    let (ours, our_work) = medians[0];
    println!(
        "| server | calls per second | calls per second of CPU time | rollplan relative to it | idle memory |"
    );
    println!("| --- | ---: | ---: | ---: | ---: |");
    for ((kind, (rate, work)), kib) in Kind::ALL.iter().zip(medians).zip(idle_kib) {
        println!(
            "| {} | {rate:.0} | {work:.0} | {:.0} % | {:.1} MiB |",
            kind.name(),
            100.0 * our_work / work,
            kib as f64 / 1024.0
        );
    }
    let many = request::request(3, MANY_PODS).encode_to_vec();
    let compared = [&servers[0], &servers[Kind::DERIVE]];
    let of_many = rates(&compared, &many, FEW_CALLERS, time).await;
    // Other programs only make some of the rounds slower.
    let best = |rates: &[(f64, f64)]| rates.iter().map(|&(_, work)| work).fold(0.0, f64::max);
    print_ratios(
        best(&of_few[Kind::DERIVE]) / best(&of_few[0]),
        best(&of_many[1]) / best(&of_many[0]),
    );
    let idle_mib = idle_kib[0] as f64 / 1024.0;
    assert!(idle_mib < IDLE_MIB_MAX, "idle: {idle_mib:.1} MiB");

    let process = &servers[0];
    let target = Target::connect(process.address, &few).await;
    println!("\n| offered calls per second | successful | rejected | p50 | p99 |");
    println!("| ---: | ---: | ---: | ---: | ---: |");
    for share in [0.5, 0.9, 2.0] {
        let offered = ours * share;
        let open = target.open(offered, time * 2).await;
        println!(
            "| {:.0} ({share} × maximum) | {:.0}/s | {:.0} % | {:.1} ms | {:.1} ms |",
            offered,
            open.answered.len() as f64 / open.took.as_secs_f64(),
            100.0 * open.refused as f64 / (open.answered.len() + open.refused) as f64,
            millis(open.within(0.5)),
            millis(open.within(0.99)),
        );
        assert_eq!(open.failed, 0, "every rejected call must have a RetryInfo");
    }

    let calls = number("CALLS", 100_000);
    println!("\n| total calls | memory |\n| ---: | ---: |");
    let mut taken = Vec::new();
    for part in 1..=5 {
        target.calls(CALLERS, calls / 5).await;
        let mib = process.resident_kib() as f64 / 1024.0;
        println!("| {} | {mib:.1} MiB |", calls / 5 * part);
        taken.push(mib);
    }
    let growth = taken[4] - taken[2];
    assert!(growth <= GROWTH_MIB_MAX, "memory grew by {growth:.1} MiB");
}

/// Calls per second, and per second of CPU time, of each round of each server.
async fn rates(
    servers: &[&Process],
    request: &[u8],
    callers: usize,
    time: Duration,
) -> Vec<Vec<(f64, f64)>> {
    let mut targets = Vec::new();
    for process in servers {
        let target = Target::connect(process.address, request).await;
        // Warm up.
        target.closed(callers, time / 4).await;
        targets.push((process, target, Vec::new()));
    }
    for _ in 0..ROUNDS {
        for (process, target, rates) in &mut targets {
            let busy = process.busy_seconds();
            let start = Instant::now();
            let rate = target.closed(callers, time).await;
            let answered = rate * start.elapsed().as_secs_f64();
            rates.push((rate, answered / (process.busy_seconds() - busy)));
        }
    }
    targets.into_iter().map(|(.., rates)| rates).collect()
}

fn medians(rates: &[(f64, f64)]) -> (f64, f64) {
    let (by_clock, by_work): (Vec<_>, Vec<_>) = rates.iter().copied().unzip();
    (median(by_clock), median(by_work))
}

/// Prints how costs relate to each other, and checks those with a limit.
fn print_ratios(call: f64, call_with_many_pods: f64) {
    let calls = [
        Ratio {
            name: "call / call of bare tonic with serde's derive and a constant response",
            value: call,
            goal: Some(1.2),
            max: 3.5,
        },
        Ratio {
            name: "the same with 1,000 pods",
            value: call_with_many_pods,
            goal: Some(1.2),
            max: 3.5,
        },
    ];
    let ratios: Vec<Ratio> = calls.into_iter().chain(ratios::measure()).collect();
    println!("\n| ratio | measured | goal | limit |\n| --- | ---: | ---: | ---: |");
    for ratio in &ratios {
        let goal = ratio.goal.map_or("–".to_owned(), |goal| goal.to_string());
        let Ratio {
            name, value, max, ..
        } = ratio;
        println!("| {name} | {value:.2} | {goal} | {max} |");
    }
    for Ratio {
        name, value, max, ..
    } in ratios
    {
        assert!(value <= max, "{name}: {value:.2}");
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
