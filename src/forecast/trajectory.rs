//! The course of one sample.

use std::sync::Arc;

use crate::world::World;

/// The maximum number of points.
const POINTS_MAX: usize = 500;
/// The maximum number of values in all points. With thousands of ReplicaSets, there are fewer points.
const NUMBERS_MAX: usize = 200_000;

/// The state of a rollout at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Point {
    /// The time since the snapshot, in milliseconds.
    pub offset: i64,
    /// The pods of each ReplicaSet, without those that are terminating.
    pub pods: Vec<i32>,
    /// The available pods of each ReplicaSet.
    pub available: Vec<i32>,
    /// The number of terminating pods.
    pub terminating: i32,
    /// What happens at this time.
    pub events: Vec<String>,
}

/// Records points while a sample runs.
#[derive(Debug)]
pub(crate) struct Recorder {
    /// The names of the ReplicaSets.
    names: Vec<Arc<str>>,
    points: Vec<Point>,
    /// The events since the last point.
    events: Vec<String>,
    /// Two points are at least this many milliseconds apart.
    distance: i64,
    points_max: usize,
}

// === impl Recorder ===

impl Recorder {
    /// Records the ReplicaSets with these names.
    pub(crate) fn new(names: Vec<Arc<str>>) -> Self {
        let points_max = NUMBERS_MAX / names.len().max(1);
        Self {
            names,
            points: Vec::new(),
            events: Vec::new(),
            distance: 0,
            points_max: points_max.clamp(2, POINTS_MAX),
        }
    }

    /// Records a point, unless nothing has changed. Events between the writes of sizes and the syncs that carry them out
    /// become part of the point after these.
    pub(crate) fn record(&mut self, world: &World, mut events: Vec<String>) {
        self.events.append(&mut events);
        if world.is_between_writes() {
            return;
        }
        let counts = |count: &dyn Fn(&crate::world::SetPods) -> i32| {
            let of = |name: &Arc<str>| {
                let sets = world.sets.iter().filter(|set| set.name == *name);
                sets.map(count).sum()
            };
            self.names.iter().map(of).collect::<Vec<i32>>()
        };
        let mut point = Point {
            offset: world.now,
            pods: counts(&|set| set.pods()),
            available: counts(&|set| set.available),
            terminating: world.totals.terminating,
            events: std::mem::take(&mut self.events),
        };
        let is_first = self.points.len() < 2;
        if let Some(last) = self.points.last_mut() {
            let is_same = point.pods == last.pods
                && point.available == last.available
                && point.terminating == last.terminating;
            if is_same && point.events.is_empty() {
                return;
            }
            if point.offset <= last.offset + self.distance && !is_first {
                last.events.append(&mut point.events);
                point.events = std::mem::take(&mut last.events);
                *last = point;
                return;
            }
        }
        self.points.push(point);
        if self.points.len() > self.points_max {
            self.thin_out();
        }
    }

    /// Merges points that are close to each other, until half of them remain.
    fn thin_out(&mut self) {
        let span = self.points.last().map_or(0, |last| last.offset);
        while self.points.len() > self.points_max / 2 {
            let least = span / i64::try_from(self.points_max).unwrap_or(i64::MAX);
            self.distance = (self.distance + self.distance / 4 + 1).max(least);
            let mut kept: Vec<Point> = Vec::new();
            for mut point in std::mem::take(&mut self.points) {
                match kept.last_mut() {
                    Some(last) if point.offset <= last.offset + self.distance => {
                        last.events.append(&mut point.events);
                        point.events = std::mem::take(&mut last.events);
                        point.offset = last.offset;
                        *last = point;
                    }
                    _ => kept.push(point),
                }
            }
            self.points = kept;
        }
    }

    pub(crate) fn into_points(self) -> Vec<Point> {
        self.points
    }
}
