use prost_types::Duration;
use quick_xml::Reader;
use quick_xml::events::Event;
use rollplan_wire::proto::{
    ChangeEffect, CountRange, DurationRange, Forecast, ForecastRolloutResponse, ObjectReference,
    Outcome, OutcomeCount, RolloutLimits, StartTimes, StartTimesSource, TemplateChange,
    TrajectoryPoint,
};

use super::{Facts, forecast, page, picture};
use crate::Page;

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

fn point(
    at: i64,
    pods: [i32; 2],
    available: [i32; 2],
    terminating: i32,
    events: &[&str],
) -> TrajectoryPoint {
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
            point(
                0,
                [0, 4],
                [0, 4],
                0,
                &[
                    "create ReplicaSet web-b with 1 pods",
                    "scale down ReplicaSet web-a from 4 to 3",
                ],
            ),
            point(100, [1, 3], [0, 3], 1, &[]),
            point(
                100,
                [2, 3],
                [0, 3],
                1,
                &["scale up ReplicaSet web-b from 1 to 2"],
            ),
            point(
                8_100,
                [2, 2],
                [1, 2],
                1,
                &["scale down ReplicaSet web-a from 3 to 2"],
            ),
            point(
                9_960,
                [4, 1],
                [2, 1],
                2,
                &["scale up ReplicaSet web-b from 2 to 4"],
            ),
            point(
                17_800,
                [4, 0],
                [3, 0],
                1,
                &["scale down ReplicaSet web-a from 1 to 0"],
            ),
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
            reason: "2 new pods never become ready.".to_owned(),
            duration: None,
            deadline_exceeded: Some(durations(600_000, Some(600_000), 600_000)),
            available_min: counts(3, 3, 3),
            available_at_end: counts(3, 3, 3),
            trajectory: vec![
                point(0, [0, 4], [0, 4], 0, &[]),
                point(100, [2, 3], [0, 3], 1, &[]),
                point(1_100, [2, 3], [0, 3], 0, &[]),
                point(
                    600_000,
                    [2, 3],
                    [0, 3],
                    0,
                    &["Progressing is False: ProgressDeadlineExceeded"],
                ),
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
    assert_eq!(
        text(&response()),
        r#"Deployment shop/web: the change starts a rollout, which replaces all pods

Changes of the template
  spec.containers["app"].image
    from  "web:1"
    to    "web:2"

TIME  NEW  OLD  AVAILABLE  TERMINATING  WHAT HAPPENS
0s    0    4    4          0            create ReplicaSet web-b with 1 pods
                                        scale down ReplicaSet web-a from 4 to 3
0.1s  2    3    3          1            scale up ReplicaSet web-b from 1 to 2
8.1s  2    2    3          1            scale down ReplicaSet web-a from 3 to 2
10s   4    1    3          2            scale up ReplicaSet web-b from 2 to 4
18s   4    0    3          1            scale down ReplicaSet web-a from 1 to 0
26s   4    0    4          0

SCENARIO               EXPECTED        SLOW            NEVER READY
outcome                completes       completes       never completes
duration               26s (23s–30s)   33s             -
deadline exceeded      -               -               10m
peak of pods           5 (at most 5)   5 (at most 5)   -
with terminating pods  6 (5–7)         6 (5–7)         -
fewest available       3 (at least 3)  3 (at least 3)  3 (at least 3)
available at the end   4               4               3
waves of pod starts    3 (3–4)         3 (3–4)         -
ReplicaSet writes      7 (6–8)         7 (6–8)         -

start times: 13 pods with other templates took 8.1s (6.2s–11s); 1 pod is still starting; not
             counted: 1 pod that became ready only after the progress deadline, 2 pods with a
             container that restarted; time to terminate: 1s–30s
assumption: New pods start like the pods of other templates.

Completes in 26s (23s–30s).
"#
    );
}

#[test]
fn title_names_the_effect() {
    let idle = || Forecast {
        outcome: Outcome::Completes.into(),
        ..Forecast::default()
    };
    for (effect, has_changes, expected, title) in [
        (
            ChangeEffect::NoChange,
            false,
            idle(),
            "no rollout is in progress",
        ),
        (
            ChangeEffect::NoChange,
            false,
            expected(),
            "a rollout is in progress",
        ),
        (
            ChangeEffect::NoChange,
            true,
            idle(),
            "nothing changes, and no pod is replaced",
        ),
        (
            ChangeEffect::NoChange,
            true,
            expected(),
            "nothing changes, and the rollout in progress continues",
        ),
        (
            ChangeEffect::ScaleOnly,
            true,
            expected(),
            "the change only scales to 4, and no pod is replaced",
        ),
        (
            ChangeEffect::ReturnsToRevision,
            true,
            expected(),
            "the change returns to revision 7, with a rollout that replaces all pods",
        ),
        (
            ChangeEffect::HeldByPause,
            true,
            idle(),
            "the change starts a rollout only when the Deployment is resumed",
        ),
    ] {
        let response = ForecastRolloutResponse {
            effect: effect.into(),
            revision: 7,
            expected: Some(expected),
            ..response()
        };
        let facts = Facts {
            has_changes,
            ..facts(&response)
        };
        assert_eq!(facts.title(), format!("{SUBJECT}: {title}"));
    }
}

#[test]
fn last_line_is_the_outcome() {
    let outcome = |outcome, samples| OutcomeCount {
        outcome: i32::from(outcome),
        samples,
    };
    for (expected, line) in [
        (
            Forecast {
                duration: Some(durations(22_000, None, 31_000)),
                ..expected()
            },
            "Completes in 22s–31s if pods start as the 13 pods that were observed.",
        ),
        (
            Forecast {
                duration: None,
                ..expected()
            },
            "Completes after 3 (3–4) waves of pod starts, of unknown length.",
        ),
        (
            Forecast {
                duration: None,
                waves: counts(1, 1, 1),
                ..expected()
            },
            "Completes after 1 wave of pod starts, of unknown length.",
        ),
        (
            Forecast {
                outcome: Outcome::CompletesLate.into(),
                outcomes: vec![
                    outcome(Outcome::CompletesLate, 90),
                    outcome(Outcome::Never, 10),
                ],
                duration: Some(durations(700_000, Some(700_000), 4_000_000)),
                ..expected()
            },
            "Completes in 11m40s (11m40s–1h6m), after its progress deadline of 10m is exceeded. (90 of the samples; others: \
             10 never completes)",
        ),
        (
            Forecast {
                outcome: Outcome::Never.into(),
                reason: "The quota allows 0 more pods.".to_owned(),
                ..expected()
            },
            "Never completes. The quota allows 0 more pods.",
        ),
        (
            Forecast {
                outcome: Outcome::Undecided.into(),
                ..expected()
            },
            "Undecided. The simulation ended before.",
        ),
        (
            Forecast {
                outcome: Outcome::Completes.into(),
                ..Forecast::default()
            },
            "Nothing happens: the rollout is complete.",
        ),
    ] {
        let response = ForecastRolloutResponse {
            expected: Some(expected),
            ..response()
        };
        assert_eq!(facts(&response).outcome(), line);
        // Long lines are wrapped.
        let text = text(&response).replace('\n', " ");
        assert!(text.ends_with(&format!("{line} ")), "{text}");
    }
}

#[test]
fn long_rollouts_are_shortened() {
    let step = |index: i32| {
        point(
            i64::from(index) * 1000,
            [index, 40 - index],
            [0, 40],
            0,
            &[],
        )
    };
    let mut forecast = Forecast {
        trajectory: (0..40).map(step).collect(),
        ..expected()
    };
    let mut lines = |points: usize| {
        forecast.trajectory.truncate(points);
        let response = ForecastRolloutResponse {
            expected: Some(forecast.clone()),
            ..response()
        };
        let text = text(&response);
        let lines = text.lines().skip_while(|line| !line.starts_with("TIME"));
        let lines = lines.skip(1).take_while(|line| !line.is_empty());
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let shown = lines(40);
    assert_eq!(shown.len(), 22, "{shown:?}");
    assert_eq!(shown[14..16], ["…", "      20 more steps"]);
    assert!(shown[21].starts_with("39s "), "{shown:?}");
    assert_eq!(lines(21).len(), 21);
}

/// A response without durations.
fn without_times() -> ForecastRolloutResponse {
    let mut response = response();
    response.start_times = Some(StartTimes {
        source: StartTimesSource::None.into(),
        ..Default::default()
    });
    for forecast in [&mut response.expected, &mut response.never_ready] {
        let forecast = forecast.as_mut().unwrap();
        forecast.duration = None;
        forecast.deadline_exceeded = None;
        forecast
            .trajectory
            .iter_mut()
            .for_each(|point| point.offset = None);
    }
    response.slow = None;
    response
}

#[test]
fn steps_are_numbered_if_durations_are_unknown() {
    let text = text(&without_times());
    assert!(text.contains("\nSTEP  NEW"), "{text}");
    assert!(text.contains("\n7     4    0 "), "{text}");
    assert!(!text.contains("SLOW"), "{text}");
    let picture = picture(&facts(&without_times()));
    assert!(
        picture.contains(">steps (their durations are not known)<"),
        "{picture}"
    );
    assert!(picture.contains("<title>step 1: 1 new, 3 old"), "{picture}");
}

const HOSTILE: &str = "a\u{1b}[31m</title><script>alert('x')</script>&\"]]>\u{202e}\u{fffe}\u{0}";

fn hostile() -> ForecastRolloutResponse {
    let mut response = response();
    let expected = response.expected.as_mut().unwrap();
    expected.trajectory[1].events = vec![HOSTILE.to_owned()];
    expected.outcome = Outcome::Never.into();
    expected.reason = HOSTILE.to_owned();
    response.assumptions = vec![HOSTILE.to_owned()];
    response.template_changes[0] = TemplateChange {
        path: HOSTILE.to_owned(),
        from_json: HOSTILE.to_owned(),
        to_json: HOSTILE.to_owned(),
    };
    response
}

#[test]
fn text_from_others_is_escaped() {
    let response = hostile();
    let facts = Facts {
        subject: HOSTILE,
        ..facts(&response)
    };
    let mut page_of_text = Page::new(false);
    forecast(&mut page_of_text, &facts);
    let text = page_of_text.into_text();
    assert!(
        !text.contains(|c: char| c != '\n' && c.is_control()),
        "{text:?}"
    );
    for (document, names) in [(picture(&facts), 4), (page(&facts), 9)] {
        let texts = texts_of(&document).concat();
        assert!(!document.contains("<script"), "{document}");
        let is_invalid =
            |c: char| c != '\n' && (c.is_control() || c == '\u{fffe}' || c == '\u{202e}');
        assert!(!document.contains(is_invalid), "{document}");
        let found = texts.matches("a\\u{1b}[31m").count();
        assert!(found >= names, "{found}: {texts}");
    }
}

/// A service may return anything.
#[test]
fn absurd_responses_have_pictures() {
    let mut odd = response();
    let expected = odd.expected.as_mut().unwrap();
    expected.trajectory[2].offset = Some(Duration {
        seconds: i64::MAX,
        nanos: i32::MIN,
    });
    expected.trajectory[3].offset = Some(Duration {
        seconds: i64::MIN,
        nanos: -1,
    });
    expected.trajectory[4].pods = vec![i32::MAX; 5];
    expected.trajectory[5].available = vec![i32::MIN; 3];
    odd.limits = Some(RolloutLimits {
        pods_max: i32::MAX,
        available_min: i32::MIN,
        ..Default::default()
    });
    for response in [odd, ForecastRolloutResponse::default()] {
        let facts = facts(&response);
        for document in [picture(&facts), page(&facts)] {
            texts_of(&document);
            assert!(
                !document.contains("NaN") && !document.contains("inf"),
                "{document}"
            );
        }
    }
}

#[test]
fn picture_has_bands_lines_and_a_description() {
    let picture = picture(&facts(&response()));
    let texts = texts_of(&picture);
    for expected in [
        "Completes in 26s (23s–30s). Pods over time: at most 5 (allowed: 5), at least 3 available (promised: 3); 4 new and 0 \
         old pods at the end.",
        "allowed maximum (5)",
        "promised minimum (3)",
        "25s",
        "10s: 4 new, 1 old, 2 terminating, 3 available\nscale up ReplicaSet web-b from 2 to 4",
    ] {
        assert!(
            texts.iter().any(|it| it == expected),
            "{expected}: {texts:?}"
        );
    }
    assert_eq!(picture.matches("<polygon").count(), 3);
    assert!(picture.contains("@media (prefers-color-scheme:dark)"));
}

#[test]
fn progress_deadline_is_marked() {
    let page = page(&facts(&response()));
    assert_eq!(page.matches("class=\"mark\"").count(), 1, "{page}");
    assert!(texts_of(&page).contains(&"progress deadline exceeded".to_owned()));
}

/// The policy of a page forbids everything but its style, and names that by its hash.
#[test]
fn content_policy_of_pages_has_the_hash_of_the_style() {
    let page = page(&facts(&response()));
    let style = page.split("<style>").nth(1).unwrap();
    let style = style.split("</style>").next().unwrap();
    let hash = ring::digest::digest(&ring::digest::SHA256, style.as_bytes());
    let hash = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, hash);
    let policy = format!(
        "content=\"default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'\""
    );
    assert!(page.contains(&policy), "{policy}");
    assert!(
        !page.contains(" style=") && !page.contains("<script"),
        "{page}"
    );
    assert_eq!(page.matches("<style>").count(), 1);
}
