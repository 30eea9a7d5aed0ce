//! The facts of a verdict for programs that wait: when to stop, and which events to read.

use rollplan_health::judge::Verdict;
use rollplan_world::at;

use super::crashes::crashed;
use super::deadline::past_the_deadline;
use super::scheduling::unschedulable;
use super::verdict;
use crate::report::half_way;

#[test]
fn failed_rollout_is_final_and_reported_once_its_deadline_has_passed() {
    let mut paused = half_way();
    paused.deployment.spec.paused = true;
    let mut deleting = half_way();
    deleting.deployment.metadata.deletion_timestamp = Some(at(0));
    let mut refused = half_way();
    refused.deployment.spec.selector = Default::default();
    for (what, snapshot, expected) in [
        ("in progress", half_way(), [false, false, false]),
        ("certain failure", crashed(), [true, false, false]),
        (
            "certain failure after the deadline",
            past_the_deadline(crashed()),
            [true, true, false],
        ),
        (
            "deadline",
            past_the_deadline(unschedulable()),
            [true, true, false],
        ),
        ("paused", paused, [false, false, true]),
        ("deleting", deleting, [false, false, false]),
        ("empty selector", refused, [true, true, false]),
    ] {
        let Verdict {
            is_final,
            is_reported,
            awaits_user,
            ..
        } = verdict(&snapshot);
        assert_eq!([is_final, is_reported, awaits_user], expected, "{what}");
    }
}

#[test]
fn events_of_autoscalers_are_selected_if_no_node_can_run_the_pods() {
    let selectors = verdict(&unschedulable()).event_selectors;
    assert!(selectors.contains(&"type=Warning"), "{selectors:?}");
    let reaction = "type=Normal,reason=TriggeredScaleUp";
    assert!(selectors.contains(&reaction), "{selectors:?}");
    let selectors = verdict(&crashed()).event_selectors;
    assert_eq!(selectors, ["type=Warning"]);
}
