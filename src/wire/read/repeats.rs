//! The previous text of each list and object, by its place.

/// The number of texts. Objects of Kubernetes have fewer lists and objects inside.
const TEXTS: usize = 256;

/// The minimum length of a text. Reading shorter texts is as fast as comparing them.
const LENGTH_MIN: usize = 24;

/// The previous text at each place, with the number of lists and objects around it. Empty if texts are not compared.
#[derive(Clone, Debug, Default)]
pub(super) struct Repeats<'a>(Vec<(&'a str, usize)>);

/// A hash of the keys and indexes that lead to a value.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place(u32);

// === impl Repeats ===

impl<'a> Repeats<'a> {
    pub(super) fn new() -> Self {
        Self(vec![("", 0); TEXTS])
    }

    /// The previous text at a place, or at another place with the same hash, at the same level. Empty if there is none.
    #[inline]
    pub(super) fn last_at(&self, place: Place, level: usize) -> &'a str {
        match self.0.get(place.index()) {
            Some((text, of)) if *of == level => text,
            _ => "",
        }
    }

    #[inline]
    pub(super) fn add(&mut self, place: Place, level: usize, text: &'a str) {
        if let Some(last) = self.0.get_mut(place.index())
            && text.len() >= LENGTH_MIN
        {
            *last = (text, level);
        }
    }
}

// === impl Place ===

impl Place {
    /// The place of the value with this key in an object.
    #[inline]
    pub(super) fn entry(self, key: &[u8]) -> Self {
        // Most keys in the same object differ in these.
        let ends = match key {
            [first, .., last] => u32::from(*first) << 8 | u32::from(*last),
            _ => 0,
        };
        self.child((key.len() as u32) << 16 ^ ends)
    }

    /// The place of an item in a list.
    #[inline]
    pub(super) fn item(self, index: usize) -> Self {
        self.child(index as u32)
    }

    #[inline]
    fn child(self, hash: u32) -> Self {
        // 2^32 divided by the golden ratio.
        const SPREAD: u32 = 0x9e37_79b1;
        Self((self.0 ^ hash).wrapping_mul(SPREAD).rotate_left(15))
    }

    fn index(self) -> usize {
        self.0 as usize % TEXTS
    }
}
