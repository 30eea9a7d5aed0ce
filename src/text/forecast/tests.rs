use prost_types::Duration;
use quick_xml::Reader;
use quick_xml::events::Event;

use super::{Facts, forecast, page, picture};
use crate::proto::{
    ChangeEffect, CountRange, DurationRange, Forecast, ForecastRolloutResponse, ObjectReference,
    Outcome, OutcomeCount, RolloutLimits, StartTimes, StartTimesSource, TemplateChange,
    TrajectoryPoint,
};
use crate::text::Page;

const SUBJECT: &str = "Deployment shop/web";

fn millis(millis: i64) -> Option<Duration> {
    let nanos = i32::try_from(millis % 1000 * 1_000_000).unwrap();
    Some(Duration {
        seconds: millis / 1000,
        nanos,
    })
}

fn durations(low: i64, median: Option<i64>, high: i64) -> DurationRange {
    DurationRange {
        low: millis(low),
        median: median.and_then(millis),
        high: millis(high),
    }
}

fn counts(low: i32, median: i32, high: i32) -> Option<CountRange> {
    Some(CountRange { low, median, high })
}

fn point(at: i64, pods: [i32; 2], available: [i32; 2], terminating: i32, events: &[&str]) -> TrajectoryPoint {
    TrajectoryPoint {
        offset: millis(at),
        pods: pods.to_vec(),
        available: available.to_vec(),
        terminating,
        events: events.iter().map(|&it| it.to_owned()).collect(),
    }
}

fn expected() -> Forecast {
    Forecast {
        outcome: Outcome::Completes.into(),
        outcomes: vec![OutcomeCount {
            outcome: Outcome::Completes.into(),
            samples: 100,
        }],
        duration: Some(durations(22_900, Some(25_900), 30_400)),
        pods_max: counts(5, 5, 5),
        pods_with_terminating_max: counts(5, 6, 7),
        available_min: counts(3, 3, 3),
        available_at_end: counts(4, 4, 4),
        waves: counts(3, 3, 4),
        replica_set_writes: counts(6, 7, 8),
        trajectory: vec![
            point(0, [0, 4], [0, 4], 0, &["create ReplicaSet web-b with 1 pods", "scale down ReplicaSet web-a from 4 to 3"]),
            point(100, [1, 3], [0, 3], 1, &[]),
            point(100, [2, 3], [0, 3], 1, &["scale up ReplicaSet web-b from 1 to 2"]),
            point(8_100, [2, 2], [1, 2], 1, &["scale down ReplicaSet web-a from 3 to 2"]),
            point(9_960, [4, 1], [2, 1], 2, &["scale up ReplicaSet web-b from 2 to 4"]),
            point(17_800, [4, 0], [3, 0], 1, &["scale down ReplicaSet web-a from 1 to 0"]),
            point(25_900, [4, 0], [4, 0], 0, &[]),
        ],
        ..Forecast::default()
    }
}

fn response() -> ForecastRolloutResponse {
    let reference = |name: &str| ObjectReference {
        name: name.to_owned(),
        ..Default::default()
    };
    ForecastRolloutResponse {
        effect: ChangeEffect::StartsRollout.into(),
        template_changes: vec![TemplateChange {
            path: "spec.containers[\"app\"].image".to_owned(),
            from_json: "\"web:1\"".to_owned(),
            to_json: "\"web:2\"".to_owned(),
        }],
        limits: Some(RolloutLimits {
            replicas: 4,
            pods_max: 5,
            available_min: 3,
            progress_deadline_seconds: Some(600),
        }),
        replica_sets: vec![reference("web-b"), reference("web-a")],
        start_times: Some(StartTimes {
            source: StartTimesSource::OtherTemplates.into(),
            count: 13,
            still_starting: 1,
            dropped_late: 1,
            dropped_restarted: 2,
            range: Some(durations(6_200, Some(8_100), 11_000)),
            termination: Some(durations(1_000, None, 30_000)),
            ..Default::default()
        }),
        expected: Some(expected()),
        never_ready: Some(Forecast {
            outcome: Outcome::Never.into(),
            outcomes: Vec::new(),
            reason: "2 new pods never become ready".to_owned(),
            duration: None,
            deadline_exceeded: Some(durations(600_000, Some(600_000), 600_000)),
            available_min: counts(3, 3, 3),
            available_at_end: counts(3, 3, 3),
            trajectory: vec![
                point(0, [0, 4], [0, 4], 0, &[]),
                point(100, [2, 3], [0, 3], 1, &[]),
                point(1_100, [2, 3], [0, 3], 0, &[]),
                point(600_000, [2, 3], [0, 3], 0, &["Progressing is False: ProgressDeadlineExceeded"]),
            ],
            ..Forecast::default()
        }),
        slow: Some(Forecast {
            duration: Some(durations(33_000, Some(33_000), 33_000)),
            ..expected()
        }),
        assumptions: vec!["New pods start like the pods of other templates.".to_owned()],
        ..Default::default()
    }
}

fn facts(response: &ForecastRolloutResponse) -> Facts<'_> {
    Facts {
        subject: SUBJECT,
        has_changes: true,
        response,
    }
}

fn text(response: &ForecastRolloutResponse) -> String {
    let mut page = Page::new(false);
    forecast(&mut page, &facts(response));
    page.into_text()
}

/// Parses a document, and returns the texts of its elements.
fn texts_of(document: &str) -> Vec<String> {
    let mut reader = Reader::from_str(document);
    reader.config_mut().check_end_names = true;
    let mut texts = Vec::new();
    let mut depth = 0;
    loop {
        match reader.read_event().unwrap() {
            Event::Start(start) => {
                depth += 1;
                assert!(start.attributes().all(|it| it.is_ok()));
            }
            Event::End(_) => depth -= 1,
            Event::Text(text) => texts.push(text.to_string()),
            Event::GeneralRef(name) => texts.push(name.to_string()),
            Event::Eof => break,
            _ => {}
        }
    }
    assert_eq!(depth, 0);
    texts
}

#[test]
fn steps_and_scenarios_are_tables_and_the_outcome_is_the_last_line() {
    assert_eq!(text(&response()), "");
}

#[test]
fn dump() {
    std::fs::write("/tmp/view.svg", picture(&facts(&response()))).unwrap();
    std::fs::write("/tmp/view.html", page(&facts(&response()))).unwrap();
}
