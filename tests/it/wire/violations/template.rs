//! The pod template of the Deployment.

use prost::Message as _;
use prost_types::value::Kind;
use rollplan::proto::RawStruct;
use rollplan::wire::Reason;

use super::{Case, Parts as _, template};

pub(super) const CASES: &[Case] = &[
    (
        |r| {
            r.spec().template = template(
                "terminationGracePeriodSeconds",
                Kind::NumberValue(2_f64.powi(53)),
            )
        },
        "snapshot.deployment.spec.template.spec.terminationGracePeriodSeconds",
        Reason::UnsafeInteger,
    ),
    (
        |r| r.spec().template = template("example.com/x", Kind::NumberValue(f64::NEG_INFINITY)),
        "snapshot.deployment.spec.template.spec[\"example.com/x\"]",
        Reason::NotFinite,
    ),
    (
        |r| r.spec().template = raw(b"\x0a\x01\x0a"),
        "snapshot.deployment.spec.template",
        Reason::MalformedStruct,
    ),
    (
        |r| r.spec().template = raw(b"\x0a\x08\x0a\x01a\x12\x03\x1a\x01\xff"),
        "snapshot.deployment.spec.template.a",
        Reason::InvalidUtf8,
    ),
    (
        |r| r.spec().template = raw(b"\x0a\x03\x0a\x01\xff"),
        "snapshot.deployment.spec.template",
        Reason::InvalidUtf8,
    ),
];

fn raw(bytes: &[u8]) -> Option<RawStruct> {
    Some(RawStruct::decode(bytes).unwrap())
}
