//! Encodes the state of a controller's loop, which is opaque to the controller.

use prost::Message;
use rollplan_core::time::Time;
use rollplan_restart::sync::{Failed, LoopState, Page, Written};

use crate::sync::value::{VALUE_BYTES_MAX, seal, unseal};

/// The version of the encoding. A value of another version counts as empty. Those of rollouts differ.
const VERSION: u8 = 128;

#[derive(Clone, PartialEq, Message)]
struct Value {
    #[prost(string, tag = "1")]
    session: String,
    #[prost(uint64, tag = "2")]
    turns: u64,
    #[prost(uint32, tag = "3")]
    calls: u32,
    #[prost(bool, tag = "4")]
    is_verified: bool,
    #[prost(uint64, tag = "5")]
    collection: u64,
    #[prost(string, tag = "6")]
    continues: String,
    #[prost(message, repeated, tag = "7")]
    written: Vec<WrittenValue>,
    #[prost(message, repeated, tag = "8")]
    failed: Vec<FailedValue>,
    #[prost(string, repeated, tag = "9")]
    restarting: Vec<String>,
    #[prost(message, repeated, tag = "10")]
    reported: Vec<ReportedValue>,
    #[prost(uint32, tag = "11")]
    failed_reads: u32,
}

#[derive(Clone, PartialEq, Message)]
struct WrittenValue {
    #[prost(string, tag = "1")]
    uid: String,
    #[prost(string, tag = "2")]
    namespace: String,
    #[prost(string, tag = "3")]
    version: String,
    #[prost(bool, tag = "4")]
    is_restart: bool,
    #[prost(string, tag = "5")]
    path: String,
}

#[derive(Clone, PartialEq, Message)]
struct FailedValue {
    #[prost(string, tag = "1")]
    uid: String,
    #[prost(string, tag = "2")]
    namespace: String,
    #[prost(uint32, tag = "3")]
    attempts: u32,
    #[prost(int64, tag = "4")]
    retry_at_seconds: i64,
    #[prost(uint32, tag = "5")]
    retry_at_nanos: u32,
}

#[derive(Clone, PartialEq, Message)]
struct ReportedValue {
    #[prost(string, tag = "1")]
    namespace: String,
    #[prost(fixed64, repeated, tag = "2")]
    conditions: Vec<u64>,
}

/// Encodes a state. If it is too large, the planner reports conditions again, or reads all workloads again.
pub(super) fn encode(state: &LoopState, session: &str) -> Vec<u8> {
    let mut value = Value::of(state, session);
    if value.encoded_len() > VALUE_BYTES_MAX {
        value.reported.clear();
    }
    if value.encoded_len() > VALUE_BYTES_MAX {
        value = Value {
            session: value.session,
            turns: value.turns,
            ..Value::default()
        };
    }
    seal(VERSION, &value.encode_to_vec())
}

/// Decodes a state of this session. `None` if it is not a whole value of this version.
pub(super) fn decode(value: &[u8], session: &str) -> Option<LoopState> {
    let value = Value::decode(unseal(VERSION, value)?).ok()?;
    (value.session == session).then(|| value.state())
}

// === impl Value ===

impl Value {
    fn of(state: &LoopState, session: &str) -> Self {
        let LoopState {
            turns,
            calls,
            is_verified,
            page,
            written,
            failed,
            restarting,
            reported,
            failed_reads,
        } = state;
        Self {
            session: session.to_owned(),
            turns: *turns,
            calls: *calls,
            is_verified: *is_verified,
            collection: page.collection as u64,
            continues: page.continues.clone(),
            written: written
                .iter()
                .map(|(uid, written)| WrittenValue {
                    uid: uid.clone(),
                    namespace: written.namespace.clone(),
                    version: written.version.clone(),
                    is_restart: written.is_restart,
                    path: written.path.clone(),
                })
                .collect(),
            failed: failed
                .iter()
                .map(|(uid, failed)| FailedValue {
                    uid: uid.clone(),
                    namespace: failed.namespace.clone(),
                    attempts: failed.attempts,
                    retry_at_seconds: failed.retry_at.seconds(),
                    retry_at_nanos: failed.retry_at.nanos(),
                })
                .collect(),
            restarting: restarting.iter().cloned().collect(),
            reported: reported
                .iter()
                .map(|(namespace, conditions)| ReportedValue {
                    namespace: namespace.clone(),
                    conditions: conditions.iter().copied().collect(),
                })
                .collect(),
            failed_reads: *failed_reads,
        }
    }

    fn state(self) -> LoopState {
        let written = self.written.into_iter().map(|it| {
            let written = Written {
                namespace: it.namespace,
                version: it.version,
                is_restart: it.is_restart,
                path: it.path,
            };
            (it.uid, written)
        });
        let failed = self.failed.into_iter().map(|it| {
            let failed = Failed {
                namespace: it.namespace,
                attempts: it.attempts,
                retry_at: Time::new(it.retry_at_seconds, it.retry_at_nanos).unwrap_or_default(),
            };
            (it.uid, failed)
        });
        let reported = self.reported.into_iter();
        let reported = reported.map(|it| (it.namespace, it.conditions.into_iter().collect()));
        LoopState {
            turns: self.turns,
            calls: self.calls,
            is_verified: self.is_verified,
            page: Page {
                collection: usize::try_from(self.collection).unwrap_or(usize::MAX),
                continues: self.continues,
            },
            written: written.collect(),
            failed: failed.collect(),
            restarting: self.restarting.into_iter().collect(),
            reported: reported.collect(),
            failed_reads: self.failed_reads,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    fn state() -> LoopState {
        let written = Written {
            namespace: "shop".to_owned(),
            version: "12".to_owned(),
            is_restart: true,
            path: "/apis/apps/v1/namespaces/shop/deployments/web".to_owned(),
        };
        let failed = Failed {
            namespace: "bank".to_owned(),
            attempts: 3,
            retry_at: Time::new(1_700_000_000, 5).unwrap_or_default(),
        };
        LoopState {
            turns: 7,
            calls: 2,
            is_verified: true,
            page: Page {
                collection: 1,
                continues: "next".to_owned(),
            },
            written: BTreeMap::from([("u1".to_owned(), written)]),
            failed: BTreeMap::from([("u2".to_owned(), failed)]),
            restarting: BTreeSet::from(["shop".to_owned()]),
            reported: BTreeMap::from([("bank".to_owned(), BTreeSet::from([9]))]),
            failed_reads: 4,
        }
    }

    #[test]
    fn value_keeps_the_whole_state() {
        let value = encode(&state(), "a");
        assert_eq!(decode(&value, "a"), Some(state()));
        assert_eq!(decode(&value, "b"), None);
        let damaged: Vec<u8> = value.iter().map(|byte| byte ^ 1).collect();
        assert_eq!(decode(&damaged, "a"), None);
    }

    #[test]
    fn state_that_would_be_too_large_is_verified_again() {
        let mut large = state();
        large
            .reported
            .insert("shop".to_owned(), (0..10_000).collect());
        let value = encode(&large, "a");
        assert!(value.len() <= VALUE_BYTES_MAX);
        let read = decode(&value, "a").unwrap_or_default();
        assert!(read.reported.is_empty() && read.is_verified);

        let written = large.written.values().next().cloned().unwrap_or_default();
        let more = (0..5_000).map(|number| (format!("uid-{number}"), written.clone()));
        large.written.extend(more);
        let value = encode(&large, "a");
        assert!(value.len() <= VALUE_BYTES_MAX);
        let read = decode(&value, "a").unwrap_or_default();
        assert!(read.written.is_empty() && !read.is_verified);
        assert_eq!(read.turns, 7);
    }
}
