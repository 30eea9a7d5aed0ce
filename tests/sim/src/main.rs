//! Runs simulated worlds: `rollplan-sim --worlds 1000000`, `--seed 7`, `--script FILE`.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use rollplan_sim::canary::{self, CanaryFlaw};
use rollplan_sim::script::Script;
use rollplan_sim::{
    Flaw, Summary, explore, generate, large_worlds, run_many, run_traced, shrink, small_worlds,
};

/// The number of failures after which the run ends. The first failure of each check is shrunk and printed.
const FAILURES_MAX: usize = 20;

/// Simulates clusters around the planner and an adapter.
#[derive(Parser)]
struct Args {
    /// Number of worlds to run.
    #[arg(long, default_value_t = 1)]
    worlds: u64,
    /// Seed of the first world. Random by default.
    #[arg(long, env = "ROLLPLAN_SEED")]
    seed: Option<u64>,
    /// Run this script instead, and print its events.
    #[arg(long)]
    script: Option<PathBuf>,
    /// Try every order of events in small worlds instead.
    #[arg(long, value_enum)]
    explore: Option<Size>,
    /// Fail if an event or a check never occurred.
    #[arg(long)]
    all: bool,
}

/// The set of worlds to explore.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Size {
    Small,
    Large,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let result = match (&args.script, args.explore) {
        (Some(path), _) => replay(path),
        (None, Some(size)) => explore_all(size),
        (None, None) => simulate(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn replay(path: &PathBuf) -> Result<(), String> {
    let text =
        std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let script: Script = text
        .parse()
        .map_err(|error| format!("{}: {error}", path.display()))?;
    match run_traced(&script, Flaw::None, true).violation {
        None => {
            println!("no violation");
            Ok(())
        }
        Some(violation) => Err(violation.to_string()),
    }
}

fn explore_all(size: Size) -> Result<(), String> {
    let worlds = match size {
        Size::Small => small_worlds(),
        Size::Large => large_worlds(),
    };
    let mut states = 0;
    for (name, small) in worlds {
        let begin = Instant::now();
        let explored = explore(small);
        states += explored.states;
        println!(
            "{name}: {} states, at most {} steps deep, {:.1} s",
            explored.states,
            explored.depth,
            begin.elapsed().as_secs_f64()
        );
        if let Some((broken, events)) = explored.broken {
            let script = Script {
                setup: small.setup,
                events,
            };
            return Err(format!(
                "{broken}\nafter the events calm, template 1, and then:\n{script}"
            ));
        }
        if !explored.unreached.is_empty() {
            return Err(format!("never reached: {:?}", explored.unreached));
        }
    }
    println!("{states} states, all checks pass");
    Ok(())
}

fn simulate(args: &Args) -> Result<(), String> {
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..1 << 48));
    println!("seed {seed}, {} worlds", args.worlds);
    let begin = Instant::now();
    let summary = run_many(seed, args.worlds, FAILURES_MAX, Flaw::None);
    println!("{summary}");
    let seconds = begin.elapsed().as_secs_f64();
    println!(
        "{seconds:.1} s, {:.0} worlds per second",
        summary.worlds as f64 / seconds
    );
    let mut shown = BTreeSet::new();
    for failure in &summary.failures {
        if !shown.insert(failure.violation.check) {
            println!("seed {}: {} again", failure.seed, failure.violation.check);
            continue;
        }
        println!("\nseed {}: {}", failure.seed, failure.violation);
        if failure.is_canary {
            let short = canary::shrink(&canary::generate(failure.seed), &failure.violation);
            println!("shrunk world with a canary: {:?}", short.setup);
            let _ = canary::run_traced(&short, CanaryFlaw::None, true);
            continue;
        }
        let short = shrink(&generate(failure.seed), Flaw::None);
        println!("shrunk script, for --script FILE:\n{short}");
    }
    verdict(&summary, args.all)
}

fn verdict(summary: &Summary, all: bool) -> Result<(), String> {
    if !summary.failures.is_empty() {
        return Err(format!("{} violations", summary.failures.len()));
    }
    let never = summary.never();
    if all && !never.is_empty() {
        return Err(format!("never occurred: {never:?}"));
    }
    Ok(())
}
