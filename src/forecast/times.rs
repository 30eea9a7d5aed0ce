//! How long pods take to start and to terminate: what the pods of a snapshot show, and what a sample draws from it.
//!
//! All times are in milliseconds.

use std::collections::{BTreeMap, BTreeSet};

use rollplan_core::pass::has_template_of;
use rollplan_core::revision::revision_of;
use rollplan_core::snapshot::{Pod, ReplicaSet, Snapshot};
use rollplan_core::template::{Template, images};
use rollplan_core::time::Time;

use crate::change::is_own;
use crate::random::Random;

/// How much longer a pod may have taken than the difference of its times, which are whole seconds, in ms.
const ROUNDING_MAX: i64 = 999;

/// The time that a pod takes to start if none is known. Only the order of events depends on it.
const UNKNOWN_START: i64 = 10_000;
/// The time within which most containers terminate that handle SIGTERM.
const QUICK_TERMINATION: i64 = 1000;
/// Pods that were created in the same second share a rounding error. Averaged over this many seconds, the errors cancel out.
const SECONDS_MAX: usize = 100;
/// The number of start times up to which a forecast is a guess.
const GUESS_MAX: usize = 4;
/// `terminationGracePeriodSeconds` of a template without one.
const GRACE_PERIOD_SECONDS: i64 = 30;
/// The progress deadline of Kubernetes, for Deployments without one.
const DEADLINE_SECONDS: i64 = 600;

/// How long pods take to start and to terminate, in the request. Each forecast draws from these times with equal
/// probability.
#[derive(Clone, Debug, Default)]
pub struct PodTimes {
    /// Times from the creation of a pod until it is ready.
    pub start: Vec<i64>,
    /// Times from the deletion of a pod until it is removed.
    pub termination: Vec<i64>,
}

/// Where the start times of a forecast come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartTimesSource {
    /// No start time is known: the forecast has no durations.
    None,
    /// Pods of the snapshot with the template after the changes.
    SameTemplate,
    /// Pods of the snapshot with other templates of the Deployment.
    OtherTemplates,
    /// The request.
    Request,
}

/// The start times that a forecast uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartTimes {
    /// Where they come from.
    pub source: StartTimesSource,
    /// The number of start times.
    pub count: usize,
    /// Whether durations are a guess without a median: there are at most four start times, or a pod is still starting that
    /// has taken more than twice as long as all others.
    pub guess: bool,
    /// The number of pods that are still starting. They have taken at least the time since their creation.
    pub still_starting: usize,
    /// The number of pods that were not used because they became ready later than the progress deadline after their
    /// creation.
    pub dropped_late: usize,
    /// The number of pods that were not used because a container has restarted.
    pub dropped_restarted: usize,
    /// The number of pods that were not used because they fail, or because they and all others with their template are not
    /// ready and will be replaced.
    pub dropped_failing: usize,
    /// The shortest, median and longest start time. `None` if none is known.
    pub range: Option<Range>,
    /// The shortest, median and longest time to terminate.
    pub termination: Range,
}

/// A range of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The lowest.
    pub low: i64,
    /// The median. `None` if the range is a guess.
    pub median: Option<i64>,
    /// The highest.
    pub high: i64,
}

/// A pod that was observed.
#[derive(Clone, Copy, Debug)]
struct Observation {
    /// The time until it was ready, or its age if it is not ready yet.
    time: i64,
    is_ready: bool,
    /// The second in which it was created.
    created: i64,
    place: Place,
}

/// What a pod found on its node, as far as other pods of its ReplicaSet show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// It was the first one on the node, or created together with it.
    First,
    /// It was created after another one was ready.
    Later,
    /// Not known.
    Unknown,
}

/// The times of pods from which samples draw.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    /// In ascending order.
    observations: Vec<Observation>,
    /// The times of the first pods on their nodes, if these waited for an image. They are not among the others then.
    first: Vec<i64>,
    /// The nodes of the observed pods in the order of their names, and whether they must pull the images of new pods: none
    /// must if no observed pod waited for an image, or if new pods have the images of others.
    nodes: Vec<(String, bool)>,
    terminations: Vec<i64>,
    /// The number of different seconds in which the observed pods were created.
    seconds: usize,
    /// The grace period of the template before the changes.
    pub(crate) grace: i64,
    /// The age at which a pod that is not ready counts as stuck.
    pub(crate) stuck_after: i64,
    pub(crate) described: StartTimes,
}

/// The times of pods of one sample.
#[derive(Clone, Debug)]
pub(crate) struct SampleTimes {
    starts: Times,
    /// Those of the first new pods on their nodes. Empty if they are like the others.
    first: Times,
    terminations: Times,
}

/// A distribution of times.
#[derive(Clone, Debug)]
struct Times {
    /// In ascending order.
    times: Vec<i64>,
    /// For each of the times, the probability of shorter ones, in parts of [`WHOLE`].
    shorter: Vec<i64>,
}

// === impl Model ===

impl Model {
    /// Learns from the pods of a snapshot after the changes, unless the caller gives the times.
    pub(crate) fn learn(snapshot: &Snapshot, given: PodTimes, failing: &BTreeSet<String>) -> Self {
        let mut described = StartTimes {
            source: StartTimesSource::Request,
            count: 0,
            guess: false,
            still_starting: 0,
            dropped_late: 0,
            dropped_restarted: 0,
            dropped_failing: 0,
            range: None,
            termination: Range {
                low: 0,
                median: None,
                high: 0,
            },
        };
        let deadline = snapshot.deployment.spec.progress_deadline_seconds;
        let deadline = match deadline {
            i32::MAX => DEADLINE_SECONDS,
            seconds => seconds.into(),
        };
        let mut stuck_after = deadline * 1000;
        let mut observations: Vec<Observation> = given.start.iter().copied().map(ready).collect();
        if observations.is_empty() {
            let [same, other] = observe(snapshot, stuck_after, failing, &mut described);
            let has_ready = |them: &[Observation]| them.iter().any(|it| it.is_ready);
            (described.source, observations) = if has_ready(&same) && !is_small_part(&same, &other)
            {
                (StartTimesSource::SameTemplate, same)
            } else if has_ready(&other) {
                // Those with the template after the changes have taken at least their age.
                let all = same.into_iter().chain(other).collect();
                (StartTimesSource::OtherTemplates, all)
            } else {
                (StartTimesSource::None, Vec::new())
            };
        }
        observations.sort_unstable_by_key(|it| it.time);
        let ready = observations.iter().filter(|it| it.is_ready);
        let times: Vec<i64> = ready.map(|it| it.time).collect();
        let longest = times.last().copied().unwrap_or(0);
        stuck_after = stuck_after.max(longest);
        // How much longer a pod takes that has taken longer than all others, none of them shows.
        let is_beyond = observations
            .iter()
            .any(|it| it.time > longest.saturating_mul(2));
        described.count = times.len();
        described.guess = !times.is_empty() && (times.len() <= GUESS_MAX || is_beyond);
        described.range = range(&times).map(|range| Range {
            median: range.median.filter(|_| !described.guess),
            ..range
        });
        let seconds: std::collections::BTreeSet<i64> =
            observations.iter().map(|it| it.created).collect();
        let first = split_by_pull(&mut observations);
        let nodes = nodes(snapshot, !first.is_empty() && !has_images(snapshot));
        let mut terminations = given.termination;
        terminations.sort_unstable();
        let grace = grace_period(snapshot);
        described.termination = range(&terminations).unwrap_or(Range {
            low: QUICK_TERMINATION.min(grace),
            median: None,
            high: grace,
        });
        Self {
            observations,
            first,
            nodes,
            terminations,
            seconds: seconds.len(),
            grace,
            stuck_after,
            described,
        }
    }

    /// For each node of the observed pods, whether it must pull the images of new pods.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = bool> {
        self.nodes.iter().map(|(_, is_missing)| *is_missing)
    }

    /// The position of a node in [`Self::nodes`].
    pub(crate) fn position_of_node(&self, name: &str) -> Option<usize> {
        let found = self.nodes.binary_search_by(|node| (*node.0).cmp(name));
        found.ok()
    }

    /// Whether the caller gives times to terminate.
    pub(crate) fn has_terminations(&self) -> bool {
        !self.terminations.is_empty()
    }

    /// The times of a sample.
    pub(crate) fn sample(&self, random: &mut Random) -> SampleTimes {
        let starts = self.observations.iter().map(|observation| {
            let mut at = *observation;
            // A pod that is not ready yet takes as long as one of those that took longer.
            while !at.is_ready {
                let first = self.observations.partition_point(|it| it.time <= at.time);
                let longer = &self.observations[first..];
                at = match longer.get(random.index(longer.len())) {
                    Some(next) => *next,
                    None => ready(at.time + random.below(at.time + 1)),
                };
            }
            at.time
        });
        let starts: Vec<i64> = starts.collect();
        let (starts, first) = match self.described.source {
            StartTimesSource::None => (vec![UNKNOWN_START], Vec::new()),
            StartTimesSource::Request => (starts, Vec::new()),
            StartTimesSource::SameTemplate | StartTimesSource::OtherTemplates => {
                let error = self.rounding_error(random);
                let exact = |times: Vec<i64>| -> Vec<i64> {
                    let times = without_rounding(times);
                    times.iter().map(|time| (time + error).max(1)).collect()
                };
                (exact(starts), exact(self.first.clone()))
            }
        };
        let terminations = self.terminations(random);
        SampleTimes::new(starts, first, terminations, random)
    }

    /// How wrong the observed times are in common because of rounding. Pods that were created together have the same error,
    /// and those that were created at different times have errors that cancel out.
    fn rounding_error(&self, random: &mut Random) -> i64 {
        let seconds = self.seconds.clamp(1, SECONDS_MAX);
        let errors = (0..seconds).map(|_| random.below(1000) - random.below(1000));
        errors.sum::<i64>() / length(seconds)
    }

    /// The times of a sample in which every pod takes as long to start as the slowest, which may still be starting. `None`
    /// if none is known.
    pub(crate) fn slowest(&self, random: &mut Random) -> Option<SampleTimes> {
        let last = self.observations.last()?.time;
        let slowest = self.first.last().map_or(last, |first| last.max(*first));
        let longer = match self.described.source {
            StartTimesSource::SameTemplate | StartTimesSource::OtherTemplates => ROUNDING_MAX,
            StartTimesSource::None | StartTimesSource::Request => 0,
        };
        let terminations = self.terminations(random);
        let starts = vec![slowest + longer];
        Some(SampleTimes::new(starts, Vec::new(), terminations, random))
    }

    /// Containers that handle SIGTERM terminate within about a second, and others at the end of the grace period. The
    /// program decides, so all pods of a sample take the same time. The first is more frequent.
    fn terminations(&self, random: &mut Random) -> Vec<i64> {
        if !self.terminations.is_empty() {
            return self.terminations.clone();
        }
        match random.below(4) {
            0 => vec![self.grace],
            _ => vec![QUICK_TERMINATION.min(self.grace)],
        }
    }
}

/// Observed times without the part of their variance that is due to rounding: the times of the creation and of readiness are
/// whole seconds, so pods that start alike seem to differ by a second.
fn without_rounding(mut times: Vec<i64>) -> Vec<i64> {
    /// The variance of the difference of two times that are rounded down to 1,000 ms.
    const ROUNDING: i128 = 1000 * 1000 / 6;
    let count = length(times.len()).max(1);
    let mean = times.iter().sum::<i64>() / count;
    let squares = times.iter().map(|time| i128::from(time - mean).pow(2));
    let variance = squares.sum::<i128>() / i128::from(count);
    let (low, high) = (times.iter().min(), times.iter().max());
    let is_one_time = low.zip(high).is_some_and(|(low, high)| high - low <= 1000);
    let rest = if is_one_time {
        0
    } else {
        (variance - ROUNDING).max(0)
    };
    // The ratio of the standard deviations.
    let ratio = ((rest << 20) / variance.max(1)).isqrt();
    for time in &mut times {
        let distance = i128::from(*time - mean) * ratio / (1 << 10);
        *time = mean + i64::try_from(distance).unwrap_or(0);
    }
    times
}

/// Whether the start times of pods with the new template are too few to be used alone, and differ from none of those with
/// other templates, except for rounding.
fn is_small_part(same: &[Observation], other: &[Observation]) -> bool {
    let times = |them: &[Observation]| {
        let ready = them.iter().filter(|it| it.is_ready);
        ready.map(|it| it.time).collect::<Vec<i64>>()
    };
    let (same, other) = (times(same), times(other));
    let (Some(low), Some(high)) = (other.iter().min(), other.iter().max()) else {
        return false;
    };
    let usual = low - 1000..=high + 1000;
    same.len() <= GUESS_MAX && same.iter().all(|time| usual.contains(time))
}

fn ready(time: i64) -> Observation {
    Observation {
        time,
        is_ready: true,
        created: 0,
        place: Place::Unknown,
    }
}

/// The number of pairs of a first and a later pod from which it is not by chance that all first ones take longer.
const PAIRS_MIN: usize = 20;

/// If the first pods on their nodes pulled the images, removes them, and returns their times in ascending order. They pulled
/// the images if each of them started more slowly than every pod that found the images on its node. Differences within the
/// rounding of one second do not count. Pods that were created during a pull waited for a part of it, and are removed as
/// well.
fn split_by_pull(observations: &mut Vec<Observation>) -> Vec<i64> {
    let of = |place| observations.iter().filter(move |it| it.place == place);
    let first: Vec<i64> = of(Place::First)
        .filter(|it| it.is_ready)
        .map(|it| it.time)
        .collect();
    let later = of(Place::Later).map(|it| it.time);
    let differs = match (first.first(), later.clone().max()) {
        (Some(shortest), Some(longest)) => shortest - longest > 1000,
        _ => false,
    };
    if !differs || first.len() * later.count() < PAIRS_MIN {
        return Vec::new();
    }
    observations.retain(|it| it.place == Place::Later);
    first
}

/// Whether another revision has the images of the template, so that nodes are likely to have them. The template of an
/// earlier revision had its own.
fn has_images(snapshot: &Snapshot) -> bool {
    let deployment = &snapshot.deployment;
    let of = |template: &Template| BTreeSet::from_iter(images(template.value()));
    let wanted = of(&deployment.spec.template);
    let sets = snapshot.replica_sets.iter();
    let own: Vec<&ReplicaSet> = sets.filter(|set| is_own(snapshot, set)).collect();
    let revision = |set: &ReplicaSet| revision_of(&set.metadata.annotations);
    let latest = own.iter().map(|set| revision(set)).max();
    let is_current =
        |set: &ReplicaSet| has_template_of(set, deployment) && Some(revision(set)) == latest;
    let mut others = own.into_iter().filter(|set| !is_current(set));
    others.any(|set| wanted.is_subset(&of(&set.template)))
}

/// The nodes of the pods, and whether they must pull the images of new pods, if any node must: no pod with the template is
/// ready there.
fn nodes(snapshot: &Snapshot, pulls: bool) -> Vec<(String, bool)> {
    let deployment = &snapshot.deployment;
    let sets = snapshot.replica_sets.iter();
    let own = sets.filter(|set| is_own(snapshot, set));
    let own: BTreeMap<&str, bool> = own
        .map(|set| (set.metadata.uid.as_str(), has_template_of(set, deployment)))
        .collect();
    let mut nodes = BTreeMap::new();
    for pod in snapshot.pods.iter().filter(|pod| !pod.node_name.is_empty()) {
        let owner = pod.metadata.controller();
        if let Some(is_same) = owner.and_then(|owner| own.get(owner.uid.as_str())) {
            let is_missing = nodes.entry(pod.node_name.clone()).or_insert(pulls);
            *is_missing &= !(*is_same && ready_since(pod).is_some());
        }
    }
    nodes.into_iter().collect()
}

/// What the pods with the template after the changes show, and what those with other templates show.
fn observe(
    snapshot: &Snapshot,
    stuck_after: i64,
    failing: &BTreeSet<String>,
    described: &mut StartTimes,
) -> [Vec<Observation>; 2] {
    let deployment = &snapshot.deployment;
    let mut observed = [Vec::new(), Vec::new()];
    // Those that became ready only after the deadline.
    let mut late = [Vec::new(), Vec::new()];
    let owner_of = |pod: &Pod| Some(pod.metadata.controller()?.uid.clone());
    let ready = snapshot
        .pods
        .iter()
        .filter(|pod| ready_since(pod).is_some());
    let works: BTreeSet<String> = ready.filter_map(owner_of).collect();
    let sets: BTreeMap<&str, bool> = snapshot
        .replica_sets
        .iter()
        .filter(|set| {
            let controller = set.metadata.controller();
            controller.is_some_and(|owner| owner.uid == deployment.metadata.uid)
        })
        .map(|set| {
            let is_same = has_template_of(set, deployment);
            (set.metadata.uid.as_str(), is_same)
        })
        .collect();
    let places = places(&snapshot.pods);
    for pod in snapshot.pods.iter() {
        let owner = pod.metadata.controller();
        let Some(&is_same) = owner.and_then(|owner| sets.get(owner.uid.as_str())) else {
            continue;
        };
        let is_active = pod.metadata.deletion_timestamp.is_none();
        let Some(created) = pod.metadata.creation_timestamp.filter(|_| is_active) else {
            continue;
        };
        let since = ready_since(pod);
        let place = match place_of(pod).and_then(|it| places.get(&it)) {
            Some((first, _)) if created == *first => Place::First,
            Some((_, Some(ready))) if *ready <= created => Place::Later,
            _ => Place::Unknown,
        };
        let observation = Observation {
            time: millis_between(created, since.unwrap_or(snapshot.now)),
            is_ready: since.is_some(),
            created: created.seconds(),
            place,
        };
        if has_ended(pod) {
            continue;
        }
        // A template with which no pod is ready may be broken, which shows nothing about others.
        let is_broken = || !is_same && owner_of(pod).is_none_or(|it| !works.contains(&it));
        if !observation.is_ready && (failing.contains(&pod.metadata.uid) || is_broken()) {
            described.dropped_failing += 1;
            continue;
        }
        described.still_starting += usize::from(!observation.is_ready);
        if pod
            .containers
            .iter()
            .any(|container| container.restarts > 0)
        {
            described.dropped_restarted += 1;
        } else if observation.time <= stuck_after {
            observed[usize::from(!is_same)].push(observation);
        } else if observation.is_ready {
            late[usize::from(!is_same)].push(observation);
        }
    }
    // Interruptions are rare: if most pods took longer than the deadline, this is the time that they take to start.
    for (observed, late) in observed.iter_mut().zip(late) {
        if late.len() > observed.len() {
            observed.extend(late);
        } else {
            described.dropped_late += late.len();
        }
    }
    observed
}

/// For each ReplicaSet and node, when its first pod was created, and when the first one was ready.
fn places(pods: &[Pod]) -> BTreeMap<(&str, &str), (Time, Option<Time>)> {
    let mut places = BTreeMap::new();
    for pod in pods {
        if let (Some(place), Some(created)) = (place_of(pod), pod.metadata.creation_timestamp) {
            let since = ready_since(pod);
            let (first, ready) = places.entry(place).or_insert((created, since));
            *first = created.min(*first);
            *ready = (*ready).into_iter().chain(since).min();
        }
    }
    places
}

/// The ReplicaSet and the node of a pod that is scheduled.
fn place_of(pod: &Pod) -> Option<(&str, &str)> {
    let owner = pod.metadata.controller()?;
    (!pod.node_name.is_empty()).then_some((owner.uid.as_str(), pod.node_name.as_str()))
}

/// Whether all containers of the pod have terminated.
pub(crate) fn has_ended(pod: &Pod) -> bool {
    matches!(pod.phase.as_str(), "Failed" | "Succeeded")
}

/// Since when the pod is ready, if it is.
pub(crate) fn ready_since(pod: &Pod) -> Option<Time> {
    let mut conditions = pod.conditions.iter();
    let ready = conditions.find(|condition| condition.kind == "Ready");
    let ready = ready.filter(|condition| condition.status == "True")?;
    ready
        .last_transition_time
        .or(pod.metadata.creation_timestamp)
}

/// The milliseconds from one time to a later one.
pub(crate) fn millis_between(from: Time, to: Time) -> i64 {
    let span = to.since(from);
    span.seconds() * 1000 + i64::from(span.subsec_nanos() / 1_000_000)
}

fn grace_period(snapshot: &Snapshot) -> i64 {
    let template = snapshot.deployment.spec.template.value();
    let seconds = template.at(&["spec", "terminationGracePeriodSeconds"]);
    let seconds = seconds.and_then(|seconds| seconds.as_number()?.as_i64());
    let seconds = seconds.unwrap_or(GRACE_PERIOD_SECONDS);
    seconds.clamp(0, i64::from(i32::MAX)) * 1000
}

/// The range of times in ascending order, if there are any.
fn range(times: &[i64]) -> Option<Range> {
    Some(Range {
        low: *times.first()?,
        median: times.get(times.len() / 2).copied(),
        high: *times.last()?,
    })
}

// === impl SampleTimes ===

impl SampleTimes {
    fn new(starts: Vec<i64>, first: Vec<i64>, terminations: Vec<i64>, random: &mut Random) -> Self {
        Self {
            starts: Times::new(starts, random),
            first: Times::new(first, random),
            terminations: Times::new(terminations, random),
        }
    }

    /// The time that a pod takes to start.
    pub(crate) fn start(&self, random: &mut Random) -> i64 {
        self.starts.draw(random)
    }

    /// The time that the first pod on a node takes to start that has to pull the images.
    pub(crate) fn first_start(&self, random: &mut Random) -> i64 {
        self.first.draw(random)
    }

    /// The time that a pod of this age still takes to start, if it is the first one on such a node.
    pub(crate) fn rest_of_first_start(&self, age: i64, random: &mut Random) -> i64 {
        self.first.rest(age, random)
    }

    /// The time that a pod of this age still takes to start.
    pub(crate) fn rest_of_start(&self, age: i64, random: &mut Random) -> i64 {
        self.starts.rest(age, random)
    }

    /// The time that a pod takes to terminate.
    pub(crate) fn termination(&self, random: &mut Random) -> i64 {
        self.terminations.draw(random)
    }

    /// The time that a pod that was deleted this long ago still takes to terminate.
    pub(crate) fn rest_of_termination(&self, age: i64, random: &mut Random) -> i64 {
        self.terminations.rest(age, random)
    }
}

/// The probability of all times.
const WHOLE: i64 = 1 << 32;
/// The number of distances between the longest times that show how much longer a time may be than all that were observed.
const TAIL: usize = 4;

// === impl Times ===

impl Times {
    /// The distribution of a sample. That of the pods is not known, only times that were drawn from it. The probability that
    /// the next time lies between two neighbors, below the shortest or above the longest is the same for all of these
    /// intervals (Hill's assumption). The probabilities of a sample are drawn so that this also holds for each further time,
    /// given those before it: they are the distances between random numbers (Rubin's Bayesian bootstrap).
    fn new(mut times: Vec<i64>, random: &mut Random) -> Self {
        times.sort_unstable();
        let shorter = times.iter().map(|_| random.below(WHOLE));
        let mut shorter: Vec<i64> = shorter.collect();
        shorter.sort_unstable();
        Self { times, shorter }
    }

    fn draw(&self, random: &mut Random) -> i64 {
        self.at(random.below(WHOLE), random)
    }

    /// The rest of a time of which `age` has passed.
    fn rest(&self, age: i64, random: &mut Random) -> i64 {
        let age = age.max(0);
        let first = self.times.partition_point(|time| *time <= age);
        let Some(longer) = self.times.get(first) else {
            return 1 + self.above(age, random);
        };
        // The probability of times up to the age.
        let passed = match first.checked_sub(1) {
            Some(before) => {
                let (time, shorter) = (self.times[before], self.shorter[before]);
                let part = i128::from(age - time) * i128::from(self.shorter[first] - shorter);
                shorter + i64::try_from(part / i128::from(longer - time)).unwrap_or(0)
            }
            None => 0,
        };
        let position = passed + random.below(WHOLE - passed);
        (self.at(position, random) - age).max(1)
    }

    /// The time with this probability of shorter ones.
    fn at(&self, position: i64, random: &mut Random) -> i64 {
        let times = &self.times;
        let last = times.len().saturating_sub(1);
        let next = self.shorter.partition_point(|shorter| *shorter <= position);
        match next {
            _ if times.is_empty() => 0,
            0 => (times[0] - self.below_shortest(random)).max(times[0] / 2),
            _ if next > last && last < TAIL => times[last],
            _ if next > last => times[last] + self.above(times[last], random),
            _ => {
                let (low, high) = (times[next - 1], times[next]);
                let (from, to) = (self.shorter[next - 1], self.shorter[next]);
                let part = i128::from(high - low) * i128::from(position - from);
                low + i64::try_from(part / i128::from((to - from).max(1))).unwrap_or(0)
            }
        }
    }

    /// By how much a time is below the shortest: at most by as much as the shortest ones are apart.
    fn below_shortest(&self, random: &mut Random) -> i64 {
        match self.times.get(TAIL) {
            Some(high) => random.below((high - self.times[0]) / length(TAIL) + 1),
            None => 0,
        }
    }

    /// By how much a time is above `low`, which is at least the longest. If long times become less frequent exponentially,
    /// the mean of this is that of the distances between the longest ones, each multiplied by the number of times above it.
    /// These are few, so the mean is not known exactly either, and the result has a Lomax distribution. Its shape is one
    /// less than the number of distances, because many start times have a longer tail than that. A time that has already
    /// lasted longer makes the mean longer. A single time shows nothing: the rest is shorter than what has passed.
    fn above(&self, low: i64, random: &mut Random) -> i64 {
        let count = self.times.len().saturating_sub(1).min(TAIL);
        if count == 0 {
            return random.below(low + 1);
        }
        let longest = self.times.iter().rev();
        let distances = longest.clone().zip(longest.skip(1)).zip(1..);
        let weighted = distances.map(|((high, low), above)| (high - low) * above);
        let sum: i64 = weighted.take(count).sum();
        let passed = low - self.times.last().unwrap_or(&low);
        let draws = (1..count.max(2)).map(|_| random.below(WHOLE));
        // The result is at most 99 times the sum.
        let highest = draws.fold(WHOLE / 100, i64::max);
        let excess = i128::from(sum + passed) * i128::from(WHOLE - highest) / i128::from(highest);
        i64::try_from(excess).unwrap_or(i64::MAX)
    }
}

fn length(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
