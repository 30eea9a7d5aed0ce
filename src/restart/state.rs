//! The state of a workload, in its annotations: the applied configuration, the pending change, and the times of restarts.
//!
//! Kubernetes copies the annotations of a Deployment to its ReplicaSet, so each write of the state causes a second one. A
//! plan therefore writes the state only with a restart, when a reference is first recorded, and once when a change must
//! wait.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value as Json, json};

use rollplan_core::reference::ConfigurationKind;
use rollplan_core::snapshot::StringMap;
use rollplan_core::time::Time;

use super::options::Profile;

/// The annotation that contains the state.
pub const STATE: &str = "rollplan.dev/restart-state";
/// The annotation in which the xing controller records checksums.
pub const XING_STATE: &str = "com.xing.deployment-restart.applied-config-checksums";

/// The number of restarts in the state.
const RESTARTS_MAX: usize = 8;
/// The maximum size of the state with the checksums of single keys, in bytes. A larger state omits them.
const DETAILED_BYTES_MAX: usize = 8 << 10;
/// The value of a configuration or key that does not exist.
const ABSENT: &str = "-";

/// The configuration that a workload has applied, and the times of its restarts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Indexed by the key of the configuration. Shared, because most plans change nothing.
    pub(super) applied: Arc<BTreeMap<String, Applied>>,
    pub(super) pending: Option<Pending>,
    /// Times in milliseconds, oldest first.
    pub(super) restarts: Vec<i64>,
    /// Pods that started before this time do not have the applied configuration.
    pub(super) applied_at: Option<i64>,
    /// The last change at the first observation of a configuration that pods may have started without.
    pub(super) seen_at: Option<i64>,
}

/// A configuration as it was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Applied {
    Absent,
    Present(Entry),
}

/// The checksums of the part of a configuration that a workload reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) digest: String,
    /// Whether the workload reads all keys.
    pub(super) is_whole: bool,
    /// Short checksums. `None` if there are too many keys.
    pub(super) keys: Option<BTreeMap<String, String>>,
}

/// A change that is not applied yet. Times are in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pending {
    pub(super) since: i64,
    pub(super) last: i64,
    /// The digest of the configuration to apply.
    pub(super) target: String,
}

/// The key of a configuration in the state.
pub(super) fn key(
    profile: Profile,
    namespace: &str,
    kind: ConfigurationKind,
    name: &str,
) -> String {
    match profile {
        Profile::Xing => format!("{}/{namespace}/{name}", kind.key()),
        Profile::Rollplan | Profile::Reloader => format!("{}/{name}", kind.key()),
    }
}

pub(super) fn millis(time: Time) -> i64 {
    time.seconds() * 1_000 + i64::from(time.nanos() / 1_000_000)
}

pub(super) fn from_millis(millis: i64) -> Time {
    let nanos = u32::try_from(millis.rem_euclid(1_000)).unwrap_or_default() * 1_000_000;
    let time = Time::new(millis.div_euclid(1_000), nanos);
    time.unwrap_or(if millis < 0 { Time::MIN } else { Time::MAX })
}

// === impl State ===

impl State {
    /// The time of the last restart, in milliseconds.
    pub(super) fn last_restart(&self) -> Option<i64> {
        self.restarts.last().copied()
    }

    /// Reads the state of a workload, and whether all of it is readable. Unreadable parts count as absent.
    #[must_use]
    pub fn read(annotations: &StringMap, profile: Profile) -> (Self, bool) {
        let mut is_readable = true;
        let mut object = |key: &str| -> Map<String, Json> {
            let Some(text) = annotations.get(key) else {
                return Map::new();
            };
            match serde_json::from_str(text) {
                Ok(Json::Object(map)) => map,
                _ => {
                    is_readable = false;
                    Map::new()
                }
            }
        };
        let mut ours = object(STATE);
        let applied = match profile {
            Profile::Xing => object(XING_STATE),
            Profile::Rollplan | Profile::Reloader => match ours.remove("applied") {
                Some(Json::Object(applied)) => applied,
                _ => Map::new(),
            },
        };
        let applied = applied.into_iter();
        let applied = applied.filter_map(|(key, entry)| Some((key, Applied::read(entry)?)));
        // The xing controller's annotation contains only checksums.
        let absent = ours.get("absent").and_then(Json::as_array);
        let absent = absent.into_iter().flatten().filter_map(Json::as_str);
        let absent = absent.map(|key| (key.to_owned(), Applied::Absent));
        let restarts = ours.get("restarts").and_then(Json::as_array);
        let state = Self {
            applied: Arc::new(absent.chain(applied).collect()),
            pending: ours.get("pending").and_then(Pending::read),
            restarts: restarts
                .into_iter()
                .flatten()
                .filter_map(Json::as_i64)
                .take(RESTARTS_MAX)
                .collect(),
            applied_at: ours.get("appliedAt").and_then(Json::as_i64),
            seen_at: ours.get("seenAt").and_then(Json::as_i64),
        };
        (state, is_readable)
    }

    /// The annotations that contain the state. `None` for an annotation that is not needed.
    pub(super) fn write(&self, profile: Profile) -> Vec<(&'static str, Option<String>)> {
        let mut ours = Map::new();
        if let Some(pending) = &self.pending {
            ours.insert("pending".to_owned(), pending.write());
        }
        if !self.restarts.is_empty() {
            ours.insert("restarts".to_owned(), json!(self.restarts));
        }
        if let Some(at) = self.applied_at {
            ours.insert("appliedAt".to_owned(), json!(at));
        }
        if let Some(at) = self.seen_at {
            ours.insert("seenAt".to_owned(), json!(at));
        }
        if profile == Profile::Xing {
            let absent = self.applied.iter();
            let absent = absent.filter(|(_, applied)| **applied == Applied::Absent);
            let absent: Vec<_> = absent.map(|(key, _)| key).collect();
            if !absent.is_empty() {
                ours.insert("absent".to_owned(), json!(absent));
            }
            let entries = self.applied.iter();
            let entries = entries.filter_map(|(key, applied)| match applied {
                Applied::Absent => None,
                Applied::Present(entry) => Some((key.clone(), json!(entry.digest))),
            });
            let applied = Json::Object(entries.collect()).to_string();
            let ours = (!ours.is_empty()).then(|| Json::Object(ours).to_string());
            return vec![(XING_STATE, Some(applied)), (STATE, ours)];
        }
        let applied = |detailed| {
            let entries = self.applied.iter();
            let entries = entries.map(|(key, applied)| (key.clone(), applied.write(detailed)));
            Json::Object(entries.collect())
        };
        ours.insert("applied".to_owned(), applied(true));
        let text = Json::Object(ours.clone()).to_string();
        let text = if text.len() > DETAILED_BYTES_MAX {
            ours.insert("applied".to_owned(), applied(false));
            Json::Object(ours).to_string()
        } else {
            text
        };
        vec![(STATE, Some(text))]
    }

    /// Records a configuration as applied.
    pub(super) fn apply(&mut self, key: String, applied: Applied) {
        Arc::make_mut(&mut self.applied).insert(key, applied);
    }

    /// Adds a restart.
    pub(super) fn restarted(&mut self, now: i64) {
        self.pending = None;
        self.restarts.push(now);
        let surplus = self.restarts.len().saturating_sub(RESTARTS_MAX);
        self.restarts.drain(..surplus);
        self.applied_at = Some(now);
    }
}

// === impl Applied ===

impl Applied {
    fn read(json: Json) -> Option<Self> {
        let mut object = match json {
            Json::String(text) if text == ABSENT => return Some(Self::Absent),
            Json::String(digest) => return Some(Self::whole(digest)),
            Json::Object(object) => object,
            _ => return None,
        };
        let string = |json: Option<Json>| match json {
            Some(Json::String(text)) => Some(text),
            _ => None,
        };
        let keys = match object.remove("k") {
            Some(Json::Object(keys)) => {
                let keys = keys.into_iter();
                let keys = keys.filter_map(|(key, checksum)| Some((key, string(Some(checksum))?)));
                Some(keys.collect())
            }
            _ => None,
        };
        Some(Self::Present(Entry {
            digest: string(object.remove("d"))?,
            is_whole: object.contains_key("w"),
            keys,
        }))
    }

    fn write(&self, detailed: bool) -> Json {
        let Self::Present(entry) = self else {
            return json!(ABSENT);
        };
        let Entry {
            digest,
            is_whole,
            keys,
        } = entry;
        let keys = keys.as_ref().filter(|_| detailed);
        match (is_whole, keys) {
            (true, None) => json!(digest),
            (false, None) => json!({"d": digest}),
            (true, Some(keys)) => json!({"d": digest, "w": 1, "k": keys}),
            (false, Some(keys)) => json!({"d": digest, "k": keys}),
        }
    }

    /// A configuration with a single checksum.
    pub(super) fn whole(digest: String) -> Self {
        Self::Present(Entry {
            digest,
            is_whole: true,
            keys: None,
        })
    }
}

// === impl Pending ===

impl Pending {
    fn read(json: &Json) -> Option<Self> {
        Some(Self {
            since: json.get("since")?.as_i64()?,
            last: json.get("last")?.as_i64()?,
            target: json.get("target")?.as_str()?.to_owned(),
        })
    }

    fn write(&self) -> Json {
        let Self {
            since,
            last,
            target,
        } = self;
        json!({"since": since, "last": last, "target": target})
    }
}
