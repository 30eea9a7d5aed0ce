//! Malformed and corrupted templates.

use prost::Message as _;
use prost_types::value::Kind;
use rollplan::proto;
use rollplan::proto::RawStruct;
use rollplan::wire::{self, Error, Reason};
use rollplan_core::template::Value;

use super::{field, raw, reasons, take_in};
use crate::wire::random::Random;
use crate::wire::{Parts as _, examples, mk_request, request};

#[test]
fn missing_keys_and_values_are_empty() {
    let template = take_in(&raw(b"\x0a\x00")).unwrap();
    assert_eq!(template.value(), &Value::from([("", Value::Null)]));
    let template = take_in(&raw(b"\x0a\x05\x0a\x01a\x12\x00")).unwrap();
    assert_eq!(template.value(), &Value::from([("a", Value::Null)]));
}

#[test]
fn varints_may_have_64_bits() {
    let bytes = b"\x0a\x10\x0a\x01a\x12\x0b\x20\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
    let template = take_in(&raw(bytes)).unwrap();
    assert_eq!(template.value(), &Value::from([("a", true)]));
}

#[test]
fn unknown_fields_are_skipped() {
    // Fields 3 (varint), 4 (64 bits), 5 (bytes) and 6 (32 bits) in addition to key and value, and 7 in the value.
    let entry = b"\x0a\x01a\x18\x05\x21xxxxxxxx\x2a\x01x\x35xxxx\x12\x04\x38\x01\x20\x01";
    let mut bytes = vec![0x10, 0x01];
    field(1, entry, &mut bytes);
    let template = take_in(&raw(&bytes)).unwrap();
    assert_eq!(template.value(), &Value::from([("a", true)]));
}

#[test]
fn malformed_structs_are_violations() {
    for bytes in [
        // Truncated: an entry, a key, a number.
        &b"\x0a\x01\x0a"[..],
        b"\x0a\x03\x0a\x05a",
        b"\x0a\x06\x0a\x01a\x12\x01\x11",
        // A varint of eleven bytes; one of 65 bits.
        b"\x0a\x0c\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        b"\x0a\x0d\x1a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02xx",
        b"\x0a\x10\x0a\x01a\x12\x0b\x20\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02",
        // The field in which templates from JSON have exact integers.
        b"\x0a\x0b\x0a\x01a\x12\x06\xf8\xff\xff\xff\x0f\x01",
        // Field 0; a field beyond the largest number; a group.
        b"\x0a\x02\x00\x00",
        b"\x0a\x06\x80\x80\x80\x80\x10\x00",
        b"\x0a\x02\x1b\x1c",
        // A key that is a number; a value that is a number; a number that is a string.
        b"\x0a\x02\x08\x01",
        b"\x0a\x02\x10\x01",
        b"\x0a\x07\x0a\x01a\x12\x02\x12\x00",
        // Two keys; two values; a value of two kinds.
        b"\x0a\x04\x0a\x00\x0a\x00",
        b"\x0a\x04\x12\x00\x12\x00",
        b"\x0a\x06\x12\x04\x20\x01\x08\x00",
        // A list whose items are not messages; a struct whose entries are not.
        b"\x0a\x06\x12\x04\x32\x02\x08\x01",
        b"\x0a\x06\x12\x04\x2a\x02\x08\x01",
    ] {
        assert_eq!(
            reasons(&raw(bytes)),
            [Reason::MalformedStruct],
            "{bytes:x?}"
        );
    }
    // Errors that the message decoder detects itself.
    assert!(RawStruct::decode(&b"\x0a\x05x"[..]).is_err());
    assert!(RawStruct::decode(&b"\x08\x01"[..]).is_err());
}

/// Randomly corrupted bytes: a template that is accepted must be the one that protobuf's own types decode.
#[test]
fn corrupted_templates_are_refused_or_read_like_protobuf() {
    let (_, example) = examples().swap_remove(0);
    let template = request(&example).spec().template.clone().unwrap();
    let whole = template.encode_to_vec();
    let mut random = Random(6);
    let (mut taken, mut refused) = (0, 0);
    for _ in 0..10_000 {
        let mut bytes = whole.clone();
        random.break_bytes(&mut bytes, |_, bytes, at| bytes.truncate(at + 1));
        let Ok(raw) = RawStruct::decode(&bytes[..]) else {
            refused += 1;
            continue;
        };
        match take_in(&raw) {
            Ok(template) => {
                taken += 1;
                let eager = prost_types::Struct::decode(&bytes[..]).unwrap();
                assert_eq!(template.value(), &of_struct(eager));
            }
            Err(Error::InvalidArgument(_)) => refused += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert!(
        taken > 500 && refused > 500,
        "{taken} taken, {refused} refused"
    );
}

fn of_struct(fields: prost_types::Struct) -> Value {
    let entries = fields.fields.into_iter();
    Value::Map(entries.map(|(key, value)| (key, of_value(value))).collect())
}

fn of_value(value: prost_types::Value) -> Value {
    match value.kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::BoolValue(value)) => Value::Bool(value),
        Some(Kind::NumberValue(value)) => Value::Number(value.into()),
        Some(Kind::StringValue(value)) => Value::String(value),
        Some(Kind::StructValue(fields)) => of_struct(fields),
        Some(Kind::ListValue(list)) => Value::List(list.values.into_iter().map(of_value).collect()),
    }
}

#[test]
fn corrupted_requests_never_panic() {
    let whole = mk_request().encode_to_vec();
    let mut random = Random(7);
    for _ in 0..3_000 {
        let mut bytes = whole.clone();
        for _ in 0..=random.below(2) {
            let at = random.below(bytes.len());
            bytes[at] ^= 1 << random.below(8);
        }
        if let Ok(response) = wire::plan_rollout_bytes(&bytes) {
            proto::PlanRolloutResponse::decode(&response[..]).unwrap();
        }
    }
}

/// Without the value, which may be secret.
#[test]
fn faults_of_templates_are_described() {
    for (bytes, expected) in [
        (
            &b"\x0a\x02\x10\x01"[..],
            "is not a well-formed google.protobuf.Struct",
        ),
        (b"\x0a\x08\x0a\x01a\x12\x03\x1a\x01\xff", "is not UTF-8"),
        (
            b"\x0a\x0e\x0a\x01a\x12\x09\x11\x00\x00\x00\x00\x00\x00\x50\x43",
            "is an integer beyond \u{b1}(2^53 \u{2212} 1), which JSON may have rounded",
        ),
        (
            b"\x0a\x0e\x0a\x01a\x12\x09\x11\x00\x00\x00\x00\x00\x00\xf0\x7f",
            "is not a finite number",
        ),
    ] {
        match take_in(&raw(bytes)) {
            Err(Error::InvalidArgument(violations)) => {
                assert_eq!(violations.listed[0].description, expected, "{bytes:x?}");
            }
            other => panic!("{bytes:x?}: {other:?}"),
        }
    }
}
