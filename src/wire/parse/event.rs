//! Parses events.

use rollplan_core::snapshot::ObservedEvent;

use super::Parser;
use super::path::Path;
use crate::read::kubernetes;

/// The beginning of the message of an event that stands for several with different messages, of which it has the latest
/// (client-go: tools/record/events_cache.go, `EventAggregatorByReasonMessageFunc`).
const COMBINED: &str = "(combined from similar events): ";

impl Parser<'_> {
    pub(crate) fn event(&mut self, event: kubernetes::Event, path: &Path<'_>) -> ObservedEvent {
        let kubernetes::Event {
            involved_object,
            reason,
            message,
            kind,
            count,
            first_timestamp,
            last_timestamp,
            event_time,
            series,
        } = event;
        let series_path = path.field("series");
        let kubernetes::EventSeries {
            count: repeated,
            last_observed_time,
        } = series;
        let count = self.count(count, &path.field("count"));
        let repeated = self.count(repeated, &series_path.field("count"));
        let first = first_timestamp.or(event_time).or(last_timestamp);
        ObservedEvent {
            object_uid: involved_object.uid,
            field_path: involved_object.field_path,
            kind,
            reason,
            message: match message.strip_prefix(COMBINED) {
                Some(message) => message.to_owned(),
                None => message,
            },
            count: count.max(repeated).max(1),
            first,
            last: last_observed_time.max(last_timestamp).or(first),
        }
    }
}
