//! The drift of a workload: which of its configurations have changed since they were applied, and which are only recorded.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::compare::{Change, ChangeKind, Current, Difference, Reading};
use super::configuration::{Configuration, ConfigurationKind, Content};
use super::duration::span;
use super::marker::applied_marker;
use super::options::{Options, Profile};
use super::plan::Input;
use super::reference::Reference;
use super::selection::{CHANGE_SET, Index, Tracked};
use super::state::{Applied, State, key, millis};
use super::workload::{Started, Workload, WorkloadKind};

/// A changed configuration that causes a restart.
#[derive(Debug)]
pub(super) struct Source<'a> {
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
    pub(super) sources: Vec<Source<'a>>,
    pub(super) missing: Vec<String>,
    pub(super) change_sets: BTreeSet<&'a str>,
    /// The times of the changes, if all are known.
    pub(super) times: Option<Vec<i64>>,
    /// The latest change that all pods have started with.
    pub(super) folded_at: Option<i64>,
}

/// One configuration of a workload: current and as applied.
pub(super) struct Found<'a, 's> {
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
        let current = match is_known_absent {
            true => absent(&tracked.reading),
            false => tracked
                .reading
                .of(configuration, profile, applied.as_deref()),
        };
        Self {
            workload,
            tracked,
            configuration,
            key,
            applied,
            current,
        }
    }

    pub(super) fn is_unknown(&self) -> bool {
        matches!(self.current, Current::Unknown)
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

    /// Adds the configuration to the states and to the drift.
    pub(super) fn apply(
        self,
        options: &Options,
        drift: &mut Drift<'a>,
        recorded: &mut State,
        restarted: &mut State,
    ) {
        let annotations = self.configuration.map(|it| &it.annotations);
        let change_set = annotations.and_then(|it| it.get(CHANGE_SET));
        drift.change_sets.extend(change_set.map(String::as_str));
        let id = (self.tracked.kind, self.tracked.name);
        let current = match &self.current {
            Current::Unknown => return,
            Current::Same => {
                drift.settled.push(id);
                return;
            }
            Current::Missing(key) => {
                let Tracked { kind, name, .. } = &self.tracked;
                drift.missing.push(match key.as_str() {
                    "" => format!("{kind} {}/{name}", self.workload.namespace),
                    key => format!("{key} of {kind} {}/{name}", self.workload.namespace),
                });
                return;
            }
            Current::Known(current) => current,
        };
        let is_fresh = self.is_fresh(options);
        let changes = self.changes(options, current, is_fresh);
        let insert = |state: &mut State| state.apply(self.key.clone(), current.clone());
        match changes {
            Changes::Keep => {}
            Changes::Same => drift.settled.push(id),
            Changes::Record => {
                drift.settled.push(id);
                insert(recorded);
                insert(restarted);
                if is_fresh == Some(true) {
                    let at = self.configuration.and_then(|it| it.changed_at).map(millis);
                    drift.folded_at = drift.folded_at.max(at);
                }
            }
            Changes::Drift(changes) => {
                insert(restarted);
                drift.drifting.push(id);
                let changed_at = self.configuration.and_then(|it| it.changed_at);
                match (changed_at, &mut drift.times) {
                    (Some(at), Some(times)) => times.push(millis(at)),
                    (None, times) => *times = None,
                    (Some(_), None) => {}
                }
                drift.changes.extend(
                    changes
                        .into_iter()
                        .map(|(key, change)| self.change(key, change)),
                );
                drift.sources.push(Source {
                    kind: self.tracked.kind,
                    name: self.tracked.name,
                    checksum: match current {
                        Applied::Absent => String::new(),
                        Applied::Present(entry) => entry.digest.clone(),
                    },
                    uses: self.tracked.uses,
                });
            }
        }
    }

    fn changes(&self, options: &Options, current: &Applied, is_fresh: Option<bool>) -> Changes {
        let observations = self.configuration.map_or(0, |it| it.observations);
        let Some(applied) = &self.applied else {
            let is_drift = is_fresh != Some(true) && observations > 1
                || is_fresh == Some(false) && *current != Applied::Absent;
            return match is_drift {
                true => Changes::Drift(vec![(String::new(), ChangeKind::Unrecorded)]),
                false => Changes::Record,
            };
        };
        let changed = match applied.difference(current) {
            Difference::Same => return Changes::Same,
            Difference::Reading => return Changes::Record,
            Difference::Changed(changed) => changed,
        };
        if is_fresh == Some(true) {
            return Changes::Record;
        }
        let is = |kind| changed.iter().any(|(_, change)| *change == kind);
        match options.profile {
            Profile::Reloader if is(ChangeKind::Created) && !options.reloader.reload_on_create => {
                Changes::Record
            }
            Profile::Reloader if is(ChangeKind::Deleted) && !options.reloader.reload_on_delete => {
                Changes::Keep
            }
            // The xing controller ignores deleted configurations.
            Profile::Xing if is(ChangeKind::Deleted) => Changes::Keep,
            _ => Changes::Drift(changed),
        }
    }

    /// Whether all pods have started with the current configuration. `None` if that is unknown.
    fn is_fresh(&self, options: &Options) -> Option<bool> {
        // Jobs that are already running finish with the configuration that they started with.
        if self.workload.workload_kind() == WorkloadKind::CronJob {
            return None;
        }
        let changed_at = self.configuration.and_then(|it| it.changed_at);
        let skew = span(options.skew);
        match (self.workload.started, changed_at) {
            (Started::Never, _) => Some(true),
            (Started::At(started), Some(changed)) => Some(millis(started) > millis(changed) + skew),
            (Started::Unknown, Some(changed)) => {
                let revision = self.workload.revision_at?;
                Some(millis(revision) > millis(changed) + skew)
            }
            (_, None) => None,
        }
    }
}

enum Changes {
    /// Keep the recorded checksum.
    Keep,
    Same,
    Record,
    Drift(Vec<(String, ChangeKind)>),
}

fn absent(reading: &Reading<'_>) -> Current {
    let absent = Configuration {
        kind: ConfigurationKind::ConfigMap,
        namespace: String::new(),
        name: String::new(),
        annotations: Default::default(),
        content: Content::Absent,
        changed_at: None,
        observations: 0,
    };
    reading.of(Some(&absent), Profile::Rollplan, None)
}
