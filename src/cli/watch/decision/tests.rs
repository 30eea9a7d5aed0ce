//! Tests of when the watch of a rollout ends, without a cluster.

use prost_types::Timestamp;
use rollplan_wire::proto::{Counts, Outlook, Phase, RolloutReport, Verdict};

use super::*;

fn member(goal: Goal, fail_fast: Switch) -> Member {
    let judgement = JudgementArgs {
        fail_fast,
        fail_on: Vec::new(),
        require_judged: false,
        unjudged_after: seconds(30),
        deleted_after: Duration::ZERO,
    };
    Member::new("web", goal, &judgement, false)
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn verdict(outlook: Outlook) -> Option<Verdict> {
    Some(Verdict {
        outlook: outlook.into(),
        ..Default::default()
    })
}

/// The verdict about a failure, which the status of the object may report as well.
fn failure(reported: bool) -> Option<Verdict> {
    verdict(Outlook::NeedsChange).map(|verdict| Verdict {
        r#final: true,
        reported,
        ..verdict
    })
}

/// A rollout with this number of available pods.
fn rolling(available: i32) -> RolloutReport {
    RolloutReport {
        phase: Phase::Progressing.into(),
        counts: Some(Counts {
            desired: 4,
            updated: 4,
            available,
            ..Default::default()
        }),
        verdict: verdict(Outlook::Undecided),
        observed: true,
        ..Default::default()
    }
}

fn status(report: RolloutReport) -> Status {
    Status {
        subject: "Deployment shop/web".to_owned(),
        uid: "u".to_owned(),
        expiry: None,
        response: proto::ComputeStatusResponse {
            report: Some(report),
            ..Default::default()
        },
        tree: Vec::new(),
        now: 0,
        object: None,
    }
}

/// Whether the watch ends for lack of progress, after reports at these times.
fn is_stalled(goal: Goal, reports: &[(u64, RolloutReport)]) -> bool {
    let mut member = member(goal, Switch::On);
    for (time, report) in reports {
        member.take(status(report.clone()), seconds(*time));
    }
    matches!(member.outcome, Some(Outcome::Stalled))
}

#[test]
fn failures_take_precedence_over_errors_and_timeouts() {
    use Exit::{Done, Failed, Going, NotJudged, Unreachable, Usage};
    for (exits, expected) in [
        (&[Done, Done][..], Done),
        (&[Done, NotJudged, Done], NotJudged),
        (&[Done, NotJudged, Going], Going),
        (&[Going, Unreachable, Done], Unreachable),
        (&[Unreachable, Usage, Going], Usage),
        (&[Usage, Failed, Going], Failed),
    ] {
        assert_eq!(worst(exits, true), expected, "{exits:?}");
    }
    assert_eq!(worst(&[Done, NotJudged], false), Done);
    assert_eq!(worst(&[NotJudged], false), Done);
}

/// A report on an object without a rule.
fn unjudged() -> RolloutReport {
    RolloutReport {
        phase: Phase::NotJudged.into(),
        counts: None,
        verdict: verdict(Outlook::NotJudged),
        generic: true,
        ..rolling(0)
    }
}

/// Its controller may not have written a status yet.
#[test]
fn object_that_is_not_judged_has_thirty_seconds() {
    let mut member = member(Goal::Complete, Switch::On);
    let mut take = |time: u64, report: RolloutReport| {
        member.take(status(report), seconds(time));
        member.result()
    };
    assert_eq!(take(5, unjudged()), Exit::Going);
    assert_eq!(take(34, unjudged()), Exit::Going);
    // A status that a rule knows starts the time again.
    assert_eq!(take(36, rolling(1)), Exit::Going);
    assert_eq!(take(40, unjudged()), Exit::Going);
    assert_eq!(take(69, unjudged()), Exit::Going);
    assert_eq!(take(70, unjudged()), Exit::NotJudged);
}

fn goal(text: &str) -> Goal {
    use clap::builder::{TypedValueParser as _, ValueParserFactory as _};
    let parser = Goal::value_parser();
    parser
        .parse_ref(&clap::Command::new("x"), None, text.as_ref())
        .unwrap()
}

#[test]
fn only_the_value_decides_if_one_is_waited_for() {
    let failed = RolloutReport {
        phase: Phase::Stalled.into(),
        verdict: failure(true),
        ..rolling(1)
    };
    let complete = RolloutReport {
        phase: Phase::Complete.into(),
        verdict: verdict(Outlook::Complete),
        ..rolling(4)
    };
    let object = |phase: &str| Some(serde_json::json!({"status": {"phase": phase}}));
    for report in [failed, complete, unjudged(), rolling(1)] {
        let mut member = member(goal("jsonpath={.status.phase}=Done"), Switch::On);
        for (time, phase, expected) in [
            (0, "Failed", Exit::Going),
            (90, "", Exit::Going),
            (95, "Done", Exit::Done),
        ] {
            let status = Status {
                object: object(phase),
                ..status(report.clone())
            };
            member.take(status, seconds(time));
            assert_eq!(member.result(), expected, "{report:?} {phase}");
        }
        assert_eq!(member.unmet, None);
    }
    // A path that leads to several values always does.
    let mut several = member(goal("jsonpath={.status.*}"), Switch::On);
    let object = serde_json::json!({"status": {"a": 1, "b": 2}});
    let status = Status {
        object: Some(object),
        ..status(rolling(1))
    };
    several.take(status, seconds(0));
    assert_eq!(several.result(), Exit::Usage);
}

/// Nothing shows the progress of a value.
#[test]
fn wait_for_a_value_ends_at_its_timeout_or_after_ten_minutes() {
    for (has_timeout, expected) in [(true, false), (false, true)] {
        let mut member = Member {
            has_timeout,
            ..member(goal("condition=Ready"), Switch::On)
        };
        for time in [0, 601] {
            member.take(status(rolling(1)), seconds(time));
        }
        let is_stalled = matches!(member.outcome, Some(Outcome::Stalled));
        assert_eq!(is_stalled, expected, "{has_timeout}");
    }
}

#[test]
fn rollout_without_a_deadline_ends_after_ten_minutes_without_progress() {
    let twice = |last: u64| [(5, rolling(1)), (last, rolling(1))];
    assert!(!is_stalled(Goal::Complete, &twice(604)));
    assert!(is_stalled(Goal::Complete, &twice(605)));
    // A pod that becomes available is progress.
    let progress = [(5, rolling(1)), (600, rolling(2)), (1199, rolling(2))];
    assert!(!is_stalled(Goal::Complete, &progress));
    // A deletion may take any time.
    assert!(!is_stalled(Goal::Deleted, &twice(6000)));
}

#[test]
fn rollouts_with_deadlines_and_running_jobs_are_not_stalled() {
    let time = Some(Timestamp {
        seconds: 1,
        nanos: 0,
    });
    let with_deadline = RolloutReport {
        deadline: time,
        ..rolling(1)
    };
    let with_decision = RolloutReport {
        verdict: rolling(1).verdict.map(|verdict| Verdict {
            decided_after: time,
            ..verdict
        }),
        ..rolling(1)
    };
    let job = |open_ended| RolloutReport {
        counts: None,
        verdict: rolling(1).verdict.map(|verdict| Verdict {
            open_ended,
            ..verdict
        }),
        ..rolling(1)
    };
    for (report, expected) in [
        (with_deadline, false),
        (with_decision, false),
        (job(true), false),
        (job(false), true),
    ] {
        let reports = [(0, report.clone()), (6000, report)];
        assert_eq!(is_stalled(Goal::Complete, &reports), expected);
    }
}

#[test]
fn final_verdict_ends_the_watch() {
    let of = |phase: Phase, verdict| RolloutReport {
        phase: phase.into(),
        verdict,
        ..rolling(1)
    };
    let paused = verdict(Outlook::NeedsChange).map(|verdict| Verdict {
        awaits_user: true,
        ..verdict
    });
    for (report, fail_fast, expected) in [
        (of(Phase::Stalled, failure(false)), Switch::On, Exit::Failed),
        (of(Phase::Stalled, failure(false)), Switch::Off, Exit::Going),
        // The progress deadline has passed.
        (of(Phase::Stalled, failure(true)), Switch::Off, Exit::Failed),
        // It has, and a startup probe has time left.
        (
            of(Phase::Stalled, verdict(Outlook::Undecided)),
            Switch::On,
            Exit::Going,
        ),
        // A pause is a user's decision, and only a user can end it.
        (of(Phase::Paused, paused), Switch::On, Exit::Going),
    ] {
        let mut member = member(Goal::Complete, fail_fast);
        member.take(status(report.clone()), seconds(1));
        assert_eq!(member.result(), expected, "{report:?} {fail_fast:?}");
    }
}

#[test]
fn deletion_ends_the_watch_only_once_the_object_is_gone() {
    let deleting = RolloutReport {
        phase: Phase::Deleting.into(),
        verdict: verdict(Outlook::NeedsChange),
        ..rolling(1)
    };
    let mut member = member(Goal::Complete, Switch::On);
    member.take(status(deleting), seconds(1));
    assert!(member.outcome.is_none());
}

/// The counts may be those of an earlier template.
#[test]
fn counts_decide_only_once_the_latest_generation_is_observed() {
    for (observed, expected) in [(false, Exit::Going), (true, Exit::Done)] {
        let report = RolloutReport {
            observed,
            ..rolling(4)
        };
        let mut member = member(Goal::Available, Switch::On);
        member.take(status(report), seconds(1));
        assert_eq!(member.result(), expected, "{observed}");
    }
}

/// Failures of one ReplicaSet are not evidence about another.
#[test]
fn previous_verdict_is_passed_for_the_same_replica_set_only() {
    let of = |replica_set: &str, uid: &str| {
        let report = RolloutReport {
            replica_set: replica_set.to_owned(),
            ..rolling(1)
        };
        Status {
            uid: uid.to_owned(),
            ..status(report)
        }
    };
    for (replica_set, uid, is_passed) in [
        ("web-1", "u", true),
        ("web-2", "u", false),
        ("web-1", "another", false),
        ("web-2", "another", false),
    ] {
        let mut member = member(Goal::Complete, Switch::On);
        member.take(of("web-1", "u"), seconds(1));
        assert!(member.options.previous.is_some());
        member.take(of(replica_set, uid), seconds(2));
        let previous = member.options.previous.is_some();
        assert_eq!(previous, is_passed, "{replica_set} {uid}");
    }
}
