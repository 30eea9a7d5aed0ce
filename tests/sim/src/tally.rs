//! Counts the events that took effect in a world, and the checks that applied. The summary shows zeros, because a check
//! that never applied has not checked anything.

macro_rules! tallies {
    ($($group:literal: $($name:ident = $text:literal),+ $(,)?;)+) => {
        /// An event or a check that is counted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Tally {
            $($(
                #[doc = $text]
                $name,
            )+)+
        }

        impl Tally {
            /// All tallies, each with its group and its description.
            pub const ALL: &[(Self, &'static str, &'static str)] =
                &[$($((Self::$name, $group, $text),)+)+];
        }
    };
}

tallies! {
    "events":
    Watched = "a watch delivered a change",
    Planned = "the adapter made a plan",
    Read = "the planner asked for reads first",
    Withheld = "the planner withheld a plan",
    Called = "the adapter made a call",
    Died = "the adapter crashed",
    DiedMidPlan = "... between two calls of a plan",
    LedAgain = "... and the adapter that had led before led again",
    Synced = "the ReplicaSet controller changed something",
    PodCreated = "a pod was created",
    PodRemoved = "the ReplicaSet controller deleted a pod",
    PodAdvanced = "the scheduler or a kubelet advanced a pod",
    PodCrashed = "a pod crashed",
    PodEvicted = "a pod was evicted",
    PodDeleted = "a user deleted a pod",
    PodRejected = "a quota rejected a pod",
    Collected = "the garbage collector removed something",
    Waited = "time passed",
    Scaled = "a user or an autoscaler scaled",
    Paused = "a user paused",
    Resumed = "a user resumed",
    TemplateChanged = "a user changed the template",
    StrategyChanged = "a user changed the strategy",
    Tuned = "a user changed minReadySeconds, history or deadline",
    Annotated = "a user changed an annotation",
    CapsChanged = "a user changed the caps",
    RolledBack = "a user rolled back to an earlier revision",
    RollbackRequested = "a user requested a rollback by annotation",
    Deleted = "a user deleted the Deployment",
    Orphaned = "a user deleted it and orphaned its ReplicaSets",
    Created = "a user recreated it",
    Resized = "someone resized a ReplicaSet",
    Relabeled = "someone relabeled a ReplicaSet",
    Disowned = "someone removed the owner of a ReplicaSet",
    Broken = "a template's pods started to fail";
    "canaries":
    CanaryPlanned = "a steerer planned",
    CanaryRefused = "a command was refused",
    CanaryHeld = "a patch started or renewed a hold",
    CanaryRaised = "a patch began the next step",
    CanaryPromoted = "a patch promoted",
    CanaryAborted = "a patch aborted",
    CanaryEnded = "a patch wrote the end",
    CanaryStale = "a precondition failed",
    CanaryUnanswered = "the answer to a patch was lost, and it was sent again",
    CanaryDied = "a steerer died before its patch",
    CanaryInterfered = "another client wrote the Deployment",
    CheckCanaryCeiling = "a size was increased: within the ceiling of the user",
    CheckCanaryFloor = "available pods were deleted at a hold or in its abort: not below the floor",
    CheckCanaryGood = "a canary was promoted by its policy, or its next step began: it is good",
    CheckCanaryAtomic = "a patch was carried out: annotation, label and fields belong together",
    CheckCanaryUser = "at the end: the Deployment is the user's",
    ExemptCanaryScaled = "ceiling without a hold, and floor: the Deployment was scaled, as without a canary",
    ExemptCanaryScaledFirst = "ceiling at a hold: in one sync, one size was increased before another was decreased",
    ExemptCanaryNative = "floor: the Deployment controller alone, without a hold",
    ExemptCanaryReady = "floor: after a third template or in an abort, ready pods were kept instead of available ones",
    ExemptCanaryUndone = "floor: after an undo and a third template, stable pods count as unavailable",
    ExemptCanaryOlder = "floor: in an abort after a third template, pods of the older canary were removed first",
    ExemptCanaryReturned = "promotion: other clients changed the template and restored it between two plans",
    ExemptCanaryLate = "floor: pods of the canary became available between the plan of an abort and its patch",
    ExemptCanaryStuck = "end: a scaling event is detected indefinitely, as upstream: released",
    ExemptCanaryLabel = "end: the last copy of the state was deleted, so the label was released",
    ExemptCanaryOldCopy = "a state was not removed, because there was no copy yet",
    ExemptCanaryLost = "end: the state was removed before there was a copy";
    "responses to the adapter":
    Done = "success",
    Stale = "a precondition failed",
    Rejected = "rejected",
    Taken = "the name was taken",
    LostBefore = "timeout before the call took effect",
    LostAfter = "timeout after the call took effect",
    LostRead = "timeout of a read";
    "exemptions, each verified to apply":
    ExemptScaling = "availability: proportional or paused scaling",
    ExemptPodsFailed = "availability: pods failed after they were counted",
    ExemptUnobserved = "availability: a size was not observed yet",
    ExemptTakenAway = "availability: a ReplicaSet was removed or released",
    ExemptShrunk = "availability: someone else shrank a ReplicaSet",
    ExemptNewlyAvailable = "availability: pods became available after they were counted",
    ExemptResized = "total: someone else grew a ReplicaSet",
    ExemptRollback = "total, Recreate: a rollback by annotation creates the ReplicaSet first",
    ExemptDisowned = "owner: removed after the plan was made",
    ExemptRejected = "undone: the create of the new ReplicaSet had been rejected",
    ExemptInconsistent = "settled: a ReplicaSet reported more available pods than its size",
    ExemptNoDeadline = "deadline: Recreate has not shown any progress yet, as upstream",
    ExemptNativeOutdated = "conditions: the native Deployment keeps that of an earlier rollout, as upstream",
    ExemptInherited = "lint: the violation existed before and did not get worse",
    ExemptUnseenPod = "Recreate: an old pod that no watch had delivered",
    ExemptRecreatePaused = "Recreate: paused or scaled";
    "checks, and how often they applied":
    CheckTotal = "a ReplicaSet was scaled up: the total stays within maxSurge",
    CheckAvailable = "a ReplicaSet was scaled down in a rolling update: the minimum stays available",
    CheckAvailableTight = "... and exactly the minimum is available",
    CheckRecreate = "a new ReplicaSet was scaled up under Recreate: no old pod is running",
    CheckOwned = "a ReplicaSet was written: the Deployment owns it",
    CheckAdoption = "a ReplicaSet was adopted: the owner had been checked",
    CheckNoLostUpdate = "a size was written: the previous size was the expected one",
    CheckApply = "a call had the predicted effect",
    CheckLinted = "a settled plan passed the linter",
    CheckSettled = "no change since a settled plan was carried out: no writes",
    CheckNotUndone = "no change since a plan ended early or was interrupted: no write is reversed",
    CheckRest = "at rest: planning again writes nothing",
    CheckPartial = "some ReplicaSets were omitted, and the list was not complete: no steps",
    CheckTimer = "a plan has a timer: it is not zero",
    CheckStatus = "at rest: the published status is correct",
    CheckCapped = "stopped by caps: the status reports them, and no deadline",
    CheckDeadline = "stuck after its deadline: the status reports it",
    CheckCurrent = "a custom resource at rest: Progressing is about the current rollout",
    CheckConditions = "a custom resource at rest: its conditions are those of a native Deployment",
    CheckUndo = "a rollback restored the template",
    CheckComplete = "complete: reported as complete, without blockers",
    CheckStuck = "stuck: the first reported blocker is the actual cause",
    CheckCertain = "certainly stuck: never completes without a change",
    CheckDecided = "stuck: the verdict is decided when it was promised",
    CheckConverged = "after recovery: the rollout completes",
    StuckPaused = "stuck: paused",
    StuckCapped = "stuck: caps",
    StuckReplicaSetRejected = "stuck: ReplicaSet rejected",
    StuckImagePull = "stuck: image pull",
    StuckConfig = "stuck: configuration",
    StuckCrashLoop = "stuck: crash loop",
    StuckUnschedulable = "stuck: unschedulable",
    StuckPodsRejected = "stuck: pods rejected",
    StuckNotReady = "stuck: not ready",
    StuckOldPods = "stuck: old pods do not terminate",
    StuckSeveral = "stuck for several reasons at once";
}

/// The number of occurrences of each tally.
#[derive(Clone, Copy, Debug)]
pub struct Tallies([u32; Tally::ALL.len()]);

// === impl Tallies ===

impl Default for Tallies {
    fn default() -> Self {
        Self([0; Tally::ALL.len()])
    }
}

impl Tallies {
    /// Counts one occurrence.
    pub fn count(&mut self, tally: Tally) {
        self.0[tally as usize] += 1;
    }

    /// The number of occurrences so far.
    #[must_use]
    pub fn get(&self, tally: Tally) -> u32 {
        self.0[tally as usize]
    }
}
