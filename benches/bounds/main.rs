//! What requests of every shape take, beside what is estimated for them:
//!
//!     cargo bench --bench bounds      (ONLY=labels for the shapes with that in their name)
//!
//! Each shape is planned for in a process of its own, so that its peak of memory can be read. "Longest" is the longest
//! time without a question whether to go on.

#![allow(clippy::unwrap_used, reason = "a benchmark that cannot start says so")]

#[path = "../request.rs"]
#[allow(dead_code, reason = "other benchmarks measure keys in any order too")]
mod request;
mod shapes;

use std::cell::Cell;
use std::env;
use std::process::Command;
use std::time::Duration;

use mimalloc::MiMalloc;
use rollplan::wire;
use rollplan::wire::estimate::{Estimate, estimate_named};
use rollplan_core::interrupt::{Interrupt, Never};
use rustix::time::{ClockId, clock_gettime};

const MESSAGE: &str = "rollplan.v1.PlanRolloutRequest";

/// The program's own.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Never interrupts, and keeps the longest time between two questions.
struct Longest {
    last: Cell<Duration>,
    longest: Cell<Duration>,
    questions: Cell<usize>,
}

impl Longest {
    fn note(&self) {
        let now = processor_time();
        let took = now - self.last.replace(now);
        if env::var("TRACE").is_ok() && took > Duration::from_millis(5) {
            let trace = std::backtrace::Backtrace::force_capture().to_string();
            let lines = trace.lines().filter(|it| it.contains("rollplan")).take(6);
            eprintln!(
                "{took:.1?} before {}",
                lines.collect::<Vec<_>>().join(" <- ")
            );
        }
        self.longest.set(self.longest.get().max(took));
        self.questions.set(self.questions.get() + 1);
    }
}

impl Interrupt for Longest {
    fn is_interrupted(&self) -> bool {
        self.note();
        false
    }
}

fn main() {
    if let Ok(path) = env::var("SHAPE_FILE") {
        return one(&path);
    }
    let dir = env::temp_dir().join(format!("bounds-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let only = env::var("ONLY").unwrap_or_default();
    println!(
        "| request | MB | work, ms: estimated | measured | memory, MiB: estimated | measured | longest, ms | answer |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |");
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

/// Of this thread so far: the machine may have other work.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap()
}

fn status_mib(name: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|it| it.strip_prefix(name)).unwrap();
    let kib: f64 = line.trim().trim_end_matches(" kB").parse().unwrap();
    kib / 1024.0
}

/// The row of one shape.
fn one(path: &str) {
    let bytes = std::fs::read(path).unwrap();
    let before = status_mib("VmRSS:");
    let longest = Longest {
        last: Cell::new(processor_time()),
        longest: Cell::default(),
        questions: Cell::default(),
    };
    let start = processor_time();
    let answer = wire::plan_rollout_bytes_until(&bytes, &longest);
    longest.note();
    let mut took = processor_time() - start;
    let peak = status_mib("VmHWM:") - before;
    // The rest of the time is that of a process that has just started.
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
    let Estimate { memory, work } = estimate_named(MESSAGE, &bytes, &Never).unwrap_or_default();
    let answer = match answer {
        Ok(answer) => format!("{} bytes", answer.len()),
        Err(error) => error.to_string().chars().take(70).collect(),
    };
    println!(
        "{:.2} | {:.2} | {:.1} | {peak:.1} | {:.1} of {} | {answer}",
        work as f64 / 1e6,
        took.as_secs_f64() * 1e3,
        memory as f64 / f64::from(1 << 20),
        longest.longest.get().as_secs_f64() * 1e3,
        longest.questions.get(),
    );
}
