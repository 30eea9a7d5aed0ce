//! Rollouts of new templates.

use rollplan_forecast::{Effect, Outcome, Source};

use crate::world::{forecast, mk_complete, mk_rollout};

#[test]
fn a_rollout_of_ten_pods_has_known_bounds() {
    let snapshot = mk_complete(&[5, 6, 7, 8, 9, 10, 8, 7, 6, 9]);
    let answer = forecast(mk_rollout(snapshot));
    println!("{answer:#?}");
    assert_eq!(answer.effect, Effect::StartsRollout);
    assert_eq!(answer.start_times.source, Source::OtherTemplates);
    assert_eq!(answer.expected.outcome, Outcome::Completes);
    assert_eq!(answer.expected.pods_max.high, 13);
    assert_eq!(answer.expected.available_min.low, 8);
    assert_eq!(answer.never_ready.outcome, Outcome::Never);
}
