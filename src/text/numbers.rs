//! The pod counts of a report, independent of the kind of its object.

use rollplan_wire::proto::RolloutReport;

/// The pod counts of an object. `None` for counts that its kind does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// The desired number of pods.
    pub desired: Option<i64>,
    /// The number of pods that must get the current template.
    pub to_update: Option<i64>,
    /// Pods with the current template.
    pub updated: Option<i64>,
    /// Ready pods.
    pub ready: Option<i64>,
    /// Available pods.
    pub available: Option<i64>,
    /// All pods.
    pub total: Option<i64>,
}

/// A counter of an object other than a Deployment.
pub fn counter(report: &RolloutReport, name: &str) -> Option<i64> {
    let counter = report.counters.iter().find(|it| it.name == name)?;
    Some(counter.value)
}

// === impl Numbers ===

impl Numbers {
    /// The pod counts of a report.
    pub fn of(report: &RolloutReport) -> Self {
        let counter = |name| counter(report, name);
        let Some(counts) = &report.counts else {
            let desired = counter("desired");
            let partition = counter("partition").unwrap_or(0);
            return Self {
                desired,
                to_update: desired.map(|desired| (desired - partition).max(0)),
                updated: counter("updated"),
                ready: counter("ready"),
                available: counter("available"),
                total: counter("total").or_else(|| counter("current")),
            };
        };
        let number = |count: i32| Some(i64::from(count));
        Self {
            desired: number(counts.desired),
            to_update: number(counts.desired),
            updated: number(counts.updated),
            ready: number(counts.ready),
            available: number(counts.available),
            total: number(counts.total),
        }
    }
}

#[cfg(test)]
mod tests {
    use rollplan_wire::proto::{Counter, Counts};

    use super::*;

    #[test]
    fn counters_of_all_kinds_map_to_numbers() {
        let counters = [
            ("desired", 5),
            ("total", 4),
            ("partition", 3),
            ("updated", 2),
        ];
        let counter = |(name, value): (&str, i64)| Counter {
            name: name.to_owned(),
            value,
        };
        let report = RolloutReport {
            counters: counters.into_iter().map(counter).collect(),
            ..Default::default()
        };
        let expected = Numbers {
            desired: Some(5),
            to_update: Some(2),
            updated: Some(2),
            total: Some(4),
            ..Numbers::default()
        };
        assert_eq!(Numbers::of(&report), expected);
        let counts = Counts {
            desired: 3,
            available: 1,
            ..Default::default()
        };
        let report = RolloutReport {
            counts: Some(counts),
            ..Default::default()
        };
        let numbers = Numbers::of(&report);
        assert_eq!((numbers.to_update, numbers.available), (Some(3), Some(1)));
        assert_eq!(Numbers::of(&RolloutReport::default()), Numbers::default());
    }
}
