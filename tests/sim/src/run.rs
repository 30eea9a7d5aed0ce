//! Runs a single script, or the scripts of many seeds on all cores.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::canary::{self, CanaryFlaw};
use crate::check::Violation;
use crate::flaw::Flaw;
use crate::generate::generate;
use crate::script::Script;
use crate::summary::Summary;
use crate::tally::Tallies;
use crate::world::World;

/// The result of a world.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The events and checks that occurred.
    pub tallies: Tallies,
    /// The first violation, if there is one.
    pub violation: Option<Violation>,
}

/// Of so many seeds, one also has a world with a canary.
const CANARY_EVERY: u64 = 4;

/// Runs a script, followed by the final checks.
#[must_use]
pub fn run(script: &Script, flaw: Flaw) -> Outcome {
    run_traced(script, flaw, false)
}

/// Like [`run`]. Prints all events if `traced` is set.
#[must_use]
pub fn run_traced(script: &Script, flaw: Flaw, traced: bool) -> Outcome {
    guarded(|| {
        let mut world = World::new(script.setup, flaw);
        world.traced = traced;
        for event in &script.events {
            world.step(*event);
            if world.violation.is_some() {
                break;
            }
        }
        if world.violation.is_none() {
            world.end();
        }
        Outcome {
            tallies: world.tallies,
            violation: world.violation,
        }
    })
}

/// Runs the world with a canary of a seed, if it has one.
fn run_canary(seed: u64) -> Option<Outcome> {
    let has_canary = seed.is_multiple_of(CANARY_EVERY);
    has_canary.then(|| guarded(|| canary::run(&canary::generate(seed), CanaryFlaw::None)))
}

/// A panic is a violation.
fn guarded(world: impl FnOnce() -> Outcome) -> Outcome {
    let result = catch_unwind(AssertUnwindSafe(world));
    result.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Outcome {
            tallies: Tallies::default(),
            violation: Some(Violation {
                check: "panic",
                message: text.unwrap_or_default(),
            }),
        }
    })
}

/// A world with a violation.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed of its script.
    pub seed: u64,
    /// Whether it is a world with a canary.
    pub is_canary: bool,
    /// The violation.
    pub violation: Violation,
}

/// Runs the worlds of `count` seeds, beginning with `first`, on all cores. Stops after `failures_max` failures.
#[must_use]
pub fn run_many(first: u64, count: u64, failures_max: usize, flaw: Flaw) -> Summary {
    /// The number of seeds that a worker takes at a time.
    const SHARE: u64 = 64;
    let next = AtomicU64::new(0);
    let enough = AtomicBool::new(false);
    let work = || {
        let mut summary = Summary::default();
        while !enough.load(Ordering::Relaxed) {
            let begin = next.fetch_add(SHARE, Ordering::Relaxed);
            if begin >= count {
                break;
            }
            for offset in begin..count.min(begin + SHARE) {
                let seed = first.wrapping_add(offset);
                let own = (run(&generate(seed), flaw), false);
                let canary = run_canary(seed).map(|it| (it, true));
                for (outcome, is_canary) in [own].into_iter().chain(canary) {
                    summary.add(&outcome.tallies);
                    summary
                        .failures
                        .extend(outcome.violation.map(|violation| Failure {
                            seed,
                            is_canary,
                            violation,
                        }));
                }
                if summary.failures.len() >= failures_max {
                    enough.store(true, Ordering::Relaxed);
                    break;
                }
            }
        }
        summary
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut total = Summary::default();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            match worker.join() {
                Ok(summary) => total.merge(summary),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    total.failures.sort_by_key(|failure| failure.seed);
    total
}
