//! Answers of the API server.

use rollplan::proto;
use rollplan::wire::Reason;

use super::Case;

pub(super) const CASES: &[Case] = &[
    (
        |r| r.answer().call = None,
        "snapshot.answers[0].call",
        Reason::Required,
    ),
    (
        |r| r.call().verb = 0,
        "snapshot.answers[0].call.verb",
        Reason::Required,
    ),
    (
        |r| r.call().verb = 7,
        "snapshot.answers[0].call.verb",
        Reason::UnknownEnumValue,
    ),
    (
        |r| r.answer().http_code = 99,
        "snapshot.answers[0].http_code",
        Reason::OutOfRange,
    ),
    (
        |r| r.answer().http_code = 600,
        "snapshot.answers[0].http_code",
        Reason::OutOfRange,
    ),
    (
        |r| {
            let existing = String::from_utf8(r.answer().existing_json.to_vec()).unwrap();
            r.answer().existing_json = existing
                .replace(r#""uid":"existing-uid""#, r#""uid":"""#)
                .into();
        },
        "snapshot.answers[0].existing_json.metadata.uid",
        Reason::Required,
    ),
    (
        |r| r.answer().existing_json = b"<html>".to_vec(),
        "snapshot.answers[0].existing_json",
        Reason::MalformedJson,
    ),
    (
        |r| r.answer().existing_json = br#"{"kind":"List","items":[{}]}"#.to_vec(),
        "snapshot.answers[0].existing_json.items[0].kind",
        Reason::Required,
    ),
    (
        |r| r.answer().existing_json = b"\xff".to_vec(),
        "snapshot.answers[0].existing_json",
        Reason::InvalidUtf8,
    ),
    (
        |r| r.answer().body = vec![b' '; (64 << 10) + 1],
        "snapshot.answers[0].body",
        Reason::OutOfRange,
    ),
    (
        |r| r.call().verb = proto::Verb::Get.into(),
        "snapshot.answers[0].call.verb",
        Reason::OutOfRange,
    ),
];
