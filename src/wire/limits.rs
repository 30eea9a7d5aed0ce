//! The maximum numbers of objects in requests, and the maximum sizes of messages.

use super::error::Error;

/// The maximum size of an encoded request, in bytes.
pub const REQUEST_BYTES_MAX: usize = 16 << 20;
/// The maximum size of an encoded answer in bytes, which is the default limit of gRPC clients.
pub const ANSWER_BYTES_MAX: usize = 4 << 20;

/// The maximum number of ReplicaSets in a snapshot.
pub const REPLICA_SETS_MAX: usize = 10_000;
/// The maximum number of pods in a snapshot.
pub const PODS_MAX: usize = 20_000;
/// The maximum number of answers in a snapshot.
pub const ANSWERS_MAX: usize = 1_000;
/// The maximum number of events in a snapshot.
pub const EVENTS_MAX: usize = 20_000;
/// The maximum number of expressions in a selector. Each is evaluated for every object.
pub const EXPRESSIONS_MAX: usize = 100;
/// The maximum number of values in all expressions of a selector.
pub const VALUES_MAX: usize = 1_000;
/// The maximum number of workloads in a request for restarts.
pub const WORKLOADS_MAX: usize = 20_000;
/// The maximum number of configurations in a request for restarts.
pub const CONFIGURATIONS_MAX: usize = 40_000;

/// The maximum number of verdicts, and of gates, in a request for a canary.
pub const VERDICTS_MAX: usize = 1_000;
/// The maximum number of steps of a canary.
pub const STEPS_MAX: usize = 100;

/// The maximum number of changes in a forecast.
pub const CHANGES_MAX: usize = 10;
/// The maximum number of samples of a forecast.
pub const SAMPLES_MAX: usize = 1_000;
/// The maximum number of start times, and of times to terminate, in a forecast.
pub const POD_TIMES_MAX: usize = 10_000;

/// The maximum number of entries in a list or map of an object. Kubernetes has no such limit, but objects have at most
/// dozens.
pub const ENTRIES_MAX: usize = 10_000;
/// The maximum size of an object as JSON without white space, in bytes: the API server accepts no larger request.
pub const OBJECT_BYTES_MAX: usize = 3 << 20;
/// The maximum size of the annotations of an object, keys and values together, in bytes (TotalAnnotationSizeLimitB in
/// Kubernetes).
pub const ANNOTATIONS_BYTES_MAX: usize = 256 << 10;
/// The maximum number of objects in the texts of a request, including those that are not selected.
pub const OBJECTS_MAX: usize = 200_000;

/// Rejects a list with more than `max` entries.
pub(super) fn limit(what: &'static str, count: usize, max: usize) -> Result<(), Error> {
    if count > max {
        return Err(Error::TooLarge {
            what,
            unit: "entries",
            count,
            max,
        });
    }
    Ok(())
}

/// Checks the size of an answer, encoded as protobuf.
///
/// # Errors
///
/// [`Error::AnswerTooLarge`].
pub fn check_answer(bytes: usize) -> Result<(), Error> {
    if bytes > ANSWER_BYTES_MAX {
        return Err(Error::AnswerTooLarge {
            bytes,
            max: ANSWER_BYTES_MAX,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rollplan_forecast::REPLICAS_MAX;

    use super::*;
    use crate::body::YAML_BYTES_MAX;
    use crate::memory::MEMORY_BYTES_MAX;
    use crate::tree::TEMPLATE_VALUES_MAX;

    fn bytes(max: usize) -> String {
        if max < 1 << 20 {
            format!("{} KiB", max >> 10)
        } else {
            format!("{} MiB", max >> 20)
        }
    }

    fn count(max: usize) -> String {
        let digits = max.to_string();
        let split = digits.len().saturating_sub(3);
        let (thousands, rest) = digits.split_at(split);
        match thousands {
            "" => digits,
            _ => format!("{thousands},{rest}"),
        }
    }

    #[test]
    fn documentation_has_the_limits() {
        const REQUEST: &str = "`REQUEST_TOO_LARGE`";
        let replicas = usize::try_from(REPLICAS_MAX).unwrap();
        let rows = [
            (
                "a request, also after decompression",
                bytes(REQUEST_BYTES_MAX),
                REQUEST,
            ),
            (
                "YAML in the body of `/v1/*`",
                bytes(YAML_BYTES_MAX),
                REQUEST,
            ),
            (
                "memory for one call, or less if the server has less",
                bytes(MEMORY_BYTES_MAX),
                REQUEST,
            ),
            ("a response", bytes(ANSWER_BYTES_MAX), "`ANSWER_TOO_LARGE`"),
            ("objects in a request", count(OBJECTS_MAX), REQUEST),
            ("selected ReplicaSets", count(REPLICA_SETS_MAX), REQUEST),
            ("selected pods", count(PODS_MAX), REQUEST),
            ("selected events", count(EVENTS_MAX), REQUEST),
            ("answers to calls", count(ANSWERS_MAX), REQUEST),
            ("expressions of a selector", count(EXPRESSIONS_MAX), REQUEST),
            (
                "values in the expressions of a selector",
                count(VALUES_MAX),
                REQUEST,
            ),
            (
                "JSON of a selected object, without white space",
                bytes(OBJECT_BYTES_MAX),
                "`INVALID_REQUEST`: `OBJECT_TOO_LARGE`",
            ),
            (
                "entries in a list or map of a selected object",
                count(ENTRIES_MAX),
                "`INVALID_REQUEST`: `OBJECT_TOO_LARGE`",
            ),
            (
                "keys and values of the annotations of a selected object",
                bytes(ANNOTATIONS_BYTES_MAX),
                "`INVALID_REQUEST`: `ANNOTATIONS_TOO_LARGE`",
            ),
            (
                "entries of maps and items of lists in a template",
                count(TEMPLATE_VALUES_MAX),
                "`INVALID_REQUEST`: `TEMPLATE_TOO_LARGE`",
            ),
            (
                "desired pods of a forecast, before and after the changes",
                count(replicas),
                REQUEST,
            ),
            ("changes of a forecast", count(CHANGES_MAX), REQUEST),
            ("samples of a forecast", count(SAMPLES_MAX), REQUEST),
            (
                "start times, and times to terminate, of a forecast",
                count(POD_TIMES_MAX),
                REQUEST,
            ),
            (
                "verdicts, and gates, of a canary",
                count(VERDICTS_MAX),
                REQUEST,
            ),
            ("steps of a canary", count(STEPS_MAX), REQUEST),
            (
                "workloads in a request for restarts",
                count(WORKLOADS_MAX),
                REQUEST,
            ),
            (
                "configurations in a request for restarts",
                count(CONFIGURATIONS_MAX),
                REQUEST,
            ),
        ];
        let rows = rows.map(|(what, max, error)| vec![what.to_owned(), max, error.to_owned()]);
        let table = rollplan_world::page::table(&["limit of", "at most", "error"], rows);
        rollplan_world::page::check("docs/reference/api.md", "limits", &table);
    }
}
