//! The protobuf encoding of `google.protobuf.Struct`. Functions return `None` if the bytes are malformed. A repeated
//! occurrence of a singular field is malformed too: no encoder writes it, and merging the occurrences would be a guess at
//! what the sender meant.
//!
//! Nearly all fields in a template are short, and encoders write them in the same way. [`short`] handles these fields
//! first, which is several times faster.

/// A field of Value that only our transcoder of Kubernetes JSON writes: an integer that a double would round. It has
/// the highest possible field number, which the official message will not use.
pub(in crate::wire) const EXACT_INTEGER: u32 = (1 << 29) - 1;

const EXACT: u64 = EXACT_INTEGER as u64;

/// The content of a Value. Nested values are not decoded.
pub(super) enum Kind<'a> {
    Null,
    Number(f64),
    /// The value of [`EXACT_INTEGER`].
    Integer(i64),
    String(&'a [u8]),
    Bool(bool),
    Struct(&'a [u8]),
    List(&'a [u8]),
}

/// Splits off a field that begins with the byte `first` and is shorter than 128 bytes. `None` means only that the general
/// decoder must be used.
#[inline]
fn short(bytes: &[u8], first: u8) -> Option<(&[u8], &[u8])> {
    match bytes {
        [byte, length, rest @ ..] if *byte == first && *length < 0x80 => {
            rest.split_at_checked(usize::from(*length))
        }
        _ => None,
    }
}

/// The key and the value of a map entry. A missing key is empty.
pub(super) fn split_entry(mut bytes: &[u8]) -> Option<(&[u8], Kind<'_>)> {
    if let Some((key, rest)) = short(bytes, 1 << 3 | 2)
        && let Some((value, [])) = short(rest, 2 << 3 | 2)
    {
        return Some((key, value_kind(value)?));
    }
    let (mut key, mut value) = (None, None);
    while !bytes.is_empty() {
        match field(&mut bytes)? {
            (1, Field::Bytes(bytes)) if key.is_none() => key = Some(bytes),
            (2, Field::Bytes(bytes)) if value.is_none() => value = Some(bytes),
            (1 | 2, _) => return None,
            _ => {}
        }
    }
    Some((
        key.unwrap_or_default(),
        value_kind(value.unwrap_or_default())?,
    ))
}

/// The content of a `google.protobuf.Value`. An empty message counts as null.
pub(super) fn value_kind(mut bytes: &[u8]) -> Option<Kind<'_>> {
    if let Some((text, [])) = short(bytes, 3 << 3 | 2) {
        return Some(Kind::String(text));
    }
    let mut kind = None;
    while !bytes.is_empty() {
        let found = match field(&mut bytes)? {
            (1, Field::Varint(_)) => Kind::Null,
            (2, Field::Fixed64(bits)) => Kind::Number(f64::from_bits(bits)),
            (3, Field::Bytes(text)) => Kind::String(text),
            (4, Field::Varint(value)) => Kind::Bool(value != 0),
            (5, Field::Bytes(fields)) => Kind::Struct(fields),
            (6, Field::Bytes(values)) => Kind::List(values),
            (EXACT, Field::Varint(value)) => Kind::Integer(value.cast_signed()),
            (1..=6 | EXACT, _) => return None,
            _ => continue,
        };
        if kind.replace(found).is_some() {
            return None;
        }
    }
    Some(kind.unwrap_or(Kind::Null))
}

/// The elements of a message with a single repeated field, number 1: the entries of a Struct, or the items of a
/// ListValue. Yields `None` and ends if the bytes are malformed.
pub(super) struct Repeated<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Repeated<'a> {
    type Item = Option<&'a [u8]>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some((bytes, rest)) = short(self.0, 1 << 3 | 2) {
            self.0 = rest;
            return Some(Some(bytes));
        }
        while !self.0.is_empty() {
            match field(&mut self.0) {
                Some((1, Field::Bytes(bytes))) => return Some(Some(bytes)),
                Some((1, _)) | None => {
                    self.0 = &[];
                    return Some(None);
                }
                Some(_) => {}
            }
        }
        None
    }
}

/// An encoded field. Groups are malformed: they were deprecated before Struct existed.
pub(in crate::wire) enum Field<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32,
}

/// The next field and its number.
#[inline]
pub(in crate::wire) fn field<'a>(bytes: &mut &'a [u8]) -> Option<(u64, Field<'a>)> {
    let key = varint(bytes)?;
    let (tag, wire_type) = (key >> 3, key & 7);
    if tag == 0 || key > u64::from(u32::MAX) {
        return None;
    }
    let field = match wire_type {
        0 => Field::Varint(varint(bytes)?),
        1 => Field::Fixed64(u64::from_le_bytes(*take_array(bytes)?)),
        2 => {
            let length = usize::try_from(varint(bytes)?).ok()?;
            let (taken, rest) = bytes.split_at_checked(length)?;
            *bytes = rest;
            Field::Bytes(taken)
        }
        5 => {
            take_array::<4>(bytes)?;
            Field::Fixed32
        }
        _ => return None,
    };
    Some((tag, field))
}

fn take_array<'a, const N: usize>(bytes: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(taken)
}

#[inline]
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let (&first, rest) = bytes.split_first()?;
    if first < 0x80 {
        *bytes = rest;
        return Some(u64::from(first));
    }
    let mut value = 0_u64;
    // Ten bytes of seven bits each, except that only one bit of the tenth byte fits.
    for (i, &byte) in bytes.iter().take(10).enumerate() {
        if i == 9 && byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            *bytes = &bytes[i + 1..];
            return Some(value);
        }
    }
    None
}
