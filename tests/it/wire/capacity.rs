//! The number of pods that fit in a request, as documented in docs/reference/api.md.
//!
//!     cargo test --test it pods_that_fit -- --nocapture

use rollplan::proto;
use rollplan::wire::REQUEST_BYTES_MAX;
use serde::Serialize as _;
use serde_json::ser::PrettyFormatter;
use serde_json::{Serializer, Value, json};

use super::read;
use crate::request::call;

/// A List in the format of kubectl, or in that of `jq -c`.
fn text(items: &[Value], is_indented: bool) -> String {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    if !is_indented {
        return list.to_string();
    }
    let mut text = Vec::new();
    let format = PrettyFormatter::with_indent(b"    ");
    let mut printer = Serializer::with_formatter(&mut text, format);
    list.serialize(&mut printer).unwrap();
    String::from_utf8(text).unwrap()
}

#[test]
fn pods_that_fit_match_the_docs() {
    let list: Value = serde_json::from_str(&read("examples/mid-rollout.json")).unwrap();
    let items = list["items"].as_array().unwrap().clone();
    let (pods, others): (Vec<_>, Vec<_>) = items.into_iter().partition(|it| it["kind"] == "Pod");
    let mut trimmed = pods[0].clone();
    trimmed.as_object_mut().unwrap().remove("spec");
    let docs = read("docs/reference/api.md");
    for (name, pod, is_indented) in [
        ("as kubectl prints them", &pods[0], true),
        ("the same without indentation", &pods[0], false),
        ("without indentation and `spec`", &trimmed, false),
    ] {
        let with = |count: usize| {
            let pods = (0..count).map(|index| {
                let mut pod = pod.clone();
                // Names of the same length.
                let name = format!("web-67fc9594b8-{index:05}");
                let uid = format!("a4f3cab6-b8a4-4260-966d-{index:012}");
                pod["metadata"]["name"] = name.into();
                pod["metadata"]["uid"] = uid.into();
                pod
            });
            let items: Vec<Value> = others.iter().cloned().chain(pods).collect();
            text(&items, is_indented)
        };
        let (one, two) = (with(1).len(), with(2).len());
        let each = two - one;
        let fit = (REQUEST_BYTES_MAX - (one - each)) / each;
        println!("{name}: {each} bytes each, {fit} in 16 MiB");
        let row = format!(
            "| {name} | {:.1} KB | {} |",
            each as f64 / 1000.0,
            rounded(fit)
        );
        assert!(
            docs.contains(&row),
            "docs/reference/api.md has no row {row}"
        );
        // With space for the other fields of the request.
        let request = proto::ComputeStatusRequest {
            snapshot: Some(proto::Snapshot {
                now: Some(prost_types::Timestamp {
                    seconds: 1_795_217_250,
                    nanos: 0,
                }),
                objects: vec![with(fit - 1)],
                replica_sets_complete: true,
                pods_complete: true,
                ..Default::default()
            }),
            ..Default::default()
        };
        let bytes = prost::Message::encode_to_vec(&request);
        assert!(bytes.len() <= REQUEST_BYTES_MAX);
        call("ComputeStatus", &bytes).unwrap();
    }
}

/// Rounded to hundreds, with a separator.
fn rounded(count: usize) -> String {
    let hundreds = count / 100;
    format!("{},{}00", hundreds / 10, hundreds % 10)
}
