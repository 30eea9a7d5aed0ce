//! Parses the parts of a request for a forecast, except for the changed Deployment.

use rollplan_forecast::{ClusterLimits, Horizon, PodTimes};

use super::Parser;
use super::path::Path;
use crate::error::{Error, Reason};
use crate::limits::{POD_TIMES_MAX, SAMPLES_MAX, limit};
use crate::proto;

/// The longest time of a pod, in milliseconds: a year.
const TIME_MAX: i64 = 365 * 86_400_000;
/// The default number of samples.
const SAMPLES: i32 = 100;

impl Parser<'_> {
    pub(crate) fn pod_times(&mut self, times: Option<proto::PodTimes>) -> Result<PodTimes, Error> {
        let proto::PodTimes { start, termination } = times.unwrap_or_default();
        limit("pod_times.start", start.len(), POD_TIMES_MAX)?;
        limit("pod_times.termination", termination.len(), POD_TIMES_MAX)?;
        let path = Path::Root("pod_times");
        let mut millis = |times: Vec<prost_types::Duration>, field, low| {
            let path = path.field(field);
            let times = times.into_iter().enumerate();
            times
                .map(|(index, time)| self.millis(time, low, &path.index(index)))
                .collect()
        };
        Ok(PodTimes {
            start: millis(start, "start", 1),
            termination: millis(termination, "termination", 0),
        })
    }

    pub(crate) fn cluster_limits(&mut self, limits: Option<proto::ClusterLimits>) -> ClusterLimits {
        let proto::ClusterLimits {
            pods_in_quota,
            pods_on_nodes,
            create_back_off,
        } = limits.unwrap_or_default();
        let path = Path::Root("limits");
        let defaults = ClusterLimits::default();
        let back_off_path = path.field("create_back_off");
        ClusterLimits {
            pods_in_quota: self.optional_count(pods_in_quota, &path.field("pods_in_quota")),
            pods_on_nodes: self.optional_count(pods_on_nodes, &path.field("pods_on_nodes")),
            create_back_off: create_back_off.map_or(defaults.create_back_off, |time| {
                self.millis(time, 1, &back_off_path)
            }),
        }
    }

    /// The number of samples.
    pub(crate) fn samples(&mut self, samples: i32) -> Result<u32, Error> {
        let samples = match self.count(samples, &Path::Root("samples")) {
            0 => SAMPLES,
            samples => samples,
        };
        let count = usize::try_from(samples).unwrap_or(0);
        limit("samples", count, SAMPLES_MAX)?;
        Ok(samples.unsigned_abs())
    }

    /// The controller that carries out the rollout. `None` means that it depends on the kind of the Deployment.
    pub(crate) fn forecast_horizon(options: Option<&proto::PlanOptions>) -> Option<Horizon> {
        match options?.horizon() {
            proto::Horizon::Unspecified => None,
            proto::Horizon::Settled => Some(Horizon::Settled),
            proto::Horizon::Pass => Some(Horizon::Pass),
        }
    }

    /// A duration in milliseconds. Shorter ones than a millisecond count as one.
    fn millis(&mut self, time: prost_types::Duration, low: i64, path: &Path<'_>) -> i64 {
        let prost_types::Duration { seconds, nanos } = time;
        let nanos = i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
        if nanos < i128::from(low) {
            let reason = match nanos {
                0 => Reason::OutOfRange,
                _ => Reason::Negative,
            };
            let description = match low {
                0 => "must be a duration that is not negative",
                _ => "must be a duration above zero",
            };
            self.violation(path, reason, description);
            return low;
        }
        match i64::try_from(nanos / 1_000_000) {
            Ok(millis) if millis <= TIME_MAX => millis.max(low),
            _ => {
                self.violation(path, Reason::OutOfRange, "must be at most a year");
                TIME_MAX
            }
        }
    }
}
