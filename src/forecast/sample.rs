//! One sample: a rollout in a world, from the snapshot until it is complete or nothing more happens.

use rollplan_core::action::Action;
use rollplan_core::interrupt::{Interrupt, Interrupted};
use rollplan_core::snapshot::{Options, Snapshot};
use rollplan_core::status::{self, PROGRESSING, TIMED_OUT};
use rollplan_core::time::Span;
use rollplan_core::{Plan, action, pass, plan_pass_until, plan_settled_until};

use crate::Horizon;
use crate::queue::Event;
use crate::trajectory::Recorder;
use crate::world::{Chance, World};

/// The time after which a simulation ends: a hundred years.
const TIME_MAX: i64 = 100 * 365 * 86_400_000;
/// The number of pods after which a simulation ends. ReplicaSets may be much larger than the Deployment.
const PODS_MAX: usize = 50_000;
/// The number of events after which a simulation ends, for each pod, and in addition.
const EVENTS_PER_POD: i64 = 100;
const EVENTS_MIN: i64 = 10_000;

/// How a rollout ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// It completes.
    Completes,
    /// It completes after the progress deadline has been reported as exceeded.
    CompletesLate,
    /// It never completes: nothing more will happen in the cluster, and the controller has nothing more to do.
    Never,
    /// It had not completed when the simulation ended.
    Undecided,
}

/// What a sample shows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) outcome: Outcome,
    /// When it was complete, or nothing more happened.
    pub(crate) end: i64,
    /// When it was reported that the progress deadline is exceeded.
    pub(crate) deadline_exceeded: Option<i64>,
    pub(crate) pods_max: i32,
    pub(crate) pods_with_terminating_max: i32,
    pub(crate) available_min: i32,
    pub(crate) available_at_end: i32,
    pub(crate) waves: i32,
    pub(crate) replica_set_writes: i32,
}

/// Observes the plans of all samples. Tests check the rules of plans with it.
pub type Observer<'o> = &'o dyn Fn(&Snapshot, &Plan);

/// A rollout in progress.
pub(crate) struct Rollout<'a> {
    pub(crate) world: World,
    pub(crate) chance: Chance,
    pub(crate) horizon: Horizon,
    pub(crate) options: Options,
    /// Whether the status reports that an earlier rollout has exceeded its deadline, until this one makes progress.
    pub(crate) inherits_timeout: bool,
    pub(crate) recorder: Option<Recorder>,
    pub(crate) observer: Option<Observer<'a>>,
    pub(crate) interrupt: &'a dyn Interrupt,
}

// === impl Rollout ===

impl Rollout<'_> {
    /// Simulates the rollout to its end.
    pub(crate) fn run(&mut self) -> Result<Sample, Interrupted> {
        let totals = self.world.totals;
        let mut sample = Sample {
            outcome: Outcome::Never,
            end: 0,
            deadline_exceeded: None,
            pods_max: totals.pods,
            pods_with_terminating_max: totals.pods.saturating_add(totals.terminating),
            available_min: totals.available,
            available_at_end: totals.available,
            waves: 0,
            replica_set_writes: 0,
        };
        let pods = i64::from(totals.pods) + i64::from(self.world.snapshot.deployment.spec.replicas);
        let events_max = EVENTS_MIN.saturating_add(pods.saturating_mul(EVENTS_PER_POD));
        let awaits_old_pods =
            rollplan_core::strategy::of(&self.world.snapshot.deployment).awaits_old_pods();
        self.record(Vec::new());
        // Without a plan, the Deployment controller never acts.
        let is_refused = pass::is_refused(&self.world.snapshot);
        let mut events = 0;
        while let Some((time, event)) = self.world.queue.next() {
            self.interrupt.check()?;
            if time > TIME_MAX || events > events_max || self.world.pods_made() > PODS_MAX {
                sample.outcome = Outcome::Undecided;
                break;
            }
            events += 1;
            self.world.now = time;
            match event {
                Event::Deployment if self.world.deployment_due != Some(time) || is_refused => {
                    continue;
                }
                Event::ReplicaSet(set) if !self.world.is_due(set) => continue,
                Event::Deployment => {
                    self.world.deployment_due = None;
                    let mut texts = self.sync(awaits_old_pods, &mut sample)?;
                    let is_complete = self.check(&mut sample, &mut texts);
                    self.record(texts);
                    sample.end = time;
                    if is_complete {
                        break;
                    }
                }
                Event::ReplicaSet(set) => self.world.sync_set(set, &mut self.chance),
                Event::Ready(number) => self.world.become_ready(number),
                Event::Terminated(number) => self.world.remove(number, &mut self.chance),
            }
            self.record(Vec::new());
            if self.world.is_between_writes() {
                continue;
            }
            let totals = self.world.totals;
            let all = totals.pods.saturating_add(totals.terminating);
            sample.pods_max = sample.pods_max.max(totals.pods);
            sample.pods_with_terminating_max = sample.pods_with_terminating_max.max(all);
            sample.available_min = sample.available_min.min(totals.available);
        }
        sample.available_at_end = self.world.totals.available;
        sample.waves = self.world.waves;
        Ok(sample)
    }

    /// The Deployment controller plans, and makes its writes. Returns what it does.
    fn sync(
        &mut self,
        awaits_old_pods: bool,
        sample: &mut Sample,
    ) -> Result<Vec<String>, Interrupted> {
        let world = &mut self.world;
        world.snapshot.now = world.time();
        if awaits_old_pods {
            world.list_pods();
        }
        let (snapshot, options) = (&world.snapshot, self.options);
        let plan = match self.horizon {
            Horizon::Pass => plan_pass_until(snapshot, options, self.interrupt)?,
            Horizon::Settled => plan_settled_until(snapshot, options, self.interrupt)?,
        };
        if let Some(observer) = self.observer {
            observer(snapshot, &plan);
        }
        let mut texts = Vec::new();
        let mut is_written = false;
        for step in &plan.steps {
            let Some(action) = &step.action else {
                continue;
            };
            if matches!(action, Action::CheckOwner { .. }) {
                continue;
            }
            is_written = true;
            sample.replica_set_writes += i32::from(writes_replica_set(action));
            if self.recorder.is_some() && changes_size(action) {
                texts.push(step.summary());
            }
            action::apply(&mut world.snapshot, action);
        }
        if is_written {
            world.observe_writes();
            world.make_deployment_due(world.after_sync());
        }
        // A deadline that has passed without a write, for example because Kubernetes detects a scaling event indefinitely,
        // does not become a write later.
        let is_futile = |span: &Span| !is_written && *span <= Span::from_seconds(1);
        if let Some(span) = plan.requeue_after.filter(|span| !is_futile(span)) {
            let millis = span.seconds().saturating_mul(1000);
            let millis = millis.saturating_add(i64::from(span.subsec_nanos() / 1_000_000) + 1);
            world.make_deployment_due(world.now.saturating_add(millis));
        }
        Ok(texts)
    }

    /// Whether the rollout is complete after a sync.
    fn check(&mut self, sample: &mut Sample, texts: &mut Vec<String>) -> bool {
        let deployment = &self.world.snapshot.deployment;
        let progressing = status::condition(&deployment.status, PROGRESSING);
        let has_timed_out = progressing.is_some_and(|it| it.reason == TIMED_OUT);
        self.inherits_timeout &= has_timed_out;
        if has_timed_out && !self.inherits_timeout {
            if sample.deadline_exceeded.is_none() {
                texts.push("the progress deadline is exceeded".to_owned());
            }
            sample.deadline_exceeded.get_or_insert(self.world.now);
        }
        let is_complete = status::is_complete(deployment, &deployment.status);
        if is_complete {
            texts.push("the rollout is complete".to_owned());
            sample.outcome = match sample.deadline_exceeded {
                Some(_) => Outcome::CompletesLate,
                None => Outcome::Completes,
            };
        }
        is_complete
    }

    fn record(&mut self, texts: Vec<String>) {
        if let Some(recorder) = &mut self.recorder {
            recorder.record(&self.world, texts);
        }
    }
}

fn writes_replica_set(action: &Action) -> bool {
    match action {
        Action::AdoptReplicaSet { .. }
        | Action::ReleaseReplicaSet { .. }
        | Action::CreateReplicaSet(_)
        | Action::UpdateReplicaSet { .. }
        | Action::ScaleReplicaSet { .. }
        | Action::DeleteReplicaSet { .. } => true,
        Action::CheckOwner { .. }
        | Action::UpdateDeployment { .. }
        | Action::UpdateDeploymentStatus { .. } => false,
    }
}

fn changes_size(action: &Action) -> bool {
    matches!(
        action,
        Action::CreateReplicaSet(_) | Action::ScaleReplicaSet { .. }
    )
}

/// Why a rollout does not complete.
#[derive(Debug)]
pub(crate) struct Reason {
    /// One sentence.
    pub(crate) text: String,
    /// Whether it is certain. Otherwise, it may pass without a change.
    pub(crate) is_certain: bool,
}

/// Why a rollout does not complete. `quota_is_observed` is whether the quota is that of a condition: the controller tries
/// again after up to 17 minutes, and until then, the condition does not show that the quota has room.
pub(crate) fn reason(world: &World, options: Options, quota_is_observed: bool) -> Reason {
    let deployment = &world.snapshot.deployment;
    let limits = rollplan_core::strategy::of(deployment).limits(deployment.spec.replicas);
    let caps = deployment.caps(options).text(limits);
    let more_pods = |count| match count {
        1 => "1 more pod".to_owned(),
        count => format!("{count} more pods"),
    };
    let (text, is_certain) = if pass::is_refused(&world.snapshot) {
        (
            "The selector of the Deployment is empty, or it matches the pods of another Deployment."
                .to_owned(),
            true,
        )
    } else if deployment.metadata.deletion_timestamp.is_some() {
        ("The Deployment is being deleted.".to_owned(), true)
    } else if deployment.spec.paused {
        ("The Deployment is paused.".to_owned(), true)
    } else if world.pods_refused() > 0 && quota_is_observed {
        (
            format!(
                "The quota of the namespace had no room for {}, according to a ReplicaSet; whether it has some by now is not \
                 known.",
                more_pods(world.pods_refused())
            ),
            false,
        )
    } else if world.pods_refused() > 0 {
        (
            format!(
                "The quota of the namespace has no room for {}.",
                more_pods(world.pods_refused())
            ),
            true,
        )
    } else if world.pods_unscheduled() > 0 {
        (
            format!(
                "The nodes have no room for {}.",
                more_pods(world.pods_unscheduled())
            ),
            true,
        )
    } else if world.pods_stuck() > 0 {
        let (pods, are) = match world.pods_stuck() {
            1 => ("1 pod".to_owned(), "is"),
            count => (format!("{count} pods"), "are"),
        };
        let text = format!(
            "{pods} {are} not ready after an unusually long time; whether this changes is not known."
        );
        (text, false)
    } else if world.pods_not_ready() == 1 {
        ("1 pod never becomes ready.".to_owned(), true)
    } else if world.pods_not_ready() > 1 {
        (
            format!("{} pods never become ready.", world.pods_not_ready()),
            true,
        )
    } else if !caps.is_empty() {
        (format!("The caps allow {caps}."), true)
    } else {
        (
            "The controller has nothing more to do, but its status is not that of a complete rollout.".to_owned(),
            true,
        )
    };
    Reason { text, is_certain }
}
