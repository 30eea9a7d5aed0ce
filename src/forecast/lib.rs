//! What a change of a Deployment will do, before it is applied, and how a rollout in progress is likely to continue.
//!
//! A forecast simulates the rollout many times. In each sample, a world of pods advances from event to event, and the
//! planner of `rollplan-core` decides what the Deployment controller does. The model of the other controllers is
//! `rollplan-simulation`. The planner does not know the forecast. The same request always has the same result: random
//! numbers depend on its seed alone, and nothing is computed with floating-point numbers.
//!
//! `change` applies the changes and finds out what they do, `times` has the start times that pods show and those that a
//! sample draws, `world` the pods and the limits of the cluster, and `queue` the events in the order of their times. `sample`
//! runs one sample, `trajectory` is its course, `summary` what all samples show, and `assumptions` what the forecast assumes.
//!
//! ```
//! use std::collections::BTreeSet;
//!
//! use rollplan_core::interrupt::Never;
//! use rollplan_core::snapshot::Options;
//! use rollplan_core::template::Template;
//! use rollplan_forecast::{
//!     Change, ClusterLimits, Horizon, Outcome, PodTimes, Request, forecast_until,
//! };
//! use rollplan_world::{mk_deployment, mk_set, mk_snapshot, mk_template, settle};
//!
//! let deployment = mk_deployment(4);
//! let set = mk_set(&deployment, "v1", 1, 4);
//! let mut snapshot = mk_snapshot(deployment.clone(), vec![set]);
//! settle(&mut snapshot);
//! let mut changed = deployment;
//! changed.spec.template = Template::from(mk_template("v2"));
//!
//! let request = Request {
//!     snapshot,
//!     failure: None,
//!     failing_pods: BTreeSet::new(),
//!     changes: vec![Change::Deployment(Box::new(changed))],
//!     horizon: Horizon::Pass,
//!     options: Options::default(),
//!     pod_times: PodTimes::default(),
//!     limits: ClusterLimits::default(),
//!     samples: 10,
//!     seed: 1,
//! };
//! let answer = forecast_until(request, &Never).unwrap().unwrap();
//! assert_eq!(answer.expected.outcome, Outcome::Completes);
//! // Never more than the four pods and the surge of one.
//! assert!(answer.expected.pods_max.high <= 5);
//! ```

mod assumptions;
mod change;
mod image_name;
mod queue;
mod random;
mod room;
mod sample;
mod summary;
mod times;
mod trajectory;
mod world;

pub use change::{Change, Effect};
pub use sample::{Observer, Outcome};
pub use summary::{CountRange, Forecast};
pub use times::{PodTimes, Range, StartTimes, StartTimesSource};
pub use trajectory::Point;
pub use world::ClusterLimits;

use std::collections::BTreeSet;
use std::sync::Arc;

use rollplan_core::interrupt::{Interrupt, Interrupted};
use rollplan_core::pass::{self, roles};
use rollplan_core::size::Limits;
use rollplan_core::snapshot::{Options, Snapshot};
use rollplan_core::status::{self, PROGRESSING, TIMED_OUT};
use rollplan_core::template::{self, TemplateChange};
use rollplan_core::{RollbackError, strategy};

use crate::image_name::is_image_name;
use crate::random::Random;
use crate::sample::{Reason, Rollout};
use crate::times::{Model, SampleTimes};
use crate::trajectory::Recorder;
use crate::world::{Chance, World};

/// The maximum number of desired pods, before and after the changes.
pub const REPLICAS_MAX: i32 = 5000;
/// The maximum number of samples of the scenarios other than the expected one, because little in them is random.
const SCENARIO_SAMPLES_MAX: u32 = 10;

/// The controller that carries out a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Horizon {
    /// The Deployment controller of Kubernetes.
    Pass,
    /// An adapter of rollplan.
    Settled,
}

/// The request of a forecast.
#[derive(Clone, Debug)]
pub struct Request {
    /// The observed state.
    pub snapshot: Snapshot,
    /// Why pods with the template of the snapshot do not become available. `None` if nothing is known to prevent it.
    pub failure: Option<Failure>,
    /// The UIDs of pods that fail: they neither become ready nor show how long a pod takes to start.
    pub failing_pods: BTreeSet<String>,
    /// Changes of the Deployment, in this order.
    pub changes: Vec<Change>,
    /// The controller that carries out the rollout.
    pub horizon: Horizon,
    /// Options of the plans.
    pub options: Options,
    /// How long pods take to start and to terminate. Empty lists default to the times that the pods of the snapshot show.
    pub pod_times: PodTimes,
    /// Limits of the cluster that the snapshot does not show.
    pub limits: ClusterLimits,
    /// The number of simulations, at least one.
    pub samples: u32,
    /// The seed of all random choices.
    pub seed: u64,
}

/// Why pods with a template do not become available.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The reason, as one sentence.
    pub message: String,
    /// Whether it is certain that this persists. Otherwise, the outcome of the rollout is not decided.
    pub is_certain: bool,
    /// The container that fails. Empty if the pod as a whole does.
    pub container: String,
    /// Parts of the paths of fields in the template: a change of one of them may resolve the failure. If there are none, any
    /// change of the template may.
    pub resolved_by: &'static [&'static str],
}

// === impl Failure ===

impl Failure {
    /// Whether changes of the template may resolve it. Those of other containers do not.
    fn is_resolved_by(&self, changes: &[TemplateChange]) -> bool {
        let affects = |path: &str| {
            let mut parts = self.resolved_by.iter();
            parts.any(|part| path.contains(part))
        };
        let mut paths = changes.iter().map(|change| change.path.as_str());
        paths.any(|path| match path.split_once("ontainers[") {
            _ if self.resolved_by.is_empty() => true,
            Some((_, item)) => {
                let (name, field) = item.split_once(']').unwrap_or_default();
                let is_own = self.container.is_empty()
                    || name.strip_prefix("name=") == Some(self.container.as_str());
                // A container that is added or removed changes all of its fields.
                is_own && (field.is_empty() || affects(field))
            }
            None => path.ends_with("ontainers") || affects(path),
        })
    }
}

/// A forecast with its scenarios.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What the changes do.
    pub effect: Effect,
    /// The differences between the current pod template and the one after the changes.
    pub template_changes: Vec<TemplateChange>,
    /// The differences between the other fields of the spec before and after the changes, for example "strategy.type".
    pub spec_changes: Vec<TemplateChange>,
    /// The number of desired pods and the limits of the rollout, after the changes.
    pub limits: RolloutLimits,
    /// The ReplicaSets of the trajectories: the new one first, then the old ones that have pods, newest first.
    pub replica_sets: Vec<SetReference>,
    /// Where the start times come from.
    pub start_times: StartTimes,
    /// The rollout with the start times that are expected.
    pub expected: Forecast,
    /// The rollout if no new pod ever becomes ready.
    pub never_ready: Forecast,
    /// The rollout if every pod takes as long to start as the slowest that was observed. `None` if no start times are known.
    pub slow: Option<Forecast>,
    /// The assumptions of the forecast, each as one sentence.
    pub assumptions: Vec<String>,
}

/// The number of desired pods, and the limits within which a rollout replaces them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RolloutLimits {
    /// The number of desired pods.
    pub replicas: i32,
    /// The highest number of pods that the strategy allows, without those that are terminating.
    pub pods_max: i32,
    /// The lowest number of available pods that the strategy allows. A rollout may start below it.
    pub available_min: i32,
    /// The seconds without progress after which the rollout is reported as failed. `None` without a deadline.
    pub progress_deadline_seconds: Option<i32>,
}

/// A ReplicaSet. One that does not exist yet has no UID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetReference {
    /// The name.
    pub name: String,
    /// The UID, or empty.
    pub uid: String,
}

/// Why there is no forecast.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForecastError {
    /// A rollback is not possible.
    #[error(transparent)]
    Rollback(#[from] RollbackError),
    /// Pods may be missing.
    #[error(
        "deployment {name:?} has no forecast: the list of pods may be incomplete; send all of them, and set podsComplete"
    )]
    PodsIncomplete {
        /// The name of the Deployment.
        name: String,
    },
    /// ReplicaSets may be missing.
    #[error(
        "deployment {name:?} has no forecast: the list of ReplicaSets may be incomplete; send all of them, and set \
         replicaSetsComplete"
    )]
    ReplicaSetsIncomplete {
        /// The name of the Deployment.
        name: String,
    },
    /// There are too many desired pods.
    #[error("{replicas} desired pods exceed the limit of {REPLICAS_MAX}")]
    TooManyPods {
        /// The number of desired pods.
        replicas: i32,
    },
}

/// Makes a forecast, unless it is interrupted.
///
/// # Errors
///
/// [`Interrupted`], or [`ForecastError`].
pub fn forecast_until(
    request: Request,
    interrupt: &dyn Interrupt,
) -> Result<Result<Answer, ForecastError>, Interrupted> {
    forecast_observed(request, None, interrupt)
}

/// [`forecast_until`], with all plans of all samples observed.
///
/// # Errors
///
/// See [`forecast_until`].
pub fn forecast_observed(
    request: Request,
    observer: Option<Observer<'_>>,
    interrupt: &dyn Interrupt,
) -> Result<Result<Answer, ForecastError>, Interrupted> {
    let Request {
        snapshot: before,
        failure,
        failing_pods,
        changes,
        horizon,
        options,
        pod_times,
        limits: cluster,
        samples,
        seed,
    } = request;
    let name = || before.deployment.metadata.name.clone();
    if !before.replica_sets_complete {
        return Ok(Err(ForecastError::ReplicaSetsIncomplete { name: name() }));
    }
    if !before.pods_complete {
        return Ok(Err(ForecastError::PodsIncomplete { name: name() }));
    }
    let replicas_before = before.deployment.spec.replicas;
    let changed = match change::apply_changes(&before, changes, interrupt)? {
        Ok(changed) => changed,
        Err(error) => return Ok(Err(error)),
    };
    let change::Changed {
        mut snapshot,
        effect,
        template_changes,
        spec_changes,
    } = changed;
    let failure = failure.filter(|it| !it.is_resolved_by(&template_changes));
    let failure = invalid_image(&snapshot).or(failure);
    let replicas = replicas_before.max(snapshot.deployment.spec.replicas);
    if replicas > REPLICAS_MAX {
        return Ok(Err(ForecastError::TooManyPods { replicas }));
    }
    let model = Model::learn(&snapshot, pod_times, &failing_pods);
    let given = cluster;
    let cluster = given.with_observed(&snapshot);
    let assumptions = assumptions::list(&model, [given, cluster]);
    let limits = rollout_limits(&snapshot);
    let replica_sets = references(&snapshot, interrupt);
    let names: Vec<Arc<str>> = replica_sets
        .iter()
        .map(|it| it.name.as_str().into())
        .collect();
    change::prepare(&mut snapshot);
    let replaces_pods = matches!(effect, Effect::StartsRollout | Effect::ReturnsToRevision(_));
    let quota_is_observed = given.pods_in_quota.is_none() && cluster.pods_in_quota.is_some();
    let world = World::new(snapshot, cluster, &model, &failing_pods);
    let simulation = Simulation {
        world: &world,
        model: &model,
        failure: failure.as_ref(),
        quota_is_observed,
        inherits_timeout: replaces_pods && has_timed_out(&world.snapshot),
        names: &names,
        horizon,
        options,
        seed,
        observer,
        interrupt,
    };
    let few = samples.min(SCENARIO_SAMPLES_MAX);
    let answer = Answer {
        effect,
        template_changes,
        spec_changes,
        limits,
        replica_sets,
        expected: simulation.forecast(Scenario::Expected, samples)?,
        never_ready: simulation.forecast(Scenario::NeverReady, few)?,
        slow: match model.described.source {
            StartTimesSource::None => None,
            _ => Some(simulation.forecast(Scenario::Slow, few)?),
        },
        start_times: model.described.clone(),
        assumptions,
    };
    Ok(Ok(answer))
}

/// The failure of a template with the name of an image that the kubelet rejects.
fn invalid_image(snapshot: &Snapshot) -> Option<Failure> {
    let images = template::images(snapshot.deployment.spec.template.value());
    let invalid = images.iter().find(|image| !is_image_name(image))?;
    Some(Failure {
        message: format!("The name of the image {invalid:?} is not valid."),
        is_certain: true,
        container: String::new(),
        resolved_by: &[],
    })
}

/// Whether the Deployment reports that its progress deadline is exceeded.
fn has_timed_out(snapshot: &Snapshot) -> bool {
    let progressing = status::condition(&snapshot.deployment.status, PROGRESSING);
    progressing.is_some_and(|progressing| progressing.reason == TIMED_OUT)
}

fn rollout_limits(snapshot: &Snapshot) -> RolloutLimits {
    let spec = &snapshot.deployment.spec;
    let strategy = strategy::of(&snapshot.deployment);
    let limits: Limits = strategy.limits(spec.replicas);
    RolloutLimits {
        replicas: spec.replicas,
        pods_max: limits.max_total(),
        available_min: strategy.min_available(limits).unwrap_or(0),
        progress_deadline_seconds: Some(spec.progress_deadline_seconds)
            .filter(|seconds| *seconds != i32::MAX),
    }
}

/// The new ReplicaSet, and the old ones that have pods or should have some, newest first.
fn references(snapshot: &Snapshot, interrupt: &dyn Interrupt) -> Vec<SetReference> {
    let (new, old) = roles(snapshot, interrupt);
    let reference = |name: &str, uid: &str| SetReference {
        name: name.to_owned(),
        uid: uid.to_owned(),
    };
    let mut references = vec![match new {
        Some(set) => reference(&set.metadata.name, &set.metadata.uid),
        None => reference(&pass::new_set_name(&snapshot.deployment), ""),
    }];
    let with_pods: BTreeSet<&str> = snapshot
        .pods
        .iter()
        .filter_map(|pod| Some(pod.metadata.controller()?.uid.as_str()))
        .collect();
    let old = old
        .iter()
        .rev()
        .filter(|set| set.replicas > 0 || with_pods.contains(set.metadata.uid.as_str()));
    references.extend(old.map(|set| reference(&set.metadata.name, &set.metadata.uid)));
    references
}

/// The scenarios.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scenario {
    Expected,
    NeverReady,
    Slow,
}

/// Runs samples.
struct Simulation<'a> {
    world: &'a World,
    model: &'a Model,
    failure: Option<&'a Failure>,
    /// Whether the quota is that of a condition, which may be older than the state of the quota.
    quota_is_observed: bool,
    /// Whether the status reports that the rollout before the change has exceeded its deadline.
    inherits_timeout: bool,
    names: &'a [Arc<str>],
    horizon: Horizon,
    options: Options,
    seed: u64,
    observer: Option<Observer<'a>>,
    interrupt: &'a dyn Interrupt,
}

// === impl Simulation ===

impl<'a> Simulation<'a> {
    fn forecast(&self, scenario: Scenario, samples: u32) -> Result<Forecast, Interrupted> {
        let mut results = Vec::new();
        for sample in 0..samples.max(1) {
            results.push(self.rollout(scenario, sample, None).run()?);
        }
        let described = &self.model.described;
        let has_seconds = described.source != StartTimesSource::None;
        let (mut forecast, typical) = summary::summarize(&results, has_seconds, described.guess);
        let typical = u32::try_from(typical).unwrap_or(0);
        let recorder = Recorder::new(self.names.to_vec());
        let mut rollout = self.rollout(scenario, typical, Some(recorder));
        rollout.run()?;
        if matches!(forecast.outcome, Outcome::Never | Outcome::Undecided) {
            let reason = match self.failure {
                Some(failure) => Reason {
                    text: failure.message.clone(),
                    is_certain: failure.is_certain,
                },
                None => sample::reason(&rollout.world, self.options, self.quota_is_observed),
            };
            forecast.reason = reason.text;
            // In this scenario, what prevents the rollout is the assumption.
            if !reason.is_certain && scenario != Scenario::NeverReady {
                forecast.doubt();
            }
        }
        let points = rollout.recorder.take().map(Recorder::into_points);
        forecast.trajectory = points.unwrap_or_default();
        Ok(forecast)
    }

    fn rollout(&self, scenario: Scenario, sample: u32, recorder: Option<Recorder>) -> Rollout<'a> {
        let mut random = Random::new(self.seed, sample);
        let slowest = match scenario {
            Scenario::Slow => self.model.slowest(&mut random),
            Scenario::Expected | Scenario::NeverReady => None,
        };
        let times: SampleTimes = slowest.unwrap_or_else(|| self.model.sample(&mut random));
        let mut chance = Chance {
            random,
            times,
            new_pods_start: scenario != Scenario::NeverReady && self.failure.is_none(),
        };
        let mut world = self.world.clone();
        world.begin(self.model, &mut chance);
        Rollout {
            world,
            chance,
            horizon: self.horizon,
            options: self.options,
            inherits_timeout: self.inherits_timeout,
            recorder,
            observer: self.observer,
            interrupt: self.interrupt,
        }
    }
}
