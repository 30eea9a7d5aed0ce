//! The `pod-template-hash`, which names a ReplicaSet and labels its pods.

use super::canonical::{CanonicalSink, write_canonical};
use super::tree::Tree;
use super::write::{JsonSink, write_entry};

/// The alphabet that Kubernetes uses for generated names. It has no vowels, to avoid words, and no 0, 1 and 3, which look
/// like letters.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The `pod-template-hash` of a template, which is also the suffix of the ReplicaSet's name. Equal templates have equal
/// hashes.
///
/// The hash is FNV-1a over the canonical form as JSON, followed by the collision count. The Deployment controller
/// computes a different one, which changes between releases. This is safe because a ReplicaSet is recognized by its
/// template, never by its name. As in the Deployment controller, an
/// absent collision count and 0 give different hashes.
#[must_use]
pub fn template_hash<'a>(template: impl Tree<'a>, collision_count: Option<i32>) -> String {
    let mut digest = Digest::EMPTY;
    write_canonical(template, &mut digest);
    digest.to_hash(collision_count)
}

/// FNV-1a of the canonical form.
#[derive(Clone, Copy, Debug)]
pub(super) struct Digest(u32);

impl Digest {
    pub(super) const EMPTY: Self = Self(FNV_OFFSET);

    /// The [`template_hash`].
    pub(super) fn to_hash(self, collision_count: Option<i32>) -> String {
        let Self(mut hash) = self;
        if let Some(count) = collision_count {
            hash = fnv1a_32(hash, &count.to_le_bytes());
        }
        safe_encode(&hash.to_string())
    }
}

/// Hashes the JSON without storing it.
impl JsonSink for Digest {
    #[inline]
    fn push(&mut self, part: &str) {
        self.0 = fnv1a_32(self.0, part.as_bytes());
    }

    #[inline]
    fn push_quoted(&mut self, text: &str) {
        let opened = fnv1a_32(self.0, b"\"");
        self.0 = fnv1a_32(fnv1a_32(opened, text.as_bytes()), b"\"");
    }
}

impl CanonicalSink for Digest {
    type Mark = Self;

    fn push_key(&mut self, key: &str, is_first: bool, _path: &[&str]) -> Self {
        let before = *self;
        write_entry(self, key, is_first);
        before
    }

    fn back_to(&mut self, mark: Self) {
        *self = mark;
    }
}

const FNV_OFFSET: u32 = 0x811c_9dc5;
const FNV_PRIME: u32 = 0x0100_0193;

#[inline]
fn fnv1a_32(hash: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(hash, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(FNV_PRIME)
    })
}

/// Kubernetes' `rand.SafeEncodeString`. The encoding is not reversible.
fn safe_encode(text: &str) -> String {
    text.bytes()
        .map(|byte| char::from(ALPHABET[usize::from(byte) % ALPHABET.len()]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::Value;
    use super::*;

    #[test]
    fn fnv1a_matches_reference_values() {
        assert_eq!(fnv1a_32(FNV_OFFSET, b""), 0x811c_9dc5);
        assert_eq!(fnv1a_32(FNV_OFFSET, b"a"), 0xe40c_292c);
        assert_eq!(fnv1a_32(FNV_OFFSET, b"foobar"), 0xbf9c_f968);
    }

    /// The expected value is what Go's `SafeEncodeString` returns.
    #[test]
    fn safe_encode_matches_go() {
        assert_eq!(safe_encode("0123456789"), "456789bcdf");
    }

    #[test]
    fn hash_is_stable_and_ignores_the_hash_label() {
        let template = |labels: Value| {
            Value::from([
                ("metadata", Value::from([("labels", labels)])),
                ("spec", Value::map()),
            ])
        };
        let plain = template(Value::from([("app", "web")]));
        let hashed = template(Value::from([("app", "web"), ("pod-template-hash", "5d9c")]));
        // Names are written to the cluster, so this value must never change.
        assert_eq!(template_hash(&plain, None), "65f44fcd74");
        assert_eq!(template_hash(&hashed, None), template_hash(&plain, None));
        let counts = [None, Some(0), Some(1), Some(2)].map(|count| template_hash(&plain, count));
        for (i, a) in counts.iter().enumerate() {
            assert!(counts[..i].iter().all(|b| a != b), "{counts:?}");
        }
    }
}
