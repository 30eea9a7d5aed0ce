//! Tests of the frames of a live view.

use rollplan_wire::proto::{ComputeStatusResponse, Counts, Phase};

use super::bars::{ASCII, UNICODE};
use super::*;
use crate::cli::course::Course;
use crate::cli::exit::Exit;
use crate::cli::goal::Goal;
use crate::cli::input::{Health, Node, Place};
use crate::cli::observe::Status;
use crate::cli::options::JudgementArgs;
use crate::cli::watch::decision::Outcome;

fn member(name: &str, updated: i32, pods: usize) -> Member {
    let blocker = Blocker {
        message: "2 of 4 new pods are starting: \u{1b}[31m漢字".to_owned(),
        ..Default::default()
    };
    let report = RolloutReport {
        phase: Phase::Progressing.into(),
        counts: Some(Counts {
            desired: 4,
            total: 5,
            updated,
            available: 4,
            max_total: 5,
            min_available: 3,
            max_total_arithmetic: "4 + 25% rounded up = 5".to_owned(),
            min_available_arithmetic: "4 − 25% rounded down = 3".to_owned(),
            ..Default::default()
        }),
        deadline: Some(Timestamp {
            seconds: 1_595,
            nanos: 0,
        }),
        blockers: vec![blocker],
        ..Default::default()
    };
    let pod = |number: usize| Node {
        label: format!("web-{number}"),
        // Different from the third pod on, because equal pods are grouped.
        state: match number {
            0 | 1 => "Running, ready".to_owned(),
            number => format!("Running, ready, {number}"),
        },
        health: Health::Ready,
        restarts: 0,
        created: Some(880),
        place: Place::Node("node-a".to_owned()),
        children: Vec::new(),
    };
    let judgement = JudgementArgs {
        fail_fast: Default::default(),
        fail_on: Vec::new(),
        require_judged: false,
        unjudged_after: Duration::ZERO,
        deleted_after: Duration::ZERO,
    };
    let mut member = Member::new(name, Goal::Complete, &judgement, false);
    let status = Status {
        subject: format!("Deployment {name}"),
        uid: "u".to_owned(),
        expiry: None,
        response: ComputeStatusResponse {
            report: Some(report),
            ..Default::default()
        },
        tree: vec![Node {
            label: "ReplicaSet web-7d9".to_owned(),
            state: "revision 3, 2 of 4 ready".to_owned(),
            health: Health::Failing,
            restarts: 0,
            created: Some(880),
            place: Place::Images(vec!["web:3".to_owned()]),
            children: (0..pods).map(pod).collect(),
        }],
        now: 1_000,
        object: None,
    };
    member.take(status, Duration::ZERO);
    member
}

fn lines(members: &[Member], size: (usize, usize), is_final: bool) -> Vec<String> {
    let names: Vec<String> = members.iter().map(|it| it.subject.clone()).collect();
    let frame = Frame {
        names: &names,
        members,
        elapsed: Duration::from_secs(42),
        now: Timestamp {
            seconds: 1_000,
            nanos: 0,
        },
        is_final,
    };
    let lines = frame.lines(size, &UNICODE);
    lines
        .into_iter()
        .map(|line| line.into_iter().map(|(text, _)| text).collect())
        .collect()
}

#[test]
fn time_left_is_shown_if_it_is_known() {
    let mut member = member("shop/web", 2, 0);
    let at = |seconds| Duration::from_secs(seconds);
    for (left, expected) in [
        (
            Some([at(20); 2]),
            "progressing  42s  about 18s left  deadline in 9m55s",
        ),
        (
            Some([at(12), at(30)]),
            "progressing  42s  10s to 28s left  deadline in 9m55s",
        ),
        (Some([at(2); 2]), "progressing  42s  deadline in 9m55s"),
        (None, "progressing  42s  deadline in 9m55s"),
    ] {
        member.course = Course::with_forecast(at(40), left);
        let head = &lines(std::slice::from_ref(&member), (100, 24), false)[0];
        assert!(head.ends_with(expected), "{head}");
    }
}

#[test]
fn one_rollout_is_shown_with_its_pods() {
    let members = [member("shop/web", 2, 2)];
    let expected = [
        "Deployment shop/web  progressing  42s  deadline in 9m55s",
        "updated   ██████████░░░░░░░░░░ 2 of 4     at most 5 (4 + 25% rounded up = 5)",
        "available ████████████████████ 4 of 4     at least 3 (4 − 25% rounded down = 3)",
        "- 2 of 4 new pods are starting: \\u{1b}[31m漢字",
        "└─ ReplicaSet web-7d9  revision 3, 2 of 4 ready  2m  web:3",
        "   ├─ web-0  Running, ready  2m  on node-a",
        "   └─ web-1  Running, ready  2m  on node-a",
    ];
    assert_eq!(lines(&members, (100, 24), false), expected);
    // The last frame omits the text that is printed below it in full.
    let last = lines(&members, (100, 24), true);
    assert!(
        !last.iter().any(|line| line.contains("starting")),
        "{last:?}"
    );
}

#[test]
fn frames_fit_the_terminal() {
    let one = [member("shop/web", 2, 50)];
    let several: Vec<_> = (0..50)
        .map(|n| member(&format!("shop/w{n}"), 1, 0))
        .collect();
    for members in [&one[..], &several] {
        for size in [(100, 24), (40, 10), (20, 3), (1, 1)] {
            let lines = lines(members, size, false);
            assert!(lines.len() < size.1.max(2), "{lines:?}");
            for line in &lines {
                assert!(width(line) <= size.0, "{size:?}: {line}");
            }
        }
    }
    assert_eq!(lines(&one, (80, 10), false)[8], "… 47 more");
    assert_eq!(lines(&several, (80, 10), false)[8], "… 43 more progressing");
}

#[test]
fn complete_rollouts_are_omitted_first() {
    let mut members: Vec<_> = (0..9).map(|n| member(&format!("w{n}"), 1, 0)).collect();
    members[0].outcome = Some(Outcome::Exit(Exit::Done));
    let shown = lines(&members, (80, 8), false);
    assert!(!shown.iter().any(|line| line.starts_with("Deployment w0 ")));
    assert!(shown[0].starts_with("1 of 9 decided  42s "), "{shown:?}");
}

#[test]
fn last_frame_has_a_message_instead_of_causes() {
    for (is_final, has_causes, message, expected) in [
        (true, false, "complete", true),
        (true, true, "complete", false),
        (false, false, "complete", false),
        (true, false, "", false),
    ] {
        let mut member = member("shop/web", 2, 1);
        let last = member.last.as_mut().unwrap();
        let report = last.response.report.as_mut().unwrap();
        report.message = message.to_owned();
        if !has_causes {
            report.blockers.clear();
        }
        let shown = lines(&[member], (80, 24), is_final);
        let is_shown = shown.iter().any(|line| line == message);
        assert_eq!(is_shown, expected, "{shown:?}");
    }
}

#[test]
fn frames_that_just_fit_are_complete() {
    let one = lines(&[member("shop/web", 2, 4)], (80, 10), false);
    assert_eq!(one.len(), 9);
    assert!(one[8].contains("web-3  Running"), "{one:?}");
    let mut members: Vec<_> = (0..7).map(|n| member(&format!("w{n}"), 1, 0)).collect();
    members[0].outcome = Some(Outcome::Exit(Exit::Done));
    let several = lines(&members, (100, 9), false);
    assert_eq!(several.len(), 8, "{several:?}");
    assert!(several[1].starts_with("Deployment w0 "), "{several:?}");
    assert!(several[7].starts_with("Deployment w6 "), "{several:?}");
}

#[test]
fn rows_have_bars_and_causes() {
    let mut members = [member("w0", 1, 0), member("w1", 1, 0)];
    members[1].is_deleted = true;
    let shown = lines(&members, (200, 10), false);
    for part in ["progressing", "█", " 1/4", "are starting"] {
        assert!(shown[1].contains(part), "{part}: {shown:?}");
    }
    assert!(shown[2].contains("  deleted "), "{shown:?}");
    let last = lines(&members, (200, 10), true);
    assert!(!last[1].contains("are starting"), "{last:?}");
}

/// A member with this blocker.
fn blocked(name: &str, phase: Phase, message: &str, remedy: &str) -> Member {
    let mut member = member(name, 2, 2);
    let report = member.last.as_mut().unwrap();
    let report = report.response.report.as_mut().unwrap();
    report.phase = phase.into();
    report.blockers = vec![
        Blocker {
            message: message.to_owned(),
            remedy: remedy.to_owned(),
            ..Default::default()
        },
        Blocker {
            message: "no progress within the deadline of 15s".to_owned(),
            remedy: format!("fix the blockers above, or roll back: rollplan undo {name}"),
            ..Default::default()
        },
    ];
    member
}

const CRASH: &str = "container web keeps crashing (2 restarts; 2 of 2 new pods: web-757c798d4-68fqp CrashLoopBackOff for \
                     4s): Error, exit code 1: fatal: no database at db.shop:5432: connection refused";
const LOG: &str = "read its log: kubectl logs web-757c798d4-68fqp -n shop -c web";

#[test]
fn cause_and_remedy_are_wrapped() {
    let members = [blocked("shop/web", Phase::Stalled, CRASH, LOG)];
    for columns in [80, 100, 120] {
        let shown = lines(&members, (columns, 24), false);
        let words: Vec<&str> = shown
            .iter()
            .flat_map(|line| line.split_whitespace())
            .collect();
        let text = words.join(" ");
        for part in [
            CRASH,
            LOG,
            "deadline of 15s",
            "rollplan undo shop/web",
            "web-1 Running",
        ] {
            assert!(text.contains(part), "{columns}: {part}: {shown:#?}");
        }
    }
    // The first cause and the objects have precedence over further causes.
    let shown = lines(&members, (80, 12), false);
    let text = shown.join("\n");
    assert!(
        text.contains("connection refused") && text.contains(LOG),
        "{text}"
    );
    assert!(text.contains("… 1 more cause\n"), "{text}");
    assert!(text.contains("web-1  Running"), "{text}");
    assert!(!text.contains("deadline of"), "{text}");
}

#[test]
fn every_stalled_rollout_has_its_cause() {
    let members: Vec<_> = (0..5)
        .map(|n| match n {
            1 | 3 => blocked(&format!("shop/app-{n}"), Phase::Stalled, CRASH, LOG),
            _ => member(&format!("shop/app-{n}"), 2, 0),
        })
        .collect();
    let shown = lines(&members, (80, 24), false);
    let text = shown.join("\n");
    assert_eq!(text.matches("connection refused").count(), 2, "{text}");
    assert_eq!(text.matches(LOG).count(), 2, "{text}");
    assert!(shown[0].ends_with("updated  available"), "{text}");
    // With less room, they come first, with as much of their causes as possible.
    let shown = lines(&members, (80, 9), false);
    let text = shown.join("\n");
    assert_eq!(shown.len(), 8, "{text}");
    assert!(shown[1].starts_with("Deployment shop/app-1 "), "{text}");
    assert!(shown[5].starts_with("Deployment shop/app-3 "), "{text}");
    assert_eq!(
        text.matches("\n  container web keeps crashing").count(),
        2,
        "{text}"
    );
    assert_eq!(text.matches("connection refused").count(), 1, "{text}");
    assert!(shown[6].ends_with(" …"), "{text}");
    assert_eq!(shown[7], "… 3 more progressing");
    let wide = lines(&members, (300, 24), false);
    assert!(wide[2].contains("connection refused"), "{wide:#?}");
}

/// A person in a hurry needs what has failed, then what needs a change, and last what is complete.
#[test]
fn most_urgent_rollouts_are_shown_if_rows_are_short() {
    let done = |name: &str| {
        let mut member = blocked(name, Phase::Complete, "", "");
        let report = member.last.as_mut().unwrap();
        let report = report.response.report.as_mut().unwrap();
        report.blockers.clear();
        member.outcome = Some(Outcome::Exit(Exit::Done));
        member
    };
    let members = [
        done("a"),
        member("b", 2, 0),
        blocked("c", Phase::Progressing, "the image cannot be pulled", LOG),
        done("d"),
        blocked("e", Phase::Stalled, CRASH, LOG),
    ];
    let first = |size| {
        let shown = lines(&members, size, false);
        let names = shown.iter().filter_map(|line| {
            let name = line.strip_prefix("Deployment ")?;
            name.split_whitespace().next().map(str::to_owned)
        });
        (names.collect::<Vec<_>>(), shown)
    };
    let (names, shown) = first((80, 40));
    assert_eq!(names, ["a", "b", "c", "d", "e"], "{shown:#?}");
    assert_eq!(shown.join("\n").matches(LOG).count(), 2, "{shown:#?}");
    // The rows of those that are complete are omitted before any cause or remedy.
    let (names, shown) = first((80, 12));
    assert_eq!(names, ["e", "c", "b"], "{shown:#?}");
    assert_eq!(shown.join("\n").matches(LOG).count(), 2, "{shown:#?}");
    assert_eq!(shown.last().unwrap(), "… 2 more complete");
    // Remedies are omitted before rows that are in progress, and never cut.
    let (names, shown) = first((80, 9));
    assert_eq!(names, ["e", "c", "b"], "{shown:#?}");
    let text = shown.join("\n");
    assert!(text.contains("connection refused"), "{text}");
    assert!(!text.contains("remedy"), "{text}");
    let (names, shown) = first((80, 5));
    assert_eq!(names, ["e", "c"], "{shown:#?}");
    assert_eq!(shown.last().unwrap(), "… 3 more: 1 progressing, 2 complete");
}

#[test]
fn arithmetic_of_limits_is_omitted_on_narrow_terminals() {
    let shown = lines(&[member("shop/web", 2, 2)], (72, 24), false);
    assert!(shown[1].ends_with("at most 5"), "{shown:#?}");
    assert!(shown[2].ends_with("at least 3"), "{shown:#?}");
}

#[test]
fn terminals_without_utf_8_get_ascii() {
    let members = [member("shop/web", 2, 9)];
    let frame = Frame {
        names: &[],
        members: &members,
        elapsed: Duration::ZERO,
        now: Timestamp::default(),
        is_final: false,
    };
    for line in frame.lines((100, 12), &ASCII) {
        assert!(line.iter().all(|(text, _)| text.is_ascii()), "{line:?}");
    }
}

#[test]
fn long_lines_are_truncated_in_the_last_part_that_fits() {
    for (columns, expected) in [(6, "abcdef"), (5, "abcd…"), (2, "a…")] {
        let mut line = vec![plain("abc"), plain("def")];
        fit_line(&mut line, columns, "…");
        let text: String = line.into_iter().map(|(text, _)| text).collect();
        assert_eq!(text, expected);
    }
}
