//! A world around the planner: the Deployment controller of Kubernetes, the ReplicaSet controller and pods. Nothing in it is
//! late: late caches and random orders of events are tested in the simulation (tests/sim).

use std::collections::{BTreeMap, BTreeSet};

use rollplan_canary::{
    CallerVerdict, Command, HELD_MIN_READY, Input, Plan, Policy, Refusal, Start, plan_canary,
};
use rollplan_core::action::apply;
use rollplan_core::interrupt::Never;
use rollplan_core::plan_pass;
use rollplan_core::revision::{DESIRED_REPLICAS, MAX_REPLICAS};
use rollplan_core::size::{IntOrPercent, Limits};
use rollplan_core::snapshot::{Deployment, Options, ReplicaSet, Snapshot, Strategy};
use rollplan_core::template::{Template, with_defaults};
use rollplan_simulation::replica_set::{self, Sync};
use rollplan_world::patch::apply_to_deployment;
use rollplan_world::{at, mk_deployment, mk_set, mk_snapshot, mk_template, store_defaults};
use serde_json::Value as Json;

use crate::pods::{self, Fault, SimPod, Transition};

/// The image of the canary.
pub(crate) const NEW: &str = "v2";

/// A patch in transit.
pub(crate) type Patch = Vec<Json>;

/// The template of an image as the API server stores it.
pub(crate) fn template(image: &str) -> Template {
    Template::from(with_defaults(mk_template(image)))
}

/// A promotion of any template, also of a canary that is not good.
pub(crate) fn promote() -> Command {
    Command::Promote {
        template: None,
        is_forced: true,
        manifest: None,
    }
}

/// An abort of any template.
pub(crate) fn abort() -> Command {
    Command::Abort { template: None }
}

#[derive(Clone)]
pub(crate) struct World {
    /// What the API server stores, without pods.
    pub(crate) stored: Snapshot,
    pub(crate) pods: Vec<SimPod>,
    pub(crate) now: i64,
    next_pod: u32,
    /// The faults of the pods by image.
    pub(crate) faults: BTreeMap<&'static str, Fault>,
    /// The limits of the user.
    pub(crate) surge: IntOrPercent,
    pub(crate) unavailable: IntOrPercent,
    /// The surge that a policy allows in addition.
    pub(crate) allowed: IntOrPercent,
    pub(crate) min_ready: i32,
    /// The number of pods that were ready and have failed.
    pub(crate) losses: i32,
    /// The fewest and the most pods that were desired.
    pub(crate) desired: (i32, i32),
    /// What must not happen, and has happened.
    pub(crate) violations: Vec<String>,
}

impl World {
    /// A Deployment whose rollout is complete.
    pub(crate) fn new(
        replicas: i32,
        surge: IntOrPercent,
        unavailable: IntOrPercent,
        min_ready: i32,
    ) -> Self {
        let mut deployment = mk_deployment(replicas);
        deployment.spec.strategy = Strategy::RollingUpdate {
            max_surge: surge,
            max_unavailable: unavailable,
        };
        deployment.spec.min_ready_seconds = min_ready;
        let mut set = mk_set(&deployment, "v1", 1, replicas);
        let total = Limits::rolling(replicas, surge, unavailable).max_total();
        for (key, count) in [(DESIRED_REPLICAS, replicas), (MAX_REPLICAS, total)] {
            let annotations = &mut set.metadata.annotations;
            annotations.insert(key.to_owned(), count.to_string());
        }
        let mut stored = mk_snapshot(deployment, vec![set]);
        store_defaults(&mut stored);
        let mut world = Self {
            stored,
            pods: Vec::new(),
            now: 1000,
            next_pod: 0,
            faults: BTreeMap::new(),
            surge,
            unavailable,
            allowed: IntOrPercent::Int(0),
            min_ready,
            losses: 0,
            desired: (replicas, replicas),
            violations: Vec::new(),
        };
        for _ in 0..replicas {
            world.create_pod(0);
        }
        for pod in &mut world.pods {
            pod.stored.schedule(pod.stored.number % 2);
            pod.stored.become_ready(100);
        }
        world.settle();
        world
    }

    pub(crate) fn limits(&self) -> Limits {
        let replicas = self.stored.deployment.spec.replicas;
        Limits::rolling(replicas, self.surge, self.unavailable)
    }

    fn create_pod(&mut self, set: usize) {
        let set = &self.stored.replica_sets[set];
        let pod = SimPod::created(self.next_pod, set, 0, self.now);
        self.pods.push(pod);
        self.next_pod += 1;
    }

    fn fault_of(&self, pod: &SimPod) -> Fault {
        let set = self
            .stored
            .replica_sets
            .iter()
            .find(|set| *set.metadata.uid == *pod.set_uid);
        let image = set.map(|set| rollplan_core::template::images(set.template.value()));
        let image = image
            .and_then(|images| images.first().cloned())
            .unwrap_or_default();
        self.faults.get(image.as_str()).copied().unwrap_or_default()
    }

    /// Everything as the API server returns it now.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let mut snapshot = self.stored.clone();
        snapshot.now = at(self.now);
        let pods = self.pods.iter().map(|pod| pod.reported(self.fault_of(pod)));
        snapshot.pods = pods.collect();
        snapshot
    }

    // The planner.

    pub(crate) fn plan(&self, policy: &Policy, command: Option<Command>) -> Result<Plan, Refusal> {
        self.plan_with(policy, command, Vec::new())
    }

    pub(crate) fn plan_with(
        &self,
        policy: &Policy,
        command: Option<Command>,
        verdicts: Vec<CallerVerdict>,
    ) -> Result<Plan, Refusal> {
        let input = Input {
            snapshot: self.snapshot(),
            policy: policy.clone(),
            command,
            verdicts,
            managed_fields: None,
        };
        plan_canary(&input, &Never).unwrap()
    }

    pub(crate) fn start(&self, image: &str) -> Command {
        Command::Start(Box::new(Start {
            deployment: self.changed(image),
            pipeline: None,
            replaces: false,
            is_template_only: false,
        }))
    }

    /// A start by this pipeline, which replaces its earlier canary.
    pub(crate) fn replace(&self, image: &str, pipeline: &str) -> Command {
        Command::Start(Box::new(Start {
            deployment: self.changed(image),
            pipeline: Some(pipeline.to_owned()),
            replaces: true,
            is_template_only: false,
        }))
    }

    /// The Deployment with this image.
    pub(crate) fn changed(&self, image: &str) -> Deployment {
        let mut deployment = self.stored.deployment.clone();
        deployment.spec.template = Template::from(mk_template(image));
        deployment
    }

    /// Plans, and carries the patch out. Returns the plan.
    pub(crate) fn steer(&mut self, policy: &Policy, command: Option<Command>) -> Plan {
        let plan = self.plan(policy, command).unwrap();
        if let Some(step) = &plan.step {
            assert!(self.patch(&step.call.body_json), "{}", step.call.body_json);
        }
        plan
    }

    /// Carries out a patch of the planner. Returns whether its preconditions hold.
    pub(crate) fn patch(&mut self, body: &str) -> bool {
        let patch: Patch = serde_json::from_str(body).unwrap();
        self.write(&patch)
    }

    /// A write of the Deployment as a JSON Patch.
    pub(crate) fn write(&mut self, patch: &Patch) -> bool {
        let mut deployment = self.stored.deployment.clone();
        if apply_to_deployment(&mut deployment, &patch.clone().into()).is_err() {
            return false;
        }
        let before = &self.stored.deployment;
        let changed = before.metadata.annotations != deployment.metadata.annotations
            || format!("{:?}", before.spec) != format!("{:?}", deployment.spec);
        if changed {
            deployment.metadata.generation += 1;
        }
        let replicas = deployment.spec.replicas;
        self.desired = (self.desired.0.min(replicas), self.desired.1.max(replicas));
        self.stored.deployment = deployment;
        true
    }

    // Other clients.

    pub(crate) fn edit(&mut self, edit: impl FnOnce(&mut Deployment)) {
        edit(&mut self.stored.deployment);
        self.write(&Vec::new());
        self.stored.deployment.metadata.generation += 1;
    }

    pub(crate) fn apply_image(&mut self, image: &str) {
        self.edit(|it| it.spec.template = template(image));
    }

    pub(crate) fn scale(&mut self, replicas: i32) {
        self.edit(|it| it.spec.replicas = replicas);
    }

    /// One sync of the Deployment controller. Returns whether it has written anything.
    pub(crate) fn sync_deployment(&mut self) -> bool {
        let mut view = self.stored.clone();
        view.now = at(self.now);
        let plan = plan_pass(&view, Options::default());
        let mut has_written = false;
        for action in plan.steps.iter().filter_map(|it| it.action.as_ref()) {
            let before = self.sizes();
            apply(&mut self.stored, action);
            has_written = true;
            for set in &mut self.stored.replica_sets {
                set.available_max = ReplicaSet::UNTOUCHED;
            }
            self.check_sizes(&before);
        }
        has_written
    }

    pub(crate) fn sizes(&self) -> BTreeMap<String, i32> {
        let sets = self.stored.replica_sets.iter();
        sets.map(|set| (set.metadata.uid.clone(), set.replicas))
            .collect()
    }

    pub(crate) fn size_of(&self, image: &str) -> i32 {
        self.set(image).map_or(0, |set| set.replicas)
    }

    pub(crate) fn set(&self, image: &str) -> Option<&ReplicaSet> {
        let template = template(image);
        self.stored
            .replica_sets
            .iter()
            .find(|set| set.template.same_as(&template))
    }

    fn check_sizes(&mut self, before: &BTreeMap<String, i32>) {
        let after = self.sizes();
        let total = |sizes: &BTreeMap<String, i32>| sizes.values().sum::<i32>();
        let (before, after) = (total(before), total(&after));
        let most = self.desired.1;
        let surge = self.surge.rounded_up(most);
        let ceiling = most + surge.max(self.allowed.rounded_up(most));
        if after > before && after > ceiling {
            self.violations
                .push(format!("{after} pods, and the ceiling is {ceiling}"));
        }
    }

    /// The number of pods that are really available.
    pub(crate) fn available(&self) -> i32 {
        let available = self
            .pods
            .iter()
            .filter(|pod| pod.stored.is_available(self.min_ready, self.now));
        i32::try_from(available.count()).unwrap()
    }

    /// One sync of the ReplicaSet controller. Returns whether anything has changed.
    pub(crate) fn sync_set(&mut self, index: usize) -> bool {
        let Some(set) = self.stored.replica_sets.get(index).cloned() else {
            return false;
        };
        let is_own = |pod: &&SimPod| *pod.set_uid == *set.metadata.uid;
        let own: Vec<SimPod> = self.pods.iter().filter(is_own).cloned().collect();
        let active: Vec<SimPod> = own.iter().filter(|pod| pod.is_active()).cloned().collect();
        let terminating = own
            .iter()
            .filter(|pod| pod.stored.deleting.is_some())
            .count();
        let ranks = pods::ranks(self.pods.iter());
        let mut changed = true;
        match replica_set::sync(&set, active.len()) {
            Sync::Nothing => changed = false,
            Sync::Create(count) => (0..count).for_each(|_| self.create_pod(index)),
            Sync::Delete(count) => {
                let millis = self.now * 1000;
                let stored = active.iter().map(|pod| &pod.stored).collect();
                let (deleted, _) = replica_set::choose(stored, count, &ranks, millis);
                let before = self.available();
                let numbers: BTreeSet<u32> = deleted.iter().map(|pod| pod.number).collect();
                let now = self.now;
                for pod in self
                    .pods
                    .iter_mut()
                    .filter(|pod| numbers.contains(&pod.stored.number))
                {
                    pod.stored.deleting = Some(now);
                }
                let after = self.available();
                let fewest = self.desired.0;
                let limits = Limits::rolling(fewest, self.surge, self.unavailable);
                let floor = limits.min_available() - self.losses;
                if after < before && after < floor {
                    self.violations
                        .push(format!("{after} available pods, and the floor is {floor}"));
                }
            }
        }
        let counts = pods::counts(&active, terminating, set.min_ready_seconds, self.now);
        let status = replica_set::status(&set, counts, None);
        if status != set.status {
            changed = true;
            self.stored.replica_sets[index].status = status;
        }
        changed
    }

    /// The next step of a pod. Returns whether it has changed.
    pub(crate) fn advance_pod(&mut self, index: usize) -> bool {
        let Some(pod) = self.pods.get(index) else {
            return false;
        };
        let fault = self.fault_of(pod);
        match pod.advance(fault, self.now) {
            None => false,
            Some(Transition::Removed) => {
                self.pods.remove(index);
                true
            }
            Some(Transition::Changed(pod)) => {
                self.pods[index] = pod;
                true
            }
        }
    }

    /// A ready pod crashes.
    pub(crate) fn crash(&mut self, index: usize) {
        if let Some(pod) = self.pods.get_mut(index).filter(|pod| pod.stored.is_ready()) {
            *pod = pod.restarted(self.now);
            self.losses += 1;
        }
    }

    /// The controllers act until nothing changes, without the pods.
    pub(crate) fn settle_controllers(&mut self) {
        for _ in 0..1000 {
            let mut changed = false;
            for index in 0..self.stored.replica_sets.len() {
                changed |= self.sync_set(index);
            }
            changed |= self.sync_deployment();
            if !changed {
                return;
            }
        }
        panic!("the controllers do not come to rest");
    }

    /// Everything acts until nothing changes, while time passes.
    pub(crate) fn settle(&mut self) {
        for seconds in [1, 1, 5, 60] {
            self.now += seconds;
            // A container that keeps crashing restarts only a few times in this time.
            for _ in 0..8 {
                let mut changed = false;
                for index in (0..self.pods.len()).rev() {
                    changed |= self.advance_pod(index);
                }
                self.settle_controllers();
                if !changed {
                    break;
                }
            }
        }
    }

    /// Whether the fields are those of the user.
    pub(crate) fn has_user_fields(&self) -> bool {
        let spec = &self.stored.deployment.spec;
        let strategy = Strategy::RollingUpdate {
            max_surge: self.surge,
            max_unavailable: self.unavailable,
        };
        spec.strategy == strategy
            && spec.min_ready_seconds == self.min_ready
            && spec.progress_deadline_seconds == 600
            && !spec.paused
    }

    pub(crate) fn is_held(&self) -> bool {
        self.stored.deployment.spec.min_ready_seconds == HELD_MIN_READY
    }

    pub(crate) fn image(&self) -> String {
        rollplan_core::template::images(self.stored.deployment.spec.template.value()).remove(0)
    }
}
