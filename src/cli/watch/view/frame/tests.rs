//! Tests of the frames of a live view.

use super::bars::UNICODE;
use super::*;
use crate::cli::goal::Goal;
use crate::cli::observe::Status;
use crate::cli::options::JudgementArgs;
use crate::proto::{ComputeStatusResponse, Counts, Phase};

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
        state: "Running, ready".to_owned(),
        health: Health::Ready,
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
            children: (0..pods).map(pod).collect(),
        }],
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
fn one_rollout_is_shown_with_its_pods() {
    let members = [member("shop/web", 2, 2)];
    let expected = [
        "Deployment shop/web  progressing  42s  deadline in 9m 55s",
        "updated   ██████████░░░░░░░░░░ 2 of 4     at most 5 (4 + 25% rounded up = 5)",
        "available ████████████████████ 4 of 4     at least 3 (4 − 25% rounded down = 3)",
        "- 2 of 4 new pods are starting: \\u{1b}[31m漢字",
        "└─ ReplicaSet web-7d9  revision 3, 2 of 4 ready",
        "   ├─ web-0  Running, ready",
        "   └─ web-1  Running, ready",
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
    assert_eq!(lines(&several, (80, 10), false)[8], "… 43 more");
}

#[test]
fn complete_rollouts_are_omitted_first() {
    let mut members: Vec<_> = (0..9).map(|n| member(&format!("w{n}"), 1, 0)).collect();
    members[0].outcome = Some(crate::cli::watch::decision::Outcome::Exit(
        crate::cli::exit::Exit::Done,
    ));
    let shown = lines(&members, (80, 8), false);
    assert!(!shown.iter().any(|line| line.starts_with("Deployment w0 ")));
    assert_eq!(shown[0], "1 of 9 decided  42s");
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
    assert!(one[8].ends_with("web-3  Running, ready"), "{one:?}");
    let mut members: Vec<_> = (0..7).map(|n| member(&format!("w{n}"), 1, 0)).collect();
    members[0].outcome = Some(crate::cli::watch::decision::Outcome::Exit(
        crate::cli::exit::Exit::Done,
    ));
    let several = lines(&members, (80, 10), false);
    assert_eq!(several.len(), 8, "{several:?}");
    assert!(several[1].starts_with("Deployment w0 "), "{several:?}");
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

#[test]
fn long_lines_are_truncated_in_the_last_part_that_fits() {
    for (columns, expected) in [(6, "abcdef"), (5, "abcd…"), (2, "a…")] {
        let mut line = vec![plain("abc"), plain("def")];
        fit_line(&mut line, columns, "…");
        let text: String = line.into_iter().map(|(text, _)| text).collect();
        assert_eq!(text, expected);
    }
}
