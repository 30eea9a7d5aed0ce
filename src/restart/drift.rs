//! The drift of a workload: the configurations that have changed since they were applied, and those that are only recorded.

use std::borrow::Cow;
use std::collections::BTreeSet;

use rollplan_core::reference::{ConfigurationKind, Reference};
use rollplan_core::time::Time;

use super::compare::{Change, ChangeKind, Current, Difference, Reading};
use super::configuration::{Configuration, Content};
use super::freshness::{FirstRead, Freshness, retry_at};
use super::marker::applied_marker;
use super::options::Profile;
use super::plan::Input;
use super::selection::{CHANGE_SET, Index, Tracked};
use super::state::{Applied, State, key, millis};
use super::workload::Workload;

/// A changed configuration that causes a restart.
#[derive(Debug)]
pub(super) struct ChangedConfiguration<'a> {
    pub(super) kind: ConfigurationKind,
    pub(super) name: &'a str,
    pub(super) checksum: String,
    pub(super) uses: Vec<&'a Reference>,
}

/// The changes to the configurations of a workload.
#[derive(Debug, Default)]
pub(super) struct Drift<'a> {
    pub(super) changes: Vec<Change>,
    pub(super) drifting: Vec<(ConfigurationKind, &'a str)>,
    pub(super) settled: Vec<(ConfigurationKind, &'a str)>,
    pub(super) sources: Vec<ChangedConfiguration<'a>>,
    pub(super) missing: Vec<String>,
    pub(super) change_sets: BTreeSet<&'a str>,
    /// The times of the changes, if all are known.
    pub(super) times: Option<Vec<i64>>,
    /// The latest change that all pods have started with.
    pub(super) folded_at: Option<i64>,
    /// The configurations whose change needs no restart, because there are no pods, or all were started after it.
    pub(super) folded: Vec<String>,
    /// The configurations that are recorded although pods may have started with an older version of them.
    pub(super) unproven: Vec<String>,
    /// Whether a configuration certainly needs a restart.
    pub(super) is_certain: bool,
    /// Whether it is unclear with which version of a configuration pods have started. Such a configuration is not recorded.
    pub(super) is_unclear: bool,
    /// When to plan again because of that, at the latest.
    pub(super) retry_at: Option<Time>,
}

/// One configuration of a workload: current and as applied.
pub(super) struct Found<'a, 's> {
    input: &'a Input,
    workload: &'a Workload,
    tracked: Tracked<'a>,
    configuration: Option<&'a Configuration>,
    key: String,
    applied: Option<Cow<'s, Applied>>,
    current: Current,
}

impl<'a, 's> Found<'a, 's> {
    pub(super) fn new(
        input: &'a Input,
        index: &Index<'a>,
        workload: &'a Workload,
        tracked: Tracked<'a>,
        state: &'s State,
    ) -> Self {
        let profile = input.options.profile;
        let Tracked { kind, name, .. } = tracked;
        let configuration = index.get(kind, &workload.namespace, name);
        let key = key(profile, &workload.namespace, kind, name);
        let applied = state.applied.get(&key).map(Cow::Borrowed);
        let applied = applied
            .or_else(|| applied_marker(&input.options, workload, kind, name).map(Cow::Owned));
        // A SecretProviderClass has no status before its pods exist.
        let is_known_absent = configuration.is_none()
            && input.configurations_complete
            && kind != ConfigurationKind::SecretProviderClass;
        let current = if is_known_absent {
            absent(&tracked.reading)
        } else {
            tracked
                .reading
                .of(configuration, profile, applied.as_deref())
        };
        Self {
            input,
            workload,
            tracked,
            configuration,
            key,
            applied,
            current,
        }
    }

    pub(super) fn is_unknown(&self) -> bool {
        self.tracked.counts && matches!(self.current, Current::Unknown)
    }

    fn change(&self, key: String, change: ChangeKind) -> Change {
        Change {
            kind: self.tracked.kind,
            namespace: self.workload.namespace.clone(),
            name: self.tracked.name.to_owned(),
            key,
            change,
        }
    }

    /// For example "ConfigMap shop/app".
    fn subject(&self) -> String {
        let Tracked { kind, name, .. } = &self.tracked;
        format!("{kind} {}/{name}", self.workload.namespace)
    }

    fn changed_at(&self) -> Option<Time> {
        self.configuration.and_then(|it| it.changed_at)
    }

    /// Adds the configuration to the states and to the drift.
    pub(super) fn apply(
        self,
        state: &State,
        drift: &mut Drift<'a>,
        recorded: &mut State,
        restarted: &mut State,
    ) {
        if let Current::Missing(key) = &self.current {
            drift.missing.push(match key.as_str() {
                "" => self.subject(),
                key => format!("{key} of {}", self.subject()),
            });
        }
        if !self.tracked.counts {
            return;
        }
        let annotations = self.configuration.map(|it| &it.annotations);
        let change_set = annotations.and_then(|it| it.get(CHANGE_SET));
        drift.change_sets.extend(change_set.map(String::as_str));
        let id = (self.tracked.kind, self.tracked.name);
        let current = match (&self.current, self.applied.as_deref()) {
            (Current::Unknown | Current::Missing(_), _) | (Current::Same, None) => return,
            (Current::Same, Some(applied)) => applied,
            (Current::Known(current), _) => current,
        };
        let insert = |state: &mut State| state.apply(self.key.clone(), current.clone());
        let changes = match self.changes(state, current) {
            Changes::Keep => return,
            Changes::Same => {
                drift.settled.push(id);
                return;
            }
            Changes::Unproven => {
                drift.settled.push(id);
                insert(recorded);
                insert(restarted);
                recorded.seen_at = recorded.seen_at.max(self.changed_at().map(millis));
                drift.unproven.push(self.subject());
                return;
            }
            Changes::Record(is_fresh) => {
                drift.settled.push(id);
                insert(recorded);
                insert(restarted);
                if is_fresh && self.applied.is_some() {
                    drift.folded.push(self.subject());
                }
                if is_fresh {
                    let at = self.changed_at().map(millis);
                    drift.folded_at = drift.folded_at.max(at);
                }
                return;
            }
            Changes::Unclear(changes) => {
                let Input { options, now, .. } = self.input;
                let retry_at = retry_at(self.workload, self.changed_at(), options, *now);
                drift.is_unclear = true;
                drift.retry_at = [drift.retry_at, retry_at].into_iter().flatten().min();
                insert(restarted);
                changes
            }
            Changes::Drift(changes) => {
                drift.is_certain = true;
                insert(restarted);
                changes
            }
        };
        if changes.is_empty() {
            return;
        }
        drift.drifting.push(id);
        match (self.changed_at(), &mut drift.times) {
            (Some(at), Some(times)) => times.push(millis(at)),
            (None, times) => *times = None,
            (Some(_), None) => {}
        }
        drift.changes.extend(
            changes
                .into_iter()
                .map(|(key, change)| self.change(key, change)),
        );
        drift.sources.push(ChangedConfiguration {
            kind: self.tracked.kind,
            name: self.tracked.name,
            checksum: match current {
                Applied::Absent => String::new(),
                Applied::Present(entry) => entry.digest.clone(),
            },
            uses: self.tracked.uses,
        });
    }

    fn changes(&self, state: &State, current: &Applied) -> Changes {
        let Input { options, now, .. } = self.input;
        let (workload, configuration) = (self.workload, self.configuration);
        let Some(applied) = &self.applied else {
            return self.unrecorded(current);
        };
        let unrecorded = || vec![(String::new(), ChangeKind::Unrecorded)];
        let difference = match self.current {
            Current::Same => Difference::Same,
            _ => applied.difference(current),
        };
        let is_removal = difference.has_removed_key();
        let freshness = Freshness::new(workload, configuration, is_removal, options, *now);
        let record = Changes::Record(freshness == Freshness::Fresh);
        let changed = match difference {
            Difference::Same => {
                return match Freshness::of_restored(workload, configuration, options, state) {
                    Freshness::Stale => Changes::Drift(unrecorded()),
                    Freshness::Unclear => Changes::Unclear(Vec::new()),
                    Freshness::Fresh | Freshness::Untold => Changes::Same,
                };
            }
            // Keys that the workload did not read before are not recorded.
            Difference::Reading => return self.unrecorded(current),
            Difference::Changed(changed) => changed,
        };
        if freshness == Freshness::Fresh {
            return record;
        }
        let is = |kind| changed.iter().any(|(_, change)| *change == kind);
        match options.profile {
            Profile::Reloader if is(ChangeKind::Created) && !options.reloader.reload_on_create => {
                record
            }
            Profile::Reloader if is(ChangeKind::Deleted) && !options.reloader.reload_on_delete => {
                Changes::Keep
            }
            // The xing controller ignores deleted configurations.
            Profile::Xing if is(ChangeKind::Deleted) => Changes::Keep,
            _ if freshness == Freshness::Unclear => Changes::Unclear(changed),
            _ => Changes::Drift(changed),
        }
    }

    /// What to do about a configuration, or keys of it, of which nothing is recorded.
    fn unrecorded(&self, current: &Applied) -> Changes {
        let Input { options, now, .. } = self.input;
        let configuration = self.configuration;
        let freshness = Freshness::new(self.workload, configuration, false, options, *now);
        let record = Changes::Record(freshness == Freshness::Fresh);
        let observations = configuration.map_or(0, |it| it.observations);
        let unrecorded = || Changes::Drift(vec![(String::new(), ChangeKind::Unrecorded)]);
        match FirstRead::new(self.workload, configuration, freshness) {
            FirstRead::Unclear => Changes::Unclear(Vec::new()),
            _ if observations > 1 && freshness != Freshness::Fresh => unrecorded(),
            FirstRead::BeforeCreation
                if options.profile == Profile::Reloader && !options.reloader.reload_on_create =>
            {
                record
            }
            FirstRead::BeforeCreation if *current != Applied::Absent => {
                Changes::Drift(vec![(String::new(), ChangeKind::Created)])
            }
            FirstRead::BeforeChange if *current != Applied::Absent => unrecorded(),
            FirstRead::Unproven if *current != Applied::Absent => Changes::Unproven,
            _ => record,
        }
    }
}

enum Changes {
    /// Keep the recorded checksum.
    Keep,
    Same,
    /// Record the current checksum, and whether all pods have started with it.
    Record(bool),
    /// Record the current checksum, although pods may have started with an older version.
    Unproven,
    /// It is not known yet whether pods have started with the current version. The changes are empty if no other version is
    /// recorded.
    Unclear(Vec<(String, ChangeKind)>),
    Drift(Vec<(String, ChangeKind)>),
}

fn absent(reading: &Reading<'_>) -> Current {
    let absent = Configuration {
        kind: ConfigurationKind::ConfigMap,
        namespace: String::new(),
        name: String::new(),
        annotations: Default::default(),
        content: Content::Absent,
        created_at: None,
        changed_at: None,
        is_change_uncertain: false,
        version: None,
        observations: 0,
    };
    reading.of(Some(&absent), Profile::Rollplan, None)
}
