//! Converts forecasts to protobuf messages.

use rollplan_forecast::{
    Answer, CountRange, Effect, Forecast, Outcome, Point, Range, RolloutLimits, SetReference,
    StartTimes, StartTimesSource,
};

use super::print_revision::change;
use crate::proto;

/// Converts a forecast of a Deployment in this namespace to a response.
pub(super) fn print_forecast(answer: Answer, namespace: &str) -> proto::ForecastRolloutResponse {
    let Answer {
        effect,
        template_changes,
        spec_changes,
        limits,
        replica_sets,
        start_times,
        expected,
        never_ready,
        slow,
        assumptions,
    } = answer;
    let has_seconds = start_times.source != StartTimesSource::None;
    let forecast = |it| print_scenario(it, has_seconds);
    let (effect, revision) = print_effect(effect);
    proto::ForecastRolloutResponse {
        effect: effect.into(),
        revision,
        template_changes: template_changes.into_iter().map(change).collect(),
        limits: Some(print_limits(limits)),
        replica_sets: replica_sets
            .into_iter()
            .map(|set| print_set(set, namespace))
            .collect(),
        start_times: Some(print_start_times(start_times)),
        expected: Some(forecast(expected)),
        never_ready: Some(forecast(never_ready)),
        slow: slow.map(forecast),
        assumptions,
        spec_changes: spec_changes.into_iter().map(change).collect(),
    }
}

fn print_effect(effect: Effect) -> (proto::ChangeEffect, i64) {
    match effect {
        Effect::NoChange => (proto::ChangeEffect::NoChange, 0),
        Effect::ScaleOnly => (proto::ChangeEffect::ScaleOnly, 0),
        Effect::StartsRollout => (proto::ChangeEffect::StartsRollout, 0),
        Effect::ReturnsToRevision(revision) => (proto::ChangeEffect::ReturnsToRevision, revision),
        Effect::HeldByPause => (proto::ChangeEffect::HeldByPause, 0),
    }
}

fn print_limits(limits: RolloutLimits) -> proto::RolloutLimits {
    let RolloutLimits {
        replicas,
        pods_max,
        available_min,
        progress_deadline_seconds,
    } = limits;
    proto::RolloutLimits {
        replicas,
        pods_max,
        available_min,
        progress_deadline_seconds,
    }
}

fn print_set(set: SetReference, namespace: &str) -> proto::ObjectReference {
    let SetReference { name, uid } = set;
    proto::ObjectReference {
        api_version: "apps/v1".to_owned(),
        kind: "ReplicaSet".to_owned(),
        namespace: namespace.to_owned(),
        name,
        uid,
    }
}

fn print_start_times(times: StartTimes) -> proto::StartTimes {
    let StartTimes {
        source,
        count,
        guess,
        still_starting,
        dropped_late,
        dropped_restarted,
        dropped_failing,
        range,
        termination,
    } = times;
    let source = match source {
        StartTimesSource::None => proto::StartTimesSource::None,
        StartTimesSource::SameTemplate => proto::StartTimesSource::SameTemplate,
        StartTimesSource::OtherTemplates => proto::StartTimesSource::OtherTemplates,
        StartTimesSource::Request => proto::StartTimesSource::Request,
    };
    let number = |count| i32::try_from(count).unwrap_or(i32::MAX);
    proto::StartTimes {
        source: source.into(),
        count: number(count),
        guess,
        still_starting: number(still_starting),
        dropped_late: number(dropped_late),
        dropped_restarted: number(dropped_restarted),
        dropped_failing: number(dropped_failing),
        range: range.map(print_range),
        termination: Some(print_range(termination)),
    }
}

fn print_range(range: Range) -> proto::DurationRange {
    let Range { low, median, high } = range;
    proto::DurationRange {
        low: Some(duration(low)),
        median: median.map(duration),
        high: Some(duration(high)),
    }
}

fn duration(millis: i64) -> prost_types::Duration {
    prost_types::Duration {
        seconds: millis / 1000,
        nanos: i32::try_from(millis % 1000 * 1_000_000).unwrap_or(0),
    }
}

fn print_scenario(forecast: Forecast, has_seconds: bool) -> proto::Forecast {
    let Forecast {
        outcome,
        outcomes,
        reason,
        duration,
        deadline_exceeded,
        pods_max,
        pods_with_terminating_max,
        available_min,
        available_at_end,
        waves,
        replica_set_writes,
        trajectory,
    } = forecast;
    proto::Forecast {
        outcome: print_outcome(outcome).into(),
        outcomes: outcomes
            .into_iter()
            .map(|(outcome, samples)| proto::OutcomeCount {
                outcome: print_outcome(outcome).into(),
                samples,
            })
            .collect(),
        reason,
        duration: duration.map(print_range),
        deadline_exceeded: deadline_exceeded.map(print_range),
        pods_max: Some(print_counts(pods_max)),
        pods_with_terminating_max: Some(print_counts(pods_with_terminating_max)),
        available_min: Some(print_counts(available_min)),
        available_at_end: Some(print_counts(available_at_end)),
        waves: Some(print_counts(waves)),
        replica_set_writes: Some(print_counts(replica_set_writes)),
        trajectory: trajectory
            .into_iter()
            .map(|point| print_point(point, has_seconds))
            .collect(),
    }
}

fn print_outcome(outcome: Outcome) -> proto::Outcome {
    match outcome {
        Outcome::Completes => proto::Outcome::Completes,
        Outcome::CompletesLate => proto::Outcome::CompletesLate,
        Outcome::Never => proto::Outcome::Never,
        Outcome::Undecided => proto::Outcome::Undecided,
    }
}

fn print_counts(counts: CountRange) -> proto::CountRange {
    let CountRange { low, median, high } = counts;
    proto::CountRange { low, median, high }
}

fn print_point(point: Point, has_seconds: bool) -> proto::TrajectoryPoint {
    let Point {
        offset,
        pods,
        available,
        terminating,
        events,
    } = point;
    proto::TrajectoryPoint {
        offset: has_seconds.then(|| duration(offset)),
        pods,
        available,
        terminating,
        events,
    }
}
