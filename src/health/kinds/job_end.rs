//! How a Job ended, from an event. It outlives a Job that is deleted as soon as it has finished.

/// The controller whose events count.
const CONTROLLER: &str = "job-controller";

/// The reasons with which a Job fails, for its condition and for the event (batch/v1 `JobReason…` in
/// staging/src/k8s.io/api/batch/v1/types.go and recordJobFinished in pkg/controller/job/job_controller.go of Kubernetes).
const FAILURES: [&str; 5] = [
    "BackoffLimitExceeded",
    "DeadlineExceeded",
    "FailedIndexes",
    "MaxFailedIndexesExceeded",
    "PodFailurePolicy",
];

/// The fields of an event that matter here. Each is empty if the event does not have it.
#[derive(Clone, Copy, Debug, Default)]
pub struct JobEvent<'a> {
    /// `source.component`, or `reportingComponent` in newer events.
    pub component: &'a str,
    /// `type`.
    pub event_type: &'a str,
    /// `reason`.
    pub reason: &'a str,
    /// `message`.
    pub message: &'a str,
}

/// The result of a finished Job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobEnd {
    /// The Job is complete.
    Complete,
    /// The Job failed, with the reason and message of the event.
    Failed(String),
}

impl JobEnd {
    /// The result that an event about a Job reports. `None` if it reports something else, or if another component reports
    /// it: any user may create an event.
    #[must_use]
    pub fn of_event(event: JobEvent<'_>) -> Option<Self> {
        let JobEvent {
            component,
            event_type,
            reason,
            message,
        } = event;
        match event_type {
            _ if component != CONTROLLER => None,
            "Normal" if reason == "Completed" => Some(Self::Complete),
            "Warning" if FAILURES.contains(&reason) => {
                Some(Self::Failed(format!("{reason}: {message}")))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_the_controller_report_the_result_of_a_job() {
        let failed = |reason: &str| Some(JobEnd::Failed(format!("{reason}: why")));
        for (event_type, reason, component, expected) in [
            ("Normal", "Completed", CONTROLLER, Some(JobEnd::Complete)),
            (
                "Warning",
                "DeadlineExceeded",
                CONTROLLER,
                failed("DeadlineExceeded"),
            ),
            (
                "Warning",
                "PodFailurePolicy",
                CONTROLLER,
                failed("PodFailurePolicy"),
            ),
            ("Normal", "DeadlineExceeded", CONTROLLER, None),
            ("Normal", "SuccessfulCreate", CONTROLLER, None),
            ("Warning", "FailedCreate", CONTROLLER, None),
            ("Normal", "Completed", "somebody", None),
            ("Normal", "Completed", "", None),
        ] {
            let event = JobEvent {
                component,
                event_type,
                reason,
                message: "why",
            };
            assert_eq!(JobEnd::of_event(event), expected, "{event:?}");
        }
    }
}
