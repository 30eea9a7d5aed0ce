//! When Kubernetes retries. A failure that has lasted for its grace is certain only once an attempt after the grace has
//! failed as well: between two attempts, nothing shows whether the cause has been resolved.
//!
//! The kubelet synchronizes a pod that fails 10 to 15 s after the last synchronization has ended.
//!
//! - An image is pulled again in the first synchronization after its back-off: 10 s, doubled by each failure, up to 300 s.
//!   Attempts are therefore made at 0 s, and not before 10, 30, 70, 150 s, and so on. The last one within a grace of 90 s
//!   may be made at any time up to 90 s, and the next one up to 80 + 15 s later: the first attempt after the grace is made
//!   after 185 s at the latest.
//! - A container is created again in each synchronization.
//! - A volume is mounted again after 0.5 s, doubled by each failure, up to 122 s.
//!
//! Each synchronization first reports the result of the previous one, and then tries again. A status therefore shows the
//! result of an attempt that is up to two synchronizations old.

use super::class::Class;
use crate::explain::pods::Explanation;

/// The maximum time until the kubelet synchronizes a failing pod.
const SYNC_SECONDS: i64 = 15;
/// The maximum age of the attempt that the status of a container shows: two intervals, and the duration of two
/// synchronizations.
const SHOWN_SECONDS: i64 = 2 * SYNC_SECONDS + 10;

/// The maximum time to pull an existing image. During the pull, the status still shows the back-off before it.
pub(super) const PULL_SECONDS: i64 = 600;

/// The schedule of the attempts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retries {
    /// The delay after the first failure. Each failure doubles it.
    first: i64,
    /// The longest delay.
    longest: i64,
    /// How late an attempt may be made after its delay.
    late: i64,
    /// The maximum age of a reported attempt.
    shown: i64,
}

const PULL: Retries = Retries {
    first: 10,
    longest: 300,
    late: SYNC_SECONDS,
    shown: SHOWN_SECONDS,
};
const CREATE: Retries = Retries {
    first: 0,
    longest: 0,
    ..PULL
};
const MOUNT: Retries = Retries {
    first: 1,
    longest: 122,
    late: 5,
    shown: 0,
};
/// The state of a pod is current.
const CURRENT: Retries = Retries {
    first: 0,
    longest: 0,
    late: 0,
    shown: 0,
};

// === impl Retries ===

impl Retries {
    pub(super) fn of(explanation: &Explanation<'_>) -> Self {
        match explanation.class {
            Some(Class::ImagePull) => match explanation.blocked.reason.as_str() {
                NEVER_PULL | NOT_INSPECTED => CREATE,
                _ => PULL,
            },
            Some(Class::Config) if explanation.is_from_event => MOUNT,
            Some(Class::Config) => CREATE,
            _ => CURRENT,
        }
    }

    /// The latest time of the first attempt after `grace`, in seconds since the first attempt of all.
    pub(super) fn next_after(&self, grace: i64) -> i64 {
        let (mut earliest, mut delay) = (0, self.first);
        while delay < self.longest && earliest + delay < grace {
            earliest += delay;
            delay = (2 * delay).min(self.longest);
        }
        grace.saturating_add(delay + self.late)
    }

    /// The time, in seconds since the first report of a failure, from which a status with this reason proves an attempt
    /// after `grace`.
    pub(super) fn proven_after(&self, grace: i64, reason: &str) -> i64 {
        match reason {
            BACK_OFF => self.next_after(grace).saturating_add(PULL_SECONDS),
            _ => grace.saturating_add(self.shown),
        }
    }

    /// The latest time at which a status shows an attempt after `grace`, in seconds since the first report of the failure.
    pub(super) fn shown_after(&self, grace: i64) -> i64 {
        let shown = grace.saturating_add(self.shown);
        match self.longest {
            0 => shown,
            _ => self.next_after(shown).saturating_add(self.late),
        }
    }
}

/// The reason of a container whose image will be pulled again later.
pub(super) const BACK_OFF: &str = "ImagePullBackOff";
/// The reason of a container whose image is not on the node and may not be pulled.
pub(super) const NEVER_PULL: &str = "ErrImageNeverPull";
/// The reason of a container for whose image the runtime could not be asked.
const NOT_INSPECTED: &str = "ImageInspectError";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_attempt_after_the_grace_follows_the_back_off() {
        for (grace, expected) in [
            (1, 26),
            (10, 35),
            (11, 46),
            (30, 65),
            (90, 185),
            (151, 326),
            (400, 715),
        ] {
            assert_eq!(PULL.next_after(grace), expected, "{grace}");
        }
        assert_eq!(PULL.shown_after(90), 240);
        assert_eq!(PULL.proven_after(90, "ErrImagePull"), 130);
        assert_eq!(PULL.proven_after(90, BACK_OFF), 785);
        assert_eq!(CREATE.next_after(90), 105);
        assert_eq!(CREATE.shown_after(90), 130);
        assert_eq!(MOUNT.next_after(90), 159);
        assert_eq!(CURRENT.shown_after(90), 90);
        for retries in [PULL, CREATE, MOUNT, CURRENT] {
            assert_eq!(retries.next_after(i64::MAX), i64::MAX);
            assert_eq!(retries.proven_after(i64::MAX, BACK_OFF), i64::MAX);
        }
    }
}
