//! The maximum numbers of objects in requests, and the maximum sizes of messages.

use prost::Message;

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

/// Checks the size of an answer.
///
/// # Errors
///
/// [`Error::AnswerTooLarge`].
pub fn check_answer(answer: &impl Message) -> Result<(), Error> {
    let bytes = answer.encoded_len();
    if bytes > ANSWER_BYTES_MAX {
        return Err(Error::AnswerTooLarge {
            bytes,
            max: ANSWER_BYTES_MAX,
        });
    }
    Ok(())
}
