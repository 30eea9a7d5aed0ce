//! The totals of many worlds.

use std::fmt;

use crate::run::Failure;
use crate::tally::{Tallies, Tally};

/// Counts over many worlds.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The number of worlds.
    pub worlds: u64,
    counts: [u64; Tally::ALL.len()],
    /// The number of worlds in which each tally occurred.
    worlds_with: [u64; Tally::ALL.len()],
    /// The worlds with violations.
    pub failures: Vec<Failure>,
}

// === impl Summary ===

impl Default for Summary {
    fn default() -> Self {
        Self {
            worlds: 0,
            counts: [0; Tally::ALL.len()],
            worlds_with: [0; Tally::ALL.len()],
            failures: Vec::new(),
        }
    }
}

impl Summary {
    pub(crate) fn add(&mut self, tallies: &Tallies) {
        self.worlds += 1;
        for (index, (tally, ..)) in Tally::ALL.iter().enumerate() {
            let count = u64::from(tallies.get(*tally));
            self.counts[index] += count;
            self.worlds_with[index] += u64::from(count > 0);
        }
    }

    pub(crate) fn merge(&mut self, other: Self) {
        let Self {
            worlds,
            counts,
            worlds_with,
            failures,
        } = other;
        self.worlds += worlds;
        self.failures.extend(failures);
        for index in 0..counts.len() {
            self.counts[index] += counts[index];
            self.worlds_with[index] += worlds_with[index];
        }
    }

    /// The tallies that never occurred. Checks among them have not checked anything.
    #[must_use]
    pub fn never(&self) -> Vec<&'static str> {
        let all = Tally::ALL.iter().zip(&self.counts);
        all.filter(|(_, count)| **count == 0)
            .map(|((_, _, text), _)| *text)
            .collect()
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut last = "";
        for (index, (_, group, text)) in Tally::ALL.iter().enumerate() {
            if *group != last {
                writeln!(f, "{group}")?;
                last = group;
            }
            let (count, worlds) = (self.counts[index], self.worlds_with[index]);
            let never = if count == 0 { "  NEVER" } else { "" };
            writeln!(f, "  {text:<75} {count:>12} in {worlds:>9} worlds{never}")?;
        }
        write!(
            f,
            "{} worlds, {} violations",
            self.worlds,
            self.failures.len()
        )
    }
}
