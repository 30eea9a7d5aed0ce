//! The course of a watched rollout: the pods at each poll, and forecasts of the rest.

use std::time::Duration;

use super::input::Request;
use super::planner::Planner;
use crate::proto::{self, ForecastRolloutResponse, Phase, RolloutReport};
use crate::text::forecast::{Counts, Facts, Moment, Picture};

/// How often the rest is forecast.
const INTERVAL: Duration = Duration::from_secs(5);
/// The number of samples of a forecast of the rest, and of the one that is reported.
const FEW_SAMPLES: i32 = 20;
const MANY_SAMPLES: i32 = 100;

/// Why the rest of a rollout is forecast.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Purposes {
    /// The time left is shown.
    pub(super) shows_time_left: bool,
    /// A report shows the forecast that was made at the start.
    pub(super) reports_start: bool,
}

/// The observed course of a rollout.
#[derive(Clone, Debug, Default)]
pub(super) struct Course {
    moments: Vec<Moment>,
    limits: proto::RolloutLimits,
    /// The forecast made at the start of the rollout, and its time since the start of the watch.
    start: Option<(Duration, ForecastRolloutResponse)>,
    /// The time of the last forecast, and the time that was left then, if it is known.
    last: Option<(Duration, Option<Duration>)>,
    /// Whether a forecast has failed: an older service has no forecasts, and a snapshot may lack pods.
    has_failed: bool,
}

// === impl Purposes ===

impl Purposes {
    /// Whether the rest of this rollout is forecast: only Deployments have forecasts.
    pub(super) fn apply_to(self, request: &Request) -> bool {
        self != Self::default() && matches!(request.kind(), "Deployment" | "PlannedDeployment")
    }
}

// === impl Course ===

impl Course {
    /// A course with a forecast that was made at this time.
    #[cfg(test)]
    pub(super) fn with_forecast(elapsed: Duration, left: Option<Duration>) -> Self {
        Self {
            last: Some((elapsed, left)),
            ..Self::default()
        }
    }

    /// Adds an observation. Only Deployments have the counts.
    pub(super) fn observe(&mut self, report: &RolloutReport, elapsed: Duration) {
        let Some(counts) = &report.counts else {
            return;
        };
        self.limits = proto::RolloutLimits {
            replicas: counts.desired,
            pods_max: counts.max_total,
            available_min: counts.min_available,
            progress_deadline_seconds: None,
        };
        let number = i64::from;
        self.moments.push(Moment {
            at: elapsed.as_secs_f64(),
            counts: Counts {
                new: number(counts.updated),
                old: (number(counts.total) - number(counts.updated)).max(0),
                available: number(counts.available),
                terminating: number(counts.terminating.unwrap_or(0)),
            },
            events: vec![report.message.clone()],
        });
    }

    /// Forecasts the rest of a rollout in progress, if it is time to. The watch does not depend on it.
    pub(super) fn forecast(
        &mut self,
        planner: &Planner,
        snapshot: proto::Snapshot,
        report: &RolloutReport,
        elapsed: Duration,
        purposes: Purposes,
    ) {
        let awaits_user = report.verdict.as_ref().is_some_and(|it| it.awaits_user);
        if report.phase() != Phase::Progressing || report.counts.is_none() || awaits_user {
            self.last = None;
            return;
        }
        let is_start = purposes.reports_start && self.start.is_none();
        let is_due = match self.last {
            Some((last, _)) => elapsed >= last + INTERVAL,
            None => true,
        };
        if self.has_failed || !(is_start || purposes.shows_time_left && is_due) {
            return;
        }
        let request = proto::ForecastRolloutRequest {
            snapshot: Some(snapshot),
            samples: match is_start {
                true => MANY_SAMPLES,
                false => FEW_SAMPLES,
            },
            ..Default::default()
        };
        let Ok(response) = planner.forecast_rollout(request) else {
            self.has_failed = true;
            return;
        };
        self.last = Some((elapsed, median(&response)));
        if is_start {
            self.start = Some((elapsed, response));
        }
    }

    /// The time that is left, if it is known.
    pub(super) fn time_left(&self, elapsed: Duration) -> Option<Duration> {
        let (then, left) = self.last?;
        let left = left?.saturating_sub(elapsed.saturating_sub(then));
        (!left.is_zero()).then_some(left)
    }

    /// The forecast made at the start, if any, and the rollout as it was.
    pub(super) fn pictures(&self, subject: &str) -> Vec<Picture> {
        let mut pictures = Vec::new();
        if let Some((at, response)) = &self.start {
            let facts = Facts {
                subject,
                has_changes: false,
                response,
            };
            let mut picture = Picture::expected(&facts);
            picture.title = "Forecast at the start".to_owned();
            picture.shift(at.as_secs_f64());
            pictures.push(picture);
        }
        if let Some(last) = self.moments.last() {
            pictures.push(Picture {
                title: "As it was".to_owned(),
                subtitle: last.events.concat(),
                moments: self.moments.clone(),
                has_times: true,
                limits: self.limits,
                marks: Vec::new(),
            });
        }
        pictures
    }
}

/// The expected duration. `None` if it is not known, or only guessed.
fn median(response: &ForecastRolloutResponse) -> Option<Duration> {
    let duration = response.expected.as_ref()?.duration.as_ref()?;
    Duration::try_from(duration.median?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::options::ServerArgs;
    use crate::proto::{DurationRange, Forecast, Outcome, TrajectoryPoint};

    fn report(updated: i32, total: i32, available: i32) -> RolloutReport {
        RolloutReport {
            phase: Phase::Progressing.into(),
            counts: Some(proto::Counts {
                desired: 4,
                updated,
                total,
                available,
                terminating: Some(1),
                max_total: 5,
                min_available: 3,
                ..Default::default()
            }),
            message: format!("{updated} of 4 pods are updated"),
            ..Default::default()
        }
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn observed_rollout_is_drawn_beside_the_forecast() {
        let point = |seconds: i64, new: i32| TrajectoryPoint {
            offset: Some(prost_types::Duration { seconds, nanos: 0 }),
            pods: vec![new, 4 - new],
            available: vec![new, 4 - new],
            ..Default::default()
        };
        let response = ForecastRolloutResponse {
            expected: Some(Forecast {
                outcome: Outcome::Completes.into(),
                trajectory: vec![point(0, 0), point(20, 4)],
                ..Default::default()
            }),
            ..Default::default()
        };
        let mut course = Course {
            start: Some((seconds(2), response)),
            ..Course::default()
        };
        course.observe(&report(0, 4, 4), seconds(0));
        course.observe(&report(2, 5, 3), seconds(10));
        let pictures = course.pictures("Deployment shop/web");
        let shown = pictures.iter().map(|picture| {
            let moments = picture.moments.iter();
            let moments = moments.map(|it| (it.at, it.counts.new, it.counts.old));
            (picture.title.as_str(), moments.collect::<Vec<_>>())
        });
        assert_eq!(
            shown.collect::<Vec<_>>(),
            [
                ("Forecast at the start", vec![(2.0, 0, 4), (22.0, 4, 0)]),
                ("As it was", vec![(0.0, 0, 4), (10.0, 2, 3)]),
            ]
        );
        assert_eq!(pictures[1].limits.pods_max, 5);
        assert_eq!(pictures[1].subtitle, "2 of 4 pods are updated");
    }

    #[test]
    fn time_left_decreases_until_the_next_forecast() {
        let course = |left| Course::with_forecast(seconds(10), left);
        assert_eq!(
            course(Some(seconds(8))).time_left(seconds(13)),
            Some(seconds(5))
        );
        assert_eq!(course(Some(seconds(8))).time_left(seconds(18)), None);
        assert_eq!(course(None).time_left(seconds(10)), None);
        assert_eq!(Course::default().time_left(seconds(10)), None);
    }

    /// A service without forecasts is asked once.
    #[test]
    fn failed_forecasts_are_not_repeated() {
        let planner = Planner::new(ServerArgs::default()).unwrap();
        let mut course = Course::default();
        let purposes = Purposes {
            shows_time_left: true,
            reports_start: true,
        };
        let mut forecast = |report: &RolloutReport| {
            course.forecast(
                &planner,
                proto::Snapshot::default(),
                report,
                seconds(1),
                purposes,
            );
            course.has_failed
        };
        let complete = RolloutReport {
            phase: Phase::Complete.into(),
            ..report(4, 4, 4)
        };
        assert!(!forecast(&complete));
        assert!(forecast(&report(1, 4, 3)));
        assert!(course.start.is_none() && course.time_left(seconds(1)).is_none());
    }

    #[test]
    fn guessed_durations_are_not_known() {
        let response = |duration: Option<DurationRange>| ForecastRolloutResponse {
            expected: Some(Forecast {
                duration,
                ..Default::default()
            }),
            ..Default::default()
        };
        let seven = prost_types::Duration {
            seconds: 7,
            nanos: 0,
        };
        let range = |median| DurationRange {
            low: Some(seven),
            median,
            high: Some(seven),
        };
        assert_eq!(
            median(&response(Some(range(Some(seven))))),
            Some(seconds(7))
        );
        assert_eq!(median(&response(Some(range(None)))), None);
        assert_eq!(median(&response(None)), None);
    }
}
