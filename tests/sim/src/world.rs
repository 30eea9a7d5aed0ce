//! A simulated world: its state, and the effects of events on it. Nothing in it is random.

use std::collections::BTreeMap;
use std::sync::Arc;

use rollplan_core::revision::POD_TEMPLATE_HASH;
use rollplan_core::snapshot::{ObjectMeta, OwnerReference, ReplicaSet, ReplicaSetStatus};
use rollplan_core::template::Template;
use rollplan_world::{at, mk_controller, mk_deployment, mk_template, strings};

use crate::adapter::{Adapter, View};
use crate::check::{Native, Violation};
use crate::flaw::Flaw;
use crate::pods::{Fault, SimPod, Transition};
use crate::script::{Answer, Event, Setup, TEMPLATES};
use crate::server::{Store, StoredSet, Writer};
use crate::tally::{Tallies, Tally};

/// The state of a world.
#[derive(Clone, Debug)]
pub struct World {
    pub(crate) setup: Setup,
    pub(crate) flaw: Flaw,
    pub(crate) store: Store,
    pub(crate) adapter: Adapter,
    /// The native Deployment with which a custom resource is compared.
    pub(crate) native: Native,
    /// Seconds since the start.
    pub(crate) now: i64,
    pub(crate) pods_made: u32,
    pub(crate) templates: Arc<[Template]>,
    pub(crate) faults: [Fault; TEMPLATES as usize],
    pub(crate) quota_pods: Option<u8>,
    pub(crate) quota_sets: bool,
    pub(crate) next_answer: Option<Answer>,
    /// The number of available pods that each ReplicaSet has lost for reasons other than our scaling, by UID.
    lost: BTreeMap<String, u32>,
    pub(crate) tallies: Tallies,
    /// The first violation that was found.
    pub(crate) violation: Option<Violation>,
    /// Whether a pod becomes ready in a single step.
    pub(crate) brisk: bool,
    /// Whether to print all events.
    pub(crate) traced: bool,
}

// === impl World ===

impl World {
    /// The world before the first event.
    #[must_use]
    pub fn new(setup: Setup, flaw: Flaw) -> Self {
        let mut world = Self {
            setup,
            flaw,
            store: Store::default(),
            adapter: Adapter::default(),
            native: Native::default(),
            now: 0,
            pods_made: 0,
            templates: (0..TEMPLATES)
                .map(|number| mk_template(&format!("v{number}")).into())
                .collect(),
            faults: [Fault::None; TEMPLATES as usize],
            quota_pods: None,
            quota_sets: false,
            next_answer: None,
            lost: BTreeMap::new(),
            tallies: Tallies::default(),
            violation: None,
            brisk: false,
            traced: false,
        };
        world.create_deployment(0);
        if setup.stranger {
            // The planner refuses a custom resource if its selector matches pods of another Deployment, but not if it
            // matches those of another kind.
            let owner = mk_controller("argoproj.io/v1alpha1", "Rollout", "other");
            world.add_set("web-stranger", 0, 1, vec![owner]);
        }
        if setup.orphan {
            world.add_set("web-orphan", TEMPLATES - 1, 2, vec![]);
        }
        world.adapter.view = View::list(&mut world.store);
        world.adapter.queued = true;
        world
    }

    /// Creates the Deployment that the setup describes.
    pub(crate) fn create_deployment(&mut self, template: u8) {
        let setup = self.setup;
        let (api_version, kind) = if setup.custom {
            ("apps.rollplan.dev/v1", "PlannedDeployment")
        } else {
            ("apps/v1", "Deployment")
        };
        let mut deployment = mk_deployment(setup.replicas);
        (deployment.api_version, deployment.kind) = (api_version.to_owned(), kind.to_owned());
        deployment.metadata.uid = self.store.new_uid("web");
        deployment.metadata.creation_timestamp = Some(at(self.now));
        let spec = &mut deployment.spec;
        spec.template = self.templates[usize::from(template)].clone();
        spec.strategy = setup.strategy;
        spec.min_ready_seconds = setup.min_ready_seconds;
        spec.revision_history_limit = setup.history;
        spec.progress_deadline_seconds = setup.deadline_seconds;
        self.store.put_deployment(deployment, Writer::Other);
    }

    fn add_set(&mut self, name: &str, number: u8, replicas: i32, owners: Vec<OwnerReference>) {
        let metadata = ObjectMeta {
            name: name.to_owned(),
            namespace: "default".to_owned(),
            uid: self.store.new_uid("rs"),
            generation: 1,
            creation_timestamp: Some(at(self.now)),
            labels: strings([("app", "web"), (POD_TEMPLATE_HASH, name)]),
            owner_references: owners,
            ..ObjectMeta::default()
        };
        let set = ReplicaSet {
            metadata,
            replicas,
            min_ready_seconds: 0,
            template: self.templates[usize::from(number)].clone(),
            status: ReplicaSetStatus::default(),
            available_max: ReplicaSet::UNTOUCHED,
        };
        let stored = StoredSet {
            set,
            template: number,
            lost: 0,
            changed_by: Writer::Other,
        };
        self.store.put_set(stored, Writer::Other);
    }

    /// The fault of a template's pods.
    pub(crate) fn fault(&self, template: u8) -> Fault {
        self.faults
            .get(usize::from(template))
            .copied()
            .unwrap_or_default()
    }

    /// Records that a ReplicaSet lost available pods for a reason other than our scaling.
    pub(crate) fn record_lost(&mut self, set_uid: &str, count: usize) {
        if count > 0 {
            let count = u32::try_from(count).unwrap_or(u32::MAX);
            *self.lost.entry(set_uid.to_owned()).or_default() += count;
        }
    }

    pub(crate) fn lost_of(&self, set_uid: &str) -> u32 {
        self.lost.get(set_uid).copied().unwrap_or(0)
    }

    /// The ReplicaSet that a choice selects.
    pub(crate) fn chosen_set(&self, choice: u8) -> Option<Arc<StoredSet>> {
        let count = self.store.sets.len();
        let index = usize::from(choice).checked_rem(count)?;
        self.store.sets.values().nth(index).cloned()
    }

    fn chosen_pod(&self, choice: u8, fits: impl Fn(&SimPod) -> bool) -> Option<Arc<SimPod>> {
        let pods = || self.store.pods.values().filter(|pod| fits(pod));
        let index = usize::from(choice).checked_rem(pods().count())?;
        pods().nth(index).cloned()
    }

    /// Prints an event if tracing is enabled.
    pub(crate) fn trace(&self, text: impl FnOnce() -> String) {
        if self.traced {
            println!("{:>6} s  {}", self.now, text());
        }
    }

    /// Applies an event.
    pub fn step(&mut self, event: Event) {
        self.trace(|| event.to_string());
        match event {
            Event::Watch(kind, count) => {
                for _ in 0..count {
                    self.deliver(kind);
                }
            }
            Event::Adapter => _ = self.step_adapter(),
            Event::Die => self.kill_adapter(),
            Event::Sync(choice) => {
                if let Some(stored) = self.chosen_set(choice) {
                    self.sync_set(&stored);
                }
            }
            Event::Pod(choice) => {
                let moves =
                    |pod: &SimPod| pod.advance(self.fault(pod.template), self.now).is_some();
                if let Some(pod) = self.chosen_pod(choice, moves) {
                    self.advance_pod(&pod);
                }
            }
            Event::Crash(choice) => {
                if let Some(pod) = self.chosen_pod(choice, |pod| pod.stored.is_ready()) {
                    self.tallies.count(Tally::PodCrashed);
                    self.record_lost_pod(&pod);
                    self.store.put_pod(pod.restarted(self.now));
                }
            }
            Event::Evict(choice) => {
                let fits = |pod: &SimPod| pod.is_active() && pod.stored.node.is_some();
                if let Some(pod) = self.chosen_pod(choice, fits) {
                    self.tallies.count(Tally::PodEvicted);
                    self.record_lost_pod(&pod);
                    self.store.put_pod(pod.evicted());
                }
            }
            Event::DeletePod(choice) => {
                if let Some(pod) = self.chosen_pod(choice, |pod| pod.stored.deleting.is_none()) {
                    self.tallies.count(Tally::PodDeleted);
                    self.record_lost_pod(&pod);
                    self.delete_pod(pod.stored.number);
                }
            }
            Event::Collect => _ = self.collect(),
            Event::Time(seconds) => self.wait(seconds.into()),
            Event::Calm => self.calm(),
            Event::Answer(answer) => self.next_answer = Some(answer),
            Event::QuotaPods(max) => self.quota_pods = max,
            Event::QuotaSets(refused) => self.quota_sets = refused,
            Event::Break(number, fault) => {
                if let Some(slot) = self.faults.get_mut(usize::from(number)) {
                    *slot = fault;
                    self.tallies.count(Tally::Broken);
                }
            }
            user => self.act_as_user(user),
        }
    }

    /// Lets the scheduler or a kubelet advance a pod. Returns whether the pod changed.
    pub(crate) fn advance_pod(&mut self, pod: &Arc<SimPod>) -> bool {
        match pod.advance(self.fault(pod.template), self.now) {
            Some(Transition::Changed(mut moved)) => {
                while self.brisk
                    && let Some(Transition::Changed(next)) =
                        moved.advance(self.fault(pod.template), self.now)
                {
                    moved = next;
                }
                self.store.put_pod(moved);
            }
            Some(Transition::Removed) => self.store.remove_pod(pod.stored.number),
            None => return false,
        }
        self.tallies.count(Tally::PodAdvanced);
        true
    }

    /// Records the loss of a pod if it is available.
    fn record_lost_pod(&mut self, pod: &SimPod) {
        let set = self.store.set_by_uid(&pod.set_uid);
        let seconds = set.map_or(0, |stored| stored.set.min_ready_seconds);
        if pod.stored.is_available(seconds, self.now) {
            self.record_lost(&pod.set_uid, 1);
        }
    }

    pub(crate) fn wait(&mut self, seconds: i64) {
        self.tallies.count(Tally::Waited);
        self.now += seconds;
        self.adapter.disturb();
    }

    /// Lets the garbage collector remove objects whose owner does not exist. Returns whether it removed any.
    pub(crate) fn collect(&mut self) -> bool {
        let version_before = self.store.version;
        let owner = self.store.deployment.clone();
        let gone: Vec<String> = self
            .store
            .sets
            .values()
            .filter(|stored| {
                let controller = stored.set.metadata.controller();
                controller.is_some_and(|controller| {
                    let alive = owner.as_ref().filter(|owner| {
                        owner.metadata.uid == controller.uid
                            && owner.metadata.deletion_timestamp.is_none()
                    });
                    alive.is_none() && controller.uid != "other-uid"
                })
            })
            .map(|stored| stored.set.metadata.name.clone())
            .collect();
        for name in &gone {
            self.store.remove_set(name, Writer::Other);
        }
        if gone.is_empty() && owner.is_some_and(|owner| owner.metadata.deletion_timestamp.is_some())
        {
            self.store.remove_deployment();
        }
        let ownerless = self.store.pods.values();
        let ownerless: Vec<Arc<SimPod>> = ownerless
            .filter(|pod| self.store.set_by_uid(&pod.set_uid).is_none())
            .cloned()
            .collect();
        for pod in ownerless {
            if pod.is_evicted {
                self.store.remove_pod(pod.stored.number);
            } else {
                self.delete_pod(pod.stored.number);
            }
        }
        let collected = self.store.version != version_before;
        if collected {
            self.tallies.count(Tally::Collected);
        }
        collected
    }
}
