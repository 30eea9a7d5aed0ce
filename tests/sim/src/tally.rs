//! What happened in a world, counted: events that took effect, and checks whose case came about. A check that
//! never had its case checks nothing, so the summary shows the zeros.

macro_rules! tallies {
    ($($group:literal: $($name:ident = $text:literal),+ $(,)?;)+) => {
        /// Something that is counted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Tally {
            $($(
                #[doc = $text]
                $name,
            )+)+
        }

        impl Tally {
            /// Each, with its group and what it says.
            pub const ALL: &[(Self, &'static str, &'static str)] =
                &[$($((Self::$name, $group, $text),)+)+];
        }
    };
}

tallies! {
    "events":
    Watched = "a watch delivered a change",
    Looked = "the adapter looked and planned",
    Called = "the adapter made a call",
    Died = "the adapter died",
    DiedMidPlan = "... between two calls of a plan",
    Synced = "the ReplicaSet controller changed something",
    PodCreated = "a pod was created",
    PodEnded = "the ReplicaSet controller ended a pod",
    PodMoved = "a pod moved on",
    PodCrashed = "a pod crashed",
    PodEvicted = "a pod was evicted",
    PodDeleted = "a user deleted a pod",
    PodRefused = "a quota refused a pod",
    Collected = "the garbage collector removed something",
    Waited = "time passed",
    Scaled = "a user or an autoscaler scaled",
    Paused = "a user paused",
    Resumed = "a user resumed",
    Retemplated = "a user changed the template",
    Restrategised = "a user changed the strategy",
    Tuned = "a user changed minReadySeconds, history or deadline",
    Annotated = "a user changed an annotation",
    Undone = "a user went back to an earlier revision",
    RollbackAsked = "a user asked for a rollback by annotation",
    Deleted = "a user deleted the Deployment",
    Orphaned = "a user deleted it and left its ReplicaSets behind",
    Created = "a user created it again",
    Resized = "someone resized a ReplicaSet",
    Relabelled = "someone relabelled a ReplicaSet",
    Disowned = "someone took a ReplicaSet's owner away",
    Broken = "a template's pods started to fail";
    "answers to the adapter":
    Done = "done",
    Stale = "a precondition did not hold",
    Refused = "refused for good",
    Taken = "the name was taken",
    LostBefore = "timed out, not done",
    LostAfter = "timed out, done all the same";
    "exemptions, each shown to be that case":
    ExemptScaling = "availability: proportional or paused scaling",
    ExemptPodsFailed = "availability: pods failed since they were counted",
    ExemptUnobserved = "availability: a size was not observed yet",
    ExemptTakenAway = "availability: a ReplicaSet was taken away or released",
    ExemptShrunk = "availability: someone else shrank a ReplicaSet",
    ExemptNewlyAvailable = "availability: pods became available since they were counted",
    ExemptResized = "total: someone else grew a ReplicaSet",
    ExemptRollback = "total, Recreate: a rollback annotation creates first",
    ExemptDisowned = "owner: taken away since the plan was made",
    ExemptInconsistent = "settled: a ReplicaSet had reported more available pods than it wanted",
    ExemptNoDeadline = "deadline: Recreate has never shown progress yet, as upstream",
    ExemptReversed = "undone: by a plan that ended before a size it would reverse",
    ExemptInherited = "the linter: inherited, not made worse",
    ExemptUnseenPod = "Recreate: an old pod that no watch had shown",
    ExemptRecreatePaused = "Recreate: paused or scaled";
    "checks, how often their case came about":
    CheckTotal = "a set grew: the total stays within the surge",
    CheckAvailable = "a set shrank in a rolling update: the minimum stays available",
    CheckAvailableTight = "... with nothing to spare",
    CheckRecreate = "a new set grew under Recreate: no old pod runs",
    CheckOwned = "a ReplicaSet was written: it is ours",
    CheckAdoption = "a ReplicaSet was adopted: the owner was checked before",
    CheckNoLostUpdate = "a size was written: it was the size we knew",
    CheckApply = "a call did what its action says",
    CheckLinted = "a settled plan passed the linter",
    CheckSettled = "nothing changed since a settled plan was carried out: nothing to write",
    CheckNotUndone = "nothing changed since a settled plan was cut short: no write is undone",
    CheckRest = "at rest: planning again writes nothing",
    CheckTimer = "a timer was asked for: not at once",
    CheckStatus = "at rest: the published status is true",
    CheckDeadline = "stuck past its deadline: the status says so",
    CheckUndo = "an undo brought the template back",
    CheckComplete = "complete: reported as complete, nothing holds it",
    CheckStuck = "stuck: the first reason reported is the true one",
    CheckConverged = "healthy again: the rollout completed",
    StuckPaused = "stuck: paused",
    StuckReplicaSetRefused = "stuck: ReplicaSet refused",
    StuckImagePull = "stuck: image",
    StuckConfig = "stuck: configuration",
    StuckCrashLoop = "stuck: crash loop",
    StuckUnschedulable = "stuck: no node",
    StuckPodsRefused = "stuck: pods refused",
    StuckNotReady = "stuck: not ready",
    StuckOldPods = "stuck: old pods do not end",
    StuckSeveral = "stuck for several reasons at once";
}

/// How often each happened.
#[derive(Clone, Copy, Debug)]
pub struct Tallies([u32; Tally::ALL.len()]);

// === impl Tallies ===

impl Default for Tallies {
    fn default() -> Self {
        Self([0; Tally::ALL.len()])
    }
}

impl Tallies {
    /// One more.
    pub fn count(&mut self, tally: Tally) {
        self.0[tally as usize] += 1;
    }

    /// How often so far.
    #[must_use]
    pub fn get(&self, tally: Tally) -> u32 {
        self.0[tally as usize]
    }
}
