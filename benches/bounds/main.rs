//! Compares the costs of requests of all shapes with their estimates, and measures how soon an interrupted call stops:
//!
//!     cargo bench --bench bounds      (ONLY=labels for the shapes with that in their name)
//!
//! Each shape runs in a separate process, so that its peak memory can be measured. "Unasked" is the longest time
//! between two checks for an interruption, over all methods. "Ending" is the longest time from the last check until a
//! method returned, including 16 interrupted runs: it encodes the answer, if any, and frees memory. `TRACE=5` prints
//! where more than 5 ms passed between two checks (with `CARGO_PROFILE_BENCH_STRIP=none`).

#![allow(clippy::unwrap_used, reason = "a benchmark that cannot start says so")]

#[path = "../request.rs"]
#[allow(dead_code, reason = "other benchmarks measure keys in any order too")]
mod request;
mod shapes;

use std::cell::Cell;
use std::env;
use std::process::Command;
use std::time::Duration;

use bytes::Bytes;
use mimalloc::MiMalloc;
use prost::Message as _;
use rollplan::wire::estimate::{Estimate, estimate_named};
use rollplan::{proto, wire};
use rollplan_core::interrupt::{Interrupt, Never};
use rustix::time::{ClockId, clock_gettime};

const MESSAGE: &str = "rollplan.v1.PlanRolloutRequest";

/// The memory of a process for the smallest request.
const PROCESS_MIB: f64 = 6.0;

/// The allocator of the program.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Counts the checks for an interruption, measures the longest time between two of them, and interrupts at a given one.
struct Questions {
    interrupted_at: usize,
    /// The time of the interruption, or else of the last check.
    last: Cell<Duration>,
    longest: Cell<Duration>,
    count: Cell<usize>,
}

impl Questions {
    fn interrupted_at(interrupted_at: usize) -> Self {
        Self {
            interrupted_at,
            last: Cell::new(processor_time()),
            longest: Cell::default(),
            count: Cell::default(),
        }
    }

    fn never_interrupted() -> Self {
        Self::interrupted_at(usize::MAX)
    }

    fn note(&self) {
        let now = processor_time();
        let took = now - self.last.replace(now);
        let traced = env::var("TRACE").ok().and_then(|it| it.parse().ok());
        if traced.is_some_and(|ms| took > Duration::from_millis(ms)) {
            let trace = std::backtrace::Backtrace::force_capture().to_string();
            let lines = trace.lines().filter(|it| it.contains("rollplan"));
            let lines: Vec<_> = lines.skip(2).take(6).map(str::trim).collect();
            eprintln!("{took:.1?} before {}", lines.join(" <- "));
        }
        self.longest.set(self.longest.get().max(took));
    }
}

impl Interrupt for Questions {
    fn is_interrupted(&self) -> bool {
        let count = self.count.get() + 1;
        self.count.set(count);
        if count <= self.interrupted_at {
            self.note();
        }
        count >= self.interrupted_at
    }
}

/// A method that answers an encoded request.
type Method = fn(&[u8], &Questions);

/// All methods. Their requests start with the same field.
const METHODS: [Method; 4] = [
    |bytes, questions| {
        _ = wire::plan_rollout_bytes_until(Bytes::copy_from_slice(bytes), questions);
    },
    |bytes, questions| {
        let request = proto::ComputeStatusRequest::decode(bytes).unwrap();
        questions.last.set(processor_time());
        _ = wire::compute_status_until(request, questions);
    },
    |bytes, questions| {
        let request = proto::RollbackRequest::decode(bytes).unwrap();
        questions.last.set(processor_time());
        _ = wire::rollback_until(request, questions);
    },
    |bytes, questions| {
        let request = proto::ListRevisionsRequest::decode(bytes).unwrap();
        questions.last.set(processor_time());
        _ = wire::list_revisions_until(request, questions);
    },
];

/// The number of interrupted runs of each method.
const INTERRUPTIONS: usize = 16;

/// The longest time between two checks, and the longest time from the last check to the end, over all methods.
fn stretches(bytes: &[u8], methods: &[Method]) -> (Duration, Duration) {
    let (mut unasked, mut ending) = (Duration::ZERO, Duration::ZERO);
    for method in methods {
        let questions = Questions::never_interrupted();
        method(bytes, &questions);
        ending = ending.max(processor_time() - questions.last.get());
        unasked = unasked.max(questions.longest.get());
        let count = questions.count.get();
        for part in 1..=INTERRUPTIONS {
            let questions = Questions::interrupted_at((count * part / INTERRUPTIONS).max(1));
            method(bytes, &questions);
            ending = ending.max(processor_time() - questions.last.get());
        }
    }
    (unasked, ending)
}

fn main() {
    if let Ok(path) = env::var("SHAPE_FILE") {
        return one(&path);
    }
    let dir = env::temp_dir().join(format!("bounds-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let only = env::var("ONLY").unwrap_or_default();
    println!(
        "| request | MB | work, ms: estimated | measured | memory, MiB: estimated | measured | unasked, ms | ending, ms | answer |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |");
    for shape in shapes::all() {
        if !shape.name.contains(&only) {
            continue;
        }
        let path = dir.join("request");
        std::fs::write(&path, &shape.bytes).unwrap();
        let program = env::current_exe().unwrap();
        let out = Command::new(program).env("SHAPE_FILE", &path).output();
        let out = out.unwrap();
        eprint!("{}", String::from_utf8_lossy(&out.stderr));
        assert!(out.status.success());
        let row = String::from_utf8(out.stdout).unwrap();
        println!(
            "| {} | {:.2} | {} |",
            shape.name,
            shape.bytes.len() as f64 / 1e6,
            row.trim()
        );
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

/// The processor time of this thread, which does not depend on other work of the machine.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap()
}

fn status_mib(name: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|it| it.strip_prefix(name)).unwrap();
    let kib: f64 = line.trim().trim_end_matches(" kB").parse().unwrap();
    kib / 1024.0
}

/// Prints the row of one shape.
fn one(path: &str) {
    let bytes = std::fs::read(path).unwrap();
    let before = status_mib("VmRSS:");
    let start = processor_time();
    let answer = wire::plan_rollout_bytes(&bytes);
    let mut took = processor_time() - start;
    let peak = status_mib("VmHWM:") - before;
    // Most of a shorter time would be that of starting the process.
    if took < Duration::from_millis(20) {
        let times = (0..21).map(|_| {
            let start = processor_time();
            _ = wire::plan_rollout_bytes(&bytes);
            processor_time() - start
        });
        let mut times: Vec<_> = times.collect();
        times.sort();
        took = times[10];
    }
    let estimated = estimate_named(MESSAGE, &bytes, &Never);
    // Requests that are refused for their size are not decoded. For others, all methods are measured.
    let methods = match estimated {
        Ok(_) => &METHODS[..],
        Err(_) => &METHODS[..1],
    };
    let Estimate { memory, work } = estimated.unwrap_or_default();
    let memory_max = (memory + bytes.len()) as f64 / f64::from(1 << 20) + PROCESS_MIB;
    if methods.len() > 1 && peak > memory_max {
        eprintln!("{peak:.1} MiB were estimated as {memory_max:.1} MiB with request and process:");
    }
    let (unasked, ending) = stretches(&bytes, methods);
    let answer = match answer {
        Ok(answer) => format!("{} bytes", answer.len()),
        Err(error) => error.to_string().chars().take(70).collect(),
    };
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    println!(
        "{:.2} | {:.2} | {:.1} | {peak:.1} | {:.1} | {:.1} | {answer}",
        work as f64 / 1e6,
        ms(took),
        memory as f64 / f64::from(1 << 20),
        ms(unasked),
        ms(ending),
    );
}
