//! Compares the memory of requests of all shapes with what is counted before they are decoded, and measures their processor
//! time and how soon an interrupted call stops:
//!
//!     cargo bench -p rollplan-benches --bench bounds   (ONLY=labels for the shapes with that in their name)
//!     SEARCH=600 cargo bench -p rollplan-benches --bench bounds   (searches this many seconds for the most expensive
//!                                                         shapes; SEED=1, ONLY=PlanCanary for this method)
//!
//! Each shape runs in a separate process, so that its peak memory can be measured. "Between checks" is the longest time
//! between two checks for an interruption, over all methods. "Ending" is the longest time from the last check until a
//! method returned, including 16 interrupted runs: it encodes the answer, if any, and frees memory. `TRACE=5` prints
//! where more than 5 ms passed between two checks (with `CARGO_PROFILE_BENCH_STRIP=none`).

#![allow(clippy::unwrap_used, reason = "a benchmark that cannot start says so")]

mod search;

use std::cell::Cell;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use bytes::Bytes;
use mimalloc::MiMalloc;
use prost::Message as _;
use rollplan::service::{METHODS, Method, Status, find_method, memory};
use rollplan::wire::{self, Context, MEMORY_BYTES_MAX};
use rollplan_benches::request;
use rollplan_benches::shapes::{self, Shape};
use rollplan_core::interrupt::{Interrupt, Never};
use rustix::time::{ClockId, clock_gettime};

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

/// Methods that can also read a PlanRolloutRequest without options.
const SNAPSHOT_METHODS: [&str; 4] = ["PlanRollout", "ComputeStatus", "Rollback", "ListRevisions"];
const PLAN_RESTARTS: &str = "PlanRestarts";
const FORECAST_ROLLOUT: &str = "ForecastRollout";

fn method(name: &str) -> &'static Method {
    find_method(name).unwrap()
}

/// The size of the answer.
fn call(method: &Method, bytes: &[u8], questions: &Questions) -> Result<usize, Status> {
    let bytes = Bytes::copy_from_slice(bytes);
    questions.last.set(processor_time());
    let answer = method.call(bytes, &mut Context::until(questions));
    answer.map(|answer| answer.len())
}

/// The memory that the service reserves for a request, in bytes.
fn counted(name: &str, bytes: &[u8]) -> Result<usize, wire::Error> {
    memory(method(name), bytes, &Never)
}

/// The number of interrupted runs of each method.
const INTERRUPTIONS: usize = 16;

/// The longest time between two checks, and the longest time from the last check to the end, over all methods.
fn stretches(bytes: &[u8], methods: &[&Method]) -> (Duration, Duration) {
    let (mut between_checks, mut ending) = (Duration::ZERO, Duration::ZERO);
    for method in methods {
        let questions = Questions::never_interrupted();
        _ = call(method, bytes, &questions);
        ending = ending.max(processor_time() - questions.last.get());
        between_checks = between_checks.max(questions.longest.get());
        let count = questions.count.get();
        for part in 1..=INTERRUPTIONS {
            let questions = Questions::interrupted_at((count * part / INTERRUPTIONS).max(1));
            _ = call(method, bytes, &questions);
            ending = ending.max(processor_time() - questions.last.get());
        }
    }
    (between_checks, ending)
}

/// The files of this process.
fn directory() -> PathBuf {
    env::temp_dir().join(format!("bounds-{}", std::process::id()))
}

fn main() {
    if let Ok(path) = env::var("SHAPE_FILE") {
        let name = env::var("METHOD").unwrap();
        let bytes = std::fs::read(path).unwrap();
        return match env::var("COST") {
            Ok(_) => cost(&name, &bytes),
            Err(_) => row(&name, &bytes),
        };
    }
    std::fs::create_dir_all(directory()).unwrap();
    let number = |name: &str| env::var(name).ok().map(|text| text.parse().unwrap());
    let only = env::var("ONLY").unwrap_or_default();
    match number("SEARCH") {
        Some(seconds) => {
            let seed = number("SEED").unwrap_or(1);
            search::search(Duration::from_secs(seconds), seed, &only);
        }
        None => table(&only),
    }
    std::fs::remove_dir_all(directory()).unwrap();
}

/// Prints a row for each shape with this in its name.
fn table(only: &str) {
    println!(
        "| request | MB | time, ms | memory, MiB: counted | measured | between checks, ms | ending, ms | answer |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |");
    for shape in shapes::all() {
        if !shape.name.contains(only) {
            continue;
        }
        let row = in_process(&mut command(&shape));
        println!(
            "| {} | {:.2} | {} |",
            shape.name,
            shape.bytes.len() as f64 / 1e6,
            row.trim()
        );
    }
}

/// This program, for one shape.
fn command(shape: &Shape) -> Command {
    let path: &Path = &directory().join("request");
    std::fs::write(path, &shape.bytes).unwrap();
    let mut command = Command::new(env::current_exe().unwrap());
    command.env("SHAPE_FILE", path).env("METHOD", shape.method);
    command
}

fn in_process(command: &mut Command) -> String {
    let out = command.output().unwrap();
    eprint!("{}", String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success());
    String::from_utf8(out.stdout).unwrap()
}

/// What a request cost.
struct Cost {
    bytes: f64,
    nanos: f64,
    /// In bytes, without the request.
    memory: f64,
    /// The memory that the service reserves.
    counted: f64,
    is_answered: bool,
    outcome: String,
}

/// Measures a request in a process of its own.
fn measure(shape: &Shape) -> Cost {
    let out = in_process(command(shape).env("COST", "1"));
    let mut fields = out.trim().splitn(3, ' ');
    let mut number = || fields.next().unwrap().parse().unwrap();
    let (nanos, memory) = (number(), number());
    let outcome = fields.next().unwrap();
    Cost {
        bytes: shape.bytes.len() as f64,
        nanos,
        memory,
        counted: counted(shape.method, &shape.bytes).unwrap_or(MEMORY_BYTES_MAX) as f64,
        is_answered: outcome.ends_with(" bytes"),
        outcome: outcome.to_owned(),
    }
}

/// Prints processor time in nanoseconds, memory in bytes, and the outcome.
fn cost(name: &str, bytes: &[u8]) {
    let method = method(name);
    // What the allocator takes for any request does not count.
    let usual = request::request(3, 13).encode_to_vec();
    _ = call(&METHODS[0], &usual, &Questions::never_interrupted());
    let before = status_mib("VmRSS:");
    let start = processor_time();
    let outcome = call(method, bytes, &Questions::never_interrupted());
    let mut took = processor_time() - start;
    let peak = (status_mib("VmHWM:") - before).max(0.0);
    // The first call of a process is slower.
    if took < Duration::from_millis(20) {
        let start = processor_time();
        _ = call(method, bytes, &Questions::never_interrupted());
        took = took.min(processor_time() - start);
    }
    let memory = peak * f64::from(1 << 20);
    println!("{} {memory:.0} {}", took.as_nanos(), text(&outcome));
}

/// An outcome on one line.
fn text(outcome: &Result<usize, Status>) -> String {
    match outcome {
        Ok(bytes) => format!("{bytes} bytes"),
        Err(status) => status.message.chars().take(70).collect(),
    }
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
fn row(name: &str, bytes: &[u8]) {
    let before = status_mib("VmRSS:");
    let timed = || {
        let start = processor_time();
        let outcome = call(method(name), bytes, &Questions::never_interrupted());
        (processor_time() - start, outcome)
    };
    let (mut took, outcome) = timed();
    let peak = status_mib("VmHWM:") - before;
    // Most of a shorter time would be that of starting the process.
    if took < Duration::from_millis(20) {
        let mut times: Vec<_> = (0..21).map(|_| timed().0).collect();
        times.sort();
        took = times[10];
    }
    let counted = counted(name, bytes);
    // Requests that are refused for their size are not decoded. For other snapshots, several methods are measured.
    let methods: Vec<&Method> = match counted {
        Ok(_) if name == SNAPSHOT_METHODS[0] => SNAPSHOT_METHODS.map(method).to_vec(),
        _ => vec![method(name)],
    };
    let is_decoded = counted.is_ok();
    let memory = counted.unwrap_or_default();
    let memory_max = (memory + bytes.len()) as f64 / f64::from(1 << 20) + PROCESS_MIB;
    if is_decoded && peak > memory_max {
        eprintln!("{peak:.1} MiB were counted as {memory_max:.1} MiB with request and process:");
    }
    let (between_checks, ending) = stretches(bytes, &methods);
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    println!(
        "{:.2} | {:.1} | {peak:.1} | {:.1} | {:.1} | {}",
        ms(took),
        memory as f64 / f64::from(1 << 20),
        ms(between_checks),
        ms(ending),
        text(&outcome),
    );
}
