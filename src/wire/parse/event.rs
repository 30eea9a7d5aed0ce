//! Parses events.

use rollplan_core::snapshot::ObservedEvent;

use super::Parser;
use super::path::Path;
use crate::wire::read::kubernetes;

impl Parser<'_> {
    pub(in crate::wire) fn event(
        &mut self,
        event: kubernetes::Event,
        path: &Path<'_>,
    ) -> ObservedEvent {
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
            message,
            count: count.max(repeated).max(1),
            first,
            last: last_observed_time.max(last_timestamp).or(first),
        }
    }
}
