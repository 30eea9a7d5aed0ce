//! The course of a watched rollout: the pods at each poll, and forecasts of the rest.

use std::time::Duration;

use prost_types::Timestamp;
use rollplan_text::forecast::{Counts, Facts, Moment, Picture};
use rollplan_text::span;
use rollplan_wire::proto::{
    self, ForecastRolloutResponse, Outcome, OutcomeCount, Outlook, Phase, RolloutReport,
};

use super::input::{Health, Node, Place, Request};
use super::planner::Planner;

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
    /// When it was first observed.
    since: Option<Timestamp>,
    /// The time since then at which the progress deadline was first seen to be exceeded.
    deadline_exceeded: Option<Duration>,
    /// The images of the ReplicaSets, the old ones first.
    images: [Vec<String>; 2],
    /// The forecast made at the start of the rollout, and its time since the start of the watch.
    start: Option<(Duration, ForecastRolloutResponse)>,
    /// The time of the last forecast, and the shortest and the longest time that was left then, if it is known.
    last: Option<(Duration, Option<[Duration; 2]>)>,
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
    pub(super) fn with_forecast(elapsed: Duration, left: Option<[Duration; 2]>) -> Self {
        Self {
            last: Some((elapsed, left)),
            ..Self::default()
        }
    }

    /// Adds an observation. Only Deployments have the counts. The tree has their ReplicaSets and pods.
    pub(super) fn observe(
        &mut self,
        report: &RolloutReport,
        tree: &[Node],
        now: Timestamp,
        elapsed: Duration,
    ) {
        let Some(counts) = &report.counts else {
            return;
        };
        self.since.get_or_insert(now);
        if report
            .deadline
            .is_some_and(|deadline| deadline.seconds <= now.seconds)
        {
            self.deadline_exceeded.get_or_insert(elapsed);
        }
        for set in tree {
            let is_new = set.label.ends_with(&format!(" {}", report.replica_set));
            if let Place::Images(images) = &set.place {
                self.images[usize::from(is_new)].clone_from(images);
            }
        }
        self.limits = proto::RolloutLimits {
            replicas: counts.desired,
            pods_max: counts.max_total,
            available_min: counts.min_available,
            progress_deadline_seconds: None,
        };
        let number = i64::from;
        let pods = tree.iter().flat_map(|set| &set.children);
        let terminating = pods.filter(|pod| pod.health == Health::Ending).count();
        self.moments.push(Moment {
            at: elapsed.as_secs_f64(),
            counts: Counts {
                new: number(counts.updated),
                old: (number(counts.total) - number(counts.updated)).max(0),
                available: number(counts.available),
                terminating: i64::try_from(terminating).unwrap_or(i64::MAX),
            },
            limits: [Some(counts.max_total), Some(counts.min_available)],
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
        let verdict = report.verdict.as_ref();
        let is_idle = report.phase() != Phase::Progressing || report.counts.is_none();
        // While something fails, the end is not in sight.
        let only_needs_time = verdict.is_some_and(|it| it.outlook() == Outlook::CompletesByItself);
        if is_idle || !only_needs_time {
            self.last = None;
        }
        if is_idle || verdict.is_some_and(|it| it.awaits_user) {
            return;
        }
        let is_start = purposes.reports_start && self.start.is_none();
        let is_due = match self.last {
            Some((last, _)) => elapsed >= last + INTERVAL,
            None => true,
        };
        let is_shown = purposes.shows_time_left && only_needs_time;
        if self.has_failed || !(is_start || is_shown && is_due) {
            return;
        }
        let request = proto::ForecastRolloutRequest {
            snapshot: Some(snapshot),
            samples: if is_start { MANY_SAMPLES } else { FEW_SAMPLES },
            ..Default::default()
        };
        let Ok(response) = planner.answer(request) else {
            self.has_failed = true;
            return;
        };
        self.last = only_needs_time.then(|| (elapsed, rest(&response)));
        if is_start {
            self.start = Some((elapsed, response));
        }
    }

    /// The time that is left, for example "about 8s left". If too few start times are known for one time, it is "8s to 20s
    /// left".
    pub(super) fn time_left(&self, elapsed: Duration) -> Option<String> {
        let (then, left) = self.last.as_ref()?;
        let passed = elapsed.saturating_sub(*then);
        let [shortest, longest] = left.as_ref()?.map(|left| left.saturating_sub(passed));
        let text = |left: Duration| span::exact(left.as_secs().max(1));
        match (text(shortest), text(longest)) {
            _ if longest.is_zero() => None,
            (shortest, longest) if shortest == longest => Some(format!("about {longest} left")),
            (shortest, longest) => Some(format!("{shortest} to {longest} left")),
        }
    }

    /// When it was watched, and the images, for example "Watched from 2026-11-26T10:00:00Z for 1m40s. Images: web:1 →
    /// web:2."
    pub(super) fn summary(&self) -> Option<String> {
        let since = Timestamp {
            nanos: 0,
            ..self.since?
        };
        let watched = Duration::from_secs_f64(self.moments.last()?.at);
        let watched = span::exact(watched.as_secs());
        let mut text = format!("Watched from {since} for {watched}.");
        let [old, new] = self.images.each_ref().map(|images| images.join(", "));
        match (old.as_str(), new.as_str()) {
            ("", "") => {}
            ("", images) | (images, "") => text += &format!(" Images: {images}."),
            (old, new) if old == new => text += &format!(" Images: {new}."),
            (old, new) => text += &format!(" Images: {old} → {new}."),
        }
        Some(text)
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
        // A single observation has no course.
        if let [_, .., last] = &self.moments[..] {
            let Counts { new, available, .. } = last.counts;
            // The page has the cause above the pictures, as a whole.
            let subtitle = format!(
                "{new} of {} pods are updated, and {available} available.",
                self.limits.replicas
            );
            pictures.push(Picture {
                title: "As it was".to_owned(),
                subtitle,
                moments: self.moments.clone(),
                has_times: true,
                limits: self.limits,
                deadline_exceeded: self.deadline_exceeded.map(|at| at.as_secs_f64()),
            });
        }
        pictures
    }
}

/// The shortest and the longest expected duration. They are the same if one duration is known: the median.
fn rest(response: &ForecastRolloutResponse) -> Option<[Duration; 2]> {
    let expected = response.expected.as_ref()?;
    let range = expected.duration.as_ref()?;
    let [low, high] = match range.median {
        Some(median) => [median; 2],
        None => [range.low?, range.high?],
    };
    let never = |it: &OutcomeCount| matches!(it.outcome(), Outcome::Never | Outcome::Undecided);
    let rest = [
        Duration::try_from(low).ok()?,
        Duration::try_from(high).ok()?,
    ];
    (!expected.outcomes.iter().any(never)).then_some(rest)
}

#[cfg(test)]
mod tests {
    use rollplan_wire::proto::{DurationRange, Forecast, TrajectoryPoint};

    use super::*;
    use crate::cli::options::ServerArgs;

    fn node(label: &str, place: Place, children: Vec<Node>) -> Node {
        Node {
            label: label.to_owned(),
            state: String::new(),
            health: Health::Ready,
            restarts: 0,
            created: None,
            place,
            children,
        }
    }

    fn report(updated: i32, total: i32, available: i32) -> RolloutReport {
        RolloutReport {
            replica_set: "web-b".to_owned(),
            deadline: Some(Timestamp {
                seconds: 1_005,
                nanos: 0,
            }),
            phase: Phase::Progressing.into(),
            counts: Some(proto::Counts {
                desired: 4,
                updated,
                total,
                available,
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
        let now = |seconds| Timestamp { seconds, nanos: 5 };
        let pod = |health| Node {
            health,
            ..node("web-0", Place::Node("a".to_owned()), Vec::new())
        };
        let images = |image: &str| Place::Images(vec![image.to_owned()]);
        let old = vec![pod(Health::Ending), pod(Health::Ready)];
        let old = node("ReplicaSet web-a", images("web:1"), old);
        let new = node("ReplicaSet web-b", images("web:2"), Vec::new());
        course.observe(
            &report(0, 4, 4),
            std::slice::from_ref(&old),
            now(1_000),
            seconds(0),
        );
        course.observe(&report(2, 5, 3), &[new, old], now(1_010), seconds(10));
        assert_eq!(
            course.summary().as_deref(),
            Some("Watched from 1970-01-01T00:16:40Z for 10s. Images: web:1 → web:2.")
        );
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
        let last = &pictures[1].moments[1];
        assert_eq!(last.limits, [Some(5), Some(3)]);
        assert_eq!(last.counts.terminating, 1);
        assert_eq!(pictures[1].deadline_exceeded, Some(10.0));
        assert_eq!(
            pictures[1].subtitle,
            "2 of 4 pods are updated, and 3 available."
        );
    }

    #[test]
    fn time_left_decreases_until_the_next_forecast() {
        let course = |left: [u64; 2]| Course::with_forecast(seconds(10), Some(left.map(seconds)));
        for (left, at, expected) in [
            ([8, 8], 13, Some("about 5s left")),
            ([8, 8], 18, None),
            ([8, 70], 13, Some("5s to 1m7s left")),
            ([8, 20], 18, Some("1s to 12s left")),
            ([8, 20], 30, None),
        ] {
            let shown = course(left).time_left(seconds(at));
            assert_eq!(shown.as_deref(), expected, "{left:?} {at}");
        }
        let unknown = Course::with_forecast(seconds(10), None);
        assert_eq!(unknown.time_left(seconds(10)), None);
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
    fn guessed_durations_are_a_range() {
        let at = |seconds| prost_types::Duration { seconds, nanos: 0 };
        let response = |duration: Option<DurationRange>, outcome: Outcome| {
            let outcomes = vec![OutcomeCount {
                outcome: outcome.into(),
                samples: 1,
            }];
            ForecastRolloutResponse {
                expected: Some(Forecast {
                    duration,
                    outcomes,
                    ..Default::default()
                }),
                ..Default::default()
            }
        };
        let range = |median: Option<i64>| {
            Some(DurationRange {
                low: Some(at(3)),
                median: median.map(at),
                high: Some(at(9)),
            })
        };
        for (response, expected) in [
            (response(range(Some(7)), Outcome::Completes), Some([7, 7])),
            (response(range(None), Outcome::CompletesLate), Some([3, 9])),
            (response(range(Some(7)), Outcome::Never), None),
            (response(None, Outcome::Completes), None),
        ] {
            assert_eq!(rest(&response), expected.map(|it| it.map(seconds)));
        }
    }

    /// A crash loop has no end that a forecast knows.
    #[test]
    fn no_time_is_left_while_something_fails() {
        let planner = Planner::new(ServerArgs::default()).unwrap();
        let purposes = Purposes {
            shows_time_left: true,
            reports_start: false,
        };
        for outlook in [Outlook::Undecided, Outlook::NeedsChange] {
            let mut course = Course::with_forecast(seconds(10), Some([seconds(8); 2]));
            let report = RolloutReport {
                verdict: Some(proto::Verdict {
                    outlook: outlook.into(),
                    ..Default::default()
                }),
                ..report(1, 4, 3)
            };
            let snapshot = proto::Snapshot::default();
            course.forecast(&planner, snapshot, &report, seconds(11), purposes);
            assert_eq!(course.time_left(seconds(11)), None, "{outlook:?}");
        }
    }
}
