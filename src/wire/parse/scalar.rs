//! Parses numbers, strings and times.

use std::time::Duration;

use rollplan_core::time::Time;

use super::Parser;
use super::path::Path;
use crate::error::Reason;

impl Parser<'_> {
    /// A required string.
    pub(crate) fn text(&mut self, text: String, path: &Path<'_>) -> String {
        if text.is_empty() {
            self.violation(path, Reason::Required, "is required");
        }
        text
    }

    /// A span of time that must not be negative.
    pub(crate) fn span(&mut self, duration: prost_types::Duration, path: &Path<'_>) -> Duration {
        Duration::try_from(duration).unwrap_or_else(|_| {
            let description = "must be a duration that is not negative";
            self.violation(path, Reason::Negative, description);
            Duration::ZERO
        })
    }

    /// A number that must not be negative.
    pub(crate) fn count<N>(&mut self, count: N, path: &Path<'_>) -> N
    where
        N: Copy + Default + PartialOrd + std::fmt::Display,
    {
        if count < N::default() {
            let description = format_args!("is {count}, and may not be negative");
            self.violation(path, Reason::Negative, description);
            return N::default();
        }
        count
    }

    /// A number for which zero differs from absent.
    pub(super) fn optional_count(&mut self, count: Option<i32>, path: &Path<'_>) -> Option<i32> {
        count.map(|count| self.count(count, path))
    }

    /// A time in the years 1 to 9999.
    pub(crate) fn time(&mut self, time: prost_types::Timestamp, path: &Path<'_>) -> Option<Time> {
        let prost_types::Timestamp { seconds, nanos } = time;
        let time = u32::try_from(nanos)
            .ok()
            .and_then(|nanos| Time::new(seconds, nanos));
        if time.is_none() {
            let description = format_args!(
                "is {seconds} s and {nanos} ns after 1970, and must lie in the years 1 to 9999 with less \
                 than a billion nanoseconds"
            );
            self.violation(path, Reason::OutOfRange, description);
        }
        time
    }

    pub(super) fn optional_time(
        &mut self,
        time: Option<prost_types::Timestamp>,
        path: &Path<'_>,
    ) -> Option<Time> {
        time.and_then(|time| self.time(time, path))
    }
}
