//! Encodes the state of an adapter's loop, which is opaque to the adapter.

use std::collections::BTreeMap;

use prost::Message;
use rollplan_core::action::{CallId, Verb};
use rollplan_core::sync::{Change, Known, NativeWrites, PendingCall, State};
use rollplan_core::time::Time;
use sha2::{Digest as _, Sha256};

/// The maximum size of a value, in bytes.
pub(crate) const VALUE_BYTES_MAX: usize = 64 << 10;
/// The version of the encoding. A value of another version counts as empty. Those of restarts differ.
const VERSION: u8 = 1;
/// The size of the checksum, which comes after the version.
const CHECKSUM_BYTES: usize = 8;

#[derive(Clone, PartialEq, Message)]
struct Value {
    #[prost(string, tag = "1")]
    session: String,
    #[prost(string, tag = "2")]
    owner_uid: String,
    #[prost(uint64, tag = "3")]
    plans: u64,
    #[prost(bool, tag = "4")]
    is_verified: bool,
    #[prost(message, repeated, tag = "5")]
    known: Vec<KnownValue>,
    #[prost(message, repeated, tag = "6")]
    pending: Vec<PendingValue>,
    #[prost(bool, tag = "7")]
    is_reaction: bool,
    #[prost(uint32, tag = "8")]
    attempts: u32,
    #[prost(bool, tag = "9")]
    drops_terminating: bool,
    #[prost(message, optional, tag = "10")]
    delayed_since: Option<TimeValue>,
    #[prost(bool, tag = "11")]
    native_is_observed: bool,
    #[prost(message, optional, tag = "12")]
    native_last: Option<TimeValue>,
    #[prost(message, optional, tag = "13")]
    native_suspended_until: Option<TimeValue>,
}

#[derive(Clone, PartialEq, Message)]
struct KnownValue {
    #[prost(string, tag = "1")]
    uid: String,
    #[prost(string, tag = "2")]
    kind: String,
    #[prost(string, tag = "3")]
    name: String,
    #[prost(string, tag = "4")]
    version: String,
    #[prost(uint32, tag = "5")]
    change: u32,
}

#[derive(Clone, PartialEq, Message)]
struct PendingValue {
    #[prost(uint32, tag = "1")]
    index: u32,
    #[prost(string, tag = "2")]
    kind: String,
    #[prost(string, tag = "3")]
    name: String,
    #[prost(bytes = "vec", tag = "4")]
    digest: Vec<u8>,
    #[prost(uint32, tag = "5")]
    verb: u32,
    #[prost(string, tag = "6")]
    uid: String,
    #[prost(int32, repeated, tag = "7")]
    done_codes: Vec<i32>,
    #[prost(bool, tag = "8")]
    writes_terminating: bool,
    #[prost(string, tag = "9")]
    subresource: String,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct TimeValue {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(uint32, tag = "2")]
    nanos: u32,
}

/// Encodes a state. If it is too large, its versions are omitted, so that the next plan reads them again.
pub(super) fn encode(state: &State, session: &str) -> Vec<u8> {
    let value = Value::of(state, session);
    let encoded = seal(VERSION, &value.encode_to_vec());
    if encoded.len() <= VALUE_BYTES_MAX {
        return encoded;
    }
    let small = Value {
        is_verified: false,
        known: Vec::new(),
        pending: Vec::new(),
        ..value
    };
    seal(VERSION, &small.encode_to_vec())
}

/// Decodes a state of this session. `None` if it is not a whole value of this version.
pub(super) fn decode(value: &[u8], session: &str) -> Option<State> {
    let value = Value::decode(unseal(VERSION, value)?).ok()?;
    (value.session == session).then_some(())?;
    value.state()
}

/// The content of a sealed value. `None` if it is not whole, or of another version.
pub(crate) fn unseal(version: u8, sealed: &[u8]) -> Option<&[u8]> {
    let (&first, rest) = sealed.split_first()?;
    let (checksum, content) = rest.split_at_checked(CHECKSUM_BYTES)?;
    (first == version && checksum == self::checksum(content)).then_some(content)
}

/// Adds a version and a checksum.
pub(crate) fn seal(version: u8, content: &[u8]) -> Vec<u8> {
    let mut sealed = vec![version];
    sealed.extend(checksum(content));
    sealed.extend(content);
    sealed
}

fn checksum(content: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut checksum = [0; CHECKSUM_BYTES];
    checksum.copy_from_slice(&Sha256::digest(content)[..CHECKSUM_BYTES]);
    checksum
}

// === impl Value ===

impl Value {
    fn of(state: &State, session: &str) -> Self {
        let State {
            owner_uid,
            plans,
            is_verified,
            known,
            pending,
            is_reaction,
            attempts,
            drops_terminating,
            delayed_since,
            native,
        } = state;
        Self {
            session: session.to_owned(),
            owner_uid: owner_uid.clone(),
            plans: *plans,
            is_verified: *is_verified,
            known: known
                .iter()
                .map(|(uid, known)| KnownValue::of(uid, known))
                .collect(),
            pending: pending.iter().map(PendingValue::of).collect(),
            is_reaction: *is_reaction,
            attempts: *attempts,
            drops_terminating: *drops_terminating,
            delayed_since: delayed_since.map(TimeValue::of),
            native_is_observed: native.is_observed,
            native_last: native.last.map(TimeValue::of),
            native_suspended_until: native.suspended_until.map(TimeValue::of),
        }
    }

    fn state(self) -> Option<State> {
        let known: Option<BTreeMap<_, _>> = self.known.into_iter().map(KnownValue::known).collect();
        let pending: Option<Vec<_>> = self.pending.into_iter().map(PendingValue::call).collect();
        Some(State {
            owner_uid: self.owner_uid,
            plans: self.plans,
            is_verified: self.is_verified,
            known: known?,
            pending: pending?,
            is_reaction: self.is_reaction,
            attempts: self.attempts,
            drops_terminating: self.drops_terminating,
            delayed_since: self.delayed_since.and_then(TimeValue::time),
            native: NativeWrites {
                is_observed: self.native_is_observed,
                last: self.native_last.and_then(TimeValue::time),
                suspended_until: self.native_suspended_until.and_then(TimeValue::time),
            },
        })
    }
}

// === impl KnownValue ===

impl KnownValue {
    fn of(uid: &str, known: &Known) -> Self {
        Self {
            uid: uid.to_owned(),
            kind: known.kind.clone(),
            name: known.name.clone(),
            version: known.version.clone(),
            change: match known.change {
                Change::Created => 1,
                Change::Changed => 2,
                Change::Deleted => 3,
                Change::DeletedUnobserved => 4,
            },
        }
    }

    fn known(self) -> Option<(String, Known)> {
        let known = Known {
            kind: self.kind,
            name: self.name,
            version: self.version,
            change: match self.change {
                1 => Change::Created,
                2 => Change::Changed,
                3 => Change::Deleted,
                4 => Change::DeletedUnobserved,
                _ => return None,
            },
        };
        Some((self.uid, known))
    }
}

// === impl PendingValue ===

impl PendingValue {
    fn of(call: &PendingCall) -> Self {
        Self {
            index: call.index,
            kind: call.id.kind.clone(),
            name: call.id.name.clone(),
            subresource: call.id.subresource.clone(),
            digest: call.id.digest.to_vec(),
            verb: match call.id.verb {
                Verb::Create => 1,
                Verb::Patch => 2,
                Verb::Delete => 3,
            },
            uid: call.uid.clone(),
            done_codes: call.done_codes.clone(),
            writes_terminating: call.writes_terminating,
        }
    }

    fn call(self) -> Option<PendingCall> {
        Some(PendingCall {
            index: self.index,
            id: CallId {
                kind: self.kind,
                name: self.name,
                subresource: self.subresource,
                digest: self.digest.try_into().ok()?,
                verb: match self.verb {
                    1 => Verb::Create,
                    2 => Verb::Patch,
                    3 => Verb::Delete,
                    _ => return None,
                },
            },
            uid: self.uid,
            done_codes: self.done_codes,
            writes_terminating: self.writes_terminating,
        })
    }
}

// === impl TimeValue ===

impl TimeValue {
    fn of(time: Time) -> Self {
        Self {
            seconds: time.seconds(),
            nanos: time.nanos(),
        }
    }

    fn time(self) -> Option<Time> {
        Time::new(self.seconds, self.nanos)
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "a test that fails may panic")]
mod tests {
    use super::*;

    fn state() -> State {
        let known = Known {
            kind: "ReplicaSet".to_owned(),
            name: "web-1".to_owned(),
            version: "184467440737095516160".to_owned(),
            change: Change::Created,
        };
        let call = PendingCall {
            index: 2,
            id: CallId {
                kind: "ReplicaSet".to_owned(),
                name: "web-2".to_owned(),
                subresource: String::new(),
                digest: [7; 16],
                verb: Verb::Delete,
            },
            uid: "u2".to_owned(),
            done_codes: vec![404],
            writes_terminating: true,
        };
        State {
            owner_uid: "u".to_owned(),
            plans: 12,
            is_verified: true,
            known: BTreeMap::from([("u1".to_owned(), known)]),
            pending: vec![call],
            is_reaction: true,
            attempts: 3,
            drops_terminating: true,
            delayed_since: Time::new(1_700_000_000, 5),
            native: NativeWrites {
                is_observed: true,
                last: Time::new(1_700_000_001, 0),
                suspended_until: Time::new(1_700_000_002, 0),
            },
        }
    }

    #[test]
    fn value_keeps_the_whole_state() {
        let value = encode(&state(), "a");
        assert_eq!(decode(&value, "a"), Some(state()));
        assert!(value.len() < 200, "{}", value.len());
    }

    #[test]
    fn damaged_and_foreign_values_are_not_decoded() {
        let value = encode(&state(), "a");
        assert_eq!(decode(&value, "b"), None);
        for length in 0..value.len() {
            assert_eq!(decode(&value[..length], "a"), None, "{length}");
        }
        for index in 0..value.len() {
            let mut damaged = value.clone();
            damaged[index] ^= 1;
            assert_eq!(decode(&damaged, "a"), None, "{index}");
        }
    }

    #[test]
    fn versions_that_would_be_too_large_are_omitted() {
        let mut large = state();
        let known = large.known["u1"].clone();
        large
            .known
            .extend((0..5_000).map(|number| (format!("uid-{number}"), known.clone())));
        let value = encode(&large, "a");
        assert!(value.len() <= VALUE_BYTES_MAX);
        let read = decode(&value, "a").unwrap_or_default();
        assert_eq!((read.known.len(), read.is_verified), (0, false));
        assert_eq!(read.attempts, 3);
    }
}
