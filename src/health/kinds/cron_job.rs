//! CronJobs: they only create Jobs, so there is nothing to wait for.

use rollplan_core::time::Time;

use super::observed::{ObservedObject, counters};
use crate::report::Report;

/// The fields of a CronJob that a report uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CronJob {
    /// `spec.suspend`.
    pub is_suspended: bool,
    /// The length of `status.active`.
    pub active: i32,
    /// `status.lastScheduleTime`.
    pub last_schedule: Option<Time>,
    /// `status.lastSuccessfulTime`.
    pub last_success: Option<Time>,
}

pub(super) fn report(job: &CronJob, object: &ObservedObject<'_>) -> Report {
    let ago = |time: Time| format!("{} ago", object.now().since(time));
    let last = match (job.last_schedule, job.last_success) {
        (None, _) => "no Job has been scheduled yet".to_owned(),
        (Some(schedule), Some(success)) => format!(
            "last scheduled {}, last success {}",
            ago(schedule),
            ago(success)
        ),
        (Some(schedule), None) => format!("last scheduled {}, no success yet", ago(schedule)),
    };
    let what = if job.is_suspended {
        format!("is suspended and schedules no Jobs ({last})")
    } else {
        format!("is scheduled ({last})")
    };
    object.complete(&what, counters([("active", job.active)]))
}
