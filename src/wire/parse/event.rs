//! Parses events.

use std::collections::HashSet;

use rollplan_core::snapshot::ObservedEvent;

use super::Parser;
use super::path::Path;
use crate::proto;

impl Parser<'_> {
    /// The events about the objects in `about`, a set of UIDs. Others are skipped without validation.
    pub(super) fn events(
        &mut self,
        events: Vec<proto::ObservedEvent>,
        about: &HashSet<&str>,
        path: &Path<'_>,
    ) -> Vec<ObservedEvent> {
        let mut parsed = Vec::new();
        for (index, event) in events.into_iter().enumerate() {
            if self.interrupt.is_interrupted() {
                break;
            }
            let object = event.involved_object.as_ref();
            if object.is_some_and(|object| about.contains(object.uid.as_str())) {
                parsed.push(self.event(event, &path.index(index)));
            }
        }
        parsed
    }

    pub(super) fn event(&mut self, event: proto::ObservedEvent, path: &Path<'_>) -> ObservedEvent {
        let proto::ObservedEvent {
            api_version,
            kind,
            // An event is identified by its content.
            metadata: _,
            involved_object,
            reason,
            message,
            r#type,
            count,
            first_timestamp,
            last_timestamp,
            event_time,
            series,
        } = event;
        self.kind((&api_version, &kind), ("v1", "Event"), path);
        let object = involved_object.unwrap_or_default();
        let first = self.optional_time(first_timestamp, &path.field("first_timestamp"));
        let last = self.optional_time(last_timestamp, &path.field("last_timestamp"));
        let time = self.optional_time(event_time, &path.field("event_time"));
        let series_path = path.field("series");
        let proto::EventSeries {
            count: repeated,
            last_observed_time,
        } = series.unwrap_or_default();
        let observed =
            self.optional_time(last_observed_time, &series_path.field("last_observed_time"));
        let count = self.count(count, &path.field("count"));
        let repeated = self.count(repeated, &series_path.field("count"));
        let first = first.or(time).or(last);
        ObservedEvent {
            object_uid: object.uid,
            field_path: object.field_path,
            kind: r#type,
            reason,
            message,
            count: count.max(repeated).max(1),
            first,
            last: observed.max(last).or(first),
        }
    }
}
