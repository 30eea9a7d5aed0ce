//! 128 bits of a template's canonical form.
//!
//! SipHash-1-3 with 128 bits of output and fixed keys, as the Rust compiler uses it for its own fingerprints that have
//! to agree between runs. A list hashes the digests of its items in order. A map adds up the digests of its entries, so
//! their order does not matter and no entry has to be kept. Sizes and kinds are hashed too, so `["a"]`, `"a"` and
//! `{"a": ...}` differ.
//!
//! Good enough that no two templates that are met will collide by accident; not a defence against someone who makes
//! them collide, for the keys are no secret. It names templates, in debug output and in sets of states; where a wrong
//! answer would cost a rollout, [`equal()`](super::equal()) decides.

use std::fmt;

use super::canonical::{Form, form_of};
use super::tree::Tree;
use super::value::Number;

/// 128 bits that are the same for equal templates, and for no others that will be met.
///
/// The same on every platform and in every release.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TemplateDigest([u8; 16]);

/// The digest of a template's [`canonical()`](super::canonical()) form, taken without building it.
///
/// Nothing is allocated (but for quantities of more than 38 digits), and the order of a map's entries does not matter.
#[must_use]
pub fn digest<'a, T: Tree<'a>>(template: T) -> TemplateDigest {
    TemplateDigest(form_of::<T, Hash>(template).0.to_le_bytes())
}

/// The hash of one node of the form.
#[derive(Clone, Copy)]
struct Hash(u128);

/// What a hashed message starts with: one for each kind of node, so that no two kinds share messages.
#[derive(Clone, Copy)]
enum Tag {
    Null,
    Bool,
    Integer,
    Float,
    String,
    List,
    Map,
    Entry,
}

// === impl TemplateDigest ===

impl fmt::Display for TemplateDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for TemplateDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TemplateDigest({self})")
    }
}

// === impl Form for Hash ===

impl Form for Hash {
    fn null() -> Self {
        Sip::start(Tag::Null).finish()
    }

    fn bool(value: bool) -> Self {
        let mut sip = Sip::start(Tag::Bool);
        sip.word(u64::from(value));
        sip.finish()
    }

    fn number(value: Number) -> Self {
        let (integer, bits) = value.to_bits();
        let mut sip = Sip::start(if integer { Tag::Integer } else { Tag::Float });
        sip.word(bits);
        sip.finish()
    }

    fn string(value: &str) -> Self {
        let mut sip = Sip::start(Tag::String);
        sip.bytes(value.as_bytes());
        sip.finish()
    }

    fn list(items: impl Iterator<Item = Self>) -> Self {
        let mut sip = Sip::start(Tag::List);
        items.for_each(|item| sip.hash(item));
        sip.finish()
    }

    fn map<'k>(entries: impl Iterator<Item = (&'k str, Self)>) -> Self {
        let (mut sum, mut count) = (0_u128, 0_u64);
        for (key, value) in entries {
            let mut sip = Sip::start(Tag::Entry);
            sip.hash(value);
            sip.bytes(key.as_bytes());
            sum = sum.wrapping_add(sip.finish().0);
            count += 1;
        }
        let mut sip = Sip::start(Tag::Map);
        sip.word(count);
        sip.hash(Self(sum));
        sip.finish()
    }
}

// === impl Sip ===

/// SipHash with 128 bits of output: `C` rounds a word, `D` at the end.
struct Sip<const C: usize = 1, const D: usize = 3> {
    v: [u64; 4],
    /// Bytes so far, of which only the last eight bits count.
    length: u64,
    /// Bytes that fill no word.
    tail: u64,
}

/// "rollplan" and "template", read as little-endian words.
const KEYS: [u64; 2] = [
    u64::from_le_bytes(*b"rollplan"),
    u64::from_le_bytes(*b"template"),
];

impl Sip {
    fn start(tag: Tag) -> Self {
        let mut sip = Self::keyed(KEYS);
        sip.word(tag as u64);
        sip
    }
}

impl<const C: usize, const D: usize> Sip<C, D> {
    fn keyed([k0, k1]: [u64; 2]) -> Self {
        let v = [
            k0 ^ 0x736f_6d65_7073_6575,
            k1 ^ 0x646f_7261_6e64_6f6d ^ 0xee,
            k0 ^ 0x6c79_6765_6e65_7261,
            k1 ^ 0x7465_6462_7974_6573,
        ];
        Self {
            v,
            length: 0,
            tail: 0,
        }
    }

    fn word(&mut self, word: u64) {
        self.length = self.length.wrapping_add(8);
        self.mix(word);
    }

    fn hash(&mut self, Hash(hash): Hash) {
        for word in hash.to_le_bytes().as_chunks::<8>().0 {
            self.word(u64::from_le_bytes(*word));
        }
    }

    /// Ends the message: words cannot follow bytes.
    fn bytes(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.word(u64::from_le_bytes(*word));
        }
        let mut tail = [0; 8];
        tail[..rest.len()].copy_from_slice(rest);
        self.tail = u64::from_le_bytes(tail);
        self.length = self.length.wrapping_add(rest.len() as u64);
    }

    fn finish(mut self) -> Hash {
        self.mix(self.tail | self.length << 56);
        self.v[2] ^= 0xee;
        let low = self.squeeze();
        self.v[1] ^= 0xdd;
        let high = self.squeeze();
        Hash(u128::from(low) | u128::from(high) << 64)
    }

    fn mix(&mut self, word: u64) {
        self.v[3] ^= word;
        self.rounds(C);
        self.v[0] ^= word;
    }

    fn squeeze(&mut self) -> u64 {
        self.rounds(D);
        self.v.into_iter().fold(0, |all, word| all ^ word)
    }

    #[inline]
    fn rounds(&mut self, count: usize) {
        let [mut v0, mut v1, mut v2, mut v3] = self.v;
        for _ in 0..count {
            v0 = v0.wrapping_add(v1);
            v1 = v1.rotate_left(13) ^ v0;
            v0 = v0.rotate_left(32);
            v2 = v2.wrapping_add(v3);
            v3 = v3.rotate_left(16) ^ v2;
            v0 = v0.wrapping_add(v3);
            v3 = v3.rotate_left(21) ^ v0;
            v2 = v2.wrapping_add(v1);
            v1 = v1.rotate_left(17) ^ v2;
            v2 = v2.rotate_left(32);
        }
        self.v = [v0, v1, v2, v3];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The function is the reference's, but for the rounds: vectors of SipHash-2-4 with 128 bits, as OpenSSL has them.
    #[test]
    fn siphash_reference_vectors() {
        let key: [u8; 16] = *b"\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f";
        let words = key.as_chunks::<8>().0;
        let keys = [u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1])];
        let check = |length: u8, want: &str| {
            let message: Vec<u8> = (0..length).collect();
            let mut sip = Sip::<2, 4>::keyed(keys);
            sip.bytes(&message);
            assert_eq!(
                TemplateDigest(sip.finish().0.to_le_bytes()).to_string(),
                want,
                "{length} bytes"
            );
        };
        check(0, "a3817f04ba25a8e66df67214c7550293");
        check(1, "da87c1d86b99af44347659119b22fc45");
        check(2, "8177228da4a45dc7fca38bdef60affe4");
        check(15, "5493e99933b0a8117e08ec0f97cfc3d9");
        check(63, "5150d1772f50834a503e069a973fbd7c");
    }
}
