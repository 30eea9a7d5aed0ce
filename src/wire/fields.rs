//! The fields of an encoded message, without a type.

use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

/// The number of the next field, and its bytes if it is length-delimited. `None` if it is malformed.
pub(super) fn next_field<'a>(encoded: &mut &'a [u8]) -> Option<(u32, Option<&'a [u8]>)> {
    const LENGTH_DELIMITED: u8 = WireType::LengthDelimited as u8;
    // Most fields have a number and a length of one byte each.
    if let [key @ 8..0x80, length @ 0..0x80, rest @ ..] = *encoded
        && key & 7 == LENGTH_DELIMITED
    {
        let (inside, rest) = rest.split_at_checked(usize::from(*length))?;
        *encoded = rest;
        return Some((u32::from(key >> 3), Some(inside)));
    }
    let (number, wire_type) = decode_key(encoded).ok()?;
    if wire_type != WireType::LengthDelimited {
        skip_field(wire_type, number, encoded, DecodeContext::default()).ok()?;
        return Some((number, None));
    }
    let length = usize::try_from(decode_varint(encoded).ok()?).ok()?;
    let (inside, rest) = encoded.split_at_checked(length)?;
    *encoded = rest;
    Some((number, Some(inside)))
}
