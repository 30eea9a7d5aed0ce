//! Leads the loop of a controller of restarts: what it must read before it restarts anything, which of its objects are
//! outdated, which namespaces it must include, when a call that failed is repeated, and which conditions are new.
//!
//! The maximum number of restarts in progress spans namespaces, and a controller plans one namespace at a time. Its cache
//! lags: right after a patch, it shows neither the restart nor the new rollout. When a standby becomes the leader, it
//! may lack the restarts of the previous leader as well. So the metadata of all workloads is listed once before the first
//! plan, and from then on, the versions in the answers to the controller's own calls show what its cache lacks. After a
//! call with an unknown outcome, its object is read.

use std::collections::{BTreeMap, BTreeSet};

use rollplan_core::snapshot::StringMap;
use rollplan_core::sync::{READS_MAX, STEPS_MAX, backoff_millis, is_older};
use rollplan_core::time::{Span, Time};
use sha2::{Digest as _, Sha256};

use super::draft::HOUR;
use super::options::Profile;
use super::plan::{Calls, Input, Plan};
use super::state::{State, from_millis, millis};

/// When to ask again if a response does not contain all steps.
const REST_AFTER_MILLIS: u64 = 1;

/// What the planner must know of earlier calls of a controller. Callers keep it without understanding it. Without it, the
/// planner only reads more, and reports conditions again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoopState {
    /// The number of responses. The ids of their steps and reads contain it.
    pub turns: u64,
    /// The number of calls to which an answer is due.
    pub calls: u32,
    /// Whether `written` and `restarting` show every restart that the caller may not observe yet.
    pub is_verified: bool,
    /// The next page to list.
    pub page: Page,
    /// The newest versions of the workloads that the caller may not observe yet, by UID.
    pub written: BTreeMap<String, Written>,
    /// The workloads about which the last calls have failed, by UID.
    pub failed: BTreeMap<String, Failed>,
    /// The namespaces in which restarts may be in progress.
    pub restarting: BTreeSet<String>,
    /// Digests of the conditions that have been reported, by namespace.
    pub reported: BTreeMap<String, BTreeSet<u64>>,
    /// The number of responses since the last one to which all reads succeeded.
    pub failed_reads: u32,
}

/// A page of the metadata of workloads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The index of the collection among those that the caller watches.
    pub collection: usize,
    /// The token in the page before. Empty for the first page.
    pub continues: String,
}

/// A write to a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// The namespace.
    pub namespace: String,
    /// The resourceVersion. Empty if the outcome is unknown.
    pub version: String,
    /// Whether it may have restarted the workload.
    pub is_restart: bool,
    /// The path of the workload in the API. Empty if it need not be read.
    pub path: String,
}

/// A call that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failed {
    /// The namespace of the workload.
    pub namespace: String,
    /// The number of failures in sequence.
    pub attempts: u32,
    /// When it may be repeated.
    pub retry_at: Time,
}

/// A call of the last plan, as its id describes it.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The UID of the workload.
    pub uid: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
    /// Its path in the API.
    pub path: &'a str,
    /// Whether the call restarts it.
    pub is_restart: bool,
}

/// The answer to a call.
#[derive(Clone, Copy, Debug)]
pub enum Answer<'a> {
    /// It was not made.
    NotMade,
    /// It succeeded, and returned this object, if it could be read.
    Done(Option<Version<'a>>),
    /// It was rejected.
    Rejected {
        /// Whether it is not repeated: nothing can be created in a namespace that is being deleted.
        is_final: bool,
    },
    /// Its outcome is unknown: there was no answer, or an internal error.
    Unknown,
}

/// The metadata of an object.
#[derive(Clone, Copy, Debug)]
pub struct Version<'a> {
    /// UID.
    pub uid: &'a str,
    /// The resourceVersion.
    pub version: &'a str,
    /// Namespace.
    pub namespace: &'a str,
    /// Annotations.
    pub annotations: &'a StringMap,
}

/// A read that the caller must make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// The metadata of some workloads.
    Page(Page),
    /// The metadata of a workload.
    Object {
        /// Its UID.
        uid: String,
        /// Its path in the API.
        path: String,
    },
}

/// One call of the planner in the loop of a controller.
#[derive(Debug)]
pub struct Turn {
    /// The state after the answers, and after the plan once [`conclude`](Self::conclude) has returned.
    pub state: LoopState,
    now: Time,
    profile: Profile,
    /// Whether the number of restarts in progress has a maximum.
    is_limited: bool,
    is_unreadable: bool,
    /// The UIDs of the workloads that have been read for this call.
    read: BTreeSet<String>,
    /// The namespaces of the request.
    included: BTreeSet<String>,
}

/// What the caller does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Make these reads, and ask again at once.
    Read(Vec<Read>),
    /// Ask again at once with the namespaces that are missing.
    Include,
    /// Ask again later: a read has failed.
    Wait(Span),
    /// Carry out the plan.
    Plan,
}

// === impl Turn ===

impl Turn {
    /// Begins a call about some namespaces.
    #[must_use]
    pub fn begin(state: LoopState, included: BTreeSet<String>, input: &Input) -> Self {
        Self {
            state,
            now: input.now,
            profile: input.options.profile,
            is_limited: input.options.max_concurrent > 0,
            is_unreadable: false,
            read: BTreeSet::new(),
            included,
        }
    }

    /// Records the answer to a call of the last plan.
    pub fn record_call(&mut self, call: Call<'_>, answer: Answer<'_>) {
        self.state.calls = self.state.calls.saturating_sub(1);
        match answer {
            Answer::NotMade => {}
            Answer::Done(version) => {
                self.state.failed.remove(call.uid);
                match version {
                    Some(version) if version.uid == call.uid => {
                        self.record_write(call, version.version);
                    }
                    // A Job that was created.
                    Some(_) => {}
                    None => self.record_write(call, ""),
                }
            }
            Answer::Rejected { is_final: true } => {}
            Answer::Rejected { is_final: false } => self.record_failure(call),
            Answer::Unknown => {
                self.record_write(call, "");
                self.record_failure(call);
            }
        }
    }

    fn record_write(&mut self, call: Call<'_>, version: &str) {
        // Without a maximum, preconditions are enough: the write of an outdated plan fails.
        if version.is_empty() && !self.is_limited {
            return;
        }
        let before = self.state.written.get(call.uid);
        let is_restart = call.is_restart || before.is_some_and(|before| before.is_restart);
        let is_readable = self.is_limited && (is_restart || version.is_empty());
        let written = Written {
            namespace: call.namespace.to_owned(),
            version: version.to_owned(),
            is_restart,
            path: if is_readable {
                call.path.to_owned()
            } else {
                String::new()
            },
        };
        self.state.written.insert(call.uid.to_owned(), written);
    }

    fn record_failure(&mut self, call: Call<'_>) {
        let failed = self.state.failed.entry(call.uid.to_owned()).or_default();
        call.namespace.clone_into(&mut failed.namespace);
        failed.attempts = failed.attempts.saturating_add(1);
        // The first failure may be due to an outdated object, and the next plan is made from newer ones.
        failed.retry_at = match failed.attempts {
            1 => self.now,
            attempts => {
                let delay = i64::try_from(backoff_millis(attempts, call.uid)).unwrap_or_default();
                from_millis(millis(self.now).saturating_add(delay))
            }
        };
    }

    /// Ends the answers. If one is missing, it is not known whether its call was made.
    pub fn end_calls(&mut self) {
        if self.state.calls > 0 {
            self.state.is_verified = false;
            self.state.page = Page::default();
        }
        self.state.calls = 0;
    }

    /// Records a page of the metadata of workloads. `continues` is the token for the next page.
    pub fn record_page<'v>(
        &mut self,
        workloads: impl Iterator<Item = (Version<'v>, String)>,
        continues: &str,
    ) {
        for (version, path) in workloads {
            let before = self.state.written.get(version.uid);
            let is_known = before
                .is_some_and(|before| is_older(&before.version, version.version) == Some(false));
            if !is_known && self.is_restarted(version) {
                let namespace = version.namespace.to_owned();
                self.state.restarting.insert(namespace.clone());
                let written = Written {
                    namespace,
                    version: version.version.to_owned(),
                    is_restart: true,
                    path,
                };
                self.state.written.insert(version.uid.to_owned(), written);
            }
        }
        if continues.is_empty() {
            self.record_no_collection();
        } else {
            continues.clone_into(&mut self.state.page.continues);
        }
    }

    /// Records that a collection does not exist, or that it has no further page.
    pub fn record_no_collection(&mut self) {
        self.state.page = Page {
            collection: self.state.page.collection + 1,
            continues: String::new(),
        };
    }

    /// Records that the token of a page has expired: its collection is listed again.
    pub fn record_expired(&mut self) {
        self.state.page.continues.clear();
    }

    /// Records a workload that was read.
    pub fn record_object(&mut self, uid: &str, version: Version<'_>) {
        if version.uid != uid {
            // Another object has the name now.
            self.state.written.remove(uid);
            return;
        }
        let is_restart = self.is_restarted(version);
        self.read.insert(uid.to_owned());
        if let Some(written) = self.state.written.get_mut(uid) {
            version.version.clone_into(&mut written.version);
            written.is_restart = is_restart;
        }
    }

    /// Records that a workload that was to be read does not exist.
    pub fn record_absent(&mut self, uid: &str) {
        self.state.written.remove(uid);
    }

    /// Records that a read has failed.
    pub fn record_unreadable(&mut self) {
        self.is_unreadable = true;
    }

    /// Whether the last restart of a workload may be in progress.
    fn is_restarted(&self, version: Version<'_>) -> bool {
        let (state, _) = State::read(version.annotations, self.profile);
        let last = state.last_restart();
        last.is_some_and(|last| millis(self.now).saturating_sub(last) < HOUR)
    }

    /// Compares the workloads of the request with the versions that are known, and decides what the caller does next.
    /// `collections` is the number of collections that it watches.
    pub fn observe(&mut self, input: &mut Input, collections: usize) -> Next {
        if self.is_unreadable {
            self.state.failed_reads = self.state.failed_reads.saturating_add(1);
            let delay = backoff_millis(self.state.failed_reads, "");
            return Next::Wait(Span::from_millis(delay));
        }
        self.state.failed_reads = 0;
        if self.is_limited && !self.state.is_verified {
            if self.state.page.collection < collections {
                return Next::Read(vec![Read::Page(self.state.page.clone())]);
            }
            self.state.is_verified = true;
            self.state.page = Page::default();
        }
        let (calls, reads) = self.unobserved(input);
        if !reads.is_empty() {
            return Next::Read(reads);
        }
        input.calls = calls;
        if self.namespaces().is_subset(&self.included) {
            Next::Plan
        } else {
            Next::Include
        }
    }

    /// What the workloads of the request do not show, and what must be read.
    fn unobserved(&mut self, input: &Input) -> (Calls, Vec<Read>) {
        let workloads = input.workloads.iter();
        let observed: BTreeMap<&str, &str> = workloads
            .map(|it| (it.uid.as_str(), it.version.as_str()))
            .collect();
        let failed = self.state.failed.iter();
        let waiting = failed.filter(|(_, failed)| failed.retry_at > self.now);
        let mut calls = Calls {
            retry_at: waiting
                .map(|(uid, failed)| (uid.clone(), failed.retry_at))
                .collect(),
            ..Calls::default()
        };
        let mut reads = Vec::new();
        let (included, read) = (&self.included, &self.read);
        self.state.written.retain(|uid, written| {
            if !included.contains(&written.namespace) {
                return true;
            }
            let observed = observed.get(uid.as_str());
            let must_be_read = match observed {
                _ if written.version.is_empty() => true,
                Some(version) if is_older(version, &written.version) == Some(true) => {
                    calls.unobserved.insert(uid.clone(), written.is_restart);
                    return true;
                }
                Some(_) => return false,
                // It is deleted, or so new that the caller does not observe it yet.
                None if !written.is_restart || written.path.is_empty() => return false,
                None => !read.contains(uid),
            };
            if must_be_read {
                reads.push(Read::Object {
                    uid: uid.clone(),
                    path: written.path.clone(),
                });
            } else {
                calls.elsewhere += 1;
            }
            true
        });
        reads.truncate(READS_MAX);
        (calls, reads)
    }

    /// The namespaces that each request must include: restarts may be in progress there, or calls are to be repeated.
    #[must_use]
    pub fn namespaces(&self) -> BTreeSet<String> {
        if !self.is_limited {
            return BTreeSet::new();
        }
        let written = self.state.written.values();
        let restarted = written.filter(|it| it.is_restart || it.version.is_empty());
        let failed = self.state.failed.values();
        let all = self.state.restarting.iter();
        all.chain(restarted.map(|it| &it.namespace))
            .chain(failed.map(|it| &it.namespace))
            .cloned()
            .collect()
    }

    /// Ends the call with a plan that is to be carried out.
    pub fn conclude(&mut self, plan: &mut Plan, input: &Input) {
        let included = &self.included;
        let state = &mut self.state;
        state.restarting.retain(|it| !included.contains(it));
        let mut reported = BTreeMap::new();
        let mut repeated = BTreeSet::new();
        let (mut calls, mut is_cut) = (0, false);
        for plan in &mut plan.workloads {
            let workload = &input.workloads[plan.index];
            let namespace = &workload.namespace;
            if plan.is_restarting && self.is_limited {
                state.restarting.insert(namespace.clone());
            }
            let before = state.reported.get(namespace);
            let conditions = plan.conditions.iter_mut();
            for condition in conditions.filter(|it| it.is_reported()) {
                let digest = digest(&workload.uid, condition.reason);
                condition.is_known = before.is_some_and(|before| before.contains(&digest));
                let reported: &mut BTreeSet<u64> = reported.entry(namespace.clone()).or_default();
                reported.insert(digest);
            }
            if calls + plan.steps.len() > STEPS_MAX {
                plan.steps.clear();
                is_cut = true;
            }
            calls += plan.steps.len();
            if !plan.steps.is_empty() {
                repeated.insert(workload.uid.as_str());
            }
        }
        if is_cut {
            plan.requeue_after = Some(Span::from_millis(REST_AFTER_MILLIS));
        }
        state.reported.retain(|it, _| !included.contains(it));
        state.reported.extend(reported);
        let now = self.now;
        state.failed.retain(|uid, failed| {
            !included.contains(&failed.namespace)
                || failed.retry_at > now
                || repeated.contains(uid.as_str())
        });
        state.calls = u32::try_from(calls).unwrap_or(u32::MAX);
    }
}

/// Identifies a condition of a workload.
fn digest(uid: &str, reason: &str) -> u64 {
    let mut hash = Sha256::new();
    hash.update(uid.as_bytes());
    hash.update([0]);
    hash.update(reason.as_bytes());
    let mut digest = [0; 8];
    digest.copy_from_slice(&hash.finalize()[..8]);
    u64::from_be_bytes(digest)
}
