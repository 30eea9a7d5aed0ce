//! Tests of the frames of a live view.

use super::bars::UNICODE;
use super::*;
use crate::cli::observe::Status;
use crate::cli::options::{Goal, JudgementArgs};
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
    };
    let mut member = Member::new(name, Goal::Complete, &judgement);
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
